"""How `mma_stamp_permuted` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor

FILE = kernel_file("mma_stamp_permuted")
__getattr__ = FILE.attribute  # the kernel's constants and functions

PERMUTATIONS = FILE.constant("PERMUTATIONS")


def spec(permutation: str) -> LaunchSpec:
    """The launch for one of `PERMUTATIONS`. Errors: SpecError for a name that is none of them."""
    if permutation not in PERMUTATIONS:
        raise SpecError(
            f"mma_stamp_permuted has the permutations {', '.join(PERMUTATIONS)}, not {permutation!r}."
        )
    return LaunchSpec(
        name="mma_stamp_permuted",
        language="cutedsl",
        kernel=FILE.function("mma_stamp_permuted"),
        host=FILE.function("host_for").given(permutation),
        grid=(1, 1, 1),
        block=(128, 1, 1),
        params=(
            Tensor("a", "s32", (32, 16, 2), (16, 1, 512)),  # (M, K, warp along N)
            Tensor("b", "s32", (32, 16, 2), (16, 1, 512)),  # (N, K, warp along M)
            Tensor("c", "s32", (32, 32), (32, 1)),  # (M, N)
        ),
    )


LAUNCH = spec("layout")
