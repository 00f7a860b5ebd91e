"""Which CTAs of a cluster share a tile: the multicast masks of A, B and the commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse.dtypes import dtype as as_dtype
from cutecourse.errors import CourseError
from cutecourse.layout import Layout, size
from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.clusters import MAX_CTAS, check_tile, cluster_layout, cta_masks
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.sharing import several

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure

SHOWN = ("A", "B", "C")


class ClusterMasks(CourseWidget):
    """A cluster of CTAs: choose one, see its masks for A, B and the commit, and who sends what to whom.

    `cluster` is its shape in CTAs, (M, N), ranks counting down M first as CuTe's `make_layout` does;
    `thr_id` how many SMs share an MMA, 1 or 2, or the layout `1:0` or `2:1`; `cta` the rank that is chosen
    first. `tile` is the MMA tile (M, N, K), by default (128, 256, 64) with one SM and (256, 256, 64) with
    two; `dtype` its element type.

    Synced with every view: `cluster`, `thr_id`, `cta`, `tile`, and `shown`: "A", "B" or "C" (the commit).

    Errors: WidgetError, for more than 16 CTAs, pairs of SMs along an odd M, a CTA that is not there, and
    a tile that the CTAs cannot cut into equal slices.
    """

    _esm = module("cluster_masks.js")
    _css = stylesheet()

    cluster = traitlets.List(traitlets.Int(), [4, 4]).tag(sync=True, shared=several(2, [1, MAX_CTAS]))
    thr_id = traitlets.Int(1).tag(sync=True, shared={"in": [1, 2]})
    cta = traitlets.Int(0).tag(sync=True, shared=[0, MAX_CTAS - 1])
    tile = traitlets.List(traitlets.Int(), [128, 256, 64]).tag(sync=True, shared=several(3, [1, 65536]))
    shown = traitlets.Unicode("A").tag(sync=True, shared={"in": SHOWN})
    dtype = traitlets.Unicode("f16").tag(sync=True)
    bits = traitlets.Int(16).tag(sync=True)

    def __init__(
        self,
        cluster: Sequence[int] = (4, 4),
        thr_id: Any = 1,
        cta: int = 0,
        *,
        tile: Sequence[int] | None = None,
        dtype: Any = "f16",
        shown: str = "A",
        **kwargs: Any,
    ) -> None:
        v = _number_of_sms(thr_id)
        shape = _two_extents(cluster)
        cut = list(tile) if tile is not None else [128 * v, 256, 64]
        try:
            element = as_dtype(dtype)
        except CourseError as error:
            raise WidgetError(str(error)) from error
        cta_masks(shape, v, cta)
        check_tile(shape, v, cut, element.bits)
        super().__init__(
            cluster=shape,
            thr_id=v,
            cta=cta,
            tile=cut,
            dtype=element.name,
            bits=element.bits,
            shown=shown,
            **kwargs,
        )

    @traitlets.validate("shown")
    def _check_shown(self, proposal: Any) -> str:
        if proposal["value"] not in SHOWN:
            raise WidgetError(f"{proposal['value']!r} is no mask of the widget: A, B, or C for the commit.")
        return str(proposal["value"])

    @traitlets.validate("cluster")
    def _check_cluster(self, proposal: Any) -> list[int]:
        # One trait changes at a time; what two of them do not have in common is checked when it is used.
        cluster_layout(proposal["value"], 1)
        return list(proposal["value"])

    @traitlets.validate("thr_id")
    def _check_thr_id(self, proposal: Any) -> int:
        return _number_of_sms(proposal["value"])

    @property
    def layout(self) -> Layout:
        """`cluster_layout_vmnk` of what is chosen now.

        Errors: WidgetError, for pairs of SMs along an odd M.
        """
        return cluster_layout(self.cluster, self.thr_id)

    def figure(self) -> PrintFigure:
        """The cluster with the three masks of the chosen CTA, and their bits, for print."""
        from cutecourse.widgets.cluster_figure import draw_cluster_masks

        return draw_cluster_masks(self.cluster, self.thr_id, self.cta)

    def _repr_arguments(self) -> list[str]:
        arguments = [repr(tuple(self.cluster)), f"thr_id={self.thr_id}", f"cta={self.cta}"]
        if list(self.tile) != [128 * self.thr_id, 256, 64]:
            arguments.append(f"tile={tuple(self.tile)!r}")
        return arguments + ([f"dtype={self.dtype!r}"] if self.dtype != "f16" else [])


def _number_of_sms(thr_id: Any) -> int:
    if isinstance(thr_id, str):
        try:
            thr_id = Layout.parse(thr_id)
        except CourseError as error:
            raise WidgetError(f"thr_id {thr_id!r}: write 1, 2, '1:0' or '2:1'.") from error
    if isinstance(thr_id, Layout):
        v: Any = size(thr_id)
        if [thr_id(i) for i in range(v)] != list(range(v)):
            raise WidgetError(f"thr_id {thr_id}: an atom's threads are 1:0 (one SM) or 2:1 (two).")
    else:
        v = thr_id
    if isinstance(v, bool) or v not in {1, 2}:
        raise WidgetError(f"thr_id {thr_id}: an MMA runs on one SM (1) or on two (2).")
    return int(v)


def _two_extents(cluster: Any) -> list[int]:
    if not isinstance(cluster, Sequence) or isinstance(cluster, str):
        raise WidgetError(f"cluster {cluster!r}: write two extents (M,N), such as (4,4).")
    extents = list(cluster)
    if len(extents) == 3 and extents[2] == 1:  # as CuTe writes it, with K
        extents = extents[:2]
    cluster_layout(extents, 1)
    return extents
