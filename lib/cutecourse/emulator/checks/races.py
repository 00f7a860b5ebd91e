"""Races in shared memory: uses of the same bytes that nothing orders, whichever came first in this run.

The race record says who last used each part of shared memory. For each *unit*, the size of the kernel's
smallest access, it holds the last writer, the time of that write, and the time of each warp's last read
(emulator.checks.race_threads). For each 16-byte chunk it holds the last asynchronous copy into the chunk, and
the readers of that copy (emulator.checks.race_operations). Vector clocks give the times
(emulator.checks.clocks). A use is correct if its warp's clock knows of all earlier uses that conflict with
it. So the reports do not depend on the order in which the seed runs the warps.

An asynchronous operation knows what its issuer knew. It is over for a warp that has waited for its
completion: the mbarrier phase of a copy, the tcgen05.commit of a tcgen05.mma, a bulk group, a wgmma group.

Lanes of one warp are told apart where they wait apart (emulator.checks.race_parts), and in what they do to
the same bytes (emulator.checks.race_lanes).

Simplified: a lane tells others all that its warp knows and has done, unless the launch's steering does not
            trust the lanes. Every atomic, volatile, relaxed, acquire or release access and every
            fence between threads synchronizes with all earlier ones in its cluster, because the emulator does
            not know which of them publishes data. Races that this hides are not found. For the same reason a
            relaxed arrival at an mbarrier counts as a releasing one if the kernel has fences between threads,
            and a relaxed wait always acquires. A relaxed arrival at the cluster's barrier always counts as a
            releasing one. A copy into bytes that threads have read needs an order after these reads, and no
            proxy fence, although the ISA asks for one: the pipelines of CUTLASS have none. Waits have the
            scope of the cluster, and so do arrivals in a kernel with fences between threads. A
            cp.async.mbarrier.arrive publishes what its warp had done before it, and the copies of the warp
            that are made by then. A red.async is compared with no other asynchronous store. Of several
            reductions under way to the same bytes only the last is recorded.
Source:     PTX ISA 9.0, Memory Consistency Model; FastTrack (see emulator.checks.clocks).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.clocks import BarrierClock, Clocks, Row
from cutecourse.emulator.checks.race_ends import RemoteUses
from cutecourse.emulator.checks.race_operations import Operation, Operations
from cutecourse.emulator.checks.race_plan import AccessPlan
from cutecourse.emulator.checks.race_threads import Lanes, Threads
from cutecourse.emulator.checks.race_words import describe_init
from cutecourse.emulator.checks.tensor_memory_races import TensorMemoryRaces
from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask, any_true, warps_of
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.errors import NoBarrierError
from cutecourse.emulator.instructions.copy_queue import CopyQueue
from cutecourse.emulator.instructions.warpgroups import InFlight
from cutecourse.emulator.instructions.wgmma.multiplication import Multiplication
from cutecourse.emulator.memory.mbarriers import MBarrier, MBarriers
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.tensor_memory import TensorMemory
from cutecourse.emulator.memory.unwritten import Unwritten

if TYPE_CHECKING:
    from cutecourse.emulator.core.site import Site
    from cutecourse.emulator.instructions.bulk.groups import BulkGroups
    from cutecourse.emulator.instructions.bulk.pieces import Chunks
    from cutecourse.emulator.instructions.bulk.request import Copy
    from cutecourse.emulator.memory.access import Access

__all__ = ["Races", "look_for_races"]

_FLAGS = "flags"
_HAZARDS = ("race", "scope too narrow", "lanes not ordered", "read before its wait", "stage reused early")


def look_for_races(cohort: Cohort) -> Races | None:
    """Make a cohort's race record; None if nothing in the kernel can race, or the launch wants no report."""
    machine = cohort.machine
    if machine.earlier is not None:
        return None  # checks.earlier_launch makes the record then
    plan = machine.program.own(AccessPlan)
    alone = cohort.size * machine.threads_per_block == 1
    possible = plan.asynchronous or ((plan.by_threads or plan.mbarriers) and not alone)
    if not machine.program.shared_bytes or not possible:
        return None
    if all(machine.severities.is_off(name) for name in _HAZARDS):
        return None
    return Races(cohort, plan)


