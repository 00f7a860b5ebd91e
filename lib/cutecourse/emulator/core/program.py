"""A kernel translated for one launch: basic blocks of steps, rows of registers, and where variables live.

Each instruction is decoded once, when the kernel is loaded; what runs later are Python callables bound to
rows. All instructions that the entry can reach are decoded before anything runs, so everything unsupported is
reported at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.wgmma_registers import Watched, watch
from cutecourse.emulator.core.bundle import KINDS, Bundle, Mask, Split
from cutecourse.emulator.core.order import weak_topological_order
from cutecourse.emulator.core.placement import Placement
from cutecourse.emulator.core.registry import Step, lookup
from cutecourse.emulator.core.rows import RowTable
from cutecourse.emulator.core.site import AddressSource, Site
from cutecourse.emulator.core.special import DYNAMIC, dynamic_value
from cutecourse.emulator.errors import EmulatorError, LaunchError, UnsupportedInstruction
from cutecourse.emulator.memory.space import PARAM_WINDOW
from cutecourse.ptx.checks import is_special
from cutecourse.ptx.scopes import FlatFunction, LabelSymbol, Register, flatten
from cutecourse.ptx.syntax import (
    Address,
    FloatLiteral,
    Function,
    Instruction,
    IntLiteral,
    Module,
    Name,
    Negated,
    Operand,
    Sink,
    SymbolOffset,
    Variable,
)

if TYPE_CHECKING:
    from cutecourse.emulator.core.machine import Machine

__all__ = ["BasicBlock", "Gate", "Program"]

# These may name a register wider than the type, and take its low bits (PTX ISA, Operand Size Exceeding
# Instruction-Type Size).
_WIDER_REGISTERS = {"ld", "ldu", "st", "cvt"}
Control = Callable[[Bundle, Split, int], int]


@dataclass(frozen=True, slots=True)
class Gate:
    """Lanes have to come together before a block: those of a warp, or those that `slot` names."""

    kind: str
    slot: int | None
    constant: int | None
    instruction: Instruction


@dataclass(eq=False, slots=True)
class BasicBlock:
    """Instructions that run one after another, and the one that decides where to go next."""

    index: int
    steps: list[Step] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    """Those of the steps, and last the control instruction if there is one."""
    control: Control | None = None
    next: int = -1
    gate: Gate | None = None
    count: int = 0
    function: str = ""


class Program:
    """One entry of a module, decoded for one machine."""

    def __init__(self, machine: Machine, module: Module, entry: Function) -> None:
        self.machine = machine
        self.module = module
        self.entry = entry
        self.kernel = entry.name
        self.flat: dict[str, FlatFunction] = {}
        self.starts: dict[str, int] = {}
        self.blocks: list[BasicBlock] = []
        self.places: list[tuple[int, ...]] = []
        """Where each block stands in the order in which lanes that have diverged run them."""
        self._order_edges: list[tuple[int, int]] = []
        self._function_now = entry.name
        self._labels: dict[int, int] = {}
        self._reach()
        self.rows = RowTable()
        self.watched = Watched(self)
        self.placement = Placement(module, entry, self.flat, machine.dynamic_smem)
        self.shared_bytes = self.placement.shared_bytes
        self.local_bytes = self.placement.local_bytes
        self.local_stride = self.placement.local_stride
        self._decode()

    # --- which functions ----------------------------------------------------------------------------------

    def _reach(self) -> None:
        """Flatten the entry and every device function that it may call; calls must not be recursive."""
        defined = self.module.defined
        calls: dict[str, dict[str, Instruction]] = {}
        todo = [self.entry.name]
        while todo:
            name = todo.pop()
            if name in self.flat:
                continue
            flat = flatten(self.module, defined[name])
            self.flat[name] = flat
            calls[name] = {}
            for instruction in flat.instructions:
                if instruction.opcode != "call":
                    continue
                for operand in instruction.operands:
                    if isinstance(operand, Name) and operand.text in defined:
                        calls[name][operand.text] = instruction
                        todo.append(operand.text)
        self._no_recursion(calls)

    def _no_recursion(self, calls: dict[str, dict[str, Instruction]]) -> None:
        done: set[str] = set()
        path: list[str] = []
        work: list[tuple[str, bool]] = [(self.entry.name, False)]
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
                        kernel=self.kernel,
                        line=instruction.line,
                        text=self.module.line_text(instruction.line),
                    )
                work.append((callee, False))

    # --- where things are ---------------------------------------------------------------------------------

    @property
    def function_now(self) -> str:
        """The function whose instructions are being decoded."""
        return self._function_now

    @property
    def in_entry(self) -> bool:
        """Whether the instruction being decoded belongs to the kernel itself, not to a device function."""
        return self._function_now == self.kernel

    def local_offset(self, variable: Variable, function: str | None = None) -> int | None:
        """Where a local or parameter variable of a function lies in each thread's memory."""
        return self.placement.local(function or self._function_now, variable)

    def shared_name(self, offset: int) -> str | None:
        """The shared variable at or nearest before an offset."""
        return self.placement.shared_name(offset)

    # --- rows ---------------------------------------------------------------------------------------------

    def _slot(self, kind: str, recipe: tuple[Any, ...]) -> int:
        return self.rows.slot(kind, recipe)

    def _register_row(self, register: Register) -> tuple[int, int]:
        return self.rows.register(self._function_now, register)

    def constant_slot(self, kind: str, bits: int) -> int:
        """A row that holds a constant bit pattern."""
        return self.rows.constant(kind, bits)

    def named_slot(self, kind: str, name: str) -> int:
        """A row of its own that a family of instructions shares, such as the carry flag."""
        return self.rows.slot(kind, ("temporary", name))

    def source_slot(self, site: Site, operand: Operand, kind: str) -> int:  # noqa: RET503 - what it ends in raises
        """Where to read an operand as a kind."""
        if isinstance(operand, IntLiteral):
            return self._slot(kind, ("const", self._bits_of_int(site, operand.value, kind)))
        if isinstance(operand, FloatLiteral):
            return self._slot(kind, ("const", self._bits_of_float(site, operand, kind)))
        if isinstance(operand, Negated):
            inner = self.source_slot(site, operand.name, kind)
            if kind != "pred":
                site.invalid(f"{operand} is not a predicate")
            slot = self._slot("pred", ("temporary", site.line, str(operand), len(site.refresh)))
            site.refresh.append(("pred", slot, f"!{inner}"))
            return slot
        if isinstance(operand, SymbolOffset):
            found = site.scope.lookup(operand.symbol)
            if isinstance(found, Variable):
                return self._symbol_slot(site, found, operand.offset, kind)
            site.invalid(f"{operand.symbol} has no address")
        if isinstance(operand, Name):
            found = site.scope.lookup(operand.text)
            if isinstance(found, Register):
                return self._read_register(site, found, kind)
            if isinstance(found, Variable):
                return self._symbol_slot(site, found, 0, kind)
            if found is None and is_special(operand.text):
                slot = self._slot(kind, ("special", operand.text))
                if operand.text in DYNAMIC:
                    site.refresh.append((kind, slot, operand.text))
                return slot
        site.invalid(f"{operand} cannot be read as .{kind}")

    def _read_register(self, site: Site, register: Register, kind: str) -> int:  # noqa: RET503 - what it ends in raises
        width = KINDS[kind][0]
        if register.bits == width:
            return self._slot(kind, ("reg", *self._register_row(register)))
        if register.bits > width > 1 and site.instruction.opcode in _WIDER_REGISTERS:
            return self._slot(kind, ("part", *self._register_row(register), 0))
        site.invalid(
            f"{register.name} is a register of type .{register.type}, but the instruction reads .{kind}"
        )

    def part_slots(self, register: Register, kind: str) -> list[int]:
        """A register's parts, lowest first, as rows of a narrower kind: to read and to write."""
        row = self._register_row(register)
        count = register.bits // KINDS[kind][0]
        return [self._slot(kind, ("part", *row, position)) for position in range(count)]

    def destination_slot(self, site: Site, operand: Operand, kind: str) -> int:  # noqa: RET503 - what it ends in raises
        """Where to write an operand as a kind."""
        if isinstance(operand, Sink):
            return self._slot(kind, ("sink",))
        if isinstance(operand, Name):
            found = site.scope.lookup(operand.text)
            if isinstance(found, Register):
                if found.bits == KINDS[kind][0]:
                    return self._slot(kind, ("reg", *self._register_row(found)))
                site.invalid(
                    f"{found.name} is a register of type .{found.type}, but the instruction writes .{kind}"
                )
        site.invalid(f"{operand} cannot be written")

    def _symbol_slot(self, site: Site, variable: Variable, offset: int, kind: str) -> int:
        if variable.space == "shared":
            return self._slot(kind, ("shared", self._shared_offset(site, variable) + offset))
        address = self.variable_address(site, variable)
        if variable in self.entry.params:
            address -= PARAM_WINDOW  # an address in .param: cvta.param makes it a generic one
        return self._slot(kind, ("const", address + offset))

    def _shared_offset(self, site: Site, variable: Variable) -> int:
        found = self.placement.shared(self._function_now, variable)
        if found is None:
            site.invalid(f"shared variable {variable.name} has no place")
        return found

    def variable_address(self, site: Site, variable: Variable) -> int:
        """The address of a variable that is not shared, in its own state space."""
        if variable.space in {"local", "param"}:
            offset = self.local_offset(variable)
            if offset is not None:
                return offset
            if variable in self.entry.params:
                return self.machine.parameter_address(variable.name)
        try:
            return self.machine.variable(variable).base
        except LaunchError as error:
            site.invalid(error.problem)

    @staticmethod
    def _bits_of_int(site: Site, value: int, kind: str) -> int:
        width, _, parts = KINDS[kind]
        if kind == "pred":
            return int(value != 0)
        if parts == 1 and kind in {"f32", "f64"}:
            site.invalid(f"the integer {value} where a .{kind} number is needed: write 0f... or 0d...")
        return value & ((1 << width) - 1)

    @staticmethod  # noqa: RET503 - what it ends in raises
    def _bits_of_float(site: Site, literal: FloatLiteral, kind: str) -> int:
        width = KINDS[kind][0]
        if literal.bits == width:
            return literal.value
        if width == 32 and literal.bits == 64:
            return int(np.float32(np.uint64(literal.value).view(np.float64)).view(np.uint32))
        if width == 64 and literal.bits == 32:
            return int(np.float64(np.uint32(literal.value).view(np.float32)).view(np.uint64))
        site.invalid(f"the number {literal} where .{kind} is needed")

    def address_source(self, site: Site, operand: Address) -> AddressSource:
        """How to compute an address operand in each lane."""
        base = operand.base
        if base is None:
            slot = self._slot("u64", ("const", operand.offset & ((1 << 64) - 1)))
            return AddressSource(lambda bundle: bundle.rows["u64"][slot], None, operand.offset)
        found = site.scope.lookup(base.text)
        if isinstance(found, Variable):
            if found.space == "shared":
                offset = self._shared_offset(site, found) + operand.offset
                slot = self._slot("u32", ("shared", offset))
                return AddressSource(lambda bundle: bundle.rows["u32"][slot], found, offset)
            number = self.variable_address(site, found) + operand.offset
            slot = self._slot("u64", ("const", number & ((1 << 64) - 1)))
            return AddressSource(lambda bundle: bundle.rows["u64"][slot], found, number)
        if not isinstance(found, Register) or found.bits not in {32, 64}:
            site.invalid(f"{operand} is not an address: a variable or a register of 32 or 64 bits is needed")
        kind = f"u{found.bits}"
        slot = self._read_register(site, found, kind)
        if not operand.offset:
            return AddressSource(lambda bundle: bundle.rows[kind][slot], None, None)
        distance = self._slot(kind, ("const", operand.offset & ((1 << found.bits) - 1)))

        def lanes(bundle: Bundle) -> NDArray[Any]:
            rows = bundle.rows[kind]
            found: NDArray[Any] = np.add(rows[slot], rows[distance])
            return found

        return AddressSource(lanes, None, None)

    # --- translation --------------------------------------------------------------------------------------

    def _decode(self) -> None:
        faults: list[EmulatorError] = []
        plans: list[tuple[str, FlatFunction, list[list[int]], dict[int, int]]] = []
        start = 0
        for name, flat in self.flat.items():
            pieces, where = self._cut(flat)
            self.starts[name] = start
            plans.append((name, flat, pieces, {p: start + b for p, b in where.items()}))
            start += len(pieces)
        for name, flat, pieces, where in plans:
            self._function_now = name
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
            kernel=self.kernel,
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
        block = BasicBlock(len(self.blocks), function=self._function_now)
        self.blocks.append(block)
        block.next = block.index + 1
        if piece[0] == len(flat.instructions):
            # Running off the end of a body is leaving it.
            block.control = self.machine.leave
            return
        if piece[0] == -1:
            instruction, scope = flat.instructions[piece[1]], flat.scopes[piece[1]]
            self._fork_on_guard(block, Site(self, instruction, scope, 0))
            return
        if piece[0] == -2:
            site = Site(self, flat.instructions[piece[1]], flat.scopes[piece[1]], 0)
            from cutecourse.emulator.instructions.control.control_flow import copy_results

            # What is wrong with a call is reported by the call itself.
            with suppress(EmulatorError):
                block.steps.extend(copy_results(site))
            return
        for position in piece:
            instruction, scope = flat.instructions[position], flat.scopes[position]
            try:
                self._translate_one(block, instruction, scope)
            except EmulatorError as fault:
                faults.append(fault)
        block.count = len(block.instructions)

    def _fork_on_guard(self, block: BasicBlock, site: Site) -> None:
        """Send the lanes whose guard is false past the next block."""
        guard = site.instruction.guard
        assert guard is not None
        slot = site.read(Name(guard.line, guard.column, guard.name), "pred")
        negated = guard.negated
        past = block.index + 2
        self._order_edges.append((block.index, past))

        def control(bundle: Bundle, split: Split, following: int) -> int:
            row = bundle.rows["pred"][slot]
            return bundle.machine.divide(bundle, split, ~row if negated else row, following, past)

        block.control = control

    def _translate_one(self, block: BasicBlock, instruction: Instruction, scope: Any) -> None:
        found = lookup(instruction.opcode, instruction.modifiers)
        if found is None:
            raise UnsupportedInstruction(
                f"{instruction.name} is not supported",
                kernel=self.kernel,
                line=instruction.line,
                text=self.module.line_text(instruction.line),
            )
        info, used = found
        site = Site(self, instruction, scope, used)
        block.instructions.append(instruction)
        step = info.define(site)
        site.finish()
        if site.refresh:
            step = _refreshed(step, site.refresh, control=info.control)
        if not info.control:
            step = watch(site, step)
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
                block.steps.append(step)
            return
        slot = site.read(Name(guard.line, guard.column, guard.name), "pred")
        if info.control:
            block.control = _guarded_control(step, slot, guard.negated) if site.convergence is None else step
        elif site.convergence is None:
            block.steps.append(_guarded(step, slot, guard.negated))
        else:
            block.steps.append(step)

    def formal_register(self, callee: Function, name: str) -> Register:
        """The register that a device function declares as a parameter or result."""
        found = self.flat[callee.name].scope.lookup(name)
        assert isinstance(found, Register)
        return found

    def formal_slot(self, callee: Function, register: Register, kind: str) -> int:
        """The slot of another function's register."""
        now, self._function_now = self._function_now, callee.name
        try:
            return self._slot(kind, ("reg", *self._register_row(register)))
        finally:
            self._function_now = now

    def label_block(self, label: LabelSymbol) -> int:
        """The block that a label of the function being decoded starts."""
        return self._labels[label.position]

    def edge(self, target: int) -> None:
        """Note that the block being decoded may go to another one than the next."""
        self._order_edges.append((len(self.blocks) - 1, target))

    def _rank_blocks(self) -> None:
        successors: list[list[int]] = [[] for _ in self.blocks]
        for block in self.blocks:
            falls = block.control is None or not getattr(block.control, "never_falls", False)
            if falls and block.next < len(self.blocks) and block.control != self.machine.leave:
                successors[block.index].append(block.next)
        for source, target in self._order_edges:
            successors[source].insert(0, target)
        rank = weak_topological_order(successors, [self.starts[self.entry.name], *self.starts.values()])
        self.places = [(2 * place + 1,) for place in rank]


def _guarded(step: Step, slot: int, negated: bool) -> Step:
    """An instruction behind @p: it runs in the lanes where p holds."""

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
    """A branch, exit or barrier behind @p: the other lanes go on to the next block."""

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
        bundle.machine.fork(bundle, split, ~held, following)
        return control(bundle, split, following)

    return guarded


def _refreshed(step: Step, refresh: list[tuple[str, int, str]], *, control: bool) -> Step:
    """Compute the operands that are no plain rows before the instruction: !%p and registers that count."""

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
