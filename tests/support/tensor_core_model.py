"""A tensor core's sums in whole numbers: the oracle of emulator.numbers.tensor_core_sums.

The steps are those that the module's text names. Each number is taken apart into an integer and a power of
two, so that cutting off is a shift.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.numbers.formats import Bits, FloatFormat, Unpacked, pack, unpack
from cutecourse.emulator.numbers.tensor_core_sums import TensorCore

Integers = NDArray[np.int64]


def integer_model(
    a: Bits, b: Bits, c: Bits, source: FloatFormat, accumulator: FloatFormat, core: TensorCore
) -> Bits:
    """D = A * B + C as the tensor core of a generation adds it; all operands as bits.

    Shapes: a (..., M, K), b (..., K, N), c and the result (..., M, N).
    """
    itemsize = 4 if source.name == "tf32" else source.bits // 8
    n_k = a.shape[-1]
    step = min(n_k, core.group_bytes // itemsize)
    for k in range(0, n_k, step):
        c = _add_group(a[..., :, k : k + step], b[..., k : k + step, :], c, source, accumulator, core)
    return c


def _add_group(
    a: Bits, b: Bits, c: Bits, source: FloatFormat, accumulator: FloatFormat, core: TensorCore
) -> Bits:
    left, right, addend = unpack(a, source), unpack(b, source), unpack(c, accumulator)
    # (..., M, N, K): each row of A against each column of B.
    rows = (..., slice(None), None, slice(None))
    columns = (..., None, slice(None), slice(None))
    right_magnitude = np.swapaxes(right.magnitude, -1, -2)
    right_exponent = np.swapaxes(right.exponent, -1, -2)
    product = (left.magnitude[rows] * right_magnitude[columns]).astype(np.int64)
    # The exponents of the significands' leading places, not of their last ones.
    exponent = left.exponent[rows] + right_exponent[columns] + 2 * source.fraction_bits
    addend_exponent = addend.exponent + accumulator.fraction_bits

    floor = core.zero_exponent_f16 if accumulator.name == "f16" else core.zero_exponent_f32
    largest = np.where(product != 0, exponent, floor).max(axis=-1)
    largest = np.maximum(largest, np.where(addend.magnitude != 0, addend_exponent, floor))

    lead = core.fraction_bits
    terms = _align(product, exponent - largest[..., None] + (lead - 2 * source.fraction_bits))
    negative = left.sign[rows] != np.swapaxes(right.sign, -1, -2)[columns]
    total = np.where(negative, -terms, terms).sum(axis=-1)
    aligned = _align(
        addend.magnitude.astype(np.int64), addend_exponent - largest + (lead - accumulator.fraction_bits)
    )
    total = total + np.where(addend.sign, -aligned, aligned)

    result = _round(total, largest - lead, accumulator)
    return _specials(result, (left, right, addend), negative, accumulator)


def _align(magnitude: Integers, places: Integers) -> Integers:
    """Shift to the left, or to the right and cut off what falls out."""
    return (magnitude << np.clip(places, 0, 63)) >> np.clip(-places, 0, 63)


def _round(total: Integers, exponent: Integers, accumulator: FloatFormat) -> Bits:
    negative = total < 0
    magnitude = np.abs(total).astype(np.uint64)
    if accumulator.name == "f16":
        result = pack(negative, magnitude, exponent, accumulator, "rn")
    else:
        result = pack(negative, magnitude, exponent, accumulator, "rz")
        # Too large is infinite: cut to 24 bits the sum is exact here, and at or above 2^128.
        too_large = np.ldexp(magnitude.astype(np.float64), exponent.astype(np.int32)) >= 2.0**128
        infinity = np.where(negative, accumulator.infinity | accumulator.sign_bit, accumulator.infinity)
        result = np.where(too_large, infinity, result)
    is_zero = (result & ~accumulator.sign_bit) == 0
    return np.where(is_zero, np.uint64(0), result)


def _specials(
    result: Bits,
    taken: tuple[Unpacked, Unpacked, Unpacked],
    negative: NDArray[np.bool_],
    accumulator: FloatFormat,
) -> Bits:
    """Infinities and NaNs, which take no part in the sum."""
    left, right, addend = taken
    left_special, right_special = left.infinite | left.nan, right.infinite | right.nan
    if not (left_special.any() or right_special.any() or addend.infinite.any() or addend.nan.any()):
        return result
    rows = (..., slice(None), None, slice(None))

    def columns(values: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.swapaxes(values, -1, -2)[..., None, :, :]

    infinite = left.infinite[rows] | columns(right.infinite)
    left_zero = (left.magnitude == 0) & ~left_special
    right_zero = (right.magnitude == 0) & ~right_special
    no_number = left.nan[rows] | columns(right.nan)
    no_number |= (left.infinite[rows] & columns(right_zero)) | (left_zero[rows] & columns(right.infinite))
    plus = (infinite & ~negative).any(axis=-1) | (addend.infinite & ~addend.sign)
    minus = (infinite & negative).any(axis=-1) | (addend.infinite & addend.sign)
    nan = no_number.any(axis=-1) | addend.nan | (plus & minus)
    result = np.where(plus, accumulator.infinity, result)
    result = np.where(minus, accumulator.infinity | accumulator.sign_bit, result)
    return np.where(nan, accumulator.nan, result)


def rounded_once_bound(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    c: NDArray[np.float64],
    accumulator: FloatFormat,
    core: TensorCore,
) -> NDArray[np.float64]:
    """Bound the distance between a tensor core's sum of one group and the sum rounded once to nearest.

    The tensor core cuts off each of the K products and C below `fraction_bits` places of the largest of them,
    so it loses less than (K + 1) 2^-fraction_bits of that one; then it rounds, by less than a unit in the
    last place, and so does the other sum. Where all terms are zero or tiny, the accumulator's zero exponent
    stands for the largest.

    Shapes: a (M, K), b (N, K), c and the result (M, N), as numbers; finite, and so their sum.
    """
    terms = np.abs(a[:, None, :] * b[None, :, :])
    floor = core.zero_exponent_f16 if accumulator.name == "f16" else core.zero_exponent_f32
    largest = np.maximum(terms.max(axis=-1), np.abs(c))
    largest = np.maximum(largest, 2.0**floor)
    lost = (a.shape[-1] + 1) * 2.0**-core.fraction_bits * largest
    total = np.abs(a @ b.T + c) + lost
    kind = np.float16 if accumulator.name == "f16" else np.float32
    # The next number behind the largest sum that either of them can have.
    bound: NDArray[np.float64] = lost + 2 * np.spacing(total.astype(kind)).astype(np.float64)
    return bound
