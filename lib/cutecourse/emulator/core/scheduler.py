"""The scheduler: the launch's seed chooses which warps run, in which order and for how long.

Warps of one block never run in lockstep: one runs until it waits or until its turn is over. This brings
missing barriers to light. The warps of equal rank in independent blocks run together (a bundle), because they
share nothing but global memory.

A large grid whose clusters cannot learn from each other runs in parts, one after another, each in an order of
its own. A part then gives the same result in whatever process it runs (emulator.core.processes).
"""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from operator import length_hint
from time import perf_counter
from typing import Any

import numpy as np

from cutecourse.emulator.core.blocks import make_cohort
from cutecourse.emulator.core.bundle import WAIT, Bundle, Cohort, Split
from cutecourse.emulator.core.independence import clusters_are_independent
from cutecourse.emulator.core.kinds import ALL_LANES
from cutecourse.emulator.core.machine import Machine
from cutecourse.emulator.core.program import BasicBlock, Program
from cutecourse.emulator.core.spins import SpinWatch
from cutecourse.emulator.core.waits import Sleepers
from cutecourse.emulator.errors import EmulatorError

__all__ = ["Scheduler"]

_TURNS = (30, 100, 400, 2000)
"""Instructions that a bundle may run before another has its turn; the seed picks one of these."""
_STARVED = 2000
_RESCUE = 400
_RESIDENT_WARPS = 2048
_COMPLETES = 4
"""One time in this many, a piece of asynchronous work completes although a bundle could run."""
_WAKES_SOME = 64
"""One time in this many, clusters of a bundle go on without those that still have to wait."""
_REFUSES = 8
"""One time in this many, a request for a cluster that has not started is refused without need."""
_COHORT_CLUSTERS = 64
_COHORT_BYTES = 32 << 20
_COLLECT_AFTER = 20_000
"""New objects after which Python looks for reference cycles while a launch runs."""
_PART_WARPS = 256
"""The smallest number of warps in a part of a grid: enough to keep the bundles wide."""


