"""make_tma_atom_A_sm100 and its B twin: which part of an operand's tile each CTA of an MMA loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from cutecourse.atoms import LayoutTensor, thrfrg
from cutecourse.atoms.tensor import outer_of
from cutecourse.dtypes import DType
from cutecourse.dtypes import dtype as as_dtype
from cutecourse.layout import (
    ComposedLayout,
    Explanation,
    Layout,
    composition,
    make_identity_layout,
    make_layout,
    rank,
    size,
)
from cutecourse.layout.int_tuple import is_node
from cutecourse.layout.record import Record
from cutecourse.tma import TmaTrace, trace_tma_atom

from .errors import UmmaError
from .mma import TiledUmma

__all__ = ["TMA_COPY_OPS", "TmaAtomTrace", "TmaCopyOp", "make_tma_atom_A_sm100", "make_tma_atom_B_sm100"]

_SOURCE = "CUTLASS 4.2.0, include/cute/atom/copy_traits_sm100_tma.hpp"


@dataclass(frozen=True)
class TmaCopyOp:
    """One of CUTLASS's TMA operations.

    `thr_id` counts the CTAs of its copy atom; `peer_mask` is what the barrier's address is and-ed with: for
    two SMs it names the barrier of the leader, the even CTA of a pair, whichever of the two loads.
    Source: CUTLASS 4.2.0, include/cute/arch/copy_sm90_tma.hpp, copy_sm100_tma.hpp and their traits.
    """

    name: str
    cta_group: int
    multicast: bool
    store: bool = False

    @property
    def thr_id(self) -> Layout:
        """The CTAs of one copy atom."""
        return Layout(2) if self.cta_group == 2 else Layout(1, 0)

    @property
    def peer_mask(self) -> int | None:
        """Which bits of the barrier's address stay: Sm100MmaPeerBitMask, or None for all of them."""
        return 0xFEFFFFFF if self.cta_group == 2 else None

    def ptx(self, dims: int) -> str:
        """The instruction for a tensor map of so many dimensions, as CUTLASS writes it.

        >>> print(TMA_COPY_OPS["SM100_TMA_2SM_LOAD"].ptx(2))
        cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint
        """
        if self.store:
            return f"cp.async.bulk.tensor.{dims}d.global.shared::cta.bulk_group"
        group = ".cta_group::2" if self.cta_group == 2 else ""
        multicast = ".multicast::cluster" if self.multicast else ""
        return (
            f"cp.async.bulk.tensor.{dims}d{group}.shared::cluster.global.mbarrier::complete_tx::bytes"
            f"{multicast}.L2::cache_hint"
        )


TMA_COPY_OPS: Mapping[str, TmaCopyOp] = MappingProxyType(
    {
        op.name: op
        for op in (
            TmaCopyOp("SM90_TMA_LOAD", 1, multicast=False),
            TmaCopyOp("SM90_TMA_LOAD_MULTICAST", 1, multicast=True),
            TmaCopyOp("SM90_TMA_STORE", 1, multicast=False, store=True),
            TmaCopyOp("SM100_TMA_2SM_LOAD", 2, multicast=False),
            TmaCopyOp("SM100_TMA_2SM_LOAD_MULTICAST", 2, multicast=True),
        )
    }
)
"""The TMA operations that make_tma_atom_A_sm100 and _B_sm100 take in CUTLASS 4.2.0.

The CuTe DSL has one name for each of two: `CopyBulkTensorTileG2SOp(cta_group)` and
`CopyBulkTensorTileG2SMulticastOp(cta_group)`, and takes no store here.
"""


