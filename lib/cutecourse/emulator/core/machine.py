"""The machine: the memory, the parameters and the asynchronous work that all blocks of one launch share."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np

from cutecourse.emulator.core.hazards import Note, Severities
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.memory import PARAM_WINDOW, Memory
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.owner import Owner
from cutecourse.emulator.core.program import Program
from cutecourse.emulator.errors import LaunchError

__all__ = ["Machine", "OrderKeeper", "PendingWork"]


class PendingWork:
    """Asynchronous work that has been issued and not completed, such as the copies of one cp.async.

    `finish()` completes it now, once; the scheduler may do so at any time in an order that the seed chooses.
    """

    __slots__ = ("_arguments", "_complete", "_machine", "done", "position")

    def __init__(self, machine: Machine, complete: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self._machine = machine
        self._complete = complete
        self._arguments = arguments
        self.position = len(machine.pending)
        """Its index in `machine.pending`."""
        self.done = False
        machine.pending.append(self)

    def arguments_of(self, function: Callable[..., None]) -> tuple[Any, ...] | None:
        """The arguments if this function will do the work; None if another function does it."""
        return self._arguments if self._complete is function else None

    def finish(self) -> None:
        """Complete the work if it is not complete yet."""
        if not self.done:
            complete, arguments = self._complete, self._arguments
            self.withdraw()
            complete(*arguments)

    def withdraw(self) -> None:
        """Take the work off the list if it is not done yet; the caller completes it."""
        if self.done:
            return
        self.done = True
        self._machine.changes += 1
        last = self._machine.pending.pop()
        if last is not self:
            self._machine.pending[self.position] = last
            last.position = self.position
        # Both may hold objects that refer back to this work.
        del self._complete, self._arguments


class OrderKeeper(Protocol):
    """Decides when threads and work may go on (core.steering); the scheduler and `defer` ask it."""

    refuses: bool
    trusts_flags: bool
    trusts_lanes: bool
    paused: list[Any]

    def lets(self, bundle: Any, instruction: Any, lanes: Any, *, may_fail: bool) -> bool:
        """True if lanes of a warp may execute an instruction now."""

    def deferred(self, work: PendingWork) -> None:
        """Work has been issued."""

    def free(self, pending: Sequence[PendingWork]) -> Sequence[PendingWork]:
        """The work that may complete now."""

    def release(self) -> bool:
        """End all delays; False if there are none."""

    def refuse(self, bundle: Any, line: int, barrier: Hashable, phase: int) -> bool:
        """True the first time that a warp asks at a line for a phase that it does not know to be complete."""


@dataclass(eq=False)
class Machine(Owner):
    """One launch: its program, memory, grid and pending work."""

    program: Program
    memory: Memory
    parameters: bytes
    """The bytes of parameter space."""
    tensor_maps: dict[bytes, Any]
    """The tensor maps among the parameters, each by its token."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    dynamic_smem: int
    seed: int
    arithmetic: str
    """The GPU whose tensor cores' sums mma.sync reproduces."""
    severities: Severities
    """The severity of each hazard in this launch (emulator.core.hazards)."""
    observers: list[Callable[[Any], Observer | None]]
    """Functions that make an observer for a new cohort, or None if they have nothing to observe."""
    is_watched: bool
    """True if an outside observer listens, so that the whole launch must run in this process."""
    keep_going: bool = False
    """True if errors after which the launch can go on are kept as notes."""
    workspace: int = 0
    """The address of a cooperative launch's workspace, for a barrier of the grid; 0 for other launches."""
    earlier: Any = None
    """The bytes that a launch has written which may still run beside this one (checks.earlier_launch)."""
    is_secondary: bool = False
    """True if the launch before this one is known."""
    has_dependents: bool = False
    """True if a later launch will be compared with this one."""
    issued: int = 0
    """Instructions issued so far, one for each bundle that runs one."""
    pending: list[PendingWork] = field(default_factory=list)
    """Asynchronous work that is not complete; add with `defer`."""
    wake: Callable[[Any], None] = lambda bundle: None
    """Tells the scheduler that a bundle has something to run again."""
    take_cluster: Callable[[], int | None] = lambda: None
    """Takes a cluster that has not started from the grid, and gives its number; None if none is given."""
    printed: list[str] = field(default_factory=list)
    notes: dict[tuple[str, int, int | None], Note] = field(default_factory=dict)
    """Hazards that did not end the launch, by name and the two lines."""
    steering: OrderKeeper | None = None
    """Keeps the launch to one order of events; None for the order that the seed gives."""
    changes: int = 0
    """Counts events that may let a waiting warp go on, to detect a wait that nothing can end."""

    def __post_init__(self) -> None:
        """Allocate the program's variables in .global and .const. Errors: LaunchError."""
        super().__init__()
        self.random = random.Random(self.seed)
        self.threads_per_block = prod(self.block)
        self.warps_per_block = -(-self.threads_per_block // WARP_SIZE)
        data = np.frombuffer(self.parameters, dtype=np.uint8)
        self.memory.put("kernel parameters", "param", PARAM_WINDOW, data, writable=False)
        for placed in self.program.placement.variables:
            name, space = placed.variable.name, placed.variable.space
            try:
                data = np.zeros(placed.n_bytes, dtype=np.uint8)
            except MemoryError:
                problem = f"no memory for {name} ({placed.n_bytes} bytes)"
                raise LaunchError(problem, line=placed.variable.line) from None
            data[: len(placed.initial)] = np.frombuffer(placed.initial, dtype=np.uint8)
            self.memory.put(name, space, placed.address, data, writable=space == "global")

    def severity(self, hazard: str, *lines: int | None) -> str:
        """A hazard's severity in this launch at the PTX lines that its report names."""
        return self.severities.at(hazard, self.program.module, *lines)

    def goes_on(self, hazard: str, *lines: int | None) -> bool:
        """True if a hazard at these PTX lines does not end the launch."""
        return self.keep_going or self.severity(hazard, *lines) != "error"

    def begin_part(self, number: int) -> None:
        """Begin a part of the grid as if it were a launch of its own, independent of the other parts."""
        self.random = random.Random(f"{self.seed} {number}")
        self.forget_owned()

    def forget_work(self) -> None:
        """Drop all pending work, and what families of instructions keep of the launch, waits among it."""
        self.pending.clear()
        self.forget_owned()

    def defer(self, complete: Callable[..., None], *arguments: Any) -> PendingWork:
        """Issue asynchronous work: `complete(*arguments)` runs later, at a time that the seed chooses."""
        work = PendingWork(self, complete, arguments)
        if self.steering is not None:
            self.steering.deferred(work)
        return work
