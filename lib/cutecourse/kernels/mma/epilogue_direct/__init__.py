"""How `epilogue_direct` is launched; the kernel is in `source.py`."""

import dataclasses

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("epilogue_direct")
__getattr__ = FILE.attribute  # the kernel's constants and functions

LAUNCH = LaunchSpec(
    name="epilogue_direct",
    language="cutedsl",
    kernel=FILE.function("epilogue_direct"),
    host=FILE.function("host"),
    grid=(1, 1, 1),
    block=(32, 1, 1),
    params=(Tensor("c", "f32", (16, 8), (1, 16)),),  # (M, N), column-major
)
ROW_MAJOR = dataclasses.replace(LAUNCH, params=(Tensor("c", "f32", (16, 8), (8, 1)),))
