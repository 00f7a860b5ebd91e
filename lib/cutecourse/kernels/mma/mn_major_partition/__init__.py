"""How `mn_major_partition` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("mn_major_partition")
__getattr__ = FILE.attribute  # the kernel's constants and functions

LAUNCH = LaunchSpec(
    name="mn_major_partition",
    language="cutedsl",
    kernel=FILE.function("mn_major_partition"),
    host=FILE.function("host"),
    grid=(1, 1, 1),
    block=(32, 1, 1),
    dynamic_smem=(16 * 16 + 8 * 16) * 2,
    params=(
        Tensor("a", "f16", (16, 16), (1, 16)),  # (M, K), M-major
        Tensor("b", "f16", (8, 16), (16, 1)),  # (N, K), K-major
        Tensor("c", "f32", (16, 8), (1, 16)),  # (M, N), column-major
    ),
)
