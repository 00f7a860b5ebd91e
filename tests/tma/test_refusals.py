"""What no TMA can do: each rule of CUTLASS and of the driver, broken by one value, named by the error."""

from typing import Any

import numpy as np
import pytest

from cutecourse.dtypes import DTypeError
from cutecourse.errors import CourseError
from cutecourse.layout import Layout
from cutecourse.tma import (
    Dynamic,
    TensorMapEncoding,
    TmaError,
    create_tma_multicast_mask,
    dynamic,
    make_cluster_layout_vmnk,
    smem_image,
    tma_coords,
    tma_partition,
    trace_tma_atom,
)
from tools.cases import tensor_map_rules

GOOD = TensorMapEncoding("f16", (256, 512, 4), (512, 262144), (64, 128, 1), swizzle="128B")

# One argument of cuTensorMapEncodeTiled changed, the rule it breaks, and a word that the message must have.
DRIVER_RULES: list[tuple[dict[str, Any], str, str]] = [
    ({"dims": (), "strides_bytes": (), "box": (), "element_strides": ()}, "rank", "1 to 5"),
    (
        {
            "dims": (8,) * 6,
            "strides_bytes": (16,) * 5,
            "box": (8,) + (1,) * 5,
            "element_strides": (1,) * 6,
        },
        "rank",
        "6 dimensions",
    ),
    (
        {
            "dims": (256, 512),
            "strides_bytes": (512,),
            "box": (16, 8),
            "element_strides": (1, 1),
            "interleave": "16B",
        },
        "rank",
        "needs 3",
    ),
    ({"strides_bytes": (512,)}, "strides_bytes", "has 2"),
    ({"box": (64, 128)}, "box", "has 3"),
    ({"element_strides": (1, 1)}, "element_strides", "has 3"),
    ({"dims": (256, 0, 4)}, "dims", "dims[1] is 0"),
    ({"dims": ((1 << 32) + 1, 512, 4)}, "dims", "2^32"),
    ({"strides_bytes": (520, 262144)}, "stride_multiple", "520 bytes"),
    ({"strides_bytes": (512, 1 << 40)}, "stride_range", "2^40"),
    ({"strides_bytes": (-512, 262144)}, "stride_range", "-512"),
    ({"strides_bytes": (528, 262144), "interleave": "32B", "swizzle": "32B"}, "stride_multiple", "of 32"),
    ({"box": (64, 257, 1)}, "box", "257"),
    ({"box": (64, 0, 1)}, "box", "box[1] is 0"),
    ({"box": (12, 128, 1)}, "inner_multiple", "24 bytes"),
    ({"box": (128, 128, 1)}, "swizzle_span", "256 bytes"),
    ({"swizzle": "64B"}, "swizzle_span", "allows 64"),
    ({"swizzle": "32B", "box": (24, 128, 1)}, "swizzle_span", "allows 32"),
    ({"element_strides": (1, 9, 1)}, "element_strides", "is 9"),
    ({"element_strides": (0, 1, 1)}, "element_strides", "element_strides[0] is 0"),
    ({"box": (64, 256, 8)}, "box_bytes", "262144 bytes"),
    ({"interleave": "32B"}, "interleave_swizzle", "32B"),
    ({"oob_fill": "nan", "dtype": "u16"}, "oob_fill", "u16"),
    ({"swizzle": "256B"}, "swizzle", "256B"),
    ({"interleave": "8B"}, "interleave", "8B"),
    ({"oob_fill": "ones"}, "oob_fill", "ones"),
    ({"l2_promotion": "512B"}, "l2_promotion", "512B"),
    ({"dtype": "s16"}, "data_type", "s16"),
    ({"dtype": "u4"}, "data_type", "u4"),
]


@pytest.mark.parametrize(("changes", "rule", "word"), DRIVER_RULES)
def test_encoding__breaks_one_rule(changes: dict[str, Any], rule: str, word: str) -> None:
    encoding = GOOD.replace(**changes)
    with pytest.raises(TmaError) as caught:
        encoding.check()
    assert caught.value.rule == rule
    assert word in str(caught.value)
    assert [error.rule for error in encoding.violations()] == [rule]


DRIVER = tensor_map_rules.read()
# An enumerator that does not exist is a name that the library does not have either.
ASKED = [name for name, fields in DRIVER["encodings"].items() if isinstance(fields["dtype"], str)]


@pytest.mark.parametrize("name", ASKED)
def test_encoding__is_refused_where_an_h200s_driver_refused_it(name: str) -> None:
    fields = dict(DRIVER["encodings"][name])
    offset = fields.pop("offset")
    encoding = TensorMapEncoding(strides_bytes=fields.pop("strides"), **fields)
    assert bool(encoding.violations(1024 + offset)) == (DRIVER["answers"][name] != 0)


