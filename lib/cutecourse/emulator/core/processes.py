"""A long launch of independent clusters on several cores: copies of the process run some parts of the grid.

A part gives the same result wherever it runs (emulator.core.scheduler), so more processes change only the
time. Each copy starts from the current state of the launch, runs its parts, and sends back their writes to
global memory, their notes and their counts. If these do not fit or do not come, this process runs the parts
itself. A copy that meets an error sends nothing, so the error always comes from this process.
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
"""A shorter launch is not worth a copy of the process: starting one takes a fifth of this time."""
_LATE = 10
"""Give up a copy that takes this many times as long as this process took for its own parts."""
_LATE_S = 10.0


def run_parts(scheduler: Scheduler, processes: int | None) -> int:
    """Run all parts of a launch, on `processes` processes at most; None: one for each core.

    Returns: the number of processes that ran parts.
    Errors:  those of the kernel.
    """
    team = _Team(scheduler)
    if processes is None:
        processes = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
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


@dataclass(eq=False, slots=True)
class _Written:
    """The writes of parts to one allocation: one bit for each word of `unit` bytes, and the written bytes."""

    position: int
    unit: int
    which: bytes
    data: bytes

    @classmethod
    def of(cls, position: int, allocation: Allocation) -> _Written:
        """The writes to an allocation that records them."""
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
        """Write the same bytes to this process's allocation."""
        words = allocation.data.view(f"u{self.unit}")
        which = np.unpackbits(np.frombuffer(self.which, np.uint8), count=len(words)).view(np.bool_)
        words[which] = np.frombuffer(self.data, words.dtype)
        allocation.was_written = True


@dataclass(eq=False, slots=True)
class _Outcome:
    """The outcome of a copy of the process: counts, notes, and reads and writes by allocation."""

    runs: Counter[int]
    issued: int
    notes: dict[tuple[str, int, int | None], Note]
    read: list[int]
    written: list[_Written]


@dataclass(eq=False, slots=True)
class _ProcessCopy:
    """A copy of the process, and the parts that it runs."""

    process: BaseProcess
    answer: Connection
    parts: range


@dataclass(eq=False)
class _Team:
    """The copies of the process that take part in a launch."""

    scheduler: Scheduler
    copies: list[_ProcessCopy] = field(default_factory=list)
    running: int = 0
    """The part that this process runs."""
    given: range = range(0)
    """The parts that copies run."""
    started: float = 0.0

    def is_possible(self) -> bool:
        """True if copies may run parts: nobody observes the launch, and no two allocations share bytes."""
        if sys.platform != "linux" or multiprocessing.current_process().daemon:
            return False
        machine = self.scheduler.machine
        if machine.is_watched:
            return False
        ends = sorted(
            (start, start + len(allocation.data))
            for allocation in machine.memory.allocations
            for start in (allocation.data.__array_interface__["data"][0],)
        )
        return all(before[1] <= after[0] for before, after in pairwise(ends))

    def start(self, processes: int) -> None:
        """Share out the parts that have not begun, in order; this process goes on with the first share.

        If the system has no room for a copy, this process runs all of them.
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

    def _copy(self, parts: range) -> _ProcessCopy:
        """Start a copy. Errors: OSError."""
        context = multiprocessing.get_context("fork")
        here, there = context.Pipe(duplex=False)
        with there:
            process = context.Process(target=_work, args=(self.scheduler, parts, there), daemon=True)
            with warnings.catch_warnings():
                # Python warns that a thread may hold a lock at this moment. `collect` gives up a copy that
                # waits for such a lock, like one that fails.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
        return _ProcessCopy(process, here, parts)

    def collect(self) -> int:
        """Take over the outcomes of the copies in the order of the parts, or run the parts here.

        Returns: the number of copies whose outcome was taken.
        Errors:  those of the kernel, for parts that run here.
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
        """Return whether the copy would have had the same outcome after the parts before its own."""
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
    """Receive a copy's outcome; None if the copy ends without one or takes too long."""
    try:
        found: _Outcome | None = answer.recv() if answer.poll(seconds) else None
    except (EOFError, OSError):
        return None
    return found


def _work(scheduler: Scheduler, parts: Sequence[int], answer: Connection) -> None:
    """In a copy of the process: run parts and send their outcome, or nothing if they fail."""
    machine = scheduler.machine
    scheduler.forget()
    for allocation in machine.memory.allocations:
        allocation.keep_account()
    issued = machine.issued
    try:
        for number in parts:
            scheduler.run(scheduler.parts[number])
    except BaseException:  # noqa: BLE001 - the first process runs these parts again and raises it
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
