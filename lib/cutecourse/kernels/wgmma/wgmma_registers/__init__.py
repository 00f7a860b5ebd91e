"""How `wgmma_registers` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("wgmma_registers")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(m: int = 64, k: int = 256) -> LaunchSpec:
    """The launch for A (m, k) and B (256, k), both K-major; m and k are multiples of 64."""
    _, n, k_tile = FILE.constant("TILE")
    return LaunchSpec(
        name="wgmma_registers",
        language="cutedsl",
        kernel=FILE.function("wgmma_registers"),
        host=FILE.function("host"),
        grid=(m // 64, 1, 1),
        block=(FILE.constant("THREADS"), 1, 1),
        dynamic_smem=n * k_tile * 2,
        params=(
            Tensor("a", "f16", (m, k), (k, 1)),
            Tensor("b", "f16", (n, k), (k, 1)),
            Tensor("c", "f32", (m, n), (n, 1)),
        ),
        target="sm_90a",
    )


LAUNCH = spec()
