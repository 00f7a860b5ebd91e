"""hopper_persistent with one thing wrong at a time where C leaves through shared memory.

Two CTAs go through two tiles each, and every warpgroup stores four pieces of a tile through two buffers. A
and B hold small integers, whose sums are exact. `MEASURED` is the size for a GPU: 132 CTAs, two tiles each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutecourse.kernels import hopper_persistent
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.spec import LaunchSpec

M, N, K, SMS = 256, 512, 64, 2
MEASURED = (4096, 2048, 64, 132)

FAULTS = by_name(
    __name__,
    Fault(
        "no_proxy_fence",
        "TMA reads the buffer, and nothing orders the threads' stores before that",
        source=(('                cute.arch.fence_proxy("async.shared", space="cta")\n', ""),),
        reports=("MissingProxyFence",),
    ),
    Fault(
        "buffer_reused_early",
        "a piece is written into a buffer that TMA may still read",
        source=(
            (
                "cp_async_bulk_wait_group(BUFFERS - 1, read=True)",
                "cp_async_bulk_wait_group(BUFFERS, read=True)",
            ),
        ),
        reports=("OverwrittenSource",),
    ),
)


def right(m: int = M, n: int = N, k: int = K, sms: int = SMS) -> LaunchSpec:
    """The launch without a fault."""
    return hopper_persistent.spec(m, n, k, sms=sms)


def broken(fault: str, m: int = M, n: int = N, k: int = K, sms: int = SMS) -> LaunchSpec:
    """The launch with one fault. Errors: SpecError for a name that is none of `FAULTS`."""
    return right(m, n, k, sms).with_fault(FAULTS[fault], f"hopper_{fault}")


def arguments(
    seed: int, m: int = M, n: int = N, k: int = K, sms: int = SMS
) -> tuple[dict[str, Any], str, np.ndarray[Any, Any]]:
    """A and B of small integers, C that nothing has been stored to, and what C should be."""
    random = np.random.default_rng(seed)
    a, b = (random.integers(-3, 3, (rows, k), endpoint=True).astype(np.float16) for rows in (m, n))
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    return {"a": a, "b": b, "c": np.full((m, n), -4096, np.float16)}, "c", expected


RIGHT = LAUNCH = right()
