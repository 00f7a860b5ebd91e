"""The meaning of a descriptor beyond its fields: refusals, the places of elements, the MMAs that take it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from cutecourse.descriptors import FORMATS, DescriptorFormat, Field
from cutecourse.umma import UmmaError, make_tiled_mma

__all__ = ["VERSION_RULE", "chunk_byte", "format_snapshot", "hex_of", "problems", "reserved", "taken_by"]

VERSION_RULE = {
    "field": "version",
    "allowed": [1],
    "why": "a tcgen05 descriptor holds 1; wgmma's holds 0 in these bits",
    "source": "PTX ISA 9.0, Shared memory descriptor: bits 46 to 48 are the constant 0b001",
}
_CONSTANTS: dict[str, list[dict[str, Any]]] = {"SmemDescriptor": [VERSION_RULE]}

# What a layout's name stands for: bytes of a row of its swizzle atom, rows of an MN-major atom, and CuTe's
# swizzle of byte addresses. Atoms of 32 bytes are for MN-major operands only.
_NONE = (0, 8, "")
_32, _64, _128 = ((32 << i, 8, f"Swizzle<{1 + i},4,3>") for i in range(3))
_128_BASE32 = (128, 4, "Swizzle<2,5,2>")
_LAYOUTS: dict[str, dict[str, tuple[int, int, str]]] = {
    "GmmaDescriptor": {"INTERLEAVE": _NONE, "B32": _32, "B64": _64, "B128": _128},
    "SmemDescriptor": {
        "SWIZZLE_NONE": _NONE,
        "SWIZZLE_32B": _32,
        "SWIZZLE_64B": _64,
        "SWIZZLE_128B": _128,
        "SWIZZLE_128B_BASE32B": _128_BASE32,
    },
}
_OPERATIONS = ("SM100_MMA_F16BF16_SS", "SM100_MMA_F16BF16_2x1SM_SS")
_ALWAYS_ZERO = ("sparse_id2", "sparse_flag", "saturate", "max_shift")


def hex_of(value: int, bits: int) -> str:
    """The word as it is shown and synced: `0x` and all its digits."""
    return f"0x{value:0{bits // 4}x}"


# ---- what refuses a word ----


def reserved(fmt: DescriptorFormat) -> list[tuple[int, int]]:
    """The runs of bits that no field has, as (first bit, how many), lowest first.

    >>> from cutecourse.descriptors import SMEM_SM100
    >>> reserved(SMEM_SM100)
    [(14, 2), (30, 2), (48, 1), (53, 8)]
    """
    runs, at = [], 0
    for field in sorted(fmt.fields, key=lambda field: field.low):
        if field.low > at:
            runs.append((at, field.low - at))
        at = field.low + field.bits
    return [*runs, (at, fmt.bits - at)] if at < fmt.bits else runs


def problems(fmt: DescriptorFormat, value: int) -> list[str]:
    """Why these bits are no descriptor of this format, in words; empty where nothing refuses them."""
    found = []
    for low, bits in reserved(fmt):
        held = value >> low & ((1 << bits) - 1)
        if held:
            found.append(
                f"bit {low} is reserved and must be 0, but holds 1"
                if bits == 1
                else f"bits {low} to {low + bits - 1} are reserved and must be 0, but hold {held:#b}"
            )
    constants = {rule["field"]: rule for rule in _CONSTANTS.get(fmt.name, [])}
    for field in fmt.fields:
        held = value >> field.low & field.largest
        if field.names is not None and field.name_of(held) is None:
            choices = ", ".join(f"{name} ({number})" for name, number in field.names.items())
            found.append(f"{field.name} holds {held}, which stands for nothing; there are {choices}")
        rule = constants.get(field.name)
        if rule is not None and held not in rule["allowed"]:
            found.append(f"{field.name} holds {held}: {rule['why']} ({rule['source']})")
    return found


# ---- where the elements of a matrix lie ----


def _terms(span: int, atom: int) -> dict[str, list[list[Any]]]:
    """The byte of 16 bytes of a matrix, before the swizzle, as a sum of [index, how, by, step in bytes].

    K-major: `j` counts 16 bytes along K, `r` rows of M or N. MN-major: `j` counts 16 bytes along M or N, `k`
    is K. A step is a number, or the descriptor's LBO or SBO.
    """
    if not span:
        return {
            "K": [["r", "mod", 8, 16], ["r", "div", 8, "SBO"], ["j", "all", 1, "LBO"]],
            "MN": [["j", "all", 1, "SBO"], ["k", "mod", 8, 16], ["k", "div", 8, "LBO"]],
        }
    wide = span // 16
    terms = {
        "K": [["r", "mod", 8, span], ["r", "div", 8, "SBO"], ["j", "all", 1, 16]],
        "MN": [
            ["j", "mod", wide, 16],
            ["j", "div", wide, "LBO"],
            ["k", "mod", atom, span],
            ["k", "div", atom, "SBO"],
        ],
    }
    if atom == 4:
        del terms["K"]
    return terms


def chunk_byte(fmt: DescriptorFormat, value: int, major: str, **at: int) -> int:
    """The byte from the matrix's start at which 16 bytes of it lie, before the swizzle.

    `at` is `r` and `j` for `major` "K", `j` and `k` for "MN".
    Source: CUTLASS 4.2.0, mma_sm90_desc.hpp and mma_sm100_desc.hpp, canonical layouts of both majors.
    """
    decoded = fmt.decode(value)
    span, atom, _ = _LAYOUTS[fmt.name][str(decoded["layout_type"])]
    steps = {"LBO": int(decoded["leading_byte_offset"]), "SBO": int(decoded["stride_byte_offset"])}
    total = 0
    for index, how, by, step in _terms(span, atom)[major]:
        count = at[index] % by if how == "mod" else at[index] // by
        total += count * (step if isinstance(step, int) else steps[step])
    return total


# ---- which operation has such an instruction descriptor ----


@cache
def _operations() -> tuple[dict[str, Any], ...]:
    """Shapes and types of the library's operations, by asking for each."""

    def takes(op: str, m: int, n: int, types: tuple[str, str, str] = ("f16", "f16", "f32")) -> bool:
        try:
            make_tiled_mma(op, *types, m, n)
        except UmmaError:
            return False
        return True

    names, results = ("F16", "BF16", "TF32"), ("F16", "F32")
    found = []
    for op in _OPERATIONS:
        shapes = {
            str(m): ns for m in range(0, 512, 16) if (ns := [n for n in range(0, 512, 8) if takes(op, m, n)])
        }
        m, ns = next(iter(shapes.items()))
        types = [
            [a, b, c]
            for a in names
            for b in names
            for c in results
            if takes(op, int(m), ns[-1], (a.lower(), b.lower(), c.lower()))
        ]
        found.append({"name": op, "zero": list(_ALWAYS_ZERO), "types": types, "shapes": shapes})
    return tuple(found)


