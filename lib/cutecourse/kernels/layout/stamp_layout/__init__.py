"""How `stamp_layout` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("stamp_layout")
__getattr__ = FILE.attribute  # the kernel's constants and functions

LAUNCH = LaunchSpec(
    name="stamp_layout",
    language="numba",
    kernel=FILE.function("stamp_layout"),
    grid=(2, 1, 1),
    block=(128, 1, 1),
    params=(
        Tensor("out", "s32", (None,)),
        Tensor("shape", "s32", (None,)),
        Tensor("stride", "s32", (None,)),
    ),
)
