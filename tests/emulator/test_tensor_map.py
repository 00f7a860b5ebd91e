"""Tensor maps: cuTensorMapEncodeTiled's rules against the driver's answers, and what follows from fields."""

from dataclasses import replace

import numpy as np
import pytest

from cutecourse.emulator import TensorMap, TensorMapError, launch
from cutecourse.emulator.errors import InvalidOperand, LaunchError
from tools.cases import ptx_cases
from tools.cases import tensor_map_rules as rules

ROWS = {row.name: row for row in rules.ENCODINGS}


def tiled(fields):
    return TensorMap.tiled(np.zeros(4096, dtype=np.uint8), **fields)


@pytest.mark.parametrize("name", ROWS)
def test_tensor_map__keeps_and_breaks_the_rules_as_named(name):
    row = ROWS[name]
    if row.rule is None:
        made = tiled(row.fields)
        assert list(made.dims) == row.fields["dims"]
        return
    with pytest.raises(TensorMapError) as caught:
        tiled(row.fields)
    assert caught.value.rule == row.rule


@pytest.mark.parametrize("name", ROWS)
def test_tensor_map__refuses_what_the_recorded_driver_refused(name):
    row = ROWS[name]
    answer = rules.read()["answers"][name]
    if row.only_ours:
        assert answer == 0, "the driver refuses it too: it is not only ours"
        return
    assert (row.rule is not None) == (answer != 0)


def test_tensor_map__is_named_by_a_generic_address():
    """An H200 faults without cvta.param: CUDA_ERROR_MISALIGNED_ADDRESS."""
    case = ptx_cases.load("tensor/load_2d")
    text = case.ptx.replace("cvta.param.u64 %map, %map;", "")
    assert text != case.ptx
    with pytest.raises(
        InvalidOperand, match=r"an address in \.param, which cvta\.param\.u64 must make a generic"
    ):
        ptx_cases.run_on_emulator(replace(case, ptx=text))


def test_recording__tells_what_was_asked():
    assert rules.read()["encodings"] == rules.fields()


@pytest.mark.gpu("sm_90")
def test_tensor_map__this_machines_driver_answers_as_recorded():
    from tools.cases.ptx_gpu import Gpu

    assert Gpu().tensor_map_answers() == rules.read()["answers"]


def test_tensor_map__names_rule_value_and_what_it_has_to_be():
    with pytest.raises(TensorMapError, match=r"stride of dimension 1 is 136 bytes.*multiple of 16"):
        tiled(ROWS["stride_8_more"].fields)
    with pytest.raises(TensorMapError, match=r"box\[1\] is 257.*1\.\.256"):
        tiled(ROWS["box_257"].fields)
    with pytest.raises(TensorMapError, match="strides has 2 numbers, but needs 1") as caught:
        tiled({**ROWS["plain"].fields, "strides": [128, 256]})
    assert caught.value.rule == "counts"
    with pytest.raises(TensorMapError, match="needs a NumPy array, not a list"):
        TensorMap.tiled([1, 2], dims=[2], strides=[], box=[2])


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("int8", "u8"),
        ("int16", "u16"),
        ("int32", "s32"),
        ("uint64", "u64"),
        ("float16", "f16"),
        ("float32", "f32"),
    ],
)
def test_tensor_map__takes_the_arrays_type(dtype, name):
    array = np.zeros((8, 64), dtype=dtype)
    made = TensorMap.tiled(array, dims=[64, 8], strides=[64 * array.itemsize], box=[16, 2])
    assert made.dtype == name
    assert made.item_bytes == array.itemsize


def test_tensor_map__types_that_it_does_not_have_are_refused():
    array = np.zeros(64, dtype=np.complex64)
    with pytest.raises(TensorMapError) as caught:
        TensorMap.tiled(array, dims=[64], strides=[], box=[16])
    assert caught.value.rule == "dtype"


@pytest.mark.parametrize(
    ("box", "steps", "counts"),
    [((16, 7), (1, 2), (16, 4)), ((16, 8), (3, 3), (16, 3)), ((16, 9, 16), (1, 5, 8), (16, 2, 2))],
)
def test_tensor_map__counts_every_nth_element_rounded_up(box, steps, counts):
    dims = (32,) * len(box)
    strides = [64 * 32**i for i in range(len(box) - 1)]
    made = TensorMap.tiled(
        np.zeros(32, dtype=np.float16), dims=dims, strides=strides, box=box, element_strides=steps
    )
    assert made.counts == counts
    assert made.box_bytes == 2 * np.prod(counts)


PASS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .align {align} .b8 m[{size}])
{{
    ret;
}}
"""


def test_tensor_map__is_a_parameter_of_128_bytes_aligned_to_64():
    made = tiled(ROWS["plain"].fields)
    launch(PASS.format(align=64, size=128), grid=1, block=32, args=[made])
    for align, size in ((64, 64), (8, 128)):
        with pytest.raises(LaunchError, match=r"128 bytes aligned to 64"):
            launch(PASS.format(align=align, size=size), grid=1, block=32, args=[made])


def test_tensor_map__of_an_array_that_starts_off_a_multiple_of_16_is_refused_at_launch():
    whole = np.zeros(64, dtype=np.uint8)
    part = whole[8:]
    made = TensorMap.tiled(part, dims=[32], strides=[], box=[16])
    text = PASS.replace("(.param", "(.param .u64 whole, .param").format(align=64, size=128)
    with pytest.raises(TensorMapError, match=r"parameter m: the tensor's address is 0x[0-9a-f]+8") as caught:
        launch(text, grid=1, block=32, args=[whole, made])
    assert caught.value.rule == "address_alignment"
