"""Floating-point arithmetic: the float forms of `arithmetic`, and the instructions that only floats have.

NumPy computes f32, f64 and f16 rounded to nearest, and rounds correctly; the functions of `numbers.exact`
compute the rest. A NaN result is the one of an H200: the canonical NaN or, in f64, the NaN of an operand,
made quiet. Each operation looks at its operands in an order of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cutecourse.emulator.core.kinds import KINDS, any_true
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.lanes import Values, map_lanes
from cutecourse.emulator.numbers import exact
from cutecourse.emulator.numbers.formats import (
    FORMATS,
    FloatFormat,
    Rounding,
    convert_float,
    flush_subnormals,
)

__all__ = [
    "FLOAT_KINDS",
    "ROUNDINGS",
    "bits_kind",
    "divide",
    "format_of",
    "fused",
    "min_max",
    "rounded_once",
    "sign_only",
    "two_operands",
]

FLOAT_KINDS = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64", "f32x2")
ROUNDINGS: tuple[Rounding, ...] = ("rn", "rz", "rm", "rp")
_FUNCTIONS: dict[str, tuple[np.ufunc, Callable[..., Values]]] = {
    "add": (np.add, exact.add),
    "sub": (np.subtract, exact.subtract),
    "mul": (np.multiply, exact.multiply),
}


def bits_kind(kind: str) -> str:
    """The kind that holds a floating-point kind's bits as unsigned integers."""
    bits, dtype, parts = KINDS[kind]
    if parts == 1:
        return f"u{bits}"
    return f"u{8 * dtype.itemsize}x{parts}"


def format_of(kind: str) -> FloatFormat:
    """The number format of a kind's elements."""
    return FORMATS[kind.removesuffix("x2")]


def _canonical(values: Values, kind: str, *operands: Values) -> Values:
    """Give NaNs the bits that the hardware gives them; `values` may be changed in place.

    In f64 an operand passes on its NaN; `operands` have the order in which the hardware looks at them.
    """
    wrong = values != values  # noqa: PLR0124 - only a NaN differs from itself
    if not any_true(wrong):
        return values
    if kind == "f64":
        return exact.first_nan(*(x.view(np.uint64) for x in (values, *operands))).view(np.float64)
    values.view(KINDS[bits_kind(kind)][1])[wrong] = FORMATS[kind].nan
    return values


def rounded_once(
    site: Site,
    function: Callable[..., Values],
    kind: str,
    rounding: Rounding,
    clamps: dict[str, bool],
    looked_at: tuple[int, ...],
    narrow: str | None = None,
) -> Step:
    """A step that computes with a function of `numbers.exact`.

    looked_at  the operands, counted from 0, in the order in which the hardware looks for a NaN in f64.
    narrow     with mixed precision, the kind of all operands but the last.
    """
    bits, fmt = bits_kind(kind), format_of(kind)
    sources = [bits] * len(looked_at)
    if narrow is not None:
        sources[:-1] = [bits_kind(narrow)] * (len(sources) - 1)

    def compute(*operands: Values) -> Values:
        if narrow is not None:
            wide = (convert_float(one, format_of(narrow), fmt, "rn") for one in operands[:-1])
            operands = (*wide, operands[-1])
        result = function(*operands, fmt, rounding, **clamps)
        return exact.first_nan(result, *(operands[i] for i in looked_at)) if kind == "f64" else result

    return map_lanes(site, compute, bits, *sources)


def _take_narrow(site: Site, clamps: dict[str, bool]) -> str | None:
    """Take the second type of `.f32.f16` or `.f32.bf16`: mixed precision. None if there is none."""
    narrow = site.one_of("f16", "bf16")
    if narrow is not None and site.instruction.opcode not in {"add", "sub", "fma"}:
        site.unsupported("mixed precision goes with add, sub and fma: convert the operands first with cvt")
    if narrow is not None and clamps.keys() - {"sat"}:
        site.unsupported("mixed precision takes .sat and no other clamp")
    return narrow


def _take_form(site: Site) -> tuple[str, Rounding, dict[str, bool]]:
    rounding: Rounding = site.one_of(*ROUNDINGS) or "rn"
    clamps = {name: True for name in ("ftz", "sat", "relu") if site.has(name)}
    kind = site.type(*FLOAT_KINDS)
    if rounding != "rn" and kind not in {"f32", "f64", "f32x2"}:
        site.unsupported(f".{rounding} cannot be combined with .{kind}")
    if "ftz" in clamps and kind in {"f64", "bf16", "bf16x2"}:
        site.unsupported(f".ftz cannot be combined with .{kind}")
    return kind, rounding, clamps


