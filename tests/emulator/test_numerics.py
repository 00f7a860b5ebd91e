"""Conversions and single-rounding arithmetic, against ml_dtypes, exhaustive tables and exact fractions."""

import bisect
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from cutecourse.emulator.numbers import exact as numerics_arithmetic
from cutecourse.emulator.numbers import formats as numerics
from cutecourse.emulator.numbers.formats import FORMATS

F16, BF16, F32, F64 = (FORMATS[name] for name in ("f16", "bf16", "f32", "f64"))
TF32, E4M3, E5M2 = (FORMATS[name] for name in ("tf32", "e4m3", "e5m2"))
MODES = ("rn", "rz", "rm", "rp", "rna")
NUMPY = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "f32": np.float32,
    "f64": np.float64,
}


def all_bits(bits: int) -> np.ndarray:
    return np.arange(1 << bits, dtype=np.uint64)


def view(bits: np.ndarray, name: str) -> np.ndarray:
    dtype = np.dtype(NUMPY[name])
    return bits.astype(np.dtype(f"u{dtype.itemsize}")).view(dtype)


def f32_samples(rng: np.random.Generator, count: int) -> np.ndarray:
    """Random bit patterns of f32, and those on and beside the middles of the smaller formats' numbers."""
    samples = [rng.integers(0, 2**32, count, dtype=np.uint64)]
    for name in ("f16", "bf16", "e4m3", "e5m2"):
        fmt = FORMATS[name]
        ordered = numerics.to_float64(np.arange(int(fmt.max_finite) + 1), fmt)
        middles = ((ordered[1:] + ordered[:-1]) / 2).astype(np.float32)
        near = np.concatenate([ordered.astype(np.float32), middles])
        near = np.concatenate(
            [near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf))]
        )
        near = near * rng.choice([np.float32(1), np.float32(-1)], near.shape)
        samples.append(near.view(np.uint32).astype(np.uint64))
    return np.concatenate(samples)


def neighbours(value: Fraction, table: list[Fraction]) -> tuple[Fraction, Fraction]:
    """The largest entry not above and the smallest not below an exact value."""
    at = bisect.bisect_left(table, value)
    if at < len(table) and table[at] == value:
        return value, value
    return table[at - 1], table[at]


def rounded(value: Fraction, table: list[Fraction], even: set[Fraction], mode: str) -> Fraction:
    """An exact value rounded into a sorted table of numbers, from the definition of the mode."""
    below, above = neighbours(value, table)
    if mode == "rm":
        return below
    if mode == "rp":
        return above
    if mode == "rz":
        return below if value > 0 else above
    if value - below != above - value:
        return below if value - below < above - value else above
    if mode == "rna":
        return above if value > 0 else below
    return below if below in even else above


@pytest.mark.parametrize("name", ["f16", "bf16", "e4m3", "e5m2"])
def test_to_float64__every_pattern_has_the_value_of_ml_dtypes(name: str) -> None:
    bits = all_bits(FORMATS[name].bits)
    with np.errstate(invalid="ignore"):
        expected = view(bits, name).astype(np.float64)
    found = numerics.to_float64(bits, FORMATS[name])
    np.testing.assert_array_equal(found, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("name", ["f16", "bf16", "e4m3", "e5m2", "tf32"])
def test_convert_float__every_pattern_survives_the_way_through_f32_and_back(name: str) -> None:
    fmt = FORMATS[name]
    bits = all_bits(fmt.bits - fmt.padding_bits) << np.uint64(fmt.padding_bits)
    wide = numerics.convert_float(bits, fmt, F32)
    back = numerics.convert_float(wide, F32, fmt, satfinite=not fmt.has_infinity)
    nan = numerics.unpack(bits, fmt).nan
    np.testing.assert_array_equal(back, np.where(nan, fmt.nan, bits))
    assert nan.sum() == {"f16": 2046, "bf16": 254, "e4m3": 2, "e5m2": 6, "tf32": 2046}[name]


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_convert_float__nearest_from_f32_agrees_with_ml_dtypes(name: str) -> None:
    bits = f32_samples(np.random.default_rng(1), 50_000)
    with np.errstate(all="ignore"):
        expected = view(bits, "f32").astype(NUMPY[name])
    found = numerics.convert_float(bits, F32, FORMATS[name])
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(found[~nan], expected[~nan].view(np.uint16))
    assert (found[nan] == FORMATS[name].nan).all()
    assert nan.any()


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_convert_float__fp8_saturates_where_ml_dtypes_overflows(name: str) -> None:
    fmt = FORMATS[name]
    bits = f32_samples(np.random.default_rng(2), 50_000)
    values = view(bits, "f32")
    with np.errstate(all="ignore"):
        largest = np.float32(numerics.to_float64(fmt.max_finite, fmt))
        expected = np.clip(values, -largest, largest).astype(NUMPY[name]).view(np.uint8)
    found = numerics.convert_float(bits, F32, fmt, satfinite=True)
    expected = np.where(np.isnan(values), fmt.nan, expected)
    np.testing.assert_array_equal(found, expected)
    assert (np.abs(values) > largest).any()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "e5m2"])
