"""Arithmetic with a single rounding: add, multiply, divide, square root and fma in every format and mode.

A result in a format of at most 32 bits is computed in float64 and rounded to odd there. The last bit then
says enough about the bits cut off that rounding into the format is correct in every direction
(Boldo and Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd,
IEEE Transactions on Computers 57, 2008). f64 itself uses Python's integers where NumPy would round twice or
only to nearest.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutecourse.emulator.numbers.formats import (
    FORMATS,
    Bits,
    FloatFormat,
    Mask,
    Rounding,
    as_bits,
    clamp_relu,
    clamp_unit,
    convert_float,
    flush_subnormals,
    to_float64,
)

__all__ = ["add", "divide", "first_nan", "fma", "fraction_to_bits", "multiply", "square_root", "subtract"]

Floats = NDArray[np.float64]
_F64 = FORMATS["f64"]


def add(a: ArrayLike, b: ArrayLike, fmt: FloatFormat, rounding: Rounding = "rn", **clamps: bool) -> Bits:
    """Compute a + b on bits, rounded once. `clamps`: ftz, sat, relu, as for `fma`."""
    return fma(a, fmt.one, b, fmt, rounding, **clamps)


def subtract(a: ArrayLike, b: ArrayLike, fmt: FloatFormat, rounding: Rounding = "rn", **clamps: bool) -> Bits:
    """Compute a - b on bits, rounded once. `clamps`: ftz, sat, relu, as for `fma`."""
    return add(a, as_bits(b) ^ fmt.sign_bit, fmt, rounding, **clamps)


def multiply(a: ArrayLike, b: ArrayLike, fmt: FloatFormat, rounding: Rounding = "rn", **clamps: bool) -> Bits:
    """Compute a * b on bits, rounded once. `clamps`: ftz, sat, relu, as for `fma`."""
    # Adding a zero of the product's own sign changes nothing, not even the sign of a zero.
    zero = (as_bits(a) ^ as_bits(b)) & fmt.sign_bit
    return fma(a, b, zero, fmt, rounding, **clamps)


def fma(
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike,
    fmt: FloatFormat,
    rounding: Rounding = "rn",
    **clamps: bool,
) -> Bits:
    """Compute a * b + c on bits with one rounding at the end.

    `clamps`: `ftz` flushes subnormal operands and results to zero (f16 and f32), `sat` clamps the result into
    [0, 1] and turns NaN into 0, `relu` turns negative results into 0. A NaN result is the canonical NaN.
    """
    x, y, z = _operands((a, b, c), fmt, clamps)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        product = x * y
        if fmt.name != "f64":
            return _finish(_odd_sum(product, z), product, z, fmt, rounding, clamps)
        # A finite product that overflows float64 must not make a NaN with an infinite z of the other sign.
        total = np.where(np.isinf(z) & np.isfinite(x) & np.isfinite(y), z, product + z)
    return _clamped(_canonical(_fma_f64(total, x, y, z, rounding)), fmt, **clamps)


def divide(a: ArrayLike, b: ArrayLike, fmt: FloatFormat, rounding: Rounding = "rn", **clamps: bool) -> Bits:
    """Compute a / b on bits, rounded once. `clamps`: ftz, sat, as for `fma`."""
    left, right = _operands((a, b), fmt, clamps)
    with np.errstate(all="ignore"):
        quotient = np.asarray(left / right)
        if fmt.name == "f64":
            exact = np.isfinite(left) & np.isfinite(right) & (right != 0) & (left != 0) & (rounding != "rn")
            pairs = zip(left[exact].tolist(), right[exact].tolist(), strict=True)
            _replace(quotient, exact, [Fraction(n) / Fraction(d) for n, d in pairs], rounding)
            return _clamped(_canonical(quotient), fmt, **clamps)
        # The remainder says on which side of the rounded quotient the exact one lies.
        left_over = _minus_product(left, quotient, right)
        quotient = _to_odd(quotient, left_over * np.sign(right))
    return _finish(quotient, quotient, quotient, fmt, rounding, clamps)


def square_root(a: ArrayLike, fmt: FloatFormat, rounding: Rounding = "rn", **clamps: bool) -> Bits:
    """Compute sqrt(a) on bits, rounded once: NaN if a is negative, -0.0 if a is -0.0. `clamps`: ftz."""
    (value,) = _operands((a,), fmt, clamps)
    with np.errstate(all="ignore"):
        root = np.asarray(np.sqrt(value))
        if fmt.name == "f64":
            exact = np.isfinite(root) & (root != 0) & (rounding != "rn")
            _replace(root, exact, [_close_root(v) for v in value[exact].tolist()], rounding)
            return _clamped(_canonical(root), fmt, **clamps)
        root = _to_odd(root, _minus_product(value, root, root))
    return _finish(root, root, root, fmt, rounding, clamps)


def fraction_to_bits(
    value: Fraction, fmt: FloatFormat, rounding: Rounding, negative_zero: bool = False
) -> int:
    """Round one exact rational number into a format; a zero gets the sign that `negative_zero` says."""
    negative = value < 0 or (value == 0 and negative_zero)
    sign = int(fmt.sign_bit) if negative else 0
    above, below = abs(value.numerator), value.denominator
    top = above.bit_length() - below.bit_length()
    if above << max(-top, 0) < below << max(top, 0):
        top -= 1
    binade = max(top, fmt.min_exponent) if above else fmt.min_exponent
    step = binade - fmt.fraction_bits
    kept, rest = divmod(above << max(-step, 0), below << max(step, 0))
    half = 2 * rest - (below << max(step, 0))
    away = rounding != "rz" and (rounding == "rm") == negative
    if rounding == "rn":
        kept += half > 0 or (half == 0 and kept & 1 == 1)
    elif rounding == "rna":
        kept += half >= 0
    else:
        kept += rest > 0 and away
    field = min(binade + fmt.bias - 1, 1 << fmt.exponent_bits)
    bits = ((field << fmt.fraction_bits) + kept) << fmt.padding_bits
    if bits > int(fmt.max_finite):
        bits = int(fmt.infinity if away or rounding in ("rn", "rna") else fmt.max_finite)
    return bits | sign


def first_nan(result: ArrayLike, *operands: ArrayLike) -> Bits:
    """Give f64 results that are NaN the bits that an H200 gives them.

    The first NaN among the operands passes on its sign and payload, and becomes quiet. Without a NaN operand
    the result is negative with an empty payload. The hardware looks at the operands in the order given here.
    """
    held = as_bits(result)
    found = np.full(held.shape, _F64.nan)
    for operand in reversed(operands):
        bits = as_bits(operand)
        found = np.where((bits & ~_F64.sign_bit) > _F64.infinity, bits | _F64.quiet_bit, found)
    return np.where((held & ~_F64.sign_bit) > _F64.infinity, found, held)


def _operands(bits: tuple[ArrayLike, ...], fmt: FloatFormat, clamps: dict[str, bool]) -> list[Floats]:
    held = [flush_subnormals(one, fmt) if clamps.get("ftz") else as_bits(one) for one in bits]
    return list(np.broadcast_arrays(*(to_float64(one, fmt) for one in held)))


def _odd_sum(x: Floats, y: Floats) -> Floats:
    """Give x + y in float64, rounded to odd."""
    total = x + y
    # Knuth's two-sum gives exactly what the rounding of the sum cut off.
    part = total - x
    return _to_odd(total, (x - (total - part)) + (y - part))


def _float_bits(value: Floats) -> Bits:
    return np.array(value, dtype=np.float64, order="C").view(np.uint64)


def _to_odd(value: Floats, error: Floats) -> Floats:
    """Of the two floats around the exact value + error, take the one whose last bit is set."""
    even = (_float_bits(value) & np.uint64(1)) == 0
    inexact = np.isfinite(value) & np.isfinite(error) & (error != 0)
    return np.where(inexact & even, np.nextafter(value, np.copysign(np.inf, error)), value)


def _split(x: Floats) -> tuple[Floats, Floats]:
    """Veltkamp's split of a float64 into two halves of at most 26 bits."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def _minus_product(a: Floats, x: Floats, y: Floats) -> Floats:
    """Compute a - x * y with a correct sign, for x * y close to a (Dekker's product)."""
    product = x * y
    x_high, x_low = _split(x)
    y_high, y_low = _split(y)
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return (a - product) - error


