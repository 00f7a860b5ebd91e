"""Integer arithmetic on lane vectors: what the names in `arithmetic` do for integer types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import KINDS, Mask, put
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.site import Site

__all__ = [
    "SIMD_VIDEO",
    "abs_neg",
    "add_sub",
    "add_with_carry",
    "divide",
    "dot_product",
    "high_half",
    "map_lanes",
    "min_max",
    "multiply",
    "multiply24",
    "multiply_add",
    "multiply_add_carry",
    "remainder",
    "simd_video",
    "sum_of_distance",
]

Values = NDArray[Any]
_ALL = ("u16", "u32", "u64", "s16", "s32", "s64")

SIMD_VIDEO: dict[str, Callable[[Values, Values], Values]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}
"""The SIMD video operations on two parts, as exact integers, by the instructions' names without the count."""


def map_lanes(target: tuple[str, int], sources: list[tuple[str, int]], function: Callable[..., Any]) -> Step:
    """A step that applies a function of lane vectors; `target` and `sources` are kinds and slots."""
    kind, slot = target
    if len(sources) == 2:
        (kind_a, a), (kind_b, b) = sources

        def two(bundle: Bundle, mask: Mask) -> None:
            rows = bundle.rows
            values = function(rows[kind_a][a], rows[kind_b][b])
            if mask is None:
                rows[kind][slot][...] = values
            else:
                put(rows[kind][slot], values, mask)

        return two

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows
        put(rows[kind][slot], function(*(rows[k][s] for k, s in sources)), mask)

    return step


def _ufunc(kind: str, target: int, a: int, b: int, ufunc: np.ufunc) -> Step:
    """A step for one NumPy operation between rows of one kind."""

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows[kind]
        if mask is None:
            ufunc(rows[a], rows[b], out=rows[target])
        else:
            np.copyto(rows[target], ufunc(rows[a], rows[b]), where=mask)

    return step


def _three(site: Site, kind: str) -> tuple[int, int, int]:
    return site.destination(0, kind), site.source(1, kind), site.source(2, kind)


def add_sub(site: Site, name: str) -> Step:
    """Define add and sub; `.sat` clamps s32."""
    saturate = site.has("sat")
    kind = site.type(*_ALL, "u16x2", "s16x2")
    target, a, b = _three(site, kind)
    ufunc = np.add if name == "add" else np.subtract
    if not saturate:
        if kind.endswith("x2"):
            return map_lanes((kind, target), [(kind, a), (kind, b)], ufunc)
        return _ufunc(kind, target, a, b, ufunc)
    if kind != "s32":
        site.unsupported(".sat goes with .s32 only")

    def clamped(x: Values, y: Values) -> Values:
        return np.clip(ufunc(x.astype(np.int64), y.astype(np.int64)), -(2**31), 2**31 - 1).astype(np.int32)

    return map_lanes((kind, target), [(kind, a), (kind, b)], clamped)


def _carry(site: Site) -> int:
    return site.named_slot("pred", "condition code carry")


def add_with_carry(site: Site, name: str, *, carry_in: bool, carry_out: bool) -> Step:
    """Define add.cc, addc, sub.cc, subc and their forms with both."""
    kind = site.type("u32", "s32", "u64", "s64").replace("s", "u")
    target, a, b = _three(site, kind)
    carry = _carry(site)
    one = KINDS[kind][1].type

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows[kind]
        flag = bundle.rows["pred"][carry]
        x, y = rows[a], rows[b]
        extra = flag.astype(one) if carry_in else one(0)
        if name == "add":
            first = x + y
            result = first + extra
            out = (first < x) | (result < first)
        else:
            first = x - y
            result = first - extra
            out = (x < y) | (first < extra)
        put(rows[target], result, mask)
        if carry_out:
            put(flag, out, mask)

    return step


def high_half(x: Values, y: Values, kind: str) -> Values:
    """The high half of a product of two integers of one kind."""
    bits, dtype, _ = KINDS[kind]
    if bits < 64:
        wide = KINDS[f"{kind[0]}{2 * bits}"][1]
        half: Values = ((x.astype(wide) * y.astype(wide)) >> wide.type(bits)).astype(dtype)
        return half
    ux, uy = x.view(np.uint64), y.view(np.uint64)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    xl, xh, yl, yh = ux & low, ux >> shift, uy & low, uy >> shift
    middle = xh * yl + ((xl * yl) >> shift)
    other = xl * yh + (middle & low)
    high = xh * yh + (middle >> shift) + (other >> shift)
    if kind == "s64":
        # Signed operands: subtract what their sign bits counted too much.
        high = high - np.where(x < 0, uy, np.uint64(0)) - np.where(y < 0, ux, np.uint64(0))
    whole: Values = high.view(dtype)
    return whole


