"""How `umma_persistent` is launched, for one problem or another; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("umma_persistent")
__getattr__ = FILE.attribute  # the kernel's constants and functions

MNK = FILE.constant("MNK")
CTA_ROWS = FILE.constant("CTA_ROWS")
COLUMNS = FILE.constant("COLUMNS")
K_TILE = FILE.constant("K_TILE")
STAGES = FILE.constant("STAGES")
ACCUMULATORS = FILE.constant("ACCUMULATORS")
THREADS = FILE.constant("THREADS")


def _operand(name: str, extents: tuple[int, int], rows: int) -> TensorMapSpec:
    """A K-major operand, of which a CTA loads `rows` rows at once."""
    if 1 in extents:
        raise SpecError(
            f"umma_persistent: {name} is {extents}, and the CuTe DSL leaves a mode of one element out of the "
            f"tensor map; use more than one."
        )
    if extents[1] % 8:
        raise SpecError(
            f"umma_persistent: K is {extents[1]}, but TMA needs rows of {name} at multiples of 16 bytes; "
            f"use a multiple of 8."
        )
    return TensorMapSpec(
        name,
        "f16",
        extents,
        (extents[1], 1),
        smem_layout=parse(f"S<3,4,3> o 0 o (({rows},16),1,4):((64,1),0,16)"),
        cta_tiler=(rows, K_TILE),
    )


def spec(m: int, n: int, k: int, *, sms: int = 2, pairs: int = 1) -> LaunchSpec:
    """The launch for C (M, N) = A (M, K) times B (N, K) transposed, with f32 in C, row-major.

    sms    how many SMs an MMA takes: 2, or 1 for a kernel without pairs.
    pairs  how many of them share the tiles, at most: as many as the GPU has room for.

    Errors: SpecError for another number of SMs, for fewer than one pair, for extents of 1, and for K that is
            no multiple of 8.
    """
    if sms not in (1, 2):
        raise SpecError(f"umma_persistent: sms is 1 or 2, not {sms!r}.")
    if pairs < 1:
        raise SpecError(f"umma_persistent: pairs is at least 1, not {pairs!r}.")
    tiles = -(-m // (CTA_ROWS * sms)) * -(-n // COLUMNS)
    columns = COLUMNS // sms  # of B, for one CTA
    return LaunchSpec(
        name="umma_persistent",
        language="cutedsl",
        kernel=FILE.function("umma_persistent"),
        host=FILE.function("host_for").given(sms, pairs),
        grid=(min(pairs, tiles) * sms, 1, 1),
        block=(THREADS, 1, 1),
        cluster=(sms, 1, 1),
        dynamic_smem=STAGES * (CTA_ROWS + columns) * K_TILE * 2 + 2 * (STAGES + ACCUMULATORS) * 8 + 4,
        params=(
            _operand("a", (m, k), CTA_ROWS),
            _operand("b", (n, k), columns),
            Tensor("c", "f32", (m, n), (n, 1)),
        ),
        target="sm_100a",
    )


LAUNCH = spec(*MNK)
ONE_SM = spec(384, 520, 72, sms=1)
