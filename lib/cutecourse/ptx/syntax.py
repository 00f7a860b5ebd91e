"""The syntax tree of a PTX module: frozen nodes, each with the line and column where it starts.

A tree says what was written, not what it means: names are looked up by `cutecourse.ptx.scopes`, and what an
instruction does is the emulator's business.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cutecourse.ptx.demangle import named

__all__ = [
    "Address",
    "Block",
    "BranchTargets",
    "CallPrototype",
    "Expression",
    "FileDirective",
    "FloatLiteral",
    "Function",
    "Guard",
    "Instruction",
    "IntLiteral",
    "Label",
    "Loc",
    "Module",
    "Name",
    "Negated",
    "Node",
    "Operand",
    "Pair",
    "Pragma",
    "RegisterDeclaration",
    "Sequence",
    "Sink",
    "Statement",
    "SymbolOffset",
    "Variable",
    "Vector",
]


@dataclass(frozen=True, slots=True)
class Node:
    """Anything written in a PTX text, at `line` and `column`, both counted from 1."""

    line: int
    column: int


# --- operands ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A register, a variable, a label, a function or a special register such as `%tid.x`."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class IntLiteral(Node):
    """An integer constant, or a constant expression after folding; `value` is in [-2^63, 2^64)."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class FloatLiteral(Node):
    """A floating constant: `bits` is 32 for the form 0f3F800000, else 64; `value` holds the bit pattern."""

    value: int
    bits: int

    def __str__(self) -> str:
        return f"0f{self.value:08X}" if self.bits == 32 else f"0d{self.value:016X}"


@dataclass(frozen=True, slots=True)
class SymbolOffset(Node):
    """A symbol's address and a distance in bytes from it, such as `table+8`."""

    symbol: str
    offset: int
    generic: bool = False

    def __str__(self) -> str:
        inner = f"{self.symbol}{self.offset:+d}" if self.offset else self.symbol
        return f"generic({inner})" if self.generic else inner


@dataclass(frozen=True, slots=True)
class Sink(Node):
    """The operand `_`: a result that nobody wants."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True, slots=True)
class Negated(Node):
    """A predicate read the other way round: `!%p1`."""

    name: Name

    def __str__(self) -> str:
        return f"!{self.name}"


@dataclass(frozen=True, slots=True)
class Pair(Node):
    """Two destinations joined by a bar: `%r1|%p1`."""

    first: Operand
    second: Operand

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


@dataclass(frozen=True, slots=True)
class Vector(Node):
    """Operands in braces: `{%r1, %r2}`."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.items)) + "}"


@dataclass(frozen=True, slots=True)
class Sequence(Node):
    """Operands in parentheses, as a call's results and arguments have them."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.items)) + ")"


@dataclass(frozen=True, slots=True)
class Address(Node):
    """An address in brackets: a base, a byte offset, and for tensors their coordinates: `[%rd1+8]`."""

    base: Name | None
    offset: int
    coordinates: tuple[Operand, ...] = ()

    def __str__(self) -> str:
        if self.base is None:
            inner = str(self.offset)
        elif self.offset:
            inner = f"{self.base}{self.offset:+d}"
        else:
            inner = str(self.base)
        rest = "".join(f", {item}" for item in self.coordinates)
        return f"[{inner}{rest}]"


Operand = (
    Name | IntLiteral | FloatLiteral | SymbolOffset | Sink | Negated | Pair | Vector | Sequence | Address
)
Expression = IntLiteral | FloatLiteral | SymbolOffset


# --- statements ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Guard(Node):
    """The predicate in front of an instruction: `@%p1` or `@!%p1`."""

    name: str
    negated: bool

    def __str__(self) -> str:
        return f"@{'!' if self.negated else ''}{self.name}"


@dataclass(frozen=True, slots=True)
class Loc:
    """Where in the source language the next instructions come from."""

    file: int
    line: int
    column: int
    inlined_at: Loc | None = None
    """Where the function that the line is of was inlined."""
    sure: bool = True
    """False if the text may mean another place with the line and column of `inlined_at`."""

    @property
    def depth(self) -> int:
        """The number of functions that were inlined within one another here."""
        return 0 if self.inlined_at is None else 1 + self.inlined_at.depth


@dataclass(frozen=True, slots=True)
class Instruction(Node):
    """One instruction: `ld.global.v2.f32 {%f1, %f2}, [%rd1]` has opcode `ld` and three modifiers."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    loc: Loc | None = None

    @property
    def name(self) -> str:
        """The opcode with its modifiers, as written."""
        return ".".join((self.opcode, *self.modifiers))

    def __str__(self) -> str:
        guard = f"{self.guard} " if self.guard else ""
        operands = ", ".join(map(str, self.operands))
        return f"{guard}{self.name} {operands}".rstrip() + ";"


