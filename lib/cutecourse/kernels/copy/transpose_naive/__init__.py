"""How `transpose_naive` is launched for whole tiles; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor
from cutecourse.kernels.tiling import grid_of

FILE = kernel_file("transpose_naive")
__getattr__ = FILE.attribute  # the kernel's constants and functions

TILE = FILE.constant("TILE")


def spec(m: int, n: int) -> LaunchSpec:
    """The launch for a row-major f32 matrix of m x n. Errors: SpecError unless it is made of whole tiles."""
    return LaunchSpec(
        name="transpose_naive",
        language="cutedsl",
        kernel=FILE.function("transpose_naive"),
        host=FILE.function("host"),
        grid=grid_of("transpose_naive", (m, n), (TILE, TILE)),
        block=(FILE.constant("THREADS"), 1, 1),
        params=(Tensor("source", "f32", (m, n), (n, 1)), Tensor("result", "f32", (n, m), (m, 1))),
    )


LAUNCH = spec(64, 96)
