"""How `hopper_persistent` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.hopper_ladder import hopper_spec
from cutecourse.kernels.spec import LaunchSpec

FILE = kernel_file("hopper_persistent")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(m: int, n: int, k: int, dtype: str = "f16", sms: int = FILE.constant("SMS")) -> LaunchSpec:
    """The launch for C (M, N) = A (M, K) times B (N, K) transposed, for any M and for N and K in eights.

    sms  how many CTAs share the tiles, at most: as many as the GPU has multiprocessors.
    """
    stages, store = FILE.constant("STAGES"), FILE.constant("STORE")
    buffers = FILE.constant("CONSUMERS") * FILE.constant("BUFFERS") * store[0] * store[1] * 2
    smem_bytes = stages * ((128 + 256) * 64 * 2 + 2 * 8) + buffers
    return hopper_spec(FILE, (m, n, k), dtype, smem_bytes=smem_bytes, store=store, sms=sms)


M, N, K = FILE.constant("MNK")
LAUNCH = spec(M, N, K, sms=4)
