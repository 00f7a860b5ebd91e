"""The recorder: what an emulated launch tells its events to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutecourse.trace.event import KINDS, Event, TraceError, plain
from cutecourse.trace.snapshot import Replayer
from cutecourse.trace.trace import Trace

__all__ = ["Recorder"]


class Recorder:
    """Collects the events of one launch, in order.

    memory  record every load, store and atomic operation of shared and global memory as well. They are many.

    >>> recorder = Recorder()
    >>> recorder.begin(kernel="k", grid=(1, 1, 1), block=(32, 1, 1))
    >>> where = dict(cluster=0, rank=0, block=(0, 0, 0), warp=0, lane=0, line=7)
    >>> recorder.emit(
    ...     "mbarrier.init", time=3, barrier={"rank": 0, "offset": 0, "name": "full"}, count=1, **where
    ... )
    0
    >>> print(recorder.trace())
    k on the emulator: grid (1, 1, 1), block (32, 1, 1), seed 0, 1 event
    #  time  CTA  warp  line  event
    0     3    0   0.0     7  mbarrier.init: full expects 1 arrival
    """

    def __init__(self, *, memory: bool = False) -> None:
        self.memory = memory
        self._events: list[Event] = []
        self._about: dict[str, Any] | None = None

    def __len__(self) -> int:
        return len(self._events)

    def begin(
        self,
        *,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        cluster: tuple[int, int, int] = (1, 1, 1),
        seed: int = 0,
        device: str = "emulator",
        variables: Mapping[str, tuple[int, int]] | None = None,
        replay: Replayer | None = None,
    ) -> None:
        """Say which launch the events are of, where its shared variables lie, and how to run it again.

        Errors: TraceError for a second launch.
        """
        if self._about is not None:
            raise TraceError(
                f"this recorder holds the launch of {self._about['kernel']}; take a new one for {kernel}."
            )
        self._about = {
            "kernel": kernel,
            "device": device,
            "grid": grid,
            "block": block,
            "cluster": cluster,
            "seed": seed,
            "variables": dict(variables or {}),
            "replay": replay,
        }

    def emit(
        self,
        kind: str,
        *,
        time: int,
        cluster: int,
        rank: int,
        block: tuple[int, int, int],
        warp: int | None = None,
        lane: int | None = None,
        line: int | None = None,
        **data: Any,
    ) -> int:
        """Append an event and return its index, by which later events name it.

        Errors: TraceError for a kind that `KINDS` does not have, or without the data that the kind holds.
        """
        needed = KINDS.get(kind)
        if needed is None:
            raise TraceError(f"there is no event {kind!r}; the kinds are {', '.join(KINDS)}.")
        if missing := [name for name in needed if name not in data]:
            raise TraceError(
                f"an event {kind} holds {', '.join(needed)}; it came without {', '.join(missing)}."
            )
        index = len(self._events)
        x, y, z = (int(part) for part in block)
        event = Event(
            index=index,
            kind=kind,
            time=int(time),
            cluster=int(cluster),
            rank=int(rank),
            block=(x, y, z),
            warp=None if warp is None else int(warp),
            lane=None if lane is None else int(lane),
            line=None if line is None else int(line),
            data=plain(data),
        )
        self._events.append(event)
        return index

    def ended(self, error: str = "") -> None:
        """The launch has ended, with an error if one is named."""

    def event(self, index: int) -> Event:
        """The event with that index."""
        return self._events[index]

    def trace(self) -> Trace:
        """The trace so far; later events do not change it."""
        about = self._about or {"kernel": "", "grid": (1, 1, 1), "block": (1, 1, 1)}
        return Trace(tuple(self._events), **about, memory=self.memory)
