"""Store a warp's accumulators as f16 with stmatrix. Each value is stamped thread * 8 + value.

One stmatrix.x4 puts the 16x16 tile into shared memory: plain, in rows of 8 halves, or transposed, in columns.
Then each thread copies 16 bytes to global memory.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp
from cutlass.memory import SmemAllocator


@cute.kernel
def epilogue_stmatrix(mC: cute.Tensor, transpose: cutlass.Constexpr):
    tid, _, _ = cute.arch.thread_idx()
    op = warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16))
    tiled_mma = cute.make_tiled_mma(op, permutation_mnk=(16, 16, 16))  # two atoms side by side
    smem = SmemAllocator()
    sC = smem.allocate_tensor(cutlass.Float16, mC.layout, 128)
    tCrC = cute.make_rmem_tensor(tiled_mma.partition_shape_C((16, 16)), cutlass.Float16)
    for value in cutlass.range_constexpr(cute.size(tCrC)):
        tCrC[value] = cutlass.Float16(tid * 8 + value)

    store = cute.make_copy_atom(warp.StMatrix8x8x16bOp(transpose=transpose, num_matrices=4), cutlass.Float16)
    thr_store = cute.make_tiled_copy_C(store, tiled_mma).get_slice(tid)
    cute.copy(store, thr_store.retile(tCrC), thr_store.partition_D(sC))
    cute.arch.sync_threads()

    flat = cute.make_layout(256)
    from_s = cute.local_tile(cute.make_tensor(sC.iterator, flat), (8,), (tid,))
    to_g = cute.local_tile(cute.make_tensor(mC.iterator, flat), (8,), (tid,))
    cute.autovec_copy(from_s, to_g)


def host_for(transpose):
    """The host function for rows of C, or for columns."""

    @cute.jit
    def host(mC: cute.Tensor):
        epilogue_stmatrix(mC, transpose).launch(grid=(1, 1, 1), block=(32, 1, 1))

    return host
