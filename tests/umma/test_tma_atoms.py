"""The TMA atoms of an MMA's operands: every value as CUTLASS's make_tma_atom_A_sm100 and _B_ compute it.

`cpp/tma_atoms.json` keeps what the headers said; `cpp/regenerate_tma_atoms.py` asks them again.
"""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from typing import Any

import pytest
from tma.cpp.regenerate import parse
from umma.cpp import regenerate_tma_atoms
from umma.cutlass_data import plain

from cutecourse.errors import CourseError
from cutecourse.layout import Layout, make_identity_layout, size
from cutecourse.tma import TmaError, cpp_str, parse_cpp, static, tma_coords
from cutecourse.umma import (
    TMA_COPY_OPS,
    TmaAtomTrace,
    TmaCopyOp,
    UmmaError,
    make_smem_layout_atom,
    make_tiled_mma,
    make_tma_atom_A_sm100,
    make_tma_atom_B_sm100,
    partition_shape_A,
    partition_shape_B,
    tile_to_mma_shape,
)
from support import cutlass_cpp

Case = dict[str, Any]

DATA = json.loads(regenerate_tma_atoms.PROGRAM.data.read_text())
CASES: dict[str, Case] = {case["case"]: case for case in DATA["cases"]}
MADE = [name for name, case in CASES.items() if "refused" not in case["expect"]]
REFUSED = [name for name in CASES if name not in MADE]


def extents(text: str) -> tuple[int, ...]:
    return tuple(int(part.lstrip("_")) for part in parse(text))


@cache
def atom_of(name: str) -> TmaAtomTrace:
    """The atom of a case, from what the C++ program was given and no value that it printed."""
    case = CASES[name]
    op = f"SM100_MMA_F16BF16_{case['op']}"
    types = (case["a"], case["b"], case["c"])
    mma = make_tiled_mma(op, *types, case["m"], case["n"], case["a_major"], case["b_major"])
    m, n, k, *_ = extents(case["smem_tiler"])
    shape = partition_shape_A(mma, (m, k)) if case["operand"] == "A" else partition_shape_B(mma, (n, k))
    slayout = tile_to_mma_shape(make_smem_layout_atom(case["atom"], case["a"]), shape).result
    make = make_tma_atom_A_sm100 if case["operand"] == "A" else make_tma_atom_B_sm100
    cluster = mma.cluster_layout_vmnk(extents(case["cluster"]))
    return make(case["copy_op"], parse_cpp(case["gmem"]), slayout, extents(case["tiler"]), mma, cluster)


def without_idle_steps(text: str) -> str:
    """A layout's text in which a static extent of 1 steps by nothing: C++ keeps its basis, we do not."""
    layout = parse_cpp(text)

    def step(shape: Any, stride: Any) -> Any:
        if isinstance(shape, tuple):
            return tuple(step(s, d) for s, d in zip(shape, stride, strict=True))
        return 0 if cpp_str(shape) == "_1" else stride

    return cpp_str(Layout.unchecked(layout.shape, step(layout.shape, layout.stride)))


TMA_VALUES = [
    "smem_swizzle", "smem_layout", "inv_smem_layout", "sidx2gmode_full", "smem_rank", "sidx2gmode",
    "tile_gstride", "tma_gstride", "gbasis", "tile_gbasis_tmp", "tile_gbasis", "tma_gbasis_tile", "gtensor_T",
    "tile_gbasis_remaining_stride", "tma_gbasis_full", "tma_gbasis", "gmem_tma_basis_stride",
]  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_make_tma_atom__computes_every_value_of_cutlass(name: str) -> None:
    expect, atom = CASES[name]["expect"], atom_of(name)
    assert cpp_str(static(atom.cluster_shape)) == expect["cluster_shape"]
    assert cpp_str(atom.operand_tiler) == expect["mma_tiler"]
    for field in ("g_tile", "frg", "cta_v_tile"):
        assert without_idle_steps(cpp_str(getattr(atom, field))) == without_idle_steps(expect[field]), field
    for field in TMA_VALUES:
        assert cpp_str(getattr(atom.tma, field)) == expect[field], field
    assert atom.num_val_src == expect["num_val_src"]
    assert cpp_str(atom.thr_id) == expect["thr_id"]
    assert cpp_str(atom.get_tma_tensor()) == expect["tma_tensor"]


