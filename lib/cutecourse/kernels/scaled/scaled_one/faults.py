"""Mistakes with scale factors: which one, where it lies, and when it is there."""

from __future__ import annotations

from typing import Any

from cutecourse.kernels import scaled_one
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.scaled_ladder import exact_operands

LAUNCH = scaled_one.LAUNCH
_COPY_B = "    tcgen05.cp.cta_group::1.32x128b.warpx4 [%sf_b], %desc_sf;\n"
_COMMIT = "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [multiplied];\n"
_SILENT = "each byte that is read is somebody's scale factor, so nothing but the numbers is wrong"

FAULTS = by_name(
    __name__,
    Fault(
        "read_before_the_copy",
        "B's scale factors are copied to tensor memory behind the MMAs that read them",
        source=((_COPY_B, ""), (_COMMIT, _COPY_B + _COMMIT)),
        reports=("UninitializedRead",),
    ),
    Fault(
        "wrong_id",
        "the second MMA takes B's scale factors from the first byte",
        source=(
            (
                "mov.b32             %instruction, 0x28a00010;",
                "mov.b32             %instruction, 0x28a00000;",
            ),
        ),
        unreported=_SILENT,
    ),
    Fault(
        "one_id",
        "all four MMAs take the scale factors of the first 32 elements",
        source=tuple(
            (f"%instruction, {word};", "%instruction, 0x08a00000;")
            for word in ("0x28a00010", "0x48a00020", "0x68a00030")
        ),
        unreported=_SILENT,
    ),
    Fault(
        "columns_of_a",
        "B's scale factors are read from A's columns",
        source=((", [%sf_a], [%sf_b], %sum;\n    setp", ", [%sf_a], [%sf_a], %sum;\n    setp"),),
        reports=("ScaleMismatch",),
    ),
    Fault(
        "copied_over_a",
        "B's scale factors are copied over A's",
        source=(("add.u32             %sf_b, %sf_a, 4;", "mov.u32             %sf_b, %sf_a;"),),
        reports=("UnpromisedOrder", "UnreadLoad", "ScaleMismatch"),
    ),
    Fault(
        "half_a_block",
        "the descriptor of B's scale factors begins 256 bytes too early, in the last rows of A's",
        source=(
            ("add.u64             %desc_sf, %desc_sf, 32;", "add.u64             %desc_sf, %desc_sf, 16;"),
        ),
        reports=("UnreadLoad",),
        exercise="15.3",
    ),
    Fault(
        "packed_rows",
        "a descriptor says 256 bytes from 8 rows of scale factors to the next 8, where there are 128",
        source=(("%desc_sf, 0x0000400800010000;", "%desc_sf, 0x0000401000010000;"),),
        reports=("AddressError",),
    ),
    Fault(
        "bytes_not_counted",
        "the barrier expects the bytes of A and B alone",
        source=(("_, [loaded], 32768 + 2 * 512;", "_, [loaded], 32768;"),),
        reports=("TransactionBytesError",),
    ),
    Fault(
        "in_the_accumulator",
        "A's scale factors are copied into the last columns of the accumulator",
        source=(("add.u32             %sf_a, %tmem, 128;", "add.u32             %sf_a, %tmem, 124;"),),
        reports=("InvalidOperand",),
    ),
)


def arguments(seed: int) -> tuple[dict[str, Any], str, Any]:
    """Operands whose sums are exact, C that holds NaN, and what C should be."""
    given, product = exact_operands(LAUNCH, "mxf8", seed)
    return given, "c", product.astype("float32")
