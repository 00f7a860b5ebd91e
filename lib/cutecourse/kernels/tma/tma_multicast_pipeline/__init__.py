"""How `tma_multicast_pipeline` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("tma_multicast_pipeline")
__getattr__ = FILE.attribute  # the kernel's constants and functions

TILE = FILE.constant("TILE")
STAGES = FILE.constant("STAGES")
CLUSTER = FILE.constant("CLUSTER")
THREADS = FILE.constant("THREADS")

LAUNCH = LaunchSpec(
    name="tma_multicast_pipeline",
    language="cutedsl",
    kernel=FILE.function("tma_multicast_pipeline"),
    host=FILE.function("host"),
    grid=(2, 4, 1),
    block=(THREADS, 1, 1),
    cluster=CLUSTER,
    dynamic_smem=STAGES * TILE[0] * TILE[1] * 2 + 2 * STAGES * 8,
    params=(
        TensorMapSpec(
            "a",
            "f16",
            (64, 320),
            (320, 1),
            smem_layout=parse("S<3,4,3> o 0 o (32,64):(64,1)"),
            cta_tiler=TILE,
            num_multicast=CLUSTER[1],
        ),
        Tensor("b", "f16", (4, 320), (320, 1)),
        Tensor("c", "f32", (64, 4), (4, 1)),
    ),
    target="sm_90",
)
