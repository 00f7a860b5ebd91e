"""Decoding turns a kernel's text into a `Program`: basic blocks of Python callables that are bound to rows.

Each instruction that the entry can reach is decoded once, before anything runs. So one error reports
everything that is not supported. Nothing of a launch's arguments, grid or seed goes into a program, so all
launches of a kernel share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from cutecourse.emulator.core.bundle import Bundle, Split, leave
from cutecourse.emulator.core.kinds import KINDS, Mask
from cutecourse.emulator.core.order import weak_topological_order
from cutecourse.emulator.core.placement import Placement
from cutecourse.emulator.core.program import BasicBlock, Control, Gate, Program, Step
from cutecourse.emulator.core.registry import lookup
from cutecourse.emulator.core.site import Flow, Site
from cutecourse.emulator.core.special import dynamic_value
from cutecourse.emulator.errors import EmulatorError, UnsupportedInstruction
from cutecourse.ptx.scopes import FlatFunction, Scope, flatten
from cutecourse.ptx.syntax import Function, Instruction, Module, Name

__all__ = ["Wrap", "decode"]

Wrap = Callable[[Site, Step], Step]
"""May replace an instruction's step, given its site."""


def decode(
    module: Module,
    entry: Function,
    dynamic_smem: int,
    *,
    wraps: Sequence[Wrap] = (),
    faults: list[EmulatorError] | None = None,
) -> Program:
    """Decode one entry of a module. `faults` collects one error for each faulty instruction.

    dynamic_smem  in bytes
    wraps         are asked about each step of an instruction that is no control instruction
    Errors:       UnsupportedInstruction, InvalidOperand, LaunchError; one error names all instructions at
                  fault.
    """
    flat = _reach(module, entry)
    program = Program(module, entry, flat, Placement(module, entry, flat, dynamic_smem))
    _Decoder(program, wraps).run([] if faults is None else faults)
    return program


# --- which functions ----------------------------------------------------------------------------------------


def _reach(module: Module, entry: Function) -> dict[str, FlatFunction]:
    """Flatten the entry and every device function that it may call; calls must not be recursive."""
    defined = module.defined
    flattened: dict[str, FlatFunction] = {}
    calls: dict[str, dict[str, Instruction]] = {}
    todo = [entry.name]
    while todo:
        name = todo.pop()
        if name in flattened:
            continue
        flat = flatten(module, defined[name])
        flattened[name] = flat
        calls[name] = {}
        for instruction in flat.instructions:
            if instruction.opcode != "call":
                continue
            for operand in instruction.operands:
                if isinstance(operand, Name) and operand.text in defined:
                    calls[name][operand.text] = instruction
                    todo.append(operand.text)
    _no_recursion(module, entry, calls)
    return flattened


def _no_recursion(module: Module, entry: Function, calls: dict[str, dict[str, Instruction]]) -> None:
    done: set[str] = set()
    path: list[str] = []
    work: list[tuple[str, bool]] = [(entry.name, False)]
    while work:
        name, leaving = work.pop()
        if leaving:
            path.pop()
            done.add(name)
            continue
        if name in done:
            continue
        path.append(name)
        work.append((name, True))
        for callee, instruction in calls[name].items():
            if callee in path:
                raise UnsupportedInstruction(
                    "recursive calls are not supported: "
                    + " calls ".join([*path[path.index(callee) :], callee]),
                    kernel=entry.name,
                    line=instruction.line,
                    text=module.line_text(instruction.line),
                )
            work.append((callee, False))


# --- translation --------------------------------------------------------------------------------------------


