"""Integer arithmetic: the integer forms of `arithmetic`, and the instructions that only integers have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import KINDS, Mask, put
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.lanes import Values, map_lanes

__all__ = ["abs_neg", "add_sub", "divide", "min_max", "multiply", "with_carry"]

_ALL = ("u16", "u32", "u64", "s16", "s32", "s64")


def _clamped(total: Values) -> Values:
    """Clamp 64-bit sums into s32, as `.sat` does."""
    return np.clip(total, -(2**31), 2**31 - 1).astype(np.int32)


def add_sub(site: Site) -> Step:
    """Define add and sub; `.sat` clamps s32."""
    saturate = site.has("sat")
    kind = site.type(*_ALL, "u16x2", "s16x2")
    ufunc = np.add if site.instruction.opcode == "add" else np.subtract
    if not saturate:
        return map_lanes(site, ufunc, kind, kind, kind)
    if kind != "s32":
        site.unsupported(".sat goes with .s32 only")
    return map_lanes(site, lambda x, y: _clamped(ufunc(x, y, dtype=np.int64)), kind, kind, kind)


def with_carry(site: Site) -> Step:
    """Define add, sub and mad with `.cc`, and addc, subc and madc: the carry is a row of predicates.

    It is the adder's carry, also after a subtraction, which is x + ~y + 1: a borrow clears it.
    """
    name, carry_in = site.instruction.opcode[:3], site.instruction.opcode[3:] == "c"
    carry_out = site.has("cc")
    part = site.expect("lo", "hi") if name == "mad" else None
    kind = site.type("u32", "s32", "u64", "s64")
    unsigned = "u" + kind[1:]
    dtype = KINDS[unsigned][1]
    target = site.destination(0, unsigned)
    if part is None:
        sources = [(unsigned, site.source(i, unsigned)) for i in (1, 2)]
    else:
        sources = [(kind, site.source(i, kind)) for i in (1, 2)] + [(unsigned, site.source(3, unsigned))]
    product = _product(part or "lo", kind)[1]
    carry = site.named_slot("pred", "condition code carry")

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows
        flag = rows["pred"][carry]
        *factors, y = (rows[read][row] for read, row in sources)
        x = factors[0] if part is None else product(*factors).view(dtype)
        adds = flag if name != "sub" else ~flag
        extra = adds.astype(dtype) if carry_in else dtype.type(0)
        if name == "sub":
            first = x - y
            result = first - extra
            out = ~((x < y) | (first < extra))
        else:
            first = x + y
            result = first + extra
            out = (first < x) | (result < first)
        put(rows[unsigned][target], result, mask)
        if carry_out:
            put(flag, out, mask)

    return step


@instruction("addc", "subc", "madc")
def addc(site: Site) -> Step:
    """Add, subtract, or multiply and add, with the carry that an earlier `.cc` instruction left.

    Shapes:     one integer in each lane.
    Units:      32 or 64 bits; a subtraction that borrows leaves no carry, and one that does not borrow leaves
                a carry; madc adds the `.lo` or `.hi` half of the product.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Extended-Precision Integer Arithmetic Instructions: addc, subc, madc
                (#extended-precision-arithmetic-instructions-addc). It speaks of a borrow in CC.CF; nvcc's
                division of 128-bit integers reads the flag of a subtraction with addc, as a carry.
    """
    return with_carry(site)


def _high_half(x: Values, y: Values, kind: str) -> Values:
    """The high half of a product of two integers of one kind."""
    bits, dtype, _ = KINDS[kind]
    if bits < 64:
        wide = KINDS[f"{kind[0]}{2 * bits}"][1]
        half: Values = (np.multiply(x, y, dtype=wide) >> bits).astype(dtype)
        return half
    ux, uy = x.view(np.uint64), y.view(np.uint64)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    xl, xh, yl, yh = ux & low, ux >> shift, uy & low, uy >> shift
    middle = xh * yl + ((xl * yl) >> shift)
    other = xl * yh + (middle & low)
    high = xh * yh + (middle >> shift) + (other >> shift)
    if kind == "s64":
        # A negative operand counts 2^64 too much as unsigned: subtract the other operand's share.
        high = high - np.where(x < 0, uy, np.uint64(0)) - np.where(y < 0, ux, np.uint64(0))
    whole: Values = high.view(dtype)
    return whole


def _product(part: str, kind: str) -> tuple[str, Callable[[Values, Values], Values]]:
    """The kind of a product's part and the function that computes it."""
    if part == "wide":
        wide = f"{kind[0]}{2 * KINDS[kind][0]}"
        dtype = KINDS[wide][1]
        return wide, lambda x, y: np.multiply(x, y, dtype=dtype)
    if part == "hi":
        return kind, lambda x, y: _high_half(x, y, kind)
    return kind, np.multiply


def multiply(site: Site) -> Step:
    """Define mul and mad: `.lo`, `.hi` and `.wide`."""
    adds = site.instruction.opcode == "mad"
    saturate = adds and site.has("sat")
    part = site.expect("lo", "hi", "wide")
    kind = site.type(*_ALL)
    if part == "wide" and KINDS[kind][0] == 64:
        site.unsupported("mul.wide of 64 bits")
    wide, product = _product(part, kind)
    if not adds:
        return map_lanes(site, product, wide, kind, kind)
    if not saturate:
        return map_lanes(site, lambda x, y, z: product(x, y) + z, wide, kind, kind, wide)
    if (part, kind) != ("hi", "s32"):
        site.unsupported(".sat goes with mad.hi.s32 only")
    return map_lanes(
        site, lambda x, y, z: _clamped(np.add(product(x, y), z, dtype=np.int64)), wide, kind, kind, wide
    )


@instruction("mul24", "mad24")
def mul24(site: Site) -> Step:
    """Multiply the low 24 bits of two integers; `mad24` adds a third.

    Shapes:     one integer in each lane.
    Units:      `.lo` the low 32 bits of the 48-bit product, `.hi` the high 32 bits.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: mul24, mad24
                (#integer-arithmetic-instructions-mul24).
    """
    adds = site.instruction.opcode == "mad24"
    part = site.expect("lo", "hi")
    saturate = adds and site.has("sat")
    kind = site.type("u32", "s32")
    if saturate and (part, kind) != ("hi", "s32"):
        site.unsupported(".sat goes with mad24.hi.s32 only")
    shift = 0 if part == "lo" else 16
    dtype = KINDS[kind][1]

    def low24(x: Values) -> Values:
        if kind == "s32":
            return (x.astype(np.int64) << 40) >> 40
        return (x & 0xFFFFFF).astype(np.int64)

    def function(x: Values, y: Values, z: Values | int = 0) -> Values:
        total = ((low24(x) * low24(y)) >> shift) + z
        return _clamped(total) if saturate else total.astype(dtype)

    return map_lanes(site, function, *[kind] * (4 if adds else 3))


def _remainder(x: Values, y: Values) -> Values:
    """The remainder of a division towards zero; a division by zero leaves the whole dividend."""
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, y.dtype.type(1), y)))


