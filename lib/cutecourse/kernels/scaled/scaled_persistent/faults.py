"""Mistakes with scale factors in a pipeline: who copies them, who has them, and which bytes count."""

from __future__ import annotations

from typing import Any

from cutecourse.dtypes import encode
from cutecourse.kernels import scaled_persistent
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.scaled_ladder import exact_operands

LAUNCH = scaled_persistent.LAUNCH
_UNTIL_FULL = """\
UNTIL_FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%barrier], %parity;
    @!%done bra         UNTIL_FULL;
"""
_COPIES = """\
    @%elected tcgen05.cp.cta_group::2.32x128b.warpx4 [%sf_a], %desc_sf;
    add.u64             %desc_sf, %desc_sf, 32;
    @%elected tcgen05.cp.cta_group::2.32x128b.warpx4 [%sf_b], %desc_sf;
"""

FAULTS = by_name(
    __name__,
    Fault(
        "copied_before_the_wait",
        "a stage's scale factors are copied to tensor memory before `full` says that they have come",
        source=((_UNTIL_FULL, ""), (_COPIES, _COPIES + _UNTIL_FULL)),
        reports=("ReadBeforeWait", "UninitializedRead"),
    ),
    Fault(
        "columns_shared",
        "all stages copy their scale factors to the same columns",
        source=(("mad.lo.u32          %sf_a, %stage, 8 * 1, %tmem;", "mov.u32             %sf_a, %tmem;"),),
        reports=("UnpromisedOrder",),
    ),
    Fault(
        "scales_not_counted",
        "`full` expects the bytes of A and B alone",
        source=(("(16384 + 1024 * 1) * 2 + 16384;", "16384 * 2 + 16384;"),),
        reports=("TransactionBytesError",),
    ),
    Fault(
        "leaders_rows",
        "the peer loads the scale factors of the leader's rows of A",
        source=(("[%sfa, {0, %block_k, %block_a}]", "[%sfa, {0, %block_k, %tile_m}]"),),
        reports=("ScaleMismatch",),
    ),
    Fault(
        "over_the_accumulator",
        "the scale factors are copied to the columns of the second accumulator",
        source=(("add.u32             %sf_a, %sf_a, 256;", "add.u32             %sf_a, %sf_a, 128;"),),
        reports=("InvalidOperand",),
    ),
    Fault(
        "empty_not_waited",
        "the MMAs of a later tile do not wait until the accumulator's sums have been loaded",
        source=(("    @!%done bra         UNTIL_ACC_EMPTY;\n", ""),),
        reports=("TensorMemoryLoadUnderWay",),
    ),
)


def arguments(seed: int) -> tuple[dict[str, Any], str, Any]:
    """Operands whose sums are exact, D that holds NaN, and what D should be."""
    given, product = exact_operands(LAUNCH, "mxf8", seed)
    return given, "d", encode((given["alpha"] * product).astype("float32"), "bf16")
