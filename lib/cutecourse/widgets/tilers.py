"""The second operand as a reader types it: an extent, a layout, or a tuple of these and `_`."""

from __future__ import annotations

import re
from typing import Any

from cutecourse.errors import CourseError
from cutecourse.layout import Layout
from cutecourse.widgets.errors import WidgetError

_TOKEN = re.compile(r"\s*(_?\d+|[(),:_]|\S)")

ADVICE = "write an extent (4), a layout (4:2), or a tuple of these and _ ((2,4:2))"


def parse_tiler(text: str) -> Any:
    """Read a tiler: `4`, `4:2`, `(2,4:2)`, `(_,4)`; a tuple without a stride goes mode by mode.

    Errors: WidgetError, with the text and what may stand there.
    """
    tokens = _TOKEN.findall(text)
    position = 0

    def wrong(why: str) -> WidgetError:
        return WidgetError(f"operand {text.strip()!r}: {why}; {ADVICE}")

    def number(token: str) -> int | None:
        digits = token.removeprefix("_")
        return int(digits) if digits.isdigit() else None

    def item() -> Any:
        nonlocal position
        if position >= len(tokens):
            raise wrong("it ends too early")
        token = tokens[position]
        position += 1
        if token == "(":
            parts = [item()]
            while position < len(tokens) and tokens[position] == ",":
                position += 1
                if position < len(tokens) and tokens[position] == ")":
                    break
                parts.append(item())
            if position >= len(tokens) or tokens[position] != ")":
                raise wrong("a parenthesis is not closed")
            position += 1
            value: Any = tuple(parts)
        elif token == "_":
            return None
        elif (extent := number(token)) is not None:
            value = extent
        else:
            raise wrong(f"{token!r} may not stand there")
        if position < len(tokens) and tokens[position] == ":":
            position += 1
            stride = item()
            try:
                return Layout(value, stride)
            except (CourseError, TypeError, ValueError) as error:
                raise wrong(str(error).splitlines()[0]) from error
        return value

    result = item()
    if not _positive(result):
        raise wrong("an extent is at least 1")
    if position < len(tokens):
        raise wrong(f"{''.join(tokens[position:])!r} stands after its end")
    return result


def _positive(part: Any) -> bool:
    if isinstance(part, tuple):
        return all(_positive(inner) for inner in part)
    return not isinstance(part, int) or part > 0
