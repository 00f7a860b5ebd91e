"""Decoding turns a kernel's text into a `Program`: basic blocks of Python callables that are bound to rows.

Each instruction that the entry can reach is decoded once, before anything runs. So one error reports
everything that is not supported. A program does not depend on a launch's arguments, grid or seed, so all
launches of a kernel share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np

from cutecourse.emulator.core.bundle import WAIT, Bundle, Split
from cutecourse.emulator.core.facts import Flow
from cutecourse.emulator.core.kinds import KINDS, Mask
from cutecourse.emulator.core.order import weak_topological_order
from cutecourse.emulator.core.outcomes import TestOutcome, Undecided, outcomes_of
from cutecourse.emulator.core.placement import Placement
from cutecourse.emulator.core.program import BasicBlock, Control, Program, Step, guarded
from cutecourse.emulator.core.registry import facts_of, lookup, supported_instructions
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.special import dynamic_value
from cutecourse.emulator.core.steering import Paused
from cutecourse.emulator.errors import EmulatorError, UnsupportedInstruction
from cutecourse.ptx.checked import CheckedModule
from cutecourse.ptx.opcodes import OPCODES
from cutecourse.ptx.scopes import FlatFunction
from cutecourse.ptx.syntax import Function, Instruction, Name

__all__ = ["decode"]


def decode(
    checked: CheckedModule,
    entry: Function,
    dynamic_smem: int,
    *,
    wrap: Callable[[Site, Step], Step] = lambda site, step: step,
    faults: list[EmulatorError] | None = None,
    steerable: bool = False,
) -> Program:
    """Decode one entry of a module. `faults` collects one error for each faulty instruction.

    dynamic_smem  in bytes
    wrap          may replace the step of an instruction, given its site; not called for control instructions
    steerable     asks a launch's steering before each instruction by which threads or engines meet
    Errors:       UnsupportedInstruction, InvalidOperand, LaunchError; one error names all instructions at
                  fault.
    """
    flat = checked.reached(entry.name)
    _refuse_recursion(checked, entry, flat)
    module = checked.module
    program = Program(module, entry, flat, Placement(module, entry, flat, dynamic_smem))
    _Decoder(program, wrap, [] if faults is None else faults, steerable=steerable).run()
    return program


# --- the calls ----------------------------------------------------------------------------------------------


def _refuse_recursion(checked: CheckedModule, entry: Function, reached: Iterable[str]) -> None:
    calls = {name: dict(checked.calls(name)) for name in reached}
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        cycle = error.args[1][::-1]
        line = calls[cycle[-2]][cycle[-1]].line
        raise UnsupportedInstruction(
            f"recursive calls are not supported: {' calls '.join(cycle)}",
            kernel=entry.name,
            line=line,
            text=checked.module.line_text(line),
        ) from None


# --- translation --------------------------------------------------------------------------------------------


class _Decoder:
    """Fills a program, function by function."""

    def __init__(
        self,
        program: Program,
        wrap: Callable[[Site, Step], Step],
        faults: list[EmulatorError],
        *,
        steerable: bool,
    ) -> None:
        self.program = program
        for name, flat in program.flat.items():
            program.facts[name] = tuple(map(facts_of, flat.instructions))
        self._wrap = wrap
        self._faults = faults
        self._steerable = steerable
        self._function = ""
        """The function whose instructions are being decoded."""
        self._flat: FlatFunction
        self._outcomes: dict[int, TestOutcome] = {}
        """The outcomes of the function's tests, by position."""
        self._labels: dict[int, int] = {}
        """The blocks of the function that begin at a label, by the label's position."""
        self._edges: list[tuple[int, int]] = []
        """(block, block that may follow it), other than the next one."""
        self._behind: list[Step] = []
        """The steps to run where the last call returns."""

    def _site(self, position: int, used: int = 0) -> Site:
        instruction, scope = self._flat.instructions[position], self._flat.scopes[position]
        facts = self.program.facts[self._function][position]
        outcome = self._outcomes.get(position)
        return Site(
            self.program, self._function, instruction, facts, scope, self._labels, used=used, outcome=outcome
        )

    def run(self) -> None:
        """Decode every function."""
        program = self.program
        cut = []
        start = 0
        for name, flat in program.flat.items():
            outcomes = outcomes_of(flat, program.facts[name])
            pieces, labels = self._cut(flat, outcomes, start)
            program.starts[name] = start
            start += len(pieces)
            cut.append((name, flat, outcomes, labels, pieces))
        for self._function, self._flat, self._outcomes, self._labels, pieces in cut:
            for translate, positions in pieces:
                block = BasicBlock(len(program.blocks), self._function)
                program.blocks.append(block)
                translate(block, positions)
        if self._faults:
            raise self._all_faults(self._faults)
        self._rank_blocks()

    def _all_faults(self, faults: list[EmulatorError]) -> EmulatorError:
        """One error for everything that cannot be decoded, each fault with its line."""
        unsupported = [f for f in faults if isinstance(f, UnsupportedInstruction)]
        first = (unsupported or faults)[0]
        if len(faults) == 1:
            return first
        seen: dict[str, list[int]] = {}
        for fault in faults:
            seen.setdefault(fault.problem, []).append(fault.line or 0)
        shown = []
        for problem, lines in list(seen.items())[:20]:
            more = f" and {len(lines) - 5} more" if len(lines) > 5 else ""
            shown.append(f"  line {', '.join(map(str, lines[:5]))}{more}: {problem}")
        if len(seen) > 20:
            shown.append(f"  and {len(seen) - 20} more")
        return type(first)(
            f"{len(faults)} instructions cannot be run:\n" + "\n".join(shown),
            kernel=self.program.kernel,
            line=first.line,
        )

    def _cut(
        self, flat: FlatFunction, outcomes: dict[int, TestOutcome], block: int
    ) -> tuple[list[_Piece], dict[int, int]]:
        """Cut a function into pieces that are entered at the top only.

        Returns the pieces, which become blocks from number `block` on, and the block of each instruction that
        starts one. A piece of its own after a call copies the call's results. Another one stands where an
        answer counts that did not count at once.
        """
        total, facts = len(flat.instructions), self.program.facts[flat.function.name]
        late = {place for one in outcomes.values() if not one.at_once for place in one.decided}
        starts = {0, total} | {label.position for label in flat.labels} | late
        forks, stops = set(), set()
        for position, instruction in enumerate(flat.instructions):
            found = lookup(instruction.opcode, instruction.modifiers)
            if found is not None and found[0].control:
                starts.add(position + 1)
            if found is not None and found[0].waits_for_lanes(instruction.modifiers):
                starts.add(position)
                if instruction.guard is not None:
                    starts.add(position + 1)
                    forks.add(position)
            if self._steerable and facts[position].meets_others:
                starts |= {position, position + 1}
                stops.add(position)
        pieces: list[_Piece] = []
        where: dict[int, int] = {}
        for begin, end in pairwise(sorted(starts)):
            where[begin] = block + len(pieces)
            if begin in late:
                pieces.append((self._count_answers, range(begin, begin)))
            if begin in stops:
                pieces.append((self._ask, range(begin, end)))
            if begin in forks:
                # One piece decides which lanes take part, and the next one waits for them.
                pieces.append((self._fork_on_guard, range(begin, end)))
            pieces.append((self._translate, range(begin, end)))
            if facts[end - 1].flow is Flow.CALL:
                pieces.append((self._return_from_call, range(begin, end)))
        where[total] = block + len(pieces)
        if total in late:
            pieces.append((self._count_answers, range(total, total)))
        pieces.append((self._end, range(total, total)))
        return pieces, where

    def _translate(self, block: BasicBlock, positions: range) -> None:
        for position in positions:
            try:
                self._translate_one(block, position)
            except EmulatorError as fault:
                self._faults.append(fault)
        block.count = len(block.instructions)
        block.join_runs()

    def _ask(self, block: BasicBlock, positions: range) -> None:
        """Ask the launch's steering whether lanes may execute the next instruction now."""
        instruction = self._flat.instructions[positions.start]
        may_fail = self.program.facts[self._function][positions.start].may_fail
        guard = None if instruction.guard is None else _guard(self._site(positions.start))

        def control(bundle: Bundle, split: Split, following: int) -> int:
            steering = bundle.machine.steering
            if steering is None:
                return following
            lanes = bundle.full if split.mask is None else split.mask
            if guard is not None:
                slot, negated = guard
                lanes = lanes & (bundle.rows["pred"][slot] != negated)
            if steering.lets(bundle, instruction, lanes, may_fail=may_fail):
                return following
            paused = split.waiting = Paused(bundle, split, instruction)
            steering.paused.append(paused)
            return WAIT

        block.control = control

    def _fork_on_guard(self, block: BasicBlock, positions: range) -> None:
        """Send the lanes whose guard is false past the next block."""
        slot, negated = _guard(self._site(positions.start))
        past = block.index + 2
        self._edges.append((block.index, past))

        def control(bundle: Bundle, split: Split, following: int) -> int:
            row = bundle.rows["pred"][slot]
            return bundle.divide(split, ~row if negated else row, following, past)

        block.control = control

    def _count_answers(self, block: BasicBlock, positions: range) -> None:
        """Let the answers of tests count for the lanes that have come here because they were true."""
        here = [one for one in self._outcomes.values() if positions.start in one.decided]

        def step(bundle: Bundle, mask: Mask) -> None:
            undecided = bundle.owned(Undecided)
            if undecided is not None:
                undecided.reach(here, bundle.lanes(mask).tolist())

        block.steps.append(step)

    def _return_from_call(self, block: BasicBlock, positions: range) -> None:
        block.steps.extend(self._behind)

    def _end(self, block: BasicBlock, positions: range) -> None:
        """Running off the end of a body leaves the function."""
        block.control = Bundle.leave

    def _translate_one(self, block: BasicBlock, position: int) -> None:
        instruction = self._flat.instructions[position]
        found = lookup(instruction.opcode, instruction.modifiers)
        if found is None:
            raise self.program.error(UnsupportedInstruction, _unknown(instruction), instruction.line)
        info, used = found
        site = self._site(position, used)
        block.instructions.append(instruction)
        step = info.define(site)
        site.finish()
        self._behind = site.behind
        self._edges += [(block.index, target) for target in site.targets]
        if site.refresh:
            step = _refreshed(step, site.refresh)
        if not info.control:
            step = self._wrap(site, step)
        if site.gate is not None:
            if block.steps:
                raise AssertionError(f"{instruction.name} waits for lanes and is not first in its block")
            block.gate = site.gate
        elif instruction.guard is not None:
            step = (_guarded_control if info.control else guarded)(step, *_guard(site))
        if info.control:
            block.control = step
        else:
            block.add(step)

    def _rank_blocks(self) -> None:
        program = self.program
        successors: list[list[int]] = [[] for _ in program.blocks]
        for block in program.blocks:
            if not getattr(block.control, "never_falls", block.control is Bundle.leave):
                successors[block.index].append(block.index + 1)
        for source, target in self._edges:
            successors[source].insert(0, target)
        rank = weak_topological_order(successors, [program.starts[program.kernel], *program.starts.values()])
        program.places = [(2 * place + 1,) for place in rank]


