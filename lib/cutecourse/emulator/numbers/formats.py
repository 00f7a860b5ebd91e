"""Floating-point formats as bits, and the exact conversions between them and the integers.

Everything here is a pure function on NumPy arrays of any shape. Bits go in as unsigned integers of any
width and come out as uint64 with the value in the low bits. A conversion first splits a number into a sign,
an integer magnitude and a power of two, so no intermediate step rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutecourse.dtypes import decode

__all__ = [
    "FORMATS",
    "FloatFormat",
    "Rounding",
    "Unpacked",
    "clamp_integer",
    "clamp_relu",
    "clamp_unit",
    "convert_float",
    "convert_from_ue8m0",
    "convert_to_tf32_away",
    "convert_to_ue8m0",
    "float_to_integer",
    "flush_subnormals",
    "integer_to_float",
    "pack",
    "round_magnitude",
    "round_to_integral",
    "to_float64",
    "unpack",
]

Rounding = Literal["rn", "rz", "rm", "rp", "rna"]
Bits = NDArray[np.uint64]
Mask = NDArray[np.bool_]

_ONE = np.uint64(1)
_F32_EXPONENT_BITS = 8
_LARGEST_UE8M0 = 254


@dataclass(frozen=True)
class FloatFormat:
    """The bit fields of one floating-point type, and its codes for infinity and NaN.

    The low `padding_bits` bits are always written as zero: tf32 keeps its 19 bits at the top of a register.
    Source: PTX ISA 9.0, Floating-point types and Alternate Floating-Point Data Formats.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    padding_bits: int = 0
    has_infinity: bool = True
    has_nan: bool = True

    @cached_property
    def bits(self) -> int:
        """The number of bits of a value, including the padding."""
        return 1 + self.exponent_bits + self.fraction_bits + self.padding_bits

    @cached_property
    def bias(self) -> int:
        """The exponent field minus the exponent."""
        return (1 << (self.exponent_bits - 1)) - 1

    @cached_property
    def min_exponent(self) -> int:
        """The exponent of the smallest normal number, which the subnormal numbers share."""
        return 1 - self.bias

    @cached_property
    def sign_bit(self) -> np.uint64:
        """The topmost bit."""
        return np.uint64(1 << (self.bits - 1))

    @cached_property
    def infinity(self) -> np.uint64:
        """The bits of +Inf; without an infinity those of `nan`."""
        if not self.has_infinity:
            return self.nan
        all_ones = (1 << self.exponent_bits) - 1
        return np.uint64(all_ones << (self.fraction_bits + self.padding_bits))

    @cached_property
    def max_finite(self) -> np.uint64:
        """The bits of the largest finite number."""
        step = 1 << self.padding_bits
        return np.uint64(int(self.infinity) - step) if self.has_nan else self.nan

    @cached_property
    def nan(self) -> np.uint64:
        """The canonical NaN, which an operation writes if its result is not a number.

        It has all ones below the sign. In f64, where operands pass on their NaN, it is negative with an empty
        payload. In a format without NaN it is the largest number, which takes its place.
        """
        if self.name == "f64":
            return np.uint64(0xFFF8_0000_0000_0000)
        return np.uint64((1 << (self.bits - 1)) - (1 << self.padding_bits))

    @cached_property
    def one(self) -> np.uint64:
        """The bits of 1.0."""
        return np.uint64(self.bias << (self.fraction_bits + self.padding_bits))

    @cached_property
    def quiet_bit(self) -> np.uint64:
        """The fraction's top bit, which distinguishes a quiet NaN from a signaling one."""
        return np.uint64(1 << (self.fraction_bits - 1 + self.padding_bits))


FORMATS: dict[str, FloatFormat] = {
    known.name: known
    for known in (
        FloatFormat("f64", 11, 52),
        FloatFormat("f32", 8, 23),
        FloatFormat("tf32", 8, 10, padding_bits=13),
        FloatFormat("f16", 5, 10),
        FloatFormat("bf16", 8, 7),
        FloatFormat("e4m3", 4, 3, has_infinity=False),
        FloatFormat("e5m2", 5, 2),
        FloatFormat("e2m3", 2, 3, has_infinity=False, has_nan=False),
        FloatFormat("e3m2", 3, 2, has_infinity=False, has_nan=False),
        FloatFormat("e2m1", 2, 1, has_infinity=False, has_nan=False),
    )
}


