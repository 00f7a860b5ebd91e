"""Simplify a layout without changing the function it is: coalesce and filter."""

from __future__ import annotations

from typing import Any

from .composed import ComposedLayout
from .dynamic import is_constant, is_static
from .errors import ProfileError
from .explanation import explained, note
from .int_tuple import is_node, wrap
from .layout import Layout, from_leaves, require_layout

__all__ = ["coalesce", "filter", "filter_zeros"]


@explained("coalesce(A)(i) = A(i)")
def coalesce(layout: Any, target_profile: Any = None) -> Any:
    """Merge neighbouring modes that step on from one another, and drop modes with one coordinate.

    Law: `coalesce(A)(i) = A(i)` for every integer `i`, with the fewest modes. With a `target_profile` each
    of its leaves is coalesced on its own and its nesting stays.
    Errors: `ProfileError` when the profile does not fit.

    >>> print(coalesce(Layout((2, (1, 6)), (1, (6, 2)))))
    12:1
    >>> print(coalesce(Layout(((2, 2), (2, 4)), ((1, 2), (4, 8))), (1, 1)))
    (4,8):(1,4)
    """
    if isinstance(layout, ComposedLayout):
        composed = layout.replace_outer(coalesce(layout.outer, target_profile))
        note("result", "the inner function stays, the outer layout is coalesced", result=composed)
        return composed
    require_layout(layout, "coalesce")
    if not is_node(target_profile) or not target_profile:
        result = _merge(layout)
        note("result", "what is left cannot be merged", result=result)
        return result
    result = _by_mode(layout, target_profile, layout, target_profile, ())
    note("result", "the coalesced modes side by side", result=result)
    return result


def _by_mode(
    layout: Layout, profile: Any, whole: Layout, whole_profile: Any, path: tuple[int, ...]
) -> Layout:
    if not is_node(profile):
        if path:
            note("mode", f"coalesce mode {list(path)} on its own", mode=layout)
        return _merge(layout)
    if len(profile) > len(layout):
        raise ProfileError(
            f"the profile has {len(profile)} modes, the layout {len(layout)}",
            operation="coalesce",
            operands=(("layout", whole), ("target_profile", whole_profile)),
            mode=path,
            rule="rank(target_profile) <= rank(layout), mode by mode",
        )
    modes = [_by_mode(layout[i], part, whole, whole_profile, (*path, i)) for i, part in enumerate(profile)]
    modes += [layout[i] for i in range(len(profile), len(layout))]
    return Layout.unchecked(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))


def _merge(layout: Layout) -> Layout:
    if layout.shape == ():
        return layout
    leaves = layout.leaves()
    note("flatten", "list the modes from left to right", modes=from_leaves(leaves, unpack=False))
    merged: list[tuple[int, Any]] = []
    for extent, stride in leaves:
        mode = Layout.unchecked(extent, stride)
        if is_constant(1, extent):
            rule, text = "drop", f"{mode} has one coordinate, it adds nothing"
        elif not merged:
            rule, text = "keep", f"{mode} starts the result"
            merged.append((extent, stride))
        else:
            last_extent, last_stride = merged[-1]
            last = Layout.unchecked(last_extent, last_stride)
            reach = last_extent * last_stride
            if reach == stride and is_static((last_extent, last_stride, extent, stride)):
                rule = "merge"
                text = f"{last_extent} * {last_stride} = {stride}: mode {mode} carries on where {last} ends"
                merged[-1] = (last_extent * extent, last_stride)
            else:
                rule = "keep"
                text = f"{last_extent} * {last_stride} = {reach}, not {stride}: mode {mode} stays apart"
                merged.append((extent, stride))
        note(rule, text, **{"so far": from_leaves(merged)})
    return from_leaves(merged)


def flat_modes(layout: Layout) -> list[tuple[int, Any]]:
    """List the modes of a layout whose modes are plain."""
    return list(zip(wrap(layout.shape), wrap(layout.stride), strict=True))


@explained("filter_zeros keeps every offset and drops the repetition")
def filter_zeros(layout: Any) -> Any:
    """Give every mode with stride 0 the extent 1: it only repeats what is there.

    Law: the image stays, `size` shrinks by the number of repetitions; the profile stays.

    >>> print(filter_zeros(Layout(((2, 3), 4), ((0, 1), 0))))
    ((1,3),1):((0,1),0)
    """
    if isinstance(layout, ComposedLayout):
        composed = layout.replace_outer(filter_zeros(layout.outer))
        note("result", "the inner function stays, the outer layout is filtered", result=composed)
        return composed
    require_layout(layout, "filter_zeros")
    result = Layout.unchecked(_without_zeros(layout.shape, layout.stride), layout.stride)
    note(
        "result", "a mode with stride 0 returns one offset again and again: extent 1 is enough", result=result
    )
    return result


def _without_zeros(shape: Any, stride: Any) -> Any:
    if is_node(stride):
        return tuple(_without_zeros(s, d) for s, d in zip(shape, stride, strict=True))
    return 1 if stride == 0 else shape


@explained("filter(A) has the image of A, without repetition by stride 0")
def filter(layout: Any) -> Any:  # noqa: A001 - CuTe's name
    """Drop the modes that only repeat (stride 0) or do nothing (extent 1), and coalesce the others.

    Law: `image(filter(A)) = image(A)`.

    >>> print(filter(Layout((2, 3, 4), (0, 0, 5))))
    4:5
    """
    if isinstance(layout, ComposedLayout):
        composed = layout.replace_outer(filter(layout.outer))
        note("result", "the inner function stays, the outer layout is filtered", result=composed)
        return composed
    result = coalesce(filter_zeros(layout))
    note("result", "no mode repeats and none can be merged", result=result)
    return result
