"""Blocks that share a scale factor: numbers against ml_dtypes, places against CUTLASS's formula."""

import ml_dtypes
import numpy as np
import pytest

from cutecourse.block_scales import (
    FORMATS,
    BlockScaleError,
    dequantise,
    packed,
    placed,
    quantise,
    read_back,
    scale_layout,
    scales_shape,
)

ELEMENTS = {"e4m3": ml_dtypes.float8_e4m3fn, "e2m1": ml_dtypes.float4_e2m1fn}


def values(shape, seed=0):
    """Numbers over several orders of magnitude, some of them 0, and one block of zeros."""
    random = np.random.default_rng(seed)
    found = random.standard_normal(shape) * 2.0 ** random.integers(-20, 20, shape)
    found[random.random(shape) < 0.1] = 0.0
    found[0, :32] = 0.0
    return found


@pytest.mark.parametrize("name", ["mxf8", "mxf4"])
def test_quantise__takes_the_least_power_of_two_that_fits(name):
    form = FORMATS[name]
    numbers = values((16, 256))
    _, scales = quantise(numbers, form)
    factors = scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    most = np.abs(numbers.reshape(16, -1, 32)).max(axis=2)
    assert (most <= factors * form.largest).all()
    assert (most > factors / 2 * form.largest)[most > 0].all()
    assert (factors[most == 0] == 2.0**-127).all()


@pytest.mark.parametrize("name", FORMATS)
def test_quantise__of_numbers_that_the_format_has_loses_nothing(name):
    form = FORMATS[name]
    random = np.random.default_rng(1)
    codes = random.integers(0, 1 << {"e4m3": 8, "e2m1": 4}[form.element], (8, 128)).astype(np.uint8)
    held = codes.view(ELEMENTS[form.element]).astype(np.float64)
    held = np.where(np.isfinite(held), held, 0.0)
    held.reshape(8, -1, form.vector)[:, :, 0] = form.largest  # so each block's factor is what it was
    factors = 2.0 ** random.integers(-3, 4, (8, 128 // form.vector)).repeat(form.vector, axis=1)
    again = dequantise(*quantise(held * factors, form), form)
    np.testing.assert_array_equal(again, held * factors)


@pytest.mark.parametrize("name", FORMATS)
def test_quantise__rounds_as_ml_dtypes_does(name):
    form = FORMATS[name]
    numbers = values((32, 128), seed=2) if form.scale == "ue8m0" else values((32, 128), seed=2) % 8
    codes, scales = quantise(numbers, form)
    kind = ml_dtypes.float8_e8m0fnu if form.scale == "ue8m0" else ml_dtypes.float8_e4m3fn
    factors = scales.view(kind).astype(np.float64).repeat(form.vector, axis=1)
    ratio = np.divide(numbers, factors, out=np.zeros_like(numbers), where=factors > 0)
    inside = np.clip(ratio, -form.largest, form.largest).astype(np.float32)
    np.testing.assert_array_equal(codes, inside.astype(ELEMENTS[form.element]).view(np.uint8))


def test_quantise__in_two_levels_reaches_what_one_level_cannot():
    """The factors of ue4m3 end at 448, so a block of numbers above 6 * 448 needs the tensor's own factor."""
    numbers = np.full((1, 16), 1e6)
    form = FORMATS["nvf4"]
    assert dequantise(*quantise(numbers, form), form)[0, 0] == 6 * 448
    scale = np.abs(numbers).max() / (6 * 448)
    assert dequantise(*quantise(numbers, form, scale), form, scale)[0, 0] == pytest.approx(1e6)


def test_quantise__refuses_what_has_no_place():
    with pytest.raises(BlockScaleError, match="33 numbers is not whole blocks of 32; pad with"):
        quantise(np.ones((1, 33)), FORMATS["mxf8"])
    with pytest.raises(BlockScaleError, match="infinities or NaN"):
        quantise(np.full((1, 32), np.inf), FORMATS["mxf8"])
    with pytest.raises(BlockScaleError, match="3 elements of e2m1 are not whole bytes"):
        packed(np.zeros((1, 3), np.uint8), FORMATS["mxf4"])


@pytest.mark.parametrize(("rows", "k", "vector"), [(128, 128, 32), (200, 384, 32), (300, 272, 16)])
def test_placed__is_where_cutlass_has_it(rows, k, vector):
    """Sm1xxBlockScaledBasicChunk: ((32,4),(vector,4)):((16,4),(0,1)), first along K, then along rows."""
    factors = -(-k // vector)
    scales = np.random.default_rng(3).integers(0, 256, (rows, factors)).astype(np.uint8)
    held = placed(scales, rows_pad=0xEE, k_pad=0xDD)
    assert held.shape == scales_shape(rows, k, vector)
    flat, wide = held.reshape(-1), held.shape[1]
    layout = scale_layout(rows, k, vector)
    for row in range(0, rows, 7):
        for element in range(0, k, 5):
            factor = element // vector
            offset = (
                (row // 128 * wide + factor // 4) * 512 + row % 32 * 16 + row % 128 // 32 * 4 + factor % 4
            )
            assert layout((row, element)) == offset
            assert flat[offset] == scales[row, factor]
    np.testing.assert_array_equal(read_back(held, rows, factors), scales)
    padding = read_back(held, 128 * held.shape[0], 4 * wide)
    assert (padding[rows:] == 0xEE).all()
    assert (padding[:rows, factors:] == 0xDD).all()
