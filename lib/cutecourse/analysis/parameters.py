"""The kernel of a PTX text that is meant, and what its parameters are for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutecourse.analysis.errors import InputError
from cutecourse.emulator.core.registry import facts_of
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
    reads      True if one of them reads it for a register or another memory, or only names it.
    writes     True if one of them writes it.
    """

    name: str
    declared: str
    bytes: int
    role: str
    give: str
    accesses: tuple[str, ...] = ()
    reads: bool = False
    writes: bool = False


def parameters(flat: FlatFunction) -> list[Parameter]:
    """The use of each parameter of a kernel, as far as the text shows it.

    Simplified: a 64-bit value is a pointer where it, or what is computed of it, is converted to an address or
    stands in brackets; a parameter of 128 bytes aligned to 64 is taken for a tensor map.
    """
    pointers = _pointers(flat)
    read = _mentioned(flat)
    return [_parameter(variable, pointers, read) for variable in flat.function.params]


def _parameter(variable: Variable, pointers: dict[str, dict[str, Instruction]], read: set[str]) -> Parameter:
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
    accesses = pointers.get(variable.name, {})
    found = [_reads_and_writes(one) for one in accesses.values()]
    reads, writes = any(reads for reads, _ in found), any(writes for _, writes in found)
    return Parameter(variable.name, declared, size, role, give, tuple(accesses), reads, writes)


def _reads_and_writes(one: Instruction) -> tuple[bool, bool]:
    """Return whether an instruction reads and writes the global memory at its address.

    A reduction without a result only writes. An instruction that touches no memory counts as a reader.
    """
    uses = [use for use in facts_of(one).uses if use.may_be_global]
    returns = bool(one.operands) and not isinstance(one.operands[0], Address)
    writes = any(use.writes for use in uses)
    reads = any(use.reads and (returns or not use.writes) for use in uses)
    return reads or not writes, writes


def _mentioned(flat: FlatFunction) -> set[str]:
    return {
        name.text
        for instruction in flat.instructions
        for operand in instruction.operands
        for name in names(operand)
    }


def _pointers(flat: FlatFunction) -> dict[str, dict[str, Instruction]]:
    """Parameters whose value ends up as an address, with the instructions that use it, by their names."""
    params = {variable.name for variable in flat.function.params}
    origin: dict[int, set[str]] = {}
    for instruction, scope in _in_order(flat):
        base = _base(instruction)
        if base in params and facts_of(instruction).reads("param"):
            for register in destinations(instruction, scope):
                if register.bits == 64:
                    origin.setdefault(register.index, set()).add(base)
    found: dict[str, dict[str, Instruction]] = {}
    changed = True
    while changed:
        changed = False
        for instruction, scope in _in_order(flat):
            sources: set[str] = set()
            for operand in instruction.operands[1:]:
                for register in registers(operand, scope):
                    sources |= origin.get(register.index, set())
            address = facts_of(instruction).address if sources else ""
            if address == "converted":
                found |= {name: {} for name in sources}
            if address:
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
                        found.setdefault(name, {})[instruction.name] = instruction
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
