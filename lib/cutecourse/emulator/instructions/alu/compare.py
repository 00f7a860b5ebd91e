"""Comparisons: setp writes predicates, set writes numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cutecourse.dtypes import bf16, decode, encode
from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import KINDS, Mask, put
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.alu.floats import FLOAT_KINDS, bits_kind, format_of
from cutecourse.emulator.instructions.lanes import Values, map_lanes
from cutecourse.emulator.numbers.formats import flush_subnormals
from cutecourse.ptx.scopes import type_bits

__all__: list[str] = []

Comparison = Callable[[Values, Values], Values]

_ORDERED: dict[str, np.ufunc] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED = {"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
_NUMBERS: dict[str, Comparison] = {
    **_ORDERED,
    "ne": lambda x, y: (x < y) | (x > y),
    "num": lambda x, y: ~(np.isnan(x) | np.isnan(y)),
}
"""The comparisons of floats that are false for a NaN; NumPy's != would be true, so ne is written out."""
_UNORDERED = {"equ": "ne", "neu": "eq", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt", "nan": "num"}
"""The comparisons of floats that are true for a NaN, each with its opposite in `_NUMBERS`."""
_COMBINE: dict[str, np.ufunc] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _take(site: Site) -> tuple[Comparison, np.ufunc | None, str]:
    """Take a comparison: its function, the function that merges a predicate, and the operands' kind."""
    name = site.expect(*_ORDERED, *_UNSIGNED, *_UNORDERED, "num")
    combine = site.one_of(*_COMBINE)
    kind = site.type()
    if kind[0] == "b" and kind not in FLOAT_KINDS:
        kind = "u" + kind[1:]
    bits = type_bits(kind)
    if bits is None or not 16 <= bits <= 64:
        site.unsupported(f"no comparison of .{kind}")
    compare = _function(site, name, kind)
    if kind in {"bf16", "bf16x2"}:
        compare = _on(lambda x: decode(x, bf16), compare)
    if kind in FLOAT_KINDS and site.has("ftz"):
        compare = _on(lambda x: _flushed(x, kind), compare)
    return compare, _COMBINE[combine] if combine else None, kind


def _function(site: Site, name: str, kind: str) -> Comparison:  # noqa: RET503 - the last call raises
    if kind in FLOAT_KINDS:
        if name in _NUMBERS:
            return _NUMBERS[name]
        if name in _UNORDERED:
            opposite = _NUMBERS[_UNORDERED[name]]
            return lambda x, y: ~opposite(x, y)
    elif name in _ORDERED:
        return _ORDERED[name]
    elif name in _UNSIGNED and kind[0] == "u":
        return _UNSIGNED[name]
    site.unsupported(f"no comparison .{name} of .{kind}")


def _on(prepare: Callable[[Values], Values], compare: Comparison) -> Comparison:
    """Prepare both operands and compare them."""
    return lambda x, y: compare(prepare(x), prepare(y))


def _flushed(x: Values, kind: str) -> Values:
    """Replace subnormal operands by zeros."""
    raw = KINDS[bits_kind(kind)][1]
    return flush_subnormals(x.view(raw), format_of(kind)).astype(raw).view(x.dtype)


@instruction("setp")
def setp(site: Site) -> Step:
    """Compare two numbers; write the result into a predicate and its opposite into an optional second one.

    Shapes:     two numbers in each lane; `p|q` names one or two predicates. With packed types p gets the
                comparison of the low halves and q that of the high halves.
    Units:      `.and .or .xor` combine the outcome, and its opposite for q, with a fourth operand.
    Errors:     UnsupportedInstruction for a comparison that the type does not have.
    Source:     PTX ISA 9.0, Comparison and Selection Instructions: setp
                (#comparison-and-selection-instructions-setp).
    """
    compare, merge, kind = _take(site)
    p, q = site.pair(0, "pred")
    packed = kind.endswith("x2")
    if q is None and merge is None and not packed:
        return map_lanes(site, compare, "pred", kind, kind)
    a, b = site.source(1, kind), site.source(2, kind)
    c = None if merge is None else site.source(3, "pred")

    def step(bundle: Bundle, mask: Mask) -> None:
        rows, predicates = bundle.rows[kind], bundle.rows["pred"]
        result = compare(rows[a], rows[b])
        first, second = (result[..., 0], result[..., 1]) if packed else (result, ~result)
        if merge is not None and c is not None:
            other = predicates[c].copy()
            first, second = merge(first, other), merge(second, other)
        put(predicates[p], first, mask)
        if q is not None:
            put(predicates[q], second, mask)

    return step


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
    result = site.type("u32", "s32", "f32", "u16", "s16", "f16", "bf16", "f16x2", "bf16x2")
    compare, merge, kind = _take(site)
    packed = kind.endswith("x2")
    if packed != result.endswith("x2"):
        if packed and result in {"u32", "s32"}:
            result = "u16x2"
        else:
            site.unsupported(f"set.{result} of .{kind}")
    dtype = KINDS[result][1]
    true = encode(1, result.removesuffix("x2")) if result in FLOAT_KINDS else np.array(-1).astype(dtype)
    false = np.array(0, dtype=dtype)

    def function(x: Values, y: Values, *predicate: Values) -> Values:
        held = compare(x, y)
        if merge is not None:
            (other,) = predicate
            held = merge(held, other[..., None] if packed else other)
        return np.where(held, true, false)

    return map_lanes(site, function, result, kind, kind, *["pred"] * (merge is not None))
