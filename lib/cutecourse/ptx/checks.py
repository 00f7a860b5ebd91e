"""Checks of a parsed module that need no machine: every name is declared, every branch has a target."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from cutecourse.ptx.checked import CheckedModule
from cutecourse.ptx.errors import PtxError, PtxNameError
from cutecourse.ptx.parser import parse
from cutecourse.ptx.scopes import FlatFunction, Register, Scope, flatten
from cutecourse.ptx.sources import LineTable, SourcedText
from cutecourse.ptx.syntax import (
    Address,
    BranchTargets,
    Function,
    Instruction,
    Module,
    Name,
    Negated,
    Operand,
    Pair,
    Sequence,
    SymbolOffset,
    Variable,
    Vector,
)

__all__ = ["SPECIAL_REGISTERS", "check", "is_special", "names", "read_module", "registers"]

_XYZ = ("x", "y", "z")
SPECIAL_REGISTERS: frozenset[str] = frozenset(
    [
        *(f"%{name}.{c}" for name in ("tid", "ntid", "ctaid", "nctaid") for c in _XYZ),
        *(f"%{name}.{c}" for name in ("clusterid", "nclusterid") for c in _XYZ),
        *(f"%{name}.{c}" for name in ("cluster_ctaid", "cluster_nctaid") for c in _XYZ),
        *(f"%pm{i}" for i in range(8)),
        *(f"%pm{i}_64" for i in range(8)),
        *(f"%envreg{i}" for i in range(32)),
        *("%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid"),
        *(f"%lanemask_{c}" for c in ("eq", "le", "lt", "ge", "gt")),
        *("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"),
        *("%total_smem_size", "%aggr_smem_size", "%dynamic_smem_size", "%current_graph_exec"),
        *("%is_explicit_cluster", "%cluster_ctarank", "%cluster_nctarank"),
        *(f"%reserved_smem_offset_{c}" for c in ("begin", "end", "cap", "0", "1")),
    ]
)
"""Source: PTX ISA 9.0, Special Registers (#special-registers)."""


def is_special(name: str) -> bool:
    """Return whether a name is a special register, such as %tid.x."""
    return name in SPECIAL_REGISTERS


def read_module(text: str) -> CheckedModule:
    """Parse and check a text. The result is kept for whoever reads the text next, because nothing changes it.

    Raises PtxError with the line.
    """
    return _read(text, text.line_table if isinstance(text, SourcedText) else None)


@lru_cache(maxsize=32)
def _read(text: str, _table: LineTable | None) -> CheckedModule:
    """Two kernels may have the same text and come from different files: the table is part of the key."""
    return check(parse(text))


def check(module: Module) -> CheckedModule:
    """Refuse a module in which a name is used and not declared, or a guard is no predicate.

    Raises PtxNameError or PtxError with the line.
    """
    flats: dict[str, FlatFunction] = {}
    for function in module.functions:
        if function.body is not None:
            flat = flats[function.name] = flatten(module, function)
            _check_variables(module, flat)
            for instruction, scope in zip(flat.instructions, flat.scopes, strict=True):
                _check_instruction(module, instruction, scope)
    for variable in module.variables:
        _check_initializer(module, variable, None)
    return CheckedModule(module, flats)


def _check_variables(module: Module, flat: FlatFunction) -> None:
    for variable in flat.variables:
        _check_initializer(module, variable, flat.scope)


def _check_initializer(module: Module, variable: Variable, scope: Scope | None) -> None:
    known = {v.name for v in module.variables} | {f.name for f in module.functions}
    for value in variable.initializer or ():
        if isinstance(value, SymbolOffset) and value.symbol not in known:
            if scope is None or scope.lookup(value.symbol) is None:
                _undeclared(module, value.symbol, value)


def _check_instruction(module: Module, instruction: Instruction, scope: Scope) -> None:
    guard = instruction.guard
    if guard is not None:
        found = scope.lookup(guard.name)
        if found is None:
            _undeclared(module, guard.name, guard)
        if not isinstance(found, Register) or found.type != "pred":
            raise PtxError(
                f"{guard.name} guards an instruction but is not a predicate register",
                line=guard.line,
                column=guard.column,
                text=module.line_text(guard.line),
                expected="a register declared as .pred",
            )
    for item in instruction.operands:
        for name in names(item):
            if scope.lookup(name.text) is None:
                base = name.text.rpartition(".")[0]
                is_part = bool(base) and isinstance(scope.lookup(base), Register)
                if is_part and is_special(name.text):
                    _hidden(module, name, base)
                if scope.vector(name.text) is not None:
                    _whole(module, name)
                if not is_part and not is_special(name.text):
                    _undeclared(module, name.text, name)
    if instruction.opcode in {"bra", "brx"}:
        target = instruction.operands[-1] if instruction.operands else None
        found = scope.lookup(target.text) if isinstance(target, Name) else None
        if isinstance(found, Register | Variable | Function):
            raise PtxError(
                f"{instruction.name} needs a label, but {target} is not one",
                line=instruction.line,
                column=instruction.column,
                text=module.line_text(instruction.line),
                expected="a label or a list of branch targets",
            )
        if isinstance(found, BranchTargets):
            for label in found.labels:
                if scope.lookup(label) is None:
                    _undeclared(module, label, found)


def _undeclared(module: Module, name: str, node: Name | SymbolOffset | BranchTargets | object) -> None:
    line, column = getattr(node, "line", 1), getattr(node, "column", 1)
    what = "register" if name.startswith("%") else "name"
    raise PtxNameError(
        f"{name!r} is used but not declared",
        line=line,
        column=column,
        text=module.line_text(line),
        expected=f"a declared {what}",
    )


def _whole(module: Module, name: Name) -> None:
    """Refuse a vector register where one word is needed, as in an address."""
    raise PtxNameError(
        f"{name.text!r} is a vector register",
        line=name.line,
        column=name.column,
        text=module.line_text(name.line),
        expected=f"one of its parts, such as {name.text}.x",
    )


def _hidden(module: Module, name: Name, register: str) -> None:
    """Refuse `%tid.x` where a register `%tid` is declared, as ptxas does."""
    raise PtxNameError(
        f"{name.text!r} is a part of the register {register!r} here, because that name is declared",
        line=name.line,
        column=name.column,
        text=module.line_text(name.line),
        expected=f"another name for the declared register, so that {name.text} is the special register",
    )


def names(operand: Operand) -> Iterator[Name]:
    """Every name that an operand mentions, also within vectors, pairs and addresses."""
    match operand:
        case Name():
            yield operand
        case Negated(name=name):
            yield name
        case Pair(first=first, second=second):
            yield from names(first)
            yield from names(second)
        case Vector(items=items) | Sequence(items=items):
            for item in items:
                yield from names(item)
        case Address(base=base, coordinates=coordinates):
            if base is not None:
                yield base
            for item in coordinates:
                yield from names(item)
        case SymbolOffset():
            yield Name(operand.line, operand.column, operand.symbol)
        case _:
            return


def registers(operand: Operand, scope: Scope) -> Iterator[Register]:
    """The registers that an operand names."""
    for name in names(operand):
        found = scope.lookup(name.text)
        if isinstance(found, Register):
            yield found
