"""How `tma_load` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("tma_load")
__getattr__ = FILE.attribute  # the kernel's constants and functions

TILE = FILE.constant("TILE")
THREADS = FILE.constant("THREADS")

LAUNCH = LaunchSpec(
    name="tma_load",
    language="cutedsl",
    kernel=FILE.function("tma_load"),
    host=FILE.function("host"),
    grid=(1, 1, 1),
    block=(THREADS, 1, 1),
    dynamic_smem=64 * 64 * 2 + 8,
    params=(
        TensorMapSpec(
            "a",
            "f16",
            (128, 256),
            (256, 1),
            smem_layout=parse("S<3,4,3> o 0 o (64,64):(64,1)"),
            cta_tiler=TILE,
        ),
        Tensor("out", "f16", TILE, (64, 1)),
    ),
    target="sm_90",
)
