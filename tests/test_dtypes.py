"""Element types: names, look-ups, and the way to NumPy and back."""

import dataclasses
import doctest
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from cutecourse import dtypes
from cutecourse.dtypes import DTYPES, DTypeError, decode, dtype, encode, from_numpy
from cutecourse.errors import CourseError

WITHOUT_NUMPY = {"b1", "b128"}
FLOATS = {
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
}
INTEGERS = {"s4": ml_dtypes.int4, "u4": ml_dtypes.uint4}


def test_dtypes__doctests_hold() -> None:
    result = doctest.testmod(dtypes)
    assert result.attempted >= 5
    assert result.failed == 0


@pytest.mark.parametrize("name", DTYPES)
def test_dtype__finds_every_name_with_and_without_its_dot(name: str) -> None:
    found = dtype(name)
    assert found.name == name == str(found)
    assert dtype("." + name) is found
    assert dtype(found) is found
    assert getattr(dtypes, name) is found


def test_dtype__unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(DTypeError, match=r"'half'.*f16, bf16") as caught:
        dtype("half")
    assert isinstance(caught.value, CourseError)


def test_dtype__is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        dtypes.f16.bits = 8  # type: ignore[misc]


@pytest.mark.parametrize("name", sorted(set(DTYPES) - WITHOUT_NUMPY))
def test_numpy__holds_the_value_and_comes_back(name: str) -> None:
    element = dtype(name)
    numpy_dtype = element.numpy
    assert numpy_dtype.itemsize * 8 >= element.bits
    assert element.holds(numpy_dtype)
    back = from_numpy(numpy_dtype)
    if name == "tf32":
        assert back is dtypes.f32
    elif element.kind == "bits" or element.coded:
        assert back is dtype(f"u{8 * numpy_dtype.itemsize}")
    else:
        assert back is element


@pytest.mark.parametrize("name", sorted(WITHOUT_NUMPY))
def test_numpy__says_what_to_do_where_there_is_none(name: str) -> None:
    with pytest.raises(DTypeError, match=f"{name} has no NumPy dtype.*packed"):
        dtype(name).numpy  # noqa: B018


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_coded__arrays_of_ml_dtypes_are_accepted(name: str) -> None:
    element, theirs = dtype(name), np.dtype({**FLOATS, **INTEGERS}[name])
    assert element.coded
    assert from_numpy(theirs) is element
    assert element.holds(theirs)
    assert element.numpy == np.dtype(f"u{theirs.itemsize}")
    array = np.array([1, 2, 4]).astype(theirs)
    np.testing.assert_array_equal(decode(array, name), [1, 2, 4])
    np.testing.assert_array_equal(encode(array, name), array.view(element.numpy))
    np.testing.assert_array_equal(encode(array, "f16"), np.array([1, 2, 4], np.float16))


def test_decode__refuses_arrays_of_another_type() -> None:
    with pytest.raises(DTypeError, match="an array of float32 holds no bf16; its codes are uint16"):
        decode(np.zeros(3, np.float32), "bf16")
    with pytest.raises(DTypeError, match="bfloat16 holds no f16"):
        decode(np.zeros(3, ml_dtypes.bfloat16), "f16")


def bits_of(values: np.ndarray) -> np.ndarray:
    return values.view(f"u{values.itemsize}")


def codes_of(name: str) -> np.ndarray:
    """Every code there is."""
    element = dtype(name)
    return np.arange(1 << element.bits).astype(element.numpy)


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_decode__every_code_has_the_number_of_ml_dtypes(name: str) -> None:
    codes = codes_of(name)
    theirs = codes.view({**FLOATS, **INTEGERS}[name]).astype(np.float32)
    found = decode(codes, name)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(bits_of(found), bits_of(theirs))


def test_decode__ue4m3_has_the_codes_of_e4m3_without_a_sign() -> None:
    codes = np.arange(128, dtype=np.uint8)
    theirs = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    np.testing.assert_array_equal(bits_of(decode(codes, "ue4m3")), bits_of(theirs))
    assert np.isnan(decode(codes + np.uint8(128), "ue4m3")).all()


