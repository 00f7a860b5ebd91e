"""One wgmma, and every thread stores the registers of its accumulator in their order.

D[i, j] of the result is register j of thread i, so the result shows which element of C each register holds.
A comes from shared memory, as a matrix, or from registers: then row i of `a` holds the 8 values of thread i.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, warpgroup
from cutlass.memory import SmemAllocator

K = 16
THREADS = 128  # a warpgroup


@cute.kernel
def wgmma_map(
    mA: cute.Tensor,
    mB: cute.Tensor,
    mD: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    n: cutlass.Constexpr,
    source: cutlass.Constexpr,
):
    tid, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, swizzle=layout_b.inner)
    tiled_mma = cute.make_tiled_mma(
        warpgroup.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            (64, n, K),
            warpgroup.OperandSource[source],
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )
    thr_mma = tiled_mma.get_slice(tid)
    tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
    tCrC = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C((64, n)))
    tiled_mma.set(warpgroup.Field.ACCUMULATE, False)  # D = A * B^T, without C

    for i in range(tid, cute.size(sB), THREADS):
        sB[i] = mB[i]
    if cutlass.const_expr(source == "SMEM"):
        for i in range(tid, cute.size(sA), THREADS):
            sA[i] = mA[i]
    else:
        for value in cutlass.range_constexpr(8):
            tCrA[value] = mA[tid, value]
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.sync_threads()

    warpgroup.fence()
    cute.gemm(tiled_mma, tCrC, tCrA, tCrB, tCrC)
    warpgroup.commit_group()
    warpgroup.wait_group(0)
    for value in cutlass.range_constexpr(cute.size(tCrC)):
        mD[tid, value] = tCrC[value]


def host_for(n, source):
    """The host function for m64nNk16 and A from "SMEM" or "RMEM"."""

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor):
        atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW32, cutlass.Float16)
        layout_a = cute.tile_to_shape(atom, (64, K), (0, 1))
        layout_b = cute.tile_to_shape(atom, (n, K), (0, 1))
        wgmma_map(mA, mB, mD, layout_a, layout_b, n, source).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))

    return host
