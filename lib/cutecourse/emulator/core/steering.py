"""Steering: keep a launch to an order: delay warps and work until nothing else goes on, or follow a script.

A launch with a `Steering` asks it before each instruction by which threads or engines meet. So one can run a
kernel in an order that its waits allow and that chance would hardly give.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.waits import Held

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from cutecourse.emulator.core.bundle import Bundle, Split
    from cutecourse.emulator.core.machine import PendingWork
    from cutecourse.ptx.syntax import Instruction

__all__ = ["Delay", "Execution", "Paused", "Steering"]


class Execution(NamedTuple):
    """A warp's execution of an instruction: block, warp, PTX line, and how often it has done so before."""

    block: tuple[int, int, int]
    warp: int
    line: int
    time: int


class Delay(NamedTuple):
    """A warp that pauses before an instruction or, with `work`, what the instruction starts comes late."""

    place: Execution
    work: bool = False


@dataclass(eq=False)
class Paused(Held):
    """The lanes of a delayed warp."""

    bundle: Bundle
    split: Split
    instruction: Instruction

    @property
    def line(self) -> int:
        """The instruction's line."""
        return self.instruction.line

    def describe(self, warp: int) -> str:
        """Say why these lanes wait."""
        return f"pauses before {self.instruction.name}"


class Steering(Observer):
    """Keeps one launch to an order of its events."""

    def __init__(
        self,
        delays: Iterable[Delay] = (),
        *,
        refuses: bool = False,
        script: Sequence[Delay] = (),
        later: Iterable[Delay] = (),
    ) -> None:
        """Delay some events, or put some into an order.

        refuses  lets a test of an mbarrier fail once where the thread then does something else; otherwise
                 such a test waits, until nothing else can go on.
        script   events that happen in this order, before all of those in `later`. A `Delay` stands for the
                 event that it could delay.
        """
        self.delays = frozenset(delays)
        self._script = deque(script)
        self._ordered = {*script, *later} if script else set()
        self.refuses = refuses
        self._refused: set[Hashable] = set()
        self._seen: dict[tuple[int, Hashable], int] = {}
        """By the bundle's id and the barrier, how many phases the warp has seen complete."""
        self.passed: set[Hashable] = set()
        """For each wait that is over: the warp, the barrier's CTA and offset, and the phases complete."""
        self.trusts_flags = True
        """False if fences, atomics and strong accesses order nothing for the race check."""
        self.trusts_lanes = True
        """False if for the race check a lane tells others only of what it has done and waited for itself."""
        self.times: Counter[Execution] = Counter()
        """How often each warp has executed each instruction; `time` is 0."""
        self.paused: list[Paused] = []
        self.place: Execution | None = None
        """The execution that was begun last: the work that is deferred now belongs to it."""
        self.last: dict[int, Execution] = {}
        """The execution that each bundle, by its id, began last."""
        self.acting: dict[int, NDArray[np.bool_]] = {}
        """The lanes of that execution."""
        self.asked: dict[int, Execution] = {}
        """Among those, the wait that may fail."""
        self._over: set[Delay] = set()
        """The events that are late no longer."""
        self._work: dict[PendingWork, Delay] = {}

    def lets(
        self, bundle: Bundle, instruction: Instruction, lanes: NDArray[np.bool_], *, may_fail: bool
    ) -> bool:
        """True if lanes of a warp, shape (1, 32), may execute an instruction now.

        A wait that may fail counts once, when it is over, however often the warp asks.
        """
        place = self._place(bundle, instruction)
        event = Delay(place)
        if self._must_wait(event):
            return False
        if self._script and self._script[0] == event:
            self._next()
        self.place = self.last[id(bundle)] = place
        self.acting[id(bundle)] = lanes
        if may_fail:
            self.asked[id(bundle)] = place
        else:
            self.times[place._replace(time=0)] += 1
        return True

    def mbarrier_seen(self, bundle: Bundle, barrier: Any, phases: int, lanes: list[int]) -> None:
        """A warp goes on after a wait."""
        self._seen[id(bundle), barrier] = phases
        self.passed.add((_whose(bundle), barrier.rank, barrier.offset, phases))
        place = self.asked.get(id(bundle))
        if place is not None:
            self.times[place._replace(time=0)] += 1

    def deferred(self, work: PendingWork) -> None:
        """Remember what starts work that may have to come late."""
        if self.place is not None and (self.delays or self._ordered):
            self._work[work] = Delay(self.place, work=True)

    def free(self, pending: Sequence[PendingWork]) -> Sequence[PendingWork]:
        """The work that may complete now."""
        if not self._work:
            return pending
        free = [work for work in pending if work not in self._work or not self._must_wait(self._work[work])]
        if self._script and self._script[0].work:
            now = [work for work in pending if self._work.get(work) == self._script[0]]
            if len(now) == 1:  # its last piece
                self._next()
            return now or free
        return free

    def _must_wait(self, event: Delay) -> bool:
        """True if an event must not happen yet."""
        if event in self._over:
            return False
        return event in self.delays or (event in self._ordered and self._script[0] != event)

    def release(self) -> bool:
        """End all delays, because nothing else can go on. False if nothing is delayed now."""
        late = [
            self._work[work] for work in self._work if not work.done and self._must_wait(self._work[work])
        ]
        if not self.paused and not late:
            return False
        self._script.clear()
        self._ordered.clear()
        self._over.update(Delay(self._place(one.bundle, one.instruction)) for one in self.paused)
        self._over.update(late)
        self._wake()
        return True

    def _next(self) -> None:
        """Go on in the script."""
        self._script.popleft()
        if not self._script:
            self._ordered.clear()
        self._wake()

    def _wake(self) -> None:
        paused, self.paused = self.paused, []
        for one in paused:
            one.bundle.unpark(one.split)

    def refuse(self, bundle: Bundle, line: int, barrier: Hashable, phase: int) -> bool:
        """True the first time that a warp asks at a line for a phase that it does not know to be complete.

        phase  how many phases are complete. Before the first one, everybody knows the answer.
        """
        key = (id(bundle), line, barrier, phase)
        if key in self._refused or phase == self._seen.get((id(bundle), barrier), 0):
            return False
        self._refused.add(key)
        return True

    def _place(self, bundle: Bundle, instruction: Instruction) -> Execution:
        place = Execution(*_whose(bundle), instruction.line, 0)
        return place._replace(time=self.times[place])


def _whose(bundle: Bundle) -> tuple[tuple[int, int, int], int]:
    """The block and the number of a bundle's warp."""
    x, y, z = bundle.cohort.blocks[0, bundle.rank].tolist()
    return (x, y, z), bundle.warp
