"""C = relu(A) * B^T: A goes from global memory to registers, changes there, and is multiplied from there.

B lies in shared memory as in wgmma_one. A thread loads the elements of A that the instruction expects in its
registers. The registers belong to the tensor core until the wait.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, warpgroup
from cutlass.memory import SmemAllocator

TILE = (64, 256, 64)
THREADS = 128  # a warpgroup


def make_mma():
    """m64n256k16, A in registers and B in shared memory."""
    return cute.make_tiled_mma(
        warpgroup.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            (TILE[0], TILE[1], 16),
            warpgroup.OperandSource.RMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


@cute.kernel
def wgmma_registers(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, layout_b: cute.ComposedLayout):
    tid, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    smem = SmemAllocator()
    sB = smem.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, swizzle=layout_b.inner)
    gA = cute.local_tile(mA, (TILE[0], TILE[2]), (block, None))  # (64, 64, k-tiles)
    gB = cute.local_tile(mB, (TILE[1], TILE[2]), (0, None))  # (256, 64, k-tiles)
    gC = cute.local_tile(mC, TILE[:2], (block, 0))

    vector = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=128)
    threads = cute.make_layout((16, 8), stride=(8, 1))
    load_b = cute.make_tiled_copy_tv(vector, threads, cute.make_layout((1, 8))).get_slice(tid)
    tBgB, tBsB = load_b.partition_S(gB), load_b.partition_D(sB)

    tiled_mma = make_mma()
    thr_mma = tiled_mma.get_slice(tid)
    tCgA = thr_mma.partition_A(gA)  # ((2,2,2), 1, 4, k-tiles): 8 values for each wgmma
    tCrA = tiled_mma.make_fragment_A(tCgA[None, None, None, 0])  # registers
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))  # descriptors
    tCgC = thr_mma.partition_C(gC)
    tCrC = cute.make_rmem_tensor(tCgC.shape, cutlass.Float32)

    tiled_mma.set(warpgroup.Field.ACCUMULATE, False)
    for k in cutlass.range(cute.size(gA, mode=[2]), unroll=1):
        cute.autovec_copy(tCgA[None, None, None, k], tCrA)
        values = tCrA.load()
        tCrA.store(cute.where(values > 0, values, cute.zeros_like(values)))
        cute.copy(load_b, tBgB[None, None, None, k], tBsB)
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.sync_threads()

        warpgroup.fence()
        for k_block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
            cute.gemm(tiled_mma, tCrC, tCrA[None, None, k_block], tCrB[None, None, k_block], tCrC)
            tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
        warpgroup.commit_group()
        warpgroup.wait_group(0)
        cute.arch.sync_threads()

    cute.autovec_copy(tCrC, tCgC)


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, cutlass.Float16)
    layout_b = cute.tile_to_shape(atom, (TILE[1], TILE[2]), (0, 1))
    grid = (cute.size(mC, mode=[0]) // TILE[0], 1, 1)
    wgmma_registers(mA, mB, mC, layout_b).launch(grid=grid, block=(THREADS, 1, 1))
