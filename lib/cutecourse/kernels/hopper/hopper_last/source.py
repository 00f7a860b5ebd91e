"""The last GEMM for Hopper: C = A * B^T, row-major A (M, K), B (N, K), C (M, N) of 16 bits, sums in f32.

It joins the rungs before it. One warp loads with TMA, two warpgroups multiply and store. Clusters share what
they load, and go from tile to tile in an order that keeps L2 warm. The tensor cores go on while C is stored:

    ping-pong    each warpgroup has a whole tile, and one stores while the other multiplies.
    cooperative  both have rows of one tile. They round their sums to 16 bits, which takes half the registers,
                 and begin the next tile. While its first k-tiles are multiplied, the rounded ones are stored.

Ping-pong needs registers for a whole tile in each warpgroup. So its tiles are smaller, and more is loaded.
"""

from typing import NamedTuple

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.nvgpu.warp import StMatrix8x8x16bOp
from cutlass.memory import SmemAllocator

MNK = (512, 768, 192)
CONSUMERS = 2  # warpgroups
THREADS = 128 * (1 + CONSUMERS)
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 24, 240  # 168 each at first: 24 + 2 * 240 = 3 * 168
STORED, TURN = 1, 1 + CONSUMERS  # the first named barriers of the stores, and of the turns in ping-pong
SMS = 132


class How(NamedTuple):
    """What is chosen for a size.

    tile     of C and along K.
    cluster  CTAs along M, which share a tile of B, and along N, which share a tile of A.
    stages   of shared memory, for tiles of A and B.
    piece    columns of C that are stored at once, and `buffers` for such pieces in each warpgroup.
    group    rows of clusters' tiles that are computed together; columns, if `along_n`.
    """

    pingpong: bool
    tile: tuple
    cluster: tuple
    stages: int
    piece: int
    buffers: int
    group: int
    along_n: bool

    @property
    def rows(self):
        """The rows of a tile that one warpgroup has."""
        return self.tile[0] if self.pingpong else self.tile[0] // CONSUMERS

    @property
    def ctas(self):
        """The CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1]


def make_mma(dtype, columns):
    """One warpgroup's MMA: 64 rows of C and these columns, and an instruction multiplies 16 of K."""
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
def tile_of(number: cutlass.Int32, tiles: cutlass.Constexpr, how: cutlass.Constexpr):
    """The place of a cluster's tile: down a group of rows of such tiles, then the next column; or across."""
    down, across = tiles[::-1] if how.along_n else tiles
    group, within = number // (how.group * across), number % (how.group * across)
    rows = cutlass.min(how.group, down - group * how.group)  # the last group may have fewer
    row, column = group * how.group + within % rows, within // rows
    return (column, row) if how.along_n else (row, column)


@cute.jit
def free(barrier: cute.Pointer, loaders: list):
    """A thread of the warpgroup tells each CTA that loads into a stage that the warpgroup has read it."""
    if cute.arch.make_warp_uniform(cute.arch.warp_idx()) % 4 == 0:
        with cute.arch.elect_one():
            for cta in cutlass.range_constexpr(len(loaders)):
                cute.arch.mbarrier_arrive(barrier, loaders[cta])


@cute.jit
def multiply(
    tiled_mma: cute.TiledMma,
    acc: cute.Tensor,
    tCrA: cute.Tensor,
    tCrB: cute.Tensor,
    full: cute.Pointer,
    empty: cute.Pointer,
    at: cutlass.Int32,
    loaders: list,
    first: cutlass.Constexpr,
):
    """Issue the MMAs of a k-tile and free the stage of the one before. The first one of a tile clears."""
    stages = cute.size(tCrA, mode=[3])
    stage, turn = at % stages, at // stages
    cute.arch.mbarrier_wait(full + stage, turn % 2)
    warpgroup.fence()
    tiled_mma.set(warpgroup.Field.ACCUMULATE, not first)
    for block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
        now = (None, None, block, stage)
        cute.gemm(tiled_mma, acc, tCrA[now], tCrB[now], acc)
        tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
    warpgroup.commit_group()
    if cutlass.const_expr(not first):
        warpgroup.wait_group(1)  # my warpgroup has read the k-tile before
        free(empty + (at - 1) % stages, loaders)


