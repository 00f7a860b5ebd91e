"""tcgen05's asynchronous operations under way: mma, cp, and the commits that wait for them.

Each CTA has a queue. What it holds completes at times, and in an order, that the seed chooses, but for what
the document promises: a commit comes behind all that its thread has issued, and operations that use the same
cells of tensor memory come in the order of issue, such as two tcgen05.mma of one accumulator, or a
tcgen05.mma behind the tcgen05.cp of its A. Two tcgen05.mma of different accumulators can complete the other
way round.

Source: PTX ISA 9.0, Memory Consistency Model for 5th generation of TensorCore operations
        (#tcgen05-memory-consistency-model).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Cohort
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE
from cutecourse.emulator.core.machine import PendingWork
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.memory.proxies import BY_THREADS, all_in_sight
from cutecourse.emulator.memory.tensor_memory import Moving, TensorMemory
from cutecourse.emulator.memory.unwritten import describe_unwritten

__all__ = ["Link", "Operation", "Queue", "check_source"]

_EACH_FIRST = 256
_ALONE = 8
"""Of so many operations one completes without those behind it with which it could."""


@dataclass(eq=False, slots=True)
class Link:
    """Lets operations of one thread complete at once, if they are neighbours in the queue.

    Operations with the same `key` are passed to one call of `complete`, which takes their `member`s in order.
    """

    key: Hashable
    member: Any
    complete: Callable[[list[Any]], None]


class Operation:
    """Something that a thread has issued and that completes later, with `run`.

    `touches` are the regions of tensor memory that a tcgen05.mma or cp reads and writes; None for a commit.
    """

    __slots__ = ("issue", "link", "origin", "run", "thread", "touches", "work")

    def __init__(
        self,
        origin: Origin,
        run: Callable[[], None],
        issue: int | None = None,
        *,
        touches: list[tuple[TensorMemory, Moving]] | None = None,
        link: Link | None = None,
    ) -> None:
        self.origin = origin
        self.thread = (id(origin.bundle), origin.lane)
        """Which thread has issued it."""
        self.run = run
        self.issue = issue
        """The index of its event."""
        self.touches = touches
        self.link = link
        self.work: PendingWork

    def follows(self, earlier: Operation) -> bool:
        """True if the operation must complete after `earlier`, which was issued before it."""
        if self.touches is None:
            return earlier.thread == self.thread
        if earlier.touches is None:
            return False
        for memory, mine in self.touches:
            for other, theirs in earlier.touches:
                if memory is other and (mine.writes or theirs.writes) and mine.region.meets(theirs.region):
                    return True
        return False

    def links(self, other: Operation) -> bool:
        """True if the operation may complete at once with `other`, provided that they are neighbours."""
        if self.link is None or other.link is None or self.work.done:
            return False
        return self.thread == other.thread and self.link.key == other.link.key


class Queue:
    """The operations of one CTA that are not complete, oldest first."""

    def __init__(self) -> None:
        self.waiting: deque[Operation] = deque()

    @classmethod
    def of(cls, origin: Origin) -> Queue:
        """The queue of the CTA that issues."""
        cohort: Cohort = origin.bundle.cohort
        queues = cohort.own(_Queues)
        key = (origin.lane // WARP_SIZE, origin.bundle.rank)
        found = queues.get(key)
        if found is None:
            found = queues[key] = cls()
        return found

    def add(self, operation: Operation) -> None:
        """Let an operation complete later."""
        self.waiting.append(operation)
        machine = operation.origin.bundle.machine
        operation.work = machine.defer(partial(self._complete, operation))

    def of_thread(self, origin: Origin) -> list[Operation]:
        """The operations that a thread has issued and that are not complete."""
        mine = (id(origin.bundle), origin.lane)
        return [operation for operation in self.waiting if operation.thread == mine]

    def _complete(self, operation: Operation) -> None:
        together, before = self._linked(operation)
        for earlier in before:
            if operation.follows(earlier):
                earlier.work.finish()
        for each in together:
            each.work.withdraw()
            self.waiting.remove(each)
        if operation.link is not None and len(together) > 1:
            operation.link.complete([each.link.member for each in together if each.link])
        else:
            operation.run()

    def _linked(self, operation: Operation) -> tuple[list[Operation], list[Operation]]:
        """The operations that complete at once with one of them, and those before them in the queue.

        Of a launch's first ones each completes for itself. Later, those that have to come before it come with
        it, and, as the seed chooses, those behind it.
        """
        waiting = list(self.waiting)
        here = first = waiting.index(operation)
        stop = here + 1
        machine = operation.origin.bundle.machine
        if operation.link is not None:
            machine.linked += 1
            if machine.linked > _EACH_FIRST:
                while first and waiting[first - 1].links(operation):
                    first -= 1
                while stop < len(waiting) and waiting[stop].links(operation):
                    stop += 1
                if stop > here + 1 and machine.random.randrange(_ALONE) == 0:
                    stop = here + 1
        return waiting[first:stop], waiting[:first]


class _Queues(dict[tuple[int, int], Queue]):
    """The queues of a cohort's CTAs, by cluster and rank."""

    def __init__(self, cohort: Cohort) -> None:
        super().__init__()


def check_source(
    origin: Origin,
    rank: int,
    chunks: NDArray[np.int64],
    what: str,
    *,
    issued: bool = False,
    until: str = "a tcgen05.commit that follows it",
) -> None:
    """Refuse chunks of a CTA's shared memory that the asynchronous proxy does not find as they should be.

    `chunks` are numbers among the cohort's; `issued` tells whether the operation was issued before, `until`
    what one waits for to write there again.

    Errors: UninitializedRead, MissingProxyFence; OverwrittenSource once issued.
    """
    bundle = origin.bundle
    cohort = bundle.cohort
    marks = cohort.shared_chunks[1][chunks]
    if all_in_sight(marks):
        return
    written = marks.view(np.uint8).reshape(*marks.shape, CHUNK)
    wrong = (written == 0) | (written == BY_THREADS)
    if issued and bundle.machine.severities["no proxy fence"] != "error":
        # What was stored without a fence before the issue looks the same as what was stored since.
        wrong &= written == 0
    if not wrong.any():
        return
    place = np.argwhere(wrong)[0]
    seen = written[tuple(place)]
    byte = int(chunks.reshape(-1)[np.ravel_multi_index(tuple(place[:-1]), chunks.shape)]) * CHUNK
    offset = byte % cohort.shared_stride + int(place[-1])
    name = bundle.program.shared_name(offset)
    where = f"{what} has a byte at shared offset 0x{offset:x}" + (f" (in {name})" if name else "")
    if cohort.size > 1:
        where += f" of CTA {rank}"
    if issued:
        report(
            "source overwritten",
            f"{where} that was changed before the operation had read it. The thread that writes there again"
            f" must first wait for {until}.",
            origin,
            address=offset,
            allocation=name,
        )
    elif seen:
        report(
            "no proxy fence",
            f"{where} that was written by a thread with no fence.proxy.async after it. Each thread must fence"
            " its stores; then comes a barrier, then the operation.",
            origin,
            address=offset,
            allocation=name,
        )
    else:
        report(
            "never written",
            f"{where} that was never written. "
            + describe_unwritten(origin, "the operation", asynchronous=True),
            origin,
            address=offset,
            allocation=name,
        )