@pytest.mark.parametrize("name", MADE)
def test_make_tma_atom__passes_the_driver_what_cutlass_passes_it(name: str) -> None:
    encode, atom = CASES[name]["expect"]["encode"], atom_of(name)
    encoding, dimensions = atom.tma.encoding, encode["rank"]
    assert list(encoding.dims) == encode["dims"]
    assert list(encoding.strides_bytes) == encode["strides"]
    assert list(encoding.box) == encode["box"]
    assert atom.tma.tma_format == encode["format"]
    assert atom.tma.smem_swizzle_mode == encode["swizzle"]
    assert atom.ptx.startswith(f"cp.async.bulk.tensor.{dimensions}d.")


@pytest.mark.parametrize("name", MADE)
def test_make_tma_atom__partitions_its_coordinates_as_cutlass(name: str) -> None:
    """What each CTA of the MMA gets of the tensor's coordinates: where the halves of a pair start."""
    case, atom = CASES[name], atom_of(name)
    tiles = atom.get_tma_tensor().local_tile(atom.operand_tiler, (None,) * len(atom.operand_tiler))
    assert len(case["expect"]["peers"]) == size(atom.mma.thr_id)
    for peer in case["expect"]["peers"]:
        cta = atom.mma.get_slice(peer["peer"])
        part = cta.partition_A(tiles) if case["operand"] == "A" else cta.partition_B(tiles)
        # the peer is a number of the running program there, and so is where its part starts
        assert plain(cpp_str(part)) == plain(peer["tCg"])


RULES = {
    "TMA requires CTA_Tile and SLayout top-level size equivalence.": (TmaError, "tile_size"),
    "Unsupported TMA": (UmmaError, "copy_op"),
    'gmem_prob_stride[0] == 1 && "Majorness of smem doesn\'t match majorness of gmem"': (
        TmaError,
        "majorness",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_make_tma_atom__refuses_what_cutlass_refuses(name: str) -> None:
    kind, rule = RULES[CASES[name]["expect"]["refused"]]
    with pytest.raises(CourseError) as info:
        atom_of(name)
    assert isinstance(info.value, kind)
    assert info.value.rule == rule


def test_cases__cover_both_operands_every_operation_and_cluster() -> None:
    made = [CASES[name] for name in MADE]
    assert len(made) >= 32
    assert {(case["operand"], case["copy_op"]) for case in made} == {
        (operand, op) for operand in "AB" for op in TMA_COPY_OPS
    }
    assert len({case["cluster"] for case in made}) >= 8
    assert {case["a_major"] for case in made} == {"K", "MN"}


def test_cases__are_those_of_the_generator() -> None:
    kept = [{key: value for key, value in case.items() if key != "expect"} for case in DATA["cases"]]
    assert kept == json.loads(json.dumps(regenerate_tma_atoms.all_cases()))


@pytest.mark.program("nvcc")
@pytest.mark.inputs("tests/umma/cpp", "tests/support/cutlass_cpp.py")
def test_data__is_what_the_headers_say_now() -> None:
    include, nvcc = cutlass_cpp.include_folder(), shutil.which("nvcc")
    assert nvcc is not None
    again = ["04-tall-B"]
    cases = [{key: value for key, value in CASES[name].items() if key != "expect"} for name in again]
    answers = regenerate_tma_atoms.PROGRAM.answer(cases, include, nvcc)
    assert answers == {name: CASES[name]["expect"] for name in again}


# ---- laws ----


@pytest.mark.parametrize("operand", ["A", "B"])
def test_make_tma_atom__lets_the_pair_load_every_element_once(operand: str) -> None:
    """Both CTAs' parts of one MMA tile: together the whole tile, no element twice."""
    atom = atom_of(f"04-{operand}")
    rows, columns = atom.operand_tiler
    seen = []
    for peer in range(2):
        cta = atom.mma.get_slice(peer)
        part = getattr(cta, f"partition_{operand}")(make_identity_layout((rows, columns)))
        seen += [tuple(part(index)) for index in range(part.size)]
    assert sorted(seen) == [(row, column) for row in range(rows) for column in range(columns)]


@pytest.mark.parametrize("name", ["03-A", "04-wide-B", "04-INTER-A", "pair-mixed-A", "pair-two-B"])
def test_make_tma_atom__takes_as_many_instructions_as_cutlass(name: str) -> None:
    atom, expect = atom_of(name), CASES[name]["expect"]
    assert len(tma_coords(atom.tma, (0,) * len(atom.operand_tiler))) > 0
    assert atom.tma.instructions * expect["num_val_src"] == size(atom.cta_v_tile)
    assert atom.tile_bytes == 2 * size(atom.cta_v_tile)


# ---- operations ----


@pytest.mark.parametrize("op", TMA_COPY_OPS.values(), ids=lambda op: op.name)
@pytest.mark.parametrize("dims", [2, 3])
def test_copy_op__has_the_instruction_and_the_mask_of_the_header(op: TmaCopyOp, dims: int) -> None:
    folder = cutlass_cpp.include_folder()
    header = (folder / "cute" / "arch" / f"copy_{op.name.split('_')[0].lower()}_tma.hpp").read_text()
    struct = header.split(f"struct {op.name}_{dims}D")[1].split("struct ")[0]
    instructions = [text.strip() for text in re.findall(r'"(cp\.async[^"]*)"', struct)]
    assert op.ptx(dims) in [text.split(" ")[0] for text in instructions]
    assert ("Sm100MmaPeerBitMask" in struct) == (op.peer_mask is not None)
    if op.peer_mask is not None:
        assert f"Sm100MmaPeerBitMask = 0x{op.peer_mask:X};" in header


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("copy_op", {"copy_op": "SM80_CP_ASYNC"}),
        ("family", {"copy_op": "SM100_TMA_LOAD_2D_GATHER4"}),
        ("mma_tiler", {"mma_tiler": (256, 64)}),
        ("mma_tiler", {"mma_tiler": (256, 256, 64, 1)}),
        ("cluster_shape", {"cluster_shape": (4, 4, 1)}),
    ],
)
def test_make_tma_atom__refuses_by_name(rule: str, changes: dict[str, Any]) -> None:
    known = atom_of("04-A")
    arguments = {
        "copy_op": known.op, "gtensor": known.gtensor, "slayout": known.slayout,
        "mma_tiler": known.mma_tiler, "mma": known.mma, "cluster_shape": known.cluster_shape, **changes,
    }  # fmt: skip
    with pytest.raises(UmmaError) as info:
        make_tma_atom_A_sm100(**arguments)
    assert info.value.rule == rule


