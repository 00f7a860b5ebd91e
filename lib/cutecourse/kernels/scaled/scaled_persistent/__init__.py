"""The GEMM of umma_persistent for elements of eight and of four bits with scale factors, in PTX by hand."""

from __future__ import annotations

from dataclasses import replace

from cutecourse.block_scales import FORMATS, BlockFormat, scales_shape
from cutecourse.kernels.scaled_ladder import (
    K_BYTES,
    blocks_of,
    copies,
    filled,
    form_of,
    mmas,
    operand,
    rows_map,
    scale_factors,
)
from cutecourse.kernels.spec import LaunchSpec, Scalar, SpecError, Tensor, TensorMapSpec

STAGES = 4
CTA_ROWS = 128
COLUMNS = 128  # of an MMA's result
STORING_WARPS = 4


def result(m: int, n: int, out: BlockFormat | None) -> TensorMapSpec:
    """D's tensor map: pieces of 32 rows, swizzled by the length of their rows."""
    if out is None:
        return rows_map("d", "bf16", (m, n), (32, 64))
    columns, piece = out.bytes_of(n), out.bytes_of(COLUMNS)
    encoding = rows_map("d", "u8", (m, columns), (32, piece)).encoding
    encoding = replace(encoding, swizzle="64B" if piece == 64 else "128B")
    return TensorMapSpec.encoded("d", "u8", (m, columns), (columns, 1), encoding)


def spec(
    m: int,
    n: int,
    k: int,
    *,
    form: str = "mxf8",
    sms: int = 2,
    pairs: int = 1,
    quantises: str | None = None,
) -> LaunchSpec:
    """The launch for D (M, N) = alpha A (M, K) times B (N, K) transposed, row-major.

    A and B are bytes, as `block_scales.packed` gives them. Their scale factors `sfa` and `sfb` are
    `block_scales.placed`, taken as numbers of 16 bits: TMA copies them so.

    form       the name of a format of `block_scales.FORMATS`.
    sms        how many SMs an MMA takes: 2 or 1.
    pairs      how many of them share the tiles, at most.
    quantises  the format of D, mxf8 or nvf4, with its scale factors in `sfd`; otherwise D is bf16. `alpha`
               then holds 1 / D's second scale as well.

    Errors: SpecError for another format or number of SMs, for fewer than one pair, and for extents whose
            rows are not whole 16 bytes.
    """
    known = form_of("scaled_persistent", form)
    if sms not in (1, 2):
        raise SpecError(f"scaled_persistent: sms is 1 or 2, not {sms!r}.")
    if pairs < 1:
        raise SpecError(f"scaled_persistent: pairs is at least 1, not {pairs!r}.")
    if quantises not in (None, "mxf8", "nvf4"):
        raise SpecError(f"scaled_persistent: quantises is 'mxf8', 'nvf4' or None, not {quantises!r}.")
    blocks = blocks_of(known)
    b_at = STAGES * CTA_ROWS * K_BYTES
    d_at = b_at + STAGES * COLUMNS // sms * K_BYTES
    sf_at = d_at + STORING_WARPS * 2 * 4096
    barriers = sf_at + STAGES * 2 * 512 * blocks
    tiles_m = -(-m // (CTA_ROWS * sms))
    tiles = tiles_m * -(-n // COLUMNS)
    pairs = min(pairs, tiles)
    out = FORMATS[quantises] if quantises else None
    factors_n = 4 * out.vector if out else COLUMNS  # columns of D in a block of its scale factors
    numbers = {
        "SMS": sms,
        "STAGES": STAGES,
        "BLOCKS": blocks,
        "B_AT": b_at,
        "SF_AT": sf_at,
        "SFB_AT": sf_at + 512 * blocks,
        "D_AT": d_at,
        "BARRIERS": barriers,
        "EMPTY": 8 * STAGES,
        "ACC_FULL": 16 * STAGES,
        "ACC_FULL_1": 16 * STAGES + 8,
        "ACC_EMPTY": 16 * STAGES + 16,
        "ACC_EMPTY_1": 16 * STAGES + 24,
        "SLOT": 16 * STAGES + 32,
        "M": m,
        "N": n,
        "K_TILES": -(-known.bytes_of(k) // K_BYTES),
        "TILES_M": tiles_m,
        "TILES": tiles,
        "PAIRS": pairs,
        "D_BYTES": out.bytes_of(COLUMNS) if out else 128,
        "D_COLUMNS": out.bytes_of(COLUMNS) if out else COLUMNS,
        "BLOCKS_D": -(-n // factors_n),
        "TILE_BLOCKS": COLUMNS // factors_n,
        "COPIES": copies(known, sms),
        "MMAS": mmas(known, sms, COLUMNS),
    }
    return LaunchSpec(
        name="scaled_persistent",
        module="scaled_persistent",
        language="ptx",
        ptx=filled("scaled_persistent", numbers, *(("quantised", quantises) if quantises else ("rounded",))),
        entry="scaled_persistent",
        target="sm_100a",
        params=(
            operand("a", m, k, known, CTA_ROWS),
            operand("b", n, k, known, COLUMNS // sms),
            scale_factors("sfa", m, k, known),
            scale_factors("sfb", n, k, known),
            result(m, n, out),
            *((Tensor("sfd", "u8", scales_shape(m, n, out.vector)),) if out else ()),
            Scalar("alpha", "f32"),
        ),
        grid=(pairs * sms, 1, 1),
        block=(32 * (STORING_WARPS + 2), 1, 1),
        cluster=(sms, 1, 1),
        dynamic_smem=barriers + 16 * STAGES + 32 + 4,
    )


LAUNCH = spec(512, 384, 640)
FOUR_BITS = spec(512, 384, 1280, form="nvf4")
QUANTISED = spec(300, 400, 288, form="mxf4", sms=1, quantises="mxf8")
QUANTISED_FOUR = spec(300, 416, 544, form="nvf4", sms=1, quantises="nvf4")
