"""Attention with less work for each logit: one multiply-add before its power, and a maximum that may be late.

The logits are scaled by log2(e) / sqrt(D) in the multiply-add that subtracts the maximum, and the power is
one of 2. A row's maximum stays until it is too small by a factor of 2 ** 8, so O is hardly ever rescaled.
"""

from typing import NamedTuple

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.nvgpu.warp import StMatrix8x8x16bOp
from cutlass.memory import SmemAllocator

SHAPE = (200, 1, 1)  # the sequence's length, heads, batches
D = 128
CONSUMERS = 2  # warpgroups
ROWS = 64  # of Q, for each
THREADS = 128 * (1 + CONSUMERS)
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 24, 240  # 168 each at first: 24 + 2 * 240 = 3 * 168
TURN, STORED = 1, 1 + CONSUMERS  # the first named barriers of the turns and of the stores
SCALE = 1.4426950408889634 * D**-0.5  # exp(x / sqrt(D)) = 2 ** (SCALE * x)
LATE = 8.0 / SCALE  # the maximum that a row uses may be too small by this: its powers then reach 2 ** 8
MASKED = -1e30  # finite: where a whole tile is masked, the next one scales what came of it to zero


class How(NamedTuple):
    """What is chosen for a size.

    causal  a row sees the keys up to its own.
    keys    of a tile of K and V.
    stages  of shared memory, for such tiles.
    """

    causal: bool
    keys: int
    stages: int


def mma_of_s(keys):
    """S = Q K^T for 64 rows: both from shared memory."""
    return make_mma(keys, warpgroup.OperandSource.SMEM, OperandMajorMode.K)


def mma_of_o():
    """O = P V for 64 rows: P from registers. V's rows lie along K, so operand B is MN-major."""
    return make_mma(D, warpgroup.OperandSource.RMEM, OperandMajorMode.MN)


def make_mma(columns, source, major):
    """One warpgroup's MMA: 64 rows and these columns."""
    return cute.make_tiled_mma(
        warpgroup.MmaF16BF16Op(
            cutlass.BFloat16, cutlass.Float32, (64, columns, 16), source, OperandMajorMode.K, major
        )
    )


@cute.jit
def tiles_of(block: cutlass.Int32, length: cutlass.Constexpr, how: cutlass.Constexpr):
    """How many tiles of keys a block of rows sees."""
    seen = cutlass.Int32(length)
    if cutlass.const_expr(how.causal):
        seen = cutlass.min(seen, (block + 1) * CONSUMERS * ROWS)
    return (seen + how.keys - 1) // how.keys


@cute.jit
def arrive(barrier: cute.Pointer):
    """A thread of the warpgroup tells the warp that loads that the warpgroup has read what it waited for."""
    if cute.arch.make_warp_uniform(cute.arch.warp_idx()) % 4 == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive(barrier)


