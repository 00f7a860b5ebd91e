"""Input values for PTX cases, by kind: the same on each machine, from a seed.

A kind is a word in a case's header. A list of kinds gives them in turn to the array's first axis.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from cutecourse.dtypes import DTYPES, DType, decode, encode
from tools.cases import case_data
from tools.cases.element_arrays import array_type

Maker = Callable[[np.random.Generator, DType, int], np.ndarray]


def make(kind: DType, shape: tuple[int, ...], kinds: str | list[str], seed: int) -> np.ndarray:
    """An array of a type and shape with values of the kinds."""
    generator = np.random.Generator(np.random.PCG64(seed))
    if isinstance(kinds, str):
        return np.ascontiguousarray(_one(generator, kind, shape, kinds))
    if shape[0] % len(kinds):
        raise ValueError(f"{len(kinds)} kinds for {shape[0]} rows")
    rows = [_one(generator, kind, shape[1:], kinds[i % len(kinds)]) for i in range(shape[0])]
    return np.ascontiguousarray(np.stack(rows))


def _one(generator: np.random.Generator, kind: DType, shape: tuple[int, ...], name: str) -> np.ndarray:
    if name in case_data.KINDS:
        return case_data.KINDS[name](generator, kind, shape)
    try:
        maker = MAKERS[name]
    except KeyError:
        known = ", ".join([*MAKERS, *case_data.KINDS])
        raise ValueError(f"no values of kind {name!r}; known: {known}") from None
    return maker(generator, kind, int(np.prod(shape))).astype(array_type(kind), copy=False).reshape(shape)


def _width(kind: DType) -> int:
    return 8 * np.dtype(array_type(kind)).itemsize


def _from_bits(bits: np.ndarray, kind: DType) -> np.ndarray:
    width = _width(kind)
    return bits.astype(f"u{width // 8}").view(array_type(kind))


def _bits(generator: np.random.Generator, kind: DType, count: int) -> np.ndarray:
    """Any bit pattern: for floats also NaN, infinities and subnormals."""
    return _from_bits(generator.integers(0, 2**64, count, dtype=np.uint64), kind)


def _is_float(kind: DType) -> bool:
    return kind.kind == "float"


def _edge(generator: np.random.Generator, kind: DType, count: int) -> np.ndarray:
    """Integers: zero, one, the ends of the range and powers of two around them; floats as `special`."""
    if _is_float(kind):
        return _special(generator, kind, count)
    width = _width(kind)
    powers = [1 << i for i in range(width)]
    pool = [
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        33,
        *powers,
        *(p - 1 for p in powers),
        *(-p for p in powers),
        *(-p - 1 for p in powers),
    ]
    bits = np.array([p & ((1 << width) - 1) for p in pool], dtype=np.uint64)
    return _from_bits(generator.choice(bits, count), kind)


def _special(generator: np.random.Generator, kind: DType, count: int) -> np.ndarray:
    """Floats: zeros, ones, ends of the range, subnormals, infinities, NaN, and neighbours of them."""
    if not _is_float(kind):
        return _edge(generator, kind, count)
    width = _width(kind)
    one = int(np.ones(1, dtype=array_type(kind)).view(f"u{width // 8}")[0])
    infinity = int(np.array([np.inf]).astype(array_type(kind)).view(f"u{width // 8}")[0])
    fraction = {16: 10, 32: 23, 64: 52}.get(width, 3)
    if kind.name == "bf16":
        fraction = 7
    normal = 1 << fraction
    pool = [0, 1, 2, normal - 1, normal, normal + 1, one - 1, one, one + 1, one + normal, one + normal // 2,
            infinity - 1, infinity - normal, infinity, infinity + normal // 2]  # fmt: skip
    sign = 1 << (width - 1)
    bits = np.array([*pool, *(p | sign for p in pool)], dtype=np.uint64)
    return _from_bits(generator.choice(bits, count), kind)


def _floats(spread: float, lowest: float = 0.0) -> Maker:
    def maker(generator: np.random.Generator, kind: DType, count: int) -> np.ndarray:
        # Whole exponents: the last bit of a power with a fraction differs between machines.
        scale = np.ldexp(
            1.0, np.floor(generator.uniform(lowest - spread, lowest + spread, count)).astype(np.int64)
        )
        values = generator.choice([-1.0, 1.0], count) * scale * generator.uniform(1, 2, count)
        if not _is_float(kind):
            return _small(generator, kind, count)
        return values.astype(array_type(kind))

    return maker


def _small(generator: np.random.Generator, kind: DType, count: int) -> np.ndarray:
    """Integers of at most one byte, as any type."""
    low = -100 if _is_float(kind) or kind.kind == "int" else 0
    return generator.integers(low, 101, count).astype(array_type(kind))


def _whole(generator: np.random.Generator, kind: DType, count: int) -> np.ndarray:
    """Whole numbers of at most 8 in magnitude."""
    low = -8 if _is_float(kind) or kind.kind == "int" else 0
    return generator.integers(low, 9, count).astype(array_type(kind))


def _index(generator: np.random.Generator, kind: DType, count: int) -> np.ndarray:
    """0, 1, 2, ...: each place has its own value."""
    return np.arange(count).astype(array_type(kind))


def _zeros(generator: np.random.Generator, kind: DType, count: int) -> np.ndarray:
    return np.zeros(count, dtype=array_type(kind))


def _poison(generator: np.random.Generator, kind: DType, count: int) -> np.ndarray:
    """What an output holds before the kernel: every byte 0xCD."""
    return np.full(count * np.dtype(array_type(kind)).itemsize, 0xCD, dtype=np.uint8).view(array_type(kind))


def _shifts(generator: np.random.Generator, kind: DType, count: int) -> np.ndarray:
    """Distances of shifts and lengths of fields, also past the width."""
    pool = np.array(
        [0, 1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 40, 63, 64, 65, 127, 128, 255, 256, 257],
        dtype=np.uint64,
    )
    return _from_bits(generator.choice(pool, count), kind)


def _places(generator: np.random.Generator, kind: DType, count: int) -> np.ndarray:
    """Positions and lengths of fields, as `bfe` and `bfi` define them: up to 255."""
    pool = np.array(
        [0, 1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 40, 63, 64, 65, 127, 128, 255], dtype=np.uint64
    )
    return _from_bits(generator.choice(pool, count), kind)


def _top(generator: np.random.Generator, kind: DType, count: int) -> np.ndarray:
    """Integers within 1000 of the ends of the range."""
    width = _width(kind)
    near = generator.integers(0, 1000, count).astype(np.uint64)
    end = np.uint64(1 << (width - 1)) if kind.kind == "int" else np.uint64(0)
    bits = np.where(generator.random(count) < 0.5, end + near, end - np.uint64(1) - near)
    return _from_bits(bits & np.uint64((1 << width) - 1), kind)


MAKERS: dict[str, Maker] = {
    "bits": _bits,
    "edge": _edge,
    "special": _special,
    "small": _small,
    "whole": _whole,
    "index": _index,
    "zeros": _zeros,
    "poison": _poison,
    "shifts": _shifts,
    "places": _places,
    "unit": _floats(0.5),
    "near": _floats(1),
    "middle": _floats(4),
    "wide": _floats(12),
    "tiny": _floats(2, -13),
    "top": _top,
}


def is_nan(values: np.ndarray) -> np.ndarray:
    """Where a value is no number; nowhere for integers."""
    if values.dtype.kind in "iub":
        return np.zeros(values.shape, dtype=bool)
    with np.errstate(invalid="ignore"):
        return np.isnan(values.astype(np.float64))


def _trunc_div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integer division towards zero, with Python's integers."""
    pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
    quotients = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else -1 for x, y in pairs]
    mask = (1 << (8 * a.dtype.itemsize)) - 1
    return (
        np.array([q & mask for q in quotients], dtype=np.uint64)
        .astype(f"u{a.dtype.itemsize}")
        .view(a.dtype)
        .reshape(a.shape)
    )


