"""One instruction of a kernel as its definition sees it before the kernel runs.

A `Site` hands out *slots*: positions in the lists `bundle.rows[kind]`, where registers, constants and special
registers all look alike. It also tracks the modifiers, so that it can refuse a form that is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.frame import float_bits
from cutecourse.emulator.core.kinds import ALL_LANES, KINDS, Mask
from cutecourse.emulator.core.memory import PARAM_WINDOW
from cutecourse.emulator.core.outcomes import TestOutcome
from cutecourse.emulator.core.placement import function_address
from cutecourse.emulator.core.program import Gate, Program, Step
from cutecourse.emulator.core.rows import DYNAMIC
from cutecourse.emulator.errors import EmulatorError, InvalidOperand, LaunchError, UnsupportedInstruction
from cutecourse.ptx.checks import is_special
from cutecourse.ptx.scopes import LabelSymbol, Register, Scope, type_bits
from cutecourse.ptx.syntax import (
    Address,
    FloatLiteral,
    Function,
    Instruction,
    IntLiteral,
    Name,
    Negated,
    Operand,
    Pair,
    Sink,
    SymbolOffset,
    Variable,
    Vector,
)
from cutecourse.trace.words import number

__all__ = ["AddressSource", "Site"]

_ErrorKind = type[EmulatorError]
"""An alias, because `Site.type` hides the builtin inside the class."""
_Word = TypeVar("_Word", bound=str)


@dataclass(eq=False, slots=True)
class AddressSource:
    """An address operand: `lanes(bundle)` gives each lane's address, uint32 or uint64, shape (n, 32)."""

    lanes: Callable[[Bundle], NDArray[Any]]
    symbol: Variable | None = None
    """The variable named in the brackets, or None."""
    constant: int | None = None
    """The address if it is known before the launch (symbol or number plus offset)."""
    row: int | None = None
    """The slot of the register of 64 bits in the brackets, or None."""
    distance: int = 0
    """The bytes from the register's address to this one."""


