"""The events of one launch and which launch it was: what a trace holds, and what filters and exports read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cutecourse.trace.event import Event
from cutecourse.trace.snapshot import Replayer
from cutecourse.trace.words import number

__all__ = ["RecordedLaunch"]


@dataclass(frozen=True, repr=False)
class RecordedLaunch:
    """The events of one launch, oldest first, and which launch it was."""

    events: tuple[Event, ...]
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    seed: int = 0
    device: str = "emulator"
    variables: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The shared variables: name to (first byte, byte behind the last)."""
    memory: bool = False
    """True if loads and stores were recorded as well."""
    whole: tuple[Event, ...] = field(default=(), compare=False)
    replay: Replayer | None = field(default=None, compare=False)
    """The object that runs the launch again for snapshots; None for a trace from a file."""

    @property
    def all_events(self) -> tuple[Event, ...]:
        """The events of the launch, also those that a filter has left out."""
        return self.whole or self.events

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    @property
    def title(self) -> str:
        """The launch in one line, with the number of events."""
        cluster = "" if self.cluster == (1, 1, 1) else f", cluster {self.cluster}"
        return (
            f"{self.kernel or 'a kernel'} on the {self.device}: grid {self.grid}, block {self.block}"
            f"{cluster}, seed {self.seed}, {number(len(self), 'event')}"
        )
