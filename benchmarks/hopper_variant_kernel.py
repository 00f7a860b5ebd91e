"""The kernel that `hopper_variants` varies: its constants choose tile, roles, cluster, order and epilogue.

C = A * B^T, A (M, K), B (N, K) and C (M, N) row-major in 16 bits, sums in f32.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

TILE = (128, 256, 64)
CONSUMERS = 2
PINGPONG = False
CLUSTER = (2, 1)
STAGES = 4
STORES = 2
GROUP = 8
ALONG = "m"
SNAKE = False
BACKWARDS = False
REGISTERS = (40, 232)
RELEASE = "group"
POLICIES = (0, 0, 0)
BOX = 64
PREFETCH = False
EARLY = False
STAGGER = 0
PROMOTION = "128B"
LATE = False
ROW_MAJOR = False
SMS = 132

CTAS = CLUSTER[0] * CLUSTER[1]
ROWS = TILE[0] if PINGPONG else TILE[0] // CONSUMERS  # of C's tile, for one consumer
THREADS = 128 * (CONSUMERS + 1)
READERS = (CLUSTER[0] + CLUSTER[1] - 1) * (1 if PINGPONG else CONSUMERS) * (4 if RELEASE == "warp" else 1)
ORDER = 8  # the first of the named barriers that pass the turn


@cute.jit
def tile_of(index: cutlass.Int32, tiles: cutlass.Constexpr):
    """Row and column of a cluster's tile, counted in such tiles."""
    down, across = tiles if ALONG == "m" else tiles[::-1]
    group, within = index // (GROUP * across), index % (GROUP * across)
    rows = cutlass.min(GROUP, down - group * GROUP)
    row, column = group * GROUP + within % rows, within // rows
    if cutlass.const_expr(SNAKE):
        if group % 2 == 1:
            column = across - 1 - column
    if cutlass.const_expr(ALONG == "n"):
        row, column = column, row
    return row, column


@cute.jit
def multiply(
    tiled_mma: cute.TiledMma,
    acc: cute.Tensor,
    tCrA: cute.Tensor,
    tCrB: cute.Tensor,
    stage: cutlass.Int32,
    clear: cutlass.Constexpr,
):
    """Issue the MMAs of a k-tile: step by step along K, or with ROW_MAJOR 64 rows after another."""
    rows, blocks = cute.size(tCrA, mode=[1]), cute.size(tCrA, mode=[2])
    if cutlass.const_expr(ROW_MAJOR):
        for row in cutlass.range_constexpr(rows):
            tiled_mma.set(warpgroup.Field.ACCUMULATE, not clear)
            for block in cutlass.range_constexpr(blocks):
                part = cute.append_ones(acc[None, row, 0], up_to_rank=3)
                now_a = cute.append_ones(tCrA[None, row, block, stage], up_to_rank=2)
                now_b = cute.append_ones(tCrB[None, 0, block, stage], up_to_rank=2)
                cute.gemm(tiled_mma, part, now_a, now_b, part)
                tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
    else:
        tiled_mma.set(warpgroup.Field.ACCUMULATE, not clear)
        for block in cutlass.range_constexpr(blocks):
            at = (None, None, block, stage)
            cute.gemm(tiled_mma, acc, tCrA[at], tCrB[at], acc)
            tiled_mma.set(warpgroup.Field.ACCUMULATE, True)


