"""How `hopper_stages` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.hopper_ladder import hopper_spec
from cutecourse.kernels.spec import LaunchSpec

FILE = kernel_file("hopper_stages")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(m: int, n: int, k: int, dtype: str = "f16") -> LaunchSpec:
    """The launch for C (M, N) = A (M, K) times B (N, K) transposed, for any M and for N and K in eights."""
    stages = FILE.constant("STAGES")
    return hopper_spec(FILE, (m, n, k), dtype, smem_bytes=stages * ((128 + 128) * 64 * 2 + 8))


LAUNCH = spec(*FILE.constant("MNK"))
