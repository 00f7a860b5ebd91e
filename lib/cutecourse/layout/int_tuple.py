"""Integers and nested tuples of integers: what shapes, coordinates and profiles are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from .errors import CoordinateError, OperandError, ProfileError

IntTuple: TypeAlias = int | tuple["IntTuple", ...]
"""An integer or a tuple of these: a shape, or a coordinate without `_`."""

Coord: TypeAlias = int | tuple["Coord", ...] | None
"""A coordinate; `None` stands for CuTe's underscore and keeps the whole mode."""

T = TypeVar("T")

__all__ = [
    "Coord",
    "IntTuple",
    "elem_less",
    "flatten_to_tuple",
    "has_underscore",
    "is_congruent",
    "is_weakly_congruent",
    "pretty_str",
    "product",
    "product_each",
    "product_like",
    "repeat_like",
    "shape_div",
    "unflatten",
    "unwrap",
    "wrap",
]


def wrap(value: Any) -> tuple[Any, ...]:
    """Make a one-element tuple of what is no tuple yet.

    >>> wrap(4), wrap((4, 8))
    ((4,), (4, 8))
    """
    return value if is_node(value) else (value,)


def unwrap(value: Any) -> Any:
    """Take a single element out of its tuples.

    >>> unwrap((4,)), unwrap((4, 8))
    (4, (4, 8))
    """
    while is_node(value) and len(value) == 1:
        value = value[0]
    return value


def is_node(value: object) -> bool:
    """Tell a tuple of the tree from a leaf; a sum of basis strides is a leaf although it is a tuple."""
    if type(value) is int:  # nearly every call
        return False
    return type(value) is tuple or (isinstance(value, tuple) and not getattr(value, "is_sum", False))


def is_int(value: object) -> bool:
    """Tell an integer from a truth value and from anything else."""
    return isinstance(value, int) and not isinstance(value, bool)


def flatten_to_tuple(value: Any) -> tuple[Any, ...]:
    """List the leaves from left to right.

    >>> flatten_to_tuple((4, (2, 8)))
    (4, 2, 8)
    """
    return tuple(_leaves(value))


def _leaves(value: Any) -> Iterator[Any]:
    if is_node(value):
        for element in value:
            yield from _leaves(element)
    else:
        yield value


def unflatten(leaves: Sequence[Any], profile: Any) -> Any:
    """Put leaves back into a profile; the inverse of `flatten_to_tuple`.

    >>> unflatten((4, 2, 8), (1, (1, 1)))
    (4, (2, 8))
    """
    expected = len(flatten_to_tuple(profile))
    if len(leaves) != expected:
        raise ProfileError(
            f"{len(leaves)} leaves do not fill a profile of {expected}",
            operation="unflatten",
            operands=(("leaves", tuple(leaves)), ("profile", profile)),
        )
    iterator = iter(leaves)
    return map_leaves(lambda _: next(iterator), profile)


