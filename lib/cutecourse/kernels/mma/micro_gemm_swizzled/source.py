"""A GEMM of one warp with K = 64: rows of 128 bytes in shared memory, and a swizzle that spreads them.

Without the swizzle, the eight rows of each 8x8 block start in the same bank. S<3,3,3> exchanges the chunks of
8 halves in a row, depending on the row's number.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync, warp
from cutlass.memory import SmemAllocator


@cute.kernel
def micro_gemm_swizzled(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, bits: cutlass.Constexpr):
    tid, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    swizzle = cute.make_swizzle(bits, 3, 3)  # of offsets in halves
    tile_a = cute.make_composed_layout(swizzle, 0, cute.make_layout((16, 64), stride=(64, 1)))
    tile_b = cute.make_composed_layout(swizzle, 0, cute.make_layout((8, 64), stride=(64, 1)))
    sB = smem.allocate_tensor(cutlass.Float16, tile_b, 1024)
    sA = smem.allocate_tensor(cutlass.Float16, tile_a, 1024)

    vector = cute.make_copy_atom(cpasync.CopyG2SOp(), cutlass.Float16, num_bits_per_copy=128)
    threads = cute.make_layout((4, 8), stride=(8, 1))
    load = cute.make_tiled_copy_tv(vector, threads, cute.make_layout((1, 8)))
    thr_load = load.get_slice(tid)
    cute.copy(load, thr_load.partition_S(mA), thr_load.partition_D(sA))
    cute.copy(load, thr_load.partition_S(mB), thr_load.partition_D(sB))
    cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(0)
    cute.arch.sync_threads()

    tiled_mma = cute.make_tiled_mma(warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)))
    thr_mma = tiled_mma.get_slice(tid)
    tCgC = thr_mma.partition_C(mC)
    tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
    tCrC = tiled_mma.make_fragment_C(tCgC)
    tCrC.fill(0.0)

    load_A = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(transpose=False, num_matrices=4), cutlass.Float16)
    load_B = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(transpose=False, num_matrices=2), cutlass.Float16)
    thr_copy_A = cute.make_tiled_copy_A(load_A, tiled_mma).get_slice(tid)
    thr_copy_B = cute.make_tiled_copy_B(load_B, tiled_mma).get_slice(tid)
    cute.copy(load_A, thr_copy_A.partition_S(sA), thr_copy_A.retile(tCrA))
    cute.copy(load_B, thr_copy_B.partition_S(sB), thr_copy_B.retile(tCrB))

    cute.gemm(tiled_mma, tCrC, tCrA, tCrB, tCrC)
    cute.autovec_copy(tCrC, tCgC)


def host_for(bits):
    """The host function for a swizzle of so many bits."""

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
        micro_gemm_swizzled(mA, mB, mC, bits).launch(grid=(1, 1, 1), block=(32, 1, 1))

    return host
