"""Regions of tensor memory: some lanes of some neighbouring columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["GROUP", "Region"]

GROUP = 16
"""Lanes are tracked in groups of this size."""


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Some lanes of some neighbouring columns: `lanes` has one truth value for each lane."""

    lanes: NDArray[np.bool_]
    first: int
    stop: int
    bits: int = field(init=False)
    """The lanes as bits."""
    tracked: tuple[slice, slice] = field(init=False)
    """The index of the region in an array that has a row for each group of lanes, and the columns."""

    def __post_init__(self) -> None:
        bits = int.from_bytes(np.packbits(self.lanes, bitorder="little").tobytes(), "little")
        object.__setattr__(self, "bits", bits)
        object.__setattr__(self, "tracked", (_groups_of(bits), slice(self.first, self.stop)))

    def same(self, other: Region) -> bool:
        """Return whether both regions have the same cells."""
        return self is other or (
            self.first == other.first and self.stop == other.stop and self.bits == other.bits
        )

    def meets(self, other: Region) -> bool:
        """Return whether the regions share a cell."""
        return self.first < other.stop and other.first < self.stop and bool(self.bits & other.bits)

    def __str__(self) -> str:
        lanes = np.flatnonzero(self.lanes)
        return f"lanes {lanes[0]}..{lanes[-1]}, columns {self.first}..{self.stop - 1}"


@cache
def _groups_of(bits: int) -> slice:
    """The groups of lanes that bits stand for: neighbours, or every other one, as with M = 64."""
    found = [group for group in range(128 // GROUP) if bits >> GROUP * group & (1 << GROUP) - 1]
    step = found[1] - found[0] if len(found) > 1 else 1
    return slice(found[0], found[-1] + 1, step)
