"""A check that what tcgen05.cp brings to tensor memory is read: scale factors, mostly, or a matrix A.

A copy counts as read if an operation reads one of its cells after its issue, because a tcgen05.mma with few
columns takes a part of the scale factors only. Lanes are tracked in groups of 16.
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

__all__ = ["CopiedCells", "copies_to_tensor_memory", "follow_copied_cells"]

_HAZARD = "loaded and never read"


def follow_copied_cells(cohort: Cohort) -> CopiedCells | None:
    """Make the observer of a cohort's tcgen05.cp; None if the kernel has none, or wants no report."""
    machine = cohort.machine
    copies = machine.program.own(copies_to_tensor_memory)
    return CopiedCells() if copies and not machine.severities.is_off(_HAZARD) else None


def copies_to_tensor_memory(program: Program) -> bool:
    """True if a program has tcgen05.cp."""
    return any(
        facts.pipe is Pipe.TCGEN05 and not facts.multiplies_asynchronously and facts.writes("tensor")
        for _, facts in program.stated
    )


class _Cells:
    """The copies in one CTA's tensor memory."""

    def __init__(self) -> None:
        self.number: NDArray[np.int32] = np.zeros((LANES // GROUP, COLUMNS), dtype=np.int32)
        """For each cell that a copy wrote last, the copy's number, from 1; 0 for other cells."""
        self.count = 0
        self.unread: dict[int, tuple[Origin, Region]] = {}


class CopiedCells(Observer):
    """Follows the copies in all tensor memories of a cohort."""

    def __init__(self) -> None:
        self._of: defaultdict[TensorMemory, _Cells] = defaultdict(_Cells)

    def tensor_used(
        self, memory: TensorMemory, region: Region, what: str, origin: Origin, *, writes: bool, pipeline: str
    ) -> None:
        """Note a read of a copy's cells, or report a copy that is written over before any read."""
        cells = self._of[memory]
        held = cells.number[region.tracked]
        if not writes:
            for number in np.unique(held).tolist() if cells.unread else ():
                cells.unread.pop(number, None)
            return
        self._lost(cells, held, f"overwritten at line {origin.site.in_words}", origin.site.line)
        copies = pipeline == "cp"
        cells.count += copies
        cells.number[region.tracked] = cells.count if copies else 0
        if copies:
            cells.unread[cells.count] = (origin, region)

    def tensor_freed(self, memory: TensorMemory, start: int, columns: int, origin: Origin) -> None:
        """Report copies to freed columns that nothing has read."""
        held = self._of[memory].number[:, start : start + columns]
        self._lost(self._of[memory], held, f"freed at line {origin.site.in_words}", origin.site.line)
        held[:] = 0

    @staticmethod
    def _lost(cells: _Cells, held: NDArray[np.int32], how: str, line: int) -> None:
        for number in np.unique(held).tolist() if cells.unread else ():
            if number in cells.unread:
                origin, region = cells.unread.pop(number)
                report(_HAZARD, partial(_unread, region, how), origin, line)


def _unread(region: Region, how: str) -> str:
    return (
        f"{region} of tensor memory, to which this copies, were {how} before anything read them. Does the"
        " tcgen05.mma take its scale factors or its A from other columns?"
    )