def divide(site: Site) -> Step:
    """Define div: rounded towards zero; a division by zero gives all ones."""
    kind = site.type(*_ALL)

    def quotient(x: Values, y: Values) -> Values:
        whole = x - _remainder(x, y)
        return np.where(y == 0, ~y, np.floor_divide(whole, y))

    return map_lanes(site, quotient, kind, kind, kind)


@instruction("rem")
def rem(site: Site) -> Step:
    """Compute the remainder of a division towards zero; it has the sign of the dividend.

    Shapes:     one integer in each lane.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: a division by zero gives the dividend; the ISA leaves the result open.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: rem (#integer-arithmetic-instructions-rem).
    """
    kind = site.type(*_ALL)
    return map_lanes(site, _remainder, kind, kind, kind)


def min_max(site: Site) -> Step:
    """Define min and max, packed types included."""
    relu = site.has("relu")
    kind = site.type(*_ALL, "u16x2", "s16x2")
    if relu and kind not in {"s32", "s16x2"}:
        site.unsupported(".relu goes with .s32 and .s16x2 only")
    ufunc = np.minimum if site.instruction.opcode == "min" else np.maximum
    if relu:
        return map_lanes(site, lambda x, y: np.maximum(ufunc(x, y), 0), kind, kind, kind)
    return map_lanes(site, ufunc, kind, kind, kind)


