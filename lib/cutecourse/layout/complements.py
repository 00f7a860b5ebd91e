"""Complement: the layout of everything a layout leaves out, up to a size."""

from __future__ import annotations

from typing import Any

from .basis import ScaledBasis, coprofile, make_basis_like
from .composed import ComposedLayout
from .errors import DivisibilityError, OperandError
from .explanation import explained, note
from .int_tuple import IntTuple, ceil_divide_shape, is_node, product, quotient
from .layout import Layout, coshape, from_leaves, has_basis, require_layout
from .simplify import coalesce, filter, flat_modes  # noqa: A004 - CuTe's name

__all__ = ["complement"]


@explained(
    "A(c) and complement(A, n)(k) add up to every offset below n, each once, when A is injective and divides"
)
def complement(layout: Any, cotarget: Any = None) -> Any:
    """Find the layout that steps over the copies of `layout` needed to fill `cotarget` offsets.

    Law: with `R = complement(A, n)`, `R` is increasing; when each stride of `A` is a multiple of what the
    smaller ones fill, the sums `A(i) + R(j)` differ and are all the offsets below `n` (and maybe more).
    `cotarget` is an integer, a shape, or a layout whose shape is taken; without it, `cosize(filter(A))`.
    Errors: `OperandError` when strides of offsets and of coordinates are mixed.
    Simplified: for a layout that is not injective the CuTe DSL returns extents of 0 and CuTe C++ refuses;
    this returns what the DSL does. Such an extent says that there is no complement.

    >>> print(complement(Layout(4, 2), 24), complement(Layout((2, 2), (1, 6)), 24))
    (2,3):(1,8) (3,2):(2,12)
    >>> print(complement(Layout((4, 8), (1, 4)), 32))
    1:0
    """
    if isinstance(layout, ComposedLayout):
        if cotarget is None:
            cotarget = product(coshape(layout.outer))
        result = complement(layout.outer, cotarget)
        note("result", "the complement of the outer layout", result=result)
        return result
    require_layout(layout, "complement")
    filtered = filter(layout)
    target = _target_shape(filtered, cotarget)
    if has_basis(layout.stride):
        result = _complement_by_coordinate(filtered, target, layout)
    else:
        result = coalesce(from_leaves(_fill(flat_modes(filtered), target, filtered), unpack=False))
    note("result", "the gaps, merged", result=result)
    return result


def _target_shape(filtered: Layout, cotarget: Any) -> Any:
    if cotarget is None:
        return product(coshape(filtered))
    if isinstance(cotarget, (Layout, ComposedLayout)):
        return cotarget.shape
    return Layout(cotarget).shape


def _fill(modes: list[tuple[int, int]], target: IntTuple, shown: Layout) -> list[tuple[int, int]]:
    """List the gaps below, between and above the modes, from the smallest stride up."""
    if all(stride == 0 for _, stride in modes):
        note("all", f"{shown} stays at one offset: everything is left out", size=product(target))
        return [(product(target), 1)]
    ordered = sorted(modes, key=lambda mode: mode[1])
    note("sort", "go through the modes from the smallest stride up", modes=from_leaves(ordered, unpack=False))
    gaps: list[tuple[int, int]] = []
    filled = 1
    for extent, stride in ordered:
        gap = quotient(stride, filled)
        gaps.append((gap, filled))
        mode = Layout.unchecked(extent, stride)
        places = "1 place" if gap == 1 else f"{gap} places"
        text = f"stride {stride} leaves {places} for blocks of {filled} below {mode}"
        if gap == 0:
            text += ": the modes overlap, the layout is not injective"
        filled = stride * extent
        note("gap", text, gaps=from_leaves(gaps, unpack=False), filled=filled)
    rest = product(ceil_divide_shape(target, filled))
    gaps.append((rest, filled))
    note("rest", f"{rest} blocks of {filled} fill the rest", gaps=from_leaves(gaps, unpack=False))
    return gaps


def modes_by_coordinate(layout: Layout, operation: str, whole: Layout) -> dict[tuple[int, ...], list[int]]:
    """Sort the modes of a coordinate tensor by the coordinate they step along; give their positions."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for position, (_, stride) in enumerate(layout.leaves()):
        if isinstance(stride, ScaledBasis):
            groups.setdefault(stride.mode, []).append(position)
        elif stride != 0:
            raise OperandError(
                f"stride {stride} is no step along one coordinate",
                operation=operation,
                operands=(("layout", whole),),
                mode=(position,),
                rule="either all strides are offsets or all are steps along one coordinate each",
            )
    return groups


def refuse_partial_coordinates(
    groups: dict[tuple[int, ...], list[int]], profile: Any, operation: str, whole: Layout
) -> None:
    """Refuse strides of which one names a part of the coordinate that another one names whole."""
    for path in groups:
        part = profile
        for position in path:
            part = part[position]
        if is_node(part):
            raise OperandError(
                f"coordinate {list(path)} is a number for one stride and a tuple for another",
                operation=operation,
                operands=(("layout", whole),),
                rule="no basis element names a part of what another one names whole",
            )


def _complement_by_coordinate(layout: Layout, target: Any, whole: Layout) -> Layout:
    groups = modes_by_coordinate(layout, "complement", whole)
    profile = coprofile(whole.stride)
    refuse_partial_coordinates(groups, profile, "complement", whole)
    modes = layout.leaves()

    def build(profile: Any, extent: Any, path: tuple[int, ...]) -> Layout:
        if is_node(profile):
            targets = extent if is_node(extent) else (extent,)
            targets += (1,) * (len(profile) - len(targets))
            profiles = profile + (None,) * (len(targets) - len(profile))
            parts = [build(p, t, (*path, i)) for i, (p, t) in enumerate(zip(profiles, targets, strict=True))]
            return Layout.unchecked(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
        if profile is None:
            result = Layout.unchecked(extent, make_basis_like(extent, path))
            note("free", f"nothing steps along coordinate {list(path)}: all of it is left out", mode=result)
            return result
        steps = [(modes[i][0], modes[i][1].value) for i in groups.get(path, [])]
        note("coordinate", f"fill coordinate {list(path)} on its own", modes=from_leaves(steps, unpack=False))
        gaps = _fill(steps, product(extent), layout)
        if any(gap == 0 for gap, _ in gaps):
            raise DivisibilityError(
                f"the steps along coordinate {list(path)} overlap",
                operation="complement",
                operands=(("layout", whole), ("cotarget", target)),
                rule="a coordinate tensor with a complement is injective",
            )
        wanted = [gap for gap in gaps if gap[0] != 1] or gaps[-1:]
        return from_leaves([(gap, ScaledBasis(stride, path)) for gap, stride in wanted])

    return build(profile, target, ())
