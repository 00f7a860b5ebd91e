"""Kinds of values for the cases of the collective instructions and conversions, on top of `ptx_values`.

They are chosen to show a wrong owner, a lost low bit, a wrong rounding: sums that cancel, exponents far
apart, the borders of the formats, ties. Everything is whole numbers scaled by powers of two, so each machine
gets the same bits. A maker knows the whole shape: the axis before the last counts lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import DType, decode, dtype
from tools.cases.element_arrays import array_type

__all__ = ["KINDS"]

Array = NDArray[Any]
Maker = Callable[[np.random.Generator, DType, tuple[int, ...]], Array]

# (bits of the exponent, bits of the fraction), how far the exponents of `spread` go.
_FLOATS = {
    "f16": (5, 10, 5.0),
    "bf16": (8, 7, 25.0),
    "f32": (8, 23, 25.0),
    "f64": (11, 52, 200.0),
    "e4m3": (4, 3, 3.0),
    "e5m2": (5, 2, 5.0),
}


def _unsigned(element: DType) -> np.dtype[Any]:
    return np.dtype(f"u{array_type(element).itemsize}")


def _from_bits(element: DType, bits: Array) -> Array:
    return np.asarray(bits).astype(_unsigned(element)).view(array_type(element))


def _ordinary(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Floats around 1, or integers of all sizes."""
    if element.kind != "float":
        values = _from_bits(element, rng.integers(0, 2**64, shape, dtype=np.uint64))
        shifted: Array = values >> rng.integers(0, element.bits, shape).astype(array_type(element))
        return shifted
    return _around_one(rng, shape).astype(array_type(element))


