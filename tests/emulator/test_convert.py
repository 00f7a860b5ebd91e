"""cvt as an instruction: every conversion of every case, against exact fractions and the ISA's rules."""

import math
import re
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from cutecourse.emulator import launch
from cutecourse.emulator.errors import UnsupportedInstruction
from cutecourse.emulator.numbers.exact import fraction_to_bits
from cutecourse.emulator.numbers.formats import FORMATS, FloatFormat, to_float64
from support.collectives import CASES, names, run

INTEGER = re.compile(r"[us]\d+")
TO_WHOLE = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
PACKED = {"f16x2": "f16", "bf16x2": "bf16", "e4m3x2": "e4m3", "e5m2x2": "e5m2"}


def width_of(kind: str) -> int:
    return FORMATS[kind].bits if kind in FORMATS else int(kind[1:])


def clamp(value: int, kind: str) -> int:
    bits = width_of(kind)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def flushed(value: float, fmt: FloatFormat) -> float:
    return math.copysign(0.0, value) if abs(value) < 2.0**fmt.min_exponent else value


def converted(bits: int, source: str, target: str, modifiers: set[str], register_bits: int) -> int:
    """One cvt of one number, from the ISA's description, as the bits that the destination register holds."""
    ftz = "ftz" in modifiers
    if INTEGER.fullmatch(source):
        value: int | float = bits % (1 << width_of(source))
        if source[0] == "s" and value >> (width_of(source) - 1):
            value -= 1 << width_of(source)
    else:
        value = float(to_float64(np.uint64(bits), FORMATS[source]))
        if ftz and source == "f32":
            value = flushed(value, FORMATS["f32"])
    whole = next((TO_WHOLE[m] for m in modifiers if m in TO_WHOLE), None)
    if INTEGER.fullmatch(target):
        if isinstance(value, int):
            result = clamp(value, target) if "sat" in modifiers else value
            if target[0] == "s" and "sat" not in modifiers:
                half = 1 << (width_of(target) - 1)
                result = (value + half) % (2 * half) - half
        elif math.isnan(value):
            # The ISA's table of what NaN becomes.
            odd = source == "f64" or width_of(target) == 64
            result = 1 << (width_of(target) - 1) if odd else 0
            if target[0] == "s":
                result = -result
        elif math.isinf(value):
            result = clamp((1 << 80) * (1 if value > 0 else -1), target)
        else:
            result = clamp(whole(Fraction(value)), target)  # type: ignore[misc]
        kept = result % (1 << width_of(target))
        return result % (1 << register_bits) if target[0] == "s" else kept
    if isinstance(value, float) and math.isnan(value) and "sat" not in modifiers:
        return converted_nan(bits, source, target, modifiers)
    return as_float(value, source, FORMATS[target], modifiers, whole)


def converted_nan(bits: int, source: str, target: str, modifiers: set[str]) -> int:
    """What an H200 made of a NaN: the ISA leaves its bits open, the recordings hold them."""
    a, d = FORMATS[source], FORMATS[target]
    if "rna" in modifiers:
        kept = bits & 0xFFFFE000
        return kept - 0x2000 if "satfinite" in modifiers else kept
    if (source, target) == ("bf16", "f32") and "ftz" not in modifiers:
        return bits << 16
    if "f64" not in (source, target):
        return {
            "f16": 0x7FFF,
            "bf16": 0x7FFF,
            "f32": 0x7FFFFFFF,
            "tf32": 0x7FFFE000,
            "e4m3": 0x7F,
            "e5m2": 0x7F,
        }[target]
    if "ftz" in modifiers and source == "f32":
        bits = 0x7FFFFFFF
    sign = bits >> (a.bits - 1)
    payload = (bits & ((1 << a.fraction_bits) - 1)) / 2.0**a.fraction_bits
    fraction = int(payload * 2.0**d.fraction_bits) | 1 << (d.fraction_bits - 1)
    return sign << (d.bits - 1) | int(d.infinity) | fraction


def as_float(value: float, source: str, fmt: FloatFormat, modifiers: set[str], whole: object) -> int:
    sign = int(fmt.sign_bit)
    negative = math.copysign(1, value) < 0
    if isinstance(value, float) and math.isnan(value):
        return 0
    if isinstance(value, float) and math.isinf(value):
        largest = int(fmt.max_finite if "satfinite" in modifiers else fmt.infinity)
        bits = largest | (sign if negative else 0)
    else:
        exact = Fraction(value)
        if whole is not None:
            exact = Fraction(whole(exact))  # type: ignore[operator]
        rounding = next((m for m in ("rn", "rz", "rm", "rp", "rna") if m in modifiers), "rn")
        bits = fraction_to_bits(exact, fmt, rounding, negative_zero=negative)  # type: ignore[arg-type]
        if "satfinite" in modifiers and bits & ~sign > int(fmt.max_finite):
            bits = int(fmt.max_finite) | (bits & sign)
    if "ftz" in modifiers and fmt.name == "f32" and 0 < bits & ~sign < 1 << fmt.fraction_bits:
        bits &= sign
    if ("relu" in modifiers or "sat" in modifiers) and bits & sign:
        bits = 0
    if "sat" in modifiers:
        bits = min(bits, fmt.bias << fmt.fraction_bits)
    return bits


