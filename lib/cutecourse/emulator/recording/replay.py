"""Runs a launch again and copies its memories on the way, for a trace's snapshots.

A launch depends on its arguments and its seed only. So a second launch, on copies of the original arguments,
shows what the memories held at an event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cutecourse.emulator.core.bundle import Cohort
from cutecourse.emulator.errors import EmulatorError, LaunchError
from cutecourse.emulator.memory.mbarriers import MBarriers
from cutecourse.emulator.memory.tensor_memory import TensorMemories
from cutecourse.emulator.recording.argument_copies import Copies
from cutecourse.trace import CtaMemory, Event, Mbarrier, Recorder, Snapshot, TraceError

if TYPE_CHECKING:
    from cutecourse.emulator.core.machine import Machine
    from cutecourse.emulator.core.scheduler import Scheduler

__all__ = ["Replay", "Witness", "ctas_of", "record"]


class _Enough(Exception):
    """All snapshots are taken, so the launch need not go on."""


class Witness(Recorder):
    """A recorder that takes snapshots at chosen events, given by their indices, and at the launch's end."""

    def __init__(self, indices: Collection[int], *, end: bool, memory: bool) -> None:
        super().__init__(memory=memory)
        self._wanted = set(indices)
        self._end = end
        self.scheduler: Scheduler | None = None
        """The scheduler whose memories are copied."""
        self.taken: dict[int | None, Snapshot] = {}

    def emit(self, kind: str, **about: Any) -> int:
        """Append an event, and take a snapshot if one is wanted there."""
        index = super().emit(kind, **about)
        if index in self._wanted:
            self._take(self.event(index))
            if not self._end and len(self.taken) == len(self._wanted):
                raise _Enough
        return index

    def ended(self, error: str = "") -> None:
        """Take the snapshot of the launch's end, if it is wanted."""
        if self._end:
            self._take(None, error)

    def _take(self, event: Event | None, error: str = "") -> None:
        assert self.scheduler is not None
        machine = self.scheduler.machine
        self.taken[None if event is None else event.index] = Snapshot(
            event,
            [cta for cohort in self.scheduler.cohorts for cta in ctas_of(machine, cohort)],
            machine.program.placement.shared_variables,
            kernel=machine.program.kernel,
            error=error,
        )


def record(recorder: Recorder, scheduler: Scheduler, again: Callable[..., Any], args: Sequence[Any]) -> None:
    """Tell a recorder which launch it records; `again` launches once more, with `args` and a recorder."""
    machine = scheduler.machine
    recorder.begin(
        kernel=machine.program.kernel,
        grid=machine.grid,
        block=machine.block,
        cluster=machine.cluster,
        seed=machine.seed,
        variables=machine.program.placement.shared_variables,
        replay=None if isinstance(recorder, Witness) else Replay(again, args),
    )
    if isinstance(recorder, Witness):
        recorder.scheduler = scheduler


class Replay:
    """A launch that can run again: its function, and copies of its present arguments."""

    def __init__(self, launch: Callable[..., Any], args: Sequence[Any]) -> None:
        self._launch = launch
        copies = Copies()
        kept = [copies.of(argument) for argument in args]
        self._args = kept if copies.possible else None

    def snapshots(self, events: Sequence[Event], *, end: bool, memory: bool) -> dict[int | None, Snapshot]:
        """The memories right after some events, by index; under None, those at the end.

        Errors: TraceError if the launch cannot run again or does not repeat the events.
        """
        if self._args is None:
            raise TraceError("the launch's arguments could not be copied, so it cannot be run again.")
        witness = Witness([event.index for event in events], end=end, memory=memory)
        copies = Copies()
        args = [copies.of(argument) for argument in self._args]
        try:
            self._launch(args=args, recorder=witness)
        except _Enough:
            pass
        except LaunchError:
            raise
        except EmulatorError:
            pass  # the first launch ended with this error too; `ended` has noted it
        for event in events:
            again = witness.taken.get(event.index)
            if again is None or (again.event is not None and again.event.place != event.place):
                raise TraceError(
                    f"the launch did not repeat event {event.index} when it was run again: it must"
                    " depend on its arguments and its seed only."
                )
        return witness.taken


def ctas_of(machine: Machine, cohort: Cohort) -> list[CtaMemory]:
    """Copy the memories of a cohort's CTAs that have not ended."""
    found = []
    barriers = cohort.owned(MBarriers)
    memories = cohort.owned(TensorMemories)
    size = machine.program.shared_bytes
    for rank in range(cohort.size):
        alive = cohort.alive(rank)
        for cluster in np.flatnonzero(alive).tolist():
            start = cohort.shared_start(cluster, rank)
            x, y, z = cohort.blocks[cluster, rank].tolist()
            memory = None if memories is None else memories.used(cluster, rank)
            found.append(
                CtaMemory(
                    block=(x, y, z),
                    cluster=int(cohort.numbers[cluster]),
                    rank=rank,
                    shared=cohort.shared[start : start + size].copy(),
                    shared_written=cohort.shared_written[start : start + size] != 0,
                    cells=None if memory is None else memory.cells.copy(),
                    cells_written=None if memory is None else memory.written.copy(),
                    columns=()
                    if memory is None
                    else tuple((a.start, a.columns) for _, a in sorted(memory.allocations.items())),
                    barriers=() if barriers is None else _mbarriers(barriers, cluster, rank, (x, y, z)),
                )
            )
    return found


def _mbarriers(
    barriers: MBarriers, cluster: int, rank: int, block: tuple[int, int, int]
) -> tuple[Mbarrier, ...]:
    return tuple(
        Mbarrier(
            block=block,
            rank=rank,
            offset=offset,
            name=live.name,
            phase=live.phase,
            pending=live.pending,
            tx=live.tx,
            count=live.expected,
        )
        for (at, of_rank, offset), live in sorted(barriers.live.items())
        if (at, of_rank) == (cluster, rank)
    )
