"""A GEMM of e4m3 on Hopper: C = A * B^T, row-major A (M, K) and B (N, K), C (M, N) in bf16.

The warps that load and the order of the tiles are those of `hopper_last`. What is new is the sum. Hopper adds
products of 8-bit floats with 13 binary places, so a long sum drifts. There are three kinds of sums:

    plain     the tensor core adds all products of a dot product, and C is stored in the next tile's shadow.
    promoted  the tensor core adds 128 products of each element. The threads add that to a total in f32.
    scaled    the same, and a part is multiplied by two scales on its way into the total: a scale of A belongs
              to 128 elements of one row, a scale of B to a block of 128 rows and 128 elements each.

A total takes as many registers as the tensor core's sums, so the tile is smaller, and its C is written to
shared memory at once: no registers are left to keep it for the next tile's shadow.

A tile of 256 rows gives each warpgroup two parts of 64 rows, with one set of sums: the tensor core multiplies
a part, the threads promote it, and then the other part follows. The loop over K is unrolled. So addresses are
computed between the additions, and not between the last of them and the next `wgmma`.
"""

from math import gcd

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.nvgpu.warp import StMatrix8x8x16bOp
from cutlass.memory import SmemAllocator

from cutecourse.kernels.fp8.fp8_gemm import Fp8Choice
from cutecourse.kernels.hopper.hopper_last.source import (
    CONSUMER_REGISTERS,
    CONSUMERS,
    PRODUCER_REGISTERS,
    THREADS,
    TURN,
    free,
    multiply,
    store,
    tile_of,
)

MNK = (512, 768, 512)
UNDER = 4  # room for the scales of B in a stage: a tile lies in at most 3 blocks
BLOCK = 128  # elements along K of a k-tile and of a scale; rows of B of a scale
SMS = 132
A_WARPGROUP = 128  # threads


