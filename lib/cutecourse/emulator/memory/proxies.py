"""The asynchronous proxy's view of shared memory: it sees threads' writes only after a proxy fence.

Bulk copies and tensor cores reach shared memory through another proxy than loads and stores. The record of
writes has one byte for each byte of shared memory: 0 if it was never written, `BY_THREADS` if threads have
written it since the last fence, `IN_SIGHT` if the asynchronous proxy sees it (the proxy wrote it itself, or a
fence came after).

Source: PTX ISA 9.0, Memory Consistency Model, Proxies; membar, fence (.proxy.async).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.memory.unwritten import describe_store, describe_unwritten

__all__ = [
    "BY_THREADS",
    "COPY",
    "IN_SIGHT",
    "TCGEN05",
    "WGMMA",
    "Reader",
    "all_in_sight",
    "check_source",
    "fence_shared",
    "first_bytes",
]

BY_THREADS = 0xFF
IN_SIGHT = 0x7F


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
                barrier lies between. The race record looks at that (emulator.checks.races).
    """
    cohort = bundle.cohort
    for cluster in bundle.clusters(active):
        start = cohort.shared_start(cluster, bundle.rank)
        written = cohort.shared_written[start : start + cohort.shared_stride]
        np.minimum(written, IN_SIGHT, out=written)


# --- sources ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """A kind of operation that reads shared memory after its issue, in the words of the reports."""

    name: str
    overwritten: str
    """For a report of a byte that changed too early: how it changed, and what the kernel lacks."""
    unseen: str = ""
    """For a report of a byte that was not fenced: the consequence."""


COPY = Reader(
    "the copy",
    "written again before the copy had read it. Is a cp.async.bulk.wait_group.read with a barrier after it"
    " missing before that store?",
    ", so the copy may not see it",
)
_CHANGED = "changed before the operation had read it. The thread that writes there again must first wait for"
TCGEN05 = Reader("the operation", f"{_CHANGED} a tcgen05.commit that follows it.")
WGMMA = Reader("the operation", f"{_CHANGED} the wgmma.wait_group of its group.")


def first_bytes(number: int) -> NDArray[np.bool_]:
    """The first bytes of a chunk, for elements that have padding behind them."""
    return np.arange(CHUNK) < number


def check_source(
    origin: Origin,
    chunks: NDArray[np.int64],
    what: str,
    reader: Reader,
    *,
    rank: int | None = None,
    needed: NDArray[np.bool_] | None = None,
    issued: bool = False,
) -> None:
    """Refuse a source that nobody has written, or that the asynchronous proxy does not see yet.

    chunks  numbers of chunks in the cohort's shared memory.
    what    the source's name, and `rank` the CTA whose memory it is, for the report.
    needed  the bytes of each chunk that must have been written, shape (*chunks.shape, 16) or one that
            broadcasts to it, as of `first_bytes`; None for all.
    issued  True if the operation was issued earlier and reads now.

    Errors: UninitializedRead, MissingProxyFence; OverwrittenSource once issued.
    """
    bundle = origin.bundle
    cohort = bundle.cohort
    marks = cohort.shared_chunks[1][chunks]
    if all_in_sight(marks):
        return
    written = marks.view(np.uint8).reshape(*marks.shape, CHUNK)
    wrong = (written == 0) | (written == BY_THREADS)
    if needed is not None:
        wrong &= needed
    if issued:
        # A byte that was already wrong at the issue, but was let pass, looks the same as one changed since.
        if bundle.machine.goes_on("no proxy fence", origin.site.line):
            wrong &= written == 0
        if bundle.machine.goes_on("never written", origin.site.line):
            wrong &= written != 0
    if not wrong.any():
        return
    place = np.argwhere(wrong)[0]
    byte = int(chunks[tuple(place[:-1])]) * CHUNK + int(place[-1])
    offset = byte % cohort.shared_stride
    name = bundle.program.shared_name(offset)
    if issued:
        hazard, problem = "source overwritten", f"was {reader.overwritten}"
    elif written[tuple(place)]:
        hazard = "no proxy fence"
        problem = (
            f"{describe_store(origin, byte)} with no fence.proxy.async after it{reader.unseen}. Each thread"
            f" must fence its stores; then comes a barrier, then {reader.name}."
        )
    else:
        hazard = "never written"
        problem = "was never written. " + describe_unwritten(origin, reader.name, asynchronous=True)
    where = f"{what} has a byte at shared offset 0x{offset:x}" + (f" (in {name})" if name else "")
    if rank is not None and cohort.size > 1:
        where += f" of CTA {rank}"
    report(hazard, f"{where} that {problem}", origin, address=offset, allocation=name)
