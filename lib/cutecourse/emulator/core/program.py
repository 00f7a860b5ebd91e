"""A kernel decoded for its launches: basic blocks of steps, rows of registers, and places of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.kinds import ALL_LANES, Mask
from cutecourse.emulator.core.owner import Owner
from cutecourse.emulator.core.placement import Placement
from cutecourse.emulator.core.rows import RowTable
from cutecourse.emulator.core.waits import Meeting
from cutecourse.emulator.errors import EmulatorError
from cutecourse.ptx.scopes import FlatFunction
from cutecourse.ptx.sources import line_in_words
from cutecourse.ptx.syntax import Function, Instruction, Module

__all__ = ["BasicBlock", "Control", "Gate", "Program", "Step", "guarded"]

Control = Callable[..., int]
"""`control(bundle, split, following)`: move or block the lanes of a split; returns the block they go to."""
Step = Callable[..., Any]
"""`step(bundle, mask)`: run an instruction in the lanes of a mask. For control instructions, a `Control`.

A step that can run together with the steps beside it has an attribute `run` (instructions.runs).
"""


def guarded(step: Step, slot: int, negated: bool) -> Step:
    """Guard a step with @p: it runs in the lanes where p holds."""

    def where_it_holds(bundle: Any, mask: Mask) -> None:
        held = bundle.rows["pred"][slot]
        if negated:
            held = ~held
        if mask is not None:
            held = held & mask
        seen = held.tobytes()
        if b"\x00" not in seen:
            step(bundle, None)
        elif b"\x01" in seen:
            # The instruction may write the very predicate that guards it, so the mask is a copy.
            step(bundle, held if negated or mask is not None else held.copy())

    run = getattr(step, "run", None)
    if run is not None:
        where_it_holds.run = run.under(slot, negated)  # type: ignore[attr-defined]
    return where_it_holds


@dataclass(frozen=True, slots=True)
class Gate(Meeting):
    """A place where lanes must come together before an instruction; waiting lanes hold it as the reason."""

    instruction: Instruction
    slot: int | None = None
    """The row of the membermask that names the lanes; None for all lanes of a warp."""
    constant: int | None = ALL_LANES
    """The lanes as a mask, if they are known before the launch."""

    @property
    def line(self) -> int:
        """The instruction's line."""
        return self.instruction.line

    @property
    def needs(self) -> str:
        """The rule that the missing lanes break if they never arrive."""
        who = "all lanes of the warp together" if self.slot is None else "all lanes that its membermask names"
        return f"{self.instruction.name} must be executed by {who}"

    def describe(self, warp: int) -> str:
        """Say why these lanes of a warp wait."""
        what = "all lanes of the warp" if self.slot is None else "the lanes that its membermask names"
        return f"waits at {self.instruction.name} for {what}"


@dataclass(eq=False, slots=True)
class BasicBlock:
    """Instructions that run one after another, and the control instruction that picks the next block.

    A step runs one or several of the instructions. Without a control instruction, the next block follows.
    """

    index: int
    function: str
    steps: list[Step] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """For each step the number of instructions up to its end."""
    instructions: list[Instruction] = field(default_factory=list)
    """The instructions of the steps, then the control instruction if there is one."""
    control: Control | None = None
    gate: Gate | None = None
    count: int = 0
    """The number of instructions."""

    def add(self, step: Step) -> None:
        """Add the step of the instruction that was added last."""
        self.steps.append(step)
        self.ends.append(len(self.instructions))

    def join_runs(self) -> None:
        """Merge adjacent steps that run faster together; their attributes `run` say which ones."""
        joined: list[tuple[Step | None, Any, int]] = []
        for step, end in zip(self.steps, self.ends, strict=True):
            before, run = joined[-1][1] if joined else None, getattr(step, "run", None)
            longer = None if before is None or run is None else before.then(run)
            if longer is None:
                joined.append((step, run, end))
            else:
                joined[-1] = (None, longer, end)
        self.steps = [run.step() if step is None else step for step, run, _ in joined]
        self.ends = [end for _, _, end in joined]


@dataclass(eq=False)
class Program(Owner):
    """One entry of a module, decoded (emulator.core.decode). It is the same for all its launches."""

    module: Module
    entry: Function
    flat: dict[str, FlatFunction]
    """The entry and every device function that it may call."""
    placement: Placement
    rows: RowTable = field(default_factory=RowTable)
    facts: dict[str, tuple[Facts, ...]] = field(default_factory=dict)
    """The facts of each function's instructions, in order."""
    starts: dict[str, int] = field(default_factory=dict)
    """The block in which each function begins."""
    blocks: list[BasicBlock] = field(default_factory=list)
    places: list[tuple[int, ...]] = field(default_factory=list)
    """The position of each block in the order in which diverged lanes run the blocks."""

    def __post_init__(self) -> None:
        super().__init__()
        self.kernel = self.entry.name
        self.shared_bytes = self.placement.shared_bytes
        self.local_bytes = self.placement.local_bytes
        self.local_stride = self.placement.local_stride

    @property
    def instructions(self) -> Iterator[Instruction]:
        """Every instruction of the entry and of the device functions that it may call."""
        return (one for flat in self.flat.values() for one in flat.instructions)

    @property
    def stated(self) -> Iterator[tuple[Instruction, Facts]]:
        """Every instruction with its facts."""
        return zip(self.instructions, chain.from_iterable(self.facts.values()), strict=True)

    def with_shared_names(self, names: Mapping[str, tuple[int, int]]) -> Program:
        """The same program, with names for ranges of shared memory. Errors: LaunchError."""
        named = copy(self)
        named.placement = self.placement.with_shared_names(names)
        return named

    def shared_name(self, offset: int) -> str | None:
        """The shared variable that holds an offset, or else the last one that starts before it."""
        return self.placement.shared_name(offset)

    def line_in_words(self, line: int) -> str:
        """A line of the PTX text, with its line of the source language where that is known."""
        return line_in_words(self.module, line)

    def error(self, kind: type[EmulatorError], problem: str, line: int | None, **place: Any) -> EmulatorError:
        """Make an error at a line of the kernel; `place` says where in the grid and in memory."""
        text = self.module.line_text(line) if line else ""
        return kind(problem, kernel=self.kernel, line=line, text=text, **place)
