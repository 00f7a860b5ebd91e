"""wgmma_one with one thing wrong at a time: each fence and each wait left out once.

A and B hold small integers, whose sums are exact. `MEASURED` is the size for a GPU: with three CTAs on each
SM, a missing proxy fence shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutecourse.kernels import wgmma_one
from cutecourse.kernels.faults import Fault, by_name, changed_text
from cutecourse.kernels.spec import LaunchSpec, SpecError

M, K = 256, 512
MEASURED = (64 * 396, 512)

_FENCE = "        warpgroup.fence()\n"
_COMMIT = "        warpgroup.commit_group()\n"
_WAIT = "        warpgroup.wait_group(0)\n"
_PROXY = '        cute.arch.fence_proxy("async.shared", space="cta")\n'

FAULTS = by_name(
    wgmma_one,
    (
        Fault("no_fence", _FENCE, "", "nothing orders the registers' earlier uses before wgmma's own"),
        Fault("no_commit", _COMMIT, "", "the wgmma belong to no group, so the wait has nothing to wait for"),
        Fault("no_wait", _WAIT, "", "the next k-tile, and the store of C, come while wgmma still work"),
        Fault(
            "no_proxy_fence", _PROXY, "", "the threads' stores are not ordered before the tensor core's reads"
        ),
        Fault(
            "one_group_too_many",
            _WAIT,
            _WAIT.replace("0", "1"),
            "one group may be under way, and it reads the stage that is filled next",
        ),
        Fault(
            "no_last_wait",
            _WAIT,
            "        if k + 1 < cute.size(gA, mode=[2]):\n    " + _WAIT,
            "C is stored while the wgmma of the last k-tile still work",
        ),
        Fault(
            "cleared_too_early",
            _WAIT,
            "        for i in range(tid, cute.size(sA), THREADS):\n            sA[i] = cutlass.Float16(0)\n"
            + _WAIT,
            "the stage is cleared for the next k-tile while wgmma read it",
        ),
    ),
)


def right(m: int = M, k: int = K) -> LaunchSpec:
    """The launch without a fault."""
    return wgmma_one.spec(m, k)


def broken(fault: str, m: int = M, k: int = K) -> LaunchSpec:
    """The launch with one fault. Errors: SpecError for a name that is none of `FAULTS`."""
    if fault not in FAULTS:
        raise SpecError(f"wgmma_broken has no fault {fault!r}; it has {', '.join(FAULTS)}.")
    text = changed_text(wgmma_one, ((FAULTS[fault].right, FAULTS[fault].wrong),))
    return right(m, k).with_text(text, f"wgmma_{fault}")


def arguments(seed: int, m: int = M, k: int = K) -> tuple[dict[str, Any], str, np.ndarray[Any, Any]]:
    """A and B of small integers, C that nothing has been stored to, and what C should be."""
    random = np.random.default_rng(seed)
    n, rows = wgmma_one.TILE[1], min(m, 64 * 44)  # more rows than these repeat them
    a, b = (random.integers(-3, 4, (extent, k)).astype(np.float16) for extent in (rows, n))
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    given = {"a": np.resize(a, (m, k)), "b": b, "c": np.full((m, n), np.nan, np.float32)}
    return given, "c", np.resize(expected, (m, n))


RIGHT = LAUNCH = right()
