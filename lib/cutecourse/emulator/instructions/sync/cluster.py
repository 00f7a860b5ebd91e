"""Clusters: their barrier, and addresses in the shared memory of other CTAs.

Loads, stores and atomics in .shared::cluster are defined in instructions.memory (load_store, atomics): an
address in shared memory carries the rank of its CTA (see core.memory). Stores that signal an mbarrier are
in async_store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import WAIT, Bundle, Cohort, Split
from cutecourse.emulator.core.kinds import KINDS, WARP_SIZE, Mask, any_true, put
from cutecourse.emulator.core.memory import RANK_SHIFT, SHARED_WINDOW, WINDOW_BITS
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import AddressError, BarrierError, InvalidOperand

__all__: list[str] = []

Lanes = NDArray[np.bool_]


# --- the cluster's barrier ----------------------------------------------------------------------------------


@dataclass(eq=False)
class _ClusterBarrier(Observer):
    """The barrier of each cluster of a cohort: which threads have arrived, and how often it has completed.

    `arrived` has the shape (ranks, warps of a block, n, 32). `left` is how many threads of each cluster have
    neither arrived nor ended, `came` how many have arrived.
    """

    cohort: Cohort
    arrived: NDArray[np.bool_] = field(init=False)
    left: NDArray[np.int64] = field(init=False)
    came: NDArray[np.int64] = field(init=False)
    phase: NDArray[np.int64] = field(init=False)
    arrived_in: NDArray[np.int64] = field(init=False)
    """The phase that each thread arrived in and has not waited for, -1 for none; shaped as `arrived`."""
    waiting: list[tuple[Bundle, Split]] = field(default_factory=list)

    def __post_init__(self) -> None:
        machine, n = self.cohort.machine, self.cohort.n
        shape = (self.cohort.size, machine.warps_per_block, n, WARP_SIZE)
        self.arrived = np.zeros(shape, dtype=np.bool_)
        self.arrived_in = np.full(shape, -1, dtype=np.int64)
        self.phase = np.zeros(n, dtype=np.int64)
        self.came = np.zeros(n, dtype=np.int64)
        self.left = self._live()
        self.cohort.listeners.subscribe(self)

    @classmethod
    def of(cls, cohort: Cohort) -> _ClusterBarrier:
        """The cohort's, made when first asked for."""
        return cohort.own(cls)

    def _live(self) -> NDArray[np.int64]:
        """Count the threads of each cluster that have not ended."""
        live = [b.live.sum(axis=1) for b in self.cohort.bundles]
        found: NDArray[np.int64] = np.sum(live, axis=0, dtype=np.int64)
        return found

    def lanes_ended(self, bundle: Bundle, mask: Lanes) -> None:
        """Threads have ended: nobody waits for them any more."""
        self.left -= (mask & ~self.arrived[bundle.rank, bundle.warp]).sum(axis=1)
        self.settle()

    def arrive(self, bundle: Bundle, mask: Lanes) -> None:
        """Count threads that have come."""
        self.arrived[bundle.rank, bundle.warp] |= mask
        np.copyto(self.arrived_in[bundle.rank, bundle.warp], self.phase[:, None], where=mask)
        lanes = mask.sum(axis=1)
        self.left -= lanes
        self.came += lanes
        bundle.machine.changes += 1
        for tell in self.cohort.listeners.cluster_arrived:
            tell(bundle, mask)

    def missing(self, cluster: int) -> list[tuple[Bundle, int]]:
        """The warps of a cluster that have not arrived, and how many of their threads."""
        rows = []
        for bundle in self.cohort.bundles:
            absent = bundle.live[cluster] & ~self.arrived[bundle.rank, bundle.warp, cluster]
            if absent.any():
                rows.append((bundle, int(absent.sum())))
        return rows

    def settle(self) -> None:
        """Complete the barrier where all threads that have not ended have arrived, and let go who waits."""
        done = (self.left == 0) & (self.came > 0)
        if not any_true(done):
            return
        for tell in self.cohort.listeners.cluster_completed:
            tell(done)
        self.arrived[:, :, done] = False
        self.came[done] = 0
        self.left[done] = self._live()[done]
        self.phase[done] += 1
        waiting, self.waiting = self.waiting, []
        for bundle, split in waiting:
            mask = bundle.full if split.mask is None else split.mask
            reason = split.waiting
            go = mask & done[:, None]
            if not any_true(go):
                self.waiting.append((bundle, split))
                continue
            if any_true(mask & ~go):
                other = bundle.fork(split, ~go, split.at)
                other.waiting = reason
                self.waiting.append((bundle, other))
            for tell in self.cohort.listeners.cluster_left:
                tell(bundle, go)
            _tell(bundle, go, "cluster.resume", reason.line)
            bundle.unpark(split, reason.following)


