"""Uses of a CTA's shared memory by other CTAs of its cluster, which must be over when the CTA ends.

A CTA may end only when it knows of all such uses, whatever came first in this run. Then some warp of it has
waited for them: at the cluster's barrier, or for an mbarrier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from cutecourse.emulator.checks.clocks import Clocks
from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.errors import ExitedCTAError

__all__ = ["RemoteUses"]


class RemoteUses:
    """The last use of each CTA's memory by each warp of another one at each line."""

    def __init__(self, cohort: Cohort, clocks: Clocks) -> None:
        self._cohort = cohort
        self._clocks = clocks
        self._of: defaultdict[tuple[int, int], dict[tuple[int, int], tuple[int, Origin, str]]] = defaultdict(
            dict
        )
        """By the CTA, then by warp and line: the tag, the thread, and its use in words."""

    def note(self, rank: int, origin: Origin, what: str) -> None:
        """Record a thread's use of the memory of CTA `rank`."""
        cluster, warp = origin.cluster, origin.bundle.number
        tag = int(self._clocks.known[warp, cluster, warp]) - self._clocks.step
        self._of[cluster, rank][warp, origin.site.line] = (tag, origin, what)

    def ended(self, bundle: Bundle, clusters: Iterator[int]) -> None:
        """CTAs have ended. Errors: ExitedCTAError for a use that may still come."""
        rank = bundle.rank
        for cluster in clusters:
            uses = self._of.pop((cluster, rank), {})
            if not uses:
                continue
            first = rank * self._clocks.per_block
            known = np.max(self._clocks.known[first : first + self._clocks.per_block, cluster], axis=0)
            for (warp, _), (tag, origin, what) in uses.items():
                if not self._clocks.knows(known, warp, origin.lane % WARP_SIZE, tag):
                    raise origin.error(
                        ExitedCTAError,
                        f"{what} of CTA {rank} is used here, and nothing keeps that CTA from ending before."
                        " Let both CTAs meet at the cluster's barrier before either ends, or let that CTA"
                        " wait for an mbarrier at which this thread arrives afterwards.",
                    )
