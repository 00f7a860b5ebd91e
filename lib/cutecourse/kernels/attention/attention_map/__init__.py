"""How `attention_map` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("attention_map")
__getattr__ = FILE.attribute  # the kernel's constants and functions

LAUNCH = LaunchSpec(
    name="attention_map",
    language="cutedsl",
    kernel=FILE.function("attention_map"),
    host=FILE.function("host"),
    grid=(1, 1, 1),
    block=(32, 1, 1),
    dynamic_smem=16 * 16 * 2,
    params=(
        Tensor("q", "f16", (16, 16), (16, 1)),
        Tensor("k", "f16", (16, 16), (16, 1)),
        Tensor("left", "f16", (32, 8), (8, 1)),
        Tensor("loaded", "f16", (32, 8), (8, 1)),
    ),
)
