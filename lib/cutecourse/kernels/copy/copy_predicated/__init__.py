"""How `copy_predicated` is launched for any shape; the kernel is in `source.py`."""

import math

from cutecourse.kernels.files import KernelFunction, SpecError, kernel_file, kernel_text
from cutecourse.kernels.spec import LaunchSpec, Tensor
from cutecourse.kernels.tiling import grid_of

FILE = kernel_file("copy_predicated")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(m: int, n: int) -> LaunchSpec:
    """The launch for a row-major f32 matrix of m x n, with vectors as wide as its rows allow."""
    width = math.gcd(n, 4)
    return LaunchSpec(
        name="copy_predicated",
        language="cutedsl",
        kernel=FILE.function("copy_predicated"),
        host=FILE.function("host_for").given(width),
        grid=grid_of("copy_predicated", (m, n), (32, 32 * width), whole=False),
        block=(256, 1, 1),
        dynamic_smem=32 * 32 * width * 4,
        params=(Tensor("source", "f32", (m, n), (n, 1)), Tensor("result", "f32", (m, n), (n, 1))),
    )


def twin_text(spec: LaunchSpec) -> str:
    """The twin's text. Errors: SpecError for rows whose bytes are no multiple of 16."""
    if not isinstance(spec.host, KernelFunction) or spec.host.arguments != (4,):
        raise SpecError(f"{spec.name}: its twin is for rows whose bytes are a multiple of 16 only.")
    return kernel_text("copy_predicated", "twin.ptx")


LAUNCH = spec(50, 300)
