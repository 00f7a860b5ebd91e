"""Each thread sends its index through one layout, sends the result through another, and writes the offset.

`out[i] = outer(inner(i))`, computed in two steps, must equal one composed layout. Both layouts are passed by
their leaf modes. The outer layout's last mode has no end, as in CuTe.
"""

from numba import cuda


@cuda.jit
def stamp_composition(out, inner_shape, inner_stride, outer_shape, outer_stride):
    thread = cuda.grid(1)
    if thread < out.size:
        rest = thread
        middle = 0
        for mode in range(inner_shape.size):
            middle += rest % inner_shape[mode] * inner_stride[mode]
            rest //= inner_shape[mode]
        last = outer_shape.size - 1
        offset = 0
        for mode in range(last):
            offset += middle % outer_shape[mode] * outer_stride[mode]
            middle //= outer_shape[mode]
        out[thread] = offset + middle * outer_stride[last]
