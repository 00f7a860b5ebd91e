"""How `umma_parts` is launched with two parts given; the kernel is in `sources/umma_parts.py`.

`parts_spec(multiply, epilogue)` takes both as functions of the CuTe DSL. `umma_parts.multiply` and
`umma_parts.epilogue` are the file's own.
"""

from collections.abc import Callable

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor
from cutecourse.kernels.umma_tile import THREADS

FILE = kernel_file("umma_parts")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def parts_spec(multiply: Callable[..., None], epilogue: Callable[..., None]) -> LaunchSpec:
    """The launch with both parts given, for C (128, 128) = A (128, 256) times B (128, 256) transposed."""
    return LaunchSpec(
        name="umma_parts",
        front="cutedsl",
        kernel=FILE.function("umma_parts"),
        host=FILE.function("host_for").given(multiply, epilogue),
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


LAUNCH = parts_spec(FILE.function("multiply"), FILE.function("epilogue"))
