"""Hazards with their severity, and how a launch reports one: it ends, or it keeps a note and goes on.

error    the launch ends: on hardware the result could be another, or the kernel could hang or fault
warning  the launch goes on: the result is defined, and very likely not the one that was meant
note     the launch goes on: the document asks for something that the program leaves out, and what ptxas or
         the hardware does makes up for it

`launch(..., hazards={name: severity})` gives a hazard another severity, or "off".

Source: PTX ISA 9.0, Memory Consistency Model for 5th generation of TensorCore operations
        (#tcgen05-memory-consistency-model).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutecourse.emulator import errors
from cutecourse.emulator.errors import EmulatorError, LaunchError

if TYPE_CHECKING:
    from cutecourse.emulator.mbarrier_state import Origin

__all__ = ["HAZARDS", "SEVERITIES", "Hazard", "Note", "report", "severities"]

SEVERITIES = ("error", "warning", "note", "off")


@dataclass(frozen=True, slots=True)
class Hazard:
    """What can go wrong in a kernel, and how grave it is where a launch does not say otherwise."""

    name: str
    severity: str
    """"error", "warning" or "note"."""
    what: str
    why: str
    """Why it has this severity."""
    error: str = ""
    """The class of the error that ends a launch."""
    fixed: bool = False
    """Whether a launch cannot choose another severity, since it could not go on."""


_SHARED = (
    Hazard(
        "race",
        "error",
        "two warps use the same bytes of shared memory, at least one writes, and no barrier, mbarrier or"
        " atomic lies between them",
        "the hardware may run them in either order",
        "SharedMemoryRace",
    ),
    Hazard(
        "read before its wait",
        "error",
        "shared memory that an asynchronous copy writes is used by a thread, a copy or a tcgen05.mma whose"
        " thread has not waited for the copy's mbarrier or group",
        "the bytes need not be there yet",
        "ReadBeforeWait",
    ),
    Hazard(
        "stage reused early",
        "error",
        "a copy writes over shared memory that others have read or still read, and its thread has waited"
        " for nothing that comes behind those reads",
        "they may read the new bytes",
        "StageReusedEarly",
    ),
)
_MEANING = (
    Hazard(
        "another layout",
        "warning",
        "a tcgen05.mma reads a matrix by another layout (swizzle, stride, major) than the one in which a"
        " copy wrote it",
        "every byte is defined, and the product is of shuffled matrices",
        "OperandLayoutMismatch",
    ),
    Hazard(
        "operand read twice",
        "warning",
        "one operand of a tcgen05.mma has the same bytes of shared memory at several places",
        "every byte is defined; rows that stand for several are rarely meant",
        "OperandReadTwice",
    ),
    Hazard(
        "another k",
        "warning",
        "the columns of A and the rows of B that a tcgen05.mma multiplies are not of the same k in the"
        " tensors that they were loaded from",
        "every byte is defined, and the product is none of these tensors",
        "ReductionMismatch",
    ),
    Hazard(
        "loaded and never read",
        "warning",
        "bytes that a copy brought into shared memory were overwritten, or their block ended, unread",
        "the result does not depend on what was asked for",
        "UnreadLoad",
    ),
    Hazard(
        "sum never read",
        "warning",
        "sums in tensor memory were overwritten or freed, and nobody had read them",
        "the result lacks products that were computed",
        "UnreadSum",
    ),
    Hazard(
        "sum read in another type",
        "warning",
        "sums of 16 bits are read from tensor memory as words of 32, without .pack::16b",
        "the other half of each word is not a sum's",
        "SumTypeMismatch",
    ),
)
_TENSOR_MEMORY = (
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
HAZARDS = {hazard.name: hazard for hazard in (*_SHARED, *_MEANING, *_TENSOR_MEMORY)}
"""Every hazard, by name."""


_LONGEST = 100
"""Characters of an instruction that a note shows."""


@dataclass(slots=True)
class Note:
    """A hazard that a launch met and went on: where first, and how often."""

    hazard: Hazard
    severity: str
    """In this launch: "warning" or "note"."""
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
            f"{self.severity}: {self.problem} ({self.hazard.why})\n"
            f"  at kernel {self.kernel}, PTX line {self.line}, first in block {self.block}, warp {self.warp}"
            f"{times}\n  {text}"
        )


def severities(chosen: Mapping[str, str] | None, kernel: str) -> dict[str, str]:
    """Each hazard's severity in a launch that chooses some. Errors: LaunchError."""
    found = {name: hazard.severity for name, hazard in HAZARDS.items()}
    for name, severity in (chosen or {}).items():
        if name not in HAZARDS:
            raise LaunchError(
                f"hazards={{{name!r}: ...}}: there is no such hazard; there are {', '.join(HAZARDS)}",
                kernel=kernel,
            )
        if severity not in SEVERITIES:
            raise LaunchError(
                f"hazards={{{name!r}: {severity!r}}}: a severity is one of {', '.join(SEVERITIES)}",
                kernel=kernel,
            )
        if HAZARDS[name].fixed and severity != found[name]:
            raise LaunchError(
                f"hazards={{{name!r}: {severity!r}}}: a launch cannot go on from it, it is always an error",
                kernel=kernel,
            )
        found[name] = severity
    return found


def report(
    hazard: str, problem: str | Callable[[], str], origin: Origin, other_line: int | None = None
) -> None:
    """Report a hazard that an instruction of a thread meets: raise its error, or keep a note, or neither.

    `problem` is its text, or what makes the text, which is asked for only where it is needed: of notes those
    at the same pair of lines are one, and counted. Where the severity is not "error" it returns, and the
    caller goes on as the hardware might.

    Errors: the hazard's own.
    """
    site, bundle = origin.site, origin.bundle
    severity = bundle.machine.severities[hazard]
    if severity == "off":
        return
    if severity == "error":
        kind: type[EmulatorError] = getattr(errors, HAZARDS[hazard].error)
        raise origin.error(kind, problem if isinstance(problem, str) else problem())
    notes = bundle.machine.notes
    key = (hazard, site.line, other_line)
    found = notes.get(key)
    if found is not None:
        found.count += 1
        return
    block, warp, _ = bundle.where(origin.lane)
    notes[key] = Note(
        hazard=HAZARDS[hazard],
        severity=severity,
        problem=problem if isinstance(problem, str) else problem(),
        kernel=site.program.kernel,
        line=site.line,
        other_line=other_line,
        text=site.program.module.line_text(site.line).strip(),
        block=block,
        warp=warp,
    )
