"""The answer of a check: a result that a notebook shows, never a traceback."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Literal

from cutecourse.checks.pictures import AnswerPicture
from cutecourse.errors import CourseError

_CODE = re.compile(r"`([^`\n]+)`")
_REPORT = re.compile(r"\n(?= )")
"""Where the emulator's report begins in a message: its lines are indented."""

Status = Literal["passed", "untouched", "wrong", "raised", "unchecked"]

_HEADLINES: dict[Status, str] = {
    "passed": "passed",
    "untouched": "not started",
    "wrong": "not yet",
    "raised": "your code raised an error",
    "unchecked": "not checked",
}
_MARKS: dict[Status, str] = {"passed": "✓", "untouched": "…", "wrong": "✗", "raised": "✗", "unchecked": "?"}
_COLOURS: dict[Status, str] = {
    "passed": "#2e7d32",
    "untouched": "#757575",
    "wrong": "#c62828",
    "raised": "#c62828",
    "unchecked": "#757575",
}


class WrongAnswer(CourseError):
    """Raised inside a check: why an answer is not right, without the right answer itself.

    `expected` and `got` are short texts about the place where they differ, `where` names that place.
    """

    def __init__(
        self,
        message: str,
        *,
        expected: str | None = None,
        got: str | None = None,
        where: str | None = None,
        picture: AnswerPicture | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected
        self.got = got
        self.where = where
        self.picture = picture


class Untouched(CourseError):
    """Raised inside a check: the skeleton is still as it was given."""


class CheckFailed(CourseError):
    """A check failed where that has to be an error: under `strict=True` or CUTECOURSE_STRICT=1."""


@dataclass(frozen=True)
class CheckResult:
    """The answer of a check: true if the exercise is solved; shows itself as text and as HTML."""

    id: str
    title: str
    status: Status
    message: str
    expected: str | None = None
    got: str | None = None
    where: str | None = None
    picture: AnswerPicture | None = None

    def __bool__(self) -> bool:
        return self.status == "passed"

    def _facts(self) -> list[tuple[str, str]]:
        facts = [("where", self.where), ("expected", self.expected), ("got", self.got)]
        return [(name, text) for name, text in facts if text is not None]

    def __repr__(self) -> str:
        lines = [f"{_MARKS[self.status]} {self.id} {self.title}: {_HEADLINES[self.status]}"]
        lines += [f"  {line}" for line in self.message.splitlines()]
        lines += [f"  {name + ':':<9} {text}" for name, text in self._facts()]
        if self.picture is not None:
            lines += ["", *(f"  {line}" for line in str(self.picture).splitlines())]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        facts = "".join(
            f"<tr><th style='text-align:left;padding-right:1em'>{name}</th>"
            f"<td style='text-align:left'><code>{html.escape(text)}</code></td></tr>"
            for name, text in self._facts()
        )
        table = f"<table style='margin:.5em 0'>{facts}</table>" if facts else ""
        picture = self.picture.html() if self.picture is not None else ""
        headline = f"{_MARKS[self.status]} {self.id} {self.title}: {_HEADLINES[self.status]}"
        words, *report = _REPORT.split(html.escape(self.message), maxsplit=1)
        message = _CODE.sub(r"<code>\1</code>", words).replace("\n", "<br>")
        style = "margin:.25em 0;white-space:pre-wrap;font-size:.85em"
        lines = "".join(f"<pre style='{style}'>{text}</pre>" for text in report)
        return (
            f"<div class='cute-check cute-check-{self.status}' role='status'"
            f" style='border-left:4px solid {_COLOURS[self.status]};padding:.25em .75em'>"
            f"<strong>{html.escape(headline)}</strong>"
            f"<p style='margin:.25em 0'>{message}</p>{lines}{table}{picture}</div>"
        )


@dataclass(frozen=True)
class Hint:
    """One hint of an exercise, shown on request; the next call shows the next."""

    id: str
    number: int
    total: int
    text: str

    def __repr__(self) -> str:
        return f"Hint {self.number} of {self.total} for {self.id}: {self.text}"
