"""C = A * B^T with one warpgroup for each 64 rows: k-tiles of 64 in one stage, four wgmma for each.

The threads copy a k-tile of A and of B to shared memory. The tensor core reads both from there and adds to
the sums in the threads' registers. Either operand may be K-major or MN-major.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, warpgroup
from cutlass.memory import SmemAllocator

TILE = (64, 256, 64)
THREADS = 128  # a warpgroup


def make_mma(major_a, major_b):
    """m64n256k16, A and B in shared memory."""
    return cute.make_tiled_mma(
        warpgroup.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            (TILE[0], TILE[1], 16),
            warpgroup.OperandSource.SMEM,
            OperandMajorMode[major_a],
            OperandMajorMode[major_b],
        )
    )


def make_load(major):
    """Each thread moves 16 bytes along the contiguous mode."""
    vector = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=128)
    if major == "K":
        return cute.make_tiled_copy_tv(
            vector, cute.make_layout((16, 8), stride=(8, 1)), cute.make_layout((1, 8))
        )
    return cute.make_tiled_copy_tv(vector, cute.make_layout((8, 16)), cute.make_layout((8, 1)))


@cute.kernel
def wgmma_one(
    mA: cute.Tensor,
    mB: cute.Tensor,
    mC: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    majors: cutlass.Constexpr,
):
    tid, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, swizzle=layout_b.inner)
    gA = cute.local_tile(mA, (TILE[0], TILE[2]), (block, None))  # (64, 64, k-tiles)
    gB = cute.local_tile(mB, (TILE[1], TILE[2]), (0, None))  # (256, 64, k-tiles)
    gC = cute.local_tile(mC, TILE[:2], (block, 0))

    load_a, load_b = make_load(majors[0]).get_slice(tid), make_load(majors[1]).get_slice(tid)
    tAgA, tAsA = load_a.partition_S(gA), load_a.partition_D(sA)
    tBgB, tBsB = load_b.partition_S(gB), load_b.partition_D(sB)

    tiled_mma = make_mma(*majors)
    thr_mma = tiled_mma.get_slice(tid)
    tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))  # (1, 1, 4): descriptors
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
    tCgC = thr_mma.partition_C(gC)
    tCrC = cute.make_rmem_tensor(tCgC.shape, cutlass.Float32)  # 128 registers

    tiled_mma.set(warpgroup.Field.ACCUMULATE, False)
    for k in cutlass.range(cute.size(gA, mode=[2]), unroll=1):
        cute.copy(load_a, tAgA[None, None, None, k], tAsA)
        cute.copy(load_b, tBgB[None, None, None, k], tBsB)
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.sync_threads()

        warpgroup.fence()
        for k_block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
            cute.gemm(tiled_mma, tCrC, tCrA[None, None, k_block], tCrB[None, None, k_block], tCrC)
            tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
        warpgroup.commit_group()
        warpgroup.wait_group(0)
        cute.arch.sync_threads()  # all four warps have waited: the stage is free

    cute.autovec_copy(tCrC, tCgC)


def host_for(major_a, major_b):
    """The host function for A and B that are contiguous along K, or along MN."""

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
        layouts = []
        for major, rows in zip((major_a, major_b), TILE[:2], strict=True):
            kind = warpgroup.SmemLayoutAtomKind[f"{major}_SW128"]
            atom = warpgroup.make_smem_layout_atom(kind, cutlass.Float16)
            layouts.append(cute.tile_to_shape(atom, (rows, TILE[2]), (0, 1)))
        grid = (cute.size(mC, mode=[0]) // TILE[0], 1, 1)
        wgmma_one(mA, mB, mC, *layouts, (major_a, major_b)).launch(grid=grid, block=(THREADS, 1, 1))

    return host
