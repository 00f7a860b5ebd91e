"""The kernel of a PTX text that is meant, and what its parameters are for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from cutecourse.analysis.errors import InputError
from cutecourse.emulator.core.facts import IntegerOperation
from cutecourse.emulator.core.registry import facts_of
from cutecourse.ptx.checks import names, registers
from cutecourse.ptx.demangle import listed
from cutecourse.ptx.scopes import FlatFunction, Register, Scope, type_bits
from cutecourse.ptx.syntax import (
    Address,
    Function,
    Instruction,
    Module,
    Name,
    Variable,
    Vector,
)

__all__ = [
    "Parameter",
    "destinations",
    "find_entry",
    "parameters",
]

_MAP_BYTES = 128
_TEMPLATE_BYTES = 4 << 20
"""The size of an array in a template: most kernels of one CTA stay inside."""


def find_entry(module: Module, name: str | None) -> Function:
    """Return the kernel of this name, or of which it is a part that no other kernel's name has.

    Errors: InputError, with the names that there are.
    """
    entries = [found for found, entry in module.entries.items() if entry.body is not None]
    known = listed(entries)
    if name is None:
        if len(entries) != 1:
            raise InputError(f"the text has {len(entries)} kernels. Say which is the entry:{known}")
        return module.entries[entries[0]]
    fits = module.entries_named(name)
    if not fits or fits[0].body is None:
        raise InputError(f"the text has no kernel {name!r}; it has:{known}")
    if len(fits) > 1:
        several = listed([one.name for one in fits])
        raise InputError(f"{len(fits)} kernels have {name!r} in their names:{several}")
    return fits[0]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: how it is declared, and what the text uses it as.

    name       as the text has it, but without the kernel's name and "_" before it.
    role       "pointer", "tensor map", "pointer to a tensor map", "scalar", "struct", "struct with a tensor
               map" (at its start, as CuTe's TMA atoms in C++ have it), or "..., never read".
    give       how the command line gives it, as `in:FILE.npy`.
    template   words that give it and can be run as they are, such as `zeros:f32:1048576` or `u32:1`.
    accesses   of a pointer: the instructions that read or write its memory, such as "ld.global.f32".
    reads      True if one of them reads it for a register or another memory, or only names it.
    writes     True if one of them writes it.
    used_by    of a scalar: the instructions that compute with it, each with its line.
    in_address True if an address is computed from a scalar.
    is_struct  True if it is declared as an array of bytes.
    fields     the offsets in bytes that the kernel loads, and as which type.
    """

    name: str
    declared: str
    bytes: int
    role: str
    give: str
    template: str
    accesses: tuple[str, ...] = ()
    reads: bool = False
    writes: bool = False
    used_by: tuple[Instruction, ...] = ()
    in_address: bool = False
    is_struct: bool = False
    fields: tuple[tuple[int, str], ...] = ()


def parameters(flat: FlatFunction) -> list[Parameter]:
    """The use of each parameter of a kernel, as far as the text shows it.

    Simplified: a 64-bit value is a pointer where it, or what is computed of it, is converted to an address or
    stands in brackets; a parameter of 128 bytes aligned to 64 is taken for a tensor map.
    """
    uses = _Uses(flat)
    return [_parameter(variable, uses) for variable in flat.function.params]


def _parameter(variable: Variable, uses: _Uses) -> Parameter:
    width = (type_bits(variable.type) or 8) // 8 * variable.vector
    size = width
    for extent in variable.dims:
        size *= extent or 1
    alignment = f".align {variable.alignment} " if variable.alignment and variable.dims else ""
    declared = f"{alignment}.{variable.type}" + "".join(f"[{extent}]" for extent in variable.dims)
    name = uses.flat.function.shown(variable)
    accesses = uses.pointers.get((variable.name, 0), {})
    is_pointer = (variable.name, 0) in uses.pointers or "ptr" in variable.attributes
    found = [_reads_and_writes(one) for one in accesses.values()]
    reads, writes = any(reads for reads, _ in found), any(writes for _, writes in found)
    used_by: tuple[Instruction, ...] = ()
    if size == _MAP_BYTES and variable.dims and (variable.alignment or 1) >= 64:
        role, give = "tensor map", "map:FILE.json"
        template = _map_template(accesses.values())
    elif is_pointer and size == 8 and _rank_of_map(accesses.values()):
        role, give = "pointer to a tensor map", "map:FILE.json"
        template = _map_template(accesses.values())
    elif is_pointer and size == 8:
        role, give = "pointer", "in:FILE.npy or out:FILE.npy:TYPE:SHAPE"
        template = _array_template(name, accesses, writes)
    elif variable.dims and size > _MAP_BYTES and _rank_of_map(accesses.values()):
        role, give = "struct with a tensor map", "{map:FILE.json,FIELD,...}"
        behind = f"bytes:{'00' * (size - _MAP_BYTES)}"
        template = f"{{{_map_template(accesses.values())},{behind}}}"
    elif variable.dims:
        role, give = "struct", "{FIELD,FIELD,...} or bytes:HEX"
        template = _struct_template(name, variable.name, size, uses)
    else:
        role, give = "scalar", f"{variable.type}:VALUE"
        template = f"{variable.type}:1"
        used_by = tuple(uses.computing.get(variable.name, {}).values())
    if variable.name not in uses.mentioned:
        role += ", never read"
    return Parameter(
        name,
        declared,
        size,
        role,
        give,
        template,
        tuple(accesses),
        reads,
        writes,
        used_by,
        role == "scalar" and variable.name in uses.in_addresses,
        bool(variable.dims),
        tuple(sorted(uses.fields.get(variable.name, {}).items())),
    )


