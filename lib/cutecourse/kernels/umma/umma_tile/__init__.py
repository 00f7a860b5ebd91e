"""How `umma_tile` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("umma_tile")
__getattr__ = FILE.attribute  # the kernel's constants and functions

THREADS = FILE.constant("THREADS")

LAUNCH = LaunchSpec(
    name="umma_tile",
    language="cutedsl",
    kernel=FILE.function("umma_tile"),
    host=FILE.function("host"),
    grid=(1, 1, 1),
    block=(THREADS, 1, 1),
    dynamic_smem=(128 + 128) * 64 * 2 + 8 + 4,
    params=(
        Tensor("a", "f16", (128, 256), (256, 1)),  # (M, K), K-major
        Tensor("b", "f16", (128, 256), (256, 1)),  # (N, K), K-major
        Tensor("c", "f32", (128, 128), (128, 1)),  # (M, N), row-major
    ),
    target="sm_100a",
)
