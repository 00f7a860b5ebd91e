"""The element-wise reductions of cp.reduce.async.bulk, cp.reduce.async.bulk.tensor and red.async."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import bf16, decode, encode, f16, f32, f64
from cutecourse.emulator.numbers.exact import first_nan
from cutecourse.emulator.numbers.formats import FORMATS, flush_subnormals

__all__ = [
    "INTEGER_OPERATIONS",
    "IN_GLOBAL",
    "IN_SHARED",
    "IN_TENSOR",
    "Reduction",
    "extreme_f32",
    "reduction",
]

Words = NDArray[Any]
Reduction = Callable[[Words, Words], Words]
"""(destination, source) -> new destination, all as unsigned words."""

_Types = tuple[str, ...]


def _table(add: _Types, extremes: _Types, bits: _Types) -> dict[str, _Types]:
    counts = dict.fromkeys(("inc", "dec"), ("u32",))
    return {"add": add, "min": extremes, "max": extremes, **counts, "and": bits, "or": bits, "xor": bits}


IN_SHARED = _table(("u32", "s32", "u64"), ("u32", "s32"), ("b32",))
"""The types that each reduction has in shared memory; "b32" where the bits are all that counts."""
_EXTREMES = ("u32", "s32", "u64", "s64", "f16", "bf16")
IN_GLOBAL = _table(("u32", "s32", "u64", "f32", "f64", "f16", "bf16"), _EXTREMES, ("b32", "b64"))
IN_TENSOR = _table(("u32", "s32", "u64", "f32", "f32_ftz", "f16", "bf16"), _EXTREMES, ("u32", "s32", "u64"))
"""The types of tensor maps whose elements each reduction takes."""
INTEGER_OPERATIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""Operations on integers that give the same result in any order."""
_FLOATS = {"f16": f16, "bf16": bf16, "f32": f32, "f64": f64, "f32_ftz": f32}


def reduction(operation: str, kind: str) -> Reduction:
    """One operation on elements of a type: "u32", "s64", "f16", "b32", ...

    Sums of floats are rounded to nearest even; min and max of f16 and bf16 prefer a number to a NaN. A NaN
    result is the canonical NaN; for f64 it is the source's NaN or else the destination's. inc and dec wrap
    around at the source's value. "f32_ftz", which only tensor maps have, is f32 with subnormals flushed; the
    PTX ISA says the same of cp.reduce.async.bulk.add.f32, but an H200 keeps them there.
    """
    if operation == "inc":
        return lambda old, new: np.where(old >= new, old.dtype.type(0), old + old.dtype.type(1))
    if operation == "dec":
        return lambda old, new: np.where((old == 0) | (old > new), new, old - old.dtype.type(1))
    if kind in _FLOATS:
        if kind == "f64":
            return _add_f64
        return _float_add(kind) if operation == "add" else _float_extreme(kind, operation)
    function = INTEGER_OPERATIONS[operation]
    if kind[0] == "s":
        signed = f"i{int(kind[1:]) // 8}"
        return lambda old, new: function(old.view(signed), new.view(signed)).view(old.dtype)
    return function


def _float_add(kind: str) -> Reduction:
    number = _FLOATS[kind]
    flushes = kind == "f32_ftz"
    canonical = int(FORMATS[number.name].nan)

    def add(old: Words, new: Words) -> Words:
        nan = old.dtype.type(canonical)
        if flushes:
            old, new = (flush_subnormals(x, FORMATS["f32"]).astype(x.dtype) for x in (old, new))
        with np.errstate(all="ignore"):
            total = decode(old.view(number.numpy), number) + decode(new.view(number.numpy), number)
        # float32 has so many more bits than bf16 that rounding the sum twice equals rounding it once.
        words = np.where(np.isnan(total), nan, encode(total, number).view(old.dtype))
        return flush_subnormals(words, FORMATS["f32"]).astype(old.dtype) if flushes else words

    return add


def _add_f64(old: Words, new: Words) -> Words:
    """Add f64; as on an H200, the source's NaN, or else the destination's, is the result unchanged."""
    with np.errstate(all="ignore"):
        total = old.view(np.float64) + new.view(np.float64)
    words = first_nan(total.view(np.uint64), old, new)
    for operand in (old, new):
        words = np.where(np.isnan(operand.view(np.float64)), operand, words)
    return words


def _float_extreme(kind: str, operation: str) -> Reduction:
    number = _FLOATS[kind]

    def extreme(old: Words, new: Words) -> Words:
        nan = old.dtype.type(int(FORMATS[kind].nan))
        x, y = (decode(words.view(number.numpy), number) for words in (old, new))
        sign = old.dtype.type(1 << (8 * old.dtype.itemsize - 1))
        # Of two zeros -0 is the smaller one.
        if operation == "min":
            second = (y < x) | ((x == y) & (new & sign != 0))
        else:
            second = (y > x) | ((x == y) & (new & sign == 0))
        chosen = np.where(np.isnan(x) | (second & ~np.isnan(y)), new, old)
        return np.where(np.isnan(x) & np.isnan(y), nan, chosen)

    return extreme


def extreme_f32(
    words: NDArray[np.uint32],
    counted: NDArray[np.bool_] | bool = True,
    *,
    lowest: bool,
    absolute: bool = False,
    keeps_nan: bool = False,
) -> NDArray[np.uint32]:
    """The least or greatest f32 along the last axis, on bits: -0 is less than +0.

    counted   the words that count. Of these a NaN does so only with `keeps_nan`, or if all are NaN; the
              result is then the canonical NaN.
    absolute  takes each number without its sign.

    >>> extreme_f32(np.array([1.0, -3.0], np.float32).view(np.uint32), lowest=False, absolute=True)[
    ...     ()
    ... ].view("f4")
    np.float32(3.0)
    """
    # The bits, with the sign's meaning turned, are in the numbers' order.
    fmt, sign = FORMATS["f32"], np.uint32(1 << 31)
    size = words & ~sign
    held = size if absolute else words
    nan = size > np.uint32(fmt.infinity)
    numbers = counted & ~nan
    choose, neutral = (np.minimum, 0xFFFF_FFFF) if lowest else (np.maximum, 0)
    ordered = np.where(held & sign, ~held, held | sign)
    best = choose.reduce(np.where(numbers, ordered, np.uint32(neutral)), axis=-1)
    result = np.where(best & sign, best & ~sign, ~best)
    is_nan = np.any(counted & nan, axis=-1) if keeps_nan else ~np.any(numbers, axis=-1)
    found: NDArray[np.uint32] = np.where(is_nan, np.uint32(fmt.nan), result)
    return found
