"""Four CTAs along N share every tile of A through two stages: chapter 7's pipeline with multicast.

Each CTA computes one column of C = A * B. All four need every row of A, so each loads a quarter of a tile
and sends it to all. `full` works as before: one arrival, and the bytes of all four quarters. `empty`
counts the CTAs that read what this CTA sends, and each reader arrives at the `empty` of every sender. So
a producer refills its slice only when nobody in the cluster still reads the old one.
`cutlass.pipeline.PipelineTmaAsync` is the class that holds the same for larger kernels.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.memory import SmemAllocator

TILE = (32, 64)
STAGES = 2
CLUSTER = (1, 4, 1)
THREADS = 64  # warp 0 computes, one row a thread; warp 1 loads


@cute.kernel
def tma_multicast_pipeline(
    tma_atom: cute.CopyAtom,
    tma_tensor: cute.Tensor,
    mB: cute.Tensor,
    mC: cute.Tensor,
    smem_layout: cute.ComposedLayout,
    cluster_layout_vmnk: cute.Layout,
):
    tid, _, _ = cute.arch.thread_idx()
    block_m, block_n, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    cta_coord = cluster_layout_vmnk.get_flat_coord(rank)  # (v, m, n, k)
    ctas_n = cute.size(cluster_layout_vmnk, mode=[2])
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, smem_layout.outer, 1024, swizzle=smem_layout.inner)
    full = smem.allocate_array(cutlass.Int64, STAGES)
    empty = smem.allocate_array(cutlass.Int64, STAGES)

    if warp == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, ctas_n)
    cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    gA = cute.local_tile(tma_tensor, TILE, (block_m, None))  # (32, 64, k-tiles)
    tAsA, tAgA = cpasync.tma_partition(
        tma_atom,
        cta_coord[2],
        cute.make_layout(ctas_n),
        cute.group_modes(sA, 0, 2),
        cute.group_modes(gA, 0, 2),
    )
    mask = cpasync.create_tma_multicast_mask(cluster_layout_vmnk, cta_coord, mcast_mode=2)
    k_tiles = cute.size(gA, mode=[2])

    if warp == 1:
        for k in cutlass.range(k_tiles, unroll=1):
            stage, turn = k % STAGES, k // STAGES
            cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, TILE[0] * TILE[1] * 2)
            cute.copy(tma_atom, tAgA[None, k], tAsA[None, stage], tma_bar_ptr=full + stage, mcast_mask=mask)
    else:
        total = cutlass.Float32(0.0)
        for k in cutlass.range(k_tiles, unroll=1):
            stage, turn = k % STAGES, k // STAGES
            cute.arch.mbarrier_wait(full + stage, turn % 2)
            for column in cutlass.range(TILE[1], unroll=4):
                a = sA[tid, column, stage].to(cutlass.Float32)
                total += a * mB[block_n, k * TILE[1] + column].to(cutlass.Float32)
            cute.arch.sync_warp()
            if tid < ctas_n:  # thread r tells CTA r
                cute.arch.mbarrier_arrive(empty + stage, tid)
        mC[block_m * TILE[0] + tid, block_n] = total
    # Nobody leaves while its shared memory may still be written to, or its barriers arrived at.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    smem_layout = cute.make_composed_layout(
        cute.make_swizzle(3, 4, 3), 0, cute.make_layout((*TILE, STAGES), stride=(64, 1, 32 * 64))
    )
    cluster_layout_vmnk = cute.tiled_divide(cute.make_layout(CLUSTER), (1,))
    tma_atom, tma_tensor = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SMulticastOp(), mA, smem_layout, TILE, num_multicast=CLUSTER[1]
    )
    grid = (cute.size(mA, mode=[0]) // TILE[0], CLUSTER[1], 1)
    tma_multicast_pipeline(tma_atom, tma_tensor, mB, mC, smem_layout, cluster_layout_vmnk).launch(
        grid=grid, block=(THREADS, 1, 1), cluster=CLUSTER
    )
