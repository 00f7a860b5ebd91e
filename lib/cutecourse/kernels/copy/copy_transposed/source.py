"""Read a matrix along its rows and write it along its columns: contiguous reads, strided writes."""

from numba import cuda


@cuda.jit
def copy_transposed(out, a):
    thread = cuda.grid(1)
    rows, columns = a.shape
    if thread < rows * columns:
        i, j = thread // columns, thread % columns  # neighbouring threads differ in j, along a row
        out[j, i] = a[i, j]
