"""Products: repeat a layout over the places that another layout gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .complements import complement
from .compose import composition
from .composed import ComposedLayout
from .divides import spread, tile_unzip
from .errors import OperandError, ProfileError
from .explanation import explained, note
from .int_tuple import (
    IntTuple,
    ceil_divide,
    flatten_to_tuple,
    is_node,
    pretty_str,
    product,
    product_each,
    wrap,
)
from .inverses import right_inverse
from .layout import Layout, make_ordered_layout, require_layout
from .modes import append, cosize, rank, size
from .simplify import coalesce

__all__ = [
    "blocked_product",
    "flat_product",
    "logical_product",
    "make_layout_tv",
    "raked_product",
    "tile_to_shape",
    "tiled_product",
    "zipped_product",
]


@explained("logical_product(A, B) = (A, composition(complement(A, size(A) * cosize(B)), B))")
def logical_product(block: Any, tiler: Any) -> Any:
    """Repeat a block once for every coordinate of a tiler, in memory that the block leaves free.

    Law: `logical_product(A, B) = (A, composition(complement(A, size(A) * cosize(B)), B))` for a layout `B`;
    an integer `n` is `n:1`, a tuple goes mode by mode, `None` keeps a mode or the whole block.
    Errors: `ProfileError` when the tiler has more modes than the block, `DivisibilityError` where
    `composition` refuses; for a block that is not injective it mostly does.

    >>> print(logical_product(Layout((2, 2), (4, 1)), Layout(6)))
    ((2,2),(2,3)):((4,1),(2,8))
    >>> print(logical_product(Layout((2, 5), (5, 1)), (3, 4)))
    ((2,3),(5,4)):((5,1),(1,5))
    """
    if isinstance(block, ComposedLayout):
        return _onto_outer(block, logical_product, tiler)
    require_layout(block, "logical_product")
    result = _multiply(block, tiler, (("block", block), ("tiler", tiler)), ())
    note("result", "every multiplied mode is (block, repetition)", result=result)
    return result


def _onto_outer(block: ComposedLayout, operation: Callable[..., Any], *operands: Any) -> ComposedLayout:
    result = block.replace_outer(operation(block.outer, *operands))
    note("result", "the inner function stays, the outer layout is repeated", result=result)
    return result


def _multiply(block: Layout, tiler: Any, operands: Any, path: tuple[int, ...]) -> Layout:
    if tiler is None:
        note("keep", f"`_` keeps mode {list(path)} as it is", mode=block)
        return block
    if isinstance(tiler, int) and not isinstance(tiler, bool) and tiler > 0:
        tiler = Layout(tiler)
    if isinstance(tiler, Layout):
        if () in (block.shape, tiler.shape):
            raise OperandError(
                "an operand is the empty layout", operation="logical_product", operands=operands
            )
        if all(stride == 0 for stride in flatten_to_tuple(tiler.stride)):
            note("stay", "the tiler stays at one place, where the block is", tiler=tiler)
            return Layout.unchecked((block.shape, tiler.shape), (block.stride, tiler.stride))
        target = size(block) * cosize(tiler)
        note("room", f"{size(block)} * {cosize(tiler)} elements are needed at most", size=target)
        free = complement(block, target)
        places = composition(free, tiler)
        return Layout.unchecked((block.shape, places.shape), (block.stride, places.stride))
    if not isinstance(tiler, tuple):
        raise OperandError(
            f"{tiler!r} is no tiler",
            operation="logical_product",
            operands=operands,
            mode=path,
            advice="a layout, a positive integer, or a tuple of these and None",
        )
    if len(tiler) > len(block):
        raise ProfileError(
            f"the tiler has {len(tiler)} modes, the block {len(block)}",
            operation="logical_product",
            operands=operands,
            mode=path,
            rule="rank(tiler) <= rank(block), mode by mode",
        )
    modes = []
    for position, part in enumerate(tiler):
        note("mode", f"multiply mode {[*path, position]} by {pretty_str(part)}", mode=block[position])
        modes.append(_multiply(block[position], part, operands, (*path, position)))
    modes += [block[position] for position in range(len(tiler), len(block))]
    return Layout.unchecked(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))


def _only_layout(block: Any, tiler: Any, operation: str) -> None:
    require_layout(block, operation)
    if not isinstance(tiler, Layout):
        raise OperandError(
            f"{pretty_str(tiler)} is no layout",
            operation=operation,
            operands=(("block", block), ("tiler", tiler)),
            advice="make_layout(...); only logical_product takes integers and tuples",
        )


@explained("(block, repetition) of logical_product(A, B)")
def zipped_product(block: Any, tiler: Layout) -> Any:
    """Repeat a block, with the block in mode 0 and the repetition in mode 1.

    >>> print(zipped_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((2,5),(3,4)):((5,1),(10,30))
    """
    if isinstance(block, ComposedLayout):
        return _onto_outer(block, zipped_product, tiler)
    _only_layout(block, tiler, "zipped_product")
    result = tile_unzip(logical_product(block, tiler), tiler, "zipped_product")
    note("result", "the block in mode 0, the repetition in mode 1", result=result)
    return result


@explained("(block, repetition, repetition, ...) of zipped_product(A, B)")
def tiled_product(block: Any, tiler: Layout) -> Any:
    """Repeat a block, with the block in mode 0 and every mode of the repetition for itself.

    >>> print(tiled_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((2,5),3,4):((5,1),10,30)
    """
    if isinstance(block, ComposedLayout):
        return _onto_outer(block, tiled_product, tiler)
    result = spread(zipped_product(block, tiler), (1,))
    note("result", "the modes of the repetition side by side", result=result)
    return result


@explained("(block, block, ..., repetition, repetition, ...) of zipped_product(A, B)")
def flat_product(block: Any, tiler: Layout) -> Any:
    """Repeat a block, with every mode of block and repetition for itself.

    >>> print(flat_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    (2,5,3,4):(5,1,10,30)
    """
    if isinstance(block, ComposedLayout):
        return _onto_outer(block, flat_product, tiler)
    result = spread(zipped_product(block, tiler), (0, 1))
    note("result", "the modes of block and repetition side by side", result=result)
    return result


@explained("mode i is (block i, tiler i): whole blocks follow one another")
def blocked_product(block: Any, tiler: Layout) -> Any:
    """Repeat a block mode by mode, each block in one piece: block modes run faster than tiler modes.

    Law: with `R = max(rank)`, mode `i` of the result is (mode `i` of the block, mode `i` of the repetition).

    >>> print(blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((2,3),(5,4)):((5,10),(1,30))
    """
    if isinstance(block, ComposedLayout):
        return _onto_outer(block, blocked_product, tiler)
    _only_layout(block, tiler, "blocked_product")
    blocks, places = _same_rank_product(block, tiler)
    result = _zip(blocks, places)
    note("result", "mode i is (block i, repetition i)", result=result)
    return result


@explained("mode i is (tiler i, block i): blocks are interleaved")
def raked_product(block: Any, tiler: Layout) -> Any:
    """Repeat a block mode by mode, interleaved: tiler modes run faster than block modes.

    Law: as `blocked_product` with the pairs turned around, each mode coalesced.

    >>> print(raked_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((3,2),(4,5)):((10,5),(30,1))
    """
    if isinstance(block, ComposedLayout):
        return _onto_outer(block, raked_product, tiler)
    _only_layout(block, tiler, "raked_product")
    blocks, places = _same_rank_product(block, tiler)
    raked = _zip(places, blocks)
    note("rake", "mode i is (repetition i, block i)", raked=raked)
    result = coalesce(raked, (1,) * len(raked))
    note("result", "each mode coalesced", result=result)
    return result


@explained("layout_tv(t, v) is the index in the tile of value v of thread t")
def make_layout_tv(thr_layout: Layout, val_layout: Layout) -> tuple[tuple[int, ...], Layout]:
    """Lay threads over a tile, each with a block of values, and turn this round: (thread, value) to index.

    Shapes: both layouts map a coordinate (m, n) to a number, of a thread and of a value. The result is the
            tile's shape and its thread-value layout; an index counts the tile's first mode fastest.
    Law: element (m, n) of the tile belongs to thread `thr_layout(m / vm, n / vn)`, as its value
         `val_layout(m % vm, n % vn)`.
    Errors: LayoutError where the layouts are not compact: two threads would have one number.

    >>> tiler, layout_tv = make_layout_tv(Layout((2, 3), (3, 1)), Layout((2, 2), (2, 1)))
    >>> print(tiler, layout_tv)
    (4, 6) ((3,2),(2,2)):((8,2),(4,1))
    """
    tile = raked_product(thr_layout, val_layout)
    inverse = right_inverse(tile)
    note("invert", "from (thread, value) as one number to the index in the tile", inverse=inverse)
    layout_tv = composition(inverse, Layout((size(thr_layout), size(val_layout))))
    result = tuple(int(size(mode)) for mode in tile), layout_tv
    note("result", "the tile's shape; threads in one mode, values in the other", result=result)
    return result


def _same_rank_product(block: Layout, tiler: Layout) -> tuple[Layout, Layout]:
    width = max(rank(block), rank(tiler))
    block, tiler = append(block, None, width), append(tiler, None, width)
    note("rank", f"both get {width} modes", block=block, tiler=tiler)
    multiplied = logical_product(block, tiler)
    return multiplied[0], multiplied[1]


def _zip(first: Layout, second: Layout) -> Layout:
    if not is_node(first.shape):
        return Layout.unchecked(((first.shape, second.shape),), ((first.stride, second.stride),))
    if not is_node(second.shape) or len(first.shape) != len(second.shape):
        raise ProfileError(
            f"{first} and {second} do not pair up",
            operation="product",
            operands=(("first", first), ("second", second)),
            rule="what comes first in the pairs is a single mode, or both have the same rank",
        )
    return Layout.unchecked(
        tuple(zip(wrap(first.shape), wrap(second.shape), strict=True)),
        tuple(zip(wrap(first.stride), wrap(second.stride), strict=True)),
    )


@explained("blocked_product(A, make_ordered_layout(ceil_div(target, shape(A)), order))")
def tile_to_shape(block: Any, trg_shape: IntTuple, order: IntTuple | None = None) -> Any:
    """Repeat a block until it has a shape; `order` says which mode is filled first (default: the left one).

    Law: `tile_to_shape(A, s, o) = blocked_product(A, make_ordered_layout(ceil_div(s, shape(A)), o))`.
    Errors: `ProfileError` when the block has more modes than the shape, or the order another rank.
    Simplified: as the CuTe DSL, a target that the block does not divide is rounded up; CuTe C++ refuses it.

    >>> print(tile_to_shape(Layout((2, 2)), (8, 8), (1, 0)))
    ((2,4),(2,4)):((1,16),(2,4))
    """
    if isinstance(block, ComposedLayout):
        return _onto_outer(block, tile_to_shape, trg_shape, order)
    require_layout(block, "tile_to_shape")
    target = Layout(trg_shape).shape
    operands = (("block", block), ("trg_shape", target), ("order", order))
    if rank(block) > rank(target):
        raise ProfileError(
            f"the block has {rank(block)} modes, the target {rank(target)}",
            operation="tile_to_shape",
            operands=operands,
            rule="rank(block) <= rank(trg_shape)",
        )
    if order is None:
        order = tuple(range(rank(target))) if is_node(target) else 0
    if rank(order) != rank(target) or any(is_node(position) for position in wrap(order)):
        raise ProfileError(
            "the order needs one number for each mode of the target",
            operation="tile_to_shape",
            operands=operands,
            rule="rank(order) == rank(trg_shape), not nested",
        )
    padded = append(block, None, rank(target))
    repetition = tuple(
        ceil_divide(product(wanted), product(given))
        for wanted, given in zip(wrap(product_each(target)), wrap(product_each(padded.shape)), strict=True)
    )
    note("count", "how many blocks each mode needs", block=padded, repetition=repetition)
    tiler = make_ordered_layout(repetition, order if is_node(order) else (order,))
    note("order", "the repetition is compact in the given order", tiler=tiler)
    result = blocked_product(padded, tiler)
    note("result", "the block repeated", result=result)
    return result
