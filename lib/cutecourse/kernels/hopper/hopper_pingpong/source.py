"""The GEMM of hopper_persistent with consumers that take turns: each has a whole tile of C, 128x192.

While one warpgroup rounds and stores its tile, the other one multiplies, so the tensor cores go on. Two named
barriers pass the turn: a warpgroup multiplies all k-tiles of its tile and then lets the other one begin.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.nvgpu.warp import StMatrix8x8x16bOp
from cutlass.memory import SmemAllocator

MNK = (512, 768, 192)
TILE = (128, 192, 64)
STAGES = 4
CLUSTER = (2, 1, 1)
CONSUMERS = 2  # warpgroups, one tile of C each
THREADS = 128 * (1 + CONSUMERS)
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232  # 168 each at first: 40 + 2 * 232 = 3 * 168
GROUP = 8
STORE = (128, 64)  # what one TMA store writes: a piece of the tile
PIECES = TILE[1] // STORE[1]
BUFFERS = 2  # for pieces of C, in each warpgroup
TURN = 1 + CONSUMERS  # the first of the named barriers that pass the turn
SMS = 132


def make_mma(dtype, columns=TILE[1]):
    """One warpgroup's MMA: 64 rows of C, and an instruction multiplies 16 of K."""
    return cute.make_tiled_mma(
        warpgroup.MmaF16BF16Op(
            dtype,
            cutlass.Float32,
            (64, columns, 16),
            warpgroup.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


@cute.jit
def tile_of(number: cutlass.Int32, tiles: cutlass.Constexpr):
    """The place of a cluster's tile: down a group of `GROUP` rows of such tiles, then the next column."""
    group, within = number // (GROUP * tiles[1]), number % (GROUP * tiles[1])
    rows = cutlass.min(GROUP, tiles[0] - group * GROUP)  # the last group may have fewer
    return group * GROUP + within % rows, within // rows


@cute.kernel
def hopper_pingpong(
    tma_a: cute.CopyAtom,
    mA: cute.Tensor,
    tma_b: cute.CopyAtom,
    mB: cute.Tensor,
    tma_c: cute.CopyAtom,
    mC: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    layout_c: cute.ComposedLayout,
    tiles: cutlass.Constexpr,
    dtype: cutlass.Constexpr,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    consumer = warp // 4 - 1  # -1: the warpgroup that loads
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    smem = SmemAllocator()
    sA = smem.allocate_tensor(dtype, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(dtype, layout_b.outer, 1024, swizzle=layout_b.inner)
    sC = smem.allocate_tensor(dtype, layout_c.outer, 1024, swizzle=layout_c.inner)
    full = smem.allocate_array(cutlass.Int64, STAGES)
    empty = smem.allocate_array(cutlass.Int64, STAGES)

    if warp == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, CLUSTER[0] * 4)  # warps: one warpgroup reads a stage
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    gA = cute.local_tile(mA, (TILE[0], TILE[2]), (None, None))  # (128, 64, tiles along M, k-tiles)
    gB = cute.local_tile(mB, (TILE[1], TILE[2]), (None, None))
    gC = cute.local_tile(mC, STORE, (None, None))  # (128, 64, along M, along N)
    k_tiles = cute.size(gA, mode=[3])
    # The clusters take turns: each begins with the tile of its own number, then skips as many as there are.
    first, clusters = cute.arch.block_idx()[0] // CLUSTER[0], cute.arch.grid_dim()[0] // CLUSTER[0]
    count = tiles[0] * tiles[1]
    at = cutlass.Int32(0)  # the k-tiles of all tiles, counted on: which stage, and which of its turns

    if consumer < 0:
        cute.arch.setmaxregister_decrease(PRODUCER_REGISTERS)
        if warp == 0:
            alone = 0, cute.make_layout(1)  # A: no other CTA takes part in a load
            both = rank, cute.make_layout(CLUSTER[0])  # B: my half, for both of us
            tAsA, tAgA = cpasync.tma_partition(
                tma_a, *alone, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
            )
            tBsB, tBgB = cpasync.tma_partition(
                tma_b, *both, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2)
            )
            for number in cutlass.range(first, count, clusters, unroll=1):
                row, column = tile_of(number, tiles)
                from_a = tAgA[None, row * CLUSTER[0] + rank, None]
                from_b = tBgB[None, column, None]
                for k in cutlass.range(k_tiles, unroll=1):
                    stage, turn = at % STAGES, at // STAGES
                    cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive_and_expect_tx(
                            full + stage, (TILE[0] + TILE[1]) * TILE[2] * 2
                        )
                    cute.copy(tma_a, from_a[None, k], tAsA[None, stage], tma_bar_ptr=full + stage)
                    cute.copy(
                        tma_b,
                        from_b[None, k],
                        tBsB[None, stage],
                        tma_bar_ptr=full + stage,
                        mcast_mask=cutlass.Int16(0b11),
                    )
                    at += 1
    else:
        cute.arch.setmaxregister_increase(CONSUMER_REGISTERS)
        tiled_mma = make_mma(dtype)
        thr_mma = tiled_mma.get_slice(tid % 128)
        # A fragment of A or B is a shared-memory descriptor; the fragment of C is registers.
        tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))  # (1, 2, 4, stages)
        tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
        acc = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C(TILE[:2]))  # ((2, 2, 24), 2, 1)
        # The same registers in pieces of 64 columns, which are eight instruction's blocks of 8 columns.
        blocks = STORE[1] // 8
        in_pieces = cute.make_tensor(
            acc.iterator,
            cute.make_layout(
                ((2, 2, blocks), 2, PIECES), stride=((1, 2, 4), 4 * blocks * PIECES, 4 * blocks)
            ),
        )
        piece_mma = make_mma(dtype, STORE[1])
        rounded = cute.make_rmem_tensor(piece_mma.partition_shape_C(STORE), dtype)
        stmatrix = cute.make_copy_atom(StMatrix8x8x16bOp(transpose=False, num_matrices=4), dtype)
        thr_store = cute.make_tiled_copy_C(stmatrix, piece_mma).get_slice(tid % 128)
        tRrC, tRsC = thr_store.retile(rounded), thr_store.partition_D(sC)  # sC: (128, 64, buffers)
        tCsC, tCgC = cpasync.tma_partition(
            tma_c, 0, cute.make_layout(1), cute.group_modes(sC, 0, 2), cute.group_modes(gC, 0, 2)
        )
        first_warp = warp % 4 == 0

        if consumer == 1:
            cute.arch.barrier_arrive(barrier_id=TURN, number_of_threads=256)  # the other one begins
        at = consumer * k_tiles
        stores = cutlass.Int32(0)
        for number in cutlass.range(first + consumer * clusters, count, CONSUMERS * clusters, unroll=1):
            cute.arch.barrier(barrier_id=TURN + consumer, number_of_threads=256)  # my turn
            tiled_mma.set(warpgroup.Field.ACCUMULATE, False)
            for k in cutlass.range(k_tiles, unroll=1):
                stage, turn = at % STAGES, at // STAGES
                cute.arch.mbarrier_wait(full + stage, turn % 2)
                warpgroup.fence()
                for block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                    now = (None, None, block, stage)
                    cute.gemm(tiled_mma, acc, tCrA[now], tCrB[now], acc)
                    tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
                warpgroup.commit_group()
                warpgroup.wait_group(1)  # my warpgroup has read k-tile k - 1
                if k > 0:
                    with cute.arch.elect_one():
                        for cta in cutlass.range_constexpr(CLUSTER[0]):
                            cute.arch.mbarrier_arrive(empty + (at - 1) % STAGES, cta)
                at += 1
            cute.arch.barrier_arrive(barrier_id=TURN + 1 - consumer, number_of_threads=256)
            warpgroup.wait_group(0)
            with cute.arch.elect_one():
                for cta in cutlass.range_constexpr(CLUSTER[0]):
                    cute.arch.mbarrier_arrive(empty + (at - 1) % STAGES, cta)
            at += k_tiles  # those of the other one's tile

            row, column = tile_of(number, tiles)
            row = row * CLUSTER[0] + rank
            for piece in cutlass.range_constexpr(PIECES):
                buffer = consumer * BUFFERS + stores % BUFFERS
                stores += 1
                rounded.store(in_pieces[None, None, piece].load().to(dtype))
                if first_warp:
                    with cute.arch.elect_one():  # this thread stores: TMA has read what the buffer held
                        cute.arch.cp_async_bulk_wait_group(BUFFERS - 1, read=True)
                cute.arch.barrier(barrier_id=1 + consumer, number_of_threads=128)
                cute.copy(stmatrix, tRrC, tRsC[None, None, None, buffer])
                cute.arch.fence_proxy("async.shared", space="cta")
                cute.arch.barrier(barrier_id=1 + consumer, number_of_threads=128)
                if first_warp:
                    with cute.arch.elect_one():
                        place = row, column * PIECES + piece
                        if cute.elem_less(place, gC.shape[2:]):  # a last tile may lie outside of C
                            cute.copy(tma_c, tCsC[None, buffer], tCgC[None, *place])
                        cute.arch.cp_async_bulk_commit_group()
        if first_warp:
            with cute.arch.elect_one():
                cute.arch.cp_async_bulk_wait_group(0, read=True)
    # Nobody leaves while its shared memory may still be written to, or its barriers arrived at.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    swizzle = cute.make_swizzle(3, 4, 3)  # rows of 128 bytes, as TMA and wgmma swizzle them
    layout_a = cute.make_ordered_layout((TILE[0], TILE[2], STAGES), order=(1, 0, 2))
    layout_b = cute.make_ordered_layout((TILE[1], TILE[2], STAGES), order=(1, 0, 2))
    layout_c = cute.make_ordered_layout((*STORE, CONSUMERS * BUFFERS), order=(1, 0, 2))
    layout_a = cute.make_composed_layout(swizzle, 0, layout_a)
    layout_b = cute.make_composed_layout(swizzle, 0, layout_b)
    layout_c = cute.make_composed_layout(swizzle, 0, layout_c)
    load = cpasync.CopyBulkTensorTileG2SOp()
    tma_a, tensor_a = cpasync.make_tiled_tma_atom(load, mA, layout_a, (TILE[0], TILE[2]))
    share = cpasync.CopyBulkTensorTileG2SMulticastOp()
    tma_b, tensor_b = cpasync.make_tiled_tma_atom(share, mB, layout_b, (TILE[1], TILE[2]), CLUSTER[0])
    store = cpasync.CopyBulkTensorTileS2GOp()
    tma_c, tensor_c = cpasync.make_tiled_tma_atom(store, mC, cute.select(layout_c, mode=[0, 1]), STORE)
    tiles = cute.ceil_div(mC.shape, (TILE[0] * CLUSTER[0], TILE[1]))  # of clusters
    ctas = min(SMS // CLUSTER[0], tiles[0] * tiles[1]) * CLUSTER[0]
    hopper_pingpong(
        tma_a,
        tensor_a,
        tma_b,
        tensor_b,
        tma_c,
        tensor_c,
        layout_a,
        layout_b,
        layout_c,
        tiles,
        mC.element_type,
    ).launch(grid=(ctas, 1, 1), block=(THREADS, 1, 1), cluster=CLUSTER, min_blocks_per_mp=1)
