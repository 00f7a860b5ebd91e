"""Integers that a program knows only when it runs, among those that it knows when it is compiled."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

__all__ = ["Dynamic", "is_constant", "is_static"]


class Dynamic(int):
    """An integer that a C++ program knows only when it runs.

    Law: it is the same number in every respect; sums, products and quotients with it are dynamic too,
    except what is 0 for every number (`0 * n`, `0 // n`, `n % 1`), which CuTe knows all the same.
    Source: CUTLASS 4.2.0, include/cute/numeric/integral_constant.hpp.

    >>> n = Dynamic(128)
    >>> is_static(n // 64), is_static(0 * n), n == 128
    (False, True, True)
    """

    __slots__ = ()


def _binary(name: str, known: Callable[[Any, Any], bool]) -> None:
    compute = getattr(operator, name)

    def forward(self: Dynamic, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        result = compute(int(self), int(other))
        return result if known(self, other) else Dynamic(result)

    def backward(self: Dynamic, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        result = compute(int(other), int(self))
        return result if known(other, self) else Dynamic(result)

    setattr(Dynamic, f"__{name}__", forward)
    setattr(Dynamic, f"__r{name}__", backward)


def _static_zero(value: Any) -> bool:
    return not isinstance(value, Dynamic) and bool(value == 0)


def _static_one(value: Any) -> bool:
    return not isinstance(value, Dynamic) and bool(value == 1)


_binary("add", lambda a, b: False)
_binary("sub", lambda a, b: False)
_binary("mul", lambda a, b: _static_zero(a) or _static_zero(b))
_binary("floordiv", lambda a, b: _static_zero(a))
_binary("mod", lambda a, b: _static_zero(a) or _static_one(b))
for _name in ("neg", "abs", "pos"):
    _compute = getattr(operator, _name)
    setattr(Dynamic, f"__{_name}__", lambda self, _compute=_compute: Dynamic(_compute(int(self))))


def is_static(value: Any) -> bool:
    """Tell whether no number of a value (a layout, a tuple, a stride, a number) is dynamic.

    >>> is_static((64, 8)), is_static((64, Dynamic(8)))
    (True, False)
    """
    if isinstance(value, tuple):
        return all(is_static(element) for element in value)
    if hasattr(value, "stride"):
        return is_static(value.shape) and is_static(value.stride)
    return not isinstance(getattr(value, "value", value), Dynamic)


def is_constant(constant: int, value: Any) -> bool:
    """Tell whether a value is this number, and static: CuTe's `is_constant`."""
    return isinstance(value, int) and not isinstance(value, Dynamic) and value == constant
