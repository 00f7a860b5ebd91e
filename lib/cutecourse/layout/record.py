"""The base of a computation's record: it explains itself and writes itself as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .explanation import Explanation, Step, plain

__all__ = ["Record"]


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
        return self._explanation(self.OPERATION, self._explained(self.OPERATION, self.STEPS))

    def to_snapshot(self) -> dict[str, Any]:
        """Every value as JSON can hold it, layouts in the DSL's notation."""
        return {self._label(name): plain(self._value(name)) for name in dict.fromkeys(self._names())}

    def _explanation(self, operation: str, steps: tuple[Step, ...]) -> Explanation:
        operands = tuple((name, self._value(name)) for name in self.OPERANDS)
        return Explanation(operation, operands, steps, self._value(self.RESULT), self.LAW)

    def _explained(self, operation: str, steps: Sequence[tuple[str, ...]]) -> tuple[Step, ...]:
        return tuple(
            Step(rule, text, tuple((self._label(name), self._value(name)) for name in names), operation)
            for rule, text, *names in steps
        )

    def _names(self) -> tuple[str, ...]:
        """The values of a snapshot."""
        return (*self.OPERANDS, *(name for step in self.STEPS for name in step[2:]))

    def _label(self, name: str) -> str:
        """CuTe's name of a value, where it differs from the field's name."""
        return name

    def _value(self, name: str) -> Any:
        """The value of a field as an explanation shows it."""
        return getattr(self, name)
