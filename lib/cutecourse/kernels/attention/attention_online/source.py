"""Attention in one pass over the keys: O = softmax(Q K^T / sqrt(64)) V for each head, and S is never stored.

A CTA has 64 queries of a head and takes 64 keys at a time. Each of its four warps has 16 queries, and a row
of S lies in the registers of four lanes. A row keeps its maximum, its sum and its part of O. When the maximum
grows, the sum and O are multiplied by 2^(old - new). P takes the place of S, in the same lanes.
"""

import math

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import LoadCacheMode, cpasync, warp
from cutlass.memory import SmemAllocator

SHAPE = (2, 150, 64)  # heads, queries and keys of a head, elements of a query
TILE = 64  # queries of a CTA, keys of a step, and elements of a query
THREADS = 128
SCALE = math.log2(math.e) / math.sqrt(TILE)  # e^(s / 8) is 2^(s * SCALE)


def make_load():
    """Each thread copies 16 bytes, so eight threads have a row."""
    atom = cute.make_copy_atom(
        cpasync.CopyG2SOp(LoadCacheMode.GLOBAL), cutlass.Float16, num_bits_per_copy=128
    )
    threads = cute.make_layout((THREADS // 8, 8), stride=(8, 1))
    return cute.make_tiled_copy_tv(atom, threads, cute.make_layout((1, 8)))


@cute.jit
def fetch(
    load: cute.TiledCopy, crd: cute.Tensor, length: cutlass.Constexpr, src: cute.Tensor, dst: cute.Tensor
):
    """Begin to copy a tile; shared memory gets zeros for rows past the last."""
    inside = cute.make_rmem_tensor((1, *src.shape[1:]), cutlass.Boolean)
    for i in cutlass.range_constexpr(cute.size(src, mode=[1])):
        inside[0, i, 0] = crd[0, i, 0][0] < length
    cute.copy(load, src, dst, pred=inside)
    cute.arch.cp_async_commit_group()


def as_rows(acc: cute.Tensor):
    """A thread's accumulators ((2,2),1,N) as (its 2 rows, its columns)."""
    layout = cute.select(cute.flatten(acc.layout), mode=[1, 0, 3])  # a row, a column, a block of columns
    return cute.make_tensor(acc.iterator, cute.group_modes(layout, 1, 3))


def as_operand(acc: cute.Tensor):
    """A thread's accumulators ((2,2),1,N) as the next MMA's operand A ((2,2,2),1,N/2): the same registers."""
    (column, row), _, (half, block) = cute.logical_divide(acc.layout, (None, None, 2)).stride
    blocks = cute.size(acc, mode=[2]) // 2
    layout = cute.make_layout(((2, 2, 2), 1, blocks), stride=((column, row, half), 0, block))
    return cute.make_tensor(acc.iterator, layout)


@cute.kernel
def attention_online(
    mQ: cute.Tensor, mK: cute.Tensor, mV: cute.Tensor, mO: cute.Tensor, causal: cutlass.Constexpr
):
    tid, _, _ = cute.arch.thread_idx()
    block, head, _ = cute.arch.block_idx()
    length = mK.shape[1]
    tile = (TILE, TILE)
    gQ = cute.local_tile(mQ[head, None, None], tile, (block, 0))
    gO = cute.local_tile(mO[head, None, None], tile, (block, 0))
    gK = cute.local_tile(mK[head, None, None], tile, (None, 0))  # (64, 64, tiles)
    gV = cute.local_tile(mV[head, None, None], tile, (None, 0))
    rows = cute.make_identity_tensor((length, TILE))
    cQ, cK = cute.local_tile(rows, tile, (block, 0)), cute.local_tile(rows, tile, (None, 0))

    smem = SmemAllocator()
    swizzle = cute.make_swizzle(3, 4, 3)  # rows of 128 bytes: the place in a row ^= row % 8
    layout = cute.make_layout(tile, stride=(TILE, 1))
    sQ = smem.allocate_tensor(cutlass.Float16, layout, 128, swizzle=swizzle)
    sK = smem.allocate_tensor(cutlass.Float16, layout, 128, swizzle=swizzle)
    sV = smem.allocate_tensor(cutlass.Float16, layout, 128, swizzle=swizzle)
    sVt = cute.make_tensor(sV.iterator, cute.make_layout(tile, stride=(1, TILE)))  # (elements, keys)

    load = make_load()
    thr_load = load.get_slice(tid)
    tQgQ, tQsQ, tQcQ = thr_load.partition_S(gQ), thr_load.partition_D(sQ), thr_load.partition_S(cQ)
    tKgK, tKsK, tKcK = thr_load.partition_S(gK), thr_load.partition_D(sK), thr_load.partition_S(cK)
    tVgV, tVsV = thr_load.partition_S(gV), thr_load.partition_D(sV)

    # Four warps along the queries: S = Q K^T, then O = P V.
    tiled_mma = cute.make_tiled_mma(
        warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)),
        atom_layout_mnk=(4, 1, 1),
        permutation_mnk=(64, 16, 16),
    )
    thr_mma = tiled_mma.get_slice(tid)
    tSrQ = tiled_mma.make_fragment_A(thr_mma.partition_A(sQ))
    tSrK = tiled_mma.make_fragment_B(thr_mma.partition_B(sK))
    tOrV = tiled_mma.make_fragment_B(thr_mma.partition_B(sVt))
    tSrS = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C(tile))
    tOrO = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C(tile))
    crd = as_rows(thr_mma.partition_C(cute.make_identity_tensor(tile)))
    ldmatrix = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(transpose=False, num_matrices=4), cutlass.Float16)
    transposed = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(transpose=True, num_matrices=4), cutlass.Float16)
    copy_Q = cute.make_tiled_copy_A(ldmatrix, tiled_mma).get_slice(tid)
    copy_K = cute.make_tiled_copy_B(ldmatrix, tiled_mma).get_slice(tid)
    copy_V = cute.make_tiled_copy_B(transposed, tiled_mma).get_slice(tid)

    maximum, total = cute.make_rmem_tensor(2, cutlass.Float32), cute.make_rmem_tensor(2, cutlass.Float32)
    maximum.fill(-cutlass.Float32.inf)
    total.fill(0.0)
    tOrO.fill(0.0)
    S, O = as_rows(tSrS), as_rows(tOrO)

    tiles = block + 1 if cutlass.const_expr(causal) else cute.size(gK, mode=[2])
    fetch(load, tQcQ, length, tQgQ, tQsQ)
    fetch(load, tKcK[None, None, None, 0], length, tKgK[None, None, None, 0], tKsK)
    for j in cutlass.range(tiles, unroll=1):
        cute.arch.cp_async_wait_group(0)
        cute.arch.sync_threads()  # K's tile is here, and everyone has read the last tile of V
        now = (None, None, None, j)
        fetch(load, tKcK[now], length, tVgV[now], tVsV)
        if j == 0:
            cute.copy(ldmatrix, copy_Q.partition_S(sQ), copy_Q.retile(tSrQ))
        cute.copy(ldmatrix, copy_K.partition_S(sK), copy_K.retile(tSrK))
        tSrS.fill(0.0)
        cute.gemm(tiled_mma, tSrS, tSrQ, tSrK, tSrS)
        cute.arch.cp_async_wait_group(0)
        cute.arch.sync_threads()  # V's tile is here, and everyone has read this tile of K
        if j + 1 < tiles:
            coming = (None, None, None, j + 1)
            fetch(load, tKcK[coming], length, tKgK[coming], tKsK)

        if j == tiles - 1:  # the only tile that the end of the keys or the diagonal can cut
            for r in cutlass.range_constexpr(2):
                end = length
                if cutlass.const_expr(causal):
                    end = block * TILE + crd[r, 0][0] + 1
                for n in cutlass.range_constexpr(cute.size(S, mode=[1])):
                    if j * TILE + crd[r, n][1] >= end:
                        S[r, n] = -cutlass.Float32.inf
        for r in cutlass.range_constexpr(2):
            row = S[r, None].load() * SCALE
            new = row.reduce(cute.ReductionOp.MAX, maximum[r], 0)
            for lane in (1, 2):  # a row lies in four lanes
                new = cute.arch.fmax(new, cute.arch.shuffle_sync_bfly(new, offset=lane))
            rescale = cute.math.exp2(maximum[r] - new, fastmath=True)
            maximum[r] = new
            P = cute.math.exp2(row - new, fastmath=True)
            total[r] = P.reduce(cute.ReductionOp.ADD, total[r] * rescale, 0)
            O[r, None].store(O[r, None].load() * rescale)
            S[r, None].store(P)

        tSrP = cute.make_fragment_like(tSrS, cutlass.Float16)
        tSrP.store(tSrS.load().to(cutlass.Float16))
        cute.copy(transposed, copy_V.partition_S(sVt), copy_V.retile(tOrV))
        cute.gemm(tiled_mma, tOrO, as_operand(tSrP), tOrV, tOrO)

    tOgO = as_rows(thr_mma.partition_C(gO))
    for r in cutlass.range_constexpr(2):
        whole = total[r]
        for lane in (1, 2):
            whole += cute.arch.shuffle_sync_bfly(whole, offset=lane)
        if block * TILE + crd[r, 0][0] < length:
            tOgO[r, None].store((O[r, None].load() / whole).to(cutlass.Float16))


def host_for(causal: int):
    """The host function for all keys, or (1) for the keys up to each query's own."""

    @cute.jit
    def host(mQ: cute.Tensor, mK: cute.Tensor, mV: cute.Tensor, mO: cute.Tensor):
        grid = cute.ceil_div(mQ.shape[1], TILE), mQ.shape[0], 1
        attention_online(mQ, mK, mV, mO, causal).launch(grid=grid, block=(THREADS, 1, 1))

    return host