def raw(array: np.ndarray) -> list[int]:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}").ravel().tolist()


def conversions(name: str) -> list[tuple[list[str], list[str]]]:
    """(modifiers, operands) of each cvt in a case, in the order of its outputs."""
    found = re.findall(r"^ +cvt\.([\w.]+) ([^;]+);$", CASES[name].ptx, re.MULTILINE)
    return [(modifiers.split("."), operands.split(", ")) for modifiers, operands in found]


@pytest.mark.parametrize("name", [n for n in names("cvt") if "x2" not in n and "pack" not in n])
def test_cvt__scalars_follow_the_isa(name: str) -> None:
    before, after = run(name)
    outputs = CASES[name].outputs
    values = raw(before["a"])
    texts = conversions(name)
    assert len(texts) == len(outputs)
    for output, (words, _) in zip(outputs, texts, strict=True):
        *modifiers, target, source = words
        register_bits = 8 * after[output].itemsize
        wanted = [converted(value, source, target, set(modifiers), register_bits) for value in values]
        found = raw(after[output])
        wrong = [(hex(v), hex(f), hex(w)) for v, f, w in zip(values, found, wanted, strict=True) if f != w]
        assert not wrong, (output, words, wrong[:5])


@pytest.mark.parametrize("name", [n for n in names("cvt") if "x2" in n and not CASES[n].expect])
def test_cvt__pairs_put_the_first_source_into_the_high_half(name: str) -> None:
    before, after = run(name)
    for output, (words, operands) in zip(CASES[name].outputs, conversions(name), strict=True):
        *modifiers, target, source = words
        fmt, source_kind = FORMATS[PACKED[target]], PACKED.get(source, source)
        if len(operands) == 3:
            high, low = raw(before["a"]), raw(before["b"])
        else:
            both = raw(before["a"])
            high, low = both[1::2], both[0::2]
        wanted = []
        for pair in zip(high, low, strict=True):
            one, other = (converted(v, source_kind, PACKED[target], set(modifiers), fmt.bits) for v in pair)
            wanted.append(one << fmt.bits | other)
        found = raw(after[output].view(f"u{2 * fmt.bits // 8}"))
        wrong = [(hex(f), hex(w)) for f, w in zip(found, wanted, strict=True) if f != w]
        assert not wrong, (output, words, wrong[:5])


@pytest.mark.parametrize("name", names("cvt", "pack_"))
def test_cvt_pack__clamps_joins_and_shifts(name: str) -> None:
    before, after = run(name)
    target = name.rsplit("_", 1)[1]
    bits = int(target[1:])
    older = before["c"].ravel().tolist() if "c" in before else [0] * before["a"].size
    columns = zip(before["a"].ravel().tolist(), before["b"].ravel().tolist(), older, strict=True)
    mask = (1 << bits) - 1
    wanted = [
        (c << 2 * bits | (clamp(a, target) & mask) << bits | (clamp(b, target) & mask)) % 2**32
        for a, b, c in columns
    ]
    assert after["d"].ravel().tolist() == wanted


def test_cvt__cases_cover_every_pair_of_types() -> None:
    seen = {tuple(words[-2:]) for name in names("cvt") for words, _ in conversions(name)}
    integers = [f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64)]
    floats = ["f16", "bf16", "f32", "f64"]
    for a in [*integers, *floats]:
        for b in [*integers, *floats]:
            if a != b or a in floats:
                assert (a, b) in seen, (a, b)


NARROW = {
    "e4m3x2": ml_dtypes.float8_e4m3fn,
    "e5m2x2": ml_dtypes.float8_e5m2,
    "e2m3x2": ml_dtypes.float6_e2m3fn,
    "e3m2x2": ml_dtypes.float6_e3m2fn,
    "e2m1x2": ml_dtypes.float4_e2m1fn,
}


def converts(text: str, values: NDArray[Any], result: str) -> NDArray[Any]:
    """What an instruction makes of the word in %w of each of 256 threads: %h and %b are its low bits."""
    ptx = f"""
.version 8.6
.target sm_120a
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out)
{{
    .reg .b8 %b;
    .reg .b16 %h, %to16;
    .reg .b32 %me, %w, %to32;
    .reg .b64 %in, %out;
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    mov.u32 %me, %tid.x;
    mad.wide.u32 %in, %me, 4, %in;
    mad.wide.u32 %out, %me, {np.dtype(result).itemsize}, %out;
    ld.global.b32 %w, [%in];
    cvt.u16.u32 %h, %w;
    cvt.u8.u32 %b, %w;
    {text};
    st.global.b{8 * np.dtype(result).itemsize} [%out], %to{8 * np.dtype(result).itemsize};
    ret;
}}
"""
    out = np.zeros(256, result)
    launch(ptx, grid=1, block=256, args=[values, out])
    return out


