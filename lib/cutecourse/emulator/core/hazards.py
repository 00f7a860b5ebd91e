"""The severity of each hazard in a launch, and the notes on hazards that did not end it.

`launch(..., hazards={words: severity})` gives a hazard another severity, or "off". The words are

HAZARD [at FILE:LINE] [in KERNEL]      such as  race at gemm.cu:64 in gemm_kernel

HAZARD is a name from `HAZARDS`, with spaces or hyphens. `at` names a line of the source language, or a line
of the PTX text by its number alone; a hazard of two lines is meant if either is that line. `in` gives a part
of the kernel's name. Where several words fit, those with a line hold before those without, and later ones
before earlier ones. A file of suppressions has one of these a line, with its severity (`read_severities`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from cutecourse.emulator.errors import HAZARDS, SEVERITIES, Hazard, LaunchError
from cutecourse.ptx.demangle import short_name
from cutecourse.ptx.sources import SourceLine, source_of
from cutecourse.ptx.syntax import Module

__all__ = ["Note", "Severities", "grouped", "lowering", "read_severities", "severities"]


_LONGEST = 100
"""A note shows at most this many characters of an instruction."""
_MOST_HAZARDS, _MOST_PLACES = 9, 3
"""Limits of a summary of notes: hazards, and places of each."""
_PLACES = re.compile(r"(?: at (?P<at>\S+))?(?: in (?P<kernel>\S+))?")


@dataclass(slots=True)
class Note:
    """A hazard that did not end the launch: where it was first seen, and how often."""

    hazard: Hazard
    severity: str
    """In this launch: "warning" or "note"; "error" if the launch was told to keep going."""
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
        quoted = self.source.quoted() if self.source else []
        where = (
            f"at kernel {short_name(self.kernel)}, PTX line {self.line}{source}, first in block"
            f" {self.block}, warp {self.warp}{times}"
        )
        return "\n  ".join([f"{self.severity}: {self.problem} ({self.hazard.why})", where, text, *quoted])


@dataclass(frozen=True, slots=True)
class _Place:
    """A line of the source language, or of the PTX text if `file` is empty."""

    file: str
    line: int

    def holds(self, module: Module, lines: tuple[int | None, ...]) -> bool:
        """True if one of some PTX lines is this line, or was compiled or inlined from it."""
        if not self.file:
            return self.line in lines
        for line in lines:
            found = source_of(module, line)
            for source in found.chain() if found else ():
                path = source.path.replace("\\", "/")
                if source.line == self.line and (
                    source.file == self.file or ("/" + path).endswith("/" + self.file)
                ):
                    return True
        return False


@dataclass(slots=True)
class Severities:
    """The severity of each hazard in one launch, in the whole kernel and at single lines."""

    everywhere: dict[str, str]
    """By the hazard's name, where no line has a severity of its own."""
    at_lines: dict[str, list[tuple[_Place, str]]] = field(default_factory=dict)

    def is_off(self, hazard: str) -> bool:
        """True if a hazard is reported nowhere in the kernel."""
        kinds = [severity for _, severity in self.at_lines.get(hazard, ())]
        return all(severity == "off" for severity in (self.everywhere[hazard], *kinds))

    def at(self, hazard: str, module: Module, *lines: int | None) -> str:
        """A hazard's severity at the PTX lines that its report names."""
        for place, severity in reversed(self.at_lines.get(hazard, ())):
            if place.holds(module, lines):
                return severity
        return self.everywhere[hazard]


def severities(chosen: Mapping[str, str] | None, kernel: str = "") -> Severities:
    """Each hazard's severity in a launch of a kernel that chooses some (the module says how).

    Errors: LaunchError for words that name no hazard, for a severity that is none, and for a hazard that ends
            every launch.
    """
    found = Severities({name: hazard.severity for name, hazard in HAZARDS.items()})
    for words, severity in (chosen or {}).items():
        name, place, part = _read(str(words))
        given = f"hazards={{{words!r}: {severity!r}}}"
        if severity not in SEVERITIES:
            raise LaunchError(f"{given}: a severity is one of {', '.join(SEVERITIES)}")
        if HAZARDS[name].fixed and severity != "error":
            raise LaunchError(f"{given}: a launch cannot continue after it, so it is always an error")
        if part not in kernel and part not in short_name(kernel):
            continue
        if place is None:
            found.everywhere[name] = severity
        else:
            found.at_lines.setdefault(name, []).append((place, severity))
    return found


