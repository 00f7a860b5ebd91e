"""A tensor without memory: a layout and the offset it starts from; what a partition returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as cartesian
from typing import Any

from cutecourse.layout import (
    ArithTuple,
    ComposedLayout,
    Layout,
    composition,
    crd2idx,
    group_modes,
    has_underscore,
    local_tile,
    repeat_like,
    size,
)
from cutecourse.layout.layout import coshape, has_basis

__all__ = ["AnyLayout", "LayoutTensor", "as_tensor"]

AnyLayout = Layout | ComposedLayout
"""A layout, or a swizzle (or another function) applied to one."""


@dataclass(frozen=True)
class LayoutTensor:
    """A layout that starts at an offset: element `c` lies at `offset + layout(c)`.

    CuTe's tensors have a pointer where this has an offset, counted in elements from the start of
    the whole tensor. With basis strides the offset is a coordinate, and so is every element.
    A swizzled layout takes the offset inside, where the swizzle sees it.

    Simplified: a slice of a swizzled layout stays a swizzled layout. C++ may write it as a plain
                layout with strides computed at run time, when the slice crosses only one of the
                swizzle's two groups of bits; the elements are the same.
    Source: CUTLASS 4.2.0, include/cute/tensor_impl.hpp and swizzle_layout.hpp.

    >>> t = LayoutTensor(Layout((2, 4), (1, 8)), 64)
    >>> print(t, t(1, 2))
    64 o (2,4):(1,8) 81
    """

    layout: AnyLayout
    offset: Any = 0

    @property
    def shape(self) -> Any:
        """The layout's shape."""
        return self.layout.shape

    @property
    def stride(self) -> Any:
        """The layout's stride; for a swizzled layout that of the layout under the swizzle."""
        return outer_of(self.layout).stride

    @property
    def size(self) -> int:
        """How many elements there are."""
        return int(size(outer_of(self.layout)))

    def __call__(self, *coord: Any) -> Any:
        """Where an element lies; an integer counts the elements with the first mode fastest."""
        crd = coord[0] if len(coord) == 1 else coord
        if has_underscore(crd):
            return self._slice(crd)
        return self.offset + self.layout(crd)

    def _slice(self, crd: Any) -> LayoutTensor:
        outer = outer_of(self.layout)
        start = crd2idx(_zeros(crd), outer)
        return started(self.layout, outer(crd), start, self.offset)

    def elements(self) -> Iterator[Any]:
        """Where each element lies, the first mode fastest.

        >>> list(LayoutTensor(Layout((2, 2), (1, 8)), 64).elements())
        [64, 65, 72, 73]
        """
        return (self(index) for index in range(self.size))

    def coords(self) -> Iterator[Any]:
        """Every coordinate, one integer a mode, the first mode fastest.

        >>> list(LayoutTensor(Layout((2, (1, 2)), (1, (0, 8)))).coords())
        [(0, 0), (1, 0), (0, 1), (1, 1)]
        """
        outer = outer_of(self.layout)
        extents = [int(size(outer[mode])) for mode in range(len(outer))]
        return (tuple(reversed(crd)) for crd in cartesian(*(range(e) for e in reversed(extents))))

    def compose(self, tiler: Any) -> LayoutTensor:
        """The same elements in another order: the layout composed with a layout or a tuple of them.

        >>> print(LayoutTensor(Layout((8, 4), (1, 16)), 64).compose((Layout(4, 2), None)))
        64 o (4,4):(2,16)
        """
        return LayoutTensor(composition(self.layout, tiler), self.offset)

    def group_modes(self, begin: int, end: int | None = None) -> LayoutTensor:
        """The same tensor with the modes from `begin` up to `end` put into one.

        >>> print(LayoutTensor(Layout((2, 3, 4)), 64).group_modes(0, 2))
        64 o ((2,3),4):((1,2),6)
        """
        return LayoutTensor(group_modes(self.layout, begin, end), self.offset)

    def local_tile(self, tiler: Any, coord: Any, proj: Any = None) -> LayoutTensor:
        """One tile of the tensor, or with `None` in the coordinate the tiles along that mode.

        Errors: as `cutecourse.layout.local_tile`.

        >>> print(as_tensor(Layout.parse("(512,256):(1@1,1@0)")).local_tile((128, 64), (1, None)))
        (0,128) o (128,64,4):(1@1,1@0,64@0)
        """
        whole = as_tensor(self)
        outer, start = local_tile(outer_of(whole.layout), tiler, coord, proj)
        return started(whole.layout, outer, start, whole.offset)

    def __str__(self) -> str:
        return f"{self.offset} o {self.layout}"


def as_tensor(tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
    """A layout alone is a tensor that starts at 0, or at the coordinate 0 of a coordinate tensor.

    >>> print(as_tensor(Layout.parse("(4,8):(1@0,1@1)")))
    (0,0) o (4,8):(1@0,1@1)
    """
    whole = tensor if isinstance(tensor, LayoutTensor) else LayoutTensor(tensor)
    outer = outer_of(whole.layout)
    if isinstance(whole.offset, int) and whole.offset == 0 and has_basis(outer.stride):
        return LayoutTensor(whole.layout, ArithTuple(repeat_like(0, coshape(outer))))
    return whole


def outer_of(layout: AnyLayout) -> Layout:
    """The layout that coordinates meet first: under a swizzle the plain layout, else the layout itself."""
    return layout.outer if isinstance(layout, ComposedLayout) else layout


def rewrapped(layout: AnyLayout, outer: Layout) -> AnyLayout:
    """The same function of offsets on top of another layout: a rearrangement of the coordinates."""
    return layout.replace_outer(outer) if isinstance(layout, ComposedLayout) else outer


def started(layout: AnyLayout, outer: Layout, start: Any, offset: Any) -> LayoutTensor:
    """The part of a tensor that has the layout `outer` and begins `start` elements on."""
    if isinstance(layout, ComposedLayout):
        return LayoutTensor(ComposedLayout(layout.inner, layout.offset + start, outer), offset)
    return LayoutTensor(outer, offset + start)


def flat_coord(index: int, layout: Layout) -> tuple[int, ...]:
    """The coordinate, one integer a mode, at which an injective layout has the value `index`.

    Law: `layout(flat_coord(i, layout)) = i` for every `i` in the image of a compact layout.
    Source: CUTLASS 4.2.0, include/cute/layout.hpp, Layout::get_flat_coord.

    >>> flat_coord(33, Layout((32, 2, 2), (1, 64, 32)))
    (1, 0, 1)
    """
    coordinate = []
    for mode in layout:
        value, unit = 0, 1
        for extent, stride in mode.leaves():
            value += unit * ((index // stride) % extent if stride else 0)
            unit *= extent
        coordinate.append(value)
    return tuple(coordinate)


def _zeros(crd: Any) -> Any:
    if isinstance(crd, tuple):
        return tuple(_zeros(c) for c in crd)
    return 0 if crd is None else crd
