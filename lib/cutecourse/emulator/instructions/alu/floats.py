"""Floating-point arithmetic on lane vectors: what the names in `arithmetic` do for floating-point types.

f32, f64 and f16 rounded to nearest go through NumPy, whose results are the correctly rounded ones;
everything else goes through the exact functions of `numerics_arithmetic`. NaN results are what an H200 gives:
the canonical NaN, but in f64 the NaN of an operand, made quiet; each operation has its order of looking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import KINDS, Mask, any_true
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.alu.integers import map_lanes
from cutecourse.emulator.numbers import exact
from cutecourse.emulator.numbers.formats import FORMATS, FloatFormat, Rounding, flush_subnormals

__all__ = [
    "FLOAT_KINDS",
    "ROUNDINGS",
    "bits_kind",
    "canonical",
    "copysign",
    "divide",
    "fused",
    "min_max",
    "sign_only",
    "test_property",
    "two_operands",
]

Values = NDArray[Any]
FLOAT_KINDS = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64", "f32x2")
ROUNDINGS: tuple[Rounding, ...] = ("rn", "rz", "rm", "rp")
_NAN: dict[str, np.unsignedinteger[Any]] = {"f16": np.uint16(0x7FFF), "f32": np.uint32(0x7FFFFFFF)}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"add": exact.add, "sub": exact.subtract, "mul": exact.multiply}
_UFUNCS: dict[str, np.ufunc] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def bits_kind(kind: str) -> str:
    """The kind that shows a floating-point kind's bits as unsigned integers."""
    bits, dtype, parts = KINDS[kind]
    if parts == 1:
        return f"u{bits}"
    return f"u{8 * dtype.itemsize}x{parts}"


def format_of(kind: str) -> FloatFormat:
    """The number format of a kind's elements."""
    return FORMATS[kind.removesuffix("x2")]


def canonical(values: Values, kind: str, *operands: Values) -> Values:
    """Give NaNs the bits that the hardware gives them; `values` may be changed in place.

    For f64 the operands may pass on their NaN; they stand in the order in which the hardware looks at them.
    """
    wrong = values != values  # noqa: PLR0124 - only a NaN differs from itself
    if not any_true(wrong):
        return values
    if kind == "f64":
        bits = (np.ascontiguousarray(x).view(np.uint64) for x in operands)
        return exact.first_nan(np.ascontiguousarray(values).view(np.uint64), *bits).view(np.float64)
    nan = _NAN[kind]
    values.view(nan.dtype)[wrong] = nan
    return values


def _with_nans(
    function: Callable[..., Values], kind: str, order: Callable[..., tuple[Values, ...]]
) -> Callable[..., Values]:
    """A function on bits whose f64 NaNs come from its operands in the given order."""
    if kind != "f64":
        return function
    return lambda *operands: exact.first_nan(function(*operands), *order(*operands))


def _take_form(site: Site) -> tuple[str, Rounding, dict[str, bool]]:
    rounding: Rounding = site.one_of(*ROUNDINGS, default="rn")
    clamps = {"ftz": site.has("ftz"), "sat": site.has("sat"), "relu": site.has("relu")}
    kind = site.type(*FLOAT_KINDS)
    if rounding != "rn" and kind not in {"f32", "f64", "f32x2"}:
        site.unsupported(f".{rounding} cannot be combined with .{kind}")
    if clamps["ftz"] and kind in {"f64", "bf16", "bf16x2"}:
        site.unsupported(f".ftz cannot be combined with .{kind}")
    return kind, rounding, clamps


def two_operands(site: Site, name: str) -> Step:
    """add, sub and mul."""
    kind, rounding, clamps = _take_form(site)
    if clamps["relu"] or (clamps["sat"] and kind == "f64"):
        site.unsupported("the clamp cannot be combined with this type")
    if rounding == "rn" and not any(clamps.values()) and kind in {"f16", "f32", "f64"}:
        target, a, b = site.destination(0, kind), site.source(1, kind), site.source(2, kind)
        ufunc = _UFUNCS[name]

        def step(bundle: Bundle, mask: Mask) -> None:
            rows = bundle.rows[kind]
            values = canonical(ufunc(rows[a], rows[b]), kind, rows[b], rows[a])
            if mask is None:
                rows[target][...] = values
            else:
                np.copyto(rows[target], values, where=mask)

        return step
    bits, fmt = bits_kind(kind), format_of(kind)
    target, a, b = site.destination(0, bits), site.source(1, bits), site.source(2, bits)
    function = _FUNCTIONS[name]
    chosen = {name: True for name, wanted in clamps.items() if wanted}

    def compute(x: Values, y: Values) -> Values:
        result: Values = function(x, y, fmt, rounding, **chosen)
        return result

    compute = _with_nans(compute, kind, lambda x, y: (y, x))
    return map_lanes((bits, target), [(bits, a), (bits, b)], compute)