def _finish(
    value: Floats, x: Floats, y: Floats, fmt: FloatFormat, rounding: Rounding, clamps: dict[str, bool]
) -> Bits:
    if rounding == "rm":
        # Two numbers that cancel give +0.0, but -0.0 when rounding down.
        value = np.where((value == 0) & (np.signbit(x) != np.signbit(y)), -0.0, value)
    bits = convert_float(_float_bits(value), _F64, fmt, rounding)
    bits = np.where(np.isnan(value), fmt.nan, bits)
    if clamps.get("ftz"):
        # ftz goes by the size before rounding: it flushes results that round up to the smallest normal.
        tiny = np.abs(value) < np.ldexp(1.0, fmt.min_exponent)
        bits = np.where(tiny, bits & fmt.sign_bit, bits)
    return _clamped(bits, fmt, **clamps)


def _clamped(
    bits: Bits, fmt: FloatFormat, *, ftz: bool = False, sat: bool = False, relu: bool = False
) -> Bits:
    if ftz:
        bits = flush_subnormals(bits, fmt)
    if relu:
        bits = clamp_relu(bits, fmt)
    return clamp_unit(bits, fmt) if sat else bits


def _canonical(value: Floats) -> Bits:
    return np.where(np.isnan(value), _F64.nan, _float_bits(value))


