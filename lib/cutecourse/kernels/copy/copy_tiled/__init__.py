"""How `copy_tiled` is launched, for a matrix of whole tiles; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor
from cutecourse.kernels.tiling import grid_of

FILE = kernel_file("copy_tiled")
__getattr__ = FILE.attribute  # the kernel's constants and functions

TILE = FILE.constant("TILE")


def spec(m: int, n: int) -> LaunchSpec:
    """The launch for a row-major f32 matrix of m x n. Errors: SpecError if it is not made of whole tiles."""
    return LaunchSpec(
        name="copy_tiled",
        language="cutedsl",
        kernel=FILE.function("copy_tiled"),
        host=FILE.function("host"),
        grid=grid_of("copy_tiled", (m, n), TILE),
        block=(256, 1, 1),
        params=(Tensor("source", "f32", (m, n), (n, 1)), Tensor("result", "f32", (m, n), (n, 1))),
    )


LAUNCH = spec(64, 256)
