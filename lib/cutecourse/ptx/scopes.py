"""Name look-up: what each register, variable and label of a function refers to.

PTX's braces open scopes, and inline assembly leans on them: two scopes may each declare `%p` or the label
`LAB_WAIT`. A function is flattened to its instructions in order, each with the scope that it stands in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cutecourse.ptx.errors import PtxError, PtxNameError, PtxSyntaxError
from cutecourse.ptx.syntax import (
    Block,
    BranchTargets,
    CallPrototype,
    Function,
    Instruction,
    Label,
    Module,
    Name,
    Node,
    Operand,
    Pragma,
    RegisterDeclaration,
    Sequence,
    Variable,
    Vector,
)

__all__ = ["FlatFunction", "LabelSymbol", "Register", "Scope", "Symbol", "flatten", "type_bits"]

_TYPE_BITS = {
    "pred": 1,
    **{
        f"{letter}{bits}": bits
        for letter in "bsu"
        for bits in (8, 16, 32, 64, 128)
        if letter == "b" or bits < 128
    },
    "f16": 16,
    "bf16": 16,
    "f16x2": 32,
    "bf16x2": 32,
    "f32": 32,
    "f64": 64,
    "texref": 64,
    "samplerref": 64,
    "surfref": 64,
}


def type_bits(name: str) -> int | None:
    """How many bits a fundamental type has: 32 for "f32", 1 for "pred"; None for what is no type."""
    return _TYPE_BITS.get(name)


@dataclass(frozen=True, slots=True)
class Register:
    """A register of one function; `index` counts the registers that the function uses."""

    index: int
    name: str
    type: str

    @property
    def bits(self) -> int:
        """Its width; 1 for a predicate."""
        return _TYPE_BITS[self.type]


@dataclass(frozen=True, slots=True)
class LabelSymbol:
    """A label: the number of the instruction that it stands before."""

    name: str
    position: int


_PARTS = ("xyzw", "rgba")
"""The names of a vector register's parts; both words name the same parts."""

Symbol = Register | LabelSymbol | Variable | Function | BranchTargets | CallPrototype


