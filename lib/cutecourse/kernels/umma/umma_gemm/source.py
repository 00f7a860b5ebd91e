"""The GEMM of the last rung for other problems: one SM or two, f16 or bf16, K- or MN-major, any M, N and K.

The tiles at the edges are new beside umma_two_sm_pipeline. TMA fills places outside of A and B with zeros,
and its barrier counts those bytes too. So the main loop knows nothing of edges, and only the epilogue
compares coordinates. All CTAs of a cluster run, even those without a tile, because the others wait for them.
"""

from dataclasses import dataclass
from functools import cache

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import (
    OperandMajorMode,
    cpasync,
    make_tiled_tma_atom_A,
    make_tiled_tma_atom_B,
    tcgen05,
)
from cutlass.memory import SmemAllocator

MNK = (512, 1024, 256)
CTA_ROWS = 128  # of A and of C, in shared and in tensor memory
TMEM_COLUMNS = 256  # as many as an MMA has columns
K_TILE = 64
STAGES = 3
THREADS = 128


@dataclass(frozen=True)
class Config:
    """The choices that the kernel is compiled for, beside its tensors' shapes and strides.

    sms       SMs for one MMA, 1 or 2; its tile is 128 times that many rows, and 256 columns.
    major     for A and B, "k" or "mn": the mode whose elements lie side by side.
    cluster   CTAs along M and N.
    """

    sms: int
    dtype: str
    major_a: str
    major_b: str
    cluster: tuple[int, int, int]

    @property
    def tile(self):
        """M and N of an MMA's result, which a pair shares where it takes two SMs, and K of a k-tile."""
        return CTA_ROWS * self.sms, TMEM_COLUMNS, K_TILE

    @property
    def element(self):
        """The CuTe DSL's type of A's and B's elements."""
        return {"f16": cutlass.Float16, "bf16": cutlass.BFloat16}[self.dtype]

    @property
    def cta_group(self):
        """The cta_group of the MMA, and with it of its loads, commits and tensor memory."""
        return tcgen05.CtaGroup.TWO if self.sms == 2 else tcgen05.CtaGroup.ONE

    def make_mma(self):
        """The tiled MMA: one atom of the whole tile's rows and columns, 16 deep."""
        majors = {"k": OperandMajorMode.K, "mn": OperandMajorMode.MN}
        return cute.make_tiled_mma(
            tcgen05.MmaF16BF16Op(
                self.element,
                cutlass.Float32,
                (*self.tile[:2], 16),
                self.cta_group,
                tcgen05.OperandSource.SMEM,
                majors[self.major_a],
                majors[self.major_b],
            )
        )

    def smem_layout(self, shape, major):
        """All stages of what `shape`, a partition_shape of the MMA, is read from."""
        kinds = {"k": tcgen05.SmemLayoutAtomKind.K_SW128, "mn": tcgen05.SmemLayoutAtomKind.MN_SW128}
        # MN-major atoms follow each other along K first, so that the atoms of one MMA are together.
        order = (1, 2, 3) if major == "k" else (2, 1, 3)
        return tcgen05.tile_to_mma_shape(
            tcgen05.make_smem_layout_atom(kinds[major], self.element), cute.append(shape, STAGES), order=order
        )


