"""Division: split a layout into a tile and the places where the tile goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .basis import coprofile
from .complements import complement
from .compose import composition
from .composed import ComposedLayout
from .errors import DivisibilityError, OperandError, ProfileError
from .explanation import explained, note
from .int_tuple import IntTuple, flatten_to_tuple, is_node, pretty_str, product, wrap
from .layout import Layout, require_layout
from .simplify import coalesce

__all__ = ["ceil_div", "flat_divide", "logical_divide", "tiled_divide", "zipped_divide"]


@explained("logical_divide(A, B) = composition(A, (B, complement(B, shape(A))))")
def logical_divide(layout: Any, tiler: Any) -> Any:
    """Split a layout, or each of its modes, into a tile and the rest that steps from tile to tile.

    Law: `logical_divide(A, B) = composition(A, (B, complement(B, shape(coalesce(A)))))` for a layout `B`;
    an integer `n` is the layout `n:1`, a tuple divides mode by mode, `None` keeps a mode.
    Errors: `ProfileError` when the tiler has more modes than the layout, `DivisibilityError` when the
    tiler is not injective, or where `composition` refuses.

    >>> print(logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)))
    ((2,2),(2,3)):((4,1),(2,8))
    >>> print(logical_divide(Layout((16, 8)), (4, 2)))
    ((4,4),(2,4)):((1,4),(16,32))
    """
    if isinstance(layout, ComposedLayout):
        return _onto_outer(layout, logical_divide, tiler)
    if tiler is None:
        raise OperandError(
            "`_` alone is no tiler", operation="logical_divide", operands=(("layout", layout),)
        )
    require_layout(layout, "logical_divide")
    result = _divide(layout, tiler, (("layout", layout), ("tiler", tiler)), ())
    note("result", "every divided mode is (tile, rest)", result=result)
    return result


def _onto_outer(layout: ComposedLayout, operation: Callable[..., Any], *operands: Any) -> ComposedLayout:
    result = layout.replace_outer(operation(layout.outer, *operands))
    note("result", "the inner function stays, the outer layout is taken apart", result=result)
    return result


def _divide(layout: Layout, tiler: Any, operands: Any, path: tuple[int, ...]) -> Layout:
    if tiler is None:
        note("keep", f"`_` keeps mode {list(path)} as it is", mode=layout)
        return layout
    if isinstance(tiler, int) and not isinstance(tiler, bool) and tiler > 0:
        tiler = Layout(tiler)
    if isinstance(tiler, Layout):
        if () in (layout.shape, tiler.shape):
            raise OperandError(
                "an operand is the empty layout", operation="logical_divide", operands=operands
            )
        rest = complement(tiler, coalesce(layout, coprofile(tiler.stride)).shape)
        if 0 in flatten_to_tuple(rest.shape):
            raise DivisibilityError(
                f"the tile {tiler} meets an offset twice",
                operation="logical_divide",
                operands=operands,
                mode=path,
                rule="a tile is injective: its complement has no extent 0",
            )
        both = Layout.unchecked((tiler.shape, rest.shape), (tiler.stride, rest.stride))
        note("tile and rest", "the tile beside its complement covers the whole layout", tiler=both)
        return composition(layout, both)  # type: ignore[no-any-return]
    if not isinstance(tiler, tuple):
        raise OperandError(
            f"{tiler!r} is no tiler",
            operation="logical_divide",
            operands=operands,
            mode=path,
            advice="a layout, a positive integer, or a tuple of these and None",
        )
    if len(tiler) > len(layout):
        raise ProfileError(
            f"the tiler has {len(tiler)} modes, the layout {len(layout)}",
            operation="logical_divide",
            operands=operands,
            mode=path,
            rule="rank(tiler) <= rank(layout), mode by mode",
        )
    modes = []
    for position, part in enumerate(tiler):
        note("mode", f"divide mode {[*path, position]} by {pretty_str(part)}", mode=layout[position])
        modes.append(_divide(layout[position], part, operands, (*path, position)))
    modes += [layout[position] for position in range(len(tiler), len(layout))]
    return Layout.unchecked(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))


@explained("((tiles), (rests)) of logical_divide(A, B)")
def zipped_divide(layout: Any, tiler: Any) -> Any:
    """Divide, and gather the tiles in mode 0 and the rests in mode 1.

    Law: mode 0 of the result is the tile, mode 1 steps from tile to tile, with modes the tiler does not
    name behind it.
    Errors: as `logical_divide`; `OperandError` for an integer or `None` as tiler or in it.

    >>> print(zipped_divide(Layout((16, 8, 4)), (4, 2)))
    ((4,2),(4,4,4)):((1,16),(4,32,128))
    """
    if isinstance(layout, ComposedLayout):
        return _onto_outer(layout, zipped_divide, tiler)
    if not isinstance(tiler, (Layout, tuple)):
        raise OperandError(
            f"{pretty_str(tiler)} is no tiler of a whole layout",
            operation="zipped_divide",
            operands=(("layout", layout), ("tiler", tiler)),
            advice="a layout, or a tuple with one tiler a mode: (4,) for the first mode, Layout(4) for all",
        )
    divided = logical_divide(layout, tiler)
    result = tile_unzip(divided, tiler, "zipped_divide")
    note("result", "the tiles gathered in mode 0, the rests in mode 1", result=result)
    return result


def tile_unzip(divided: Layout, tiler: Any, operation: str) -> Layout:
    """Turn `((tile, rest), (tile, rest), more)` into `((tile, tile), (rest, rest, more))` along a tiler."""

    def unzip(value: Any, guide: Any) -> tuple[Any, Any]:
        if not isinstance(guide, tuple):
            if not is_node(value) or len(value) != 2:
                raise ProfileError(
                    f"{pretty_str(value)} is no pair of tile and rest",
                    operation=operation,
                    operands=(("divided", divided), ("tiler", tiler)),
                    rule="every part of the tiler divides its mode",
                )
            return value[0], value[1]
        pairs = [unzip(part, g) for part, g in zip(value, guide, strict=False)]
        return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs) + tuple(value[len(guide) :])

    shape, stride = unzip(divided.shape, tiler), unzip(divided.stride, tiler)
    return Layout.unchecked(shape, stride)


@explained("(tile, rest, rest, ...) of zipped_divide(A, B)")
def tiled_divide(layout: Any, tiler: Any) -> Any:
    """Divide, with the tile in mode 0 and every mode of the rest for itself.

    Law: mode 0 is that of `zipped_divide`, the further modes are the modes of its mode 1.

    >>> print(tiled_divide(Layout((16, 8, 4)), (4, 2)))
    ((4,2),4,4,4):((1,16),4,32,128)
    """
    if isinstance(layout, ComposedLayout):
        return _onto_outer(layout, tiled_divide, tiler)
    result = spread(zipped_divide(layout, tiler), (1,))
    note("result", "the modes of the rest side by side", result=result)
    return result


@explained("(tile, tile, ..., rest, rest, ...) of zipped_divide(A, B)")
def flat_divide(layout: Any, tiler: Any) -> Any:
    """Divide, with every mode of the tile and every mode of the rest for itself.

    >>> print(flat_divide(Layout((16, 8, 4)), (4, 2)))
    (4,2,4,4,4):(1,16,4,32,128)
    """
    if isinstance(layout, ComposedLayout):
        return _onto_outer(layout, flat_divide, tiler)
    result = spread(zipped_divide(layout, tiler), (0, 1))
    note("result", "the modes of tile and rest side by side", result=result)
    return result


def spread(layout: Layout, positions: tuple[int, ...]) -> Layout:
    """Replace the modes at these positions by the modes they are made of."""
    modes: list[Layout] = []
    for position, mode in enumerate(layout):
        modes += list(mode) if position in positions else [mode]
    return Layout.unchecked(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))


def ceil_div(shape: IntTuple, tiler: Any) -> Any:
    """Count the tiles that cover a shape, mode by mode.

    Law: `ceil_div(s, n) = ceil(product(s) / n)`; a layout as tiler gives the shape of its complement in the
    shape, a tuple goes mode by mode and leaves the modes it does not name.
    Errors: `ProfileError` when the tiler has more modes than the shape.

    >>> ceil_div(10, 4), ceil_div((10, 6), (3, 4)), ceil_div((4, 6), 8)
    (3, (4, 2), 3)
    """
    operands = (("shape", shape), ("tiler", tiler))
    if isinstance(tiler, tuple):
        modes = wrap(shape)
        if len(tiler) > len(modes):
            raise ProfileError("there are more tilers than modes", operation="ceil_div", operands=operands)
        counts = tuple(ceil_div(mode, part) for mode, part in zip(modes, tiler, strict=False))
        return counts + modes[len(counts) :] if is_node(shape) else counts[0]
    if isinstance(tiler, int) and not isinstance(tiler, bool) and tiler > 0:
        tiler = Layout(tiler)
    if not isinstance(tiler, Layout):
        raise OperandError(f"{pretty_str(tiler)} is no tiler", operation="ceil_div", operands=operands)
    return complement(tiler, product(shape)).shape
