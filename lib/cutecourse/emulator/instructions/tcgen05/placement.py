"""Where the matrices of tcgen05.mma lie: D in lanes and columns of tensor memory, A and B in shared memory.

Where rows and columns of D lie, by CTAs, M:

    1  128   row r in lane r
    1   64   row r in lane 32 (r / 16) + r % 16, counted from lane 0 or 16
    2  256   rows 128 v on in CTA v of the pair, one a lane
    2  128   rows 64 v on in CTA v: columns below N / 2 in lanes 0 to 63, the others in lanes 64 to 127

Each CTA of a pair holds M / 2 rows of A and N / 2 columns of B in its own shared memory, at the places that
the descriptors name in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.memory.matrix_descriptor import SharedMatrix
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.tensor_memory import LANES

__all__ = ["EVERY_LANE", "PartOfD", "along_k", "parts_of", "region_of"]


@dataclass(frozen=True, eq=False, slots=True)
class PartOfD:
    """A part of D in one CTA: its rows' lanes, and which columns of the whole it is."""

    lanes: NDArray[np.int64]
    first: int
    stop: int
    rows: NDArray[np.int64] | slice
    """The lanes again; a slice if they are neighbours, so that NumPy does not copy."""

    @classmethod
    def of(cls, lanes: NDArray[np.int64], first: int, stop: int) -> PartOfD:
        """The part with these lanes and columns."""
        lanes.flags.writeable = False
        neighbours = lanes[-1] - lanes[0] == len(lanes) - 1
        return cls(lanes, first, stop, slice(int(lanes[0]), int(lanes[-1]) + 1) if neighbours else lanes)


EVERY_LANE = PartOfD.of(np.arange(LANES, dtype=np.int64), 0, 0)
"""All lanes, for a region of them."""


@lru_cache(maxsize=256)
def parts_of(m: int, n: int, group: int, lane: int) -> tuple[PartOfD, ...]:
    """The parts of D in each CTA that takes part; rows are the CTA's own."""
    rows = m // group
    row = np.arange(rows, dtype=np.int64)
    if group == 2 and rows == 64:
        return (PartOfD.of(row, 0, n // 2), PartOfD.of(row + 64, n // 2, n))
    if rows == 64:
        return (PartOfD.of(lane + 32 * (row // 16) + row % 16, 0, n),)
    return (PartOfD.of(row, 0, n),)


@lru_cache(maxsize=1024)
def region_of(part: PartOfD, column: int, columns: int) -> Region:
    """A part's lanes in columns of tensor memory; equal arguments give the same object."""
    mask = np.zeros(LANES, dtype=np.bool_)
    mask[part.lanes] = True
    return Region(mask, column, column + columns)


@lru_cache(maxsize=1024)
def along_k(matrices: tuple[SharedMatrix, ...], *, k_major: bool) -> NDArray[np.int64]:
    """The chunks of several matrices, concatenated along K."""
    if len(matrices) == 1:
        return matrices[0].chunks
    return np.concatenate([matrix.chunks for matrix in matrices], axis=1 if k_major else 0)
