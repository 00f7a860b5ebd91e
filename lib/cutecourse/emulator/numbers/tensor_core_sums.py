"""The results that a tensor core computes for mma.sync and wgmma, for each type and generation.

Integers are exact: the products and the accumulator are added without loss, then the sum wraps to 32 bits or,
with `.satfinite`, is clamped.

f64 is a chain of fused multiply-adds along K, each rounded to nearest.

Tensor cores add the other floats differently, and published measurements agree on how. The products along K
form groups, and each group is added to the accumulator like this:

1.  The products are exact, and are not normalized: a product's exponent is the sum of its operands'
    exponents, so its significand lies in [1, 4). A subnormal operand has its type's smallest exponent and a
    significand below 1.
2.  All products of the group and the accumulator are aligned to the largest exponent among them. Each term is
    cut off, towards zero, `fraction_bits` binary places below that exponent.
3.  The aligned terms are added exactly.
4.  The sum is rounded once: to f32 towards zero, to f16 to nearest even. It is the accumulator of the next
    group.

Generations differ in the size of a group and in the number of places that they keep (`TensorCore`). A product
that is zero does not count for the largest exponent; a zero accumulator counts with an exponent of its own,
so no term is aligned to a smaller one. A sum of zero is +0.0 whatever the signs; a NaN result is the
canonical NaN; a sum too large for the accumulator's type is an infinity although the rounding is towards
zero.

With 8-bit floats Ada and Hopper's wgmma keep 13 places, and an f32 result has 13 fraction bits. Hopper and
sm_100 have no mma.sync of 8-bit floats: ptxas makes two of f16 from it (`byte_float_products`).

With scale factors (`scaled_float_products`), each product of 8-bit containers is multiplied by its two
factors without loss, and has the sum of all exponents. Products of 4-bit floats are first added exactly in
groups of 16; a group has the exponent of its factors, and 35 places are kept.

Doubles compute this without loss: a double holds each product, scaling by a power of two is exact, and so is
the sum of 33 terms of 27 bits.

Source: PTX ISA 9.0, mma (#warp-level-matrix-instructions-mma) and wgmma.mma_async
        (#asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async), leave the order and the rounding
        open; the model is that of P. Xie et al., MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and
        Matrix Cores (arXiv:2511.10909), and of F. A. Khattak and M. Mikaitis, Accurate Models of NVIDIA
        Tensor Cores (arXiv:2512.07004).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import decode
from cutecourse.emulator.numbers.exact import first_nan, fma
from cutecourse.emulator.numbers.formats import FORMATS, Bits, FloatFormat, to_float64

__all__ = [
    "DEFAULT_ARITHMETIC",
    "TENSOR_CORES",
    "TensorCore",
    "bit_products",
    "byte_float_products",
    "fused_float_products",
    "integer_products",
    "scaled_float_products",
    "sequential_f64_products",
]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_NARROW_PLACES = 13
"""The fraction bits that are kept if A and B are 8-bit floats."""
_CUT_F32 = np.uint32(0xFFFF_FC00)
"""The mask that keeps 13 fraction bits of an f32."""
_IN_CACHE = 1 << 14
"""The number of products that are computed at once and stay in the cache."""
_IN_A_TABLE = 16
"""Numbers of at most this many bits are read from a table."""


@dataclass(frozen=True)
class TensorCore:
    """How one generation adds the products of floats.

    `fraction_bits`: binary places kept below the largest exponent. `group_bytes`: bytes of a row of A in one
    group. `zero_exponent_f32` and `zero_exponent_f16`: the exponent of an accumulator that is zero.
    `cuts_bytes`: with 8-bit floats, 13 places are kept. `widens_bytes`: mma.sync multiplies 8-bit floats as
    f16.
    """

    generation: str
    fraction_bits: int
    group_bytes: int
    zero_exponent_f32: int
    zero_exponent_f16: int
    cuts_bytes: bool = True
    widens_bytes: bool = False


_AMPERE = TensorCore("Ampere", 24, 16, -132, -20)
_HOPPER = TensorCore("Hopper", 25, 32, -133, -21, widens_bytes=True)
_RTX_BLACKWELL = TensorCore("RTX Blackwell", 25, 32, -133, -21, cuts_bytes=False)

_LONG_K, _GROUP = 64, 16
_OF_GROUPS = TensorCore("RTX Blackwell", 35, 32, -139, -21)
"""How products of 4-bit floats with scale factors are added: K, the products in a group, and the sum."""

TENSOR_CORES: dict[str, TensorCore] = {
    "sm_80": _AMPERE,
    "sm_86": _AMPERE,
    "sm_89": _AMPERE,
    "sm_90": _HOPPER,
    "sm_100": _HOPPER,
    "sm_103": _HOPPER,
    "sm_120": _RTX_BLACKWELL,
}
"""The published models, by the GPU that runs the kernel (not by the target of the PTX)."""

DEFAULT_ARITHMETIC = "sm_90"
"""The generation whose sums the emulator computes by default: the recordings come from an H200.

