"""The numbers of mma.sync: exact where they are exact, and the stated model of the tensor core elsewhere."""

import math
from fractions import Fraction

import numpy as np
import pytest

from cutecourse.emulator.numbers import formats as numerics
from cutecourse.emulator.numbers.exact import fraction_to_bits
from cutecourse.emulator.numbers.formats import FORMATS, FloatFormat
from cutecourse.emulator.numbers.tensor_core_sums import (
    DEFAULT_ARITHMETIC,
    TENSOR_CORES,
    TensorCore,
    bit_products,
    byte_float_products,
    fused_float_products,
    integer_products,
    sequential_f64_products,
)

F32, F16, F64 = FORMATS["f32"], FORMATS["f16"], FORMATS["f64"]
PAIRS = [("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32")]
SHAPES = {"f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8)}


def encode(values: object, fmt: FloatFormat) -> np.ndarray:
    return numerics.convert_float(np.asarray(values, dtype=np.float64).view(np.uint64), F64, fmt)


def decode(bits: np.ndarray, fmt: FloatFormat) -> np.ndarray:
    return numerics.to_float64(bits, fmt)


def cut(value: Fraction, places: int) -> Fraction:
    """Towards zero, to a multiple of 2^-places."""
    return Fraction(math.trunc(value * Fraction(2) ** places)) / Fraction(2) ** places


def leading_exponent(value: Fraction, fmt: FloatFormat) -> int:
    """The exponent of a number in its format: of its leading bit, or the smallest normal one if subnormal."""
    exponent = math.frexp(abs(float(value)))[1] - 1
    return max(exponent, fmt.min_exponent)


def one_dot(
    a: list[Fraction],
    b: list[Fraction],
    c: Fraction,
    source: FloatFormat,
    acc: FloatFormat,
    core: TensorCore,
) -> int:
    """One element of D by the four steps of the model, in exact fractions, for finite operands."""
    itemsize = 4 if source.name == "tf32" else 2
    step = min(len(a), core.group_bytes // itemsize)
    floor = core.zero_exponent_f16 if acc.name == "f16" else core.zero_exponent_f32
    bits = 0
    for first in range(0, len(a), step):
        terms = [(c, leading_exponent(c, acc) if c else floor)]
        for x, y in zip(a[first : first + step], b[first : first + step], strict=True):
            if x and y:
                terms.append((x * y, leading_exponent(x, source) + leading_exponent(y, source)))
        places = core.fraction_bits - max(exponent for _, exponent in terms)
        total = sum((cut(value, places) for value, _ in terms), Fraction(0))
        if acc.name == "f16":
            bits = fraction_to_bits(total, acc, "rn")
        else:
            bits = fraction_to_bits(total, acc, "rz")
            if abs(total) >= 2**128:
                bits = int(acc.infinity) | (int(acc.sign_bit) if total < 0 else 0)
        if bits == int(acc.sign_bit):
            bits = 0
        value = float(decode(np.uint64(bits), acc))
        if math.isinf(value):
            # Nothing finite that follows brings it back.
            return bits
        c = Fraction(value)
    return bits


def wide_bits(
    rng: np.random.Generator, fmt: FloatFormat, shape: tuple[int, ...], spread: float
) -> np.ndarray:
    """Finite numbers whose exponents spread over a range, with zeros, subnormals and copies of both signs."""
    exponents = np.clip(rng.normal(0, spread, shape), -140, 120)
    values = rng.normal(0, 1, shape) * np.exp2(np.round(exponents))
    bits = encode(values, fmt)
    bits = np.where(bits & ~fmt.sign_bit >= fmt.infinity, fmt.max_finite, bits)
    small = rng.integers(1, 40, shape, dtype=np.uint64) << np.uint64(fmt.padding_bits)
    pick = rng.integers(0, 12, shape)
    return np.where(pick == 0, 0, np.where(pick == 1, small, bits)).astype(np.uint64)


@pytest.mark.parametrize("generation", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("source", "accumulator"), PAIRS)
@pytest.mark.parametrize("spread", [0.5, 6.0, 40.0])
def test_fused_float_products__follow_the_model_term_by_term(
    source: str, accumulator: str, spread: float, generation: str
) -> None:
    rng = np.random.default_rng(11)
    src, acc, core = FORMATS[source], FORMATS[accumulator], TENSOR_CORES[generation]
    for k in SHAPES[source]:
        a = wide_bits(rng, src, (16, k), spread)
        b = wide_bits(rng, src, (k, 8), spread)
        c = wide_bits(rng, acc, (16, 8), spread)
        # Let some accumulators cancel most of the sum.
        near = encode(-(decode(a, src) @ decode(b, src)), acc)
        near = np.where(near & ~acc.sign_bit >= acc.infinity, 0, near)
        c = np.where(rng.integers(0, 3, c.shape) == 0, near, c)
        found = fused_float_products(a, b, c, src, acc, core)
        rows = [[Fraction(v) for v in row] for row in decode(a, src).tolist()]
        columns = [[Fraction(v) for v in col] for col in decode(b, src).T.tolist()]
        addends = decode(c, acc).tolist()
        for i in range(16):
            for j in range(8):
                want = one_dot(rows[i], columns[j], Fraction(addends[i][j]), src, acc, core)
                assert found[i, j] == want, (i, j, k, hex(int(found[i, j])), hex(want))


@pytest.mark.parametrize("generation", sorted(TENSOR_CORES))
@pytest.mark.parametrize(("source", "accumulator"), PAIRS)
def test_fused_float_products__are_exact_on_small_whole_numbers(
    source: str, accumulator: str, generation: str
) -> None:
    rng = np.random.default_rng(12)
    src, acc = FORMATS[source], FORMATS[accumulator]
    for k in SHAPES[source]:
        a, b = rng.integers(-8, 9, (3, 16, k)), rng.integers(-8, 9, (3, k, 8))
        c = rng.integers(-500, 500, (3, 16, 8))
        found = fused_float_products(
            encode(a, src), encode(b, src), encode(c, acc), src, acc, TENSOR_CORES[generation]
        )
        np.testing.assert_array_equal(decode(found, acc), a @ b + c)


@pytest.mark.parametrize("generation", ["sm_80", "sm_90"])
@pytest.mark.parametrize("source", ["f16", "bf16", "tf32"])
def test_fused_float_products__stay_near_float64(source: str, generation: str) -> None:
    rng = np.random.default_rng(13)
    src, core = FORMATS[source], TENSOR_CORES[generation]
    k = max(SHAPES[source])
    a, b = encode(rng.normal(0, 1, (50, 16, k)), src), encode(rng.normal(0, 1, (50, k, 8)), src)
    c = encode(rng.normal(0, 1, (50, 16, 8)), F32)
    found = decode(fused_float_products(a, b, c, src, F32, core), F32)
    left, right, addend = decode(a, src), decode(b, src), decode(c, F32)
    exact = left @ right + addend
    largest = np.maximum(
        np.abs(left[:, :, None, :] * np.swapaxes(right, -1, -2)[:, None]).max(-1), np.abs(addend)
    )
    n_groups = max(1, k * (4 if source == "tf32" else 2) // core.group_bytes)
    # Each term of a group loses less than one unit of the last place kept, and the result less than one of
    # f32's; a running sum can be k times the largest term.
    bound = n_groups * ((k + 1) * (k + 1) * largest * 2.0**-core.fraction_bits + (k + 1) * largest * 2.0**-23)
    assert (np.abs(found - exact) <= bound).all()
    assert (found != exact).any()


def dot(
    a: list[float],
    b: list[float],
    c: float,
    source: str = "f16",
    accumulator: str = "f32",
    arithmetic: str = "sm_90",
) -> float:
    src, acc = FORMATS[source], FORMATS[accumulator]
    width = max(SHAPES[source])
    left, right = np.zeros((1, width)), np.zeros((width, 1))
    left[0, : len(a)], right[: len(b), 0] = a, b
    bits = fused_float_products(
        encode(left, src), encode(right, src), encode([[c]], acc), src, acc, TENSOR_CORES[arithmetic]
    )
    return float(decode(bits, acc)[0, 0])


def test_fused_float_products__rounds_towards_zero_into_f32() -> None:
    assert dot([1.0], [1.0], 2.0**-24 * 1.5) == 1.0
    assert dot([-1.0], [1.0], -(2.0**-24) * 1.5) == -1.0
    assert dot([1.0, 2.0**-12], [1.0, 1.5 * 2.0**-12], 0.0) == 1.0


def test_fused_float_products__rounds_to_nearest_even_into_f16() -> None:
    assert dot([1.0], [1.0], 2.0**-11, accumulator="f16") == 1.0
    assert dot([1.0, 2.0**-10], [1.0, 0.75], 0.0, accumulator="f16") == 1.0 + 2.0**-10
    assert dot([1.0, 2.0**-10], [1.0, 1.5], 0.0, accumulator="f16") == 1.0 + 2 * 2.0**-10


def test_fused_float_products__cut_terms_below_the_kept_places() -> None:
    # Sixteen terms of 2^-25 beside 1: kept one by one on Hopper, all cut off on Ampere (24 places).
    tiny = [2.0**-12] * 15
    assert dot([1.0, *tiny], [1.0, *([2.0**-13] * 15)], -1.0, arithmetic="sm_90") == 15 * 2.0**-25
    assert dot([1.0, *tiny], [1.0, *([2.0**-13] * 15)], -1.0, arithmetic="sm_80") == 8 * 2.0**-25


def test_fused_float_products__group_along_k_differs_between_generations() -> None:
    # The large terms cancel across the two halves of K: one group keeps what lies between, two groups round
    # there.
    a = [1024.0] + [0.0] * 7 + [-1024.0] + [2.0**-6] + [0.0] * 6
    b = [1024.0] + [0.0] * 7 + [1024.0] + [2.0**-6] + [0.0] * 6
    one_group = dot(a, b, 2.0**-5, arithmetic="sm_90")
    assert one_group == 2.0**-5
    assert dot(a, b, 2.0**-5, arithmetic="sm_80") == 0.0


def test_fused_float_products__cancel_to_plus_zero() -> None:
    for accumulator in ("f32", "f16"):
        acc = FORMATS[accumulator]
        zeros = encode(np.zeros((1, 8)), F16)
        minus = np.full((1, 1), acc.sign_bit)
        bits = fused_float_products(zeros, zeros.T, minus, F16, acc, TENSOR_CORES["sm_90"])
        assert bits[0, 0] == 0
    assert math.copysign(1, dot([1.0], [1.0], -1.0)) == 1.0


def test_fused_float_products__keep_subnormal_operands() -> None:
    assert dot([2.0**-24], [2.0**-24], 0.0) == 2.0**-48
    assert dot([2.0**-24], [1.0], 0.0, accumulator="f16") == 2.0**-24
    assert dot([0.0], [0.0], 2.0**-149) == 2.0**-149


def test_fused_float_products__overflow_to_infinity() -> None:
    assert (
        dot([2.0**15] * 16, [2.0**15] * 16, 3.4028234663852886e38, accumulator="f32") == 3.4028234663852886e38
    )
    assert dot([2.0**100], [2.0**28], 0.0, source="bf16") == math.inf
    assert dot([-(2.0**100)], [2.0**28], 0.0, source="bf16") == -math.inf
    assert dot([2.0**100, 2.0**100], [2.0**100, -(2.0**100)], 7.0, source="bf16") == 0.0
    assert dot([256.0], [256.0], 0.0, accumulator="f16") == math.inf
    assert dot([256.0], [255.0], 0.0, accumulator="f16") == 65280.0


@pytest.mark.parametrize(("source", "accumulator"), PAIRS)
@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        ([math.inf], [2.0], 1.0, "+inf"),
        ([math.inf], [-2.0], 1.0, "-inf"),
        ([1.0], [1.0], -math.inf, "-inf"),
        ([math.inf, 1.0], [1.0, -math.inf], 0.0, "nan"),
        ([math.inf], [1.0], -math.inf, "nan"),
        ([math.inf], [0.0], 0.0, "nan"),
        ([0.0], [-math.inf], 0.0, "nan"),
        ([math.nan], [1.0], 0.0, "nan"),
        ([1.0], [math.nan], 0.0, "nan"),
        ([1.0], [1.0], math.nan, "nan"),
    ],
)
def test_fused_float_products__special_values(
    source: str, accumulator: str, a: list[float], b: list[float], c: float, expected: str
) -> None:
    src, acc = FORMATS[source], FORMATS[accumulator]
    left, right = np.zeros((1, 8)), np.zeros((8, 1))
    left[0, : len(a)], right[: len(b), 0] = a, b
    bits = fused_float_products(
        encode(left, src), encode(right, src), encode([[c]], acc), src, acc, TENSOR_CORES["sm_90"]
    )
    want = {"+inf": acc.infinity, "-inf": acc.infinity | acc.sign_bit, "nan": acc.nan}[expected]
    assert bits[0, 0] == want


def test_tensor_cores__the_default_is_the_recordings_gpu() -> None:
    assert DEFAULT_ARITHMETIC == "sm_90"
    assert TENSOR_CORES[DEFAULT_ARITHMETIC].generation == "Hopper"


def test_sequential_f64_products__is_a_chain_of_fmas_along_k() -> None:
    rng = np.random.default_rng(14)
    a, b = rng.normal(0, 1, (8, 4)) * 2.0 ** rng.integers(-40, 40, (8, 4)), rng.normal(0, 1, (4, 8))
    c = -(a @ b) + rng.normal(0, 1, (8, 8)) * 2.0**-40
    found = sequential_f64_products(a.view(np.uint64), b.view(np.uint64), c.view(np.uint64)).view(np.float64)
    for i in range(8):
        for j in range(8):
            total = float(c[i, j])
            for k in range(4):
                total = float(Fraction(float(a[i, k])) * Fraction(float(b[k, j])) + Fraction(total))
            assert found[i, j] == total
    assert (found != a @ b + c).any()


def test_integer_products__wrap_or_clamp_the_exact_sum() -> None:
    a, b = np.full((2, 1, 32), 127), np.full((2, 32, 1), 127)
    b[1] = -128
    c = np.array([2**31 - 1, -(2**31)]).reshape(2, 1, 1)
    exact = np.array([32 * 127 * 127 + 2**31 - 1, -32 * 127 * 128 - 2**31])
    wrapped = integer_products(a, b, c, satfinite=False).ravel()
    np.testing.assert_array_equal(wrapped, exact.astype(np.int64).astype(np.int32))
    np.testing.assert_array_equal(integer_products(a, b, c, satfinite=True).ravel(), [2**31 - 1, -(2**31)])
    rng = np.random.default_rng(15)
    a, b, c = (
        rng.integers(-128, 256, (16, 32)),
        rng.integers(-128, 256, (32, 8)),
        rng.integers(-99, 99, (16, 8)),
    )
    for satfinite in (False, True):
        np.testing.assert_array_equal(integer_products(a, b, c, satfinite=satfinite), a @ b + c)


@pytest.mark.parametrize("exclusive_or", [False, True])
def test_bit_products__count_what_the_gate_leaves(exclusive_or: bool) -> None:
    rng = np.random.default_rng(16)
    a, b, c = rng.integers(0, 2, (8, 128)), rng.integers(0, 2, (128, 8)), rng.integers(-9, 9, (8, 8))
    found = bit_products(a, b, c, exclusive_or=exclusive_or)
    for i in range(8):
        for j in range(8):
            pairs = zip(a[i].tolist(), b[:, j].tolist(), strict=True)
            ones = sum((x ^ y) if exclusive_or else (x & y) for x, y in pairs)
            assert found[i, j] == ones + c[i, j]
    top = bit_products(
        np.ones((1, 128), int), np.ones((128, 1), int), np.array([[2**31 - 1]]), exclusive_or=False
    )
    assert top[0, 0] == -(2**31) + 127


@pytest.mark.parametrize(("generation", "expected"), [("sm_90", 4.0), ("sm_120", 2.0), ("sm_89", 0.0)])
def test_byte_float_products__hopper_adds_c_last_and_rounds_to_nearest(
    generation: str, expected: float
) -> None:
    """2^24 + 2 + 1 lies halfway: ptxas adds C by a plain addition, sm_120 cuts off, Ada keeps 13 places."""
    e4m3 = FORMATS["e4m3"]
    a, b = np.zeros((1, 32)), np.zeros((32, 1))
    a[0, 0] = b[0, 0] = 1
    c = encode([[2.0**24 + 2]], F32)
    bits = byte_float_products(encode(a, e4m3), encode(b, e4m3), c, e4m3, F32, TENSOR_CORES[generation], e4m3)
    assert float(decode(bits, F32)[0, 0]) == 2.0**24 + expected


def test_byte_float_products__hopper_multiplies_the_lower_halves_of_registers_first() -> None:
    """Elements 0 and 1 of four make the first sum; a small one there is cut off beside a large one."""
    e5m2 = FORMATS["e5m2"]
    a, b = np.zeros((1, 32)), np.ones((32, 1))
    a[0, [0, 2]], b[0] = 2.0**14, 2.0**14
    b[2] = -(2.0**14)
    found = {}
    for place in (1, 3):
        left = a.copy()
        left[0, place] = 8.0
        right = b.copy()
        right[place] = 1.0
        bits = byte_float_products(
            *(encode(one, e5m2) for one in (left, right)), encode([[0.0]], F32), e5m2, F32,
            TENSOR_CORES["sm_90"], e5m2,
        )  # fmt: skip
        found[place] = float(decode(bits, F32)[0, 0])
    # Beside 2^28, f32 has no room for 8: place 1 loses it in the first sum; the second one keeps 25 places.
    assert found == {1: 0.0, 3: 8.0}