@cute.jit
def wait_for(full: cute.Pointer, at: cutlass.Int32, stages: cutlass.Constexpr):
    """Wait until the ring's tile number `at` is here."""
    cute.arch.mbarrier_wait(full + at % stages, at // stages % 2)


@cute.jit
def begin_s(S: cute.Tensor, tQ: cute.Tensor, tK: cute.Tensor, stage: cutlass.Int32):
    """Issue S = Q K^T."""
    mma = mma_of_s(cute.size(S) * 128 // ROWS)
    warpgroup.fence()
    mma.set(warpgroup.Field.ACCUMULATE, False)
    for block in cutlass.range_constexpr(cute.size(tQ, mode=[2])):
        cute.gemm(mma, S, tQ[None, None, block], tK[None, None, block, stage], S)
        mma.set(warpgroup.Field.ACCUMULATE, True)
    warpgroup.commit_group()


@cute.jit
def begin_o(O: cute.Tensor, P: cute.Tensor, tV: cute.Tensor, stage: cutlass.Int32):
    """Issue O += P V."""
    mma = mma_of_o()
    warpgroup.fence()
    mma.set(warpgroup.Field.ACCUMULATE, True)
    for block in cutlass.range_constexpr(cute.size(P, mode=[2])):
        cute.gemm(mma, O, P[None, None, block], tV[None, None, block, stage], O)
    warpgroup.commit_group()


@cute.jit
def mask(
    S: cute.Tensor,
    row: cutlass.Int32,
    first_key: cutlass.Int32,
    length: cutlass.Constexpr,
    causal: cutlass.Constexpr,
):
    """Overwrite the logits of the keys that a row does not see. A thread has rows `row` and `row` + 8."""
    for half in cutlass.range_constexpr(2):
        seen = cutlass.Int32(length)
        if cutlass.const_expr(causal):
            seen = cutlass.min(seen, row + 8 * half + 1)
        seen = seen - first_key - cute.arch.lane_idx() % 4 * 2
        for block in cutlass.range_constexpr(cute.size(S) // 4):
            for one in cutlass.range_constexpr(2):
                at = one + 2 * half + 4 * block
                S[at] = S[at] if seen > 8 * block + one else cutlass.Float32(MASKED)


@cute.jit
def softmax(
    S: cute.Tensor, top: cute.Tensor, total: cute.Tensor, scale: cute.Tensor, first: cutlass.Constexpr
):
    """Turn logits into powers; update each row's maximum and this thread's part of its sum.

    `scale` is what the row's O must be scaled by. A maximum that has grown by less than LATE stays, and the
    scale is 1. Four numbers are kept for each maximum and each sum, so that no operation waits for the last.
    """
    for half in cutlass.range_constexpr(2):
        mine = [one + 2 * half + 4 * block for block in range(cute.size(S) // 4) for one in range(2)]
        tops = [S[at] for at in mine[:4]]
        for turn in cutlass.range_constexpr(4, len(mine)):
            tops[turn % 4] = cute.arch.fmax(tops[turn % 4], S[mine[turn]])
        new = tops[0]
        for turn in cutlass.range_constexpr(1, 4):
            new = cute.arch.fmax(new, tops[turn])
        if cutlass.const_expr(not first):
            new = cute.arch.fmax(new, top[half])
        new = cute.arch.fmax(new, cute.arch.shuffle_sync_bfly(new, offset=1))  # four lanes share a row
        new = cute.arch.fmax(new, cute.arch.shuffle_sync_bfly(new, offset=2))
        if cutlass.const_expr(not first):
            new = new if new - top[half] > LATE else top[half]
            scale[half] = cute.math.exp2((top[half] - new) * SCALE, fastmath=True)
        top[half] = new
        below = new * SCALE
        sums = [None] * 4
        for turn in cutlass.range_constexpr(len(mine)):
            power = cute.math.exp2(S[mine[turn]] * SCALE - below, fastmath=True)
            S[mine[turn]] = power
            sums[turn % 4] = power if turn < 4 else sums[turn % 4] + power
        for turn in cutlass.range_constexpr(1, 4):
            sums[0] = sums[0] + sums[turn]
        total[half] = sums[0] if first else total[half] * scale[half] + sums[0]


@cute.jit
def scale_rows(O: cute.Tensor, scale: cute.Tensor):
    """Multiply both rows of a thread by their scales."""
    for block in cutlass.range_constexpr(cute.size(O) // 4):
        for at in cutlass.range_constexpr(4 * block, 4 * block + 4):
            O[at] = O[at] * scale[at // 2 % 2]


@cute.jit
def round_to(P: cute.Tensor, S: cute.Tensor):
    """P = S in bf16: what a thread holds of C of one wgmma is what it must hold of A of the next.

    Written as PTX, since the compiler moves a conversion that it knows past the MMAs of the next tile, and
    the registers for both do not exist.
    """
    pairs = cute.recast_tensor(P, cutlass.Int32)
    for at in cutlass.range_constexpr(cute.size(pairs)):
        pairs[at] = cute.arch.inline_ptx(
            "cvt.rn.bf16x2.f32 {$w0}, {$r0}, {$r1};",
            write_only_types=[cutlass.Int32],
            read_only_args=[S[2 * at + 1], S[2 * at]],
        )


@cute.jit
def one_tile(
    at: cutlass.Int32,
    key: cutlass.Int32,
    row: cutlass.Int32,
    S: cute.Tensor,
    P: cute.Tensor,
    O: cute.Tensor,
    tQ: cute.Tensor,
    tK: cute.Tensor,
    tV: cute.Tensor,
    rows: tuple,
    full: cute.Pointer,
    empty: cute.Pointer,
    consumer: cutlass.Int32,
    length: cutlass.Constexpr,
    masked: cutlass.Constexpr,
    how: cutlass.Constexpr,
):
    """S and softmax of a tile, and O of the one before. The ring has K at `at`, which is here, then V."""
    top, total, scale = rows
    stages = how.stages
    cute.arch.barrier(barrier_id=TURN + consumer, number_of_threads=256)  # my turn with the tensor cores
    begin_s(S, tQ, tK, at % stages)
    wait_for(full, at + 1, stages)
    begin_o(O, P, tV, (at + 1) % stages)
    cute.arch.barrier_arrive(barrier_id=TURN + 1 - consumer, number_of_threads=256)
    warpgroup.wait_group(1)
    arrive(empty + at % stages)
    if cutlass.const_expr(masked):
        mask(S, row, key * how.keys, length, how.causal)
    softmax(S, top, total, scale, False)
    # The sums are never negative. But so they are needed here, ptxas adds between the powers and not after
    # the wait; and the next tile is awaited here, since a loop keeps ptxas from moving the wait for O up.
    grown = cute.arch.vote_any_sync(cutlass.min(scale[0], scale[1]) < 1.0 or total[0] + total[1] < 0.0)
    wait_for(full, at + 2, stages)
    warpgroup.wait_group(0)
    arrive(empty + (at + 1) % stages)
    if grown:
        scale_rows(O, scale)
    round_to(P, S)


@cute.kernel
def attention_lazy(
    tma_q: cute.CopyAtom,
    mQ: cute.Tensor,
    tma_k: cute.CopyAtom,
    mK: cute.Tensor,
    tma_v: cute.CopyAtom,
    mV: cute.Tensor,
    tma_o: cute.CopyAtom,
    mO: cute.Tensor,
    layout_q: cute.ComposedLayout,
    layout_k: cute.ComposedLayout,
    layout_v: cute.ComposedLayout,
    length: cutlass.Constexpr,
    how: cutlass.Constexpr,
):
    stages = how.stages
    tid, _, _ = cute.arch.thread_idx()
    block, head, batch = cute.arch.block_idx()  # of 128 rows
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    consumer = warp // 4 - 1  # -1: the warpgroup that loads
    smem = SmemAllocator()
    sQ = smem.allocate_tensor(cutlass.BFloat16, layout_q.outer, 1024, swizzle=layout_q.inner)
    sK = smem.allocate_tensor(cutlass.BFloat16, layout_k.outer, 1024, swizzle=layout_k.inner)
    sV = cute.make_tensor(sK.iterator, layout_v.outer)  # the same stages, with rows and columns exchanged
    full = smem.allocate_array(cutlass.Int64, stages)
    empty = smem.allocate_array(cutlass.Int64, stages)
    full_q = smem.allocate_array(cutlass.Int64, CONSUMERS)
    if warp == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(stages):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, CONSUMERS)
            for one in cutlass.range_constexpr(CONSUMERS):
                cute.arch.mbarrier_init(full_q + one, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    gQ = cute.local_tile(mQ, (ROWS, D), (None, 0, None, None))  # (64, 128, along the rows, heads, batches)
    gK = cute.local_tile(mK, (how.keys, D), (None, 0, None, None))
    gV = cute.local_tile(mV, (how.keys, D), (None, 0, None, None))
    gO = cute.local_tile(mO, (ROWS, D), (None, 0, None, None))
    tiles = tiles_of(block, length, how)
    at = cutlass.Int32(0)  # tiles of K and V so far: which stage, and which of its turns

    if consumer < 0:
        cute.arch.setmaxregister_decrease(PRODUCER_REGISTERS)
        if warp == 0:
            alone = 0, cute.make_layout(1)
            stages_of = cute.group_modes(sK, 0, 2)
            tQs, tQg = cpasync.tma_partition(
                tma_q, *alone, cute.group_modes(sQ, 0, 2), cute.group_modes(gQ, 0, 2)
            )
            tKs, tKg = cpasync.tma_partition(tma_k, *alone, stages_of, cute.group_modes(gK, 0, 2))
            tVs, tVg = cpasync.tma_partition(tma_v, *alone, stages_of, cute.group_modes(gV, 0, 2))
            for mine in cutlass.range_constexpr(CONSUMERS):
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(full_q + mine, ROWS * D * 2)
                from_q = tQg[None, block * CONSUMERS + mine, head, batch]
                cute.copy(tma_q, from_q, tQs[None, mine], tma_bar_ptr=full_q + mine)
            # In the order of use, from the last tile to the first: K, then K of the next before each V.
            for step in cutlass.range(2 * tiles, unroll=1):
                stage = step % stages
                cute.arch.mbarrier_wait(empty + stage, step // stages % 2 ^ 1)
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(full + stage, how.keys * D * 2)
                if step == 2 * tiles - 1 or (step > 0 and step % 2 == 0):
                    from_v = tVg[None, tiles - 1 - (step - 1) // 2, head, batch]
                    cute.copy(tma_v, from_v, tVs[None, stage], tma_bar_ptr=full + stage)
                else:
                    from_k = tKg[None, tiles - 1 - (step + 1) // 2, head, batch]
                    cute.copy(tma_k, from_k, tKs[None, stage], tma_bar_ptr=full + stage)
    else:
        cute.arch.setmaxregister_increase(CONSUMER_REGISTERS)
        s_mma, o_mma = mma_of_s(how.keys), mma_of_o()
        tQ = s_mma.make_fragment_A(s_mma.get_slice(0).partition_A(sQ[None, None, consumer]))
        tK = s_mma.make_fragment_B(s_mma.get_slice(0).partition_B(sK))
        tV = o_mma.make_fragment_B(o_mma.get_slice(0).partition_B(sV))
        S = s_mma.make_fragment_C(s_mma.partition_shape_C((ROWS, how.keys)))  # ((2, 2, keys / 8), 1, 1)
        O = o_mma.make_fragment_C(o_mma.partition_shape_C((ROWS, D)))
        P = cute.make_rmem_tensor(
            cute.make_layout(((2, 2, 2), 1, how.keys // 16), stride=((1, 2, 4), 0, 8)), cutlass.BFloat16
        )
        top, total, scale = [cute.make_rmem_tensor(2, cutlass.Float32) for _ in range(3)]
        rounded = cute.make_fragment_like(O, cutlass.BFloat16)
        stmatrix = cute.make_copy_atom(StMatrix8x8x16bOp(transpose=False, num_matrices=4), cutlass.BFloat16)
        thr_store = cute.make_tiled_copy_C(stmatrix, o_mma).get_slice(tid % 128)
        tRr, tRs = thr_store.retile(rounded), thr_store.partition_D(sQ)  # whose rows nobody needs then
        tOs, tOg = cpasync.tma_partition(
            tma_o, 0, cute.make_layout(1), cute.group_modes(sQ, 0, 2), cute.group_modes(gO, 0, 2)
        )
        if consumer == 1:
            cute.arch.barrier_arrive(barrier_id=TURN, number_of_threads=256)  # the other one begins
        first_row = (block * CONSUMERS + consumer) * ROWS
        row = first_row + warp % 4 * 16 + cute.arch.lane_idx() // 4
        # So many tiles need the mask: the last one, and others that end behind the first row.
        masked = cutlass.Int32(1)
        if cutlass.const_expr(how.causal):
            whole = cutlass.min((first_row + 1) // how.keys, length // how.keys)
            masked = cutlass.max(1, cutlass.min(tiles, tiles - whole))
        cute.arch.mbarrier_wait(full_q + consumer, 0)
        wait_for(full, at, stages)
        begin_s(S, tQ, tK, at % stages)
        O.fill(0.0)
        warpgroup.wait_group(0)
        arrive(empty + at % stages)
        mask(S, row, (tiles - 1) * how.keys, length, how.causal)
        softmax(S, top, total, scale, True)
        round_to(P, S)
        at += 1
        wait_for(full, at, stages)
        given = row, S, P, O, tQ, tK, tV, (top, total, scale), full, empty, consumer, length
        for step in cutlass.range(1, masked, unroll=1):
            one_tile(at, tiles - 1 - step, *given, True, how)
            at += 2
        for step in cutlass.range(masked, tiles, unroll=1):
            one_tile(at, tiles - 1 - step, *given, False, how)
            at += 2
        begin_o(O, P, tV, at % stages)
        for half in cutlass.range_constexpr(2):
            row_sum = total[half] + cute.arch.shuffle_sync_bfly(total[half], offset=1)
            row_sum = row_sum + cute.arch.shuffle_sync_bfly(row_sum, offset=2)
            scale[half] = cute.arch.rcp_approx(row_sum)
        warpgroup.wait_group(0)
        scale_rows(O, scale)
        rounded.store(O.load().to(cutlass.BFloat16))
        cute.copy(stmatrix, tRr, tRs[None, None, None, consumer])
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.barrier(barrier_id=STORED + consumer, number_of_threads=128)
        if warp % 4 == 0:
            with cute.arch.elect_one():
                if first_row < length:  # the last block may have rows for one warpgroup only
                    cute.copy(
                        tma_o, tOs[None, consumer], tOg[None, block * CONSUMERS + consumer, head, batch]
                    )
                cute.arch.cp_async_bulk_commit_group()
                cute.arch.cp_async_bulk_wait_group(0, read=True)


def host_for(*chosen):
    """The host function for one choice: the fields of `How`."""
    how = How(*chosen)

    @cute.jit
    def host(mQ: cute.Tensor, mK: cute.Tensor, mV: cute.Tensor, mO: cute.Tensor):
        swizzle = cute.make_swizzle(3, 4, 3)  # rows of 128 bytes: half a row of Q, K, V or O
        halves = (64, 2)
        of_q = cute.make_layout((ROWS, halves, CONSUMERS), stride=(64, (1, 64 * ROWS), ROWS * D))
        of_k = cute.make_layout((how.keys, halves, how.stages), stride=(64, (1, 64 * how.keys), how.keys * D))
        of_v = cute.make_layout((halves, how.keys, how.stages), stride=((1, 64 * how.keys), 64, how.keys * D))
        layouts = [cute.make_composed_layout(swizzle, 0, layout) for layout in (of_q, of_k, of_v)]
        one_q, one_k = [cute.select(layout, mode=[0, 1]) for layout in layouts[:2]]
        load, leave = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        maps = (
            *cpasync.make_tiled_tma_atom(load, mQ, one_q, (ROWS, D)),
            *cpasync.make_tiled_tma_atom(load, mK, one_k, (how.keys, D)),
            *cpasync.make_tiled_tma_atom(load, mV, one_k, (how.keys, D)),
            *cpasync.make_tiled_tma_atom(leave, mO, one_q, (ROWS, D)),
        )
        length, _, heads, batches = mQ.shape
        grid = (cute.ceil_div(length, CONSUMERS * ROWS), heads, batches)
        attention_lazy(*maps, *layouts, length, how).launch(
            grid=grid, block=(THREADS, 1, 1), min_blocks_per_mp=1
        )

    return host
