"""Logic, shifts and bit fields."""

from __future__ import annotations

import numpy as np

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts, IntegerOperation
from cutecourse.emulator.core.kinds import KINDS, Mask, put
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.lanes import Values, map_lanes
from cutecourse.emulator.instructions.stating import by_modifiers
from cutecourse.ptx.syntax import Instruction

__all__: list[str] = []

_LOGIC = ("pred", "b16", "b32", "b64")


def _logic_kind(site: Site) -> str:
    kind = site.type(*_LOGIC)
    return kind if kind == "pred" else "u" + kind[1:]


_OPERATIONS = {
    "and": IntegerOperation.AND,
    "or": IntegerOperation.OR,
    "xor": IntegerOperation.XOR,
    "not": IntegerOperation.NOT,
    "shl": IntegerOperation.SHIFT_LEFT,
    "shr": IntegerOperation.SHIFT_RIGHT,
}


@by_modifiers
def _facts(one: Instruction) -> Facts:
    return Facts(computes=_OPERATIONS.get(one.opcode))


@instruction("and", "or", "xor", facts=_facts)
def logic(site: Site) -> Step:
    """Combine two values bit by bit.

    Shapes:     one value in each lane, 16, 32 or 64 bits or a predicate.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Logic and Shift Instructions: and, or, xor (#logic-and-shift-instructions-and).
    """
    kind = _logic_kind(site)
    ufunc = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[site.instruction.opcode]
    return map_lanes(site, ufunc, kind, kind, kind)


@instruction("not", "cnot", facts=_facts)
def invert(site: Site) -> Step:
    """Invert every bit; `cnot` tests whether a value is zero.

    Shapes:     one value in each lane, 16, 32 or 64 bits or, for `not`, a predicate.
    Units:      cnot gives 1 for zero, else 0.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Logic and Shift Instructions: not, cnot (#logic-and-shift-instructions-not).
    """
    kind = _logic_kind(site)
    if site.instruction.opcode == "not":
        return map_lanes(site, np.invert, kind, kind)
    if kind == "pred":
        site.unsupported("cnot of a predicate")
    return map_lanes(site, lambda x: x == 0, kind, kind)


@instruction("shl", "shr", facts=_facts)
def shift(site: Site) -> Step:
    """Shift left or right; a right shift of a signed type fills with the sign bit, all others with zeros.

    Shapes:     one value in each lane; the distance is u32.
    Units:      bits; a distance of the width or more shifts every bit out.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Logic and Shift Instructions: shl, shr (#logic-and-shift-instructions-shl).
    """
    ufunc, letters = (np.left_shift, "b") if site.instruction.opcode == "shl" else (np.right_shift, "bus")
    kind = site.type(*(f"{c}{n}" for c in letters for n in (16, 32, 64))).replace("b", "u")
    bits, dtype, _ = KINDS[kind]
    constant = site.constant(2)
    if constant is not None:
        distance = site.constant_slot(kind, min(constant & 0xFFFFFFFF, bits))
        return map_lanes(site, ufunc, kind, kind, (kind, distance))
    return map_lanes(site, lambda x, y: ufunc(x, np.minimum(y, bits).astype(dtype)), kind, kind, "u32")


@instruction("shf")
def funnel_shift(site: Site) -> Step:
    """Shift two registers as one 64-bit value and keep one half of it.

    Shapes:     a is the low half, b the high half, c the distance.
    Units:      bits; `.wrap` takes the distance modulo 32, `.clamp` limits it to 32.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Logic and Shift Instructions: shf (#logic-and-shift-instructions-shf).
    """
    side, mode = site.expect("l", "r"), site.expect("clamp", "wrap")
    site.type("b32")

    def function(low: Values, high: Values, distance: Values) -> Values:
        count = _within(mode, distance).astype(np.uint64)
        both = (high.astype(np.uint64) << np.uint64(32)) | low
        if side == "r":
            return (both >> count).astype(np.uint32)
        return ((both << count) >> np.uint64(32)).astype(np.uint32)

    return map_lanes(site, function, "u32", "u32", "u32", "u32")


