"""A 4x4 cluster computes C (512x1024): A's tiles are multicast along N, B's along M. One SM for each MMA.

A CTA loads a quarter of its tile of A for the four CTAs of its row, and a quarter of its tile of B for the
four of its column. It may load again only when the MMAs of all seven CTAs that it sends to are done. So a
commit arrives at seven barriers, and each barrier counts seven arrivals.
"""

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
MMA = (128, 256, 16)
TILE = (128, 256, 64)
CLUSTER = (4, 4, 1)
TMEM_COLUMNS = 256
THREADS = 128


def make_mma():
    return cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            MMA,
            tcgen05.CtaGroup.ONE,
            tcgen05.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


@cute.kernel
def umma_tma_multicast(
    atom_a: cute.CopyAtom,
    tma_a: cute.Tensor,
    atom_b: cute.CopyAtom,
    tma_b: cute.Tensor,
    mC: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    cluster_layout_vmnk: cute.Layout,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    block_m, block_n, _ = cute.arch.block_idx()
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    cta_coord = cluster_layout_vmnk.get_flat_coord(rank)  # (v, m, n, k)
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, swizzle=layout_b.inner)
    tma_barrier = smem.allocate_array(cutlass.Int64)
    mma_barrier = smem.allocate_array(cutlass.Int64)
    tmem_base = smem.allocate_array(cutlass.Int32)

    senders = CLUSTER[0] + CLUSTER[1] - 1
    if warp == 0:
        cute.arch.alloc_tmem(TMEM_COLUMNS, tmem_base)
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(tma_barrier, 1)
            cute.arch.mbarrier_init(mma_barrier, senders)
    cute.arch.mbarrier_init_fence()
    # A neighbour's bytes may come as soon as it runs, so every barrier of the cluster must be ready first.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    tiled_mma = make_mma()
    thr_mma = tiled_mma.get_slice(cta_coord[0])  # always 0: one CTA for an MMA
    gA = cute.local_tile(tma_a, (TILE[0], TILE[2]), (block_m, None))  # (128, 64, k-tiles)
    gB = cute.local_tile(tma_b, (TILE[1], TILE[2]), (block_n, None))
    gC = cute.local_tile(mC, TILE[:2], (block_m, block_n))
    tCgA = thr_mma.partition_A(gA)  # (MmaA, 1, 4, k-tiles)
    tCgB = thr_mma.partition_B(gB)
    # A fragment of A or B is a shared-memory descriptor; the fragment of C is a place in tensor memory.
    tCrA = tiled_mma.make_fragment_A(sA)  # (1, 1, 4)
    tCrB = tiled_mma.make_fragment_B(sB)
    tCtC = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C(TILE[:2]))
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
    tile_bytes = cute.size_in_bytes(cutlass.Float16, layout_a) + cute.size_in_bytes(cutlass.Float16, layout_b)

    tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
    for k in cutlass.range(cute.size(gA, mode=[2]), unroll=1):
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(tma_barrier, tile_bytes)
            cute.copy(atom_a, tAgA[None, k], tAsA, tma_bar_ptr=tma_barrier, mcast_mask=mask_a)
            cute.copy(atom_b, tBgB[None, k], tBsB, tma_bar_ptr=tma_barrier, mcast_mask=mask_b)
        cute.arch.mbarrier_wait(tma_barrier, k % 2)

        if warp == 0:
            for k_block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                cute.gemm(tiled_mma, tCtC, tCrA[None, None, k_block], tCrB[None, None, k_block], tCtC)
                tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
            with cute.arch.elect_one():
                tcgen05.commit(mma_barrier, mask_a | mask_b)
        cute.arch.mbarrier_wait(mma_barrier, k % 2)
        cute.arch.sync_threads()  # a warp two k-tiles behind would wait for a phase that is over

    # tmem -> rmem -> gmem: a warp reads its 32 lanes, a thread one row of C, 32 columns at a time
    load = tcgen05.make_tmem_copy(
        cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), cutlass.Float32), tCtC
    ).get_slice(tid)
    tDtC = load.partition_S(tCtC)
    tDgC = load.partition_D(thr_mma.partition_C(gC))
    tDrC = cute.make_rmem_tensor(tDgC[None, 0, 0, 0].shape, cutlass.Float32)
    for i in cutlass.range(cute.size(tDgC, mode=[1]), unroll=1):
        cute.copy(load, tDtC[None, i, 0, 0], tDrC)
        cute.arch.fence_view_async_tmem_load()
        cute.autovec_copy(tDrC, tDgC[None, i, 0, 0])

    cute.arch.sync_threads()
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit()
        cute.arch.dealloc_tmem(tCtC.iterator, TMEM_COLUMNS)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    tiled_mma = make_mma()
    atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, cutlass.Float16)
    layout_a = tcgen05.tile_to_mma_shape(atom, tiled_mma.partition_shape_A((TILE[0], TILE[2])))
    layout_b = tcgen05.tile_to_mma_shape(atom, tiled_mma.partition_shape_B((TILE[1], TILE[2])))
    cluster_layout_vmnk = cute.tiled_divide(cute.make_layout(CLUSTER), (tiled_mma.thr_id,))
    load = cpasync.CopyBulkTensorTileG2SMulticastOp(tcgen05.CtaGroup.ONE)
    atom_a, tma_a = make_tiled_tma_atom_A(load, mA, layout_a, TILE, tiled_mma, cluster_layout_vmnk.shape)
    atom_b, tma_b = make_tiled_tma_atom_B(load, mB, layout_b, TILE, tiled_mma, cluster_layout_vmnk.shape)
    umma_tma_multicast(atom_a, tma_a, atom_b, tma_b, mC, layout_a, layout_b, cluster_layout_vmnk).launch(
        grid=(MNK[0] // TILE[0], MNK[1] // TILE[1], 1), block=(THREADS, 1, 1), cluster=CLUSTER
    )
