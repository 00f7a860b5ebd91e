"""Two stages of shared memory between a warp that loads and four that compute, over any number of k-tiles.

Each stage has two barriers. `full` completes a phase when the producer has arrived and all bytes are there.
`empty` completes one when all consumers have arrived, each done with reading. A wait names the parity of the
phase it waits for. A consumer's first wait for `full` names phase 0, its next phase 1, and so on: parity 0,
1, 0, ... The producer's first wait for `empty` must not block, and a wait for parity 1 of a fresh barrier
does not. `cutlass.pipeline.PipelineTmaAsync` is the class that does the same in larger kernels.

out[m] is the sum of row m of A over all k-tiles.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.memory import SmemAllocator

TILE = (128, 64)
STAGES = 2
CONSUMERS = 128  # one for each row of the tile
THREADS = CONSUMERS + 32  # and one warp that loads


@cute.kernel
def tma_pipeline(
    tma_atom: cute.CopyAtom, tma_tensor: cute.Tensor, mOut: cute.Tensor, smem_layout: cute.ComposedLayout
):
    tid, _, _ = cute.arch.thread_idx()
    block_m, _, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, smem_layout.outer, 1024, swizzle=smem_layout.inner)
    full = smem.allocate_array(cutlass.Int64, STAGES)
    empty = smem.allocate_array(cutlass.Int64, STAGES)

    if warp == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, CONSUMERS)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    gA = cute.local_tile(tma_tensor, TILE, (block_m, None))  # (128, 64, k-tiles)
    tAsA, tAgA = cpasync.tma_partition(
        tma_atom, 0, cute.make_layout(1), cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
    )
    k_tiles = cute.size(gA, mode=[2])

    if warp == CONSUMERS // 32:
        for k in cutlass.range(k_tiles, unroll=1):
            stage, turn = k % STAGES, k // STAGES
            cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, TILE[0] * TILE[1] * 2)
            cute.copy(tma_atom, tAgA[None, k], tAsA[None, stage], tma_bar_ptr=full + stage)
    else:
        total = cutlass.Float32(0.0)
        for k in cutlass.range(k_tiles, unroll=1):
            stage, turn = k % STAGES, k // STAGES
            cute.arch.mbarrier_wait(full + stage, turn % 2)
            for column in cutlass.range(TILE[1], unroll=4):
                total += sA[tid, column, stage].to(cutlass.Float32)
            cute.arch.mbarrier_arrive(empty + stage)
        mOut[block_m * TILE[0] + tid] = total


@cute.jit
def host(mA: cute.Tensor, mOut: cute.Tensor):
    smem_layout = cute.make_composed_layout(
        cute.make_swizzle(3, 4, 3), 0, cute.make_layout((*TILE, STAGES), stride=(64, 1, 128 * 64))
    )
    tma_atom, tma_tensor = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), mA, smem_layout, TILE
    )
    blocks = cute.size(mA, mode=[0]) // TILE[0]
    tma_pipeline(tma_atom, tma_tensor, mOut, smem_layout).launch(grid=(blocks, 1, 1), block=(THREADS, 1, 1))
