"""Composed layouts: a swizzle or another layout behind an offset, kept apart because no stride says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from .basis import ArithTuple, add_strides
from .errors import OperandError
from .int_tuple import Coord, IntTuple, has_underscore, pretty_str
from .layout import Layout, has_basis
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
            from .slicing import slice_

            return slice_(self, crd)
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
