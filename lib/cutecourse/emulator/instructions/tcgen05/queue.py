"""tcgen05's asynchronous operations under way: mma, cp, and the commits that wait for them.

Each CTA has a queue. Its operations complete at times, and in an order, that the seed chooses, with two
exceptions: a commit completes after everything that its thread issued before, and operations that use the
same cells of tensor memory complete in the order of issue, such as two tcgen05.mma of one accumulator, or a
tcgen05.mma after the tcgen05.cp of its A. Two tcgen05.mma of different accumulators can complete in either
order.

Source: PTX ISA 9.0, Memory Consistency Model for 5th generation of TensorCore operations
        (#tcgen05-memory-consistency-model).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from cutecourse.emulator.core.bundle import Cohort
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.machine import PendingWork
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.owner import OwnerDict
from cutecourse.emulator.instructions.tcgen05.linking import linked
from cutecourse.emulator.memory.tensor_memory import Moving, TensorMemory

__all__ = ["Queue", "QueuedOperation"]


class QueuedOperation:
    """Something that a thread has issued and that completes later, with `run`.

    `touches` are the regions of tensor memory that a tcgen05.mma or cp reads and writes; None for a commit.
    Operations of one thread that are neighbours in the queue and have the same `key` may complete at once.
    Where operations have a `member`, `run` takes the list of the members that complete.
    """

    __slots__ = ("issue", "key", "member", "origin", "run", "thread", "touches", "work")

    def __init__(
        self,
        origin: Origin,
        run: Callable[..., None],
        issue: int | None = None,
        *,
        touches: list[tuple[TensorMemory, Moving]] | None = None,
        key: Hashable = None,
        member: Any = None,
    ) -> None:
        self.origin = origin
        self.thread = (id(origin.bundle), origin.lane)
        """The thread that issued the operation."""
        self.run = run
        self.issue = issue
        """The index of its event."""
        self.touches = touches
        self.key = key
        self.member = member
        self.work: PendingWork

    def follows(self, earlier: QueuedOperation) -> bool:
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


class Queue:
    """The operations of one CTA that are not complete, oldest first."""

    def __init__(self) -> None:
        self.waiting: deque[QueuedOperation] = deque()

    @classmethod
    def of(cls, origin: Origin) -> Queue:
        """The queue of the issuing thread's CTA."""
        cohort: Cohort = origin.bundle.cohort
        queues = cohort.own(_Queues)
        key = (origin.lane // WARP_SIZE, origin.bundle.rank)
        found = queues.get(key)
        if found is None:
            found = queues[key] = cls()
        return found

    def add(self, operation: QueuedOperation) -> None:
        """Let an operation complete later."""
        self.waiting.append(operation)
        machine = operation.origin.bundle.machine
        operation.work = machine.defer(self._complete, operation)

    def of_thread(self, origin: Origin) -> list[QueuedOperation]:
        """The operations that a thread has issued and that are not complete."""
        mine = (id(origin.bundle), origin.lane)
        return [operation for operation in self.waiting if operation.thread == mine]

    def _complete(self, operation: QueuedOperation) -> None:
        waiting = list(self.waiting)
        first, stop = linked(waiting, operation)
        for earlier in waiting[:first]:
            if operation.follows(earlier):
                earlier.work.finish()
        together = waiting[first:stop]
        for each in together:
            each.work.withdraw()
            self.waiting.remove(each)
        if operation.member is None:
            operation.run()
        else:
            operation.run([each.member for each in together])


class _Queues(OwnerDict[tuple[int, int], Queue]):
    """The queues of a cohort's CTAs, by cluster and rank."""
