"""How `mma_ownership_map` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("mma_ownership_map")
__getattr__ = FILE.attribute  # the kernel's constants and functions

LAUNCH = LaunchSpec(
    name="mma_ownership_map",
    language="cutedsl",
    kernel=FILE.function("mma_ownership_map"),
    host=FILE.function("host"),
    grid=(1, 1, 1),
    block=(32, 1, 1),
    params=(
        Tensor("a", "s32", (16, 16), (16, 1)),  # (M, K)
        Tensor("b", "s32", (8, 16), (16, 1)),  # (N, K)
        Tensor("c", "s32", (16, 8), (8, 1)),  # (M, N)
    ),
)
