"""The reasons why lanes wait: three kinds, which families of instructions fill in.

A split that cannot run holds one `Wait`. The scheduler and the report of a launch that is stuck know these
kinds and no others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["Held", "Meeting", "Sleepers", "TimedWait", "Wait"]


class _Reason(ABC):
    """Why a split cannot run."""

    __slots__ = ()

    @property
    @abstractmethod
    def line(self) -> int:
        """The line of the instruction that waits."""

    @abstractmethod
    def describe(self, warp: int) -> str:
        """Say what the lanes of a warp wait for; `warp` is the position of its cluster in the cohort."""


class Meeting(_Reason):
    """A wait for other lanes of the warp, or warps of the warpgroup, that must execute the same instruction.

    If they wait elsewhere, the kernel breaks a rule of the instruction.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def needs(self) -> str:
        """The rule that is broken if the others never come."""


class Held(_Reason):
    """A wait for others to arrive at a barrier, or to give back registers or tensor memory."""

    __slots__ = ()


class TimedWait(_Reason):
    """A wait for phases of mbarriers. It has a time limit: when nothing else can go on, it may give up."""

    @abstractmethod
    def key(self) -> tuple[int, ...]:
        """Identify the wait by bundle, line, barriers and phases: a repeated wait has the same key."""

    @abstractmethod
    def wake_some(self) -> None:
        """Let lanes continue whose phase has completed; the others keep waiting in a split of their own."""

    @abstractmethod
    def time_out(self) -> None:
        """Continue with false, as the hardware does when its time limit is over."""


Wait = Meeting | Held | TimedWait


class Sleepers:
    """The waits for phases of a launch."""

    def __init__(self, machine: object) -> None:
        self.all: dict[TimedWait, None] = {}
        """All of them, the oldest first."""
        self.half_awake: dict[TimedWait, None] = {}
        """Those that could end for some of their lanes."""

    def drop(self, wait: TimedWait) -> None:
        """Forget a wait that is over."""
        self.all.pop(wait, None)
        self.half_awake.pop(wait, None)
