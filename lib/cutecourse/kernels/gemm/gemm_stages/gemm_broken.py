"""gemm_stages for C of 256x256 and K of 512: right, and with one thing wrong at a time.

Sixteen k-tiles go through the stages, so each stage is filled five times. A and B hold small integers, whose
sums are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutecourse.kernels import gemm_stages
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.spec import LaunchSpec

MNK = (256, 256, 512)

FAULTS = by_name(
    __name__,
    Fault(
        "one_stage_too_few",
        "the next copies go into the stage that is being multiplied",
        source=(("STAGES = AHEAD + 1\n", "STAGES = AHEAD\n"),),
        twin=tuple(
            (
                f"setp.eq.u32         %again, %{stage}, 24576;",
                f"setp.eq.u32         %again, %{stage}, 16384;",
            )
            for stage in ("filled", "read")
        ),
        reports=("SharedMemoryRace",),
    ),
    Fault(
        "one_group_too_many",
        "the wait lets the copies of the k-tile that comes next stay under way",
        source=(("cp_async_wait_group(AHEAD - 1)", "cp_async_wait_group(AHEAD)"),),
        twin=(("cp.async.wait_group 1;", "cp.async.wait_group 2;"),),
        reports=("UninitializedRead",),
    ),
)

RIGHT = gemm_stages.spec(*MNK)
LAUNCH = RIGHT


def broken(fault: str) -> LaunchSpec:
    """The launch with one fault. Errors: SpecError for a name that is none of `FAULTS`."""
    return RIGHT.with_fault(FAULTS[fault], f"gemm_{fault}")


def arguments(seed: int) -> tuple[dict[str, Any], str, np.ndarray[Any, Any]]:
    """A and B of small integers, C that nothing has been stored to, and what C should be."""
    m, n, k = MNK
    random = np.random.default_rng(seed)
    a, b = (random.integers(-3, 3, (rows, k), endpoint=True).astype(np.float16) for rows in (m, n))
    c = np.full((m, n), -4096, np.float16)
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    return {"a": a, "b": b, "c": c}, "c", expected
