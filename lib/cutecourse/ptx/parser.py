"""The parser: a PTX text becomes a frozen syntax tree.

Grammar after the PTX ISA 9.0, sections "Syntax", "State Spaces, Types, and Variables", "Instruction
Operands", "Abstracting the ABI" and "Directives". Everything that the CuTe DSL, numba-cuda and nvcc write
is read; what an instruction's modifiers mean is not looked at here.
"""

from __future__ import annotations

import re

from cutecourse.ptx.cursor import Cursor
from cutecourse.ptx.errors import PtxError, PtxLimitError, PtxSyntaxError
from cutecourse.ptx.scopes import type_bits
from cutecourse.ptx.sources import SourcedText, assembly_lines
from cutecourse.ptx.syntax import (
    Address,
    Block,
    BranchTargets,
    CallPrototype,
    Expression,
    FileDirective,
    FloatLiteral,
    Function,
    Guard,
    Instruction,
    Label,
    Loc,
    Module,
    Name,
    Negated,
    Operand,
    Pair,
    Pragma,
    RegisterDeclaration,
    Sequence,
    Sink,
    Statement,
    SymbolOffset,
    Variable,
    Vector,
)
from cutecourse.ptx.tokens import tokenize

__all__ = ["parse"]

_LINKAGE = {".extern", ".visible", ".weak", ".common"}
_SPACES = {".global", ".const", ".shared", ".local", ".param", ".tex"}
_FUNCTION_DIRECTIVES = {
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".noreturn", ".pragma",
    ".reqnctapercluster", ".explicitcluster", ".maxclusterrank", ".blocksareclusters", ".attribute",
    ".abi_preserve", ".abi_preserve_control",
}  # fmt: skip
_COUNTED = {".maxntid", ".reqntid", ".maxnreg", ".reqnctapercluster", ".maxclusterrank"}
"""Those of them that are nothing without a number."""
_COMPONENTS = {".x", ".y", ".z", ".w", ".r", ".g", ".b", ".a"}
_LINE_LIMIT = 1 << 31
_MOST_INLINED = 32
"""Functions inlined within one another that a place is followed through."""


def parse(text: str) -> Module:
    """Read a whole PTX module. A `SourcedText` brings the source of its lines in a table.

    Raises PtxError with line, column, the line's text and what was expected.

    >>> module = parse(".version 8.0 .target sm_80 .address_size 64 .visible .entry k() { ret; }")
    >>> module.target, list(module.entries)
    (('sm_80',), ['k'])
    """
    if not isinstance(text, str):
        raise PtxError(f"a PTX text is a str, not {type(text).__name__}", line=1, column=1)
    _refuse_another_language(text)
    try:
        return _Parser(text).module()
    except PtxError as error:
        if error.text:
            raise
        lines = text.split("\n")
        line = lines[error.line - 1] if error.line <= len(lines) else ""
        raise type(error)(
            error.problem, line=error.line, column=error.column, text=line, expected=error.expected
        ) from None


_OTHERS = (
    (r"^[ \t]*\.headerflags|^[ \t]*(?:code for|arch =) sm_|/\*[0-9a-f]{4}\*/", "this is SASS, not PTX",
     "PTX, as cuobjdump -ptx takes it from a program or nvcc --ptx makes it from CUDA C++"),
    (r"\b__global__\b|\b__device__\b|^[ \t]*#[ \t]*include\b|\btemplate[ \t]*<", "this is C++, not PTX",
     "PTX, as nvcc --ptx makes it from CUDA C++"),
)  # fmt: skip
"""Signs of another language, what a text with them is, and what to do."""


def _refuse_another_language(text: str) -> None:
    """Say so if a text without .version is CUDA C++ or SASS. Errors: PtxSyntaxError."""
    if re.search(r"^[ \t]*\.version\b", text, re.MULTILINE):
        return
    for sign, problem, expected in _OTHERS:
        if found := re.search(sign, text, re.MULTILINE):
            line = text.count("\n", 0, found.start()) + 1
            column = found.start() - text.rfind("\n", 0, found.start())
            shown = text.split("\n")[line - 1]
            raise PtxSyntaxError(problem, line=line, column=column, text=shown, expected=expected)