def _reads_types_of_f16(fmt: DescriptorFormat) -> bool:
    return fmt.name == "InstrDescriptor" and "TF32" in (fmt.field("a_format").names or {})


def taken_by(fmt: DescriptorFormat, value: int) -> list[tuple[str, str]]:
    """The library's operations for an instruction descriptor, each with why it has none such, or "".

    Empty for other formats, and for the types of other kinds.
    """
    if not _reads_types_of_f16(fmt):
        return []
    held = {part.field.name: part for part in fmt.explain(value).fields}
    return [(op["name"], _why_not(op, held)) for op in _operations()]


def _why_not(op: dict[str, Any], held: dict[str, Any]) -> str:
    for name in op["zero"]:
        if held[name].stored:
            return f"{name} holds {held[name].stored}; it must be 0"
    types = [
        held[name].field.name_of(held[name].stored) or str(held[name].stored)
        for name in ("a_format", "b_format", "c_format")
    ]
    if types not in op["types"]:
        return "A {}, B {} and D {} are not among its types".format(*types)
    m, n = held["m_dim"].stored * 16, held["n_dim"].stored * 8
    if str(m) not in op["shapes"]:
        return f"M is {m}; it takes {' or '.join(op['shapes'])}"
    known = op["shapes"][str(m)]
    if n not in known:
        return f"N is {n}; with M = {m} it takes {known[0]} to {known[-1]} in steps of {known[1] - known[0]}"
    return ""


# ---- for the widget ----


def format_snapshot(fmt: DescriptorFormat) -> dict[str, Any]:
    """The format and everything that the widget says about its words, as plain JSON."""
    layouts = {
        name: {"span": span, "atom": atom, "swizzle": swizzle, "terms": _terms(span, atom)}
        for name, (span, atom, swizzle) in _LAYOUTS.get(fmt.name, {}).items()
    }
    return {
        **fmt.to_snapshot(),
        "constants": _CONSTANTS.get(fmt.name, []),
        "layouts": layouts,
        "operations": list(_operations()) if _reads_types_of_f16(fmt) else [],
    }


def known_format(fmt: Any) -> DescriptorFormat | None:
    """A format, or the one of that name."""
    return fmt if isinstance(fmt, DescriptorFormat) else FORMATS.get(str(fmt))


def segments(fmt: DescriptorFormat, row: int) -> Iterator[tuple[Field | None, int, int]]:
    """Fields and reserved runs as (field or None, first bit, bits), highest first, cut at rows of bits."""
    parts: list[tuple[Field | None, int, int]] = [(field, field.low, field.bits) for field in fmt.fields]
    parts += [(None, low, bits) for low, bits in reserved(fmt)]
    for field, low, bits in sorted(parts, key=lambda part: -part[1]):
        high = low + bits
        while high > low:
            start = max(low, (high - 1) // row * row)
            yield field, start, high - start
            high = start
