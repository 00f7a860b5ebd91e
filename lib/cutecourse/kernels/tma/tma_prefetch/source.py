"""Fill three stages ahead from a matrix that has only one k-tile, to see what the other two loads fetch.

A is 128x64 and M-major, and so is the tile in shared memory, as in a GEMM whose A is not transposed. One tile
takes 16 loads of a 64x8 box. The k-tiles 1 and 2 lie behind the end of A. Each stage has its own barrier,
which expects the bytes of a whole tile. `arrived` says which barriers completed their phase.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.memory import SmemAllocator

TILE = (128, 64)
STAGES = 3
THREADS = 128
PATTERN = -1.0  # fills shared memory before the loads


@cute.kernel
def tma_prefetch(
    tma_atom: cute.CopyAtom,
    tma_tensor: cute.Tensor,
    mOut: cute.Tensor,
    mArrived: cute.Tensor,
    smem_layout: cute.ComposedLayout,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, smem_layout.outer, 1024, swizzle=smem_layout.inner)
    barriers = smem.allocate_array(cutlass.Int64, STAGES)

    for i in range(tid, cute.size(sA), THREADS):
        sA[i] = cutlass.Float16(PATTERN)
    cute.arch.fence_proxy("async.shared", space="cta")
    if warp == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(barriers + stage, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    if warp == 0:
        for stage in cutlass.range(STAGES, unroll=1):
            # k-tile number `stage` starts 64 * stage along K. A tiled tensor would not say so: where
            # there is one k-tile, and CuTe knows it, the mode that counts k-tiles has stride 0.
            gA = cute.local_tile(cute.domain_offset((0, TILE[1] * stage), tma_tensor), TILE, (0, 0))
            tAsA, tAgA = cpasync.tma_partition(
                tma_atom, 0, cute.make_layout(1), cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
            )
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(barriers + stage, TILE[0] * TILE[1] * 2)
            cute.copy(tma_atom, tAgA, tAsA[None, stage], tma_bar_ptr=barriers + stage)

    for stage in cutlass.range_constexpr(STAGES):
        cute.arch.mbarrier_wait(barriers + stage, 0)
        if tid == 0:
            mArrived[stage] = 1
    for i in range(tid, cute.size(sA), THREADS):
        mOut[i] = sA[i]


@cute.jit
def host(mA: cute.Tensor, mOut: cute.Tensor, mArrived: cute.Tensor):
    # The M-major atom of 64x8, twice along M and eight times along K, then the stages.
    smem_layout = cute.make_composed_layout(
        cute.make_swizzle(3, 4, 3),
        0,
        cute.make_layout(((64, 2), (8, 8), STAGES), stride=((1, 512), (64, 1024), 128 * 64)),
    )
    tma_atom, tma_tensor = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), mA, smem_layout, TILE
    )
    tma_prefetch(tma_atom, tma_tensor, mOut, mArrived, smem_layout).launch(
        grid=(1, 1, 1), block=(THREADS, 1, 1)
    )
