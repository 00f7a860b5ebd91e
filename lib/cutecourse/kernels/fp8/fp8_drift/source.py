"""One warpgroup adds the products of e4m3 along K, and after each 128 of them it writes the sums so far.

A (64, K) and B (N, K) come by TMA, 128 of K at a time, in one stage. The tensor core adds all products, or it
begins anew in each stage and the threads add its 128 products to a total in f32.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.memory import SmemAllocator

ROWS = 64
BLOCK = 128  # elements along K
THREADS = 128  # a warpgroup


@cute.kernel
def fp8_drift(
    tma_a: cute.CopyAtom,
    mA: cute.Tensor,
    tma_b: cute.CopyAtom,
    mB: cute.Tensor,
    mC: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    promoted: cutlass.Constexpr,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float8E4M3FN, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float8E4M3FN, layout_b.outer, 1024, swizzle=layout_b.inner)
    full = smem.allocate_array(cutlass.Int64, 1)
    if tid == 0:
        cute.arch.mbarrier_init(full, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    columns = mB.shape[0]
    gA = cute.local_tile(mA, (ROWS, BLOCK), (0, None))  # (64, 128, k-tiles)
    gB = cute.local_tile(mB, (columns, BLOCK), (0, None))
    alone = 0, cute.make_layout(1)
    tAsA, tAgA = cpasync.tma_partition(tma_a, *alone, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2))
    tBsB, tBgB = cpasync.tma_partition(tma_b, *alone, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2))

    e4m3 = cutlass.Float8E4M3FN
    k_major = OperandMajorMode.K
    tiled_mma = cute.make_tiled_mma(
        warpgroup.MmaF8Op(
            e4m3, e4m3, cutlass.Float32, (ROWS, columns, 32), warpgroup.OperandSource.SMEM, k_major, k_major
        )
    )
    thr_mma = tiled_mma.get_slice(tid)
    tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))  # (1, 1, 4): descriptors
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
    tCgC = thr_mma.partition_C(mC)  # (values, 1, 1, k-tiles)
    acc = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C((ROWS, columns)))
    total = cute.make_fragment_like(acc)
    total.fill(0.0)

    tiled_mma.set(warpgroup.Field.ACCUMULATE, False)
    for k in cutlass.range(cute.size(gA, mode=[2]), unroll=1):
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, (ROWS + columns) * BLOCK)
            cute.copy(tma_a, tAgA[None, k], tAsA, tma_bar_ptr=full)
            cute.copy(tma_b, tBgB[None, k], tBsB, tma_bar_ptr=full)
        cute.arch.mbarrier_wait(full, k % 2)
        warpgroup.fence()
        if cutlass.const_expr(promoted):
            tiled_mma.set(warpgroup.Field.ACCUMULATE, False)  # the first one of this stage clears the sums
        for block in cutlass.range_constexpr(BLOCK // 32):
            cute.gemm(tiled_mma, acc, tCrA[None, None, block], tCrB[None, None, block], acc)
            tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
        warpgroup.commit_group()
        warpgroup.wait_group(0)
        cute.arch.sync_threads()  # all four warps have waited: the stage is free
        if cutlass.const_expr(promoted):
            total.store(total.load() + acc.load())
            cute.autovec_copy(total, tCgC[None, None, None, k])
        else:
            cute.autovec_copy(acc, tCgC[None, None, None, k])


def host_for(promoted):
    """The host function for sums of the tensor core alone, or for promoted ones."""

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
        swizzle = cute.make_swizzle(3, 4, 3)
        made = []
        for tensor, rows in ((mA, ROWS), (mB, mB.shape[0])):
            layout = cute.make_layout((rows, BLOCK), stride=(BLOCK, 1))
            layout = cute.make_composed_layout(swizzle, 0, layout)
            load = cpasync.CopyBulkTensorTileG2SOp()
            made.append((layout, *cpasync.make_tiled_tma_atom(load, tensor, layout, (rows, BLOCK))))
        (layout_a, *a), (layout_b, *b) = made
        fp8_drift(*a, *b, mC, layout_a, layout_b, promoted).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))

    return host