@dataclass(eq=False, slots=True)
class Scope:
    """The names that one pair of braces declares, and the scope around it."""

    parent: Scope | None
    names: dict[str, Symbol] = field(default_factory=dict)
    declared: dict[str, RegisterDeclaration] = field(default_factory=dict)
    ranges: dict[str, RegisterDeclaration | Variable] = field(default_factory=dict)
    registers: list[Register] = field(default_factory=list)

    def lookup(self, name: str) -> Symbol | None:
        """The declaration that the name refers to here, innermost first; None if there is none."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name) or scope.materialize(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def materialize(self, name: str) -> Symbol | None:
        """A declared register becomes a register on first use: `%r<1000000>` costs nothing."""
        declaration = self.declaration(name)
        symbol: Symbol | None = None
        if declaration is None:
            symbol = self._part(name)
        elif isinstance(declaration, Variable):
            symbol = declaration
        elif declaration.vector == 1:
            symbol = Register(len(self.registers), name, declaration.type)
            self.registers.append(symbol)
        if symbol is not None:
            self.names[name] = symbol
        return symbol

    def declaration(self, name: str) -> RegisterDeclaration | Variable | None:
        """The declaration in these braces that a register's name, or a name of a range, belongs to."""
        return self.declared.get(name) or self._member(name)

    def _part(self, name: str) -> Symbol | None:
        """The register `v.y` of a vector register `v`, which is `v.g` as well."""
        vector, _, part = name.rpartition(".")
        declaration = self.declaration(vector)
        if not isinstance(declaration, RegisterDeclaration):
            return None
        for letters in _PARTS:
            if part and part in letters[: declaration.vector] and declaration.vector > 1:
                canonical = f"{vector}.{_PARTS[0][letters.index(part)]}"
                if canonical != name:
                    return self.lookup(canonical)
                register = Register(len(self.registers), name, declaration.type)
                self.registers.append(register)
                return register
        return None

    def vector(self, name: str) -> RegisterDeclaration | None:
        """The declaration of the vector register that a name refers to here; None for anything else."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.declaration(name)
            if isinstance(found, RegisterDeclaration) and found.vector > 1:
                return found
            if found is not None or name in scope.names:
                return None
            scope = scope.parent
        return None

    def _member(self, name: str) -> RegisterDeclaration | Variable | None:
        """The declaration `x<10>` that `x7` belongs to; `x07` belongs to none."""
        start = len(name)
        while (
            start > 0 and name[start - 1].isdecimal() and name[start - 1].isascii() and len(name) - start < 9
        ):
            start -= 1
            number = name[start:]
            if len(number) > 1 and number[0] == "0":
                continue
            found = self.ranges.get(name[:start])
            if found is not None and found.count is not None and int(number) < found.count:
                return found.member(int(number)) if isinstance(found, Variable) else found
        return None

    def declare(self, name: str, symbol: Symbol, node: Node) -> None:
        """Add a name; twice in one scope is an error."""
        if name in self.names or name in self.declared:
            raise PtxNameError(f"{name!r} is declared twice in one scope", line=node.line, column=node.column)
        self.names[name] = symbol


@dataclass(frozen=True)
class FlatFunction:
    """A function as a list of instructions, each with its scope."""

    function: Function
    instructions: tuple[Instruction, ...]
    scopes: tuple[Scope, ...]
    labels: tuple[LabelSymbol, ...]
    variables: tuple[Variable, ...]
    scope: Scope

    @property
    def registers(self) -> list[Register]:
        """The registers looked up so far."""
        return self.scope.registers


def module_scope(module: Module) -> Scope:
    """The names that the module itself declares."""
    scope = Scope(None)
    for variable in module.variables:
        if variable.count is not None:
            scope.ranges[variable.name] = variable
        elif not isinstance(scope.names.get(variable.name), Variable) or "extern" not in variable.linkage:
            # An extern declaration and its definition may both stand there.
            scope.names[variable.name] = variable
    for function in module.functions:
        known = scope.names.get(function.name)
        if known is None or (isinstance(known, Function) and known.body is None):
            scope.names[function.name] = function
    return scope


def flatten(module: Module, function: Function) -> FlatFunction:
    """Lay a function's statements out in order and resolve what its braces declare."""
    if function.body is None:
        raise PtxSyntaxError(
            f"{function.name} is declared but has no body", line=function.line, column=function.column
        )
    outer = module_scope(module)
    registers: list[Register] = []
    top = Scope(outer, registers=registers)
    for parameter in (*function.returns, *function.params):
        if parameter.space == "reg":
            declaration = RegisterDeclaration(
                parameter.line, parameter.column, parameter.type, parameter.name
            )
            _declare_register(top, declaration)
        else:
            top.declare(parameter.name, parameter, parameter)
    instructions: list[Instruction] = []
    scopes: list[Scope] = []
    labels: list[LabelSymbol] = []
    variables: list[Variable] = []
    has_vectors = False

    # A stack of our own: braces nest as deep as the text likes.
    work: list[tuple[Scope, list[object]]] = [(top, list(reversed(function.body.statements)))]
    while work:
        scope, pending = work[-1]
        if not pending:
            work.pop()
            continue
        statement = pending.pop()
        match statement:
            case Instruction():
                instructions.append(_spelled_out(statement, scope) if has_vectors else statement)
                scopes.append(scope)
            case Label():
                symbol = LabelSymbol(statement.name, len(instructions))
                scope.declare(statement.name, symbol, statement)
                labels.append(symbol)
            case RegisterDeclaration():
                _declare_register(scope, statement)
                has_vectors |= statement.vector > 1
            case Variable():
                if statement.count is not None:
                    scope.ranges[statement.name] = statement
                else:
                    scope.declare(statement.name, statement, statement)
                variables.append(statement)
            case BranchTargets() | CallPrototype():
                scope.declare(statement.name, statement, statement)
            case Block():
                inner = Scope(scope, registers=registers)
                work.append((inner, list(reversed(statement.statements))))
            case Pragma():
                pass
            case _:
                raise TypeError(f"not a statement: {statement!r}")
    return FlatFunction(function, tuple(instructions), tuple(scopes), tuple(labels), tuple(variables), top)


def _spelled_out(instruction: Instruction, scope: Scope) -> Instruction:
    """Write `{v.x, v.y, v.z, v.w}` for each operand that is a vector register `v` as a whole."""
    operands = tuple(_parts_of(operand, scope) for operand in instruction.operands)
    return instruction if operands == instruction.operands else replace(instruction, operands=operands)


def _parts_of(operand: Operand, scope: Scope) -> Operand:
    if isinstance(operand, Sequence):
        return replace(operand, items=tuple(_parts_of(item, scope) for item in operand.items))
    found = scope.vector(operand.text) if isinstance(operand, Name) else None
    if found is None:
        return operand
    names = (f"{operand}.{part}" for part in _PARTS[0][: found.vector])
    return Vector(operand.line, operand.column, tuple(Name(operand.line, operand.column, n) for n in names))


def _declare_register(scope: Scope, declaration: RegisterDeclaration) -> None:
    name = declaration.name
    if declaration.type not in _TYPE_BITS:
        raise PtxError(
            f".{declaration.type} is not a register type", line=declaration.line, column=declaration.column
        )
    if declaration.vector > len(_PARTS[0]) or (declaration.vector > 1 and declaration.type == "pred"):
        raise PtxError(
            f"there is no register .v{declaration.vector} .{declaration.type}",
            line=declaration.line,
            column=declaration.column,
            expected="a vector register of 2 or 4 parts that are no predicates",
        )
    if declaration.count is not None:
        if name in scope.ranges:
            raise PtxNameError(
                f"{name}<...> is declared twice in one scope",
                line=declaration.line,
                column=declaration.column,
            )
        scope.ranges[name] = declaration
        return
    if name in scope.names or name in scope.declared:
        raise PtxNameError(
            f"{name!r} is declared twice in one scope", line=declaration.line, column=declaration.column
        )
    scope.declared[name] = declaration
