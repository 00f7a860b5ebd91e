"""Each CTA copies one tile of a row-major matrix, and each thread one element of the tile.

The threads' layout takes (m, n) in the tile and gives the number of the thread that copies this element. The
tile has the layout's shape. Neighbouring threads copy neighbours in a row or, with the other layout, in a
column.
"""

from cutlass import cute

ROWS = ((8, 32), (32, 1))  # shape and stride: threads 0, 1, 2, ... go along a row
COLUMNS = ((32, 8), (1, 32))  # the same 256 threads, and 0, 1, 2, ... go down a column


@cute.kernel
def copy_threads(mS: cute.Tensor, mD: cute.Tensor, thr_layout: cute.Layout):
    tid, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()

    # this CTA's tile, then this thread's part of the tile
    gS = cute.local_tile(mS, thr_layout.shape, (by, bx))
    gD = cute.local_tile(mD, thr_layout.shape, (by, bx))
    tSgS = cute.local_partition(gS, thr_layout, tid)  # (1,1)
    tDgD = cute.local_partition(gD, thr_layout, tid)

    tDgD[0] = tSgS[0]


def host_for(shape, stride):
    """The host function for threads in this layout."""

    @cute.jit
    def host(mS: cute.Tensor, mD: cute.Tensor):
        thr_layout = cute.make_layout(shape, stride=stride)
        rows, columns = mS.shape
        grid = (columns // shape[1], rows // shape[0], 1)
        copy_threads(mS, mD, thr_layout).launch(grid=grid, block=(cute.size(thr_layout), 1, 1))

    return host
