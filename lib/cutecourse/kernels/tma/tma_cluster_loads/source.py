"""The loads of a GEMM on a 4x4 cluster, without an MMA: A is multicast along N, B along M, over all of K.

One cluster of 16 CTAs covers 512x1024x256 in CTA tiles of 128x256x64. A CTA shares its tile of A with the
four CTAs of its row and its tile of B with the four of its column. It loads a quarter of each, and waits for
the bytes of both tiles. There is one stage of shared memory, and a cluster barrier says when all 16 CTAs are
done with it. Every CTA writes down the tiles that it got, and its two masks.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import CopyUniversalOp, cpasync
from cutlass.memory import SmemAllocator

MNK = (512, 1024, 256)
TILE = (128, 256, 64)
CLUSTER = (4, 4, 1)
THREADS = 128


@cute.kernel
def tma_cluster_loads(
    atom_a: cute.CopyAtom,
    tma_a: cute.Tensor,
    atom_b: cute.CopyAtom,
    tma_b: cute.Tensor,
    mOutA: cute.Tensor,
    mOutB: cute.Tensor,
    mMasks: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    cluster_layout_vmnk: cute.Layout,
):
    tid, _, _ = cute.arch.thread_idx()
    block_m, block_n, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    cta_coord = cluster_layout_vmnk.get_flat_coord(rank)  # (v, m, n, k)
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, swizzle=layout_b.inner)
    barrier = smem.allocate_array(cutlass.Int64)

    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(barrier, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    gA = cute.local_tile(tma_a, TILE, (block_m, block_n, None), proj=(1, None, 1))  # (128, 64, k-tiles)
    gB = cute.local_tile(tma_b, TILE, (block_m, block_n, None), proj=(None, 1, 1))  # (256, 64, k-tiles)
    along_m = cute.make_layout(cute.size(cluster_layout_vmnk, mode=[1]))
    along_n = cute.make_layout(cute.size(cluster_layout_vmnk, mode=[2]))
    tAsA, tAgA = cpasync.tma_partition(
        atom_a, cta_coord[2], along_n, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
    )
    tBsB, tBgB = cpasync.tma_partition(
        atom_b, cta_coord[1], along_m, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2)
    )
    mask_a = cpasync.create_tma_multicast_mask(cluster_layout_vmnk, cta_coord, mcast_mode=2)
    mask_b = cpasync.create_tma_multicast_mask(cluster_layout_vmnk, cta_coord, mcast_mode=1)
    if tid == 0:
        mMasks[rank, 0] = cutlass.Int32(mask_a) & 0xFFFF
        mMasks[rank, 1] = cutlass.Int32(mask_b) & 0xFFFF

    copy_out = cute.make_tiled_copy_tv(  # 16 rows of 8 threads with 8 values each, 16 bytes at once
        cute.make_copy_atom(CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=128),
        cute.make_layout((16, 8), stride=(8, 1)),
        cute.make_layout((1, 8)),
    ).get_slice(tid)
    for k in cutlass.range(cute.size(gA, mode=[2]), unroll=1):
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(
                    barrier,
                    cute.size_in_bytes(cutlass.Float16, layout_a)
                    + cute.size_in_bytes(cutlass.Float16, layout_b),
                )
            cute.copy(atom_a, tAgA[None, k], tAsA, tma_bar_ptr=barrier, mcast_mask=mask_a)
            cute.copy(atom_b, tBgB[None, k], tBsB, tma_bar_ptr=barrier, mcast_mask=mask_b)
        cute.arch.mbarrier_wait(barrier, k % 2)

        gOutA = cute.local_tile(mOutA[rank, None, None], (TILE[0], TILE[2]), (0, k))
        gOutB = cute.local_tile(mOutB[rank, None, None], (TILE[1], TILE[2]), (0, k))
        cute.autovec_copy(copy_out.partition_S(sA), copy_out.partition_D(gOutA))
        cute.autovec_copy(copy_out.partition_S(sB), copy_out.partition_D(gOutB))
        # The stage is free only when it is free in every CTA that the next loads write to.
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mOutA: cute.Tensor, mOutB: cute.Tensor, mMasks: cute.Tensor):
    swizzle = cute.make_swizzle(3, 4, 3)
    layout_a = cute.make_composed_layout(swizzle, 0, cute.make_layout((128, 64), stride=(64, 1)))
    layout_b = cute.make_composed_layout(swizzle, 0, cute.make_layout((256, 64), stride=(64, 1)))
    cluster_layout_vmnk = cute.tiled_divide(cute.make_layout(CLUSTER), (1,))
    load = cpasync.CopyBulkTensorTileG2SMulticastOp()
    atom_a, tma_a = cpasync.make_tiled_tma_atom(
        load, mA, layout_a, (TILE[0], TILE[2]), num_multicast=CLUSTER[1]
    )
    atom_b, tma_b = cpasync.make_tiled_tma_atom(
        load, mB, layout_b, (TILE[1], TILE[2]), num_multicast=CLUSTER[0]
    )
    tma_cluster_loads(
        atom_a, tma_a, atom_b, tma_b, mOutA, mOutB, mMasks, layout_a, layout_b, cluster_layout_vmnk
    ).launch(grid=CLUSTER, block=(THREADS, 1, 1), cluster=CLUSTER)