# --- words that can be run as they are ----------------------------------------------------------------------


def _element(names_of: Iterable[str]) -> str:
    """The element type that most of these instructions name, as `dtype` knows it; u8 where none does."""
    types: Counter[str] = Counter()
    for name in names_of:
        for word in reversed(name.split(".")):
            bits = type_bits(word)
            if bits in {8, 16, 32, 64}:
                types[f"u{bits}" if word[0] == "b" and word != "bf16" else word] += 1
                break
            if word.endswith("x2") and type_bits(word.removesuffix("x2")) == 16:
                types[word.removesuffix("x2")] += 1
                break
    return types.most_common(1)[0][0] if types else "u8"


def _array_template(name: str, accesses: Iterable[str], writes: bool) -> str:
    element = _element(accesses)
    count = _TEMPLATE_BYTES * 8 // (type_bits(element) or 8)
    return f"out:{name}.npy:{element}:{count}" if writes else f"zeros:{element}:{count}"


def _rank_of_map(accesses: Iterable[Instruction]) -> int | None:
    """The dimensions of the tensor map that one of these instructions uses, if one does."""
    for one in accesses:
        ranks = [int(word[0]) for word in one.modifiers if word in {"1d", "2d", "3d", "4d", "5d"}]
        if ranks and facts_of(one).pipe is not None:
            return ranks[0]
    return None


def _map_template(accesses: Iterable[Instruction]) -> str:
    rank = _rank_of_map(accesses) or 2
    dims = [64, 64, *[1] * 5][:rank]
    strides = [2 * prod(dims[:axis]) for axis in range(1, rank)]
    array = f"zeros:f16:{'x'.join(map(str, reversed(dims)))}"
    fields = {"array": array, "dtype": "f16", "dims": dims, "strides_bytes": strides, "box": dims}
    return f"map:{json.dumps(fields)}"


def _struct_template(name: str, variable: str, size: int, uses: _Uses) -> str:
    """A struct's fields as the kernel loads them, with bytes of 0 between; each pointer is an array."""
    parts, end = [], 0
    for offset, kind in sorted(uses.fields.get(variable, {}).items()):
        n_bytes = (type_bits(kind) or 8) // 8
        if offset < end or offset % n_bytes or offset + n_bytes > size:
            continue
        if offset > end:
            parts.append(f"bytes:{'00' * (offset - end)}")
        accesses = uses.pointers.get((variable, offset))
        if accesses is None or n_bytes != 8:
            parts.append(f"{kind}:1")
        else:
            writes = any(_reads_and_writes(one)[1] for one in accesses.values())
            parts.append(_array_template(f"{name}_{offset}", accesses, writes))
        end = offset + n_bytes
    return "{" + ",".join(parts) + "}" if parts else f"bytes:{'00' * size}"


# --- the text's use of parameters ---------------------------------------------------------------------------


def _reads_and_writes(one: Instruction) -> tuple[bool, bool]:
    """Return whether an instruction reads and writes the global memory at its address.

    A reduction without a result only writes. An instruction that touches no memory counts as a reader.
    """
    uses = [use for use in facts_of(one).uses if use.may_be_global]
    returns = bool(one.operands) and not isinstance(one.operands[0], Address)
    writes = any(use.writes for use in uses)
    reads = any(use.reads and (returns or not use.writes) for use in uses)
    return reads or not writes, writes


