"""A kernel decoded for its launches: basic blocks of steps, rows of registers, and places of variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol

from cutecourse.emulator.core.owner import Owner
from cutecourse.emulator.core.placement import Placement
from cutecourse.emulator.core.rows import RowTable
from cutecourse.ptx.scopes import FlatFunction
from cutecourse.ptx.syntax import Function, Instruction, Module

__all__ = ["BasicBlock", "Control", "Gate", "Program", "Run", "Step"]

Control = Callable[..., int]
"""`control(bundle, split, following)`: move or block the lanes of a split; returns the block they go to."""
Step = Callable[..., Any]
"""`step(bundle, mask)`: run an instruction in the lanes of a mask; of some instructions a `Control`."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Lanes must come together before a block: all lanes of a warp, or those that `slot` names."""

    kind: str
    slot: int | None
    constant: int | None
    instruction: Instruction


class Run(Protocol):
    """Adjacent instructions that one step can run together."""

    def then(self, other: Any) -> Run | None:
        """The run of both, if another one can follow."""

    def step(self) -> Step:
        """The step that runs them."""


@dataclass(eq=False, slots=True)
class BasicBlock:
    """Instructions that run one after another, and the control instruction that picks the next block.

    A step runs one or several of the instructions.
    """

    index: int
    steps: list[Step] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """For each step the number of instructions up to its end."""
    instructions: list[Instruction] = field(default_factory=list)
    """The instructions of the steps, then the control instruction if there is one."""
    control: Control | None = None
    next: int = -1
    gate: Gate | None = None
    count: int = 0
    function: str = ""

    def add(self, step: Step) -> None:
        """Add the step of the instruction that was added last."""
        self.steps.append(step)
        self.ends.append(len(self.instructions))

    def join_runs(self) -> None:
        """Make one step of adjacent steps that run faster together: their attributes `run` say which do."""
        steps, ends = self.steps, self.ends
        runs: list[Run | None] = [getattr(step, "run", None) for step in steps]
        self.steps, self.ends = [], []
        first = 0
        while first < len(steps):
            run, stop = runs[first], first + 1
            while run is not None and stop < len(steps) and (other := runs[stop]) is not None:
                longer = run.then(other)
                if longer is None:
                    break
                run, stop = longer, stop + 1
            self.steps.append(steps[first] if run is None or stop == first + 1 else run.step())
            self.ends.append(ends[stop - 1])
            first = stop


class Program(Owner):
    """One entry of a module, decoded (emulator.core.decode). Nothing of a launch is in it: many share it."""

    def __init__(
        self, module: Module, entry: Function, flat: dict[str, FlatFunction], placement: Placement
    ) -> None:
        super().__init__()
        self.module = module
        self.entry = entry
        self.kernel = entry.name
        self.flat = flat
        """The entry and every device function that it may call."""
        self.placement = placement
        self.rows = RowTable()
        self.starts: dict[str, int] = {}
        """The block in which each function begins."""
        self.blocks: list[BasicBlock] = []
        self.places: list[tuple[int, ...]] = []
        """The position of each block in the order in which diverged lanes run the blocks."""
        self.shared_bytes = placement.shared_bytes
        self.local_bytes = placement.local_bytes
        self.local_stride = placement.local_stride

    def with_shared_names(self, names: Mapping[str, tuple[int, int]]) -> Program:
        """The same program, with names for ranges of shared memory. Errors: LaunchError."""
        named = copy(self)
        named.placement = self.placement.with_shared_names(names, self.kernel)
        return named

    def shared_name(self, offset: int) -> str | None:
        """The shared variable at or nearest before an offset."""
        return self.placement.shared_name(offset)
