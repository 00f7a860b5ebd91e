"""The numbers that a tensor core computes with mma.sync, for each type and generation.

Integers are exact: the products and the accumulator are added without loss, then the sum wraps to 32 bits or,
with `.satfinite`, is clamped.

f64 is a chain of fused multiply-adds along K, each rounded to nearest.

The other floats go through a sum of a different kind, which published measurements agree on. Along K the
products are taken in groups, and each group is added to the accumulator like this:

1.  The products are exact, and are not normalized: a product's exponent is the sum of its operands'
    exponents, so its significand lies in [1, 4). A subnormal operand has its type's smallest exponent and a
    significand below 1.
2.  All products of the group and the accumulator are aligned to the largest exponent among them, and what
    lies below `fraction_bits` binary places of that exponent is cut off, each term on its own, towards zero.
3.  The aligned terms are added exactly.
4.  The sum is rounded once: to f32 towards zero, to f16 to nearest even. It is the accumulator of the next
    group.

How many products form a group and how many places are kept changed between generations (`TensorCore`). A
product that is zero takes no part in the largest exponent; a zero accumulator takes part with an exponent of
its own, below which nothing is aligned. A sum of zero is +0.0 whatever the signs; a NaN is the canonical one;
a sum too large for the accumulator's type is an infinity although it is rounded towards zero.

Source: PTX ISA 9.0, mma (#warp-level-matrix-instructions-mma), leaves the order and the rounding open; the
        model is that of P. Xie et al., MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores
        (arXiv:2511.10909), and of F. A. Khattak and M. Mikaitis, Accurate Models of NVIDIA Tensor Cores
        (arXiv:2512.07004).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.numbers.exact import first_nan, fma
from cutecourse.emulator.numbers.formats import FORMATS, Bits, FloatFormat, Unpacked, pack, unpack

__all__ = [
    "DEFAULT_ARITHMETIC",
    "TENSOR_CORES",
    "TensorCore",
    "bit_products",
    "fused_float_products",
    "integer_products",
    "rounded_once_bound",
    "sequential_f64_products",
]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class TensorCore:
    """One generation's way to add the products of floats.

    `fraction_bits`: binary places kept below the largest exponent. `group_bytes`: how much of a row of A, in
    bytes, forms one group. `zero_exponent_f32` and `zero_exponent_f16`: the exponent of an accumulator that
    is zero.
    """

    generation: str
    fraction_bits: int
    group_bytes: int
    zero_exponent_f32: int
    zero_exponent_f16: int


_AMPERE = TensorCore("Ampere", 24, 16, -132, -20)
_HOPPER = TensorCore("Hopper", 25, 32, -133, -21)

TENSOR_CORES: dict[str, TensorCore] = {
    "sm_80": _AMPERE,
    "sm_86": _AMPERE,
    "sm_89": _AMPERE,
    "sm_90": _HOPPER,
    "sm_100": _HOPPER,
    "sm_103": _HOPPER,
    "sm_120": _HOPPER,
}
"""The published models by the GPU that runs the kernel, which is not the PTX's target."""

DEFAULT_ARITHMETIC = "sm_90"
"""The generation whose numbers the emulator computes by default: the recordings come from an H200.

A PTX target says what a kernel may use, not which GPU runs it: sm_80 PTX runs on a Hopper GPU, with
Hopper's sums.
"""


def fused_float_products(
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


def sequential_f64_products(a: Bits, b: Bits, c: Bits) -> Bits:
    """D = A * B + C in f64: one fused multiply-add after the other along K, each rounded to nearest.

    Of several NaNs an H200 passes on B's, else the accumulator's, else A's.
    """
    for k in range(a.shape[-1]):
        left, right = a[..., :, k, None], b[..., k, None, :]
        c = first_nan(fma(left, right, c, FORMATS["f64"]), right, c, left)
    return c


def integer_products(a: Integers, b: Integers, c: Integers, *, satfinite: bool) -> Integers:
    """D = A * B + C on whole numbers, wrapped to 32 bits or, with `satfinite`, clamped into them."""
    total: Integers = a @ b + c
    if satfinite:
        return np.clip(total, -(2**31), 2**31 - 1)
    wrapped: Integers = ((total + 2**31) & 0xFFFF_FFFF) - 2**31
    return wrapped


def bit_products(a: Integers, b: Integers, c: Integers, *, exclusive_or: bool) -> Integers:
    """D = popcount(A op B) + C on single bits, wrapped to 32 bits; op is AND or XOR, along K."""
    ones = a @ b
    if exclusive_or:
        # x ^ y = x + y - 2 * (x & y)
        ones = a.sum(axis=-1)[..., :, None] + b.sum(axis=-2)[..., None, :] - 2 * ones
    return ((ones + c + 2**31) & 0xFFFF_FFFF) - 2**31