def test_make_tma_atom__drops_the_stages_of_shared_memory() -> None:
    """As the CuTe DSL does; C++ wants one stage."""
    known = atom_of("04-A")
    shape = (*partition_shape_A(known.mma, (256, 64)), 3)
    staged = tile_to_mma_shape(make_smem_layout_atom("K_SW128", "f16"), shape).result
    atom = make_tma_atom_A_sm100(
        known.op, known.gtensor, staged, known.mma_tiler, known.mma, known.cluster_shape
    )
    assert atom.tma.slayout == known.tma.slayout
    assert atom.tma.encoding == known.tma.encoding


def test_tma_atom__explains_itself_with_the_steps_of_the_tensor_map() -> None:
    for operand, kept in (("A", "mma_tiler_mk"), ("B", "mma_tiler_nk")):
        atom = atom_of(f"04-{operand}")
        explanation = atom.explain()
        assert explanation.operation == f"make_tma_atom_{operand}_sm100"
        own = [step.rule for step in explanation.steps if step.level == 0]
        expected = ["remove", "compose", f"thrfrg_{operand}", "layout<1>", "slice", "multicast", "result"]
        assert own == expected
        named = {name: value for step in explanation.steps for name, value in step.values}
        assert named[kept] == (256, 64)
        assert named["cta_v_tile"] == atom.cta_v_tile
        assert named["tma_gbasis"] == atom.tma_gbasis
        assert {step.operation for step in explanation.steps if step.level} == {"make_tma_copy_atom"}
        snapshot = json.loads(json.dumps(atom.to_snapshot()))
        assert snapshot["num_multicast"] == (4 if operand == "A" else 2)
        assert snapshot["tma"]["instructions"] == 1
