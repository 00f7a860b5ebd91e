"""Count the same memory in other elements: upcast to wider ones, downcast to narrower ones."""

from __future__ import annotations

from math import gcd
from typing import Any

from .basis import is_basis
from .composed import ComposedLayout
from .errors import DivisibilityError, OperandError
from .explanation import explained, note
from .int_tuple import ceil_divide, flatten_to_tuple, is_node
from .layout import Layout
from .swizzle import Swizzle

__all__ = ["downcast", "recast_layout", "upcast"]


@explained("upcast(A, n) counts in elements n times as wide")
def upcast(layout: Any, n: int) -> Any:
    """Count in elements that are `n` times as wide: `n` neighbours become one.

    Law: a mode `s:d` with `d >= n` becomes `s:(d/n)`; one with `d < n` shrinks to `ceil(s / (n/d)):1`.
    Errors: `DivisibilityError` when neither of stride and `n` divides the other, `OperandError` for
    coordinates, or a swizzle and an `n` that is no power of two.

    >>> print(upcast(Layout((8, 64), (64, 1)), 2), upcast(Swizzle(3, 4, 3), 2))
    (8,32):(32,1) S<3,3,3>
    """
    _check_factor(layout, n, "upcast")
    result = _upcast(layout, n, strict=True, operation="upcast")
    note("result", f"in elements {n} times as wide", result=result)
    return result


@explained("downcast(A, n) counts in elements 1/n as wide")
def downcast(layout: Any, n: int) -> Any:
    """Count in elements that are `n` times as narrow: one becomes `n` neighbours.

    Law: the mode with stride 1 gets `n` times the extent, all other strides grow by `n`.
    Errors: `DivisibilityError` when no mode has stride 1, `OperandError` as `upcast`.

    >>> print(downcast(Layout((8, 64), (64, 1)), 2), downcast(Swizzle(3, 4, 3), 2))
    (8,128):(128,1) S<3,5,3>
    """
    _check_factor(layout, n, "downcast")
    result = _downcast(layout, n, strict=True, operation="downcast")
    note("result", f"in elements 1/{n} as wide", result=result)
    return result


@explained("recast_layout(new, old, A) = downcast(upcast(A, num), den), num/den = new/old")
def recast_layout(new_type_bits: int, old_type_bits: int, layout: Any) -> Any:
    """Count a layout of elements of `old_type_bits` in elements of `new_type_bits`.

    Law: with `num/den = new/old` in lowest terms, `recast = downcast(upcast(A, num), den)`.
    Units: bits.
    Errors: `OperandError` for coordinates, for widths below 1, and for what a swizzle cannot do.
    Simplified: as the CuTe DSL, strides that do not divide are rounded up, and a layout without stride 1
    can be made narrower; `upcast` and `downcast` refuse both, as CuTe C++.

    >>> print(recast_layout(16, 8, Layout((8, 64), (1, 8))), recast_layout(8, 16, Layout((8, 64), (64, 1))))
    (4,64):(1,4) (8,128):(128,1)
    """
    for bits in (new_type_bits, old_type_bits):
        _check_factor(layout, bits, "recast_layout")
    common = gcd(new_type_bits, old_type_bits)
    num, den = new_type_bits // common, old_type_bits // common
    note("ratio", f"{new_type_bits}/{old_type_bits} bits", num=num, den=den)
    result = layout
    if num != 1:
        result = _upcast(result, num, strict=False, operation="recast_layout")
        note("upcast", f"{num} elements become one", layout=result)
    if den != 1:
        result = _downcast(result, den, strict=False, operation="recast_layout")
        note("downcast", f"one element becomes {den}", layout=result)
    note("result", "the same memory in the new elements", result=result)
    return result


def _check_factor(layout: Any, n: Any, operation: str) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise OperandError(
            f"{n!r} is no positive integer", operation=operation, operands=(("layout", layout),)
        )
    if not isinstance(layout, (Layout, ComposedLayout, Swizzle)):
        raise OperandError(f"{layout!r} is no layout", operation=operation)


