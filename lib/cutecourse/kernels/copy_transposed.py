"""Read a matrix along its rows and write it along its columns: one side is contiguous, the other strided."""

from numba import cuda

from cutecourse.kernels.spec import LaunchSpec, Tensor


@cuda.jit
def copy_transposed(out, a):
    thread = cuda.grid(1)
    rows, columns = a.shape
    if thread < rows * columns:
        i, j = thread // columns, thread % columns  # neighbouring threads differ in j: the row's direction
        out[j, i] = a[i, j]


LAUNCH = LaunchSpec(
    name="copy_transposed",
    front="numba",
    kernel=copy_transposed,
    grid=(4, 1, 1),
    block=(256, 1, 1),
    params=(Tensor("out", "f32", (None, None)), Tensor("a", "f32", (None, None))),
)
