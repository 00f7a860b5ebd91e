"""gemm_stages for C of 256x256 and K of 512: right, and with one thing wrong at a time.

Sixteen k-tiles go through the stages, so each stage is filled five times. A and B hold small integers, whose
sums are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutecourse.kernels import gemm_stages
from cutecourse.kernels.faults import Fault, by_name, changed_text
from cutecourse.kernels.spec import LaunchSpec, SpecError

MNK = (256, 256, 512)

FAULTS = by_name(
    gemm_stages,
    (
        Fault(
            "one_stage_too_few",
            "STAGES = AHEAD + 1\n",
            "STAGES = AHEAD\n",
            "the next copies go into the stage that is being multiplied",
        ),
        Fault(
            "one_group_too_many",
            "cp_async_wait_group(AHEAD - 1)",
            "cp_async_wait_group(AHEAD)",
            "the wait lets the copies of the k-tile that comes next stay under way",
        ),
    ),
)

RIGHT = gemm_stages.spec(*MNK)
LAUNCH = RIGHT


def broken(fault: str) -> LaunchSpec:
    """The launch with one fault. Errors: SpecError for a name that is none of `FAULTS`."""
    if fault not in FAULTS:
        raise SpecError(f"gemm_broken has no fault {fault!r}; it has {', '.join(FAULTS)}.")
    text = changed_text(gemm_stages, ((FAULTS[fault].right, FAULTS[fault].wrong),))
    return RIGHT.with_text(text, f"gemm_{fault}")


def arguments(seed: int) -> tuple[dict[str, Any], str, np.ndarray[Any, Any]]:
    """A and B of small integers, C that nothing has been stored to, and what C should be."""
    m, n, k = MNK
    random = np.random.default_rng(seed)
    a, b = (random.integers(-3, 3, (rows, k), endpoint=True).astype(np.float16) for rows in (m, n))
    c = np.full((m, n), -4096, np.float16)
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    return {"a": a, "b": b, "c": c}, "c", expected
