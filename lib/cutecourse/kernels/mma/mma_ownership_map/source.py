"""Every thread stamps the cells of A, B and C that the MMA atom gives to it.

A stamp is thread * 256 + value: the thread that owns the cell, and the index of the value in that thread. Two
16-bit values share a register, so value 5 of A is the upper half of register 2.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp


@cute.kernel
def mma_ownership_map(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    tiled_mma = cute.make_tiled_mma(
        warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16))
    )  # SM80_16x8x16_F32F16F16F32_TN
    thr_mma = tiled_mma.get_slice(tid)
    tCgA = thr_mma.partition_A(mA)  # ((2,2,2),1,1): 8 values of A
    tCgB = thr_mma.partition_B(mB)  # ((2,2),1,1): 4 of B
    tCgC = thr_mma.partition_C(mC)  # ((2,2),1,1): 4 of C
    for value in cutlass.range_constexpr(cute.size(tCgA)):
        tCgA[value] = tid * 256 + value
    for value in cutlass.range_constexpr(cute.size(tCgB)):
        tCgB[value] = tid * 256 + value
    for value in cutlass.range_constexpr(cute.size(tCgC)):
        tCgC[value] = tid * 256 + value


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    mma_ownership_map(mA, mB, mC).launch(grid=(1, 1, 1), block=(32, 1, 1))
