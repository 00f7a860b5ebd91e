"""Tensor maps: cuTensorMapEncodeTiled's rules against the driver's answers, and what follows from fields."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cutecourse.emulator import TensorMap, TensorMapError, launch
from cutecourse.emulator.errors import AlignmentError, InvalidOperand, LaunchError
from cutecourse.testing import KernelFailure, Output, check
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


GROUPED = (Path(__file__).parent / "modules" / "grouped_maps.ptx").read_text()
GROUPS = np.arange(3 * 4 * 16, dtype=np.uint32).reshape(3, 4, 16)
BOXES = GROUPS[:, 1:3, 4:12].reshape(3, 16)


def maps_of(groups):
    return [TensorMap.tiled(one, dims=(16, 4), strides=(64,), box=(8, 2)) for one in groups]


@pytest.mark.parametrize("several", [list, tuple])
def test_tensor_maps__lie_one_behind_the_other_behind_a_pointer(several):
    out = np.zeros((3, 16), np.uint32)
    launch(GROUPED, grid=3, block=16, args=[several(maps_of(GROUPS)), out])
    np.testing.assert_array_equal(out, BOXES)


def test_tensor_maps__behind_a_pointer_in_a_struct():
    text = GROUPED.replace(".param .u64 maps", ".param .align 8 .b8 maps[16]")
    out = np.zeros((3, 16), np.uint32)
    launch(text, grid=3, block=16, args=[(maps_of(GROUPS), np.uint64(0)), out])
    np.testing.assert_array_equal(out, BOXES)


def test_tensor_maps__one_too_few_is_an_address_without_a_map():
    with pytest.raises(InvalidOperand, match="0 bytes past the end of 2 tensor maps of maps"):
        launch(GROUPED, grid=3, block=16, args=[maps_of(GROUPS[:2]), np.zeros((3, 16), np.uint32)])


@pytest.mark.parametrize("given", [[], [1], ["map"]])
def test_tensor_maps__a_list_of_anything_else_is_no_pointer(given):
    with pytest.raises(LaunchError, match=r"parameter maps \(\.u64, 8 bytes\): a value of type list"):
        launch(GROUPED, grid=3, block=16, args=[given, np.zeros((3, 16), np.uint32)])


def test_tensor_maps__of_a_list_are_checked_by_name():
    args = {"maps": maps_of(GROUPS), "out": Output((3, 16), "u32")}
    expect = {"out": BOXES, "maps[1]": GROUPS[1]}
    check(GROUPED, grid=3, args=args, expect=expect)
    with pytest.raises(KernelFailure, match=r"maps\[1\]\[0, 0\] is 64; expected 65"):
        check(GROUPED, grid=3, args=args, expect={"maps[1]": GROUPS[1] + 1, "out": BOXES})


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


PACKED = {"dtype": "16u4_align8b", "strides": [48]}


def of_packed(coordinate, **given):
    """What the case load_2d leaves if a map of elements of 4 bits takes the place of one of 16 bits."""
    case = ptx_cases.load("tensor/load_2d")
    values = case.make_args()
    tensor_map = TensorMap.tiled(values["a"], **{"dims": [80, 5], "box": [64, 4], **PACKED, **given})
    text = re.sub(r"\{(-?\d+), ", lambda found: "{" + str(coordinate(int(found[1]))) + ", ", case.ptx)
    launch(text, grid=1, block=128, args=[values["a"], tensor_map, values["d"]])
    return values["d"]


def test_tensor_map__of_packed_elements_moves_their_bytes():
    """Coordinates, dims and box count elements, of which two lie in a byte."""
    case = ptx_cases.load("tensor/load_2d")
    values = case.make_args()
    wide = TensorMap.tiled(values["a"], dims=[20, 5], strides=[48], box=[16, 4])
    launch(case.ptx, grid=1, block=128, args=[values["a"], wide, values["d"]])
    got = of_packed(lambda x: 4 * x if abs(x) < 1 << 20 else x)
    np.testing.assert_array_equal(got, values["d"])


@pytest.mark.parametrize(
    ("what", "rule"), [({"dims": [79, 5]}, "dim_range"), ({"box": [258, 4]}, "box_range")]
)
def test_tensor_map__of_packed_elements_has_whole_bytes(what, rule):
    with pytest.raises(TensorMapError, match="16u4_align8b; it must be a multiple of 2") as caught:
        of_packed(lambda x: x, **what)
    assert caught.value.rule == rule


PADDED = """
.version 8.6
.target sm_100
.address_size 64
.visible .entry k(.param .align 64 .b8 a[128], .param .u64 out)
{
    .shared .align 1024 .b8 box[512];
    .shared .align 8 .b64 full;
    .reg .b32 %t, %x<4>, %at;
    .reg .b64 %a, %out;
    .reg .pred %first, %done;
    mov.u32 %t, %tid.x;
    setp.eq.u32 %first, %t, 0;
    mov.b64 %a, a;
    cvta.param.u64 %a, %a;
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    bar.sync 0;
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], BYTES;
    @%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [box],
        [%a, {128, 2}], [full];
AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [full], 0;
    @!%done bra AGAIN;
    mov.u32 %at, box;
    mad.lo.u32 %at, %t, 16, %at;
    ld.shared.v4.b32 {%x0, %x1, %x2, %x3}, [%at];
    ld.param.u64 %out, [out];
    mad.wide.u32 %out, %t, 16, %out;
    st.global.v4.b32 [%out], {%x0, %x1, %x2, %x3};
    ret;
}
"""


@pytest.mark.parametrize(("kind", "n_bytes"), [("16u4_align16b", 8), ("16u6_align16b", 12)])
@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_tensor_map__of_padded_elements_spreads_them_and_counts_them_without_the_gaps(kind, n_bytes, swizzle):
    """Sixteen elements have 16 bytes of shared memory, and the last two rows lie outside of the tensor."""
    a = np.random.default_rng(1).integers(1, 256, (4, 16, n_bytes)).astype(np.uint8)
    tensor_map = TensorMap.tiled(
        a, dims=(256, 4), strides=(16 * n_bytes,), box=(128, 4), dtype=kind, swizzle=swizzle
    )
    out = np.zeros((4, 8, 16), np.uint8)
    text = PADDED.replace("BYTES", str(4 * 8 * n_bytes))
    for seed in range(3):
        assert not launch(text, grid=1, block=32, args=[tensor_map, out], seed=seed).notes
        wanted = np.zeros((4, 8, 16), np.uint8)
        wanted[:2, :, :n_bytes] = a[2:, 8:]
        if swizzle == "128B":
            for row in range(4):
                wanted[row] = wanted[row][np.arange(8) ^ row]
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"box": (64, 4)}, "box_range"),
        ({"dims": (192, 4)}, "dim_range"),
        ({"strides": (144,)}, "stride_alignment"),
        ({"offset": 16}, "address_alignment"),
    ],
)
def test_tensor_map__of_padded_elements_has_rules_of_its_own(given, rule):
    a = np.zeros((8, 128), np.uint8)
    how = {"dims": (256, 4), "strides": (128,), "box": (128, 4), "dtype": "16u4_align16b", **given}
    with pytest.raises(TensorMapError) as caught:
        TensorMap.tiled(a, **how)
    assert caught.value.rule == rule


@pytest.mark.parametrize("coordinate", [31, 16])
def test_copy__of_packed_elements_starts_at_a_chunk(coordinate):
    with pytest.raises(AlignmentError, match=r"in bytes of 2 elements.*must be a multiple of (32|16)"):
        of_packed(lambda x: coordinate if x == 8 else 4 * x)
