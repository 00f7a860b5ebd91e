"""The one-tile GEMM of umma_tile with two parts left open: multiply and commit, and the epilogue.

`parts_spec(multiply, epilogue)` is the launch with both given, as functions of the CuTe DSL:

    multiply(tiled_mma, tCtC, tCrA, tCrB, barrier, warp)   all MMAs of a k-tile, and the commit
    epilogue(tCtC, tCgC, tid)                              tensor memory to global memory
"""

from collections.abc import Callable

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import tcgen05
from cutlass.memory import SmemAllocator

from cutecourse.kernels.umma.umma_tile.source import THREADS, TILE, TMEM_COLUMNS, make_mma


@cute.jit
def multiply(
    tiled_mma: cute.TiledMma,
    tCtC: cute.Tensor,
    tCrA: cute.Tensor,
    tCrB: cute.Tensor,
    barrier: cute.Pointer,
    warp: cutlass.Int32,
):
    """Issue the four MMAs of a k-tile, and let the barrier know when they are done."""
    if warp == 0:
        for k_block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
            cute.gemm(tiled_mma, tCtC, tCrA[None, None, k_block], tCrB[None, None, k_block], tCtC)
            tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
        with cute.arch.elect_one():
            tcgen05.commit(barrier)


@cute.jit
def epilogue(tCtC: cute.Tensor, tCgC: cute.Tensor, tid: cutlass.Int32):
    """Each thread loads its row of C, 32 columns at a time, and stores it."""
    load = tcgen05.make_tmem_copy(
        cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), cutlass.Float32), tCtC
    ).get_slice(tid)
    tDtC = load.partition_S(tCtC)
    tDgC = load.partition_D(tCgC)
    tDrC = cute.make_rmem_tensor(tDgC[None, 0, 0, 0].shape, cutlass.Float32)
    for i in cutlass.range(cute.size(tDgC, mode=[1]), unroll=1):
        cute.copy(load, tDtC[None, i, 0, 0], tDrC)
        cute.arch.fence_view_async_tmem_load()
        cute.autovec_copy(tDrC, tDgC[None, i, 0, 0])


@cute.kernel
def umma_parts(
    mA: cute.Tensor,
    mB: cute.Tensor,
    mC: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    multiply: cutlass.Constexpr,
    epilogue: cutlass.Constexpr,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, swizzle=layout_b.inner)
    mma_barrier = smem.allocate_array(cutlass.Int64)
    tmem_base = smem.allocate_array(cutlass.Int32)

    if warp == 0:
        cute.arch.alloc_tmem(TMEM_COLUMNS, tmem_base)
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(mma_barrier, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    tiled_mma = make_mma()
    thr_mma = tiled_mma.get_slice(0)
    gA = cute.local_tile(mA, (TILE[0], TILE[2]), (0, None))  # (128, 64, k-tiles)
    gB = cute.local_tile(mB, (TILE[1], TILE[2]), (0, None))
    gC = cute.local_tile(mC, TILE[:2], (0, 0))
    tCgA = thr_mma.partition_A(gA)  # (MmaA, 1, 4, k-tiles)
    tCgB = thr_mma.partition_B(gB)
    tCrA = tiled_mma.make_fragment_A(sA)  # (1, 1, 4)
    tCrB = tiled_mma.make_fragment_B(sB)
    tCtC = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C(TILE[:2]))
    tCtC = cute.make_tensor(cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, tmem_base), tCtC.layout)

    tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
    for k in cutlass.range_constexpr(cute.size(gA, mode=[2])):
        for i in range(tid, cute.size(sA), THREADS):
            sA[i] = tCgA[None, None, None, k][i]
        for i in range(tid, cute.size(sB), THREADS):
            sB[i] = tCgB[None, None, None, k][i]
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.sync_threads()
        multiply(tiled_mma, tCtC, tCrA, tCrB, mma_barrier, warp)
        tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
        cute.arch.mbarrier_wait(mma_barrier, k % 2)

    epilogue(tCtC, thr_mma.partition_C(gC), tid)
    cute.arch.sync_threads()
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit()
        cute.arch.dealloc_tmem(tCtC.iterator, TMEM_COLUMNS)


def host_for(multiply: Callable[..., None], epilogue: Callable[..., None]):
    """The host function that launches the kernel with both parts given."""

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
        tiled_mma = make_mma()
        atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, cutlass.Float16)
        layout_a = tcgen05.tile_to_mma_shape(atom, tiled_mma.partition_shape_A((TILE[0], TILE[2])))
        layout_b = tcgen05.tile_to_mma_shape(atom, tiled_mma.partition_shape_B((TILE[1], TILE[2])))
        umma_parts(mA, mB, mC, layout_a, layout_b, multiply, epilogue).launch(
            grid=(1, 1, 1), block=(THREADS, 1, 1)
        )

    return host
