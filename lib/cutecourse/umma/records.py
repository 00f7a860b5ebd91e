"""The base of every record of steps: it explains itself and writes itself as JSON."""

from __future__ import annotations

from collections.abc import Sequence
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
        steps = self._explained(self.OPERATION, self.STEPS)
        return Explanation(self.OPERATION, operands, steps, shown(getattr(self, self.RESULT)), self.LAW)

    def to_snapshot(self) -> dict[str, Any]:
        """Every value as JSON can hold it, layouts in the DSL's notation."""
        return {self._label(name): _plain(getattr(self, name)) for name in dict.fromkeys(self._names())}

    def _explained(self, operation: str, steps: Sequence[tuple[str, ...]]) -> tuple[Step, ...]:
        return tuple(
            Step(
                rule,
                text,
                tuple((self._label(name), shown(getattr(self, name))) for name in names),
                operation,
            )
            for rule, text, *names in steps
        )

    def _names(self) -> tuple[str, ...]:
        """The values of a snapshot."""
        return (*self.OPERANDS, *(name for step in self.STEPS for name in step[2:]))

    def _label(self, name: str) -> str:
        """CuTe's name of a value, where it differs from the field's name."""
        return name


def shown(value: Any) -> Any:
    """A value as an explanation can print it: nested tuples as CuTe writes them."""
    if isinstance(value, tuple):
        return stride_str(value)
    return value if isinstance(value, (int, str)) else pretty_str(value)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, str)) else str(shown(value))
