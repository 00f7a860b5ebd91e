"""cp.async: copies from global to shared memory that proceed while the issuing thread runs on.

Executing cp.async copies nothing yet. The copy takes place when its thread waits for it; the launch's seed
chooses the order of the copies that one wait completes. From the cp.async to the wait the destination counts
as never written, so a read without the wait is an error and not a matter of luck.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts, MemoryUse, Pipe
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import AlignmentError, InvalidOperand
from cutecourse.emulator.memory.access import Access
from cutecourse.emulator.memory.unwritten import Unwritten
from cutecourse.ptx.syntax import Instruction, IntLiteral

__all__ = ["when_complete"]

_PREFETCH = ("L2::64B", "L2::128B", "L2::256B")
Lanes = NDArray[np.bool_]


@dataclass(eq=False, slots=True)
class _Copy:
    """The bytes that one cp.async has yet to copy, lane by lane."""

    form: _Form
    destination: NDArray[Any]
    source: NDArray[Any]
    n_bytes: NDArray[np.int64]
    lanes: Lanes
    group: NDArray[np.int64]

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

    def complete() -> None:
        queue.complete(bundle, mask, None)
        for lane in idle:
            then(lane)

    bundle.machine.defer(complete)


class CopyQueue:
    """The copies of one bundle's threads, and how many groups each thread has committed."""

    def __init__(self, bundle: Bundle) -> None:
        self.committed: NDArray[np.int64] = np.zeros((bundle.n, WARP_SIZE), dtype=np.int64)
        self.copies: list[_Copy] = []
        self.watchers: list[tuple[int, list[_Copy], Callable[[int], None]]] = []
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

    def complete(self, bundle: Bundle, lanes: Lanes, before: NDArray[np.int64] | None) -> None:
        """Complete the copies of some threads: all, or those in groups with a number below `before`."""
        due = []
        for copy in self.copies:
            whose = copy.lanes & lanes
            if before is not None:
                whose &= copy.group < before
            if whose.any():
                due.append((copy, whose))
        bundle.machine.random.shuffle(due)
        for copy, whose in due:
            copy.complete(bundle, whose)
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
            line, copier = found
            own = other is bundle and copier == lane % WARP_SIZE
            whose = "the thread" if own else f"warp {other.warp}, lane {copier}"
            return (
                f"The cp.async at line {line} is to write it, and {whose} has not waited for that copy."
                " Is a cp.async.wait_group missing, or does it leave too many groups under way?"
                + ("" if own else " A barrier must follow the wait.")
            )
    return None


class _Form:
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


def _facts(one: Instruction) -> Facts:
    size = one.operands[2] if len(one.operands) > 2 else None
    n_bytes = size.value if isinstance(size, IntLiteral) and size.value in {4, 8, 16} else 4
    return Facts(
        uses=(MemoryUse("global", n_bytes, reads=True), MemoryUse("shared", n_bytes, writes=True)),
        pipe=Pipe.COPIES_OF_THREADS,
        passes="cached copy" if "ca" in one.modifiers else "copy",
    )