@dataclass(frozen=True)
class Unpacked:
    """Numbers in parts: a finite one is exactly (-1)^sign * magnitude * 2^exponent."""

    sign: Mask
    magnitude: Bits
    exponent: NDArray[np.int64]
    infinite: Mask
    nan: Mask


def as_bits(bits: ArrayLike) -> Bits:
    """Convert unsigned integers of any width to uint64; an array of uint64 is not copied."""
    return np.asarray(bits).astype(np.uint64, copy=False)


def unpack(bits: ArrayLike, fmt: FloatFormat) -> Unpacked:
    """Split numbers of a format into parts; a normal one has its hidden bit, a subnormal is not normalized.

    Infinities and NaNs have magnitude zero and their flag set.
    """
    held = as_bits(bits)
    below = held & (fmt.sign_bit - _ONE)
    field = (below >> np.uint64(fmt.fraction_bits + fmt.padding_bits)).astype(np.int64)
    fraction = (below >> np.uint64(fmt.padding_bits)) & np.uint64((1 << fmt.fraction_bits) - 1)
    if fmt.has_infinity:
        # The bits that tf32 ignores cannot turn an infinity into a NaN.
        special = field == (1 << fmt.exponent_bits) - 1
        infinite = special & (fraction == 0)
        nan = special & (fraction != 0)
    else:
        nan = (below == fmt.nan) & fmt.has_nan
        special = nan
        infinite = np.zeros_like(nan)
    magnitude = np.where(field > 0, fraction | np.uint64(1 << fmt.fraction_bits), fraction)
    magnitude = np.where(special, np.uint64(0), magnitude)
    exponent = np.maximum(field, 1) - (fmt.bias + fmt.fraction_bits)
    return Unpacked((held & fmt.sign_bit) != 0, magnitude, exponent, infinite, nan)


def to_float64(bits: ArrayLike, fmt: FloatFormat) -> NDArray[np.float64]:
    """Convert numbers to float64; this is exact, because float64 holds every value of every format."""
    held = as_bits(bits)
    if fmt.name == "f64":
        return held.view(np.float64)
    if fmt.name == "f16":
        return held.astype(np.uint16).view(np.float16).astype(np.float64)
    if fmt.exponent_bits == _F32_EXPONENT_BITS:
        # f32, tf32 and bf16 are the upper bits of an f32.
        wide = held.astype(np.uint32) << np.uint32(32 - fmt.bits)
        wide &= np.uint32(0xFFFF_FFFF << (23 - fmt.fraction_bits) & 0xFFFF_FFFF)
        with np.errstate(invalid="ignore"):
            return wide.view(np.float32).astype(np.float64)
    return decode(held.astype(np.uint8), fmt.name).astype(np.float64)


def bit_length(magnitude: Bits) -> NDArray[np.int64]:
    """The number of bits that each integer needs; zero needs none."""
    guess = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)
    # The conversion to float64 may round up to the next power of two.
    top = np.maximum(guess - 1, 0).astype(np.uint64)
    too_long = (guess == 65) | ((guess > 0) & ((magnitude >> np.minimum(top, np.uint64(63))) == 0))
    found: NDArray[np.int64] = guess - too_long
    return found


def round_magnitude(magnitude: ArrayLike, drop: ArrayLike, sign: ArrayLike, rounding: Rounding) -> Bits:
    """Drop the low `drop` bits of integers and round the rest; a negative `drop` shifts left instead.

    If `drop` is 64 or more, the magnitude must be below 2^63, so that it counts as less than a half.
    """
    held, count = as_bits(magnitude), np.asarray(drop, dtype=np.int64)
    right = np.clip(count, 0, 63).astype(np.uint64)
    kept = np.where(count > 63, np.uint64(0), held >> right)
    rest = held - (kept << right)
    half = _ONE << np.clip(count - 1, 0, 63).astype(np.uint64)
    negative = np.asarray(sign, dtype=np.bool_)
    up: Mask
    match rounding:
        case "rn":
            up = (rest > half) | ((rest == half) & ((kept & _ONE) != 0))
        case "rna":
            up = rest >= half
        case "rz":
            up = np.zeros_like(negative)
        case "rm":
            up = (rest != 0) & negative
        case "rp":
            up = (rest != 0) & ~negative
    left = np.clip(-count, 0, 63).astype(np.uint64)
    return (kept << left) + up.astype(np.uint64)


