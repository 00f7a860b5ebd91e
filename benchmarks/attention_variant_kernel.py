"""The kernel that `attention_variants` varies: forward attention for Hopper, with everything as an option.

O = softmax(Q K^T / sqrt(D)) V for each head, Q, K, V, O (sequence, D, head, batch) of bf16, D = 128.
"""

from typing import NamedTuple

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.nvgpu.warp import StMatrix8x8x16bOp
from cutlass.memory import SmemAllocator

D = 128
ROWS = 64  # of Q, for a consumer
SCALE = 1.4426950408889634 * D**-0.5  # exp(x / sqrt(D)) = 2 ** (SCALE x)
MASKED = -1e30  # finite: a row that has only masked logits so far is scaled to zero by the next tile
LATE = 8.0  # `lazy`: a power of 2 by which the maximum may be too small
POLYNOMIAL = (0.693369, 0.242218, 0.054593)  # 2 ** x = 1 + x (a + x (b + x c)) to 13 bits, for |x| <= 1/2
ROUND = 12582912.0  # 1.5 * 2 ** 23: a small number plus this is rounded to an integer
REGISTERS = {1: (56, 256), 2: (24, 240), 3: (32, 160)}
TURN, STORED = 1, 4  # the first named barriers


class How(NamedTuple):
    """The options.

    causal     each row sees the keys up to its own.
    keys       of a tile of K and V.
    stages     of shared memory, for such tiles.
    consumers  warpgroups of 64 rows.
    cluster    CTAs that share the tiles of K and V.
    overlap    the next tile's S is computed during this tile's softmax.
    turns      the consumers take turns with the tensor cores.
    lazy       O is rescaled only if the maximum has grown (1), or has grown by LATE (2).
    group      heads whose tiles are in work together, the longest first; 0: head after head.
    ctas       how many CTAs go through the tiles; 0: one for each tile.
    polynomial one power of so many is computed without the special function unit; 0: none.
    """

    causal: bool = False
    keys: int = 128
    stages: int = 4
    consumers: int = 2
    cluster: int = 1
    overlap: bool = True
    turns: bool = True
    lazy: int = 0
    group: int = 0
    ctas: int = 0
    partial: int = 4
    snake: bool = True
    anchor: bool = True
    dynamic: bool = False
    pin: bool = False
    polynomial: int = 0

    @property
    def rows(self):
        """Rows of Q, for a CTA."""
        return ROWS * self.consumers


def make_mma(columns, major, source):
    """One warpgroup's MMA: 64 rows and these columns."""
    return cute.make_tiled_mma(
        warpgroup.MmaF16BF16Op(
            cutlass.BFloat16,
            cutlass.Float32,
            (64, columns, 16),
            source,
            OperandMajorMode.K,
            major,
        )
    )


def mma_of_s(keys):
    """S = Q K^T: both from shared memory."""
    return make_mma(keys, OperandMajorMode.K, warpgroup.OperandSource.SMEM)


def mma_of_o():
    """O = P V: P from registers; V's rows are along K, so V^T is MN-major."""
    return make_mma(D, OperandMajorMode.MN, warpgroup.OperandSource.RMEM)


@cute.jit
def place_of(
    number: cutlass.Int32, blocks: cutlass.Constexpr, heads: cutlass.Constexpr, how: cutlass.Constexpr
):
    """The block of rows of a cluster's tile, its head and its batch."""
    many, batches = heads
    block, head = number % blocks, number // blocks
    if cutlass.const_expr(how.group > 0):
        section = number // (how.group * blocks)
        within = number % (how.group * blocks)
        size = cutlass.min(how.group, many * batches - section * how.group)
        block = blocks - 1 - within // size
        head = section * how.group + within % size
    return block, head % many, head // many


@cute.jit
def next_number(
    number: cutlass.Int32,
    turn: cutlass.Int32,
    cluster: cutlass.Int32,
    clusters: cutlass.Int32,
    how: cutlass.Constexpr,
):
    """The tile after a tile, where the order is fixed."""
    after = number + clusters
    if cutlass.const_expr(how.snake):
        after = (turn + 1) * clusters + cluster
        if turn % 2 == 0:
            after = (turn + 2) * clusters - 1 - cluster
    return after


