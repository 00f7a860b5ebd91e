"""The bits of a register's value that a text fixes without running: enough to read descriptors.

A value is a `Bits`: which of its bits are known, and what they are. A register's bits are those that the text
in front of the reader has written since the last label, else those in which all instructions that write it
agree: what is said here holds in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutecourse.analysis.parameters import destinations
from cutecourse.emulator.core.facts import IntegerOperation
from cutecourse.emulator.core.registry import facts_of
from cutecourse.ptx.scopes import FlatFunction, Register, Scope, type_bits
from cutecourse.ptx.syntax import Instruction, IntLiteral, Name, Operand, Vector

__all__ = ["Bits", "Values"]

_PASSES = 8
"""Each pass sees through one more backward edge; what is not known after so many stays unknown."""


@dataclass(frozen=True, slots=True)
class Bits:
    """A number of `width` bits, of which those in `known` have the values in `value`.

    >>> Bits(8, 0xF0, 0x30).join(Bits(8, 0xFF, 0x31))
    Bits(width=8, known=240, value=48)
    """

    width: int
    known: int
    value: int

    @classmethod
    def constant(cls, width: int, value: int) -> Bits:
        """A number that is known as a whole; a negative one in two's complement."""
        mask = (1 << width) - 1
        return cls(width, mask, value & mask)

    @classmethod
    def unknown(cls, width: int) -> Bits:
        """A number of which nothing is known."""
        return cls(width, 0, 0)

    @property
    def mask(self) -> int:
        """All of the number's bits."""
        return (1 << self.width) - 1

    @property
    def whole(self) -> int | None:
        """The number, where all of its bits are known."""
        return self.value if self.known == self.mask else None

    @property
    def ones(self) -> int:
        """The bits that may be 1."""
        return (self.value | ~self.known) & self.mask

    def join(self, other: Bits) -> Bits:
        """The known bits of a number that is either of the two."""
        known = self.known & other.known & ~(self.value ^ other.value)
        return Bits(self.width, known, self.value & known)

    def resized(self, width: int) -> Bits:
        """The low bits, or the number with zeros above it."""
        mask = (1 << width) - 1
        above = mask & ~self.mask
        return Bits(width, (self.known | above) & mask, self.value & mask)

    def shifted(self, left: int) -> Bits:
        """The number shifted to the left, or, where `left` is negative, to the right; zeros come in."""
        if left >= 0:
            low = (1 << min(left, self.width)) - 1
            return Bits(self.width, (self.known << left | low) & self.mask, self.value << left & self.mask)
        high = self.mask & ~(self.mask >> -left)
        return Bits(self.width, self.known >> -left | high, self.value >> -left)

    def __and__(self, other: Bits) -> Bits:
        known = (self.known & other.known) | (self.known & ~self.value) | (other.known & ~other.value)
        return Bits(self.width, known & self.mask, self.value & other.value)

    def __or__(self, other: Bits) -> Bits:
        known = (self.known & other.known) | self.value | other.value
        return Bits(self.width, known, self.value | other.value)

    def __xor__(self, other: Bits) -> Bits:
        known = self.known & other.known
        return Bits(self.width, known, (self.value ^ other.value) & known)

    def __add__(self, other: Bits) -> Bits:
        """The sum without its carry: a bit is known where no unknown bit's carry can reach it."""
        value = self.value + other.value
        open_, other_open = self.ones - self.value, other.ones - other.value
        reached = (value + open_ + other_open) ^ value
        return self._where(value, reached | open_ | other_open)

    def __sub__(self, other: Bits) -> Bits:
        """The difference, as `__add__`."""
        value = self.value - other.value
        open_, other_open = self.ones - self.value, other.ones - other.value
        reached = (value + open_) ^ (value - other_open)
        return self._where(value, reached | open_ | other_open)

    def _where(self, value: int, unknown: int) -> Bits:
        known = self.mask & ~unknown
        return Bits(self.width, known, value & known)


