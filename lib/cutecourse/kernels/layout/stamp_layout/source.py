"""Each thread writes its index at the offset that a layout gives.

The layout's modes come as two arrays, shape and stride, so one kernel stamps any layout. A hierarchical
layout is passed by its leaf modes, left to right.
"""

from numba import cuda


@cuda.jit
def stamp_layout(out, shape, stride):
    thread = cuda.grid(1)
    rest = thread
    offset = 0
    for mode in range(shape.size):  # the coordinate in each mode, leftmost mode fastest, times its stride
        offset += rest % shape[mode] * stride[mode]
        rest //= shape[mode]
    if rest == 0:  # a thread past the layout's size has something left over
        out[offset] = thread
