"""The asynchronous proxy's view of shared memory: it sees threads' writes only after a proxy fence.

Bulk copies reach shared memory through another proxy than loads and stores. The record of writes has one byte
for each byte of shared memory: 0 if it was never written, `BY_THREADS` if threads have written it since the
last fence, `IN_SIGHT` if the asynchronous proxy sees it (the proxy wrote it itself, or a fence came after).

Source: PTX ISA 9.0, Memory Consistency Model, Proxies; membar, fence (.proxy.async).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle

__all__ = ["BY_THREADS", "IN_SIGHT", "ORDERING_FENCES", "all_in_sight", "fence_shared"]

BY_THREADS = 0xFF
IN_SIGHT = 0x7F
ORDERING_FENCES = frozenset(
    f"{opcode}.proxy.async{space}"
    for opcode in ("fence", "membar")
    for space in ("", ".shared::cta", ".shared::cluster")
)
"""The fences between threads' accesses of shared memory and those of the asynchronous proxy."""


@lru_cache(maxsize=64)
def _in_sight(n_bytes: int) -> bytes:
    return bytes([IN_SIGHT]) * n_bytes


def all_in_sight(written: NDArray[Any]) -> bool:
    """Return whether the asynchronous proxy sees all of some bytes, given their record of writes."""
    return written.tobytes() == _in_sight(written.nbytes)


def fence_shared(bundle: Bundle, active: NDArray[np.bool_]) -> None:
    """Let the asynchronous proxy see everything written so far to the block of the fencing threads.

    Shapes:     `active` (n, 32).
    Simplified: a thread's fence also covers what other threads of its block wrote before it, whether or not a
                barrier lies between.
    """
    cohort = bundle.cohort
    for cluster in bundle.clusters(active):
        start = cohort.shared_start(cluster, bundle.rank)
        written = cohort.shared_written[start : start + cohort.shared_stride]
        np.minimum(written, IN_SIGHT, out=written)