def fused(site: Site) -> Step:
    """fma, and mad of floats."""
    kind, rounding, clamps = _take_form(site)
    if clamps["sat"] and kind in {"f64", "bf16", "bf16x2"}:
        site.unsupported(f".sat cannot be combined with .{kind}")
    if clamps["relu"] and kind not in {"f16", "f16x2", "bf16", "bf16x2"}:
        site.unsupported(f".relu cannot be combined with .{kind}")
    bits, fmt = bits_kind(kind), format_of(kind)
    chosen = {name: True for name, wanted in clamps.items() if wanted}

    def slow(x: Values, y: Values, z: Values) -> Values:
        return exact.fma(x, y, z, fmt, rounding, **chosen)

    target, a, b, c = (site.destination(0, bits), *(site.source(i, bits) for i in (1, 2, 3)))
    if kind == "f32" and rounding == "rn" and not chosen:
        return _fused_f32(site, slow)
    slow = _with_nans(slow, kind, lambda x, y, z: (y, z, x))
    return map_lanes((bits, target), [(bits, a), (bits, b), (bits, c)], slow)


def _fused_f32(site: Site, slow: Callable[..., Values]) -> Step:
    """fma.rn.f32: a product of two f32 is exact in float64, and the rounding of its sum nearly always right.

    Rounding twice differs from rounding once only where the float64 sum lies exactly between two f32, or
    where the result is subnormal; there, and for NaN, the exact function decides.
    """
    target, a, b, c = (site.destination(0, "f32"), *(site.source(i, "f32") for i in (1, 2, 3)))
    halfway, low = np.uint64(0x1000_0000), np.uint64(0x1FFF_FFFF)
    exponent = np.uint32(0x7F80_0000)

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows["f32"]
        total = np.multiply(rows[a], rows[b], dtype=np.float64)
        total += rows[c]
        values = total.astype(np.float32)
        bits = values.view(np.uint32)
        field = bits & exponent
        doubtful = (total.view(np.uint64) & low) == halfway
        doubtful |= field == exponent
        doubtful |= (field == 0) & (total != 0)
        if any_true(doubtful):
            words = bundle.rows["f32"]
            x, y, z = (words[s].view(np.uint32)[doubtful] for s in (a, b, c))
            bits[doubtful] = slow(x, y, z)
        if mask is None:
            rows[target][...] = values
        else:
            np.copyto(rows[target], values, where=mask)

    return step


def divide(site: Site) -> Step:
    """Div of floats: with a rounding, or approximate."""
    approximate = site.one_of("approx", "full")
    kind, rounding, clamps = _take_form(site)
    if kind not in {"f32", "f64"} or clamps["sat"] or clamps["relu"] or (approximate and kind == "f64"):
        site.unsupported("no such division")
    bits, fmt = bits_kind(kind), format_of(kind)
    target, a, b = site.destination(0, bits), site.source(1, bits), site.source(2, bits)
    ftz = {"ftz": True} if clamps["ftz"] else {}

    if rounding == "rn" and not ftz and not approximate:
        fa, fb, ft = site.source(1, kind), site.source(2, kind), site.destination(0, kind)

        def nearest(x: Values, y: Values) -> Values:
            return canonical(np.divide(x, y), kind, x, y)

        return map_lanes((kind, ft), [(kind, fa), (kind, fb)], nearest)

    def function(x: Values, y: Values) -> Values:
        result = exact.divide(x, y, fmt, rounding, **ftz)
        if approximate == "approx":
            # The reciprocal of such a divisor is subnormal, and the hardware's is zero.
            huge = (y & np.uint32(0x7FFFFFFF)) > np.uint32(0x7E800000)
            finite = (y & np.uint32(0x7FFFFFFF)) < np.uint32(0x7F800000)
            infinite = (x & np.uint32(0x7FFFFFFF)) == np.uint32(0x7F800000)
            result = np.where(huge & finite & ~infinite, (x ^ y) & np.uint32(0x80000000), result)
            result = np.where(huge & finite & infinite, np.uint32(0x7FFFFFFF), result)
        return result

    compute = _with_nans(function, kind, lambda x, y: (x, y))
    return map_lanes((bits, target), [(bits, a), (bits, b)], compute)


