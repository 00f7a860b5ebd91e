"""Evaluate the expressions of `cases` with `cutecourse.layout`."""

from typing import Any

import cutecourse.layout as layout_package
from cutecourse.layout import (
    Layout,
    LayoutError,
    Swizzle,
    make_composed_layout,
    make_identity_layout,
    pretty_str,
)

NAMES: dict[str, Any] = {name: getattr(layout_package, name) for name in layout_package.__all__}
NAMES |= {
    "L": Layout,
    "S": Swizzle,
    "C": make_composed_layout,
    "tuple": tuple,
    "identity": make_identity_layout,
}


def value(expression: str) -> Any:
    """The value of an expression."""
    return eval(expression, dict(NAMES))


def evaluate(expression: str) -> tuple[str, str]:
    """("ok", print) or ("refused", message); anything but a `LayoutError` is a defect and passes through."""
    try:
        return "ok", pretty_str(value(expression))
    except LayoutError as error:
        return "refused", str(error)
