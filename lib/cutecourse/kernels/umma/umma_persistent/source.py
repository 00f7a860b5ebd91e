"""The GEMM of umma_store with pairs of SMs that stay: each stores one tile while it multiplies the next.

Tensor memory holds two accumulators. One warp loads k-tiles, as far ahead as stages are free. One warp of the
pair's leader issues the MMAs, into one accumulator and then into the other. Four warps of each CTA store D.
`acc_full` says that an accumulator holds its sums: a commit tells both CTAs. `acc_empty`, in the leader, says
that its warps have loaded them: each of the four warps of each CTA arrives there. Without that wait the MMAs
of the third tile overwrite the first one's sums while they are still being loaded. The kernel also takes one
SM for an MMA, in place of a pair.
"""

from functools import cache

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import (
    OperandMajorMode,
    cpasync,
    make_tiled_tma_atom_A,
    make_tiled_tma_atom_B,
    tcgen05,
)
from cutlass.experimental.primitives import nvvm_wrapper as nvvm
from cutlass.memory import SmemAllocator

MNK = (512, 768, 128)
CTA_ROWS = 128  # of A and of D, in shared and in tensor memory
COLUMNS = 256  # of an MMA's result, and so of an accumulator
K_TILE = 64
STAGES = 3
ACCUMULATORS = 2
STORING_WARPS = 4  # each for 32 lanes of tensor memory; two further warps load and multiply
THREADS = 32 * (STORING_WARPS + 2)
PIECE = (32, 64)  # what one TMA store writes: the rows of one warp, and 128 bytes of each
PIECES = COLUMNS // PIECE[1]
BUFFERS = 2  # for pieces, in each warp


def make_mma(sms):
    """The MMA of one SM or of a pair: 128 rows for each SM, 256 columns, 16 deep."""
    return cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            (CTA_ROWS * sms, COLUMNS, 16),
            tcgen05.CtaGroup.TWO if sms == 2 else tcgen05.CtaGroup.ONE,
            tcgen05.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


