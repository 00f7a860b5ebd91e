"""Transpose a matrix through shared memory, in rows that a swizzle permutes.

Element n of row m lies in word n xor m of the row, so the 32 elements of a column lie in 32 different banks.
"""

import cutlass
from cutlass import cute
from cutlass.memory import SmemAllocator

TILE = 32
THREADS = 256
ROW = TILE  # elements from one row of the tile in shared memory to the next


@cute.kernel
def transpose_swizzled(mS: cute.Tensor, mD: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    gS = cute.local_tile(mS, (TILE, TILE), (by, bx))  # (m, n)
    gD = cute.local_tile(mD, (TILE, TILE), (bx, by))  # (n, m)
    smem = SmemAllocator()
    tile = cute.make_layout((TILE, TILE), stride=(ROW, 1))
    swizzle = cute.make_swizzle(5, 2, 5)  # of byte addresses
    sS = smem.allocate_tensor(cutlass.Float32, tile, 128, swizzle)
    columns = cute.make_layout((TILE, TILE), stride=(1, ROW))
    sD = cute.make_tensor(sS.iterator, columns)  # (n, m): the same memory by columns

    threads = cute.make_layout((8, 32), stride=(32, 1))
    tSgS = cute.local_partition(gS, threads, tid)
    tSsS = cute.local_partition(sS, threads, tid)
    tDsD = cute.local_partition(sD, threads, tid)
    tDgD = cute.local_partition(gD, threads, tid)
    values = cute.make_rmem_tensor(tSgS.shape, cutlass.Float32)

    cute.autovec_copy(tSgS, values)
    cute.autovec_copy(values, tSsS)
    cute.arch.sync_threads()
    cute.autovec_copy(tDsD, values)
    cute.autovec_copy(values, tDgD)


@cute.jit
def host(mS: cute.Tensor, mD: cute.Tensor):
    rows, columns = mS.shape
    transpose_swizzled(mS, mD).launch(grid=(columns // TILE, rows // TILE, 1), block=(THREADS, 1, 1))
