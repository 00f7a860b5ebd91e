"""How `tma_pipeline` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("tma_pipeline")
__getattr__ = FILE.attribute  # the kernel's constants and functions

TILE = FILE.constant("TILE")
STAGES = FILE.constant("STAGES")
THREADS = FILE.constant("THREADS")


def pipeline_spec(rows: int, columns: int) -> LaunchSpec:
    """The launch for a matrix of `rows` (a multiple of 128) by any number of columns."""
    return LaunchSpec(
        name="tma_pipeline",
        language="cutedsl",
        kernel=FILE.function("tma_pipeline"),
        host=FILE.function("host"),
        grid=(rows // TILE[0], 1, 1),
        block=(THREADS, 1, 1),
        dynamic_smem=STAGES * TILE[0] * TILE[1] * 2 + 2 * STAGES * 8,
        params=(
            TensorMapSpec(
                "a",
                "f16",
                (rows, columns),
                (columns, 1),
                smem_layout=parse("S<3,4,3> o 0 o (128,64):(64,1)"),
                cta_tiler=TILE,
            ),
            Tensor("out", "f32", (rows,), (1,)),
        ),
        target="sm_90",
    )


LAUNCH = pipeline_spec(512, 256)
