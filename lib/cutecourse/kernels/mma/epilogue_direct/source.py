"""Store a warp's accumulators straight from the registers. Each value is stamped thread * 256 + value.

The layout of C comes with the tensor; the kernel does not fix it. If C is column-major, each of a thread's
four values takes a store of its own. If C is row-major, two values are neighbours and share one store.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp


@cute.kernel
def epilogue_direct(mC: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    tiled_mma = cute.make_tiled_mma(warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)))
    tCgC = tiled_mma.get_slice(tid).partition_C(mC)
    tCrC = tiled_mma.make_fragment_C(tCgC)
    for value in cutlass.range_constexpr(cute.size(tCrC)):
        tCrC[value] = cutlass.Float32(tid * 256 + value)
    cute.autovec_copy(tCrC, tCgC)


@cute.jit
def host(mC: cute.Tensor):
    epilogue_direct(mC).launch(grid=(1, 1, 1), block=(32, 1, 1))
