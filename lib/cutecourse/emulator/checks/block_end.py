"""Leftovers of a block that ends: mbarriers in the middle of a phase, copies under way, tensor memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import WARP_SIZE, any_true
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.errors import EmulatorError, MulticastError
from cutecourse.emulator.instructions.bulk.groups import BulkGroups
from cutecourse.emulator.instructions.bulk.landing import origins_under_way
from cutecourse.emulator.memory.mbarriers import MBarrier, MBarriers, unread_answer
from cutecourse.emulator.memory.tensor_memory import TensorMemories
from cutecourse.trace.words import number

__all__ = ["BlockEnds", "unexpected_multicast"]


class BlockEnds(Observer):
    """Checks the mbarriers, the copies out of shared memory and the tensor memory of blocks that end.

    Bytes that nobody expects are a mistake. Bytes that are announced and never sent are worth a note. A phase
    with only some of its arrivals is not reported, because correct kernels leave such phases too. If nobody
    has waited for a phase, its bytes may still be under way at the end, even if they have landed in this run.
    """

    def __init__(self, cohort: Cohort) -> None:
        self.cohort = cohort

    def lanes_ended(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Report what an ended block has left.

        Errors: OpenPhase, BytesNeverSent, MulticastError, UnfinishedLoad, UnfinishedCopy, TensorMemoryLeak.
        """
        gone = ~self.cohort.alive(bundle.rank) & mask.any(axis=1)
        if not any_true(gone):
            return
        barriers = self.cohort.owned(MBarriers)
        if barriers is not None:
            for (cluster, rank, _), barrier in list(barriers.live.items()):
                if rank == bundle.rank and gone[cluster] and barriers.holds(barrier):
                    _look(barrier)
        for other in self.cohort.bundles:
            groups = other.owned(BulkGroups)
            for copy in () if groups is None or other.rank != bundle.rank else groups.copies:
                if gone[copy.origin.lane // WARP_SIZE] and not copy.released:
                    report(
                        "unfinished copy",
                        "the block ended without waiting until this copy had read its shared memory."
                        " Add cp.async.bulk.wait_group.read 0 (after a commit_group) at the kernel's end.",
                        copy.origin,
                    )
        memories = self.cohort.owned(TensorMemories)
        for cluster in np.flatnonzero(gone).tolist():
            memory = None if memories is None else memories.used(cluster, bundle.rank)
            if memory is not None and memory.allocations:
                left = next(iter(memory.allocations.values()))
                report(
                    "tensor memory leak",
                    f"the CTA ended without freeing {left.columns} columns of tensor memory, from column"
                    f" {left.start} on. Add the missing tcgen05.dealloc.",
                    left.origin,
                )


def _look(barrier: MBarrier) -> None:
    if barrier.tx < 0:
        if (multicast := unexpected_multicast(barrier)) is not None:
            raise multicast
        origin = _last(barrier, "complete_tx")
        problem = (
            f"the block ended, but phase {barrier.phase} of {barrier.where()} received"
            f" {number(-barrier.tx, 'byte')} more than were expected. Is an expect_tx missing, or too small?"
        )
        report("open phase", problem, origin)
    elif barrier.loaded > barrier.seen or (barrier.tx > 0 and _under_way(barrier) is not None):
        origin = _under_way(barrier) or _last(barrier, "complete_tx")
        phase = barrier.loaded - 1 if barrier.loaded > barrier.seen else barrier.phase
        problem = (
            f"the block ended, but no thread had waited for phase {phase} of {barrier.where()}, to"
            " which this copy brings bytes. Add a wait for that phase before the kernel's end."
            + unread_answer(origin, barrier)
        )
        report("unfinished load", problem, origin)
    elif barrier.tx > 0:
        origin = _last(barrier, "expect_tx")
        problem = (
            f"the block ended, but phase {barrier.phase} of {barrier.where()} expected"
            f" {number(barrier.tx, 'byte')} that never came. Is a copy missing, or a wait before the end?"
        )
        report("bytes never sent", problem, origin)


def _under_way(barrier: MBarrier) -> Origin | None:
    """The thread that issued a copy whose bytes have not all reached the barrier; None if there is none."""
    return next(origins_under_way(barrier.cohort, barrier.cluster, barrier.rank, barrier.offset), None)


def _last(barrier: MBarrier, what: str) -> Origin:
    """The last thread that did `what` to the barrier."""
    return next(origin for (did, *_), (_, origin) in reversed(barrier.history.items()) if did == what)


def unexpected_multicast(barrier: MBarrier, *more: str) -> EmulatorError | None:
    """The error of a multicast that brought bytes to a phase in which the CTA expects none; None if none did.

    `more` are lines that follow the problem.
    """
    came = barrier.came(barrier.phase)
    if barrier.tx >= 0 or any(what == "expect_tx" for what, _, _ in came):
        return None
    origins = [origin for what, _, origin in came if what == "complete_tx"]
    if not all(origin.site.facts.multicast for origin in origins):
        return None
    problem = (
        f"the multicast brought {number(-barrier.tx, 'byte')} to {barrier.where()}, but its phase"
        f" {barrier.phase} expects none. Does the mask name one CTA too many, or does that CTA lack an"
        " expect_tx?"
    )
    return next((origin.error(MulticastError, "\n".join([problem, *more])) for origin in origins), None)
