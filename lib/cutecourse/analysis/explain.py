"""A description of a PTX kernel: what it declares, where its asynchronous parts are, and how to run it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any

from cutecourse.analysis.parameters import Parameter, find_entry, parameters
from cutecourse.analysis.values import Bits, Values
from cutecourse.descriptors import (
    SMEM_SM90,
    SMEM_SM100,
    DescriptorFormat,
    instr_format,
)
from cutecourse.emulator.core.decode import decode
from cutecourse.emulator.core.placement import Placement
from cutecourse.emulator.core.registry import facts_of, lookup
from cutecourse.emulator.errors import EmulatorError
from cutecourse.emulator.launch import shared_limit_bytes
from cutecourse.ptx import CheckedModule, Function, Instruction, Module, read_module
from cutecourse.ptx.checks import names
from cutecourse.ptx.demangle import chooses, short_name
from cutecourse.ptx.scopes import FlatFunction
from cutecourse.ptx.sources import line_in_words, source_at
from cutecourse.ptx.syntax import Block, Name, Operand, RegisterDeclaration
from cutecourse.trace.words import number

__all__ = ["explain", "report"]

_SHOWN_NAME = 64
_SHOWN_USES = 3
_THREADS = 128
"""The threads of a CTA in the command line, where the text does not say how many."""
_MATRIX_FORMATS = {"sm_90 matrix": SMEM_SM90, "sm_100 matrix": SMEM_SM100}


def explain(text: str, entry: str | None = None, *, file: str = "kernel.ptx") -> dict[str, Any]:
    """Everything that the report says, as plain data; nothing runs.

    Errors: PtxError for a text that is none, InputError for a kernel that is not there.
    """
    checked = read_module(text)
    module = checked.module
    function = find_entry(module, entry)
    flats = checked.reached(function.name)
    sites = [site for flat in flats.values() for site in _sites(module, flat)]
    faults = _faults(checked, function)
    wanted = parameters(flats[function.name])
    return {
        "file": file,
        "kernel": function.name,
        "kernels": list(module.entries),
        "ptx_version": ".".join(map(str, module.version)),
        "target": list(module.target),
        "directives": {name: list(numbers) for name, numbers in function.directives},
        "registers": _registers(flats),
        "functions": [name for name in flats if name != function.name],
        "memory": _memory(module, function, flats),
        "parameters": [
            {
                "name": p.name,
                "declared": p.declared,
                "bytes": p.bytes,
                "role": p.role,
                "give": p.give,
                "accesses": list(p.accesses),
                "template": p.template,
                "reads": p.reads,
                "writes": p.writes,
                "used_by": [_at_line(module, one) for one in p.used_by],
                "in_address": p.in_address,
            }
            for p in wanted
        ],
        "instructions": sum(len(flat.instructions) for flat in flats.values()),
        "sites": sites,
        "refused": faults,
        "needs": _needs(module, function, flats, wanted, file),
    }


def _at_line(module: Module, one: Instruction) -> str:
    return f"{one.name} at line {line_in_words(module, one.line)}"


# --- what the text declares --------------------------------------------------------------------------------


def _registers(flats: dict[str, FlatFunction]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for flat in flats.values():
        blocks = [flat.function.body]
        while blocks:
            block = blocks.pop()
            for statement in block.statements if block else ():
                if isinstance(statement, Block):
                    blocks.append(statement)
                elif isinstance(statement, RegisterDeclaration):
                    count = 1 if statement.count is None else statement.count
                    counts[statement.type] += count * statement.vector
    return dict(sorted(counts.items()))


def _memory(module: Module, entry: Function, flats: dict[str, FlatFunction]) -> dict[str, Any]:
    try:
        placement = Placement(module, entry, flats, 0)
        shared, local = placement.shared_static, placement.local_bytes
    except EmulatorError as error:
        return {"refused": error.problem}
    inner = [variable for flat in flats.values() for variable in flat.variables]
    used = {
        name.text
        for flat in flats.values()
        for instruction in flat.instructions
        for operand in instruction.operands
        for name in names(operand)
    }
    return {
        "shared_static_bytes": shared,
        "shared_dynamic": sorted(
            v.name for v in (*module.variables, *inner) if v.space == "shared" and "extern" in v.linkage
        ),
        "local_bytes_per_thread": local,
        "variables": [
            {"space": v.space, "name": v.name, "used": v.name in used}
            for v in module.variables
            if v.space in {"global", "const"}
        ],
    }


def _needs(
    module: Module, entry: Function, flats: dict[str, FlatFunction], wanted: list[Parameter], file: str
) -> dict[str, Any]:
    """The facts that the launch must give because the text does not."""
    block = entry.directive("reqntid")
    cluster = entry.directive("reqnctapercluster")
    used = [instruction for flat in flats.values() for instruction in flat.instructions]
    pairs = any("cta_group::2" in instruction.modifiers for instruction in used)
    dynamic = any(
        v.space == "shared" and "extern" in v.linkage
        for v in (*module.variables, *(v for flat in flats.values() for v in flat.variables))
    )
    in_cluster = pairs or any(_of_a_cluster(instruction) for instruction in used)
    shape = list(cluster or [2 if pairs else 1])
    words = ["cutecourse", "emulate", file]
    words += ["--entry", chooses(list(module.entries), entry.name)] if len(module.entries) > 1 else []
    words += ["--grid", ",".join(map(str, shape))]
    words += [] if block else ["--block", ",".join(map(str, entry.directive("maxntid") or [_THREADS]))]
    words += ["--cluster", str(shape[0])] if in_cluster and not cluster else []
    words += ["--smem", str(_room(module, entry, flats))] if dynamic else []
    words += ["--cooperative"] if any(map(_of_the_grid, used)) else []
    for parameter in wanted:
        words += ["--arg", parameter.template]
    return {
        "block": list(block) if block else None,
        "cluster": list(cluster) if cluster else None,
        "cluster_instructions": in_cluster,
        "pairs_of_ctas": pairs,
        "dynamic_shared_memory": dynamic,
        "command": shlex.join(words),
    }


def _room(module: Module, entry: Function, flats: dict[str, FlatFunction]) -> int:
    """The dynamic shared memory that fits beside the static one, in bytes."""
    return max(0, shared_limit_bytes(module) - Placement(module, entry, flats, 0).shared_bytes)


def _of_the_grid(instruction: Instruction) -> bool:
    """Return whether an instruction asks for the workspace of a cooperative launch."""
    return any(isinstance(o, Name) and o.text == "%envreg1" for o in instruction.operands)


def _of_a_cluster(instruction: Instruction) -> bool:
    """Return whether an instruction refers to other CTAs of the cluster."""
    if facts_of(instruction).uses_cluster:
        return True
    return any(isinstance(o, Name) and o.text.startswith("%cluster_") for o in instruction.operands)


# --- sites -------------------------------------------------------------------------------------------------


def _sites(module: Module, flat: FlatFunction) -> Iterator[dict[str, Any]]:
    values = Values(flat)
    for position, instruction in enumerate(flat.instructions):
        found = lookup(instruction.opcode, instruction.modifiers)
        kind = found[0].facts_of(instruction).category if found else "unknown"
        if not kind:
            continue
        source = source_at(module, instruction.loc)
        yield {
            "line": instruction.line,
            "function": flat.function.name,
            "source": str(source) if source else None,
            "kind": kind,
            "instruction": instruction.name,
            "what": found[0].summary if found else "The emulator does not know this instruction.",
            "documented_in": found[0].source if found else None,
            "descriptors": [
                _decoded(operand, fmt, values.of(item, position, fmt.bits))
                for operand, fmt, item in _descriptors(instruction)
            ],
        }


def _descriptors(instruction: Instruction) -> Iterator[tuple[str, DescriptorFormat, Operand]]:
    """An instruction's operands that are descriptors: what they are of, their format, and the operand."""
    for one in facts_of(instruction).descriptors:
        if one.operand >= len(instruction.operands):
            continue
        fmt = instr_format(one.kind) if one.format == "instruction" else _MATRIX_FORMATS[one.format]
        yield one.name, fmt, instruction.operands[one.operand]


