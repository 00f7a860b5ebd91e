"""The micro-GEMM with A M-major in shared memory, read at addresses computed as if A were K-major: wrong.

The rows and columns below are the PTX ISA's for this instruction. The last line turns them into an offset and
forgets sA's layout there. Every thread reads its values of the transpose of A.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp
from cutlass.memory import SmemAllocator


@cute.kernel
def mn_major_raw(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    tiled_mma = cute.make_tiled_mma(warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)))
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, cute.make_layout((16, 16), stride=(1, 16)), 16)  # M-major
    sB = smem.allocate_tensor(cutlass.Float16, cute.make_layout((8, 16), stride=(16, 1)), 16)
    for i in range(tid, cute.size(sA), 32):
        sA[i] = mA[i]
    for i in range(tid, cute.size(sB), 32):
        sB[i] = mB[i]
    cute.arch.sync_threads()

    thr_mma = tiled_mma.get_slice(tid)
    tCsA = thr_mma.partition_A(sA)
    tCsB = thr_mma.partition_B(sB)
    tCgC = thr_mma.partition_C(mC)
    tCrB = tiled_mma.make_fragment_B(tCsB)
    tCrC = tiled_mma.make_fragment_C(tCgC)
    cute.autovec_copy(tCsB, tCrB)
    tCrC.fill(0.0)

    flat = cute.make_tensor(sA.iterator, cute.make_layout(cute.size(sA)))
    tCrA = tiled_mma.make_fragment_A(tCsA)
    for value in cutlass.range_constexpr(cute.size(tCrA)):
        row = tid // 4 + value // 2 % 2 * 8
        column = tid % 4 * 2 + value % 2 + value // 4 * 8
        tCrA[value] = flat[row * 16 + column]

    cute.gemm(tiled_mma, tCrC, tCrA, tCrB, tCrC)
    cute.autovec_copy(tCrC, tCgC)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    mn_major_raw(mA, mB, mC).launch(grid=(1, 1, 1), block=(32, 1, 1))