@cute.jit
def store(
    tma_c: cute.CopyAtom,
    stmatrix: cute.CopyAtom,
    tRrC: cute.Tensor,
    tRsC: cute.Tensor,
    tCsC: cute.Tensor,
    tCgC: cute.Tensor,
    consumer: cutlass.Int32,
    number: cutlass.Int32,
    place: cute.Coord,
    how: cutlass.Constexpr,
):
    """A warpgroup writes a rounded piece of C to shared memory; one of its threads has TMA store it."""
    first_warp = cute.arch.make_warp_uniform(cute.arch.warp_idx()) % 4 == 0
    buffer = consumer * how.buffers + number % how.buffers
    if first_warp:
        with cute.arch.elect_one():  # the thread that stores: TMA has read what this buffer held
            cute.arch.cp_async_bulk_wait_group(how.buffers - 1, read=True)
    cute.arch.barrier(barrier_id=STORED + consumer, number_of_threads=128)
    cute.copy(stmatrix, tRrC, tRsC[None, None, None, buffer])
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.barrier(barrier_id=STORED + consumer, number_of_threads=128)
    if first_warp:
        with cute.arch.elect_one():
            if cute.elem_less(place, tCgC.shape[1:]):  # a last tile may lie outside of C
                cute.copy(tma_c, tCsC[None, buffer], tCgC[None, *place])
            cute.arch.cp_async_bulk_commit_group()


