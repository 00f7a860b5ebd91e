"""wgmma_one with one thing wrong at a time: each fence and each wait left out once.

The right kernel differs from `wgmma_one` in two ways that let a mistake show. It clears B's stage as soon as
the stage is free: the next copy would fill it anyway, but late. And it waits once more before it stores C.
Without that wait, ptxas injects one into the loop for the sake of C's registers, wherever the loop's own wait
is missing or lets a group stay at work. The injected wait protects the stage too, by luck.

A and B hold small integers, whose sums are exact. `MEASURED` is the size for a GPU: with three CTAs on each
SM, a missing proxy fence shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutecourse.kernels import wgmma_one
from cutecourse.kernels.faults import Fault, by_name, changed_module, changed_text
from cutecourse.kernels.spec import LaunchSpec, SpecError

M, K = 256, 512
MEASURED = (64 * 396, 512)

_FENCE = "        warpgroup.fence()\n"
_COMMIT = "        warpgroup.commit_group()\n"
_WAIT = "            warpgroup.wait_group(0)\n"
_PROXY = '        cute.arch.fence_proxy("async.shared", space="cta")\n'
_LAST_WAIT = "    warpgroup.wait_group(0)  # C's registers may be used\n"
_FREE = """\
        warpgroup.wait_group(0)
        cute.arch.sync_threads()  # all four warps have waited: the stage is free

"""
_CLEAR = """\
        if k + 1 < cute.size(gA, mode=[2]):
            warpgroup.wait_group(0)
            cute.arch.sync_threads()  # all four warps have waited: the stage is free
            zeros = cute.make_rmem_tensor(8, cutlass.Float16)
            zeros.fill(0.0)
            for i in cutlass.range_constexpr(16):
                cute.autovec_copy(zeros, tBsB[None, 15 - i, 0])
"""

_CLEARING = changed_module(wgmma_one, "clearing", ((_FREE, _CLEAR + "\n" + _LAST_WAIT),))
TEXT = _CLEARING.FILE.text
"""The right kernel's text."""

FAULTS = by_name(
    _CLEARING,
    (
        Fault("no_fence", _FENCE, "", "nothing orders the registers' earlier uses before wgmma's own"),
        Fault("no_commit", _COMMIT, "", "the wgmma belong to no group, so the wait has nothing to wait for"),
        Fault("no_wait", _WAIT, "", "the stage is cleared and filled while wgmma read it"),
        Fault(
            "no_proxy_fence", _PROXY, "", "the threads' stores are not ordered before the tensor core's reads"
        ),
        Fault(
            "one_group_too_many",
            _WAIT,
            _WAIT.replace("0", "1"),
            "one group may be under way, and it reads the stage that is filled next",
        ),
        Fault("no_last_wait", _LAST_WAIT, "", "C is stored while the wgmma of the last k-tile still work"),
    ),
)


def right(m: int = M, k: int = K) -> LaunchSpec:
    """The launch without a fault."""
    return wgmma_one.spec(m, k).with_text(TEXT, "wgmma_clearing")


def broken(fault: str, m: int = M, k: int = K) -> LaunchSpec:
    """The launch with one fault. Errors: SpecError for a name that is none of `FAULTS`."""
    if fault not in FAULTS:
        raise SpecError(f"wgmma_broken has no fault {fault!r}; it has {', '.join(FAULTS)}.")
    text = changed_text(_CLEARING, ((FAULTS[fault].right, FAULTS[fault].wrong),))
    return wgmma_one.spec(m, k).with_text(text, f"wgmma_{fault}")


def arguments(seed: int, m: int = M, k: int = K) -> tuple[dict[str, Any], str, np.ndarray[Any, Any]]:
    """A and B of small integers, C that nothing has been stored to, and what C should be."""
    random = np.random.default_rng(seed)
    n, rows = wgmma_one.TILE[1], min(m, 64 * 44)  # more rows than these repeat them
    a, b = (random.integers(-3, 4, (extent, k)).astype(np.float16) for extent in (rows, n))
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    given = {"a": np.resize(a, (m, k)), "b": b, "c": np.full((m, n), np.nan, np.float32)}
    return given, "c", np.resize(expected, (m, n))


RIGHT = LAUNCH = right()
