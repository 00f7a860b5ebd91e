"""How a launch reports a hazard: it ends, or it keeps a note and goes on, or neither, as the launch chose.

The hazards, with their severities and error classes, are in emulator.core.hazard_table.
`launch(..., hazards={name: severity})` gives one another severity, or "off".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutecourse.emulator import errors
from cutecourse.emulator.core.hazard_table import HAZARDS, SEVERITIES, Hazard
from cutecourse.emulator.errors import EmulatorError, LaunchError
from cutecourse.ptx.sources import source_of

if TYPE_CHECKING:
    from cutecourse.emulator.core.origin import Origin
    from cutecourse.ptx.sources import SourceLine

__all__ = ["HAZARDS", "SEVERITIES", "Hazard", "Note", "report", "severities"]


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
    source: SourceLine | None = None
    """The line of the source language, where the text has `.loc`."""
    count: int = 1

    def __str__(self) -> str:
        times = "" if self.count == 1 else f", {self.count} times"
        source = f" ({self.source})" if self.source else ""
        text = self.text if len(self.text) <= _LONGEST else self.text[: _LONGEST - 3] + "..."
        return (
            f"{self.severity}: {self.problem} ({self.hazard.why})\n"
            f"  at kernel {self.kernel}, PTX line {self.line}{source}, first in block {self.block}, warp"
            f" {self.warp}{times}\n  {text}"
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
                f"hazards={{{name!r}: {severity!r}}}: a launch cannot continue after it, so it is"
                " always an error",
                kernel=kernel,
            )
        found[name] = severity
    return found


def report(
    hazard: str,
    problem: str | Callable[[], str],
    origin: Origin,
    other_line: int | None = None,
    *,
    address: int | None = None,
    allocation: str | None = None,
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
        text = problem if isinstance(problem, str) else problem()
        raise origin.error(kind, text, address=address, allocation=allocation)
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
        source=source_of(site.program.module, site.line),
    )
