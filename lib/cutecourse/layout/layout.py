"""The layout itself: a function from coordinates to offsets, given by a shape and a stride."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from .basis import ArithTuple, ScaledBasis, Stride, add_strides, is_basis, make_basis_like, stride_str
from .dynamic import is_constant
from .errors import CoordinateError, OperandError, ProfileError
from .int_tuple import (
    Coord,
    IntTuple,
    check_coordinate,
    dice_tuple,
    flatten_to_tuple,
    has_underscore,
    is_congruent,
    is_node,
    map_leaves,
    pretty_str,
    product,
    product_like,
    quotient,
    slice_tuple,
    wrap,
)

__all__ = [
    "Layout",
    "crd2idx",
    "idx2crd",
    "make_identity_layout",
    "make_layout",
    "make_layout_like",
    "make_ordered_layout",
]


class Layout:
    """A function from coordinates to offsets: walk each mode of the shape with the stride beside it.

    Law: `layout((c0, c1, ...)) = c0 * d0 + c1 * d1 + ...` over the leaves of shape and stride; an integer
    coordinate counts through the shape with the leftmost mode fastest.
    Errors: `ProfileError` when shape and stride are nested differently, `OperandError` for an extent below 1.

    >>> row_major = Layout((4, 8), (8, 1))
    >>> print(row_major, row_major((2, 3)), row_major(6))
    (4,8):(8,1) 19 17
    >>> print(Layout((4, (2, 2))))
    (4,(2,2)):(1,(4,8))
    """

    __slots__ = ("shape", "stride")
    shape: Any
    stride: Any

    parse: ClassVar[Callable[[str], Any]]
    """Read a layout in CuTe's notation; see `notation.parse`.

    `notation` sets this attribute: the parser also makes composed layouts, and their module imports this one.
    """

    def __init__(self, shape: IntTuple, stride: Stride | None = None) -> None:
        shape = _check_shape(shape)
        stride = compact_stride(shape) if stride is None else _check_stride(stride)
        if not is_congruent(shape, stride):
            raise ProfileError(
                "shape and stride are nested differently",
                operation="Layout",
                operands=(("shape", shape), ("stride", stride_str(stride))),
                rule="congruence: every extent of the shape has exactly one stride",
            )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    @classmethod
    def unchecked(cls, shape: Any, stride: Any) -> Layout:
        """Make the result of an operation, whose shape and stride are congruent by construction.

        Extents of 0 pass here: the complement of a layout that is not injective has them, as in the CuTe DSL.
        """
        layout = object.__new__(cls)
        object.__setattr__(layout, "shape", shape)
        object.__setattr__(layout, "stride", stride)
        return layout

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Layout does not change; operations return new ones")

    def __reduce__(self) -> tuple[Any, ...]:
        # Copying and pickling fill slots by assignment, which is refused above.
        return Layout.unchecked, (self.shape, self.stride)

    def __call__(self, *coord: Coord) -> Any:
        """Apply the layout to a coordinate; with a `None` in it, slice instead.

        >>> Layout((4, 8), (8, 1))(1, 2)
        10
        >>> print(Layout((4, 8), (8, 1))((1, None)))
        (8):(1)
        """
        crd: Any = coord[0] if len(coord) == 1 else coord
        if type(crd) is not int and has_underscore(_plain(crd)):
            return slice_layout(self, crd)
        return crd2idx(crd, self)

    def __getitem__(self, mode: int) -> Layout:
        shape, stride = wrap(self.shape), wrap(self.stride)
        if not -len(shape) <= mode < len(shape):
            raise IndexError(f"{self} has no mode {mode}, its rank is {len(shape)}")
        return Layout.unchecked(shape[mode], stride[mode])

    def __len__(self) -> int:
        return len(wrap(self.shape))

    def __iter__(self) -> Iterator[Layout]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.shape == other.shape and self.stride == other.stride

    def __hash__(self) -> int:
        return hash((self.shape, self.stride))

    def __str__(self) -> str:
        return f"{pretty_str(self.shape)}:{stride_str(self.stride)}"

    def __repr__(self) -> str:
        return f'Layout("{self}")'

    def leaves(self) -> tuple[tuple[int, Any], ...]:
        """List the pairs of extent and stride from left to right.

        >>> Layout((4, (2, 2))).leaves()
        ((4, 1), (2, 4), (2, 8))
        """
        return tuple(zip(flatten_to_tuple(self.shape), flatten_to_tuple(self.stride), strict=True))

    def get_hier_coord(self, offset: int) -> Any:
        """Find the coordinate, nested as the shape is, of an offset of a compact layout.

        Law: `layout(layout.get_hier_coord(layout(c))) = layout(c)` when the layout is compact.

        >>> Layout((4, 8), (8, 1)).get_hier_coord(9), Layout((4, (2, 2))).get_hier_coord(5)
        ((1, 1), (1, (1, 0)))
        """
        return map_leaves(lambda s, d: 0 if s == 1 else quotient(offset, d) % s, self.shape, self.stride)

    def get_flat_coord(self, offset: int) -> Any:
        """Find the coordinate, one integer a mode, of an offset of a compact layout.

        >>> Layout((4, (2, 2))).get_flat_coord(14)
        (2, 3)
        """
        if not is_node(self.shape):
            return self.get_hier_coord(offset)
        parts = zip(self.get_hier_coord(offset), self.shape, strict=True)
        return tuple(_apply(crd, shape, compact_stride(shape)) for crd, shape in parts)


def _check_shape(shape: Any) -> IntTuple:
    if isinstance(shape, (tuple, list)):
        return tuple(_check_shape(mode) for mode in shape)
    if isinstance(shape, bool) or not isinstance(shape, int) or shape < 1:
        raise OperandError(
            f"an extent is a positive integer, not {shape!r}",
            operation="Layout",
            advice="nested tuples of positive integers, for example (4, (2, 8))",
        )
    return shape


def _check_stride(stride: Any) -> Stride:
    if isinstance(stride, ArithTuple):
        return stride
    if isinstance(stride, (tuple, list)):
        return tuple(_check_stride(element) for element in stride)
    if isinstance(stride, bool) or not isinstance(stride, (int, ScaledBasis)):
        raise OperandError(
            f"a stride is an integer or a scaled basis element, not {stride!r}",
            operation="Layout",
            advice="nested tuples of integers or of E(0), 2 * E(1), E(1, 0)",
        )
    return stride


def _plain(coord: Any) -> Any:
    return tuple(_plain(element) for element in coord) if isinstance(coord, (tuple, list)) else coord


def slice_layout(layout: Layout, coord: Any) -> Layout:
    """Keep the modes of a plain layout that a coordinate leaves open with `None`; see `slice_`."""
    check_coordinate(coord, layout.shape, layout)
    return Layout.unchecked(slice_tuple(layout.shape, coord), slice_tuple(layout.stride, coord))


def dice_layout(layout: Layout, coord: Any) -> Layout:
    """Keep the modes of a plain layout that a coordinate fixes with a number; see `dice`."""
    check_coordinate(coord, layout.shape, layout)
    return Layout.unchecked(dice_tuple(layout.shape, coord), dice_tuple(layout.stride, coord))


def from_leaves(leaves: Any, *, unpack: bool = True) -> Layout:
    """Make a layout of pairs of extent and stride; none at all is the layout of the one offset 0."""
    if not leaves:
        return Layout.unchecked(1, 0)
    if unpack and len(leaves) == 1:
        return Layout.unchecked(*leaves[0])
    return Layout.unchecked(tuple(extent for extent, _ in leaves), tuple(stride for _, stride in leaves))


def compact_stride(shape: Any, start: Any = 1) -> Any:
    """Give a shape the strides of a compact layout, leftmost mode fastest; a static 1 gets stride 0."""
    stride, _ = _compact(shape, start)
    return stride


def _compact(shape: Any, current: Any) -> tuple[Any, Any]:
    if is_node(shape):
        strides = []
        for mode in shape:
            stride, current = _compact(mode, current)
            strides.append(stride)
        return tuple(strides), current
    return (0, current) if is_constant(1, shape) else (current, current * shape)


def make_layout(
    shape: IntTuple | Layout | Iterable[Layout], *layouts: Layout, stride: Stride | None = None
) -> Layout:
    """Make a layout from shape and stride, or put layouts side by side as modes of one.

    Law: `make_layout(a, b)((i, j)) = a(i) + b(j)`. Without `stride`, compact with the leftmost mode fastest.
    Errors: as `Layout`.

    >>> print(make_layout((4, 8)), make_layout((4, 8), stride=(8, 1)))
    (4,8):(1,4) (4,8):(8,1)
    >>> print(make_layout(make_layout(4), make_layout((2, 2), stride=(4, 16))))
    (4,(2,2)):(1,(4,16))
    """
    if isinstance(shape, Layout):
        return _concatenate((shape, *layouts), stride)
    if not isinstance(shape, (tuple, int)):
        shape = tuple(shape)
    if isinstance(shape, tuple) and shape and all(isinstance(mode, Layout) for mode in shape):
        return _concatenate(shape, stride)
    if layouts:
        raise OperandError(
            "takes one shape, or layouts only",
            operation="make_layout",
            operands=(("shape", shape), ("layouts", layouts)),
            advice="make_layout(shape, stride=...)",
        )
    return Layout(shape, stride)  # type: ignore[arg-type]


def _concatenate(layouts: Sequence[Any], stride: object) -> Layout:
    if stride is not None:
        raise OperandError(
            "layouts bring their own strides", operation="make_layout", operands=(("stride", stride),)
        )
    return Layout.unchecked(
        tuple(layout.shape for layout in layouts), tuple(layout.stride for layout in layouts)
    )


def make_ordered_layout(shape: IntTuple, order: IntTuple) -> Layout:
    """Make a compact layout whose modes are laid out in the given order, the smallest number fastest.

    Law: the stride of a mode starts at the product of all extents with a smaller order.
    Errors: `ProfileError` when `order` is nested deeper than `shape` or has another rank.

    >>> print(make_ordered_layout((4, 8), (1, 0)), make_ordered_layout((2, 3, 4), (2, 0, 1)))
    (4,8):(8,1) (2,3,4):(12,1,3)
    """
    shape, order = _check_shape(shape), _plain(order)
    flat_order = flatten_to_tuple(order)
    try:
        extents = flatten_to_tuple(product_like(shape, order))
    except ProfileError as error:
        raise ProfileError(
            "shape and order are nested differently",
            operation="make_ordered_layout",
            operands=(("shape", shape), ("order", order)),
            rule="weak congruence: every number of the order stands for one mode of the shape",
        ) from error

    def strides(mode: Any, rank: Any) -> Any:
        if is_node(rank):
            return tuple(strides(m, r) for m, r in zip(mode, rank, strict=True))
        start = product(tuple(e for e, o in zip(extents, flat_order, strict=True) if o < rank))
        return compact_stride(mode, start)

    return Layout.unchecked(shape, strides(shape, order))


def make_identity_layout(shape: IntTuple) -> Layout:
    """Make the coordinate tensor of a shape: the layout that returns the coordinate it is given.

    Law: `make_identity_layout(shape)(c) = c` for every coordinate nested as the shape is.

    >>> print(make_identity_layout((4, (8, 2))), make_identity_layout((4, 8))(9))
    (4,(8,2)):(1@0,(1@0@1,1@1@1)) (1,2)
    """
    shape = _check_shape(shape)
    return Layout.unchecked(shape, make_basis_like(shape))


def make_layout_like(layout: Layout) -> Layout:
    """Make a compact layout with the same shape and the same order of strides; stride 0 stays 0.

    >>> print(make_layout_like(Layout((4, 8, 2), (16, 1, 0))))
    (4,8,2):(8,1,0)
    """
    require_layout(layout, "make_layout_like")
    if has_basis(layout.stride):
        raise OperandError(
            "coordinates have no order", operation="make_layout_like", operands=(("layout", layout),)
        )
    extents = map_leaves(lambda s, d: 1 if d == 0 else s, layout.shape, layout.stride)
    return Layout.unchecked(layout.shape, make_ordered_layout(extents, layout.stride).stride)


def crd2idx(coord: Coord, layout: Any) -> Any:
    """Map a coordinate to the offset a layout gives it; a shape stands for its compact layout.

    Law: `crd2idx(c, shape:stride) = sum of c_i * stride_i` over the leaves; an integer given for a nested
    mode is split first, leftmost fastest, and the last mode is never wrapped around.
    Errors: `CoordinateError` when the coordinate is not weakly congruent to the shape.

    >>> crd2idx((1, 2), Layout((4, 8), (8, 1))), crd2idx((1, 2), (4, 8)), crd2idx(9, Layout((4, 8), (8, 1)))
    (10, 9, 10)
    """
    if isinstance(layout, (int, tuple, list)):
        layout = Layout(layout)  # type: ignore[arg-type]
    if hasattr(layout, "outer"):
        return layout(coord)
    crd = _plain(coord)
    try:
        value = _apply(crd, layout.shape, layout.stride)
    except _Mismatch as mismatch:
        raise CoordinateError(
            str(mismatch),
            operation="crd2idx",
            operands=(("coordinate", crd), ("layout", layout)),
            rule="weak congruence: each integer of the coordinate stands for one mode of the shape",
        ) from None
    return value.as_arith_tuple() if isinstance(value, ScaledBasis) else value


class _Mismatch(Exception):
    pass


def _apply(crd: Any, shape: Any, stride: Any) -> Any:
    if type(crd) is int and type(shape) is int:  # nearly every call
        return crd * stride
    total: Any = 0
    if is_node(crd):
        if not is_node(shape):
            raise _Mismatch(f"{pretty_str(crd)} is given for the single extent {shape}")
        if len(crd) != len(shape):
            raise _Mismatch(
                f"{pretty_str(crd)} has rank {len(crd)}, {pretty_str(shape)} has rank {len(shape)}"
            )
        for c, s, d in zip(crd, shape, stride, strict=True):
            total = add_strides(total, _apply(c, s, d))
    elif is_node(shape):
        last = len(shape) - 1
        for position, (s, d) in enumerate(zip(shape, stride, strict=True)):
            part = crd
            if position != last:
                extent = s if type(s) is int else product(s)
                crd = quotient(crd, extent)
                part -= extent * crd
            total = add_strides(total, part * d if type(part) is type(s) is int else _apply(part, s, d))
    elif isinstance(crd, bool) or not isinstance(crd, int):
        raise _Mismatch(f"{crd!r} is no integer")
    else:
        return crd * stride
    return total


def idx2crd(index: IntTuple, shape: IntTuple) -> Any:
    """Split an index into a coordinate nested as the shape is, leftmost mode fastest.

    Law: `crd2idx(idx2crd(i, shape), shape) = i`. The last mode is not wrapped around.
    Errors: `CoordinateError` when the index is nested deeper than the shape or has another rank.

    >>> idx2crd(5, (4, (2, 4))), idx2crd((5, 9), (4, (2, 8)))
    ((1, (1, 0)), (5, (1, 4)))
    """
    index, shape = _plain(index), _check_shape(shape)
    if is_node(index):
        if not is_node(shape) or len(index) != len(shape):  # type: ignore[arg-type]
            raise CoordinateError(
                "the index is nested differently from the shape",
                operation="idx2crd",
                operands=(("index", index), ("shape", shape)),
                rule="weak congruence: each integer of the index stands for one mode of the shape",
            )
        return tuple(idx2crd(i, s) for i, s in zip(index, shape, strict=True))  # type: ignore[arg-type]
    if not is_node(shape):
        return index
    coordinate = _apply(index, shape, make_basis_like(shape))
    return _plain(coordinate.as_arith_tuple() if isinstance(coordinate, ScaledBasis) else coordinate)


def abs_stride(stride: Any) -> Any:
    """Drop the sign of every stride."""
    if isinstance(stride, ScaledBasis):
        return -stride if stride.value < 0 else stride
    if isinstance(stride, ArithTuple):
        return ArithTuple([abs_stride(element) for element in stride])
    return abs(stride)


def require_layout(value: object, operation: str) -> None:
    """Refuse an operand that is no plain layout."""
    if not isinstance(value, Layout):
        raise OperandError(
            f"{value!r} is no layout",
            operation=operation,
            advice="make_layout(shape, stride=...), or Layout.parse(text)",
        )


def coshape(layout: Layout) -> Any:
    """Say how far the layout reaches: one past the largest offset, coordinate by coordinate.

    >>> coshape(Layout((4, 8), (8, 1))), coshape(make_identity_layout((4, 8)))
    (32, (4, 8))
    """
    last: Any = 0
    for extent, stride in layout.leaves():
        last = add_strides(last, (extent - 1) * abs_stride(stride))
    if isinstance(last, ScaledBasis):
        last = last.as_arith_tuple()
    return map_leaves(lambda value: value + 1, _plain(last))


def has_basis(stride: Any) -> bool:
    """Tell whether any stride names a coordinate."""
    return any(is_basis(leaf) for leaf in flatten_to_tuple(stride))
