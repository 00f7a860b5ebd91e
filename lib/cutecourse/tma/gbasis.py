"""From a shared-memory layout to the modes of a tensor map: what CuTe calls the TMA's gmem basis."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from cutecourse.layout import (
    Layout,
    LayoutError,
    coalesce,
    composition,
    make_identity_layout,
    rank,
    right_inverse,
    size,
    upcast,
)
from cutecourse.layout.basis import ScaledBasis, make_basis_like
from cutecourse.layout.int_tuple import flatten_to_tuple, is_node, map_leaves, wrap

from .errors import TmaError
from .static import Dynamic, cpp_str, is_constant, is_static

__all__ = ["basis_get", "basis_value", "coalesce_256", "construct_tma_gbasis", "recast_gmem"]

SOURCE = "CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma.hpp"
_MAX_BOX = 256
_MAX_RANK = 5


def basis_value(stride: Any) -> Any:
    """The distance that a stride steps along its coordinate; an integer is its own value.

    >>> from cutecourse.layout import E
    >>> basis_value(64 * E(1)), basis_value(8)
    (64, 8)
    """
    return stride.value if isinstance(stride, ScaledBasis) else stride


def basis_get(basis: Any, value: Any) -> Any:
    """The part of a nested tuple that a basis element names; an integer names the whole.

    >>> from cutecourse.layout import E
    >>> basis_get(E(1, 0), (128, (32, 2)))
    32
    """
    for position in basis.mode if isinstance(basis, ScaledBasis) else ():
        value = value[position]
    return value


def coalesce_256(layout: Layout) -> Layout:
    """Merge neighbouring modes of a layout, but never to more than 256 elements: a side of a box.

    Law: `coalesce_256(A)(i) = A(i)` for every integer `i`. CuTe merges only what it knows when it compiles,
    so a mode with a dynamic extent or stride stays apart.
    Source: CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma.hpp, coalesce_256.

    >>> print(coalesce_256(Layout((64, 2, 8), (1, 64, 128))), coalesce_256(Layout((8, 1, 2), (1, 8, 32))))
    (128,8):(1,128) (8,2):(1,32)
    """
    leaves = layout.leaves()
    merged = [leaves[0]]
    for extent, stride in leaves[1:]:
        last_extent, last_stride = merged[-1]
        if is_constant(1, extent):
            continue
        if is_constant(1, last_extent):
            merged[-1] = (extent, stride)
            continue
        goes_on = last_extent * last_stride == stride and extent * last_extent <= _MAX_BOX
        if goes_on and all(is_static(part) for part in (extent, stride, last_extent, last_stride)):
            merged[-1] = (last_extent * extent, last_stride)
        else:
            merged.append((extent, stride))
    if len(merged) == 1:
        extent, stride = merged[0]
        return Layout.unchecked(1, 0) if is_constant(1, extent) else Layout.unchecked(extent, stride)
    return Layout.unchecked(tuple(e for e, _ in merged), tuple(s for _, s in merged))


def recast_gmem(layout: Layout, old_bits: int, new_bits: int) -> Layout:
    """Count a layout of global memory in elements of another width.

    Law: as `upcast` by `new_bits // old_bits` or `downcast` by `old_bits // new_bits`. A dynamic stride is
    taken for a multiple of the new element, as CuTe takes it: its extent stays.
    Units: bits.
    Errors: TmaError, rule `recast`, where elements do not join up whole.

    >>> print(recast_gmem(Layout((64, 8), (1, 128)), 8, 16), recast_gmem(Layout((64, 8), (1, 128)), 16, 8))
    (32,8):(1,64) (128,8):(1,256)
    """
    if old_bits == new_bits:
        return layout
    if max(old_bits, new_bits) % min(old_bits, new_bits):
        raise TmaError(
            f"{old_bits} bits and {new_bits} bits are no multiples of each other",
            rule="recast",
            source=SOURCE,
        )

    def cast(shape: Any, stride: Any) -> tuple[Any, Any]:
        if is_node(shape):
            pairs = [cast(s, d) for s, d in zip(shape, stride, strict=True)]
            return tuple(s for s, _ in pairs), tuple(d for _, d in pairs)
        if new_bits < old_bits:
            ratio = old_bits // new_bits
            unit = is_constant(1, stride) or is_constant(-1, stride)
            return (shape * ratio, stride) if unit else (shape, stride * ratio)
        ratio = new_bits // old_bits
        if isinstance(stride, Dynamic):
            if stride % ratio:
                raise _recast_error(layout, shape, stride, ratio)
            return shape, stride // ratio
        try:
            wide: Layout = upcast(Layout.unchecked(shape, stride), ratio)
        except LayoutError as error:
            raise _recast_error(layout, shape, stride, ratio) from error
        return wide.shape, wide.stride

    return Layout.unchecked(*cast(layout.shape, layout.stride))


def _recast_error(layout: Layout, shape: Any, stride: Any, ratio: int) -> TmaError:
    return TmaError(
        f"the mode {shape}:{stride} does not step by whole elements that are {ratio} times as wide",
        rule="recast",
        source=SOURCE,
        values=(("layout", layout),),
        advice="an internal type as wide as the tensor's, or strides that are its multiples",
    )


def construct_tma_gbasis(
    gtensor: Layout, smem_layout: Layout, cta_v_map: Layout, bits: int, tma_bits: int
) -> dict[str, Any]:
    """All values on the way from the shared-memory layout to the TMA's modes, by CuTe's names.

    Shapes:     `cta_v_map` takes an element of the tile to its coordinates in `gtensor`.
    Units:      elements of the tensor; from `tile_gstride` on, elements of the internal type.
    Errors:     TmaError, rules `tile_size`, `vectorization`, `recast`, `static_box`.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma.hpp, construct_tma_gbasis.
    """
    if size(smem_layout) != size(cta_v_map):
        raise TmaError(
            f"the tile has {size(cta_v_map)} elements, its shared-memory layout {size(smem_layout)}",
            rule="tile_size",
            source=SOURCE,
            values=(("tile", cta_v_map), ("smem_layout", smem_layout)),
        )
    inv_smem_layout = right_inverse(smem_layout)
    sidx2gmode_full = coalesce(composition(cta_v_map, inv_smem_layout))
    strides = wrap(sidx2gmode_full.stride)
    smem_rank = next(
        (i for i, stride in enumerate(strides) if not is_constant(1, basis_value(stride))), len(strides)
    )
    if smem_rank == 0:
        raise TmaError(
            f"the first elements of shared memory step by {strides[0]} through the tensor: "
            f"no two of them are neighbours along one of its modes",
            rule="vectorization",
            source=SOURCE,
            values=(("sidx2gmode_full", sidx2gmode_full),),
            advice="a tiler that takes consecutive elements of a mode, and a layout that keeps them together",
        )
    sidx2gmode = Layout.unchecked(wrap(sidx2gmode_full.shape)[:smem_rank], strides[:smem_rank])

    tile_gstride = recast_gmem(composition(gtensor, sidx2gmode), bits, tma_bits)
    tma_gstride = coalesce_256(tile_gstride)
    gbasis = make_identity_layout(gtensor.shape)
    tile_gbasis_tmp = composition(gbasis, sidx2gmode)
    tile_gbasis = Layout.unchecked(tile_gstride.shape, tile_gbasis_tmp.stride)
    tma_gbasis_tile = composition(tile_gbasis, Layout(wrap(tma_gstride.shape)))

    gtensor_t = recast_gmem(gtensor, bits, tma_bits)
    there = flatten_to_tuple(tma_gbasis_tile.stride)
    candidates = zip(
        flatten_to_tuple(gtensor_t.shape),
        flatten_to_tuple(gtensor_t.stride),
        flatten_to_tuple(gbasis.stride),
        strict=True,
    )
    remaining_stride = tuple(
        basis
        for extent, stride, basis in candidates
        if not (is_constant(1, extent) or is_constant(0, stride)) and basis not in there
    )
    remaining_shape = (1,) * len(remaining_stride)
    tma_gbasis_full = Layout.unchecked(
        wrap(tma_gbasis_tile.shape) + remaining_shape, wrap(tma_gbasis_tile.stride) + remaining_stride
    )
    tma_gbasis = _at_most_five(tma_gbasis_full)
    if not is_static(tma_gbasis):
        raise TmaError(
            "the sides of the box would be known only at run time",
            rule="static_box",
            source=SOURCE,
            values=(("tma_gbasis", cpp_str(tma_gbasis)),),
            advice="static extents for the modes that one tiler counts through together",
        )
    return {
        "inv_smem_layout": inv_smem_layout,
        "sidx2gmode_full": sidx2gmode_full,
        "smem_rank": smem_rank,
        "sidx2gmode": sidx2gmode,
        "tile_gstride": tile_gstride,
        "tma_gstride": tma_gstride,
        "gbasis": gbasis,
        "tile_gbasis_tmp": tile_gbasis_tmp,
        "tile_gbasis": tile_gbasis,
        "tma_gbasis_tile": tma_gbasis_tile,
        "gtensor_T": gtensor_t,
        "tile_gbasis_remaining_stride": remaining_stride,
        "tile_gbasis_remaining_shape": remaining_shape,
        "tma_gbasis_full": tma_gbasis_full,
        "tma_gbasis": tma_gbasis,
    }


def _at_most_five(layout: Layout) -> Layout:
    """Put the modes from the fifth on into one, where there are more than a tensor map has."""
    first = _MAX_RANK - 1
    if rank(layout) <= first:
        return layout
    return Layout.unchecked(
        (*layout.shape[:first], tuple(layout.shape[first:])),
        (*layout.stride[:first], tuple(layout.stride[first:])),
    )


def tma_basis_stride(
    gtensor: Layout,
    gtensor_t: Layout,
    tma_gbasis: Layout,
    strides_bytes: tuple[int, ...],
    bits: int,
    tma_bits: int,
) -> Any:
    """The TMA tensor's strides: for each mode of the tensor, its TMA coordinate and the step along it.

    Errors: none. A mode with one element or stride 0 contributes nothing: 0.
    Source: CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma.hpp, make_tma_copy_desc.
    """
    modes = wrap(tma_gbasis.stride)

    def stride_of(basis: Any) -> Any:
        extent, stride = basis_get(basis, gtensor_t.shape), basis_get(basis, gtensor_t.stride)
        if is_constant(1, extent) or is_constant(0, stride):
            return 0
        j = next((i for i, mode in enumerate(modes) if basis in flatten_to_tuple(mode)), None)
        if j is None:
            return 0
        if j == 0:
            # a wider internal type: several elements of the tensor have one coordinate
            return ScaledBasis(basis_get(basis, gtensor.stride) * Fraction(bits, tma_bits), j)
        if len(wrap(modes[j])) == 1:
            return ScaledBasis(1, j)
        scale = -(-int(stride * tma_bits // max(strides_bytes[j], 16)) // 8)
        return ScaledBasis(Dynamic(scale), j)

    return map_leaves(stride_of, make_basis_like(gtensor.shape))