@cute.kernel
def umma_persistent(
    atom_a: cute.CopyAtom,
    tma_a: cute.Tensor,
    atom_b: cute.CopyAtom,
    tma_b: cute.Tensor,
    atom_d: cute.CopyAtom,
    tma_d: cute.Tensor,
    mC: cute.Tensor | None,
    alpha: cutlass.Float32 | None,
    beta: cutlass.Float32 | None,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    layout_d: cute.ComposedLayout,
    sms: cutlass.Constexpr,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    leads = rank == 0
    two = sms == 2
    group = tcgen05.CtaGroup.TWO if two else tcgen05.CtaGroup.ONE
    all_ctas = 0b11 if two else None
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, swizzle=layout_b.inner)
    sD = smem.allocate_tensor(cutlass.BFloat16, layout_d.outer, 1024, swizzle=layout_d.inner)
    full = smem.allocate_array(cutlass.Int64, STAGES)
    empty = smem.allocate_array(cutlass.Int64, STAGES)
    acc_full = smem.allocate_array(cutlass.Int64, ACCUMULATORS)
    acc_empty = smem.allocate_array(cutlass.Int64, ACCUMULATORS)
    tmem_base = smem.allocate_array(cutlass.Int32)

    if warp == 0:
        cute.arch.alloc_tmem(ACCUMULATORS * COLUMNS, tmem_base, is_two_cta=two)
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, 1)
            for acc in cutlass.range_constexpr(ACCUMULATORS):
                cute.arch.mbarrier_init(acc_full + acc, 1)
                cute.arch.mbarrier_init(acc_empty + acc, STORING_WARPS * sms)
    cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    tiled_mma = make_mma(sms)
    thr_mma = tiled_mma.get_slice(rank)
    tile = (CTA_ROWS * sms, COLUMNS, K_TILE)
    gA = cute.local_tile(tma_a, (tile[0], K_TILE), (None, None))  # (rows, 64, tiles along M, k-tiles)
    gB = cute.local_tile(tma_b, (tile[1], K_TILE), (None, None))
    tCrA = tiled_mma.make_fragment_A(sA)  # (1, 1, 4, stages)
    tCrB = tiled_mma.make_fragment_B(sB)
    shape = cute.append(tiled_mma.partition_shape_C(tile[:2]), ACCUMULATORS)
    tCtC = tiled_mma.make_fragment_C(shape)  # (MmaC, 1, 1, accumulators)
    tCtC = cute.make_tensor(cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, tmem_base), tCtC.layout)
    k_tiles, tiles_m = cute.size(gA, mode=[3]), cute.size(gA, mode=[2])
    # The pairs take turns: each begins with the tile of its own number, then skips as many as there are.
    first, pairs = cute.arch.block_idx()[0] // sms, cute.arch.grid_dim()[0] // sms
    count = tiles_m * cute.size(gB, mode=[2])
    at = cutlass.Int32(0)  # the k-tiles of all tiles, counted on: which stage, and which of its turns
    done = cutlass.Int32(0)  # the tiles of this pair: which accumulator, and which of its turns

    if warp == STORING_WARPS:
        tCgA = thr_mma.partition_A(gA)
        tCgB = thr_mma.partition_B(gB)
        tAsA, tAgA = cpasync.tma_partition(
            atom_a, 0, cute.make_layout(1), cute.group_modes(sA, 0, 3), cute.group_modes(tCgA, 0, 3)
        )
        tBsB, tBgB = cpasync.tma_partition(
            atom_b, 0, cute.make_layout(1), cute.group_modes(sB, 0, 3), cute.group_modes(tCgB, 0, 3)
        )
        tile_bytes = cute.size_in_bytes(cutlass.Float16, cute.select(layout_a, mode=[0, 1, 2]))
        tile_bytes += cute.size_in_bytes(cutlass.Float16, cute.select(layout_b, mode=[0, 1, 2]))
        for number in cutlass.range(first, count, pairs, unroll=1):
            from_a = tAgA[None, number % tiles_m, None]
            from_b = tBgB[None, number // tiles_m, None]
            for k in cutlass.range(k_tiles, unroll=1):
                stage, turn = at % STAGES, at // STAGES
                cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
                if leads:
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive_and_expect_tx(full + stage, sms * tile_bytes)
                cute.copy(atom_a, from_a[None, k], tAsA[None, stage], tma_bar_ptr=full + stage)
                cute.copy(atom_b, from_b[None, k], tBsB[None, stage], tma_bar_ptr=full + stage)
                at += 1
    elif warp == STORING_WARPS + 1:
        if leads:
            for _ in cutlass.range(first, count, pairs, unroll=1):
                acc, turn = done % ACCUMULATORS, done // ACCUMULATORS
                cute.arch.mbarrier_wait(acc_empty + acc, turn % 2 ^ 1)
                nvvm.tcgen05_fence("after_thread_sync")
                sums = tCtC[None, None, None, acc]
                tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
                for _ in cutlass.range(k_tiles, unroll=1):
                    stage, turn = at % STAGES, at // STAGES
                    cute.arch.mbarrier_wait(full + stage, turn % 2)
                    for k_block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                        now = (None, None, k_block, stage)
                        cute.gemm(tiled_mma, sums, tCrA[now], tCrB[now], sums)
                        tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
                    with cute.arch.elect_one():
                        tcgen05.commit(empty + stage, all_ctas, group)
                    at += 1
                with cute.arch.elect_one():
                    tcgen05.commit(acc_full + acc, all_ctas, group)
                done += 1
    else:
        # tmem -> rmem: a warp reads its 32 lanes, a thread one row, 64 columns at a time
        load = tcgen05.make_tmem_copy(
            cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x64), cutlass.Float32),
            tCtC[None, None, None, 0],
        ).get_slice(tid)
        tDtC = load.partition_S(tCtC)
        tDcD = load.partition_D(thr_mma.partition_C(cute.make_identity_tensor(tile[:2])))
        tDrS = cute.make_rmem_tensor(tDcD[None, 0, 0, 0].shape, cutlass.Float32)
        sums = cute.make_tensor(tDrS.iterator, cute.make_layout(PIECE[1]))  # the same registers, as one row
        rounded = cute.make_rmem_tensor(PIECE[1], cutlass.BFloat16)
        # rmem -> smem -> gmem: a thread writes its row, TMA reads all 32
        gD = cute.local_tile(tma_d, PIECE, (None, None))  # (32, 64, along M, along N)
        tDsD, tDgD = cpasync.tma_partition(
            atom_d, 0, cute.make_layout(1), cute.group_modes(sD, 0, 2), cute.group_modes(gD, 0, 2)
        )
        if cutlass.const_expr(mC is not None):
            gC = cute.local_tile(mC, PIECE, (None, None))
            cC = cute.local_tile(cute.make_identity_tensor(mC.shape), PIECE, (None, None))
            tDgC = cute.logical_divide(gC[tid % 32, None, None, None], (8,))  # ((8, 8), along M, along N)
            tDcC = cute.logical_divide(cC[tid % 32, None, None, None], (8,))
            tDrC = cute.make_rmem_tensor(PIECE[1], cutlass.BFloat16)
            eights = cute.make_tensor(tDrC.iterator, cute.make_layout((8, PIECE[1] // 8)))
        for number in cutlass.range(first, count, pairs, unroll=1):
            row = (number % tiles_m * sms + rank) * STORING_WARPS + warp  # of pieces
            first_piece = number // tiles_m * PIECES
            acc, turn = done % ACCUMULATORS, done // ACCUMULATORS
            cute.arch.mbarrier_wait(acc_full + acc, turn % 2)
            nvvm.tcgen05_fence("after_thread_sync")
            for i in cutlass.range(PIECES, unroll=1):
                piece, buffer = first_piece + i, warp * BUFFERS + i % BUFFERS
                cute.copy(load, tDtC[None, i, 0, 0, acc], tDrS)
                cute.arch.fence_view_async_tmem_load()
                if i == PIECES - 1:
                    nvvm.tcgen05_fence("before_thread_sync")
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive(acc_empty + acc, 0)  # in the leader
                if cutlass.const_expr(mC is not None):
                    tDrC.fill(0)
                    for j in cutlass.range_constexpr(PIECE[1] // 8):  # 16 bytes, in C or not
                        if cute.elem_less(tDcC[(0, j), row, piece], mC.shape):
                            cute.autovec_copy(tDgC[(None, j), row, piece], eights[None, j])
                    sums.store(alpha * sums.load() + beta * tDrC.load().to(cutlass.Float32))
                rounded.store(sums.load().to(cutlass.BFloat16))
                with cute.arch.elect_one():  # this thread stores: TMA has read what the buffer held
                    cute.arch.cp_async_bulk_wait_group(BUFFERS - 1, read=True)
                cute.arch.sync_warp()
                cute.autovec_copy(rounded, sD[tid % 32, None, buffer])
                cute.arch.fence_proxy("async.shared", space="cta")
                cute.arch.sync_warp()
                with cute.arch.elect_one():
                    if cute.elem_less((row, piece), gD.shape[2:]):  # else it lies outside of D
                        cute.copy(atom_d, tDsD[None, buffer], tDgD[None, row, piece])
                    cute.arch.cp_async_bulk_commit_group()
            done += 1
        with cute.arch.elect_one():
            cute.arch.cp_async_bulk_wait_group(0, read=True)

    # Tensor memory of a pair is freed for both CTAs, and only when both have read theirs.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit(is_two_cta=two)
        cute.arch.dealloc_tmem(tCtC.iterator, ACCUMULATORS * COLUMNS, is_two_cta=two)


@cache
def host_for(sms: int, blends: int, pairs: int):
    """The host function for `sms` SMs to an MMA; at most `pairs` of them share the tiles.

    With `blends` the kernel also takes C, alpha and beta.
    """

    @cute.jit
    def launch(mA, mB, mD, mC, alpha, beta):
        tiled_mma = make_mma(sms)
        tile = (CTA_ROWS * sms, COLUMNS, K_TILE)
        atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, cutlass.Float16)
        layout_a = tcgen05.tile_to_mma_shape(
            atom, cute.append(tiled_mma.partition_shape_A((tile[0], K_TILE)), STAGES), order=(1, 2, 3)
        )
        layout_b = tcgen05.tile_to_mma_shape(
            atom, cute.append(tiled_mma.partition_shape_B((tile[1], K_TILE)), STAGES), order=(1, 2, 3)
        )
        # Rows of 128 bytes, swizzled as TMA reads them: 32 of them for each warp and buffer.
        layout_d = cute.make_ordered_layout((*PIECE, STORING_WARPS * BUFFERS), order=(1, 0, 2))
        layout_d = cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, layout_d)
        load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.TWO if sms == 2 else tcgen05.CtaGroup.ONE)
        atom_a, tma_a = make_tiled_tma_atom_A(load, mA, layout_a, tile, tiled_mma)
        atom_b, tma_b = make_tiled_tma_atom_B(load, mB, layout_b, tile, tiled_mma)
        store = cpasync.CopyBulkTensorTileS2GOp()
        atom_d, tma_d = cpasync.make_tiled_tma_atom(store, mD, cute.select(layout_d, mode=[0, 1]), PIECE)
        tiles = cute.ceil_div(mD.shape, tile[:2])
        umma_persistent(
            atom_a, tma_a, atom_b, tma_b, atom_d, tma_d, mC, alpha, beta, layout_a, layout_b, layout_d, sms
        ).launch(
            grid=(min(pairs, tiles[0] * tiles[1]) * sms, 1, 1), block=(THREADS, 1, 1), cluster=(sms, 1, 1)
        )

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor):
        launch(mA, mB, mD, None, None, None)

    @cute.jit
    def host_blend(
        mA: cute.Tensor,
        mB: cute.Tensor,
        mD: cute.Tensor,
        mC: cute.Tensor,
        alpha: cutlass.Float32,
        beta: cutlass.Float32,
    ):
        launch(mA, mB, mD, mC, alpha, beta)

    return host_blend if blends else host