def _around_one(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    # Whole numbers scaled by a power of two: the same on every machine, as a logarithm's last bit is not.
    return rng.integers(-(2**53) + 1, 2**53, shape) * 2.0**-52


def _finite(element: DType, values: Array) -> Array:
    exponent_bits, fraction_bits, _ = _FLOATS[element.name]
    bits = values.astype(array_type(element)).view(_unsigned(element)).astype(np.uint64)
    top = np.uint64(((1 << exponent_bits) - 1) << fraction_bits)
    sign = np.uint64(1 << (element.bits - 1))
    largest = top - np.uint64(1) if element.name != "e4m3" else np.uint64(0x7E)
    return _from_bits(element, np.where((bits & ~sign) > largest, largest | (bits & sign), bits))


def _spread(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Finite floats whose exponents lie far apart."""
    spread = int(_FLOATS[element.name][2])
    exponents = rng.integers(-spread, spread + 1, shape) + rng.integers(-spread, spread + 1, shape)
    with np.errstate(over="ignore", under="ignore"):
        return _finite(element, np.ldexp(_around_one(rng, shape), exponents))


def _apart(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Floats whose exponents lie some way apart: sums that lose a few of their low bits."""
    return _finite(element, np.ldexp(_around_one(rng, shape), rng.integers(-7, 4, shape)))


def _subnormal(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Floats around the smallest normal number: subnormal ones, zeros, and the first normal ones."""
    fraction_bits = _FLOATS[element.name][1]
    bits = rng.integers(0, 4 << fraction_bits, shape, dtype=np.uint64) >> rng.integers(
        0, fraction_bits + 2, shape, dtype=np.uint64
    )
    sign = rng.integers(0, 2, shape, dtype=np.uint64) << np.uint64(element.bits - 1)
    return _from_bits(element, bits | sign)


def _largest(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Floats in the last two binades of the finite numbers, of either sign."""
    exponent_bits, fraction_bits, _ = _FLOATS[element.name]
    top = ((1 << exponent_bits) - 1) << fraction_bits
    bits = rng.integers(top - (2 << fraction_bits), top, shape, dtype=np.uint64)
    sign = rng.integers(0, 2, shape, dtype=np.uint64) << np.uint64(element.bits - 1)
    return _from_bits(element, bits | sign)


def _roots(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Floats around the roots of the smallest and largest numbers: products that leave the range."""
    bias = (1 << (_FLOATS[element.name][0] - 1)) - 1
    exponents = (2 * rng.integers(0, 2, shape) - 1) * (bias // 2 + rng.integers(-2, 3, shape))
    return _finite(element, np.ldexp(_around_one(rng, shape), exponents))


def _borders(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Zeros, infinities, NaNs and the borders of the format, each with both signs, among ordinary floats."""
    exponent_bits, fraction_bits, _ = _FLOATS[element.name]
    top = ((1 << exponent_bits) - 1) << fraction_bits
    one = ((1 << (exponent_bits - 1)) - 1) << fraction_bits
    borders = [0, 1, (1 << fraction_bits) - 1, 1 << fraction_bits, one, one + 1, top - 1, top, top + 1]
    borders += [top + (1 << (fraction_bits - 1)), top + (1 << fraction_bits) - 1]
    signs = [border | (1 << (element.bits - 1)) for border in borders]
    chosen = np.array(borders + signs, dtype=np.uint64)[rng.integers(0, 2 * len(borders), shape)]
    ordinary = _ordinary(rng, element, shape).view(_unsigned(element)).astype(np.uint64)
    return _from_bits(element, np.where(rng.integers(0, 2, shape) == 0, chosen, ordinary))


def _few_borders(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """As `borders`, but only one value in thirty is one, so that most sums of products stay numbers."""
    values, ordinary = _borders(rng, element, shape), _ordinary(rng, element, shape)
    return np.where(rng.integers(0, 30, shape) == 0, values, ordinary)


def _nans(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Mostly NaNs of both signs, quiet and signaling, with short and long payloads; a few other values."""
    exponent_bits, fraction_bits, _ = _FLOATS[element.name]
    top = np.uint64(((1 << exponent_bits) - 1) << fraction_bits)
    payload = rng.integers(1, 1 << fraction_bits, shape, dtype=np.uint64)
    payload = payload >> rng.integers(0, fraction_bits, shape, dtype=np.uint64)
    quiet = rng.integers(0, 2, shape, dtype=np.uint64) << np.uint64(fraction_bits - 1)
    one = np.uint64(((1 << (exponent_bits - 1)) - 1) << fraction_bits)
    others = np.array([top, top, one, np.uint64(0)])[rng.integers(0, 4, shape)]
    bits = np.where(rng.integers(0, 3, shape) == 0, others, top | payload | quiet)
    sign = rng.integers(0, 2, shape, dtype=np.uint64) << np.uint64(element.bits - 1)
    return _from_bits(element, bits | sign)


def _lane_opposite(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Floats far apart; each odd lane (the axis before the last) holds its even neighbour's, negated."""
    values = _spread(rng, element, shape).copy()
    values[..., 1::2, :] = -values[..., 0::2, :]
    return values


def _lane_twins(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Floats far apart; each odd lane holds its even neighbour's, half of them off by one last bit."""
    bits = _spread(rng, element, shape).view(_unsigned(element)).astype(np.uint64)
    flips = rng.integers(0, 2, bits[..., 0::2, :].shape, dtype=np.uint64)
    bits[..., 1::2, :] = bits[..., 0::2, :] ^ flips
    return _from_bits(element, bits)


def _ends(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Integers next to the ends of the range, zero and minus one."""
    low, high = int(np.iinfo(array_type(element)).min), int(np.iinfo(array_type(element)).max)
    near = rng.integers(0, 5, shape)
    ends = [np.array([low, high, 0, high], dtype=object)[k] for k in rng.integers(0, 4, shape).ravel()]
    values = [e + n if e == low else e - n for e, n in zip(ends, near.ravel().tolist(), strict=True)]
    return np.array([(v - low) % (high - low + 1) + low for v in values], dtype=array_type(element)).reshape(
        shape
    )


def _maximum(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """The largest integer of the type everywhere."""
    return np.full(shape, np.iinfo(array_type(element)).max, dtype=array_type(element))


def _minimum(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """The smallest integer of the type everywhere."""
    return np.full(shape, np.iinfo(array_type(element)).min, dtype=array_type(element))


def _halves(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """The largest integer in the first half of the last axis, the smallest in the second."""
    values = _maximum(rng, element, shape)
    values[..., shape[-1] // 2 :] = np.iinfo(array_type(element)).min
    return values


def _lane_halves(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """The largest integer in lanes 0 and 1 of each four (the axis before the last), else the smallest."""
    values = _maximum(rng, element, shape)
    values[..., np.arange(shape[-2]) % 4 >= 2, :] = np.iinfo(array_type(element)).min
    return values


def _ties(target: str) -> Maker:
    """Floats on and right beside the middles between two neighbours of a narrower format."""

    def make_ties(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
        narrow = dtype("f32" if target == "tf32" else target)
        if narrow.bits < 8:
            numbers = decode(np.arange(1 << (narrow.bits - 1), dtype=np.uint8), narrow)
            middles = ((numbers[1:] + numbers[:-1]) / 2).astype(array_type(element))
            return _beside(rng, element, rng.choice(middles, shape))
        shift = 13 if target == "tf32" else 0
        exponent_bits, fraction_bits, _ = _FLOATS[narrow.name]
        last = 0x7D if target == "e4m3" else (((1 << exponent_bits) - 1) << fraction_bits) - 1
        place = rng.integers(0, last >> shift, shape, dtype=np.uint64)
        # Half of them among the small ones, where the numbers are subnormal.
        place = np.where(
            rng.integers(0, 2, shape) == 0, place & np.uint64((2 << (fraction_bits - shift)) - 1), place
        )
        below = _from_bits(narrow, place << np.uint64(shift)).astype(np.float64)
        above = _from_bits(narrow, (place + np.uint64(1)) << np.uint64(shift)).astype(np.float64)
        return _beside(rng, element, ((below + above) / 2).astype(array_type(element)))

    return make_ties


def _beside(rng: np.random.Generator, element: DType, middle: Array) -> Array:
    """Floats with either sign, or one of their two neighbours."""
    bits = middle.view(_unsigned(element)).astype(np.int64) + rng.integers(-1, 2, middle.shape)
    sign = rng.integers(0, 2, middle.shape, dtype=np.uint64) << np.uint64(element.bits - 1)
    return _from_bits(element, np.maximum(bits, 0).astype(np.uint64) | sign)


def _quarters(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Multiples of a quarter up to a few thousand: what integer roundings tell apart."""
    return ((rng.integers(-(2**13), 2**13, shape) >> rng.integers(0, 12, shape)) * 0.25).astype(
        array_type(element)
    )


def _limits(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Floats around the ends of the integer types, as near to them as the format comes."""
    ends = np.array([2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64)])
    chosen = ends[rng.integers(0, len(ends), shape)] * (2 * rng.integers(0, 2, shape) - 1)
    with np.errstate(over="ignore"):
        bits = _finite(element, chosen).view(_unsigned(element)).astype(np.int64)
    return _from_bits(element, bits + rng.integers(-3, 4, shape))


def _long(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Array:
    """Integers with one significant bit more than a float format keeps, somewhere in the word."""
    kept = np.array([3, 8, 11, 24, 53], dtype=np.int64)[rng.integers(0, 5, shape)]
    kept = np.minimum(kept, element.bits - 2)
    odd = (rng.integers(0, 2**62, shape) & ((np.int64(1) << kept) - 1)) * 2 + 1 + (np.int64(1) << (kept + 1))
    odd = np.where(kept + 2 > element.bits - 1, odd >> 3, odd)
    room = np.maximum(element.bits - 1 - (kept + 2), 1)
    values = odd << (rng.integers(0, 2**62, shape) % room)
    values = values + rng.integers(-1, 2, shape)
    if element.kind == "int":
        values = values * (2 * rng.integers(0, 2, shape) - 1)
    return values.astype(_unsigned(element)).view(array_type(element))


_TIED = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "f16", "bf16", "tf32", "f32")
KINDS: dict[str, Maker] = {
    "around_one": _ordinary,
    "spread": _spread,
    "apart": _apart,
    "subnormal": _subnormal,
    "largest": _largest,
    "roots": _roots,
    "borders": _borders,
    "few_borders": _few_borders,
    "nans": _nans,
    "lane_opposite": _lane_opposite,
    "lane_twins": _lane_twins,
    "ends": _ends,
    "maximum": _maximum,
    "minimum": _minimum,
    "halves": _halves,
    "lane_halves": _lane_halves,
    "quarters": _quarters,
    "limits": _limits,
    "long": _long,
    **{f"ties_{target}": _ties(target) for target in _TIED},
}
