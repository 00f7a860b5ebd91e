"""Logic, shifts and bit fields."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import KINDS, Mask, put
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.alu.integers import map_lanes
from cutecourse.ptx.syntax import Pair

__all__: list[str] = []

Values = NDArray[Any]
_LOGIC = ("pred", "b16", "b32", "b64")


def _logic_kind(site: Site) -> str:
    kind = site.type(*_LOGIC)
    return kind if kind == "pred" else "u" + kind[1:]


@instruction("and", "or", "xor")
def logic(site: Site) -> Step:
    """Combine two values bit by bit.

    Shapes:     one value in each lane, 16, 32 or 64 bits or a predicate.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Logic and Shift Instructions: and, or, xor (#logic-and-shift-instructions-and).
    """
    kind = _logic_kind(site)
    ufunc = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[site.instruction.opcode]
    target, a, b = site.destination(0, kind), site.source(1, kind), site.source(2, kind)

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows[kind]
        if mask is None:
            ufunc(rows[a], rows[b], rows[target])
        else:
            np.copyto(rows[target], ufunc(rows[a], rows[b]), where=mask)

    return step


@instruction("not", "cnot")
def invert(site: Site) -> Step:
    """Invert every bit; `cnot` asks whether a value is zero.

    Shapes:     one value in each lane, 16, 32 or 64 bits or, for `not`, a predicate.
    Units:      cnot gives 1 for zero, else 0.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Logic and Shift Instructions: not, cnot (#logic-and-shift-instructions-not).
    """
    kind = _logic_kind(site)
    target, a = site.destination(0, kind), site.source(1, kind)
    if site.instruction.opcode == "not":
        return map_lanes((kind, target), [(kind, a)], np.invert)
    if kind == "pred":
        site.unsupported("cnot of a predicate")
    dtype = KINDS[kind][1]
    return map_lanes((kind, target), [(kind, a)], lambda x: (x == 0).astype(dtype))


@instruction("shl", "shr")
def shift(site: Site) -> Step:
    """Shift left, or right: filled by zeros, for signed types by the sign.

    Shapes:     one value in each lane; the distance is u32.
    Units:      bits; from the width on everything is shifted out.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Logic and Shift Instructions: shl, shr (#logic-and-shift-instructions-shl).
    """
    left = site.instruction.opcode == "shl"
    name = (
        site.type("b16", "b32", "b64")
        if left
        else site.type(*(f"{c}{n}" for c in "bus" for n in (16, 32, 64)))
    )
    kind = name.replace("b", "u")
    bits, dtype, _ = KINDS[kind]
    signed = kind[0] == "s"
    target, a = site.destination(0, kind), site.source(1, kind)
    constant = site.constant(2)
    most = bits - 1 if signed else bits
    if constant is not None:
        distance = min(constant & 0xFFFFFFFF, most)
        if distance == bits:
            zero = site.constant_slot(kind, 0)
            return map_lanes((kind, target), [(kind, zero)], lambda x: x)
        held = site.constant_slot(kind, distance)
        ufunc = np.left_shift if left else np.right_shift

        def by_constant(bundle: Bundle, mask: Mask) -> None:
            rows = bundle.rows[kind]
            if mask is None:
                ufunc(rows[a], rows[held], rows[target])
            else:
                np.copyto(rows[target], ufunc(rows[a], rows[held]), where=mask)

        return by_constant
    b = site.source(2, "u32")

    def function(x: Values, y: Values) -> Values:
        distance = np.minimum(y, bits - 1).astype(dtype)
        shifted: Values = x << distance if left else x >> distance
        return shifted if signed else np.where(y >= bits, dtype.type(0), shifted)

    return map_lanes((kind, target), [(kind, a), ("u32", b)], function)


@instruction("shf")
def funnel_shift(site: Site) -> Step:
    """Shift two registers as one of 64 bits and keep one half.

    Shapes:     a is the low half, b the high half, c the distance.
    Units:      bits; `.wrap` takes the distance modulo 32, `.clamp` at most 32.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Logic and Shift Instructions: shf (#logic-and-shift-instructions-shf).
    """
    side, mode = site.expect("l", "r"), site.expect("clamp", "wrap")
    site.type("b32")
    target, a, b, c = (site.destination(0, "u32"), *(site.source(i, "u32") for i in (1, 2, 3)))

    def function(low: Values, high: Values, distance: Values) -> Values:
        count = (distance & 31 if mode == "wrap" else np.minimum(distance, 32)).astype(np.uint64)
        both = (high.astype(np.uint64) << np.uint64(32)) | low
        if side == "r":
            return (both >> count).astype(np.uint32)
        return ((both << count) >> np.uint64(32)).astype(np.uint32)

    return map_lanes(("u32", target), [("u32", a), ("u32", b), ("u32", c)], function)


@instruction("lop3")
def lop3(site: Site) -> Step:
    """Any logic function of three values, given as a table of eight bits.

    Shapes:     three values in each lane; with `.and`/`.or` also a predicate: whether the result is not
                zero, combined with a fourth operand.
    Units:      the table's bit number is 4 a + 2 b + c.
    Errors:     InvalidOperand where the table is no constant in 0..255.
    Source:     PTX ISA 9.0, Logic and Shift Instructions: lop3 (#logic-and-shift-instructions-lop3).
    """
    combine = site.one_of("and", "or")
    site.type("b32")
    operand = site.operand(0)
    predicate = None
    if combine:
        if not isinstance(operand, Pair):
            site.invalid(f"{operand} is not a pair of a register and a predicate")
        target, predicate = site.pair(0, "u32")
        q = site.source(5, "pred")
    else:
        target, q = site.destination(0, "u32"), -1
    a, b, c = (site.source(i, "u32") for i in (1, 2, 3))
    table = site.constant(4)
    if table is None or not 0 <= table <= 255:
        site.invalid("the table of lop3 is a constant in 0..255")
    terms = [i for i in range(8) if table >> i & 1]

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows["u32"]
        x, y, z = rows[a], rows[b], rows[c]
        result = np.zeros_like(x)
        for term in terms:
            result |= (x if term & 4 else ~x) & (y if term & 2 else ~y) & (z if term & 1 else ~z)
        put(rows[target], result, mask)
        if predicate is not None:
            held = bundle.rows["pred"]
            nonzero = result != 0
            put(held[predicate], nonzero & held[q] if combine == "and" else nonzero | held[q], mask)

    return step


@instruction("popc", "clz", "brev")
def count_bits(site: Site) -> Step:
    """Count the ones, count the zeros above the highest one, or reverse the order of bits.

    Shapes:     one value in each lane; popc and clz write 32 bits.
    Units:      bits.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: popc, clz, brev
                (#integer-arithmetic-instructions-popc).
    """
    kind = site.type("b32", "b64").replace("b", "u")
    bits, dtype, _ = KINDS[kind]
    name = site.instruction.opcode
    a = site.source(1, kind)
    if name == "brev":
        return map_lanes((kind, site.destination(0, kind)), [(kind, a)], _reverse)
    target = site.destination(0, "u32")
    if name == "popc":
        return map_lanes(("u32", target), [(kind, a)], np.bitwise_count)

    def leading(x: Values) -> Values:
        return bits - np.bitwise_count(_smear(x, bits, dtype)).astype(np.uint32)

    return map_lanes(("u32", target), [(kind, a)], leading)


def _smear(x: Values, bits: int, dtype: Any) -> Values:
    """Set every bit below the highest one."""
    distance = 1
    while distance < bits:
        x = x | (x >> dtype.type(distance))
        distance *= 2
    return x


def _reverse(x: Values) -> Values:
    size = x.dtype.itemsize
    octets = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, size)[..., ::-1]
    reversed_bits = np.packbits(np.unpackbits(octets, axis=-1, bitorder="little"), axis=-1, bitorder="big")
    return np.ascontiguousarray(reversed_bits).view(x.dtype)[..., 0]


@instruction("bfind")
def bfind(site: Site) -> Step:
    """The position of the highest one; in negative numbers, of the highest zero.

    Shapes:     one value in each lane; writes u32.
    Units:      bits; 0xffffffff if there is none; with `.shiftamt` the distance that moves it to the top.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: bfind (#integer-arithmetic-instructions-bfind).
    """
    amount = site.has("shiftamt")
    kind = site.type("u32", "s32", "u64", "s64")
    bits = KINDS[kind][0]
    unsigned = KINDS[f"u{bits}"][1]
    target, a = site.destination(0, "u32"), site.source(1, kind)

    def function(x: Values) -> Values:
        held = (np.where(x < 0, ~x, x) if kind[0] == "s" else x).view(unsigned)
        position = np.bitwise_count(_smear(held, bits, unsigned)).astype(np.uint32) - np.uint32(1)
        if amount:
            return np.where(held == 0, position, np.uint32(bits - 1) - position)
        return position

    return map_lanes(("u32", target), [(kind, a)], function)


@instruction("bfe")
def bfe(site: Site) -> Step:
    """Take a field out of a value, extended by zeros or by its sign.

    Shapes:     one value in each lane; position and length are u32.
    Units:      bits; the ISA restricts position and length to 0..255. An H200 takes them modulo 256 for
                32-bit values and as they are for 64-bit ones, and so does this.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: bfe (#integer-arithmetic-instructions-bfe).
    """
    kind = site.type("u32", "s32", "u64", "s64")
    bits, dtype, _ = KINDS[kind]
    unsigned = KINDS[f"u{bits}"][1]
    target, a = site.destination(0, kind), site.source(1, kind)
    b, c = site.source(2, "u32"), site.source(3, "u32")

    def function(x: Values, position: Values, length: Values) -> Values:
        start, count = _field(position, bits), _field(length, bits)
        raw = x.view(unsigned)
        # Above the top bit a field is filled by zeros or by the sign.
        top = np.minimum(start + count - 1, bits - 1)
        sign = ((raw >> np.maximum(top, 0).astype(unsigned)) & unsigned.type(1)).astype(np.bool_)
        sign &= (count > 0) & (kind[0] == "s")
        field = np.where(start < bits, raw >> np.minimum(start, bits - 1).astype(unsigned), unsigned.type(0))
        kept = np.clip(np.minimum(count, bits - start), 0, bits)
        ones = np.where(
            kept >= bits,
            ~unsigned.type(0),
            (unsigned.type(1) << np.minimum(kept, bits - 1).astype(unsigned)) - unsigned.type(1),
        )
        found: Values = np.where(sign, (field & ones) | ~ones, field & ones).astype(unsigned).view(dtype)
        return found

    return map_lanes((kind, target), [(kind, a), ("u32", b), ("u32", c)], function)


@instruction("bfi")
def bfi(site: Site) -> Step:
    """Put the low bits of a value into a field of another.

    Shapes:     two values in each lane; position and length are u32.
    Units:      bits; the ISA restricts position and length to 0..255. An H200 takes them modulo 256 for
                32-bit values and as they are for 64-bit ones, and so does this.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: bfi (#integer-arithmetic-instructions-bfi).
    """
    kind = site.type("b32", "b64").replace("b", "u")
    bits, dtype, _ = KINDS[kind]
    target, a, b = site.destination(0, kind), site.source(1, kind), site.source(2, kind)
    c, d = site.source(3, "u32"), site.source(4, "u32")

    def function(value: Values, base: Values, position: Values, length: Values) -> Values:
        start, count = _field(position, bits), _field(length, bits)
        ones = _ones(np.minimum(count, bits), bits, dtype)
        shift_by = np.minimum(start, bits - 1).astype(dtype)
        field = np.where(start < bits, ones << shift_by, dtype.type(0))
        found: Values = (base & ~field) | ((value << shift_by) & field)
        return found

    return map_lanes((kind, target), [(kind, a), (kind, b), ("u32", c), ("u32", d)], function)


def _field(number: Values, bits: int) -> Values:
    """A position or length as the hardware takes it."""
    return (number & 0xFF if bits == 32 else number).astype(np.int64)


def _ones(count: Values, bits: int, dtype: Any) -> Values:
    """As many low bits set as counted."""
    partial = (dtype.type(1) << np.minimum(count, bits - 1).astype(dtype)) - dtype.type(1)
    ones: Values = np.where(count >= bits, ~dtype.type(0), partial)
    return ones


@instruction("bmsk")
def bmsk(site: Site) -> Step:
    """Make a mask of ones from a position and a length.

    Shapes:     two u32 in each lane.
    Units:      bits; `.clamp` treats what is past 32 as 32, `.wrap` counts modulo 32.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: bmsk (#integer-arithmetic-instructions-bmsk).
    """
    mode = site.expect("clamp", "wrap")
    site.type("b32")
    target, a, b = site.destination(0, "u32"), site.source(1, "u32"), site.source(2, "u32")

    def function(position: Values, length: Values) -> Values:
        start, count = position.astype(np.int64), length.astype(np.int64)
        if mode == "wrap":
            start, count = start & 31, count & 31
        field = _ones(np.minimum(count, 32), 32, np.dtype(np.uint64))
        moved = field << np.minimum(start, 32).astype(np.uint64)
        return (moved & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return map_lanes(("u32", target), [("u32", a), ("u32", b)], function)


@instruction("szext")
def szext(site: Site) -> Step:
    """Keep the low bits of a value and extend them by zeros or by the sign.

    Shapes:     a value and a u32 in each lane.
    Units:      bits; `.clamp` takes at most 32, `.wrap` counts modulo 32.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: szext (#integer-arithmetic-instructions-szext).
    """
    mode = site.expect("clamp", "wrap")
    kind = site.type("u32", "s32")
    target, a, b = site.destination(0, kind), site.source(1, kind), site.source(2, "u32")
    dtype = KINDS[kind][1]

    def function(x: Values, length: Values) -> Values:
        count = (length & 31 if mode == "wrap" else np.minimum(length, 32)).astype(np.int64)
        held = x.view(np.uint32)
        ones = _ones(count, 32, np.dtype(np.uint32))
        sign = ((held >> np.maximum(count - 1, 0).astype(np.uint32)) & 1).astype(np.bool_)
        sign &= (count > 0) & (kind == "s32")
        return np.where(sign, held | ~ones, held & ones).view(dtype)

    return map_lanes((kind, target), [(kind, a), ("u32", b)], function)


@instruction("fns")
def fns(site: Site) -> Step:
    """Find the n-th set bit of a mask, counted from a base position up or down.

    Shapes:     a mask, a base (u32) and an offset (s32) in each lane.
    Units:      bits; 0xffffffff if there is none. Offset 0 asks for the base itself.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: fns (#integer-arithmetic-instructions-fns).
    """
    site.type("b32")
    target, a, b, c = (
        site.destination(0, "u32"),
        site.source(1, "u32"),
        site.source(2, "u32"),
        site.source(3, "s32"),
    )

    def one(mask: int, base: int, offset: int) -> int:
        step = 1 if offset >= 0 else -1
        wanted = abs(offset) if offset else 1
        places = [base] if offset == 0 else range(base, 32 if step > 0 else -1, step)
        for place in places:
            if 0 <= place < 32 and mask >> place & 1:
                wanted -= 1
                if not wanted:
                    return place
        return 0xFFFFFFFF

    def function(mask: Values, base: Values, offset: Values) -> Values:
        lanes = zip(mask.ravel().tolist(), base.ravel().tolist(), offset.ravel().tolist(), strict=True)
        return np.array([one(*lane) for lane in lanes], dtype=np.uint32).reshape(mask.shape)

    return map_lanes(("u32", target), [("u32", a), ("u32", b), ("s32", c)], function)


@instruction("prmt")
def prmt(site: Site) -> Step:
    """Pick four of the eight bytes of two registers.

    Shapes:     two values and a selector in each lane; b holds bytes 4 to 7.
    Units:      four bits of the selector for each byte: three for its number, one to spread its sign. The
                modes `.f4e .b4e .rc8 .ecl .ecr .rc16` take two bits.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: prmt
                (#data-movement-and-conversion-instructions-prmt).
    """
    site.type("b32")
    mode = site.one_of("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    target, a, b, c = (site.destination(0, "u32"), *(site.source(i, "u32") for i in (1, 2, 3)))
    table = None if mode is None else np.array([_byte_choice(mode, i) for i in range(4)], dtype=np.int64)

    def function(x: Values, y: Values, selector: Values) -> Values:
        octets = np.stack([x, y], axis=-1).view(np.uint8)
        if table is None:
            fields = (selector[..., None] >> np.array([0, 4, 8, 12], dtype=np.uint32)) & 0xF
            picked = np.take_along_axis(octets, (fields & 7).astype(np.int64), axis=-1)
            spread = np.where(picked & 0x80, np.uint8(0xFF), np.uint8(0))
            picked = np.where(fields & 8, spread, picked)
        else:
            picked = np.take_along_axis(octets, table[(selector & 3).astype(np.int64)], axis=-1)
        return np.ascontiguousarray(picked).view(np.uint32)[..., 0]

    return map_lanes(("u32", target), [("u32", a), ("u32", b), ("u32", c)], function)


def _byte_choice(mode: str, selector: int) -> list[int]:
    """Which bytes a mode picks, lowest first."""
    match mode:
        case "f4e":
            return [selector + i for i in range(4)]
        case "b4e":
            return [(selector - i) % 8 for i in range(4)]
        case "rc8":
            return [selector] * 4
        case "ecl":
            return [max(i, selector) for i in range(4)]
        case "ecr":
            return [min(i, selector) for i in range(4)]
        case _:
            low = 2 * (selector & 1)
            return [low, low + 1, low, low + 1]
