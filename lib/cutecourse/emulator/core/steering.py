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
    from collections.abc import Iterable, Sequence

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

    def __init__(self, delays: Iterable[Delay] = ()) -> None:
        self.delays = frozenset(delays)
        self.paused: list[Paused] = []
        self.place: Place | None = None
        """The execution that was begun last: the work that is deferred now belongs to it."""
        self.last: dict[int, Place] = {}
        """The execution that each bundle, by its id, began last."""
        self.late: Counter[Delay] = Counter()
        """The delays that took place, and how often."""
        self._times: Counter[tuple[int, int]] = Counter()
        self._over: set[Delay] = set()
        self._kept: dict[PendingWork, Delay] = {}

    def lets(self, bundle: Bundle, instruction: Instruction) -> bool:
        """True if a warp may execute an instruction now."""
        x, y, z = bundle.cohort.blocks[0, bundle.rank].tolist()
        key = (id(bundle), instruction.line)
        place = Place((x, y, z), bundle.warp, instruction.line, self._times[key])
        delay = Delay(place)
        if delay in self.delays and delay not in self._over:
            self.late[delay] += 1
            return False
        self._times[key] += 1
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
            self._over.add(Delay(self._place_of(paused)))
            paused.bundle.unpark(paused.split)
        self._over.update(self._kept.values())
        self.paused.clear()
        self._kept.clear()
        return True

    def _place_of(self, paused: Paused) -> Place:
        x, y, z = paused.bundle.cohort.blocks[0, paused.bundle.rank].tolist()
        line = paused.instruction.line
        return Place((x, y, z), paused.bundle.warp, line, self._times[id(paused.bundle), line])