@instruction("cp.async.ca", "cp.async.cg", facts=_facts)
def cp_async(site: Site) -> Step:
    """Start a copy from global to shared memory that proceeds while the thread does something else.

    Shapes:     each lane copies cp-size bytes, 4, 8 or 16 (.cg: 16), between addresses of its own. With
                src-size it reads only that many bytes and writes zeros for the rest; if the predicate
                ignore-src is true, it reads nothing and writes zeros.
    Units:      bytes; both addresses are multiples of cp-size.
    Errors:     AddressError, AlignmentError, InvalidOperand for a wrong size.
    Simplified: the copy reads its source and writes its destination when the thread waits; the hardware may
                do both at any earlier time. From the cp.async to the wait the destination counts as never
                written. Caching and prefetching have no effect.
    Source:     PTX ISA 9.0, cp.async (#data-movement-and-conversion-instructions-cp-async).
    """
    if not (site.one_of("shared", "shared::cta") and site.has("global")):
        site.unsupported("it copies from .global to .shared")
    hinted = site.has("L2::cache_hint")
    site.one_of(*_PREFETCH)
    size = site.constant(2)
    if size not in ({16} if "cg" in site.instruction.modifiers else {4, 8, 16}):
        site.invalid(f"cp-size must be {'16' if 'cg' in site.instruction.modifiers else '4, 8 or 16'}")
    destination, source = site.address(0), site.address(1)
    form = _Form(site, size)
    given = len(site.operands) - hinted
    ignore = src_size = None
    if given == 4:
        register = site.register(site.operand(3))
        if register is not None and register.bits == 1:
            ignore = site.source(3, "pred")
        else:
            src_size = site.source(3, "u32")
    elif given != 3:
        site.invalid(f"{site.instruction.name} takes two addresses, cp-size, and src-size or ignore-src")

    def step(bundle: Bundle, mask: Mask) -> None:
        lanes = site.active(bundle, mask).copy()
        n_bytes = np.full((bundle.n, WARP_SIZE), size, dtype=np.int64)
        if src_size is not None:
            n_bytes = bundle.rows["u32"][src_size].astype(np.int64)
            wrong = lanes & (n_bytes > size)
            if wrong.any():
                lane = int(np.flatnonzero(wrong)[0])
                raise site.error(
                    InvalidOperand,
                    f"src-size is {int(n_bytes.reshape(-1)[lane])} but cp-size is only {size}",
                    bundle,
                    lane,
                )
        elif ignore is not None:
            n_bytes = np.where(bundle.rows["pred"][ignore], 0, size)
        to, origin = destination.lanes(bundle).copy(), source.lanes(bundle).astype(np.uint64)
        # Wrong addresses are reported here, where the kernel gives them.
        form.read(bundle, origin, n_bytes, lanes)
        for part in form.to_shared.parts(bundle, to, lanes):
            if part.written is not None:
                part.written[part.index] = 0
        for tell in bundle.cohort.listeners.copy_asked:
            tell((form.whole, form.to_shared), bundle, (origin, to), n_bytes, lanes)
        queue = bundle.own(CopyQueue)
        queue.copies.append(_Copy(form, to, origin, n_bytes, lanes, queue.committed.copy()))

    return step


@instruction("cp.async.commit_group")
def commit_group(site: Site) -> Step:
    """Close a group of all copies that the thread has issued since its last commit.

    Shapes:     each lane has groups of its own; a group may be empty.
    Source:     PTX ISA 9.0, cp.async.commit_group
                (#data-movement-and-conversion-instructions-cp-async-commit-group).
    """

    def step(bundle: Bundle, mask: Mask) -> None:
        bundle.own(CopyQueue).committed[site.active(bundle, mask)] += 1

    return step


@instruction("cp.async.wait_group", "cp.async.wait_all", facts=Facts(waits_for=Pipe.COPIES_OF_THREADS))
def wait_group(site: Site) -> Step:
    """Wait until all of the thread's groups but the newest N are complete.

    Shapes:     each lane waits for its own groups.
    Units:      N counts committed groups; wait_all waits for all copies, committed or not.
    Simplified: the copies take place here. Other threads see them after a barrier, as on the hardware.
    Source:     PTX ISA 9.0, cp.async.wait_group, cp.async.wait_all
                (#data-movement-and-conversion-instructions-cp-async-wait-group).
    """
    everything = "wait_all" in site.instruction.modifiers
    newest = 0 if everything else site.constant(0)
    if newest is None or newest < 0:
        site.invalid("cp.async.wait_group takes the number of groups as a constant, 0 or more")

    def step(bundle: Bundle, mask: Mask) -> None:
        queue = bundle.own(CopyQueue)
        before = None if everything else queue.committed - newest
        queue.complete(bundle, site.active(bundle, mask), before)

    return step
