"""Waiting for a phase of an mbarrier, and how the lanes go on when it completes.

The barrier's contents are in mbarrier_state, the instructions that wait in mbarrier.
"""

from __future__ import annotations

import numpy as np

from cutecourse.emulator.core.bundle import Bundle, Split
from cutecourse.emulator.core.kinds import WARP_SIZE, put
from cutecourse.emulator.instructions.sync.mbarrier_state import Group, MBarrier

__all__ = ["PhaseWait"]


class PhaseWait:
    """A split that waits for phases to complete: why it waits, and how it goes on."""

    __slots__ = ("bundle", "following", "groups", "left", "line", "name", "split", "target")

    def __init__(
        self,
        bundle: Bundle,
        split: Split,
        groups: list[Group],
        *,
        following: int,
        target: int,
        line: int,
        name: str,
    ) -> None:
        self.bundle = bundle
        self.split = split
        self.groups = groups
        self.following = following
        self.target = target
        self.line = line
        self.name = name
        self.left = 0
        for group in groups:
            group.wait = self
            self.left += not group.done
        bundle.machine.sleeping[self] = None
        if self.left < len(groups):
            bundle.machine.half_awake[self] = None

    def wake(self) -> None:
        """All that it waits for has happened: go on with true."""
        bundle = self.bundle
        self._end(answer=True)
        for tell in bundle.cohort.listeners.happened:
            for group in self.groups:
                lane = group.warp * WARP_SIZE + group.lanes[0]
                tell(
                    "mbarrier.resume",
                    bundle,
                    lane,
                    self.line,
                    one=len(group.lanes) == 1,
                    barrier=group.barrier.about(),
                    parity=group.parity,
                )
        bundle.unpark(self.split, self.following)
        self.groups = []

    def wake_some(self) -> None:
        """Let the lanes go on whose phase has completed; the others wait on as a split of their own."""
        bundle = self.bundle
        waiting = [group for group in self.groups if not group.done]
        rest = np.zeros((bundle.n, WARP_SIZE), dtype=np.bool_)
        for group in waiting:
            rest[group.warp, group.lanes] = True
        other = bundle.fork(self.split, rest, self.split.at)
        other.waiting = PhaseWait(
            bundle,
            other,
            waiting,
            following=self.following,
            target=self.target,
            line=self.line,
            name=self.name,
        )
        self.groups = [group for group in self.groups if group.done]
        self.wake()

    def dissolve(self) -> list[Group]:
        """Give up the groups to a wait that takes their lanes in."""
        machine = self.bundle.machine
        machine.sleeping.pop(self, None)
        machine.half_awake.pop(self, None)
        return self.groups

    def key(self) -> tuple[int, ...]:
        """Identify the wait by bundle, line, barriers and phases: a repeated wait has the same key."""
        what = [part for group in self.groups for part in (id(group.barrier), group.barrier.phase)]
        return (id(self.bundle), self.line, *what)

    def time_out(self) -> None:
        """Go on with false, as after the time that the hardware waits at most."""
        self._end(answer=False)
        for group in self.groups:
            group.barrier.waiters.remove(group)
        self.split.waiting = None
        self.split.at = self.following
        self.bundle.machine.wake(self.bundle)
        self.groups = []

    def _end(self, *, answer: bool) -> None:
        machine = self.bundle.machine
        machine.sleeping.pop(self, None)
        machine.half_awake.pop(self, None)
        put(self.bundle.rows["pred"][self.target], answer, self.split.mask)

    def describe(self, warp: int) -> str:
        """Say what the lanes of a warp are waiting for."""
        rows = []
        for group in self.groups:
            if group.warp == warp:
                barrier = group.barrier
                rows.append(
                    f"{self.name} waits for parity {group.parity} of {barrier.label()}, which is in phase"
                    f" {barrier.phase} and lacks {barrier.missing()}"
                )
        return "; ".join(rows[:4]) + ("; and more" if len(rows) > 4 else "")

    def barriers(self, warp: int) -> list[MBarrier]:
        """The barriers that the lanes of a warp wait for."""
        return list(dict.fromkeys(group.barrier for group in self.groups if group.warp == warp))
