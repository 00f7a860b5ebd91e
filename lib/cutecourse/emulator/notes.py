"""Hazards with their severity, and the notes that a launch takes of those that do no harm on hardware.

An error ends the launch: the result could be wrong. A note is kept in the launch's result: the document asks
for something that the program leaves out, and what ptxas or the hardware does makes up for it.

Source: PTX ISA 9.0, Memory Consistency Model for 5th generation of TensorCore operations
        (#tcgen05-memory-consistency-model).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cutecourse.emulator.mbarrier_state import Origin

__all__ = ["HAZARDS", "Hazard", "Note", "take_note"]


@dataclass(frozen=True, slots=True)
class Hazard:
    """What can go wrong between asynchronous operations and others, and how grave it is."""

    name: str
    severity: str
    """"error" or "note"."""
    what: str
    why: str
    """Why it has this severity."""
    error: str = ""
    """The error's class, where it is one."""


_ROWS = (
    Hazard(
        "read before written",
        "error",
        "tensor memory is read, written or freed while a tcgen05.mma, cp or st has still to write it",
        "nothing orders them: the hardware gives either value",
        "TensorMemoryHazard",
    ),
    Hazard(
        "written before read",
        "error",
        "tensor memory is written or freed while a tcgen05.mma has still to read A there",
        "nothing orders them",
        "TensorMemoryHazard",
    ),
    Hazard(
        "source overwritten",
        "error",
        "shared memory is written while a tcgen05.mma or cp has still to read it",
        "nothing orders them",
        "OverwrittenSource",
    ),
    Hazard(
        "no proxy fence",
        "error",
        "a tcgen05.mma or cp reads shared memory that threads have written with no fence.proxy.async since",
        "the asynchronous proxy need not see the threads' stores",
        "MissingProxyFence",
    ),
    Hazard(
        "load under way",
        "error",
        "tensor memory is written or freed after a tcgen05.ld whose warp has not come to its"
        " tcgen05.wait::ld, or which has none and does not use a loaded register before it tells others",
        "nothing orders them",
        "TensorMemoryHazard",
    ),
    Hazard(
        "load not waited for",
        "note",
        "tensor memory is written or freed after a tcgen05.ld with no tcgen05.wait::ld, and the thread uses"
        " a loaded register before it tells others",
        "the document asks for the wait; ptxas makes the use of a register wait for its load",
    ),
    Hazard(
        "no fence after",
        "note",
        "tensor memory that others have written or read is used with no tcgen05.fence::after_thread_sync"
        " since",
        "the document asks for the fence; the CuTe DSL leaves it out, and ptxas keeps the instruction behind"
        " the wait",
    ),
    Hazard(
        "no fence before",
        "note",
        "a tcgen05.mma, cp or st uses tensor memory that another warp has loaded or stored, and that warp"
        " has executed no tcgen05.fence::before_thread_sync since",
        "the document asks for the fence; a warp that has waited for its loads and stores has no other left",
    ),
    Hazard(
        "another warp frees",
        "note",
        "a tcgen05.dealloc or relinquish_alloc_permit is executed by another warp than the tcgen05.alloc",
        "the document has one warp perform allocation and deallocation, and can be read either way; CUTLASS's"
        " example 77 frees in another warp",
    ),
    Hazard(
        "order not promised",
        "note",
        "a tcgen05.mma uses tensor memory that an earlier tcgen05.mma reads, or writes as another"
        " accumulator or in another shape, or a tcgen05.cp what an earlier tcgen05.mma or cp reads or writes,"
        " and nobody has waited between",
        "the document orders two tcgen05.mma of one accumulator, shape and kind, and a tcgen05.mma behind a"
        " tcgen05.cp; the tensor core executes all in the order of issue, says Triton's tutorial of"
        " tcgen05.cp",
    ),
)
HAZARDS = {hazard.name: hazard for hazard in _ROWS}
"""Every hazard of tensor memory and of its operations' sources, by name."""


_LONGEST = 100
"""Characters of an instruction that a note shows."""


@dataclass(slots=True)
class Note:
    """A hazard that a launch met and went on: where first, and how often."""

    hazard: Hazard
    problem: str
    kernel: str
    line: int
    """Of the PTX text: the instruction at which it was seen."""
    other_line: int | None
    """That of the instruction that it is in conflict with."""
    text: str
    block: tuple[int, int, int]
    warp: int
    count: int = 1

    def __str__(self) -> str:
        times = "" if self.count == 1 else f", {self.count} times"
        text = self.text if len(self.text) <= _LONGEST else self.text[: _LONGEST - 3] + "..."
        return (
            f"note: {self.problem} ({self.hazard.why})\n"
            f"  at kernel {self.kernel}, PTX line {self.line}, first in block {self.block}, warp {self.warp}"
            f"{times}\n  {text}"
        )


def take_note(hazard: str, problem: str | Callable[[], str], origin: Origin, other_line: int | None) -> None:
    """Keep a note of a hazard, or count one more of those at the same pair of lines.

    `problem` is its text, or what makes the text, which is asked for the first time only.
    """
    site, bundle = origin.site, origin.bundle
    notes = bundle.machine.notes
    key = (hazard, site.line, other_line)
    found = notes.get(key)
    if found is not None:
        found.count += 1
        return
    block, warp, _ = bundle.where(origin.lane)
    notes[key] = Note(
        hazard=HAZARDS[hazard],
        problem=problem if isinstance(problem, str) else problem(),
        kernel=site.program.kernel,
        line=site.line,
        other_line=other_line,
        text=site.program.module.line_text(site.line).strip(),
        block=block,
        warp=warp,
    )
