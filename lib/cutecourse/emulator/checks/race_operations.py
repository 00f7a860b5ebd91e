"""Asynchronous operations on shared memory in the race record: copies into it, and operations that read it.

The record holds the last copy into each 16-byte chunk, and for each copy the operations that read its bytes.
For a warp, a copy is over when the warp knows the mbarrier phase in which the copy's last bytes arrived. A
reader is over when the warp knows of the tcgen05.commit, the bulk group or the wgmma group that completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.clocks import BarrierClock, Clocks, Component, Row
from cutecourse.emulator.checks.race_chunks import CHUNK_SHIFT, MIXED, LastCopies, Recent
from cutecourse.emulator.checks.race_threads import Lanes, Met, Threads, nth_chunk
from cutecourse.emulator.checks.race_words import (
    Use,
    access_of,
    describe_lanes,
    describe_reuse,
    describe_scope,
    describe_thread,
    describe_unfenced,
    describe_wait,
    describe_waited,
    report_meeting,
    report_short,
)
from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE, any_true
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.memory.mbarriers import MBarrier, MBarriers
from cutecourse.emulator.memory.proxies import IN_SIGHT

if TYPE_CHECKING:
    from cutecourse.emulator.instructions.bulk.pieces import Chunks
    from cutecourse.emulator.instructions.bulk.request import Copy, Targets
    from cutecourse.emulator.memory.access import Access

__all__ = ["Operation", "Operations"]


@dataclass(eq=False, slots=True)
class Operation:
    """A copy into shared memory, or one or more operations that read it and end together."""

    number: int
    origin: Origin
    whose: Component
    component: int
    """The number of the component `whose`."""
    tag: int
    """The tag of the action of its component that completes it; `Clocks.never` until that is known."""
    phase: int | None = None
    """The phase that a copy's mbarrier was in when the copy was issued; None for a reader."""
    landed: int | None = None
    """The phase that its mbarrier was in when a copy's last piece landed; None before that."""
    size: int = 0
    """The number of chunks that a copy writes; 0 for a reader."""
    adds: bool = False
    """True for a copy that is a reduction."""
    written: bool = False
    """True if threads have written to the bytes that a copy brought."""
    readers: list[Any] = field(default_factory=list)
    """The operations that read the bytes of a copy, each followed by its chunks."""
    last: dict[int, Operation] = field(default_factory=dict)
    """The last reader of a copy's bytes, by component."""
    used: dict[int, int] = field(default_factory=dict)
    """The tag of the first use of a copy's bytes, by component."""

    @property
    def use(self) -> Use:
        """The operation in the form that reports take."""
        action = "copy" if self.size else "operation"
        return Use(self.whose, self.origin.site.line, action, self.origin, self.phase, self.size * CHUNK)

    def each_reader(self) -> Iterator[tuple[Operation, NDArray[np.int64]]]:
        """The operations that read the bytes of a copy, and their chunks."""
        return zip(self.readers[::2], self.readers[1::2], strict=True)


