"""Arrays to memory and back, and the refusals: pure functions."""

import ml_dtypes
import numpy as np
import pytest

from cutecourse.dtypes import encode
from cutecourse.kernels.spec import LaunchSpec, Scalar, Tensor
from cutecourse.runtime.arguments import GAP_BYTE, bind, flat_arguments
from cutecourse.runtime.errors import ArgumentError


def spec(*params, language="ptx"):
    extra = {"kernel": len} if language == "numba" else {"ptx": ".target sm_80"}
    return LaunchSpec(name="k", language=language, grid=1, block=1, params=params, **extra)


def test_bind__lays_elements_out_by_the_stride():
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    row = bind(spec(Tensor("a", "s32", (2, 3), (3, 1))), {"a": array})["a"]
    column = bind(spec(Tensor("a", "s32", (2, 3), (1, 2))), {"a": array})["a"]
    assert row.buffer.tolist() == [0, 1, 2, 3, 4, 5]
    assert column.buffer.tolist() == [0, 3, 1, 4, 2, 5]
    assert np.array_equal(column.logical(), array)


def test_bind__fills_the_gaps_with_a_pattern():
    bound = bind(spec(Tensor("a", "u8", (2, 2), (4, 1))), {"a": np.zeros((2, 2), np.uint8)})["a"]
    assert bound.buffer.tolist() == [0, 0, GAP_BYTE, GAP_BYTE, 0, 0]


def test_bind__reads_any_strides_of_the_callers_array_and_leaves_it_alone():
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    view = whole.T[::2]
    kept = whole.copy()
    bound = bind(spec(Tensor("a", "f32", (3, 4), (4, 1))), {"a": view})["a"]
    assert np.array_equal(bound.logical(), view)
    bound.buffer[:] = -1
    assert np.array_equal(whole, kept)


def test_bind__gives_nested_modes_one_axis_each():
    tensor = Tensor("a", "s32", ((2, 2), 3), ((1, 6), 2))
    array = np.arange(12, dtype=np.int32).reshape(2, 2, 3)
    bound = bind(spec(tensor), {"a": array})["a"]
    for i, j, k in np.ndindex(2, 2, 3):
        assert bound.buffer[i + 6 * j + 2 * k] == array[i, j, k]
    assert np.array_equal(bound.logical(), array)


def test_bind__takes_bf16_arrays_bit_for_bit():
    array = np.array([1.5, -2.0, 3.25], ml_dtypes.bfloat16)
    bound = bind(spec(Tensor("a", "bf16", (3,))), {"a": array})["a"]
    assert bound.buffer.view(np.uint16).tolist() == [0x3FC0, 0xC000, 0x4050]
    assert bound.logical().dtype == ml_dtypes.bfloat16


def test_bind__takes_codes_bit_for_bit():
    codes = encode([1.5, -2.0, 3.25], "bf16")
    bound = bind(spec(Tensor("a", "bf16", (3,))), {"a": codes})["a"]
    assert bound.buffer.tolist() == [0x3FC0, 0xC000, 0x4050]
    assert bound.logical().dtype == np.uint16


def test_bind__says_how_to_make_codes():
    with pytest.raises(
        ArgumentError,
        match=r"must hold bf16 \(codes in NumPy uint16\), not float32 \(f32\).*encode\(values, 'bf16'\)",
    ):
        bind(spec(Tensor("a", "bf16", (3,))), {"a": np.zeros(3, np.float32)})


@pytest.mark.parametrize(
    ("dtype", "given", "bits"),
    [
        ("s32", -1, np.int32(-1)),
        ("u32", 2**32 - 1, np.uint32(2**32 - 1)),
        ("f32", 1, np.float32(1)),
        ("f16", np.float32(0.5), np.float16(0.5)),
        ("bf16", 1.5, np.uint16(0x3FC0)),
        ("s64", np.int8(-3), np.int64(-3)),
    ],
)
def test_bind__makes_scalars_of_the_parameters_type(dtype, given, bits):
    value = bind(spec(Scalar("n", dtype)), {"n": given})["n"]
    assert value.dtype == bits.dtype
    assert value.tobytes() == bits.tobytes()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"k\(a, n\) was given no a and no n"),
        ({"a": np.zeros(3, np.float32)}, r"k\(a, n\) was given no n"),
        ({"a": np.zeros(3, np.float32), "n": 1, "b": 2}, r"k\(a, n\) has no parameter b"),
        ({"a": np.zeros(3), "n": 1}, r"a must hold f32 \(NumPy float32\), not float64 \(f64\)"),
        ({"a": np.zeros(3, np.complex64), "n": 1}, "a must hold f32 .*not complex64"),
        ({"a": [0, 0, 0], "n": 1}, "a must be a NumPy array of f32, not list"),
        ({"a": np.zeros(4, np.float32), "n": 1}, r"a must have shape \(3,\), not \(4,\)"),
        ({"a": np.zeros((3, 1), np.float32), "n": 1}, r"a must have shape \(3,\), not \(3, 1\)"),
        ({"a": np.zeros(3, np.float32), "n": 1.5}, r"n must be an integer \(s8\), not 1.5 \(float\)"),
        ({"a": np.zeros(3, np.float32), "n": True}, "n must be an integer"),
        ({"a": np.zeros(3, np.float32), "n": "1"}, "n must be an integer"),
        ({"a": np.zeros(3, np.float32), "n": 128}, r"n = 128 is not in -128 to 127 \(s8\)"),
    ],
)
def test_bind__refuses_with_one_message_that_names_the_parameter(given, message):
    with pytest.raises(ArgumentError, match=message) as caught:
        bind(spec(Tensor("a", "f32", (3,)), Scalar("n", "s8")), given)
    assert "\n" not in str(caught.value)


def test_bind__says_which_extents_are_open():
    with pytest.raises(ArgumentError, match=r"a must have shape \(any, 3\), not \(2, 4\)"):
        bind(spec(Tensor("a", "f32", (None, 3))), {"a": np.zeros((2, 4), np.float32)})
    with pytest.raises(ArgumentError, match=r"a must have shape \(any,\), not \(0,\)"):
        bind(spec(Tensor("a", "f32", (None,))), {"a": np.zeros(0, np.float32)})


def test_flat_arguments__is_one_pointer_a_tensor_in_the_parameters_order():
    kernel = spec(Scalar("n", "u32"), Tensor("a", "f32", (2,)), Tensor("b", "s8", (3,)))
    given = {"b": np.zeros(3, np.int8), "n": 7, "a": np.ones(2, np.float32)}
    flat = flat_arguments(kernel, bind(kernel, given))
    assert [type(value).__name__ for value in flat] == ["uint32", "ndarray", "ndarray"]
    assert (int(flat[0]), flat[1].nbytes, flat[2].nbytes) == (7, 8, 3)


def test_flat_arguments__opens_a_numba_array_into_its_fields():
    kernel = spec(Tensor("a", "f16", (None, None)), Scalar("n", "s32"), language="numba")
    flat = flat_arguments(kernel, bind(kernel, {"a": np.zeros((3, 5), np.float16), "n": 2}))
    fields = [flat[index] for index in (0, 1, 2, 3, 5, 6, 7, 8)]
    # meminfo, parent, nitems, itemsize, [data], extents, strides in bytes
    assert [int(field) for field in fields] == [0, 0, 15, 2, 3, 5, 10, 2]
    assert {field.itemsize for field in fields} == {8}
    assert isinstance(flat[4], np.ndarray)
    assert flat[4].size == 15
    assert flat[9] == np.int32(2)
    assert len(flat) == 10