@dataclass(frozen=True)
class TmaAtomTrace(Record):
    """How CuTe makes the TMA atom of an operand of a tcgen05.mma, every value under CuTe's name.

    `tma` is the rest of the construction, from `cta_v_tile` to the tensor map: what
    `cutecourse.tma.tma_partition`, `tma_coords` and `smem_image` take.
    Shapes:     `cta_v_tile` is (MMA, MMA_M, MMA_K, ...) of one CTA (of B: MMA_N): an element of its tile in
                shared memory to the coordinates of that element in the tensor.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm100_tma.hpp.
    """

    LAW: ClassVar[str] = "element c of a CTA's tile lies at slayout(c), and comes from cta_v_tile(c)"
    OPERANDS: ClassVar[tuple[str, ...]] = (
        "op",
        "gtensor",
        "slayout",
        "mma_tiler",
        "mma_op",
        "cluster_shape",
    )
    RESULT: ClassVar[str] = "tma_gbasis"

    operand: Literal["A", "B"]
    copy_op: TmaCopyOp
    gtensor: Layout
    slayout: Layout | ComposedLayout
    mma_tiler: Any
    mma: TiledUmma
    cluster_shape: Layout
    operand_tiler: Any
    g_tile: Layout
    thrfrg: Layout
    frg: Layout
    cta_v_tile: Layout
    num_multicast: int
    tma: TmaTrace

    @property
    def op(self) -> str:
        """The copy operation's name."""
        return self.copy_op.name

    @property
    def mma_op(self) -> str:
        """The MMA's name."""
        return self.mma.op

    @property
    def thr_id(self) -> Layout:
        """The CTAs of the copy atom."""
        return self.copy_op.thr_id

    @property
    def tma_gbasis(self) -> Layout:
        """Sides of the box : modes of the tensor."""
        return self.tma.tma_gbasis

    @property
    def num_val_src(self) -> int:
        """Elements that one instruction moves for one CTA, of all CTAs of a multicast together."""
        return self.tma.num_val_src

    @property
    def tile_bytes(self) -> int:
        """Bytes of shared memory that one CTA's part fills; a pair's barrier expects those of both CTAs."""
        return self.tma.tile_bytes

    @property
    def ptx(self) -> str:
        """The instruction."""
        return self.copy_op.ptx(self.tma.rank)

    def get_tma_tensor(self, shape: Any = None) -> LayoutTensor:
        """The tensor whose elements are the coordinates that the instruction takes, innermost first.

        Errors: TmaError, rule `profile`, for a shape that is nested in another way than the tensor's.
        """
        return self.tma.get_tma_tensor(shape)

    @property
    def _steps(self) -> tuple[tuple[str, ...], ...]:
        other = "N" if self.operand == "A" else "M"
        mn = "M" if self.operand == "A" else "N"
        shared = (
            f"size<{2 if self.operand == 'A' else 1}>(cluster_shape): the CTAs along {other} need the same "
            f"tile of {self.operand}"
            if self.copy_op.multicast
            else "no multicast: every CTA loads its own"
        )
        return (
            (
                "remove",
                f"keep {mn} and K of the MMA's tile, drop {other}",
                "operand_tiler",
            ),
            ("compose", "coordinates of the tile's elements in the tensor", "g_tile"),
            (
                f"thrfrg_{self.operand}",
                "the MMA's partition: ((CTA of the MMA, MMAs side by side), (values, repetitions))",
                "thrfrg",
            ),
            ("layout<1>", "the values of one CTA", "frg"),
            (
                "slice",
                f"(MMA, MMA_{mn}, MMA_K): an element of a CTA's tile to its coordinates",
                "cta_v_tile",
            ),
            ("multicast", shared, "num_multicast"),
        )

    def explain(self) -> Explanation:
        """The steps in words, each with its values; those of make_tma_copy_atom, which it calls, inside."""
        name = f"make_tma_atom_{self.operand}_sm100"
        steps = self._explained(name, self._steps)
        inner = [
            replace(step, operation="make_tma_copy_atom", level=1) for step in self.tma.explain().steps[1:-1]
        ]
        result = self._explained(name, (("result", "sides of the box : modes of the tensor", "tma_gbasis"),))
        return self._explanation(name, (*steps, *inner, *result))

    def _names(self) -> tuple[str, ...]:
        return (*self.OPERANDS, *(name for step in self._steps for name in step[2:]))

    def _label(self, name: str) -> str:
        """CuTe's name of a value that is called otherwise for B."""
        if name == "operand_tiler":
            return "mma_tiler_mk" if self.operand == "A" else "mma_tiler_nk"
        return f"thrfrg_{self.operand}(g_tile)" if name == "thrfrg" else name

    def to_snapshot(self) -> dict[str, Any]:
        """Every value as JSON can hold it, those of the tensor map under `tma`."""
        return {**super().to_snapshot(), "operand": self.operand, "tma": self.tma.to_snapshot()}

    def __repr__(self) -> str:
        return f"TmaAtomTrace({self.operand}, {self.op}, {self.tma_gbasis})"