def _tell(bundle: Bundle, lanes: Lanes, kind: str, line: int, **data: Any) -> None:
    """Record one event for each warp that takes part."""
    for tell in bundle.cohort.listeners.happened:
        for warp in bundle.clusters(lanes):
            lane = warp * WARP_SIZE + int(np.argmax(lanes[warp]))
            tell(kind, bundle, lane, line, one=int(lanes[warp].sum()) == 1, **data)


@dataclass(eq=False)
class _ClusterWait:
    """Why a split waits at the cluster's barrier, and where it goes on."""

    line: int
    following: int
    barrier: _ClusterBarrier

    def describe(self, warp: int) -> str:
        """Name the warps that have not arrived."""
        absent = self.barrier.missing(warp)
        shown = []
        for bundle, lanes in absent[:6]:
            block, number, _ = bundle.where(warp * WARP_SIZE)
            shown.append(f"block {block} warp {number} ({lanes} threads)")
        more = f" and {len(absent) - 6} more warps" if len(absent) > 6 else ""
        return f"barrier.cluster.wait waits for barrier.cluster.arrive of {', '.join(shown)}{more}"


@instruction("barrier.cluster.arrive", control=True, gated=True)
def cluster_arrive(site: Site) -> Step:
    """Announce that a thread has reached the barrier of its cluster, and continue.

    Shapes:     no operands; with `.aligned` all lanes of the warp together.
    Errors:     BarrierError for a second arrival before the barrier has completed; DivergedWarp where the
                lanes of an aligned arrival cannot come together.
    Simplified: `.relaxed` orders memory as `.release` does. Without `.aligned` each lane arrives for itself,
                where the hardware waits for the warp's other lanes.
    Source:     PTX ISA 9.0, barrier.cluster
                (#parallel-synchronization-and-communication-instructions-barrier-cluster).
    """
    site.one_of("release", "relaxed")
    if site.has("aligned"):
        site.converge()

    def control(bundle: Bundle, split: Split, following: int) -> int:
        barrier = _ClusterBarrier.of(bundle.cohort)
        mask = bundle.full if split.mask is None else split.mask
        again = mask & barrier.arrived[bundle.rank, bundle.warp]
        if any_true(again):
            raise site.error(
                BarrierError,
                "the thread has already arrived at the cluster's barrier, and the barrier has not completed"
                " since. Is a barrier.cluster.wait missing between the two arrivals?",
                bundle,
                int(np.flatnonzero(again)[0]),
            )
        barrier.arrive(bundle, mask)
        _tell(bundle, mask, "cluster.arrive", site.line)
        barrier.settle()
        return following

    return control


@instruction("barrier.cluster.wait", control=True, gated=True)
def cluster_wait(site: Site) -> Step:
    """Wait until all threads of the cluster that have not ended have arrived at its barrier.

    Shapes:     no operands; with `.aligned` all lanes of the warp together.
    Blocks:     until the barrier completes that the thread has arrived at.
    Errors:     BarrierError for a thread that has not arrived; DivergedWarp where the lanes of an aligned
                wait cannot come together; DeadlockError where threads never arrive.
    Simplified: without `.aligned` each lane waits for itself.
    Source:     PTX ISA 9.0, barrier.cluster
                (#parallel-synchronization-and-communication-instructions-barrier-cluster).
    """
    site.has("acquire")
    if site.has("aligned"):
        site.converge()

    def control(bundle: Bundle, split: Split, following: int) -> int:
        barrier = _ClusterBarrier.of(bundle.cohort)
        mask = bundle.full if split.mask is None else split.mask
        arrived_in = barrier.arrived_in[bundle.rank, bundle.warp]
        never = mask & (arrived_in < 0)
        if any_true(never):
            raise site.error(
                BarrierError,
                "the thread waits at the cluster's barrier but has not arrived there."
                " Is a barrier.cluster.arrive missing before it?",
                bundle,
                int(np.flatnonzero(never)[0]),
            )
        blocked = mask & (arrived_in == barrier.phase[:, None])
        passed = mask & ~blocked
        arrived_in[mask] = -1
        for tell in bundle.cohort.listeners.cluster_left:
            tell(bundle, passed)
        _tell(bundle, passed, "cluster.wait", site.line, outcome="passed")
        _tell(bundle, blocked, "cluster.wait", site.line, outcome="blocked")
        if not any_true(blocked):
            return following
        asleep = split
        if any_true(passed):
            asleep = bundle.fork(split, blocked, split.at)
        asleep.waiting = _ClusterWait(site.line, following, barrier)
        barrier.waiting.append((bundle, asleep))
        return following if asleep is not split else WAIT

    return control


