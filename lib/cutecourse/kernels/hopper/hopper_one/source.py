"""A GEMM for Hopper with one stage: TMA brings a k-tile, two warpgroups multiply it, and then the next comes.

One thread asks for a 128x64 tile of A and one of B, and a barrier counts their bytes. `wgmma` reads both from
shared memory. Each warpgroup has 64 rows of C in its registers. The copy engine and the tensor cores take
turns: nothing is loaded during a multiplication.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.memory import SmemAllocator

MNK = (256, 256, 192)
TILE = (128, 128, 64)
WARPGROUPS = 2  # along M
THREADS = 128 * WARPGROUPS


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
        atom_layout_mnk=(WARPGROUPS, 1, 1),
    )


@cute.kernel
def hopper_one(
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
    smem = SmemAllocator()
    sA = smem.allocate_tensor(dtype, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(dtype, layout_b.outer, 1024, swizzle=layout_b.inner)
    full = smem.allocate_array(cutlass.Int64)

    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(full, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    gA = cute.local_tile(mA, (TILE[0], TILE[2]), (block_m, None))  # (128, 64, k-tiles)
    gB = cute.local_tile(mB, (TILE[1], TILE[2]), (block_n, None))
    alone = 0, cute.make_layout(1)  # no other CTA takes part in a load
    tAsA, tAgA = cpasync.tma_partition(tma_a, *alone, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2))
    tBsB, tBgB = cpasync.tma_partition(tma_b, *alone, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2))
    tile_bytes = (TILE[0] + TILE[1]) * TILE[2] * 2
    k_tiles = cute.size(gA, mode=[2])

    tiled_mma = make_mma(dtype)
    thr_mma = tiled_mma.get_slice(tid)
    # A fragment of A or B is a shared-memory descriptor; the fragment of C is registers.
    tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))  # (1, 1, 4)
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
    acc = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C(TILE[:2]))
    tiled_mma.set(warpgroup.Field.ACCUMULATE, False)

    for k in cutlass.range(k_tiles, unroll=1):
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, tile_bytes)
            cute.copy(tma_a, tAgA[None, k], tAsA, tma_bar_ptr=full)
            cute.copy(tma_b, tBgB[None, k], tBsB, tma_bar_ptr=full)
        cute.arch.mbarrier_wait(full, k % 2)
        warpgroup.fence()
        for block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
            now = (None, None, block)
            cute.gemm(tiled_mma, acc, tCrA[now], tCrB[now], acc)
            tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
        warpgroup.commit_group()
        warpgroup.wait_group(0)  # my warpgroup has read the k-tile
        cute.arch.sync_threads()  # both have, so the next one may come

    # Each thread stores pairs of columns, 8 columns apart. N is a multiple of 8, so no pair is cut off.
    gC = cute.local_tile(mC, TILE[:2], (block_m, block_n))
    cC = cute.local_tile(cute.make_identity_tensor(mC.shape), TILE[:2], (block_m, block_n))
    tCgC, tCcC = thr_mma.partition_C(gC), thr_mma.partition_C(cC)  # ((2, 2, 16), 1, 1)
    tCrC = cute.make_fragment_like(acc, dtype)
    tCrC.store(acc.load().to(dtype))
    for column in cutlass.range_constexpr(TILE[1] // 8):
        for row in cutlass.range_constexpr(2):
            pair = ((None, row, column), 0, 0)
            if cute.elem_less(tCcC[(0, row, column), 0, 0], mC.shape):
                cute.autovec_copy(tCrC[pair], tCgC[pair])


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    swizzle = cute.make_swizzle(3, 4, 3)  # rows of 128 bytes, as TMA and wgmma swizzle them
    layout_a = cute.make_composed_layout(
        swizzle, 0, cute.make_layout((TILE[0], TILE[2]), stride=(TILE[2], 1))
    )
    layout_b = cute.make_composed_layout(
        swizzle, 0, cute.make_layout((TILE[1], TILE[2]), stride=(TILE[2], 1))
    )
    load = cpasync.CopyBulkTensorTileG2SOp()
    tma_a, tensor_a = cpasync.make_tiled_tma_atom(load, mA, layout_a, (TILE[0], TILE[2]))
    tma_b, tensor_b = cpasync.make_tiled_tma_atom(load, mB, layout_b, (TILE[1], TILE[2]))
    grid = (*cute.ceil_div(mC.shape, TILE[:2]), 1)
    hopper_one(tma_a, tensor_a, tma_b, tensor_b, mC, layout_a, layout_b).launch(
        grid=grid, block=(THREADS, 1, 1)
    )
