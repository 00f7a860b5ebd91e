"""Tensor cores' sums in doubles against the model in whole numbers, bit for bit, and published properties."""

import numpy as np
import pytest

from cutecourse.emulator.numbers.formats import FORMATS
from cutecourse.emulator.numbers.tensor_core_sums import TENSOR_CORES, fused_float_products
from support.tensor_core_model import integer_model

WIDTHS = {"f16": 16, "bf16": 16, "tf32": 32}
FORMS = [("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32")]


def bits(generator, width, shape, name, *, specials):
    """Any bits; without specials no infinity and no NaN."""
    found = generator.integers(0, 1 << width, shape, dtype=np.uint64)
    if not specials:
        top = int(FORMATS[name].infinity)
        found[found & np.uint64(top) == top] = 3
    return found


def fused_sums(a, b, c, types, accumulator):
    """A * B^T + C as wgmma has it, by the types' names."""
    source, of_b, into = (FORMATS[name] for name in (*types, accumulator))
    return fused_float_products(a, b.T, c, source, into, TENSOR_CORES["sm_90"], source_of_b=of_b)


@pytest.mark.parametrize("generation", ["sm_80", "sm_90"])
@pytest.mark.parametrize("specials", [False, True])
@pytest.mark.parametrize(("name", "accumulator"), FORMS)
def test_sums__are_those_of_the_model(name, accumulator, specials, generation):
    generator = np.random.default_rng(11)
    width = WIDTHS[name]
    k = 256 // width
    for turn in range(8):
        a, b = (bits(generator, width, (64, k), name, specials=specials) for _ in range(2))
        c = bits(generator, 16 if accumulator == "f16" else 32, (64, 64), accumulator, specials=specials)
        if turn % 4 == 1:
            c[:] = 0
        if turn % 4 == 2:
            # Near each other, so that cutting off matters in every sum.
            a, b = (generator.standard_normal((64, k)).astype(np.float16).view(np.uint16) for _ in range(2))
            if name != "f16":
                a, b = (x.view(np.float16).astype(np.float32).view(np.uint32) for x in (a, b))
                a, b = (x if name == "tf32" else x >> 16 for x in (a, b))
        core, source, sums = TENSOR_CORES[generation], FORMATS[name], FORMATS[accumulator]
        wide = [x.astype(np.uint64) for x in (a, b.T, c)]
        wanted = integer_model(*wide, source, sums, core)
        kind = f"u{width // 8}"
        got = fused_float_products(a.astype(kind), b.T.astype(kind), c.astype(np.uint32), source, sums, core)
        np.testing.assert_array_equal(got, wanted)


def test_sums__of_8_bit_floats_keep_13_places():
    """2^13 and 1 meet with 13 places between; 2^14 and 1 do not, and the 1 is lost."""
    one, big = np.float32(1).view(np.uint32), 0x38  # 1.0 in e4m3
    a = np.zeros((1, 32), np.uint8)
    b = np.zeros((1, 32), np.uint8)
    a[0, 0], b[0, 0] = big, big
    for exponent, wanted in ((12, 2.0**12 + 1), (13, 2.0**13 + 1), (14, 2.0**14)):
        c = np.array([[np.float32(2.0**exponent).view(np.uint32)]])
        got = fused_sums(a, b, c, ("e4m3", "e4m3"), "f32").view(np.float32)
        assert got[0, 0] == wanted
    assert fused_sums(a, b, np.array([[one]]), ("e4m3", "e5m2"), "f32").shape == (1, 1)


def test_sums__an_infinity_and_a_nan_reach_their_row_and_column_only():
    a = np.full((4, 16), 0x3C00, np.uint16)
    b = np.full((4, 16), 0x3C00, np.uint16)
    a[1, 3], b[2, 5] = 0x7C00, 0x7E00
    got = fused_sums(a, b, np.zeros((4, 4), np.uint32), ("f16", "f16"), "f32").view(np.float32)
    wanted = np.full((4, 4), 16.0)
    wanted[1], wanted[:, 2] = np.inf, np.nan
    np.testing.assert_array_equal(got, wanted)
    b[0, 3] = 0
    got = fused_sums(a, b, np.zeros((4, 4), np.uint32), ("f16", "f16"), "f32").view(np.float32)
    assert np.isnan(got[1, 0])  # an infinity times zero