def pack(
    sign: ArrayLike,
    magnitude: ArrayLike,
    exponent: ArrayLike,
    fmt: FloatFormat,
    rounding: Rounding = "rn",
    *,
    satfinite: bool = False,
) -> Bits:
    """Round (-1)^sign * magnitude * 2^exponent once into a format and give its bits.

    A number that is too large becomes infinity or the largest finite number, as the rounding direction says;
    with `satfinite` it is always the latter. A zero keeps its sign.
    """
    held = as_bits(magnitude)
    negative = np.asarray(sign, dtype=np.bool_)
    scale = np.asarray(exponent, dtype=np.int64)
    top = scale + bit_length(held) - 1
    binade = np.maximum(top, fmt.min_exponent)
    binade = np.where(held == 0, fmt.min_exponent, binade)
    kept = round_magnitude(held, binade - fmt.fraction_bits - scale, negative, rounding)
    # Rounding up to the next power of two carries into the exponent field by itself.
    field = np.clip(binade + fmt.bias - 1, 0, 1 << fmt.exponent_bits).astype(np.uint64)
    bits = (field << np.uint64(fmt.fraction_bits)) + kept
    bits = bits << np.uint64(fmt.padding_bits)
    away = {"rn": True, "rna": True, "rz": False, "rm": negative, "rp": ~negative}[rounding]
    overflow = np.where(np.asarray(away) & (not satfinite), fmt.infinity, fmt.max_finite)
    bits = np.where(bits > fmt.max_finite, overflow, bits)
    return np.where(negative, bits | fmt.sign_bit, bits)


def flush_subnormals(bits: ArrayLike, fmt: FloatFormat) -> Bits:
    """Apply `.ftz` to an operand or a result: a subnormal number becomes a zero of its sign."""
    held = as_bits(bits)
    field = np.uint64(((1 << fmt.exponent_bits) - 1) << (fmt.fraction_bits + fmt.padding_bits))
    return np.where((held & field) == 0, held & fmt.sign_bit, held)


def clamp_unit(bits: ArrayLike, fmt: FloatFormat) -> Bits:
    """Apply `.sat` to a result: clamp it to [0.0, 1.0], and turn NaN into +0.0."""
    held = as_bits(bits)
    clamped = np.where((held & fmt.sign_bit) != 0, np.uint64(0), np.minimum(held, fmt.one))
    return np.where(unpack(held, fmt).nan, np.uint64(0), clamped)


def clamp_relu(bits: ArrayLike, fmt: FloatFormat) -> Bits:
    """Apply `.relu` to a result: numbers below zero become +0.0, and NaN becomes the canonical NaN."""
    held = as_bits(bits)
    clamped = np.where((held & fmt.sign_bit) != 0, np.uint64(0), held)
    return np.where(unpack(held, fmt).nan, fmt.nan, clamped)


