"""Eight threads stamp a matrix of 4x32 as a tiled copy divides it: 100 times the thread, plus the value.

The threads' layout is (2,4):(4,1) and each thread has 1x4 values, so the copy's tile is 2x16. The matrix
consists of 2x2 such tiles.
"""

import cutlass
from cutlass import cute


@cute.kernel
def copy_stamp(mD: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    threads = cute.make_layout((2, 4), stride=(4, 1))
    values = cute.make_layout((1, 4))
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Int32, num_bits_per_copy=128)
    thr_copy = cute.make_tiled_copy_tv(atom, threads, values).get_slice(tid)
    tDgD = thr_copy.partition_D(mD)  # (CPY,CPY_M,CPY_N)
    for i in cutlass.range_constexpr(cute.size(tDgD)):
        tDgD[i] = 100 * tid + i


@cute.jit
def host(mD: cute.Tensor):
    copy_stamp(mD).launch(grid=(1, 1, 1), block=(8, 1, 1))
