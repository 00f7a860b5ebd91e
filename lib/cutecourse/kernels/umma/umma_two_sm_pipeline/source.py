"""Eight pairs of SMs in a 4x4 cluster compute C (512x1024), with multicast and three stages of shared memory.

One warp loads as far ahead as there are free stages. One warp of each pair's leader issues the MMAs. All four
warps wait for the last MMA. `full`, in the leader, counts the bytes that land in both CTAs. `empty`, in each
CTA, counts a commit from every pair that its loads reach: two pairs along M and four along N, its own counted
once. A commit goes to both CTAs of all these pairs. `cutlass.pipeline.PipelineTmaUmma` is the class that does
the same in larger kernels.
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
MMA = (256, 256, 16)
TILE = (256, 256, 64)
CLUSTER = (4, 4, 1)
STAGES = 3
TMEM_COLUMNS = 256
THREADS = 128


def make_mma():
    return cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            MMA,
            tcgen05.CtaGroup.TWO,
            tcgen05.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


@cute.kernel
def umma_two_sm_pipeline(
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
    leads = cta_coord[0] == 0
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, swizzle=layout_b.inner)
    full = smem.allocate_array(cutlass.Int64, STAGES)
    empty = smem.allocate_array(cutlass.Int64, STAGES)
    finished = smem.allocate_array(cutlass.Int64)
    tmem_base = smem.allocate_array(cutlass.Int32)

    senders = cute.size(cluster_layout_vmnk, mode=[1]) + cute.size(cluster_layout_vmnk, mode=[2]) - 1
    if warp == 0:
        cute.arch.alloc_tmem(TMEM_COLUMNS, tmem_base, is_two_cta=True)
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, senders)
            cute.arch.mbarrier_init(finished, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    tiled_mma = make_mma()
    thr_mma = tiled_mma.get_slice(cta_coord[0])  # a half of the pair's MMA
    gA = cute.local_tile(tma_a, (TILE[0], TILE[2]), (block_m // 2, None))  # (256, 64, k-tiles)
    gB = cute.local_tile(tma_b, (TILE[1], TILE[2]), (block_n, None))
    gC = cute.local_tile(mC, TILE[:2], (block_m // 2, block_n))
    tCgA = thr_mma.partition_A(gA)  # (MmaA, 1, 4, k-tiles), MmaA of 128 rows
    tCgB = thr_mma.partition_B(gB)
    # A fragment of A or B is a shared-memory descriptor; the fragment of C is a place in tensor memory.
    tCrA = tiled_mma.make_fragment_A(sA)  # (1, 1, 4, stages)
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
    peer = (cta_coord[0] ^ 1, *cta_coord[1:])
    mask_peer_a = cpasync.create_tma_multicast_mask(cluster_layout_vmnk, peer, mcast_mode=2)
    mask_peer_b = cpasync.create_tma_multicast_mask(cluster_layout_vmnk, peer, mcast_mode=1)
    tile_bytes = cute.size_in_bytes(cutlass.Float16, cute.select(layout_a, mode=[0, 1, 2]))
    tile_bytes += cute.size_in_bytes(cutlass.Float16, cute.select(layout_b, mode=[0, 1, 2]))
    k_tiles = cute.size(gA, mode=[2])

    if warp == 0:
        for k in cutlass.range(k_tiles, unroll=1):
            stage, turn = k % STAGES, k // STAGES
            cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
            if leads:
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(full + stage, 2 * tile_bytes)
            cute.copy(atom_a, tAgA[None, k], tAsA[None, stage], tma_bar_ptr=full + stage, mcast_mask=mask_a)
            cute.copy(atom_b, tBgB[None, k], tBsB[None, stage], tma_bar_ptr=full + stage, mcast_mask=mask_b)
    elif warp == 1:
        if leads:
            tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
            for k in cutlass.range(k_tiles, unroll=1):
                stage, turn = k % STAGES, k // STAGES
                cute.arch.mbarrier_wait(full + stage, turn % 2)
                for k_block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                    tile = (None, None, k_block, stage)
                    cute.gemm(tiled_mma, tCtC, tCrA[tile], tCrB[tile], tCtC)
                    tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
                with cute.arch.elect_one():
                    tcgen05.commit(
                        empty + stage, mask_a | mask_b | mask_peer_a | mask_peer_b, tcgen05.CtaGroup.TWO
                    )
            with cute.arch.elect_one():
                tcgen05.commit(finished, 0b11 << rank, tcgen05.CtaGroup.TWO)
    cute.arch.mbarrier_wait(finished, 0)

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

    # Tensor memory of a pair is freed for both CTAs, and only when both have read theirs; and nobody leaves
    # while another pair's commit may still arrive at its barriers.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit(is_two_cta=True)
        cute.arch.dealloc_tmem(tCtC.iterator, TMEM_COLUMNS, is_two_cta=True)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    tiled_mma = make_mma()
    atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, cutlass.Float16)
    layout_a = tcgen05.tile_to_mma_shape(
        atom, cute.append(tiled_mma.partition_shape_A((TILE[0], TILE[2])), STAGES), order=(1, 2, 3)
    )
    layout_b = tcgen05.tile_to_mma_shape(
        atom, cute.append(tiled_mma.partition_shape_B((TILE[1], TILE[2])), STAGES), order=(1, 2, 3)
    )
    cluster_layout_vmnk = cute.tiled_divide(cute.make_layout(CLUSTER), (tiled_mma.thr_id,))
    load = cpasync.CopyBulkTensorTileG2SMulticastOp(tcgen05.CtaGroup.TWO)
    atom_a, tma_a = make_tiled_tma_atom_A(load, mA, layout_a, TILE, tiled_mma, cluster_layout_vmnk.shape)
    atom_b, tma_b = make_tiled_tma_atom_B(load, mB, layout_b, TILE, tiled_mma, cluster_layout_vmnk.shape)
    pairs = (MNK[0] // TILE[0], MNK[1] // TILE[1])
    umma_two_sm_pipeline(atom_a, tma_a, atom_b, tma_b, mC, layout_a, layout_b, cluster_layout_vmnk).launch(
        grid=(2 * pairs[0], pairs[1], 1), block=(THREADS, 1, 1), cluster=CLUSTER
    )
