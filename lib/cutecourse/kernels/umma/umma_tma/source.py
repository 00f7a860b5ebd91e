"""The same tile of C, but TMA loads the k-tiles: one thread asks for two boxes, and a barrier counts bytes.

No thread computes an address or a swizzle. No fence is needed, because TMA and the tensor core both use the
async proxy. The price is a second barrier, which says when the bytes of both tiles are there.
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

MMA = (128, 128, 16)
TILE = (128, 128, 64)
TMEM_COLUMNS = 128
THREADS = 128


def make_mma():
    return cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            MMA,
            tcgen05.CtaGroup.ONE,
            tcgen05.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


@cute.kernel
def umma_tma(
    atom_a: cute.CopyAtom,
    tma_a: cute.Tensor,
    atom_b: cute.CopyAtom,
    tma_b: cute.Tensor,
    mC: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, swizzle=layout_b.inner)
    tma_barrier = smem.allocate_array(cutlass.Int64)
    mma_barrier = smem.allocate_array(cutlass.Int64)
    tmem_base = smem.allocate_array(cutlass.Int32)

    if warp == 0:
        cute.arch.alloc_tmem(TMEM_COLUMNS, tmem_base)
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(tma_barrier, 1)
            cute.arch.mbarrier_init(mma_barrier, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    tiled_mma = make_mma()
    thr_mma = tiled_mma.get_slice(0)  # this MMA takes one CTA
    gA = cute.local_tile(tma_a, (TILE[0], TILE[2]), (0, None))  # (128, 64, k-tiles)
    gB = cute.local_tile(tma_b, (TILE[1], TILE[2]), (0, None))
    gC = cute.local_tile(mC, TILE[:2], (0, 0))
    tCgA = thr_mma.partition_A(gA)  # (MmaA, 1, 4, k-tiles)
    tCgB = thr_mma.partition_B(gB)
    # A fragment of A or B is a shared-memory descriptor; the fragment of C is a place in tensor memory.
    tCrA = tiled_mma.make_fragment_A(sA)  # (1, 1, 4)
    tCrB = tiled_mma.make_fragment_B(sB)
    tCtC = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C(TILE[:2]))
    tCtC = cute.make_tensor(cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, tmem_base), tCtC.layout)
    tAsA, tAgA = cpasync.tma_partition(
        atom_a, 0, cute.make_layout(1), cute.group_modes(sA, 0, 3), cute.group_modes(tCgA, 0, 3)
    )
    tBsB, tBgB = cpasync.tma_partition(
        atom_b, 0, cute.make_layout(1), cute.group_modes(sB, 0, 3), cute.group_modes(tCgB, 0, 3)
    )
    tile_bytes = cute.size_in_bytes(cutlass.Float16, layout_a) + cute.size_in_bytes(cutlass.Float16, layout_b)

    tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
    for k in cutlass.range(cute.size(gA, mode=[2]), unroll=1):
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(tma_barrier, tile_bytes)
            cute.copy(atom_a, tAgA[None, k], tAsA, tma_bar_ptr=tma_barrier)
            cute.copy(atom_b, tBgB[None, k], tBsB, tma_bar_ptr=tma_barrier)
        cute.arch.mbarrier_wait(tma_barrier, k % 2)

        if warp == 0:
            for k_block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                cute.gemm(tiled_mma, tCtC, tCrA[None, None, k_block], tCrB[None, None, k_block], tCtC)
                tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
            with cute.arch.elect_one():
                tcgen05.commit(mma_barrier)
        cute.arch.mbarrier_wait(mma_barrier, k % 2)
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
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    tiled_mma = make_mma()
    atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, cutlass.Float16)
    layout_a = tcgen05.tile_to_mma_shape(atom, tiled_mma.partition_shape_A((TILE[0], TILE[2])))
    layout_b = tcgen05.tile_to_mma_shape(atom, tiled_mma.partition_shape_B((TILE[1], TILE[2])))
    load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    atom_a, tma_a = make_tiled_tma_atom_A(load, mA, layout_a, TILE, tiled_mma)
    atom_b, tma_b = make_tiled_tma_atom_B(load, mB, layout_b, TILE, tiled_mma)
    umma_tma(atom_a, tma_a, atom_b, tma_b, mC, layout_a, layout_b).launch(
        grid=(1, 1, 1), block=(THREADS, 1, 1)
    )