def _whole(bundle: Bundle, rows: NDArray[np.bool_], mask: Mask) -> NDArray[np.bool_]:
    """Those clusters of `rows` in which `mask` has all lanes of the warp that have not ended.

    It is `rows` itself if there is no cluster in which lanes are missing.
    """
    if mask is None or mask.tobytes() == bundle.live.tobytes():
        return rows
    return rows & ~warps_of(bundle.live & ~mask)


@dataclass(eq=False, slots=True)
class _Reached:
    """The warps of a warpgroup that have reached a wgmma.mma_async which others have not."""

    known: Row | None = None
    """The clocks that they had then, merged."""
    copies: dict[int, int] = field(default_factory=dict)
    """By the warp's number, how many copies and readers the record had then."""


class Races(Observer):
    """The race record of a cohort's shared memory, and the clocks of its warps."""

    def __init__(self, cohort: Cohort, plan: AccessPlan) -> None:
        self.cohort = cohort
        steering = cohort.machine.steering
        self._trusts_flags = steering is None or steering.trusts_flags
        by_lane = steering is not None and not steering.trusts_lanes
        self.clocks = Clocks(cohort, plan.line_bits, by_lane=by_lane)
        self._fenced = plan.fenced
        self._counts_copies = False
        self.threads = Threads(cohort, self.clocks, plan)
        self.parts = self.threads.parts
        self.operations = Operations(cohort, self.clocks, self.threads)
        self.remote = RemoteUses(cohort, self.clocks)
        cohort.own(Unwritten).last_store = self.threads.last_store
        self.tensor_memory = TensorMemoryRaces(cohort, self.clocks, self.operations)
        self._barriers: dict[MBarrier, BarrierClock] = {}
        self._reached: WeakKeyDictionary[InFlight, _Reached] = WeakKeyDictionary()
        self._multiplications: WeakKeyDictionary[InFlight, Operation] = WeakKeyDictionary()
        self._carried: WeakKeyDictionary[Origin, Row] = WeakKeyDictionary()
        """The clocks that pending stores and commits will bring to their mbarriers."""

    # --- barriers of warps ----------------------------------------------------------------------------------

    def lanes_ended(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Keep the clocks of warps that end, for barriers that count them as arrived."""
        self.parts.ended(bundle, mask)
        rows = warps_of(mask) & ~warps_of(bundle.live)
        if any_true(rows):
            self.clocks.show(bundle, rows)
            self.clocks.arrive(("ended", bundle.rank), bundle, rows)
            over = rows & ~self.cohort.alive(bundle.rank)
            self.remote.ended(bundle, iter(np.flatnonzero(over).tolist()))

    def lanes_met(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Begin a new count for warps whose lanes have met."""
        rows = warps_of(mask)
        self.clocks.tick(bundle, rows)
        self.parts.meet(bundle, rows, mask)

    def barrier_arrived(self, bundle: Bundle, number: int, rows: NDArray[np.bool_]) -> None:
        """Warps arrive at a barrier of their block."""
        self._arrive((bundle.rank, number), bundle, rows)

    def _arrive(self, key: Hashable, bundle: Bundle, rows: NDArray[np.bool_], mask: Mask = None) -> None:
        """Lanes of warps arrive at a barrier of warps; where all of a warp do, they meet."""
        told = None
        whole = _whole(bundle, rows, mask)
        if self.clocks.by_lane and any_true(rows):
            self.clocks.tick(bundle, rows)
            self.parts.meet(bundle, whole)
            told = self.parts.told(bundle, 0, bundle.live[0] if mask is None else mask[0])
        self.clocks.arrive(key, bundle, rows, told)
        if any_true(whole):
            self.parts.meet(bundle, whole)

    def barrier_completed(
        self, rank: int, number: int, rows: NDArray[np.bool_], *, all_threads: bool
    ) -> None:
        """A barrier is complete in the blocks of a rank, of the clusters `rows`.

        If it waits for all threads, those that have ended count as arrived.
        """
        if rows.any():
            self.clocks.complete((rank, number), rows, also=(("ended", rank),) if all_threads else ())

    def barrier_left(self, bundle: Bundle, number: int, mask: Mask) -> None:
        """Warps that have waited at a barrier of their block go on."""
        rows = warps_of(bundle.full if mask is None else mask)
        self.clocks.leave((bundle.rank, number), bundle, rows)

    def cluster_arrived(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Warps arrive at the barrier of their cluster."""
        rows = warps_of(mask)
        self.clocks.show(bundle, rows)
        self._arrive("cluster", bundle, rows, mask)

    def cluster_completed(self, rows: NDArray[np.bool_]) -> None:
        """The barrier of the cluster is complete in some clusters."""
        ended = tuple(("ended", rank) for rank in range(self.cohort.size))
        self.clocks.complete("cluster", rows, also=ended)

    def cluster_left(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Warps that have waited at the barrier of their cluster go on."""
        rows = warps_of(mask)
        if not any_true(rows):
            return
        if not self.clocks.by_lane and not self.parts.clusters[bundle.number]:
            whole = _whole(bundle, rows, mask)
            self.clocks.leave("cluster", bundle, whole)
            if whole is rows:
                return
            rows = rows & ~whole
        for cluster in np.flatnonzero(rows).tolist():
            self.parts.learn(bundle, cluster, mask[cluster], self.clocks.completed("cluster", cluster))

    def flagged(self, bundle: Bundle, mask: Mask) -> None:
        """Warps run an access or a fence that may publish their work or acquire the work of others."""
        rows = warps_of(bundle.full if mask is None else mask)
        if self.clocks.by_lane:
            self._flagged_by(bundle, bundle.live[0] if mask is None else mask[0])
            return
        if self._trusts_flags:
            self.clocks.pass_on(_FLAGS, bundle, rows)
        if not self.parts.clusters[bundle.number]:
            self.threads.lanes.meet(bundle, rows)
        elif any_true(whole := _whole(bundle, rows, mask)):
            self.parts.meet(bundle, whole)

    def _flagged_by(self, bundle: Bundle, lanes: NDArray[np.bool_]) -> None:
        """Let lanes that are not trusted publish what they know and have done, and learn what others have."""
        rows = np.ones(1, dtype=np.bool_)
        if self._trusts_flags:
            self.clocks.show(bundle, rows)
            self.parts.learn(bundle, 0, lanes, self.clocks.left(_FLAGS, 0).copy())
            self.clocks.arrive(_FLAGS, bundle, rows, self.parts.told(bundle, 0, lanes))
        if not (bundle.live[0] & ~lanes).any():
            self.parts.meet(bundle, rows)

    def proxies_fenced(self, bundle: Bundle, mask: Mask) -> None:
        """Warps run a fence that shows to the asynchronous proxy what they know of.

        If some lanes of a warp run it, it shows what they did, and what the others did before the lanes met.
        """
        least = None
        if mask is not None:
            apart = (mask != bundle.live).any(axis=1)
            least = self.threads.lanes.fence(bundle, mask, warps_of(mask) & apart)
        self.clocks.fence(bundle, warps_of(bundle.full if mask is None else mask), least)

    # --- mbarriers ------------------------------------------------------------------------------------------

    def mbarrier_made(self, barrier: MBarrier, origin: Origin) -> None:
        """Give the mbarrier a clock, and remember its mbarrier.init."""
        clock = self._barriers[barrier] = self.clocks.barrier(barrier.cluster, barrier.rank, barrier.offset)
        warp = origin.bundle.number
        own = int(self.clocks.known[warp, barrier.cluster, warp]) - self.clocks.step
        clock.made = (warp, origin.lane % WARP_SIZE, own | origin.site.line)

    def mbarrier_used(self, barrier: MBarrier, origin: Origin) -> None:
        """Refuse a use of an mbarrier that nothing orders after its mbarrier.init.

        Errors: NoBarrierError, as if the init had not run at all.
        """
        clock = self._barriers[barrier]
        warp = origin.bundle.number
        maker, lane, tag = clock.made
        line = tag & self.clocks.line_mask
        whole, parted = self.clocks.row(origin.bundle, origin.cluster), self.parts.of(origin) is not None
        if maker == warp or self.clocks.knows(whole, maker, lane, tag):
            if not parted:
                barrier.known_to.add(warp)
            elif maker != warp and not self.clocks.knows(self.parts.row(origin), maker, lane, tag):
                words = describe_init(origin, barrier.where(), line)
                report("lanes not ordered", words, origin, line)
            return
        if self.cohort.machine.severity("race", origin.site.line, line) == "error":
            where = origin.bundle.program.line_in_words(line)
            raise origin.error(
                NoBarrierError,
                f"{barrier.where()} is used, but nothing orders this use after its mbarrier.init at line"
                f" {where}. The init may not have run yet. Put a barrier of both warps between them, or the"
                " cluster's barrier if the warps are in different CTAs.",
            )

    def mbarrier_arrived(
        self, barrier: MBarrier, origin: Origin, work: Origin | None, lanes: NDArray[np.int64] | None
    ) -> None:
        """Add to the phase the thread's clock, or the one that its commit or store carries."""
        clock = self._barriers[barrier]
        if work is not None:
            clock.arrive(self._carried[work])
            return
        counted = self._carried.get(origin)
        if counted is not None:
            clock.arrive(self.threads.with_copies(origin.bundle, counted))
            return
        if barrier.rank != origin.bundle.rank:
            self.remote.note(barrier.rank, origin, barrier.label())
        facts = origin.site.facts
        if self._fenced or not facts.relaxed:
            who = origin.lane % WARP_SIZE if lanes is None else lanes % WARP_SIZE
            self._release(barrier, origin, who, shows=self._fenced or not facts.within_cta)

    def _release(
        self, barrier: MBarrier, origin: Origin, lanes: NDArray[np.int64] | int, *, shows: bool = True
    ) -> None:
        """Lanes of a thread's warp leave what they know at an mbarrier.

        shows  False if the arrival has the scope of its own CTA.
        """
        bundle, cluster = origin.bundle, barrier.cluster
        away = barrier.rank != bundle.rank
        if away and shows:
            self.clocks.show(bundle, cluster)
        row = self.parts.told(bundle, cluster, lanes)
        if away and not shows:
            row = row.copy()
            self.clocks.shown(row)[:] = self.clocks.step
        self._barriers[barrier].arrive(row)
        self.clocks.tick(bundle, cluster)

    def mbarrier_received(self, barrier: MBarrier, origin: Origin, work: Origin | None) -> None:
        """Add the clock that a store carries; mbarrier.complete_tx by a thread is a relaxed operation."""
        clock = self._barriers[barrier]
        if work is not None:
            clock.arrive(self._carried[work])
            self.threads.stored(work, clock.tag(work.site.line))
        elif self._fenced:
            self._release(barrier, origin, origin.lane % WARP_SIZE)

    def mbarrier_completed(self, barrier: MBarrier) -> None:
        """Make the clocks of all arrivals known to the waits for this phase."""
        self._barriers[barrier].complete()

    def mbarrier_seen(self, bundle: Bundle, barrier: MBarrier, phases: int, lanes: list[int]) -> None:
        """Let lanes take over the clocks of all arrivals up to the last complete phase."""
        cluster, done = barrier.cluster, self._barriers[barrier].done
        if len(lanes) == WARP_SIZE and not self.clocks.by_lane and not self.parts.clusters[bundle.number]:
            self.clocks.learn(bundle, cluster, done)
            as_one = True
        else:
            asked = np.zeros(WARP_SIZE, dtype=np.bool_)
            asked[np.asarray(lanes) % WARP_SIZE] = True
            as_one = self.parts.learn(bundle, cluster, asked, done)
        self.clocks.tick(bundle, cluster)
        if as_one and not self.clocks.by_lane:
            self.threads.lanes.meet(bundle, cluster)

    def copies_counted(self, origin: Origin) -> None:
        """Keep the thread's clock for the mbarrier that counts its copies when they are complete."""
        cluster = origin.lane // WARP_SIZE
        self._counts_copies = True
        self.clocks.show(origin.bundle, cluster)
        self._carried[origin] = self.parts.told(origin.bundle, cluster, origin.lane % WARP_SIZE).copy()
        self.threads.copy_issued(origin.bundle, None)

    def copy_asked(
        self,
        accesses: tuple[Access, Access],
        bundle: Bundle,
        addresses: tuple[NDArray[Any], NDArray[Any]],
        n_bytes: NDArray[Any],
        lanes: NDArray[np.bool_],
    ) -> None:
        """Remember when a copy was issued, once an mbarrier counts copies."""
        if self._counts_copies:
            self.threads.copy_issued(bundle, bundle.own(CopyQueue).issued)

    def copies_made(self, bundle: Bundle, number: int | None) -> None:
        """Record the stores of copies as such once an mbarrier counts copies."""
        if self._counts_copies:
            self.threads.copy_made(bundle, number)

    def store_asked(self, origin: Origin, access: Access, index: int, barrier: tuple[int, int]) -> None:
        """Check and record a store, and keep the clock that it brings to its mbarrier later."""
        cluster = origin.lane // WARP_SIZE
        self.threads.store(origin, access, index, self.clocks.component("mbarrier", *barrier))
        self.clocks.show(origin.bundle, cluster)
        self._carried[origin] = self.parts.told(origin.bundle, cluster, origin.lane % WARP_SIZE).copy()
        self.clocks.tick(origin.bundle, cluster)

    def commit_asked(self, origin: Origin) -> None:
        """Keep the clock that the commit brings: its thread's, with the thread's tcgen05.mma and cp over."""
        bundle, cluster = origin.bundle, origin.lane // WARP_SIZE
        self.clocks.show(bundle, cluster)
        row = self.parts.told(bundle, cluster, origin.lane % WARP_SIZE).copy()
        self.clocks.tick(bundle, cluster)
        self._carried[origin] = self.operations.committed(origin, row)

    # --- uses of shared memory ------------------------------------------------------------------------------

    def accessed(
        self,
        access: Access,
        bundle: Bundle,
        index: Lanes,
        lanes: Lanes | None,
        values: NDArray[Any] | None,
        *,
        away: bool,
    ) -> None:
        """Check and record a warp's access."""
        if access.flags and not self._trusts_flags:
            return
        index = index.reshape(-1)
        written = self.threads.check(access, bundle, index, lanes, values)
        if self.threads.plan.asynchronous:
            self.operations.meet(access, bundle, index, lanes, away=away)
        self.threads.remember(access, bundle, index, lanes, written)
        if away:
            self._note_remote(access, bundle, index, lanes)
        if access.flags:  # `flagged` has published what came before; this publishes the access itself
            acting = np.zeros((bundle.n, WARP_SIZE), dtype=np.bool_)
            acting.reshape(-1)[slice(None) if lanes is None else lanes] = True
            self.flagged(bundle, acting)

    def _note_remote(self, access: Access, bundle: Bundle, index: Lanes, lanes: Lanes | None) -> None:
        """Note the uses of other CTAs' memory among an access."""
        cohort = self.cohort
        blocks, first = np.unique(index * access.size // cohort.shared_stride, return_index=True)
        for block, position in zip(blocks.tolist(), first.tolist(), strict=True):
            if block // cohort.n != bundle.rank:
                offset = int(index[position]) * access.size % cohort.shared_stride
                origin = access.thread(bundle, lanes, position)
                self.remote.note(block // cohort.n, origin, f"shared offset 0x{offset:x}")

    def bulk_writes(self, copy: Copy, parts: Sequence[Chunks], pieces: int) -> None:
        """Check and record a copy into shared memory."""
        self.operations.copies(copy, parts, pieces)

    def bulk_over(self, copy: Copy, position: int) -> None:
        """Let the last piece's phase of the mbarrier tell that the copy is over, and nothing else.

        The complete-tx of a copy does not order what its issuer did before (#program-order-async-operations).
        """
        assert copy.to is not None
        barrier = self.cohort.own(MBarriers).live.get(copy.to.barriers[position])
        if barrier is not None:
            self.operations.landed(copy, position, barrier, self._barriers[barrier])

    def operands_read(
        self, origin: Origin, operands: Sequence[tuple[int, str, NDArray[np.int64], tuple[int, int]]]
    ) -> None:
        """Check and record a tcgen05.mma or cp."""
        row = self.parts.row(origin)
        reader = self.operations.of_tensor_core(origin)
        for rank, what, chunks, span in operands:
            self.operations.reads(origin, rank, chunks, span, what, row, reader)

    def bulk_reads(self, copy: Copy, chunks: NDArray[np.int64]) -> None:
        """Check and record the chunks that a copy reads in its own block."""
        origin, rank = copy.origin, copy.origin.bundle.rank
        if copy.group is not None:
            reader = self.operations.of_group(origin, copy.group)
        elif copy.is_source(chunks):
            reader = self.operations.of_copy(copy)
        else:
            return  # the destination, with which a reduction combines
        row = self.parts.row(origin)
        span = int(chunks.min()), int(chunks.max())
        self.operations.reads(origin, rank, chunks, span, origin.site.instruction.name, row, reader)

    def bulk_waited(
        self,
        site: Site,
        bundle: Bundle,
        lanes: NDArray[np.bool_],
        groups: BulkGroups,
        newest: int,
        blocked: set[int],
    ) -> None:
        """Let the threads know that all but their `newest` bulk groups have read their sources."""
        self.operations.groups_done(bundle, lanes, groups.committed, newest)

    def multiplication_reached(self, bundle: Bundle, cluster: int, multiplication: InFlight) -> None:
        """Keep what a warp knows as it reaches a wgmma.mma_async, which may be issued much later."""
        found = self._reached.setdefault(multiplication, _Reached())
        found.known = self.clocks.merged(found.known, self.clocks.row(bundle, cluster))
        found.copies.setdefault(bundle.number, len(self.operations.every))
        self.clocks.tick(bundle, cluster)

    def warpgroup_issued(
        self,
        multiplication: Multiplication,
        origin: Origin,
        warps: Sequence[Bundle],
        number: int,
        operands: Sequence[tuple[str, NDArray[np.int64], tuple[int, int]]],
    ) -> None:
        """Check and record a wgmma.mma_async that knows what any of its four warps knew as it reached it."""
        found = self._reached.pop(multiplication)
        assert found.known is not None
        row = self.clocks.merged(self.clocks.nothing(), found.known)
        reader = self.operations.of_warpgroup(origin, number)
        for what, chunks, span in operands:
            self.operations.reads(origin, origin.bundle.rank, chunks, span, what, row, reader, found.copies)
        self._multiplications[multiplication] = reader

    def multiplication_waited(self, bundle: Bundle, cluster: int, multiplication: InFlight) -> None:
        """Let a warp know that a wgmma.mma_async is over."""
        reader = self._multiplications.get(multiplication)
        if reader is not None:
            self.operations.over(bundle, cluster, reader)

    # --- uses of tensor memory ------------------------------------------------------------------------------

    def tensor_used(
        self, memory: TensorMemory, region: Region, what: str, origin: Origin, *, writes: bool, pipeline: str
    ) -> None:
        """Check and record a use of tensor memory."""
        use = self.tensor_memory.by_pipe if pipeline else self.tensor_memory.by_warp
        use(memory, region, what, origin, writes=writes)

    def tensor_loads_over(
        self, memory: TensorMemory, bundle: Bundle, cluster: int, loads: Sequence[tuple[Origin, Region]]
    ) -> None:
        """A warp's loads are over."""
        self.tensor_memory.loads_over(memory, bundle, cluster, loads)

    def tensor_store_over(self, memory: TensorMemory, region: Region, origin: Origin) -> None:
        """A warp's store is over."""
        self.tensor_memory.store_over(memory, region, origin)

    def tensor_freeing(
        self, memory: TensorMemory, start: int, columns: int, origin: Origin, group: int
    ) -> None:
        """Check columns that a warp frees."""
        self.tensor_memory.freeing(memory, start, columns, origin, group)

    def tensor_freed(self, memory: TensorMemory, start: int, columns: int, origin: Origin) -> None:
        """Forget the uses of columns that are free now."""
        self.tensor_memory.freed(memory, start, columns)
