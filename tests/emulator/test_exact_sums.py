"""tcgen05.mma's sums of products: when their order makes no difference, and that it then makes none."""

import numpy as np
import pytest

from cutecourse.emulator.tcgen05_mma import Magnitudes, accumulate, read_f16, sums_are_exact

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
    return sums_are_exact(
        read_f16(a, kind), read_f16(b, kind), Magnitudes.of(a, kind), Magnitudes.of(b, kind)
    )


@pytest.mark.parametrize("kind", K)
def test_accumulate__by_blas_has_the_same_bits_where_sums_are_exact(kind):
    rng = np.random.default_rng(3)
    asked = []
    for _ in range(60):
        a, b = matrices(rng, kind, 16, 24)
        c = rng.standard_normal((16, 24)).astype(np.float32)
        exact = ask(a, b, kind)
        asked.append(exact)
        left, right = read_f16(a, kind), read_f16(b, kind)
        for result in ("f32", "f16"):
            assert np.array_equal(
                accumulate(left, right, c, result), accumulate(left, right, c, result, exact=exact)
            )
    assert 10 < sum(asked) < len(asked)


@pytest.mark.parametrize("kind", K)
def test_sums_are_exact__says_so_only_where_integers_agree(kind):
    """Every product in units of both matrices, added as whole numbers in Python."""
    rng = np.random.default_rng(4)
    for _ in range(40):
        a, b = matrices(rng, kind, 3, 2)
        if not ask(a, b, kind):
            continue
        left, right = read_f16(a, kind), read_f16(b, kind)
        unit_a, unit_b = Magnitudes.of(a, kind).unit, Magnitudes.of(b, kind).unit
        assert not np.any(left % unit_a)
        assert not np.any(right % unit_b)
        for row in left:
            for other in right:
                sizes = [abs(int(x / unit_a) * int(y / unit_b)) for x, y in zip(row, other, strict=True)]
                assert sum(sizes) <= 2**53


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
