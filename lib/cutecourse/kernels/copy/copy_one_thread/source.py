"""One thread copies a row-major matrix, one element after another."""

import cutlass
from cutlass import cute


@cute.kernel
def copy_one_thread(mS: cute.Tensor, mD: cute.Tensor):
    rows, columns = mS.shape
    for m in cutlass.range(rows, unroll=1):
        for n in cutlass.range(columns, unroll=1):
            mD[m, n] = mS[m, n]


@cute.jit
def host(mS: cute.Tensor, mD: cute.Tensor):
    copy_one_thread(mS, mD).launch(grid=(1, 1, 1), block=(1, 1, 1))