def _unknown(instruction: Instruction) -> str:
    """Say of an instruction without a definition if only its form is unknown, and else what may be meant."""
    opcode, known = instruction.opcode, {info.name.partition(".")[0] for info in supported_instructions()}
    if opcode in known:
        return f"{instruction.name} is not supported: the emulator does not have this form of {opcode}"
    near = get_close_matches(opcode, sorted(OPCODES), n=1)
    return f"PTX has no instruction {opcode}" + (f". Did you mean {near[0]}?" if near else "")


_Piece = tuple[Callable[[BasicBlock, range], None], range]
"""The positions of some instructions, and the method that makes a block of them."""


def _guard(site: Site) -> tuple[int, bool]:
    """The row of the predicate in front of an instruction, and whether it is negated."""
    guard = site.instruction.guard
    assert guard is not None
    return site.read(Name(guard.line, guard.column, guard.name), "pred"), guard.negated


def _guarded_control(control: Control, slot: int, negated: bool) -> Control:
    """Guard a branch, exit or barrier with @p: the other lanes go on to the next block."""

    def guarded(bundle: Bundle, split: Split, following: int) -> int:
        held = bundle.rows["pred"][slot]
        if bundle.divide(split, ~held if negated else held, WAIT, following) == following:
            return following
        return control(bundle, split, following)

    return guarded


def _refreshed(step: Step, refresh: list[tuple[str, int, str]]) -> Step:
    """Compute !%p and clock registers, which are not plain rows, before the instruction reads them."""

    def refreshed(bundle: Bundle, *rest: Any) -> Any:
        for kind, slot, name in refresh:
            row = bundle.rows[kind][slot]
            if name[0] == "!":
                np.logical_not(bundle.rows["pred"][int(name[1:])], out=row)
            else:
                bits = KINDS[kind][0]
                row.view(f"u{bits // 8}")[...] = dynamic_value(name, bundle.machine) & ((1 << bits) - 1)
        return step(bundle, *rest)

    return refreshed