@instruction("lop3")
def lop3(site: Site) -> Step:
    """Apply any logic function of three values, given as a truth table of eight bits.

    Shapes:     three values in each lane; `.and`/`.or` also write a predicate, which combines result != 0
                with a fourth operand.
    Units:      bits a, b and c of the operands select bit 4 a + 2 b + c of the table.
    Errors:     InvalidOperand where the table is not a constant in 0..255.
    Source:     PTX ISA 9.0, Logic and Shift Instructions: lop3 (#logic-and-shift-instructions-lop3).
    """
    combine = site.one_of("and", "or")
    site.type("b32")
    target, predicate = site.pair(0, "u32") if combine else (site.destination(0, "u32"), None)
    if combine and predicate is None:
        site.invalid(f"{site.operand(0)} is not a pair of a register and a predicate")
    q = site.source(5, "pred") if combine else -1
    merge = np.logical_and if combine == "and" else np.logical_or
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
            put(held[predicate], merge(result != 0, held[q]), mask)

    return step


@instruction("popc", "clz", "brev")
def count_bits(site: Site) -> Step:
    """Count the ones, count the zeros above the highest one, or reverse the order of the bits.

    Shapes:     one value in each lane; popc and clz write 32 bits.
    Units:      bits.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: popc, clz, brev
                (#integer-arithmetic-instructions-popc).
    """
    kind = site.type("b32", "b64").replace("b", "u")
    match site.instruction.opcode:
        case "brev":
            return map_lanes(site, _reverse, kind, kind)
        case "popc":
            return map_lanes(site, np.bitwise_count, "u32", kind)
    return map_lanes(site, lambda x: KINDS[kind][0] - np.bitwise_count(_smear(x)), "u32", kind)


def _smear(x: Values) -> Values:
    """Set every bit below the highest one."""
    for distance in (1, 2, 4, 8, 16, 32):
        x = x | (x >> distance)
    return x


def _reverse(x: Values) -> Values:
    octets = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, x.dtype.itemsize)[..., ::-1]
    reversed_bits = np.packbits(np.unpackbits(octets, axis=-1, bitorder="little"), axis=-1, bitorder="big")
    return np.ascontiguousarray(reversed_bits).view(x.dtype)[..., 0]


@instruction("bfind")
def bfind(site: Site) -> Step:
    """Find the position of the highest one or, in a negative number, of the highest zero.

    Shapes:     one value in each lane; writes u32.
    Units:      bits; 0xffffffff if there is none. `.shiftamt` gives the left shift that moves it to the top.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: bfind (#integer-arithmetic-instructions-bfind).
    """
    amount = site.has("shiftamt")
    kind = site.type("u32", "s32", "u64", "s64")
    bits = KINDS[kind][0]

    def function(x: Values) -> Values:
        held = np.where(x < 0, ~x, x).view(f"u{bits // 8}")
        position = np.bitwise_count(_smear(held)).astype(np.uint32) - np.uint32(1)
        if amount:
            return np.where(held == 0, position, np.uint32(bits - 1) - position)
        return position

    return map_lanes(site, function, "u32", kind)


@instruction("bfe")
def bfe(site: Site) -> Step:
    """Extract a bit field from a value and extend it with zeros or with its sign.

    Shapes:     one value in each lane; position and length are u32.
    Units:      bits; the ISA restricts position and length to 0..255. An H200 takes them modulo 256 for
                32-bit values and as they are for 64-bit values, and so does the emulator.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: bfe (#integer-arithmetic-instructions-bfe).
    """
    kind = site.type("u32", "s32", "u64", "s64")

    def function(x: Values, position: Values, length: Values) -> Values:
        return _extended(x >> _field(x, position), _field(x, length))

    return map_lanes(site, function, kind, kind, "u32", "u32")


