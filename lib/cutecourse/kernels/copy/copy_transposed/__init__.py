"""How `copy_transposed` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("copy_transposed")
__getattr__ = FILE.attribute  # the kernel's constants and functions

LAUNCH = LaunchSpec(
    name="copy_transposed",
    language="numba",
    kernel=FILE.function("copy_transposed"),
    grid=(4, 1, 1),
    block=(256, 1, 1),
    params=(Tensor("out", "f32", (None, None)), Tensor("a", "f32", (None, None))),
)