def _product(part: str, kind: str) -> tuple[str, Callable[[Values, Values], Values]]:
    """The kind of a product's part and the function that computes it."""
    if part == "wide":
        bits = KINDS[kind][0]
        wide = f"{kind[0]}{2 * bits}"
        dtype = KINDS[wide][1]
        return wide, lambda x, y: x.astype(dtype) * y.astype(dtype)
    if part == "hi":
        return kind, lambda x, y: high_half(x, y, kind)
    return kind, np.multiply


def _multiply_form(site: Site) -> tuple[str, str]:
    part = site.expect("lo", "hi", "wide")
    kind = site.type(*_ALL)
    if part == "wide" and KINDS[kind][0] == 64:
        site.unsupported("mul.wide of 64 bits")
    return part, kind


def multiply(site: Site) -> Step:
    """Define mul.lo, mul.hi and mul.wide."""
    part, kind = _multiply_form(site)
    wide, function = _product(part, kind)
    target, a, b = site.destination(0, wide), site.source(1, kind), site.source(2, kind)
    if part == "lo":
        return _ufunc(kind, target, a, b, np.multiply)
    return map_lanes((wide, target), [(kind, a), (kind, b)], function)


def multiply_add(site: Site) -> Step:
    """Define mad.lo, mad.hi and mad.wide."""
    saturate = site.has("sat")
    part, kind = _multiply_form(site)
    wide, function = _product(part, kind)
    target, a, b = site.destination(0, wide), site.source(1, kind), site.source(2, kind)
    c = site.source(3, wide)
    sources = [(kind, a), (kind, b), (wide, c)]
    if saturate:
        if (part, kind) != ("hi", "s32"):
            site.unsupported(".sat goes with mad.hi.s32 only")

        def clamped(x: Values, y: Values, z: Values) -> Values:
            total = function(x, y).astype(np.int64) + z
            return np.clip(total, -(2**31), 2**31 - 1).astype(np.int32)

        return map_lanes((wide, target), sources, clamped)
    return map_lanes((wide, target), sources, lambda x, y, z: function(x, y) + z)


def multiply_add_carry(site: Site, *, carry_in: bool, carry_out: bool) -> Step:
    """Define mad.cc, madc and madc.cc."""
    part = site.expect("lo", "hi")
    kind = site.type("u32", "s32", "u64", "s64")
    _, function = _product(part, kind)
    unsigned = "u" + kind[1:]
    target, a, b = site.destination(0, unsigned), site.source(1, kind), site.source(2, kind)
    c = site.source(3, unsigned)
    carry = _carry(site)
    dtype = KINDS[unsigned][1]

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows
        flag = rows["pred"][carry]
        product = function(rows[kind][a], rows[kind][b]).view(dtype)
        first = product + rows[unsigned][c]
        extra = flag.astype(dtype) if carry_in else dtype.type(0)
        result = first + extra
        out = (first < product) | (result < first)
        put(rows[unsigned][target], result, mask)
        if carry_out:
            put(flag, out, mask)

    return step


def multiply24(site: Site) -> Step:
    """Define mul24 and mad24."""
    part = site.expect("lo", "hi")
    saturate = site.has("sat")
    kind = site.type("u32", "s32")
    target, a, b = _three(site, kind)
    shift = np.int64(0 if part == "lo" else 16)
    dtype = KINDS[kind][1]

    def low24(x: Values) -> Values:
        if kind == "s32":
            return (x.astype(np.int64) << 40) >> 40
        return (x & np.uint32(0xFFFFFF)).astype(np.int64)

    def product(x: Values, y: Values) -> Values:
        return (low24(x) * low24(y)) >> shift

    if site.instruction.opcode == "mul24":
        return map_lanes((kind, target), [(kind, a), (kind, b)], lambda x, y: product(x, y).astype(dtype))
    c = site.source(3, kind)
    if saturate and (part, kind) != ("hi", "s32"):
        site.unsupported(".sat goes with mad24.hi.s32 only")

    def total(x: Values, y: Values, z: Values) -> Values:
        if saturate:
            half = product(x, y).astype(np.int32).astype(np.int64)
            return np.clip(half + z, -(2**31), 2**31 - 1).astype(np.int32)
        return (product(x, y) + z).astype(dtype)

    return map_lanes((kind, target), [(kind, a), (kind, b), (kind, c)], total)


def _quotient(x: Values, y: Values) -> Values:
    """Towards zero; by zero all ones."""
    if x.dtype.kind == "u":
        return np.where(y == 0, ~x.dtype.type(0), np.floor_divide(x, np.where(y == 0, x.dtype.type(1), y)))
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    magnitude = np.floor_divide(
        np.abs(x).view(unsigned), np.where(y == 0, unsigned.type(1), np.abs(y).view(unsigned))
    )
    signed = np.where((x < 0) != (y < 0), unsigned.type(0) - magnitude, magnitude)
    quotient: Values = np.where(y == 0, x.dtype.type(-1), signed.view(x.dtype))
    return quotient