class _Parser(Cursor):
    def __init__(self, text: str) -> None:
        super().__init__(tokenize(text))
        self.whole = text
        self.table = text.line_table if isinstance(text, SourcedText) else None
        self.assembly = assembly_lines(text)
        self.loc: Loc | None = None
        self.callers: dict[tuple[int, int, int], tuple[Loc, bool]] = {}
        """The last .loc of each place in a function, and whether the place has had several."""

    # --- the module -------------------------------------------------------------------------------------

    def module(self) -> Module:
        self.expect(".version", "'.version' at the start of a PTX text")
        version = self._version()
        target: tuple[str, ...] = ()
        address_size = 32
        variables: list[Variable] = []
        functions: list[Function] = []
        files: list[FileDirective] = []
        while self.kind != "end":
            if self.kind != "dot":
                if self.accept(";"):
                    continue
                self.fail("a directive such as .entry, .func, .global or .target")
            text = self.text
            if text == ".target":
                self.at += 1
                target = self._names()
            elif text == ".address_size":
                self.at += 1
                address_size = self.integer()
            elif text == ".version":
                self.at += 1
                version = self._version()
            elif text == ".file":
                files.append(self._file())
            elif text == ".section":
                self._section()
            elif text == ".pragma":
                self._pragma()
            elif text == ".alias":
                self.fail("a definition", "aliases (.alias) are not supported")
            else:
                self._definition(variables, functions)
        if not target:
            self.fail("'.target'", "the text names no target")
        if address_size not in {32, 64}:
            self.fail("32 or 64", f"no such address size: {address_size}")
        self._no_doubles(functions)
        files += self.table.files if self.table else ()
        return Module(
            version, target, address_size, tuple(variables), tuple(functions), tuple(files), self.whole
        )

    def _no_doubles(self, functions: list[Function]) -> None:
        seen: set[str] = set()
        for function in functions:
            if function.body is None:
                continue
            if function.name in seen:
                raise PtxError(
                    f"{function.name} is defined twice", line=function.line, column=function.column
                )
            seen.add(function.name)

    def _version(self) -> tuple[int, int]:
        text = self.take("float", "a version such as 8.8")
        major, _, minor = text.partition(".")
        if not (major.isdecimal() and minor.isdecimal() and len(text) < 10):
            self.at -= 1
            self.fail("a version such as 8.8")
        return int(major), int(minor)

    def _names(self) -> tuple[str, ...]:
        names = [self.name("a target such as sm_90a")]
        while self.accept(","):
            names.append(self.name("a target option"))
        return tuple(names)

    def _file(self) -> FileDirective:
        line, column = self.place()
        self.at += 1
        number = self.integer("the file's number")
        path = self.take("string", "the file's name in quotes")[1:-1]
        while self.accept(","):
            self.integer()
        return FileDirective(line, column, number, path)

    def _section(self) -> None:
        """Debug sections hold data for debuggers only: they are skipped."""
        self.at += 1
        if self.kind not in {"dot", "word"}:
            self.fail("the section's name")
        self.at += 1
        self.expect("{")
        depth = 1
        while depth:
            if self.kind == "end":
                self.fail("'}' that closes the section")
            if self.next_is("{"):
                depth += 1
            elif self.next_is("}"):
                depth -= 1
            self.at += 1

    def _pragma(self) -> Pragma:
        line, column = self.place()
        self.at += 1
        texts = [self.take("string", "a pragma in quotes")[1:-1]]
        while self.accept(","):
            texts.append(self.take("string", "a pragma in quotes")[1:-1])
        self.expect(";")
        return Pragma(line, column, tuple(texts))

    def _definition(self, variables: list[Variable], functions: list[Function]) -> None:
        linkage: set[str] = set()
        while self.kind == "dot" and self.text in _LINKAGE:
            linkage.add(self.text[1:])
            self.at += 1
        if self.next_is(".entry") or self.next_is(".func"):
            functions.append(self._function(frozenset(linkage)))
        elif self.kind == "dot" and self.text in _SPACES:
            variables.extend(self._variables(frozenset(linkage)))
        else:
            self.fail("a function (.entry, .func) or a variable (.global, .const, .shared)")

    # --- functions --------------------------------------------------------------------------------------

    def _function(self, linkage: frozenset[str]) -> Function:
        line, column = self.place()
        kind = self.text[1:]
        self.at += 1
        self.loc = None
        self.callers = {}
        directives: list[tuple[str, tuple[int, ...]]] = []
        self._function_directives(directives)
        returns: tuple[Variable, ...] = ()
        if kind == "func" and self.next_is("("):
            returns = self._parameters()
        name = self.name("the function's name")
        params = self._parameters() if self.next_is("(") else ()
        self._function_directives(directives)
        body = None
        if not self.accept(";"):
            if not self.next_is("{"):
                self.fail("the function's body or ';'")
            body = self._block()
        return Function(line, column, kind, name, returns, params, body, linkage, tuple(directives))

    def _function_directives(self, found: list[tuple[str, tuple[int, ...]]]) -> None:
        while self.kind == "dot" and self.text in _FUNCTION_DIRECTIVES:
            name = self.text[1:]
            if name == "pragma":
                self._pragma()
                continue
            self.at += 1
            numbers: list[int] = []
            if name == "attribute":
                self._skip_parentheses()
            elif self.kind == "int":
                numbers.append(self.integer())
                while self.accept(","):
                    numbers.append(self.integer())
            if not numbers and "." + name in _COUNTED:
                self.fail(f"a number after .{name}")
            if numbers and min(numbers) < 1 and "." + name in _COUNTED:
                self.at -= 1
                self.fail(f"numbers greater than 0 after .{name}")
            found.append((name, tuple(numbers)))

    def _skip_parentheses(self) -> tuple[str, ...]:
        self.expect("(")
        depth, seen = 1, []
        while depth:
            if self.kind == "end":
                self.fail("')'")
            if self.next_is("("):
                depth += 1
            elif self.next_is(")"):
                depth -= 1
            if depth:
                seen.append(self.text)
            self.at += 1
        return tuple(seen)

    def _parameters(self) -> tuple[Variable, ...]:
        self.expect("(")
        found: list[Variable] = []
        while not self.accept(")"):
            if found:
                self.expect(",", "',' or ')'")
            found.append(self._parameter())
        return tuple(found)

    def _parameter(self) -> Variable:
        if self.kind != "dot" or self.text not in {".param", ".reg"}:
            self.fail("a parameter: '.param' or '.reg'")
        return self._declarator(*self._declaration_head(), frozenset(), parameter=True)

    # --- variables --------------------------------------------------------------------------------------

    def _declaration_head(self) -> tuple[str, str, int | None, int, tuple[str, ...]]:
        """The words before the names: space, alignment, vector and type, in their order."""
        space = self.text[1:]
        self.at += 1
        alignment: int | None = None
        vector, kind = 1, ""
        attributes: list[str] = []
        while self.kind == "dot":
            text = self.text
            if text == ".align":
                self.at += 1
                alignment = self.integer("an alignment in bytes")
                if alignment <= 0 or alignment & (alignment - 1) or alignment > 1 << 20:
                    self.at -= 1
                    self.fail("a power of two", f"{alignment} is not an alignment")
                if "ptr" in attributes:
                    # Behind .ptr it is the alignment of the memory that the parameter points to.
                    alignment = None
            elif text in {".v2", ".v4", ".v8"}:
                self.at += 1
                vector = int(text[2:])
            elif text == ".attribute":
                self.at += 1
                attributes.extend(self._skip_parentheses())
            elif text == ".ptr" or (kind and text in _SPACES):
                # A pointer parameter's attributes: .ptr .global .align 16
                self.at += 1
                attributes.append(text[1:])
            elif not kind and type_bits(text[1:]) is not None:
                self.at += 1
                kind = text[1:]
            else:
                self.fail("a type such as .b32")
        if not kind:
            self.fail("a type such as .b32")
        return space, kind, alignment, vector, tuple(attributes)

    def _declarator(
        self,
        space: str,
        kind: str,
        alignment: int | None,
        vector: int,
        attributes: tuple[str, ...],
        linkage: frozenset[str],
        *,
        parameter: bool = False,
    ) -> Variable:
        line, column = self.place()
        name = self.name("the variable's name")
        count = None
        if self.accept("<"):
            count = self.integer("how many there are")
            self.expect(">")
        dims: list[int | None] = []
        while self.accept("["):
            if self.accept("]"):
                dims.append(None)
            else:
                size = self._conditional(0)
                if size < 0:
                    self.fail("a size of at least zero", f"an array of {size} elements")
                dims.append(size)
                self.expect("]")
            self.deep(len(dims))
        initializer = None
        if not parameter and self.accept("="):
            values: list[Expression] = []
            self._initializer(values, 0)
            initializer = tuple(values)
        return Variable(
            line,
            column,
            space,
            kind,
            name,
            tuple(dims),
            alignment,
            vector,
            count,
            initializer,
            linkage,
            attributes,
        )

    def _variables(self, linkage: frozenset[str]) -> list[Variable]:
        head = self._declaration_head()
        found = [self._declarator(*head, linkage)]
        while self.accept(","):
            found.append(self._declarator(*head, linkage))
        self.expect(";")
        return found

    def _initializer(self, values: list[Expression], depth: int) -> None:
        self.deep(depth)
        if self.accept("{"):
            first = True
            while not self.accept("}"):
                if not first:
                    self.expect(",", "',' or '}'")
                first = False
                self._initializer(values, depth + 1)
        elif self.kind == "word" and self.text != "WARP_SZ":
            values.append(self._symbol())
        else:
            values.append(self.literal())

    def _symbol(self) -> SymbolOffset:
        line, column = self.place()
        name = self.name()
        generic = False
        if name == "generic" and self.accept("("):
            generic = True
            name = self.name("the name of a variable")
        elif self.next_is("("):
            self.fail("the name of a variable", "masked addresses in initializers are not supported")
        offset = self._offset()
        if generic:
            self.expect(")")
            offset += self._offset()
        return SymbolOffset(line, column, name, offset, generic)

    def _offset(self) -> int:
        offset = 0
        while self.next_is("+") or self.next_is("-"):
            sign = -1 if self.text == "-" else 1
            self.at += 1
            offset += sign * self._unary(0)
        return offset

    # --- statements -------------------------------------------------------------------------------------

    def _block(self) -> Block:
        """The statements in braces; nested blocks are kept on a list, so depth costs no stack."""
        line, column = self.place()
        self.expect("{")
        open_blocks: list[tuple[int, int, list[Statement]]] = [(line, column, [])]
        while True:
            if self.kind == "end":
                self.fail("'}' that closes the block")
            if self.accept("}"):
                line, column, statements = open_blocks.pop()
                block = Block(line, column, tuple(statements))
                if not open_blocks:
                    return block
                open_blocks[-1][2].append(block)
            elif self.next_is("{"):
                line, column = self.place()
                if len(open_blocks) >= 1000:
                    raise PtxLimitError(
                        "more than 1000 levels of nesting",
                        line=line,
                        column=column,
                        text=self.tokens.source[line - 1],
                    )
                self.at += 1
                open_blocks.append((line, column, []))
            else:
                self._statement(open_blocks[-1][2])

    def _statement(self, into: list[Statement]) -> None:
        kind = self.kind
        if kind == "word":
            if self.texts[self.at + 1] == ":" and self.kinds[self.at + 1] == "punct":
                into.append(self._label())
            else:
                into.append(self._instruction(None))
        elif kind == "dot":
            self._directive(into)
        elif self.accept("@"):
            line, column = self.place()
            negated = self.accept("!")
            guard = Guard(line, column, self.name("a predicate register"), negated)
            into.append(self._instruction(guard))
        elif not self.accept(";"):
            self.fail("an instruction, a label, a declaration or '}'")

    def _label(self) -> Label | BranchTargets | CallPrototype:
        line, column = self.place()
        name = self.name()
        self.expect(":")
        if self.accept(".branchtargets") or self.accept(".calltargets"):
            calls = self.texts[self.at - 1] == ".calltargets"
            names = [self.name("a label")]
            while self.accept(","):
                names.append(self.name("a label"))
            self.expect(";")
            if calls:
                return CallPrototype(line, column, name, tuple(names))
            return BranchTargets(line, column, name, tuple(names))
        if self.accept(".callprototype"):
            returns: tuple[Variable, ...] = ()
            if self.next_is("("):
                returns = self._parameters()
            self.name("'_'")
            params = self._parameters() if self.next_is("(") else ()
            self._function_directives([])
            self.expect(";")
            return CallPrototype(line, column, name, (), returns, params)
        return Label(line, column, name)

    def _directive(self, into: list[Statement]) -> None:
        text = self.text
        if text == ".reg":
            into.extend(self._registers())
        elif text == ".loc":
            self._location()
        elif text == ".pragma":
            into.append(self._pragma())
        elif text in _SPACES or text in _LINKAGE:
            linkage: set[str] = set()
            while self.kind == "dot" and self.text in _LINKAGE:
                linkage.add(self.text[1:])
                self.at += 1
            if self.text not in _SPACES:
                self.fail("a state space such as .shared")
            into.extend(self._variables(frozenset(linkage)))
        else:
            self.fail("an instruction or a directive such as .reg, .shared or .loc")

    def _registers(self) -> list[RegisterDeclaration]:
        _, kind, _, vector, _ = self._declaration_head()
        found = []
        while True:
            line, column = self.place()
            name = self.name("the register's name")
            count = None
            if self.accept("<"):
                count = self.integer("how many there are")
                self.expect(">")
            found.append(RegisterDeclaration(line, column, kind, name, count, vector))
            if not self.accept(","):
                break
        self.expect(";")
        return found

    def _location(self) -> None:
        line, _ = self.place()
        self.at += 1
        here = self._three()
        inlined_at: tuple[Loc | None, bool] = None, True
        while self.accept(","):
            what = self.name("function_name or inlined_at")
            if what == "function_name":
                self.name("a label")
                self._offset()
            elif what == "inlined_at":
                inlined_at = self._caller(self._three())
            else:
                self.at -= 1
                self.fail("function_name or inlined_at")
        if line not in self.assembly:
            self.loc = Loc(*here, *inlined_at)
            before = self.callers.get(here)
            several = before is not None and (before[1] or before[0] != self.loc)
            self.callers[here] = self.loc, several

    def _caller(self, place: tuple[int, int, int]) -> tuple[Loc, bool]:
        """The place where a function was inlined, and whether the text leaves no doubt about it.

        That place may itself be in an inlined function: an earlier .loc says so. If several do, compilers
        mean one of them and do not say which; the last one is the likeliest.
        """
        found, several = self.callers.get(place, (Loc(*place), False))
        return (Loc(*place), True) if found.depth >= _MOST_INLINED else (found, not several)

    def _three(self) -> tuple[int, int, int]:
        """A file, a line and a column."""
        file, line, column = (min(self.integer("file, line and column"), _LINE_LIMIT) for _ in range(3))
        return file, line, column

    def _instruction(self, guard: Guard | None) -> Instruction:
        line, column = self.place()
        if guard is not None:
            line, column = guard.line, max(1, guard.column - 1)
        opcode = self.take("word", "an instruction")
        modifiers: list[str] = []
        while self.kind == "dot":
            modifiers.append(self.text[1:])
            self.at += 1
        operands: list[Operand] = []
        if self.next_is("}") or self.kind == "end":
            self.fail("';' after the instruction")
        if not self.next_is(";"):
            operands.append(self._operand(0))
            while self.accept(","):
                operands.append(self._operand(0))
        self.expect(";", "',' or ';'")
        loc = self.table.places.get(line) if self.table else self.loc
        return Instruction(line, column, opcode, tuple(modifiers), tuple(operands), guard, loc)

    # --- operands ---------------------------------------------------------------------------------------

    def _operand(self, depth: int) -> Operand:
        self.deep(depth)
        line, column = self.place()
        operand = self._simple_operand(depth, line, column)
        if isinstance(operand, Name | Sink) and self.accept("|"):
            return Pair(line, column, operand, self._simple_operand(depth, *self.place()))
        return operand

    def _simple_operand(self, depth: int, line: int, column: int) -> Operand:  # noqa: RET503 - what it ends in raises
        kind = self.kind
        if kind == "word":
            return self._name_operand(line, column)
        if kind in {"int", "float", "hexfloat"} or self.text in {"-", "+", "~"}:
            return self.literal()
        if self.accept("{"):
            return Vector(line, column, self._list("}", depth))
        if self.accept("["):
            return self._address(line, column, depth)
        if self.next_is("!"):
            if self.kinds[self.at + 1] == "word":
                self.at += 1
                return Negated(line, column, self._plain_name(*self.place()))
            return self.literal()
        if self.next_is("("):
            # Parentheses hold a call's operands, or a constant expression.
            if self._is_expression():
                return self.literal()
            self.at += 1
            return Sequence(line, column, self._list(")", depth))
        self.fail("an operand: a register, a number, a vector or an address")

    def _is_expression(self) -> bool:
        at = self.at
        while self.kinds[at] == "punct" and self.texts[at] in {"(", "-", "~", "+"}:
            at += 1
        if self.kinds[at] == "dot":
            return True
        return self.kinds[at] == "int" and self.texts[at + 1] not in {",", ")"}

    def _list(self, close: str, depth: int) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while not self.accept(close):
            if items:
                self.expect(",", f"',' or '{close}'")
            items.append(self._operand(depth + 1))
        return tuple(items)

    def _plain_name(self, line: int, column: int) -> Name:
        text = self.name("a register")
        if self.kind == "dot" and self.text in _COMPONENTS:
            text += self.text
            self.at += 1
        return Name(line, column, text)

    def _name_operand(self, line: int, column: int) -> Operand:
        if self.text == "_":
            self.at += 1
            return Sink(line, column)
        if self.text == "WARP_SZ":
            return self.literal()
        if self.text == "generic" and self.texts[self.at + 1] == "(":
            return self._symbol()
        name = self._plain_name(line, column)
        if self.next_is("+") or self.next_is("-"):
            return SymbolOffset(line, column, name.text, self._offset())
        return name

    def _address(self, line: int, column: int, depth: int) -> Address:
        base: Name | None = None
        offset = 0
        if self.kind == "word" and self.text != "WARP_SZ":
            base = self._plain_name(*self.place())
            offset = self._offset()
        else:
            value = self.literal()
            if isinstance(value, FloatLiteral):
                self.fail("an address", "a floating-point number is not an address")
            offset = value.value
        coordinates: list[Operand] = []
        while self.accept(","):
            coordinates.append(self._operand(depth + 1))
        self.expect("]", "']'")
        return Address(line, column, base, offset, tuple(coordinates))
