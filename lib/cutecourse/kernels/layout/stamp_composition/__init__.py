"""How `stamp_composition` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("stamp_composition")
__getattr__ = FILE.attribute  # the kernel's constants and functions

LAUNCH = LaunchSpec(
    name="stamp_composition",
    language="numba",
    kernel=FILE.function("stamp_composition"),
    grid=(2, 1, 1),
    block=(128, 1, 1),
    params=(
        Tensor("out", "s32", (None,)),
        Tensor("inner_shape", "s32", (None,)),
        Tensor("inner_stride", "s32", (None,)),
        Tensor("outer_shape", "s32", (None,)),
        Tensor("outer_stride", "s32", (None,)),
    ),
)
