"""The numbers of tcgen05.mma: elements as doubles, sums of products, and when their order does not matter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import DTYPES, decode
from cutecourse.emulator.numbers.narrow import from_bytes, unpacked

__all__ = [
    "Factors",
    "Magnitudes",
    "accumulate_in_turn",
    "numbers",
    "read_f16",
    "read_scales",
    "sums_are_exact",
    "widened",
]

_NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}
_EXPONENTS = {"f16": (10, 15), "bf16": (7, 127), "tf32": (23, 127)}
"""The position of the exponent in an element's bits, and its bias."""
_TF32_FRACTION = 10
_F16_IN_F32 = np.int32(-0x7000_2000)
"""The mask that keeps sign, exponent and fraction of an f16, sign-extended and shifted left by 13."""
_F32_LESS_F16 = np.float32(2.0**112)
"""The factor by which a value shrinks if f32 reads the exponent field of an f16."""
_EXPONENT = np.int64(0x7FF0_0000_0000_0000)
_FRACTION = np.int64((1 << 52) - 1)
_LEADING = np.int64(1 << 52)
_CHUNK_BYTES = 16
"""Bytes of shared memory that hold 16 elements of at most 8 bits."""
_ONE_THREAD = 1 << 18
"""BLAS starts no second thread for a matrix product of at most this many multiplications."""


def read_f16(bits: NDArray[Any], kind: str, *, finite: bool = False) -> NDArray[np.float64]:
    """The values of elements: f16 and bf16 have 16 bits, tf32 has 32, of which the low 13 are ignored.

    `finite` promises that no element is infinite or NaN, which is faster for f16.

    >>> read_f16(np.array([0x3E00, 0x8001], dtype=np.uint16), "f16", finite=True).tolist() == [
    ...     1.5,
    ...     -(2.0**-24),
    ... ]
    True
    """
    if kind == "f16" and not finite:
        return bits.view(np.float16).astype(np.float64)
    if kind == "f16":
        wide = bits.view(np.int16).astype(np.int32)
        np.left_shift(wide, 13, out=wide)
        np.bitwise_and(wide, _F16_IN_F32, out=wide)
        values = wide.view(np.float32)
        np.multiply(values, _F32_LESS_F16, out=values)
        return values.astype(np.float64)
    if kind == "bf16":
        wide = bits.astype(np.int32)
        np.left_shift(wide, 16, out=wide)
        return wide.view(np.float32).astype(np.float64)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def widened(
    held: NDArray[np.uint8], kind: str, *, packed: bool = False, in_bytes: bool = False
) -> NDArray[np.uint16]:
    """Elements of at most 8 bits as the bits of f16, which holds all their values.

    held    bytes, the last axis a multiple of 16. Of each 16, elements of 6 bits fill the first 12 and those
            of 4 bits the first 8, lowest bits first; with `packed`, elements of 4 bits fill all of them.
            With `in_bytes`, each element has a byte of its own, where `numbers.narrow` puts it.
    Source: PTX ISA 9.0, Packing formats of elements in Tensor and Shared memory.

    >>> widened(np.arange(48, 64, dtype=np.uint8), "e4m3").view(np.float16)[:3].tolist()
    [0.5, 0.5625, 0.625]
    """
    codes, bits = held, DTYPES[kind].bits
    if bits < 8 and in_bytes:
        codes = from_bytes(held, bits)
    elif bits < 8:
        chunks = held.reshape(*held.shape[:-1], -1, _CHUNK_BYTES)
        codes = unpacked(chunks if packed else chunks[..., : 2 * bits], bits).reshape(*held.shape[:-1], -1)
    return _as_f16(kind)[codes]


@cache
def _as_f16(kind: str) -> NDArray[np.uint16]:
    """The f16 of each code of a type."""
    codes = np.arange(1 << DTYPES[kind].bits, dtype=np.uint8)
    numbers = codes.view(DTYPES[kind].numpy) if kind in ("s8", "u8") else decode(codes, kind)
    return numbers.astype(np.float16).view(np.uint16)


def read_scales(codes: NDArray[np.uint8], kind: str) -> tuple[NDArray[np.float64], float]:
    """The values of scale factors, and a power of two that divides all of them.

    >>> values, unit = read_scales(np.array([126, 128], dtype=np.uint8), "ue8m0")
    >>> values.tolist(), unit
    ([0.5, 2.0], 0.5)
    """
    values = decode(codes, kind).astype(np.float64)
    # The numbers of ue4m3 are multiples of its smallest one.
    return values, float(values.min()) if kind == "ue8m0" else 2.0**-9


