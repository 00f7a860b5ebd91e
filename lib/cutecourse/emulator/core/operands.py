"""An instruction's operands as slots: the positions of registers and constants in `bundle.rows[kind]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import KINDS
from cutecourse.emulator.core.memory import PARAM_WINDOW
from cutecourse.emulator.core.program import Program
from cutecourse.emulator.core.rows import DYNAMIC
from cutecourse.emulator.errors import InvalidOperand, LaunchError, UnsupportedInstruction
from cutecourse.ptx.checks import is_special
from cutecourse.ptx.scopes import Register, Scope
from cutecourse.ptx.syntax import (
    Address,
    FloatLiteral,
    Function,
    Instruction,
    IntLiteral,
    Name,
    Negated,
    Operand,
    Sink,
    SymbolOffset,
    Variable,
)

__all__ = ["AddressSource", "Operands"]

# These may name a register wider than the type, and take its low bits (PTX ISA, Operand Size Exceeding
# Instruction-Type Size).
_WIDER_REGISTERS = {"ld", "ldu", "st", "cvt"}


class AddressSource:
    """An address operand: `lanes(bundle)` gives each lane's address, uint32 or uint64, shape (n, 32)."""

    __slots__ = ("constant", "distance", "lanes", "row", "symbol")

    def __init__(
        self,
        lanes: Callable[[Bundle], NDArray[Any]],
        symbol: Variable | None,
        constant: int | None,
        row: int | None = None,
        distance: int = 0,
    ) -> None:
        self.lanes = lanes
        self.row = row
        """The slot of the register of 64 bits in the brackets, or None."""
        self.distance = distance
        """The bytes from the register's address to this one."""
        self.symbol = symbol
        """The variable named in the brackets, or None."""
        self.constant = constant
        """The address if it is known before the launch (symbol or number plus offset)."""


