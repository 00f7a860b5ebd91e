"""Bulk copies into shared memory: how their bytes land, and how they signal their mbarriers.

A copy lands after its issue, in one or more pieces, in an order that the launch's seed chooses. Until a piece
lands, its destination counts as never written. Each piece tells the mbarrier of its destination how many
bytes have landed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Cohort
from cutecourse.emulator.core.kinds import CHUNK, CHUNK_TYPE
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.instructions.bulk.operands import DESTINATION
from cutecourse.emulator.instructions.bulk.pieces import Chunks, Piece
from cutecourse.emulator.instructions.bulk.request import Copy
from cutecourse.emulator.memory.cta_ranks import check_alive
from cutecourse.emulator.memory.mbarriers import MBarriers
from cutecourse.emulator.memory.proxies import IN_SIGHT

__all__ = ["land_later", "origins_under_way"]

_LANDED = np.full(CHUNK, IN_SIGHT, dtype=np.uint8).view(CHUNK_TYPE)[0]
_NEVER = np.zeros(CHUNK, dtype=np.uint8).view(CHUNK_TYPE)[0]


def land_later(copy: Copy, pieces: Sequence[Piece], *, covered: Chunks | None = None) -> None:
    """Let the pieces land in every destination, later and in any order.

    `covered` are the chunks of all pieces, where they are known. A reduction leaves what the destination
    holds readable until then.
    """
    assert copy.to is not None
    cohort = copy.origin.bundle.cohort
    _, written = cohort.shared_chunks
    wholes = [piece.covered for piece in pieces] if covered is None else [covered]
    for tell in cohort.listeners.bulk_writes:
        tell(copy, wholes, len(pieces))
    left = [len(pieces)] * len(copy.to.firsts)
    for position, first in enumerate(copy.to.firsts):
        if copy.operation != "reduce":
            for whole in wholes:
                _mark(written, first, whole, _NEVER)
        for piece in pieces:
            cohort.machine.defer(_land, copy, position, piece, left)


def _mark(written: NDArray[Any], first: int, chunks: Chunks, mark: Any) -> None:
    """Write the same mark beside chunks that are counted from `first`."""
    if isinstance(chunks, slice):
        written[first + chunks.start : first + chunks.stop] = mark
    else:
        written[first:][chunks] = mark


def origins_under_way(cohort: Cohort, cluster: int, rank: int, offset: int) -> Iterator[Origin]:
    """Yield the origins of copies that have yet to signal bytes to the mbarrier at an offset of a CTA."""
    for work in cohort.machine.pending:
        arguments = work.arguments_of(_land)
        if arguments is None:
            continue
        copy, position = arguments[:2]
        same = copy.origin.bundle.cohort is cohort
        if same and copy.to.barriers[position] == (cluster, rank, offset):
            yield copy.origin


def _land(copy: Copy, position: int, piece: Piece, left: list[int]) -> None:
    """Land a piece in one of the copy's destinations, for each of which `left` counts the missing pieces."""
    origin, to = copy.origin, copy.to
    assert to is not None
    rank, first = to.ranks[position], to.firsts[position]
    cohort = origin.bundle.cohort
    if not to.alive(cohort):
        check_alive(origin, rank, DESTINATION)
        _check_landing(origin, rank)
    held, written = cohort.shared_chunks
    piece.put(held, first, copy.box)
    _mark(written, first, piece.covered, _LANDED)
    for tell in cohort.listeners.bulk_landed:
        tell(copy, position, piece)
    left[position] -= 1
    for tell in () if left[position] else cohort.listeners.bulk_over:
        tell(copy, position)
    barrier = cohort.own(MBarriers).find(*to.barriers[position], origin)
    barrier.complete_tx(piece.n_bytes, origin, copy)


def _check_landing(origin: Origin, rank: int) -> None:
    """Report bytes that land in the copy's own block after the block has ended. Errors: UnfinishedLoad."""
    bundle = origin.bundle
    if rank == bundle.rank and not bundle.cohort.alive(rank)[origin.cluster]:
        problem = (
            "the block ended before this copy had brought all its bytes. Add a wait for the copy's mbarrier"
            " before the kernel's end."
        )
        report("unfinished load", problem, origin)