def _magnitude(site: Site, kind: str) -> tuple[np.unsignedinteger[Any], np.unsignedinteger[Any]]:
    """The sign bit of a kind's elements, and all other bits."""
    fmt = format_of(kind)
    dtype = np.dtype(f"u{fmt.bits // 8}").type
    return dtype(1 << (fmt.bits - 1)), dtype((1 << (fmt.bits - 1)) - 1)


def sign_only(site: Site) -> Step:
    """Abs and neg of floats."""
    ftz = site.has("ftz")
    kind = site.type(*FLOAT_KINDS)
    bits, fmt = bits_kind(kind), format_of(kind)
    target, a = site.destination(0, bits), site.source(1, bits)
    sign, rest = _magnitude(site, kind)
    absolute = site.instruction.opcode == "abs"

    dtype = type(sign)
    infinity, nan, quiet = (dtype(int(n)) for n in (fmt.infinity, fmt.nan, 1 << (fmt.fraction_bits - 1)))

    def function(x: Values) -> Values:
        if ftz:
            x = flush_subnormals(x, fmt).astype(x.dtype)
        # The sign of a NaN does not change: f64 keeps it, the other formats give the canonical NaN.
        changed = x & rest if absolute else x ^ sign
        return np.where((x & rest) > infinity, x | quiet if kind == "f64" else nan, changed)

    return map_lanes((bits, target), [(bits, a)], function)


def copysign(site: Site) -> Step:
    """The sign of the first operand on the second."""
    kind = site.type("f32", "f64")
    bits = bits_kind(kind)
    target, a, b = site.destination(0, bits), site.source(1, bits), site.source(2, bits)
    sign, rest = _magnitude(site, kind)
    return map_lanes((bits, target), [(bits, a), (bits, b)], lambda x, y: (x & sign) | (y & rest))


def min_max(site: Site) -> Step:
    """Min and max of floats, by comparing their bits as signed integers."""
    ftz, nan_wins = site.has("ftz"), site.has("NaN")
    xorsign = site.has("xorsign")
    if xorsign and not site.has("abs"):
        site.unsupported(".xorsign goes with .abs")
    kind = site.type(*FLOAT_KINDS)
    if len(site.operands) > 3:
        site.unsupported("three sources")
    bits, fmt = bits_kind(kind), format_of(kind)
    target, a, b = site.destination(0, bits), site.source(1, bits), site.source(2, bits)
    sign, rest = _magnitude(site, kind)
    smaller = site.instruction.opcode == "min"
    infinity = type(sign)(int(fmt.infinity))
    nan = type(sign)(int(fmt.nan))
    quiet = type(sign)(1 << (fmt.fraction_bits - 1))
    signed = np.dtype(f"i{fmt.bits // 8}")

    def function(x: Values, y: Values) -> Values:
        if ftz:
            x, y = flush_subnormals(x, fmt).astype(x.dtype), flush_subnormals(y, fmt).astype(y.dtype)
        x_nan, y_nan = (x & rest) > infinity, (y & rest) > infinity
        left, right = (x & rest, y & rest) if xorsign else (x, y)
        # Sign and magnitude, ordered as integers: -0.0 comes before +0.0.
        key_x = np.where(left & sign, ~(left & rest), left).view(signed)
        key_y = np.where(right & sign, ~(right & rest), right).view(signed)
        result = np.where((key_x <= key_y) == smaller, left, right)
        if xorsign:
            result = result | ((x ^ y) & sign)
        if nan_wins:
            return np.where(x_nan | y_nan, nan, result)
        result = np.where(x_nan, y, np.where(y_nan, x, result))
        return np.where(x_nan & y_nan, y | quiet if kind == "f64" else nan, result)

    return map_lanes((bits, target), [(bits, a), (bits, b)], function)


def test_property(site: Site) -> Step:
    """Tell finite, infinite, normal, subnormal and NaN apart."""
    what = site.expect("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    kind = site.type("f32", "f64")
    bits, fmt = bits_kind(kind), format_of(kind)
    target, a = site.destination(0, "pred"), site.source(1, bits)
    _, rest = _magnitude(site, kind)
    dtype = KINDS[bits][1].type
    infinity = dtype(int(fmt.infinity))
    smallest = dtype(1 << fmt.fraction_bits)

    def function(x: Values) -> Values:
        size: Values = x & rest
        holds: Values
        match what:
            case "finite":
                holds = size < infinity
            case "infinite":
                holds = size == infinity
            case "number":
                holds = size <= infinity
            case "notanumber":
                holds = size > infinity
            case "normal":
                # "As a special case, positive and negative zero are considered normal numbers."
                holds = ((size >= smallest) & (size < infinity)) | (size == 0)
            case _:
                holds = (size > 0) & (size < smallest)
        return holds

    return map_lanes(("pred", target), [(bits, a)], function)
