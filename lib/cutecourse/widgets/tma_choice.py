"""TmaBox's choice as CuTe's own objects: the two layouts, and the TMA atom with all that it computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutecourse.dtypes import dtype as as_dtype
from cutecourse.layout import ComposedLayout, Layout, make_swizzle, tile_to_shape
from cutecourse.tma import TmaError, TmaTrace, dynamic, trace_tma_atom

CHUNK_BYTES = 16
ROW_BYTES = 128
SHARED_MOST_BYTES = 232448
SWIZZLE_BITS = {"none": 0, "32B": 1, "64B": 2, "128B": 3}


def tensor_layout(choice: Mapping[str, Any]) -> Layout:
    """The tensor in global memory: contiguous along `major`, its sizes known only at run time."""
    (m, k), padding = choice["extents"], choice["padding"]
    layout: Layout = dynamic(Layout((m, k), (k + padding, 1) if choice["major"] == "K" else (1, m + padding)))
    return layout


def shared_layout(choice: Mapping[str, Any]) -> Layout | ComposedLayout:
    """The tile in shared memory: CUTLASS's atom repeated over the tile, or plain rows or columns.

    Units:  elements; the swizzle permutes bytes.
    Errors: TmaError, rule `atom`, where the atom does not divide the tile.
    Source: CUTLASS 4.2.0, include/cute/atom/mma_traits_sm90_gmma.hpp, Layout_K_SW128_Atom_Bits and so on.
    """
    tile = tuple(choice["tile"])
    bits = SWIZZLE_BITS[choice["swizzle"]]
    k_major = choice["smem_major"] == "K"
    if choice["smem_layout"] == "plain":
        outer = Layout(tile, (tile[1], 1) if k_major else (1, tile[0]))
    else:
        long = 8 * (CHUNK_BYTES << bits) // as_dtype(choice["dtype"]).bits
        atom = Layout((8, long), (long, 1)) if k_major else Layout((long, 8), (1, long))
        if any(extent % side for extent, side in zip(tile, atom.shape, strict=True)):
            raise TmaError(
                f"the atom {atom} does not divide the tile {tile[0]} x {tile[1]}",
                rule="atom",
                source="CUTLASS 4.2.0, include/cute/layout.hpp, tile_to_shape",
                advice="a tile that is a multiple of the atom, or a narrower swizzle",
            )
        outer = tile_to_shape(atom, tile)
    return ComposedLayout(make_swizzle(bits, 4, 3), 0, outer) if bits else outer


def trace_of(choice: Mapping[str, Any]) -> TmaTrace:
    """The TMA atom of a choice.

    Errors: TmaError for the first rule of CuTe, of the driver or of the load that the choice breaks.
    """
    trace = trace_tma_atom(
        tensor_layout(choice),
        shared_layout(choice),
        tuple(choice["tile"]),
        choice["dtype"],
        choice["multicast"],
        check=False,
    )
    for error in trace.violations(choice["address"]):
        raise error
    encoding = trace.encoding
    span = CHUNK_BYTES << SWIZZLE_BITS[choice["swizzle"]]
    inner = encoding.box[0] * encoding.element_bytes
    if choice["swizzle"] != "none" and inner < span:
        raise TmaError(
            f"a line of the box has {inner} bytes, and under this swizzle each takes {span} in shared memory",
            rule="filled",
            source="CUDA C++ Programming Guide 13.0, the swizzle modes of TMA",
            advice="the swizzle whose span is the line",
        )
    if encoding.box_bytes < trace.tile_bytes and encoding.box_bytes % ROW_BYTES:
        raise TmaError(
            f"boxes of {encoding.box_bytes} bytes do not all start at multiples of 128 bytes",
            rule="aligned",
            source="CUDA C++ Programming Guide 13.0, the alignments that TMA needs",
            advice="larger boxes, or fewer CTAs that share one",
        )
    if trace.tile_bytes > SHARED_MOST_BYTES:
        raise TmaError(
            f"the tile has {trace.tile_bytes} bytes; a CTA has {SHARED_MOST_BYTES} of shared memory at most",
            rule="shared",
            advice="a smaller tile",
        )
    return trace
