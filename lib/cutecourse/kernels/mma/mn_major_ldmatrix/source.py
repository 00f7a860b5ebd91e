"""The micro-GEMM with A M-major in shared memory, read by ldmatrix as if A were K-major: wrong.

ldmatrix knows only addresses. The kernel claims that they start rows of 16 bytes along K, but the 16 bytes
run along M, so each thread gets values of the transpose. CuTe allows this only because the kernel describes
the memory falsely.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp
from cutlass.memory import SmemAllocator


@cute.kernel
def mn_major_ldmatrix(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
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

    as_if_K_major = cute.make_tensor(sA.iterator, cute.make_layout((16, 16), stride=(16, 1)))
    load_A = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(transpose=False, num_matrices=4), cutlass.Float16)
    thr_copy_A = cute.make_tiled_copy_A(load_A, tiled_mma).get_slice(tid)
    tCrA = tiled_mma.make_fragment_A(tCsA)
    cute.copy(load_A, thr_copy_A.partition_S(as_if_K_major), thr_copy_A.retile(tCrA))

    cute.gemm(tiled_mma, tCrC, tCrA, tCrB, tCrC)
    cute.autovec_copy(tCrC, tCgC)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    mn_major_ldmatrix(mA, mB, mC).launch(grid=(1, 1, 1), block=(32, 1, 1))