@cute.jit
def fetch(counter: cute.Tensor, count: cutlass.Constexpr, ctas: cutlass.Int32):
    """A warp draws the next tile's number. The last one to draw sets the counter back."""
    drawn = cutlass.Int32(0)
    if cute.arch.lane_idx() == 0:
        drawn = cute.arch.atomic_add(counter.iterator.llvm_ptr, cutlass.Int32(1))
        if drawn == count - 1:
            counter[0] = 0
    return cute.arch.shuffle_sync(drawn, 0) + ctas


@cute.jit
def tiles_of(block: cutlass.Int32, length: cutlass.Constexpr, how: cutlass.Constexpr):
    """How many tiles of keys a cluster's rows see."""
    seen = cutlass.Int32(length)
    if cutlass.const_expr(how.causal):
        seen = cutlass.min(seen, (block + 1) * how.rows * how.cluster)
    return (seen + how.keys - 1) // how.keys


@cute.jit
def free(barrier: cute.Pointer, how: cutlass.Constexpr):
    """A thread of the warpgroup tells each CTA that loads a part of a stage that it has been read."""
    if cute.arch.make_warp_uniform(cute.arch.warp_idx()) % 4 == 0:
        with cute.arch.elect_one():
            if cutlass.const_expr(how.cluster == 1):
                cute.arch.mbarrier_arrive(barrier)
            else:
                for cta in cutlass.range_constexpr(how.cluster):
                    cute.arch.mbarrier_arrive(barrier, cta)


