"""Transpose a matrix without shared memory: reads go along rows, writes go down the columns of the result.

Each CTA takes a 32x32 tile. Neighbouring threads read neighbours in a row of the source, and these lie far
apart in the result.
"""

import cutlass
from cutlass import cute

TILE = 32
THREADS = 256


@cute.kernel
def transpose_naive(mS: cute.Tensor, mD: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    gS = cute.local_tile(mS, (TILE, TILE), (by, bx))  # (m, n)
    gD = cute.local_tile(mD, (TILE, TILE), (bx, by))  # (n, m)
    gD_turned = cute.make_tensor(gD.iterator, cute.select(gD.layout, mode=[1, 0]))  # (m, n): gD by columns

    threads = cute.make_layout((8, 32), stride=(32, 1))
    tSgS = cute.local_partition(gS, threads, tid)
    tDgD = cute.local_partition(gD_turned, threads, tid)
    values = cute.make_rmem_tensor(tSgS.shape, cutlass.Float32)

    cute.autovec_copy(tSgS, values)
    cute.autovec_copy(values, tDgD)


@cute.jit
def host(mS: cute.Tensor, mD: cute.Tensor):
    rows, columns = mS.shape
    transpose_naive(mS, mD).launch(grid=(columns // TILE, rows // TILE, 1), block=(THREADS, 1, 1))
