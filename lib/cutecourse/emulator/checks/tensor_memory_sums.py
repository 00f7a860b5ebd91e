"""Sums in tensor memory: whether anybody reads what a tcgen05.mma has put there, and in which type.

Cells are told apart by groups of 16 lanes. What counts is the order in which operations are issued: whoever
reads too early is told so elsewhere. A sum has been read by a tcgen05.ld, or as a tcgen05.mma's A; a
tcgen05.mma that adds to it makes it its own. Sums that are zero need not be read: tiles outside of a tensor
have no others. Of a kernel without tcgen05.ld nothing is said, it multiplies for the sake of it.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Cohort
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.memory.regions import GROUP, Region, groups
from cutecourse.emulator.memory.tensor_memory import COLUMNS, LANES, TensorMemory

__all__ = ["SumChecks", "Sums", "follow_sums"]

_TYPES = {"f32": 1, "f16": 2}
_NAMES = {number: name for name, number in _TYPES.items()}
_CHECKS = ("sum never read", "sum read in another type")


def follow_sums(cohort: Cohort) -> SumChecks | None:
    """Listen where the kernel reads sums with tcgen05.ld, and the launch wants a report."""
    machine = cohort.machine
    if all(machine.severities[name] == "off" for name in _CHECKS):
        return None
    every = (one for flat in machine.program.flat.values() for one in flat.instructions)
    if any(one.opcode == "tcgen05" and one.modifiers[:1] == ("ld",) for one in every):
        return SumChecks()
    return None


class SumChecks(Observer):
    """The sums in all tensor memories of a cohort."""

    def __init__(self) -> None:
        self._of: dict[TensorMemory, Sums] = {}

    def _sums(self, memory: TensorMemory) -> Sums:
        found = self._of.get(memory)
        if found is None:
            found = self._of[memory] = Sums(LANES, COLUMNS)
        return found

    def tensor_summed(
        self, memory: TensorMemory, region: Region, origin: Origin, kind: str, *, adds: bool
    ) -> None:
        """See `Sums.written`."""
        self._sums(memory).written(memory, region, origin, kind, adds=adds)

    def tensor_multiplied(self, memory: TensorMemory, region: Region) -> None:
        """See `Sums.read`."""
        self._sums(memory).read(region)

    def tensor_loaded(self, memory: TensorMemory, region: Region, origin: Origin, *, packed: bool) -> None:
        """See `Sums.loaded`."""
        self._sums(memory).loaded(region, origin, packed=packed)

    def tensor_stored(self, memory: TensorMemory, region: Region) -> None:
        """See `Sums.stored`."""
        self._sums(memory).stored(region)

    def tensor_freed(self, memory: TensorMemory, start: int, columns: int, origin: Origin) -> None:
        """See `Sums.freed`."""
        self._sums(memory).freed(memory, start, columns, origin)


class Sums:
    """The sums of one CTA's tensor memory that nobody has read, and the types of all."""

    def __init__(self, lanes: int, columns: int) -> None:
        shape = (lanes // GROUP, columns)
        self.unread: NDArray[np.int32] = np.zeros(shape, dtype=np.int32)
        """Which of `origins`, counted from 1, has written a cell that nobody has read; 0 for others."""
        self.type: NDArray[np.int8] = np.zeros(shape, dtype=np.int8)
        """Of the sum in a cell; 0 where there is none."""
        self.origins: list[Origin] = []
        self._numbers: dict[int, int] = {}
        self._types = 0
        """All types of sums so far, as bits."""
        self._last: tuple[Region, str] | None = None
        """The last write, if nothing came after it: adding to it changes nothing here."""

    # --- what happens ---------------------------------------------------------------------------------------

    def written(self, memory: TensorMemory, region: Region, origin: Origin, kind: str, *, adds: bool) -> None:
        """A tcgen05.mma writes sums of a type, and `adds` to what is there."""
        if adds and self._last == (region, kind):
            return
        rows, columns = groups(region), slice(region.first, region.stop)
        if not adds:
            unread = self.unread[rows, columns]
            if unread.any():
                self._overwritten(memory, region, unread, origin)
        else:
            types = self.type[rows, columns]
            other = (types != 0) & (types != _TYPES[kind])
            if other.any():
                held = _NAMES[int(types[other][0])]
                problem = partial(_adds, region, kind, held)
                report("sum read in another type", problem, origin)
        number = self._numbers.get(id(origin.site))
        if number is None:
            self.origins.append(origin)
            number = self._numbers[id(origin.site)] = len(self.origins)
        self.origins[number - 1] = origin
        self.unread[rows, columns] = number
        self.type[rows, columns] = _TYPES[kind]
        self._last = (region, kind)
        self._types |= _TYPES[kind]

    def read(self, region: Region) -> None:
        """A tcgen05.mma reads A here."""
        self.unread[groups(region), region.first : region.stop] = 0
        self._last = None

    def loaded(self, region: Region, origin: Origin, *, packed: bool) -> None:
        """A warp loads a region into registers of 32 bits, which are `packed` of two columns or are not."""
        rows, columns = groups(region), slice(region.first, region.stop)
        self.unread[rows, columns] = 0
        self._last = None
        wrong = _TYPES["f32" if packed else "f16"]
        if self._types & wrong and (self.type[rows, columns] == wrong).any():
            report("sum read in another type", partial(_loads, region, packed=packed), origin)

    def stored(self, region: Region) -> None:
        """Threads or a tcgen05.cp write something else."""
        rows, columns = groups(region), slice(region.first, region.stop)
        self.unread[rows, columns] = 0
        self.type[rows, columns] = 0
        self._last = None

    def freed(self, memory: TensorMemory, start: int, columns: int, origin: Origin) -> None:
        """Columns are freed: what was in them is gone."""
        held = slice(start, start + columns)
        numbers = np.unique(self.unread[:, held]).tolist() if self.unread[:, held].any() else []
        for number in numbers:
            unread = (self.unread[:, held] == number).repeat(GROUP, axis=0)
            unread &= (memory.cells[:, held] << np.uint32(1)) != 0
            if number and unread.any():
                problem = partial(_freed, unread, start, origin.site.line)
                report("sum never read", problem, self.origins[number - 1], origin.site.line)
        self.forget(start, columns)

    def forget(self, start: int, columns: int) -> None:
        """Columns are another's now."""
        self.unread[:, start : start + columns] = 0
        self.type[:, start : start + columns] = 0
        self._last = None

    # --- what is wrong --------------------------------------------------------------------------------------

    def _overwritten(
        self, memory: TensorMemory, region: Region, unread: NDArray[np.int32], origin: Origin
    ) -> None:
        """Report sums that are gone, unless they are known to be zero."""
        if not any(moving.writes and moving.region.meets(region) for moving in memory.moving):
            lanes = np.repeat(self.unread != 0, GROUP, axis=0) & region.lanes[:, None]
            columns = slice(region.first, region.stop)
            if not (lanes[:, columns] & ((memory.cells[:, columns] << np.uint32(1)) != 0)).any():
                return
        line = self.origins[int(unread.max()) - 1].site.line
        report("sum never read", partial(_anew, region, line), origin, line)


# --- in words -----------------------------------------------------------------------------------------------


def _anew(region: Region, line: int) -> str:
    return (
        f"D starts a new sum in {region}, but the sums that the tcgen05.mma of line {line} put"
        " there were never read: should this one add to them (enable-input-d)?"
    )


def _freed(unread: NDArray[np.bool_], start: int, line: int) -> str:
    lanes, columns = (np.flatnonzero(unread.any(axis=axis)) for axis in (1, 0))
    return (
        f"{int(unread.sum())} sums of this tcgen05.mma in lanes {lanes[0]}..{lanes[-1]}, columns"
        f" {start + int(columns[0])}..{start + int(columns[-1])} were freed at line {line} but never"
        " read. Should a tcgen05.ld read more lanes or columns?"
    )


def _adds(region: Region, kind: str, held: str) -> str:
    return (
        f"D uses {region} as {kind}, but the sums that it adds to are {held}. All tcgen05.mma of one"
        " accumulator must have the same dtype in their instruction descriptors."
    )


def _loads(region: Region, *, packed: bool) -> str:
    if packed:
        return f"tcgen05.ld reads the low halves of {region} (.pack::16b), but the sums there are f32"
    return (
        f"tcgen05.ld reads words of 32 bits from {region}, but the sums there are f16, one in the low half of"
        " each word. Is .pack::16b missing, or is the dtype in the instruction descriptor wrong?"
    )
