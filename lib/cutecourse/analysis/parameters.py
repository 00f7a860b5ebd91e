"""The kernel of a PTX text that is meant, and what its parameters are for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutecourse.analysis.errors import InputError
from cutecourse.ptx.checks import names, registers
from cutecourse.ptx.scopes import FlatFunction, Register, Scope, type_bits
from cutecourse.ptx.syntax import (
    Address,
    Function,
    Instruction,
    Module,
    Variable,
)

__all__ = [
    "Parameter",
    "destinations",
    "find_entry",
    "parameters",
]

# Addresses are made of addresses by these.
_CARRY = {"mov", "add", "sub", "cvta", "mad", "selp", "shfl"}


def find_entry(module: Module, name: str | None) -> Function:
    """The kernel that is meant. Errors: InputError, with the names that there are."""
    entries = {found: entry for found, entry in module.entries.items() if entry.body is not None}
    known = ", ".join(entries) or "none"
    if name is None:
        if len(entries) != 1:
            raise InputError(f"the text has {len(entries)} kernels. Say which is the entry: {known}")
        name = next(iter(entries))
    if name not in entries:
        raise InputError(f"the text has no kernel {name!r}; it has: {known}")
    return entries[name]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: how it is declared, and what the text uses it as.

    role       "pointer", "tensor map", "scalar", "struct", or "unused": never read.
    give       how the command line gives it, as `in:FILE.npy`.
    accesses   of a pointer: the instructions that read or write its memory, such as "ld.global.f32".
    """

    name: str
    declared: str
    bytes: int
    role: str
    give: str
    accesses: tuple[str, ...] = ()


def parameters(flat: FlatFunction) -> list[Parameter]:
    """The use of each parameter of a kernel, as far as the text shows it.

    Simplified: a 64-bit value is a pointer where it, or what is computed of it, is converted to an address or
    stands in brackets; a parameter of 128 bytes aligned to 64 is taken for a tensor map.
    """
    pointers = _pointers(flat)
    read = _mentioned(flat)
    return [_parameter(variable, pointers, read) for variable in flat.function.params]


def _parameter(variable: Variable, pointers: dict[str, dict[str, None]], read: set[str]) -> Parameter:
    width = (type_bits(variable.type) or 8) // 8 * variable.vector
    size = width
    for extent in variable.dims:
        size *= extent or 1
    alignment = f".align {variable.alignment} " if variable.alignment and variable.dims else ""
    declared = f"{alignment}.{variable.type}" + "".join(f"[{extent}]" for extent in variable.dims)
    is_pointer = variable.name in pointers or "ptr" in variable.attributes
    if size == 128 and variable.dims and (variable.alignment or 1) >= 64:
        role, give = "tensor map", "map:FILE.json"
    elif is_pointer and size == 8:
        role, give = "pointer", "in:FILE.npy or out:FILE.npy:TYPE:SHAPE"
    elif variable.dims:
        role, give = "struct", "{FIELD,FIELD,...} or bytes:HEX"
    else:
        role, give = "scalar", f"{variable.type}:VALUE"
    if variable.name not in read:
        role += ", never read"
    return Parameter(variable.name, declared, size, role, give, tuple(pointers.get(variable.name, ())))


def _mentioned(flat: FlatFunction) -> set[str]:
    return {
        name.text
        for instruction in flat.instructions
        for operand in instruction.operands
        for name in names(operand)
    }


def _pointers(flat: FlatFunction) -> dict[str, dict[str, None]]:
    """Parameters whose value ends up as an address, with the names of the instructions that use it."""
    params = {variable.name for variable in flat.function.params}
    origin: dict[int, set[str]] = {}
    for instruction, scope in _in_order(flat):
        base = _base(instruction)
        if instruction.opcode == "ld" and "param" in instruction.modifiers and base in params:
            for register in destinations(instruction, scope):
                if register.bits == 64:
                    origin.setdefault(register.index, set()).add(base)
    found: dict[str, dict[str, None]] = {}
    changed = True
    while changed:
        changed = False
        for instruction, scope in _in_order(flat):
            sources: set[str] = set()
            for operand in instruction.operands[1:]:
                for register in registers(operand, scope):
                    sources |= origin.get(register.index, set())
            if instruction.opcode == "cvta":
                found |= {name: {} for name in sources}
            if sources and instruction.opcode in _CARRY:
                for register in destinations(instruction, scope):
                    known = origin.setdefault(register.index, set())
                    if register.bits == 64 and not sources <= known:
                        known |= sources
                        changed = True
    for instruction, scope in _in_order(flat):
        for operand in instruction.operands:
            if isinstance(operand, Address) and operand.base is not None:
                symbol = scope.lookup(operand.base.text)
                if isinstance(symbol, Register):
                    for name in origin.get(symbol.index, ()):
                        found.setdefault(name, {})[instruction.name] = None
    return found


def _in_order(flat: FlatFunction) -> Iterator[tuple[Instruction, Scope]]:
    return zip(flat.instructions, flat.scopes, strict=True)


def _base(instruction: Instruction) -> str:
    for operand in instruction.operands:
        if isinstance(operand, Address) and operand.base is not None:
            return operand.base.text
    return ""


def destinations(instruction: Instruction, scope: Scope) -> list[Register]:
    """The registers that an instruction may write: those of its first operand, read or written.

    A call's results and `%p|%q` are among them; an address is not.
    """
    if not instruction.operands or isinstance(instruction.operands[0], Address):
        return []
    return list(registers(instruction.operands[0], scope))