@cute.kernel
def umma_gemm(
    atom_a: cute.CopyAtom,
    tma_a: cute.Tensor,
    atom_b: cute.CopyAtom,
    tma_b: cute.Tensor,
    mC: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    cluster_layout_vmnk: cute.Layout,
    config: cutlass.Constexpr,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    block_m, block_n, _ = cute.arch.block_idx()
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    cta_coord = cluster_layout_vmnk.get_flat_coord(rank)  # (v, m, n, k)
    leads = cta_coord[0] == 0
    two = config.sms == 2
    smem = SmemAllocator()
    sA = smem.allocate_tensor(config.element, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(config.element, layout_b.outer, 1024, swizzle=layout_b.inner)
    full = smem.allocate_array(cutlass.Int64, STAGES)
    empty = smem.allocate_array(cutlass.Int64, STAGES)
    finished = smem.allocate_array(cutlass.Int64)
    tmem_base = smem.allocate_array(cutlass.Int32)

    senders = cute.size(cluster_layout_vmnk, mode=[1]) + cute.size(cluster_layout_vmnk, mode=[2]) - 1
    if warp == 0:
        cute.arch.alloc_tmem(TMEM_COLUMNS, tmem_base, is_two_cta=two)
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, senders)
            cute.arch.mbarrier_init(finished, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    tiled_mma = config.make_mma()
    thr_mma = tiled_mma.get_slice(cta_coord[0])
    tile_coord = (block_m // config.sms, block_n)
    gA = cute.local_tile(tma_a, (config.tile[0], K_TILE), (tile_coord[0], None))  # (rows, 64, k-tiles)
    gB = cute.local_tile(tma_b, (config.tile[1], K_TILE), (tile_coord[1], None))
    gC = cute.local_tile(mC, config.tile[:2], tile_coord)
    cC = cute.local_tile(cute.make_identity_tensor(mC.shape), config.tile[:2], tile_coord)
    tCgA = thr_mma.partition_A(gA)
    tCgB = thr_mma.partition_B(gB)
    tCrA = tiled_mma.make_fragment_A(sA)  # (1, 1, 4, stages)
    tCrB = tiled_mma.make_fragment_B(sB)
    tCtC = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C(config.tile[:2]))
    tCtC = cute.make_tensor(cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, tmem_base), tCtC.layout)
    along_m = cute.make_layout(cute.size(cluster_layout_vmnk, mode=[1]))
    along_n = cute.make_layout(cute.size(cluster_layout_vmnk, mode=[2]))
    tAsA, tAgA = cpasync.tma_partition(
        atom_a, cta_coord[2], along_n, cute.group_modes(sA, 0, 3), cute.group_modes(tCgA, 0, 3)
    )
    tBsB, tBgB = cpasync.tma_partition(
        atom_b, cta_coord[1], along_m, cute.group_modes(sB, 0, 3), cute.group_modes(tCgB, 0, 3)
    )
    mask_a = cpasync.create_tma_multicast_mask(cluster_layout_vmnk, cta_coord, mcast_mode=2)
    mask_b = cpasync.create_tma_multicast_mask(cluster_layout_vmnk, cta_coord, mcast_mode=1)
    mask_empty = mask_a | mask_b
    if cutlass.const_expr(two):
        peer = (cta_coord[0] ^ 1, *cta_coord[1:])
        mask_empty |= cpasync.create_tma_multicast_mask(cluster_layout_vmnk, peer, mcast_mode=2)
        mask_empty |= cpasync.create_tma_multicast_mask(cluster_layout_vmnk, peer, mcast_mode=1)
    tile_bytes = cute.size_in_bytes(config.element, cute.select(layout_a, mode=[0, 1, 2]))
    tile_bytes += cute.size_in_bytes(config.element, cute.select(layout_b, mode=[0, 1, 2]))
    k_tiles = cute.size(gA, mode=[2])

    if warp == 0:
        for k in cutlass.range(k_tiles, unroll=1):
            stage, turn = k % STAGES, k // STAGES
            cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
            if leads:
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(full + stage, config.sms * tile_bytes)
            cute.copy(atom_a, tAgA[None, k], tAsA[None, stage], tma_bar_ptr=full + stage, mcast_mask=mask_a)
            cute.copy(atom_b, tBgB[None, k], tBsB[None, stage], tma_bar_ptr=full + stage, mcast_mask=mask_b)
    elif warp == 1:
        if leads:
            tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
            for k in cutlass.range(k_tiles, unroll=1):
                stage, turn = k % STAGES, k // STAGES
                cute.arch.mbarrier_wait(full + stage, turn % 2)
                for k_block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                    at = (None, None, k_block, stage)
                    cute.gemm(tiled_mma, tCtC, tCrA[at], tCrB[at], tCtC)
                    tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
                with cute.arch.elect_one():
                    tcgen05.commit(empty + stage, mask_empty, config.cta_group)
            with cute.arch.elect_one():
                if cutlass.const_expr(two):
                    tcgen05.commit(finished, 0b11 << rank, config.cta_group)
                else:
                    tcgen05.commit(finished)
    cute.arch.mbarrier_wait(finished, 0)

    load = tcgen05.make_tmem_copy(
        cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), cutlass.Float32), tCtC
    ).get_slice(tid)
    tDtC = load.partition_S(tCtC)
    tDgC = load.partition_D(thr_mma.partition_C(gC))
    tDcC = load.partition_D(thr_mma.partition_C(cC))
    tDrC = cute.make_rmem_tensor(tDgC[None, 0, 0, 0].shape, cutlass.Float32)
    for i in cutlass.range(cute.size(tDgC, mode=[1]), unroll=1):
        cute.copy(load, tDtC[None, i, 0, 0], tDrC)
        cute.arch.fence_view_async_tmem_load()
        last = tDcC[cute.size(tDrC) - 1, i, 0, 0]
        if cute.elem_less(last, mC.shape):
            cute.autovec_copy(tDrC, tDgC[None, i, 0, 0])
        else:
            for j in cutlass.range_constexpr(cute.size(tDrC)):
                if cute.elem_less(tDcC[j, i, 0, 0], mC.shape):
                    tDgC[j, i, 0, 0] = tDrC[j]

    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit(is_two_cta=two)
        cute.arch.dealloc_tmem(tCtC.iterator, TMEM_COLUMNS, is_two_cta=two)


@cache
def host_for(sms: int, dtype: str, major_a: str, major_b: str, cluster: tuple[int, int, int]):
    """The host function for one configuration; the shapes are those of the tensors that it is called with."""
    config = Config(sms, dtype, major_a, major_b, cluster)

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
        tiled_mma = config.make_mma()
        tile = config.tile
        layout_a = config.smem_layout(tiled_mma.partition_shape_A((tile[0], tile[2])), config.major_a)
        layout_b = config.smem_layout(tiled_mma.partition_shape_B((tile[1], tile[2])), config.major_b)
        cluster_layout_vmnk = cute.tiled_divide(cute.make_layout(config.cluster), (tiled_mma.thr_id,))
        load = cpasync.CopyBulkTensorTileG2SMulticastOp(config.cta_group)
        atom_a, tma_a = make_tiled_tma_atom_A(load, mA, layout_a, tile, tiled_mma, cluster_layout_vmnk.shape)
        atom_b, tma_b = make_tiled_tma_atom_B(load, mB, layout_b, tile, tiled_mma, cluster_layout_vmnk.shape)
        umma_gemm(atom_a, tma_a, atom_b, tma_b, mC, layout_a, layout_b, cluster_layout_vmnk, config).launch(
            grid=grid_for(mC.shape, config), block=(THREADS, 1, 1), cluster=config.cluster
        )

    return host


def grid_for(shape: tuple[int, int], config: Config) -> tuple[int, int, int]:
    """As many CTAs as C has tiles of 128 x 256, in whole clusters."""
    along_m, along_n, _ = config.cluster
    rows, columns = CTA_ROWS * along_m, TMEM_COLUMNS * along_n
    return -(-shape[0] // rows) * along_m, -(-shape[1] // columns) * along_n, 1
