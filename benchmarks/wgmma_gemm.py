"""A GEMM for Hopper: TMA fills three stages of shared memory, a warpgroup multiplies them into registers.

One warp loads as far ahead as there are free stages. `full` completes a phase when both tiles' bytes are
there; `empty` when one thread has arrived for the warpgroup, which it may once a wgmma.wait_group has passed
behind the last wgmma.mma_async that reads the stage. One group stays under way while the next is issued, so a
stage is freed one k-tile after it was multiplied. `cutlass.pipeline.PipelineTmaAsync` holds the same for
larger kernels.

C = A * B^T, A (M, K) and B (N, K) of f16, C (M, N) of f32.
"""

from __future__ import annotations

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.memory import SmemAllocator

from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.layout import parse

MMA = (64, 128, 16)
TILE = (128, 128, 64)
STAGES = 3
CONSUMERS = 128  # a warpgroup
THREADS = CONSUMERS + 32  # and one warp that loads


def make_mma():
    """m64n128k16, both operands K-major in shared memory."""
    return cute.make_tiled_mma(
        warpgroup.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            MMA,
            warpgroup.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


@cute.kernel
def wgmma_gemm(
    atom_a: cute.CopyAtom,
    tma_a: cute.Tensor,
    atom_b: cute.CopyAtom,
    tma_b: cute.Tensor,
    mC: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
):
    """One block computes a tile of C."""
    tid, _, _ = cute.arch.thread_idx()
    block_m, block_n, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, swizzle=layout_b.inner)
    full = smem.allocate_array(cutlass.Int64, STAGES)
    empty = smem.allocate_array(cutlass.Int64, STAGES)

    if warp == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    gA = cute.local_tile(tma_a, (TILE[0], TILE[2]), (block_m, None))  # (128, 64, k-tiles)
    gB = cute.local_tile(tma_b, (TILE[1], TILE[2]), (block_n, None))
    gC = cute.local_tile(mC, TILE[:2], (block_m, block_n))
    tAsA, tAgA = cpasync.tma_partition(
        atom_a, 0, cute.make_layout(1), cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
    )
    tBsB, tBgB = cpasync.tma_partition(
        atom_b, 0, cute.make_layout(1), cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2)
    )
    k_tiles = cute.size(gA, mode=[2])

    if warp == CONSUMERS // 32:
        for k in cutlass.range(k_tiles, unroll=1):
            stage, turn = k % STAGES, k // STAGES
            cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, (TILE[0] + TILE[1]) * TILE[2] * 2)
            cute.copy(atom_a, tAgA[None, k], tAsA[None, stage], tma_bar_ptr=full + stage)
            cute.copy(atom_b, tBgB[None, k], tBsB[None, stage], tma_bar_ptr=full + stage)
    else:
        tiled_mma = make_mma()
        thr_mma = tiled_mma.get_slice(tid)
        tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))  # (1, 2, 4, stages), descriptors
        tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
        tCgC = thr_mma.partition_C(gC)
        tCrC = cute.make_rmem_tensor(tCgC.shape, cutlass.Float32)
        tiled_mma.set(warpgroup.Field.ACCUMULATE, False)
        for k in cutlass.range(k_tiles, unroll=1):
            stage, turn = k % STAGES, k // STAGES
            cute.arch.mbarrier_wait(full + stage, turn % 2)
            warpgroup.fence()
            for k_block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                tile = (None, None, k_block, stage)
                cute.gemm(tiled_mma, tCrC, tCrA[tile], tCrB[tile], tCrC)
                tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            warpgroup.wait_group(1)
            # The tile before this one has been read by all four warps.
            if k > 0 and tid == 0:
                cute.arch.mbarrier_arrive(empty + (k - 1) % STAGES)
        warpgroup.wait_group(0)
        cute.autovec_copy(tCrC, tCgC)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    """Make the tensor maps and launch."""
    atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, cutlass.Float16)
    layout_a = cute.tile_to_shape(atom, (TILE[0], TILE[2], STAGES), (0, 1, 2))
    layout_b = cute.tile_to_shape(atom, (TILE[1], TILE[2], STAGES), (0, 1, 2))
    load = cpasync.CopyBulkTensorTileG2SOp()
    one_a, one_b = cute.select(layout_a, mode=[0, 1]), cute.select(layout_b, mode=[0, 1])
    atom_a, tma_a = cpasync.make_tiled_tma_atom(load, mA, one_a, (TILE[0], TILE[2]))
    atom_b, tma_b = cpasync.make_tiled_tma_atom(load, mB, one_b, (TILE[1], TILE[2]))
    grid = (cute.size(mC, mode=[0]) // TILE[0], cute.size(mC, mode=[1]) // TILE[1], 1)
    wgmma_gemm(atom_a, tma_a, atom_b, tma_b, mC, layout_a, layout_b).launch(grid=grid, block=(THREADS, 1, 1))


def gemm_spec(m: int, n: int, k: int) -> LaunchSpec:
    """The launch for matrices whose extents are multiples of the tile's."""
    layout = parse("S<3,4,3> o 0 o ((8,16),(64,1)):((64,512),(1,0))")
    return LaunchSpec(
        name="wgmma_gemm",
        language="cutedsl",
        kernel=wgmma_gemm,
        host=host,
        grid=(m // TILE[0], n // TILE[1], 1),
        block=(THREADS, 1, 1),
        dynamic_smem=STAGES * (TILE[0] + TILE[1]) * TILE[2] * 2 + 2 * STAGES * 8,
        params=(
            TensorMapSpec("a", "f16", (m, k), (k, 1), smem_layout=layout, cta_tiler=(TILE[0], TILE[2])),
            TensorMapSpec("b", "f16", (n, k), (k, 1), smem_layout=layout, cta_tiler=(TILE[1], TILE[2])),
            Tensor("c", "f32", (m, n), (n, 1)),
        ),
        target="sm_90a",
    )


LAUNCH = gemm_spec(256, 256, 256)