class _Uses:
    """The use that a kernel's text makes of its parameters.

    A value in a parameter is known by the parameter's name and its offset there, in bytes.
    """

    def __init__(self, flat: FlatFunction) -> None:
        self.flat = flat
        self.mentioned = {
            name.text for one in flat.instructions for operand in one.operands for name in names(operand)
        }
        self.fields: dict[str, dict[int, str]] = {}
        """For each parameter the offsets that are loaded, and as which type."""
        self.pointers: dict[tuple[str, int], dict[str, Instruction]] = {}
        """Values that end up as an address, with the instructions that use it, by their names."""
        self.computing: dict[str, dict[str, Instruction]] = {}
        """For each parameter the instructions that compute with its value, by their names."""
        self.in_addresses: set[str] = set()
        """Parameters from whose values addresses are computed, in whatever way."""
        params = {variable.name: variable for variable in flat.function.params}
        loaded: dict[int, set[tuple[str, int]]] = {}
        for instruction, scope in _in_order(flat):
            base, offset = _base(instruction)
            if base not in params:
                base = next((o.text for o in instruction.operands[1:] if isinstance(o, Name)), "")
                if base not in params:
                    continue
            elif not facts_of(instruction).reads("param"):
                continue
            else:
                self._note_fields(base, offset, instruction)
            written = destinations(instruction, scope)
            for place, register in enumerate(written):
                loaded.setdefault(register.index, set()).add((base, offset + place * register.bits // 8))
        self._find_pointers(loaded)
        self._find_scalars(loaded)

    def _note_fields(self, base: str, offset: int, instruction: Instruction) -> None:
        kinds = [word for word in instruction.modifiers if type_bits(word) is not None]
        count = len(instruction.operands[0].items) if isinstance(instruction.operands[0], Vector) else 1
        for place in range(count if kinds else 0):
            at = offset + place * (type_bits(kinds[-1]) or 8) // 8
            self.fields.setdefault(base, {})[at] = kinds[-1]

    def _find_pointers(self, loaded: dict[int, set[tuple[str, int]]]) -> None:
        flat = self.flat
        origin = {index: set(places) for index, places in loaded.items()}
        changed = True
        while changed:
            changed = False
            for instruction, scope in _in_order(flat):
                sources = self._sources(instruction, scope, origin)
                address = facts_of(instruction).address if sources else ""
                if address == "converted":
                    for place in sources:
                        self.pointers.setdefault(place, {})
                if address:
                    for register in destinations(instruction, scope):
                        known = origin.setdefault(register.index, set())
                        if register.bits == 64 and not sources <= known:
                            known |= sources
                            changed = True
        for instruction, scope in _in_order(flat):
            for operand in instruction.operands:
                if not isinstance(operand, Address) or operand.base is None:
                    continue
                symbol = scope.lookup(operand.base.text)
                if isinstance(symbol, Register) and symbol.bits == 64:
                    for place in origin.get(symbol.index, ()):
                        self.pointers.setdefault(place, {})[instruction.name] = instruction
                elif operand.coordinates and operand.base.text in self.mentioned:
                    self.pointers.setdefault((operand.base.text, 0), {})[instruction.name] = instruction

    def _find_scalars(self, loaded: dict[int, set[tuple[str, int]]]) -> None:
        """Follow values through copies to what computes with them, and through everything to addresses."""
        copies = {index: set(places) for index, places in loaded.items()}
        derived = {index: set(places) for index, places in loaded.items()}
        changed = True
        while changed:
            changed = False
            for instruction, scope in _in_order(self.flat):
                if any(use.reads for use in facts_of(instruction).uses):
                    continue  # its result comes from memory
                is_copy = facts_of(instruction).computes in {IntegerOperation.COPY, IntegerOperation.CONVERT}
                for known, follows in ((copies, is_copy), (derived, True)):
                    sources = self._sources(instruction, scope, known)
                    if known is copies and sources and not is_copy:
                        for name, _ in sources:
                            self.computing.setdefault(name, {}).setdefault(instruction.name, instruction)
                    for register in destinations(instruction, scope) if follows and sources else ():
                        held = known.setdefault(register.index, set())
                        if not sources <= held:
                            held |= sources
                            changed = True
        for instruction, scope in _in_order(self.flat):
            for operand in instruction.operands:
                if isinstance(operand, Address) and operand.base is not None:
                    symbol = scope.lookup(operand.base.text)
                    if isinstance(symbol, Register):
                        self.in_addresses |= {name for name, _ in derived.get(symbol.index, ())}

    @staticmethod
    def _sources(
        instruction: Instruction, scope: Scope, known: dict[int, set[tuple[str, int]]]
    ) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for operand in facts_of(instruction).split(instruction.operands)[1]:
            for register in registers(operand, scope):
                found |= known.get(register.index, set())
        return found


def _in_order(flat: FlatFunction) -> Iterator[tuple[Instruction, Scope]]:
    return zip(flat.instructions, flat.scopes, strict=True)


def _base(instruction: Instruction) -> tuple[str, int]:
    """The name and the offset of an instruction's first address; an empty name if it has none."""
    for operand in instruction.operands:
        if isinstance(operand, Address) and operand.base is not None:
            return operand.base.text, operand.offset
    return "", 0


def destinations(instruction: Instruction, scope: Scope) -> list[Register]:
    """The registers that an instruction may write: its results, and those of the first operand of a call."""
    operands = instruction.operands
    results, _ = facts_of(instruction).split(operands)
    if not results and operands and not isinstance(operands[0], Address):
        results = operands[:1]
    return [register for one in results for register in registers(one, scope)]
