"""Clusters: their barrier, and addresses in the shared memory of other CTAs.

Loads, stores and atomics in .shared::cluster are defined in instructions.memory (load_store, atomics): an
address in shared memory carries the rank of its CTA (see core.memory). Stores that signal an mbarrier are
in async_store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import WAIT, Bundle, Cohort, Split
from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.kinds import KINDS, WARP_SIZE, Mask, any_true, put
from cutecourse.emulator.core.memory import RANK_SHIFT, SHARED_WINDOW, WINDOW_BITS
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import first_lane
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.waits import Held
from cutecourse.emulator.core.warp_values import tell_warps
from cutecourse.emulator.errors import AddressError, BarrierError

__all__: list[str] = []

Lanes = NDArray[np.bool_]


# --- the cluster's barrier ----------------------------------------------------------------------------------


class _ClusterBarrier(Observer):
    """The barrier of each cluster of a cohort: which threads have arrived, and how often it has completed."""

    def __init__(self, cohort: Cohort) -> None:
        self.cohort = cohort
        shape = (cohort.size, cohort.machine.warps_per_block, cohort.n, WARP_SIZE)
        self.arrived = np.zeros(shape, dtype=np.bool_)
        """By rank, warp of the block, cluster and lane."""
        self.arrived_in = np.full(shape, -1, dtype=np.int64)
        """The phase in which each thread arrived and for which it has not waited yet; -1 for none."""
        self.phase = np.zeros(cohort.n, dtype=np.int64)
        self.came = np.zeros(cohort.n, dtype=np.int64)
        """How many threads of each cluster have arrived."""
        self.left = self._live()
        """How many threads of each cluster have neither arrived nor ended."""
        self.waiting: list[tuple[Bundle, Split]] = []
        cohort.listeners.subscribe(self)

    def _live(self) -> NDArray[np.int64]:
        """Count the threads of each cluster that have not ended."""
        live = [b.live.sum(axis=1) for b in self.cohort.bundles]
        found: NDArray[np.int64] = np.sum(live, axis=0, dtype=np.int64)
        return found

    def lanes_ended(self, bundle: Bundle, mask: Lanes) -> None:
        """Stop waiting for threads that have ended."""
        self.left -= (mask & ~self.arrived[bundle.rank, bundle.warp]).sum(axis=1)
        self.settle()

    def arrive(self, bundle: Bundle, mask: Lanes) -> None:
        """Count the arrival of threads."""
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
        """Complete the barrier where all threads that have not ended have arrived; wake those that wait."""
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
            rest = bundle.keep_waiting(split, done[:, None])
            if rest is not None:
                self.waiting.append((bundle, rest))
            reason = split.waiting
            if rest is not split:
                assert isinstance(reason, _ClusterWait)
                go = bundle.full if split.mask is None else split.mask
                for tell in self.cohort.listeners.cluster_left:
                    tell(bundle, go)
                tell_warps(reason.site, bundle, go, "cluster.resume")
                bundle.unpark(split, reason.following)


@dataclass(eq=False)
class _ClusterWait(Held):
    """Why a split waits at the cluster's barrier, and where it continues."""

    site: Site
    following: int
    barrier: _ClusterBarrier

    @property
    def line(self) -> int:
        return self.site.line

    def describe(self, warp: int) -> str:
        """Name the warps that have not arrived."""
        absent = self.barrier.missing(warp)
        shown = []
        for bundle, lanes in absent[:6]:
            block, number, _ = bundle.where(warp * WARP_SIZE)
            shown.append(f"block {block} warp {number} ({lanes} threads)")
        more = f" and {len(absent) - 6} more warps" if len(absent) > 6 else ""
        return f"barrier.cluster.wait waits for barrier.cluster.arrive of {', '.join(shown)}{more}"


_BARRIER = Facts(category="barrier", results=0, publishes=True, uses_cluster=True)


@instruction("barrier.cluster.arrive", control=True, gated=True, facts=_BARRIER)
def cluster_arrive(site: Site) -> Step:
    """Announce that a thread has reached the barrier of its cluster, and continue.

    Shapes:     no operands; with `.aligned` all lanes of the warp together.
    Errors:     BarrierError for a second arrival before the barrier has completed; DivergedWarp where the
                lanes of an aligned arrival cannot come together.
    Simplified: `.relaxed` orders memory as `.release` does. Without `.aligned` each lane arrives by itself;
                the hardware waits for the warp's other lanes.
    Source:     PTX ISA 9.0, barrier.cluster
                (#parallel-synchronization-and-communication-instructions-barrier-cluster).
    """
    site.one_of("release", "relaxed")
    if site.has("aligned"):
        site.converge()

    def control(bundle: Bundle, split: Split, following: int) -> int:
        barrier = bundle.cohort.own(_ClusterBarrier)
        mask = bundle.full if split.mask is None else split.mask
        again = mask & barrier.arrived[bundle.rank, bundle.warp]
        if origin := first_lane(site, bundle, again):
            raise origin.error(
                BarrierError,
                "the thread has already arrived at the cluster's barrier, and the barrier has not completed"
                " since. Is a barrier.cluster.wait missing between the two arrivals?",
            )
        barrier.arrive(bundle, mask)
        tell_warps(site, bundle, mask, "cluster.arrive")
        barrier.settle()
        return following

    return control


