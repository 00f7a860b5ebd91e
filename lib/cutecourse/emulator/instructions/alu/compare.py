"""Comparisons: setp writes predicates, set writes numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import bf16, decode, encode
from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import KINDS, Mask, put
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.alu.floats import FLOAT_KINDS, bits_kind, format_of
from cutecourse.emulator.numbers.formats import flush_subnormals
from cutecourse.ptx.scopes import type_bits

__all__: list[str] = []

Values = NDArray[Any]
Comparison = Callable[[Values, Values], Values]

_ORDERED: dict[str, np.ufunc] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}
_OPERATORS = (*_ORDERED, *_UNSIGNED, *_UNORDERED, "num", "nan")
_COMBINE: dict[str, np.ufunc] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _nan(x: Values, y: Values) -> Values:
    found: Values = (x != x) | (y != y)  # noqa: PLR0124 - only a NaN differs from itself
    return found


def _comparison(site: Site, name: str, kind: str) -> Comparison:
    """The function of an operator: NaN makes an ordered comparison false, an unordered one true."""
    compare = _function(site, name, kind)
    if kind not in {"bf16", "bf16x2"}:
        return compare
    return lambda x, y: compare(decode(x, bf16), decode(y, bf16))


def _function(site: Site, name: str, kind: str) -> Comparison:  # noqa: RET503 - what it ends in raises
    if kind in FLOAT_KINDS:
        if name == "num":
            return lambda x, y: ~_nan(x, y)
        if name == "nan":
            return _nan
        if name == "ne":
            # NumPy's != holds for NaN, and PTX's ordered ne does not.
            return lambda x, y: (x != y) & ~_nan(x, y)
        if name in _ORDERED:
            return _ORDERED[name]
        if name == "neu":
            return np.not_equal
        if name in _UNORDERED:
            ufunc = _ORDERED[_UNORDERED[name]]
            return lambda x, y: ufunc(x, y) | _nan(x, y)
    elif name in _ORDERED:
        return _ORDERED[name]
    elif name in _UNSIGNED and kind[0] == "u":
        return _ORDERED[_UNSIGNED[name]]
    site.unsupported(f"no comparison .{name} of .{kind}")


def _take(site: Site) -> tuple[str, str | None, bool]:
    name = site.expect(*_OPERATORS)
    combine = site.one_of(*_COMBINE)
    return name, combine, site.has("ftz")


def _operand_kind(site: Site) -> str:
    kind = site.type()
    if kind[0] == "b" and kind not in FLOAT_KINDS:
        kind = "u" + kind[1:]
    bits = type_bits(kind)
    if bits is None or not 16 <= bits <= 64:
        site.unsupported(f"no comparison of .{kind}")
    return kind


def _flushed(comparison: Comparison, kind: str) -> Comparison:
    """Compare with subnormal operands taken as zeros."""
    fmt, dtype = format_of(kind), KINDS[kind][1]
    raw = KINDS[bits_kind(kind)][1]

    def compare(x: Values, y: Values) -> Values:
        flushed = (flush_subnormals(v.view(raw), fmt).astype(raw).view(dtype) for v in (x, y))
        return comparison(*flushed)

    return compare


@instruction("setp")
def setp(site: Site) -> Step:
    """Compare two numbers and write the result into a predicate, and its opposite into a second one.

    Shapes:     two numbers in each lane; `p|q` names one or two predicates; of packed types p gets the low
                and q the high comparison.
    Units:      `.and .or .xor` combine the outcome, and its opposite for q, with a fourth operand.
    Errors:     UnsupportedInstruction for a comparison that the type does not have.
    Source:     PTX ISA 9.0, Comparison and Selection Instructions: setp
                (#comparison-and-selection-instructions-setp).
    """
    name, combine, ftz = _take(site)
    kind = _operand_kind(site)
    comparison = _comparison(site, name, kind)
    if ftz:
        comparison = _flushed(comparison, kind)
    p, q = _predicates(site)
    a, b = site.source(1, kind), site.source(2, kind)
    c = site.source(3, "pred") if combine else None
    merge = _COMBINE[combine] if combine else None
    packed = kind.endswith("x2")

    if q is None and merge is None and not packed:

        def simple(bundle: Bundle, mask: Mask) -> None:
            rows = bundle.rows[kind]
            result = comparison(rows[a], rows[b])
            if mask is None:
                bundle.rows["pred"][p][...] = result
            else:
                np.copyto(bundle.rows["pred"][p], result, where=mask)

        return simple

    def step(bundle: Bundle, mask: Mask) -> None:
        rows, predicates = bundle.rows[kind], bundle.rows["pred"]
        result = comparison(rows[a], rows[b])
        first, second = (result[..., 0], result[..., 1]) if packed else (result, ~result)
        if merge is not None and c is not None:
            other = predicates[c].copy()
            first, second = merge(first, other), merge(second, other)
        put(predicates[p], first, mask)
        if q is not None:
            put(predicates[q], second, mask)

    return step


def _predicates(site: Site) -> tuple[int, int | None]:
    return site.pair(0, "pred")


@instruction("set")
def set_(site: Site) -> Step:
    """Compare two numbers and write true as all ones, or as 1.0 for a floating-point destination.

    Shapes:     two numbers in each lane; packed types compare both halves.
    Units:      `.and .or .xor` combine the outcome with a predicate.
    Errors:     UnsupportedInstruction for a comparison that the type does not have.
    Source:     PTX ISA 9.0, Comparison and Selection Instructions: set
                (#comparison-and-selection-instructions-set); Half Precision Comparison Instructions: set
                (#half-precision-comparison-instructions-set).
    """
    name, combine, ftz = _take(site)
    result = site.type("u32", "s32", "f32", "u16", "s16", "f16", "bf16", "f16x2", "bf16x2")
    kind = _operand_kind(site)
    comparison = _comparison(site, name, kind)
    if ftz:
        comparison = _flushed(comparison, kind)
    packed = kind.endswith("x2")
    if packed != result.endswith("x2"):
        if packed and result in {"u32", "s32"}:
            result = "u16x2"
        else:
            site.unsupported(f"set.{result} of .{kind}")
    target = site.destination(0, result)
    a, b = site.source(1, kind), site.source(2, kind)
    c = site.source(3, "pred") if combine else None
    dtype = KINDS[result][1]
    if result in FLOAT_KINDS:
        true = encode(1, result.removesuffix("x2"))
    else:
        true = np.array(-1).astype(dtype)
    false = np.array(0, dtype=dtype)

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows
        held = comparison(rows[kind][a], rows[kind][b])
        if combine and c is not None:
            other = rows["pred"][c]
            held = _COMBINE[combine](held, other[..., None] if packed else other)
        put(rows[result][target], np.where(held, true, false), mask)

    return step
