"""A GEMM on tensor cores: each CTA computes a tile of C, 128 x 128, and four warps share it.

A k-tile of A and of B comes into shared memory, is multiplied, and makes room for the next. Nothing overlaps.
M, N and K are multiples of the tile.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import CopyUniversalOp, warp
from cutlass.memory import SmemAllocator

MNK = (256, 256, 96)
TILE = (128, 128, 32)
WARPS = (2, 2)  # along M and along N
THREADS = 128


def make_mma():
    """Four warps, each with its own 16 x 8 of every 32 x 16 of C."""
    return cute.make_tiled_mma(
        warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)), atom_layout_mnk=(*WARPS, 1)
    )


def make_load():
    """Each thread copies 16 bytes, so four threads have a row of a k-tile."""
    return cute.make_tiled_copy_tv(
        cute.make_copy_atom(CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=128),
        cute.make_layout((THREADS // 4, 4), stride=(4, 1)),
        cute.make_layout((1, 8)),
    )


@cute.kernel
def gemm_first(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    block_m, block_n, _ = cute.arch.block_idx()
    gA = cute.local_tile(mA, (TILE[0], TILE[2]), (block_m, None))  # (128, 32, k-tiles)
    gB = cute.local_tile(mB, (TILE[1], TILE[2]), (block_n, None))
    gC = cute.local_tile(mC, TILE[:2], (block_m, block_n))
    k_tiles = cute.size(gA, mode=[2])

    smem = SmemAllocator()
    layout_a = cute.make_ordered_layout((TILE[0], TILE[2]), order=(1, 0))  # row-major
    layout_b = cute.make_ordered_layout((TILE[1], TILE[2]), order=(1, 0))
    sA = smem.allocate_tensor(cutlass.Float16, layout_a, 128)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b, 128)

    load = make_load()
    thr_load = load.get_slice(tid)
    tAgA, tAsA = thr_load.partition_S(gA), thr_load.partition_D(sA)
    tBgB, tBsB = thr_load.partition_S(gB), thr_load.partition_D(sB)

    tiled_mma = make_mma()
    thr_mma = tiled_mma.get_slice(tid)
    tCsA, tCsB, tCgC = thr_mma.partition_A(sA), thr_mma.partition_B(sB), thr_mma.partition_C(gC)
    tCrA = tiled_mma.make_fragment_A(tCsA)  # (values, along M, along K)
    tCrB = tiled_mma.make_fragment_B(tCsB)
    tCrC = tiled_mma.make_fragment_C(tCgC)
    tCrC.fill(0.0)

    for k in cutlass.range(k_tiles, unroll=1):
        cute.copy(load, tAgA[None, None, None, k], tAsA)
        cute.copy(load, tBgB[None, None, None, k], tBsB)
        cute.arch.sync_threads()
        for block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
            now = (None, None, block)
            cute.autovec_copy(tCsA[now], tCrA[now])
            cute.autovec_copy(tCsB[now], tCrB[now])
            cute.gemm(tiled_mma, tCrC, tCrA[now], tCrB[now], tCrC)
        cute.arch.sync_threads()

    tCrD = cute.make_fragment_like(tCrC, cutlass.Float16)
    tCrD.store(tCrC.load().to(cutlass.Float16))
    cute.autovec_copy(tCrD, tCgC)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    grid = cute.size(mA, mode=[0]) // TILE[0], cute.size(mB, mode=[0]) // TILE[1], 1
    gemm_first(mA, mB, mC).launch(grid=grid, block=(THREADS, 1, 1))