def make_mma(columns):
    """One warpgroup's MMA: 64 rows of C and these columns, and an instruction multiplies 32 of K."""
    return cute.make_tiled_mma(
        warpgroup.MmaF8Op(
            cutlass.Float8E4M3FN,
            cutlass.Float8E4M3FN,
            cutlass.Float32,
            (64, columns, 32),
            warpgroup.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


def make_piece_mma(columns):
    """An MMA whose C has the same threads, for the copy of 16-bit sums to shared memory."""
    return cute.make_tiled_mma(
        warpgroup.MmaF16BF16Op(
            cutlass.BFloat16,
            cutlass.Float32,
            (64, columns, 16),
            warpgroup.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


def blocks_under(columns):
    """The most blocks of 128 rows of B that a tile of these columns lies in, wherever it begins."""
    return -(-(columns + BLOCK - gcd(columns, BLOCK)) // BLOCK)


@cute.jit
def load_scales(
    sScales: cute.Tensor,
    mSA: cute.Tensor,
    mSB: cute.Tensor,
    row: cutlass.Int32,
    column: cutlass.Int32,
    k: cutlass.Int32,
    lane: cutlass.Int32,
    how: cutlass.Constexpr,
):
    """A warp begins to copy a k-tile's scales: of the tile's rows, then of the blocks under it."""
    rows, blocks = how.tile[0], blocks_under(how.tile[1])
    one = cute.make_copy_atom(cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=32)
    for part in cutlass.range_constexpr(rows // 32):
        mine = lane + 32 * part
        offset = cute.crd2idx((cutlass.min(row + mine, mSA.shape[0] - 1), k), mSA.layout)
        copy_one(one, mSA.iterator + offset, sScales.iterator + mine)
    if lane < blocks:
        offset = cute.crd2idx((cutlass.min(column // BLOCK + lane, mSB.shape[0] - 1), k), mSB.layout)
        copy_one(one, mSB.iterator + offset, sScales.iterator + rows + lane)


@cute.jit
def copy_one(atom: cute.CopyAtom, source: cute.Pointer, target: cute.Pointer):
    """Copy one element."""
    layout = cute.make_layout((1, 1))
    cute.copy(atom, cute.make_tensor(source, layout), cute.make_tensor(target, layout))


@cute.jit
def promote(
    total: cute.Tensor,
    acc: cute.Tensor,
    scales: cute.Tensor,
    column: cutlass.Int32,
    part: cutlass.Constexpr,
    how: cutlass.Constexpr,
):
    """Add the tensor core's sums of 64 rows to the totals. Element ((c, r, eight), 0, 0) is in row 8 * r."""
    scaled, last = how.sums == "scaled", how.rows // 64 * 2
    within, group = column % BLOCK, gcd(how.tile[1], BLOCK)
    for r in cutlass.range_constexpr(2):
        of_blocks = []
        if cutlass.const_expr(scaled):
            mine = scales[2 * part + r]
            of_blocks = [mine * scales[last + block] for block in range(blocks_under(how.tile[1]))]
        for first in cutlass.range_constexpr(0, how.tile[1], group):
            if cutlass.const_expr(scaled):
                # These columns lie in this block if the tile begins with a block, else perhaps in the next.
                scale, after = of_blocks[first // BLOCK], (first + BLOCK - group) // BLOCK
                if cutlass.const_expr(after > first // BLOCK):
                    scale = of_blocks[after] if within + first >= after * BLOCK else scale
            for eight in cutlass.range_constexpr(first // 8, (first + group) // 8):
                for c in cutlass.range_constexpr(2):
                    added = acc[(c, r, eight), 0, 0]
                    if cutlass.const_expr(scaled):
                        added = added * scale
                    total[(c, r, eight), part, 0] = total[(c, r, eight), part, 0] + added


@cute.kernel
def fp8_gemm(
    tma_a: cute.CopyAtom,
    mA: cute.Tensor,
    tma_b: cute.CopyAtom,
    mB: cute.Tensor,
    tma_c: cute.CopyAtom,
    mC: cute.Tensor,
    mSA: cute.Tensor,
    mSB: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    layout_c: cute.ComposedLayout,
    tiles: cutlass.Constexpr,
    how: cutlass.Constexpr,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    consumer = warp // 4 - 1  # -1: the warpgroup that loads
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    ctas_m, ctas_n = how.cluster
    rank_m, rank_n = rank % ctas_m, rank // ctas_m
    stages = how.stages
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float8E4M3FN, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float8E4M3FN, layout_b.outer, 1024, swizzle=layout_b.inner)
    sC = smem.allocate_tensor(cutlass.BFloat16, layout_c.outer, 1024, swizzle=layout_c.inner)
    scaled = how.sums == "scaled"
    if cutlass.const_expr(scaled):
        sScales = smem.allocate_tensor(cutlass.Float32, cute.make_layout((how.scales, stages)), 16)
    full = smem.allocate_array(cutlass.Int64, stages)
    empty = smem.allocate_array(cutlass.Int64, stages)

    # Who reads what a CTA loads: itself, the CTAs with the same rows, and those with the same columns.
    readers = ctas_m + ctas_n - 1
    if warp == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(stages):
                cute.arch.mbarrier_init(full + stage, 1 + (32 if scaled else 0))
                # A warpgroup has read A and B when its MMAs are done. Its four warps read scales themselves.
                cute.arch.mbarrier_init(empty + stage, (readers + (4 if scaled else 0)) * CONSUMERS)
        cute.arch.mbarrier_init_fence()
    if warp == 4:
        for tensor_map in (tma_a, tma_b, tma_c):
            cpasync.prefetch_descriptor(tensor_map)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    cute.arch.griddepcontrol_launch_dependents()  # a programmatic launch, as in `hopper_last`

    gA = cute.local_tile(mA, (how.tile[0], how.tile[2]), (None, None))  # (128, 128, along M, k-tiles)
    gB = cute.local_tile(mB, (how.tile[1], how.tile[2]), (None, None))
    gC = cute.local_tile(mC, (how.rows, how.piece), (None, None))
    k_tiles = cute.size(gA, mode=[3])
    # The clusters take turns: each begins with the tile of its own number, then skips as many as there are.
    first, clusters = cute.arch.block_idx()[0] // how.ctas, cute.arch.grid_dim()[0] // how.ctas
    count = tiles[0] * tiles[1]
    at = cutlass.Uint32(0)  # the k-tiles of all tiles, counted on: which stage, and which of its turns

    if consumer < 0:
        cute.arch.setmaxregister_decrease(PRODUCER_REGISTERS)
        if warp == 0:
            # Each of the CTAs that share a tile loads a slice of it for all of them.
            tAsA, tAgA = cpasync.tma_partition(
                tma_a,
                rank_n,
                cute.make_layout(ctas_n),
                cute.group_modes(sA, 0, 2),
                cute.group_modes(gA, 0, 2),
            )
            tBsB, tBgB = cpasync.tma_partition(
                tma_b,
                rank_m,
                cute.make_layout(ctas_m),
                cute.group_modes(sB, 0, 2),
                cute.group_modes(gB, 0, 2),
            )
            same_row = sum(1 << ctas_m * other for other in range(ctas_n))  # of rank 0
            same_column = (1 << ctas_m) - 1
            to_a, to_b = {}, {}
            if cutlass.const_expr(ctas_n > 1):
                to_a["mcast_mask"] = (cutlass.Int32(same_row) << rank_m).to(cutlass.Int16)
            if cutlass.const_expr(ctas_m > 1):
                to_b["mcast_mask"] = (cutlass.Int32(same_column) << ctas_m * rank_n).to(cutlass.Int16)
            cute.arch.griddepcontrol_wait()
            for number in cutlass.range(first, count, clusters, unroll=1):
                row, column = tile_of(number, tiles, how)
                from_a = tAgA[None, row * ctas_m + rank_m, None]
                from_b = tBgB[None, column * ctas_n + rank_n, None]
                for k in cutlass.range(k_tiles, unroll=1):
                    stage, turn = at % stages, at // stages
                    cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive_and_expect_tx(
                            full + stage, (how.tile[0] + how.tile[1]) * how.tile[2]
                        )
                    cute.copy(tma_a, from_a[None, k], tAsA[None, stage], tma_bar_ptr=full + stage, **to_a)
                    cute.copy(tma_b, from_b[None, k], tBsB[None, stage], tma_bar_ptr=full + stage, **to_b)
                    at += 1
        if cutlass.const_expr(scaled):
            if (
                warp == 1
            ):  # it brings the scales into the same stages; each lane's arrive waits for its copies
                cute.arch.griddepcontrol_wait()
                for number in cutlass.range(first, count, clusters, unroll=1):
                    row, column = tile_of(number, tiles, how)
                    row = (row * ctas_m + rank_m) * how.tile[0]
                    column = (column * ctas_n + rank_n) * how.tile[1]
                    for k in cutlass.range(k_tiles, unroll=1):
                        stage, turn = at % stages, at // stages
                        cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
                        load_scales(
                            sScales[None, stage],
                            mSA,
                            mSB,
                            row,
                            column,
                            k,
                            tid % 32,
                            how,
                        )
                        cute.arch.cp_async_mbarrier_arrive_noinc(full + stage)
                        at += 1
    else:
        cute.arch.setmaxregister_increase(CONSUMER_REGISTERS)
        tiled_mma = make_mma(how.tile[1])
        thr_mma = tiled_mma.get_slice(0)
        mine = cute.local_tile(sA, (how.rows, how.tile[2], stages), (consumer, 0, 0))
        # A fragment of A or B is a shared-memory descriptor; the fragment of C is registers.
        tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(mine))  # (1, 1, 4, stages)
        tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
        total = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C((how.rows, how.tile[1])))

        # The sums, rounded, in pieces of some columns; an instruction gives columns in blocks of 8.
        pieces, blocks = how.tile[1] // how.piece, how.piece // 8
        rounded = cute.make_fragment_like(total, cutlass.BFloat16)
        in_pieces = cute.make_tensor(
            rounded.iterator,
            cute.make_layout(
                ((2, 2, blocks), how.rows // 64, pieces), stride=((1, 2, 4), 4 * blocks * pieces, 4 * blocks)
            ),
        )
        piece_mma = make_piece_mma(how.piece)
        tCrC = cute.make_rmem_tensor(piece_mma.partition_shape_C((how.rows, how.piece)), cutlass.BFloat16)
        stmatrix = StMatrix8x8x16bOp(transpose=False, num_matrices=4 if blocks % 2 == 0 else 2)
        stmatrix = cute.make_copy_atom(stmatrix, cutlass.BFloat16)
        thr_store = cute.make_tiled_copy_C(stmatrix, piece_mma).get_slice(tid % A_WARPGROUP)
        tCsC, tCgC = cpasync.tma_partition(
            tma_c, 0, cute.make_layout(1), cute.group_modes(sC, 0, 2), cute.group_modes(gC, 0, 2)
        )
        to_c = tma_c, stmatrix, thr_store.retile(tCrC), thr_store.partition_D(sC), tCsC, tCgC, consumer

        # Who loads what I read: the CTAs with my rows, me among them, then the others with my columns.
        loaders = [rank_m + ctas_m * other for other in range(ctas_n)]
        loaders += [(rank_m + other) % ctas_m + ctas_m * rank_n for other in range(1, ctas_m)]
        my_row = consumer * how.rows + tid % A_WARPGROUP // 32 * 16 + tid % 32 // 4  # and 8 rows further
        cute.arch.griddepcontrol_wait()

        if cutlass.const_expr(how.sums == "plain"):
            k_tile = tiled_mma, total, tCrA, tCrB, full, empty
            shadow = min(pieces, k_tiles)  # in that of these k-tiles the tile before is stored
            row, column = cutlass.Int32(0), cutlass.Int32(0)
            for number in cutlass.range(first, count, clusters, unroll=1):
                for k in cutlass.range_constexpr(shadow):
                    multiply(*k_tile, at, loaders, k == 0)
                    at += 1
                    if number > first:
                        for piece in cutlass.range_constexpr(k, pieces if k == shadow - 1 else k + 1):
                            tCrC.store(in_pieces[None, None, piece].load())
                            store(*to_c, cutlass.Int32(piece), (row, column + piece), how)
                for _ in cutlass.range(shadow, k_tiles, unroll=1):
                    multiply(*k_tile, at, loaders, False)
                    at += 1
                warpgroup.wait_group(0)
                free(empty + (at - 1) % stages, loaders)
                rounded.store(total.load().to(cutlass.BFloat16))
                row, column = tile_of(number, tiles, how)
                row = (row * ctas_m + rank_m) * CONSUMERS + consumer
                column = (column * ctas_n + rank_n) * pieces
            if first < count:
                for piece in cutlass.range_constexpr(pieces):
                    tCrC.store(in_pieces[None, None, piece].load())
                    store(*to_c, cutlass.Int32(piece), (row, column + piece), how)
        else:
            # The tensor core has 64 rows at a time, and registers for those; the totals are of all rows.
            parts, under = how.rows // 64, blocks_under(how.tile[1])
            acc = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C((64, how.tile[1])))
            of_parts = [
                cute.local_tile(sA, (64, how.tile[2], stages), (consumer * parts + part, 0, 0))
                for part in range(parts)
            ]
            of_parts = [tiled_mma.make_fragment_A(thr_mma.partition_A(rows)) for rows in of_parts]
            scales = cute.make_rmem_tensor(2 * parts + under, cutlass.Float32)
            # My scales' place, counted by itself: if the lanes' addresses came from `stage`, the compiler
            # would keep that in a register of each lane, and the descriptors too.
            mine = my_row
            if cutlass.const_expr(how.turns):
                if consumer == 1:
                    cute.arch.barrier_arrive(barrier_id=TURN, number_of_threads=256)  # the other one begins
            for number in cutlass.range(first, count, clusters, unroll=1):
                row, column = tile_of(number, tiles, how)
                row, column = row * ctas_m + rank_m, column * ctas_n + rank_n
                total.fill(0.0)
                ready = cute.arch.mbarrier_try_wait(full + at % stages, at // stages % 2)
                for k in cutlass.range(k_tiles, unroll=how.unroll):
                    stage, turn = at % stages, at // stages
                    if not ready:
                        cute.arch.mbarrier_wait(full + stage, turn % 2)
                    for part in cutlass.range_constexpr(parts):
                        if cutlass.const_expr(how.turns):
                            cute.arch.barrier(barrier_id=TURN + consumer, number_of_threads=256)
                        warpgroup.fence()
                        tiled_mma.set(warpgroup.Field.ACCUMULATE, False)
                        for block in cutlass.range_constexpr(how.tile[2] // 32):
                            now = (None, None, block, stage)
                            cute.gemm(tiled_mma, acc, of_parts[part][now], tCrB[now], acc)
                            tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
                        warpgroup.commit_group()
                        if cutlass.const_expr(how.turns):
                            cute.arch.barrier_arrive(barrier_id=TURN + 1 - consumer, number_of_threads=256)
                        if cutlass.const_expr(scaled and part == 0):
                            for r in cutlass.range_constexpr(2 * parts):
                                scales[r] = sScales[mine + 64 * (r // 2) + 8 * (r % 2), 0]
                            for block in cutlass.range_constexpr(under):
                                scales[2 * parts + block] = sScales[how.tile[0] + block, stage]
                            with cute.arch.elect_one():
                                cute.arch.mbarrier_arrive(empty + stage)  # my warp has read its scales
                        warpgroup.wait_group(0)
                        if cutlass.const_expr(part == parts - 1):
                            free(empty + stage, loaders)
                            at += 1
                            if k < k_tiles - 1:  # ask early, so that the next MMAs do not wait for the answer
                                ready = cute.arch.mbarrier_try_wait(full + at % stages, at // stages % 2)
                        promote(total, acc, scales, column * how.tile[1], part, how)
                    mine += how.scales
                    if mine >= stages * how.scales:
                        mine -= stages * how.scales
                rounded.store(total.load().to(cutlass.BFloat16))
                row, column = row * CONSUMERS + consumer, column * pieces
                for piece in cutlass.range_constexpr(pieces):
                    tCrC.store(in_pieces[None, None, piece].load())
                    store(*to_c, cutlass.Int32(piece), (row, column + piece), how)
        if warp % 4 == 0:
            with cute.arch.elect_one():
                cute.arch.cp_async_bulk_wait_group(0, read=True)
    # Nobody leaves while its shared memory may still be written to, or its barriers arrived at.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


def host_for(*chosen):
    """The host function for one choice: the fields of `Fp8Choice`."""
    how = Fp8Choice(*chosen)

    @cute.jit
    def launch(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, mSA: cute.Tensor, mSB: cute.Tensor):
        swizzle = cute.make_swizzle(3, 4, 3)  # rows of 128 bytes, as TMA and wgmma swizzle them
        swizzle_c = cute.make_swizzle({64: 3, 32: 2, 16: 1}.get(how.piece, 0), 4, 3)
        layout_a = cute.make_ordered_layout((how.tile[0], how.tile[2], how.stages), order=(1, 0, 2))
        layout_b = cute.make_ordered_layout((how.tile[1], how.tile[2], how.stages), order=(1, 0, 2))
        layout_c = cute.make_ordered_layout((how.rows, how.piece, CONSUMERS * how.buffers), order=(1, 0, 2))
        layout_a = cute.make_composed_layout(swizzle, 0, layout_a)
        layout_b = cute.make_composed_layout(swizzle, 0, layout_b)
        layout_c = cute.make_composed_layout(swizzle_c, 0, layout_c)
        load, share = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileG2SMulticastOp()
        tma_a, tensor_a = cpasync.make_tiled_tma_atom(
            share if how.cluster[1] > 1 else load, mA, layout_a, (how.tile[0], how.tile[2]), how.cluster[1]
        )
        tma_b, tensor_b = cpasync.make_tiled_tma_atom(
            share if how.cluster[0] > 1 else load, mB, layout_b, (how.tile[1], how.tile[2]), how.cluster[0]
        )
        one = cute.select(layout_c, mode=[0, 1])
        leave = cpasync.CopyBulkTensorTileS2GOp()
        tma_c, tensor_c = cpasync.make_tiled_tma_atom(leave, mC, one, (how.rows, how.piece))
        of_cluster = how.tile[0] * how.cluster[0], how.tile[1] * how.cluster[1]
        tiles = cute.ceil_div(mC.shape, of_cluster)
        ctas = min(SMS // how.ctas, tiles[0] * tiles[1]) * how.ctas
        maps = tma_a, tensor_a, tma_b, tensor_b, tma_c, tensor_c
        fp8_gemm(*maps, mSA, mSB, layout_a, layout_b, layout_c, tiles, how).launch(
            grid=(ctas, 1, 1),
            block=(THREADS, 1, 1),
            cluster=(how.ctas, 1, 1),
            min_blocks_per_mp=1,
            use_pdl=True,  # programmatic dependent launch
        )

    if how.sums == "scaled":
        return launch

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
        launch(mA, mB, mC, None, None)

    return host
