"""Finds that a launch goes on forever: every warp that can run comes back to a state that it had before.

If no warp changes memory and no other event happens, then what a warp does next depends on its own registers
and place alone. A warp whose registers and place repeat is then in a loop that nothing ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.rows import DYNAMIC
from cutecourse.emulator.core.waits import Sleepers
from cutecourse.ptx.syntax import Instruction, Name

if TYPE_CHECKING:
    from cutecourse.emulator.core.bundle import Bundle, Cohort
    from cutecourse.emulator.core.machine import Machine
    from cutecourse.emulator.core.program import Program

__all__ = ["SpinWatch"]

_FIRST = 20_000
"""Instructions issued before the first look, about 0.2 seconds."""
_LATER = 1.25
"""The factor from one look to the next, so that looking stays cheap."""
_TURNS = 200
"""The turns that each warp may take to repeat a state."""
_MOST_BYTES = 64 << 20
"""A launch with more memory is not watched while it writes."""


class SpinWatch:
    """Looks from time to time whether the warps of a launch only repeat themselves.

    The scheduler calls `sees` after a bundle's turn, once `next` instructions have been issued.
    """

    def __init__(
        self, machine: Machine, cohorts: list[Cohort], ready: list[Bundle], block_runs: Counter[int]
    ) -> None:
        """`cohorts`, `ready` and `block_runs` are the scheduler's own."""
        self._machine = machine
        self._cohorts = cohorts
        self._ready = ready
        self._block_runs = block_runs
        self._facts = machine.program.own(_facts_of_each)
        self.next = _FIRST
        self._seen: dict[int, dict[bytes, int]] = {}
        """For each bundle the states that it had, and how many instructions had been issued then."""
        self._repeats: set[int] = set()
        self._is_looking = False
        self._memory: bytes | None = None
        """A digest of all memory, if the warps write to it."""

    @property
    def executed(self) -> list[int]:
        """The basic blocks that have run since the look began."""
        return sorted(index for index, runs in self._block_runs.items() if runs != self._runs[index])

    def sees(self, bundle: Bundle) -> bool:
        """Return whether all warps that can run are in loops that nothing ends; `bundle` just had a turn.

        If no warp can run, none is in a loop: the scheduler sees for itself that all of them wait.
        """
        if not self._is_looking:
            self._begin(None)
            return False
        if not self._ready or self._has_changed() or self._turns > _TURNS * len(self._ready):
            self.stop()
            return False
        self._turns += 1
        self._look_at(bundle)
        if any(id(one) not in self._repeats for one in self._ready):
            return False
        verdict = self._verdict()
        if verdict is None:
            self._begin(self._digest_of_memory())
        elif not verdict:
            self.stop()
        return bool(verdict)

    def stop(self) -> None:
        """End the look; the next one comes later."""
        self._is_looking = False
        self.next = max(self.next, int(self._machine.issued * _LATER))

    def _begin(self, memory: bytes | None) -> None:
        self._is_looking = True
        self._memory = memory
        self._turns = 0
        self._seen.clear()
        self._repeats.clear()
        self._runs: Counter[int] = self._block_runs.copy()
        self._then = self._events()

    def _events(self) -> tuple[int, int]:
        return self._machine.changes, len(self._machine.printed)

    def _has_changed(self) -> bool:
        """Return whether anything but the registers has changed since the look began."""
        machine = self._machine
        half_awake = machine.own(Sleepers).half_awake
        if machine.pending or half_awake or self._events() != self._then:
            return True
        return self._memory is not None and self._memory != self._digest_of_memory()

    def _look_at(self, bundle: Bundle) -> None:
        runnable = [split.turn for split in bundle.splits if split.waiting is None]
        if not runnable:
            self._repeats.add(id(bundle))
            return
        seen = self._seen.setdefault(id(bundle), {})
        state = _digest_of(bundle)
        # Lanes that had no turn since then may still leave the loop, or end it for the others.
        if seen.setdefault(state, self._machine.issued) < min(runnable):
            self._repeats.add(id(bundle))

    def _verdict(self) -> bool | None:
        """True if what ran can go on forever, False if that is open, None if writes need a second look."""
        blocks = self._machine.program.blocks
        ran = [one for index in self.executed for one in blocks[index].instructions]
        stated = [(one, self._facts[id(one)]) for one in ran]
        if not all(_is_plain(one, facts) for one, facts in stated):
            return False
        writes = any(use.writes and use.space != "local" for _, facts in stated for use in facts.uses)
        if not writes or self._memory is not None:
            return True
        return None if sum(len(data) for data in self._all_memory()) <= _MOST_BYTES else False

    def _all_memory(self) -> Iterator[memoryview]:
        for allocation in self._machine.memory.allocations:
            if allocation.writable:
                yield allocation.data.data
        for cohort in self._cohorts:
            yield cohort.shared.data

    def _digest_of_memory(self) -> bytes:
        digest = blake2b(digest_size=16)
        for data in self._all_memory():
            digest.update(data)
        return digest.digest()


def _facts_of_each(program: Program) -> dict[int, Facts]:
    """The facts of a program's instructions, by their identity."""
    return {id(one): facts for one, facts in program.stated}


def _digest_of(bundle: Bundle) -> bytes:
    """A digest of what decides a bundle's next steps: its registers, its local memory and its splits."""
    digest = blake2b(bundle.local.data, digest_size=16)
    for rows in bundle.rows.storage:
        digest.update(rows.data)
    for split in sorted(bundle.splits, key=lambda split: (split.at, split.stack, split.key)):
        digest.update(repr((split.at, split.stack, split.key, split.waiting is None)).encode())
    return digest.digest()


def _is_plain(one: Instruction, facts: Facts) -> bool:
    """Return whether an instruction changes nothing but registers and memory's bytes, and reads no clock."""
    if any(isinstance(operand, Name) and operand.text in DYNAMIC for operand in one.operands):
        return False
    if facts.pipe is not None or facts.completes is not None or facts.allocates:
        return False
    return facts.only_asks or not facts.category
