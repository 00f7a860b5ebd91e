"""How `copy_threads` is launched, for a matrix of whole tiles; the kernel is in `source.py`."""

import dataclasses
from typing import Any

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor
from cutecourse.kernels.tiling import grid_of

FILE = kernel_file("copy_threads")
__getattr__ = FILE.attribute  # the kernel's constants and functions

ROWS = FILE.constant("ROWS")
COLUMNS = FILE.constant("COLUMNS")


def spec(m: int, n: int, threads: tuple[Any, Any] = ROWS) -> LaunchSpec:
    """The launch for a row-major f32 matrix of m x n, with the thread layout `ROWS` or `COLUMNS`.

    Errors: SpecError for a matrix that is not made of whole tiles.
    """
    shape, _ = threads
    return LaunchSpec(
        name="copy_threads" if threads == ROWS else "copy_threads_down",
        language="cutedsl",
        kernel=FILE.function("copy_threads"),
        host=FILE.function("host_for").given(*threads),
        grid=grid_of("copy_threads", (m, n), shape),
        block=(shape[0] * shape[1], 1, 1),
        params=(Tensor("source", "f32", (m, n), (n, 1)), Tensor("result", "f32", (m, n), (n, 1))),
    )


def transposing(m: int, n: int) -> LaunchSpec:
    """The same kernel, and the source is column-major: m x n, with neighbours along m.

    In memory, the source is a row-major matrix of n x m, and the result is its transpose. The loads of a warp
    are strided, and its stores contiguous.
    """
    copy = spec(m, n)
    source = Tensor("source", "f32", (m, n), (1, m))
    return dataclasses.replace(copy, name="copy_threads_transposing", params=(source, copy.params[1]))


LAUNCH = spec(64, 64)
DOWN = spec(64, 64, COLUMNS)
TRANSPOSING = transposing(64, 64)
