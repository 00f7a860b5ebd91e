"""How `transpose_swizzled` is launched for whole tiles; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor
from cutecourse.kernels.tiling import grid_of

FILE = kernel_file("transpose_swizzled")
__getattr__ = FILE.attribute  # the kernel's constants and functions

TILE = FILE.constant("TILE")
ROW = FILE.constant("ROW")


def spec(m: int, n: int) -> LaunchSpec:
    """The launch for a row-major f32 matrix of m x n. Errors: SpecError unless it is made of whole tiles."""
    return LaunchSpec(
        name="transpose_swizzled",
        language="cutedsl",
        kernel=FILE.function("transpose_swizzled"),
        host=FILE.function("host"),
        grid=grid_of("transpose_swizzled", (m, n), (TILE, TILE)),
        block=(FILE.constant("THREADS"), 1, 1),
        dynamic_smem=4 * (ROW * (TILE - 1) + TILE),
        params=(Tensor("source", "f32", (m, n), (n, 1)), Tensor("result", "f32", (n, m), (m, 1))),
    )


LAUNCH = spec(64, 96)