def test_convert_float__follows_the_definition_of_each_rounding(name: str, mode: str) -> None:
    fmt = FORMATS[name]
    rng = np.random.default_rng(3)
    step = max(1, fmt.fraction_bits - 4)
    table_bits = np.unique(
        np.concatenate([np.arange(0, 200), rng.integers(0, int(fmt.max_finite) >> fmt.padding_bits, 400)])
    )
    table_bits = np.unique(np.concatenate([table_bits, table_bits + 1])).astype(np.uint64)
    table_bits = table_bits[table_bits << np.uint64(fmt.padding_bits) <= fmt.max_finite]
    checked = 0
    for low in table_bits[:-1:step]:
        pair = np.array([low, low + np.uint64(1)], dtype=np.uint64) << np.uint64(fmt.padding_bits)
        if pair[1] > fmt.max_finite:
            continue
        below, above = (Fraction(v) for v in numerics.to_float64(pair, fmt).tolist())
        even = {below if int(low) % 2 == 0 else above}
        for part in (Fraction(0), Fraction(1, 2**20), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)):
            exact = below + (above - below) * part
            value = float(exact)
            if Fraction(value) != exact:
                continue
            for sign in (1, -1):
                table = sorted([sign * below, sign * above])
                want = rounded(sign * exact, table, {sign * e for e in even}, mode)
                bits = np.float64(sign * value).view(np.uint64)
                got = numerics.convert_float(bits, F64, fmt, mode)
                assert Fraction(float(numerics.to_float64(got, fmt))) == want, (name, mode, sign * value)
                assert bool(got & fmt.sign_bit) == (sign < 0)
                checked += 1
    assert checked > 500


@pytest.mark.parametrize(
    ("mode", "positive", "negative"),
    [
        ("rn", "infinity", "infinity"),
        ("rz", "max_finite", "max_finite"),
        ("rm", "max_finite", "infinity"),
        ("rp", "infinity", "max_finite"),
    ],
)
def test_convert_float__overflow_follows_the_direction(mode: str, positive: str, negative: str) -> None:
    bits = np.array([1e30, -1e30], dtype=np.float32).view(np.uint32)
    found = numerics.convert_float(bits, F32, F16, mode)
    assert found[0] == getattr(F16, positive)
    assert found[1] == getattr(F16, negative) | F16.sign_bit


def test_convert_float__ftz_sat_and_relu_change_exactly_what_they_name() -> None:
    values = np.array([1e-40, -1e-40, -0.5, 0.25, 7.0, np.nan, -0.0], dtype=np.float32)
    bits = values.view(np.uint32)
    tiny, minus_tiny, *_ = numerics.convert_float(bits, F32, F64, ftz=True)
    assert (tiny, minus_tiny) == (0, F64.sign_bit)
    sat = view(numerics.convert_float(bits, F32, F16, sat=True), "f16")
    np.testing.assert_array_equal(sat, np.array([0, 0, 0, 0.25, 1, 0, 0], dtype=np.float16))
    assert not np.signbit(sat).any()
    relu = numerics.convert_float(bits, F32, F16, relu=True)
    np.testing.assert_array_equal(relu, [0, 0, 0, 0x3400, 0x4700, 0x7FFF, 0])


