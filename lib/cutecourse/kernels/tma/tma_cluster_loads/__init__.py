"""How `tma_cluster_loads` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("tma_cluster_loads")
__getattr__ = FILE.attribute  # the kernel's constants and functions

CLUSTER = FILE.constant("CLUSTER")
THREADS = FILE.constant("THREADS")

LAUNCH = LaunchSpec(
    name="tma_cluster_loads",
    language="cutedsl",
    kernel=FILE.function("tma_cluster_loads"),
    host=FILE.function("host"),
    grid=CLUSTER,
    block=(THREADS, 1, 1),
    cluster=CLUSTER,
    dynamic_smem=(128 + 256) * 64 * 2 + 8,
    params=(
        TensorMapSpec(  # (M, K), K-major
            "a",
            "f16",
            (512, 256),
            (256, 1),
            smem_layout=parse("S<3,4,3> o 0 o (128,64):(64,1)"),
            cta_tiler=(128, 64),
            num_multicast=CLUSTER[1],
        ),
        TensorMapSpec(  # (N, K), K-major
            "b",
            "f16",
            (1024, 256),
            (256, 1),
            smem_layout=parse("S<3,4,3> o 0 o (256,64):(64,1)"),
            cta_tiler=(256, 64),
            num_multicast=CLUSTER[0],
        ),
        Tensor("out_a", "f16", (16, 128, 256), (128 * 256, 256, 1)),
        Tensor("out_b", "f16", (16, 256, 256), (256 * 256, 256, 1)),
        Tensor("masks", "s32", (16, 2), (2, 1)),
    ),
    target="sm_90",
)