A PTX target says what a kernel may use, not which GPU runs it: sm_80 PTX on a Hopper GPU gives Hopper's sums.
"""


def fused_float_products(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    source: FloatFormat,
    accumulator: FloatFormat,
    core: TensorCore,
    *,
    source_of_b: FloatFormat | None = None,
) -> NDArray[np.uint32]:
    """Compute D = A * B + C as the tensor core of a generation does; all operands are bits.

    Shapes: a (..., M, K), b (..., K, N), c and the result (..., M, N); C and D are f32 or f16.

    >>> f16, f32 = FORMATS["f16"], FORMATS["f32"]
    >>> one = np.full((16, 16), 0x3C00, dtype=np.uint16)
    >>> zero = np.zeros((16, 16), dtype=np.uint32)
    >>> found = fused_float_products(one, one, zero, f16, f32, TENSOR_CORES["sm_90"])
    >>> float(found.view(np.float32)[0, 0])
    16.0
    """
    n_k, narrow = a.shape[-1], source.bits == 8 and core.cuts_bytes
    # Elements of 6 and of 4 bits come in containers of 8 bits.
    step = core.group_bytes * 8 // max(8, source.bits)
    if narrow:
        core = replace(core, fraction_bits=_NARROW_PLACES)
    with np.errstate(all="ignore"):
        left = _Terms.of(_along_k(a, -1)[..., :, None], source)
        right = _Terms.of(_along_k(b, -2)[..., None, :], source_of_b or source)
        for k in range(0, n_k, step):
            x, y, z = left.part(k, k + step), right.part(k, k + step), _Terms.of(c, accumulator)
            total = _sums_with_specials(x, y, z, core, accumulator)
            c = _to_f16(total) if accumulator.name == "f16" else _to_f32(total, cut=narrow)
    return c


def byte_float_products(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    source: FloatFormat,
    accumulator: FloatFormat,
    core: TensorCore,
    source_of_b: FloatFormat,
) -> NDArray[np.uint32]:
    """Compute D = A * B + C of 8-bit floats as mma.sync does; shapes as for `fused_float_products`.

    For sm_90 and sm_100 ptxas writes two products of f16: first of the elements in the lower halves of the
    registers, added to zero, then of the others, added to that sum. C is added last, rounded to nearest.

    Source: the SASS that ptxas 13.0 makes of mma.sync with .e4m3 and .e5m2.

    >>> e4m3, f32 = FORMATS["e4m3"], FORMATS["f32"]
    >>> one, zero = np.full((16, 32), 0x38), np.zeros((16, 8), dtype=np.uint32)
    >>> found = byte_float_products(one, one.T[:, :8], zero, e4m3, f32, TENSOR_CORES["sm_90"], e4m3)
    >>> float(found.view(np.float32)[0, 0])
    32.0
    """
    if not core.widens_bytes:
        return fused_float_products(a, b, c, source, accumulator, core, source_of_b=source_of_b)
    f16 = FORMATS["f16"]
    left, right = (
        to_float64(bits, fmt).astype(np.float16).view(np.uint16)
        for bits, fmt in ((a, source), (b, source_of_b))
    )
    total = np.zeros_like(c)
    place = np.arange(a.shape[-1]) % 4 // 2
    for half in (place == 0, place == 1):
        total = fused_float_products(left[..., half], right[..., half, :], total, f16, accumulator, core)
    with np.errstate(all="ignore"):
        if accumulator.name == "f16":
            sums = total.astype(np.uint16).view(np.float16) + c.astype(np.uint16).view(np.float16)
            bits = sums.view(np.uint16).astype(np.uint32)
        else:
            sums = total.astype(np.uint32).view(np.float32) + c.astype(np.uint32).view(np.float32)
            bits = sums.view(np.uint32)
        bits[np.isnan(sums)] = int(accumulator.nan)
    return bits


def scaled_float_products(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    sources: tuple[FloatFormat, FloatFormat],
    scales: tuple[NDArray[Any], NDArray[Any]],
    kind: str,
) -> NDArray[np.uint32]:
    """Compute D = (A * scales of A) * (B * scales of B) + C in f32 as mma.sync of sm_120 does.

    Shapes: a (..., M, K), b (..., K, N), c and the result (..., M, N), all as bits; the scale factors are
    codes of `kind`, "ue8m0" or "ue4m3": (..., M, blocks) and (..., N, blocks), a block K / blocks elements.

    >>> e2m1, f32 = FORMATS["e2m1"], FORMATS["f32"]
    >>> one, zero = np.full((16, 64), 2), np.zeros((16, 8), dtype=np.uint32)
    >>> scales = np.full((16, 2), 128), np.full((8, 2), 126)
    >>> found = scaled_float_products(one, one.T[:, :8], zero, (e2m1, e2m1), scales, "ue8m0")
    >>> float(found.view(np.float32)[0, 0])
    64.0
    """
    core, f32 = _RTX_BLACKWELL, FORMATS["f32"]
    n_k, blocks = a.shape[-1], scales[0].shape[-1]
    addend = _Terms.of(c, f32)
    with np.errstate(all="ignore"):
        left = _Terms.of(_along_k(a, -1)[..., :, None], sources[0])
        right = _Terms.of(_along_k(b, -2)[..., None, :], sources[1])
        of_a, of_b = (_Terms.of_scales(_along_k(codes, -1), kind) for codes in scales)
        if n_k == _LONG_K:
            core = _OF_GROUPS
            products = left.values * right.values
            shape = n_k // _GROUP, _GROUP, *products.shape[1:]
            products = products.reshape(shape)
            some = np.where((products != 0).any(axis=1), 1.0, 0.0)
            left = _Terms(products.sum(axis=1), some, finite=True)
            right = _Terms(np.ones_like(some), np.ones_like(some), finite=True)
        each = len(left.values) // blocks
        left = left.times(of_a.repeated(each)[..., :, None])
        right = right.times(of_b.repeated(each)[..., None, :])
        return _to_f32(_sums_with_specials(left, right, addend, core, f32), cut=False)


@dataclass(frozen=True, slots=True)
class _Terms:
    """Numbers, the powers of two of their exponents (0 for a zero), and whether all numbers are finite."""

    values: Floats
    powers: Floats
    finite: bool

    @classmethod
    def of(cls, bits: NDArray[Any], fmt: FloatFormat) -> _Terms:
        """Read the bits of numbers in a format."""
        if fmt.bits <= _IN_A_TABLE:
            values, powers = (table.take(bits) for table in _of_every_number(fmt))
        else:
            values, powers = _read(bits.astype(np.uint32), fmt)
        return cls(values, powers, bool(np.isfinite(values).all()))

    @classmethod
    def of_scales(cls, codes: NDArray[Any], kind: str) -> _Terms:
        """Read the codes of scale factors; one that is zero has the power 0."""
        values = decode(codes.astype(np.uint8), kind).astype(np.float64)
        if kind == "ue8m0":
            return cls(values, values, bool(np.isfinite(values).all()))
        powers = cls.of(codes, FORMATS["e4m3"]).powers
        return cls(values, powers, bool(np.isfinite(values).all()))

    def __getitem__(self, place: Any) -> _Terms:
        """The terms at a place, which may add axes."""
        return _Terms(self.values[place], self.powers[place], self.finite)

    def repeated(self, times: int) -> _Terms:
        """Each term several times along the first axis."""
        values, powers = (np.repeat(one, times, axis=0) for one in (self.values, self.powers))
        return _Terms(values, powers, self.finite)

    def times(self, other: _Terms) -> _Terms:
        """The products with other terms, their exponents added."""
        return _Terms(self.values * other.values, self.powers * other.powers, self.finite and other.finite)

    def part(self, first: int, stop: int) -> _Terms:
        """The terms of a range of k."""
        return _Terms(self.values[first:stop], self.powers[first:stop], self.finite)

    def without_specials(self) -> _Terms:
        """Replace infinities and NaNs, which take no part in the sum, by zeros."""
        if self.finite:
            return self
        finite = np.isfinite(self.values)
        return _Terms(np.where(finite, self.values, 0.0), np.where(finite, self.powers, 0.0), finite=True)

    def classes(self) -> Floats:
        """The values as signs, infinities and NaNs: enough to find a sum's class, with no overflow."""
        return np.where(np.isfinite(self.values), np.sign(self.values), self.values)


