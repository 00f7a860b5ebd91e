"""Composition: one layout applied to what another one returns."""

from __future__ import annotations

from typing import Any

from .compose_plain import compose_plain
from .composed import ComposedLayout
from .errors import OperandError
from .explanation import explained, note
from .layout import Layout, has_basis
from .swizzle import Swizzle, swizzle_from_masks

__all__ = ["composition"]


@explained("composition(A, B)(c) = A(B(c))")
def composition(lhs: Any, rhs: Any) -> Any:
    """Apply `lhs` to what `rhs` returns, as one layout: choose and reorder the elements of `lhs` by `rhs`.

    Law: `composition(A, B)(c) = A(B(c))` for every coordinate `c` of `B`, and the result has the shape of
    `B` up to splitting of modes. `rhs` may be a tiler: an integer `n` stands for `n:1`, a tuple composes
    mode by mode (modes behind the tuple's end are dropped), `None` keeps a mode.
    Errors: `DivisibilityError` when no layout is the answer by CuTe's rules, `ProfileError` when the
    tiler has more modes than `lhs`.
    Simplified: CuTe checks that an extent of A is at least the stride, not that the stride divides it.
    Where it does not, CuTe's result (and this one) can leave the law: `(6,4):(7,1) o 4:4`.

    >>> print(composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))))
    ((2,2),3):((24,2),8)
    >>> print(composition(Layout((4, 8), (1, 4)), (2, Layout((2, 2), (1, 4)))))
    (2,(2,2)):(1,(4,16))
    """
    if not isinstance(lhs, Layout):
        return _compose_onto(lhs, rhs)
    if isinstance(rhs, ComposedLayout):
        if rhs.offset != 0:
            raise OperandError(
                "the right operand has an offset",
                operation="composition",
                operands=(("lhs", lhs), ("rhs", rhs)),
                rule="only a composed layout without offset can stand on the right",
            )
        result = composition(composition(lhs, rhs.inner), rhs.outer)
        note("result", "first with the inner function, then with the outer layout", result=result)
        return result
    if isinstance(rhs, Swizzle):
        return _layout_after_swizzle(lhs, rhs)
    return compose_plain(lhs, rhs)


def _compose_onto(lhs: Any, rhs: Any) -> Any:
    if isinstance(lhs, ComposedLayout):
        result = lhs.replace_outer(composition(lhs.outer, rhs))
        note("result", "the inner function stays, the outer layout is composed", result=result)
        return result
    if isinstance(lhs, Swizzle) and isinstance(rhs, Layout):
        result = ComposedLayout(lhs, 0, rhs)
        note("result", "a swizzle is no layout: it is kept in front", result=result)
        return result
    raise OperandError(
        f"cannot compose {lhs!r} with {rhs!r}",
        operation="composition",
        operands=(("lhs", lhs), ("rhs", rhs)),
        advice="a Layout, ComposedLayout or Swizzle on the left; a Layout or tiler on the right",
    )


def _layout_after_swizzle(layout: Layout, swizzle: Swizzle) -> ComposedLayout:
    """Move a swizzle from behind a layout to in front of it, where its bits pass through one by one."""
    if has_basis(layout.stride):
        raise OperandError(
            "a swizzle permutes integer offsets, not coordinates",
            operation="composition",
            operands=(("lhs", layout), ("rhs", swizzle)),
        )
    read, flipped = layout(swizzle.yyy_mask), layout(swizzle.zzz_mask)
    moved = swizzle_from_masks(read, flipped)
    result = ComposedLayout(moved, 0, layout)
    note(
        "result",
        f"the layout sends bits {swizzle.yyy_mask:#b} to {read:#b}, {swizzle.zzz_mask:#b} to {flipped:#b}",
        result=result,
    )
    return result