@cute.jit
def store_piece(
    tma_c: cute.CopyAtom,
    stmatrix: cute.CopyAtom,
    tRrC: cute.Tensor,
    tRsC: cute.Tensor,
    tCsC: cute.Tensor,
    tCgC: cute.Tensor,
    inside: cutlass.Constexpr,
    buffer: cutlass.Int32,
    own: cutlass.Int32,
    consumer: cutlass.Int32,
    row: cutlass.Int32,
    column: cutlass.Int32,
):
    """A warpgroup writes rounded columns to a buffer, and one thread stores them."""
    if own < 32:
        with cute.arch.elect_one():
            cute.arch.cp_async_bulk_wait_group(STORES - 1, read=True)
    cute.arch.barrier(barrier_id=1 + consumer, number_of_threads=128)
    cute.copy(stmatrix, tRrC, tRsC[None, None, None, buffer])
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.barrier(barrier_id=1 + consumer, number_of_threads=128)
    if own < 32:
        with cute.arch.elect_one():
            options_c = {}
            if cutlass.const_expr(POLICIES[2] != 0):
                options_c["cache_policy"] = cutlass.Int64(POLICIES[2])
            if cute.elem_less((row, column), inside):
                cute.copy(tma_c, tCsC[None, buffer], tCgC[None, row, column], **options_c)
            cute.arch.cp_async_bulk_commit_group()


