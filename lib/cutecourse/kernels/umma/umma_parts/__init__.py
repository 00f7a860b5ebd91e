"""How `umma_parts` is launched with two parts given; the kernel is in `source.py`.

`parts_spec(multiply, epilogue)` takes both as functions of the CuTe DSL. `umma_parts.multiply` and
`umma_parts.epilogue` are the file's own.
"""

from collections.abc import Callable

from cutecourse.kernels import umma_tile
from cutecourse.kernels.files import KernelFunction, SpecError, kernel_file, kernel_text
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("umma_parts")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def parts_spec(multiply: Callable[..., None], epilogue: Callable[..., None]) -> LaunchSpec:
    """The launch with both parts given, for C (128, 128) = A (128, 256) times B (128, 256) transposed."""
    return LaunchSpec(
        name="umma_parts",
        language="cutedsl",
        kernel=FILE.function("umma_parts"),
        host=FILE.function("host_for").given(multiply, epilogue),
        grid=(1, 1, 1),
        block=(umma_tile.THREADS, 1, 1),
        dynamic_smem=(128 + 128) * 64 * 2 + 8 + 4,
        params=(
            Tensor("a", "f16", (128, 256), (256, 1)),  # (M, K), K-major
            Tensor("b", "f16", (128, 256), (256, 1)),  # (N, K), K-major
            Tensor("c", "f32", (128, 128), (128, 1)),  # (M, N), row-major
        ),
        target="sm_100a",
    )


def twin_text(spec: LaunchSpec) -> str:
    """The text of umma_tile's twin, which does the same. Errors: SpecError for parts of others."""
    host = spec.host
    if not isinstance(host, KernelFunction) or any(
        not isinstance(part, KernelFunction) or part.file != host.file for part in host.arguments or ()
    ):
        raise SpecError(f"{spec.name}: its twin is for the file's own parts only.")
    return kernel_text("umma_tile", "twin.ptx").replace(" umma_tile(", " umma_parts(")


LAUNCH = parts_spec(FILE.function("multiply"), FILE.function("epilogue"))
