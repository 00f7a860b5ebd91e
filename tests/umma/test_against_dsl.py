"""`cutecourse.umma` has the layouts of the CuTe DSL, an implementation beside CUTLASS's headers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cutecourse.layout import Layout, get_nonswizzle_portion, make_identity_layout, size, tile_to_shape
from cutecourse.umma import (
    make_fragment_C,
    make_smem_layout_atom,
    make_tiled_mma,
    make_tma_atom_A_sm100,
    make_tma_atom_B_sm100,
    partition_shape_A,
    partition_shape_B,
    partition_shape_C,
    tile_to_mma_shape,
)

Case = dict[str, Any]

pytestmark = pytest.mark.skipif(find_spec("cutlass") is None, reason="the CuTe DSL is not installed")

ATOMS: list[Case] = [
    {"kind": "atom", "atom": f"{major}_{swizzle}", "dtype": element, "shape": shape}
    for major in ("K", "MN")
    for swizzle in ("INTER", "SW32", "SW64", "SW128")
    for element, shape in (
        ("f16", [[128, 16], 1, 4]),
        ("bf16", [[64, 16], 2, 4, 2]),
        ("tf32", [[128, 8], 1, 4]),
        ("e4m3", [[128, 32], 1, 4]),
    )
]
BASE32: Case = {"kind": "atom", "atom": "MN_SW128_32B", "dtype": "tf32", "shape": [[128, 8], 1, 4]}
MMAS: list[Case] = [
    dict(zip(("sms", "ab", "c", "m", "n", "a_major", "b_major", "tiler"), row, strict=True)) | {"kind": "mma"}
    for row in [
        (1, "f16", "f32", 128, 256, "K", "K", [128, 256, 64]),
        (1, "bf16", "f32", 64, 128, "K", "MN", [128, 256, 64]),
        (1, "f16", "f16", 128, 64, "MN", "K", [256, 128, 32]),
        (2, "f16", "f32", 256, 256, "K", "K", [256, 256, 64]),
        (2, "bf16", "f32", 128, 128, "MN", "MN", [256, 128, 64]),
        (2, "f16", "f32", 256, 64, "K", "MN", [256, 192, 128]),
    ]
]
PAIR = {"sms": 2, "ab": "f16", "c": "f32", "m": 256, "n": 256, "a_major": "K", "b_major": "K"}
ONE = {"sms": 1, "ab": "f16", "c": "f32", "m": 128, "n": 256, "a_major": "K", "b_major": "K"}
PAIR_MN = {"sms": 2, "ab": "bf16", "c": "f32", "m": 128, "n": 128, "a_major": "MN", "b_major": "MN"}
ROWS, COLUMNS = [[512, 256], [256, 1]], [[512, 256], [1, 512]]
TMA_ATOMS: list[Case] = [
    {"kind": "tma_atom", "operand": operand, "gmem": gmem, "atom": atom, "tiler": tiler, "cluster": cluster,
     "copy_sms": sms, "multicast": multicast} | mma
    for operand in "AB"
    for mma, gmem, atom, tiler, cluster, sms, multicast in [
        (ONE, ROWS, "K_SW128", [128, 256, 64], [4, 4, 1], 1, True),
        (ONE, ROWS, "K_SW64", [256, 256, 64], [1, 1, 1], 1, False),
        (PAIR, ROWS, "K_SW128", [256, 256, 64], [4, 4, 1], 2, True),
        (PAIR, ROWS, "K_SW128", [256, 256, 128], [2, 1, 1], 2, False),
        (PAIR, ROWS, "K_SW32", [512, 256, 64], [8, 2, 1], 2, True),
        (PAIR, ROWS, "K_SW128", [256, 256, 64], [4, 2, 1], 1, True),
        (PAIR_MN, COLUMNS, "MN_SW128", [128, 128, 64], [2, 2, 1], 2, True),
        (PAIR_MN, COLUMNS, "MN_SW64", [256, 128, 32], [4, 1, 1], 2, False),
    ]
]  # fmt: skip


@pytest.fixture(scope="module")
def answers() -> list[Any]:
    """One process answers everything: starting the DSL takes longest."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "dsl_worker.py")],
        input=json.dumps([*ATOMS, *MMAS, *TMA_ATOMS, BASE32]),
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(lines) == len(ATOMS) + len(MMAS) + len(TMA_ATOMS) + 1, done.stderr[-2000:]
    return lines


def as_tuple(value: Any) -> Any:
    return tuple(as_tuple(part) for part in value) if isinstance(value, list) else value


def printed(value: Any) -> str:
    return str(value).replace(" ", "")


def without_idle_steps(layout: Layout) -> str:
    """A layout's text in which an extent of 1 steps by nothing: the DSL keeps a step there, C++ does not."""

    def step(shape: Any, stride: Any) -> Any:
        if isinstance(shape, tuple):
            return tuple(step(s, d) for s, d in zip(shape, stride, strict=True))
        return 0 if shape == 1 else stride

    return str(Layout.unchecked(layout.shape, step(layout.shape, layout.stride)))


