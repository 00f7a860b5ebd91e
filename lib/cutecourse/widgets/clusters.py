"""A cluster of CTAs as the course's widget draws it: coordinates, multicast masks, slices and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from cutecourse.layout import Layout, flatten, idx2crd, make_layout, shape, tiled_divide
from cutecourse.widgets.errors import WidgetError

MAX_CTAS = 16
# The modes of (v,m,n,k) that each mask leaves free; the commit's mask is the union of its two.
FREE_MODES = {"A": ((2,),), "B": ((1,),), "C": ((0, 1), (0, 2))}


@dataclass(frozen=True)
class CtaMasks:
    """One CTA of a cluster: its (v,m,n,k) and the CTAs that each mask has, ascending."""

    rank: int
    crd: tuple[int, int, int, int]
    ranks: dict[str, tuple[int, ...]]

    def mask(self, letter: str) -> int:
        """The mask for A, B or the commit (C): bit r for the CTA of rank r."""
        return sum(1 << rank for rank in self.ranks[letter])


def cluster_layout(cluster: Sequence[Any], v: int) -> Layout:
    """`tiled_divide(make_layout((M,N,1)), (V,))`: from (v,m,n,k) to the rank in the cluster.

    Errors: WidgetError, for more than 16 CTAs, extents below 1, or pairs of SMs along an odd M.
    """
    if len(cluster) != 2 or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in cluster):
        raise WidgetError(f"cluster {_text(cluster)}: write two extents (M,N), whole numbers of at least 1.")
    m, n = cluster
    if m * n > MAX_CTAS:
        raise WidgetError(
            f"cluster {_text(cluster)} has {m * n} CTAs; a cluster has at most {MAX_CTAS}, "
            "one bit of the mask each."
        )
    if v not in {1, 2}:
        raise WidgetError(f"thr_id {v}: an MMA runs on one SM (1) or on two (2).")
    if m % v:
        raise WidgetError(
            f"cluster {_text(cluster)} with two SMs an MMA: the pairs lie along M, and {m} is odd; "
            "choose an even M."
        )
    layout: Layout = tiled_divide(make_layout((m, n, 1)), (v,))
    return layout


def cta_masks(cluster: Sequence[int], v: int, rank: int) -> CtaMasks:
    """The masks of one CTA, read off `cluster_layout`.

    Errors: WidgetError, as `cluster_layout`, or when the cluster has no such CTA.
    """
    layout = cluster_layout(cluster, v)
    count = cluster[0] * cluster[1]
    if not 0 <= rank < count:
        raise WidgetError(f"There is no CTA {rank} in a cluster of {count}: ranks go from 0 to {count - 1}.")
    crd: Any = flatten(idx2crd(rank, shape(layout)))
    extents: Any = flatten(shape(layout))
    ranks = {}
    for letter, unions in FREE_MODES.items():
        found = set()
        for free in unions:
            lines = [range(n) if mode in free else (crd[mode],) for mode, n in enumerate(extents)]
            found |= {layout(((at_v,), *rest)) for at_v, *rest in product(*lines)}
        ranks[letter] = tuple(sorted(found))
    return CtaMasks(rank, crd, ranks)


def check_tile(cluster: Sequence[int], v: int, tile: Sequence[Any], bits: int) -> None:
    """Refuse an MMA tile (M,N,K) that the CTAs of the cluster cannot cut into equal slices.

    Errors: WidgetError, naming the operand and the number of slices.
    """
    if len(tile) != 3 or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in tile):
        raise WidgetError(f"tile {_text(tile)}: write three extents (M,N,K) of at least 1.")
    tile_m, tile_n, tile_k = tile
    cuts = (("A", "M", tile_m, cluster[1]), ("B", "N", tile_n, cluster[0] // v))
    for letter, dim, rows, slices in cuts:
        if rows % v:
            raise WidgetError(f"tile {_text(tile)}: two SMs share its {dim} of {rows}, which is odd.")
        elements = rows // v * tile_k
        if elements % slices:
            raise WidgetError(
                f"tile {_text(tile)}: {elements} elements of {letter} in a CTA cannot be cut "
                f"into {slices} equal slices; choose another tile or cluster."
            )
        if elements // slices * bits % 8:
            raise WidgetError(f"tile {_text(tile)}: a slice of {letter} is not a whole number of bytes.")


def _text(value: Sequence[Any]) -> str:
    return "(" + ",".join(map(str, value)) + ")"
