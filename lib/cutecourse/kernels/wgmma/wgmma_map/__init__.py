"""How `wgmma_map` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("wgmma_map")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(n: int = 16, source: str = "SMEM") -> LaunchSpec:
    """The launch of one m64nNk16, with A from "SMEM", a matrix, or from "RMEM", a row for each thread."""
    threads, k = FILE.constant("THREADS"), FILE.constant("K")
    return LaunchSpec(
        name="wgmma_map" if source == "SMEM" else "wgmma_map_registers",
        language="cutedsl",
        kernel=FILE.function("wgmma_map"),
        host=FILE.function("host_for").given(n, source),
        grid=(1, 1, 1),
        block=(threads, 1, 1),
        dynamic_smem=(64 + n) * k * 2,
        params=(
            Tensor(
                "a", "f16", (64, k) if source == "SMEM" else (threads, 8), (k if source == "SMEM" else 8, 1)
            ),
            Tensor("b", "f16", (n, k), (k, 1)),
            Tensor("d", "f32", (threads, n // 2), (n // 2, 1)),
        ),
        target="sm_90a",
    )


LAUNCH = spec()