def _fma_f64(nearly: Floats, x: Floats, y: Floats, z: Floats, rounding: Rounding) -> Floats:
    """Round x * y + z only once wherever all three are finite; keep NumPy's result elsewhere."""
    result, done = nearly.copy(), np.zeros(nearly.shape, dtype=np.bool_)
    if rounding == "rn":
        result, done = _fma_to_nearest(nearly, x, y, z)
    finite: Mask = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & ~done
    terms = zip(x[finite].tolist(), y[finite].tolist(), z[finite].tolist(), strict=True)
    exact = [Fraction(left) * Fraction(right) + Fraction(addend) for left, right, addend in terms]
    negative = np.signbit(x) != np.signbit(y)
    zeros = np.where(negative == np.signbit(z), negative, rounding == "rm")
    _replace(result, finite, exact, rounding, zeros)
    return result


def _fma_to_nearest(nearly: Floats, x: Floats, y: Floats, z: Floats) -> tuple[Floats, Mask]:
    """Compute x * y + z to nearest, and where it is valid: where every step stays a normal f64 number.

    The exact sum is a leading part and a rest that is rounded to odd, so adding the two rounds only once.
    """
    with np.errstate(all="ignore"):
        product = x * y
        rest = -_minus_product(product, x, y)
        part = z + rest
        part_error = (z - (part - (part - z))) + (rest - (part - z))
        total = product + part
        total_error = (product - (total - (total - product))) + (part - (total - product))
        result = total + _odd_sum(total_error, part_error)
        tame = np.ones(nearly.shape, dtype=np.bool_)
        for one in (x, y, product):
            tame &= (np.abs(one) > 2.0**-400) & (np.abs(one) < 2.0**400)
        tame &= (z == 0) | ((np.abs(z) > 2.0**-400) & (np.abs(z) < 2.0**400))
    # The caller computes an exact zero, because only it works out the sign.
    tame &= result != 0
    return np.where(tame, result, nearly), tame


def _replace(
    values: Floats, where: Mask, exact: list[Fraction], rounding: Rounding, negative_zero: ArrayLike = False
) -> None:
    """Overwrite some values with exact results, each rounded once; `negative_zero` gives zeros their sign."""
    signs = np.broadcast_to(negative_zero, values.shape)[where].tolist()
    bits = [fraction_to_bits(one, _F64, rounding, sign) for one, sign in zip(exact, signs, strict=True)]
    values[where] = np.array(bits, dtype=np.uint64).view(np.float64)


def _close_root(value: float) -> Fraction:
    """Find a rational on the same side of every f64 boundary as sqrt(value); a rational root is exact."""
    exact = Fraction(value)
    bits = 2 * (160 + abs(exact.numerator.bit_length() - exact.denominator.bit_length()))
    scaled = (exact.numerator << bits) // exact.denominator
    root = isqrt(scaled)
    is_exact = root * root == scaled and (exact.numerator << bits) % exact.denominator == 0
    return Fraction(2 * root + (not is_exact), 2 << (bits // 2))