class Site:
    """An instruction, its operands and its place, while it is being translated."""

    def __init__(
        self,
        program: Program,
        function: str,
        instruction: Instruction,
        facts: Facts,
        scope: Scope,
        labels: Mapping[int, int],
        *,
        used: int = 0,
        outcome: TestOutcome | None = None,
    ) -> None:
        """`labels` are the blocks that labels start, by position; the first `used` modifiers are taken."""
        self.program = program
        self.function = function
        """The name of the function that the instruction belongs to."""
        self.instruction = instruction
        self.facts = facts
        """The instruction's facts (emulator.core.facts)."""
        self.scope = scope
        self.line = instruction.line
        self.modifiers = list(instruction.modifiers[used:])
        """The modifiers that the definition has not taken yet."""
        self._operands = instruction.operands
        self._looked_at: set[int] | None = set()
        """The operands that the definition has asked for one by one; None if it has taken all of them."""
        self._labels = labels
        self.targets: list[int] = []
        """Blocks that may follow, other than the next one."""
        self.refresh: list[tuple[str, int, str]] = []
        """Rows to compute before each run: (kind, slot, special register or "!" and a predicate's slot)."""
        self.gate: Gate | None = None
        """The lanes that must come together before the instruction runs."""
        self.outcome = outcome
        """Where a thread uses the answer of a test; None for an instruction that is none."""
        self.behind: list[Step] = []
        """The steps to run where a call returns."""

    @property
    def in_entry(self) -> bool:
        """True if the instruction belongs to the kernel itself, not to a device function."""
        return self.function == self.program.kernel

    # --- modifiers --------------------------------------------------------------------------------------

    def has(self, *names: str) -> bool:
        """Take a modifier (or each of several, in any order) if it is there."""
        found = False
        for name in names:
            if name in self.modifiers:
                self.modifiers.remove(name)
                found = True
        return found

    def one_of(self, *names: _Word) -> _Word | None:
        """Take the first modifier that is one of the names and return it; None if there is none."""
        for modifier in self.modifiers:
            if modifier in names:
                self.modifiers.remove(modifier)
                return names[names.index(modifier)]
        return None

    def expect(self, *names: _Word) -> _Word:
        """Take one of the modifiers; refuse the instruction if none is there."""
        found = self.one_of(*names)
        if found is None:
            self.unsupported(f"it needs one of the modifiers {', '.join('.' + n for n in names)}")
        return found

    def type(self, *allowed: str) -> str:  # noqa: RET503 - its last call raises
        """Take the first modifier that is a type, such as "s32"; only one of `allowed` if any are given.

        A type of 128 bits has to be among them, because NumPy cannot compute with it.
        """
        for modifier in self.modifiers:
            if type_bits(modifier) is not None or modifier in KINDS or modifier in allowed:
                if allowed and modifier not in allowed:
                    self.unsupported(f"type .{modifier} is not one of {', '.join('.' + a for a in allowed)}")
                if not allowed and (type_bits(modifier) or 0) > 64:
                    self.unsupported(f"type .{modifier}, which can only be moved, loaded and stored")
                self.modifiers.remove(modifier)
                return modifier
        self.unsupported("no type modifier")

    # --- operands by their position -----------------------------------------------------------------------

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All operands, for a definition that checks their number itself."""
        self._looked_at = None
        return self._operands

    def operand(self, index: int) -> Operand:
        """The operand as written; refuse the instruction if it has fewer operands."""
        if index >= len(self._operands):
            self.invalid(
                f"{self.instruction.name} has {number(len(self._operands), 'operand')} here, but operand"
                f" {index + 1} is missing"
            )
        if self._looked_at is not None:
            self._looked_at.add(index)
        return self._operands[index]

    def _items(self, index: int) -> tuple[Operand, ...]:
        """The operands in a vector `{a, b}`, or a single operand."""
        operand = self.operand(index)
        return operand.items if isinstance(operand, Vector) else (operand,)

    def source(self, index: int, kind: str) -> int:
        """The slot in `bundle.rows[kind]` of an operand that is read: a register, a constant, ..."""
        return self.read(self.operand(index), kind)

    def sources(self, index: int, kind: str) -> list[int]:
        """The slots of a vector operand `{a, b}`, or of a single operand as a list of one."""
        return [self.read(item, kind) for item in self._items(index)]

    def destination(self, index: int, kind: str) -> int:
        """The slot in `bundle.rows[kind]` of a register that is written; `_` gives a row nobody reads."""
        return self.write(self.operand(index), kind)

    def destinations(self, index: int, kind: str) -> list[int]:
        """The slots of a vector of destinations."""
        return [self.write(item, kind) for item in self._items(index)]

    def pair(self, index: int, kind: str) -> tuple[int, int | None]:
        """The slots of `%r|%p`: the value's, and the predicate's or None."""
        operand = self.operand(index)
        if isinstance(operand, Pair):
            return self.write(operand.first, kind), self.write(operand.second, "pred")
        return self.write(operand, kind), None

    def constant(self, index: int) -> int | None:
        """The value of an integer constant, or None for another operand."""
        operand = self.operand(index)
        return operand.value if isinstance(operand, IntLiteral) else None

    def is_sink(self, index: int) -> bool:
        """True if an operand is `_`."""
        return isinstance(self.operand(index), Sink)

    def width(self, index: int) -> int | None:
        """The bits of an operand's register (in a vector, of the first register); None without a register."""
        found = (self.register(item) for item in self._items(index))
        return next((register.bits for register in found if register is not None), None)

    def address(self, index: int) -> AddressSource:
        """The address in brackets."""
        operand = self.operand(index)
        if not isinstance(operand, Address):
            self.invalid(f"operand {index + 1} must be an address in brackets, but is {operand}")
        return self.address_of(operand)

    def jump(self, index: int) -> int:
        """The block that a branch's label starts."""
        operand = self.operand(index)
        if not isinstance(operand, Name):
            self.invalid(f"{operand} is not a label of this function")
        return self.jump_to(operand.text)

    def jump_to(self, label: str) -> int:
        """The block that a label starts, which is noted as one that may follow this instruction."""
        found = self.scope.lookup(label)
        if not isinstance(found, LabelSymbol):
            self.invalid(f"{label} is not a label of this function")
        self.targets.append(self._labels[found.position])
        return self.targets[-1]

    def converge(self, mask_operand: int | None = None) -> None:
        """Run only when lanes have come together: all of the warp, or those that a membermask operand names.

        The machine makes lanes wait before the instruction. With a mask operand, every live lane that an
        active lane's mask names is then active too.
        """
        if mask_operand is None:
            self.gate = Gate(self.instruction)
        else:
            slot, mask = self.source(mask_operand, "u32"), self.constant(mask_operand)
            self.gate = Gate(self.instruction, slot, None if mask is None else mask & ALL_LANES)

    # --- slots ------------------------------------------------------------------------------------------

    def constant_slot(self, kind: str, bits: int) -> int:
        """A row that holds a constant bit pattern."""
        return self.program.rows.constant(kind, bits)

    def parameter_slot(self, kind: str, offset: int, n_bytes: int) -> int:
        """A row that holds a number among the kernel's parameters, sign-extended if the kind is signed."""
        return self.program.rows.slot(kind, ("param", offset, n_bytes, kind[0] == "s"))

    def named_slot(self, kind: str, name: str) -> int:
        """A row that a family of instructions shares under a name, such as the carry flag."""
        return self.program.rows.slot(kind, ("temporary", name))

    def formal(self, callee: Function, name: str) -> tuple[str, int]:
        """Kind and slot of a register that a device function declares as a parameter or result."""
        register = self.program.flat[callee.name].scope.lookup(name)
        assert isinstance(register, Register)
        kind = "pred" if register.bits == 1 else f"u{register.bits}"
        return kind, self.program.rows.register(callee.name, register)

    def part_slots(self, kind: str, slot: int, part: str) -> list[int]:
        """A row's parts, lowest first, as rows of a narrower kind that can be read and written."""
        bits, rows = KINDS[kind][0], self.program.rows
        return [rows.slot(part, ("part", bits, slot, place)) for place in range(bits // KINDS[part][0])]

    def register(self, operand: Operand) -> Register | None:
        """The register that an operand names, or None."""
        found = self.scope.lookup(operand.text) if isinstance(operand, Name) else None
        return found if isinstance(found, Register) else None

    def read(self, operand: Operand, kind: str) -> int:  # noqa: RET503 - its last call raises
        """The slot from which an operand is read as a kind."""
        self._known(kind, operand)
        if isinstance(operand, IntLiteral):
            return self.constant_slot(kind, self._bits_of_int(operand.value, kind))
        if isinstance(operand, FloatLiteral):
            bits = float_bits(operand, KINDS[kind][0])
            if bits is None:
                self.invalid(f"the number {operand} where .{kind} is needed")
            return self.constant_slot(kind, bits)
        if isinstance(operand, Negated):
            inner = self.read(operand.name, kind)
            if kind != "pred":
                self.invalid(f"{operand} is not a predicate")
            slot = self.program.rows.slot("pred", ("temporary", self.line, str(operand), len(self.refresh)))
            self.refresh.append(("pred", slot, f"!{inner}"))
            return slot
        if isinstance(operand, SymbolOffset):
            found = self.scope.lookup(operand.symbol)
            if isinstance(found, Variable):
                return self._symbol_slot(found, operand.offset, kind)
            self.invalid(f"{operand.symbol} has no address")
        if isinstance(operand, Name):
            found = self.scope.lookup(operand.text)
            if isinstance(found, Register):
                return self._read_register(found, kind)
            if isinstance(found, Variable):
                return self._symbol_slot(found, 0, kind)
            if found is None and is_special(operand.text):
                slot = self.program.rows.slot(kind, ("special", operand.text))
                if operand.text in DYNAMIC:
                    self.refresh.append((kind, slot, operand.text))
                return slot
            if isinstance(found, Function):
                self.unsupported(function_address(found.name))
        self.invalid(f"{operand} cannot be read as .{kind}")

    def write(self, operand: Operand, kind: str) -> int:
        """The slot to which an operand is written as a kind; `_` gives a row that nobody reads."""
        self._known(kind, operand)
        if isinstance(operand, Sink):
            return self.program.rows.slot(kind, ("sink",))
        found = self.register(operand)
        if found is None:
            self.invalid(f"{operand} cannot be written")
        if found.bits != KINDS[kind][0]:
            self.invalid(
                f"{found.name} is a register of type .{found.type}, but the instruction writes .{kind}"
            )
        return self._row(found, kind)

    def _known(self, kind: str, operand: Operand) -> None:
        """Refuse an operand of a kind that rows do not have."""
        if kind not in KINDS:
            self.unsupported(f"{operand} as .{kind}, that is with {kind.lstrip('usbf')} bits")

    def _row(self, register: Register, kind: str | None = None) -> int:
        return self.program.rows.register(self.function, register, kind)

    def _read_register(self, register: Register, kind: str) -> int:  # noqa: RET503 - its last call raises
        width = KINDS[kind][0]
        if register.bits == width:
            return self._row(register, kind)
        if register.bits > width > 1 and self.facts.wider_registers:
            return self.program.rows.slot(kind, ("part", register.bits, self._row(register), 0))
        self.invalid(
            f"{register.name} is a register of type .{register.type}, but the instruction reads .{kind}"
        )

    def _bits_of_int(self, value: int, kind: str) -> int:
        if kind == "pred":
            return int(value != 0)
        if kind in {"f32", "f64"}:
            self.invalid(f"the integer {value} where a .{kind} number is needed: write 0f... or 0d...")
        return value

    # --- variables and addresses --------------------------------------------------------------------------

    def local_offset(self, variable: Variable, function: str | None = None) -> int | None:
        """The offset in each thread of a local or parameter variable of a function (by default this one)."""
        return self.program.placement.local(function or self.function, variable)

    def _shared_offset(self, variable: Variable) -> int:
        found = self.program.placement.shared(self.function, variable)
        if found is None:
            self.invalid(f"shared variable {variable.name} has no place")
        return found

    def _variable_address(self, variable: Variable) -> int:
        """The address of a variable that is not shared, in its own state space."""
        if variable.space in {"local", "param"}:
            offset = self.local_offset(variable)
            if offset is not None:
                return offset
            if variable in self.program.entry.params:
                return PARAM_WINDOW + self.program.placement.parameters[variable.name]
        try:
            return self.program.placement.address(variable)
        except UnsupportedInstruction as error:
            self.unsupported(error.problem)
        except LaunchError as error:
            self.invalid(error.problem)

    def _symbol_slot(self, variable: Variable, offset: int, kind: str) -> int:
        if variable.space == "shared":
            return self.program.rows.slot(kind, ("shared", self._shared_offset(variable) + offset))
        address = self._variable_address(variable)
        if variable in self.program.entry.params:
            address -= PARAM_WINDOW  # an address in .param: cvta.param makes it a generic one
        return self.constant_slot(kind, address + offset)

    def address_of(self, operand: Address) -> AddressSource:
        """Make the source that computes an address operand for each lane."""
        base, offset = operand.base, operand.offset
        found = None if base is None else self.scope.lookup(base.text)
        symbol = found if isinstance(found, Variable) else None
        if symbol is not None and symbol.space == "shared":
            offset += self._shared_offset(symbol)
            slot = self.program.rows.slot("u32", ("shared", offset))
            return AddressSource(lambda bundle: bundle.rows["u32"][slot], symbol, offset)
        if symbol is not None or base is None:
            offset += 0 if symbol is None else self._variable_address(symbol)
            slot = self.constant_slot("u64", offset)
            return AddressSource(lambda bundle: bundle.rows["u64"][slot], symbol, offset)
        if not isinstance(found, Register) or found.bits not in {32, 64}:
            self.invalid(f"{operand} is not an address: a variable or a register of 32 or 64 bits is needed")
        kind = f"u{found.bits}"
        slot = self._read_register(found, kind)
        row = slot if found.bits == 64 else None
        if not offset:
            return AddressSource(lambda bundle: bundle.rows[kind][slot], row=row)
        distance = self.constant_slot(kind, offset)

        def lanes(bundle: Bundle) -> NDArray[Any]:
            rows = bundle.rows[kind]
            found: NDArray[Any] = np.add(rows[slot], rows[distance])
            return found

        return AddressSource(lanes, row=row, distance=offset)

    # --- while the kernel runs ----------------------------------------------------------------------------

    @property
    def in_words(self) -> str:
        """The instruction's line, with its line of the source language where that is known."""
        return self.program.line_in_words(self.line)

    def error(
        self, kind: _ErrorKind, problem: str, bundle: Bundle, lane: int | np.integer[Any], **memory: Any
    ) -> EmulatorError:
        """Make an error met at run time.

        lane    a flattened lane, as in `bundle.lanes(mask)`.
        memory  the `address` of the error, and the name of the `allocation`.
        """
        return bundle.error(kind, problem, self.line, int(lane), **memory)

    @staticmethod
    def active(bundle: Bundle, mask: Mask) -> NDArray[np.bool_]:
        """The mask as an array, also when all lanes are active."""
        return bundle.full if mask is None else mask

    # --- refusals -----------------------------------------------------------------------------------------

    def unsupported(self, why: str) -> NoReturn:
        """Refuse a form of the instruction while translating."""
        problem = f"{self.instruction.name} is not supported: {why}"
        raise self.program.error(UnsupportedInstruction, problem, self.line)

    def refuse(self) -> NoReturn:
        """Refuse the instruction for the reason that its facts give."""
        self.unsupported(self.facts.refused)

    def invalid(self, why: str) -> NoReturn:
        """Refuse operands while translating."""
        raise self.program.error(InvalidOperand, why, self.line)

    def finish(self) -> None:
        """Refuse the instruction if its definition has not taken all modifiers and operands."""
        if self.modifiers:
            unknown = ", ".join("." + m for m in self.modifiers)
            self.unsupported(f"no model of {unknown}. Take the form without, if the result is the same")
        if self._looked_at is not None and len(self._looked_at) < len(self._operands):
            taken = number(len(self._looked_at), "operand")
            self.invalid(f"{self.instruction.name} takes {taken} here, not {len(self._operands)}")
