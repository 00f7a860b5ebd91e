"""One warp, one mma.sync: C (16x8) = A (16x16) times B (8x16) transposed, by way of shared memory.

A and B are K-major, as the atom's TN says, and C is column-major. The inputs are f16, the result is f32.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp
from cutlass.memory import SmemAllocator


@cute.kernel
def micro_gemm(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    tiled_mma = cute.make_tiled_mma(warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)))

    # gmem -> smem: the warp's 32 threads take turns with the elements
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, cute.make_layout((16, 16), stride=(16, 1)), 16)
    sB = smem.allocate_tensor(cutlass.Float16, cute.make_layout((8, 16), stride=(16, 1)), 16)
    for i in range(tid, cute.size(sA), 32):
        sA[i] = mA[i]
    for i in range(tid, cute.size(sB), 32):
        sB[i] = mB[i]
    cute.arch.sync_threads()

    # smem -> rmem: each thread takes the values that the atom gives to it
    thr_mma = tiled_mma.get_slice(tid)
    tCsA = thr_mma.partition_A(sA)
    tCsB = thr_mma.partition_B(sB)
    tCgC = thr_mma.partition_C(mC)
    tCrA = tiled_mma.make_fragment_A(tCsA)  # 8 f16 in 4 registers
    tCrB = tiled_mma.make_fragment_B(tCsB)  # 4 f16 in 2 registers
    tCrC = tiled_mma.make_fragment_C(tCgC)  # 4 f32 in 4 registers
    cute.autovec_copy(tCsA, tCrA)
    cute.autovec_copy(tCsB, tCrB)
    tCrC.fill(0.0)

    cute.gemm(tiled_mma, tCrC, tCrA, tCrB, tCrC)
    cute.autovec_copy(tCrC, tCgC)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    micro_gemm(mA, mB, mC).launch(grid=(1, 1, 1), block=(32, 1, 1))