def _read(bits: NDArray[np.uint32], fmt: FloatFormat) -> tuple[Floats, Floats]:
    """The values of numbers, and the powers of two of their exponents."""
    values = to_float64(bits, fmt)
    field = bits >> np.uint32(fmt.fraction_bits + fmt.padding_bits)
    field &= np.uint32((1 << fmt.exponent_bits) - 1)
    exponent = np.maximum(field, 1).astype(np.uint64) + np.uint64(1023 - fmt.bias)
    return values, np.where(values == 0, 0.0, (exponent << np.uint64(52)).view(np.float64))


@cache
def _of_every_number(fmt: FloatFormat) -> tuple[Floats, Floats]:
    """What `_read` finds for every number of a short format, by its bits."""
    return _read(np.arange(1 << fmt.bits, dtype=np.uint32), fmt)


def _along_k(matrices: NDArray[Any], axis: int) -> NDArray[Any]:
    """A view with the last axis (-1) or the one before it (-2) moved to the front."""
    *others, rows, columns = range(matrices.ndim)
    return matrices.transpose((columns, *others, rows) if axis == -1 else (rows, *others, columns))


def _sums_with_specials(
    x: _Terms, y: _Terms, z: _Terms, core: TensorCore, accumulator: FloatFormat
) -> Floats:
    """As `_sums`; an infinity or a NaN among the terms decides the sum."""
    total = _sums(x.without_specials(), y.without_specials(), z.without_specials(), core, accumulator)
    if x.finite and y.finite and z.finite:
        return total
    classes = (x.classes() * y.classes()).sum(axis=0) + z.classes()
    return np.where(np.isfinite(classes), total, classes)