class Scheduler:
    """Runs a machine's grid to its end."""

    def __init__(self, machine: Machine, budget: int, explain: Any) -> None:
        """`explain` makes the error of a launch that cannot go on (checks.stuck)."""
        self.machine = machine
        self.explain = explain
        self.budget = budget
        self.block_runs: Counter[int] = Counter()
        self.ready: list[Bundle] = []
        self._is_ready: set[int] = set()
        self.cohorts: list[Cohort] = []
        """The blocks that have started and not ended."""
        self._ended_cohorts: list[Cohort] = []
        """Ended cohorts whose memory is not free yet."""
        self._resident_warps = 0
        self._timed_out: set[tuple[int, ...]] = set()
        self._timed_out_at = -1
        machine.wake = self._wake
        machine.take_cluster = self._take_cluster
        size = prod(machine.cluster)
        n_clusters = prod(machine.grid) // size
        self._next_cluster = self._end_cluster = 0
        generator = np.random.default_rng(machine.random.getrandbits(64))
        self._order = generator.permutation(n_clusters)
        per_cluster = size * (machine.program.shared_bytes * 2 + 4096)
        per_cluster += size * machine.threads_per_block * machine.program.local_stride * 2
        self._cohort_clusters = max(1, min(_COHORT_CLUSTERS, _COHORT_BYTES // max(per_cluster, 1)))
        if machine.steering is not None:
            self._cohort_clusters = 1
        self._warps_per_cluster = size * machine.warps_per_block
        self._most_warps = _RESIDENT_WARPS
        """The warps that may run at once."""
        if machine.program.own(_takes_clusters):
            # Some clusters must start late, so that others can take them.
            most = machine.random.randint(1, n_clusters) * self._warps_per_cluster
            self._most_warps = min(most, _RESIDENT_WARPS)
        if machine.workspace:
            self._most_warps = n_clusters * self._warps_per_cluster  # a cooperative grid runs as a whole
        self.parts = self._parts(n_clusters)
        """The grid's parts, as ranges of its clusters in the order in which they start."""
        self.alarm: tuple[float, Callable[[], None]] | None = None
        """A time, and a function to call once when that time has come."""
        self._spins = SpinWatch(machine, self.cohorts, self.ready, self.block_runs)

    # --- the grid -----------------------------------------------------------------------------------------

    def _parts(self, n_clusters: int) -> list[range]:
        count = min(n_clusters, n_clusters * self._warps_per_cluster // _PART_WARPS)
        if count < 2 or self.machine.workspace or not clusters_are_independent(self.machine.program):
            return [range(n_clusters)]
        return [range(n_clusters * i // count, n_clusters * (i + 1) // count) for i in range(count)]

    def forget(self) -> None:
        """Drop the current part and all its notes, in a process that goes on with other parts."""
        self.ready.clear()
        self._is_ready.clear()
        self.cohorts.clear()
        self._resident_warps = 0
        self.block_runs.clear()
        self.alarm = None
        self._spins.stop()
        self.machine.forget_work()
        self.machine.notes.clear()

    def run(self, part: range) -> None:
        """Run until every block of a part has ended."""
        machine = self.machine
        if len(self.parts) > 1:
            machine.begin_part(part.start)
        self._next_cluster, self._end_cluster = part.start, part.stop
        pending, below, steering = machine.pending, _below(machine.random), machine.steering
        half_awake = machine.own(Sleepers).half_awake
        # Inactive lanes compute garbage, about which NumPy need not warn.
        with np.errstate(all="ignore"), _seldom_collected():
            self._admit()
            while True:
                if self.alarm is not None and perf_counter() > self.alarm[0]:
                    _, ring = self.alarm
                    self.alarm = None
                    ring()
                free = pending if steering is None else steering.free(pending)
                if free and (not self.ready or not below(_COMPLETES)):
                    free[below(len(free))].finish()
                    continue
                if half_awake and (not self.ready or not below(_WAKES_SOME)):
                    # Clusters of a bundle that wait together usually go on together.
                    for wait in list(half_awake):
                        wait.wake_some()
                    continue
                if not self.ready:
                    if steering is not None and steering.release():
                        continue
                    if not self.cohorts:
                        return
                    self._let_time_pass(self.explain.stuck)
                    continue
                position = below(len(self.ready))
                bundle = self.ready[position]
                if not self._run_bundle(bundle, _TURNS[below(len(_TURNS))]):
                    self.ready[position] = self.ready[-1]
                    self.ready.pop()
                    self._is_ready.discard(id(bundle))
                    if any(s.waiting is None for s in bundle.splits):
                        self._wake(bundle)
                    elif not bundle.splits:
                        self._ended(bundle)
                if machine.issued > self._spins.next and self._spins.sees(bundle):
                    if steering is not None and steering.release():
                        pass
                    elif self._next_cluster == self._end_cluster:
                        self._let_time_pass(partial(self.explain.spinning, self._spins.executed))
                    self._spins.stop()

    def _let_time_pass(self, explain: Callable[..., EmulatorError]) -> None:
        """When nothing else can go on, let waits with a time limit give up; if all just did, raise."""
        machine = self.machine
        if machine.changes != self._timed_out_at:
            self._timed_out_at = machine.changes
            self._timed_out.clear()
        sleepers = machine.own(Sleepers).all
        keys = {wait.key() for wait in sleepers}
        if keys <= self._timed_out:
            raise explain(machine, self.cohorts, self.block_runs)
        self._timed_out |= keys
        for wait in list(sleepers):
            wait.time_out()

    def _wake(self, bundle: Bundle) -> None:
        if id(bundle) not in self._is_ready:
            self._is_ready.add(id(bundle))
            self.ready.append(bundle)

    def _admit(self) -> None:
        """Start more blocks while there is room for them."""
        while self._next_cluster < self._end_cluster:
            left = self._end_cluster - self._next_cluster
            room = (self._most_warps - self._resident_warps) // self._warps_per_cluster
            if room < 1 and self.cohorts:
                return
            count = max(1, min(left, room, self._cohort_clusters))
            if room > 4 and left > 1:
                # Several cohorts of random sizes advance separately, so blocks are not all in step.
                count = self.machine.random.randint(1 + count // 2, count)
            numbers = self._order[self._next_cluster : self._next_cluster + count]
            self._next_cluster += count
            cohort = make_cohort(self.machine, np.asarray(numbers, dtype=np.int64))
            self.cohorts.append(cohort)
            self._resident_warps += count * self._warps_per_cluster
            for bundle in cohort.bundles:
                self._wake(bundle)

    def _take_cluster(self) -> int | None:
        """Take the next cluster from the grid, so that it does not start; None without one, or by chance.

        Hardware may refuse as well although clusters are left.
        """
        if self._next_cluster == self._end_cluster or not self.machine.random.randrange(_REFUSES):
            return None
        self._next_cluster += 1
        return int(self._order[self._next_cluster - 1])

    def _ended(self, bundle: Bundle) -> None:
        cohort = bundle.cohort
        # A bundle that has ended gets one more turn, and its cohort may be gone by then.
        if cohort in self.cohorts and all(not b.splits for b in cohort.bundles):
            for tell in cohort.listeners.cohort_ended:
                tell(cohort)
            self.cohorts.remove(cohort)
            self._resident_warps -= cohort.n * self._warps_per_cluster
            self._ended_cohorts.append(cohort)
            if not self.machine.pending:
                self._release()
            self._admit()

    def _release(self) -> None:
        """Free the memory of blocks that have ended, unless pending work may still need it."""
        for cohort in self._ended_cohorts:
            cohort.release()
        self._ended_cohorts.clear()

    def close(self) -> None:
        """Free the memory of all blocks, also after an error, by breaking their reference cycles."""
        self._ended_cohorts += self.cohorts
        self.cohorts.clear()
        self.ready.clear()
        self.machine.forget_work()
        self.machine.wake = lambda bundle: None
        self.machine.take_cluster = lambda: None
        self._release()

    # --- one bundle -----------------------------------------------------------------------------------------

    def _pick(self, bundle: Bundle, turn: int) -> tuple[Split, tuple[int, ...] | None, int] | None:
        """Pick a split; return it, the place of the next runnable split, and its instruction limit."""
        runnable = [s for s in bundle.splits if s.waiting is None]
        if len(runnable) < 2:
            return (runnable[0], None, turn) if runnable else None
        places = bundle.program.places
        runnable.sort(key=lambda s: _place(s, places))
        first, *others = runnable
        kept = [first]
        for other in others:
            if other.at == first.at and other.stack == first.stack:
                bundle.join(first, other)
            else:
                kept.append(other)
        oldest = min(kept, key=lambda s: s.turn)
        if oldest is not first and self.machine.issued - oldest.turn > _STARVED:
            # Spinning lanes must not starve the lane that they wait for.
            return oldest, None, min(turn, _RESCUE)
        return first, _place(kept[1], places) if len(kept) > 1 else None, turn

    def _run_bundle(self, bundle: Bundle, turn: int) -> bool:
        """Run a bundle for about `turn` instructions; False if it has nothing left to run."""
        machine = self.machine
        blocks, places = bundle.program.blocks, bundle.program.places
        runs = self.block_runs
        while turn > 0:
            picked = self._pick(bundle, turn)
            if picked is None:
                return False
            split, front, limit = picked
            started = machine.issued
            count = len(bundle.splits)
            at = split.at
            while True:
                block = blocks[at]
                if block.gate is not None:
                    if not bundle.pass_gate(split, block.gate):
                        break
                    for tell in bundle.cohort.listeners.gate_passed:
                        tell(bundle, None if block.gate.constant == ALL_LANES else split.mask)
                mask = split.mask
                steps = iter(block.steps)
                try:
                    for step in steps:
                        step(bundle, mask)
                    machine.issued += block.count
                    runs[at] += split.warps
                    control = block.control
                    if control is None:
                        at += 1
                    else:
                        at = control(bundle, split, at + 1)
                        if at == WAIT:
                            break
                except EmulatorError:
                    raise
                except Exception as failure:
                    failure.add_note(self._now(block, length_hint(steps)))
                    raise
                split.at = at
                if machine.issued - started >= limit or len(bundle.splits) != count:
                    break
                if front is not None and _place(split, places) >= front:
                    break
            split.turn = machine.issued
            turn -= machine.issued - started + 1
            if machine.issued > self.budget:
                raise self.explain.over_budget(machine, self.block_runs, self.budget)
        return True

    @staticmethod
    def _now(block: BasicBlock, left: int) -> str:
        position = max(0, len(block.steps) - left - 1)
        if position < len(block.ends):
            found = block.instructions[block.ends[position] - 1]
            return f"while the emulator ran PTX line {found.line}: {found}"
        return f"while the emulator ran block {block.index} of {block.function}"


def _takes_clusters(program: Program) -> bool:
    """True if a program may take clusters that have not started."""
    return any(facts.takes_clusters for _, facts in program.stated)


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Let Python look for reference cycles less often, which otherwise takes a tenth of a launch's time.

    A launch makes many objects and breaks its own cycles.
    """
    before = gc.get_threshold()
    if 0 < before[0] < _COLLECT_AFTER:
        gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _below(generator: random.Random) -> Callable[[int], int]:
    """A faster `generator.randrange` for positive numbers, which the scheduler calls at every turn."""
    getrandbits = generator.getrandbits

    def below(stop: int) -> int:
        bits = stop.bit_length()
        found = getrandbits(bits)
        while found >= stop:
            found = getrandbits(bits)
        return found

    return below


def _place(split: Split, places: list[tuple[int, ...]]) -> tuple[int, ...]:
    """A split's place in the order of blocks; in a call, just before the block that the call returns to."""
    own = places[split.at]
    return (*(places[frame][0] - 1 for frame in split.stack), *own) if split.stack else own
