"""The copies of cp.async that are under way: what each has yet to copy, and who waits for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import AlignmentError
from cutecourse.emulator.memory.access import Access
from cutecourse.emulator.memory.unwritten import Unwritten

__all__ = ["CopyForm", "CopyQueue", "LaneCopies", "when_complete"]

Lanes = NDArray[np.bool_]


@dataclass(eq=False, slots=True)
class LaneCopies:
    """The bytes that one cp.async has yet to copy, lane by lane."""

    form: CopyForm
    destination: NDArray[Any]
    source: NDArray[Any]
    n_bytes: NDArray[np.int64]
    lanes: Lanes
    group: NDArray[np.int64]
    number: int
    """How many the bundle's threads have issued before."""

    def complete(self, bundle: Bundle, lanes: Lanes) -> None:
        """Copy for some lanes: read global memory as it is now, pad with zeros, write shared memory."""
        self.lanes &= ~lanes
        values = self.form.read(bundle, self.source, self.n_bytes, lanes)
        self.form.to_shared.store(bundle, self.destination, lanes, values[lanes])

    def waits(self, lane: int) -> bool:
        """True if the copy of one thread, a flattened lane, is not complete."""
        return bool(self.lanes.reshape(-1)[lane])


def when_complete(bundle: Bundle, lanes: NDArray[np.int64], then: Callable[[int], None]) -> None:
    """Call `then(lane)` for each of some threads when all its copies so far are complete.

    The copies complete when the thread waits for them, or earlier if the seed says so. Lanes are flattened.
    """
    queue = bundle.own(CopyQueue)
    mask = np.zeros((bundle.n, WARP_SIZE), dtype=np.bool_)
    mask.reshape(-1)[lanes] = True
    idle = []
    for lane in lanes.tolist():
        copies = [copy for copy in queue.copies if copy.waits(lane)]
        if copies:
            queue.watchers.append((lane, copies, then))
        else:
            idle.append(lane)

    so_far = [*queue.copies]

    def complete() -> None:
        queue.complete(bundle, mask, None, so_far)
        for lane in idle:
            then(lane)

    bundle.machine.defer(complete)


class CopyQueue:
    """The copies of one bundle's threads, and how many groups each thread has committed."""

    def __init__(self, bundle: Bundle) -> None:
        self.committed: NDArray[np.int64] = np.zeros((bundle.n, WARP_SIZE), dtype=np.int64)
        self.copies: list[LaneCopies] = []
        self.issued = 0
        self.watchers: list[tuple[int, list[LaneCopies], Callable[[int], None]]] = []
        """A thread's lane, copies that it issued, and the `then` to call when they are complete."""
        reasons = bundle.cohort.own(Unwritten).reasons
        if _describe_under_way not in reasons:
            reasons.append(_describe_under_way)

    def under_way(self, block: int, address: int) -> tuple[int, int] | None:
        """The line and the lane of a pending copy that will write a byte of a block's shared memory."""
        for copy in self.copies:
            first = copy.destination[block].astype(np.int64)
            lanes = np.flatnonzero(
                copy.lanes[block] & (first <= address) & (address < first + copy.form.size)
            )
            if lanes.size:
                return copy.form.site.instruction.line, int(lanes[0])
        return None

    def complete(
        self,
        bundle: Bundle,
        lanes: Lanes,
        before: NDArray[np.int64] | None,
        among: Sequence[LaneCopies] | None = None,
    ) -> None:
        """Complete the copies of some threads: all, or those in groups with a number below `before`.

        among  some copies, of which only those under way are completed; None for all.
        """
        due = []
        for copy in self.copies if among is None else among:
            whose = copy.lanes & lanes
            if before is not None:
                whose &= copy.group < before
            if whose.any():
                due.append((copy, whose))
        bundle.machine.random.shuffle(due)
        listeners = bundle.cohort.listeners
        for copy, whose in due:
            for tell in listeners.copies_made:
                tell(bundle, copy.number)
            copy.complete(bundle, whose)
            for tell in listeners.copies_made:
                tell(bundle, None)
            for watcher in list(self.watchers):
                lane, copies, then = watcher
                if not any(one.waits(lane) for one in copies):
                    self.watchers.remove(watcher)
                    then(lane)
        self.copies = [copy for copy in self.copies if copy.lanes.any()]


def _describe_under_way(bundle: Bundle, lane: int, address: int) -> str | None:
    """Describe the cp.async that will write a byte of a lane's block when its thread waits for it."""
    for other in bundle.cohort.bundles:
        queue = other.owned(CopyQueue)
        found = queue and other.rank == bundle.rank and queue.under_way(lane // WARP_SIZE, address)
        if found:
            line, copier = bundle.program.line_in_words(found[0]), found[1]
            own = other is bundle and copier == lane % WARP_SIZE
            whose = "the thread" if own else f"warp {other.warp}, lane {copier}"
            return (
                f"The cp.async at line {line} is to write it, and {whose} has not waited for that copy."
                " Is a cp.async.wait_group missing, or does it leave too many groups under way?"
                + ("" if own else " A barrier must follow the wait.")
            )
    return None


class CopyForm:
    """One cp.async of a kernel: its sizes, and its accesses to both memories."""

    def __init__(self, site: Site, size: int) -> None:
        self.site = site
        self.size = size
        word = min(size, 8)
        self.n_words = size // word
        self.word = np.dtype(f"u{word}")
        self.to_shared = Access(site, "shared", word, self.n_words, writes=True)
        self.whole = Access(site, "global", word, self.n_words, reads=True)
        self.one_byte = Access(site, "global", 1, reads=True)

    def read(
        self, bundle: Bundle, source: NDArray[Any], n_bytes: NDArray[np.int64], lanes: Lanes
    ) -> NDArray[Any]:
        """Read `n_bytes` from global memory for each lane, padded with zeros: shape (n, 32[, words])."""
        read = np.zeros((bundle.n, WARP_SIZE, self.size), dtype=np.uint8)
        whole = lanes & (n_bytes == self.size)
        if whole.any():
            words = self.whole.load(bundle, source, whole)
            read[whole] = np.ascontiguousarray(words).view(np.uint8).reshape(-1, self.size)
        part = lanes & (n_bytes < self.size)
        wrong = part & (n_bytes > 0) & (source % self.size != 0)
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            address = int(source.reshape(-1)[lane])
            raise self.site.error(
                AlignmentError,
                f"{self.site.instruction.name} reads from 0x{address:x}, which is not a multiple"
                f" of {self.size}",
                bundle,
                lane,
                address=address,
            )
        for byte in range(int(n_bytes[part].max()) if part.any() else 0):
            some = part & (n_bytes > byte)
            read[some, byte] = self.one_byte.load(bundle, source + source.dtype.type(byte), some)
        words = read.reshape(-1).view(self.word)
        tail = (self.n_words,) if self.n_words > 1 else ()
        return words.reshape(bundle.n, WARP_SIZE, *tail)
