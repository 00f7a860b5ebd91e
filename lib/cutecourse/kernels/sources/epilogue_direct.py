"""The warp's accumulators stored straight from the registers, each value stamped thread * 256 + value.

The kernel does not say how C lies in memory; the tensor it is given does. Column-major, each of a thread's
four values goes out by itself; row-major, two are neighbours and leave in one store.
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
