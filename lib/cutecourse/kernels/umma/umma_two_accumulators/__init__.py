"""How `umma_two_accumulators` is launched, for one problem or another; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("umma_two_accumulators")
__getattr__ = FILE.attribute  # the kernel's constants and functions

MNK = FILE.constant("MNK")
STAGES = FILE.constant("STAGES")
THREADS = FILE.constant("THREADS")
CLUSTER = FILE.constant("CLUSTER")
PAIRS = FILE.constant("PAIRS")


def _operand(name: str, extents: tuple[int, int], rows: int) -> TensorMapSpec:
    if 1 in extents or extents[1] % 8:
        raise SpecError(
            f"umma_two_accumulators: {name} is {extents}; TMA needs rows at multiples of 16 bytes, so give K"
            " in eights, and extents of at least 2."
        )
    return TensorMapSpec(
        name,
        "f16",
        extents,
        (extents[1], 1),
        smem_layout=parse(f"S<3,4,3> o 0 o (({rows},16),1,4):((64,1),0,16)"),
        cta_tiler=(rows, 64),
    )


def gemm_spec(mnk: tuple[int, int, int] = MNK) -> LaunchSpec:
    """The launch for C (M, N) = A (M, K) times B (N, K) transposed: f16, K-major, with f32 in C, row-major.

    Errors: SpecError for a K that is no multiple of 8, and for extents of 1.
    """
    m, n, k = mnk
    return LaunchSpec(
        name="umma_two_accumulators",
        language="cutedsl",
        kernel=FILE.function("umma_two_accumulators"),
        host=FILE.function("host"),
        grid=(CLUSTER[0] * PAIRS, 1, 1),
        block=(THREADS, 1, 1),
        cluster=CLUSTER,
        dynamic_smem=STAGES * (128 + 64) * 64 * 2 + (2 * STAGES + 4) * 8 + 4,
        params=(
            _operand("a", (m, k), 128),
            _operand("b", (n, k), 64),
            Tensor("c", "f32", (m, n), (n, 1)),
        ),
        target="sm_100a",
    )


LAUNCH = gemm_spec()
RAGGED = gemm_spec((300, 330, 72))
