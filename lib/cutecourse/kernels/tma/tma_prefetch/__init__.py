"""How `tma_prefetch` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("tma_prefetch")
__getattr__ = FILE.attribute  # the kernel's constants and functions

TILE = FILE.constant("TILE")
STAGES = FILE.constant("STAGES")
THREADS = FILE.constant("THREADS")

LAUNCH = LaunchSpec(
    name="tma_prefetch",
    language="cutedsl",
    kernel=FILE.function("tma_prefetch"),
    host=FILE.function("host"),
    grid=(1, 1, 1),
    block=(THREADS, 1, 1),
    dynamic_smem=STAGES * (128 * 64 * 2 + 8),
    params=(
        TensorMapSpec(  # (M, K), M-major
            "a",
            "f16",
            TILE,
            (1, 128),
            smem_layout=parse("S<3,4,3> o 0 o ((64,2),(8,8)):((1,512),(64,1024))"),
            cta_tiler=TILE,
        ),
        Tensor("out", "f16", (*TILE, STAGES), (1, 128, 128 * 64)),
        Tensor("arrived", "s32", (STAGES,), (1,)),
    ),
    target="sm_90",
)