class Operands:
    """Finds the slots of one instruction's operands, in the function and scope in which it stands."""

    def __init__(self, program: Program, function: str, instruction: Instruction, scope: Scope) -> None:
        self.program = program
        self.function = function
        """The name of the function that the instruction belongs to."""
        self.instruction = instruction
        self.scope = scope
        self.line = instruction.line
        self.refresh: list[tuple[str, int, str]] = []
        """Rows to compute before each run: (kind, slot, special register or "!" and a predicate's slot)."""

    @property
    def in_entry(self) -> bool:
        """True if the instruction belongs to the kernel itself, not to a device function."""
        return self.function == self.program.kernel

    # --- slots ------------------------------------------------------------------------------------------

    def constant_slot(self, kind: str, bits: int) -> int:
        """A row that holds a constant bit pattern."""
        return self.program.rows.constant(kind, bits)

    def parameter_slot(self, kind: str, offset: int, n_bytes: int) -> int:
        """A row that holds bytes of the kernel's parameters, extended to the kind's width by its sign."""
        return self.program.rows.slot(kind, ("param", offset, n_bytes, kind[0] == "s"))

    def named_slot(self, kind: str, name: str) -> int:
        """A row of its own that a family of instructions shares, such as the carry flag."""
        return self.program.rows.slot(kind, ("temporary", name))

    def formal(self, callee: Function, name: str) -> tuple[str, int]:
        """Kind and slot of a register that a device function declares as a parameter or result."""
        register = self.program.flat[callee.name].scope.lookup(name)
        assert isinstance(register, Register)
        kind = "pred" if register.bits == 1 else f"u{register.bits}"
        return kind, self.program.rows.register(callee.name, register)

    def local_offset(self, variable: Variable, function: str | None = None) -> int | None:
        """The offset in each thread of a local or parameter variable of a function (by default this one)."""
        return self.program.placement.local(function or self.function, variable)

    def _row(self, register: Register, kind: str | None = None) -> int:
        return self.program.rows.register(self.function, register, kind)

    def _known(self, kind: str, operand: Operand) -> None:
        """Refuse an operand whose width no row of registers has."""
        if kind not in KINDS:
            self.unsupported(f"{operand} as .{kind}, that is with {kind.lstrip('usbf')} bits")

    def read(self, operand: Operand, kind: str) -> int:  # noqa: RET503 - its last call raises
        """The slot from which an operand is read as a kind."""
        self._known(kind, operand)
        if isinstance(operand, IntLiteral):
            return self.program.rows.slot(kind, ("const", self._bits_of_int(operand.value, kind)))
        if isinstance(operand, FloatLiteral):
            return self.program.rows.slot(kind, ("const", self._bits_of_float(operand, kind)))
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
        self.invalid(f"{operand} cannot be read as .{kind}")

    def _read_register(self, register: Register, kind: str) -> int:  # noqa: RET503 - its last call raises
        width = KINDS[kind][0]
        if register.bits == width:
            return self._row(register, kind)
        if register.bits > width > 1 and self.instruction.opcode in _WIDER_REGISTERS:
            return self.program.rows.slot(kind, ("part", register.bits, self._row(register), 0))
        self.invalid(
            f"{register.name} is a register of type .{register.type}, but the instruction reads .{kind}"
        )

    def part_slots(self, register: Register, kind: str) -> list[int]:
        """A register's parts, lowest first, as rows of a narrower kind: to read and to write."""
        row = self._row(register)
        count = register.bits // KINDS[kind][0]
        return [
            self.program.rows.slot(kind, ("part", register.bits, row, position)) for position in range(count)
        ]

    def write(self, operand: Operand, kind: str) -> int:  # noqa: RET503 - its last call raises
        """The slot to which an operand is written as a kind; `_` gives a row that nobody reads."""
        self._known(kind, operand)
        if isinstance(operand, Sink):
            return self.program.rows.slot(kind, ("sink",))
        if isinstance(operand, Name):
            found = self.scope.lookup(operand.text)
            if isinstance(found, Register):
                if found.bits == KINDS[kind][0]:
                    return self._row(found, kind)
                self.invalid(
                    f"{found.name} is a register of type .{found.type}, but the instruction writes .{kind}"
                )
        self.invalid(f"{operand} cannot be written")

    def _symbol_slot(self, variable: Variable, offset: int, kind: str) -> int:
        if variable.space == "shared":
            return self.program.rows.slot(kind, ("shared", self._shared_offset(variable) + offset))
        address = self.variable_address(variable)
        if variable in self.program.entry.params:
            address -= PARAM_WINDOW  # an address in .param: cvta.param makes it a generic one
        return self.program.rows.slot(kind, ("const", address + offset))

    def _shared_offset(self, variable: Variable) -> int:
        found = self.program.placement.shared(self.function, variable)
        if found is None:
            self.invalid(f"shared variable {variable.name} has no place")
        return found

    def variable_address(self, variable: Variable) -> int:
        """The address of a variable that is not shared, in its own state space."""
        if variable.space in {"local", "param"}:
            offset = self.local_offset(variable)
            if offset is not None:
                return offset
            if variable in self.program.entry.params:
                return PARAM_WINDOW + self.program.placement.parameters[variable.name]
        try:
            return self.program.placement.address(variable)
        except LaunchError as error:
            self.invalid(error.problem)

    def _bits_of_int(self, value: int, kind: str) -> int:
        width, _, parts = KINDS[kind]
        if kind == "pred":
            return int(value != 0)
        if parts == 1 and kind in {"f32", "f64"}:
            self.invalid(f"the integer {value} where a .{kind} number is needed: write 0f... or 0d...")
        return value & ((1 << width) - 1)

    def _bits_of_float(self, literal: FloatLiteral, kind: str) -> int:  # noqa: RET503 - its last call raises
        width = KINDS[kind][0]
        if literal.bits == width:
            return literal.value
        if width == 32 and literal.bits == 64:
            return int(np.float32(np.uint64(literal.value).view(np.float64)).view(np.uint32))
        if width == 64 and literal.bits == 32:
            return int(np.float64(np.uint32(literal.value).view(np.float32)).view(np.uint64))
        self.invalid(f"the number {literal} where .{kind} is needed")

    def address_of(self, operand: Address) -> AddressSource:
        """Make the source that computes an address operand in each lane."""
        base = operand.base
        if base is None:
            slot = self.program.rows.slot("u64", ("const", operand.offset & ((1 << 64) - 1)))
            return AddressSource(lambda bundle: bundle.rows["u64"][slot], None, operand.offset)
        found = self.scope.lookup(base.text)
        if isinstance(found, Variable):
            if found.space == "shared":
                offset = self._shared_offset(found) + operand.offset
                slot = self.program.rows.slot("u32", ("shared", offset))
                return AddressSource(lambda bundle: bundle.rows["u32"][slot], found, offset)
            number = self.variable_address(found) + operand.offset
            slot = self.program.rows.slot("u64", ("const", number & ((1 << 64) - 1)))
            return AddressSource(lambda bundle: bundle.rows["u64"][slot], found, number)
        if not isinstance(found, Register) or found.bits not in {32, 64}:
            self.invalid(f"{operand} is not an address: a variable or a register of 32 or 64 bits is needed")
        kind = f"u{found.bits}"
        slot = self._read_register(found, kind)
        row = slot if found.bits == 64 else None
        if not operand.offset:
            return AddressSource(lambda bundle: bundle.rows[kind][slot], None, None, row)
        distance = self.program.rows.slot(kind, ("const", operand.offset & ((1 << found.bits) - 1)))

        def lanes(bundle: Bundle) -> NDArray[Any]:
            rows = bundle.rows[kind]
            found: NDArray[Any] = np.add(rows[slot], rows[distance])
            return found

        return AddressSource(lanes, None, None, row, operand.offset)

    # --- errors -----------------------------------------------------------------------------------------

    def unsupported(self, why: str) -> NoReturn:
        """Refuse a form of the instruction while translating."""
        raise UnsupportedInstruction(
            f"{self.instruction.name} is not supported: {why}",
            kernel=self.program.kernel,
            line=self.line,
            text=self.program.module.line_text(self.line),
        )

    def invalid(self, why: str) -> NoReturn:
        """Refuse operands while translating."""
        raise InvalidOperand(
            why,
            kernel=self.program.kernel,
            line=self.line,
            text=self.program.module.line_text(self.line),
        )
