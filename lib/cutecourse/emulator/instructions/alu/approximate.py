"""Approximate functions: rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh.

The hardware's tables are not published. The model is the mathematical function, computed in float64 and
rounded to nearest into the format; the ISA gives each instruction's largest error on hardware, and the
cases compare with recordings within that error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.alu.floats import ROUNDINGS, bits_kind, format_of
from cutecourse.emulator.instructions.alu.integers import map_lanes
from cutecourse.emulator.numbers import exact
from cutecourse.emulator.numbers.formats import FORMATS, convert_float, flush_subnormals, to_float64

__all__: list[str] = []

Values = NDArray[Any]
_ONE_F32 = np.uint32(0x3F800000)
_ONE_F64 = np.uint64(0x3FF0_0000_0000_0000)


def _reciprocal(x: Values) -> Values:
    return np.divide(1.0, x)


def _reciprocal_root(x: Values) -> Values:
    return np.divide(1.0, np.sqrt(x))


_FUNCTIONS: dict[str, Callable[[Values], Values]] = {
    "rcp": _reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": _reciprocal_root,
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


def _approximate(site: Site, kind: str, *, ftz: bool) -> Step:
    """The function in float64, rounded once into the kind."""
    function = _FUNCTIONS[site.instruction.opcode]
    bits, fmt = bits_kind(kind), format_of(kind)
    target, a = site.destination(0, bits), site.source(1, bits)

    def apply(x: Values) -> Values:
        held = flush_subnormals(x, fmt) if ftz else x
        value = np.array(function(to_float64(held, fmt)), dtype=np.float64)
        result = convert_float(value.view(np.uint64), FORMATS["f64"], fmt, "rn")
        return flush_subnormals(result, fmt) if ftz else result

    return map_lanes((bits, target), [(bits, a)], apply)


@instruction("rcp", "sqrt")
def rcp(site: Site) -> Step:
    """The reciprocal, or the square root, of a number.

    Shapes:     one number in each lane.
    Units:      `.rn .rz .rm .rp` round once; `.approx` is rounded to nearest here.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: `.approx.f32` is off by at most one unit in the last place on hardware; `rcp.approx.ftz.f64`
                keeps only the top 20 bits of its fraction there and here.
    Source:     PTX ISA 9.0, Floating Point Instructions: rcp, sqrt (#floating-point-instructions-rcp).
    """
    approximate = site.has("approx")
    rounding = None if approximate else site.expect(*ROUNDINGS)
    ftz = site.has("ftz")
    kind = site.type("f32", "f64")
    if approximate and kind == "f64":
        return _top_half(site, ftz=ftz)
    if rounding is None:
        return _approximate(site, kind, ftz=ftz)
    bits, fmt = bits_kind(kind), format_of(kind)
    target, a = site.destination(0, bits), site.source(1, bits)
    clamps = {"ftz": True} if ftz else {}
    one = _ONE_F32 if kind == "f32" else _ONE_F64
    reciprocal = site.instruction.opcode == "rcp"

    def apply(x: Values) -> Values:
        if reciprocal:
            result = exact.divide(one, x, fmt, rounding, **clamps)
        else:
            result = exact.square_root(x, fmt, rounding, **clamps)
        return exact.first_nan(result, x) if kind == "f64" else result

    return map_lanes((bits, target), [(bits, a)], apply)


def _top_half(site: Site, *, ftz: bool) -> Step:
    """rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: the low 32 bits of the result are zero."""
    if not ftz:
        site.unsupported("the approximate f64 form needs .ftz")
    function = _FUNCTIONS[site.instruction.opcode]
    if site.instruction.opcode == "sqrt":
        site.unsupported("sqrt.approx of f64")
    target, a = site.destination(0, "u64"), site.source(1, "u64")
    fmt = FORMATS["f64"]
    low = np.uint64(0xFFFFFFFF)

    def apply(x: Values) -> Values:
        # Only the upper half of the operand is looked at: a NaN whose payload lies below it is an infinity.
        held = flush_subnormals(x & ~low, fmt).view(np.float64)
        value = np.array(function(held), dtype=np.float64)
        bits = np.where(np.isnan(value), np.uint64(0x7FFF_FFFF_0000_0000), value.view(np.uint64) & ~low)
        return flush_subnormals(bits, fmt)

    return map_lanes(("u64", target), [("u64", a)], apply)


@instruction("rsqrt")
def rsqrt(site: Site) -> Step:
    """The reciprocal of the square root.

    Shapes:     one number in each lane.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: rounded to nearest; the hardware's largest relative error is 2^-22.9 for f32.
    Source:     PTX ISA 9.0, Floating Point Instructions: rsqrt (#floating-point-instructions-rsqrt).
    """
    site.expect("approx")
    ftz = site.has("ftz")
    kind = site.type("f32", "f64")
    if kind == "f64":
        return _top_half(site, ftz=ftz)
    return _approximate(site, kind, ftz=ftz)


@instruction("sin", "cos", "lg2")
def sin(site: Site) -> Step:
    """Sine, cosine, or logarithm to base 2.

    Shapes:     one number in each lane.
    Units:      radians.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: rounded to nearest; the hardware's largest absolute error is about 2^-20.5 for sin and cos in
                [-2 pi, 2 pi], and 2^-22 for lg2 near one.
    Source:     PTX ISA 9.0, Floating Point Instructions: sin, cos, lg2 (#floating-point-instructions-sin).
    """
    site.expect("approx")
    ftz = site.has("ftz")
    return _approximate(site, site.type("f32"), ftz=ftz)


@instruction("ex2", "tanh")
def ex2(site: Site) -> Step:
    """Two to the power of a number, or its hyperbolic tangent.

    Shapes:     one number in each lane; two in the packed types.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: rounded to nearest; the hardware's largest relative error is 2^-22 for ex2.f32, 2^-11 for
                tanh.f32, 2^-9.9 for ex2.f16 and about one unit in the last place for the other 16-bit forms.
    Source:     PTX ISA 9.0, Floating Point Instructions: ex2, tanh (#floating-point-instructions-ex2);
                Half Precision Floating Point Instructions: ex2, tanh
                (#half-precision-floating-point-instructions-ex2).
    """
    site.expect("approx")
    ftz = site.has("ftz")
    kind = site.type("f32", "f16", "f16x2", "bf16", "bf16x2")
    return _approximate(site, kind, ftz=ftz)
