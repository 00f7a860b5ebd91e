"""cvt: conversions between the number types, with every rounding and clamp of the ISA."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cutecourse.dtypes import nearest_bf16
from cutecourse.emulator.core.facts import Facts, IntegerOperation
from cutecourse.emulator.core.kinds import KINDS, any_true
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.lanes import Values, map_lanes
from cutecourse.emulator.numbers import formats as numerics
from cutecourse.emulator.numbers.formats import FORMATS, FloatFormat, Rounding

__all__: list[str] = []

_INTEGERS = tuple(f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64))
_SCALARS = (*_INTEGERS, "f16", "bf16", "f32", "f64", "tf32")
_NARROW = ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2")
_PACKED = {name: name.removesuffix("x2") for name in ("f16x2", "bf16x2", "ue8m0x2", *_NARROW)}
_TO_INTEGER: dict[str, Rounding] = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}
_TO_FLOAT: tuple[Rounding, ...] = ("rn", "rz", "rm", "rp", "rna")
_REGISTER_BITS = {"tf32": 32, "f16x2": 32, "bf16x2": 32, "ue8m0x2": 16, **dict.fromkeys(_NARROW, 16)}
_REGISTER_BITS["e2m1x2"] = 8

# (target, source): `nearest_bf16` or a NumPy cast rounds these to nearest even. `formats` does the others.
_ROUNDED_BY_A_CAST = {
    *(("f32", source) for source in ("f16", "u32", "s32", "u64", "s64")),
    *(("f64", source) for source in ("u32", "s32", "u64", "s64")),
    ("f16", "f32"),
    ("bf16", "f32"),
}

Convert = Callable[[Values], Values]


def _bits(name: str) -> int:
    return _REGISTER_BITS.get(name) or int(name.lstrip("bsuf"))


@instruction("cvt", facts=Facts(computes=IntegerOperation.CONVERT, wider_registers=True))
def cvt(site: Site) -> Step:
    """Convert a number to another type: widen, cut, round or clamp it.

    Shapes:     one number, or two for the packed types: the first source goes to the high half. A pair of
                e2m1 fills a register of 8 bits, one of any other narrow format 16; e2m3 and e3m2 have two
                zeros above their 6 bits. A source wider than its type gives its low bits; a wider destination
                is filled with the sign or zeros.
    Units:      integer roundings .rni .rzi .rmi .rpi (to a whole number), float roundings .rn .rz .rm .rp
                .rna; an integer result of a float is always clamped; .sat clamps an integer into the
                target's range, a float into [0, 1]. To ue8m0, .rz and .rp round the magnitude.
    Errors:     UnsupportedInstruction for types, roundings and clamps that cannot be combined, and for .rs.
    Simplified: between f16 and bf16, which are as wide as each other, no rounding means .rn, as ptxas 13.0
                reads it. Pairs of every narrow format convert to and from pairs of f16 and of bf16; some of
                these are newer than PTX 9.0. The bits of NaNs, which the ISA leaves open in part, are those
                of an H200. For ue8m0 and formats without NaN, CUDA's headers say what NaN, zero and negative
                numbers become.
    Source:     PTX ISA 9.0, cvt (#data-movement-and-conversion-instructions-cvt).
    """
    if site.has("rs"):
        site.unsupported("stochastic rounding: take .rn, which rounds to the nearest number")
    whole = site.one_of(*_TO_INTEGER)
    rounding = site.one_of(*_TO_FLOAT)
    clamps = {name: True for name in ("ftz", "sat", "relu", "satfinite") if site.has(name)}
    target = site.type(*_SCALARS, *_PACKED)
    source = site.type(*_SCALARS, *_PACKED)
    if target in _PACKED or source in _PACKED:
        return _packed(site, target, source, rounding, clamps)
    if "satfinite" in clamps and target not in ("f16", "bf16", "tf32"):
        site.unsupported(f".satfinite cannot be combined with .{target}")
    if "relu" in clamps and (target not in ("f16", "bf16", "tf32") or source != "f32"):
        site.unsupported(f".relu cannot be combined with .{target}.{source}")
    convert = _scalar(site, target, source, whole, rounding, clamps)
    width = site.width(0) or _bits(target)
    if width > 64:
        site.invalid(f"a number of type .{target} in a register of {width} bits")
    if rounding in (None, "rn") and not clamps and (target, source) in _ROUNDED_BY_A_CAST:
        convert, width = _cast(target, source), _bits(target)
    read = source if source in _INTEGERS else f"u{_bits(source)}"
    if target not in _INTEGERS:
        return map_lanes(site, convert, f"u{width}", read)
    # A register that is wider than the integer is filled with its sign or with zeros.
    narrow = KINDS[target][1]
    return map_lanes(site, lambda a: convert(a).astype(narrow), f"{target[0]}{width}", read)


def _cast(target: str, source: str) -> Convert:
    """A conversion by a NumPy cast, which gives the same bits faster."""
    fmt = FORMATS[target]
    if source in _INTEGERS:
        return lambda a: a.astype(KINDS[target][1]).view(f"u{fmt.bits // 8}")
    return lambda a: _cast_bits(a.view(KINDS[source][1]), fmt)


def _cast_bits(held: Values, fmt: FloatFormat) -> Values:
    """Convert floats to another format, rounded to nearest even; a NaN becomes its canonical NaN."""
    rounded = nearest_bf16(held) if fmt.name == "bf16" else held.astype(KINDS[fmt.name][1])
    result = rounded.view(f"u{fmt.bits // 8}")
    nan = np.isnan(held)
    if any_true(nan):
        result[nan] = fmt.nan
    return result


def _scalar(
    site: Site,
    target: str,
    source: str,
    whole: str | None,
    rounding: Rounding | None,
    clamps: dict[str, bool],
) -> Convert:
    to_integer, from_integer = target in _INTEGERS, source in _INTEGERS
    ftz, sat = "ftz" in clamps, "sat" in clamps
    if ftz and "f32" not in (target, source):
        site.unsupported(".ftz needs .f32 on one side")
    of_source, of_target = (_bits(source), source[0] == "s"), (_bits(target), target[0] == "s")
    if to_integer and from_integer:
        if whole or rounding:
            site.unsupported("an integer needs no rounding on its way to an integer")
        return (lambda a: numerics.clamp_integer(a, *of_source, *of_target)) if sat else (lambda a: a)
    if to_integer:
        if whole is None or rounding:
            site.unsupported("a float becomes an integer with .rni, .rzi, .rmi or .rpi")
        # The result is clamped into the integer's range with or without .sat.
        mode = _TO_INTEGER[whole]
        return lambda a: numerics.float_to_integer(a, FORMATS[source], *of_target, mode, ftz=ftz)
    if from_integer:
        if rounding not in ("rn", "rz", "rm", "rp"):
            site.unsupported("an integer becomes a float with .rn, .rz, .rm or .rp")
        return lambda a: numerics.integer_to_float(a, *of_source, FORMATS[target], rounding, sat=sat)
    a_fmt, d_fmt = FORMATS[source], FORMATS[target]
    if whole is not None:
        if source != target:
            site.unsupported(f".{whole} rounds a float to a whole number of its own type, or to an integer")
        mode = _TO_INTEGER[whole]
        return lambda a: numerics.round_to_integral(a, d_fmt, mode, ftz=ftz, sat=sat)
    narrows = d_fmt.fraction_bits < a_fmt.fraction_bits or d_fmt.exponent_bits < a_fmt.exponent_bits
    if narrows and rounding is None and {source, target} != {"f16", "bf16"}:
        site.unsupported(f"from .{source} to .{target} a rounding modifier is needed")
    if rounding and not narrows and "bf16" not in (source, target):
        site.unsupported(f"from .{source} to .{target} there is nothing to round")
    if (rounding == "rna" and target != "tf32") or source == "tf32" or (target == "tf32" and source != "f32"):
        site.unsupported(f"no conversion .{rounding}.{target}.{source}")
    if rounding == "rna":
        return lambda a: numerics.convert_to_tf32_away(a, satfinite="satfinite" in clamps)
    return lambda a: numerics.convert_float(a, a_fmt, d_fmt, rounding or "rn", **clamps)


_PACKED_SOURCES = {
    "f16x2": ("f32", *_NARROW),
    "bf16x2": ("f32", "ue8m0x2", *_NARROW),
    "ue8m0x2": ("f32", "bf16x2"),
    **dict.fromkeys(_NARROW, ("f32", "f16x2", "bf16x2")),
}
"""The sources of each packed target."""


def _packed(site: Site, target: str, source: str, rounding: Rounding | None, clamps: dict[str, bool]) -> Step:
    """Convert two numbers at once, from a register each or from one."""
    if source not in _PACKED_SOURCES.get(target, ()) or clamps.keys() & {"ftz", "sat"}:
        site.unsupported(f"no conversion .{target}.{source} with these modifiers")
    if "ue8m0x2" in (target, source) and "relu" in clamps:
        site.unsupported("a power of two has no sign that .relu could clamp")
    roundings: tuple[Rounding, ...] = ("rn",)
    if target == "ue8m0x2":
        roundings = ("rz", "rp")
    elif target not in _NARROW and source == "f32":
        roundings = ("rn", "rz")
    if rounding not in roundings:
        site.unsupported(f".{target}.{source} takes {' or '.join('.' + name for name in roundings)}")
    if target in _NARROW and "satfinite" not in clamps:
        site.unsupported(f".{target}.{source} takes .rn.satfinite")
    if source not in ("f32", "bf16x2") and target not in _NARROW and "satfinite" in clamps:
        site.unsupported(f"no number of .{source} is too large for .{target}, so it takes no .satfinite")
    convert = _one_of_pair(_PACKED[target], _PACKED.get(source, source), rounding, clamps)
    # Each number takes half of its register.
    to_bits, of_bits = (np.uint64(_bits(name) // 2) for name in (target, source))

    def function(*registers: Values) -> Values:
        if len(registers) == 2:
            high, low = registers
        else:
            both = registers[0].astype(np.uint64)
            high, low = both >> of_bits, both & ((np.uint64(1) << of_bits) - np.uint64(1))
        return (convert(high) << to_bits) | convert(low)

    sources = [f"u{_bits(source)}"] * (2 if source == "f32" else 1)
    return map_lanes(site, function, f"u{_bits(target)}", *sources)


def _one_of_pair(target: str, source: str, rounding: Rounding, clamps: dict[str, bool]) -> Convert:
    """The conversion of one number of a pair."""
    if source == "ue8m0":
        return numerics.convert_from_ue8m0
    a_fmt = FORMATS[source]
    if target == "ue8m0":
        satfinite = "satfinite" in clamps
        return lambda a: numerics.convert_to_ue8m0(a, a_fmt, rounding, satfinite=satfinite)
    d_fmt = FORMATS[target]
    if rounding == "rn" and not clamps and (target, source) in _ROUNDED_BY_A_CAST:
        return lambda a: _cast_bits(a.view(np.float32), d_fmt).astype(np.uint64)
    return lambda a: numerics.convert_float(a, a_fmt, d_fmt, rounding, **clamps)


@instruction("cvt.pack.sat")
def cvt_pack(site: Site) -> Step:
    """Clamp two integers into a narrower type and put them below the bits of an earlier result.

    Shapes:     d holds, from the top down, the low bits of c, the result of a and the result of b. Without c
                (16 bits) the two results fill the register.
    Source:     PTX ISA 9.0, cvt.pack (#data-movement-and-conversion-instructions-cvt-pack).
    """
    target = site.type("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2")
    source = site.type("s32")
    bits, signed = int(target[1:]), target[0] == "s"
    if bits < 16 and site.one_of("b32") is None:
        site.unsupported(f"cvt.pack.sat.{target}.{source} takes .b32 and a third source")

    def function(a: Values, b: Values, *c: Values) -> Values:
        high, low = (numerics.clamp_integer(x, 32, True, bits, signed) for x in (a, b))
        result = (high << bits) | low
        for above in c:
            result |= above.astype(np.uint64) << (2 * bits)
        return result

    return map_lanes(site, function, *["u32"] * (4 if bits < 16 else 3))