@instruction("barrier.cluster.wait", control=True, gated=True, facts=_BARRIER)
def cluster_wait(site: Site) -> Step:
    """Wait until all threads of the cluster that have not ended have arrived at its barrier.

    Shapes:     no operands; with `.aligned` all lanes of the warp together.
    Blocks:     until the phase in which the thread arrived is complete.
    Errors:     BarrierError for a thread that has not arrived; DivergedWarp where the lanes of an aligned
                wait cannot come together; DeadlockError where threads never arrive.
    Simplified: without `.aligned` each lane waits by itself.
    Source:     PTX ISA 9.0, barrier.cluster
                (#parallel-synchronization-and-communication-instructions-barrier-cluster).
    """
    site.has("acquire")
    if site.has("aligned"):
        site.converge()

    def control(bundle: Bundle, split: Split, following: int) -> int:
        barrier = bundle.cohort.own(_ClusterBarrier)
        mask = bundle.full if split.mask is None else split.mask
        arrived_in = barrier.arrived_in[bundle.rank, bundle.warp]
        if origin := first_lane(site, bundle, mask & (arrived_in < 0)):
            raise origin.error(
                BarrierError,
                "the thread waits at the cluster's barrier but has not arrived there."
                " Is a barrier.cluster.arrive missing before it?",
            )
        blocked = mask & (arrived_in == barrier.phase[:, None])
        passed = mask & ~blocked
        arrived_in[mask] = -1
        for tell in bundle.cohort.listeners.cluster_left:
            tell(bundle, passed)
        tell_warps(site, bundle, passed, "cluster.wait", outcome="passed")
        tell_warps(site, bundle, blocked, "cluster.wait", outcome="blocked")
        if not any_true(blocked):
            return following
        asleep = bundle.part(split, blocked)
        asleep.waiting = _ClusterWait(site, following, barrier)
        barrier.waiting.append((bundle, asleep))
        return following if asleep is not split else WAIT

    return control


# --- addresses in a cluster ---------------------------------------------------------------------------------


@instruction("mapa", facts=Facts(uses_cluster=True))
def mapa(site: Site) -> Step:
    """Give the address that a shared variable has in another CTA of the cluster.

    Shapes:     an address and a rank in each lane; the result is an address in `.shared::cluster` or, if no
                space is given, a generic address.
    Units:      bytes; the rank as in %cluster_ctarank.
    Errors:     AddressError for a generic address outside of shared memory. An address with a rank that the
                cluster does not have is refused where it is used: kernels map every lane's number, and an
                H100 runs them.
    Simplified: the address carries the rank from bit 24 up, and every rank above 255 as 255; the hardware's
                layout is not documented.
    Source:     PTX ISA 9.0, mapa (#data-movement-and-conversion-instructions-mapa).
    """
    generic = not site.has("shared::cluster")
    kind = site.type("u32", "u64")
    target, source, rank = site.destination(0, kind), site.source(1, kind), site.source(2, "u32")
    word = KINDS[kind][1].type
    offset_mask = word((1 << RANK_SHIFT) - 1)
    most = np.uint32((1 << (WINDOW_BITS - RANK_SHIFT)) - 1)
    base = word(SHARED_WINDOW if generic else 0)

    def step(bundle: Bundle, mask: Mask) -> None:
        ranks = np.minimum(bundle.rows["u32"][rank], most)
        address = bundle.rows[kind][source]
        if generic:
            _inside(site, bundle, site.active(bundle, mask), address)
        moved = base + (ranks.astype(word) << word(RANK_SHIFT)) + (address & offset_mask)
        put(bundle.rows[kind][target], moved, mask)

    return step


def _inside(site: Site, bundle: Bundle, active: Lanes, address: NDArray[Any]) -> None:
    """Refuse generic addresses outside of shared memory."""
    wrong = active & (address >> np.uint64(WINDOW_BITS) != SHARED_WINDOW >> WINDOW_BITS)
    if origin := first_lane(site, bundle, wrong):
        one = origin.value(address)
        raise origin.error(
            AddressError,
            f"{site.instruction.name} of 0x{one:x}: the generic address lies outside shared memory",
            address=one,
        )


@instruction("getctarank", facts=Facts(uses_cluster=True))
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
