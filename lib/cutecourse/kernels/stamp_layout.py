"""Each thread writes its number at the offset to which a layout sends it.

The layout's modes come as two arrays, shape and stride, so one kernel stamps any layout; a hierarchical one
is passed by its leaf modes, left to right.
"""

from numba import cuda

from cutecourse.kernels.spec import LaunchSpec, Tensor


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


LAUNCH = LaunchSpec(
    name="stamp_layout",
    front="numba",
    kernel=stamp_layout,
    grid=(2, 1, 1),
    block=(128, 1, 1),
    params=(
        Tensor("out", "s32", (None,)),
        Tensor("shape", "s32", (None,)),
        Tensor("stride", "s32", (None,)),
    ),
)
