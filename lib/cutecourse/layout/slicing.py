"""Slices, tiles and partitions: the part of a layout that a coordinate leaves over."""

from __future__ import annotations

from typing import Any

from .basis import add_strides
from .compose import composition
from .composed import AnyLayout, ComposedLayout
from .divides import zipped_divide
from .errors import CoordinateError, OperandError
from .int_tuple import Coord, is_node, pretty_str, product_each
from .layout import Layout
from .modes import depth, rank
from .swizzle import Swizzle

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
        return _slice_composed(value, coord)
    if isinstance(value, Layout):
        _check(coord, value.shape, value)
        if coord is None:
            return value
        return Layout.unchecked(_open(value.shape, coord, keep=True), _open(value.stride, coord, keep=True))
    _check(coord, value, value)
    return value if coord is None else _open(value, coord, keep=True)


def dice(value: Any, coord: Coord) -> Any:
    """Keep the modes that a coordinate fixes with a number: the other part of `slice_`.

    >>> print(dice(Layout((32, 16, 8)), (1, None, 1)))
    (32,8):(1,512)
    """
    if isinstance(value, ComposedLayout):
        return value.replace_outer(dice(value.outer, coord))
    if isinstance(value, Layout):
        _check(coord, value.shape, value)
        if not isinstance(coord, tuple) and coord is not None:
            return value
        return Layout.unchecked(_open(value.shape, coord, keep=False), _open(value.stride, coord, keep=False))
    _check(coord, value, value)
    if not isinstance(coord, tuple) and coord is not None:
        return value
    return _open(value, coord, keep=False)


def slice_and_offset(coord: Coord, layout: AnyLayout) -> tuple[Any, Any]:
    """Slice a layout, and give the offset at which the slice starts.

    Law: `A(c) = layout(free part of c) + offset`.

    >>> slice_and_offset((None, 3), Layout((8, 64), (64, 1)))
    (Layout("(8):(64)"), 3)
    """
    offset = layout(_with_zeros(coord))
    return slice_(layout, coord), offset


def _with_zeros(coord: Any) -> Any:
    if isinstance(coord, tuple):
        return tuple(_with_zeros(element) for element in coord)
    return 0 if coord is None else coord


def _check(coord: Any, shape: Any, whole: Any) -> None:
    if not isinstance(coord, tuple):
        return
    if not is_node(shape) or len(coord) != len(shape):
        raise CoordinateError(
            f"{pretty_str(coord)} is no coordinate in {pretty_str(shape)}",
            operation="slice_",
            operands=(("coordinate", coord), ("layout", whole)),
            rule="weak congruence: each entry of the coordinate stands for one mode",
        )
    for part, mode in zip(coord, shape, strict=True):
        _check(part, mode, whole)


def _open(value: Any, coord: Any, *, keep: bool) -> tuple[Any, ...]:
    """List the parts of a shape or stride whose coordinate is open (`keep`) or fixed."""
    if isinstance(coord, tuple):
        return tuple(part for v, c in zip(value, coord, strict=True) for part in _open(v, c, keep=keep))
    return (value,) if (coord is None) == keep else ()


def _slice_composed(layout: ComposedLayout, coord: Any) -> ComposedLayout:
    rest = slice_(layout.outer, coord)
    if coord is None or _all_open(coord):
        return layout.replace_outer(rest)
    if not isinstance(layout.inner, Swizzle):
        offset = add_strides(layout.offset, layout.outer(_with_zeros(coord)))
        return ComposedLayout(layout.inner, offset, rest)
    return _slice_swizzled(layout, coord, rest)


def _all_open(coord: Any) -> bool:
    return all(_all_open(part) for part in coord) if isinstance(coord, tuple) else coord is None


def _slice_swizzled(layout: ComposedLayout, coord: Any, rest: Layout) -> ComposedLayout:
    """Slice behind a swizzle; where the slice no longer meets both Y and Z bits, strides say it again.

    Source: what CuTe C++ does for `slice_and_offset` of a swizzled layout; the CuTe DSL keeps the plain
    layout behind the swizzle `S<0,4,3>` that changes nothing.
    """
    swizzle = layout.inner
    if rank(rest) == 0:
        return ComposedLayout(Swizzle(0, 4, 3), 0, rest)
    span = abs(swizzle.num_shift)
    low, between = 1 << swizzle.num_base, 1 << (span - swizzle.num_bits)
    several = 1 << swizzle.num_bits
    blocks = Layout((low, several, between, several, 1))
    swizzled_bits = Layout.unchecked(blocks.shape, (0, blocks.stride[1], 0, blocks.stride[3], 0))
    taken = dice(layout.outer, coord)
    fixed = layout.offset ^ composition(swizzled_bits, taken)(_numbers(coord))
    reached = composition(swizzled_bits, rest)
    active = reached(_last(reached))
    if active & ~swizzle(active):
        return ComposedLayout(swizzle, fixed, rest)
    flipped = swizzle.zzz_mask & -swizzle.zzz_mask
    read = swizzle.yyy_mask & -swizzle.yyy_mask
    z_strides, y_strides = [], []
    for place in range(swizzle.num_bits):
        z_bit, y_bit = flipped << place, read << place
        z_strides.append(-z_bit if fixed & y_bit else z_bit)
        y_strides.append(y_bit - z_bit if fixed & z_bit else y_bit + z_bit)
    below, above = (z_strides, y_strides) if flipped < read else (y_strides, z_strides)
    twos = (2,) * swizzle.num_bits
    plain = Layout.unchecked(
        (low, twos, between, twos, 1),
        (1, tuple(below), low * several, tuple(above), low * several * between * several),
    )
    return ComposedLayout(Swizzle(0, 4, 3), 0, composition(plain, rest))


def _numbers(coord: Any) -> Any:
    """List the numbers of a coordinate, without what it leaves open."""
    if isinstance(coord, tuple):
        return _open(coord, coord, keep=False)
    return coord


def _last(layout: Layout) -> int:
    last = 1
    for extent, _ in layout.leaves():
        last *= extent
    return last - 1


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
