"""The GEMM of umma_persistent whose pairs ask for their tiles, and whose epilogue does what follows a GEMM.

A pair begins with the tile of its own number. For the next one, a warp of its leader asks that a cluster that
has not started yet does not start, and takes over its tile. `next_full` says that the answer is there, in
both CTAs; `next_empty`, in the leader, says that all warps that follow the tiles have read it. In place of
that, the pairs can take turns, as in umma_persistent. Tiles that follow each other lie together, a few pairs'
rows high, so L2 holds their rows of A and their columns of B.

With `fuses`, a row of D is relu(scale * sums + bias), with a scale for each row and a bias for each column.
Where two CTAs share an SM, the warps that store D take registers from those that need few.
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

MNK = (1024, 768, 128)
CTA_ROWS = 128  # of A and of D, in shared and in tensor memory
COLUMNS = 256  # of an MMA's result, and so of an accumulator; or 128 or 192
K_TILE = 64
STAGES = 3
ACCUMULATORS = 2
STORING_WARPS = 4  # each for 32 lanes of tensor memory; three further warps load, multiply and ask for tiles
THREADS = 32 * (STORING_WARPS + 4)  # one warp has nothing to do: registers move between whole warpgroups
PIECE = (32, 64)  # what one TMA store writes: the rows of one warp, and 128 bytes of each
BUFFERS = 2  # for pieces, in each warp
GROUP = 2  # rows of tiles
STORING_REGISTERS = 200  # two CTAs in an SM give a thread 128 at first
OTHER_REGISTERS = 56  # 200 + 56 = 2 * 128


def columns_held(columns):
    """The columns that a CTA allocates for its accumulators: a power of two."""
    return 1 << (ACCUMULATORS * columns - 1).bit_length()


def make_mma(sms, columns):
    """The MMA of one SM or of a pair: 128 rows for each SM, 16 deep."""
    return cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            (CTA_ROWS * sms, columns, 16),
            tcgen05.CtaGroup.TWO if sms == 2 else tcgen05.CtaGroup.ONE,
            tcgen05.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


@cute.jit
def tile_of(number: cutlass.Int32, tiles: cutlass.Constexpr):
    """The place of a tile: down a group of `GROUP` rows of tiles, then the next column."""
    group, within = number // (GROUP * tiles[1]), number % (GROUP * tiles[1])
    rows = cutlass.min(GROUP, tiles[0] - group * GROUP)  # the last group may have fewer
    return group * GROUP + within % rows, within // rows


@cute.jit
def next_tile(
    number: cutlass.Int32,
    asked: cutlass.Int32,
    answer: cute.Tensor,
    next_full: cute.Pointer,
    next_empty: cute.Pointer,
    tiles: cutlass.Constexpr,
    sms: cutlass.Constexpr,
    in_turn: cutlass.Constexpr,
):
    """The next tile of a warp that has seen `asked` answers; the number of tiles behind the last."""
    if cutlass.const_expr(in_turn):
        number += cute.arch.grid_dim()[0] // sms
    else:
        cute.arch.mbarrier_wait(next_full, asked % 2)
        number = cutlass.Int32(tiles[0] * tiles[1])
        if nvvm.clusterlaunchcontrol_query_cancel("is_canceled", answer[0]):  # only then it holds a number
            number = nvvm.clusterlaunchcontrol_query_cancel("get_first_cta_id_x", answer[0]) // sms
        cute.arch.fence_proxy("async.shared", space="cta")  # the next answer is written by the async proxy
        cute.arch.sync_warp()
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive(next_empty, 0)  # in the leader
    return number


@cute.kernel
def umma_scheduled(
    atom_a: cute.CopyAtom,
    tma_a: cute.Tensor,
    atom_b: cute.CopyAtom,
    tma_b: cute.Tensor,
    atom_d: cute.CopyAtom,
    tma_d: cute.Tensor,
    mC: cute.Tensor | None,
    alpha: cutlass.Float32 | None,
    beta: cutlass.Float32 | None,
    mScale: cute.Tensor | None,
    mBias: cute.Tensor | None,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    layout_d: cute.ComposedLayout,
    tiles: cutlass.Constexpr,
    sms: cutlass.Constexpr,
    columns: cutlass.Constexpr,
    stages: cutlass.Constexpr,
    in_turn: cutlass.Constexpr,
    ctas: cutlass.Constexpr,
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
    answer = smem.allocate_tensor(cutlass.Int128, cute.make_layout(1), 16)
    full = smem.allocate_array(cutlass.Int64, stages)
    empty = smem.allocate_array(cutlass.Int64, stages)
    acc_full = smem.allocate_array(cutlass.Int64, ACCUMULATORS)
    acc_empty = smem.allocate_array(cutlass.Int64, ACCUMULATORS)
    next_full = smem.allocate_array(cutlass.Int64)
    next_empty = smem.allocate_array(cutlass.Int64)
    tmem_base = smem.allocate_array(cutlass.Int32)

    if warp == 0:
        cute.arch.alloc_tmem(columns_held(columns), tmem_base, is_two_cta=two)
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(stages):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, 1)
            for acc in cutlass.range_constexpr(ACCUMULATORS):
                cute.arch.mbarrier_init(acc_full + acc, 1)
                cute.arch.mbarrier_init(acc_empty + acc, STORING_WARPS * sms)
            cute.arch.mbarrier_init(next_full, 1)
            cute.arch.mbarrier_init(next_empty, (STORING_WARPS + 1) * sms + 1)  # warps that read an answer
    cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    tiled_mma = make_mma(sms, columns)
    thr_mma = tiled_mma.get_slice(rank)
    tile = (CTA_ROWS * sms, columns, K_TILE)
    gA = cute.local_tile(tma_a, (tile[0], K_TILE), (None, None))  # (rows, 64, tiles along M, k-tiles)
    gB = cute.local_tile(tma_b, (tile[1], K_TILE), (None, None))
    tCrA = tiled_mma.make_fragment_A(sA)  # (1, 1, 4, stages)
    tCrB = tiled_mma.make_fragment_B(sB)
    shape = cute.append(tiled_mma.partition_shape_C(tile[:2]), ACCUMULATORS)
    tCtC = tiled_mma.make_fragment_C(shape)  # (MmaC, 1, 1, accumulators)
    tCtC = cute.make_tensor(cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, tmem_base), tCtC.layout)
    k_tiles, pieces = cute.size(gA, mode=[3]), columns // PIECE[1]
    number, count = cute.arch.block_idx()[0] // sms, tiles[0] * tiles[1]
    tell = answer, next_full, next_empty, tiles, sms, in_turn
    at = cutlass.Int32(0)  # the k-tiles of all tiles, counted on: which stage, and which of its turns
    done = cutlass.Int32(0)  # the tiles of this pair: which accumulator, which of its turns, which answer

    if warp >= STORING_WARPS:
        if cutlass.const_expr(ctas > 1):
            cute.arch.setmaxregister_decrease(OTHER_REGISTERS)
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
            while number < count:
                row, column = tile_of(number, tiles)
                from_a, from_b = tAgA[None, row, None], tBgB[None, column, None]
                for k in cutlass.range(k_tiles, unroll=1):
                    stage, turn = at % stages, at // stages
                    cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
                    if leads:
                        with cute.arch.elect_one():
                            cute.arch.mbarrier_arrive_and_expect_tx(full + stage, sms * tile_bytes)
                    cute.copy(atom_a, from_a[None, k], tAsA[None, stage], tma_bar_ptr=full + stage)
                    cute.copy(atom_b, from_b[None, k], tBsB[None, stage], tma_bar_ptr=full + stage)
                    at += 1
                number = next_tile(number, done, *tell)
                done += 1
        elif warp == STORING_WARPS + 1:
            if leads:
                while number < count:
                    acc, turn = done % ACCUMULATORS, done // ACCUMULATORS
                    cute.arch.mbarrier_wait(acc_empty + acc, turn % 2 ^ 1)
                    nvvm.tcgen05_fence("after_thread_sync")
                    sums = tCtC[None, None, None, acc]
                    tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
                    for _ in cutlass.range(k_tiles, unroll=1):
                        stage, turn = at % stages, at // stages
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
                    number = next_tile(number, done, *tell)
                    done += 1
        elif warp == STORING_WARPS + 2:
            if cutlass.const_expr(not in_turn):
                if leads:
                    granted = cutlass.Boolean(True)
                    while granted:
                        cute.arch.mbarrier_wait(next_empty, done % 2 ^ 1)
                        with cute.arch.elect_one():
                            for cta in cutlass.range_constexpr(sms):
                                cute.arch.mbarrier_arrive_and_expect_tx(next_full, 16, cta)
                            cute.arch.issue_clc_query(next_full, answer.iterator, multicast=two)
                        cute.arch.mbarrier_wait(next_full, done % 2)
                        granted = nvvm.clusterlaunchcontrol_query_cancel("is_canceled", answer[0])
                        cute.arch.fence_proxy(
                            "async.shared", space="cta"
                        )  # this warp reads the answer as well
                        cute.arch.sync_warp()
                        done += 1
    else:
        if cutlass.const_expr(ctas > 1):
            cute.arch.setmaxregister_increase(STORING_REGISTERS)
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
        if cutlass.const_expr(mBias is not None):
            gBias = cute.local_tile(mBias, (PIECE[1],), (None,))  # (64, along N)
        while number < count:
            row, column = tile_of(number, tiles)
            row, first_piece = (row * sms + rank) * STORING_WARPS + warp, column * pieces  # of pieces
            if cutlass.const_expr(mScale is not None):
                my_row, scale = row * PIECE[0] + tid % 32, cutlass.Float32(0)
                if my_row < tma_d.shape[0]:
                    scale = mScale[my_row]
            acc, turn = done % ACCUMULATORS, done // ACCUMULATORS
            cute.arch.mbarrier_wait(acc_full + acc, turn % 2)
            nvvm.tcgen05_fence("after_thread_sync")
            for i in cutlass.range(pieces, unroll=1):
                piece, buffer = first_piece + i, warp * BUFFERS + (done * pieces + i) % BUFFERS
                cute.copy(load, tDtC[None, i, 0, 0, acc], tDrS)
                cute.arch.fence_view_async_tmem_load()
                if i == pieces - 1:
                    nvvm.tcgen05_fence("before_thread_sync")
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive(acc_empty + acc, 0)  # in the leader
                if cutlass.const_expr(mC is not None):
                    tDrC.fill(0)
                    for j in cutlass.range_constexpr(PIECE[1] // 8):  # 16 bytes, in C or not
                        if cute.elem_less(tDcC[(0, j), row, piece], mC.shape):
                            cute.autovec_copy(tDgC[(None, j), row, piece], eights[None, j])
                    sums.store(alpha * sums.load() + beta * tDrC.load().to(cutlass.Float32))
                if cutlass.const_expr(mBias is not None):
                    for j in cutlass.range_constexpr(PIECE[1] // 8):
                        if piece * PIECE[1] + 8 * j < mBias.shape[0]:
                            for q in cutlass.range_constexpr(8):
                                z = scale * sums[8 * j + q] + gBias[8 * j + q, piece]
                                sums[8 * j + q] = cute.arch.fmax(z, cutlass.Float32(0))
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
            number = next_tile(number, done, *tell)
            done += 1
        with cute.arch.elect_one():
            cute.arch.cp_async_bulk_wait_group(0, read=True)

    # Tensor memory of a pair is freed for both CTAs, and only when both have read theirs.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit(is_two_cta=two)
        cute.arch.dealloc_tmem(tCtC.iterator, columns_held(columns), is_two_cta=two)


@cache
def host_for(sms: int, blends: int, columns: int, stages: int, pairs: int, ctas: int, fuses: int):
    """The host function for `sms` SMs to an MMA of so many columns, with so many stages.

    With pairs = 0 a pair asks for its tiles, else at most so many take turns. An SM has registers for `ctas`
    CTAs. With `blends` the kernel also takes C, alpha and beta, with `fuses` the rows' scales and the bias.
    """

    @cute.jit
    def launch(mA, mB, mD, mC, alpha, beta, mScale, mBias):
        tiled_mma = make_mma(sms, columns)
        tile = (CTA_ROWS * sms, columns, K_TILE)
        atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, cutlass.Float16)
        layout_a = tcgen05.tile_to_mma_shape(
            atom, cute.append(tiled_mma.partition_shape_A((tile[0], K_TILE)), stages), order=(1, 2, 3)
        )
        layout_b = tcgen05.tile_to_mma_shape(
            atom, cute.append(tiled_mma.partition_shape_B((tile[1], K_TILE)), stages), order=(1, 2, 3)
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
        count = tiles[0] * tiles[1]
        umma_scheduled(
            atom_a,
            tma_a,
            atom_b,
            tma_b,
            atom_d,
            tma_d,
            mC,
            alpha,
            beta,
            mScale,
            mBias,
            layout_a,
            layout_b,
            layout_d,
            tiles,
            sms,
            columns,
            stages,
            pairs > 0,
            ctas,
        ).launch(
            grid=((min(pairs, count) if pairs else count) * sms, 1, 1),
            block=(THREADS, 1, 1),
            cluster=(sms, 1, 1),
            min_blocks_per_mp=ctas,
            preferred_smem_carveout=100,
        )

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor):
        launch(mA, mB, mD, None, None, None, None, None)

    @cute.jit
    def host_blend(
        mA: cute.Tensor,
        mB: cute.Tensor,
        mD: cute.Tensor,
        mC: cute.Tensor,
        alpha: cutlass.Float32,
        beta: cutlass.Float32,
    ):
        launch(mA, mB, mD, mC, alpha, beta, None, None)

    @cute.jit
    def host_fuse(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor, mScale: cute.Tensor, mBias: cute.Tensor):
        launch(mA, mB, mD, None, None, None, mScale, mBias)

    if fuses:
        return host_fuse
    return host_blend if blends else host
