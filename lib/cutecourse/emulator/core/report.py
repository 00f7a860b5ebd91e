"""Reporting a hazard: the launch ends, keeps a note, or ignores it, depending on the chosen severity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutecourse.emulator.core.hazards import Note
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.errors import HAZARDS
from cutecourse.ptx.sources import source_of

__all__ = ["MOST_ERRORS", "report"]

MOST_ERRORS = 20
"""A launch that keeps going ends at the next error after so many."""


def report(
    hazard: str,
    problem: str | Callable[[], str],
    origin: Origin,
    other_line: int | None = None,
    **memory: Any,
) -> None:
    """Report a hazard at an instruction of a thread: raise its error, keep a note, or do neither.

    `problem` is the text, or a function that makes it. The function is called only if the text is needed:
    notes at the same pair of lines are counted as one. If the severity is not "error", or the launch keeps
    going after errors, this returns, and the caller goes on as the hardware might. `memory` gives the address
    and the allocation of an error.

    Errors: the hazard's own.
    """
    site, bundle = origin.site, origin.bundle
    severity = bundle.machine.severity(hazard, site.line, other_line)
    if severity == "off":
        return
    notes = bundle.machine.notes
    key = (hazard, site.line, other_line)
    found = notes.get(key)
    if found is not None:
        found.count += 1
        return
    if severity == "error":
        errors = sum(note.severity == "error" for note in notes.values())
        if not bundle.machine.keep_going or HAZARDS[hazard].fixed or errors == MOST_ERRORS:
            kind = HAZARDS[hazard].kind
            assert kind is not None
            raise origin.error(kind, problem if isinstance(problem, str) else problem(), **memory)
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