def test_flush_subnormals__keeps_normal_numbers_and_signs() -> None:
    bits = np.array([0x007FFFFF, 0x807FFFFF, 0x00800000, 0x3F800000, 0x7FC00000, 1], dtype=np.uint32)
    flushed = numerics.flush_subnormals(bits, F32)
    np.testing.assert_array_equal(flushed, [0, 0x80000000, 0x00800000, 0x3F800000, 0x7FC00000, 0])


@pytest.mark.parametrize(
    ("width", "signed"), [(8, True), (8, False), (16, True), (32, False), (32, True), (64, True), (64, False)]
)
@pytest.mark.parametrize(
    ("mode", "whole"), [("rn", None), ("rz", math.trunc), ("rm", math.floor), ("rp", math.ceil)]
)
def test_float_to_integer__rounds_then_clamps(width: int, signed: bool, mode: str, whole: object) -> None:
    rng = np.random.default_rng(4)
    values = np.concatenate(
        [
            rng.normal(0, 300, 200),
            np.arange(-5, 5, 0.5),
            rng.normal(0, 2.0**62, 50),
            [
                2.0**31,
                2.0**31 - 0.5,
                -(2.0**31) - 0.5,
                2.0**63,
                2.0**64,
                1e300,
                -1e300,
                1e-300,
                np.inf,
                -np.inf,
            ],
        ]
    )
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    found = numerics.float_to_integer(values.view(np.uint64), F64, width, signed, mode)
    for value, bits in zip(values.tolist(), found.tolist(), strict=True):
        if math.isinf(value):
            want = high if value > 0 else low
        else:
            exact = round(Fraction(value)) if whole is None else whole(Fraction(value))  # type: ignore[operator]
            want = min(max(exact, low), high)
        assert bits == want % (1 << width), (value, mode)


def test_float_to_integer__nan_depends_on_both_types() -> None:
    nan32, nan64 = np.uint64(0x7FC00000), np.uint64(0x7FF8 << 48)
    assert numerics.float_to_integer(nan32, F32, 32, True, "rz") == 0
    assert numerics.float_to_integer(nan32, F32, 64, True, "rz") == 1 << 63
    assert numerics.float_to_integer(nan64, F64, 32, False, "rz") == 1 << 31


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_integer_to_float__rounds_every_width_once(name: str, mode: str) -> None:
    rng = np.random.default_rng(5)
    integers = rng.integers(-(2**63), 2**63 - 1, 400, dtype=np.int64) >> rng.integers(0, 63, 400)
    integers = np.concatenate(
        [integers, [0, 1, -1, 2**63 - 1, -(2**63), 65504, 65519, 65520, 2**24 + 1, 2**53 + 1]]
    )
    found = numerics.integer_to_float(integers.view(np.uint64), 64, True, FORMATS[name], mode)
    for integer, bits in zip(integers.tolist(), found.tolist(), strict=True):
        want = numerics_arithmetic.fraction_to_bits(Fraction(integer), FORMATS[name], mode)
        assert bits == want, (integer, name, mode)
    if mode == "rn" and name in ("f32", "f64"):
        np.testing.assert_array_equal(view(found, name), integers.astype(NUMPY[name]))
    top = numerics.integer_to_float(np.uint64(2**64 - 1), 64, False, F32, "rz")
    assert view(np.array([top]), "f32")[0] == np.float32(2.0**64 - 2.0**40)


