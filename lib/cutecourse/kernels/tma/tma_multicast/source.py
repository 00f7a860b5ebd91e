"""Four CTAs along N need the same tile of A. Each loads a quarter and sends it to all four.

The cluster is 1x4. The atom is made for four receivers, so its box is a quarter of the tile. tma_partition
gives each CTA its own quarter, and the mask has one bit for each CTA that a load writes to. Every CTA's
barrier expects the whole tile: the bytes of its own load and of its three neighbours' loads.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.memory import SmemAllocator

TILE = (128, 64)
CLUSTER = (1, 4, 1)
THREADS = 128


@cute.kernel
def tma_multicast(
    tma_atom: cute.CopyAtom,
    tma_tensor: cute.Tensor,
    mOut: cute.Tensor,
    smem_layout: cute.ComposedLayout,
    cluster_layout_vmnk: cute.Layout,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    cta_coord = cluster_layout_vmnk.get_flat_coord(rank)  # (v, m, n, k)
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, smem_layout.outer, 1024, swizzle=smem_layout.inner)
    barrier = smem.allocate_array(cutlass.Int64)

    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(barrier, 1)
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, cute.size_in_bytes(cutlass.Float16, smem_layout))
    cute.arch.mbarrier_init_fence()
    # A neighbour's bytes may come as soon as it runs, so every barrier of the cluster must be ready first.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    gA = cute.local_tile(tma_tensor, TILE, (0, 0))
    receivers = cute.make_layout(cute.size(cluster_layout_vmnk, mode=[2]))
    tAsA, tAgA = cpasync.tma_partition(
        tma_atom, cta_coord[2], receivers, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
    )
    mask = cpasync.create_tma_multicast_mask(cluster_layout_vmnk, cta_coord, mcast_mode=2)
    if warp == 0:
        cute.copy(tma_atom, tAgA, tAsA, tma_bar_ptr=barrier, mcast_mask=mask)
    cute.arch.mbarrier_wait(barrier, 0)

    for i in range(tid, cute.size(sA), THREADS):
        mOut[rank, i % TILE[0], i // TILE[0]] = sA[i]
    # Nobody leaves while its shared memory may still be written to.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@cute.jit
def host(mA: cute.Tensor, mOut: cute.Tensor):
    smem_layout = cute.make_composed_layout(
        cute.make_swizzle(3, 4, 3), 0, cute.make_layout(TILE, stride=(64, 1))
    )
    cluster_layout_vmnk = cute.tiled_divide(cute.make_layout(CLUSTER), (1,))
    tma_atom, tma_tensor = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SMulticastOp(), mA, smem_layout, TILE, num_multicast=CLUSTER[1]
    )
    tma_multicast(tma_atom, tma_tensor, mOut, smem_layout, cluster_layout_vmnk).launch(
        grid=CLUSTER, block=(THREADS, 1, 1), cluster=CLUSTER
    )
