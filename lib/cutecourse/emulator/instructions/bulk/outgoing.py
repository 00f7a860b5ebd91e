"""Bulk copies to global memory: pieces of the source are read, and written later still."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.machine import PendingWork
from cutecourse.emulator.instructions.bulk.request import Copy
from cutecourse.emulator.memory.proxies import COPY, check_source

__all__ = ["CopyOut"]


@dataclass(eq=False, slots=True)
class CopyOut(Copy):
    """A copy out of shared memory, and the reads and writes that it has yet to do."""

    released: bool = False
    """The thread has waited until the source was read."""
    reads: list[PendingWork] = field(default_factory=list)
    writes: list[PendingWork] = field(default_factory=list)

    def add(
        self,
        chunks: NDArray[np.int64],
        write: Callable[[NDArray[Any]], None],
        needed: NDArray[np.bool_] | None = None,
    ) -> None:
        """Read these chunks later, and give them to `write` later still.

        `chunks` are numbers among the cohort's; `needed` tells for each byte of them whether it has to have
        been written (None: all).
        """
        bundle = self.origin.bundle
        for tell in bundle.cohort.listeners.bulk_reads:
            tell(self, chunks)
        check_source(self.origin, chunks, "the copy's source", COPY, needed=needed)
        self.reads.append(bundle.machine.defer(self._read, chunks, write, needed))

    def _read(
        self,
        chunks: NDArray[np.int64],
        write: Callable[[NDArray[Any]], None],
        needed: NDArray[np.bool_] | None,
    ) -> None:
        check_source(self.origin, chunks, "the copy's source", COPY, needed=needed, issued=True)
        bundle = self.origin.bundle
        held, _ = bundle.cohort.shared_chunks
        self.writes.append(bundle.machine.defer(write, held[chunks]))
        if self.was_read:
            for tell in bundle.cohort.listeners.bulk_source_read:
                tell(self)

    @property
    def was_read(self) -> bool:
        """True if all of the source has been read."""
        return all(work.done for work in self.reads)

    @property
    def done(self) -> bool:
        """True if all of the destination has been written."""
        return self.was_read and all(work.done for work in self.writes)

    def finish_reads(self) -> None:
        """Do the reads that are left."""
        self._finish(self.reads)
        self.released = True

    def finish(self) -> None:
        """Do the reads and writes that are left."""
        self.finish_reads()
        self._finish(self.writes)

    def _finish(self, works: list[PendingWork]) -> None:
        left = [work for work in works if not work.done]
        self.origin.bundle.machine.random.shuffle(left)
        for work in left:
            work.finish()