def test_clamp_integer__takes_the_nearest_of_the_other_types_range() -> None:
    def one(value: int, *args: object) -> int:
        return int(numerics.clamp_integer(np.uint64(value), *args))  # type: ignore[arg-type]

    assert one(0x80, 8, True, 32, True) == 0xFFFFFF80
    assert one(0x80, 8, False, 32, True) == 0x80
    assert one(0x12345678, 32, True, 16, True) == 0x7FFF
    assert one(0xFFFFFFFF, 32, True, 16, False) == 0
    assert one(0xFFFFFFFF, 32, True, 8, True) == 0xFF
    assert one(0x80000000, 32, True, 8, True) == 0x80
    assert one(2**64 - 1, 64, False, 32, True) == 0x7FFFFFFF


@pytest.mark.parametrize(
    ("mode", "whole"), [("rn", round), ("rz", math.trunc), ("rm", math.floor), ("rp", math.ceil)]
)
def test_round_to_integral__keeps_sign_and_large_numbers(mode: str, whole: object) -> None:
    bits = all_bits(16)
    values = view(bits, "f16").astype(np.float64)
    found = view(numerics.round_to_integral(bits, F16, mode), "f16").astype(np.float64)
    finite = np.isfinite(values)
    expected = np.array([float(whole(Fraction(v))) for v in values[finite].tolist()])  # type: ignore[operator]
    np.testing.assert_array_equal(found[finite], expected)
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(values[finite]))
    np.testing.assert_array_equal(found[np.isinf(values)], values[np.isinf(values)])
    assert np.isnan(found[np.isnan(values)]).all()


def random_bits(rng: np.random.Generator, name: str, count: int) -> np.ndarray:
    """Numbers that are near each other often enough to cancel, and now and then are special."""
    fmt = FORMATS[name]
    wide = rng.integers(0, 1 << (fmt.bits - 1), count, dtype=np.uint64) << np.uint64(1)
    middle = rng.normal(0, 1, count).view(np.uint64)
    near = numerics.convert_float(middle, F64, fmt)
    edge = np.array([0, 1, 2, int(fmt.max_finite), int(fmt.infinity), int(fmt.nan)], dtype=np.uint64)
    edges = edge[rng.integers(0, len(edge), count)] | (
        rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(fmt.bits - 1)
    )
    return np.choose(rng.integers(0, 8, count), [edges] + [wide] * 3 + [near] * 4).astype(np.uint64)


def exact_or_none(value: float) -> Fraction | None:
    return Fraction(value) if math.isfinite(value) else None


EXACT = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "fma": lambda x, y, z: x * y + z,
}


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("operation", EXACT)
def test_arithmetic__rounds_the_exact_result_once(operation: str, name: str, mode: str) -> None:
    fmt = FORMATS[name]
    rng = np.random.default_rng(6)
    a, b, c = (random_bits(rng, name, 1200) for _ in range(3))
    # Let the addend cancel the product's leading bits in some lanes.
    product = numerics_arithmetic.multiply(a, b, fmt)
    c = np.where(rng.integers(0, 3, c.shape) == 0, product ^ fmt.sign_bit, c)
    operands = (a, b, c) if operation == "fma" else (a, b)
    found = getattr(numerics_arithmetic, operation)(*operands, fmt, mode)
    values = [numerics.to_float64(one, fmt).tolist() for one in operands]
    exact_lanes = 0
    for lane, bits in enumerate(found.tolist()):
        terms = [exact_or_none(one[lane]) for one in values]
        if any(term is None for term in terms) or (operation == "divide" and terms[1] == 0):
            continue
        exact_lanes += 1
        exact = EXACT[operation](*terms)
        if exact == 0:
            continue
        assert bits == numerics_arithmetic.fraction_to_bits(exact, fmt, mode), (
            operation,
            name,
            mode,
            terms,
        )
    assert exact_lanes > 500


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_square_root__is_the_nearest_in_its_direction(name: str, mode: str) -> None:
    fmt = FORMATS[name]
    rng = np.random.default_rng(7)
    bits = random_bits(rng, name, 400) & (fmt.sign_bit - np.uint64(1))
    bits = np.concatenate([bits, numerics.convert_float(np.arange(0.0, 50.0).view(np.uint64), F64, fmt)])
    root = numerics_arithmetic.square_root(bits, fmt, mode)
    for value, result in zip(numerics.to_float64(bits, fmt).tolist(), root.tolist(), strict=True):
        if not math.isfinite(value) or value == 0:
            continue
        down, at, up = (
            Fraction(v) for v in numerics.to_float64(np.array([result - 1, result, result + 1]), fmt).tolist()
        )
        exact = Fraction(value)
        if mode in ("rz", "rm"):
            assert at * at <= exact < up * up
        elif mode == "rp":
            assert down * down < exact <= at * at
        else:
            assert ((down + at) / 2) ** 2 <= exact <= ((at + up) / 2) ** 2
    minus_one = np.array([fmt.bias << fmt.fraction_bits], dtype=np.uint64) | fmt.sign_bit
    assert numerics_arithmetic.square_root(minus_one, fmt, mode)[0] == fmt.nan
    assert numerics_arithmetic.square_root(fmt.sign_bit, fmt, mode) == fmt.sign_bit