def map_leaves(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Apply a function to every leaf of `first` and the matching parts of `others`."""
    if is_node(first):
        return tuple(map_leaves(function, *parts) for parts in zip(first, *others, strict=True))
    return function(first, *others)


def repeat_like(value: T, profile: Any) -> Any:
    """Fill a profile with one value.

    >>> repeat_like(0, (1, (2, 3)))
    (0, (0, 0))
    """
    return map_leaves(lambda _: value, profile)


def product(shape: IntTuple) -> int:
    """Multiply all leaves: the number of coordinates of a shape.

    >>> product((4, (2, 8)))
    64
    """
    return math.prod(flatten_to_tuple(shape))


def product_each(shape: IntTuple) -> IntTuple:
    """Multiply the leaves of each top-level mode.

    >>> product_each((4, (2, 8)))
    (4, 16)
    """
    if is_node(shape):
        return tuple(product(mode) for mode in shape)  # type: ignore[union-attr]
    return shape


def product_like(shape: IntTuple, guide: Any) -> IntTuple:
    """Multiply leaves until the result has the guide's profile.

    >>> product_like((4, (2, 8)), (1, 1))
    (4, 16)
    """
    if is_node(guide):
        if not is_node(shape) or len(shape) != len(guide):  # type: ignore[arg-type]
            raise ProfileError(
                "the guide is deeper than the shape",
                operation="product_like",
                operands=(("shape", shape), ("guide", guide)),
            )
        return tuple(product_like(mode, part) for mode, part in zip(shape, guide, strict=True))  # type: ignore[arg-type]
    return product(shape)


def quotient(numerator: int, denominator: int) -> int:
    """Divide and round toward zero, as C++ and the CuTe DSL do."""
    if numerator >= 0 and denominator > 0:  # nearly every call
        return numerator // denominator
    result = abs(numerator) // abs(denominator)
    return result if (numerator < 0) == (denominator < 0) else -result


def ceil_divide(numerator: int, denominator: int) -> int:
    """Divide and round up."""
    if denominator == 0:
        raise OperandError("division by zero", operation="ceil_div", operands=(("numerator", numerator),))
    exact = quotient(numerator, denominator)
    return exact if exact * denominator == numerator else quotient(numerator, denominator) + 1


def ceil_divide_shape(shape: Any, divisor: int) -> Any:
    """Divide a shape by an extent, using the extent up from the left mode on, and round up."""
    if not is_node(shape):
        return ceil_divide(shape, divisor)
    result = []
    for mode in shape:
        result.append(ceil_divide_shape(mode, divisor))
        divisor = ceil_divide(divisor, product(mode))
    return tuple(result)


def shape_div(shape: IntTuple, divisor: IntTuple) -> IntTuple:
    """Divide a shape by an extent, using the extent up from the left mode on.

    Law: `shape_div(a, b) = ceil(a / b)` for integers of which one divides the other;
    `product(shape_div(s, d)) = ceil(product(s) / d)` wherever it is defined.

    >>> shape_div((4, 5, 6), 40), shape_div((6, 8), (3, 16))
    ((1, 1, 3), (2, 1))
    """
    if is_node(shape):
        if is_node(divisor):
            if len(shape) != len(divisor):  # type: ignore[arg-type]
                raise ProfileError(
                    "the ranks differ",
                    operation="shape_div",
                    operands=(("shape", shape), ("divisor", divisor)),
                )
            return tuple(shape_div(s, d) for s, d in zip(shape, divisor, strict=True))  # type: ignore[arg-type]
        result = []
        for mode in shape:  # type: ignore[union-attr]
            result.append(shape_div(mode, divisor))
            divisor = shape_div(divisor, product(mode))
        return tuple(result)
    divisor = product(divisor)
    if shape % divisor != 0 and divisor % shape != 0:  # type: ignore[operator]
        from .errors import DivisibilityError

        raise DivisibilityError(
            f"neither of {shape} and {divisor} divides the other",
            operation="shape_div",
            operands=(("shape", shape), ("divisor", divisor)),
        )
    return ceil_divide(shape, divisor)  # type: ignore[arg-type]


def is_congruent(a: Any, b: Any) -> bool:
    """Tell whether two nested tuples have the same profile.

    >>> is_congruent((4, (2, 8)), (1, (5, 7))), is_congruent((4, 8), (4, (2, 8)))
    (True, False)
    """
    a, b = getattr(a, "shape", a), getattr(b, "shape", b)
    if is_node(a) and is_node(b):
        return len(a) == len(b) and all(is_congruent(x, y) for x, y in zip(a, b, strict=True))
    return not is_node(a) and not is_node(b)


def is_weakly_congruent(a: Any, b: Any) -> bool:
    """Tell whether `b` refines the profile of `a`: every leaf of `a` may be a whole tuple in `b`.

    >>> is_weakly_congruent((4, 8), (4, (2, 8))), is_weakly_congruent((4, (2, 8)), (4, 8))
    (True, False)
    """
    a, b = getattr(a, "shape", a), getattr(b, "shape", b)
    if not is_node(a):
        return True
    return (
        is_node(b) and len(a) == len(b) and all(is_weakly_congruent(x, y) for x, y in zip(a, b, strict=True))
    )


def elem_less(a: Any, b: Any) -> bool:
    """Compare element by element: is the coordinate `a` inside the shape `b`? A predicate is made of these.

    Law: `elem_less(a, b)` is true when every element of `a` is less than the element of `b` in its place.
         No element has to be 0 or more: `elem_less((-1, 0), (4, 8))` is true.
    Errors: ProfileError unless both are nested in the same way, as in the DSL. (C++ takes a shorter `a`.)

    >>> elem_less((3, 7), (4, 8)), elem_less((3, 8), (4, 8))
    (True, False)
    """
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        # Compare every element first, so that a wrong nesting further back is refused too.
        less = [elem_less(x, y) for x, y in zip(a, b, strict=True)]
        return all(less)
    if not isinstance(a, int) or not isinstance(b, int):
        raise ProfileError(
            f"{pretty_str(a)} and {pretty_str(b)} are nested differently",
            operation="elem_less",
            operands=(("a", a), ("b", b)),
            rule="a coordinate is compared with a shape of the same nesting",
        )
    return a < b


def has_underscore(coord: Any) -> bool:
    """Tell whether a coordinate keeps a mode (holds a `None`, CuTe's underscore)."""
    return coord is None or (is_node(coord) and any(leaf is None for leaf in flatten_to_tuple(coord)))


def with_zeros(coord: Any) -> Any:
    """Put 0 wherever a coordinate is open.

    >>> with_zeros((None, (3, None)))
    (0, (3, 0))
    """
    if isinstance(coord, tuple):
        return tuple(with_zeros(element) for element in coord)
    return 0 if coord is None else coord


def slice_tuple(value: Any, coord: Any) -> Any:
    """Keep the parts of a nested tuple that a coordinate leaves open with `None`, side by side.

    >>> slice_tuple((4, (2, 8)), (None, (1, None)))
    (4, 8)
    """
    return value if coord is None else _parts(value, coord, keep_open=True)


def dice_tuple(value: Any, coord: Any) -> Any:
    """Keep the parts of a nested tuple that a coordinate fixes with a number.

    >>> dice_tuple((4, (2, 8)), (None, (1, None)))
    (2,)
    """
    if coord is not None and not isinstance(coord, tuple):
        return value
    return _parts(value, coord, keep_open=False)


def _parts(value: Any, coord: Any, *, keep_open: bool) -> tuple[Any, ...]:
    if isinstance(coord, tuple):
        pairs = zip(value, coord, strict=True)
        return tuple(part for v, c in pairs for part in _parts(v, c, keep_open=keep_open))
    return (value,) if (coord is None) == keep_open else ()


def check_coordinate(coord: Any, shape: Any, sliced: Any) -> None:
    """Refuse to slice `sliced`, which has this shape, by a coordinate that is nested deeper or differently.

    Errors: `CoordinateError`.
    """
    if not isinstance(coord, tuple):
        return
    if not is_node(shape) or len(coord) != len(shape):
        raise CoordinateError(
            f"{pretty_str(coord)} is no coordinate in {pretty_str(shape)}",
            operation="slice_",
            operands=(("coordinate", coord), ("layout", sliced)),
            rule="weak congruence: each entry of the coordinate stands for one mode",
        )
    for part, mode in zip(coord, shape, strict=True):
        check_coordinate(part, mode, sliced)


def pretty_str(value: object) -> str:
    """Print as the CuTe DSL does: no blanks, `(4)` for one element, `_` for `None`.

    >>> pretty_str((4, (2, None), (8,)))
    '(4,(2,_),(8))'
    """
    if is_node(value):
        return "(" + ",".join(pretty_str(element) for element in value) + ")"  # type: ignore[attr-defined]
    return "_" if value is None else str(value)
