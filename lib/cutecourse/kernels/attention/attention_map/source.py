"""One warp's S = Q K^T of 16 x 16, twice as registers: as the MMA leaves them, and as operand A is loaded.

Row i of `left` holds the 8 values of thread i after the MMA, in f16. The warp also stores S into shared
memory and loads it as the operand A of another MMA. Row i of `loaded` holds the 8 values that thread i gets.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp
from cutlass.memory import SmemAllocator


@cute.kernel
def attention_map(mQ: cute.Tensor, mK: cute.Tensor, mLeft: cute.Tensor, mLoaded: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    sS = SmemAllocator().allocate_tensor(cutlass.Float16, cute.make_layout((16, 16), stride=(16, 1)), 16)
    tiled_mma = cute.make_tiled_mma(
        warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)), permutation_mnk=(16, 16, 16)
    )
    thr_mma = tiled_mma.get_slice(tid)
    tSgQ, tSgK = thr_mma.partition_A(mQ), thr_mma.partition_B(mK)
    tSrQ, tSrK = tiled_mma.make_fragment_A(tSgQ), tiled_mma.make_fragment_B(tSgK)
    tSrS = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C((16, 16)))  # ((2,2),1,2)
    cute.autovec_copy(tSgQ, tSrQ)
    cute.autovec_copy(tSgK, tSrK)
    tSrS.fill(0.0)
    cute.gemm(tiled_mma, tSrS, tSrQ, tSrK, tSrS)
    tSrP = cute.make_fragment_like(tSrS, cutlass.Float16)
    tSrP.store(tSrS.load().to(cutlass.Float16))

    cute.autovec_copy(tSrP, thr_mma.partition_C(sS))
    cute.arch.sync_threads()
    tOsP = thr_mma.partition_A(sS)
    tOrP = tiled_mma.make_fragment_A(tOsP)  # ((2,2,2),1,1)
    cute.autovec_copy(tOsP, tOrP)
    for value in cutlass.range_constexpr(8):
        mLeft[tid, value] = tSrP[value]
        mLoaded[tid, value] = tOrP[value]


@cute.jit
def host(mQ: cute.Tensor, mK: cute.Tensor, mLeft: cute.Tensor, mLoaded: cute.Tensor):
    attention_map(mQ, mK, mLeft, mLoaded).launch(grid=(1, 1, 1), block=(32, 1, 1))
