"""`copy_async` for a matrix of any shape: each vector is copied only if it lies inside the matrix.

An identity tensor is cut as the source is, so each thread has the coordinates of its vectors. A vector is as
wide as the rows allow: 16 bytes if their length is a multiple of four elements, and 8 or 4 bytes otherwise.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.memory import SmemAllocator

VECTORS = 4  # for each thread


@cute.kernel
def copy_predicated(mS: cute.Tensor, mD: cute.Tensor, width: cutlass.Constexpr):
    tid, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    tile = (32, 32 * width)
    gS = cute.local_tile(mS, tile, (by, bx))
    gD = cute.local_tile(mD, tile, (by, bx))
    cS = cute.local_tile(cute.make_identity_tensor(mS.shape), tile, (by, bx))
    smem = SmemAllocator()
    sS = smem.allocate_tensor(cutlass.Float32, cute.make_layout(tile, stride=(tile[1], 1)), 16)

    threads = cute.make_layout((8, 32), stride=(32, 1))
    values = cute.make_layout((1, width))
    load = cute.make_copy_atom(cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=32 * width)
    store = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float32, num_bits_per_copy=32 * width)
    thr_copy = cute.make_tiled_copy_tv(load, threads, values).get_slice(tid)

    tSgS = thr_copy.partition_S(gS)  # (CPY,CPY_M,CPY_N)
    tSsS = thr_copy.partition_D(sS)
    tDgD = thr_copy.partition_D(gD)
    tScS = thr_copy.partition_S(cS)
    tSpS = cute.make_rmem_tensor((1, VECTORS, 1), cutlass.Boolean)
    for i in cutlass.range_constexpr(VECTORS):
        tSpS[0, i, 0] = cute.elem_less(tScS[0, i, 0], mS.shape)

    for i in cutlass.range_constexpr(VECTORS):
        cute.copy(load, tSgS[None, i, 0], tSsS[None, i, 0], pred=tSpS[None, i, 0])
        cute.arch.cp_async_commit_group()
    for i in cutlass.range_constexpr(VECTORS):
        cute.arch.cp_async_wait_group(VECTORS - 1 - i)
        cute.copy(store, tSsS[None, i, 0], tDgD[None, i, 0], pred=tSpS[None, i, 0])


def host_for(width):
    """The host function for vectors of so many elements."""

    @cute.jit
    def host(mS: cute.Tensor, mD: cute.Tensor):
        rows, columns = mS.shape
        grid = (cute.ceil_div(columns, 32 * width), cute.ceil_div(rows, 32), 1)
        copy_predicated(mS, mD, width).launch(grid=grid, block=(256, 1, 1))

    return host
