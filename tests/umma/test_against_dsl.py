"""`cutecourse.umma` has the layouts of the CuTe DSL, an implementation beside CUTLASS's headers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cutecourse.layout import (
    Layout,
    coalesce,
    get_nonswizzle_portion,
    make_identity_layout,
    size,
    tile_to_shape,
)
from cutecourse.umma import (
    TMEM_LOADS,
    TMEM_STORES,
    legality,
    make_fragment_C,
    make_smem_layout_atom,
    make_tiled_mma,
    make_tma_atom_A_sm100,
    make_tma_atom_B_sm100,
    make_tmem_copy,
    partition_shape_A,
    partition_shape_B,
    partition_shape_C,
    tile_to_mma_shape,
)

pytestmark = pytest.mark.compilers

Case = dict[str, Any]

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
SHAPES = [(1, 32, 8), (1, 64, 8), (1, 64, 12), (1, 128, 8), (1, 128, 24), (1, 128, 264), (1, 256, 16),
          (2, 64, 16), (2, 128, 16), (2, 128, 24), (2, 256, 16), (2, 256, 48), (2, 256, 8)]  # fmt: skip
LEGAL: list[Case] = [
    {"kind": "legal", "sms": sms, "m": m, "n": n, "ab": "f16", "c": "f32", "a_from": a_from}
    for sms, m, n in SHAPES
    for a_from in ("smem", "tmem")
] + [
    {"kind": "legal", "sms": sms, "m": 128, "n": 64, "ab": ab, "c": c, "k": k}
    for sms, ab, c, k in (
        (1, "f16", "f16", 16), (1, "f16", "s32", 16), (1, "bf16", "f16", 16), (2, "bf16", "f16", 16),
        (1, "tf32", "f32", 16), (1, "e4m3", "f32", 16), (1, "f16", "f32", 32),
    )
]  # fmt: skip
_MMA = {"ab": "f16", "c": "f32"}
COPIES: list[Case] = [
    {"kind": "tmem_copy", "sms": sms, "m": m, "n": n, "shape": shape, "op": op} | _MMA
    for sms, m, n, shape in (
        (1, 128, 64, [[128, 64], 1, 1]),
        (1, 64, 64, [[64, 64], 1, 1]),
        (1, 64, 64, [[64, 64], 2, 1]),
        (2, 256, 128, [[128, 128], 1, 1]),
        (2, 128, 128, [[64, 128], 1, 1]),
    )
    for kind in ("Ld", "St")
    for op in ([kind, "32x32b", 8, False], [kind, "16x64b", 4, False], [kind, "16x128b", 4, False],
               [kind, "16x256b", 2, False], [kind, "16x32bx2", 4, False])
    if (sms, m, shape[1]) != (1, 64, 1) or op[1] != "32x32b"
] + [
    {"kind": "tmem_copy", "sms": 1, "m": 128, "n": 64, "shape": [[128, 64], 1, 1], "op": op, "ab": "f16",
     "c": "f16"}
    for op in (["Ld", "32x32b", 4, True], ["St", "32x32b", 4, True], ["Ld", "16x256b", 1, True])
]  # fmt: skip


@pytest.fixture(scope="module")
def answers() -> list[Any]:
    """One process answers everything: starting the DSL takes longest."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "dsl_worker.py")],
        input=json.dumps([*ATOMS, *MMAS, *TMA_ATOMS, *LEGAL, *COPIES, BASE32]),
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(lines) == sum(map(len, (ATOMS, MMAS, TMA_ATOMS, LEGAL, COPIES))) + 1, done.stderr[-2000:]
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


def test_legality__says_of_the_dsl_what_it_says(answers: list[Any]) -> None:
    start = len(ATOMS) + len(MMAS) + len(TMA_ATOMS)
    taken = []
    for case, (status, answer) in zip(LEGAL, answers[start:], strict=False):
        a_from = case.get("a_from", "smem")
        types = (case["ab"], case["ab"], case["c"])
        found = legality(case["m"], case["n"], case["sms"], *types, a_from=a_from, k=case.get("k", 16))
        [verdict] = [verdict for verdict in found.verdicts if verdict.source == "CuTe DSL"]
        assert verdict.legal == (status == "ok"), (case, verdict, answer)
        taken.append(verdict.legal)
    assert {True, False} == set(taken)


@pytest.mark.parametrize("index", range(len(COPIES)))
def test_make_tmem_copy__is_the_copy_of_the_dsl(answers: list[Any], index: int) -> None:
    case = COPIES[index]
    status, answer = answers[len(ATOMS) + len(MMAS) + len(TMA_ATOMS) + len(LEGAL) + index]
    assert status == "ok", answer
    ops = TMEM_LOADS if case["op"][0] == "Ld" else TMEM_STORES
    _, shape, repetitions, packed = case["op"]
    [op] = [
        op for op in ops.values() if (op.shape, op.repetitions, op.packed) == (shape, repetitions, packed)
    ]
    fragment = make_fragment_C(as_tuple(case["shape"]), case["c"], case["sms"])
    assert str(fragment.layout) == answer["fragment"]
    copy = make_tmem_copy(op.name, fragment)
    tiled = copy.tiled_copy
    for ours, theirs in (
        (tiled.get_layoutS_TV(), answer["layout_src"]),
        (tiled.get_layoutD_TV(), answer["layout_dst"]),
    ):
        assert coalesce(ours, (1, 1)) == coalesce(Layout.parse(theirs), (1, 1))
    for thread in (42,):
        memory, registers = copy.partition_S(thread), copy.partition_D(thread)
        if op.store:
            memory, registers = registers, memory
        assert printed(registers) == answer[f"registers{thread}"].replace(" ", "")
        assert printed(memory.layout) == answer[f"memory{thread}"].replace(" ", "")
