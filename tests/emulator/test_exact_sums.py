"""tcgen05.mma's sums of products: when their order makes no difference, and that it then makes none."""

from fractions import Fraction

import numpy as np
import pytest

from cutecourse.emulator.numbers.tcgen05_sums import (
    Factors,
    Magnitudes,
    accumulate_in_turn,
    read_f16,
    sums_are_exact,
)

K = {"f16": 16, "bf16": 16, "tf32": 8}


def to_bits(values, kind):
    values = np.asarray(values, dtype=np.float32)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16)
    return values.view(np.uint32) if kind == "tf32" else (values.view(np.uint32) >> 16).astype(np.uint16)


def matrices(rng, kind, rows, columns):
    """Two matrices as bits: normal, whole, sparse, of very different magnitudes, or of small ones."""
    made = []
    for extent in (rows, columns):
        values = rng.standard_normal((extent, K[kind]))
        match rng.integers(5):
            case 1:
                values = np.rint(3 * values)
            case 2:
                values *= rng.random(values.shape) < 0.1
            case 3:
                values = np.ldexp(values, rng.integers(-20, 15, values.shape))
            case 4:
                values *= 2.0**-20
        made.append(to_bits(values, kind))
    return made


def ask(a, b, kind):
    left, right = (Factors.of(np.ascontiguousarray(bits.T), 1, kind, negate=False) for bits in (a, b))
    return sums_are_exact(left, right)


@pytest.mark.parametrize("kind", K)
def test_accumulate_in_turn__by_blas_has_the_same_bits_where_sums_are_exact(kind):
    rng = np.random.default_rng(3)
    asked = []
    for _ in range(60):
        a, b = matrices(rng, kind, 16, 24)
        c = rng.standard_normal((16, 24)).astype(np.float32)
        exact = ask(a, b, kind)
        asked.append(exact)
        left, right = read_f16(a, kind), read_f16(b, kind)
        for result in ("f32", "f16"):
            in_order, by_blas = (
                accumulate_in_turn([(left, right, fast)], c, result) for fast in (False, exact)
            )
            assert np.array_equal(in_order, by_blas)
    assert 10 < sum(asked) < len(asked)


@pytest.mark.parametrize("kind", K)
def test_sums_are_exact__says_so_only_where_integers_agree(kind):
    """Every product as a fraction: in the largest unit that divides them all, they add to 53 bits at most."""
    rng = np.random.default_rng(4)
    said = 0
    for _ in range(60):
        a, b = matrices(rng, kind, 3, 2)
        left, right = read_f16(a, kind), read_f16(b, kind)
        for values, bits in ((left, a), (right, b)):
            assert not np.any(values % Magnitudes.of(bits, kind).unit)
        if not ask(a, b, kind):
            continue
        said += 1
        for row in left.tolist():
            for other in right.tolist():
                sizes = [abs(Fraction(x) * Fraction(y)) for x, y in zip(row, other, strict=True)]
                whole = [int(size * 2**300) for size in sizes]
                unit = min((number & -number for number in whole if number), default=1)
                assert sum(whole) // unit <= 2**53
    assert said > 20


def test_sums_are_exact__by_rows_where_a_small_element_stands_in_a_short_one():
    rows = np.array([[8192.0, 4096.0], [2.0**-14, 2.0**-24]])
    bits = to_bits(np.pad(rows, ((0, 0), (0, 14))), "f16")
    assert ask(bits, bits, "f16")
    together = to_bits([[8192.0, 2.0**-24] + [0.0] * 14], "f16")
    assert not ask(together, together, "f16")


@pytest.mark.parametrize("kind", K)
def test_factors__of_several_mmas_are_those_of_each(kind):
    """Their numbers, and what is said of their sums; also where an element is infinite."""
    rng = np.random.default_rng(6)
    said = set()
    for turn in range(30):
        pairs = [matrices(rng, kind, 5, 7) for _ in range(4)]
        if turn % 3 == 0:
            pairs[2][0][1, 1] = to_bits([np.inf], kind)[0]
        a, b = (
            Factors.of(np.concatenate([pair[side].T for pair in pairs]), 4, kind, negate=side == 1)
            for side in (0, 1)
        )
        for index, (left, right) in enumerate(pairs):
            assert np.array_equal(a.values[index].T, read_f16(left, kind))
            assert np.array_equal(b.values[index].T, -read_f16(right, kind))
            assert sums_are_exact(a, b, index) == ask(left, right, kind)
            said.add(sums_are_exact(a, b, index))
    assert said == {True, False}


def test_read_f16__of_finite_elements_is_the_same():
    bits = np.arange(1 << 16, dtype=np.uint16)
    finite = bits[bits >> 10 & 31 != 31]
    fast, expected = read_f16(finite, "f16", finite=True), read_f16(finite, "f16")
    assert np.array_equal(fast.view(np.uint64), expected.view(np.uint64))


@pytest.mark.parametrize("result", ["f32", "f16"])
def test_accumulate_in_turn__rounds_after_each_product(result):
    """As one instruction after the other, and not as one sum; also where sums are infinite or no numbers."""
    rng = np.random.default_rng(5)
    left, right = (read_f16(to_bits(rng.standard_normal((6, 64)), "f16"), "f16") for _ in range(2))
    left[2, 40], right[3, 40] = np.inf, -np.inf
    right[4, 3] = np.nan
    left[5, 17], left[5, 50] = np.inf, -np.inf
    parts = [(left[:, k : k + 16], right[:, k : k + 16], False) for k in range(0, 64, 16)]
    c = rng.standard_normal((6, 6)).astype(np.float16).astype(np.float64)
    expected, held = None, c
    for a, b, _ in parts:
        expected = accumulate_in_turn([(a, b, False)], held, result)
        kind = np.float16 if result == "f16" else np.float32
        held = expected.astype(f"u{np.dtype(kind).itemsize}").view(kind).astype(np.float64)
    assert np.isnan(held).any()
    assert np.isinf(held).any()
    assert np.array_equal(accumulate_in_turn(parts, c, result), expected)
    at_once = accumulate_in_turn([(left, right, False)], c, result)
    assert not np.array_equal(at_once, expected)


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ([32768.0, 2.0**-24], "f16"),
        ([65504.0] * 8 + [2.0**-15] * 8, "f16"),
        ([1.0, 2.0**-60], "bf16"),
        ([1.0, 2.0**-126], "tf32"),
        ([np.inf, 1.0], "f16"),
        ([np.nan, 0.0], "bf16"),
        ([-np.inf], "tf32"),
    ],
)
def test_sums_are_exact__says_no(row, kind):
    bits = to_bits([row + [0.0] * (K[kind] - len(row))], kind)
    assert not ask(bits, bits, kind)


def test_magnitudes__of_zeros_and_of_subnormals():
    assert Magnitudes.of(np.array([0, 0x8000], dtype=np.uint16), "f16") == Magnitudes(0.0, 1.0)
    assert Magnitudes.of(np.array([0, 0x8003], dtype=np.uint16), "f16") == Magnitudes(3 * 2.0**-24, 2.0**-24)
    assert Magnitudes.of(np.array([0x0001], dtype=np.uint16), "bf16") == Magnitudes(2.0**-133, 2.0**-133)
