"""Mistakes between the roles: who has stored P, who has corrected O, and who still reads a stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutecourse.kernels import LaunchSpec, umma_attention
from cutecourse.kernels.faults import Fault, by_name

LAUNCH = umma_attention.spec(1, 200, causal=True)
ELSE = "the kernel reads and writes what it should, and computes something else"


def _wait(label: str, place: str, parity: str) -> str:
    """The loop that waits for a phase."""
    return (
        f"{label}:\n    mbarrier.try_wait.parity.shared::cta.b64 %done, [{place}], {parity};\n"
        f"    @!%done bra         {label};\n"
    )


_ARRIVE = """\
    elect.sync          _|%elected, -1;
    @%elected mbarrier.arrive.shared::cta.b64 _, [%of_tile + 88];
"""
_STORED = "    tcgen05.wait::st.sync.aligned;\n    tcgen05.fence::before_thread_sync;\n"
_ALL_DONE = "    bar.sync            0;                              // all of O has been loaded\n"
_P_OF_MMA = """\
    mad.lo.u32          %to_p, %t, 32, %tmem;
    add.u32             %to_p, %to_p, 256;
"""
_P_OF_SOFTMAX = """\
    mad.lo.u32          %to_p, %t, 32, %to_s;
    add.u32             %to_p, %to_p, 256;
    mad.lo.u32          %to_s, %t, 64, %to_s;