def divide(site: Site) -> Step:
    """Define div towards zero."""
    kind = site.type(*_ALL)
    target, a, b = _three(site, kind)
    return map_lanes((kind, target), [(kind, a), (kind, b)], _quotient)


def remainder(site: Site) -> Step:
    """Define rem, with the sign of the dividend."""
    kind = site.type(*_ALL)
    target, a, b = _three(site, kind)

    def function(x: Values, y: Values) -> Values:
        return np.where(y == 0, x, x - _quotient(x, y) * y)

    return map_lanes((kind, target), [(kind, a), (kind, b)], function)


def min_max(site: Site) -> Step:
    """Define min and max, also packed."""
    relu = site.has("relu")
    kind = site.type(*_ALL, "u16x2", "s16x2")
    if relu and kind not in {"s32", "s16x2"}:
        site.unsupported(".relu goes with .s32 and .s16x2 only")
    target, a, b = _three(site, kind)
    ufunc = np.minimum if site.instruction.opcode == "min" else np.maximum
    if relu:
        zero = KINDS[kind][1].type(0)
        return map_lanes((kind, target), [(kind, a), (kind, b)], lambda x, y: np.maximum(ufunc(x, y), zero))
    if kind.endswith("x2"):
        return map_lanes((kind, target), [(kind, a), (kind, b)], ufunc)
    return _ufunc(kind, target, a, b, ufunc)


def abs_neg(site: Site) -> Step:
    """Define abs and neg."""
    kind = site.type("s16", "s32", "s64")
    target, a = site.destination(0, kind), site.source(1, kind)
    return map_lanes((kind, target), [(kind, a)], np.abs if site.instruction.opcode == "abs" else np.negative)


def sum_of_distance(site: Site) -> Step:
    """Define sad."""
    kind = site.type(*_ALL)
    target, a, b = _three(site, kind)
    c = site.source(3, kind)
    return map_lanes(
        (kind, target),
        [(kind, a), (kind, b), (kind, c)],
        lambda x, y, z: z + np.where(x < y, y - x, x - y),
    )


def dot_product(site: Site) -> Step:
    """Define dp4a and dp2a."""
    four = site.instruction.opcode == "dp4a"
    half = None if four else site.expect("lo", "hi")
    kind_a, kind_b = site.type("u32", "s32"), site.type("u32", "s32")
    result = "s32" if "s32" in {kind_a, kind_b} else "u32"
    parts_a = f"{kind_a[0]}{'8x4' if four else '16x2'}"
    parts_b = f"{kind_b[0]}8x4"
    target, a, b, c = (
        site.destination(0, result),
        site.source(1, parts_a),
        site.source(2, parts_b),
        site.source(3, result),
    )
    first = 2 if half == "hi" else 0
    dtype = KINDS[result][1]

    def function(x: Values, y: Values, z: Values) -> Values:
        chosen = y if four else y[..., first : first + 2]
        total = (x.astype(np.int64) * chosen.astype(np.int64)).sum(axis=-1)
        found: Values = (total + z).astype(dtype)
        return found

    return map_lanes((result, target), [(parts_a, a), (parts_b, b), (result, c)], function)


def simd_video(site: Site) -> Step:
    """Define vadd2, vadd4 and their kin."""
    name, count = site.instruction.opcode[:-1], int(site.instruction.opcode[-1])
    part = f"{32 // count}x{count}"
    kind, kind_a, kind_b = (f"{site.type('u32', 's32')[0]}{part}" for _ in range(3))
    added, clamped = site.has("add"), site.has("sat")
    if added and clamped:
        site.unsupported("the document allows .sat without .add only")
    operation = SIMD_VIDEO[name]
    a, b, c = site.source(1, kind_a), site.source(2, kind_b), site.source(3, "u32")

    def parts(x: Values, y: Values) -> Values:
        return operation(x.astype(np.int64), y.astype(np.int64))

    if added:

        def accumulated(x: Values, y: Values, z: Values) -> Values:
            total: Values = (parts(x, y).sum(axis=-1) + z).astype(np.uint32)
            return total

        return map_lanes(
            ("u32", site.destination(0, "u32")), [(kind_a, a), (kind_b, b), ("u32", c)], accumulated
        )
    dtype = KINDS[kind][1]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

    def merged(x: Values, y: Values) -> Values:
        values = parts(x, y)
        return (np.clip(values, low, high) if clamped else values).astype(dtype)

    return map_lanes((kind, site.destination(0, kind)), [(kind_a, a), (kind_b, b)], merged)
