"""Memory of a launch: allocations with their addresses, and the windows of the generic address space.

Each array argument and each module variable is an allocation of its own with unmapped gaps around it, so an
access past its end is detected. Shared memory belongs to cohorts and local memory to bundles; the generic
address space shows them through windows, as `cvta` and `isspacep` expect.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CONST_WINDOW",
    "GLOBAL_BASE",
    "LOCAL_WINDOW",
    "PARAM_WINDOW",
    "POISON",
    "RANK_SHIFT",
    "SHARED_WINDOW",
    "VARIABLE_BASE",
    "WINDOW_BITS",
    "WRITTEN",
    "Allocation",
    "Memory",
    "room_for",
]

WINDOW_BITS = 32
GLOBAL_BASE = 0x0002_0000_0000
VARIABLE_BASE = 0x6F00_0000_0000
"""The first address for variables in .global. Array arguments lie below it."""
CONST_WINDOW = 0x6FFE_0000_0000
PARAM_WINDOW = 0x6FFF_0000_0000
SHARED_WINDOW = 0x7000_0000_0000
LOCAL_WINDOW = 0x7100_0000_0000
RANK_SHIFT = 24
"""The bit position of the block's rank in an address of shared memory."""
POISON = 0xCB
"""The byte that fills shared and local memory and registers before anything is written."""
WRITTEN = 0xFF
"""The mark of a byte of global memory that the kernel has written, if writes are recorded."""

_ALIGNMENT = 1024
_GAP = 1 << 16


@dataclass(eq=False)
class Allocation:
    """A range of addresses and its bytes."""

    name: str
    space: str
    base: int
    data: NDArray[np.uint8]
    writable: bool = True
    element: np.dtype[Any] | None = None
    """The type of an array argument's elements; None for anything else."""
    was_read: bool = False
    was_written: bool = False
    written: NDArray[np.uint8] | None = None
    """`WRITTEN` for each byte that the kernel has written; None if writes are not recorded."""
    _marks: dict[tuple[int, int], NDArray[Any]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return len(self.data)

    @property
    def end(self) -> int:
        """The first address past the end."""
        return self.base + len(self.data)

    def words(self, bytes_: int, words: int = 1) -> NDArray[Any]:
        """The bytes as unsigned words, shape (N,) or (N, words); an incomplete word at the end is cut off."""
        return _as_words(self.data, bytes_, words)

    def marks(self, bytes_: int, words: int = 1) -> NDArray[Any] | None:
        """`written`, viewed as `words` views the bytes; None if writes are not recorded."""
        if self.written is None:
            return None
        found = self._marks.get((bytes_, words))
        if found is None:
            found = self._marks[bytes_, words] = _as_words(self.written, bytes_, words)
        return found

    def keep_account(self) -> None:
        """Start to record which bytes are written."""
        self.was_read = self.was_written = False
        self.written = np.zeros(len(self.data), dtype=np.uint8)
        self._marks.clear()


def _as_words(data: NDArray[np.uint8], bytes_: int, words: int) -> NDArray[Any]:
    view = data[: len(data) - len(data) % (bytes_ * words)].view(f"u{bytes_}")
    return view.reshape(-1, words) if words > 1 else view


def room_for(n_bytes: int) -> int:
    """The distance from an allocation's address to the next: its bytes and an unmapped gap."""
    return -(-(max(n_bytes, 1) + _GAP) // _ALIGNMENT) * _ALIGNMENT


class Memory:
    """The allocations of a launch in global, constant and parameter memory."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self._bases: list[int] = []
        self._next = GLOBAL_BASE

    def allocate(
        self,
        name: str,
        data: NDArray[np.uint8],
        element: np.dtype[Any] | None = None,
        *,
        writable: bool = True,
    ) -> Allocation:
        """Give an array's bytes an address in .global, aligned to 1024, with unmapped gaps around it."""
        base = self._next
        self._next += room_for(len(data))
        allocation = self.put(name, "global", base, data, writable=writable)
        allocation.element = element
        return allocation

    def put(
        self, name: str, space: str, base: int, data: NDArray[np.uint8], *, writable: bool = True
    ) -> Allocation:
        """Make bytes an allocation at a given address."""
        allocation = Allocation(name, space, base, data, writable)
        position = bisect_right(self._bases, base)
        self._bases.insert(position, base)
        self.allocations.insert(position, allocation)
        return allocation

    def find(self, address: int) -> Allocation | None:
        """The allocation that contains an address; None if there is none."""
        position = bisect_right(self._bases, address) - 1
        if position >= 0 and address < self.allocations[position].end:
            return self.allocations[position]
        return None

    def nearest(self, address: int) -> tuple[Allocation, int] | None:
        """The closest allocation, and how many bytes past its end (negative: before its start) it is."""
        position = bisect_right(self._bases, address)
        near = self.allocations[max(0, position - 1) : position + 1]
        distances = [(one, address - (one.base if address < one.base else one.end)) for one in near]
        return min(distances, key=lambda found: abs(found[1]), default=None)