def two_operands(site: Site) -> Step:
    """Define add, sub and mul."""
    kind, rounding, clamps = _take_form(site)
    if "relu" in clamps or ("sat" in clamps and kind == "f64"):
        site.unsupported("the clamp cannot be combined with this type")
    ufunc, function = _FUNCTIONS[site.instruction.opcode]
    if kind == "f32" and (narrow := _take_narrow(site, clamps)) is not None:
        return rounded_once(site, function, kind, rounding, clamps, (0, 1), narrow)
    if rounding == "rn" and not clamps and kind in {"f16", "f32", "f64"}:
        return map_lanes(site, lambda x, y: _canonical(ufunc(x, y), kind, y, x), kind, kind, kind)
    return rounded_once(site, function, kind, rounding, clamps, (1, 0))


def fused(site: Site) -> Step:
    """Define fma, and mad of floats."""
    kind, rounding, clamps = _take_form(site)
    if "sat" in clamps and kind in {"f64", "bf16", "bf16x2"}:
        site.unsupported(f".sat cannot be combined with .{kind}")
    if "relu" in clamps and kind not in {"f16", "f16x2", "bf16", "bf16x2"}:
        site.unsupported(f".relu cannot be combined with .{kind}")
    if kind == "f32" and (narrow := _take_narrow(site, clamps)) is not None:
        return rounded_once(site, exact.fma, kind, rounding, clamps, (0, 1, 2), narrow)
    if kind == "f32" and rounding == "rn" and not clamps:
        return map_lanes(site, _fused_f32, kind, kind, kind, kind)
    return rounded_once(site, exact.fma, kind, rounding, clamps, (1, 2, 0))


def _fused_f32(x: Values, y: Values, z: Values) -> Values:
    """fma.rn.f32: the product is exact in float64, and rounding the sum twice is nearly always right.

    Rounding twice differs from rounding once only where the float64 sum lies exactly between two f32, or
    where the result is subnormal. The exact function computes those, and infinities and NaNs.
    """
    total = np.multiply(x, y, dtype=np.float64)
    total += z
    values: Values = total.astype(np.float32)
    bits = values.view(np.uint32)
    field = bits & 0x7F80_0000
    doubtful = (total.view(np.uint64) & 0x1FFF_FFFF) == 0x1000_0000
    doubtful |= field == 0x7F80_0000
    doubtful |= (field == 0) & (total != 0)
    if any_true(doubtful):
        a, b, c = (operand.view(np.uint32)[doubtful] for operand in (x, y, z))
        bits[doubtful] = exact.fma(a, b, c, FORMATS["f32"])
    return values


def divide(site: Site) -> Step:
    """Define div of floats: with a rounding, or approximate."""
    approximate = site.one_of("approx", "full")
    kind, rounding, clamps = _take_form(site)
    if kind not in {"f32", "f64"} or clamps.keys() - {"ftz"} or (approximate and kind == "f64"):
        site.unsupported("no such division")
    if rounding == "rn" and not clamps and not approximate:
        return map_lanes(site, lambda x, y: _canonical(np.divide(x, y), kind, x, y), kind, kind, kind)
    function = _divide_approximately if approximate == "approx" else exact.divide
    return rounded_once(site, function, kind, rounding, clamps, (0, 1))


def _divide_approximately(
    x: Values, y: Values, fmt: FloatFormat, rounding: Rounding, **clamps: bool
) -> Values:
    """div.approx.f32: the reciprocal of a huge divisor is subnormal, and the hardware takes zero for it."""
    result = exact.divide(x, y, fmt, rounding, **clamps)
    size = y & 0x7FFF_FFFF
    huge = (size > 0x7E80_0000) & (size < 0x7F80_0000)
    infinite = (x & 0x7FFF_FFFF) == 0x7F80_0000
    return np.where(huge, np.where(infinite, fmt.nan, (x ^ y) & 0x8000_0000), result)


def _fields(kind: str) -> tuple[int, int, int, int]:
    """The sign bit, the infinity, the canonical NaN and the quiet bit of a kind's elements."""
    fmt = format_of(kind)
    return int(fmt.sign_bit), int(fmt.infinity), int(fmt.nan), int(fmt.quiet_bit)