class Operations:
    """The asynchronous part of a cohort's race record."""

    def __init__(self, cohort: Cohort, clocks: Clocks, threads: Threads) -> None:
        self.cohort = cohort
        self.clocks = clocks
        self.threads = threads
        self._by_threads = threads.plan.by_threads
        n_chunks = len(cohort.shared) // CHUNK
        self.block_chunks = n_chunks // cohort.size
        self.latest = LastCopies(n_chunks)
        self.every: list[Operation | None] = [None]
        self.tags = np.zeros(64, dtype=np.uint32)
        self._components = np.zeros(64, dtype=np.int64)
        self._readers: dict[int, dict[int, NDArray[np.int32]]] = {}
        """By rank and component, the last reader of each chunk, for operands that no copy wrote in full."""
        self._open: dict[tuple[int, int], tuple[int, Operation]] = {}
        """By (component, cluster), the number of the open group and the operation that stands for it."""
        self._counts: dict[tuple[int, int], int] = {}
        self._reads: Recent[tuple[int, bytes], list[Operation]] = Recent()
        """The copies that a reader read and that were over for its issuer, by the reader and its sectors."""
        self.sources: dict[Copy, Operation] = {}
        """For each copy between blocks with pieces still to land, the operation of its reads."""
        self._under_way: dict[tuple[Copy, int], Operation] = {}
        """For each destination of a copy with pieces still to land there, its operation."""
        self._targets: Recent[Targets, list[int]] = Recent()
        """The components of the mbarriers of each set of destinations."""

    def _new(self, origin: Origin, component: int, tag: int, phase: int | None = None) -> Operation:
        """Make a copy or a reader; `phase` is that of a copy's mbarrier."""
        made = Operation(len(self.every), origin, self.clocks.components[component], component, tag, phase)
        self.every.append(made)
        if made.number >= len(self.tags):
            self.tags = np.concatenate([self.tags, np.zeros_like(self.tags)])
            self._components = np.concatenate([self._components, np.zeros_like(self._components)])
        self.tags[made.number] = tag
        self._components[made.number] = component
        return made

    # --- copies into shared memory --------------------------------------------------------------------------

    def copies(self, asked: Copy, parts: Sequence[Chunks], pieces: int) -> None:
        """Check and record a copy when it is issued: one operation for each of its destinations.

        `parts` are its chunks, counted from the first of each destination. Other reductions of the same bytes
        may be under way with a reduction; the record keeps the last of them.
        """
        origin, to, clocks = asked.origin, asked.to, self.clocks
        assert to is not None
        components = self._components_of(to)
        row = self.threads.parts.row(origin)
        live = self.cohort.own(MBarriers).live
        places = zip(to.ranks, to.firsts, to.barriers, components, strict=True)
        for position, (rank, first, key, component) in enumerate(places):
            barrier = live.get(key)
            phase = None if barrier is None else barrier.phase
            copy = self._new(origin, component, clocks.never, phase)
            copy.adds = asked.operation == "reduce"
            if pieces:
                self._under_way[asked, position] = copy
            else:
                copy.landed = phase
            for part in parts:
                self._copy_over(copy, row, rank, first, part)

    def _components_of(self, to: Targets) -> list[int]:
        """The components of the mbarriers of a copy's destinations."""
        found = self._targets.get(to)
        if found is None:
            found = [self.clocks.component("mbarrier", rank, offset) for _, rank, offset in to.barriers]
            self._targets.keep(to, found)
        return found

    def landed(self, asked: Copy, position: int, barrier: MBarrier, clock: BarrierClock) -> None:
        """Note that a copy's last piece in a destination has landed, just before its mbarrier counts it."""
        copy = self._under_way.pop((asked, position))
        copy.landed = barrier.phase
        source = self.sources.pop(asked, None)
        for operation in (copy,) if source is None else (copy, source):
            operation.tag = clock.tag(copy.origin.site.line)
            self.tags[operation.number] = operation.tag

    def _copy_over(self, copy: Operation, row: Row, rank: int, first: int, chunks: Chunks) -> None:
        """Check a copy against earlier uses of its chunks in one CTA, and record it there."""
        every: NDArray[np.int64] | range
        origin = copy.origin
        if isinstance(chunks, slice):
            every = range(first + chunks.start, first + chunks.stop)
        else:
            every = chunks.reshape(-1) + first
        size = len(every)
        copy.size += size
        numbers = self.latest.numbers(every)
        if self._by_threads and self.latest.are_touched(every):
            self._over_threads(copy, row, rank, first, chunks)
            self.threads.forget(first, chunks)
        for number in sorted(numbers):
            other = self.every[number]
            if other is None:
                continue
            if other.tag >= row.item(other.component) and not (copy.adds and other.adds):
                at = int(np.argmax(self.latest.at(np.asarray(every)) == number))
                byte = (first + nth_chunk(chunks, at)) * CHUNK
                what = f"{origin.site.instruction.name} overwrites"
                if not self._is_between_lanes(origin, other, byte, what):
                    self._report_copies(copy, other, byte)
            if other.last:
                self._over_readers(copy, row, other, every)
            if other.size == size and len(numbers) == 1:
                self.every[number] = None
        for readers in self._readers.get(rank, {}).values():
            last = readers[first - rank * self.block_chunks :][chunks]
            wrong = self.tags[last] >= row[self._components[last]]
            if any_true(wrong):
                at = int(np.argmax(wrong.reshape(-1)))
                reader = self.every[int(last.flat[at])]
                assert reader is not None
                self._report_reader(copy, row, reader, (first + nth_chunk(chunks, at)) * CHUNK)
            readers[first - rank * self.block_chunks :][chunks] = 0
        self.latest.put(copy.number, every)

    def _over_readers(
        self, copy: Operation, row: Row, before: Operation, chunks: NDArray[np.int64] | range
    ) -> None:
        """Check a copy against the operations that read the bytes of an earlier copy."""
        for number, last in before.last.items():
            if last.tag >= row.item(number):
                break
        else:
            return
        for reader, where in before.each_reader():
            if reader.tag >= int(row[reader.component]):
                shared = np.intersect1d(where, np.asarray(chunks))
                if shared.size:
                    self._report_reader(copy, row, reader, int(shared[0]) * CHUNK)
                    return

    def _over_threads(self, copy: Operation, row: Row, rank: int, first: int, chunks: Chunks) -> None:
        """Check a copy against threads that have used its chunks."""
        what = f"{copy.origin.site.instruction.name} overwrites"
        threads = self.threads
        met = self._unless_between_lanes(
            copy.origin, row, "read", what, lambda known: threads.unknown_read(known, rank, first, chunks)
        )
        if met is not None:
            thread = threads.thread(met.warp, met.line, copy.use.cluster)
            if thread is not None and self._has_waited(met.byte, met.warp, row):
                origin, access = thread
                self._report_early(origin, access_of(access), met.byte, copy, reads=access.reads)
            else:
                self._report_reuse(copy, Use(self.clocks.components[met.warp], met.line, "read"), met.byte)
            return
        met = self._unless_between_lanes(
            copy.origin, row, "write", what, lambda known: threads.unknown_write(known, first, chunks)
        )
        if met is not None:
            self._report_race(copy.origin, met)
            return
        if rank == copy.origin.bundle.rank or self.threads.remote:
            met = self.threads.read_by_other_lanes(copy.origin, first, chunks)
            if met is not None:
                other = Use(self.clocks.components[met.warp], met.line, "read")
                report_meeting("lanes not ordered", copy.origin, met.byte, other, describe_lanes, what)

    def _has_waited(self, byte: int, component: int, row: Row) -> bool:
        """True if the issuer's clock knows that a component has used the bytes of the last copy.

        Then the issuer has waited for the component, and the component uses the bytes again without waiting.
        """
        brought = self.every[int(self.latest.at(np.array([byte // CHUNK]))[0])]
        first = None if brought is None else brought.used.get(component)
        return first is not None and first < int(row[component])

    # --- operations that read shared memory -----------------------------------------------------------------

    def reads(
        self,
        origin: Origin,
        rank: int,
        chunks: NDArray[np.int64],
        span: tuple[int, int],
        what: str,
        row: Row,
        reader: Operation,
        reached: Mapping[int, int] | None = None,
    ) -> None:
        """Check and record an operation that reads chunks of CTA `rank`.

        `span` has the lowest and the highest chunk, `row` is the issuer's clock. If several warps issue it,
        `reached` says how many copies and readers the record had as each of them came, by the warp's number.
        """
        # The span may include chunks that are not read. If all copies in it are known, that does no harm.
        sectors = self.latest.of_sectors(*span)
        key = (reader.number, sectors.tobytes())
        again = self._reads.get(key)
        if again is not None:
            # The same copies as last time. The issuer knew that they were over, and it still does.
            for brought in again:
                brought.readers += (reader, chunks)
            if any(brought.written for brought in again):
                self._read_of_threads(origin, row, chunks, reader)
            return
        numbers = set(sectors.tolist())
        if 0 in numbers or MIXED in numbers or not self._are_known(numbers, row):
            into = self.latest.at(chunks)
            numbers = set(into.reshape(-1).tolist())
            if not self._are_known(numbers, row):
                wrong = self.tags[into] >= row[self._components[into]]
                at = int(np.argmax(wrong.reshape(-1)))
                early = self.every[int(into.flat[at])]
                assert early is not None
                byte = int(chunks.flat[at]) * CHUNK
                if reached is not None and _came_between(early, reached):
                    copier = self.clocks.row(early.origin.bundle, early.origin.cluster)
                    self._report_reader(early, copier, reader, byte)
                elif not self._is_between_lanes(origin, early, byte, f"{what} reads"):
                    self._report_early(origin, f"{what} reads", byte, early)
        else:
            self._reads.keep(key, [copy for number in numbers if (copy := self.every[number])])
        written = 0 in numbers and self._by_threads and self.latest.are_touched(chunks)
        for number in sorted(numbers):
            brought = self.every[number]
            if brought is not None:
                brought.readers += (reader, chunks)
                brought.last[reader.component] = reader
                brought.used.setdefault(reader.component, reader.tag)
                written = written or brought.written
        if written:
            self._read_of_threads(origin, row, chunks, reader)
        if 0 in numbers:
            readers = self._readers.setdefault(rank, {})
            found = readers.get(reader.component)
            if found is None:
                found = readers[reader.component] = np.zeros(self.block_chunks, dtype=np.int32)
            found[chunks - rank * self.block_chunks] = reader.number

    def _are_known(self, numbers: set[int], row: Row) -> bool:
        """True if a clock knows that all of these copies are over."""
        for number in numbers:
            copy = self.every[number]
            if copy is not None and copy.tag >= int(row[copy.component]):
                return False
        return True

    def of_tensor_core(self, origin: Origin) -> Operation:
        """The operation that stands for a thread's tcgen05.mma and cp up to its next tcgen05.commit."""
        cluster, component = origin.lane // WARP_SIZE, self._of_thread("mma", origin)
        now = self._open.get((component, cluster))
        if now is None:
            count = self._counts[component, cluster] = self._counts.get((component, cluster), 0) + 1
            now = self._open[component, cluster] = (count, self._reader(origin, component, count))
        return now[1]

    def of_group(self, origin: Origin, group: int) -> Operation:
        """The operation that stands for a thread's copies out of shared memory in one bulk group."""
        cluster, component = origin.lane // WARP_SIZE, self._of_thread("bulk", origin)
        now = self._open.get((component, cluster))
        if now is None or now[0] != group:
            now = self._open[component, cluster] = (group, self._reader(origin, component, group + 1))
        return now[1]

    def of_copy(self, asked: Copy) -> Operation:
        """The operation that stands for the reads of a copy out of shared memory that tells an mbarrier."""
        found = self.sources.get(asked)
        if found is None:
            assert asked.to is not None
            _, rank, offset = asked.to.barriers[0]
            component = self.clocks.component("mbarrier", rank, offset)
            found = self.sources[asked] = self._new(asked.origin, component, self.clocks.never)
        return found

    def of_warpgroup(self, origin: Origin, number: int) -> Operation:
        """Make the operation of a warpgroup's wgmma.mma_async."""
        component = self.clocks.component("wgmma", origin.bundle.rank, number)
        key = (component, origin.lane // WARP_SIZE)
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return self._reader(origin, component, count)

    def _of_thread(self, kind: str, origin: Origin) -> int:
        bundle = origin.bundle
        return self.clocks.component(kind, bundle.rank, bundle.warp, origin.lane % WARP_SIZE)

    def _reader(self, origin: Origin, component: int, count: int) -> Operation:
        return self._new(origin, component, self.clocks.tag(count, origin.site.line))

    def committed(self, origin: Origin, row: Row) -> Row:
        """Add to a clock that the thread's tcgen05.mma and cp so far are over, and return the clock."""
        cluster, component = origin.lane // WARP_SIZE, self._of_thread("mma", origin)
        count = self._counts.get((component, cluster), 0)
        if count:
            if component >= len(row):
                row = self.clocks.merged(self.clocks.nothing(), row)
            row[component] = self.clocks.entry(count)
            self._open.pop((component, cluster), None)
            # No operation joins this reader any more. Its entries would only keep copies alive.
            self._reads.clear()
        return row

    def over(self, bundle: Bundle, cluster: int, reader: Operation) -> None:
        """Mark an operation as over in the clock of a warp that has waited for it."""
        entry = (reader.tag | self.clocks.line_mask) + 1
        self.threads.parts.learn_entry(bundle, cluster, bundle.live[cluster], reader.component, entry)

    def groups_done(self, bundle: Bundle, lanes: NDArray[np.bool_], committed: Lanes, newest: int) -> None:
        """Mark all but the `newest` bulk groups as over in the clocks of threads that have waited."""
        for lane in np.flatnonzero(lanes).tolist():
            group = Component("bulk", bundle.rank, bundle.warp, lane % WARP_SIZE)
            number = self.clocks.numbers.get(group)
            if number is not None:
                known = max(int(committed.reshape(-1)[lane]) - newest, 0)
                cluster, within = divmod(lane, WARP_SIZE)
                alone = np.arange(WARP_SIZE) == within
                self.threads.parts.learn_entry(bundle, cluster, alone, number, self.clocks.entry(known))

    def _read_of_threads(
        self, origin: Origin, row: Row, chunks: NDArray[np.int64], reader: Operation
    ) -> None:
        """Check an operation that reads bytes that threads have written."""
        what = f"{origin.site.instruction.name} reads"
        met = self._unless_between_lanes(
            origin, row, "write", what, lambda known: self.threads.unknown_write(known, 0, chunks)
        )
        if met is None:
            met = self.threads.hidden_write(row, chunks, origin.bundle.rank)
            if met is not None:
                other = Use(self.clocks.components[met.warp], met.line, "write")
                report_meeting("scope too narrow", origin, met.byte, other, describe_scope, what)
            met = self.threads.unfenced_write(row, chunks, origin.cluster)
            if met is not None and self.cohort.shared_written[met.byte] == IN_SIGHT:
                other = Use(self.clocks.components[met.warp], met.line, "write")
                report_meeting("no proxy fence", origin, met.byte, other, describe_unfenced)
            met = self.threads.of_other_lanes(origin, chunks)
            if met is not None and reader.whose.kind != "wgmma":  # all lanes of a warp issue a wgmma together
                other = Use(self.clocks.components[met.warp], met.line, "write")
                report_meeting("lanes not ordered", origin, met.byte, other, describe_lanes, what)
            return
        thread = self.threads.thread(met.warp, met.line, origin.lane // WARP_SIZE)
        if thread is not None and 0 < met.before < int(row[met.warp]):
            # The issuer means the bytes of the warp's previous write. This write overwrites them too early.
            writer, access = thread
            use = Use(reader.whose, origin.site.line, "operation", origin)
            self._report_overwritten(writer, access, met.byte, use)
        else:
            self._report_race(origin, met)

    # --- threads' accesses ----------------------------------------------------------------------------------

    def meet(self, access: Access, bundle: Bundle, index: Lanes, lanes: Lanes | None, *, away: bool) -> None:
        """Check a warp's access against copies that are not over for it and, for a write, against readers."""
        shift = CHUNK_SHIFT - access.shift
        chunks = index >> shift if shift >= 0 else (index << -shift)[:, None] + np.arange(1 << -shift)
        self.latest.touch(chunks)
        if len(self.every) == 1:
            return
        clusters = self.threads.clusters(lanes)
        if shift < 0 and bundle.n > 1:
            clusters = clusters[:, None]
        known = self.clocks.known[bundle.number]
        numbers = self.latest.at(chunks)
        if numbers.any():
            self._meet_copies(access, bundle, lanes, clusters, known, chunks, numbers)
        if self.threads.parts.clusters[bundle.number]:
            self._meet_parts(access, bundle, lanes, chunks, numbers)
        if not access.writes:
            return
        ranks = np.unique(chunks // self.block_chunks).tolist() if away else [bundle.rank]
        for rank in ranks:
            for readers in self._readers.get(rank, {}).values():
                inside = chunks - rank * self.block_chunks
                if away:
                    here = chunks // self.block_chunks == rank
                    held = np.where(here, readers[np.where(here, inside, 0)], 0)
                else:
                    held = readers[inside]
                bad = self.tags[held] >= known[clusters, self._components[held]]
                if any_true(bad):
                    place = tuple(np.argwhere(bad)[0])
                    reader = self.every[int(held[place])]
                    assert reader is not None
                    origin = access.thread(bundle, lanes, int(place[0]))
                    self._report_overwritten(origin, access, int(chunks[place]) * CHUNK, reader.use)

    def _meet_parts(
        self, access: Access, bundle: Bundle, lanes: Lanes | None, chunks: Lanes, numbers: NDArray[np.int32]
    ) -> None:
        """Check a warp's access against operations that its lanes do not know to be over, and others do."""
        parts, what = self.threads.parts, access_of(access)
        every = np.arange(len(chunks)) if lanes is None else lanes
        for cluster, part, inside in parts.each(bundle.number, every):
            row = parts.known(bundle.number, cluster, part)
            if row is None:
                continue
            mine, who = chunks[inside], every[inside]
            held = [numbers[inside]]
            if access.writes:
                for readers in self._readers.get(bundle.rank, {}).values():
                    within = mine - bundle.rank * self.block_chunks
                    here = (within >= 0) & (within < self.block_chunks)
                    held.append(np.where(here, readers[np.where(here, within, 0)], 0))
                for number in set(held[0].reshape(-1).tolist()):
                    copy = self.every[number]
                    for reader, where in () if copy is None else copy.each_reader():
                        held.append(np.where(np.isin(mine, where), reader.number, 0).astype(np.int32))
            for found in held:
                bad = self.tags[found] >= row[self._components[found]]
                if any_true(bad):
                    place = tuple(np.argwhere(bad)[0])
                    other = self.every[int(found[place])]
                    assert other is not None
                    origin = access.thread(bundle, who, int(place[0]))
                    byte = int(mine[place]) * CHUNK
                    report_meeting("lanes not ordered", origin, byte, other.use, describe_waited, what)

    def _is_between_lanes(self, origin: Origin, other: Operation, byte: int, what: str) -> bool:
        """Report an operation that the issuer does not know to be over, if other lanes of its warp know.

        False if they do not know either, and nothing is reported.
        """
        whole = self.clocks.row(origin.bundle, origin.cluster)
        if self.threads.parts.of(origin) is None or other.tag >= whole.item(other.component):
            return False
        report_meeting("lanes not ordered", origin, byte, other.use, describe_waited, what)
        return True

    def _unless_between_lanes(
        self, origin: Origin, row: Row, action: str, what: str, look: Callable[[Row], Met | None]
    ) -> Met | None:
        """The use that `look` finds and the issuer does not know; reported if its warp does."""
        met = look(row)
        if met is None or self.threads.parts.of(origin) is None:
            return met
        whole = look(self.clocks.row(origin.bundle, origin.cluster))
        if whole is None:
            other = Use(self.clocks.components[met.warp], met.line, action)
            report_meeting("lanes not ordered", origin, met.byte, other, describe_waited, what)
        return whole

    def _meet_copies(
        self,
        access: Access,
        bundle: Bundle,
        lanes: Lanes | None,
        clusters: Any,
        known: NDArray[np.uint32],
        chunks: Lanes,
        numbers: NDArray[np.int32],
    ) -> None:
        bad = self.tags[numbers] >= known[clusters, self._components[numbers]]
        if any_true(bad):
            place = tuple(np.argwhere(bad)[0])
            copy = self.every[int(numbers[place])]
            assert copy is not None
            origin = access.thread(bundle, lanes, int(place[0]))
            byte = int(chunks[place]) * CHUNK
            self._report_early(origin, access_of(access), byte, copy, reads=access.reads)
        warp = bundle.number
        flat = numbers.reshape(-1)
        for number in set(flat.tolist()):
            copy = self.every[number]
            if copy is None:
                continue
            cluster = copy.origin.lane // WARP_SIZE
            if not access.writes:
                copy.used.setdefault(warp, int(known[cluster, warp]) - self.clocks.step)
                continue
            copy.written = True
            if any(reader.tag >= int(known[cluster, n]) for n, reader in copy.last.items()):
                for reader, where in copy.each_reader():
                    if reader.tag < int(known[cluster, reader.component]):
                        continue
                    met = np.isin(chunks, where)
                    if met.any():
                        place = tuple(np.argwhere(met)[0])
                        origin = access.thread(bundle, lanes, int(place[0]))
                        self._report_overwritten(origin, access, int(chunks[place]) * CHUNK, reader.use)
                        break

    # --- reports --------------------------------------------------------------------------------------------

    def _report_early(
        self, origin: Origin, what: str, byte: int, copy: Operation, *, reads: bool = True
    ) -> None:
        """Report a use of a copy's bytes by a thread or operation that has not waited for the copy.

        If the copy's phase completed without all its bytes, no wait would have helped: that is reported.
        """
        hazard = "read before its wait" if reads else "race"
        barrier = self._ended_early(copy)
        if barrier is None:
            report_meeting(hazard, origin, byte, copy.use, describe_wait, what)
        elif self.cohort.machine.severity(hazard, origin.site.line, copy.origin.site.line) != "off":
            report_short(origin, byte, copy.use, barrier, what)

    def _ended_early(self, copy: Operation) -> MBarrier | None:
        """The mbarrier of a copy if its phase completed before the last of the bytes landed, or None."""
        key = (copy.origin.cluster, copy.whose.rank, copy.whose.number)
        barrier = self.cohort.own(MBarriers).live.get(key)
        if barrier is None or copy.phase is None or barrier.phase <= copy.phase:
            return None
        early = copy.landed is None or copy.landed > copy.phase
        return barrier if early else None

    def _report_overwritten(self, origin: Origin, access: Access, byte: int, reader: Use) -> None:
        """Report that a thread writes bytes that an operation may still have to read."""
        report_meeting("source overwritten", origin, byte, reader, describe_wait, access_of(access))

    def _report_race(self, origin: Origin, met: Met) -> None:
        """Report an operation on bytes that a thread has written, where nothing orders the two."""
        other = Use(self.clocks.components[met.warp], met.line, "write")
        report_meeting(
            "race", origin, met.byte, other, describe_thread, f"{origin.site.instruction.name} uses"
        )

    def _report_copies(self, copy: Operation, other: Operation, byte: int) -> None:
        """Report a copy over bytes that another copy may still write."""
        origin, before = copy.origin, other.origin
        if before.bundle is origin.bundle and before.site is origin.site and before.lane != origin.lane:
            return  # lanes of one warp that copy the same bytes
        self._report_reuse(copy, other.use, byte, race=before.bundle is not origin.bundle)

    def _report_reader(self, copy: Operation, row: Row, reader: Operation, byte: int) -> None:
        """Report a copy over bytes that an operation may still have to read, or that it reads too early."""
        name = copy.origin.site.instruction.name
        if self._is_between_lanes(copy.origin, reader, byte, f"{name} overwrites"):
            return
        if self._has_waited(byte, reader.component, row):
            what = f"{reader.origin.site.instruction.name} reads"
            self._report_early(reader.origin, what, byte, copy)
        else:
            self._report_reuse(copy, reader.use, byte)

    def _report_reuse(self, copy: Operation, other: Use, byte: int, *, race: bool = False) -> None:
        report_meeting("race" if race else "stage reused early", copy.origin, byte, other, describe_reuse)


def _came_between(copy: Operation, reached: Mapping[int, int]) -> bool:
    """True if a copy was issued when some warps had reached an operation, and not before its own warp did."""
    first = reached.get(copy.origin.bundle.number, min(reached.values()))
    return copy.number >= first
