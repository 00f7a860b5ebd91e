"""Predicates: which elements of a thread's part lie inside the tensor, for sizes that no tile divides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cutecourse.atoms.tensor import AnyLayout, LayoutTensor, as_tensor, outer_of, started
from cutecourse.layout import Layout, crd2idx, elem_less, pretty_str

__all__ = ["Predicate", "domain_offset", "predicate"]


@dataclass(frozen=True)
class Predicate:
    """One bit for each element of a thread's part: copy it, or leave it out.

    Shapes: `values` lists the elements of `shape` with the first mode fastest.
    """

    shape: Any
    values: tuple[bool, ...]

    @property
    def count(self) -> int:
        """How many elements are copied."""
        return sum(self.values)

    def __call__(self, *coord: Any) -> bool:
        """Tell whether the element at a coordinate of the part is copied."""
        crd = coord[0] if len(coord) == 1 else coord
        index: int = Layout(self.shape)(crd)
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[bool]:
        return iter(self.values)

    def __str__(self) -> str:
        return f"{pretty_str(self.shape)}: {''.join('01'[value] for value in self.values)}"


def predicate(coords: LayoutTensor | AnyLayout, shape: Any) -> Predicate:
    """Compare each coordinate of a thread's part with the shape of the whole tensor.

    `coords` is the partition of an identity tensor: its elements are the coordinates that the same
    partition of the data reads. To get one bit for each vector, keep the first coordinate of each:
    `coords((0, None), None, None)`. Such a bit is right only if no vector crosses the tensor's edge.
    Law: `predicate(t, shape)(c) = elem_less(t(c), shape)`.
    Errors: ProfileError unless the coordinates are nested as the shape is.
    Source: the loops of CUTLASS 4.2.0, include/cute/algorithm/cooperative_gemm.hpp; CuTe has no name for
            them. The DSL's `cute.copy` takes the bits as `pred`, C++'s `copy_if` as its first argument.

    >>> from cutecourse.atoms import copy_atom, make_tiled_copy
    >>> from cutecourse.layout import make_identity_layout
    >>> copy = make_tiled_copy(copy_atom("UniversalCopy<uint64_t>", "f16"), Layout((8, 4), (4, 1)), (1, 4))
    >>> part = copy.get_slice(5).partition_S(make_identity_layout((16, 32)))
    >>> print(part)
    (1,4) o ((4,1),2,2):((1@1,0),8@0,16@1)
    >>> print(predicate(part, (9, 22)))
    ((4,1),2,2): 1111000011000000
    >>> print(predicate(part((0, None), None, None), (9, 24)))
    (1,2,2): 1010
    """
    part = as_tensor(coords)
    return Predicate(part.shape, tuple(elem_less(crd, shape) for crd in part.elements()))


def domain_offset(coord: Any, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
    """The same tensor, counted from another coordinate on. A negative coordinate moves it back.

    A GEMM moves its tiles of A and B back by what K lacks to a multiple of the tile, so that the first
    k-tile is the short one. The coordinates before 0 need a predicate of their own: `elem_less` with a
    shape says nothing about them.
    Law: for a layout L, `domain_offset(o, L)(c) = L(o) + L(c)`. A swizzle is applied to the sum.
    Source: CUTLASS 4.2.0, include/cute/tensor_impl.hpp and layout_composed.hpp, domain_offset.

    >>> from cutecourse.layout import make_identity_layout
    >>> print(domain_offset((3, -5), make_identity_layout((8, 8))))
    (3,-5) o (8,8):(1@0,1@1)
    """
    whole = as_tensor(tensor)
    outer = outer_of(whole.layout)
    return started(whole.layout, outer, crd2idx(coord, outer), whole.offset)
