"""The MMA of one and of two SMs: traits, tiling and partitions as CUTLASS's headers make them."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
from umma.cutlass_data import CASES, cpp, names, nested, plain, without_pointer

from cutecourse.atoms import LayoutTensor
from cutecourse.atoms.tensor import as_tensor
from cutecourse.descriptors import INSTR_SM100
from cutecourse.layout import Layout, make_identity_layout, size
from cutecourse.umma import (
    TiledUmma,
    UmmaError,
    make_fragment_C,
    make_smem_layout_atom,
    make_tiled_mma,
    make_tmem_copy,
    partition_shape_A,
    partition_shape_B,
    partition_shape_C,
    tile_to_mma_shape,
)
from support import cutlass_cpp


def headers(folder: str, name: str) -> str:
    include = cutlass_cpp.include_folder()
    return (include / "cute" / folder / name).read_text()


def mma_of(case: dict[str, Any]) -> TiledUmma:
    op = f"SM100_MMA_F16BF16_{case['op']}"
    return make_tiled_mma(
        op, case["a"], case["b"], case["c"], case["m"], case["n"], case["a_major"], case["b_major"]
    )


# ---- atoms ----


@pytest.mark.parametrize("name", names("atom"))
def test_make_tiled_mma__has_the_traits_of_cutlass(name: str) -> None:
    expect, mma = CASES[name]["expect"], mma_of(CASES[name])
    for field in ("shape_mnk", "thr_id", "layout_a", "layout_b", "layout_c", "thr_layout_vmnk", "tile_shape"):
        assert cpp(getattr(mma, field)) == plain(expect[field]), field
    assert mma.idesc == expect["idesc"]


RULES = {
    "M-mode size should be": "m_size",
    "N-mode size should be": "n_size",
    "supports 16bit types": "dtype",
}


@pytest.mark.parametrize("name", names("atom", refused=True))
def test_make_tiled_mma__refuses_what_cutlass_refuses(name: str) -> None:
    reason = CASES[name]["expect"]["refused"]
    with pytest.raises(UmmaError) as info:
        mma_of(CASES[name])
    assert info.value.rule == next(rule for part, rule in RULES.items() if part in reason)


@pytest.mark.parametrize(
    ("rule", "op"),
    [
        ("family", "SM100_MMA_TF32_SS"),
        ("family", "SM100_MMA_F16BF16_TS"),
        ("family", "SM100_MMA_MXF8F6F4_2x1SM_SS"),
        ("family", "SM100_MMA_F16BF16_SS_SPARSE"),
        ("op", "SM100_MMA_F32_SS"),
    ],
)
def test_make_tiled_mma__refuses_other_operations_by_name(rule: str, op: str) -> None:
    with pytest.raises(UmmaError, match=op) as info:
        make_tiled_mma(op, "f16", "f16", "f32", 128, 128)
    assert info.value.rule == rule


def test_make_tiled_mma__makes_or_refuses_by_name_every_operation_of_the_header() -> None:
    header = headers("arch", "mma_sm100_umma.hpp")
    names_there = re.findall(r"^struct (SM100_MMA_\w+)", header, re.MULTILINE)
    assert len(names_there) >= 30
    ours = {"SM100_MMA_F16BF16_SS", "SM100_MMA_F16BF16_2x1SM_SS"}
    for op in ours:
        assert make_tiled_mma(op, "f16", "f16", "f32", 128, 128).op in names_there
    for op in set(names_there) - ours:
        with pytest.raises(UmmaError, match=op) as info:
            make_tiled_mma(op, "f16", "f16", "f32", 128, 128)
        assert info.value.rule == "family", op


@pytest.mark.parametrize("op", ["SM100_MMA_F16BF16_SS", "SM100_MMA_F16BF16_2x1SM_SS"])
def test_make_tiled_mma__names_the_fragments_as_the_traits(op: str) -> None:
    traits = headers("atom", "mma_traits_sm100.hpp").split(f"struct MMA_Traits<{op}<")[1].split("};")[0]
    frg = dict(re.findall(r"using FrgType([ABC]) = (.*?);", traits))
    mma = make_tiled_mma(op, "f16", "bf16", "f32", 128, 128, "K", "MN")
    assert mma.frg_type_a == frg["A"].replace("a_major", "UMMA::Major::K")
    assert mma.frg_type_b == frg["B"].replace("b_major", "UMMA::Major::MN")
    assert mma.frg_type_c == frg["C"].replace("c_type", "f32")
    assert mma.val_types == ("f32", "f16", "bf16", "f32")


def test_make_tiled_mma__refuses_types_and_ctas() -> None:
    for rule, types in (
        ("dtype", ("s16", "f16", "f32")),
        ("c_type", ("f16", "f16", "s32")),
        ("c_type", ("bf16", "f16", "f16")),
    ):
        with pytest.raises(UmmaError) as info:
            make_tiled_mma("SM100_MMA_F16BF16_SS", *types, 128, 128)
        assert info.value.rule == rule
    mma = make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS", "f16", "f16", "f32", 256, 128)
    with pytest.raises(UmmaError, match="no CTA 2") as info:
        mma.get_slice(2)
    assert info.value.rule == "cta"
    with pytest.raises(UmmaError) as info:
        mma.cluster_layout_vmnk((3, 2, 1))
    assert info.value.rule == "cluster"
    with pytest.raises(UmmaError) as info:
        mma.get_slice(0).make_fragment_A(make_smem_layout_atom("K_SW128", "f16"))
    assert info.value.rule == "fragment"


@pytest.mark.parametrize("m", [128, 256])
def test_layouts__give_every_cell_of_a_and_c_to_one_cta(m: int) -> None:
    mma = make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS", "f16", "f16", "f32", m, 64)
    for layout in (mma.layout_a, mma.layout_b, mma.layout_c):
        cells = [layout(index) for index in range(int(size(layout)))]
        assert sorted(cells) == list(range(len(cells)))


def test_tiled_umma__explains_itself() -> None:
    mma = make_tiled_mma("SM100_MMA_F16BF16_SS", "f16", "f16", "f32", 128, 256)
    assert json.loads(json.dumps(mma.to_snapshot()))["thr_id"] == "1:0"
    assert "ThrID" in str(mma.explain())
    named = {name for step in mma.explain().steps for name, _ in step.values}
    assert named >= {"ptx", "shape_mnk", "frg_type_c", "thr_id", "layout_a", "idesc_hex", "thr_layout_vmnk"}
    part = mma.get_slice(0).explain_partition("C", make_identity_layout((128, 256)))
    made = mma.get_slice(0).partition_C(make_identity_layout((128, 256)))
    assert str(part.result) == str(made)
    assert max(step.level for step in part.steps) == 1
    assert mma.instruction.format is INSTR_SM100
    assert {part.field.name: part.meant for part in mma.instruction.fields}["n_dim"] == "256 columns"


# ---- the examples ----


M, N, K = 512, 1024, 256


def _tile(tensor: LayoutTensor, tiler: tuple[int, ...], proj: tuple[Any, ...]) -> LayoutTensor:
    return tensor.local_tile(tiler, (1, 2, None), proj)


@cache
def tiles(name: str) -> dict[str, LayoutTensor]:
    """The tiles of the MMA at (1, 2) of the data and of the coordinates."""
    tiler = nested(CASES[name]["tiler"])
    steps = {"A": (1, None, 1), "B": (None, 1, 1), "C": (1, 1, None)}
    shapes = {"A": (M, K), "B": (N, K), "C": (M, N)}
    made = {}
    for operand, shape in shapes.items():
        data = as_tensor(Layout(shape, (shape[1], 1)))
        coords = as_tensor(make_identity_layout(shape))
        made[f"g{operand}"] = _tile(data, tiler, steps[operand])
        made[f"c{operand}"] = _tile(coords, tiler, steps[operand])
    return made


def peers(name: str) -> range:
    return range(2 if CASES[name]["op"].startswith("2x1SM") else 1)


def printed(name: str, key: str, peer: int) -> str:
    value = CASES[name]["expect"][key]
    return plain(value[peer] if isinstance(value, list) else value)


@pytest.mark.parametrize("name", names("example"))
def test_example__has_the_shapes_and_layouts_of_cutlass(name: str) -> None:
    case = CASES[name]
    expect, mma, tiler = case["expect"], mma_of(case), nested(case["tiler"])
    assert cpp(mma.cluster_layout_vmnk(nested(case["cluster"]))) == plain(expect["cluster_layout_vmnk"])
    shape_a = partition_shape_A(mma, (tiler[0], tiler[2]))
    shape_b = partition_shape_B(mma, (tiler[1], tiler[2]))
    shape_c = partition_shape_C(mma, (tiler[0], tiler[1]))
    for key, shape in (("A", shape_a), ("B", shape_b), ("C", shape_c)):
        assert cpp(shape) == plain(expect[f"partition_shape_{key}"])
    atom = make_smem_layout_atom("K_SW128", "f16")
    for key, shape in (("sA", shape_a), ("sB", shape_b)):
        assert cpp(tile_to_mma_shape(atom, shape).result) == without_pointer(expect[key])


@pytest.mark.parametrize("name", names("example"))
def test_example__partitions_data_and_coordinates_as_cutlass(name: str) -> None:
    mma, made = mma_of(CASES[name]), tiles(name)
    for operand in "ABC":
        assert cpp(made[f"g{operand}"]) == plain(CASES[name]["expect"][f"g{operand}"])
    for peer in peers(name):
        cta = mma.get_slice(peer)
        for operand in "ABC":
            partition = getattr(cta, f"partition_{operand}")
            assert cpp(partition(made[f"g{operand}"])) == printed(name, f"tCg{operand}", peer)
            assert cpp(partition(made[f"c{operand}"])) == printed(name, f"tCc{operand}", peer)


@pytest.mark.parametrize("name", names("example"))
def test_example__has_the_fragments_and_descriptors_of_cutlass(name: str) -> None:
    case = CASES[name]
    mma, tiler = mma_of(case), nested(case["tiler"])
    atom = make_smem_layout_atom("K_SW128", "f16")
    sA = tile_to_mma_shape(atom, partition_shape_A(mma, (tiler[0], tiler[2]))).result
    sB = tile_to_mma_shape(atom, partition_shape_B(mma, (tiler[1], tiler[2]))).result
    fragment = make_fragment_C(partition_shape_C(mma, tiler[:2]), "f32", mma.cta_group)
    for peer in peers(name):
        cta = mma.get_slice(peer)
        tCrA, tCrB = cta.make_fragment_A(sA, 1024), cta.make_fragment_B(sB, 1024 + 2 * 16384)
        assert cpp(tCrA.layout) == printed(name, "tCrA", peer)
        assert cpp(tCrB.layout) == printed(name, "tCrB", peer)
        assert str(tCrA(0)) == printed(name, "desc_a", peer)
        assert str(tCrB(0)) == printed(name, "desc_b", peer)
        assert cpp(fragment.layout) == printed(name, "tCtAcc", peer)


@pytest.mark.parametrize("name", [name for name in names("example") if "tDtAcc" in CASES[name]["expect"]])
def test_example__loads_the_accumulator_as_cutlass(name: str) -> None:
    """Every thread that the C++ program asks for: its place, its part of C and of C's coordinates."""
    case = CASES[name]
    mma, made, tiler = mma_of(case), tiles(name), nested(case["tiler"])
    fragment = make_fragment_C(partition_shape_C(mma, tiler[:2]), "f32", mma.cta_group)
    copy = make_tmem_copy("SM100_TMEM_LOAD_32dp32b1x", fragment)
    expect = case["expect"]
    threads = len(expect["thread"]) // len(peers(name))
    for index, thread in enumerate(expect["thread"]):
        cta = mma.get_slice(index // threads)
        source = copy.partition_S(thread)
        assert source.offset == expect["tDtAcc.address"][index]
        assert cpp(source.layout) == printed(name, "tDtAcc", index)
        assert cpp(copy.partition_D(thread, cta.partition_C(made["gC"]))) == printed(name, "tDgC", index)
        assert cpp(copy.partition_D(thread, cta.partition_C(made["cC"]))) == printed(name, "tDcC", index)
