"""Composition of a plain layout with a tiler: lead each mode of B through the modes of A."""

from __future__ import annotations

from typing import Any

from .basis import ArithTuple, ScaledBasis, coprofile, is_basis
from .dynamic import is_constant, is_static
from .errors import DivisibilityError, OperandError, ProfileError
from .explanation import note
from .int_tuple import ceil_divide, flatten_to_tuple, is_node, pretty_str, wrap
from .layout import Layout, from_leaves, has_basis

__all__ = ["compose_plain"]

_DIVIDE_STRIDE = "stride divisibility: an extent of A divides the stride that is left, or is larger than it"
_DIVIDE_SHAPE = "shape divisibility: what is taken from a mode of A divides the extent that is left"


def compose_plain(lhs: Layout, tiler: Any) -> Layout:
    """Apply a plain layout to what a layout or a tiler returns; `composition` where neither has a swizzle."""
    if tiler is None:
        raise OperandError(
            "`_` alone is no tiler",
            operation="composition",
            operands=(("lhs", lhs),),
            advice="a tuple with `_` in it",
        )
    _refuse_empty(lhs, tiler)
    result = _compose_tiler(lhs, tiler, _Operands(lhs, tiler), ())
    note("result", "the composed modes, nested as the right operand is", result=result)
    return result


class _Operands:
    """The operands as the user gave them, for messages."""

    def __init__(self, lhs: Layout, rhs: Any) -> None:
        self.pairs = (("lhs", lhs), ("rhs", rhs))
        self.rhs_stride: Any = 0

    def indivisible(self, problem: str, rule: str, path: tuple[int, ...]) -> DivisibilityError:
        return DivisibilityError(problem, operation="composition", operands=self.pairs, mode=path, rule=rule)


def _refuse_empty(lhs: Layout, rhs: Any) -> None:
    if lhs.shape == ():
        raise OperandError(
            "the left operand is the empty layout",
            operation="composition",
            operands=(("lhs", lhs), ("rhs", rhs)),
            rule="the left operand has at least one mode",
        )


def _refuse_mixture(tiler: Layout, operands: _Operands) -> None:
    strides = flatten_to_tuple(tiler.stride)
    if any(is_basis(d) for d in strides) and any(d != 0 for d in strides if not is_basis(d)):
        raise OperandError(
            "the right operand steps both through offsets and through coordinates",
            operation="composition",
            operands=operands.pairs,
            rule="the strides of the right operand are integers, or basis elements and zeros",
        )


def _compose_tiler(lhs: Layout, tiler: Any, operands: _Operands, path: tuple[int, ...]) -> Layout:
    if tiler is None:
        note("keep", f"`_` keeps mode {list(path)} as it is", mode=lhs)
        return lhs
    if isinstance(tiler, int) and not isinstance(tiler, bool) and tiler > 0:
        tiler = Layout(tiler)
        note("tile", f"an extent stands for the layout {tiler}", tiler=tiler)
    if isinstance(tiler, Layout):
        _refuse_mixture(tiler, operands)
        if has_basis(tiler.stride):
            operands.rhs_stride = tiler.stride
            shape, stride = _compose(lhs.shape, lhs.stride, tiler.shape, tiler.stride, operands, path)
            return Layout.unchecked(shape, stride)
        flat = open_ended(lhs)
        note("coalesce", "only the order of A's elements counts, so its modes are merged first", A=flat)
        shape, stride = _compose(flat.shape, flat.stride, tiler.shape, tiler.stride, operands, path)
        return Layout.unchecked(shape, stride)
    if not isinstance(tiler, tuple):
        raise OperandError(
            f"{tiler!r} is no tiler",
            operation="composition",
            operands=operands.pairs,
            mode=path,
            advice="a layout, a positive integer, or a tuple of these and None",
        )
    if len(tiler) > len(lhs):
        raise ProfileError(
            f"the tiler has {len(tiler)} modes, the layout {len(lhs)}",
            operation="composition",
            operands=operands.pairs,
            mode=path,
            rule="rank(tiler) <= rank(layout), mode by mode",
        )
    modes = []
    for position, part in enumerate(tiler):
        note("mode", f"mode {[*path, position]} of A with {pretty_str(part)}", A=lhs[position])
        modes.append(_compose_tiler(lhs[position], part, operands, (*path, position)))
    return Layout.unchecked(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))


def open_ended(layout: Layout) -> Layout:
    """Coalesce a layout whose last mode is taken as going on for ever.

    The last mode is never dropped, whatever its extent: its stride says where the elements behind the
    end of the layout would be.
    """
    leaves = list(layout.leaves())
    if is_constant(1, leaves[-1][0]):
        leaves[-1] = (2, leaves[-1][1])
    merged: list[tuple[int, Any]] = []
    for extent, stride in leaves:
        if is_constant(1, extent):
            continue
        if merged and merged[-1][0] * merged[-1][1] == stride and is_static((*merged[-1], extent, stride)):
            merged[-1] = (merged[-1][0] * extent, merged[-1][1])
        else:
            merged.append((extent, stride))
    return from_leaves(merged)


