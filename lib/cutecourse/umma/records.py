"""What every record of steps can do: be explained, be written as JSON."""

from __future__ import annotations

from typing import Any, ClassVar

from cutecourse.layout import Explanation, Step
from cutecourse.layout.basis import stride_str
from cutecourse.layout.int_tuple import pretty_str

__all__ = ["Record", "shown"]


class Record:
    """A frozen dataclass whose fields are the values of a computation, under CuTe's names, in CuTe's order.

    `OPERANDS` and `STEPS` say which fields were given and which each step gave; `RESULT` is the last.
    """

    OPERATION: ClassVar[str] = ""
    LAW: ClassVar[str] = ""
    OPERANDS: ClassVar[tuple[str, ...]] = ()
    STEPS: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Each step as (rule, what happened, names of the values it gave, ...)."""
    RESULT: ClassVar[str] = ""

    def explain(self) -> Explanation:
        """The steps in words, each with its values."""
        operands = tuple((name, shown(getattr(self, name))) for name in self.OPERANDS)
        steps = tuple(
            Step(rule, text, tuple((name, shown(getattr(self, name))) for name in names), self.OPERATION)
            for rule, text, *names in self.STEPS
        )
        return Explanation(self.OPERATION, operands, steps, shown(getattr(self, self.RESULT)), self.LAW)

    def to_snapshot(self) -> dict[str, Any]:
        """Every value as JSON can hold it, layouts in the DSL's notation."""
        names = dict.fromkeys([*self.OPERANDS, *(name for step in self.STEPS for name in step[2:])])
        return {name: _plain(getattr(self, name)) for name in names}


def shown(value: Any) -> Any:
    """A value as an explanation can print it: nested tuples as CuTe writes them."""
    if isinstance(value, tuple):
        return stride_str(value)
    return value if isinstance(value, (int, str)) else pretty_str(value)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, str)) else str(shown(value))