def test_fraction_to_bits__agrees_with_python_on_f64_and_numpy_on_f32() -> None:
    rng = np.random.default_rng(8)
    for _ in range(500):
        exact = Fraction(int(rng.integers(1, 2**62)), int(rng.integers(1, 2**62))) * Fraction(2) ** int(
            rng.integers(-1080, 960)
        )
        want = np.float64(float(exact)).view(np.uint64)
        assert numerics_arithmetic.fraction_to_bits(exact, F64, "rn") == want
    for value in (1 / 3, 1e-45, 2.0**-149, 2.0**-150, 3 * 2.0**-150, 3.4028235677973366e38):
        with np.errstate(over="ignore"):
            want = np.float32(value).view(np.uint32)
        assert numerics_arithmetic.fraction_to_bits(Fraction(value), F32, "rn") == want


def test_fma__zeros_infinities_and_nans_follow_ieee() -> None:
    def one(a: float, b: float, c: float, mode: str = "rn") -> int:
        bits = [np.float32(v).view(np.uint32) for v in (a, b, c)]
        return int(numerics_arithmetic.fma(*bits, F32, mode))

    assert one(1, 1, -1) == 0
    assert one(1, 1, -1, "rm") == 0x80000000
    assert one(-0.0, 1, -0.0) == 0x80000000
    assert one(0.0, 1, -0.0) == 0
    assert one(0.0, math.inf, 1) == 0x7FFFFFFF
    assert one(1, math.inf, -math.inf) == 0x7FFFFFFF
    assert one(1, -math.inf, 5) == 0xFF800000
    assert one(math.nan, 1, 1) == 0x7FFFFFFF
    # 2^-149 * 0.5 is half of the smallest subnormal number: even wins, and any bit more rounds up.
    assert one(2.0**-149, 0.5, 0.0) == 0
    assert one(2.0**-149, 0.5, 2.0**-149) == 2
    assert one(2.0**-149, 0.5, 0.0, "rp") == 1


def test_fma__is_not_a_multiply_and_an_add() -> None:
    a = np.float32(1 + 2.0**-12).view(np.uint32)
    c = np.float32(-(1 + 2.0**-11)).view(np.uint32)
    fused = numerics_arithmetic.fma(a, a, c, F32)
    two_steps = numerics_arithmetic.add(numerics_arithmetic.multiply(a, a, F32), c, F32)
    assert view(np.array([fused]), "f32")[0] == np.float32(2.0**-24)
    assert two_steps == 0


def test_arithmetic__ftz_and_sat_clamp_operands_and_result() -> None:
    tiny = np.uint32(0x00400000)
    one = np.uint32(0x3F800000)
    assert numerics_arithmetic.add(tiny, tiny, F32) == 0x00800000
    assert numerics_arithmetic.add(tiny, tiny, F32, ftz=True) == 0
    assert numerics_arithmetic.add(one, one, F32, sat=True) == 0x3F800000
    assert numerics_arithmetic.multiply(one, one | np.uint32(1 << 31), F32, sat=True) == 0
    assert numerics_arithmetic.fma(one, one, np.uint32(0x7FC00000), F32, sat=True) == 0