def _compose(
    a_shape: Any, a_stride: Any, shape: Any, stride: Any, operands: _Operands, path: tuple[int, ...]
) -> tuple[Any, Any]:
    """Compose modes of A with one mode of B, and give the shape and stride of that mode of the result."""
    if is_node(shape):
        modes = [
            _compose(a_shape, a_stride, s, d, operands, (*path, i))
            for i, (s, d) in enumerate(zip(shape, stride, strict=True))
        ]
        return tuple(s for s, _ in modes), tuple(d for _, d in modes)
    b = Layout.unchecked(shape, stride)
    if isinstance(stride, ArithTuple):
        raise OperandError(
            f"the stride {b} steps along several coordinates at once",
            operation="composition",
            operands=operands.pairs,
            mode=path,
            rule="each stride of the right operand is an integer or one basis element",
        )
    if isinstance(stride, ScaledBasis):
        chosen = _choose(a_shape, a_stride, b, operands, path)
        note("choose", f"{b} steps along that mode of A", A=chosen)
        return _compose(chosen.shape, chosen.stride, shape, stride.value, operands, path)
    if stride == 0:
        note("repeat", f"{b} stays at offset 0 of A", mode=b)
        return shape, stride
    if not is_node(a_shape):
        result = Layout.unchecked(shape, stride * a_stride)
        note("scale", f"A has one mode: stride {stride} becomes {stride} * {a_stride}", mode=result)
        return result.shape, result.stride
    return _walk(a_shape, a_stride, b, operands, path)


def _choose(a_shape: Any, a_stride: Any, b: Layout, operands: _Operands, path: tuple[int, ...]) -> Layout:
    """Find the mode of A that a basis element names, and merge what it is made of."""
    for position in b.stride.mode:
        extents, strides = wrap(a_shape), wrap(a_stride)
        if position >= len(extents):
            raise ProfileError(
                f"the stride {b.stride} names a mode that A does not have",
                operation="composition",
                operands=operands.pairs,
                mode=path,
                rule="every basis element of the right operand names a mode of the left one",
            )
        a_shape, a_stride = extents[position], strides[position]
    mode = Layout.unchecked(a_shape, a_stride)
    nested = is_node(a_shape) and any(is_node(part) for part in a_shape)
    if nested and is_node(_part(coprofile(operands.rhs_stride), b.stride.mode)):
        raise OperandError(
            f"the stride {b.stride} counts through {mode}, of which another stride names a part",
            operation="composition",
            operands=operands.pairs,
            mode=path,
            rule="a mode that is named whole and in parts is not nested further",
        )
    return open_ended(mode)


def _part(profile: Any, path: tuple[int, ...]) -> Any:
    for position in path:
        profile = profile[position]
    return profile


def _walk(
    a_shape: tuple[Any, ...], a_stride: tuple[Any, ...], b: Layout, operands: _Operands, path: tuple[int, ...]
) -> tuple[Any, Any]:
    """Lead one mode `extent:stride` of B through the modes of A, the last of which never ends."""
    taken: list[tuple[int, Any]] = []
    extent, stride = b.shape, b.stride
    for a_extent, a_step in zip(a_shape[:-1], a_stride[:-1], strict=True):
        mode = Layout.unchecked(a_extent, a_step)
        if a_extent == 0:
            raise operands.indivisible(f"A has the mode {mode} without coordinates", _DIVIDE_STRIDE, path)
        if abs(stride) >= a_extent and stride % a_extent != 0:
            raise operands.indivisible(
                f"{b} reaches mode {mode} of A with stride {stride}, which {a_extent} does not divide",
                _DIVIDE_STRIDE,
                path,
            )
        # The stride jumps over whole coordinates of this mode: what stays is the number of distinct ones.
        available = ceil_divide(a_extent, abs(stride))
        next_stride = ceil_divide(abs(stride), a_extent)
        next_stride = -next_stride if stride < 0 else next_stride
        if is_constant(1, available) or is_constant(1, extent):
            note("skip", f"stride {stride} steps over all of {mode}", **{"stride left": next_stride})
        else:
            count = min(available, extent)
            if count <= 0 or extent % count != 0:
                raise operands.indivisible(
                    f"{b} takes {count} coordinates of mode {mode} of A, which does not divide {extent}",
                    _DIVIDE_SHAPE,
                    path,
                )
            taken.append((count, stride * a_step))
            extent //= count
            note(
                "take",
                f"stride {stride} finds {available} coordinates in {mode}, {count} of them are wanted",
                taken=from_leaves(taken),
                **{"extent left": extent, "stride left": next_stride},
            )
        stride = next_stride
    if not taken or extent != 1:
        taken.append((extent, stride * a_stride[-1]))
        last = Layout.unchecked(a_shape[-1], a_stride[-1])
        # Where a stride did not divide an extent, what was taken can happen to continue: CuTe merges it, but
        # only when the last mode is reached.
        for left in reversed(range(len(taken) - 1)):
            (count, step), (next_count, next_step) = taken[left], taken[left + 1]
            if step * count == next_step and is_static((*taken[left], *taken[left + 1])):
                taken[left : left + 2] = [(count * next_count, step)]
        note("last", f"the rest comes from the last mode {last} of A", taken=from_leaves(taken))
    result = from_leaves(taken)
    return result.shape, result.stride