def test_encoding__at_the_limits_is_taken() -> None:
    GOOD.check()
    GOOD.check(address=0x7F0000000010)
    GOOD.replace(dims=(1 << 32, 1, 1 << 32), strides_bytes=((1 << 40) - 16, 0)).check()
    GOOD.replace(box=(8, 256, 256), element_strides=(8, 8, 1), swizzle="none").check()
    GOOD.replace(dtype="u8", box=(128, 256, 1)).check()
    GOOD.replace(oob_fill="nan").check()
    GOOD.replace(interleave="32B", swizzle="32B", box=(256, 8, 1)).check()


def test_encoding__of_an_address_that_is_not_aligned() -> None:
    with pytest.raises(TmaError, match="0x1008") as caught:
        GOOD.check(address=0x1008)
    assert caught.value.rule == "address"
    with pytest.raises(TmaError, match="32 bytes"):
        GOOD.replace(interleave="32B", swizzle="32B").check(address=0x1010)


def test_encoding__lists_every_rule_it_breaks() -> None:
    broken = GOOD.replace(dims=(0, 512, 4), strides_bytes=(520, 262144), box=(60, 300, 1))
    assert [error.rule for error in broken.violations(8)] == [
        "address",
        "dims",
        "stride_multiple",
        "box",
        "inner_multiple",
    ]


K_MAJOR = Layout((512, 256), (256, 1))
TILE = Layout.parse("S<3,4,3> o 0 o (128,64):(64,1)")
ATOMS: list[tuple[tuple[Any, ...], str, str]] = [
    ((K_MAJOR, TILE, (128, 32), "f16"), "tile_size", "4096"),
    ((K_MAJOR, Layout((128, 64), (1, 128)), (128, 64), "f16"), "majorness", "256 elements"),
    ((K_MAJOR, Layout((128, 64), (2, 256)), (128, 64), "f16"), "vectorization", "neighbours"),
    ((K_MAJOR, Layout((128, 64), (64, 1)), (128, Layout(64, 2)), "f16"), "vectorization", "step by 2@1"),
    ((K_MAJOR, Layout.parse("S<3,3,3> o 0 o (128,64):(64,1)"), (128, 64), "f16"), "swizzle", "S<3,3,3>"),
    ((K_MAJOR, Layout.parse("S<2,4,4> o 0 o (128,64):(64,1)"), (128, 64), "f16"), "swizzle", "S<2,4,4>"),
    ((K_MAJOR, Layout.parse("S<4,4,4> o 0 o (128,64):(64,1)"), (128, 64), "f16"), "swizzle", "S<4,4,4>"),
    ((K_MAJOR, TILE, (128, 64), "f32"), "swizzle_span", "256 bytes"),
    ((K_MAJOR, TILE, (128, 64), "f16", 3), "multicast_divides", "3 CTAs"),
    ((K_MAJOR, TILE, (128, 64), "f16", 0), "multicast_count", "1 to 16"),
    ((K_MAJOR, TILE, (128, 64), "f16", 32), "multicast_count", "32"),
    ((Layout((512, 250), (250, 1)), TILE, (128, 64), "f16"), "stride_multiple", "500 bytes"),
    ((Layout((512, 256), (512, 2)), TILE, (128, 64), "f16"), "majorness", "steps by 2"),
    ((Layout((8, 1024), (1024, 1)), Layout((8, 512), (512, 1)), (8, 512), "f16"), "box", "512"),
    ((Layout((8,), (1,)), Layout((8,)), (8,), "f16", 16), "multicast_divides", "fewer elements"),
    ((Layout((8, 24), (24, 1)), Layout((8, 16), (16, 1)), (8, 16), "u8"), "stride_multiple", "24 bytes"),
    ((K_MAJOR, TILE, (128, 64), "s16"), "data_type", "s16"),
    ((K_MAJOR, TILE, (128, 64), "u4"), "data_type", "u4"),
    ((K_MAJOR, TILE, (128, 64), "b128"), "data_type", "b128"),
    (
        (Layout((64, 6), (6, 1)), Layout((64, 6), (6, 1)), (64, 6), "u8", 1, "u32"),
        "recast",
        "4 times as wide",
    ),
    (("(512,256):(256,1)", TILE, (128, 64), "f16"), "gtensor", "plain layout"),
    ((K_MAJOR, 128 * 64, (128, 64), "f16"), "slayout", "layout"),
    ((K_MAJOR, Layout.parse("S<3,4,3> o 64 o (128,64):(64,1)"), (128, 64), "f16"), "slayout", "starts at 0"),
]


