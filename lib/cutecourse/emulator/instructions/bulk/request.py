"""A bulk copy as a thread issues it: its bytes, its source and its destinations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.core.memory import Allocation
from cutecourse.emulator.core.origin import Origin

if TYPE_CHECKING:
    from cutecourse.emulator.instructions.bulk.boxes import Box

__all__ = ["Copy", "Place", "Targets"]


@dataclass(eq=False, slots=True)
class Place:
    """A place in the shared memory of a block of the cluster that a lane belongs to."""

    bundle: Bundle
    cluster: int
    rank: int
    offset: int

    def chunk(self, offset: int) -> int:
        """The number, in all of the cohort's shared memory, of the chunk at an offset in the block."""
        return (self.bundle.cohort.shared_start(self.cluster, self.rank) + offset) // CHUNK

    def about(self) -> dict[str, int]:
        """Identify the place in events."""
        return {"rank": self.rank, "offset": self.offset}


@dataclass(eq=False, slots=True)
class Targets:
    """The destinations of a copy into shared memory, in one or more blocks; equal copies share one object."""

    place: Place
    """The place that the instruction names."""
    ranks: tuple[int, ...]
    """The destination blocks. The copy goes to the same offset in each."""
    barrier: int
    """The mbarrier's offset in each destination block."""
    first_chunk: int
    """The offset in the block, in chunks, that the pieces' chunks are counted from."""
    parity: int | None = None
    """Which CTA of a destination's pair has the mbarrier, 0 the even one; None for the destination itself."""
    firsts: list[int] = field(init=False)
    """For each destination the chunk that the pieces' chunks are counted from, among the cohort's."""
    barriers: list[tuple[int, int, int]] = field(init=False)
    """For each destination the mbarrier that counts its bytes: cluster, rank and offset."""
    named: tuple[int, ...] = ()
    """The blocks that the instruction's own addresses name."""
    _seen_alive: int = -1
    """The cohort's `endings` when all blocks were last seen alive."""

    def __post_init__(self) -> None:
        cluster, cohort = self.place.cluster, self.place.bundle.cohort
        starts = [cohort.shared_start(cluster, rank) // CHUNK for rank in self.ranks]
        self.firsts = [start + self.first_chunk for start in starts]
        self.barriers = [(cluster, self.barrier_rank(rank), self.barrier) for rank in self.ranks]

    def alive(self, cohort: Cohort) -> bool:
        """Return True while no block that the copy needs has ended."""
        if self._seen_alive != cohort.endings:
            for rank in (*self.named, *self.ranks):
                if not cohort.alive(rank).item(self.place.cluster):
                    return False
            self._seen_alive = cohort.endings
        return True

    def barrier_rank(self, rank: int) -> int:
        """The CTA whose mbarrier counts the bytes that land in a CTA."""
        return rank if self.parity is None else rank & ~1 | self.parity


@dataclass(eq=False, slots=True, weakref_slot=True)
class Copy:
    """A bulk copy, reduction or prefetch.

    operation  "load", "store", "reduce" or "prefetch"; a load goes to shared memory
    n_bytes    in each destination
    to         where it goes in shared memory, None where it goes elsewhere
    box        the box of a tensor, None for contiguous bytes
    mask       the multicast mask
    source     a place in shared memory, or an allocation of global memory and the byte where it starts
    group      the number that the thread's open bulk group will have, of a copy to global memory
    """

    origin: Origin
    operation: str
    n_bytes: int
    to: Targets | None = None
    box: Box | None = None
    mask: int | None = None
    source: Place | tuple[Allocation, int] | None = None
    group: int | None = None

    def is_source(self, chunks: NDArray[np.int64]) -> bool:
        """True if chunks of the cohort's shared memory belong to the copy's source."""
        if not isinstance(self.source, Place):
            return False
        first = self.source.chunk(self.source.offset)
        return first <= int(chunks.reshape(-1)[0]) < first + self.n_bytes // CHUNK

    def announce(self) -> None:
        """Tell the listeners that the copy is issued."""
        for tell in self.origin.bundle.cohort.listeners.bulk_issued:
            tell(self)