@instruction("bfi")
def bfi(site: Site) -> Step:
    """Insert the low bits of one value into a bit field of another.

    Shapes:     two values in each lane; position and length are u32.
    Units:      bits; the ISA restricts position and length to 0..255. An H200 takes them modulo 256 for
                32-bit values and as they are for 64-bit values, and so does the emulator.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: bfi (#integer-arithmetic-instructions-bfi).
    """
    kind = site.type("b32", "b64").replace("b", "u")

    def function(value: Values, base: Values, position: Values, length: Values) -> Values:
        start, count = _field(base, position), _field(base, length)
        field = _ones(count) << start
        return (base & ~field) | ((value << start) & field)

    return map_lanes(site, function, kind, kind, kind, "u32", "u32")


def _field(value: Values, number: Values) -> Values:
    """A position or length as the hardware uses it, limited to the width of the value."""
    bits = 8 * value.dtype.itemsize
    return np.minimum(number & 0xFF if bits == 32 else number, bits).astype(value.dtype)


def _extended(x: Values, count: Values) -> Values:
    """Extend the low bits of a value with their sign or with zeros: shift them to the top and back."""
    above = (8 * x.dtype.itemsize - count).astype(x.dtype)
    found: Values = (x << above) >> above
    return found


def _ones(count: Values) -> Values:
    """A mask of `count` low ones; NumPy shifts out every bit if the count is the width or more."""
    found: Values = ~(~count.dtype.type(0) << count)
    return found


@instruction("bmsk")
def bmsk(site: Site) -> Step:
    """Make a mask of ones from a position and a length.

    Shapes:     two u32 in each lane.
    Units:      bits; `.clamp` limits both numbers to 32, `.wrap` takes them modulo 32.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: bmsk (#integer-arithmetic-instructions-bmsk).
    """
    mode = site.expect("clamp", "wrap")
    site.type("b32")

    def function(position: Values, length: Values) -> Values:
        return _ones(_within(mode, length)) << _within(mode, position)

    return map_lanes(site, function, "u32", "u32", "u32")


def _within(mode: str, number: Values) -> Values:
    """A position or a length in a 32-bit word: taken modulo 32 or limited to 32."""
    return number & 31 if mode == "wrap" else np.minimum(number, 32)


@instruction("szext")
def szext(site: Site) -> Step:
    """Keep the low bits of a value and extend them with zeros or with their sign.

    Shapes:     a value and a u32 in each lane.
    Units:      bits; `.clamp` limits their number to 32, `.wrap` takes it modulo 32.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: szext (#integer-arithmetic-instructions-szext).
    """
    mode = site.expect("clamp", "wrap")
    kind = site.type("u32", "s32")
    return map_lanes(site, lambda x, length: _extended(x, _within(mode, length)), kind, kind, "u32")


@instruction("fns")
def fns(site: Site) -> Step:
    """Find the n-th set bit of a mask, counting up or down from a base position.

    Shapes:     a mask, a base (u32) and an offset (s32) in each lane.
    Units:      bits; 0xffffffff if there is none. Offset 0 tests the bit at the base.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: fns (#integer-arithmetic-instructions-fns).
    """
    site.type("b32")

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

    return map_lanes(site, function, "u32", "u32", "u32", "s32")


_PICKED = {
    "f4e": ("0123", "1234", "2345", "3456"),
    "b4e": ("0765", "1076", "2107", "3210"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("0123", "1123", "2223", "3333"),
    "ecr": ("0000", "0111", "0122", "0123"),
    "rc16": ("0101", "2323", "0101", "2323"),
}
"""The bytes that each mode of prmt picks, lowest first, for each value of the selector's low two bits."""


@instruction("prmt")
def prmt(site: Site) -> Step:
    """Pick four of the eight bytes of two registers.

    Shapes:     two values and a selector in each lane; b holds bytes 4 to 7.
    Units:      the selector has four bits for each byte: three pick the byte, one replicates its sign. The
                modes `.f4e .b4e .rc8 .ecl .ecr .rc16` use two bits of the selector in all.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: prmt
                (#data-movement-and-conversion-instructions-prmt).
    """
    site.type("b32")
    mode = site.one_of(*_PICKED)
    table = None if mode is None else np.array([list(picked) for picked in _PICKED[mode]], dtype=np.int64)

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

    return map_lanes(site, function, "u32", "u32", "u32", "u32")
