"""How `gemm_ldmatrix` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.gemm_ladder import ladder_spec
from cutecourse.kernels.spec import LaunchSpec

FILE = kernel_file("gemm_ldmatrix")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(m: int, n: int, k: int) -> LaunchSpec:
    """The launch for C (M, N) = A (M, K) times B (N, K) transposed, all f16, in whole tiles.

    Errors: SpecError where the tile does not divide the problem.
    """
    return ladder_spec(FILE, (m, n, k), smem_bytes=(128 + 128) * 32 * 2)


LAUNCH = spec(*FILE.constant("MNK"))
