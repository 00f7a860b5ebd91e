"""How `copy_predicated` is launched for any shape; the kernel is in `sources/copy_predicated.py`."""

import math

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor
from cutecourse.kernels.tiling import grid_of

FILE = kernel_file("copy_predicated")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(m: int, n: int) -> LaunchSpec:
    """The launch for a row-major f32 matrix of m x n, with vectors as wide as its rows allow."""
    width = math.gcd(n, 4)
    return LaunchSpec(
        name="copy_predicated",
        front="cutedsl",
        kernel=FILE.function("copy_predicated"),
        host=FILE.function("host_for").given(width),
        grid=grid_of("copy_predicated", (m, n), (32, 32 * width), whole=False),
        block=(256, 1, 1),
        dynamic_smem=32 * 32 * width * 4,
        params=(Tensor("source", "f32", (m, n), (n, 1)), Tensor("result", "f32", (m, n), (n, 1))),
    )


LAUNCH = spec(50, 300)
