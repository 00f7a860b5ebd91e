"""`fp8_gemm` with scales again, with an option for each thing that DeepGEMM does differently.

C = A * B^T, row-major A (M, K) and B (N, K) of e4m3, C (M, N) in bf16. `scale_a` (M, K / 128) has contiguous
rows of A, `scale_b` (N / 128, K / 128) is row-major.
"""

from math import gcd

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.nvgpu.warp import StMatrix8x8x16bOp
from cutlass.memory import SmemAllocator

from benchmarks.fp8_variants import A_WARPGROUP, How
from cutecourse.kernels.fp8.fp8_gemm.source import (
    BLOCK,
    blocks_under,
    load_scales,
    make_mma,
    make_piece_mma,
)
from cutecourse.kernels.hopper.hopper_last.source import free, store, tile_of

REGISTERS = {2: (24, 240), 3: (24, 160)}  # by `consumers`: of a thread that loads, and of one that multiplies


@cute.jit
def promote(
    total: cute.Tensor,
    acc: cute.Tensor,
    scales: cute.Tensor,
    column: cutlass.Int32,
    part: cutlass.Constexpr,
    how: cutlass.Constexpr,
):
    """Add the tensor core's sums of 64 rows to the totals, as `fp8_gemm` does."""
    within, group = column % BLOCK, gcd(how.tile[1], BLOCK)
    for r in cutlass.range_constexpr(2):
        of_blocks = [scales[r] * scales[2 + block] for block in range(blocks_under(how.tile[1]))]
        for first in cutlass.range_constexpr(0, how.tile[1], group):
            scale, after = of_blocks[first // BLOCK], (first + BLOCK - group) // BLOCK
            if cutlass.const_expr(after > first // BLOCK):
                scale = of_blocks[after] if within + first >= after * BLOCK else scale
            for eight in cutlass.range_constexpr(first // 8, (first + group) // 8):
                for c in cutlass.range_constexpr(2):
                    at = (c, r, eight), part, 0
                    total[at] = total[at] + acc[(c, r, eight), 0, 0] * scale


@cute.jit
def k_of(step: cutlass.Int32, k_tiles: cutlass.Constexpr, back: cutlass.Boolean, how: cutlass.Constexpr):
    """The k-tile of a step."""
    k = step
    if cutlass.const_expr(how.backwards):
        k = k_tiles - 1 - step if back else step
    return k


@cute.jit
def free_stage(barrier: cute.Pointer, loaders: list, how: cutlass.Constexpr):
    """My warpgroup has read a stage: one of its warps says so, or with `each` every warp for itself."""
    if cutlass.const_expr(how.each):
        with cute.arch.elect_one():
            for cta in cutlass.range_constexpr(len(loaders)):
                cute.arch.mbarrier_arrive(barrier, loaders[cta])
    else:
        free(barrier, loaders)


@cute.jit
def begin(
    acc: cute.Tensor,
    scales: cute.Tensor,
    rows: cute.Tensor,
    columns: cute.Tensor,
    sScales: cute.Tensor,
    kept: cute.Tensor,
    empty: cute.Pointer,
    stage: cutlass.Uint32,
    place: cutlass.Int32,
    k: cutlass.Int32,
    part: cutlass.Constexpr,
    how: cutlass.Constexpr,
):
    """Issue the MMAs of 64 rows of a k-tile, and read the scales that their sums will need."""
    if cutlass.const_expr(how.read_first):
        read_scales(scales, sScales, kept, stage, place, k, part, how)
    tiled_mma = make_mma(how.tile[1])  # its own: a setting made in a loop is not known behind it
    warpgroup.fence()
    tiled_mma.set(warpgroup.Field.ACCUMULATE, False)
    for block in cutlass.range_constexpr(cute.size(rows, mode=[2])):
        now = (None, None, block, stage)
        cute.gemm(tiled_mma, acc, rows[now], columns[now], acc)
        tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
    warpgroup.commit_group()
    if cutlass.const_expr(not how.read_first):
        read_scales(scales, sScales, kept, stage, place, k, part, how)
    if cutlass.const_expr(part == how.rows // 64 - 1 and not how.each):
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive(empty + stage)  # my warp has read its scales


@cute.jit
def read_scales(
    scales: cute.Tensor,
    sScales: cute.Tensor,
    kept: cute.Tensor,
    stage: cutlass.Uint32,
    place: cutlass.Int32,
    k: cutlass.Int32,
    part: cutlass.Constexpr,
    how: cutlass.Constexpr,
):
    """A thread reads the scales of its two rows of a part, and of the blocks under the tile."""
    for r in cutlass.range_constexpr(2):
        scales[r] = sScales[place + 64 * part + 8 * r, 0]
    for block in cutlass.range_constexpr(blocks_under(how.tile[1])):
        if cutlass.const_expr(how.by_tma):
            scales[2 + block] = kept[block, k]
        else:
            scales[2 + block] = sScales[how.tile[0] + block, stage]


@cute.kernel
def fp8_variant(
    tma_a: cute.CopyAtom,
    mA: cute.Tensor,
    tma_b: cute.CopyAtom,
    mB: cute.Tensor,
    tma_c: cute.CopyAtom,
    mC: cute.Tensor,
    tma_s: cute.CopyAtom,
    mSA: cute.Tensor,
    mSB: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    layout_c: cute.ComposedLayout,
    tiles: cutlass.Constexpr,
    how: cutlass.Constexpr,
):
    """One warp loads, or two; the other warpgroups multiply and add."""
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    consumer = warp // 4 - 1  # -1: the warpgroup that loads
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    ctas_m, ctas_n = how.cluster
    rank_m, rank_n = rank % ctas_m, rank // ctas_m
    stages = how.stages
    parts, under = how.rows // 64, blocks_under(how.tile[1])
    gA = cute.local_tile(mA, (how.tile[0], how.tile[2]), (None, None))  # (rows, 128, along M, k-tiles)
    gB = cute.local_tile(mB, (how.tile[1], how.tile[2]), (None, None))
    gC = cute.local_tile(mC, (how.rows, how.piece), (None, None))
    k_tiles = cute.size(gA, mode=[3])
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float8E4M3FN, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float8E4M3FN, layout_b.outer, 1024, swizzle=layout_b.inner)
    sC = smem.allocate_tensor(cutlass.BFloat16, layout_c.outer, 1024, swizzle=layout_c.inner)
    sScales = smem.allocate_tensor(cutlass.Float32, cute.make_layout((how.scales, stages)), 128)
    of_b = cute.make_layout((under, k_tiles, how.consumers))
    sKept = smem.allocate_tensor(cutlass.Float32, of_b, 16) if how.by_tma else None
    full = smem.allocate_array(cutlass.Int64, stages)
    empty = smem.allocate_array(cutlass.Int64, stages)

    # Who reads what a CTA loads: itself, the CTAs with the same rows, and those with the same columns.
    readers = ctas_m + ctas_n - 1
    if warp == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(stages):
                cute.arch.mbarrier_init(full + stage, 1 + (0 if how.by_tma else 32))
                cute.arch.mbarrier_init(
                    empty + stage, (readers * 4 if how.each else readers + 4) * how.consumers
                )
        cute.arch.mbarrier_init_fence()
    if warp == 4:
        for tensor_map in (tma_a, tma_b, tma_c):
            cpasync.prefetch_descriptor(tensor_map)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    cute.arch.griddepcontrol_launch_dependents()  # a programmatic launch, as in `hopper_last`

    # The clusters take turns: each begins with the tile of its own number, then skips as many as there are.
    first, clusters = cute.arch.block_idx()[0] // how.ctas, cute.arch.grid_dim()[0] // how.ctas
    count = tiles[0] * tiles[1]
    at = cutlass.Uint32(0)  # the k-tiles of all tiles, counted on: which stage, and which of its turns

    if consumer < 0:
        cute.arch.setmaxregister_decrease(REGISTERS[how.consumers][0])
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
            if cutlass.const_expr(how.by_tma):
                gS = cute.local_tile(mSA, (how.tile[0], 1), (None, None))
                one_column = cute.make_layout((how.tile[0], 1, stages))
                tSsS, tSgS = cpasync.tma_partition(
                    tma_s,
                    0,
                    cute.make_layout(1),
                    cute.group_modes(cute.make_tensor(sScales.iterator, one_column), 0, 2),
                    cute.group_modes(gS, 0, 2),
                )
            same_row = sum(1 << ctas_m * other for other in range(ctas_n))  # of rank 0
            same_column = (1 << ctas_m) - 1
            to_a, to_b = {}, {}
            if cutlass.const_expr(ctas_n > 1):
                to_a["mcast_mask"] = (cutlass.Int32(same_row) << rank_m).to(cutlass.Int16)
            if cutlass.const_expr(ctas_m > 1):
                to_b["mcast_mask"] = (cutlass.Int32(same_column) << ctas_m * rank_n).to(cutlass.Int16)
            expected = (how.tile[0] + how.tile[1]) * how.tile[2] + (4 * how.tile[0] if how.by_tma else 0)
            cute.arch.griddepcontrol_wait()
            for number in cutlass.range(first, count, clusters, unroll=1):
                row, column = tile_of(number, tiles, how)
                from_a = tAgA[None, row * ctas_m + rank_m, None]
                from_b = tBgB[None, column * ctas_n + rank_n, None]
                back = cutlass.Boolean(False)
                if cutlass.const_expr(how.backwards):
                    back = at // k_tiles % 2 == 1
                for step in cutlass.range(k_tiles, unroll=1):
                    k = k_tiles - 1 - step if back else step
                    stage, turn = at % stages, at // stages
                    cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive_and_expect_tx(full + stage, expected)
                    cute.copy(tma_a, from_a[None, k], tAsA[None, stage], tma_bar_ptr=full + stage, **to_a)
                    cute.copy(tma_b, from_b[None, k], tBsB[None, stage], tma_bar_ptr=full + stage, **to_b)
                    if cutlass.const_expr(how.by_tma):
                        from_s = tSgS[None, row * ctas_m + rank_m, k]
                        cute.copy(tma_s, from_s, tSsS[None, stage], tma_bar_ptr=full + stage)
                    at += 1
        if cutlass.const_expr(not how.by_tma):
            if warp == 1:
                cute.arch.griddepcontrol_wait()
                for number in cutlass.range(first, count, clusters, unroll=1):
                    row, column = tile_of(number, tiles, how)
                    row = (row * ctas_m + rank_m) * how.tile[0]
                    column = (column * ctas_n + rank_n) * how.tile[1]
                    back = cutlass.Boolean(False)
                    if cutlass.const_expr(how.backwards):
                        back = at // k_tiles % 2 == 1
                    for step in cutlass.range(k_tiles, unroll=1):
                        k = k_tiles - 1 - step if back else step
                        stage, turn = at % stages, at // stages
                        cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
                        load_scales(sScales[None, stage], mSA, mSB, row, column, k, tid % 32, how)
                        cute.arch.cp_async_mbarrier_arrive_noinc(full + stage)
                        at += 1
    else:
        cute.arch.setmaxregister_increase(REGISTERS[how.consumers][1])
        tiled_mma = make_mma(how.tile[1])
        thr_mma = tiled_mma.get_slice(0)
        tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
        total = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C((how.rows, how.tile[1])))

        # The sums, rounded, in pieces of some columns; an instruction gives columns in blocks of 8.
        pieces, blocks = how.tile[1] // how.piece, how.piece // 8
        rounded = cute.make_fragment_like(total, cutlass.BFloat16)
        in_pieces = cute.make_tensor(
            rounded.iterator,
            cute.make_layout(
                ((2, 2, blocks), parts, pieces), stride=((1, 2, 4), 4 * blocks * pieces, 4 * blocks)
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
        mine = consumer * how.rows + tid % A_WARPGROUP // 32 * 16 + tid % 32 // 4  # and 8 rows further
        sums = [
            tiled_mma.make_fragment_C(tiled_mma.partition_shape_C((64, how.tile[1])))
            for _ in range(2 if how.pending else 1)
        ]
        of_parts = [
            cute.local_tile(sA, (64, how.tile[2], stages), (consumer * parts + part, 0, 0))
            for part in range(parts)
        ]
        of_parts = [tiled_mma.make_fragment_A(thr_mma.partition_A(rows)) for rows in of_parts]
        scales = [cute.make_rmem_tensor(2 + under, cutlass.Float32) for _ in range(2 if how.pending else 1)]
        kept = sKept[None, None, consumer] if how.by_tma else None
        stage, parity, place = cutlass.Uint32(0), cutlass.Uint32(0), mine
        cute.arch.griddepcontrol_wait()
        for number in cutlass.range(first, count, clusters, unroll=1):
            row, column = tile_of(number, tiles, how)
            row, column = row * ctas_m + rank_m, column * ctas_n + rank_n
            back = cutlass.Boolean(False)
            if cutlass.const_expr(how.backwards):
                back = at // k_tiles % 2 == 1
            if cutlass.const_expr(how.by_tma):
                # My warpgroup has read the scales of the tile before: it met when it stored that tile.
                for one in cutlass.range(tid % A_WARPGROUP, under * k_tiles, A_WARPGROUP, unroll=1):
                    block, k = one % under, one // under
                    block_n = cutlass.min(column * how.tile[1] // BLOCK + block, mSB.shape[0] - 1)
                    source = mSB.iterator + cute.crd2idx((block_n, k), mSB.layout)
                    kept[block, k] = cute.make_tensor(source, cute.make_layout(1))[0]
                cute.arch.barrier(barrier_id=1 + consumer, number_of_threads=A_WARPGROUP)
            total.fill(0.0)
            b_at = column * how.tile[1]
            shared = sScales, kept, empty
            if cutlass.const_expr(how.pending):
                # With two parts each has its sum; with one, the k-tiles take turns. No MMA is in flight where
                # the loop begins again: ptxas would wait for every one.
                steps = 8 * parts
                for turn in cutlass.range(k_tiles // 8, unroll=1):
                    for step in cutlass.range_constexpr(steps + 1):
                        if cutlass.const_expr(step < steps):
                            part, now = step % parts, at + step // parts
                            cute.arch.mbarrier_wait(full + now % stages, now // stages % 2)
                            begin(
                                sums[step % 2],
                                scales[step % 2],
                                of_parts[part],
                                tCrB,
                                *shared,
                                now % stages,
                                mine + now % stages * how.scales,
                                k_of(turn * 8 + step // parts, k_tiles, back, how),
                                part,
                                how,
                            )
                        if cutlass.const_expr(step > 0):
                            part, now = (step - 1) % parts, at + (step - 1) // parts
                            warpgroup.wait_group(1 if step < steps else 0)
                            if cutlass.const_expr(part == parts - 1):
                                free_stage(empty + now % stages, loaders, how)
                            promote(total, sums[(step - 1) % 2], scales[(step - 1) % 2], b_at, part, how)
                    at += 8
            elif cutlass.const_expr(how.fixed):
                for turn in cutlass.range(k_tiles // stages, unroll=1):
                    ready = cute.arch.mbarrier_try_wait(full, parity)
                    for now in cutlass.range_constexpr(stages):
                        k = k_of(turn * stages + now, k_tiles, back, how)
                        if not ready:
                            cute.arch.mbarrier_wait(full + now, parity)
                        for part in cutlass.range_constexpr(parts):
                            begin(
                                sums[0],
                                scales[0],
                                of_parts[part],
                                tCrB,
                                *shared,
                                now,
                                mine + now * how.scales,
                                k,
                                part,
                                how,
                            )
                            warpgroup.wait_group(0)
                            if cutlass.const_expr(part == parts - 1):
                                free_stage(empty + now, loaders, how)
                                if cutlass.const_expr(now < stages - 1):
                                    ready = cute.arch.mbarrier_try_wait(full + now + 1, parity)
                            promote(total, sums[0], scales[0], b_at, part, how)
                    parity ^= 1
                at += k_tiles
            else:
                if cutlass.const_expr(not how.counted):
                    stage, parity = at % stages, at // stages % 2
                ready = cute.arch.mbarrier_try_wait(full + stage, parity)
                for step in cutlass.range(k_tiles, unroll=how.unroll):
                    k = k_of(step, k_tiles, back, how)
                    if cutlass.const_expr(not how.counted):
                        stage, parity = at % stages, at // stages % 2
                    if not ready:
                        cute.arch.mbarrier_wait(full + stage, parity)
                    for part in cutlass.range_constexpr(parts):
                        begin(
                            sums[0],
                            scales[0],
                            of_parts[part],
                            tCrB,
                            *shared,
                            stage,
                            place,
                            k,
                            part,
                            how,
                        )
                        warpgroup.wait_group(0)
                        if cutlass.const_expr(part == parts - 1):
                            free_stage(empty + stage, loaders, how)
                            at += 1
                            if cutlass.const_expr(how.counted):
                                stage += 1
                                if stage == stages:
                                    stage = cutlass.Uint32(0)
                                    parity ^= 1
                            else:
                                stage, parity = at % stages, at // stages % 2
                            if step < k_tiles - 1:  # ask early, so that the next MMAs do not wait
                                ready = cute.arch.mbarrier_try_wait(full + stage, parity)
                        promote(total, sums[0], scales[0], b_at, part, how)
                    place += how.scales
                    if place >= stages * how.scales:
                        place -= stages * how.scales
            rounded.store(total.load().to(cutlass.BFloat16))
            row, column = row * how.consumers + consumer, column * pieces
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
    """The host function for these options: the fields of `How`."""
    how = How(*chosen)

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, mSA: cute.Tensor, mSB: cute.Tensor):
        swizzle = cute.make_swizzle(3, 4, 3)  # rows of 128 bytes, as TMA and wgmma swizzle them
        swizzle_c = cute.make_swizzle({64: 3, 32: 2, 16: 1}.get(how.piece, 0), 4, 3)
        layout_a = cute.make_ordered_layout((how.tile[0], how.tile[2], how.stages), order=(1, 0, 2))
        layout_b = cute.make_ordered_layout((how.tile[1], how.tile[2], how.stages), order=(1, 0, 2))
        buffers = how.consumers * how.buffers
        layout_c = cute.make_ordered_layout((how.rows, how.piece, buffers), order=(1, 0, 2))
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
        tma_s, tensor_s = None, mSA
        if cutlass.const_expr(how.by_tma):
            column = cute.make_layout((how.tile[0], 1))
            tma_s, tensor_s = cpasync.make_tiled_tma_atom(load, mSA, column, (how.tile[0], 1))
        of_cluster = how.tile[0] * how.cluster[0], how.tile[1] * how.cluster[1]
        tiles = cute.ceil_div(mC.shape, of_cluster)
        ctas = min(how.sms // how.ctas, tiles[0] * tiles[1]) * how.ctas
        maps = tma_a, tensor_a, tma_b, tensor_b, tma_c, tensor_c, tma_s, tensor_s
        fp8_variant(*maps, mSB, layout_a, layout_b, layout_c, tiles, how).launch(
            grid=(ctas, 1, 1),
            block=(how.threads, 1, 1),
            cluster=(how.ctas, 1, 1),
            min_blocks_per_mp=1,
            use_pdl=True,  # programmatic dependent launch
        )

    return host
