"""Composed layouts: a swizzle or another layout behind an offset, kept apart because no stride says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from .basis import ArithTuple, add_strides
from .compose_plain import compose_plain
from .errors import OperandError
from .int_tuple import (
    Coord,
    IntTuple,
    check_coordinate,
    dice_tuple,
    has_underscore,
    pretty_str,
    product,
    with_zeros,
)
from .layout import Layout, dice_layout, has_basis, slice_layout
from .swizzle import Swizzle

__all__ = ["ComposedLayout", "get_nonswizzle_portion", "get_swizzle_portion", "make_composed_layout"]


class ComposedLayout:
    """A function after an offset after a layout; the outer layout has the coordinates.

    Law: `ComposedLayout(A, o, B)(c) = A(o + B(c))`.
    Errors: `OperandError` for a swizzle over coordinates, or for parts of the wrong kind.

    >>> swizzled = ComposedLayout(Swizzle(2, 0, 3), 0, Layout((4, 8), (8, 1)))
    >>> print(swizzled, swizzled((1, 0)), swizzled((1, 1)))
    S<2,0,3> o 0 o (4,8):(8,1) 9 8
    """

    __slots__ = ("inner", "offset", "outer")
    inner: Any
    offset: Any
    outer: Any

    def __init__(self, inner: Any, offset: IntTuple, outer: Any) -> None:
        operands = (("inner", inner), ("offset", offset), ("outer", outer))
        if not isinstance(inner, (Swizzle, Layout, ComposedLayout)):
            raise OperandError(
                "the inner function is a swizzle or a layout", operation="ComposedLayout", operands=operands
            )
        if not isinstance(outer, (Layout, Swizzle)):
            raise OperandError(
                "the outer layout is a plain layout", operation="ComposedLayout", operands=operands
            )
        if isinstance(inner, Swizzle) and (
            not isinstance(offset, int) or (isinstance(outer, Layout) and has_basis(outer.stride))
        ):
            raise OperandError(
                "a swizzle permutes integer offsets, not coordinates",
                operation="ComposedLayout",
                operands=operands,
                rule="behind a swizzle: an integer offset, and strides without basis elements",
            )
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "outer", outer)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a ComposedLayout does not change; operations return new ones")

    def __reduce__(self) -> tuple[Any, ...]:
        return ComposedLayout, (self.inner, self.offset, self.outer)

    def replace_outer(self, outer: Layout) -> ComposedLayout:
        """Put another outer layout behind the same inner function and offset."""
        return ComposedLayout(self.inner, self.offset, outer)

    @property
    def shape(self) -> Any:
        """The shape of the outer layout."""
        return self.outer.shape

    def __call__(self, *coord: Coord) -> Any:
        """Apply the layout to a coordinate; with a `None` in it, slice instead."""
        crd: Any = coord[0] if len(coord) == 1 else coord
        if has_underscore(crd):
            return slice_composed(self, crd)
        offset = ArithTuple(self.offset) if isinstance(self.offset, tuple) else self.offset
        return self.inner(add_strides(offset, self.outer(crd)))

    def __getitem__(self, mode: int) -> ComposedLayout:
        return self.replace_outer(self.outer[mode])

    def __len__(self) -> int:
        return len(self.outer)

    def __iter__(self) -> Iterator[ComposedLayout]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposedLayout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, Any, Any]:
        return (self.inner, self.offset, self.outer)

    def __str__(self) -> str:
        return f"{self.inner} o {pretty_str(self.offset)} o {self.outer}"

    def __repr__(self) -> str:
        return f'Layout.parse("{self}")'


AnyLayout: TypeAlias = Layout | ComposedLayout
"""A plain or a composed layout."""


def make_composed_layout(inner: Any, offset: IntTuple, outer: Layout) -> ComposedLayout:
    """Compose an inner function, an offset and an outer layout without computing anything.

    Law: `result(c) = inner(offset + outer(c))`.

    >>> print(make_composed_layout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1))))
    S<3,4,3> o 0 o (8,64):(64,1)
    """
    if not isinstance(outer, Layout):
        raise OperandError(
            "the outer layout is a plain layout",
            operation="make_composed_layout",
            operands=(("inner", inner), ("offset", offset), ("outer", outer)),
        )
    return ComposedLayout(inner, offset, outer)


def get_swizzle_portion(layout: AnyLayout) -> Swizzle:
    """Give the swizzle of a layout; `S<0,4,3>`, which changes nothing, when it has none.

    >>> print(get_swizzle_portion(Layout(8)))
    S<0,4,3>
    """
    inner = layout.inner if isinstance(layout, ComposedLayout) else None
    return inner if isinstance(inner, Swizzle) else Swizzle(0, 4, 3)


def get_nonswizzle_portion(layout: AnyLayout) -> Layout:
    """Give the plain layout that holds the coordinates: the outer one of a composed layout.

    >>> print(get_nonswizzle_portion(ComposedLayout(Swizzle(3, 4, 3), 0, Layout(8))))
    8:1
    """
    return layout.outer if isinstance(layout, ComposedLayout) else layout


def slice_composed(layout: ComposedLayout, coord: Any) -> ComposedLayout:
    """Keep the modes of a composed layout that a coordinate leaves open with `None`; see `slice_`."""
    if isinstance(layout.outer, Swizzle):
        check_coordinate(coord, layout.outer, layout)  # a swizzle has no modes
        return layout
    rest = slice_layout(layout.outer, coord)
    if coord is None or _all_open(coord):
        return layout.replace_outer(rest)
    if not isinstance(layout.inner, Swizzle):
        offset = add_strides(layout.offset, layout.outer(with_zeros(coord)))
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
    if len(rest) == 0:
        return ComposedLayout(Swizzle(0, 4, 3), 0, rest)
    span = abs(swizzle.num_shift)
    low, between = 1 << swizzle.num_base, 1 << (span - swizzle.num_bits)
    several = 1 << swizzle.num_bits
    blocks = Layout((low, several, between, several, 1))
    swizzled_bits = Layout.unchecked(blocks.shape, (0, blocks.stride[1], 0, blocks.stride[3], 0))
    taken = dice_layout(layout.outer, coord)
    fixed = layout.offset ^ compose_plain(swizzled_bits, taken)(dice_tuple(coord, coord))
    reached = compose_plain(swizzled_bits, rest)
    active = reached(product(reached.shape) - 1)
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
    return ComposedLayout(Swizzle(0, 4, 3), 0, compose_plain(plain, rest))
