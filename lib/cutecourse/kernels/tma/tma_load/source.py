"""One TMA instruction loads a tile to shared memory; then all threads store it through its layout.

A is 128x256 and K-major. The tile is the 64x64 one at tile coordinates (1, 2). Its rows are 128 bytes in
shared memory, swizzled by 128 bytes. One elected thread tells the barrier how many bytes will come and issues
the load. Everybody waits for the barrier's phase 0.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.memory import SmemAllocator

TILE = (64, 64)
TILE_COORD = (1, 2)
THREADS = 128


@cute.kernel
def tma_load(
    tma_atom: cute.CopyAtom, tma_tensor: cute.Tensor, mOut: cute.Tensor, smem_layout: cute.ComposedLayout
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, smem_layout.outer, 1024, swizzle=smem_layout.inner)
    barrier = smem.allocate_array(cutlass.Int64)

    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(barrier, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    # The TMA tensor's elements are coordinates; the first one in its tile says where the load starts.
    gA = cute.local_tile(tma_tensor, TILE, TILE_COORD)
    tAsA, tAgA = cpasync.tma_partition(
        tma_atom, 0, cute.make_layout(1), cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
    )
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, cute.size_in_bytes(cutlass.Float16, smem_layout))
        cute.copy(tma_atom, tAgA, tAsA, tma_bar_ptr=barrier)  # elects its own thread
    cute.arch.mbarrier_wait(barrier, 0)

    for i in range(tid, cute.size(sA), THREADS):
        mOut[i] = sA[i]


@cute.jit
def host(mA: cute.Tensor, mOut: cute.Tensor):
    smem_layout = cute.make_composed_layout(
        cute.make_swizzle(3, 4, 3), 0, cute.make_layout(TILE, stride=(64, 1))
    )
    tma_atom, tma_tensor = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), mA, smem_layout, TILE
    )
    tma_load(tma_atom, tma_tensor, mOut, smem_layout).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))
