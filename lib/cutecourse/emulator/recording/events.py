"""The recorder's observer: what happens in a cohort, as events of a trace."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.observer import Observer
from cutecourse.trace import Recorder

__all__ = ["Recording"]


class Recording(Observer):
    """Gives a recorder the events of a launch, each with its time and place."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        """The events with which asynchronous operations were issued, by operation."""

    def happened(
        self, kind: str, bundle: Bundle, lane: int, line: int, *, one: bool = True, **data: Any
    ) -> int:
        """See `Observer.happened`; returns the event's index."""
        block, warp, in_warp = bundle.where(lane)
        return self.recorder.emit(
            kind,
            time=bundle.machine.issued,
            cluster=int(bundle.cohort.numbers[lane // WARP_SIZE]),
            rank=bundle.rank,
            block=block,
            warp=warp,
            lane=in_warp if one else None,
            line=line,
            **data,
        )

    def happened_in(
        self, kind: str, cohort: Cohort, cluster: int, rank: int, line: int | None = None, **data: Any
    ) -> int:
        """See `Observer.happened_in`; returns the event's index."""
        x, y, z = cohort.blocks[cluster, rank].tolist()
        if data.get("transfer") is not None:
            data["transfer"] = self.numbers[data["transfer"]]
        return self.recorder.emit(
            kind,
            time=cohort.machine.issued,
            cluster=int(cohort.numbers[cluster]),
            rank=rank,
            block=(x, y, z),
            warp=None,
            lane=None,
            line=line,
            **data,
        )