def numbers(bits: NDArray[np.uint32], kind: str) -> NDArray[Any]:
    """The values of D's elements, in a type that holds them exactly."""
    if kind == "s32":
        return bits.view(np.int32)
    if kind == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    return bits.view(np.float32)


# --- which sums are exact -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """The largest magnitude of some numbers (not finite if one is not), and a power of two that divides all.

    >>> Magnitudes.of(np.array([[1.5, 0.0], [-3.0, 1.0]], dtype=np.float16).view(np.uint16), "f16")
    Magnitudes(largest=3.0, unit=0.0009765625)
    """

    largest: float
    unit: float

    @classmethod
    def of(cls, bits: NDArray[Any], kind: str) -> Magnitudes:
        """The magnitudes of elements of a kind that `read_f16` takes."""
        (found,) = cls.of_each(bits.reshape(1, -1), kind)
        return found

    @classmethod
    def of_each(cls, bits: NDArray[Any], kind: str) -> list[Magnitudes]:
        """The magnitudes of each row; its smallest element that is not zero gives the unit."""
        unsigned = bits.dtype.type
        magnitude = bits & unsigned((1 << (8 * bits.itemsize - 1)) - 1)
        largest = np.maximum.reduce(magnitude, axis=1)
        # Subtracting 1 makes zero the largest value of all, so the minimum skips it.
        np.subtract(magnitude, unsigned(1), out=magnitude)
        smallest = np.minimum.reduce(magnitude, axis=1).tolist()
        return [
            cls(value, _unit(low + 1, kind)) if value else cls(0.0, 1.0)
            for value, low in zip(read_f16(largest, kind).tolist(), smallest, strict=True)
        ]


def _unit(magnitude: int, kind: str) -> float:
    """The unit in the last place of an element; a subnormal one has that of the smallest normal one."""
    fraction, bias = _EXPONENTS[kind]
    exponent = max(magnitude >> fraction, 1) - bias - (_TF32_FRACTION if kind == "tf32" else fraction)
    return math.ldexp(1.0, exponent)


class Factors:
    """The values of one matrix for each of several MMAs: shape (MMAs, K, rows of M or N)."""

    __slots__ = ("_in_units", "_lengths", "_squares", "ranges", "values")

    def __init__(self, values: NDArray[np.float64], ranges: Sequence[Magnitudes]) -> None:
        self.values = values
        self.ranges = ranges
        self._squares: NDArray[np.float64] | None = None
        self._lengths: list[float] = []
        self._in_units: dict[int, float] = {}

    @classmethod
    def of(cls, elements: NDArray[Any], count: int, kind: str, *, negate: bool) -> Factors:
        """Read elements as `read_f16` does: the K rows of each of `count` MMAs, one MMA after another."""
        ranges = Magnitudes.of_each(elements.reshape(count, -1), kind)
        finite = all(math.isfinite(range_.largest) for range_ in ranges)
        values = read_f16(elements, kind, finite=finite)
        if negate:
            np.negative(values, out=values)
        return cls(values.reshape(count, -1, values.shape[1]), ranges)

    def scaled(self, rows: slice, scales: NDArray[np.uint8], kind: str) -> Factors:
        """Some rows of the one MMA's matrix, each block along K times its scale factor: exact, as doubles.

        scales  codes of a type, shape (rows, blocks).
        """
        found, unit = read_scales(scales, kind)
        values = self.values[:, :, rows]
        with np.errstate(all="ignore"):
            values = values * np.repeat(found.T, values.shape[1] // scales.shape[1], axis=0)
            largest = float(np.abs(values).max())
        return Factors(values, [Magnitudes(largest, self.ranges[0].unit * unit)])

    def length(self, mma: int) -> float:
        """The length of the longest row."""
        if not self._lengths:
            self._lengths = np.sqrt(self._all_squares().max(axis=1)).tolist()
        return self._lengths[mma]

    def in_units(self, mma: int) -> float:
        """The largest length of a row, measured in the largest power of two that divides all of the row."""
        found = self._in_units.get(mma)
        if found is None:
            values = self.values[mma]
            bits = values.view(np.int64)
            # Every element but zero is a normal double, so it has a leading one.
            whole = bits & _FRACTION | _LEADING
            lowest = (whole & -whole).astype(np.float64) * 2.0**-52
            with np.errstate(all="ignore"):
                lowest *= (bits & _EXPONENT).view(np.float64)
                units = np.where(values == 0, np.inf, lowest).min(axis=0)
                found = float((np.sqrt(self._all_squares()[mma]) / units).max())
            self._in_units[mma] = found
        return found

    def _all_squares(self) -> NDArray[np.float64]:
        """The squares of all rows' lengths, shape (MMAs, rows)."""
        if self._squares is None:
            with np.errstate(all="ignore"):
                self._squares = np.einsum("gki,gki->gi", self.values, self.values)
        return self._squares