def _each(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """Apply a function of Python numbers to each place."""
    flat = [np.asarray(a).ravel().tolist() for a in arrays]
    return np.array([function(*items) for items in zip(*flat, strict=True)]).reshape(
        np.asarray(arrays[0]).shape
    )


def _wrap(function: Callable[..., int], dtype: str, *arrays: np.ndarray) -> np.ndarray:
    """Apply a function of Python integers to each place and keep the low bits of what comes out."""
    bits = 8 * np.dtype(dtype).itemsize
    flat = [np.asarray(a).ravel().tolist() for a in arrays]
    values = [int(function(*items)) & ((1 << bits) - 1) for items in zip(*flat, strict=True)]
    return (
        np.array(values, dtype=np.uint64)
        .astype(f"u{bits // 8}")
        .view(dtype)
        .reshape(np.asarray(arrays[0]).shape)
    )


_LAYOUT = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


def _round(value: Fraction, name: str, mode: str, *, negative_zero: bool) -> int:
    """The bits of the nearest number of a format, found by counting in its spacing."""
    exponent_bits, fraction_bits = _LAYOUT[name]
    bias = (1 << (exponent_bits - 1)) - 1
    sign = (1 << (exponent_bits + fraction_bits)) if value < 0 or (value == 0 and negative_zero) else 0
    size = abs(value)
    if size == 0:
        return sign
    exponent = 1 - bias
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    steps = size / Fraction(2) ** (exponent - fraction_bits)
    whole, rest = int(steps), steps - int(steps)
    towards_larger = {"rz": False, "rm": value < 0, "rp": value > 0}
    if mode == "rn":
        whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    else:
        whole += rest > 0 and towards_larger[mode]
    bits = ((exponent + bias - 1) << fraction_bits) + whole
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    if bits >= infinity:
        bits = infinity if mode == "rn" or towards_larger[mode] else infinity - 1
    return bits | sign


def _rounded(
    function: Callable[..., Any], name: str, mode: str, *arrays: np.ndarray, ftz: bool = False
) -> np.ndarray:
    """A rational function of floats, rounded once; where an operand is not finite, what float64 gives."""
    exponent_bits, fraction_bits = _LAYOUT[name]
    raw = f"u{(1 + exponent_bits + fraction_bits) // 8}"
    dtype = arrays[0].dtype
    if ftz:
        arrays = tuple(_flushed(a) for a in arrays)
    columns = [np.asarray(a).ravel().astype(np.float64).tolist() for a in arrays]
    bits = []
    for items in zip(*columns, strict=True):
        approximate = float(function(*map(np.float64, items)))
        if not all(map(np.isfinite, items)) or (not np.isfinite(approximate) and 0 in items):
            bits.append(int(np.array([approximate]).astype(dtype).view(raw)[0]))
            continue
        exact = function(*map(Fraction, items))
        if ftz and abs(exact) < Fraction(2) ** (2 - (1 << (exponent_bits - 1))):
            exact = Fraction(0)
        zero_sign = bool(np.signbit(approximate))
        if exact == 0 and mode == "rm" and any(items):
            zero_sign = True
        bits.append(_round(exact, name, mode, negative_zero=zero_sign))
    result = np.array(bits, dtype=np.uint64).astype(raw).view(dtype).reshape(arrays[0].shape)
    return _flushed(result) if ftz else result


def _flushed(values: np.ndarray) -> np.ndarray:
    """Subnormal f32 or f16 numbers as zeros of their sign."""
    smallest = 2.0**-14 if values.dtype == np.float16 else 2.0**-126
    tiny = (values != 0) & (np.abs(values.astype(np.float64)) < smallest)
    return np.where(tiny, np.copysign(values.dtype.type(0), values), values).astype(values.dtype)


def _root(values: np.ndarray, name: str, mode: str) -> np.ndarray:
    """The square root, rounded once, from an integer square root with 200 more bits than needed."""
    exponent_bits, fraction_bits = _LAYOUT[name]
    raw = f"u{(1 + exponent_bits + fraction_bits) // 8}"
    bits = []
    for value in values.ravel().astype(np.float64).tolist():
        exact = Fraction(value)
        scaled = exact.numerator * exact.denominator << 2200
        root = isqrt(scaled)
        # A root that is not whole is a little larger than its integer part.
        sticky = Fraction(0) if root * root == scaled else Fraction(1, 2)
        bits.append(_round((root + sticky) / (exact.denominator << 1100), name, mode, negative_zero=False))
    return np.array(bits, dtype=np.uint64).astype(raw).view(values.dtype).reshape(values.shape)


def _narrowed(values: np.ndarray, name: str, *, relu: bool = False) -> np.ndarray:
    """f32 as codes of a format with numbers only; NaN becomes the largest one, as in cuda_fp4.hpp."""
    known = np.where(np.isnan(values), np.inf, np.maximum(values, 0) if relu else values)
    codes = encode(known, name).astype(np.uint32)
    return np.where(codes == 1 << (DTYPES[name].bits - 1), 0, codes) if relu else codes


def _widened(codes: np.ndarray, name: str, *, relu: bool = False) -> np.ndarray:
    """Pairs of codes, in nibbles or in bytes, as the bits of two f16, or of two bf16 for ue8m0."""
    to = "bf16" if name == "ue8m0" else "f16"
    if DTYPES[name].bits == 4:
        codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(codes.shape[0], -1)
    numbers = decode(codes, name)
    numbers = np.maximum(numbers, np.float32(0)) + np.float32(0) if relu else numbers
    bits = _bits_of(encode(numbers, to)).astype(np.uint32)
    bits = np.where(np.isnan(numbers), 0x7FFF, bits)
    return _both(bits[..., 1::2], bits[..., ::2], 16)


def _both(high: np.ndarray, low: np.ndarray, bits: int) -> np.ndarray:
    """Two codes in one register."""
    return high.astype(np.uint32) << bits | low.astype(np.uint32)


def _power(values: np.ndarray, mode: str, *, satfinite: bool = False) -> np.ndarray:
    """The codes of the next power of two below (rz) or above (rp) the magnitudes."""
    size = np.abs(values.astype(np.float64))
    share, exponent = np.frexp(size)  # the share is at least a half
    code = exponent - 1 + 127 + ((mode == "rp") & (share > 0.5))
    code = np.clip(np.where(size == 0, 0, code), 0, 254 if satfinite else 255)
    code = np.where(np.isinf(size), 254 if satfinite else 255, code)
    return np.where(np.isnan(size), 255, code)


def _extreme(better: Callable[..., bool]) -> Callable[..., np.ndarray]:
    """A function that gives each lane the best number of its group of neighbours."""

    def of_groups(values: np.ndarray, lanes: int, *, keep_nan: bool, absolute: bool) -> np.ndarray:
        found = np.empty_like(values)
        groups = zip(values.reshape(-1, lanes), found.reshape(-1, lanes), strict=True)
        for group, result in groups:
            numbers = [abs(one) if absolute else one for one in group if not np.isnan(one)]
            best = np.float32(np.nan)
            if numbers and not (keep_nan and len(numbers) < lanes):
                best = numbers[0]
                for one in numbers:
                    signs = np.copysign(1, one), np.copysign(1, best)
                    if better(one, best) or (one == best and better(*signs)):
                        best = one
            result[:] = best
        return found

    return of_groups


def _product_of_bytes(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """A * B + C of an m16n8k mma.sync with elements of 8 bits, by the ISA's formulas for its fragments."""
    tiles, k = len(a), 2 * a.shape[2]
    whole_a, whole_b = np.zeros((tiles, 16, k)), np.zeros((tiles, k, 8))
    for lane in range(32):
        group, thread = divmod(lane, 4)
        for i in range(a.shape[2]):
            row, col = group + 8 * (i // 4 % 2), 4 * thread + i % 4 + 16 * (i // 8)
            whole_a[:, row, col] = a[:, lane, i]
        for i in range(b.shape[2]):
            whole_b[:, 4 * thread + i % 4 + 16 * (i // 4), group] = b[:, lane, i]
    product, found = whole_a @ whole_b, c.astype(np.float64)
    for lane in range(32):
        group, thread = divmod(lane, 4)
        for i in range(4):
            found[:, lane, i] += product[:, group + 8 * (i // 2), 2 * thread + i % 2]
    return found


def _saturated(values: np.ndarray) -> np.ndarray:
    """Into [0, 1], NaN to +0."""
    clamped = np.clip(values.astype(np.float64), 0, 1) + 0.0
    return np.where(np.isnan(clamped), 0, clamped).astype(values.dtype)


def _upper(values: np.ndarray) -> np.ndarray:
    """f64 numbers without the lower half of their bits."""
    return (values.view(np.uint64) & ~np.uint64(0xFFFFFFFF)).view(np.float64)


def _bits_of(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def _of_e2m1(held: np.ndarray) -> np.ndarray:
    """The numbers of pairs of e2m1 in bytes, the lower half first: the table of OCP's document."""
    codes = np.stack([held & 15, held >> 4], axis=-1).reshape(len(held), -1)
    numbers: np.ndarray = np.where(codes < 8, 1.0, -1.0) * _E2M1[codes % 8]
    return numbers


HELPERS: dict[str, Any] = {
    "e2m1": _of_e2m1,
    "trunc_div": _trunc_div,
    "each": _each,
    "wrap": _wrap,
    "bits_of": _bits_of,
    "upper": _upper,
    "rounded": _rounded,
    "flushed": _flushed,
    "root": _root,
    "saturated": _saturated,
    "narrowed": _narrowed,
    "widened": _widened,
    "both": _both,
    "product_of_bytes": _product_of_bytes,
    "power": _power,
    "least": _extreme(lambda one, other: bool(one < other)),
    "greatest": _extreme(lambda one, other: bool(one > other)),
    "is_nan": is_nan,
    "f32": np.float32,
    "f64": np.float64,
}
