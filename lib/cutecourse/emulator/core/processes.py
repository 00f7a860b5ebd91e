"""A long launch of independent clusters on several cores: copies of the process run some parts of the grid.

What a part does is the same wherever it runs (emulator.core.scheduler), so that the processes change
nothing but the time. Each copy begins with the launch as it finds it, runs its parts, and sends what they
have written to global memory, with the notes and counts. Where anything speaks against what it sends, this
process runs the parts itself: a copy that has met an error tells nothing of it, and the error comes from
here.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cutecourse.emulator.core.hazards import Note
    from cutecourse.emulator.core.memory import Allocation
    from cutecourse.emulator.core.scheduler import Scheduler

__all__ = ["run_parts"]

_PATIENCE_S = 0.05
"""A launch that takes no longer is not worth a copy of the process, which costs a fifth of that."""
_LATE = 10
"""A copy that takes so many times as long as this process has taken for its parts will not come any more."""
_LATE_S = 10.0


def run_parts(scheduler: Scheduler, processes: int | None) -> int:
    """Run all parts of a launch, on `processes` processes at most; None: one for each core.

    How many processes have done so.

    Errors: those of the kernel.
    """
    team = _Team(scheduler)
    if processes is None:
        processes = _cores()
    if processes > 1 and len(scheduler.parts) > 1 and team.is_possible():
        scheduler.alarm = (perf_counter() + _PATIENCE_S, partial(team.start, processes))
    try:
        for number, part in enumerate(scheduler.parts):
            if number not in team.given:
                team.running = number
                scheduler.run(part)
        scheduler.alarm = None
        return 1 + team.collect()
    finally:
        team.stop()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


@dataclass(eq=False, slots=True)
class _Written:
    """What parts have written to one allocation: which words of `unit` bytes, as bits, and their bytes."""

    position: int
    unit: int
    which: bytes
    data: bytes

    @classmethod
    def of(cls, position: int, allocation: Allocation) -> _Written:
        """What an allocation that keeps account has got."""
        assert allocation.written is not None
        for unit in (8, 4, 2, 1):
            if len(allocation.data) % unit:
                continue
            marks = allocation.written.view(f"u{unit}")
            which = marks != 0
            if unit == 1 or bool((marks[which] == np.iinfo(marks.dtype).max).all()):
                break
        data = allocation.data.view(f"u{unit}")[which]
        return cls(position, unit, np.packbits(which).tobytes(), data.tobytes())

    def put(self, allocation: Allocation) -> None:
        """Write the same here."""
        words = allocation.data.view(f"u{self.unit}")
        which = np.unpackbits(np.frombuffer(self.which, np.uint8), count=len(words)).view(np.bool_)
        words[which] = np.frombuffer(self.data, words.dtype)
        allocation.was_written = True


@dataclass(eq=False, slots=True)
class _Outcome:
    """What a copy of the process has done: counts, notes, and what was read and written, by allocation."""

    runs: Counter[int]
    issued: int
    notes: dict[tuple[str, int, int | None], Note]
    read: list[int]
    written: list[_Written]


@dataclass(eq=False, slots=True)
class _Copy:
    """A copy of the process, and the parts that it runs."""

    process: BaseProcess
    answer: Connection
    parts: range


@dataclass(eq=False)
class _Team:
    """The copies of the process that take part in a launch."""

    scheduler: Scheduler
    copies: list[_Copy] = field(default_factory=list)
    running: int = 0
    """The part that this process runs."""
    given: range = range(0)
    """The parts that copies run."""
    started: float = 0.0

    def is_possible(self) -> bool:
        """Whether copies may run parts: nobody listens, and no two allocations share bytes."""
        if sys.platform != "linux" or multiprocessing.current_process().daemon:
            return False
        machine = self.scheduler.machine
        if machine.is_watched:
            return False
        ends = sorted(
            (start, start + len(allocation.data))
            for allocation in self.scheduler.machine.memory.allocations
            for start in (allocation.data.__array_interface__["data"][0],)
        )
        return all(before[1] <= after[0] for before, after in pairwise(ends))

    def start(self, processes: int) -> None:
        """Share out what has not begun, in order; this process goes on with the first share.

        Where the system has no room for a copy it goes on with all of it.
        """
        left = range(self.running, len(self.scheduler.parts))
        count = min(processes, len(left))
        edges = [left.start + len(left) * i // count for i in range(count + 1)]
        self.started = perf_counter()
        try:
            for first, stop in pairwise(edges[1:]):
                self.copies.append(self._copy(range(first, stop)))
        except OSError:
            self.stop()
        else:
            self.given = range(edges[1], left.stop)

    def _copy(self, parts: range) -> _Copy:
        """Start a copy. Errors: OSError."""
        context = multiprocessing.get_context("fork")
        here, there = context.Pipe(duplex=False)
        with there:
            process = context.Process(target=_work, args=(self.scheduler, parts, there), daemon=True)
            with warnings.catch_warnings():
                # Python warns of threads that may hold a lock at this moment. A copy that waits for one is
                # given up by `collect`, as one that fails.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
        return _Copy(process, here, parts)

    def collect(self) -> int:
        """Take over what the copies have done, in the order of the parts, or do it here.

        How many copies have done it.

        Errors: those of the kernel, where it is done here.
        """
        scheduler = self.scheduler
        patience = _LATE * (perf_counter() - self.started) + _LATE_S
        taken = 0
        for copy in self.copies:
            outcome = _receive(copy.answer, patience)
            if outcome is not None and self._fits(outcome):
                self._take(outcome)
                taken += 1
                continue
            for number in copy.parts:
                scheduler.run(scheduler.parts[number])
        return taken

    def stop(self) -> None:
        """End the copies, whether or not they are done."""
        for copy in self.copies:
            copy.answer.close()
            copy.process.kill()
            copy.process.join()
            copy.process.close()
        self.copies.clear()

    def _fits(self, outcome: _Outcome) -> bool:
        """Whether nothing would have been otherwise behind the parts before."""
        machine = self.scheduler.machine
        if machine.issued + outcome.issued > self.scheduler.budget:
            return False
        return not any(machine.memory.allocations[position].was_written for position in outcome.read)

    def _take(self, outcome: _Outcome) -> None:
        scheduler = self.scheduler
        machine = scheduler.machine
        scheduler.block_runs.update(outcome.runs)
        machine.issued += outcome.issued
        for key, note in outcome.notes.items():
            known = machine.notes.setdefault(key, note)
            if known is not note:
                known.count += note.count
        for written in outcome.written:
            written.put(machine.memory.allocations[written.position])


def _receive(answer: Connection, seconds: float) -> _Outcome | None:
    """What a copy sends; None where it ends without it, or takes too long."""
    try:
        found: _Outcome | None = answer.recv() if answer.poll(seconds) else None
    except (EOFError, OSError):
        return None
    return found


def _work(scheduler: Scheduler, parts: Sequence[int], answer: Connection) -> None:
    """In a copy of the process: run parts and send what they have done, or nothing where they go wrong."""
    machine = scheduler.machine
    scheduler.forget()
    machine.forget()
    for allocation in machine.memory.allocations:
        allocation.keep_account()
    issued = machine.issued
    try:
        for number in parts:
            scheduler.run(scheduler.parts[number])
    except BaseException:  # noqa: BLE001 - it comes again where the parts are run once more
        return
    every = list(enumerate(machine.memory.allocations))
    answer.send(
        _Outcome(
            scheduler.block_runs,
            machine.issued - issued,
            machine.notes,
            [position for position, allocation in every if allocation.was_read],
            [_Written.of(position, allocation) for position, allocation in every if allocation.was_written],
        )
    )
