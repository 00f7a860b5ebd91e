"""How `umma_gemm` is launched, for one problem or another; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("umma_gemm")
__getattr__ = FILE.attribute  # the kernel's constants and functions

MNK = FILE.constant("MNK")
CTA_ROWS = FILE.constant("CTA_ROWS")
TMEM_COLUMNS = FILE.constant("TMEM_COLUMNS")
K_TILE = FILE.constant("K_TILE")
STAGES = FILE.constant("STAGES")
THREADS = FILE.constant("THREADS")


def _operand(
    name: str, extents: tuple[int, int], rows: int, major: str, dtype: str, receivers: int
) -> TensorMapSpec:
    stride = (extents[1], 1) if major == "k" else (1, extents[0])
    if 1 in extents:
        raise SpecError(
            f"umma_gemm: {name} is {extents}, and the CuTe DSL leaves a mode of one element out of the "
            f"tensor map; use more than one."
        )
    if max(stride) * 2 % 16:
        raise SpecError(
            f"umma_gemm: TMA needs rows of {name} at multiples of 16 bytes; {extents} is {major}-major."
        )
    layout = {
        "k": f"S<3,4,3> o 0 o (({rows},16),1,4):((64,1),0,16)",
        "mn": f"S<3,4,3> o 0 o (((64,{rows // 64}),16),1,4):(((1,4096),64),0,1024)",
    }[major]
    return TensorMapSpec(
        name,
        dtype,
        extents,
        stride,
        smem_layout=parse(layout),
        cta_tiler=(rows, K_TILE),
        num_multicast=receivers,
    )


def _grid(m: int, n: int, cluster: tuple[int, int, int]) -> tuple[int, int, int]:
    """As many CTAs as C has tiles of 128 x 256, in whole clusters."""
    along_m, along_n, _ = cluster
    return -(-m // (CTA_ROWS * along_m)) * along_m, -(-n // (TMEM_COLUMNS * along_n)) * along_n, 1


def gemm_spec(
    mnk: tuple[int, int, int] = MNK,
    *,
    sms: int = 2,
    dtype: str = "f16",
    major_a: str = "k",
    major_b: str = "k",
    cluster: tuple[int, int] = (4, 4),
) -> LaunchSpec:
    """The launch for C (M, N) = A (M, K) times B (N, K) transposed, with f32 in C, row-major.

    Errors: SpecError for rows of A or B that TMA cannot step along, for extents of 1, for half a pair in a
    cluster, and for a type, a major or a number of SMs that the kernel is not written for.
    """
    for what, given, known in (
        ("sms", sms, (1, 2)),
        ("dtype", dtype, ("f16", "bf16")),
        ("major_a", major_a, ("k", "mn")),
        ("major_b", major_b, ("k", "mn")),
    ):
        if given not in known:
            raise SpecError(f"umma_gemm: {what} is {' or '.join(map(repr, known))}, not {given!r}.")
    if cluster[0] % sms:
        raise SpecError(
            f"umma_gemm: {sms} SMs for an MMA need a cluster of {sms}, 4, ... CTAs along M, not {cluster}."
        )
    ctas = (*cluster, 1)
    m, n, k = mnk
    columns = TMEM_COLUMNS // sms  # of B, for one CTA
    return LaunchSpec(
        name="umma_gemm",
        language="cutedsl",
        kernel=FILE.function("umma_gemm"),
        host=FILE.function("host_for").given(sms, dtype, major_a, major_b, ctas),
        grid=_grid(m, n, ctas),
        block=(THREADS, 1, 1),
        cluster=ctas,
        dynamic_smem=STAGES * (CTA_ROWS + columns) * K_TILE * 2 + (2 * STAGES + 1) * 8 + 4,
        params=(
            _operand("a", (m, k), CTA_ROWS, major_a, dtype, cluster[1]),
            _operand("b", (n, k), columns, major_b, dtype, cluster[0] // sms),
            Tensor("c", "f32", (m, n), (n, 1)),
        ),
        target="sm_100a",
    )


LAUNCH = gemm_spec()
ONE_SM = gemm_spec(sms=1)
MN_MAJOR = gemm_spec(dtype="bf16", major_a="mn", major_b="mn", cluster=(2, 1))
RAGGED = gemm_spec((300, 520, 72), cluster=(2, 2))
