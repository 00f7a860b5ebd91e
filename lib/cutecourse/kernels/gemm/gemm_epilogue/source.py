"""The GEMM of gemm_registers with C stored in 16 bytes a thread, by way of shared memory.

The accumulators of a warp lie scattered over C: a thread has two neighbours here and two there. So the tile
goes into shared memory first, over A and B, which nobody reads any more, and leaves it row by row. A swizzle
keeps the first step free of bank conflicts.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import CopyUniversalOp, LoadCacheMode, cpasync, warp
from cutlass.memory import SmemAllocator

MNK = (256, 256, 96)
TILE = (128, 128, 32)
AHEAD = 2  # k-tiles under way while one is multiplied
STAGES = AHEAD + 1
WARPS = (2, 2)  # along M and along N
THREADS = 128


def make_mma():
    """Four warps, each with 16 rows and two blocks of 8 columns of every 32 x 32 of C."""
    return cute.make_tiled_mma(
        warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)),
        atom_layout_mnk=(*WARPS, 1),
        permutation_mnk=(16 * WARPS[0], 16 * WARPS[1], 16),
    )


def make_load():
    """Each thread copies 16 bytes, so four threads have a row of a k-tile."""
    return cute.make_tiled_copy_tv(
        cute.make_copy_atom(cpasync.CopyG2SOp(LoadCacheMode.GLOBAL), cutlass.Float16, num_bits_per_copy=128),
        cute.make_layout((THREADS // 4, 4), stride=(4, 1)),
        cute.make_layout((1, 8)),
    )


def make_store():
    """Each thread copies 16 bytes, so eight threads have 64 columns of a row of C's tile."""
    return cute.make_tiled_copy_tv(
        cute.make_copy_atom(CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=128),
        cute.make_layout((THREADS // 8, 8), stride=(8, 1)),
        cute.make_layout((1, 8)),
    )


@cute.kernel
def gemm_epilogue(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    block_m, block_n, _ = cute.arch.block_idx()
    gA = cute.local_tile(mA, (TILE[0], TILE[2]), (block_m, None))  # (128, 32, k-tiles)
    gB = cute.local_tile(mB, (TILE[1], TILE[2]), (block_n, None))
    gC = cute.local_tile(mC, TILE[:2], (block_m, block_n))
    k_tiles = cute.size(gA, mode=[2])

    smem = SmemAllocator()
    layout_a = cute.make_ordered_layout((TILE[0], TILE[2], STAGES), order=(1, 0, 2))
    layout_b = cute.make_ordered_layout((TILE[1], TILE[2], STAGES), order=(1, 0, 2))
    swizzle = cute.make_swizzle(2, 4, 3)  # acts on byte offsets: the place in a row ^= row / 2 % 4
    sA = smem.allocate_tensor(cutlass.Float16, layout_a, 128, swizzle=swizzle)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b, 128, swizzle=swizzle)

    load = make_load()
    thr_load = load.get_slice(tid)
    tAgA, tAsA = thr_load.partition_S(gA), thr_load.partition_D(sA)
    tBgB, tBsB = thr_load.partition_S(gB), thr_load.partition_D(sB)

    tiled_mma = make_mma()
    thr_mma = tiled_mma.get_slice(tid)
    tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA[None, None, 0]))  # (values, along M, along K)
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB[None, None, 0]))
    tCrC = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C(TILE[:2]))
    tCrC.fill(0.0)

    ldmatrix = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(transpose=False, num_matrices=4), cutlass.Float16)
    thr_copy_A = cute.make_tiled_copy_A(ldmatrix, tiled_mma).get_slice(tid)
    thr_copy_B = cute.make_tiled_copy_B(ldmatrix, tiled_mma).get_slice(tid)
    tXsA, tXrA = thr_copy_A.partition_S(sA), thr_copy_A.retile(tCrA)
    tXsB, tXrB = thr_copy_B.partition_S(sB), thr_copy_B.retile(tCrB)

    for stage in cutlass.range_constexpr(AHEAD):
        if stage < k_tiles:
            cute.copy(load, tAgA[None, None, None, stage], tAsA[None, None, None, stage])
            cute.copy(load, tBgB[None, None, None, stage], tBsB[None, None, None, stage])
        cute.arch.cp_async_commit_group()

    blocks = cute.size(tCrA, mode=[2])
    cute.arch.cp_async_wait_group(AHEAD - 1)  # my copies of k-tile 0 have arrived
    cute.arch.sync_threads()  # everyone's have
    cute.copy(ldmatrix, tXsA[None, None, 0, 0], tXrA[None, None, 0])
    cute.copy(ldmatrix, tXsB[None, None, 0, 0], tXrB[None, None, 0])

    for k in cutlass.range(k_tiles, unroll=1):
        ahead = k + AHEAD
        if ahead < k_tiles:
            cute.copy(load, tAgA[None, None, None, ahead], tAsA[None, None, None, ahead % STAGES])
            cute.copy(load, tBgB[None, None, None, ahead], tBsB[None, None, None, ahead % STAGES])
        cute.arch.cp_async_commit_group()
        following = cutlass.min(k + 1, k_tiles - 1)  # the last k-tile loads its own first fragments again
        for block in cutlass.range_constexpr(blocks):
            if block == blocks - 1:
                cute.arch.cp_async_wait_group(AHEAD - 1)  # my copies of k-tile k + 1 have arrived
                cute.arch.sync_threads()  # everyone's have, and everyone has read k-tile k
            k_tile, coming = (k, block + 1) if block < blocks - 1 else (following, 0)
            cute.copy(ldmatrix, tXsA[None, None, coming, k_tile % STAGES], tXrA[None, None, coming])
            cute.copy(ldmatrix, tXsB[None, None, coming, k_tile % STAGES], tXrB[None, None, coming])
            now = (None, None, block)
            cute.gemm(tiled_mma, tCrC, tCrA[now], tCrB[now], tCrC)

    tCrD = cute.make_fragment_like(tCrC, cutlass.Float16)
    tCrD.store(tCrC.load().to(cutlass.Float16))
    swizzle = cute.make_swizzle(3, 4, 3)  # rows of 128 bytes: the place in a row ^= row % 8
    layout_c = cute.make_layout((TILE[0], (64, TILE[1] // 64)), stride=(64, (1, 64 * TILE[0])))
    sC = cute.make_tensor(cute.recast_ptr(sA.iterator, swizzle), layout_c)
    cute.arch.cp_async_wait_group(0)
    cute.arch.sync_threads()  # A and B have been read
    cute.autovec_copy(tCrD, thr_mma.partition_C(sC))
    cute.arch.sync_threads()
    store = make_store()
    thr_store = store.get_slice(tid)
    cute.copy(store, thr_store.partition_S(sC), thr_store.partition_D(gC))


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    grid = cute.size(mA, mode=[0]) // TILE[0], cute.size(mB, mode=[0]) // TILE[1], 1
    gemm_epilogue(mA, mB, mC).launch(grid=grid, block=(THREADS, 1, 1))
