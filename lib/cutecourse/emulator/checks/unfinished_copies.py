"""Blocks that end while a bulk copy may still read their shared memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import WARP_SIZE, any_true
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.report import report
from cutecourse.emulator.instructions.bulk.groups import BulkGroups

__all__ = ["UnfinishedCopies"]


class UnfinishedCopies(Observer):
    """Looks at the copies of blocks that end."""

    def __init__(self, cohort: Cohort) -> None:
        self.cohort = cohort

    def lanes_ended(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Report copies that no thread has waited for. Errors: UnfinishedCopy."""
        gone = ~self.cohort.alive(bundle.rank) & mask.any(axis=1)
        if not any_true(gone):
            return
        for other in self.cohort.bundles:
            groups = other.owned(BulkGroups)
            if groups is None or other.rank != bundle.rank:
                continue
            for copy in groups.copies:
                if gone[copy.origin.lane // WARP_SIZE] and not copy.released:
                    report(
                        "unfinished copy",
                        "the block ended without waiting until this copy had read its shared memory."
                        " Add cp.async.bulk.wait_group.read 0 (after a commit_group) at the kernel's end.",
                        copy.origin,
                    )