def make_tma_atom_A_sm100(
    copy_op: str,
    gtensor: Layout,
    slayout: Layout | ComposedLayout,
    mma_tiler: Any,
    mma: TiledUmma,
    cluster_shape: Any,
    dtype: DType | str | None = None,
    internal_type: DType | str | None = None,
    *,
    check: bool = True,
) -> TmaAtomTrace:
    """Make the TMA atom that loads A for a tcgen05.mma: each CTA its own rows, shared along N.

    Shapes:     `gtensor` is the whole tensor (M, K, ...); `slayout` one CTA's tile (MMA, MMA_M, MMA_K), with
                stages behind it or without; `mma_tiler` (M, N, K, ...) of one MMA tile, of both SMs together
                for two; `cluster_shape` the cluster by (V, M, N, K), a layout or a shape.
    Units:      elements of `dtype`: A's of the MMA, if none is given.
    Errors:     UmmaError: `copy_op` for an operation that CUTLASS does not take here, `family` for one that
                it does and this library does not, `mma_tiler`, `cluster_shape`; TmaError as `trace_tma_atom`:
                `tile_size` where the tile in shared memory has not the elements of a CTA's part.
                As in C++, nothing checks that an operation of two SMs stands with an MMA of two.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm100_tma.hpp, make_tma_atom_A_sm100; the CuTe
                DSL's make_tiled_tma_atom_A. (C++ takes no stages here, the DSL drops them.)

    >>> from cutecourse import umma
    >>> mma = umma.make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS", "f16", "f16", "f32", 256, 256)
    >>> shape = umma.partition_shape_A(mma, (256, 64))
    >>> slayout = umma.tile_to_mma_shape(umma.make_smem_layout_atom("K_SW128", "f16"), shape).result
    >>> atom = make_tma_atom_A_sm100(
    ...     "SM100_TMA_2SM_LOAD_MULTICAST",
    ...     Layout((512, 256), (256, 1)),
    ...     slayout,
    ...     (256, 256, 64),
    ...     mma,
    ...     mma.cluster_layout_vmnk((4, 4, 1)),
    ... )
    >>> print(atom.cta_v_tile, atom.num_multicast, atom.tma_gbasis, atom.tma.encoding.box)
    ((128,16),1,4):((1@0,1@1),0,16@1) 4 (64,128):(1@1,1@0) (64, 32)
    """
    return _make("A", copy_op, gtensor, slayout, mma_tiler, mma, cluster_shape, dtype, internal_type, check)


