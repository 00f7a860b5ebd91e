"""Errors in a PTX text: each says the line, the column, the line's text and what was expected."""

from __future__ import annotations

from cutecourse.errors import CourseError

__all__ = ["PtxError", "PtxLimitError", "PtxNameError", "PtxSyntaxError"]

_SHOWN = 160


class PtxError(CourseError):
    """Something is wrong with a PTX text at one place of it."""

    def __init__(self, problem: str, *, line: int, column: int, text: str = "", expected: str = "") -> None:
        self.problem = problem
        self.line = line
        self.column = column
        self.text = text
        self.expected = expected
        message = f"PTX line {line}, column {column}: {problem}"
        if expected:
            message += f"; expected {expected}"
        if text.strip():
            # Tabs and columns do not agree on a screen, so the mark goes under the text as it is shown.
            start = max(0, column - 1 - _SHOWN // 2)
            shown = text[start : start + _SHOWN].replace("\t", " ").rstrip()
            message += f"\n    {shown}\n    {' ' * (column - 1 - start)}^"
        super().__init__(message)


class PtxSyntaxError(PtxError):
    """The text does not follow PTX's grammar."""


class PtxNameError(PtxError):
    """A name is used and not declared, or declared twice in one scope."""


class PtxLimitError(PtxError):
    """The text asks for more than this parser is willing to hold: size, nesting or counts."""
