"""The machine: the memory, the parameters and the asynchronous work that all blocks of one launch share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, Protocol

import numpy as np

from cutecourse.emulator.core.hazards import Note, severities
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.memory import PARAM_WINDOW, Memory
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.owner import Owner
from cutecourse.emulator.core.program import Program
from cutecourse.emulator.errors import EmulatorError, LaunchError
from cutecourse.emulator.numbers.tensor_core_sums import DEFAULT_ARITHMETIC
from cutecourse.ptx.syntax import Function, Module

__all__ = ["Machine", "PendingWork", "Sleep"]


@dataclass(frozen=True)
class Parameters:
    """The bytes of parameter space."""

    data: bytes
    tensor_maps: dict[bytes, Any] = field(default_factory=dict)
    """The tensor maps among the parameters, each by its token."""


class Sleep(Protocol):
    """A wait that may end before its event has happened, such as mbarrier.try_wait."""

    def wake_some(self) -> None:
        """Let the lanes go on whose event has happened; the rest wait on."""

    def key(self) -> tuple[int, ...]:
        """A key that stays the same when the wait begins anew after a timeout."""

    def time_out(self) -> None:
        """Let all lanes go on, with the answer that the event has not happened."""


def _nothing() -> None:
    """The remaining step of work that is complete: none."""


class PendingWork:
    """Asynchronous work that has been issued and not completed, such as the copies of one cp.async.

    `finish()` completes it now, once; the scheduler may do so at any time in an order that the seed chooses.
    """

    __slots__ = ("_complete", "_machine", "done", "position")

    def __init__(self, machine: Machine, complete: Callable[[], None]) -> None:
        self._machine = machine
        self._complete = complete
        self.position = len(machine.pending)
        """Its index in `machine.pending`."""
        self.done = False
        machine.pending.append(self)

    def arguments_of(self, function: Callable[..., None]) -> tuple[Any, ...] | None:
        """The arguments if this function will do the work; None if another function does it."""
        found = self._complete
        return found.args if isinstance(found, partial) and found.func is function else None

    def finish(self) -> None:
        """Complete the work if it is not complete yet."""
        complete = self._complete
        if self.withdraw():
            complete()

    def withdraw(self) -> bool:
        """Take the work off the list, because the caller completes it itself; False if it is done already."""
        if self.done:
            return False
        self.done = True
        self._machine.changes += 1
        last = self._machine.pending.pop()
        if last is not self:
            self._machine.pending[self.position] = last
            last.position = self.position
        # The closure may hold objects that refer back to this work.
        self._complete = _nothing
        return True


class Machine(Owner):
    """One launch: grid, memory, program, cohorts."""

    def __init__(
        self,
        module: Module,
        entry: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        cluster: tuple[int, int, int],
        dynamic_smem: int,
        seed: int,
    ) -> None:
        super().__init__()
        self.module = module
        self.entry = entry
        self.grid = grid
        self.block = block
        self.cluster = cluster
        self.dynamic_smem = dynamic_smem
        self.seed = seed
        self.random = random.Random(seed)
        self.threads_per_block = block[0] * block[1] * block[2]
        self.warps_per_block = -(-self.threads_per_block // WARP_SIZE)
        self.memory = Memory()
        self.arithmetic = DEFAULT_ARITHMETIC
        """The GPU whose tensor cores' sums mma.sync gives."""
        self.parameters = Parameters(b"")
        self.issued = 0
        """Instructions issued so far, one for each bundle that runs one."""
        self.pending: list[PendingWork] = []
        """Asynchronous work that is not complete; add with `defer`."""
        self.copies = 0
        """Tensor copies into shared memory that have been issued so far."""
        self.linked = 0
        """Completions so far of operations that could have completed together with others."""
        self.wake: Callable[[Any], None] = lambda bundle: None
        """Tells the scheduler that a bundle has something to run again."""
        self.printed: list[str] = []
        self.severities: dict[str, str] = severities(None, entry.name)
        """The severity of each hazard in this launch (emulator.core.hazards)."""
        self.notes: dict[tuple[str, int, int | None], Note] = {}
        """Hazards that did not end the launch, by name and the two lines."""
        self.is_watched = False
        """True if an outside observer listens, so that the whole launch must run in this process."""
        self.changes = 0
        """Counts events that may let a waiting warp go on, to detect a wait that nothing can end."""
        self.sleeping: dict[Sleep, None] = {}
        """Waits that may give up when nothing else can go on, in the order in which they began."""
        self.half_awake: dict[Sleep, None] = {}
        """Sleeping waits that could end for some of their lanes."""
        self.observers: list[Callable[[Any], Observer | None]] = []
        """Functions that make an observer for a new cohort, or None if they have nothing to observe."""
        self.program: Program

    def begin_part(self, number: int) -> None:
        """Begin a part of the grid as if it were a launch of its own, independent of the other parts."""
        self.random = random.Random(f"{self.seed} {number}")
        self.copies = self.linked = 0

    def forget(self) -> None:
        """Drop the current part of the grid and everything noted in it."""
        self.forget_work()
        self.notes.clear()

    def forget_work(self) -> None:
        """Drop all pending work and all waits."""
        self.pending.clear()
        self.sleeping.clear()
        self.half_awake.clear()

    # --- asynchronous work ----------------------------------------------------------------------------------

    def defer(self, complete: Callable[[], None]) -> PendingWork:
        """Issue asynchronous work: `complete()` runs later, at a time that the seed chooses."""
        return PendingWork(self, complete)

    # --- variables and parameters ---------------------------------------------------------------------------

    def set_parameters(self, parameters: Parameters) -> None:
        """Put the arguments where ld.param finds them."""
        self.parameters = parameters
        data = np.frombuffer(bytes(parameters.data), dtype=np.uint8).copy()
        self.memory.put("kernel parameters", "param", PARAM_WINDOW, data, writable=False)

    def load(self, program: Program) -> None:
        """Take the program to run, and allocate its variables in .global and .const. Errors: LaunchError."""
        self.program = program
        for placed in program.placement.variables:
            name, space = placed.variable.name, placed.variable.space
            try:
                data = np.zeros(placed.n_bytes, dtype=np.uint8)
            except MemoryError:
                problem = f"no memory for {name} ({placed.n_bytes} bytes)"
                raise LaunchError(problem, line=placed.variable.line) from None
            data[: len(placed.initial)] = np.frombuffer(placed.initial, dtype=np.uint8)
            self.memory.put(name, space, placed.address, data, writable=space == "global")

    # --- errors ---------------------------------------------------------------------------------------------

    def error(self, kind: type[EmulatorError], problem: str, line: int | None) -> EmulatorError:
        """An error at a line of the kernel."""
        return kind(
            problem, kernel=self.entry.name, line=line, text=self.module.line_text(line) if line else ""
        )

    def fail(self, kind: type[EmulatorError], problem: str, line: int | None) -> NoReturn:
        """Raise an error at a line of the kernel."""
        raise self.error(kind, problem, line)
