"""Operations that show their work: the steps of the very computation that gave the result."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from html import escape
from typing import Any, ParamSpec, TypeVar

from .basis import stride_str
from .errors import OperandError
from .int_tuple import pretty_str

__all__ = ["Explanation", "Step", "explain"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Step:
    """One step of an operation: the rule that was used, what happened, and the values it gave.

    `operation` is the operation the step belongs to and `level` how deep that is nested: the complement
    inside of a divide has level 1.
    """

    rule: str
    text: str
    values: tuple[tuple[str, object], ...] = ()
    operation: str = ""
    level: int = 0

    def to_snapshot(self) -> dict[str, Any]:
        """Write the step with strings, numbers, lists and dictionaries only."""
        return {
            "operation": self.operation,
            "level": self.level,
            "rule": self.rule,
            "text": self.text,
            "values": [{"name": name, "value": plain(value)} for name, value in self.values],
        }

    def __str__(self) -> str:
        values = ", ".join(f"{name} = {_text(value)}" for name, value in self.values)
        return f"{self.rule}: {self.text}" + (f"  [{values}]" if values else "")


@dataclass(frozen=True, repr=False)
class Explanation:
    """An operation with its operands, the ordered steps that led to the result, and the result.

    Law: the value named `result` of the last step is the result.
    """

    operation: str
    operands: tuple[tuple[str, object], ...]
    steps: tuple[Step, ...]
    result: Any
    law: str = field(default="", compare=False)

    def to_snapshot(self) -> dict[str, Any]:
        """Write the explanation as JSON can hold it; layouts become their notation."""
        return {
            "operation": self.operation,
            "law": self.law,
            "operands": [{"name": name, "value": plain(value)} for name, value in self.operands],
            "steps": [step.to_snapshot() for step in self.steps],
            "result": plain(self.result),
        }

    def __str__(self) -> str:
        head = f"{self.operation}({', '.join(_text(value) for _, value in self.operands)})"
        lines = [head + (f"    law: {self.law}" if self.law else "")]
        for number, step in enumerate(self.steps, 1):
            lines.append(f"{number:3}. {'    ' * step.level}{step}")
        return "\n".join([*lines, f"  => {_text(self.result)}"])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The operation's own steps as a list; what the operations that it calls did is folded in between."""
        operands = ", ".join(_text(value) for _, value in self.operands)
        head = f"<p><strong><code>{escape(f'{self.operation}({operands})')}</code></strong>"
        if self.law:
            head += f"<br>law: <code>{escape(self.law)}</code>"
        items = []
        for nested, steps in itertools.groupby(self.steps, lambda step: step.level > 0):
            if nested:
                inner = list(steps)
                called = ", ".join(dict.fromkeys(step.operation for step in inner if step.level == 1))
                rows = "".join(
                    f"<div style='margin-left:{(step.level - 1) * 1.5}em'><em>{escape(step.operation)}</em> "
                    f"{_step_html(step)}</div>"
                    for step in inner
                )
                summary = f"{escape(called or inner[0].operation)}: {len(inner)} steps"
                items.append(f"<li><details><summary>{summary}</summary>{rows}</details></li>")
            else:
                items += [f"<li>{_step_html(step)}</li>" for step in steps]
        result = f"<p>Result: <code>{escape(_text(self.result))}</code></p>"
        return f"<div class='cute-explanation'>{head}</p><ul>{''.join(items)}</ul>{result}</div>"


def _step_html(step: Step) -> str:
    values = ", ".join(f"{escape(name)} = <code>{escape(_text(value))}</code>" for name, value in step.values)
    return f"<strong>{escape(step.rule)}</strong>: {escape(step.text)}" + (f" ({values})" if values else "")


class _Recorder:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.stack: list[str] = []


_active: ContextVar[_Recorder | None] = ContextVar("layout_recorder", default=None)


def note(rule: str, text: str, **values: object) -> None:
    """Record a step, when somebody asked for an explanation."""
    recorder = _active.get()
    if recorder is not None:
        level = max(len(recorder.stack) - 1, 0)
        operation = recorder.stack[-1] if recorder.stack else ""
        recorder.steps.append(Step(rule, text, tuple(values.items()), operation, level))


def explained(law: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark an operation that explains itself, and keep the law it obeys beside it."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            recorder = _active.get()
            if recorder is None:
                return function(*args, **kwargs)
            recorder.stack.append(function.__name__)
            try:
                return function(*args, **kwargs)
            finally:
                recorder.stack.pop()

        wrapper.law = law  # type: ignore[attr-defined]
        return wrapper

    return decorate


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Run an operation and keep the steps it takes.

    Errors: `OperandError` when the function is no operation of the algebra; the operation's own errors.

    >>> from cutecourse.layout import Layout, coalesce
    >>> print(explain(coalesce, Layout((2, (1, 6)), (1, (6, 2)))))
    coalesce((2,(1,6)):(1,(6,2)))    law: coalesce(A)(i) = A(i)
      1. flatten: list the modes from left to right  [modes = (2,1,6):(1,6,2)]
      2. keep: 2:1 starts the result  [so far = 2:1]
      3. drop: 1:6 has one coordinate, it adds nothing  [so far = 2:1]
      4. merge: 2 * 1 = 2: mode 6:2 carries on where 2:1 ends  [so far = 12:1]
      5. result: what is left cannot be merged  [result = 12:1]
      => 12:1
    """
    law = getattr(function, "law", None)
    if law is None:
        name = getattr(function, "__name__", repr(function))
        raise OperandError(
            f"{name} has no steps to show",
            operation="explain",
            advice="an operation of the algebra, for example explain(composition, a, b)",
        )
    names = function.__wrapped__.__code__.co_varnames  # type: ignore[attr-defined]
    operands = tuple(zip(names, args, strict=False)) + tuple(kwargs.items())
    recorder = _Recorder()
    token = _active.set(recorder)
    try:
        result = function(*args, **kwargs)
    finally:
        _active.reset(token)
    return Explanation(function.__name__, operands, tuple(recorder.steps), result, law)


def _text(value: object) -> str:
    return stride_str(value) if isinstance(value, tuple) else pretty_str(value)


def plain(value: object) -> object:
    """Turn a value into what JSON can hold; layouts become their notation."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return _text(value)
