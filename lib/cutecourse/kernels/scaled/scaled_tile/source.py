"""A tile of C with scale factors, in the CuTe DSL: the k-tiles of `umma_tma`, with the factors of A and of B.

A k-tile has 128 elements of e4m3 in each row, and four factors of ue8m0. Those of 128 rows are a block of 512
bytes, as `block_scales.placed` deals them. A bulk copy brings a block to shared memory, `tcgen05.cp` takes it
to four columns of tensor memory, and each of the four MMAs of the k-tile takes another byte of its words.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import (
    OperandMajorMode,
    cpasync,
    make_tiled_tma_atom_A,
    make_tiled_tma_atom_B,
    tcgen05,
)
from cutlass.memory import SmemAllocator
from cutlass.utils import blockscaled_layout

MMA = (128, 128, 32)
TILE = (128, 128, 128)
VECTOR = 32  # elements along K that share a factor
BLOCK_BYTES = 512  # the factors of 128 rows of a k-tile
SUMS, FACTORS = 128, 4  # columns of tensor memory: of the sums, and of each matrix's factors
TMEM_COLUMNS = 256
THREADS = 128


def make_mma():
    return cute.make_tiled_mma(
        tcgen05.MmaMXF8F6F4Op(
            cutlass.Float8E4M3FN,
            cutlass.Float8E4M3FN,
            MMA,
            tcgen05.CtaGroup.ONE,
            tcgen05.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


def to_tensor_memory(shared, columns):
    """The copy of a block of factors, and its two sides: the lanes of a warp get rows, four times."""
    atom = cute.make_copy_atom(tcgen05.Cp4x32x128bOp(tcgen05.CtaGroup.ONE), cutlass.Float8E8M0FNU)
    shared, columns = cute.filter_zeros(shared), cute.filter_zeros(columns)  # a factor is there once
    tiled = tcgen05.make_s2t_copy(atom, columns)
    thr = tiled.get_slice(0)
    source = tcgen05.get_s2t_smem_desc_tensor(tiled, thr.partition_S(shared))
    return tiled, source, thr.partition_D(columns)


@cute.kernel
def scaled_tile(
    atom_a: cute.CopyAtom,
    tma_a: cute.Tensor,
    atom_b: cute.CopyAtom,
    tma_b: cute.Tensor,
    mSFA: cute.Tensor,
    mSFB: cute.Tensor,
    mC: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    tiled_mma = make_mma()
    thr_mma = tiled_mma.get_slice(0)
    layout_sfa = blockscaled_layout.make_smem_layout_sfa(tiled_mma, TILE, VECTOR, 1)
    layout_sfb = blockscaled_layout.make_smem_layout_sfb(tiled_mma, TILE, VECTOR, 1)
    layout_sfa, layout_sfb = (cute.slice_(one, (None, None, None, 0)) for one in (layout_sfa, layout_sfb))
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float8E4M3FN, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float8E4M3FN, layout_b.outer, 1024, swizzle=layout_b.inner)
    sSFA = smem.allocate_tensor(cutlass.Float8E8M0FNU, layout_sfa, 1024)
    sSFB = smem.allocate_tensor(cutlass.Float8E8M0FNU, layout_sfb, 1024)
    full = smem.allocate_array(cutlass.Int64)
    done = smem.allocate_array(cutlass.Int64)
    tmem_base = smem.allocate_array(cutlass.Int32)

    if warp == 0:
        cute.arch.alloc_tmem(TMEM_COLUMNS, tmem_base)
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init(done, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    gA = cute.local_tile(tma_a, (TILE[0], TILE[2]), (0, None))  # (128, 128, k-tiles)
    gB = cute.local_tile(tma_b, (TILE[1], TILE[2]), (0, None))
    gC = cute.local_tile(mC, TILE[:2], (0, 0))
    tCgA = thr_mma.partition_A(gA)
    tCgB = thr_mma.partition_B(gB)
    tCrA = tiled_mma.make_fragment_A(sA)  # (1, 1, 4): descriptors
    tCrB = tiled_mma.make_fragment_B(sB)
    sums = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, tmem_base)
    tCtC = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C(TILE[:2]))
    tCtC = cute.make_tensor(sums, tCtC.layout)
    # The factors stand behind the sums. Their layouts say which byte of which column each MMA takes.
    tCtSFA = cute.make_tensor(
        cute.recast_ptr(sums + SUMS, dtype=cutlass.Float8E8M0FNU),
        blockscaled_layout.make_tmem_layout_sfa(tiled_mma, TILE, VECTOR, layout_sfa),
    )
    tCtSFB = cute.make_tensor(
        cute.recast_ptr(sums + SUMS + FACTORS, dtype=cutlass.Float8E8M0FNU),
        blockscaled_layout.make_tmem_layout_sfb(tiled_mma, TILE, VECTOR, layout_sfb),
    )
    copy_sfa, from_sfa, to_sfa = to_tensor_memory(sSFA, tCtSFA)
    copy_sfb, from_sfb, to_sfb = to_tensor_memory(sSFB, tCtSFB)
    tAsA, tAgA = cpasync.tma_partition(
        atom_a, 0, cute.make_layout(1), cute.group_modes(sA, 0, 3), cute.group_modes(tCgA, 0, 3)
    )
    tBsB, tBgB = cpasync.tma_partition(
        atom_b, 0, cute.make_layout(1), cute.group_modes(sB, 0, 3), cute.group_modes(tCgB, 0, 3)
    )
    block = cute.make_layout(BLOCK_BYTES)
    plain_sfa, plain_sfb = (
        cute.make_tensor(cute.recast_ptr(one.iterator, dtype=cutlass.Uint8), block) for one in (sSFA, sSFB)
    )
    bulk = cute.make_copy_atom(cpasync.CopyBulkG2SOp(), cutlass.Uint8)
    tile_bytes = (TILE[0] + TILE[1]) * TILE[2] + 2 * BLOCK_BYTES

    tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
    for k in cutlass.range(cute.size(gA, mode=[2]), unroll=1):
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, tile_bytes)
                cute.copy(bulk, mSFA[None, k], plain_sfa, mbar_ptr=full)
                cute.copy(bulk, mSFB[None, k], plain_sfb, mbar_ptr=full)
            cute.copy(atom_a, tAgA[None, k], tAsA, tma_bar_ptr=full)
            cute.copy(atom_b, tBgB[None, k], tBsB, tma_bar_ptr=full)
        cute.arch.mbarrier_wait(full, k % 2)

        if warp == 0:
            # The tensor core executes these in order: an MMA comes behind the copies before it.
            cute.copy(copy_sfa, from_sfa, to_sfa)
            cute.copy(copy_sfb, from_sfb, to_sfb)
            for k_block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                tiled_mma.set(tcgen05.Field.SFA, tCtSFA[None, None, k_block].iterator)
                tiled_mma.set(tcgen05.Field.SFB, tCtSFB[None, None, k_block].iterator)
                cute.gemm(tiled_mma, tCtC, tCrA[None, None, k_block], tCrB[None, None, k_block], tCtC)
                tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
            with cute.arch.elect_one():
                tcgen05.commit(done)
        cute.arch.mbarrier_wait(done, k % 2)
        cute.arch.sync_threads()  # a warp two k-tiles behind would wait for a phase that is over

    # tmem -> rmem -> gmem: a warp reads its 32 lanes, a thread one row of C, 32 columns at a time
    load = tcgen05.make_tmem_copy(
        cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), cutlass.Float32), tCtC
    ).get_slice(tid)
    tDtC = load.partition_S(tCtC)
    tDgC = load.partition_D(thr_mma.partition_C(gC))
    tDrC = cute.make_rmem_tensor(tDgC[None, 0, 0, 0].shape, cutlass.Float32)
    for i in cutlass.range(cute.size(tDgC, mode=[1]), unroll=1):
        cute.copy(load, tDtC[None, i, 0, 0], tDrC)
        cute.arch.fence_view_async_tmem_load()
        cute.autovec_copy(tDrC, tDgC[None, i, 0, 0])

    cute.arch.sync_threads()
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit()
        cute.arch.dealloc_tmem(tCtC.iterator, TMEM_COLUMNS)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mSFA: cute.Tensor, mSFB: cute.Tensor, mC: cute.Tensor):
    tiled_mma = make_mma()
    atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, cutlass.Float8E4M3FN)
    layout_a = tcgen05.tile_to_mma_shape(atom, tiled_mma.partition_shape_A((TILE[0], TILE[2])))
    layout_b = tcgen05.tile_to_mma_shape(atom, tiled_mma.partition_shape_B((TILE[1], TILE[2])))
    load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    atom_a, tma_a = make_tiled_tma_atom_A(load, mA, layout_a, TILE, tiled_mma)
    atom_b, tma_b = make_tiled_tma_atom_B(load, mB, layout_b, TILE, tiled_mma)
    scaled_tile(atom_a, tma_a, atom_b, tma_b, mSFA, mSFB, mC, layout_a, layout_b).launch(
        grid=(1, 1, 1), block=(THREADS, 1, 1)
    )