class _Decoder:
    """Fills a program, function by function."""

    def __init__(self, program: Program, wraps: Sequence[Wrap]) -> None:
        self.program = program
        self._wraps = wraps
        self._function = program.kernel
        """The function whose instructions are being decoded."""
        self._labels: dict[int, int] = {}
        self._edges: list[tuple[int, int]] = []
        """(block, block that may follow it), other than the next one."""

    def _site(self, instruction: Instruction, scope: Scope, used: int = 0, flow: Flow | None = None) -> Site:
        return Site(self.program, self._function, instruction, scope, used=used, flow=flow)

    def run(self, faults: list[EmulatorError]) -> None:
        """Decode every function."""
        plans: list[tuple[str, FlatFunction, list[list[int]], dict[int, int]]] = []
        program = self.program
        start = 0
        for name, flat in program.flat.items():
            pieces, where = self._cut(flat)
            program.starts[name] = start
            plans.append((name, flat, pieces, {p: start + b for p, b in where.items()}))
            start += len(pieces)
        for name, flat, pieces, where in plans:
            self._function = name
            self._labels = where
            for piece in pieces:
                self._translate(flat, piece, faults)
        if faults:
            raise self._all_faults(faults)
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

    @staticmethod
    def _is_control(instruction: Instruction) -> bool:
        found = lookup(instruction.opcode, instruction.modifiers)
        return found is not None and found[0].control

    def _cut(self, flat: FlatFunction) -> tuple[list[list[int]], dict[int, int]]:
        """Cut a function into pieces that are entered at the top only.

        Returns the pieces as instruction numbers, and for each instruction number that starts a piece (and
        for the end of the function) the piece's number. A call's results are copied at the start of a piece
        of their own.
        """
        total = len(flat.instructions)
        starts = {0, total} | {label.position for label in flat.labels}
        for position, instruction in enumerate(flat.instructions):
            if self._is_control(instruction):
                starts.add(position + 1)
            if self._is_gated(instruction):
                starts.add(position)
                if instruction.guard is not None:
                    starts.add(position + 1)
        pieces: list[list[int]] = []
        where: dict[int, int] = {}
        ordered = sorted(starts)
        for begin, end in zip(ordered, [*ordered[1:], total], strict=True):
            where[begin] = len(pieces)
            if begin == total:
                pieces.append([total])
                break
            members = list(range(begin, end))
            instruction = flat.instructions[begin]
            if instruction.guard is not None and self._is_gated(instruction):
                # One piece decides which lanes take part, the next waits for them.
                pieces.append([-1, begin])
            pieces.append(members)
            if flat.instructions[end - 1].opcode == "call":
                pieces.append([-2, end - 1])
        return pieces, where

    @staticmethod
    def _is_gated(instruction: Instruction) -> bool:
        found = lookup(instruction.opcode, instruction.modifiers)
        if found is None or not found[0].gated:
            return False
        return "sync" in instruction.modifiers or "aligned" in instruction.modifiers

    def _translate(self, flat: FlatFunction, piece: list[int], faults: list[EmulatorError]) -> None:
        block = BasicBlock(len(self.program.blocks), function=self._function)
        self.program.blocks.append(block)
        block.next = block.index + 1
        if piece[0] == len(flat.instructions):
            # Running off the end of a body leaves the function.
            block.control = leave
            return
        if piece[0] == -1:
            instruction, scope = flat.instructions[piece[1]], flat.scopes[piece[1]]
            self._fork_on_guard(block, self._site(instruction, scope))
            return
        if piece[0] == -2:
            site = self._site(flat.instructions[piece[1]], flat.scopes[piece[1]])
            found = lookup(site.instruction.opcode, site.instruction.modifiers)
            # The call itself reports its faults.
            with suppress(EmulatorError):
                if found is not None and found[0].behind is not None:
                    block.steps.extend(found[0].behind(site))
            return
        for position in piece:
            instruction, scope = flat.instructions[position], flat.scopes[position]
            try:
                self._translate_one(block, instruction, scope)
            except EmulatorError as fault:
                faults.append(fault)
        block.count = len(block.instructions)
        block.join_runs()

    def _fork_on_guard(self, block: BasicBlock, site: Site) -> None:
        """Send the lanes whose guard is false past the next block."""
        guard = site.instruction.guard
        assert guard is not None
        slot = site.read(Name(guard.line, guard.column, guard.name), "pred")
        negated = guard.negated
        past = block.index + 2
        self._edges.append((block.index, past))

        def control(bundle: Bundle, split: Split, following: int) -> int:
            row = bundle.rows["pred"][slot]
            return bundle.divide(split, ~row if negated else row, following, past)

        block.control = control

    def _translate_one(self, block: BasicBlock, instruction: Instruction, scope: Any) -> None:
        found = lookup(instruction.opcode, instruction.modifiers)
        if found is None:
            raise UnsupportedInstruction(
                f"{instruction.name} is not supported",
                kernel=self.program.kernel,
                line=instruction.line,
                text=self.program.module.line_text(instruction.line),
            )
        info, used = found
        flow = Flow(self._labels)
        site = self._site(instruction, scope, used, flow)
        block.instructions.append(instruction)
        step = info.define(site)
        site.finish()
        self._edges += [(block.index, target) for target in flow.edges]
        if site.refresh:
            step = _refreshed(step, site.refresh, control=info.control)
        if not info.control:
            for wrap in self._wraps:
                step = wrap(site, step)
        if site.convergence is not None:
            kind, slot, constant = site.convergence
            if block.steps:
                raise AssertionError(f"{instruction.name} waits for lanes and is not first in its block")
            block.gate = Gate(kind, slot, constant, instruction)
        guard = instruction.guard
        if guard is None:
            if info.control:
                block.control = step
            else:
                block.add(step)
            return
        slot = site.read(Name(guard.line, guard.column, guard.name), "pred")
        if info.control:
            block.control = _guarded_control(step, slot, guard.negated) if site.convergence is None else step
        elif site.convergence is None:
            block.add(_guarded(step, slot, guard.negated))
        else:
            block.add(step)

    def _rank_blocks(self) -> None:
        program, blocks = self.program, self.program.blocks
        successors: list[list[int]] = [[] for _ in blocks]
        for block in blocks:
            falls = block.control is None or not getattr(block.control, "never_falls", False)
            if falls and block.next < len(blocks) and block.control is not leave:
                successors[block.index].append(block.next)
        for source, target in self._edges:
            successors[source].insert(0, target)
        rank = weak_topological_order(successors, [program.starts[program.kernel], *program.starts.values()])
        program.places = [(2 * place + 1,) for place in rank]


