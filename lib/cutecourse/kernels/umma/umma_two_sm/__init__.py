"""How `umma_two_sm` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("umma_two_sm")
__getattr__ = FILE.attribute  # the kernel's constants and functions

CLUSTER = FILE.constant("CLUSTER")
THREADS = FILE.constant("THREADS")

LAUNCH = LaunchSpec(
    name="umma_two_sm",
    language="cutedsl",
    kernel=FILE.function("umma_two_sm"),
    host=FILE.function("host"),
    grid=(2, 1, 1),
    block=(THREADS, 1, 1),
    cluster=CLUSTER,
    dynamic_smem=(128 + 128) * 64 * 2 + 2 * 8 + 4,
    params=(
        TensorMapSpec(  # (M, K), K-major
            "a",
            "f16",
            (256, 256),
            (256, 1),
            smem_layout=parse("S<3,4,3> o 0 o ((128,16),1,4):((64,1),0,16)"),
            cta_tiler=(128, 64),
        ),
        TensorMapSpec(  # (N, K), K-major
            "b",
            "f16",
            (256, 256),
            (256, 1),
            smem_layout=parse("S<3,4,3> o 0 o ((128,16),1,4):((64,1),0,16)"),
            cta_tiler=(128, 64),
        ),
        Tensor("c", "f32", (256, 256), (256, 1)),  # (M, N), row-major
    ),
    target="sm_100a",
)