def read_severities(text: str, source: str = "line") -> dict[str, str]:
    r"""The severities in a text such as a file of suppressions, for `launch(..., hazards=)`.

    A line is HAZARD [at FILE:LINE] [in KERNEL] [= SEVERITY]; without a severity the hazard becomes a note.
    What follows # is a comment, which should say why the report is wrong or harmless.

    source  the text's name, for errors.

    Errors: LaunchError, with the number of the line.

    >>> read_severities("race at gemm.cu:64 = off  # both write the same\nnever-written in warm_up")
    {'race at gemm.cu:64': 'off', 'never-written in warm_up': 'note'}
    """
    chosen: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        given = line.partition("#")[0].strip()
        if not given:
            continue
        words, equals, severity = (part.strip() for part in given.rpartition("="))
        if not equals:
            words, severity = given, "note"
        try:
            severities({words: severity})
        except LaunchError as error:
            raise LaunchError(f"{source} {number}: {error.problem}") from None
        chosen.pop(words, None)  # the last line holds
        chosen[words] = severity
    return chosen


def lowering(hazard: Hazard, line: int | None, source: SourceLine | None, *, final: bool = False) -> str:
    """Say which hazard a report is about, and how a launch lowers it, here or everywhere.

    line, source  the place of the report; `final` is the error's.
    """
    if hazard.fixed or final:
        return f"hazard: {hazard.name}. It cannot be lowered, because the launch cannot go on after it."
    kernels = source.chain()[-1] if source else None
    places = [f"{kernels.file}:{kernels.line}"] if kernels else [] if line is None else [str(line)]
    here = "".join(f', or "{hazard.name} at {place}" = note here alone' for place in places)
    return f'hazard: {hazard.name}. To lower it: "{hazard.name}" = note{here}'


def grouped(notes: Iterable[Note]) -> list[str]:
    """Sum notes up in ten lines at most: one for each hazard, with its first places.

    The hazard with the most places comes first.
    """
    found: dict[str, list[Note]] = {}
    for note in notes:
        found.setdefault(note.hazard.name, []).append(note)
    rows = []
    for name, same in sorted(found.items(), key=lambda item: -len(item[1])):
        places = list(
            dict.fromkeys(f"{note.line} ({note.source})" if note.source else note.line for note in same)
        )
        more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        lines = f"line{'s' if len(places) > 1 else ''} {', '.join(map(str, places[:_MOST_PLACES]))}{more}"
        times = sum(note.count for note in same)
        often = "" if times == 1 else f", {times} times"
        rows.append(f"{same[0].severity}: {name} at {lines}{often}: {same[0].hazard.why}")
    left = len(rows) - _MOST_HAZARDS
    return [*rows[:_MOST_HAZARDS], f"and {left} hazards more"] if left > 1 else rows


def _read(words: str) -> tuple[str, _Place | None, str]:
    """The hazard, the line and the part of the kernel's name that some words mean. Errors: LaunchError."""
    for name in sorted(HAZARDS, key=len, reverse=True):
        found = _PLACES.fullmatch(words[len(name) :])
        if _spaced(words[: len(name)]) != _spaced(name):
            found = None
        if found is not None:
            break
    else:
        raise LaunchError(f"hazards={{{words!r}: ...}}: {_no_hazard(words)}")
    if found["at"] is None:
        return name, None, found["kernel"] or ""
    file, _, line = found["at"].rpartition(":")
    if not line.isdecimal():
        problem = f"{found['at']} is no line. Give one as gemm.cu:64, or a line of the PTX text as 64."
        raise LaunchError(f"hazards={{{words!r}: ...}}: {problem}")
    return name, _Place(file.replace("\\", "/"), int(line)), found["kernel"] or ""


def _no_hazard(words: str) -> str:
    """Say that words begin with no hazard's name, with the name that they resemble."""
    start = _spaced(re.split(r" (?:at|in) ", words)[0])
    names = {_spaced(word): name for name, hazard in HAZARDS.items() for word in (name, hazard.error)}
    if start in names and _spaced(names[start]) == start:
        return "after the hazard may follow `at FILE:LINE`, and then `in KERNEL`, and nothing else"
    for close in get_close_matches(start, names, n=1):
        return f"there is no such hazard. Did you mean {names[close]}?"
    return f"there is no such hazard; there are {', '.join(HAZARDS)}"


def _spaced(name: str) -> str:
    return name.replace("-", " ").lower()
