"""How `fp8_drift` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("fp8_drift")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(n: int, k: int, *, promoted: bool = False) -> LaunchSpec:
    """The launch for A (64, K) and B (N, K), both e4m3 and row-major, N in eights up to 256, K in 128s.

    The sums are f32 (64, N, K / 128), and the last mode has the largest stride, the one before it 1. Number i
    of each element has the first 128 * (i + 1) products.
    promoted  the threads add the tensor core's sums of 128 products; else the tensor core adds all.

    Errors: SpecError for another N or K.
    """
    rows, block = FILE.constant("ROWS"), FILE.constant("BLOCK")
    if n not in range(8, 257, 8) or k < block or k % block:
        raise SpecError(
            f"fp8_drift: N must be a multiple of 8 up to 256, and K one of {block}; got {n} and {k}."
        )

    def operand(name: str, extent: int) -> TensorMapSpec:
        return TensorMapSpec(
            name,
            "e4m3",
            (extent, k),
            (k, 1),
            smem_layout=parse(f"S<3,4,3> o 0 o ({extent},{block}):({block},1)"),
            cta_tiler=(extent, block),
        )

    return LaunchSpec(
        name="fp8_drift",
        language="cutedsl",
        kernel=FILE.function("fp8_drift"),
        host=FILE.function("host_for").given(promoted),
        grid=(1, 1, 1),
        block=(FILE.constant("THREADS"), 1, 1),
        dynamic_smem=(rows + n) * block + 8,
        params=(
            operand("a", rows),
            operand("b", n),
            Tensor("sums", "f32", (rows, n, k // block), (n, 1, rows * n)),
        ),
        target="sm_90a",
    )


LAUNCH = spec(16, 512)
