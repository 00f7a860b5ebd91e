"""How `tma_multicast` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("tma_multicast")
__getattr__ = FILE.attribute  # the kernel's constants and functions

TILE = FILE.constant("TILE")
CLUSTER = FILE.constant("CLUSTER")
THREADS = FILE.constant("THREADS")

LAUNCH = LaunchSpec(
    name="tma_multicast",
    language="cutedsl",
    kernel=FILE.function("tma_multicast"),
    host=FILE.function("host"),
    grid=CLUSTER,
    block=(THREADS, 1, 1),
    cluster=CLUSTER,
    dynamic_smem=128 * 64 * 2 + 8,
    params=(
        TensorMapSpec(
            "a",
            "f16",
            TILE,
            (64, 1),
            smem_layout=parse("S<3,4,3> o 0 o (128,64):(64,1)"),
            cta_tiler=TILE,
            num_multicast=CLUSTER[1],
        ),
        Tensor("out", "f16", (4, *TILE), (128 * 64, 64, 1)),
    ),
    target="sm_90",
)