def _decoded(of: str, fmt: DescriptorFormat, bits: Bits) -> dict[str, Any]:
    """The fields whose bits the text fixes, and the names of the others."""
    fields, open_ = {}, []
    for part in fmt.explain(bits.value).fields:
        if bits.known & part.field.mask == part.field.mask:
            fields[part.field.name] = part.meant
        else:
            open_.append(part.field.name)
    unused = bits.value & ~fmt.used
    return {
        "of": of,
        "format": fmt.name,
        "value": None if bits.whole is None else f"{bits.value:#x}",
        "fields": fields,
        "not_constant": open_,
        "unused_bits_set": f"{unused:#x}" if unused else None,
    }


# --- what the emulator would refuse ------------------------------------------------------------------------


def _faults(checked: CheckedModule, entry: Function) -> list[dict[str, Any]]:
    """The instructions that the emulator refuses when it reads the kernel, each with its line and why."""
    faults: list[EmulatorError] = []
    try:
        decode(checked, entry, 0, faults=faults)
    except EmulatorError as error:
        if not faults:
            faults.append(error)
    return [
        {"line": f.line, "class": type(f).__name__, "problem": f.problem, "text": f.text.strip()}
        for f in faults
    ]


# --- in words ----------------------------------------------------------------------------------------------


def report(found: dict[str, Any]) -> str:
    """The report as text."""
    targets = ", ".join(found["target"])
    short = short_name(found["kernel"])
    lines = [
        f"{short} of {found['file']}",
        *([] if short == found["kernel"] else [f"in the text: {found['kernel']}"]),
        f"PTX {found['ptx_version']} for {targets}, {found['instructions']} instructions",
        "",
        "Declared",
        *_declared(found),
        "",
        "Parameters" if found["parameters"] else "No parameters",
    ]
    lines += _parameter_lines(found["parameters"])
    lines += ["", *_site_lines(found["sites"])]
    if found["refused"]:
        lines += ["", "The emulator refuses"]
        lines += [f"  line {f['line'] or '-'}: {f['problem']}" for f in found["refused"]]
    else:
        lines += ["", "The emulator knows every instruction."]
    return "\n".join([*lines, "", "To run it", *_need_lines(found)])