def abs_neg(site: Site) -> Step:
    """Define abs and neg."""
    kind = site.type("s16", "s32", "s64")
    return map_lanes(site, np.abs if site.instruction.opcode == "abs" else np.negative, kind, kind)


@instruction("sad")
def sad(site: Site) -> Step:
    """Add the absolute difference of two integers to a third.

    Shapes:     one integer in each lane.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: sad (#integer-arithmetic-instructions-sad).
    """
    kind = site.type(*_ALL)
    return map_lanes(site, lambda x, y, z: z + np.where(x < y, y - x, x - y), kind, kind, kind, kind)


@instruction("dp4a", "dp2a")
def dp4a(site: Site) -> Step:
    """Add the dot product of packed small integers to a 32-bit integer.

    Shapes:     dp4a: four bytes of a, four of b; dp2a: two halves of a and the `.lo` or `.hi` two bytes of b.
    Units:      the sum wraps around.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: dp4a, dp2a
                (#integer-arithmetic-instructions-dp4a).
    """
    parts, of_b = "8x4", slice(0, 4)
    if site.instruction.opcode == "dp2a":
        parts, of_b = "16x2", {"lo": slice(0, 2), "hi": slice(2, 4)}[site.expect("lo", "hi")]
    kind_a, kind_b = site.type("u32", "s32"), site.type("u32", "s32")
    result = "s32" if "s32" in {kind_a, kind_b} else "u32"
    dtype = KINDS[result][1]

    def function(x: Values, y: Values, z: Values) -> Values:
        found: Values = ((x.astype(np.int64) * y[..., of_b]).sum(axis=-1) + z).astype(dtype)
        return found

    return map_lanes(site, function, result, kind_a[0] + parts, kind_b[0] + "8x4", result)


_SIMD_VIDEO: dict[str, Callable[[Values, Values], Values]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}
"""The SIMD video operations on exact integer parts, by the instructions' names without the count."""


@instruction(*(f"{name}{n}" for n in (2, 4) for name in _SIMD_VIDEO))
def simd_video(site: Site) -> Step:
    """Compute with two registers part by part: each pair of halves, or of bytes, by itself.

    Shapes:     a, b and the result hold two parts of 16 bits or four of 8 bits.
    Units:      `vavrg` rounds halves away from zero. A part that does not fit wraps around, or is clamped
                to the range of the result's type with `.sat`. `.add` adds the parts, before they wrap, to the
                32-bit c. Without it c is not read, because every part of the result is written.
    Errors:     InvalidOperand where widths do not agree. The parser accepts no mask after d, and no selector
                after a or b.
    Source:     PTX ISA 9.0, SIMD Video Instructions: vadd4, vsub4, vavrg4, vabsdiff4, vmin4, vmax4
                (#simd-video-instructions-vadd4-vsub4-vavrg4-vabsdiff4-vmin4-vmax4).
    """
    operation, count = _SIMD_VIDEO[site.instruction.opcode[:-1]], int(site.instruction.opcode[-1])
    kind, *kinds = (f"{site.type('u32', 's32')[0]}{32 // count}x{count}" for _ in range(3))
    added, clamped = site.has("add"), site.has("sat")
    if added and clamped:
        site.unsupported("the document allows .sat without .add only")
    dtype = KINDS[kind][1]
    limits = np.iinfo(dtype)

    def function(x: Values, y: Values, z: Values) -> Values:
        parts = operation(x.astype(np.int64), y.astype(np.int64))
        if added:
            total: Values = (parts.sum(axis=-1) + z).astype(np.uint32)
            return total
        return (np.clip(parts, limits.min, limits.max) if clamped else parts).astype(dtype)

    return map_lanes(site, function, "u32" if added else kind, *kinds, "u32")