def float32_that_matter() -> np.ndarray:
    """All upper halves, each with the lower halves around zero, the middle and the end, and random numbers.

    No format here has more than 8 bits of fraction with the hidden one. So these hold every number of each
    format, every half between two neighbours, what is one ulp beside, subnormal numbers, infinities and NaN.
    """
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    lower = np.array([0, 1, 2, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF], np.uint32)
    random = np.random.default_rng(7).integers(0, 1 << 32, 500_000, dtype=np.uint32)
    return np.concatenate([(upper[:, None] | lower).ravel(), random]).view(np.float32)


@pytest.mark.parametrize("name", FLOATS)
def test_encode__rounds_float32_as_ml_dtypes_does(name: str) -> None:
    values = float32_that_matter()
    with np.errstate(all="ignore"):
        theirs = values.astype(FLOATS[name])
    found = encode(values, name)
    assert found.dtype == dtype(name).numpy
    np.testing.assert_array_equal(found, bits_of(theirs))


def test_encode__ue4m3_rounds_positive_numbers_as_e4m3_does() -> None:
    values = float32_that_matter()
    with np.errstate(all="ignore"):
        theirs = bits_of(np.abs(values).astype(ml_dtypes.float8_e4m3fn))
    found = encode(values, "ue4m3")
    negative = values < 0
    np.testing.assert_array_equal(found[~negative], theirs[~negative])
    assert (found[negative] == 0x7F).all()


@pytest.mark.parametrize("name", [*FLOATS, "ue4m3"])
def test_encode__rounds_float64_once(name: str) -> None:
    """Right beside a half, a way through float32 would round to the half first, and then perhaps away."""
    codes = codes_of(name)
    with np.errstate(invalid="ignore"):
        numbers = decode(codes, name).astype(np.float64)
    wanted = np.isfinite(numbers) & ~np.signbit(numbers)
    numbers, codes = numbers[wanted], codes[wanted]
    assert (np.diff(numbers) > 0).all()
    if name == "ue8m0":
        # Between its two smallest numbers it rounds up, as ml_dtypes does.
        assert encode(np.nextafter(numbers[0], 1), name) == 1
        numbers, codes = numbers[1:], codes[1:]
    halves = (numbers[1:] + numbers[:-1]) / 2
    np.testing.assert_array_equal(encode(np.nextafter(halves, 0), name), codes[:-1])
    np.testing.assert_array_equal(encode(np.nextafter(halves, np.inf), name), codes[1:])
    np.testing.assert_array_equal(encode(numbers, name), codes)


@pytest.mark.parametrize("name", INTEGERS)
def test_encode__integers_keep_their_low_bits(name: str) -> None:
    values = np.arange(-40, 40)
    np.testing.assert_array_equal(encode(values, name), bits_of(values.astype(INTEGERS[name])))


@pytest.mark.parametrize("name", ["f16", "f32", "f64", "s32"])
def test_encode__types_of_numpy_are_numpys_own(name: str) -> None:
    values = np.array([[1.0, -2.5], [3.0, 4.0]])
    made = encode(values, name)
    assert made.dtype == dtype(name).numpy
    np.testing.assert_array_equal(made, values.astype(made.dtype))
    np.testing.assert_array_equal(decode(made, name), made)


@pytest.mark.parametrize("name", ["bf16", "e4m3", "e2m1"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_encode__keeps_the_shape_and_leaves_its_operand(name: str, shape: tuple[int, ...]) -> None:
    values = np.full(shape, 1 + 2.0**-40)
    made = encode(values.T, name)
    assert made.shape == shape[::-1]
    assert decode(made, name).shape == shape[::-1]
    assert (values == 1 + 2.0**-40).all()
    assert (decode(made, name) == 1).all()


def test_from_numpy__takes_other_byte_orders_and_refuses_the_rest() -> None:
    assert from_numpy(">f4") is dtypes.f32
    with pytest.raises(DTypeError, match="complex64"):
        from_numpy(np.complex64)


def test_dtypes__need_no_numpy_to_import() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None; "
        "from cutecourse.dtypes import dtype, f16; print(dtype('f16') is f16)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
