"""Each thread copies four vectors with cp.async: the loads go to shared memory and take no registers.

Each vector is a group of its own, so the thread stores the first one while the other three are still on their
way. A thread reads from shared memory only what it brought there itself, so its own waits are enough.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.memory import SmemAllocator

TILE = (32, 128)
VECTORS = 4  # for each thread


@cute.kernel
def copy_async(mS: cute.Tensor, mD: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    gS = cute.local_tile(mS, TILE, (by, bx))
    gD = cute.local_tile(mD, TILE, (by, bx))
    smem = SmemAllocator()
    sS = smem.allocate_tensor(cutlass.Float32, cute.make_layout(TILE, stride=(TILE[1], 1)), 16)

    threads = cute.make_layout((8, 32), stride=(32, 1))
    values = cute.make_layout((1, 4))
    load = cute.make_copy_atom(cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=128)
    store = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float32, num_bits_per_copy=128)
    thr_copy = cute.make_tiled_copy_tv(load, threads, values).get_slice(tid)

    tSgS = thr_copy.partition_S(gS)  # (CPY,CPY_M,CPY_N)
    tSsS = thr_copy.partition_D(sS)
    tDgD = thr_copy.partition_D(gD)
    for i in cutlass.range_constexpr(VECTORS):
        cute.copy(load, tSgS[None, i, 0], tSsS[None, i, 0])
        cute.arch.cp_async_commit_group()
    for i in cutlass.range_constexpr(VECTORS):
        cute.arch.cp_async_wait_group(VECTORS - 1 - i)
        cute.copy(store, tSsS[None, i, 0], tDgD[None, i, 0])


@cute.jit
def host(mS: cute.Tensor, mD: cute.Tensor):
    rows, columns = mS.shape
    copy_async(mS, mD).launch(grid=(columns // TILE[1], rows // TILE[0], 1), block=(256, 1, 1))