"""
_LAST_FACTOR = "    sub.u32             %index, %tiles, 1;\n    and.b32             %parity, %index, 1;\n"

FAULTS = by_name(
    __name__,
    Fault(
        "softmax_alone_counted",
        "`p_full` counts the four warps that store P, and the four that correct O arrive as well",
        source=(
            ("[%barriers + 88], 8;", "[%barriers + 88], 4;"),
            ("[%barriers + 96], 8;", "[%barriers + 96], 4;"),
        ),
        reports=("UninitializedRead", "TensorMemoryHazard", "DeadlockError"),
    ),
    Fault(
        "corrected_after_the_arrival",
        "a warp says that it has corrected O before it has",
        source=(
            ("    @!%far bra          CORRECTED;\n", _ARRIVE + "    @!%far bra          CORRECTED;\n"),
            ("CORRECTED:\n" + _ARRIVE, "CORRECTED:\n"),
        ),
        reports=("TensorMemoryWriteUnderWay",),
    ),
    Fault(
        "scores_not_waited",
        "the softmax loads S before the MMAs have written it",
        source=((_wait("UNTIL_S", "%of_tile + 72", "%parity"), ""),),
        reports=("UninitializedRead",),
    ),
    Fault(
        "always_the_first_phase",
        "the softmax waits for the first S again each time",
        source=(
            (
                "    and.b32             %parity, %j, 1;\nUNTIL_S",
                "    mov.u32             %parity, 0;\nUNTIL_S",
            ),
        ),
        reports=("TensorMemoryHazard", "SharedMemoryRace", "UninitializedRead"),
    ),
    Fault(
        "store_not_waited",
        "a warp says that P is there before its stores to tensor memory are over",
        source=(
            (
                _STORED + _ARRIVE + "    sub.s32",
                "    tcgen05.fence::before_thread_sync;\n" + _ARRIVE + "    sub.s32",
            ),
        ),
        reports=("TensorMemoryWriteUnderWay",),
    ),
    Fault(
        "p_over_s",
        "P takes columns of its own S, which the next MMAs overwrite",
        source=(
            (_P_OF_MMA, "    mov.u32             %to_p, %to_s;\n"),
            (
                _P_OF_SOFTMAX,
                "    mad.lo.u32          %to_s, %t, 64, %to_s;\n    mov.u32             %to_p, %to_s;\n",
            ),
        ),
        reports=("UnpromisedOrder",),
    ),
    Fault(
        "freed_by_tile_0",
        "a stage is free when tile 0's MMAs have read it, and those of tile 1 read it later",
        source=(("%frees, %t, 1, %elected;", "%frees, %t, 0, %elected;"),),
        reports=("ReadBeforeWait",),
        exercise="16.7",
    ),
    Fault(
        "factor_not_waited",
        "O is corrected before the softmax has written the factors",
        source=((_wait("UNTIL_FACTOR", "%of_tile + 104", "%parity"), ""),),
        reports=("UninitializedRead",),
    ),
    Fault(
        "one_warp_counted",
        "`factor_full` counts one of the four warps that write factors",
        source=(("[%barriers + 104], 4;", "[%barriers + 104], 1;"),),
        reports=("UninitializedRead", "SharedMemoryRace"),
    ),
    Fault(
        "sum_at_the_factors_barrier",
        "the softmax announces its sums at the barrier of the factors, which counts arrivals alone",
        source=(
            ("_, [%of_tile + 120];", "_, [%of_tile + 104];"),
            (
                _wait("UNTIL_SUM", "%of_tile + 120", "0"),
                _LAST_FACTOR + _wait("UNTIL_SUM", "%of_tile + 104", "%parity"),
            ),
        ),
        reports=("SharedMemoryRace", "DeadlockError"),
    ),
    Fault(
        "o_not_waited",
        "O is loaded before its last MMA is over",
        source=((_wait("UNTIL_O", "%of_tile + 136", "0"), ""),),
        reports=("TensorMemoryWriteUnderWay", "TensorMemoryLoadUnderWay"),
    ),
    Fault(
        "first_adds",
        "the first product of P and V is added to an O that nobody has written",
        source=(("setp.ne.u32         %adds, %j, 1;", "setp.ne.u32         %adds, %j, 0;"),),
        reports=("UninitializedRead",),
    ),
    Fault(
        "freed_while_loaded",
        "tensor memory is freed while O is still loaded from it",
        source=((_ALL_DONE, ""),),
        reports=("TensorMemoryLoadUnderWay", "TensorMemoryFreed"),
    ),
    Fault(
        "never_corrected",
        "the sum of a row is rescaled when its maximum grows, and its part of O is not",
        source=(("    @!%far bra          CORRECTED;\n", "    bra                 CORRECTED;\n"),),
        unreported=ELSE,
    ),
    Fault(
        "mask_one_off",
        "a query sees one key more than it should",
        source=(
            (
                "    add.u32             %index, %index, 1;\n    min.s32",
                "    add.u32             %index, %index, 2;\n    min.s32",
            ),
        ),
        unreported=ELSE,
    ),
)


def arguments(seed: int) -> tuple[dict[str, Any], str, Any]:
    """Q, K, V and an empty O for `LAUNCH`, the name of the result, and what it should be, in float64.

    Later keys are longer, so that the maximum of many rows grows by more than eight powers of two.
    """
    given, expected = operands(LAUNCH, seed)
    return given, "o", expected


def operands(spec: LaunchSpec, seed: int, last: float = 8) -> tuple[dict[str, Any], Any]:
    """The same for a launch of other sizes: the arguments, and O in float64.

    last  how many times as long the last key is as the first.
    """
    _, _, _, o = spec.tensors
    shape = tuple(extent or 0 for extent in o.extents)
    random = np.random.default_rng(seed)
    q, k, v = (random.standard_normal(shape) for _ in range(3))
    k *= np.linspace(1, last, shape[1])[:, None]
    q, k, v = (one.astype(np.float16) for one in (q, k, v))
    s = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / np.sqrt(shape[-1])
    if spec.name.startswith(umma_attention.CAUSAL.name):
        s = np.where(np.tril(np.ones(s.shape[1:], bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    expected = p @ v.astype(np.float64) / p.sum(-1, keepdims=True)
    return {"q": q, "k": k, "v": v, "o": np.full(shape, np.nan, np.float16)}, expected
