"""The micro-GEMM with fragments loaded by ldmatrix: one instruction loads A, one loads B.

Each of the 32 threads names one row of 16 bytes. The instruction gives every thread the values that it owns.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp
from cutlass.memory import SmemAllocator


@cute.kernel
def micro_gemm_ldmatrix(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    tiled_mma = cute.make_tiled_mma(warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)))
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, cute.make_layout((16, 16), stride=(16, 1)), 16)
    sB = smem.allocate_tensor(cutlass.Float16, cute.make_layout((8, 16), stride=(16, 1)), 16)
    for i in range(tid, cute.size(sA), 32):
        sA[i] = mA[i]
    for i in range(tid, cute.size(sB), 32):
        sB[i] = mB[i]
    cute.arch.sync_threads()

    thr_mma = tiled_mma.get_slice(tid)
    tCgC = thr_mma.partition_C(mC)
    tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
    tCrC = tiled_mma.make_fragment_C(tCgC)
    tCrC.fill(0.0)

    # Each thread must end up with the values that it owns in the MMA: hence make_tiled_copy_A, and retile.
    load_A = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(transpose=False, num_matrices=4), cutlass.Float16)
    load_B = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(transpose=False, num_matrices=2), cutlass.Float16)
    thr_copy_A = cute.make_tiled_copy_A(load_A, tiled_mma).get_slice(tid)
    thr_copy_B = cute.make_tiled_copy_B(load_B, tiled_mma).get_slice(tid)
    cute.copy(load_A, thr_copy_A.partition_S(sA), thr_copy_A.retile(tCrA))
    cute.copy(load_B, thr_copy_B.partition_S(sB), thr_copy_B.retile(tCrB))

    cute.gemm(tiled_mma, tCrC, tCrA, tCrB, tCrC)
    cute.autovec_copy(tCrC, tCgC)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    micro_gemm_ldmatrix(mA, mB, mC).launch(grid=(1, 1, 1), block=(32, 1, 1))
