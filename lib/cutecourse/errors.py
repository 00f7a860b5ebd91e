"""The one root of every error this project raises on purpose."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

_PACKAGE = Path(__file__).resolve().parent


class CourseError(Exception):
    """An error that says what was wrong, where, and what to do.

    Every package derives its own classes from this one, so that a notebook or the command line
    can tell a message meant for the reader from a defect of ours.
    """

    def _render_traceback_(self) -> list[str]:
        """The traceback for a notebook: the reader's own lines and the message, without the course's insides.

        IPython calls this. The whole traceback stays on the error: `%debug` and
        `traceback.print_exception(sys.last_value)` show it.
        """
        shell = sys.modules["IPython"].get_ipython()
        cause, suppressed = self.__cause__, self.__suppress_context__
        self.__cause__ = None  # an error beneath this one is one of the insides; None hides the context too
        try:
            lines: list[str] = shell.InteractiveTB.structured_traceback(
                type(self), self, frames_of_others(self.__traceback__)
            )
        finally:
            self.__cause__, self.__suppress_context__ = cause, suppressed
        return lines


def frames_of_others(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames that lie in this package: what is left are the reader's own lines."""
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    kept = None
    for frame in reversed(frames):
        if _PACKAGE not in Path(frame.tb_frame.f_code.co_filename).parents:
            kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept


class RuleError(CourseError):
    """A rule is broken, of a library, a driver or the hardware, and the error names it.

    `rule` is a short name of the rule that was broken, the same wherever that rule is checked; `source`
    says who makes the rule, `values` are what was looked at.
    """

    def __init__(
        self,
        problem: str,
        *,
        rule: str,
        source: str = "",
        values: Sequence[tuple[str, object]] = (),
        advice: str = "",
    ) -> None:
        self.rule = rule
        self.source = source
        self.values = tuple(values)
        parts = [problem]
        parts += [f"  {name} = {value}" for name, value in self.values]
        parts.append(f"  rule: {rule}" + (f" ({source})" if source else ""))
        if advice:
            parts.append(f"  try: {advice}")
        super().__init__("\n".join(parts))