def _log2(n: int, swizzle: Swizzle, operation: str) -> int:
    if n & (n - 1):
        raise OperandError(
            f"{n} is no power of two",
            operation=operation,
            operands=(("swizzle", swizzle),),
            rule="the bits of a swizzle move by whole places",
        )
    return n.bit_length() - 1


def _upcast(layout: Any, n: int, *, strict: bool, operation: str) -> Any:
    if isinstance(layout, Swizzle):
        base = layout.num_base - _log2(n, layout, operation)
        if base >= 0:
            return Swizzle(layout.num_bits, base, layout.num_shift)
        return Swizzle(max(layout.num_bits + base, 0), 0, layout.num_shift)
    if isinstance(layout, ComposedLayout):
        inner = _upcast(layout.inner, n, strict=strict, operation=operation)
        outer = _upcast(layout.outer, n, strict=strict, operation=operation)
        return ComposedLayout(inner, _scale_offset(layout, n, operation), outer)

    def cast(shape: Any, stride: Any) -> tuple[Any, Any]:
        if is_node(shape):
            pairs = [cast(s, d) for s, d in zip(shape, stride, strict=True)]
            return tuple(s for s, _ in pairs), tuple(d for _, d in pairs)
        _refuse_basis(layout, stride, operation)
        if stride == 0:
            return shape, stride
        distance = abs(stride)
        if strict and distance % n != 0 and n % distance != 0:
            raise DivisibilityError(
                f"neither of the stride {stride} and {n} divides the other",
                operation=operation,
                operands=(("layout", layout), ("n", n)),
                rule="elements join up whole",
            )
        sign = 1 if stride > 0 else -1
        new = (ceil_divide(shape, ceil_divide(n, distance)), sign * ceil_divide(distance, n))
        note(
            "mode", f"{Layout.unchecked(shape, stride)}: {n} elements become one", mode=Layout.unchecked(*new)
        )
        return new

    return Layout.unchecked(*cast(layout.shape, layout.stride))


def _scale_offset(layout: ComposedLayout, n: int, operation: str) -> Any:
    if any(value % n for value in flatten_to_tuple(layout.offset)):
        raise DivisibilityError(
            f"{n} does not divide the offset",
            operation=operation,
            operands=(("layout", layout), ("n", n)),
            rule="an offset stays a whole number of elements",
        )
    return _map_offset(layout.offset, lambda value: value // n)


def _map_offset(offset: Any, function: Any) -> Any:
    return tuple(_map_offset(o, function) for o in offset) if is_node(offset) else function(offset)


def _downcast(layout: Any, n: int, *, strict: bool, operation: str) -> Any:
    if isinstance(layout, Swizzle):
        return Swizzle(layout.num_bits, layout.num_base + _log2(n, layout, operation), layout.num_shift)
    if isinstance(layout, ComposedLayout):
        inner = _downcast(layout.inner, n, strict=strict, operation=operation)
        outer = _downcast(layout.outer, n, strict=strict, operation=operation)
        return ComposedLayout(inner, _map_offset(layout.offset, lambda value: value * n), outer)
    if strict and 1 not in flatten_to_tuple(layout.stride):
        raise DivisibilityError(
            "no mode has stride 1",
            operation=operation,
            operands=(("layout", layout), ("n", n)),
            rule="the new elements of one old element lie side by side along a mode with stride 1",
        )

    def cast(shape: Any, stride: Any) -> tuple[Any, Any]:
        if is_node(shape):
            pairs = [cast(s, d) for s, d in zip(shape, stride, strict=True)]
            return tuple(s for s, _ in pairs), tuple(d for _, d in pairs)
        _refuse_basis(layout, stride, operation)
        new = (shape * n, stride) if stride in (1, -1) else (shape, stride * n)
        note(
            "mode", f"{Layout.unchecked(shape, stride)}: one element becomes {n}", mode=Layout.unchecked(*new)
        )
        return new

    return Layout.unchecked(*cast(layout.shape, layout.stride))


def _refuse_basis(layout: Layout, stride: Any, operation: str) -> None:
    if is_basis(stride):
        raise OperandError(
            f"the stride {stride} steps through coordinates, which have no width",
            operation=operation,
            operands=(("layout", layout),),
        )
