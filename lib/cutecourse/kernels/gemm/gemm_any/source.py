"""The GEMM of gemm_epilogue for any M, N and K.

Each copy compares its coordinates with the matrix's shape. cp.async writes zeros for what lies outside, and
zeros add nothing to a sum. Rows whose length is no multiple of 16 bytes start anywhere, so each copy takes
the most elements that such a row lets it take.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import CopyUniversalOp, LoadCacheMode, cpasync, warp
from cutlass.memory import SmemAllocator

MNK = (200, 136, 72)
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


def width_of(row: int) -> int:
    """The most elements that a copy can take when rows have this many: 16 bytes, or what divides the row."""
    return next(width for width in (8, 4, 2, 1) if row % width == 0)


def make_load(width: int):
    """Each thread copies `width` elements, and as many threads as that takes have a row of a k-tile."""
    op = cpasync.CopyG2SOp(LoadCacheMode.GLOBAL if width == 8 else LoadCacheMode.ALWAYS)
    along_k = TILE[2] // width
    return cute.make_tiled_copy_tv(
        cute.make_copy_atom(
            op if width > 1 else CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=16 * width
        ),
        cute.make_layout((THREADS // along_k, along_k), stride=(along_k, 1)),
        cute.make_layout((1, width)),
    )


def make_store(width: int):
    """Each thread copies `width` elements, and 64 / width threads have 64 columns of a row of C's tile."""
    along_n = 64 // width
    return cute.make_tiled_copy_tv(
        cute.make_copy_atom(CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=16 * width),
        cute.make_layout((THREADS // along_n, along_n), stride=(along_n, 1)),
        cute.make_layout((1, width)),
    )


@cute.jit
def copy_inside(
    tiled_copy: cute.TiledCopy, crd: cute.Tensor, shape: cutlass.Constexpr, src: cute.Tensor, dst: cute.Tensor
):
    """Copy what has its coordinate inside of the shape; shared memory gets zeros for the rest."""
    into_smem = dst.memspace == cute.AddressSpace.smem
    if cutlass.const_expr(into_smem and cute.size(src, mode=[0]) == 1):
        dst.fill(0.0)  # a plain copy writes no zeros
    inside = cute.make_rmem_tensor((1, *src.shape[1:]), cutlass.Boolean)
    for i in cutlass.range(cute.size(src, mode=[1]), unroll_full=True):
        for j in cutlass.range(cute.size(src, mode=[2]), unroll_full=True):
            inside[0, i, j] = cute.elem_less(crd[0, i, j], shape)
    cute.copy(tiled_copy, src, dst, pred=inside)


@cute.kernel
def gemm_any(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
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

    cA = cute.local_tile(cute.make_identity_tensor(mA.shape), (TILE[0], TILE[2]), (block_m, None))
    cB = cute.local_tile(cute.make_identity_tensor(mB.shape), (TILE[1], TILE[2]), (block_n, None))
    cC = cute.local_tile(cute.make_identity_tensor(mC.shape), TILE[:2], (block_m, block_n))
    load = make_load(width_of(mA.shape[1]))
    thr_load = load.get_slice(tid)
    tAgA, tAsA, tAcA = thr_load.partition_S(gA), thr_load.partition_D(sA), thr_load.partition_S(cA)
    tBgB, tBsB, tBcB = thr_load.partition_S(gB), thr_load.partition_D(sB), thr_load.partition_S(cB)

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
        at = (None, None, None, stage)
        copy_inside(load, tAcA[at], mA.shape, tAgA[at], tAsA[at])
        copy_inside(load, tBcB[at], mB.shape, tBgB[at], tBsB[at])
        cute.arch.cp_async_commit_group()

    blocks = cute.size(tCrA, mode=[2])
    cute.arch.cp_async_wait_group(AHEAD - 1)  # my copies of k-tile 0 have arrived
    cute.arch.sync_threads()  # everyone's have
    cute.copy(ldmatrix, tXsA[None, None, 0, 0], tXrA[None, None, 0])
    cute.copy(ldmatrix, tXsB[None, None, 0, 0], tXrB[None, None, 0])

    for k in cutlass.range(k_tiles, unroll=1):
        ahead = k + AHEAD  # a k-tile behind the last one is zeros
        at, to = (None, None, None, ahead), (None, None, None, ahead % STAGES)
        copy_inside(load, tAcA[at], mA.shape, tAgA[at], tAsA[to])
        copy_inside(load, tBcB[at], mB.shape, tBgB[at], tBsB[to])
        cute.arch.cp_async_commit_group()
        for block in cutlass.range_constexpr(blocks):
            if block == blocks - 1:
                cute.arch.cp_async_wait_group(AHEAD - 1)  # my copies of k-tile k + 1 have arrived
                cute.arch.sync_threads()  # everyone's have, and everyone has read k-tile k
            k_tile, coming = (k, block + 1) if block < blocks - 1 else (k + 1, 0)
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
    store = make_store(width_of(mC.shape[1]))
    thr_store = store.get_slice(tid)
    tDsC, tDgC, tDcC = thr_store.partition_S(sC), thr_store.partition_D(gC), thr_store.partition_D(cC)
    copy_inside(store, tDcC, mC.shape, tDsC, tDgC)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    grid = cute.ceil_div(mC.shape[0], TILE[0]), cute.ceil_div(mC.shape[1], TILE[1]), 1
    gemm_any(mA, mB, mC).launch(grid=grid, block=(THREADS, 1, 1))
