"""Clusters and multicast: masks of the CTAs that receive the tile that one CTA loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutecourse.layout import Layout, idx2crd, rank, size, slice_and_offset, tiled_divide
from cutecourse.layout.explanation import explained, note
from cutecourse.layout.int_tuple import flatten_to_tuple

from .errors import TmaError

__all__ = ["MulticastCta", "create_tma_multicast_mask", "make_cluster_layout_vmnk", "multicast_ctas"]

_SOURCE = "CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma.hpp, create_tma_multicast_mask"
_MASK_BITS = 16


@explained("tiled_divide(make_layout(cluster_shape), (thr_id,))")
def make_cluster_layout_vmnk(cluster_shape: Any, thr_id: Layout | int = 1) -> Layout:
    """The CTAs of a cluster by (V, M, N, K): V counts the CTAs that one MMA atom takes.

    Law: `layout((v, m, n, k))` is the rank of a CTA in its cluster. `thr_id` is the atom's ThrID: `Layout(1)`
    for an MMA of one SM, `Layout(2)` for one of two, which lie side by side along M.
    Errors: TmaError, rule `cluster`, where the atom's CTAs do not divide the cluster along M.

    >>> print(make_cluster_layout_vmnk((4, 4, 1), 1), make_cluster_layout_vmnk((4, 4, 1), Layout(2)))
    ((1),4,4,1):((0),1,4,0) ((2),2,4,1):((1),2,4,0)
    """
    tiler = (thr_id if isinstance(thr_id, Layout) else Layout(thr_id),)
    cluster = Layout(cluster_shape)
    if size(cluster[0]) % size(tiler[0]):
        raise TmaError(
            f"an MMA of {size(tiler[0])} CTAs does not divide the {size(cluster[0])} CTAs along M",
            rule="cluster",
            values=(("cluster_shape", cluster.shape), ("thr_id", tiler[0])),
        )
    result: Layout = tiled_divide(cluster, tiler)
    note("result", "the CTAs of an atom in front, then the atoms along M, N and K", result=result)
    return result


@explained("bit r of the mask is set for every CTA r that differs from this one in the open modes only")
def create_tma_multicast_mask(cta_layout_vmnk: Layout, cta_crd_vmnk: Any, *modes: int) -> int:
    """A mask with one bit for each CTA whose coordinate differs from this one's in the given modes only.

    Shapes:     `cta_crd_vmnk` has one entry for each mode of the layout. A tile of A is shared along N
                (mode 2), one of B along M (mode 1); the masks of two modes that are open one at a time are
                or-ed by the caller, as for a commit.
    Errors:     TmaError: `multicast_mode` for a mode that is not there, `multicast_crd` for a coordinate
                outside the layout, `multicast_mask` for a CTA beyond the 16 bits of a mask.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma.hpp, create_tma_multicast_mask.

    >>> cluster = make_cluster_layout_vmnk((4, 4, 1))
    >>> a, b = (create_tma_multicast_mask(cluster, (0, 1, 2, 0), mode) for mode in (2, 1))
    >>> print(f"{a:016b} {b:016b}")
    0010001000100010 0000111100000000
    """
    modes_left = rank(cta_layout_vmnk)
    crd = tuple(cta_crd_vmnk) if isinstance(cta_crd_vmnk, (tuple, list)) else (cta_crd_vmnk,)
    if len(crd) != modes_left:
        raise TmaError(
            f"a CTA of this cluster has {modes_left} coordinates, not {len(crd)}",
            rule="multicast_crd",
            source=_SOURCE,
            values=(("cta_layout_vmnk", cta_layout_vmnk), ("cta_crd_vmnk", cta_crd_vmnk)),
        )
    for mode in modes:
        if not 0 <= mode < modes_left:
            raise TmaError(
                f"the cluster has no mode {mode}; its modes are 0 to {modes_left - 1}",
                rule="multicast_mode",
                source=_SOURCE,
                values=(("cta_layout_vmnk", cta_layout_vmnk),),
            )
    for position, part in enumerate(crd):
        extent = size(cta_layout_vmnk[position])
        inside = not isinstance(part, int) or 0 <= part < extent
        if not inside:
            raise TmaError(
                f"coordinate {position} is {part}, the cluster has {extent} along that mode",
                rule="multicast_crd",
                source=_SOURCE,
                values=(("cta_layout_vmnk", cta_layout_vmnk), ("cta_crd_vmnk", cta_crd_vmnk)),
            )
    opened = tuple(None if position in modes else part for position, part in enumerate(crd))
    note("open", f"let the modes {list(modes)} go free", coordinate=opened)
    cta_layout, elected_cta = slice_and_offset(opened, cta_layout_vmnk)
    note("slice", "what is left of the cluster, and where it starts", layout=cta_layout, offset=elected_cta)
    mask = 0
    for index in range(size(cta_layout) if rank(cta_layout) else 1):
        bit = cta_layout(index) if rank(cta_layout) else 0
        mask |= 1 << bit
        note("bit", f"CTA {index} of the slice is bit {bit}", mask=f"{mask:#b}")
    mask = mask << int(elected_cta)
    if mask >> _MASK_BITS:
        raise TmaError(
            f"the mask {mask:#x} needs more than {_MASK_BITS} bits: one for each CTA of the cluster",
            rule="multicast_mask",
            source="PTX ISA 9.0, cp.async.bulk.tensor: ctaMask has 16 bits",
            values=(("cta_layout_vmnk", cta_layout_vmnk),),
        )
    note("result", f"shifted by {elected_cta}, the CTA where the slice starts", result=mask)
    return mask


@dataclass(frozen=True)
class MulticastCta:
    """One CTA of a multicast, its part of the tile and the CTAs that receive it.

    `rank` is its number in the cluster, `crd` its coordinate, `mask` the multicast mask, `receivers` the
    ranks in it; of a shared tile it loads part `part` of `parts`, and receives the others from `receivers`.
    """

    rank: int
    crd: tuple[Any, ...]
    mask: int
    receivers: tuple[int, ...]
    part: int
    parts: int

    def to_snapshot(self) -> dict[str, Any]:
        """The values in a form that JSON can hold."""
        return {
            "rank": self.rank,
            "crd": [list(part) if isinstance(part, tuple) else part for part in self.crd],
            "mask": self.mask,
            "receivers": list(self.receivers),
            "part": self.part,
            "parts": self.parts,
        }


def multicast_ctas(cta_layout_vmnk: Layout, *modes: int) -> tuple[MulticastCta, ...]:
    """The slice that each CTA of the cluster sends, and its receivers, in the order of the ranks.

    A tile that is shared along `modes` is cut into as many parts as CTAs share it; each loads one part and
    sends it to all of them. The part is the CTA's coordinate along the modes, the first one fastest.
    Errors:     as `create_tma_multicast_mask`.

    >>> for cta in multicast_ctas(make_cluster_layout_vmnk((2, 2, 1)), 2):
    ...     print(cta.rank, cta.crd, f"{cta.mask:04b}", cta.receivers, f"{cta.part} of {cta.parts}")
    0 (0, 0, 0, 0) 0101 (0, 2) 0 of 2
    1 (0, 1, 0, 0) 1010 (1, 3) 0 of 2
    2 (0, 0, 1, 0) 0101 (0, 2) 1 of 2
    3 (0, 1, 1, 0) 1010 (1, 3) 1 of 2
    """
    extents = tuple(size(mode) for mode in cta_layout_vmnk)
    ctas = []
    for index in range(size(cta_layout_vmnk)):
        crd = tuple(flatten_to_tuple(idx2crd(index, extents)))
        mask = create_tma_multicast_mask(cta_layout_vmnk, crd, *modes)
        part, parts = 0, 1
        for mode in sorted(set(modes)):
            part += crd[mode] * parts
            parts *= extents[mode]
        receivers = tuple(bit for bit in range(_MASK_BITS) if mask >> bit & 1)
        ctas.append(MulticastCta(cta_layout_vmnk(crd), crd, mask, receivers, part, parts))
    return tuple(sorted(ctas, key=lambda cta: cta.rank))
