"""Inverses of layouts, and what two layouts have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .basis import coprofile
from .complements import modes_by_coordinate, refuse_partial_coordinates
from .compose import composition
from .composed import ComposedLayout
from .errors import DivisibilityError, OperandError
from .explanation import explained, note
from .int_tuple import flatten_to_tuple, is_node
from .layout import Layout, from_leaves, has_basis, require_layout
from .simplify import coalesce, flat_modes
from .swizzle import Swizzle

__all__ = ["left_inverse", "max_common_layout", "max_common_vector", "right_inverse"]

_Mode = tuple[int, int, int]  # extent, stride, and where the mode's coordinates start in the index


@explained("A(right_inverse(A)(i)) = i")
def right_inverse(layout: Any) -> Any:
    """Find the layout that says at which index of `layout` each offset is, from offset 0 on without a gap.

    Law: `A(right_inverse(A)(i)) = i` for every `i` below the size of the inverse, the longest there is.
    Errors: `OperandError` when strides of offsets and of coordinates are mixed.

    >>> print(right_inverse(Layout((4, 8), (8, 1))), right_inverse(Layout((4, 8), (1, 8))))
    (8,4):(4,1) 4:1
    """
    if isinstance(layout, (ComposedLayout, Swizzle)):
        return _invert_composed(right_inverse, layout)
    result = _invert(layout, _right, "right_inverse")
    note("result", "where each offset comes from", result=result)
    return result


@explained("left_inverse(A)(A(i)) = i")
def left_inverse(layout: Any) -> Any:
    """Find the layout that takes each offset of `layout` back to its index, whatever lies in the gaps.

    Law: `left_inverse(A)(A(i)) = i` for every `i` when `A` is injective; in any case
    `A(left_inverse(A)(A(i))) = A(i)`.
    Errors: `DivisibilityError` when a stride is no multiple of what lies below it, or is negative.

    >>> print(left_inverse(Layout((4, 8), (8, 1))), left_inverse(Layout((4, 3), (1, 5))))
    (8,4):(4,1) (5,3):(1,4)
    """
    if isinstance(layout, (ComposedLayout, Swizzle)):
        return _invert_composed(left_inverse, layout)
    result = _invert(layout, _left, "left_inverse")
    note("result", "where each offset came from", result=result)
    return result


def _invert(layout: Layout, invert: Callable[[list[_Mode], Layout], Layout], operation: str) -> Layout:
    require_layout(layout, operation)
    if layout.shape == ():
        raise OperandError("the empty layout has no inverse", operation=operation)
    flat = coalesce(layout)
    modes: list[tuple[int, Any, int]] = []
    start = 1
    for extent, stride in flat_modes(flat):
        modes.append((extent, stride, start))
        start *= extent
    starts = tuple(begin for _, _, begin in modes)
    note("count", "an index counts through these modes, each from a start on", modes=flat, starts=starts)
    if not has_basis(layout.stride):
        return invert(modes, layout)
    groups = modes_by_coordinate(flat, operation, layout)
    profile = coprofile(layout.stride)
    if invert is _left:
        refuse_partial_coordinates(groups, profile, operation, layout)

    def build(profile: Any, path: tuple[int, ...]) -> Layout:
        if is_node(profile):
            parts = [build(part, (*path, i)) for i, part in enumerate(profile)]
            return Layout.unchecked(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
        steps = [(e, s.value, b) for e, s, b in (modes[i] for i in groups.get(path, []))]
        note("coordinate", f"invert coordinate {list(path)} on its own", count=len(steps))
        return invert(steps, layout)

    return build(profile, ())


def _right(modes: list[_Mode], layout: Layout) -> Layout:
    found: list[tuple[int, int]] = []
    offset = 1
    for extent, stride, start in sorted(modes, key=lambda mode: mode[1]):
        mode = Layout.unchecked(extent, stride)
        if stride == offset:
            found.append((extent, start))
            offset = extent * stride
            note(
                "next",
                f"{mode} goes on at offset {stride}, and starts at index {start}",
                found=from_leaves(found),
            )
        else:
            note("skip", f"{mode} does not go on at offset {offset}", found=from_leaves(found))
    merged: Layout = coalesce(from_leaves(found))
    return merged


def _left(modes: list[_Mode], layout: Layout) -> Layout:
    ordered = sorted((mode for mode in modes if mode[1] != 0), key=lambda mode: mode[1])
    found: list[tuple[int, int]] = []
    offset, start_below = 1, 0
    for extent, stride, start in ordered:
        mode = Layout.unchecked(extent, stride)
        if stride < 0 or stride % offset != 0:
            problem = "is negative" if stride < 0 else f"is no multiple of the {offset} below it"
            raise DivisibilityError(
                f"the stride of {mode} {problem}",
                operation="left_inverse",
                operands=(("layout", layout),),
                rule="each stride is a multiple of the next smaller one",
            )
        found.append((stride // offset, start_below))
        note("step", f"offsets below {stride} belong to what is below {mode}", found=from_leaves(found))
        offset, start_below = stride, start
    if ordered:
        found.append((ordered[-1][0], start_below))
        note("last", f"{ordered[-1][0]} steps of {offset} remain", found=from_leaves(found))
    merged: Layout = coalesce(from_leaves(found))
    return merged


def _invert_composed(invert: Callable[[Any], Any], layout: Any) -> Any:
    if isinstance(layout, Swizzle):
        note("swizzle", "a swizzle undoes itself", result=layout)
        return layout
    outer, inner = invert(layout.outer), invert(layout.inner)
    if layout.offset == 0 and isinstance(inner, Swizzle):
        result = composition(outer, inner)
        note("result", "undo the inner function first", result=result)
        return result
    if not isinstance(layout.offset, int):
        raise OperandError(
            "an offset of coordinates cannot be undone",
            operation=invert.__name__,
            operands=(("layout", layout),),
        )
    result = ComposedLayout(outer, -layout.offset, inner)
    note("result", "undo the inner function, then the offset, then the layout", result=result)
    return result


@explained("a(R(i)) = b(R(i)) = i")
def max_common_layout(a: Any, b: Any) -> Any:
    """Find the longest run of offsets from 0 on that lie at the same indices in both layouts.

    Law: with `R = max_common_layout(a, b)`: `a(R(i)) = i` and `b(R(i)) = i` for every `i` below `size(R)`.

    >>> print(max_common_layout(Layout((8, 64), (64, 1)), Layout((8, 64), (64, 1))))
    (64,8):(8,1)
    """
    one, other = (b, a) if isinstance(b, ComposedLayout) else (a, b)
    if isinstance(one, ComposedLayout):
        common = max_common_layout(one.outer, other)
        base = _unswizzled(one)
        result = composition(common, base) if base < _size(common) else common
        note("result", f"a swizzle leaves runs of {base} offsets together", result=result)
        return result
    require_layout(one, "max_common_layout")
    inverse, common = _common(one, other)
    if flatten_to_tuple(common.stride)[0] == 1:
        first = common[0]
        result = composition(inverse, first)
        note("result", f"the first mode {first} is the run that a and b share", result=result)
        return result
    result = Layout.unchecked(1, 0)
    note("result", f"{common} does not start with stride 1: only offset 0 is shared", result=result)
    return result


@explained("size(max_common_layout(a, b))")
def max_common_vector(a: Any, b: Any) -> int:
    """Count the offsets from 0 on that lie together in both layouts: the widest copy in one piece.

    Law: `max_common_vector(a, b) = size(max_common_layout(a, b))`.

    >>> max_common_vector(Layout((8, (4, 16)), (1, (8, 32))), Layout((8, (4, 16)), (1, (8, 64))))
    32
    """
    one, other = (b, a) if isinstance(b, ComposedLayout) else (a, b)
    if isinstance(one, ComposedLayout):
        result = min(max_common_vector(one.outer, other), _unswizzled(one))
        note("result", f"a swizzle leaves runs of {_unswizzled(one)} offsets together", result=result)
        return result
    require_layout(one, "max_common_vector")
    _, common = _common(one, other)
    result = int(flatten_to_tuple(common.shape)[0]) if flatten_to_tuple(common.stride)[0] == 1 else 1
    note("result", f"the first mode of {common} counts when its stride is 1", result=result)
    return result


def _common(a: Layout, b: Layout) -> tuple[Layout, Layout]:
    inverse = right_inverse(b)
    common = coalesce(composition(a, inverse))
    note("compare", "where a has the offsets of b: both agree while this counts 0, 1, 2, ...", common=common)
    return inverse, common


def _unswizzled(layout: ComposedLayout) -> int:
    if not isinstance(layout.inner, Swizzle):
        raise OperandError(
            "only a swizzled layout is compared with another",
            operation="max_common_layout",
            operands=(("layout", layout),),
        )
    return 1 << layout.inner.num_base


def _size(layout: Layout) -> int:
    size = 1
    for extent, _ in layout.leaves():
        size *= extent
    return size