# --- addresses in a cluster ---------------------------------------------------------------------------------


@instruction("mapa")
def mapa(site: Site) -> Step:
    """Give the address that a shared variable has in another CTA of the cluster.

    Shapes:     an address and a rank in each lane; the result is an address of `.shared::cluster`, or without
                the space a generic one.
    Units:      bytes; the rank as in %cluster_ctarank.
    Errors:     InvalidOperand for a rank that the cluster does not have; AddressError for a generic address
                outside of shared memory.
    Simplified: the address carries the rank from bit 24 up; the hardware's layout is not documented.
    Source:     PTX ISA 9.0, mapa (#data-movement-and-conversion-instructions-mapa).
    """
    generic = not site.has("shared::cluster")
    kind = site.type("u32", "u64")
    target, source, rank = site.destination(0, kind), site.source(1, kind), site.source(2, "u32")
    word = KINDS[kind][1].type
    offset_mask = word((1 << RANK_SHIFT) - 1)
    base = word(SHARED_WINDOW if generic else 0)

    def step(bundle: Bundle, mask: Mask) -> None:
        active = site.active(bundle, mask)
        ranks = bundle.rows["u32"][rank]
        wrong = active & (ranks >= bundle.cohort.size)
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            raise site.error(
                InvalidOperand,
                f"CTA {int(ranks.reshape(-1)[lane])} of a cluster of {bundle.cohort.size}",
                bundle,
                lane,
            )
        address = bundle.rows[kind][source]
        if generic:
            _inside(site, bundle, active, address)
        moved = base + (ranks.astype(word) << word(RANK_SHIFT)) + (address & offset_mask)
        put(bundle.rows[kind][target], moved, mask)

    return step


def _inside(site: Site, bundle: Bundle, active: Lanes, address: NDArray[Any]) -> None:
    """Refuse generic addresses outside of shared memory."""
    wrong = active & (address >> np.uint64(WINDOW_BITS) != SHARED_WINDOW >> WINDOW_BITS)
    if wrong.any():
        lane = int(np.flatnonzero(wrong)[0])
        one = int(address.reshape(-1)[lane])
        raise site.error(
            AddressError,
            f"{site.instruction.name} of 0x{one:x}: the generic address lies outside shared memory",
            bundle,
            lane,
            address=one,
        )


@instruction("getctarank")
def getctarank(site: Site) -> Step:
    """Give the rank of the CTA in whose shared memory an address lies.

    Shapes:     an address and a u32 in each lane.
    Units:      the rank as in %cluster_ctarank.
    Errors:     AddressError for a generic address outside of shared memory.
    Source:     PTX ISA 9.0, getctarank (#data-movement-and-conversion-instructions-getctarank).
    """
    generic = not site.has("shared::cluster")
    kind = site.type("u32", "u64")
    target, source = site.destination(0, "u32"), site.source(1, kind)
    word = KINDS[kind][1].type

    def step(bundle: Bundle, mask: Mask) -> None:
        address = bundle.rows[kind][source]
        if generic:
            _inside(site, bundle, site.active(bundle, mask), address)
        rank = address >> word(RANK_SHIFT) & word((1 << (WINDOW_BITS - RANK_SHIFT)) - 1)
        put(bundle.rows["u32"][target], rank.astype(np.uint32), mask)

    return step
