"""The severity of each hazard in a launch, and the notes on hazards that did not end it.

`launch(..., hazards={name: severity})` gives a hazard another severity, or "off".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutecourse.emulator.errors import HAZARDS, SEVERITIES, Hazard, LaunchError
from cutecourse.ptx.sources import SourceLine

__all__ = ["Note", "severities"]


_LONGEST = 100
"""A note shows at most this many characters of an instruction."""


@dataclass(slots=True)
class Note:
    """A hazard that did not end the launch: where it was first seen, and how often."""

    hazard: Hazard
    severity: str
    """In this launch: "warning" or "note"."""
    problem: str
    kernel: str
    line: int
    """The PTX line of the instruction at which the hazard was seen."""
    other_line: int | None
    """The PTX line of the instruction that it conflicts with."""
    text: str
    block: tuple[int, int, int]
    warp: int
    source: SourceLine | None = None
    """The line of the source language, if the text has `.loc`."""
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


def severities(chosen: Mapping[str, str] | None) -> dict[str, str]:
    """Each hazard's severity in a launch that chooses some. Errors: LaunchError."""
    found = {name: hazard.severity for name, hazard in HAZARDS.items()}
    for name, severity in (chosen or {}).items():
        given = f"hazards={{{name!r}: {severity!r}}}"
        if name not in HAZARDS:
            known = ", ".join(HAZARDS)
            raise LaunchError(f"hazards={{{name!r}: ...}}: there is no such hazard; there are {known}")
        if severity not in SEVERITIES:
            raise LaunchError(f"{given}: a severity is one of {', '.join(SEVERITIES)}")
        if HAZARDS[name].fixed and severity != found[name]:
            raise LaunchError(f"{given}: a launch cannot continue after it, so it is always an error")
        found[name] = severity
    return found
