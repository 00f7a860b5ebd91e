"""How `umma_persistent` is launched, for one problem or another; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec
from cutecourse.kernels.umma_ladder import twin_with, umma_spec

FILE = kernel_file("umma_persistent")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(m: int, n: int, k: int, *, sms: int = 2, pairs: int = 1, blends: bool = False) -> LaunchSpec:
    """The launch for D (M, N) = A (M, K) times B (N, K) transposed, with bf16 in D, row-major.

    sms     how many SMs an MMA takes: 2, or 1 for a kernel without pairs.
    pairs   how many of them share the tiles, at most: as many as the GPU has room for.
    blends  the kernel also takes C (M, N) in bf16 and the numbers alpha and beta: D = alpha A B^T + beta C.

    Errors: SpecError for another number of SMs, for fewer than one pair, for extents of 1, and for N or K
            that is no multiple of 8.
    """
    behind = 2 * FILE.constant("ACCUMULATORS") * 8 + 4
    return umma_spec(FILE, (m, n, k), sms, blends=blends, pairs=pairs, smem_bytes=behind, given=(pairs,))


def twin_text(spec: LaunchSpec) -> str:
    """The twin's text: what it does with C stands there for launches that take it."""
    return twin_with(spec, *(["with C"] if "c" in spec.arguments else []))


LAUNCH = spec(*FILE.constant("MNK"))
BLEND = spec(136, 392, 72, blends=True)
ONE_SM = spec(384, 520, 72, sms=1)