@pytest.mark.parametrize(("to", "of"), [("bf16", "f16"), ("f16", "bf16")])
def test_cvt__between_f16_and_bf16_rounds_to_the_nearest(to: str, of: str) -> None:
    """Without a modifier, ptxas makes the machine code of .rn."""
    values = np.random.default_rng(7).integers(0, 1 << 16, 256).astype(np.uint32)
    got = converts(f"cvt.{to}.{of} %to16, %h", values, "uint16")
    np.testing.assert_array_equal(got, converts(f"cvt.rn.{to}.{of} %to16, %h", values, "uint16"))


@pytest.mark.parametrize("name", NARROW)
def test_cvt__of_a_pair_of_a_narrow_format_to_bf16(name: str) -> None:
    bits = ml_dtypes.finfo(NARROW[name]).bits
    codes = np.arange(512).reshape(256, 2)[:, ::-1] % (1 << bits)
    given = codes[:, 0] | codes[:, 1] << (4 if bits == 4 else 8)
    source = "%b" if bits == 4 else "%h"
    got = converts(f"cvt.rn.bf16x2.{name} %to32, {source}", given.astype(np.uint32), "uint32")
    pairs = got.view(ml_dtypes.bfloat16).reshape(256, 2).astype(np.float32)
    np.testing.assert_array_equal(pairs, codes.astype(np.uint8).view(NARROW[name]).astype(np.float32))


@pytest.mark.parametrize("source", ["f16x2", "bf16x2"])
@pytest.mark.parametrize("name", NARROW)
def test_cvt__of_a_pair_to_a_narrow_format(name: str, source: str) -> None:
    limits = ml_dtypes.finfo(NARROW[name])
    most = float(limits.max)
    wide = np.float16 if source == "f16x2" else ml_dtypes.bfloat16
    values = np.random.default_rng(3).uniform(-1.2, 1.2, (256, 2)) * min(most, 40000.0)
    values[::3] *= 2.0**-6
    given = values.astype(wide)
    clamped = np.clip(given.astype(np.float32), -most, most)
    wanted = clamped.astype(NARROW[name]).view(np.uint8).astype(np.uint16)
    place = "%b" if limits.bits == 4 else "%to16"
    text = f"cvt.rn.satfinite.{name}.{source} {place}, %w"
    if limits.bits == 4:
        text += ";\n    cvt.u16.u8 %to16, %b"
    got = converts(text, given.view(np.uint32).reshape(256), "uint16")
    shift = 4 if limits.bits == 4 else 8
    np.testing.assert_array_equal(got & (1 << shift) - 1, wanted[:, 0])
    np.testing.assert_array_equal(got >> shift, wanted[:, 1])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cvt.f16.f32 %h, %f", "a rounding modifier is needed"),
        ("cvt.rn.f32.f16 %f, %h", "nothing to round"),
        ("cvt.s32.f32 %r, %f", "rni, .rzi"),
        ("cvt.f32.s32 %f, %r", "an integer becomes a float with"),
        ("cvt.rn.s16.s32 %h, %r", "no rounding"),
        ("cvt.rna.f16.f32 %h, %f", "no conversion"),
        ("cvt.rn.ftz.f16.f64 %h, %d", "ftz"),
        ("cvt.rn.e4m3x2.f32 %h, %f, %f", "takes .rn.satfinite"),
        ("cvt.rn.satfinite.e2m1x2.e4m3x2 %b, %h", "no conversion"),
        ("cvt.rn.ue8m0x2.f32 %h, %f, %f", "takes .rz or .rp"),
        ("cvt.rp.relu.ue8m0x2.f32 %h, %f, %f", "no sign that .relu could clamp"),
        ("cvt.rn.satfinite.f16x2.e4m3x2 %f, %h", "takes no .satfinite"),
        ("cvt.rs.satfinite.e2m1x4.f32 %h, {%f, %f, %f, %f}, %r", "take .rn"),
    ],
)
def test_cvt__refuses_what_does_not_go_together(text: str, says: str) -> None:
    ptx = f"""
.version 8.1
.target sm_90
.address_size 64
.visible .entry kernel()
{{
    .reg .b8 %b;
    .reg .b16 %h;
    .reg .b32 %r, %f;
    .reg .b64 %d;
    {text};
    ret;
}}
"""
    with pytest.raises(UnsupportedInstruction, match=re.escape(says)) as caught:
        launch(ptx, grid=1, block=32)
    assert text.split(maxsplit=1)[0] in caught.value.text
