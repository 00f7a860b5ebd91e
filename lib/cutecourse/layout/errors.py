"""The errors of layouts and of the operations on layouts."""

from __future__ import annotations

from collections.abc import Sequence

from cutecourse.errors import CourseError

__all__ = [
    "CoordinateError",
    "DivisibilityError",
    "LayoutError",
    "NotationError",
    "OperandError",
    "ProfileError",
]


class LayoutError(CourseError):
    """A layout or an operation of the algebra that has no meaning.

    `operation` names the operation, `operands` are what it was given, `mode` is the path of the mode
    that failed (empty: the whole layout), and `rule` is the rule that was broken.
    """

    def __init__(
        self,
        problem: str,
        *,
        operation: str = "",
        operands: Sequence[tuple[str, object]] = (),
        mode: Sequence[int] = (),
        rule: str = "",
        advice: str = "",
    ) -> None:
        self.operation = operation
        self.operands = tuple(operands)
        self.mode = tuple(mode)
        self.rule = rule
        where = f"mode {list(self.mode)}: " if self.mode else ""
        parts = [(f"{operation}: " if operation else "") + where + problem]
        parts += [f"  {name} = {_show(operand)}" for name, operand in self.operands]
        if rule:
            parts.append(f"  rule: {rule}")
        if advice:
            parts.append(f"  try: {advice}")
        super().__init__("\n".join(parts))


class ProfileError(LayoutError):
    """Two nested tuples do not fit together (congruence, weak congruence, rank)."""


class DivisibilityError(LayoutError):
    """Shapes and strides do not divide as the operation needs, so no layout is the answer."""


class CoordinateError(LayoutError):
    """A coordinate or an index does not fit the layout it is given to."""


class OperandError(LayoutError):
    """An operand of the wrong kind, or with a value no layout can have."""


class NotationError(LayoutError):
    """Text that is no layout in the notation of the CuTe DSL or of CuTe C++."""


def _show(operand: object) -> str:
    if isinstance(operand, tuple) and not hasattr(operand, "is_sum"):
        return "(" + ",".join(_show(element) for element in operand) + ")"
    return "_" if operand is None else str(operand)
