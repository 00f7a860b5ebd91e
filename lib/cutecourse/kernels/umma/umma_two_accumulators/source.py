"""Pairs of SMs that go on to the next tile of C while they still store the last one: two accumulators.

As many pairs run as the grid has, and each takes every so-many-th tile of C, for any M, N and K. Three roles
share a CTA. One warp loads. One warp of the pair's leader multiplies, into one accumulator and the other in
turn. Four warps read an accumulator and store it. `full` and `empty` hand over stages of shared memory.
`acc_full` hands an accumulator over to the epilogues of both CTAs: one commit, told to both. `acc_empty`, in
the leader, hands it back: it counts the four warps of each CTA, after each has read its lanes.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import (
    OperandMajorMode,
    cpasync,
    make_tiled_tma_atom_A,
    make_tiled_tma_atom_B,
    tcgen05,
)
from cutlass.memory import SmemAllocator

MNK = (512, 640, 128)
MMA = (256, 128, 16)
TILE = (256, 128, 64)
CLUSTER = (2, 1, 1)
PAIRS = 2
STAGES = 3
ACCUMULATORS = 2
TMEM_COLUMNS = ACCUMULATORS * TILE[1]
EPILOGUE_WARPS = 4
LOADER, MULTIPLIER = 4, 5  # the warps behind those of the epilogue
THREADS = 32 * 6


def make_mma():
    return cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            MMA,
            tcgen05.CtaGroup.TWO,
            tcgen05.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


@cute.kernel
def umma_two_accumulators(
    atom_a: cute.CopyAtom,
    tma_a: cute.Tensor,
    atom_b: cute.CopyAtom,
    tma_b: cute.Tensor,
    mC: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    tiles: cutlass.Constexpr,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    leads = rank == 0
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, swizzle=layout_b.inner)
    full = smem.allocate_array(cutlass.Int64, STAGES)
    empty = smem.allocate_array(cutlass.Int64, STAGES)
    acc_full = smem.allocate_array(cutlass.Int64, ACCUMULATORS)
    acc_empty = smem.allocate_array(cutlass.Int64, ACCUMULATORS)
    tmem_base = smem.allocate_array(cutlass.Int32)

    if warp == 0:
        cute.arch.alloc_tmem(TMEM_COLUMNS, tmem_base, is_two_cta=True)
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, 1)
            for acc in cutlass.range_constexpr(ACCUMULATORS):
                cute.arch.mbarrier_init(acc_full + acc, 1)
                cute.arch.mbarrier_init(acc_empty + acc, 2 * EPILOGUE_WARPS)
    cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    tiled_mma = make_mma()
    thr_mma = tiled_mma.get_slice(rank)  # a half of the pair's MMA
    gA = cute.local_tile(tma_a, (TILE[0], TILE[2]), (None, None))  # (256, 64, tiles along M, k-tiles)
    gB = cute.local_tile(tma_b, (TILE[1], TILE[2]), (None, None))
    gC = cute.local_tile(mC, TILE[:2], (None, None))
    cC = cute.local_tile(cute.make_identity_tensor(mC.shape), TILE[:2], (None, None))
    tCgA = thr_mma.partition_A(gA)  # (MmaA, 1, 4, tiles along M, k-tiles), MmaA of 128 rows
    tCgB = thr_mma.partition_B(gB)
    tCrA = tiled_mma.make_fragment_A(sA)  # (1, 1, 4, stages)
    tCrB = tiled_mma.make_fragment_B(sB)
    both = tiled_mma.make_fragment_C(cute.append(tiled_mma.partition_shape_C(TILE[:2]), ACCUMULATORS))
    tCtC = cute.make_tensor(cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, tmem_base), both.layout)
    k_tiles = cute.size(gA, mode=[3])
    # The pairs take turns: each begins with the tile of its own number, then skips as many as there are.
    first, pairs = cute.arch.block_idx()[0] // CLUSTER[0], cute.arch.grid_dim()[0] // CLUSTER[0]
    count = tiles[0] * tiles[1]

    if warp == LOADER:
        alone = 0, cute.make_layout(1)  # no other CTA receives what this one loads
        tAsA, tAgA = cpasync.tma_partition(
            atom_a, *alone, cute.group_modes(sA, 0, 3), cute.group_modes(tCgA, 0, 3)
        )
        tBsB, tBgB = cpasync.tma_partition(
            atom_b, *alone, cute.group_modes(sB, 0, 3), cute.group_modes(tCgB, 0, 3)
        )
        tile_bytes = cute.size_in_bytes(cutlass.Float16, cute.select(layout_a, mode=[0, 1, 2]))
        tile_bytes += cute.size_in_bytes(cutlass.Float16, cute.select(layout_b, mode=[0, 1, 2]))
        at = cutlass.Int32(0)  # the k-tiles of all tiles, counted on: which stage, and which of its turns
        for number in cutlass.range(first, count, pairs, unroll=1):
            row, column = number % tiles[0], number // tiles[0]
            for k in cutlass.range(k_tiles, unroll=1):
                stage, turn = at % STAGES, at // STAGES
                cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
                if leads:
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive_and_expect_tx(full + stage, 2 * tile_bytes)
                cute.copy(atom_a, tAgA[None, row, k], tAsA[None, stage], tma_bar_ptr=full + stage)
                cute.copy(atom_b, tBgB[None, column, k], tBsB[None, stage], tma_bar_ptr=full + stage)
                at += 1
    elif warp == MULTIPLIER:
        if leads:
            at, done = cutlass.Int32(0), cutlass.Int32(0)
            for _ in cutlass.range(first, count, pairs, unroll=1):
                acc, use = done % ACCUMULATORS, done // ACCUMULATORS
                cute.arch.mbarrier_wait(acc_empty + acc, use % 2 ^ 1)
                to = tCtC[None, None, None, acc]
                tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
                for _k in cutlass.range(k_tiles, unroll=1):
                    stage, turn = at % STAGES, at // STAGES
                    cute.arch.mbarrier_wait(full + stage, turn % 2)
                    for k_block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                        part = (None, None, k_block, stage)
                        cute.gemm(tiled_mma, to, tCrA[part], tCrB[part], to)
                        tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
                    with cute.arch.elect_one():
                        tcgen05.commit(empty + stage, 0b11, tcgen05.CtaGroup.TWO)
                    at += 1
                with cute.arch.elect_one():
                    tcgen05.commit(acc_full + acc, 0b11, tcgen05.CtaGroup.TWO)
                done += 1
    else:
        # tmem -> rmem -> gmem: a warp reads its 32 lanes, a thread one row of C, 32 columns at a time
        load = tcgen05.make_tmem_copy(
            cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), cutlass.Float32),
            tCtC[None, None, None, 0],
        ).get_slice(tid)
        tDtC = load.partition_S(tCtC)
        tDgC = load.partition_D(thr_mma.partition_C(gC))
        tDcC = load.partition_D(thr_mma.partition_C(cC))
        tDrC = cute.make_rmem_tensor(tDgC[None, 0, 0, 0, 0, 0].shape, cutlass.Float32)
        done = cutlass.Int32(0)
        for number in cutlass.range(first, count, pairs, unroll=1):
            acc, use = done % ACCUMULATORS, done // ACCUMULATORS
            row, column = number % tiles[0], number // tiles[0]
            cute.arch.mbarrier_wait(acc_full + acc, use % 2)
            for i in cutlass.range(cute.size(tDgC, mode=[1]), unroll=1):
                cute.copy(load, tDtC[None, i, 0, 0, acc], tDrC)
                cute.arch.fence_view_async_tmem_load()
                last = tDcC[cute.size(tDrC) - 1, i, 0, 0, row, column]
                if cute.elem_less(last, mC.shape):
                    cute.autovec_copy(tDrC, tDgC[None, i, 0, 0, row, column])
                else:
                    for j in cutlass.range_constexpr(cute.size(tDrC)):
                        if cute.elem_less(tDcC[j, i, 0, 0, row, column], mC.shape):
                            tDgC[j, i, 0, 0, row, column] = tDrC[j]
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive(acc_empty + acc, 0)
            done += 1

    # Tensor memory of a pair is freed for both CTAs, and only when both have read theirs.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit(is_two_cta=True)
        cute.arch.dealloc_tmem(tCtC.iterator, TMEM_COLUMNS, is_two_cta=True)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    tiled_mma = make_mma()
    atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, cutlass.Float16)
    layout_a = tcgen05.tile_to_mma_shape(
        atom, cute.append(tiled_mma.partition_shape_A((TILE[0], TILE[2])), STAGES), order=(1, 2, 3)
    )
    layout_b = tcgen05.tile_to_mma_shape(
        atom, cute.append(tiled_mma.partition_shape_B((TILE[1], TILE[2])), STAGES), order=(1, 2, 3)
    )
    load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.TWO)
    atom_a, tma_a = make_tiled_tma_atom_A(load, mA, layout_a, TILE, tiled_mma)
    atom_b, tma_b = make_tiled_tma_atom_B(load, mB, layout_b, TILE, tiled_mma)
    tiles = (-(-mC.shape[0] // TILE[0]), -(-mC.shape[1] // TILE[1]))
    umma_two_accumulators(atom_a, tma_a, atom_b, tma_b, mC, layout_a, layout_b, tiles).launch(
        grid=(CLUSTER[0] * PAIRS, 1, 1), block=(THREADS, 1, 1), cluster=CLUSTER
    )
