"""One instruction of a kernel as its definition sees it before the kernel runs.

A `Site` hands out *slots*: positions in the lists `bundle.rows[kind]`, where registers, constants and special
registers all look alike. It also tracks the modifiers, so that it can refuse a form that is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import KINDS, Mask
from cutecourse.emulator.core.operands import AddressSource, Operands
from cutecourse.emulator.core.program import Program
from cutecourse.emulator.errors import EmulatorError
from cutecourse.ptx.scopes import LabelSymbol, Register, Scope, type_bits
from cutecourse.ptx.syntax import (
    Address,
    Instruction,
    IntLiteral,
    Name,
    Negated,
    Operand,
    Pair,
    Sink,
    Vector,
)
from cutecourse.trace.words import number

__all__ = ["AddressSource", "Flow", "Site"]

_ErrorKind = type[EmulatorError]
"""An alias, because `Site.type` hides the builtin inside the class."""
_Word = TypeVar("_Word", bound=str)


@dataclass(eq=False, slots=True)
class Flow:
    """The blocks to which control may go from the block that is being decoded."""

    blocks: Mapping[int, int]
    """The blocks that labels of the function start, by the label's position."""
    edges: list[int] = field(default_factory=list)
    """Blocks that may follow, other than the next one."""


class Site(Operands):
    """An instruction, its operands and its place, while it is being translated."""

    def __init__(
        self,
        program: Program,
        function: str,
        instruction: Instruction,
        scope: Scope,
        *,
        used: int = 0,
        flow: Flow | None = None,
    ) -> None:
        super().__init__(program, function, instruction, scope)
        self._flow = flow or Flow({})
        self._operands = instruction.operands
        self._looked_at: set[int] | None = set()
        """The operands that the definition has asked for one by one; None if it has taken all of them."""
        self.modifiers = list(instruction.modifiers[used:])
        """The modifiers that the definition has not taken yet."""
        self.convergence: tuple[str, int | None, int | None] | None = None

    # --- modifiers --------------------------------------------------------------------------------------

    def has(self, *names: str) -> bool:
        """Take a modifier (or each of several, in any order) if it is there."""
        found = False
        for name in names:
            if name in self.modifiers:
                self.modifiers.remove(name)
                found = True
        return found

    @overload
    def one_of(self, *names: _Word) -> _Word | None: ...

    @overload
    def one_of(self, *names: _Word, default: _Word) -> _Word: ...

    def one_of(self, *names: _Word, default: _Word | None = None) -> _Word | None:
        """Take the first modifier that is one of the names and return it."""
        for modifier in self.modifiers:
            if modifier in names:
                self.modifiers.remove(modifier)
                return names[names.index(modifier)]
        return default

    def expect(self, *names: _Word) -> _Word:
        """Take one of the modifiers; refuse the instruction if none is there."""
        found = self.one_of(*names)
        if found is None:
            self.unsupported(f"it needs one of the modifiers {', '.join('.' + n for n in names)}")
        return found

    def type(self, *allowed: str) -> str:  # noqa: RET503 - its last call raises
        """Take the first modifier that is a type, such as "s32"; only one of `allowed` if any are given."""
        for modifier in self.modifiers:
            if type_bits(modifier) is not None or modifier in KINDS or modifier in allowed:
                if allowed and modifier not in allowed:
                    self.unsupported(f"type .{modifier} is not one of {', '.join('.' + a for a in allowed)}")
                self.modifiers.remove(modifier)
                return modifier
        self.unsupported("no type modifier")

    # --- operands ---------------------------------------------------------------------------------------

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

    def source(self, index: int, kind: str) -> int:
        """The slot in `bundle.rows[kind]` of an operand that is read: a register, a constant, ..."""
        return self.read(self.operand(index), kind)

    def sources(self, index: int, kind: str) -> list[int]:
        """The slots of a vector operand `{a, b}`, or of a single operand as a list of one."""
        operand = self.operand(index)
        items = operand.items if isinstance(operand, Vector) else (operand,)
        return [self.read(item, kind) for item in items]

    def destination(self, index: int, kind: str) -> int:
        """The slot in `bundle.rows[kind]` of a register that is written; `_` gives a row nobody reads."""
        return self.write(self.operand(index), kind)

    def destinations(self, index: int, kind: str) -> list[int]:
        """The slots of a vector of destinations."""
        operand = self.operand(index)
        items = operand.items if isinstance(operand, Vector) else (operand,)
        return [self.write(item, kind) for item in items]

    def pair(self, index: int, kind: str) -> tuple[int, int | None]:
        """The slots of `%r|%p`: the value's, and the predicate's or None."""
        operand = self.operand(index)
        if isinstance(operand, Pair):
            return self.write(operand.first, kind), self.write(operand.second, "pred")
        return self.write(operand, kind), None

    def negated(self, index: int) -> bool:
        """True if the operand is written `!%p`; `source(index, "pred")` takes the negation into account."""
        return isinstance(self.operand(index), Negated)

    def constant(self, index: int) -> int | None:
        """The value of an integer constant, or None for another operand."""
        operand = self.operand(index)
        return operand.value if isinstance(operand, IntLiteral) else None

    def is_sink(self, index: int) -> bool:
        """True if an operand is `_`."""
        return isinstance(self.operand(index), Sink)

    def register(self, operand: Operand) -> Register | None:
        """The register that an operand names, or None."""
        if isinstance(operand, Name):
            found = self.scope.lookup(operand.text)
            if isinstance(found, Register):
                return found
        return None

    def width(self, index: int) -> int | None:
        """The bits of an operand's register (in a vector, of the first one); None if it is no register."""
        operand = self.operand(index)
        if isinstance(operand, Vector):
            widths = [r.bits for r in map(self.register, operand.items) if r is not None]
            return widths[0] if widths else None
        found = self.register(operand)
        return found.bits if found else None

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
        """The block that a label starts; it is noted as one that may follow this instruction."""
        found = self.scope.lookup(label)
        if not isinstance(found, LabelSymbol):
            self.invalid(f"{label} is not a label of this function")
        block = self._flow.blocks[found.position]
        self._flow.edges.append(block)
        return block

    # --- convergence ------------------------------------------------------------------------------------

    def converge(self, mask_operand: int | None = None) -> None:
        """Run only when lanes have come together: all of the warp, or those that a membermask operand names.

        The machine makes lanes wait before the instruction. With a mask operand, every live lane that an
        active lane's mask names is then active too.
        """
        if mask_operand is None:
            self.convergence = ("warp", None, None)
        else:
            constant = self.constant(mask_operand)
            self.convergence = (
                "mask",
                self.source(mask_operand, "u32"),
                None if constant is None else constant & 0xFFFFFFFF,
            )

    # --- errors -----------------------------------------------------------------------------------------

    def error(
        self,
        kind: _ErrorKind,
        problem: str,
        bundle: Bundle,
        lane: int | np.integer[Any] | None = None,
        *,
        address: int | None = None,
        allocation: str | None = None,
    ) -> EmulatorError:
        """Make an error met at run time; `lane` is a flattened lane, as in `bundle.lanes(mask)`."""
        block, warp, in_warp = bundle.where(int(lane)) if lane is not None else (None, bundle.warp, None)
        return kind(
            problem,
            kernel=self.program.kernel,
            line=self.line,
            text=self.program.module.line_text(self.line),
            block=block,
            rank=bundle.rank if lane is not None and bundle.cohort.size > 1 else None,
            warp=warp,
            lane=in_warp,
            address=address,
            allocation=allocation,
        )

    def finish(self) -> None:
        """Refuse the instruction if its definition has not taken all modifiers and operands."""
        if self.modifiers:
            self.unsupported(f"no model of {', '.join('.' + m for m in self.modifiers)}")
        if self._looked_at is not None and len(self._looked_at) < len(self._operands):
            taken = number(len(self._looked_at), "operand")
            self.invalid(f"{self.instruction.name} takes {taken} here, not {len(self._operands)}")

    # --- small conveniences -----------------------------------------------------------------------------

    @staticmethod
    def active(bundle: Bundle, mask: Mask) -> NDArray[np.bool_]:
        """The mask as an array, also when all lanes are active."""
        return bundle.full if mask is None else mask