def sums_are_exact(a: Factors, b: Factors, mma: int = 0) -> bool:
    """True if a double exactly holds every partial sum of products of a row of A and a row of B in one MMA.

    Each product is a multiple of the product of both units, so a sum below 2^53 such multiples is exact. The
    sum is at most the largest product times the number of terms, and at most the product of the rows'
    lengths. If neither bound is small enough, the last test uses a unit for each row.
    """
    of_a, of_b = a.ranges[mma], b.ranges[mma]
    limit = of_a.unit * of_b.unit * 2.0**53
    if a.values.shape[1] * of_a.largest * of_b.largest <= limit:
        return True
    # The lengths themselves are rounded, by far less than this margin.
    if a.length(mma) * b.length(mma) * (1 + 2.0**-20) <= limit:
        return True
    return a.in_units(mma) * b.in_units(mma) * (1 + 2.0**-20) <= 2.0**53


# --- sums ---------------------------------------------------------------------------------------------------


def accumulate_in_turn(
    products: Sequence[tuple[NDArray[np.float64], NDArray[np.float64], bool]],
    c: NDArray[Any] | None,
    kind: str,
    *,
    out: NDArray[np.uint32] | None = None,
    saturate: bool = False,
) -> NDArray[np.uint32]:
    """Add A * B^T of each instruction in turn to C, and return the bits of f32, f16 or s32.

    Products are exact. Those of one instruction are added in double precision, then C; the sum is rounded
    once, to nearest even. `rounded_once_bound` in tests/support says how far that may be from the published
    models of the hardware. `products` are (a, b, exact): `exact` says that no sum of products needs rounding
    (`sums_are_exact`), so any order gives the same result and the fastest one is used. `out`, if given,
    receives the result. A sum of integers wraps around, or stays in the range of s32 with `saturate`.

    Shapes: a (M, K), b (N, K), c, out and the result (M, N); b is fastest as a transposed (K, N).

    >>> one = np.ones((2, 4))
    >>> accumulate_in_turn([(one, one, True)], None, "f32").view(np.float32).tolist()
    [[4.0, 4.0], [4.0, 4.0]]
    """
    shape = len(products[0][0]), len(products[0][1])
    bits = np.empty(shape, dtype=np.uint32) if out is None else out
    total = _scratch(shape)
    with np.errstate(all="ignore"):
        for a, b, exact in products:
            if exact:
                _in_any_order(a, b, total)
            else:
                _in_one_order(a, b, total)
            if kind == "f32":
                held = bits.view(np.float32)
                if c is None:
                    held[...] = total
                else:  # added in double precision, rounded once; this is faster than one np.add that converts
                    before = _scratch(shape, 1)
                    before[...] = c
                    held[...] = np.add(total, before, out=total)
                c = held
                continue
            if c is not None:
                np.add(total, c, out=total)
            if kind == "f16":
                bits[...] = total.astype(np.float16).view(np.uint16)
            else:
                whole = np.clip(total, -(2.0**31), 2.0**31 - 1) if saturate else total
                bits.view(np.int32)[...] = whole.astype(np.int64)
            c = numbers(bits, kind)
    # A sum that is NaN stays NaN, whatever is added to it, so checking the last one is enough.
    if total.size and math.isnan(total.max()):
        bits[np.isnan(total)] = _NAN[kind]
    return bits


@lru_cache(maxsize=4)
def _scratch(shape: tuple[int, int], number: int = 0) -> NDArray[np.float64]:
    """A buffer for sums, which is still in the cache when it is reused; each number has its own."""
    return np.empty(shape)


def _in_one_order(a: NDArray[np.float64], b: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Compute A * B^T with the same rounding on every machine and under any load; BLAS promises neither."""
    np.einsum("ik,kj->ij", np.ascontiguousarray(a), np.ascontiguousarray(b.T), out=out)


def _in_any_order(a: NDArray[np.float64], b: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Compute A * B^T by BLAS in parts, each for one thread: several would mostly wait for each other."""
    rows, terms = a.shape
    step = max(1, _ONE_THREAD // max(1, rows * terms))
    for first in range(0, len(b), step):
        np.matmul(a, b[first : first + step].T, out=out[:, first : first + step])