class Values:
    """The bits that a function fixes of its registers' values."""

    def __init__(self, flat: FlatFunction) -> None:
        self._flat = flat
        self._joins = {label.position for label in flat.labels}
        self._always: dict[int, Bits] = {}
        """The bits in which all instructions that write a register agree."""
        self._here: dict[int, Bits] = {}
        """The values of registers since the last label: no branch arrives in between."""
        self._at: dict[int, dict[int, Bits]] = {}
        for _ in range(_PASSES):
            before = self._always
            self._always = self._sweep()
            if self._always == before:
                break

    def of(self, operand: Operand, position: int, width: int) -> Bits:
        """The known bits of an operand of the instruction at a position, read as so many bits."""
        self._here = self._at.get(position, {})
        return self._read(operand, self._flat.scopes[position], width)

    def _sweep(self) -> dict[int, Bits]:
        """Go through the text once; what is known of each register in all places that write it."""
        written: dict[int, Bits] = {}
        self._here = {}
        for position, instruction in enumerate(self._flat.instructions):
            scope = self._flat.scopes[position]
            if position in self._joins:
                self._here = {}
            if facts_of(instruction).descriptors:
                self._at[position] = dict(self._here)
            results = {register.index: bits for register, bits in self._results(instruction, scope)}
            for register in destinations(instruction, scope):
                value = results.get(register.index, Bits.unknown(register.bits))
                known = written.get(register.index)
                written[register.index] = value if known is None else known.join(value)
                self._here.pop(register.index, None)
                if instruction.guard is None:
                    self._here[register.index] = value
        return {index: bits for index, bits in written.items() if bits.known}

    def _read(self, operand: Operand, scope: Scope, width: int) -> Bits:
        if isinstance(operand, IntLiteral):
            return Bits.constant(width, operand.value)
        found = scope.lookup(operand.text) if isinstance(operand, Name) else None
        if not isinstance(found, Register):
            return Bits.unknown(width)
        bits = self._here.get(found.index) or self._always.get(found.index)
        return (bits or Bits.unknown(found.bits)).resized(width)

    def _results(self, instruction: Instruction, scope: Scope) -> Iterator[tuple[Register, Bits]]:
        if len(instruction.operands) < 2:
            return
        target, *sources = instruction.operands
        kinds = [bits for bits in map(type_bits, instruction.modifiers) if bits is not None]
        if not kinds:
            return
        if isinstance(target, Vector):
            yield from self._unpacked(instruction, scope, target, kinds[0])
            return
        found = scope.lookup(target.text) if isinstance(target, Name) else None
        if isinstance(found, Register):
            value = self._value(instruction, scope, sources, kinds)
            if value is not None and (
                value.width <= found.bits or facts_of(instruction).computes is IntegerOperation.CONVERT
            ):
                yield found, value.resized(found.bits)

    def _unpacked(
        self, instruction: Instruction, scope: Scope, target: Vector, width: int
    ) -> Iterator[tuple[Register, Bits]]:
        """`mov.b64 {%r1, %r2}, %rd1`: the low part goes to the first register."""
        if facts_of(instruction).computes is not IntegerOperation.COPY:
            return
        whole = self._read(instruction.operands[1], scope, width)
        part = width // len(target.items)
        for place, item in enumerate(target.items):
            found = scope.lookup(item.text) if isinstance(item, Name) else None
            if isinstance(found, Register):
                yield found, whole.shifted(-part * place).resized(part)

    def _value(
        self, instruction: Instruction, scope: Scope, sources: list[Operand], kinds: list[int]
    ) -> Bits | None:
        """The result of an instruction that this class knows; None for any other."""
        operation, width = facts_of(instruction).computes, kinds[0]
        if operation is None:
            return None
        if operation is IntegerOperation.COPY and isinstance(sources[0], Vector):
            return self._packed(scope, sources[0], width)
        if operation is IntegerOperation.CONVERT:
            return self._converted(instruction, scope, sources[0], kinds)
        values = [self._read(source, scope, width) for source in sources]
        if operation is IntegerOperation.COPY:
            return values[0]
        if operation is IntegerOperation.NOT:
            return values[0] ^ Bits.constant(width, -1)
        if len(values) < 2:
            return None
        first, second = values[:2]
        match operation:
            case IntegerOperation.AND:
                return first & second
            case IntegerOperation.OR:
                return first | second
            case IntegerOperation.XOR:
                return first ^ second
            case IntegerOperation.ADD:
                return first + second
            case IntegerOperation.SUBTRACT:
                return first - second
            case IntegerOperation.SELECT:
                return first.join(second)
            case IntegerOperation.SHIFT_LEFT:
                return self._shifted_left(first, self._read(sources[1], scope, 32).whole)
            case IntegerOperation.SHIFT_RIGHT:
                return self._shifted_right(instruction, first, self._read(sources[1], scope, 32).whole)
        if first.whole is None or second.whole is None:
            return None
        return Bits.constant(width, first.whole * second.whole)

    def _packed(self, scope: Scope, vector: Vector, width: int) -> Bits:
        part = width // len(vector.items)
        whole = Bits.constant(width, 0)
        for place, item in enumerate(vector.items):
            whole |= self._read(item, scope, part).resized(width).shifted(part * place)
        return whole

    @staticmethod
    def _shifted_left(value: Bits, by: int | None) -> Bits | None:
        return None if by is None else value.shifted(min(by, value.width))

    @staticmethod
    def _shifted_right(instruction: Instruction, value: Bits, by: int | None) -> Bits | None:
        signed = any(modifier in {"s16", "s32", "s64"} for modifier in instruction.modifiers)
        sign = 1 << (value.width - 1)
        if by is None or (signed and not (value.known & sign and not value.value & sign)):
            return None
        return value.shifted(-min(by, value.width))

    def _converted(
        self, instruction: Instruction, scope: Scope, source: Operand, kinds: list[int]
    ) -> Bits | None:
        names = [name for name in instruction.modifiers if type_bits(name) is not None]
        if len(names) != 2 or any(name[0] not in "us" for name in names) or "sat" in instruction.modifiers:
            return None
        value = self._read(source, scope, kinds[1])
        sign = 1 << (kinds[1] - 1)
        if names[1][0] == "s" and kinds[0] > kinds[1] and (not value.known & sign or value.value & sign):
            return None
        return value.resized(kinds[0])
