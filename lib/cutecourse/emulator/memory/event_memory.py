"""For events: the cells of tensor memory and bytes of shared memory that an operation reads and writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Cohort
from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.memory.regions import Region
from cutecourse.trace.snapshot import runs_of

__all__ = ["chunks_touched", "region_touches"]


def region_touches(rank: int, regions: Iterable[Region], *, writes: bool) -> list[dict[str, Any]]:
    """List the regions of a CTA's tensor memory, each run of lanes on its own."""
    return [
        {
            "space": "tensor",
            "rank": rank,
            "lanes": [low, high],
            "range": [region.first, region.stop],
            "writes": writes,
        }
        for region in regions
        for low, high in runs_of(region.lanes)
    ]


def chunks_touched(cohort: Cohort, cluster: int, rank: int, chunks: NDArray[np.int64]) -> dict[str, Any]:
    """The range of a CTA's shared memory from the first chunk to the last; numbers count in the cohort's."""
    start = cohort.shared_start(cluster, rank)
    first, last = int(chunks.min()) * CHUNK - start, int(chunks.max()) * CHUNK - start
    return {"space": "shared", "rank": rank, "range": [first, last + CHUNK], "writes": False}
