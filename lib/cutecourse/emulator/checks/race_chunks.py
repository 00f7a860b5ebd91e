"""The last copy into each chunk of shared memory, for the race record, and what makes finding it fast.

One copy usually writes whole *sectors* of neighbouring chunks, so one number stands for all chunks of a
sector until they differ. Nothing here says what is ordered: see emulator.checks.race_operations.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.kinds import any_true

__all__ = ["CHUNK_SHIFT", "MIXED", "LastCopies", "Recent"]

CHUNK_SHIFT = 4
MIXED = -1
"""The number of a sector whose chunks differ."""
_SECTOR_SHIFT = 6
_SECTOR = 1 << _SECTOR_SHIFT
_KEPT = 8192

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Recent(dict[_Key, _Value]):
    """A cache that forgets everything when it is full."""

    def keep(self, key: _Key, value: _Value) -> None:
        """Remember a value."""
        if len(self) >= _KEPT:
            self.clear()
        self[key] = value


class LastCopies:
    """The number of the last copy into each chunk, 0 for none, and the sectors that threads have used."""

    def __init__(self, n_chunks: int) -> None:
        n_sectors = -(-n_chunks // _SECTOR)
        self._into = np.zeros(n_sectors * _SECTOR, dtype=np.int32)
        """The number for each chunk; valid in mixed sectors only."""
        self._sectors = np.zeros(n_sectors, dtype=np.int32)
        """The number that all chunks of a sector share, or `MIXED`."""
        self._few_sectors = self._sectors.data
        """A memoryview of `_sectors`: reading a few of them is faster through it."""
        self._touched = np.zeros(n_sectors, dtype=np.bool_)
        """True for each sector that threads have used."""

    def at(self, chunks: NDArray[np.int64]) -> NDArray[np.int32]:
        """The number for each of some chunks."""
        found: NDArray[np.int32] = self._sectors[chunks >> _SECTOR_SHIFT]
        mixed = found == MIXED
        if any_true(mixed):
            found = np.where(mixed, self._into[chunks], found)
        return found

    def numbers(self, chunks: NDArray[np.int64] | range) -> set[int]:
        """The numbers for some chunks, as a set."""
        if isinstance(chunks, range) and not (chunks.start | chunks.stop) % _SECTOR:
            sectors = self._few_sectors[chunks.start >> _SECTOR_SHIFT : chunks.stop >> _SECTOR_SHIFT]
            numbers = set(sectors.tolist())
            if MIXED not in numbers:
                return numbers
        return set(self.at(np.asarray(chunks)).tolist())

    def of_sectors(self, first: int, last: int) -> NDArray[np.int32]:
        """The numbers of the sectors from that of one chunk to that of another."""
        return self._sectors[first >> _SECTOR_SHIFT : (last >> _SECTOR_SHIFT) + 1]

    def put(self, number: int, chunks: NDArray[np.int64] | range) -> None:
        """Make a copy the last one into its chunks."""
        if isinstance(chunks, range):
            low, high = -(-chunks.start >> _SECTOR_SHIFT), chunks.stop >> _SECTOR_SHIFT
            if not (chunks.start | chunks.stop) % _SECTOR:
                self._sectors[low:high] = number
                return
            if low < high:
                self._sectors[low:high] = number
            first = range(chunks.start, min(low * _SECTOR, chunks.stop))
            for edge in (first, range(max(high * _SECTOR, first.stop), chunks.stop)):
                if edge:
                    self.put(number, np.arange(edge.start, edge.stop))
            return
        sectors = np.unique(chunks >> _SECTOR_SHIFT)
        whole = sectors[self._sectors[sectors] != MIXED]
        self._into.reshape(-1, _SECTOR)[whole] = self._sectors[whole][:, None]
        self._sectors[whole] = MIXED
        self._into[chunks] = number

    def touch(self, chunks: NDArray[np.int64]) -> None:
        """Note that threads use chunks."""
        self._touched[chunks >> _SECTOR_SHIFT] = True

    def are_touched(self, chunks: NDArray[np.int64] | range) -> bool:
        """True if threads may have used some of the chunks."""
        if isinstance(chunks, range):
            first, last = chunks.start >> _SECTOR_SHIFT, chunks.stop - 1 >> _SECTOR_SHIFT
            return any_true(self._touched[first : last + 1])
        return any_true(self._touched[chunks >> _SECTOR_SHIFT])