def convert_float(
    bits: ArrayLike,
    source: FloatFormat,
    target: FloatFormat,
    rounding: Rounding = "rn",
    *,
    ftz: bool = False,
    sat: bool = False,
    relu: bool = False,
    satfinite: bool = False,
) -> Bits:
    """Convert floats to another format, rounded once.

    With `satfinite` an infinity becomes the largest finite number. `ftz` flushes subnormal f32 operands and
    results, `sat` and `relu` clamp the result. A NaN becomes the target's canonical NaN; from or to f64 it
    keeps its sign and as much payload as fits, and becomes quiet; from bf16 to f32 it does not change. In a
    format without NaN it becomes the largest number.
    """
    held = as_bits(bits)
    if ftz and source.name == "f32":
        held = flush_subnormals(held, source)
    taken = unpack(held, source)
    result = pack(taken.sign, taken.magnitude, taken.exponent, target, rounding, satfinite=satfinite)
    largest = target.max_finite if satfinite else target.infinity
    result = np.where(taken.infinite, np.where(taken.sign, largest | target.sign_bit, largest), result)
    result = np.where(taken.nan, _converted_nan(held, source, target, ftz), result)
    if ftz and target.name == "f32":
        result = flush_subnormals(result, target)
    if relu:
        result = clamp_relu(result, target)
    return clamp_unit(result, target) if sat else result


def _converted_nan(bits: Bits, source: FloatFormat, target: FloatFormat, ftz: bool) -> Bits:
    """Convert NaNs as an H200 does; the ISA leaves their bits open."""
    if source.name == "bf16" and target.name == "f32" and not ftz:
        return bits << np.uint64(16)
    if "f64" not in (source.name, target.name):
        return np.full(bits.shape, target.nan)
    if ftz and source.name == "f32":
        bits = np.full(bits.shape, source.nan)
    fraction = bits & np.uint64((1 << source.fraction_bits) - 1)
    moved = target.fraction_bits - source.fraction_bits
    fraction = fraction << np.uint64(moved) if moved >= 0 else fraction >> np.uint64(-moved)
    negative = np.where((bits & source.sign_bit) != 0, target.sign_bit, np.uint64(0))
    return negative | target.infinity | target.quiet_bit | fraction


def convert_to_tf32_away(bits: ArrayLike, *, satfinite: bool = False) -> Bits:
    """Compute cvt.rna.tf32.f32 as an H200 does: add half of the last kept place, and cut off the rest.

    A NaN keeps its sign and the 10 upper bits of its payload, and becomes an infinity if these are all zero.
    `satfinite` subtracts one kept place from an infinity or a NaN, so a NaN can become a number.
    """
    held = as_bits(bits)
    exponent = np.uint64(0x7F80_0000)
    finite = (held & exponent) != exponent
    result = np.where(finite, held + np.uint64(0x1000), held) & np.uint64(0xFFFF_E000)
    if satfinite:
        result = np.where((result & exponent) == exponent, result - np.uint64(0x2000), result)
    return result


def convert_to_ue8m0(bits: ArrayLike, source: FloatFormat, rounding: Rounding, *, satfinite: bool) -> Bits:
    """Round the magnitudes of f32 or bf16 numbers to powers of two, down (rz) or up (rp), as codes of ue8m0.

    The sign is ignored. What is smaller than 2^-127 becomes 2^-127. What is too large becomes NaN (255), or
    2^127 with `satfinite`; NaN stays NaN.
    Source: PTX ISA 9.0, Alternate Floating-Point Data Formats; the conversions of CUDA's cuda_fp8.hpp, which
    the ISA leaves open in part.
    """
    below = as_bits(bits) & (source.sign_bit - _ONE)
    code = below >> np.uint64(source.fraction_bits)
    if rounding == "rp":
        # Among the subnormal numbers, 2^-127 has the upper half of the fraction's codes above it.
        smallest = np.uint64(1 << (source.fraction_bits - 1))
        fraction = below & np.uint64((1 << source.fraction_bits) - 1)
        code = code + ((fraction != 0) & (below > smallest) & (below < source.infinity))
    if satfinite:
        code = np.where(below <= source.infinity, np.minimum(code, np.uint64(_LARGEST_UE8M0)), code)
    return code


def convert_from_ue8m0(codes: ArrayLike) -> Bits:
    """Convert codes of ue8m0 to bf16, which is exact; 255 becomes the canonical NaN."""
    held = as_bits(codes)
    half = np.uint64(1 << (FORMATS["bf16"].fraction_bits - 1))
    powers = np.where(held == 0, half, held << np.uint64(FORMATS["bf16"].fraction_bits))
    return np.where(held > _LARGEST_UE8M0, FORMATS["bf16"].nan, powers)


