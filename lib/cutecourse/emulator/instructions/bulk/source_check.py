"""The check of a copy's source in shared memory, when the copy is issued and when it reads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.memory.proxies import BY_THREADS, all_in_sight
from cutecourse.emulator.memory.unwritten import describe_unwritten

__all__ = ["check_source"]


def check_source(
    origin: Origin,
    chunks: NDArray[np.int64],
    needed: NDArray[np.bool_] | None = None,
    *,
    issued: bool = False,
) -> None:
    """Refuse a source that nobody has written, or that the asynchronous proxy does not see yet.

    chunks  numbers of chunks among the cohort's shared memory.
    needed  the bytes of each chunk that must have been written, shape (*chunks.shape, 16); None for all.
    issued  the copy has been issued before, and reads now.

    Errors: UninitializedRead, MissingProxyFence, OverwrittenSource.
    """
    bundle = origin.bundle
    marks = bundle.cohort.shared_chunks[1][chunks]
    if all_in_sight(marks):
        return
    written = marks.view(np.uint8).reshape(*marks.shape, CHUNK)
    wrong = (written == 0) | (written == BY_THREADS)
    if needed is not None:
        wrong &= needed
    if issued and bundle.machine.severities["no proxy fence"] != "error":
        # What was stored without a fence before the issue looks the same as what was stored since.
        wrong &= written == 0
    if not wrong.any():
        return
    place = np.argwhere(wrong)[0]
    byte = int(chunks[tuple(place[:-1])]) * CHUNK + int(place[-1])
    offset = byte % bundle.cohort.shared_stride
    name = bundle.program.shared_name(offset)
    hazard = "never written"
    problem = "never written. " + describe_unwritten(origin, "the copy", asynchronous=True)
    if written[tuple(place)] and issued:
        hazard = "source overwritten"
        problem = (
            "written again before the copy had read it. Is a cp.async.bulk.wait_group.read"
            " with a barrier after it missing before that store?"
        )
    elif written[tuple(place)]:
        hazard = "no proxy fence"
        problem = (
            "written by a thread with no fence.proxy.async after it, so the copy may not see it."
            " Each thread must fence its stores; then comes a barrier, then the copy."
        )
    report(
        hazard,
        f"the copy's source has a byte at shared offset 0x{offset:x}"
        + (f" (in {name})" if name else "")
        + f" that was {problem}",
        origin,
        address=offset,
        allocation=name,
    )
