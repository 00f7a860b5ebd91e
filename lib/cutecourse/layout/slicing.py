"""Slices, tiles and partitions: the part of a layout that a coordinate leaves over."""

from __future__ import annotations

from typing import Any

from .composed import AnyLayout, ComposedLayout, slice_composed
from .divides import zipped_divide
from .errors import CoordinateError, OperandError
from .int_tuple import Coord, check_coordinate, dice_tuple, is_node, product_each, slice_tuple, with_zeros
from .layout import Layout, dice_layout, slice_layout
from .modes import depth, rank

__all__ = ["dice", "local_partition", "local_tile", "slice_", "slice_and_offset"]


def slice_(value: Any, coord: Coord) -> Any:
    """Keep the modes that a coordinate leaves open with `None`, side by side.

    Law: `A(c) = slice_(A, c)(free part of c) + offset`; the offset is `slice_and_offset`'s.
    Errors: `CoordinateError` when the coordinate is not weakly congruent to the shape; behind a swizzle,
    `DivisibilityError` where the layout does not compose with the swizzle's bits, as in CuTe C++.

    >>> print(slice_(Layout((4, (2, 4)), (1, (4, 16))), (None, (1, None))))
    (4,4):(1,16)
    """
    if isinstance(value, ComposedLayout):
        return slice_composed(value, coord)
    if isinstance(value, Layout):
        return slice_layout(value, coord)
    check_coordinate(coord, value, value)
    return slice_tuple(value, coord)


def dice(value: Any, coord: Coord) -> Any:
    """Keep the modes that a coordinate fixes with a number: the other part of `slice_`.

    >>> print(dice(Layout((32, 16, 8)), (1, None, 1)))
    (32,8):(1,512)
    """
    if isinstance(value, ComposedLayout):
        return value.replace_outer(dice(value.outer, coord))
    if isinstance(value, Layout):
        return dice_layout(value, coord)
    check_coordinate(coord, value, value)
    return dice_tuple(value, coord)


def slice_and_offset(coord: Coord, layout: AnyLayout) -> tuple[Any, Any]:
    """Slice a layout, and give the offset at which the slice starts.

    Law: `A(c) = layout(free part of c) + offset`.

    >>> slice_and_offset((None, 3), Layout((8, 64), (64, 1)))
    (Layout("(8):(64)"), 3)
    """
    offset = layout(with_zeros(coord))
    return slice_(layout, coord), offset


def local_tile(layout: AnyLayout, tiler: Any, coord: Coord, proj: Any = None) -> tuple[Any, Any]:
    """Cut a layout into tiles and take one: the tile's layout, and the offset at which it starts.

    Law: `(tile, offset) = slice_and_offset((None, coord), zipped_divide(layout, tiler))`; `proj` drops the
    modes of tiler and coordinate where it holds `None`. A `None` in `coord` keeps that mode of the rest.
    Errors: as `zipped_divide` and `slice_`.

    >>> tile, offset = local_tile(Layout((16, 8), (8, 1)), (4, 2), (1, 3))
    >>> print(tile, offset)
    (4,2):(8,1) 38
    """
    if proj is not None:
        tiler, coord = dice(tiler, proj), dice(coord, proj)
    divided = zipped_divide(layout, tiler)
    if not isinstance(coord, tuple) or len(coord) != rank(divided[1]):
        raise CoordinateError(
            f"the tiles are numbered by {rank(divided[1])} modes",
            operation="local_tile",
            operands=(("layout", layout), ("tiler", tiler), ("coord", coord)),
            rule="the coordinate is a tuple with one entry for each mode of the rest",
        )
    open_tile = (None,) * rank(divided[0]) if depth(divided[0]) else None
    where: Any = (open_tile, coord)
    return slice_and_offset(where, divided)


def local_partition(layout: AnyLayout, tile: Any, index: int, proj: Any = None) -> tuple[Any, Any]:
    """Deal the elements of a layout out to threads: the part of one thread, and its offset.

    `tile` is the layout of the threads, `index` the thread. Law: with `c = tile.get_flat_coord(index)` the
    part is the rest of `zipped_divide(layout, product_each(shape(tile)))` behind tile coordinate `c`.
    Errors: as `zipped_divide` and `slice_`.

    >>> part, offset = local_partition(Layout((16, 8), (8, 1)), Layout((4, 2), (2, 1)), 3)
    >>> print(part, offset)
    (4,4):(32,2) 9
    """
    if not isinstance(tile, Layout):
        tile = Layout(tile)
    if proj is not None:
        tile = dice(tile, proj)
    if not isinstance(index, int):
        raise OperandError(
            f"{index!r} is no thread index", operation="local_partition", operands=(("tile", tile),)
        )
    tiler = product_each(tile.shape)
    divided = zipped_divide(layout, tiler if is_node(tiler) else Layout(tiler))
    rest: Any = (None,) * rank(divided[1]) if depth(divided[1]) else None
    return slice_and_offset((tile.get_flat_coord(index), rest), divided)
