"""How `umma_scheduled` is launched, for one problem or another; the kernel is in `source.py`."""

from cutecourse.kernels.files import KernelFunction, kernel_file
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor
from cutecourse.kernels.umma_ladder import twin_with, umma_spec

FILE = kernel_file("umma_scheduled")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(
    m: int,
    n: int,
    k: int,
    *,
    sms: int = 2,
    pairs: int | None = None,
    columns: int = FILE.constant("COLUMNS"),
    stages: int = FILE.constant("STAGES"),
    ctas: int = 1,
    blends: bool = False,
    fuses: bool = False,
) -> LaunchSpec:
    """The launch for D (M, N) = A (M, K) times B (N, K) transposed, with bf16 in D, row-major.

    sms      how many SMs an MMA takes: 2, or 1 for a kernel without pairs.
    pairs    None: the grid has a pair for each tile, and a pair that runs asks for the tiles of those that do
             not run yet. A number: so many at most share the tiles in turn.
    columns  of an MMA's result: 64, 128, 192 or 256, so 1 to 4 pieces of 64.
    stages   for k-tiles.
    ctas     how many CTAs share an SM: 1, or 2 of at most 128 columns.
    blends   the kernel also takes C (M, N) in bf16 and the numbers alpha and beta: D = alpha A B^T + beta C.
    fuses    it also takes a scale for each row and a bias for each column: D = relu(scale (A B^T) + bias).

    Errors: SpecError for other numbers of SMs, columns and CTAs, for fewer than one pair or stage, for both
            epilogues at once, for extents of 1, and for N or K that is no multiple of 8.
    """
    if columns not in (64, 128, 192, 256):
        raise SpecError(f"umma_scheduled: columns is 64, 128, 192 or 256, not {columns!r}.")
    if stages < 1:
        raise SpecError(f"umma_scheduled: stages is at least 1, not {stages!r}.")
    if ctas not in (1, 2) or ctas * columns > 256:
        raise SpecError(
            f"umma_scheduled: tensor memory has room for two accumulators of 256 columns, so ctas is 1, or 2 "
            f"with 128 or fewer; not {ctas!r} with {columns}."
        )
    if blends and fuses:
        raise SpecError("umma_scheduled: one epilogue takes C, the other the scale and the bias; choose one.")
    return umma_spec(
        FILE,
        (m, n, k),
        sms,
        columns=columns,
        stages=stages,
        blends=blends,
        further=(Tensor("scale", "f32", (m,), (1,)), Tensor("bias", "f32", (n,), (1,))) if fuses else (),
        pairs=pairs if pairs is not None else -(-m // (FILE.constant("CTA_ROWS") * sms)) * -(-n // columns),
        smem_bytes=16 + 2 * 8 + 2 * FILE.constant("ACCUMULATORS") * 8 + 4,
        given=(columns, stages, pairs or 0, ctas, int(fuses)),
    )


def twin_text(spec: LaunchSpec) -> str:
    """The twin's text: what a launch has no use for is left out of it."""
    assert isinstance(spec.host, KernelFunction)
    assert spec.host.arguments is not None
    sms, blends, _, _, pairs, ctas, fuses = spec.host.arguments
    sections = {
        "with C": blends,
        "fused": fuses,
        "in turn": pairs,
        "by request": not pairs,
        "two CTAs": ctas > 1,
    }
    text = twin_with(spec, *(name for name, chosen in sections.items() if chosen))
    return text.replace("${multicast}", ".multicast::cluster::all" if sms == 2 else "")


LAUNCH = spec(*FILE.constant("MNK"))
IN_TURN = spec(*FILE.constant("MNK"), pairs=2)
ONE_SM = spec(300, 520, 72, sms=1, fuses=True)
TWO_CTAS = spec(392, 328, 72, columns=128, ctas=2, fuses=True)
THREE_PIECES = spec(392, 712, 136, columns=192, fuses=True)
