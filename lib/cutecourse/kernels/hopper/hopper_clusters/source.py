"""The GEMM of hopper_roles in clusters of two CTAs, which share a tile of B: each loads half of it for both.

The CTAs of a cluster are neighbours along M, so they multiply different rows of A by the same columns of B.
A stage may be filled again when both CTAs have read it, so each warp that multiplies says so in both.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.memory import SmemAllocator

MNK = (256, 512, 192)
TILE = (128, 256, 64)
STAGES = 4
CLUSTER = (2, 1, 1)
CONSUMERS = 2  # warpgroups, along M
THREADS = 128 * (1 + CONSUMERS)
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232  # 168 each at first: 40 + 2 * 232 = 3 * 168


def make_mma(dtype):
    """The warpgroups' MMA: each has 64 rows of C, and an instruction multiplies 16 of K."""
    return cute.make_tiled_mma(
        warpgroup.MmaF16BF16Op(
            dtype,
            cutlass.Float32,
            (64, TILE[1], 16),
            warpgroup.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        ),
        atom_layout_mnk=(CONSUMERS, 1, 1),
    )


@cute.kernel
def hopper_clusters(
    tma_a: cute.CopyAtom,
    mA: cute.Tensor,
    tma_b: cute.CopyAtom,
    mB: cute.Tensor,
    mC: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
):
    dtype = mC.element_type
    tid, _, _ = cute.arch.thread_idx()
    block_m, block_n, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    consumer = warp // 4 - 1  # -1: the warpgroup that loads
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    smem = SmemAllocator()
    sA = smem.allocate_tensor(dtype, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(dtype, layout_b.outer, 1024, swizzle=layout_b.inner)
    full = smem.allocate_array(cutlass.Int64, STAGES)
    empty = smem.allocate_array(cutlass.Int64, STAGES)

    if warp == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, CLUSTER[0] * 4 * CONSUMERS)  # warps
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    gA = cute.local_tile(mA, (TILE[0], TILE[2]), (block_m, None))  # (128, 64, k-tiles)
    gB = cute.local_tile(mB, (TILE[1], TILE[2]), (block_n, None))
    alone = 0, cute.make_layout(1)  # A: no other CTA takes part in a load
    both = rank, cute.make_layout(CLUSTER[0])  # B: my half, for both of us
    tAsA, tAgA = cpasync.tma_partition(tma_a, *alone, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2))
    tBsB, tBgB = cpasync.tma_partition(tma_b, *both, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2))
    tile_bytes = (TILE[0] + TILE[1]) * TILE[2] * 2
    k_tiles = cute.size(gA, mode=[2])

    if consumer < 0:
        cute.arch.setmaxregister_decrease(PRODUCER_REGISTERS)
        if warp == 0:
            for k in cutlass.range(k_tiles, unroll=1):
                stage, turn = k % STAGES, k // STAGES
                cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(full + stage, tile_bytes)
                cute.copy(tma_a, tAgA[None, k], tAsA[None, stage], tma_bar_ptr=full + stage)
                cute.copy(
                    tma_b,
                    tBgB[None, k],
                    tBsB[None, stage],
                    tma_bar_ptr=full + stage,
                    mcast_mask=cutlass.Int16(0b11),
                )
    else:
        cute.arch.setmaxregister_increase(CONSUMER_REGISTERS)
        tiled_mma = make_mma(dtype)
        thr_mma = tiled_mma.get_slice(tid - 128)
        # A fragment of A or B is a shared-memory descriptor; the fragment of C is registers.
        tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))  # (1, 1, 4, stages)
        tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
        acc = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C(TILE[:2]))
        tiled_mma.set(warpgroup.Field.ACCUMULATE, False)
        for k in cutlass.range(k_tiles, unroll=1):
            stage, turn = k % STAGES, k // STAGES
            cute.arch.mbarrier_wait(full + stage, turn % 2)
            warpgroup.fence()
            for block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                now = (None, None, block, stage)
                cute.gemm(tiled_mma, acc, tCrA[now], tCrB[now], acc)
                tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            warpgroup.wait_group(1)  # my warpgroup has read k-tile k - 1
            if k > 0:
                with cute.arch.elect_one():
                    for cta in cutlass.range_constexpr(CLUSTER[0]):
                        cute.arch.mbarrier_arrive(empty + (k - 1) % STAGES, cta)
        warpgroup.wait_group(0)

        # Each thread stores pairs of columns, 8 columns apart. N is a multiple of 8, so no pair is cut off.
        gC = cute.local_tile(mC, TILE[:2], (block_m, block_n))
        rows = cute.round_up(mC.shape[0], CLUSTER[0] * TILE[0])  # a cluster may have a tile too many
        cC = cute.local_tile(cute.make_identity_tensor((rows, mC.shape[1])), TILE[:2], (block_m, block_n))
        tCgC, tCcC = thr_mma.partition_C(gC), thr_mma.partition_C(cC)  # ((2, 2, 32), 1, 1)
        tCrC = cute.make_fragment_like(acc, dtype)
        tCrC.store(acc.load().to(dtype))
        for column in cutlass.range_constexpr(TILE[1] // 8):
            for row in cutlass.range_constexpr(2):
                pair = ((None, row, column), 0, 0)
                if cute.elem_less(tCcC[(0, row, column), 0, 0], mC.shape):
                    cute.autovec_copy(tCrC[pair], tCgC[pair])
    # Nobody leaves while its shared memory may still be written to, or its barriers arrived at.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    swizzle = cute.make_swizzle(3, 4, 3)  # rows of 128 bytes, as TMA and wgmma swizzle them
    layout_a = cute.make_ordered_layout((TILE[0], TILE[2], STAGES), order=(1, 0, 2))
    layout_b = cute.make_ordered_layout((TILE[1], TILE[2], STAGES), order=(1, 0, 2))
    layout_a = cute.make_composed_layout(swizzle, 0, layout_a)
    layout_b = cute.make_composed_layout(swizzle, 0, layout_b)
    load = cpasync.CopyBulkTensorTileG2SOp()
    tma_a, tensor_a = cpasync.make_tiled_tma_atom(load, mA, layout_a, (TILE[0], TILE[2]))
    share = cpasync.CopyBulkTensorTileG2SMulticastOp()
    tma_b, tensor_b = cpasync.make_tiled_tma_atom(share, mB, layout_b, (TILE[1], TILE[2]), CLUSTER[0])
    tiles_m, tiles_n = cute.ceil_div(mC.shape, TILE[:2])
    grid = (cute.round_up(tiles_m, CLUSTER[0]), tiles_n, 1)
    hopper_clusters(tma_a, tensor_a, tma_b, tensor_b, mC, layout_a, layout_b).launch(
        grid=grid, block=(THREADS, 1, 1), cluster=CLUSTER, min_blocks_per_mp=1
    )