@cute.kernel
def hopper_last(
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
    sA = smem.allocate_tensor(dtype, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(dtype, layout_b.outer, 1024, swizzle=layout_b.inner)
    sC = smem.allocate_tensor(dtype, layout_c.outer, 1024, swizzle=layout_c.inner)
    full = smem.allocate_array(cutlass.Int64, stages)
    empty = smem.allocate_array(cutlass.Int64, stages)

    # Who reads what a CTA loads: itself, the CTAs with the same rows, and those with the same columns.
    readers = ctas_m + ctas_n - 1
    if warp == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(stages):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, readers * (1 if how.pingpong else CONSUMERS))
        cute.arch.mbarrier_init_fence()
    if warp == 4:
        for tensor_map in (tma_a, tma_b, tma_c):
            cpasync.prefetch_descriptor(tensor_map)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    # A programmatic launch: the next kernel may start now. Its CTAs need most of an SM's shared memory, so
    # each begins when a CTA of this kernel has left. And the kernel ahead of this one may still run, and
    # write A, B or the same C. So the warp that loads and the warpgroups that store prepare everything, then
    # wait until that kernel has ended and its writes are visible. It ends only after its own wait.
    cute.arch.griddepcontrol_launch_dependents()

    gA = cute.local_tile(mA, (how.tile[0], how.tile[2]), (None, None))  # (128, 64, along M, k-tiles)
    gB = cute.local_tile(mB, (how.tile[1], how.tile[2]), (None, None))
    gC = cute.local_tile(mC, (how.rows, how.piece), (None, None))
    k_tiles = cute.size(gA, mode=[3])
    # The clusters take turns: each begins with the tile of its own number, then skips as many as there are.
    first, clusters = cute.arch.block_idx()[0] // how.ctas, cute.arch.grid_dim()[0] // how.ctas
    count = tiles[0] * tiles[1]
    at = cutlass.Int32(0)  # the k-tiles of all tiles, counted on: which stage, and which of its turns

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
                # Every other tile goes backwards along K: L2 still has the end of the rows that stay.
                backwards = at // k_tiles % 2 == 1
                for step in cutlass.range(k_tiles, unroll=1):
                    k = k_tiles - 1 - step if backwards else step
                    stage, turn = at % stages, at // stages
                    cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive_and_expect_tx(
                            full + stage, (how.tile[0] + how.tile[1]) * how.tile[2] * 2
                        )
                    cute.copy(tma_a, from_a[None, k], tAsA[None, stage], tma_bar_ptr=full + stage, **to_a)
                    cute.copy(tma_b, from_b[None, k], tBsB[None, stage], tma_bar_ptr=full + stage, **to_b)
                    at += 1
    else:
        cute.arch.setmaxregister_increase(CONSUMER_REGISTERS)
        tiled_mma = make_mma(dtype, how.tile[1])
        thr_mma = tiled_mma.get_slice(0)
        my_rows = (0 if how.pingpong else consumer), 0, 0
        mine = cute.local_tile(sA, (how.rows, how.tile[2], stages), my_rows)
        # A fragment of A or B is a shared-memory descriptor; the fragment of C is registers.
        tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(mine))  # (1, 64 rows each, 4, stages)
        tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
        acc = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C((how.rows, how.tile[1])))

        # The sums, rounded, in pieces of some columns; an instruction gives columns in blocks of 8.
        pieces, blocks = how.tile[1] // how.piece, how.piece // 8
        rounded = cute.make_fragment_like(acc, dtype)
        in_pieces = cute.make_tensor(
            rounded.iterator,
            cute.make_layout(
                ((2, 2, blocks), how.rows // 64, pieces),
                stride=((1, 2, 4), 4 * blocks * pieces, 4 * blocks),
            ),
        )
        piece_mma = make_mma(dtype, how.piece)
        tCrC = cute.make_rmem_tensor(piece_mma.partition_shape_C((how.rows, how.piece)), dtype)
        stmatrix = StMatrix8x8x16bOp(transpose=False, num_matrices=4 if blocks % 2 == 0 else 2)
        stmatrix = cute.make_copy_atom(stmatrix, dtype)
        thr_store = cute.make_tiled_copy_C(stmatrix, piece_mma).get_slice(tid % 128)
        tCsC, tCgC = cpasync.tma_partition(
            tma_c, 0, cute.make_layout(1), cute.group_modes(sC, 0, 2), cute.group_modes(gC, 0, 2)
        )
        to_c = tma_c, stmatrix, thr_store.retile(tCrC), thr_store.partition_D(sC), tCsC, tCgC, consumer

        # Who loads what I read: the CTAs with my rows, me among them, then the others with my columns.
        loaders = [rank_m + ctas_m * other for other in range(ctas_n)]
        loaders += [(rank_m + other) % ctas_m + ctas_m * rank_n for other in range(1, ctas_m)]

        step = clusters
        if cutlass.const_expr(how.pingpong):
            first, step = first + consumer * clusters, CONSUMERS * clusters
            at = consumer * k_tiles
            if consumer == 1:
                cute.arch.barrier_arrive(barrier_id=TURN, number_of_threads=256)  # the other one begins
        k_tile = tiled_mma, acc, tCrA, tCrB, full, empty
        # In the shadow of these k-tiles the tile before is stored.
        shadow = 1 if how.pingpong else min(pieces, k_tiles)
        stored = cutlass.Int32(0)  # pieces, before those of the tile that is rounded
        row, column = cutlass.Int32(0), cutlass.Int32(0)
        cute.arch.griddepcontrol_wait()
        for number in cutlass.range(first, count, step, unroll=1):
            if cutlass.const_expr(how.pingpong):
                cute.arch.barrier(barrier_id=TURN + consumer, number_of_threads=256)  # my turn
            for k in cutlass.range_constexpr(shadow):
                multiply(*k_tile, at, loaders, k == 0)
                at += 1
                if cutlass.const_expr(not how.pingpong):
                    if number > first:
                        for piece in cutlass.range_constexpr(k, pieces if k == shadow - 1 else k + 1):
                            tCrC.store(in_pieces[None, None, piece].load())
                            store(*to_c, stored + piece, (row, column + piece), how)
            for _ in cutlass.range(shadow, k_tiles, unroll=1):
                multiply(*k_tile, at, loaders, False)
                at += 1
            if cutlass.const_expr(how.pingpong):
                cute.arch.barrier_arrive(barrier_id=TURN + 1 - consumer, number_of_threads=256)
            warpgroup.wait_group(0)
            free(empty + (at - 1) % stages, loaders)

            rounded.store(acc.load().to(dtype))
            stored += pieces
            row, column = tile_of(number, tiles, how)
            row, column = row * ctas_m + rank_m, (column * ctas_n + rank_n) * pieces
            if cutlass.const_expr(how.pingpong):
                at += k_tiles  # those of the other one's tile
                for piece in cutlass.range_constexpr(pieces):
                    tCrC.store(in_pieces[None, None, piece].load())
                    store(*to_c, stored + piece, (row, column + piece), how)
            else:
                row = row * CONSUMERS + consumer
        if cutlass.const_expr(not how.pingpong):
            if first < count:
                for piece in cutlass.range_constexpr(pieces):
                    tCrC.store(in_pieces[None, None, piece].load())
                    store(*to_c, stored + piece, (row, column + piece), how)
        if warp % 4 == 0:
            with cute.arch.elect_one():
                cute.arch.cp_async_bulk_wait_group(0, read=True)
    # Nobody leaves while its shared memory may still be written to, or its barriers arrived at.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


def host_for(*chosen):
    """The host function for one choice: the fields of `How`."""
    how = How(*chosen)

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
        swizzle = cute.make_swizzle(3, 4, 3)  # rows of 128 bytes, as TMA and wgmma swizzle them
        # A piece of 64, 32 or 16 columns is swizzled by its rows' length; rows of 104 need none.
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
        hopper_last(*maps, layout_a, layout_b, layout_c, tiles, mC.element_type, how).launch(
            grid=(ctas, 1, 1),
            block=(THREADS, 1, 1),
            cluster=(how.ctas, 1, 1),
            min_blocks_per_mp=1,
            use_pdl=True,  # programmatic dependent launch
        )

    return host
