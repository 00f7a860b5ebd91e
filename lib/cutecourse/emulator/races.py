"""Races in shared memory: uses of the same bytes that nothing orders, whichever came first in this run.

Beside shared memory there is a record of who used it last. It has for each *unit*, the smallest access of
the kernel, the warp that wrote it last and when, and when each warp has read it last; and for each chunk of
16 bytes the last asynchronous copy into it and the asynchronous readers. When something is a clock's business
(cutecourse.emulator.clocks): a use is right where the clock of its warp knows of all uses before it that it
could be in conflict with. So what is reported does not depend on the order in which the seed lets warps run.

An asynchronous operation knows what its issuer knew. It is over for a warp that has waited for what tells
its end: the phase of an mbarrier that counts a copy's bytes, a tcgen05.commit behind a tcgen05.mma, a bulk
group.

Simplified: lanes of one warp are not compared with each other. Atomics, volatile, relaxed, acquire and
            release accesses and fences of threads order everything that their cluster's warps do before and
            behind them in this run, since the emulator does not know which of them hands something over:
            races that this hides are not found.
Source:     PTX ISA 9.0, Memory Consistency Model; FastTrack (see cutecourse.emulator.clocks).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.bundle import CHUNK, WARP_SIZE, Bundle, Cohort, Mask
from cutecourse.emulator.clocks import BarrierClock, Clocks, Component, Row
from cutecourse.emulator.hazards import report
from cutecourse.emulator.mbarrier_state import MBarrier, MBarriers, Origin
from cutecourse.emulator.race_plan import Plan
from cutecourse.emulator.race_words import Use, describe_reuse, describe_thread, describe_wait

if TYPE_CHECKING:
    from cutecourse.emulator.access import Access
    from cutecourse.emulator.bulk_copies import Arrival, Chunks, Place

__all__ = ["Copy", "Races"]

_CHUNK_SHIFT = 4
_FLAGS = "flags"
Lanes = NDArray[np.int64]


@dataclass(eq=False, slots=True)
class Copy:
    """An asynchronous operation on shared memory, as the record knows it."""

    number: int
    use: Use
    row: Row
    """What its issuer knew."""
    left: int = 0
    """Pieces that have not landed."""
    told: bool = False
    used: dict[int, int] = field(default_factory=dict)
    """Of who reads what a copy brought, by component, the first tag."""


class Races:
    """The record of a cohort's shared memory, and the clocks of its warps."""

    def __init__(self, cohort: Cohort, plan: Plan) -> None:
        self.cohort = cohort
        self.plan = plan
        self.clocks = Clocks(cohort, plan.line_bits)
        self.per_block = cohort.machine.warps_per_block
        n_bytes = len(cohort.shared)
        self._units = n_bytes // plan.unit
        self._chunks = n_bytes // CHUNK
        self._block_chunks = cohort.n * cohort.shared_stride // CHUNK
        columns = self.clocks.warps if plan.remote else self.per_block
        if plan.by_threads:
            self.write_tag = np.zeros(self._units, dtype=np.uint32)
            self.write_by = np.zeros(self._units, dtype=np.uint16)
            self.read_tag = np.zeros((columns, self._units), dtype=np.uint32)
            self.write_before = np.zeros(self._units if plan.asynchronous else 0, dtype=np.uint32)
            """The tag of its writer's write before the last."""
        self._accesses: dict[int, Access] = {}
        """The last access of each line that was seen."""
        self._views: dict[int, tuple[NDArray[Any], ...]] = {}
        self._mixed = plan.remote
        """Whether bytes may have been written by others than warps of their block."""
        self._cached: list[tuple[Any, Any]] = [(0, 0)] * self.clocks.warps
        self._cluster_of = np.arange(cohort.n * WARP_SIZE) // WARP_SIZE
        # Asynchronous operations; number 0 is none.
        self.copies: list[Copy | None] = [None]
        self._tag = np.zeros(64, dtype=np.uint32)
        self._component = np.zeros(64, dtype=np.int64)
        if plan.asynchronous:
            self.copy_into = np.zeros(self._chunks, dtype=np.int32)
            self.touched = np.zeros(self._chunks, dtype=np.uint8)
            """Whether threads have used a chunk."""
        self._readers: dict[int, dict[int, NDArray[np.int32]]] = {}
        """Of each rank, the last operations of each component that read its chunks."""
        self._reading: dict[tuple[int, int], tuple[int, Copy]] = {}
        """The number of each (component, cluster) in which it reads now."""
        self._counts: dict[tuple[int, int], int] = {}
        cohort.state.setdefault("on exit", []).insert(0, self._ended)

    @classmethod
    def of(cls, cohort: Cohort) -> Races | None:
        """A cohort's record; None where nothing in the kernel could race, or nobody wants to know."""
        plan = Plan.of(cohort.machine)
        return None if plan is None else cls(cohort, plan)

    # --- barriers of warps ----------------------------------------------------------------------------------

    def _ended(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Who waits at a barrier for warps that end learns what they knew."""
        rows = mask.any(axis=1) & ~bundle.live.any(axis=1)
        if rows.any():
            self.clocks.arrive(("ended", bundle.rank), bundle, rows)

    def barrier_arrive(self, bundle: Bundle, number: int, rows: NDArray[np.bool_]) -> None:
        """Warps come to a barrier of their block."""
        self.clocks.arrive((bundle.rank, number), bundle, rows)

    def barrier_complete(self, rank: int, number: int, rows: NDArray[np.bool_]) -> None:
        """A barrier is complete in some clusters' block of a rank."""
        self.clocks.complete((rank, number), rows, also=(("ended", rank),))

    def barrier_leave(self, bundle: Bundle, number: int, mask: Mask) -> None:
        """Warps that have waited at it go on."""
        rows = (bundle.full if mask is None else mask).any(axis=1)
        self.clocks.leave((bundle.rank, number), bundle, rows)

    def cluster_arrive(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Warps come to the barrier of their cluster."""
        self.clocks.arrive("cluster", bundle, mask.any(axis=1))

    def cluster_complete(self, rows: NDArray[np.bool_]) -> None:
        """It is complete in some clusters."""
        ended = tuple(("ended", rank) for rank in range(self.cohort.size))
        self.clocks.complete("cluster", rows, also=ended)

    def cluster_leave(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Warps that have waited at it go on."""
        rows = mask.any(axis=1)
        if rows.any():
            self.clocks.leave("cluster", bundle, rows)

    def flag(self, bundle: Bundle, mask: Mask) -> None:
        """Warps use memory in a way that may hand over what they did, or take what others hand over."""
        rows = (bundle.full if mask is None else mask).any(axis=1)
        self.clocks.pass_on(_FLAGS, bundle, rows)

    # --- mbarriers ------------------------------------------------------------------------------------------

    def new_barrier(self, cluster: int, rank: int, offset: int) -> BarrierClock:
        """The clock of an mbarrier that is made."""
        return self.clocks.barrier(cluster, rank, offset)

    def barrier_told(self, barrier: MBarrier, origin: Origin) -> None:
        """A thread arrives at an mbarrier."""
        if barrier.clock is not None:
            self.clocks.release(origin.bundle, barrier.cluster, barrier.clock)

    def phase_seen(self, bundle: Bundle, barrier: MBarrier) -> None:
        """A warp has waited for the last phase of an mbarrier."""
        if barrier.clock is not None:
            self.clocks.learn(bundle, barrier.cluster, barrier.clock.done)

    def committed(self, origin: Origin) -> Row:
        """What a tcgen05.commit tells: its thread's clock, and that its tcgen05.mma and cp are over."""
        bundle, cluster = origin.bundle, origin.lane // WARP_SIZE
        row = self.clocks.row(bundle, cluster).copy()
        self.clocks.tick(bundle, cluster)
        component = self.clocks.component("mma", bundle.rank, bundle.warp)
        count = self._counts.get((component, cluster), 0)
        if count:
            if component >= len(row):
                row = self.clocks.merged(self.clocks.nothing(), row)
            row[component] = self.clocks.entry(count)
            self._reading.pop((component, cluster), None)
        return row

    # --- threads --------------------------------------------------------------------------------------------

    def access(self, access: Access, bundle: Bundle, index: Lanes, lanes: Lanes | None, away: bool) -> None:
        """A warp's lanes read or write words: `index` in units of the access, `lanes` flattened or None."""
        clocks = self.clocks
        warp = clocks.number(bundle)
        if clocks.changed[warp]:
            self._look_at(warp, bundle.rank)
        low, stamp = self._cached[warp]
        index = index.reshape(-1)
        clusters: Any = 0
        line = access.site.line
        if bundle.n > 1:
            clusters = self._cluster_of if lanes is None else self._cluster_of[lanes]
            low, stamp = low[clusters], stamp[clusters] | np.uint32(line)
        else:
            stamp = stamp | line
        per = access.size // self.plan.unit
        written, by, read = self._words(per)
        tags = written[index]
        if per > 1 and bundle.n > 1:
            low, stamp = low[:, None], stamp[:, None]
        if b"\x01" in (tags >= low).tobytes():
            self._check_writers(access, bundle, index, lanes, clusters, tags, by[index])
        if access.writes:
            self._check_readers(access, bundle, index, lanes, clusters, read, away)
        if self.plan.asynchronous:
            self._with_copies(access, bundle, index, lanes, clusters, away)
            self._accesses[line] = access
            if access.writes:
                before = self.write_before if per == 1 else self.write_before.reshape(-1, per)
                before[index] = np.where(by[index] == warp, tags, 0)
        if access.writes:
            written[index] = stamp
            by[index] = warp
        else:
            read[self._column(warp)][index] = stamp

    def _column(self, warp: int) -> int:
        return warp if self.plan.remote else warp % self.per_block

    def _words(self, per: int) -> tuple[NDArray[Any], ...]:
        """Tags and numbers of the last writers, and the readers' tags, for accesses of `per` units."""
        found = self._views.get(per)
        if found is None:
            flat = (self.write_tag, self.write_by, self.read_tag)
            found = flat
            if per > 1:
                found = (*(a.reshape(-1, per) for a in flat[:2]), flat[2].reshape(len(flat[2]), -1, per))
            self._views[per] = found
        return found

    def _look_at(self, warp: int, rank: int) -> None:
        """Keep of a warp's clock what each access needs: the least entry of its block, its own tag."""
        known = self.clocks.known[warp]
        first = rank * self.per_block
        own = known[:, warp] - np.uint32(self.clocks.step)
        low = known[:, first : first + self.per_block].min(axis=1)
        if self._mixed:
            low = np.zeros_like(low)
        self._cached[warp] = (low, own) if self.cohort.n > 1 else (int(low[0]), int(own[0]))
        self.clocks.changed[warp] = False

    def _check_writers(
        self,
        access: Access,
        bundle: Bundle,
        index: Lanes,
        lanes: Lanes | None,
        clusters: Any,
        tags: NDArray[Any],
        by: NDArray[Any],
    ) -> None:
        known = self.clocks.known[self.clocks.number(bundle)]
        if tags.ndim > 1 and bundle.n > 1:
            clusters = clusters[:, None]
        bad = tags >= known[clusters, by]
        if b"\x01" not in bad.tobytes():
            return
        place = np.argwhere(bad)[0]
        where = tuple(place)
        self._report_thread(access, bundle, index, lanes, place, int(by[where]), int(tags[where]), wrote=True)

    def _check_readers(
        self,
        access: Access,
        bundle: Bundle,
        index: Lanes,
        lanes: Lanes | None,
        clusters: Any,
        read: NDArray[Any],
        away: bool,
    ) -> None:
        first = 0 if self.plan.remote else bundle.rank * self.per_block
        known = self.clocks.known[self.clocks.number(bundle)][:, first : first + len(read)]
        tags = read[:, index]
        limit = known[clusters].T if bundle.n > 1 else known[0][:, None]
        if tags.ndim > 2:
            limit = limit[..., None]
        bad = tags >= limit
        if b"\x01" not in bad.tobytes():
            return
        reader, *place = np.argwhere(bad)[0]
        self._report_thread(
            access, bundle, index, lanes, place, first + int(reader), int(tags[bad][0]), wrote=False
        )

    def _report_thread(
        self,
        access: Access,
        bundle: Bundle,
        index: Lanes,
        lanes: Lanes | None,
        place: Sequence[Any],
        by: int,
        tag: int,
        *,
        wrote: bool,
    ) -> None:
        """A warp's access meets one of another component, of which its clock does not know."""
        position = int(place[0])
        lane = position if lanes is None else int(lanes[position])
        byte = int(index[position]) * access.size + (int(place[1]) * self.plan.unit if len(place) > 1 else 0)
        other = Use(self.clocks.components[by], tag & self.clocks.line_mask, "write" if wrote else "read")
        origin = Origin(access.site, bundle, lane)
        report("race", lambda: describe_thread(origin, access, byte, other), origin, other.line)

    # --- threads and asynchronous operations ----------------------------------------------------------------

    def _with_copies(
        self, access: Access, bundle: Bundle, index: Lanes, lanes: Lanes | None, clusters: Any, away: bool
    ) -> None:
        """A warp's access beside copies into the same chunks and asynchronous reads of them."""
        shift = _CHUNK_SHIFT - access.shift
        if shift >= 0:
            chunks = index >> shift
        else:
            chunks = (index << -shift)[:, None] + np.arange(1 << -shift)
            if bundle.n > 1:
                clusters = clusters[:, None]
        self.touched[chunks] = 1
        if len(self.copies) == 1:
            return
        known = self.clocks.known[self.clocks.number(bundle)]
        self._check_copies(access, bundle, lanes, clusters, known, chunks, self.copy_into[chunks])
        if not access.writes:
            return
        ranks = np.unique(chunks // self._block_chunks).tolist() if away else [bundle.rank]
        for rank in ranks:
            for readers in self._readers.get(rank, {}).values():
                inside = chunks - rank * self._block_chunks
                if away:
                    inside = np.where(chunks // self._block_chunks == rank, inside, 0)
                numbers = readers[inside]
                if away:
                    numbers = np.where(chunks // self._block_chunks == rank, numbers, 0)
                self._check_copies(access, bundle, lanes, clusters, known, chunks, numbers)

    def _check_copies(
        self,
        access: Access,
        bundle: Bundle,
        lanes: Lanes | None,
        clusters: Any,
        known: NDArray[np.uint32],
        chunks: Lanes,
        numbers: NDArray[np.int32],
    ) -> None:
        if not numbers.any():
            return
        if not access.writes:
            warp = self.clocks.number(bundle)
            for number in set(numbers.reshape(-1)[::WARP_SIZE].tolist()):
                if (copy := self.copies[number]) is not None:
                    own = int(known[copy.use.cluster, warp]) - self.clocks.step
                    copy.used.setdefault(warp, own)
        bad = self._tag[numbers] >= known[clusters, self._component[numbers]]
        if b"\x01" not in bad.tobytes():
            return
        place = np.argwhere(bad)[0]
        position = int(place[0])
        lane = position if lanes is None else int(lanes[position])
        copy = self.copies[int(numbers[tuple(place)])]
        assert copy is not None
        byte = int(chunks[tuple(place)]) * CHUNK
        origin = Origin(access.site, bundle, lane)
        name = "source overwritten"
        if copy.use.deed == "copy":
            name = "read before its wait" if access.reads else "race"
        report(
            name, lambda: describe_wait(origin, access, byte, copy.use, self.cohort), origin, copy.use.line
        )

    # --- copies into shared memory ------------------------------------------------------------------------

    def copy(
        self, arrival: Arrival, place: Place, first: int, wholes: Sequence[Chunks], pieces: int, *, adds: bool
    ) -> Copy:
        """A copy into one destination is issued; its chunks are counted from `first`.

        `adds` tells that it combines with what is there, as other copies may at the same time.
        """
        origin = arrival.origin
        row = self._issuer(origin)
        rank = arrival.barrier_rank(place.rank)
        made = self._new(
            Use(
                Component("mbarrier", rank, arrival.barrier),
                origin.site.line,
                "copy",
                origin,
                phase=self._phase(place.cluster, rank, arrival.barrier),
            ),
            self.clocks.component("mbarrier", rank, arrival.barrier),
            row,
        )
        made.left = pieces
        for whole in wholes:
            chunks = self.copy_into[first:][whole]
            if not adds:
                self._issue_check(origin, row, chunks, "copy", first, whole)
            if self.plan.by_threads and b"\x01" in self.touched[first:][whole].tobytes():
                self._check_readers_before(made, row, place.rank, first, whole)
                self._check_writers_before(origin, row, first, whole, None)
            for readers in self._readers.get(place.rank, {}).values():
                start = first - place.rank * self._block_chunks
                self._issue_check(origin, row, readers[start:][whole], "copy", first, whole, made)
            self.copy_into[first:][whole] = made.number
        return made

    def landed(self, copy: Copy, cluster: int, rank: int, offset: int) -> None:
        """A piece of a copy has come, just before its mbarrier is told."""
        barrier = MBarriers.of(self.cohort).live.get((cluster, rank, offset))
        copy.left -= 1
        if barrier is None or barrier.clock is None:
            return
        if not copy.told:
            copy.told = True
            barrier.clock.arrive(copy.row)
        if not copy.left:
            self._tag[copy.number] = barrier.clock.tag(copy.use.line)

    def _phase(self, cluster: int, rank: int, offset: int) -> int | None:
        barrier = MBarriers.of(self.cohort).live.get((cluster, rank, offset))
        return None if barrier is None else barrier.phase

    def _issuer(self, origin: Origin) -> Row:
        """What the issuer of an operation knows."""
        return self.clocks.row(origin.bundle, origin.lane // WARP_SIZE).copy()

    def _new(self, use: Use, component: int, row: Row, tag: int | None = None) -> Copy:
        made = Copy(len(self.copies), use, row)
        self.copies.append(made)
        if made.number >= len(self._tag):
            self._tag = np.concatenate([self._tag, np.zeros_like(self._tag)])
            self._component = np.concatenate([self._component, np.zeros_like(self._component)])
        self._tag[made.number] = self.clocks.never if tag is None else tag
        self._component[made.number] = component
        return made

    # --- operations that read shared memory -----------------------------------------------------------------

    def reads(
        self, origin: Origin, rank: int, chunks: NDArray[np.int64], what: str, *, group: int | None = None
    ) -> None:
        """A tcgen05.mma or cp, or with `group` a bulk copy of that group, is issued that reads chunks."""
        bundle, cluster = origin.bundle, origin.lane // WARP_SIZE
        row = self.clocks.row(bundle, cluster)
        into = self.copy_into[chunks]
        self._issue_check(origin, row, into, what, 0, chunks)
        if self.plan.by_threads and b"\x01" in self.touched[chunks].tobytes():
            self._check_writers_before(origin, row, 0, chunks, group)
        if origin.site.instruction.opcode == "wgmma":
            return
        if group is None:
            component = self.clocks.component("mma", bundle.rank, bundle.warp)
            now = self._reading.get((component, cluster))
            if now is None:
                count = self._counts[component, cluster] = self._counts.get((component, cluster), 0) + 1
                made = self._reader(origin, component, count)
                self._reading[component, cluster] = (count, made)
            else:
                made = now[1]
        else:
            component = self.clocks.component("bulk", bundle.rank, bundle.warp, origin.lane % WARP_SIZE)
            now = self._reading.get((component, cluster))
            if now is None or now[0] != group:
                made = self._reader(origin, component, group + 1)
                self._reading[component, cluster] = (group, made)
            else:
                made = now[1]
        brought = self.copies[int(into.flat[0])]
        if brought is not None:
            brought.used.setdefault(component, int(self._tag[made.number]))
        readers = self._readers.setdefault(rank, {})
        found = readers.get(component)
        if found is None:
            found = readers[component] = np.zeros(self._block_chunks, dtype=np.int32)
        found[chunks - rank * self._block_chunks] = made.number

    def _reader(self, origin: Origin, component: int, count: int) -> Copy:
        line = origin.site.line
        use = Use(self.clocks.components[component], line, "operation", origin)
        return self._new(use, component, self.clocks.nothing(), self.clocks.tag(count, line))

    def groups_done(self, bundle: Bundle, lanes: NDArray[np.bool_], committed: Lanes, newest: int) -> None:
        """Threads have waited for all of their bulk groups but the newest ones."""
        for lane in np.flatnonzero(lanes).tolist():
            component = self.clocks.component("bulk", bundle.rank, bundle.warp, lane % WARP_SIZE)
            known = max(int(committed.reshape(-1)[lane]) - newest, 0)
            row = self.clocks.row(bundle, lane // WARP_SIZE)
            row[component] = max(int(row[component]), self.clocks.entry(known))

    # --- what an issuer has to know -------------------------------------------------------------------------

    def _issue_check(
        self,
        origin: Origin,
        row: Row,
        numbers: NDArray[np.int32],
        what: str,
        first: int,
        chunks: Chunks,
        made: Copy | None = None,
    ) -> None:
        """An operation is issued on chunks on which these operations have worked or still work."""
        if not numbers.size:
            return
        flat = numbers.reshape(-1)
        one = int(flat[0])
        if flat.tobytes() == flat[:1].tobytes() * flat.size:
            if not one or int(self._tag[one]) < int(row[self._component[one]]):
                return
            at = 0
        else:
            wrong = self._tag[flat] >= row[self._component[flat]]
            if b"\x01" not in wrong.tobytes():
                return
            at = int(np.argmax(wrong))
        other = self.copies[int(flat[at])]
        assert other is not None
        byte = (first + _nth(chunks, at)) * CHUNK
        if what == "copy":
            reader = other.use.origin
            if made is not None and reader is not None:
                component = int(self._component[other.number])
                if self._was_waited_for(byte, component, row):
                    self._report_early(reader, other.use.name, byte, made.use)
                    return
            name = "stage reused early"
            if other.use.deed == "copy" and other.use.origin is not None:
                before = other.use.origin
                if before.bundle is not origin.bundle:
                    name = "race"
                elif before.site is origin.site and before.lane != origin.lane:
                    return  # lanes of one warp that copy the same bytes
            report(name, lambda: describe_reuse(origin, byte, other.use, self.cohort), origin, other.use.line)
        else:
            report(
                "read before its wait",
                lambda: describe_wait(origin, what, byte, other.use, self.cohort),
                origin,
                other.use.line,
            )

    def _was_waited_for(self, byte: int, component: int, row: Row) -> bool:
        """Whether an issuer knows of a use of what the last copy brought, by one who uses it again.

        Then it has waited, and who uses it again has not.
        """
        brought = self.copies[int(self.copy_into[byte // CHUNK])]
        first = None if brought is None else brought.used.get(component)
        return first is not None and first < int(row[component])

    def _report_early(self, reader: Origin, what: str | Access, byte: int, copy: Use) -> None:
        report(
            "read before its wait",
            lambda: describe_wait(reader, what, byte, copy, self.cohort),
            reader,
            copy.line,
        )

    def _thread(self, warp: int, line: int, cluster: int) -> tuple[Origin, Access] | None:
        """A warp that executed an access, for a report that names it; None where it is not known."""
        access = self._accesses.get(line)
        if access is None or warp >= len(self.cohort.bundles):
            return None
        return Origin(access.site, self.cohort.bundles[warp], cluster * WARP_SIZE), access

    def _check_writers_before(
        self, origin: Origin, row: Row, first: int, chunks: Chunks, group: int | None
    ) -> None:
        """An operation is issued on chunks that threads have used: does its issuer know of their writes?"""
        per = CHUNK // self.plan.unit
        written, by, _ = (a.reshape(-1, per) for a in (self.write_tag, self.write_by, self.write_tag))
        tags, writers = written[first:][chunks], by[first:][chunks]
        bad = tags >= row[writers]
        if b"\x01" not in bad.tobytes():
            return
        place = tuple(np.argwhere(bad)[0])
        at = int(np.ravel_multi_index(place[:-1], tags.shape[:-1]))
        byte = (first + _nth(chunks, at)) * CHUNK + int(place[-1]) * self.plan.unit
        warp, line = int(writers[place]), int(tags[place]) & self.clocks.line_mask
        before = int(self.write_before[byte // self.plan.unit])
        thread = self._thread(warp, line, origin.lane // WARP_SIZE)
        if thread is not None and 0 < before < int(row[warp]):
            # The bytes that are meant had been written before, and are overwritten too early.
            writer, access = thread
            kind = "mma" if group is None else "bulk"
            use = Use(
                Component(kind, origin.bundle.rank, origin.bundle.warp), origin.site.line, "operation", origin
            )
            report(
                "source overwritten",
                lambda: describe_wait(writer, access, byte, use, self.cohort),
                writer,
                use.line,
            )
            return
        other = Use(self.clocks.components[warp], line, "write")
        report("race", lambda: describe_thread(origin, None, byte, other), origin, other.line)

    def _check_readers_before(self, made: Copy, row: Row, rank: int, first: int, chunks: Chunks) -> None:
        """A copy is issued over chunks that threads have used: does its issuer know of their reads?"""
        per = CHUNK // self.plan.unit
        start = 0 if self.plan.remote else rank * self.per_block
        read = self.read_tag.reshape(len(self.read_tag), -1, per)
        tags = read[:, first:][:, chunks]
        limit = row[start : start + len(read)].reshape(-1, *([1] * (tags.ndim - 1)))
        bad = tags >= limit
        if b"\x01" not in bad.tobytes():
            return
        reader, *rest = np.argwhere(bad)[0]
        at = int(np.ravel_multi_index(tuple(rest[:-1]), tags.shape[1:-1]))
        byte = (first + _nth(chunks, at)) * CHUNK + int(rest[-1]) * self.plan.unit
        warp, line = start + int(reader), int(tags[bad][0]) & self.clocks.line_mask
        origin = made.use.origin
        assert origin is not None
        thread = self._thread(warp, line, origin.lane // WARP_SIZE)
        if thread is not None and self._was_waited_for(byte, warp, row):
            self._report_early(*thread, byte, made.use)
            return
        other = Use(self.clocks.components[warp], line, "read")
        report(
            "stage reused early", lambda: describe_reuse(origin, byte, other, self.cohort), origin, other.line
        )


def _nth(chunks: Chunks, position: int) -> int:
    """The number of the chunk at a position."""
    if isinstance(chunks, slice):
        return int(chunks.start or 0) + position
    return int(chunks.reshape(-1)[position])