def make_tma_atom_B_sm100(
    copy_op: str,
    gtensor: Layout,
    slayout: Layout | ComposedLayout,
    mma_tiler: Any,
    mma: TiledUmma,
    cluster_shape: Any,
    dtype: DType | str | None = None,
    internal_type: DType | str | None = None,
    *,
    check: bool = True,
) -> TmaAtomTrace:
    """Make the TMA atom that loads B for a tcgen05.mma: of two SMs each half of N, shared along M.

    Shapes, units and errors as `make_tma_atom_A_sm100`, with (N, K, ...) for (M, K, ...).
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm100_tma.hpp, make_tma_atom_B_sm100; the CuTe
                DSL's make_tiled_tma_atom_B.

    >>> from cutecourse import umma
    >>> mma = umma.make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS", "f16", "f16", "f32", 256, 256)
    >>> shape = umma.partition_shape_B(mma, (256, 64))
    >>> slayout = umma.tile_to_mma_shape(umma.make_smem_layout_atom("K_SW128", "f16"), shape).result
    >>> atom = make_tma_atom_B_sm100(
    ...     "SM100_TMA_2SM_LOAD_MULTICAST",
    ...     Layout((1024, 256), (256, 1)),
    ...     slayout,
    ...     (256, 256, 64),
    ...     mma,
    ...     mma.cluster_layout_vmnk((4, 4, 1)),
    ... )
    >>> print(atom.num_multicast, atom.tma.encoding.box, atom.tile_bytes)
    2 (64, 64) 16384
    """
    return _make("B", copy_op, gtensor, slayout, mma_tiler, mma, cluster_shape, dtype, internal_type, check)


def _make(
    operand: Literal["A", "B"],
    copy_op: str,
    gtensor: Layout,
    slayout: Layout | ComposedLayout,
    mma_tiler: Any,
    mma: TiledUmma,
    cluster_shape: Any,
    dtype: DType | str | None,
    internal_type: DType | str | None,
    check: bool,
) -> TmaAtomTrace:
    source = f"{_SOURCE}, make_tma_atom_{operand}_sm100"
    op = _copy_op(copy_op, source)
    tiler = tuple(mma_tiler) if is_node(mma_tiler) else (mma_tiler,)
    if len(tiler) < 3 or len(tiler) - 1 != rank(gtensor):
        raise UmmaError(
            f"the MMA's tile is (M, N, K, ...), with one mode more than the tensor {gtensor}",
            rule="mma_tiler",
            source=source,
            values=(("mma_tiler", tiler),),
            advice="(256, 256, 64)",
        )
    cluster = cluster_shape if isinstance(cluster_shape, Layout) else Layout(cluster_shape)
    if rank(cluster) != 4:
        raise UmmaError(
            f"the cluster is given by (V, M, N, K), not by {cluster.shape}",
            rule="cluster_shape",
            source=source,
            advice="mma.cluster_layout_vmnk((4, 4, 1))",
        )
    removed = 1 if operand == "A" else 0
    kept = tuple(extent for position, extent in enumerate(tiler) if position != removed)
    g_tile = composition(make_identity_layout(gtensor.shape), kept)
    cut = outer_of(thrfrg(mma.tiled_mma, operand, g_tile))
    frg = cut[1]
    cta_v_tile = make_layout(frg[0], *(frg[1][position] for position in range(rank(g_tile))))
    multicast = int(size(cluster[2 if operand == "A" else 1])) if op.multicast else 1
    element = as_dtype(dtype) if dtype is not None else as_dtype(mma.a_type if operand == "A" else mma.b_type)
    tma = trace_tma_atom(gtensor, slayout, cta_v_tile, element, multicast, internal_type, check=check)
    return TmaAtomTrace(
        operand=operand,
        copy_op=op,
        gtensor=gtensor,
        slayout=slayout,
        mma_tiler=tiler,
        mma=mma,
        cluster_shape=cluster,
        operand_tiler=kept,
        g_tile=g_tile,
        thrfrg=cut,
        frg=frg,
        cta_v_tile=cta_v_tile,
        num_multicast=multicast,
        tma=tma,
    )


def _copy_op(name: str, source: str) -> TmaCopyOp:
    known = TMA_COPY_OPS.get(name)
    if known is not None:
        return known
    there_is = ", ".join(TMA_COPY_OPS)
    if name in ("SM100_TMA_LOAD_2D_GATHER4", "SM100_TMA_LOAD_MULTICAST_2D_GATHER4"):
        raise UmmaError(f"{name} is not supported here; there are {there_is}", rule="family", source=source)
    raise UmmaError(
        f"no TMA atom of an operand by {name!r}; there are {there_is}", rule="copy_op", source=source
    )
