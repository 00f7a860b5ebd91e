"""The way back: all threads write a tile to shared memory, and one TMA instruction stores it to gmem.

B is 128x256 and K-major; the tile goes to tile coordinates (1, 2). TMA reaches shared memory through the
asynchronous proxy. So a fence makes the threads' writes visible to that proxy before one thread issues the
store. No barrier tells when a store is done: its thread puts it in a bulk group and waits for the group.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.memory import SmemAllocator

TILE = (64, 64)
TILE_COORD = (1, 2)
THREADS = 128


@cute.kernel
def tma_store(
    mIn: cute.Tensor, tma_atom: cute.CopyAtom, tma_tensor: cute.Tensor, smem_layout: cute.ComposedLayout
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = SmemAllocator()
    sB = smem.allocate_tensor(cutlass.Float16, smem_layout.outer, 1024, swizzle=smem_layout.inner)

    for i in range(tid, cute.size(sB), THREADS):
        sB[i] = mIn[i]
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.sync_threads()

    gB = cute.local_tile(tma_tensor, TILE, TILE_COORD)
    tBsB, tBgB = cpasync.tma_partition(
        tma_atom, 0, cute.make_layout(1), cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2)
    )
    if warp == 0:
        with cute.arch.elect_one():  # a store, unlike a load, does not elect its own thread
            cute.copy(tma_atom, tBsB, tBgB)
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0)


@cute.jit
def host(mIn: cute.Tensor, mB: cute.Tensor):
    smem_layout = cute.make_composed_layout(
        cute.make_swizzle(3, 4, 3), 0, cute.make_layout(TILE, stride=(64, 1))
    )
    tma_atom, tma_tensor = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileS2GOp(), mB, smem_layout, TILE
    )
    tma_store(mIn, tma_atom, tma_tensor, smem_layout).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))
