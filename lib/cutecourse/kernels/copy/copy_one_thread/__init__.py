"""How `copy_one_thread` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("copy_one_thread")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(m: int, n: int) -> LaunchSpec:
    """The launch for a row-major f32 matrix of m x n."""
    return LaunchSpec(
        name="copy_one_thread",
        language="cutedsl",
        kernel=FILE.function("copy_one_thread"),
        host=FILE.function("host"),
        grid=(1, 1, 1),
        block=(1, 1, 1),
        params=(Tensor("source", "f32", (m, n), (n, 1)), Tensor("result", "f32", (m, n), (n, 1))),
    )


LAUNCH = spec(4, 32)
