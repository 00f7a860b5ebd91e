"""The micro-GEMM with A M-major in shared memory, read through partition_A: right.

partition_A works on coordinates, and sA's own layout turns them into offsets. So each thread gets the values
that the atom asks for. They are no longer neighbours in memory, so each takes a load of its own.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp
from cutlass.memory import SmemAllocator


@cute.kernel
def mn_major_partition(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
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

    tCrA = tiled_mma.make_fragment_A(tCsA)  # registers in the order of the atom's values
    cute.autovec_copy(tCsA, tCrA)

    cute.gemm(tiled_mma, tCrC, tCrA, tCrB, tCrC)
    cute.autovec_copy(tCrC, tCgC)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    mn_major_partition(mA, mB, mC).launch(grid=(1, 1, 1), block=(32, 1, 1))