@cute.kernel
def hopper_variant(
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
    """Warpgroup 0 loads; the others multiply and store."""
    tid, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    blocks, _, _ = cute.arch.grid_dim()
    warp_index = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster()) if CTAS > 1 else cutlass.Int32(0)
    rank_m, rank_n = rank % CLUSTER[0], rank // CLUSTER[0]
    smem = SmemAllocator()
    sA = smem.allocate_tensor(dtype, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(dtype, layout_b.outer, 1024, swizzle=layout_b.inner)
    sC = smem.allocate_tensor(dtype, layout_c.outer, 1024, swizzle=layout_c.inner)
    full = smem.allocate_array(cutlass.Int64, STAGES)
    empty = smem.allocate_array(cutlass.Int64, STAGES)
    if warp_index == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, READERS)
    cute.arch.mbarrier_init_fence()
    if cutlass.const_expr(CTAS > 1):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    else:
        cute.arch.sync_threads()

    gA = cute.local_tile(mA, (TILE[0], TILE[2]), (None, None))
    gB = cute.local_tile(mB, (TILE[1], TILE[2]), (None, None))
    gC = cute.local_tile(mC, (ROWS, BOX), (None, None))
    k_tiles = cute.size(gA, mode=[3])
    first, step, count = block // CTAS, blocks // CTAS, tiles[0] * tiles[1]

    if warp_index < 4:
        cute.arch.setmaxregister_decrease(REGISTERS[0])
        if warp_index == 0:
            if cutlass.const_expr(PREFETCH):
                cpasync.prefetch_descriptor(tma_a)
                cpasync.prefetch_descriptor(tma_b)
                cpasync.prefetch_descriptor(tma_c)
            tAsA, tAgA = cpasync.tma_partition(
                tma_a,
                rank_n,
                cute.make_layout(CLUSTER[1]),
                cute.group_modes(sA, 0, 2),
                cute.group_modes(gA, 0, 2),
            )
            tBsB, tBgB = cpasync.tma_partition(
                tma_b,
                rank_m,
                cute.make_layout(CLUSTER[0]),
                cute.group_modes(sB, 0, 2),
                cute.group_modes(gB, 0, 2),
            )
            mask_a = cutlass.Int16(0)
            mask_b = cutlass.Int16(0)
            for other in cutlass.range_constexpr(CLUSTER[1]):
                mask_a = mask_a | cutlass.Int16(1 << (CLUSTER[0] * other))
            for other in cutlass.range_constexpr(CLUSTER[0]):
                mask_b = mask_b | cutlass.Int16(1 << other)
            mask_a = (mask_a << rank_m).to(cutlass.Int16)
            mask_b = (mask_b << (CLUSTER[0] * rank_n)).to(cutlass.Int16)
            options_a = {"mcast_mask": mask_a} if CLUSTER[1] > 1 else {}
            options_b = {"mcast_mask": mask_b} if CLUSTER[0] > 1 else {}
            if cutlass.const_expr(POLICIES[0] != 0):
                options_a["cache_policy"] = cutlass.Int64(POLICIES[0])
            if cutlass.const_expr(POLICIES[1] != 0):
                options_b["cache_policy"] = cutlass.Int64(POLICIES[1])
            stage, parity, turn = cutlass.Int32(0), cutlass.Int32(1), cutlass.Int32(0)
            if cutlass.const_expr(STAGGER > 0):
                # Clusters that have one tile fewer may begin later. Their delays are spread over STAGGER ns.
                late, begin = first - count % step, cute.arch.globaltimer()
                if late >= 0 and count > step:
                    delay = cutlass.Int64(late) * STAGGER // (step - count % step)
                    while cute.arch.globaltimer() - begin < delay:
                        pass
            if cutlass.const_expr(EARLY):
                cute.arch.griddepcontrol_wait()
            for index in cutlass.range(first, count, step, unroll=1):
                row, column = tile_of(index, tiles)
                row, column = row * CLUSTER[0] + rank_m, column * CLUSTER[1] + rank_n
                for k_tile in cutlass.range(k_tiles, unroll=1):
                    k = k_tile
                    if cutlass.const_expr(BACKWARDS):
                        if turn % 2 == 1:
                            k = k_tiles - 1 - k_tile
                    cute.arch.mbarrier_wait(empty + stage, parity)
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive_and_expect_tx(
                            full + stage, (TILE[0] + TILE[1]) * TILE[2] * 2
                        )
                    cute.copy(
                        tma_a, tAgA[None, row, k], tAsA[None, stage], tma_bar_ptr=full + stage, **options_a
                    )
                    cute.copy(
                        tma_b, tBgB[None, column, k], tBsB[None, stage], tma_bar_ptr=full + stage, **options_b
                    )
                    stage += 1
                    if stage == STAGES:
                        stage = cutlass.Int32(0)
                        parity = parity ^ 1
                turn += 1
            if cutlass.const_expr(EARLY):
                cute.arch.griddepcontrol_launch_dependents()
    else:
        cute.arch.setmaxregister_increase(REGISTERS[1])
        consumer = warp_index // 4 - 1
        own = tid % 128
        tiled_mma = cute.make_tiled_mma(
            warpgroup.MmaF16BF16Op(
                dtype,
                cutlass.Float32,
                (64, TILE[1], 16),
                warpgroup.OperandSource.SMEM,
                OperandMajorMode.K,
                OperandMajorMode.K,
            )
        )
        thr_mma = tiled_mma.get_slice(0)
        my_rows = 0 if PINGPONG else consumer
        mine = cute.local_tile(sA, (ROWS, TILE[2], STAGES), (my_rows, 0, 0))
        tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(mine))
        tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
        acc = cute.make_rmem_tensor(tiled_mma.partition_shape_C((ROWS, TILE[1])), cutlass.Float32)

        # The same registers, in pieces of BOX columns: ((2, 2, BOX / 8), along M, pieces).
        pieces = TILE[1] // BOX
        registers = TILE[1] // 2
        in_pieces = cute.make_tensor(
            acc.iterator,
            cute.make_layout(((2, 2, BOX // 8), ROWS // 64, pieces), stride=((1, 2, 4), registers, BOX // 2)),
        )
        piece_mma = cute.make_tiled_mma(
            warpgroup.MmaF16BF16Op(
                dtype,
                cutlass.Float32,
                (64, BOX, 16),
                warpgroup.OperandSource.SMEM,
                OperandMajorMode.K,
                OperandMajorMode.K,
            )
        )
        stmatrix = cute.make_copy_atom(
            warp.StMatrix8x8x16bOp(transpose=False, num_matrices=4 if BOX % 16 == 0 else 2), dtype
        )
        thr_store = cute.make_tiled_copy_C(stmatrix, piece_mma).get_slice(own)
        tRsC = thr_store.partition_D(sC)
        rounded = cute.make_rmem_tensor(piece_mma.partition_shape_C((ROWS, BOX)), dtype)
        tCsC, tCgC = cpasync.tma_partition(
            tma_c, 0, cute.make_layout(1), cute.group_modes(sC, 0, 2), cute.group_modes(gC, 0, 2)
        )

        # This lane arrives at `empty` of one CTA that sends to this one.
        lane = tid % 32
        other_m = lane - CLUSTER[1]
        if other_m >= rank_m:
            other_m += 1
        peer = rank_m + CLUSTER[0] * lane
        if lane >= CLUSTER[1]:
            peer = other_m + CLUSTER[0] * rank_n
        tells = lane < CLUSTER[0] + CLUSTER[1] - 1
        if cutlass.const_expr(RELEASE == "group"):
            tells = tells and own < 32

        if cutlass.const_expr(PINGPONG):
            if consumer == 1:
                cute.arch.barrier_arrive(barrier_id=ORDER, number_of_threads=256)
        start, stride = (first + consumer * step, 2 * step) if PINGPONG else (first, step)
        stage, parity, previous = cutlass.Int32(0), cutlass.Int32(0), cutlass.Int32(0)
        if cutlass.const_expr(PINGPONG):
            stage, parity = (consumer * k_tiles) % STAGES, (consumer * k_tiles) // STAGES % 2
        slot = cutlass.Int32(0)
        unrolled = min(pieces, k_tiles) if LATE else 1
        packed = cute.make_fragment_like(acc, dtype)
        packed_pieces = cute.make_tensor(packed.iterator, in_pieces.layout)
        row_before, column_before = cutlass.Int32(0), cutlass.Int32(0)
        to_store = (
            tma_c,
            stmatrix,
            thr_store.retile(rounded),
            tRsC,
            tCsC,
            tCgC,
            cutlass.const_expr(gC.shape[2:]),
        )
        for index in cutlass.range(start, count, stride, unroll=1):
            row, column = tile_of(index, tiles)
            row, column = row * CLUSTER[0] + rank_m, column * CLUSTER[1] + rank_n
            if cutlass.const_expr(pieces % STORES == 0):
                slot = 0
            if cutlass.const_expr(PINGPONG):
                cute.arch.barrier(barrier_id=ORDER + consumer, number_of_threads=256)
            for k in cutlass.range_constexpr(unrolled):
                cute.arch.mbarrier_wait(full + stage, parity)
                warpgroup.fence()
                multiply(tiled_mma, acc, tCrA, tCrB, stage, k == 0)
                warpgroup.commit_group()
                if cutlass.const_expr(k > 0):
                    warpgroup.wait_group(1)
                    if tells:
                        if cutlass.const_expr(CTAS > 1):
                            cute.arch.mbarrier_arrive(empty + previous, peer)
                        else:
                            cute.arch.mbarrier_arrive(empty + previous)
                previous = stage
                stage += 1
                if stage == STAGES:
                    stage = cutlass.Int32(0)
                    parity = parity ^ 1
                if cutlass.const_expr(LATE):
                    # Store the previous tile while the first k-tiles of this one are multiplied.
                    if index > start:
                        for piece in cutlass.range_constexpr(k, pieces if k == unrolled - 1 else k + 1):
                            rounded.store(packed_pieces[None, None, piece].load())
                            buffer = consumer * STORES + piece % STORES
                            store_piece(*to_store, buffer, own, consumer, row_before, column_before + piece)
            for _ in cutlass.range(unrolled, k_tiles, unroll=1):
                cute.arch.mbarrier_wait(full + stage, parity)
                warpgroup.fence()
                multiply(tiled_mma, acc, tCrA, tCrB, stage, False)
                warpgroup.commit_group()
                warpgroup.wait_group(1)
                if tells:
                    if cutlass.const_expr(CTAS > 1):
                        cute.arch.mbarrier_arrive(empty + previous, peer)
                    else:
                        cute.arch.mbarrier_arrive(empty + previous)
                previous = stage
                stage += 1
                if stage == STAGES:
                    stage = cutlass.Int32(0)
                    parity = parity ^ 1
            if cutlass.const_expr(PINGPONG):
                cute.arch.barrier_arrive(barrier_id=ORDER + 1 - consumer, number_of_threads=256)
            warpgroup.wait_group(0)
            if tells:
                if cutlass.const_expr(CTAS > 1):
                    cute.arch.mbarrier_arrive(empty + previous, peer)
                else:
                    cute.arch.mbarrier_arrive(empty + previous)
            if cutlass.const_expr(PINGPONG):
                # The other consumer multiplies the next k_tiles k-tiles.
                skipped = stage + k_tiles
                parity = (parity + skipped // STAGES) % 2
                stage = skipped % STAGES

            row_c = row if PINGPONG else row * CONSUMERS + consumer
            if cutlass.const_expr(LATE):
                packed.store(acc.load().to(dtype))
                row_before, column_before = row_c, column * pieces
            else:
                for piece in cutlass.range_constexpr(pieces):
                    buffer = consumer * STORES + slot
                    slot = (slot + 1) % STORES
                    rounded.store(in_pieces[None, None, piece].load().to(dtype))
                    store_piece(*to_store, buffer, own, consumer, row_c, column * pieces + piece)
        if cutlass.const_expr(LATE):
            if start < count:
                for piece in cutlass.range_constexpr(pieces):
                    rounded.store(packed_pieces[None, None, piece].load())
                    buffer = consumer * STORES + piece % STORES
                    store_piece(*to_store, buffer, own, consumer, row_before, column_before + piece)
        if own < 32:
            with cute.arch.elect_one():
                cute.arch.cp_async_bulk_wait_group(0, read=True)
    if cutlass.const_expr(CTAS > 1):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    """Make the tensor maps and launch."""
    dtype = mA.element_type
    kinds = {
        64: warpgroup.SmemLayoutAtomKind.K_SW128,
        32: warpgroup.SmemLayoutAtomKind.K_SW64,
        16: warpgroup.SmemLayoutAtomKind.K_SW32,
    }
    atom = warpgroup.make_smem_layout_atom(kinds[TILE[2]], dtype)
    layout_a = cute.tile_to_shape(atom, (TILE[0], TILE[2], STAGES), (0, 1, 2))
    layout_b = cute.tile_to_shape(atom, (TILE[1], TILE[2], STAGES), (0, 1, 2))
    bits = {64: 3, 32: 2, 16: 1}.get(BOX, 0)
    layout_c = cute.make_ordered_layout((ROWS, BOX, STORES * CONSUMERS), order=(1, 0, 2))
    layout_c = cute.make_composed_layout(cute.make_swizzle(bits, 4, 3), 0, layout_c)
    load, multicast = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileG2SMulticastOp()
    store = cpasync.CopyBulkTensorTileS2GOp()
    one_a, one_b, one_c = (cute.select(layout, mode=[0, 1]) for layout in (layout_a, layout_b, layout_c))
    op_a, op_b = (multicast if size > 1 else load for size in (CLUSTER[1], CLUSTER[0]))
    tma_a, coordinates_a = cpasync.make_tiled_tma_atom(
        op_a, mA, one_a, (TILE[0], TILE[2]), num_multicast=CLUSTER[1]
    )
    tma_b, coordinates_b = cpasync.make_tiled_tma_atom(
        op_b, mB, one_b, (TILE[1], TILE[2]), num_multicast=CLUSTER[0]
    )
    tma_c, coordinates_c = cpasync.make_tiled_tma_atom(store, mC, one_c, (ROWS, BOX))
    tiles = tuple(-(-mC.shape[i] // (TILE[i] * CLUSTER[i])) for i in range(2))
    clusters = min(SMS // CTAS, tiles[0] * tiles[1])
    hopper_variant(
        tma_a,
        coordinates_a,
        tma_b,
        coordinates_b,
        tma_c,
        coordinates_c,
        layout_a,
        layout_b,
        layout_c,
        tiles,
        dtype,
    ).launch(grid=(clusters * CTAS, 1, 1), block=(THREADS, 1, 1), cluster=(CTAS, 1, 1), min_blocks_per_mp=1)
