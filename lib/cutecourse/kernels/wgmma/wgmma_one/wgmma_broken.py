"""wgmma_one with one thing wrong at a time: each fence and each wait left out once.

A and B hold small integers, whose sums are exact. `MEASURED` is the size for a GPU: with three CTAs on each
SM, a missing proxy fence shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutecourse.kernels import wgmma_one
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.spec import LaunchSpec

M, K = 256, 512
MEASURED = (64 * 396, 512)

_FENCE = "        warpgroup.fence()\n"
_COMMIT = "        warpgroup.commit_group()\n"
_WAIT = "        warpgroup.wait_group(0)\n"
_TWINS_WAIT = "wgmma.wait_group.sync.aligned 0;"
_PROXY = '        cute.arch.fence_proxy("async.shared", space="cta")\n'

FAULTS = by_name(
    __name__,
    Fault(
        "no_fence",
        "nothing orders the registers' earlier uses before wgmma's own",
        source=((_FENCE, ""),),
        twin=(("wgmma.fence.sync.aligned;", ""),),
        reports=("MissingWgmmaFence",),
    ),
    Fault(
        "no_commit",
        "the wgmma belong to no group, so the wait has nothing to wait for",
        source=((_COMMIT, ""),),
        twin=(("wgmma.commit_group.sync.aligned;", ""),),
        reports=("OverwrittenSource",),
    ),
    Fault(
        "no_wait",
        "the next k-tile, and the store of C, come while wgmma still work",
        source=((_WAIT, ""),),
        twin=((_TWINS_WAIT, ""),),
        reports=("OverwrittenSource",),
    ),
    Fault(
        "no_proxy_fence",
        "the threads' stores are not ordered before the tensor core's reads",
        source=((_PROXY, ""),),
        twin=(("fence.proxy.async.shared::cta;", ""),),
        reports=("MissingProxyFence",),
    ),
    Fault(
        "one_group_too_many",
        "one group may be under way, and it reads the stage that is filled next",
        source=((_WAIT, _WAIT.replace("0", "1")),),
        twin=((_TWINS_WAIT, _TWINS_WAIT.replace("0", "1")),),
        reports=("OverwrittenSource",),
    ),
    Fault(
        "no_last_wait",
        "C is stored while the wgmma of the last k-tile still work",
        source=((_WAIT, "        if k + 1 < cute.size(gA, mode=[2]):\n    " + _WAIT),),
        twin=(
            (
                _TWINS_WAIT,
                f"""\
setp.ge.u32         %more, %k, ${{K}} - 64;
    @%more bra          LAST;
    {_TWINS_WAIT}
LAST:""",
            ),
        ),
        reports=("AccumulatorInFlight",),
    ),
    Fault(
        "cleared_too_early",
        "the stage is cleared for the next k-tile while wgmma read it",
        source=(
            (
                _WAIT,
                "        for i in range(tid, cute.size(sA), THREADS):\n"
                "            sA[i] = cutlass.Float16(0)\n" + _WAIT,
            ),
        ),
        twin=(
            (
                _TWINS_WAIT,
                f"""\
mov.b32             %w0, 0;
    mad.lo.u32          %at, %me, 64, %tiles;
    st.shared.v4.b32    [%at], {{%w0, %w0, %w0, %w0}};
    st.shared.v4.b32    [%at + 16], {{%w0, %w0, %w0, %w0}};
    st.shared.v4.b32    [%at + 32], {{%w0, %w0, %w0, %w0}};
    st.shared.v4.b32    [%at + 48], {{%w0, %w0, %w0, %w0}};
    {_TWINS_WAIT}""",
            ),
        ),
        reports=("OverwrittenSource",),
    ),
)


def right(m: int = M, k: int = K) -> LaunchSpec:
    """The launch without a fault."""
    return wgmma_one.spec(m, k)


def broken(fault: str, m: int = M, k: int = K) -> LaunchSpec:
    """The launch with one fault. Errors: SpecError for a name that is none of `FAULTS`."""
    return right(m, k).with_fault(FAULTS[fault], f"wgmma_{fault}")


def arguments(seed: int, m: int = M, k: int = K) -> tuple[dict[str, Any], str, np.ndarray[Any, Any]]:
    """A and B of small integers, C that nothing has been stored to, and what C should be."""
    random = np.random.default_rng(seed)
    n, rows = wgmma_one.TILE[1], min(m, 64 * 44)  # more rows than these repeat them
    a, b = (random.integers(-3, 4, (extent, k)).astype(np.float16) for extent in (rows, n))
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    given = {"a": np.resize(a, (m, k)), "b": b, "c": np.full((m, n), np.nan, np.float32)}
    return given, "c", np.resize(expected, (m, n))


RIGHT = LAUNCH = right()
