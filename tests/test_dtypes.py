"""Element types: names, look-ups, and the way to NumPy and back."""

import dataclasses
import doctest
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from cutecourse import dtypes
from cutecourse.dtypes import DTYPES, DTypeError, dtype, from_numpy
from cutecourse.errors import CourseError

WITHOUT_NUMPY = {"b1", "b128"}


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
    back = from_numpy(numpy_dtype)
    if name == "tf32":
        assert back is dtypes.f32
    elif element.kind == "bits":
        assert back is dtype("u" + name[1:])
    else:
        assert back is element


@pytest.mark.parametrize("name", sorted(WITHOUT_NUMPY))
def test_numpy__says_what_to_do_where_there_is_none(name: str) -> None:
    with pytest.raises(DTypeError, match=f"{name} has no NumPy dtype.*packed"):
        dtype(name).numpy  # noqa: B018


def test_numpy__alternate_floats_are_those_of_ml_dtypes() -> None:
    assert dtypes.bf16.numpy == np.dtype(ml_dtypes.bfloat16)
    assert dtypes.e4m3.numpy == np.dtype(ml_dtypes.float8_e4m3fn)
    assert dtypes.e5m2.numpy == np.dtype(ml_dtypes.float8_e5m2)


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
