"""How `umma_two_sm_pipeline` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("umma_two_sm_pipeline")
__getattr__ = FILE.attribute  # the kernel's constants and functions

CLUSTER = FILE.constant("CLUSTER")
STAGES = FILE.constant("STAGES")
THREADS = FILE.constant("THREADS")

LAUNCH = LaunchSpec(
    name="umma_two_sm_pipeline",
    language="cutedsl",
    kernel=FILE.function("umma_two_sm_pipeline"),
    host=FILE.function("host"),
    grid=(4, 4, 1),
    block=(THREADS, 1, 1),
    cluster=CLUSTER,
    dynamic_smem=STAGES * (128 + 128) * 64 * 2 + (2 * STAGES + 1) * 8 + 4,
    params=(
        TensorMapSpec(  # (M, K), K-major
            "a",
            "f16",
            (512, 256),
            (256, 1),
            smem_layout=parse("S<3,4,3> o 0 o ((128,16),1,4):((64,1),0,16)"),
            cta_tiler=(128, 64),
            num_multicast=4,
        ),
        TensorMapSpec(  # (N, K), K-major
            "b",
            "f16",
            (1024, 256),
            (256, 1),
            smem_layout=parse("S<3,4,3> o 0 o ((128,16),1,4):((64,1),0,16)"),
            cta_tiler=(128, 64),
            num_multicast=2,
        ),
        Tensor("c", "f32", (512, 1024), (1024, 1)),  # (M, N), row-major
    ),
    target="sm_100a",
)