def sign_only(site: Site) -> Step:
    """Define abs and neg of floats."""
    ftz = site.has("ftz")
    kind = site.type(*FLOAT_KINDS)
    bits, fmt = bits_kind(kind), format_of(kind)
    sign, infinity, nan, quiet = _fields(kind)
    absolute = site.instruction.opcode == "abs"

    def function(x: Values) -> Values:
        if ftz:
            x = flush_subnormals(x, fmt).astype(x.dtype)
        # An f64 NaN keeps its sign and becomes quiet; the other formats give the canonical NaN.
        size = x & (sign - 1)
        return np.where(size > infinity, x | quiet if kind == "f64" else nan, size if absolute else x ^ sign)

    return map_lanes(site, function, bits, bits)


@instruction("copysign")
def copysign(site: Site) -> Step:
    """Give the second number the sign of the first.

    Shapes:     one number in each lane.
    Units:      f32 or f64.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Floating Point Instructions: copysign (#floating-point-instructions-copysign).
    """
    kind = site.type("f32", "f64")
    bits, (sign, *_) = bits_kind(kind), _fields(kind)
    return map_lanes(site, lambda x, y: (x & sign) | (y & (sign - 1)), bits, bits, bits)


def min_max(site: Site) -> Step:
    """Define min and max of floats, by comparing their bits as signed integers."""
    ftz, nan_wins = site.has("ftz"), site.has("NaN")
    xorsign, magnitudes = site.has("xorsign"), site.has("abs")
    kind = site.type(*FLOAT_KINDS)
    of_three = len(site.instruction.operands) == 4
    if xorsign and not magnitudes:
        site.unsupported(".xorsign goes with .abs")
    if of_three and (xorsign or kind != "f32"):
        site.unsupported("three sources go with .f32 and without .xorsign")
    if magnitudes and not (xorsign or of_three):
        site.unsupported(".abs without .xorsign goes with three sources")
    bits, fmt = bits_kind(kind), format_of(kind)
    sign, infinity, nan, quiet = _fields(kind)
    choose = np.less_equal if site.instruction.opcode == "min" else np.greater
    signed = np.dtype(f"i{fmt.bits // 8}")

    def ordered(x: Values) -> Values:
        """Map floats to integers in the same order, -0.0 before +0.0."""
        return np.where(x & sign, ~(x & (sign - 1)), x).view(signed)

    def function(x: Values, y: Values) -> Values:
        if ftz:
            x, y = flush_subnormals(x, fmt).astype(x.dtype), flush_subnormals(y, fmt).astype(y.dtype)
        x_size, y_size = x & (sign - 1), y & (sign - 1)
        x_nan, y_nan = x_size > infinity, y_size > infinity
        left, right = (x_size, y_size) if xorsign else (x, y)
        result = np.where(choose(ordered(left), ordered(right)), left, right)
        if xorsign:
            result = result | ((x ^ y) & sign)
        if nan_wins:
            return np.where(x_nan | y_nan, nan, result)
        result = np.where(x_nan, y, np.where(y_nan, x, result))
        return np.where(x_nan & y_nan, y | quiet if kind == "f64" else nan, result)

    def function_of_three(*sources: Values) -> Values:
        x, y, z = (source & (sign - 1) for source in sources) if magnitudes else sources
        return function(function(x, y), z)

    if of_three:
        return map_lanes(site, function_of_three, bits, bits, bits, bits)
    return map_lanes(site, function, bits, bits, bits)


@instruction("testp")
def testp(site: Site) -> Step:
    """Test what kind of number a float is.

    Shapes:     one number and one predicate in each lane.
    Units:      `.finite .infinite .number .notanumber .normal .subnormal`.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Floating Point Instructions: testp (#floating-point-instructions-testp).
    """
    name = site.expect("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    kind = site.type("f32", "f64")
    sign, infinity, *_ = _fields(kind)
    smallest = 1 << format_of(kind).fraction_bits
    tests: dict[str, Callable[[Values], Values]] = {
        "finite": lambda size: size < infinity,
        "infinite": lambda size: size == infinity,
        "number": lambda size: size <= infinity,
        "notanumber": lambda size: size > infinity,
        # "As a special case, positive and negative zero are considered normal numbers."
        "normal": lambda size: ((size >= smallest) & (size < infinity)) | (size == 0),
        "subnormal": lambda size: (size > 0) & (size < smallest),
    }
    return map_lanes(site, lambda x: tests[name](x & (sign - 1)), "pred", bits_kind(kind))