def _parameter_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    width = _width(rows, "name")
    for row in rows:
        uses = list(row["used_by"][:_SHOWN_USES])
        uses += [f"{len(row['used_by']) - _SHOWN_USES} more"] if len(row["used_by"]) > _SHOWN_USES else []
        uses += ["an address is computed from it"] if row["in_address"] else []
        what = f"{row['role']}: {', '.join(uses)}" if uses else row["role"]
        yield f"  {row['name']:<{width}}  {row['declared']}  {what}"


def _declared(found: dict[str, Any]) -> Iterator[str]:
    for name, numbers in found["directives"].items():
        yield f"  .{name:<12} {', '.join(map(str, numbers))}".rstrip()
    registers = ", ".join(f"{count} .{kind}" for kind, count in found["registers"].items()) or "none"
    yield f"  {'registers':<13} {registers} (ptxas maps them to the GPU's)"
    memory = found["memory"]
    if "refused" in memory:
        yield f"  {'memory':<13} {memory['refused']}"
        return
    dynamic = ", ".join(memory["shared_dynamic"])
    more = f", plus as many as the launch gives: {dynamic}" if dynamic else ""
    yield f"  {'shared':<13} {memory['shared_static_bytes']} bytes{more}"
    yield f"  {'local':<13} {memory['local_bytes_per_thread']} bytes per thread"
    for variable in memory["variables"]:
        if variable["used"]:
            yield f"  {variable['space']:<13} {short_name(variable['name'])}"
    if unused := sum(not variable["used"] for variable in memory["variables"]):
        yield f"  {'unused':<13} {number(unused, 'variable')} of global or constant memory"
    if found["functions"]:
        yield f"  {'functions':<13} {', '.join(map(short_name, found['functions']))}"


def _site_lines(sites: list[dict[str, Any]]) -> Iterator[str]:
    if not sites:
        yield "No barrier, fence, TMA, MMA or tcgen05 instruction"
        return
    counts = Counter(site["kind"] for site in sites)
    yield "Sites: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    for site in sites:
        name = site["instruction"]
        name = name if len(name) <= _SHOWN_NAME else f"{name[: _SHOWN_NAME - 3]}..."
        source = f"  ({site['source']})" if site["source"] else ""
        yield f"  {site['line']:>5}  {site['kind']:<8} {name}{source}"
        yield f"                  {site['what']}"
        for part in site["descriptors"]:
            yield f"                  {_descriptor_line(part)}"


def _descriptor_line(part: dict[str, Any]) -> str:
    head = f"{part['of']}: {part['format']}" + (f" {part['value']}" if part["value"] else "")
    known = ", ".join(f"{name} {value}" for name, value in part["fields"].items())
    text = f"{head}: {known}" if known else f"{head}: no field is constant"
    if known and part["not_constant"]:
        text += f"; not constant: {', '.join(part['not_constant'])}"
    if part["unused_bits_set"]:
        text += f"; bits set outside every field: {part['unused_bits_set']}"
    return text


def _need_lines(found: dict[str, Any]) -> Iterator[str]:
    needs = found["needs"]
    yield f"  {needs['command']}"
    yield "  This line runs as it is. Change in it what the text does not say:"
    if needs["pairs_of_ctas"] and not needs["cluster"]:
        yield "  --grid, --cluster: CTAs in pairs (cta_group::2), so an even number of CTAs in a cluster"
    elif needs["cluster_instructions"] and not needs["cluster"]:
        yield "  --grid, --cluster: it asks about its cluster"
    else:
        yield f"  --grid{'' if needs['block'] else ', --block'}"
    if needs["dynamic_shared_memory"]:
        yield "  --smem: here all that a CTA may have"
    roles = [p["role"] for p in found["parameters"]]
    if "pointer" in roles or "struct" in roles:
        yield "  in:FILE.npy for zeros:TYPE:SHAPE gives an array of yours; out: saves one after the kernel"
    if any("tensor map" in role for role in roles):
        yield "  map:FILE.json, or the map's fields: its array, element type, dims, strides and box"
    if any("pointer to a tensor map" in role for role in roles):
        yield "  a list of such maps, map:[{...},{...}], where the pointer is to an array of them"
    if any(role.startswith("scalar") for role in roles):
        yield "  the numbers"


def _width(rows: list[dict[str, Any]], key: str) -> int:
    return max((len(row[key]) for row in rows), default=0)
