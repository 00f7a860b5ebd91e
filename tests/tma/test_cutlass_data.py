"""`cutecourse.tma` computes what CUTLASS's C++ headers compute: every value, as they print it.

`cpp/cutlass.json` keeps what the headers said; `cpp/regenerate.py` asks them again. A number with an
underscore is one that C++ knows when it compiles, and ours must know the same.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections import Counter
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from tma.cpp import regenerate

from cutecourse.atoms import LayoutTensor
from cutecourse.errors import CourseError
from cutecourse.layout import ComposedLayout, Layout, Swizzle, get_nonswizzle_portion
from cutecourse.tma import (
    Dynamic,
    TmaError,
    TmaPartition,
    TmaTrace,
    cpp_str,
    create_tma_multicast_mask,
    make_cluster_layout_vmnk,
    parse_cpp,
    tma_partition,
    trace_tma_atom,
)
from support import cutlass_cpp

Case = dict[str, Any]

DATA = json.loads(regenerate.PROGRAM.data.read_text())
CASES: dict[str, Case] = {case["case"]: case for case in DATA["cases"]}
SMEM_BASE = 1024  # bytes: where the program says that shared memory begins


def names(kind: str, *, refused: bool = False) -> list[str]:
    return [
        name
        for name, case in CASES.items()
        if case["kind"] == kind and ("refused" in case["expect"]) == refused
    ]


ATOMS = [*names("wgmma"), *names("blackwell"), *names("tma")]
PARTITIONED = [name for name in names("tma") if "partition" in CASES[name]["expect"]]


# ---- CuTe's prints read back ----


def smem_layout(text: str) -> Layout | ComposedLayout:
    swizzled = re.fullmatch(r"Sw<(\d+),(\d+),(\d+)> o (?:_0|smem_ptr\[\d+b\]\(unset\)) o (.*)", text)
    if not swizzled:
        return parse_cpp(text)
    *parameters, outer = swizzled.groups()
    return ComposedLayout(Swizzle(*map(int, parameters)), 0, parse_cpp(outer))


def numbers(text: str) -> Any:
    """A nested tuple of C++'s numbers; `_8` becomes 8, 8 becomes one that is known at run time."""

    def convert(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(convert(v) for v in value)
        return int(value[1:]) if isinstance(value, str) else Dynamic(value)

    return convert(regenerate.parse(text))


# ---- one trace a case ----


@cache
def atom_of(name: str) -> TmaTrace:
    """The trace of a case, from what the C++ program was given."""
    case = CASES[name]
    expect = case["expect"]
    slayout = smem_layout(expect["slayout"])
    if case["kind"] == "tma":
        tiler, dtype, multicast = numbers(case["tiler"]), case["dtype"], case["multicast"]
        internal = None if case["internal"] == dtype else case["internal"]
    elif case["kind"] == "wgmma":
        tiler, dtype, multicast, internal = (128, 64), "f16", 1, None
    else:
        shared = 2 if case["operand"] == "A" else 1
        multicast = make_cluster_layout_vmnk((4, 4, 1), case["thr_id"]).shape[shared]
        # two SMs: the tiler is the map from a CTA's values to coordinates that the MMA's partition gives
        tiler, dtype, internal = parse_cpp(expect["cta_v_tile"]), "f16", None
        tiler = tiler if case["thr_id"] == 2 else tuple(tiler.shape)
    return trace_tma_atom(
        parse_cpp(expect["gtensor"]), slayout, tiler, dtype, multicast, internal, check=False
    )


LAYOUTS = [
    "smem_swizzle", "smem_layout", "inv_smem_layout", "sidx2gmode_full", "smem_rank", "sidx2gmode",
    "tile_gstride", "tma_gstride", "gbasis", "tile_gbasis_tmp", "tile_gbasis", "tma_gbasis_tile", "gtensor_T",
    "tile_gbasis_remaining_stride", "tma_gbasis_full", "tma_gbasis", "gmem_tma_basis_stride",
]  # fmt: skip


def without_idle_steps(text: str) -> str:
    """A layout's text in which a static extent of 1 steps by nothing.

    Composed with a tile of extent 1, C++ keeps the mode's basis and the algebra here, as the DSL, does not;
    nobody can tell, for the only coordinate of such a mode is 0.
    """
    layout = parse_cpp(text)
    pairs = list(zip(layout.shape, layout.stride, strict=True))
    stride = tuple(0 if cpp_str(extent) == "_1" else step for extent, step in pairs)
    return cpp_str(Layout.unchecked(layout.shape, stride))


@pytest.mark.parametrize("name", ATOMS)
def test_trace_tma_atom__computes_every_value_of_cutlass(name: str) -> None:
    case = CASES[name]
    expect, trace = case["expect"], atom_of(name)
    for field in LAYOUTS:
        assert cpp_str(getattr(trace, field)) == expect[field], field
    assert without_idle_steps(cpp_str(trace.cta_v_tile)) == without_idle_steps(expect["cta_v_tile"])
    for field in ("gmem_prob_shape", "gmem_prob_stride", "smem_box_shape_pre_mcast"):
        assert list(getattr(trace, field)) == expect[field], field
    num, den = trace.recast_ratio
    assert f"_{num}/_{den}" == expect["recast_ratio"]
    assert trace.num_val_src == expect["num_val_src"]
    assert cpp_str(trace.get_tma_tensor()) == expect["tma_tensor"]


@pytest.mark.parametrize("name", ATOMS)
def test_trace_tma_atom__passes_the_driver_what_cutlass_passes_it(name: str) -> None:
    case = CASES[name]
    encode, trace = case["expect"]["encode"], atom_of(name)
    encoding, dimensions = trace.encoding, encode["rank"]
    assert trace.rank == dimensions
    assert trace.tma_format == encode["format"]
    assert list(encoding.dims) == encode["dims"]
    assert list(encoding.strides_bytes) == encode["strides"]
    assert list(encoding.box) == encode["box"]
    assert list(trace.smem_box_shape) == encode["box"] + [1] * (5 - dimensions)
    assert list(encoding.element_strides or [1] * dimensions) == encode["element_strides"]
    assert trace.smem_swizzle_mode == encode["swizzle"]
    assert encode["interleave"] == 0
    assert encoding.interleave == "none"
    assert encode["oob_fill"] == 0
    assert encoding.oob_fill == "zeros"


def test_trace_tma_atom__has_nothing_of_the_multicast_but_the_box() -> None:
    """The same tile for one, four and eight CTAs: the descriptor differs in its box alone."""
    one, four, eight = (CASES[f"problem-A{n}"]["expect"]["encode"] for n in ("", 4, 8))
    for key in one:
        assert (one[key] == four[key] == eight[key]) == (key != "box"), key
    traces = [atom_of(f"problem-A{n}").encoding for n in ("", 4, 8)]
    assert [t.box for t in traces] == [(64, 128), (64, 32), (64, 16)]


# ---- what CUTLASS refuses ----

RULES = {  # the assertion that CUTLASS breaks off with -> the rule that ours names
    "(gmem_prob_stride[1] & 0b1111) == 0": "stride_multiple",
    "(gmem_prob_stride[2] & 0b1111) == 0": "stride_multiple",
    "smem_box_shape[0] <= (uint32_t(1) << 8)": "box",
    "smem_box_shape[1] <= (uint32_t(1) << 8)": "box",
    "smem_box_shape[i] % multicast == 0 || multicast % smem_box_shape[i] == 0": "multicast_divides",
    "TMA requires CTA_Tile and SLayout top-level size equivalence.": "tile_size",
    "Could not find a common tile-gmem vectorization. "
    "Does the Tile select out major GMEM modes?": "vectorization",
    "Unsupported layout swizzle.": "swizzle",
    "Expected S = 3 when M == 4. Unsupported layout swizzle.": "swizzle",
    # the compiler's words for a tile whose size it would learn only at run time
    "‘value’ is not a member of ‘bool’": "static_box",
}  # fmt: skip


def refused_arguments(case: Case) -> tuple[Any, ...]:
    smem = case["expect"].get("slayout") or case["smem"]
    smem = re.sub(r"^(Sw<.*?> o )(?=\()", r"\1_0 o ", smem)
    if smem.startswith("K_SW128 "):
        smem = re.sub(r".*\(_(\d+),_64\)$", r"Sw<3,4,3> o _0 o (_\1,_64):(_64,_1)", smem)
    multicast, internal = case["multicast"], case["internal"]
    return (
        parse_cpp(case["gmem"]),
        smem_layout(smem),
        numbers(case["tiler"]),
        case["dtype"],
        multicast,
        internal,
    )


@pytest.mark.parametrize("name", [n for n in names("tma", refused=True) if n != "refused-extent"])
def test_trace_tma_atom__refuses_what_cutlass_refuses(name: str) -> None:
    case = CASES[name]
    reason = case["expect"]["refused"]
    with pytest.raises(TmaError) as caught:
        trace_tma_atom(*refused_arguments(case))
    assert caught.value.rule == ("majorness" if "Majorness" in reason else RULES[reason])


def test_trace_tma_atom__is_given_no_extent_of_zero() -> None:
    assert CASES["refused-extent"]["expect"]["refused"] == "gmem_prob_shape[1] >= (uint64_t(1))"
    with pytest.raises(CourseError):
        parse_cpp(CASES["refused-extent"]["gmem"])


def test_trace_tma_atom__knows_rules_of_the_driver_that_cutlass_does_not_assert() -> None:
    """Eight CTAs share a box of 16 elements: CUTLASS passes on the inner side of 8 bytes that is left."""
    assert CASES["multicast-over-three"]["expect"]["encode"]["box"] == [2, 1, 1]
    refused = {}
    for name in ATOMS:
        try:
            atom_of(name).encoding.check()
        except TmaError as error:
            refused[name] = error.rule
    assert refused == {"multicast-over-three": "inner_multiple"}


# ---- tma_partition ----

STEPS = [
    "inv_smem_layout", "layout_v", "tma_layout_v", "layout_V", "glayout_V", "slayout_V", "gtensor_v",
]  # fmt: skip
STEPS_OF_A_CTA = ["multicast_offset", "multicast_coord", "gcoord", "scoord", "gresult"]


def check_partition(part: TmaPartition, expect: Case, cta: Case) -> None:
    for step in STEPS:
        assert cpp_str(getattr(part, step)) == expect[step], step
    for step in STEPS_OF_A_CTA:
        assert cpp_str(getattr(part, step)) == str(cta[step]), step
    assert cpp_str(get_nonswizzle_portion(part.stensor_v.layout)) == expect["stensor_v"]
    assert cpp_str(get_nonswizzle_portion(part.sresult.layout)) == cta["sresult"]
    assert part.sresult.offset == cta["sresult_offset"]


@pytest.mark.parametrize("name", PARTITIONED)
def test_tma_partition__computes_every_step_of_cutlass(name: str) -> None:
    case = CASES[name]
    expect = case["expect"]["partition"]
    trace, tiler = atom_of(name), numbers(case["tiler"])
    tiles = trace.get_tma_tensor().local_tile(tiler, (None,) * len(tiler)).group_modes(0, len(tiler))
    if len(tiler) > 1:  # of a tuple of one, local_tile in C++ keeps a pair of parentheses more
        assert cpp_str(tiles) == expect["gtensor"]
    assert [cta["cta"] for cta in expect["ctas"]] == list(range(case["multicast"]))
    for cta in expect["ctas"]:
        cta_layout = parse_cpp(expect["cta_layout"])
        part = tma_partition(trace, Dynamic(cta["cta"]), cta_layout, parse_cpp(expect["stensor"]), tiles)
        check_partition(part, expect, cta)
        smem, gmem = part
        assert (smem, gmem) == (part.sresult, part.gresult)


@pytest.mark.parametrize("name", names("wgmma"))
def test_tma_partition__computes_the_example_without_a_cluster(name: str) -> None:
    case = CASES[name]
    expect = case["expect"]
    trace = atom_of(name)
    assert trace.tile_bytes == expect["bytes"]
    start, layout = expect["partition"]["gtensor"].split(" o ")
    tensor = LayoutTensor(parse_cpp(layout), numbers(start.removeprefix("ArithTuple")))
    [cta] = expect["partition"]["ctas"]
    part = tma_partition(trace, Dynamic(0), Layout(1), parse_cpp(expect["partition"]["stensor"]), tensor)
    check_partition(part, expect["partition"], cta)
    for load in expect["loads"]:
        # what each stage of the prefetch asks for, whether or not the tensor has that tile
        tile = part.gresult((None, load["load"]))
        first = tuple(int(c) for c in tile(0))
        assert str(first).replace(" ", "") == load["first_coordinate"]
        assert tile.layout.shape[0][1] == numbers(load["iterations"]) or (
            cpp_str(trace.instructions) == load["iterations"]
        )


@pytest.mark.parametrize("name", names("blackwell"))
def test_tma_partition__computes_the_tutorials_of_one_and_two_sms(name: str) -> None:
    case = CASES[name]
    expect, trace = case["expect"], atom_of(name)
    assert len(expect["peers"]) == case["thr_id"]
    for peer in expect["peers"]:
        start, layout = peer["partition"]["gtensor"].split(" o ")
        tensor = LayoutTensor(parse_cpp(layout), numbers(start.removeprefix("ArithTuple")))
        assert peer["bytes"] == trace.tile_bytes
        for cta in peer["partition"]["ctas"]:
            part = tma_partition(
                trace,
                Dynamic(cta["cta"]),
                parse_cpp(peer["partition"]["cta_layout"]),
                parse_cpp(peer["partition"]["stensor"]),
                tensor,
            )
            check_partition(part, peer["partition"], cta)


# ---- clusters ----


@pytest.mark.parametrize("name", names("cluster"))
def test_create_tma_multicast_mask__is_cutlass_s_for_every_cta(name: str) -> None:
    case = CASES[name]
    shape = numbers(case["shape"])
    cluster = make_cluster_layout_vmnk(shape, Layout(case["v"]))
    assert cpp_str(cluster) == case["expect"]["cluster_layout_vmnk"]
    masks = case["expect"]["masks"]
    assert len(masks) == cluster_size(shape)
    for cta, (text, *expected) in enumerate(masks):
        coordinate = cluster.get_flat_coord(cta)
        assert tuple(coordinate) == tuple(numbers(text))
        computed = [
            create_tma_multicast_mask(cluster, coordinate, *modes)
            for modes in ((2,), (1,), (0, 1), (0, 2), (), (3,))
        ]
        assert [f"{mask:04x}" for mask in computed] == expected


def cluster_size(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


# ---- the data ----


def test_cases__are_those_of_the_generator() -> None:
    kept = [{key: value for key, value in case.items() if key != "expect"} for case in DATA["cases"]]
    assert kept == json.loads(json.dumps(regenerate.all_cases()))
    assert regenerate.PROGRAM.data.read_text() == cutlass_cpp.dump(DATA)


def test_cases__cover_every_stratum() -> None:
    atoms = [CASES[name] for name in names("tma")]
    assert len(atoms) >= 60
    grid = {name for name in names("tma") if re.fullmatch(r"(K|MN)-\w+-\d+", name)}
    assert len(grid) == 2 * 4 * 4
    assert {case["multicast"] for case in atoms} == {1, 2, 4, 8}
    assert set(Counter(case["expect"]["encode"]["rank"] for case in atoms)) == {1, 2, 3, 4, 5}
    assert {case["expect"]["encode"]["swizzle"] for case in atoms} >= {0, 1, 2, 3}
    assert sum(case["internal"] != case["dtype"] for case in atoms) >= 4
    assert sum(ragged(case) for case in atoms) >= 10
    assert sum("((" in case["gmem"] or ",(" in case["gmem"] for case in atoms) >= 10
    assert sum("_" not in case["gmem"].split(":")[0] for case in atoms) >= 20


def ragged(case: Case) -> bool:
    """Whether the tile does not divide the tensor along some mode that is not nested."""
    shape, tile = regenerate.parse(case["gmem"].split(":")[0]), regenerate.parse(case["tiler"])
    pairs = zip(shape, tile, strict=True) if isinstance(shape, tuple) else [(shape, tile)]
    flat = [(int(str(s).strip("_")), int(str(t).strip("_"))) for s, t in pairs if not isinstance(s, tuple)
            and not isinstance(t, tuple)]  # fmt: skip
    return any(extent % part for extent, part in flat)


@pytest.mark.program("nvcc")
@pytest.mark.inputs("tests/tma/cpp", "tests/support/cutlass_cpp.py")
def test_data__is_what_the_headers_print_now() -> None:
    """A configuration of each kind; `regenerate.py --check` does all of them, in about two minutes."""
    assert metadata.version("nvidia-cutlass") == DATA["cutlass"]
    wanted = ("cluster-4x4-v2", "rank3-order", "as-wide", "K-SW128-16", "refused-stride")
    cases = [CASES[name] for name in wanted]
    include, nvcc = cutlass_cpp.include_folder(), shutil.which("nvcc")
    assert isinstance(include, Path)
    assert nvcc is not None
    spec = [{key: value for key, value in case.items() if key != "expect"} for case in cases]
    few = dataclasses.replace(regenerate.PROGRAM, cases=lambda: spec)
    assert few.collect(include, nvcc)["cases"] == cases