@cute.jit
def mask(
    S: cute.Tensor,
    row: cutlass.Int32,
    first_key: cutlass.Int32,
    length: cutlass.Constexpr,
    causal: cutlass.Constexpr,
):
    """Overwrite the logits of the keys that a row does not see."""
    lane = cute.arch.lane_idx()
    for half in cutlass.range_constexpr(2):
        seen = cutlass.Int32(length)
        if cutlass.const_expr(causal):
            seen = cutlass.min(seen, row + 8 * half + 1)
        seen = seen - first_key - 2 * (lane % 4)
        for block in cutlass.range_constexpr(cute.size(S) // 4):
            for one in cutlass.range_constexpr(2):
                at = one + 2 * half + 4 * block
                S[at] = S[at] if seen > 8 * block + one else cutlass.Float32(MASKED)


@cute.jit
def power_of_two(x: cutlass.Float32, bits: cute.Tensor):
    """2 ** x with multiply-adds: of the fraction by a polynomial, of the integer in the exponent's bits."""
    a, b, c = POLYNOMIAL
    whole = cute.recast_tensor(bits, cutlass.Int32)
    x = cute.arch.fmax(x, cutlass.Float32(-126.0))
    bits[0] = x + ROUND
    rest = x - (bits[0] - ROUND)
    exponent = whole[0] << 23
    bits[0] = 1.0 + rest * (a + rest * (b + rest * c))
    whole[0] = whole[0] + exponent
    return bits[0]


@cute.jit
def softmax(
    S: cute.Tensor,
    top: cute.Tensor,
    total: cute.Tensor,
    scale: cute.Tensor,
    first: cutlass.Constexpr,
    how: cutlass.Constexpr,
):
    """Turn logits into powers, and update each row's maximum and sum; `scale` is what O must be scaled by."""
    blocks = cute.size(S) // 4
    ways = how.partial
    bits = cute.make_rmem_tensor(1, cutlass.Float32)
    for half in cutlass.range_constexpr(2):
        best = [
            S[one + 2 * half + 4 * (way // 2)] if way % 2 == one else None
            for way in range(ways)
            for one in (way % 2,)
        ]
        for at in cutlass.range_constexpr(ways, 2 * blocks):
            index = at % 2 + 2 * half + 4 * (at // 2)
            best[at % ways] = cute.arch.fmax(best[at % ways], S[index])
        for way in cutlass.range_constexpr(1, ways):
            best[0] = cute.arch.fmax(best[0], best[way])
        new = best[0]
        if cutlass.const_expr(not first):
            new = cute.arch.fmax(new, top[half])
        new = cute.arch.fmax(new, cute.arch.shuffle_sync_bfly(new, offset=1))
        new = cute.arch.fmax(new, cute.arch.shuffle_sync_bfly(new, offset=2))
        if cutlass.const_expr(not first):
            if cutlass.const_expr(how.lazy == 2):
                new = new if new - top[half] > LATE / SCALE else top[half]
            scale[half] = cute.math.exp2((top[half] - new) * SCALE, fastmath=True)
        top[half] = new
        below = new * SCALE
        sums = [None] * ways
        for at in cutlass.range_constexpr(2 * blocks):
            index = at % 2 + 2 * half + 4 * (at // 2)
            if cutlass.const_expr(how.polynomial > 0 and at % max(1, how.polynomial) == 0):
                power = power_of_two(S[index] * SCALE - below, bits)
            else:
                power = cute.math.exp2(S[index] * SCALE - below, fastmath=True)
            S[index] = power
            way = at % ways
            sums[way] = power if at < ways else sums[way] + power
        for way in cutlass.range_constexpr(1, ways):
            sums[0] = sums[0] + sums[way]
        if cutlass.const_expr(first):
            total[half] = sums[0]
        else:
            total[half] = total[half] * scale[half] + sums[0]


@cute.jit
def rescale(O: cute.Tensor, scale: cute.Tensor, how: cutlass.Constexpr):
    """Scale each row of O."""
    if cutlass.const_expr(how.lazy > 0):
        if cute.arch.vote_any_sync(cutlass.min(scale[0], scale[1]) < 1.0):
            scale_rows(O, scale)
    else:
        scale_rows(O, scale)


@cute.jit
def scale_rows(O: cute.Tensor, scale: cute.Tensor):
    """Multiply both rows of a thread by their scales."""
    for block in cutlass.range_constexpr(cute.size(O) // 4):
        for half in cutlass.range_constexpr(2):
            for one in cutlass.range_constexpr(2):
                at = one + 2 * half + 4 * block
                O[at] = O[at] * scale[half]


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
def round_to(P: cute.Tensor, S: cute.Tensor):
    """P = S, rounded: the layout of an accumulator, read as the layout of operand A.

    Written as PTX, since the compiler moves the conversion that it knows into the next MMAs, which costs
    registers that are not there.
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
    """With `overlap`: S of a tile and O of the one before. The ring holds K at `at` and V at `at` + 1."""
    top, total, scale = rows
    k_stage, v_stage = at % how.stages, (at + 1) % how.stages
    if cutlass.const_expr(not how.anchor):
        cute.arch.mbarrier_wait(full + k_stage, at // how.stages % 2)
    if cutlass.const_expr(how.turns):
        cute.arch.barrier(barrier_id=TURN + consumer, number_of_threads=256)
    begin_s(S, tQ, tK, k_stage)
    cute.arch.mbarrier_wait(full + v_stage, (at + 1) // how.stages % 2)
    begin_o(O, P, tV, v_stage)
    if cutlass.const_expr(how.turns):
        cute.arch.barrier_arrive(barrier_id=TURN + (consumer + 1) % how.consumers, number_of_threads=256)
    warpgroup.wait_group(1)
    free(empty + k_stage, how)
    if cutlass.const_expr(masked):
        mask(S, row, key * how.keys, length, how.causal)
    softmax(S, top, total, scale, False, how)
    if cutlass.const_expr(how.anchor):
        grown = True
        if cutlass.const_expr(how.lazy > 0):
            if cutlass.const_expr(how.pin):
                grown = cute.arch.vote_any_sync(
                    cutlass.min(scale[0], scale[1]) < 1.0 or total[0] + total[1] < 0.0
                )
            else:
                grown = cute.arch.vote_any_sync(cutlass.min(scale[0], scale[1]) < 1.0)
        cute.arch.mbarrier_wait(full + (at + 2) % how.stages, (at + 2) // how.stages % 2)
        warpgroup.wait_group(0)
        free(empty + v_stage, how)
        if cutlass.const_expr(how.lazy > 0):
            if grown:
                scale_rows(O, scale)
        else:
            scale_rows(O, scale)
        round_to(P, S)
    else:
        warpgroup.wait_group(0)
        free(empty + v_stage, how)
        rescale(O, scale, how)
        round_to(P, S)


@cute.jit
def one_tile_plain(
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
    """Without `overlap`: O of the tile whose powers are in P, then S of the next, and a wait for both."""
    top, total, scale = rows
    k_stage, v_stage = at % how.stages, (at + 1) % how.stages
    cute.arch.mbarrier_wait(full + k_stage, at // how.stages % 2)
    cute.arch.mbarrier_wait(full + v_stage, (at + 1) // how.stages % 2)
    if cutlass.const_expr(how.turns):
        cute.arch.barrier(barrier_id=TURN + consumer, number_of_threads=256)
    begin_o(O, P, tV, v_stage)
    warpgroup.wait_group(0)
    begin_s(S, tQ, tK, k_stage)
    if cutlass.const_expr(how.turns):
        cute.arch.barrier_arrive(barrier_id=TURN + (consumer + 1) % how.consumers, number_of_threads=256)
    free(empty + v_stage, how)
    warpgroup.wait_group(0)
    free(empty + k_stage, how)
    if cutlass.const_expr(masked):
        mask(S, row, key * how.keys, length, how.causal)
    softmax(S, top, total, scale, False, how)
    rescale(O, scale, how)
    round_to(P, S)


@cute.kernel
def attention_variant(
    tma_q: cute.CopyAtom,
    mQ: cute.Tensor,
    tma_k: cute.CopyAtom,
    mK: cute.Tensor,
    tma_v: cute.CopyAtom,
    mV: cute.Tensor,
    tma_o: cute.CopyAtom,
    mO: cute.Tensor,
    counter: cute.Tensor,
    layout_q: cute.ComposedLayout,
    layout_k: cute.ComposedLayout,
    layout_v: cute.ComposedLayout,
    shape: cutlass.Constexpr,
    how: cutlass.Constexpr,
):
    """Warpgroup 0 loads; the others multiply and store."""
    length, many, batches = shape
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    consumer = warp // 4 - 1  # -1: the warpgroup that loads
    rank = cutlass.Int32(0)
    if cutlass.const_expr(how.cluster > 1):
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    stages = how.stages
    smem = SmemAllocator()
    sQ = smem.allocate_tensor(cutlass.BFloat16, layout_q.outer, 1024, swizzle=layout_q.inner)
    sO = smem.allocate_tensor(cutlass.BFloat16, layout_q.outer, 1024, swizzle=layout_q.inner)
    sK = smem.allocate_tensor(cutlass.BFloat16, layout_k.outer, 1024, swizzle=layout_k.inner)
    sV = cute.make_tensor(sK.iterator, layout_v.outer)  # the same stages
    full = smem.allocate_array(cutlass.Int64, stages)
    empty = smem.allocate_array(cutlass.Int64, stages)
    full_q = smem.allocate_array(cutlass.Int64, how.consumers)
    empty_q = smem.allocate_array(cutlass.Int64, how.consumers)
    told = smem.allocate_array(cutlass.Int64, 2)
    heard = smem.allocate_array(cutlass.Int64, 2)
    following = smem.allocate_tensor(cutlass.Int32, cute.make_layout(2), 8)
    if warp == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(stages):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, how.consumers * how.cluster)
            for one in cutlass.range_constexpr(how.consumers):
                cute.arch.mbarrier_init(full_q + one, 1)
                cute.arch.mbarrier_init(empty_q + one, 1)
            for one in cutlass.range_constexpr(2):
                cute.arch.mbarrier_init(told + one, 1)
                cute.arch.mbarrier_init(heard + one, 4 * how.consumers)
        cute.arch.mbarrier_init_fence()
    if cutlass.const_expr(how.cluster > 1):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    else:
        cute.arch.sync_threads()
    gQ = cute.local_tile(mQ, (ROWS, D), (None, 0, None, None))  # (64, 128, along S, heads, batches)
    gK = cute.local_tile(mK, (how.keys, D), (None, 0, None, None))
    gV = cute.local_tile(mV, (how.keys, D), (None, 0, None, None))
    gO = cute.local_tile(mO, (ROWS, D), (None, 0, None, None))
    blocks = (length + how.rows * how.cluster - 1) // (how.rows * how.cluster)
    count = blocks * many * batches
    cluster, clusters = cute.arch.block_idx()[0] // how.cluster, cute.arch.grid_dim()[0] // how.cluster
    at = cutlass.Int32(0)  # tiles of K and V, counted on
    turn = cutlass.Int32(0)  # tiles of Q
    number = cluster

    if consumer < 0:
        cute.arch.setmaxregister_decrease(REGISTERS[how.consumers][0])
        if warp == 0:
            tQs, tQg = cpasync.tma_partition(
                tma_q, 0, cute.make_layout(1), cute.group_modes(sQ, 0, 2), cute.group_modes(gQ, 0, 2)
            )
            share = cute.make_layout(how.cluster)
            tKs, tKg = cpasync.tma_partition(
                tma_k, rank, share, cute.group_modes(sK, 0, 2), cute.group_modes(gK, 0, 2)
            )
            tVs, tVg = cpasync.tma_partition(
                tma_v, rank, share, cute.group_modes(sK, 0, 2), cute.group_modes(gV, 0, 2)
            )
            to = {}
            if cutlass.const_expr(how.cluster > 1):
                to["mcast_mask"] = cutlass.Int16((1 << how.cluster) - 1)
            while number < count:
                if True:
                    upcoming = next_number(number, turn, cluster, clusters, how)
                    if cutlass.const_expr(how.dynamic):
                        upcoming = fetch(counter, count, clusters)
                        slot = turn % 2
                        cute.arch.mbarrier_wait(heard + slot, turn // 2 % 2 ^ 1)
                        with cute.arch.elect_one():
                            following[slot] = upcoming
                            cute.arch.mbarrier_arrive(told + slot)
                    block, head, batch = place_of(number, blocks, (many, batches), how)
                    tiles = tiles_of(block, length, how)
                    first_row = (block * how.cluster + rank) * how.consumers
                    for mine in cutlass.range_constexpr(how.consumers):
                        cute.arch.mbarrier_wait(empty_q + mine, turn % 2 ^ 1)
                        with cute.arch.elect_one():
                            cute.arch.mbarrier_arrive_and_expect_tx(full_q + mine, ROWS * D * 2)
                        from_q = tQg[None, first_row + mine, head, batch]
                        cute.copy(tma_q, from_q, tQs[None, mine], tma_bar_ptr=full_q + mine)
                    # The ring: K, then the next K before each V.
                    for step in cutlass.range(2 * tiles, unroll=1):
                        stage = at % stages
                        cute.arch.mbarrier_wait(empty + stage, at // stages % 2 ^ 1)
                        with cute.arch.elect_one():
                            cute.arch.mbarrier_arrive_and_expect_tx(full + stage, how.keys * D * 2)
                        # 0: K 0; odd: K 1, 2, ...; even: V 0, 1, ...; the last: V.
                        is_v = (step > 0 and step % 2 == 0) or step == 2 * tiles - 1
                        tile = tiles - 1 - (step + 1) // 2
                        if is_v:
                            tile = tiles - 1 - (step - 1) // 2
                            cute.copy(
                                tma_v,
                                tVg[None, tile, head, batch],
                                tVs[None, stage],
                                tma_bar_ptr=full + stage,
                                **to,
                            )
                        else:
                            cute.copy(
                                tma_k,
                                tKg[None, tile, head, batch],
                                tKs[None, stage],
                                tma_bar_ptr=full + stage,
                                **to,
                            )
                        at += 1
                    turn += 1
                    number = upcoming
    else:
        cute.arch.setmaxregister_increase(REGISTERS[how.consumers][1])
        s_mma = mma_of_s(how.keys)
        o_mma = mma_of_o()
        s_thr, o_thr = s_mma.get_slice(0), o_mma.get_slice(0)
        tQ = s_mma.make_fragment_A(s_thr.partition_A(sQ[None, None, consumer]))
        tK = s_mma.make_fragment_B(s_thr.partition_B(sK))
        tV = o_mma.make_fragment_B(o_thr.partition_B(sV))
        S = s_mma.make_fragment_C(s_mma.partition_shape_C((ROWS, how.keys)))
        O = o_mma.make_fragment_C(o_mma.partition_shape_C((ROWS, D)))
        P = cute.make_rmem_tensor(
            cute.make_layout(((2, 2, 2), 1, how.keys // 16), stride=((1, 2, 4), 0, 8)), cutlass.BFloat16
        )
        top = cute.make_rmem_tensor(2, cutlass.Float32)
        total = cute.make_rmem_tensor(2, cutlass.Float32)
        scale = cute.make_rmem_tensor(2, cutlass.Float32)
        rounded = cute.make_fragment_like(O, cutlass.BFloat16)
        stmatrix = cute.make_copy_atom(StMatrix8x8x16bOp(transpose=False, num_matrices=4), cutlass.BFloat16)
        thr_store = cute.make_tiled_copy_C(stmatrix, o_mma).get_slice(tid % 128)
        tRr = thr_store.retile(rounded)
        tRs = thr_store.partition_D(sO)
        tOs, tOg = cpasync.tma_partition(
            tma_o, 0, cute.make_layout(1), cute.group_modes(sO, 0, 2), cute.group_modes(gO, 0, 2)
        )
        first_warp = warp % 4 == 0
        if cutlass.const_expr(how.turns):
            if consumer == how.consumers - 1:
                cute.arch.barrier_arrive(barrier_id=TURN, number_of_threads=256)  # the first one begins
        step_fn = one_tile if cutlass.const_expr(how.overlap) else one_tile_plain
        while number < count:
            if True:
                block, head, batch = place_of(number, blocks, (many, batches), how)
                tiles = tiles_of(block, length, how)
                first_row = (block * how.cluster + rank) * how.consumers + consumer
                row = first_row * ROWS + (warp % 4) * 16 + cute.arch.lane_idx() // 4
                # Tiles from this one on, counted from the last, need no mask.
                clean = cutlass.Int32(1)
                if cutlass.const_expr(how.causal):
                    clean = tiles - cutlass.min((first_row * ROWS + 1) // how.keys, length // how.keys)
                    clean = cutlass.max(cutlass.min(clean, tiles), 1)
                cute.arch.mbarrier_wait(full_q + consumer, turn % 2)
                stage = at % stages
                cute.arch.mbarrier_wait(full + stage, at // stages % 2)
                begin_s(S, tQ, tK, stage)
                O.fill(0.0)
                warpgroup.wait_group(0)
                free(empty + stage, how)
                at += 1
                mask(S, row, (tiles - 1) * how.keys, length, how.causal)
                softmax(S, top, total, scale, True, how)
                if cutlass.const_expr(how.anchor and how.overlap):
                    cute.arch.mbarrier_wait(full + at % stages, at // stages % 2)
                round_to(P, S)
                given = (
                    row,
                    S,
                    P,
                    O,
                    tQ,
                    tK,
                    tV,
                    (top, total, scale),
                    full,
                    empty,
                    consumer,
                    length,
                )
                for step in cutlass.range(1, clean, unroll=1):
                    step_fn(at, tiles - 1 - step, *given, True, how)
                    at += 2
                for step in cutlass.range(clean, tiles, unroll=1):
                    step_fn(at, tiles - 1 - step, *given, False, how)
                    at += 2
                if first_warp:
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive(empty_q + consumer)
                stage = at % stages
                if cutlass.const_expr(not (how.anchor and how.overlap)):
                    cute.arch.mbarrier_wait(full + stage, at // stages % 2)
                begin_o(O, P, tV, stage)
                for half in cutlass.range_constexpr(2):
                    row_sum = total[half]
                    row_sum = row_sum + cute.arch.shuffle_sync_bfly(row_sum, offset=1)
                    row_sum = row_sum + cute.arch.shuffle_sync_bfly(row_sum, offset=2)
                    scale[half] = cute.arch.rcp_approx(row_sum)
                if first_warp:
                    with cute.arch.elect_one():  # TMA has read what this buffer held
                        cute.arch.cp_async_bulk_wait_group(0, read=True)
                warpgroup.wait_group(0)
                free(empty + stage, how)
                at += 1
                turn += 1
                scale_rows(O, scale)
                rounded.store(O.load().to(cutlass.BFloat16))
                cute.arch.barrier(barrier_id=STORED + consumer, number_of_threads=128)
                cute.copy(stmatrix, tRr, tRs[None, None, None, consumer])
                cute.arch.fence_proxy("async.shared", space="cta")
                cute.arch.barrier(barrier_id=STORED + consumer, number_of_threads=128)
                if first_warp:
                    with cute.arch.elect_one():
                        if first_row * ROWS < length:
                            cute.copy(tma_o, tOs[None, consumer], tOg[None, first_row, head, batch])
                        cute.arch.cp_async_bulk_commit_group()
                if cutlass.const_expr(how.dynamic):
                    slot, told_turn = (turn - 1) % 2, (turn - 1) // 2 % 2
                    cute.arch.mbarrier_wait(told + slot, told_turn)
                    number = following[slot]
                    cute.arch.sync_warp()
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive(heard + slot)
                else:
                    number = next_number(number, turn - 1, cluster, clusters, how)
        if first_warp:
            with cute.arch.elect_one():
                cute.arch.cp_async_bulk_wait_group(0, read=True)
    if cutlass.const_expr(how.cluster > 1):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()


def host_for(*chosen):
    """The host function for one choice: the fields of `How`."""
    how = How(*chosen)

    @cute.jit
    def host(mQ: cute.Tensor, mK: cute.Tensor, mV: cute.Tensor, mO: cute.Tensor, counter: cute.Tensor):
        swizzle = cute.make_swizzle(3, 4, 3)
        halves = (64, 2)  # a row of 128 bf16 is two rows of 128 bytes, in two boxes
        layout_q = cute.make_composed_layout(
            swizzle,
            0,
            cute.make_layout((ROWS, halves, how.consumers), stride=(64, (1, 64 * ROWS), ROWS * D)),
        )
        layout_k = cute.make_composed_layout(
            swizzle,
            0,
            cute.make_layout((how.keys, halves, how.stages), stride=(64, (1, 64 * how.keys), how.keys * D)),
        )
        layout_v = cute.make_composed_layout(
            swizzle,
            0,
            cute.make_layout((halves, how.keys, how.stages), stride=((1, 64 * how.keys), 64, how.keys * D)),
        )
        load = cpasync.CopyBulkTensorTileG2SOp()
        shared = cpasync.CopyBulkTensorTileG2SMulticastOp() if how.cluster > 1 else load
        leave = cpasync.CopyBulkTensorTileS2GOp()
        one_q = cute.select(layout_q, mode=[0, 1])
        one_k = cute.select(layout_k, mode=[0, 1])
        maps = (
            *cpasync.make_tiled_tma_atom(load, mQ, one_q, (ROWS, D)),
            *cpasync.make_tiled_tma_atom(shared, mK, one_k, (how.keys, D), how.cluster),
            *cpasync.make_tiled_tma_atom(shared, mV, one_k, (how.keys, D), how.cluster),
            *cpasync.make_tiled_tma_atom(leave, mO, one_q, (ROWS, D)),
        )
        length, _, many, batches = mQ.shape
        blocks = cute.ceil_div(length, how.rows * how.cluster)
        count = blocks * many * batches * how.cluster
        ctas = min(how.ctas // how.cluster * how.cluster, count) if how.ctas else count
        attention_variant(*maps, counter, layout_q, layout_k, layout_v, (length, many, batches), how).launch(
            grid=(ctas, 1, 1),
            block=(128 * (1 + how.consumers), 1, 1),
            cluster=(how.cluster, 1, 1),
            min_blocks_per_mp=1,
        )

    return host