def round_to_integral(
    bits: ArrayLike, fmt: FloatFormat, rounding: Rounding, *, ftz: bool = False, sat: bool = False
) -> Bits:
    """Round floats to whole numbers in their own format, as `cvt.rni.f32.f32` does."""
    held = flush_subnormals(bits, fmt) if ftz and fmt.name == "f32" else as_bits(bits)
    taken = unpack(held, fmt)
    # The whole part fits below 2^53; a number with an exponent of zero or more is whole already.
    drop = np.maximum(-taken.exponent, 0)
    whole = round_magnitude(taken.magnitude, drop, taken.sign, rounding)
    exponent = np.maximum(taken.exponent, 0)
    result = pack(taken.sign, whole, exponent, fmt, "rz")
    infinity = np.where(taken.sign, fmt.infinity | fmt.sign_bit, fmt.infinity)
    result = np.where(taken.infinite, infinity, result)
    result = np.where(taken.nan, held | fmt.quiet_bit if fmt.name == "f64" else fmt.nan, result)
    return clamp_unit(result, fmt) if sat else result


def float_to_integer(
    bits: ArrayLike,
    source: FloatFormat,
    width: int,
    signed: bool,
    rounding: Rounding,
    *,
    ftz: bool = False,
) -> Bits:
    """Round floats to whole numbers and clamp them into an integer type of `width` bits.

    A NaN becomes zero; if the float is f64 or the integer has 64 bits, it becomes the integer with only the
    top bit set. The result is two's complement in the low `width` bits.
    Source: PTX ISA 9.0, Data Movement and Conversion Instructions: cvt.
    """
    held = flush_subnormals(bits, source) if ftz and source.name == "f32" else as_bits(bits)
    taken = unpack(held, source)
    whole = round_magnitude(taken.magnitude, np.maximum(-taken.exponent, 0), taken.sign, rounding)
    left = np.maximum(taken.exponent, 0)
    huge = taken.infinite | ((whole != 0) & (bit_length(whole) + left > 64))
    whole = np.where(huge, np.uint64(2**64 - 1), whole << np.minimum(left, 63).astype(np.uint64))
    result = _from_magnitude(taken.sign, whole, width, signed)
    no_number = np.uint64(1 << (width - 1)) if source.name == "f64" or width == 64 else np.uint64(0)
    return np.where(taken.nan, no_number, result)


def split_integer(bits: ArrayLike, width: int, signed: bool) -> tuple[Mask, Bits]:
    """Split the integers in the low `width` bits into sign and magnitude."""
    held = as_bits(bits) & np.uint64((1 << width) - 1)
    if not signed:
        return np.zeros(held.shape, dtype=np.bool_), held
    negative = (held >> np.uint64(width - 1)) != 0
    magnitude = np.where(negative, (np.negative(held)) & np.uint64((1 << width) - 1), held)
    return negative, magnitude


def integer_to_float(
    bits: ArrayLike, width: int, signed: bool, target: FloatFormat, rounding: Rounding, *, sat: bool = False
) -> Bits:
    """Convert integers of `width` bits to floats, rounded once; zero becomes +0.0."""
    negative, magnitude = split_integer(bits, width, signed)
    result = pack(negative, magnitude, np.zeros(magnitude.shape, dtype=np.int64), target, rounding)
    return clamp_unit(result, target) if sat else result


def clamp_integer(bits: ArrayLike, source_width: int, source_signed: bool, width: int, signed: bool) -> Bits:
    """Clamp integers into the range of another type."""
    return _from_magnitude(*split_integer(bits, source_width, source_signed), width, signed)


def _from_magnitude(negative: Mask, magnitude: Bits, width: int, signed: bool) -> Bits:
    """Clamp signed magnitudes into an integer type: two's complement in the low `width` bits."""
    largest = np.uint64((1 << (width - signed)) - 1)
    lowest = np.uint64(1 << (width - 1) if signed else 0)
    clamped = np.minimum(magnitude, np.where(negative, lowest, largest))
    return np.where(negative, np.negative(clamped), clamped) & np.uint64((1 << width) - 1)