@dataclass(frozen=True, slots=True)
class Label(Node):
    """A place to branch to."""

    name: str


@dataclass(frozen=True, slots=True)
class RegisterDeclaration(Node):
    """`.reg .b32 %r<10>` declares ten registers, with `count` 10; without brackets `count` is None.

    `vector` is the number of parts of a vector register: 4 in `.reg .v4 .b32 %v`.
    """

    type: str
    name: str
    count: int | None = None
    vector: int = 1


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """Memory with a name: in .global, .const, .shared, .local or .param, or a register parameter.

    `dims` are the array's extents, empty for a scalar; an extent left open is None. `count` is that of a
    parameterized name such as `x<4>`.
    """

    space: str
    type: str
    name: str
    dims: tuple[int | None, ...] = ()
    alignment: int | None = None
    vector: int = 1
    count: int | None = None
    initializer: tuple[Expression, ...] | None = None
    linkage: frozenset[str] = frozenset()
    attributes: tuple[str, ...] = ()

    def member(self, number: int) -> Variable:
        """One variable of a parameterized name: `x2` of `x<4>`."""
        return replace(self, name=f"{self.name}{number}", count=None)


@dataclass(frozen=True, slots=True)
class Pragma(Node):
    """A hint to ptxas, kept as text."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BranchTargets(Node):
    """The table of an indirect branch: `ts: .branchtargets L1, L2;`."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallPrototype(Node):
    """The functions that an indirect call may call: `.callprototype` or `.calltargets`."""

    name: str
    targets: tuple[str, ...] = ()
    returns: tuple[Variable, ...] = ()
    params: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class Block(Node):
    """Statements in braces: a scope of its own for registers, variables and labels."""

    statements: tuple[Statement, ...]


Statement = (
    Instruction | Label | RegisterDeclaration | Variable | Pragma | BranchTargets | CallPrototype | Block
)


# --- the module ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileDirective(Node):
    """`.file 1 "kernel.py"`: the number that `.loc` uses for a source file."""

    number: int
    path: str


@dataclass(frozen=True, slots=True)
class Function(Node):
    """An entry (a kernel) or a device function; `body` is None for a declaration alone."""

    kind: str
    name: str
    returns: tuple[Variable, ...]
    params: tuple[Variable, ...]
    body: Block | None
    linkage: frozenset[str] = frozenset()
    directives: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def shown(self, parameter: Variable) -> str:
        """A parameter's name for people: without the kernel's, which compilers put before it."""
        return parameter.name.removeprefix(f"{self.name}_")

    def directive(self, name: str) -> tuple[int, ...] | None:
        """The numbers after a directive such as `reqntid`, or None where it is not there."""
        return dict(self.directives).get(name)


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A whole PTX text. Each parsed module is equal to itself only, so that it can be a key."""

    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    files: tuple[FileDirective, ...]
    text: str = field(repr=False)

    @property
    def entries(self) -> dict[str, Function]:
        """The kernels by name, in the order of the text."""
        return {f.name: f for f in self.functions if f.kind == "entry"}

    def entries_named(self, name: str) -> list[Function]:
        """The kernel of this name, or else all kernels with a body whose names have it as a part.

        A part of the name as messages show it will do as well.
        """
        entries = self.entries
        found = [entries[one] for one in named(list(entries), name)]
        return [one for one in found if one.body is not None or one.name == name]

    @property
    def defined(self) -> dict[str, Function]:
        """All functions that have a body, by name."""
        return {f.name: f for f in self.functions if f.body is not None}

    def line_text(self, line: int) -> str:
        """One line of the text, counted from 1."""
        lines = self.text.split("\n")
        return lines[line - 1] if 0 < line <= len(lines) else ""