@pytest.mark.parametrize("index", range(len(ATOMS)), ids=lambda i: f"{ATOMS[i]['atom']}-{ATOMS[i]['dtype']}")
def test_tile_to_mma_shape__gives_the_layout_of_the_dsl(answers: list[Any], index: int) -> None:
    case, (status, answer) = ATOMS[index], answers[index]
    assert status == "ok", answer
    atom = make_smem_layout_atom(case["atom"], case["dtype"])
    assert str(atom) == answer["atom"]
    # The DSL rounds up where the atom does not divide the tile; C++, and this library, refuse that.
    shape = as_tuple(case["shape"])
    if shape[0][0] * shape[1] % size(atom.outer[0]) or shape[0][1] * shape[2] % size(atom.outer[1]):
        return
    ours, theirs = tile_to_mma_shape(atom, shape).result, Layout.parse(answer["result"])
    assert ours.inner == theirs.inner
    ours, theirs = get_nonswizzle_portion(ours), get_nonswizzle_portion(theirs)
    assert [size(mode) for mode in ours] == [size(mode) for mode in theirs]
    assert [ours(i) for i in range(size(ours))] == [theirs(i) for i in range(size(theirs))]


def test_make_smem_layout_atom__is_half_of_the_dsls_where_32_bytes_stay_together(answers: list[Any]) -> None:
    """The DSL's atom has 8 rows of K, that of the headers 4: two of these along K are the DSL's."""
    status, answer = answers[-1]
    assert status == "ok", answer
    atom = make_smem_layout_atom("MN_SW128_32B", "tf32")
    assert str(atom) == "S<2,5,2> o 0 o (32,4):(1,32)"
    assert answer["atom"] == "S<2,5,2> o 0 o (32,8):(1,32)"
    twice, theirs = tile_to_shape(atom, (32, 8)), Layout.parse(answer["atom"])
    assert twice.inner == theirs.inner
    assert [twice.outer(i) for i in range(256)] == [theirs.outer(i) for i in range(256)]


@pytest.mark.parametrize("index", range(len(MMAS)))
def test_make_tiled_mma__has_the_layouts_of_the_dsl(answers: list[Any], index: int) -> None:
    case, (status, answer) = MMAS[index], answers[len(ATOMS) + index]
    assert status == "ok", answer
    op = "SM100_MMA_F16BF16_SS" if case["sms"] == 1 else "SM100_MMA_F16BF16_2x1SM_SS"
    mma = make_tiled_mma(
        op, case["ab"], case["ab"], case["c"], case["m"], case["n"], case["a_major"], case["b_major"]
    )
    m, n, k = case["tiler"]
    shapes = {
        "shape_mnk": mma.shape_mnk,
        "shape_A": partition_shape_A(mma, (m, k)),
        "shape_B": partition_shape_B(mma, (n, k)),
        "shape_C": partition_shape_C(mma, (m, n)),
    }
    for field, shape in shapes.items():
        assert printed(shape) == answer[field], field
    for field in ("thr_id", "thr_layout_vmnk", "layout_a", "layout_b", "layout_c"):
        ours, theirs = getattr(mma, field), Layout.parse(answer[field])
        assert without_idle_steps(ours) == without_idle_steps(theirs), field
    fragment = make_fragment_C(shapes["shape_C"], case["c"], case["sms"])
    assert str(fragment.layout) == answer["fragment"]
    assert str(fragment.columns) == answer["columns"]
    extents = {"A": (m, k), "B": (n, k), "C": (m, n)}
    for cta in range(case["sms"]):
        for operand, extent in extents.items():
            part = getattr(mma.get_slice(cta), f"partition_{operand}")(make_identity_layout(extent))
            assert printed(part) == printed(answer[f"part_{operand}{cta}"])


@pytest.mark.parametrize("index", range(len(TMA_ATOMS)))
def test_make_tma_atom__is_the_atom_of_the_dsl(answers: list[Any], index: int) -> None:
    case, (status, answer) = TMA_ATOMS[index], answers[len(ATOMS) + len(MMAS) + index]
    assert status == "ok", answer
    op = "SM100_MMA_F16BF16_SS" if case["sms"] == 1 else "SM100_MMA_F16BF16_2x1SM_SS"
    types = (case["ab"], case["ab"], case["c"])
    mma = make_tiled_mma(op, *types, case["m"], case["n"], case["a_major"], case["b_major"])
    m, n, k = case["tiler"]
    shape = partition_shape_A(mma, (m, k)) if case["operand"] == "A" else partition_shape_B(mma, (n, k))
    slayout = tile_to_mma_shape(make_smem_layout_atom(case["atom"], case["ab"]), shape).result
    copy_op = "SM90_TMA_LOAD" if case["copy_sms"] == 1 else "SM100_TMA_2SM_LOAD"
    copy_op += "_MULTICAST" if case["multicast"] else ""
    make = make_tma_atom_A_sm100 if case["operand"] == "A" else make_tma_atom_B_sm100
    cluster = mma.cluster_layout_vmnk(tuple(case["cluster"]))
    atom = make(copy_op, Layout(*as_tuple(case["gmem"])), slayout, (m, n, k), mma, cluster)
    assert str(atom.tma_gbasis) == answer["tma_gbasis"]
    assert atom.tma.num_bits_per_tma == answer["copy_bits"]
    assert str(atom.get_tma_tensor().layout) == answer["tma_tensor"]
    assert size(atom.thr_id) == size(Layout.parse(answer["thr_id"]))
