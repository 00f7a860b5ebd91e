"""Count, choose and regroup the modes of layouts, shapes and coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .composed import ComposedLayout
from .errors import OperandError, ProfileError
from .int_tuple import flatten_to_tuple, is_node, product, wrap
from .layout import Layout, coshape
from .swizzle import Swizzle

__all__ = [
    "append",
    "cosize",
    "depth",
    "flatten",
    "get",
    "group_modes",
    "prepend",
    "rank",
    "select",
    "shape",
    "size",
    "stride",
]

Mode = int | Sequence[int] | None


def _path(mode: Mode) -> tuple[int, ...]:
    return () if mode is None else (mode,) if isinstance(mode, int) else tuple(mode)


def get(value: Any, mode: Mode = None) -> Any:
    """Take the mode at a path; `get(value, [1, 0])` is mode 0 of mode 1.

    Errors: `ProfileError` when there is no such mode.

    >>> print(get(Layout((4, (2, 8)), (1, (4, 8))), [1, 0]), get((4, (2, 8)), 1))
    2:4 (2, 8)
    """
    path = _path(mode)
    for position, index in enumerate(path):
        if not 0 <= index < rank(value):
            raise ProfileError(
                f"there is no mode {index}, the rank is {rank(value)}",
                operation="get",
                operands=(("value", value),),
                mode=path[: position + 1],
            )
        if depth(value) == 0:
            return value
        value = value[index]
    return value


def shape(value: Any, mode: Mode = None) -> Any:
    """Give the shape of a layout, or of one of its modes.

    >>> shape(Layout((4, (2, 8))), 1)
    (2, 8)
    """
    return get(_shape_of(value), mode)


def stride(layout: Layout, mode: Mode = None) -> Any:
    """Give the stride of a layout, or of one of its modes.

    >>> stride(Layout((4, (2, 8))), [1, 1])
    8
    """
    return get(layout, mode).stride


def _shape_of(value: Any) -> Any:
    return value.shape if isinstance(value, (Layout, ComposedLayout)) else value


def rank(value: Any, mode: Mode = None) -> int:
    """Count the top-level modes; an integer has rank 1.

    >>> rank(Layout((4, (2, 8)))), rank(4), rank((4, (2, 8)), 1)
    (2, 1, 2)
    """
    part = shape(value, mode) if mode is not None else _shape_of(value)
    return len(wrap(part))


def depth(value: Any, mode: Mode = None) -> int:
    """Count how deep the nesting goes; an integer has depth 0.

    >>> depth(4), depth((4, 8)), depth(Layout((4, (2, 8))))
    (0, 1, 2)
    """
    part = shape(value, mode) if mode is not None else _shape_of(value)
    if not is_node(part):
        return 0
    return 1 + max((depth(element) for element in part), default=0)


def size(value: Any, mode: Mode = None) -> int:
    """Count the coordinates of a layout or shape.

    Law: `size(shape) = product of the extents`.

    >>> size(Layout((4, (2, 8)))), size((4, (2, 8)), mode=1)
    (64, 16)
    """
    return product(shape(value, mode))


def cosize(layout: Any, mode: Mode = None) -> int:
    """Count the offsets up to the largest one: the elements that memory must have.

    Law: `cosize(A) = 1 + max A(c)` for strides that are not negative; for coordinates, the product over
    them. Behind a swizzle the outer layout counts.
    Errors: `OperandError` for a layout behind another layout.

    >>> cosize(Layout((4, 8), (8, 1))), cosize(Layout((4, 8), (16, 1)))
    (32, 56)
    """
    if isinstance(layout, ComposedLayout):
        if not isinstance(layout.inner, Swizzle):
            raise OperandError(
                "the largest offset of a layout behind a layout has no formula",
                operation="cosize",
                operands=(("layout", layout),),
            )
        layout = layout.outer
    return product(coshape(get(layout, mode)))


def flatten(value: Any) -> Any:
    """Remove all nesting: of a layout, a shape or a coordinate.

    Law: `flatten(layout)(i) = layout(i)` for every integer `i`.

    >>> print(flatten(Layout((4, (2, 2)))), flatten((4, (2, 2))), flatten(4))
    (4,2,2):(1,4,8) (4, 2, 2) 4
    """
    if isinstance(value, Layout):
        return Layout.unchecked(flatten(value.shape), flatten(value.stride))
    if isinstance(value, ComposedLayout):
        return value.replace_outer(flatten(value.outer))
    return flatten_to_tuple(value) if is_node(value) else value


def select(value: Any, mode: Mode) -> Any:
    """Keep the modes with these positions, in this order.

    >>> print(select(Layout((4, 8, 16), (32, 4, 1)), [2, 0]), select((4, 8, 16), [0, 2]))
    (16,4):(1,32) (4, 16)
    """
    positions = _path(mode)
    if any(not 0 <= position < rank(value) for position in positions):
        raise ProfileError(
            f"there are no modes {list(positions)}, the rank is {rank(value)}",
            operation="select",
            operands=(("value", value),),
        )
    if isinstance(value, ComposedLayout):
        return value.replace_outer(select(value.outer, positions))
    if isinstance(value, Layout):
        modes = [value[position] for position in positions]
        return Layout.unchecked(tuple(m.shape for m in modes), tuple(m.stride for m in modes))
    return tuple(wrap(value)[position] for position in positions)


def group_modes(value: Any, begin: int, end: int | None = None) -> Any:
    """Put the modes from `begin` up to `end` (without it) into one mode.

    Law: the function of an integer stays the same, only the nesting changes.

    >>> print(group_modes(Layout((2, 3, 4)), 1, 3), group_modes((2, 3, 4, 5), 1, 3))
    (2,(3,4)):(1,(2,6)) (2, (3, 4), 5)
    """
    length = rank(value)
    first = max(begin + length, 0) if begin < 0 else begin
    last = length if end is None else end + length if end < 0 else end
    if first >= last or last > length:
        raise ProfileError(
            f"modes {begin} to {end} are no range of the {length} modes",
            operation="group_modes",
            operands=(("value", value),),
            rule="0 <= begin < end <= rank",
        )
    if isinstance(value, ComposedLayout):
        return value.replace_outer(group_modes(value.outer, first, last))
    if isinstance(value, Layout):
        return Layout.unchecked(group_modes(value.shape, first, last), group_modes(value.stride, first, last))
    if not is_node(value):
        return (value,)
    modes = value
    return (*modes[:first], tuple(modes[first:last]), *modes[last:])


def append(value: Any, element: Any = None, up_to_rank: int | None = None) -> Any:
    """Add modes behind the last one, one or as many as the rank needs.

    >>> print(append(Layout((8, 8)), Layout(2, 64)), append((1, 1), 0, 4))
    (8,8,2):(1,8,64) (1, 1, 0, 0)
    """
    return _extend(value, element, up_to_rank, "append")


def prepend(value: Any, element: Any = None, up_to_rank: int | None = None) -> Any:
    """Add modes in front of the first one, one or as many as the rank needs.

    >>> print(prepend(Layout((8, 8)), Layout(2, 64)), prepend((1, 1), 0, 4))
    (2,8,8):(64,1,8) (0, 0, 1, 1)
    """
    return _extend(value, element, up_to_rank, "prepend")


def _extend(value: Any, element: Any, up_to_rank: int | None, operation: str) -> Any:
    if isinstance(value, ComposedLayout):
        return value.replace_outer(_extend(value.outer, element, up_to_rank, operation))
    count = 1 if up_to_rank is None else up_to_rank - rank(value)
    if count < 0:
        raise ProfileError(
            f"the rank is {rank(value)} already, more than {up_to_rank}",
            operation=operation,
            operands=(("value", value),),
        )
    if isinstance(value, Layout):
        if element is None:
            element = Layout.unchecked(1, 0)
        if not isinstance(element, Layout):
            raise OperandError(
                "a layout is extended by layouts only",
                operation=operation,
                operands=(("layout", value), ("element", element)),
            )
        if count == 0:
            return value
        return Layout.unchecked(
            _extend_tuple(value.shape, element.shape, count, operation),
            _extend_tuple(value.stride, element.stride, count, operation),
        )
    return _extend_tuple(value, 1 if element is None else element, count, operation)


def _extend_tuple(value: Any, element: Any, count: int, operation: str) -> tuple[Any, ...]:
    added = (element,) * count
    return wrap(value) + added if operation == "append" else added + wrap(value)
