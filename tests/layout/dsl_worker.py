"""Evaluate layout expressions with the CuTe DSL, one line of JSON in, one line of JSON out.

Run as a process of its own: some expressions make the DSL's native code abort, and the caller then
starts another worker behind the expression that did it.
"""

import json
import re
import sys
from typing import Any

import cutlass
from cutlass import cute


def _layout(shape: Any, stride: Any = None) -> Any:
    return cute.make_layout(shape) if stride is None else cute.make_layout(shape, stride=stride)


NAMES: dict[str, Any] = {name: getattr(cute, name) for name in dir(cute) if not name.startswith("_")}
NAMES |= {
    "L": _layout,
    "S": cute.make_swizzle,
    "C": cute.make_composed_layout,
    "E": cute.E,
    "tuple": tuple,
    "identity": cute.make_identity_layout,
}


def show(value: Any) -> str:
    """Print as the DSL does, but whole: the DSL cuts the print of a swizzle to eight characters."""
    if isinstance(value, tuple):
        return "(" + ",".join(show(element) for element in value) + ")"
    if isinstance(value, cute.Swizzle):
        return str(value.type).split('"')[1]
    if isinstance(value, cute.ComposedLayout):
        return f"{show(value.inner)} o {show(value.offset)} o {show(value.outer)}"
    return cute.pretty_str(value)


def evaluate_all(expressions: list[str], out: Any) -> None:
    """Write one answer a line: ["ok", what the DSL prints], or ["refused", why].

    An `x` is what the DSL prints where it calls a layout invalid.
    """
    for expression in expressions:
        try:
            value = eval(expression, dict(NAMES))
            printed = show(value)
            answer = ["refused", f"invalid: {printed}"] if re.search(r"\bx\b", printed) else ["ok", printed]
        except Exception as error:  # noqa: BLE001 - whatever it raises, it refuses
            answer = ["refused", f"{type(error).__name__}: {error}"]
        out.write(json.dumps(answer) + "\n")
        out.flush()


@cute.jit
def run(expressions: cutlass.Constexpr, out: cutlass.Constexpr):
    evaluate_all(expressions, out)


if __name__ == "__main__":
    expressions = json.load(sys.stdin)
    # A batch a function: one function with thousands of operations gets slow.
    for begin in range(0, len(expressions), 250):
        run(expressions[begin : begin + 250], sys.stdout)