def _guarded(step: Step, slot: int, negated: bool) -> Step:
    """Guard a step with @p: it runs in the lanes where p holds."""

    def guarded(bundle: Bundle, mask: Mask) -> None:
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

    return guarded


def _guarded_control(control: Control, slot: int, negated: bool) -> Control:
    """Guard a branch, exit or barrier with @p: the other lanes go on to the next block."""

    def guarded(bundle: Bundle, split: Split, following: int) -> int:
        held = bundle.rows["pred"][slot]
        if negated:
            held = ~held
        if split.mask is not None:
            held = held & split.mask
        seen = held.tobytes()
        if b"\x01" not in seen:
            return following
        if split.mask is None:
            if b"\x00" not in seen:
                return control(bundle, split, following)
        elif seen == split.key:
            return control(bundle, split, following)
        bundle.fork(split, ~held, following)
        return control(bundle, split, following)

    return guarded


def _refreshed(step: Step, refresh: list[tuple[str, int, str]], *, control: bool) -> Step:
    """Compute !%p and clock registers, which are not plain rows, before the instruction reads them."""

    def update(bundle: Bundle) -> None:
        for kind, slot, name in refresh:
            row = bundle.rows[kind][slot]
            if name[0] == "!":
                np.logical_not(bundle.rows["pred"][int(name[1:])], out=row)
            else:
                bits = KINDS[kind][0]
                row.view(f"u{bits // 8}")[...] = dynamic_value(name, bundle.machine) & ((1 << bits) - 1)

    if control:

        def refreshed_control(bundle: Bundle, split: Split, following: int) -> int:
            update(bundle)
            result: int = step(bundle, split, following)
            return result

        return refreshed_control

    def refreshed(bundle: Bundle, mask: Mask) -> None:
        update(bundle)
        step(bundle, mask)

    return refreshed
