"""Approximate functions: rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh.

The hardware's tables are not published. The emulator computes the mathematical function in float64 and
rounds it to nearest into the format. The ISA gives each instruction's largest error on hardware; the cases
compare with recordings within that error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.alu.floats import ROUNDINGS, bits_kind, format_of, rounded_once
from cutecourse.emulator.instructions.lanes import Values, map_lanes
from cutecourse.emulator.numbers import exact
from cutecourse.emulator.numbers.formats import (
    FORMATS,
    Bits,
    FloatFormat,
    Rounding,
    convert_float,
    flush_subnormals,
    to_float64,
)

__all__: list[str] = []

_FUNCTIONS: dict[str, Callable[[Values], Values]] = {
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.divide(1.0, np.sqrt(x)),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


def _approximate(site: Site, kind: str) -> Step:
    """Compute the function in float64 and round it once into the kind."""
    function = _FUNCTIONS[site.instruction.opcode]
    ftz = site.has("ftz")
    bits, fmt = bits_kind(kind), format_of(kind)

    def apply(x: Values) -> Values:
        held = flush_subnormals(x, fmt) if ftz else x
        value = function(to_float64(held, fmt))
        result = convert_float(value.view(np.uint64), FORMATS["f64"], fmt, "rn")
        return flush_subnormals(result, fmt) if ftz else result

    return map_lanes(site, apply, bits, bits)


@instruction("rcp", "sqrt")
def rcp(site: Site) -> Step:
    """Compute the reciprocal or the square root of a number.

    Shapes:     one number in each lane.
    Units:      `.rn .rz .rm .rp` round once; `.approx.f32` is rounded to nearest here.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: `.approx.f32` is off by at most one unit in the last place on hardware; `rcp.approx.ftz.f64`
                keeps only the top 20 bits of its fraction on hardware and in the emulator.
    Source:     PTX ISA 9.0, Floating Point Instructions: rcp, sqrt (#floating-point-instructions-rcp).
    """
    approximate = site.has("approx")
    rounding = None if approximate else site.expect(*ROUNDINGS)
    kind = site.type("f32", "f64")
    if rounding is None:
        return _approximate(site, kind) if kind == "f32" else _top_half(site)
    function = _reciprocal if site.instruction.opcode == "rcp" else exact.square_root
    clamps = {"ftz": True} if site.has("ftz") else {}
    return rounded_once(site, function, kind, rounding, clamps, (0,))


def _reciprocal(x: Values, fmt: FloatFormat, rounding: Rounding, **clamps: bool) -> Bits:
    return exact.divide(fmt.one, x, fmt, rounding, **clamps)


def _top_half(site: Site) -> Step:
    """rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: the low 32 bits of the result are zero."""
    if not site.has("ftz"):
        site.unsupported("the approximate f64 form needs .ftz, or take .rn")
    function = _FUNCTIONS[site.instruction.opcode]
    if site.instruction.opcode == "sqrt":
        site.unsupported("sqrt.approx of f64")
    fmt = FORMATS["f64"]
    low = np.uint64(0xFFFFFFFF)

    def apply(x: Values) -> Values:
        # The hardware reads only the upper half: a NaN with its payload in the lower half is an infinity.
        value = function(flush_subnormals(x & ~low, fmt).view(np.float64))
        bits = np.where(np.isnan(value), np.uint64(0x7FFF_FFFF_0000_0000), value.view(np.uint64) & ~low)
        return flush_subnormals(bits, fmt)

    return map_lanes(site, apply, "u64", "u64")


@instruction("rsqrt")
def rsqrt(site: Site) -> Step:
    """Compute the reciprocal of the square root.

    Shapes:     one number in each lane.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: f32 is rounded to nearest; the hardware's largest relative error is 2^-22.9. f64 without .ftz
                rounds the root and then the quotient, so its last bit may differ from the nearest number; the
                ISA states no error for it. rsqrt.approx.ftz.f64 keeps only the top 20 bits of its fraction.
    Source:     PTX ISA 9.0, Floating Point Instructions: rsqrt (#floating-point-instructions-rsqrt).
    """
    site.expect("approx")
    ftz = "ftz" in site.instruction.modifiers
    kind = site.type("f32", "f64")
    return _top_half(site) if ftz and kind == "f64" else _approximate(site, kind)


@instruction("sin", "cos", "lg2")
def sin(site: Site) -> Step:
    """Compute the sine, the cosine, or the logarithm to base 2.

    Shapes:     one number in each lane.
    Units:      radians.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: rounded to nearest; the hardware's largest absolute error is about 2^-20.5 for sin and cos in
                [-2 pi, 2 pi], and 2^-22 for lg2 near one.
    Source:     PTX ISA 9.0, Floating Point Instructions: sin, cos, lg2 (#floating-point-instructions-sin).
    """
    site.expect("approx")
    return _approximate(site, site.type("f32"))


@instruction("ex2", "tanh")
def ex2(site: Site) -> Step:
    """Compute two to the power of a number, or the number's hyperbolic tangent.

    Shapes:     one number in each lane; two in the packed types.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: rounded to nearest; the hardware's largest relative error is 2^-22 for ex2.f32, 2^-11 for
                tanh.f32, 2^-9.9 for ex2.f16 and about one unit in the last place for the other 16-bit forms.
    Source:     PTX ISA 9.0, Floating Point Instructions: ex2, tanh (#floating-point-instructions-ex2);
                Half Precision Floating Point Instructions: ex2, tanh
                (#half-precision-floating-point-instructions-ex2).
    """
    site.expect("approx")
    return _approximate(site, site.type("f32", "f16", "f16x2", "bf16", "bf16x2"))
