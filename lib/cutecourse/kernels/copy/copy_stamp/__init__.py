"""How `copy_stamp` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("copy_stamp")
__getattr__ = FILE.attribute  # the kernel's constants and functions

LAUNCH = LaunchSpec(
    name="copy_stamp",
    language="cutedsl",
    kernel=FILE.function("copy_stamp"),
    host=FILE.function("host"),
    grid=(1, 1, 1),
    block=(8, 1, 1),
    params=(Tensor("result", "s32", (4, 32), (32, 1)),),
)
