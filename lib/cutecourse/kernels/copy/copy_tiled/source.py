"""Each thread copies one vector of four f32, 16 bytes, as a tiled copy gives it to the thread.

The threads' layout and the layout of each thread's values make the tile: 8x32 threads with 1x4 values each
copy 8x128 elements.
"""

import cutlass
from cutlass import cute

TILE = (8, 128)


@cute.kernel
def copy_tiled(mS: cute.Tensor, mD: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    gS = cute.local_tile(mS, TILE, (by, bx))
    gD = cute.local_tile(mD, TILE, (by, bx))

    threads = cute.make_layout((8, 32), stride=(32, 1))
    values = cute.make_layout((1, 4))
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float32, num_bits_per_copy=128)
    thr_copy = cute.make_tiled_copy_tv(atom, threads, values).get_slice(tid)

    tSgS = thr_copy.partition_S(gS)  # (CPY,CPY_M,CPY_N)
    tDgD = thr_copy.partition_D(gD)
    tSrS = cute.make_fragment_like(tSgS)
    cute.copy(atom, tSgS, tSrS)
    cute.copy(atom, tSrS, tDgD)


@cute.jit
def host(mS: cute.Tensor, mD: cute.Tensor):
    rows, columns = mS.shape
    copy_tiled(mS, mD).launch(grid=(columns // TILE[1], rows // TILE[0], 1), block=(256, 1, 1))
