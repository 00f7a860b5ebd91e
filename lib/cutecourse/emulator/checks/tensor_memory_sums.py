"""Checks that sums of tcgen05.mma in tensor memory are read at all, and are read in their own type.

Lanes are tracked in groups of 16. The checks follow the order in which operations are issued; other checks
report reads that come too early. A tcgen05.ld reads sums, and so does a tcgen05.mma that takes them as A. A
tcgen05.mma that adds to sums takes them over. Sums that are zero need not be read, because tiles outside a
tensor have no others. A kernel without tcgen05.ld is not checked: it only times its MMAs, say.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Cohort
from cutecourse.emulator.core.facts import Pipe
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.program import Program
from cutecourse.emulator.core.report import report
from cutecourse.emulator.memory.regions import GROUP, Region
from cutecourse.emulator.memory.tensor_memory import COLUMNS, LANES, TensorMemory

__all__ = ["SumChecks", "follow_sums"]

_TYPES = {"f32": 1, "f16": 2, "s32": 4}
_NAMES = {number: name for name, number in _TYPES.items()}
_CHECKS = ("sum never read", "sum read in another type")


def follow_sums(cohort: Cohort) -> SumChecks | None:
    """Make the observer of a cohort's sums; None without tcgen05.ld, or if the launch wants no report."""
    machine = cohort.machine
    if all(machine.severities.is_off(name) for name in _CHECKS):
        return None
    return SumChecks() if machine.program.own(_loads_any) else None


def _loads_any(program: Program) -> bool:
    """True if a program has tcgen05.ld."""
    return any(facts.pipe is Pipe.TENSOR_LOADS for _, facts in program.stated)


class _Sums:
    """The sums in one CTA's tensor memory: who wrote those that nobody has read, and the types of all."""

    def __init__(self) -> None:
        shape = (LANES // GROUP, COLUMNS)
        self.unread: NDArray[np.int32] = np.zeros(shape, dtype=np.int32)
        """For each cell that nobody has read, its writer's number in `origins`, from 1; 0 for other cells."""
        self.type: NDArray[np.int8] = np.zeros(shape, dtype=np.int8)
        """The type of the sum in each cell, as in `_TYPES`; 0 if there is none."""
        self.origins: list[Origin] = []
        self.numbers: dict[int, int] = {}
        """The number of each instruction's origin, by the identity of its site."""
        self.types = 0
        """All types of sums so far, as bits."""
        self.last: tuple[Region, str] | None = None
        """The last write, if no other event followed: adding to the same sums changes nothing here."""


class SumChecks(Observer):
    """Checks the sums in all tensor memories of a cohort."""

    def __init__(self) -> None:
        self._of: defaultdict[TensorMemory, _Sums] = defaultdict(_Sums)

    # --- what happens ---------------------------------------------------------------------------------------

    def tensor_summed(
        self, memory: TensorMemory, region: Region, origin: Origin, kind: str, *, adds: bool
    ) -> None:
        """Check that replaced sums have been read, and that sums to add to have the same type."""
        sums = self._of[memory]
        if adds and sums.last == (region, kind):
            return
        if not adds:
            unread = sums.unread[region.tracked]
            if unread.any():
                line = sums.origins[int(unread.max()) - 1].site.line
                if _may_be_lost(memory, region, sums.unread):
                    report(
                        "sum never read",
                        partial(_anew, region, origin.bundle.program.line_in_words(line)),
                        origin,
                        line,
                    )
        else:
            types = sums.type[region.tracked]
            other = (types != 0) & (types != _TYPES[kind])
            if other.any():
                held = _NAMES[int(types[other][0])]
                report("sum read in another type", partial(_adds, region, kind, held), origin)
        number = sums.numbers.get(id(origin.site))
        if number is None:
            sums.origins.append(origin)
            number = sums.numbers[id(origin.site)] = len(sums.origins)
        sums.origins[number - 1] = origin
        sums.unread[region.tracked] = number
        sums.type[region.tracked] = _TYPES[kind]
        sums.last = (region, kind)
        sums.types |= _TYPES[kind]

    def tensor_multiplied(self, memory: TensorMemory, region: Region) -> None:
        """Note that sums are read as A."""
        sums = self._of[memory]
        sums.unread[region.tracked] = 0
        sums.last = None

    def tensor_loaded(self, memory: TensorMemory, region: Region, origin: Origin, *, packed: bool) -> None:
        """Note that sums are read, and check that they have the type that the load unpacks."""
        self.tensor_multiplied(memory, region)
        sums = self._of[memory]
        wrong = _TYPES["f32"] | _TYPES["s32"] if packed else _TYPES["f16"]
        if sums.types & wrong:
            held = sums.type[region.tracked]
            other = held[held & wrong != 0]
            if other.size:
                report("sum read in another type", partial(_loads, region, _NAMES[int(other[0])]), origin)

    def tensor_stored(self, memory: TensorMemory, region: Region) -> None:
        """Note that a region no longer holds sums."""
        self.tensor_multiplied(memory, region)
        self._of[memory].type[region.tracked] = 0

    def tensor_freed(self, memory: TensorMemory, start: int, columns: int, origin: Origin) -> None:
        """Check that the sums in freed columns have been read."""
        sums, held = self._of[memory], slice(start, start + columns)
        numbers = np.unique(sums.unread[:, held]).tolist() if sums.unread[:, held].any() else []
        for number in numbers:
            unread = (sums.unread[:, held] == number).repeat(GROUP, axis=0) & _not_zero(memory, held)
            if number and unread.any():
                problem = partial(_freed, unread, start, origin.site.in_words)
                report("sum never read", problem, sums.origins[number - 1], origin.site.line)
        sums.unread[:, held] = 0
        sums.type[:, held] = 0
        sums.last = None


def _may_be_lost(memory: TensorMemory, region: Region, unread: NDArray[np.int32]) -> bool:
    """False if all unread sums of a region are known to be zero."""
    if any(moving.writes and moving.region.meets(region) for moving in memory.moving):
        return True
    columns = slice(region.first, region.stop)
    lanes = np.repeat(unread[:, columns] != 0, GROUP, axis=0) & region.lanes[:, None]
    return bool((lanes & _not_zero(memory, columns)).any())


def _not_zero(memory: TensorMemory, columns: slice) -> NDArray[np.bool_]:
    """True for each cell that holds neither +0 nor -0."""
    found: NDArray[np.bool_] = (memory.cells[:, columns] << np.uint32(1)) != 0
    return found


# --- in words -----------------------------------------------------------------------------------------------


def _anew(region: Region, line: str) -> str:
    return (
        f"D starts a new sum in {region}, but the sums that the tcgen05.mma of line {line} put"
        " there were never read: should this one add to them (enable-input-d)?"
    )


def _freed(unread: NDArray[np.bool_], start: int, line: str) -> str:
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


def _loads(region: Region, held: str) -> str:
    if held != "f16":
        return f"tcgen05.ld reads the low halves of {region} (.pack::16b), but the sums there are {held}"
    return (
        f"tcgen05.ld reads words of 32 bits from {region}, but the sums there are f16, one in the low half of"
        " each word. Is .pack::16b missing, or is the dtype in the instruction descriptor wrong?"
    )
