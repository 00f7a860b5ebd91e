"""A GEMM of one warp whose tiles in shared memory are written in one way and read in another.

The kernel is the twin of `micro_gemm_swizzled`: PTX by hand, so that each fault is one changed line. Both
sides of shared memory compute addresses, and each fault changes the side that reads A. The launch owns 1 KiB
more than the tiles need: a read that goes too far stays inside it, on a GPU as well.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from cutecourse.kernels import micro_gemm_swizzled
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.spec import LaunchSpec
from cutecourse.kernels.twinning import twin

__all__ = ["FAULTS", "LAUNCH", "RIGHT", "arguments", "broken"]

_SWIZZLE = "    xor.b32             %chunk, %chunk, %key_a;\n"
_ROW = "    mad.lo.u32          %row_a, %row, 128, %tile;\n"

RIGHT = dataclasses.replace(
    twin(micro_gemm_swizzled), name="smem_right", dynamic_smem=micro_gemm_swizzled.LAUNCH.dynamic_smem + 1024
)
LAUNCH = RIGHT

FAULTS = by_name(
    __name__,
    Fault(
        "one_sided_swizzle",
        "the copy swizzles the chunks of A, and ldmatrix reads them as if it had not",
        source=((_SWIZZLE, ""),),
        unreported="every address is in bounds and aligned: only the product is wrong",
    ),
    Fault(
        "wrong_row_width",
        "ldmatrix reads rows of 144 bytes, as if A were padded, and the copy wrote rows of 128",
        source=((_ROW, _ROW.replace("128", "144")),),
        reports=("UninitializedRead",),
    ),
    Fault(
        "misaligned_rows",
        "ldmatrix reads rows of 136 bytes, and half of them are not at multiples of 16",
        source=((_ROW, _ROW.replace("128", "136")),),
        reports=("AlignmentError",),
    ),
)


def broken(fault: str) -> LaunchSpec:
    """The launch with one fault. Errors: SpecError for a name that is none of `FAULTS`."""
    return RIGHT.with_fault(FAULTS[fault], f"smem_{fault}")


def arguments(seed: int) -> tuple[dict[str, Any], str, Any]:
    """The arrays of one run, the result's name, and the result that is expected: small integers, so exact."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-8, 9, (16, 64)).astype(np.float16)
    b = rng.integers(-8, 9, (8, 64)).astype(np.float16)
    product = a.astype(np.float32) @ b.astype(np.float32).T
    return {"a": a, "b": b, "c": np.full((16, 8), np.nan, np.float32)}, "c", product
