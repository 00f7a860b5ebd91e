"""Steering: delay a warp, or work that it has issued, until nothing else in the launch can go on.

A launch with a `Steering` asks it before each instruction by which threads or engines meet. So one can run a
kernel in an order that its waits allow and that chance would hardly give.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cutecourse.emulator.core.waits import Held

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from cutecourse.emulator.core.bundle import Bundle, Split
    from cutecourse.emulator.core.machine import PendingWork
    from cutecourse.ptx.syntax import Instruction

__all__ = ["Delay", "Paused", "Place", "Steering"]

class Place(NamedTuple):
    """A warp's execution of an instruction: the block's coordinates, the warp, the PTX line, and the number
    of times that the warp has executed it before.
    """

    block: tuple[int, int, int]
    warp: int
    line: int
    time: int


class Delay(NamedTuple):
    """A warp that pauses before an instruction or, with `work`, what the instruction starts comes late."""

    place: Place
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


class Steering:
    """The delays of one launch."""

    def __init__(self, delays: Iterable[Delay] = (), *, refuses: bool = False) -> None:
        """`refuses` lets a timed wait give up at once where the thread then does something else."""
        self.delays = frozenset(delays)
        self.refuses = refuses
        self._refused: set[Hashable] = set()
        self.times: Counter[Place] = Counter()
        """How often each warp has executed each instruction; `time` is 0."""
        self.paused: list[Paused] = []
        self.place: Place | None = None
        """The execution that was begun last: the work that is deferred now belongs to it."""
        self.last: dict[int, Place] = {}
        """The execution that each bundle, by its id, began last."""
        self.late: Counter[Delay] = Counter()
        """The delays that took place, and how often."""
        self._over: set[Delay] = set()
        self._kept: dict[PendingWork, Delay] = {}

    def lets(self, bundle: Bundle, instruction: Instruction) -> bool:
        """True if a warp may execute an instruction now."""
        place = self._place(bundle, instruction)
        delay = Delay(place)
        if delay in self.delays and delay not in self._over:
            self.late[delay] += 1
            return False
        self.times[place._replace(time=0)] += 1
        self.place = self.last[id(bundle)] = place
        return True

    def deferred(self, work: PendingWork) -> None:
        """Keep work that comes late."""
        if self.place is not None and (delay := Delay(self.place, work=True)) in self.delays:
            if delay not in self._over:
                self.late[delay] += 1
                self._kept[work] = delay

    def free(self, pending: Sequence[PendingWork]) -> Sequence[PendingWork]:
        """The work that may complete now."""
        if not self._kept:
            return pending
        return [work for work in pending if work not in self._kept]

    def release(self) -> bool:
        """End all delays, because nothing else can go on. False if nothing is delayed now."""
        if not self.paused and not self._kept:
            return False
        for paused in self.paused:
            self._over.add(Delay(self._place(paused.bundle, paused.instruction)))
            paused.bundle.unpark(paused.split)
        self._over.update(self._kept.values())
        self.paused.clear()
        self._kept.clear()
        return True

    def refuse(self, bundle: Bundle, line: int, what: Hashable) -> bool:
        """True the first time that a warp asks for something at a line."""
        key = (id(bundle), line, what)
        if key in self._refused:
            return False
        self._refused.add(key)
        return True

    def _place(self, bundle: Bundle, instruction: Instruction) -> Place:
        x, y, z = bundle.cohort.blocks[0, bundle.rank].tolist()
        place = Place((x, y, z), bundle.warp, instruction.line, 0)
        return place._replace(time=self.times[place])