@pytest.mark.parametrize(("arguments", "rule", "word"), ATOMS)
def test_atom__breaks_one_rule(arguments: tuple[Any, ...], rule: str, word: str) -> None:
    with pytest.raises(TmaError) as caught:
        trace_tma_atom(*arguments)
    assert caught.value.rule == rule
    assert word in str(caught.value)


def test_atom__of_what_only_looks_wrong() -> None:
    """Rows that are two apart are as many boxes; rows that follow without a gap are one long row."""
    apart = trace_tma_atom(K_MAJOR, TILE, (Layout(128, 2), 64), "f16")
    assert (apart.encoding.box, apart.instructions) == ((64, 1), 128)
    dense = Layout((8, 12), (12, 1))
    assert trace_tma_atom(dense, dense, (8, 12), "u8").encoding.dims == (96,)


def test_atom__without_checks_keeps_what_is_broken() -> None:
    trace = trace_tma_atom(Layout((512, 250), (500, 2)), TILE, (128, 64), "f16", check=False)
    assert [error.rule for error in trace.violations(4)] == ["majorness", "address", "stride_multiple"]


def test_atom__with_a_box_of_the_running_program() -> None:
    """A tiler that counts through two dynamic extents gives a box that no type can hold."""
    nested = Layout(((16, 4), 8), ((1, 16), 64))
    assert trace_tma_atom(nested, Layout((32, 8)), (32, 8), "f16").encoding.box == (32, 8)
    with pytest.raises(TmaError) as caught:
        trace_tma_atom(dynamic(nested), Layout((32, 8)), (32, 8), "f16")
    assert caught.value.rule == "static_box"


def test_partition__of_tiles_that_do_not_match() -> None:
    trace = trace_tma_atom(K_MAJOR, TILE, (128, 64), "f16", 4)
    tiles = trace.get_tma_tensor().local_tile((128, 64), (0, None))
    smem = Layout(((128, 64), 2), ((64, 1), 8192))
    for arguments, rule in (
        ((trace, 0, Layout(4), smem, tiles), "tile_size"),
        ((96, 0, Layout(4), smem, tiles.group_modes(0, 2)), "instructions"),
        ((trace, 0, Layout(3), smem, tiles.group_modes(0, 2)), "multicast_divides"),
    ):
        with pytest.raises(TmaError) as caught:
            tma_partition(*arguments)
        assert caught.value.rule == rule


def test_tma_tensor__of_another_profile() -> None:
    trace = trace_tma_atom(K_MAJOR, TILE, (128, 64), "f16")
    with pytest.raises(TmaError) as caught:
        trace.get_tma_tensor((512, (2, 128)))
    assert caught.value.rule == "profile"


def test_masks__of_a_cluster_that_is_too_large_or_a_cta_that_is_not_there() -> None:
    cluster = make_cluster_layout_vmnk((4, 4, 1))
    for crd, modes, rule in (
        ((0, 1, 2), (1,), "multicast_crd"),
        ((0, 4, 2, 0), (2,), "multicast_crd"),
        ((0, 1, 2, 0), (4,), "multicast_mode"),
    ):
        with pytest.raises(TmaError) as caught:
            create_tma_multicast_mask(cluster, crd, *modes)
        assert caught.value.rule == rule
    with pytest.raises(TmaError) as caught:
        create_tma_multicast_mask(make_cluster_layout_vmnk((8, 4, 1)), (0, 0, 0, 0), 2)
    assert caught.value.rule == "multicast_mask"
    with pytest.raises(TmaError) as caught:
        make_cluster_layout_vmnk((3, 4, 1), 2)
    assert caught.value.rule == "cluster"


def test_image__of_an_array_that_is_not_the_tensor() -> None:
    trace = trace_tma_atom(K_MAJOR, TILE, (128, 64), "f16")
    for array in (np.zeros((512, 256), np.float32), np.zeros((256, 512), np.float16), np.zeros(9, np.int16)):
        with pytest.raises(TmaError) as caught:
            smem_image(trace, array, (0, 0))
        assert caught.value.rule == "array"
    with pytest.raises(CourseError):
        tma_coords(trace, (0, 0, 0))
    with pytest.raises(TmaError):
        tma_coords(trace, (0, 0), multicast_id=1)


def test_log__says_what_only_the_program_knows() -> None:
    assert (
        trace_tma_atom(
            Layout.unchecked((Dynamic(512), Dynamic(256)), (Dynamic(256), 1)), TILE, (128, 64), "f16"
        ).log()["gtensor_T"]
        == "(512,256):(256,_1)"
    )


def test_encoding__refuses_what_is_no_type():
    with pytest.raises(DTypeError, match="no element type 16"):
        TensorMapEncoding(dtype=16, dims=(64,), strides_bytes=(), box=(8,))