def _sums(left: _Terms, right: _Terms, addend: _Terms, core: TensorCore, accumulator: FloatFormat) -> Floats:
    """Align, cut off and add the terms: left (K, ..., M, 1), right (K, ..., 1, N), addend (..., M, N)."""
    floor = core.zero_exponent_f16 if accumulator.name == "f16" else core.zero_exponent_f32
    largest = np.maximum(addend.powers, 2.0**floor)
    n_k = len(left.values)
    # A few k at a time stay in the cache; all products of a wgmma do not.
    step = max(1, min(n_k, _IN_CACHE // largest.size))
    products = np.empty((step, *largest.shape))
    for k in range(0, n_k, step):
        some = products[: n_k - k]
        np.multiply(left.powers[k : k + step], right.powers[k : k + step], out=some)
        for one in some:
            np.maximum(largest, one, out=largest)
    scale = 2.0**core.fraction_bits / largest
    total: Floats = np.trunc(addend.values * scale)
    for k in range(0, n_k, step):
        some = products[: n_k - k]
        np.multiply(left.values[k : k + step], right.values[k : k + step], out=some)
        np.multiply(some, scale, out=some)
        np.trunc(some, out=some)
        for one in some:
            np.add(total, one, out=total)
    return total / scale


def _to_f32(total: Floats, *, cut: bool) -> NDArray[np.uint32]:
    """Round to f32 towards zero; 2^128 and more is infinite, a zero is +0.0; `cut` keeps 13 fraction bits."""
    near = total.astype(np.float32)
    size = np.abs(total)
    over = (np.abs(near).astype(np.float64) > size) & (size < 2.0**128)
    bits = near.view(np.uint32) - over.astype(np.uint32)
    if cut:
        bits &= _CUT_F32
    bits[(bits & np.uint32(0x7FFF_FFFF)) == 0] = 0
    bits[np.isnan(total)] = int(FORMATS["f32"].nan)
    return bits


def _to_f16(total: Floats) -> NDArray[np.uint32]:
    """Round to f16, to nearest even; a zero is +0.0."""
    bits = total.astype(np.float16).view(np.uint16).astype(np.uint32)
    bits[bits == 0x8000] = 0
    bits[np.isnan(total)] = int(FORMATS["f16"].nan)
    return bits


def sequential_f64_products(a: Bits, b: Bits, c: Bits) -> Bits:
    """Compute D = A * B + C in f64 by a chain of fused multiply-adds along K, each rounded to nearest.

    An H200 passes on the NaN of B, else that of the accumulator, else that of A.
    """
    for k in range(a.shape[-1]):
        left, right = a[..., :, k, None], b[..., k, None, :]
        c = first_nan(fma(left, right, c, FORMATS["f64"]), right, c, left)
    return c


def integer_products(a: Integers, b: Integers, c: Integers, *, satfinite: bool) -> Integers:
    """Compute D = A * B + C on integers of up to 8 bits, wrapped to 32 bits or, with `satfinite`, clamped."""
    # A double holds every sum of such products exactly.
    total: Integers = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64) + c
    if satfinite:
        return np.clip(total, -(2**31), 2**31 - 1)
    wrapped: Integers = ((total + 2**31) & 0xFFFF_FFFF) - 2**31
    return wrapped


def bit_products(a: Integers, b: Integers, c: Integers, *, exclusive_or: bool) -> Integers:
    """Compute D = popcount(A op B) + C on single bits along K, wrapped to 32 bits; op is AND or XOR."""
    ones = a @ b
    if exclusive_or:
        # x ^ y = x + y - 2 * (x & y)
        ones = a.sum(axis=-1)[..., :, None] + b.sum(axis=-2)[..., None, :] - 2 * ones
    return ((ones + c + 2**31) & 0xFFFF_FFFF) - 2**31
