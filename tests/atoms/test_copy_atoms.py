"""The table of copy atoms against CUTLASS's headers and the DSL, and what ldmatrix means for a fragment."""

import json
from collections.abc import Callable

import pytest
from atoms.oracles import CUTLASS, ask_dsl, in_dsl

from cutecourse.atoms import (
    COPY_ATOMS,
    CopyAtom,
    PartitionError,
    UnknownAtomError,
    copy_atom,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_mma,
)
from cutecourse.dtypes import f16
from cutecourse.layout import Layout, composition, right_inverse

ATOM = "SM80_16x8x16_F32F16F16F32_TN"


def test_table__has_the_copies_of_chapter_2() -> None:
    assert set(COPY_ATOMS) == set(CUTLASS["copy_atoms"])
    for name in ("SM75_U32x4_LDSM_N", "SM75_U16x8_LDSM_T", "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>"):
        assert name in COPY_ATOMS


@pytest.mark.parametrize("atom", COPY_ATOMS.values(), ids=COPY_ATOMS)
def test_table__equals_the_headers(atom: CopyAtom) -> None:
    row = CUTLASS["copy_atoms"][atom.name]
    assert Layout.parse(row["thr_id"]) == atom.thr_id
    assert Layout.parse(row["bit_layout_src"]) == atom.bit_layout_src
    assert Layout.parse(row["bit_layout_dst"]) == atom.bit_layout_dst
    assert Layout.parse(row["bit_layout_ref"]) == atom.bit_layout_ref
    assert (atom.source.line, atom.ptx_source.line) == (row["traits_line"], row["arch_line"])
    # the headers write ldmatrix's modifiers in another order than the PTX ISA does
    assert sorted(atom.ptx.split(".")) == sorted(row["asm"].split("."))


@pytest.mark.parametrize("key", CUTLASS["copy_values"])
def test_value_layouts__equal_the_headers(key: str) -> None:
    name, dtype = key.rsplit(" ", 1)
    atom = copy_atom(name, dtype)
    row = CUTLASS["copy_values"][key]
    assert Layout.parse(row["layout_src"]) == atom.layout_src
    assert Layout.parse(row["layout_dst"]) == atom.layout_dst
    assert Layout.parse(row["layout_ref"]) == atom.layout_ref


def test_value_layouts__equal_the_dsl() -> None:
    keys = [key.rsplit(" ", 1) for key in CUTLASS["copy_values"]]
    cases = [{"kind": "copy_atom", "op": op, "dtype": dtype} for op, dtype in keys]
    cases = [case for case in cases if in_dsl(case)]
    assert len(cases) >= 25
    for case, (status, said) in zip(cases, ask_dsl(cases), strict=True):
        atom = copy_atom(case["op"], case["dtype"])
        assert status == "ok", said
        assert Layout.parse(said["layout_src"]) == atom.layout_src, case
        assert Layout.parse(said["layout_dst"]) == atom.layout_dst, case
        assert Layout.parse(said["thr_id"]) == atom.thr_id, case


@pytest.mark.parametrize("name", [name for name in COPY_ATOMS if "LDSM" in name])
def test_ldmatrix__moves_every_value_once(name: str) -> None:
    atom = copy_atom(name, f16)
    matrices = atom.values_dst // 2
    places = {atom.layout_src(t, v) for t in range(8 * matrices) for v in range(8)}
    arrived = [atom.layout_dst(t, v) for t in range(32) for v in range(atom.values_dst)]
    assert sorted(arrived) == sorted(places) == list(range(64 * matrices))


@pytest.mark.parametrize("name", [name for name in COPY_ATOMS if "LDSM" in name])
def test_ldmatrix__hands_out_rows_or_columns_as_the_isa_says(name: str) -> None:
    """PTX ISA, ldmatrix: thread 8 i + r brings row r of matrix i; thread t gets (t / 4, 2 (t % 4)) and its
    right neighbour of each matrix, with .trans of the transposed."""
    atom = copy_atom(name, f16)
    transposed = name.endswith("T")
    for thread in range(32):
        for value in range(atom.values_dst):
            matrix, half = divmod(value, 2)
            row, column = thread // 4, 2 * (thread % 4) + half
            if transposed:
                row, column = column, row
            bringer = 8 * matrix + row
            assert atom.layout_dst(thread, value) == atom.layout_src(bringer, column)


def test_ldmatrix__fills_a_fragment_of_a_as_the_mma_reads_it() -> None:
    mma = make_tiled_mma(ATOM)
    copy = make_tiled_copy_A(copy_atom("SM75_U32x4_LDSM_N", f16), mma)
    for thread in range(32):
        by_copy = list(copy.get_slice(thread).partition_D(Layout((16, 16), (16, 1))).elements())
        by_mma = list(mma.get_slice(thread).partition_A(Layout((16, 16), (16, 1))).elements())
        assert by_copy == by_mma
    # each thread brings one row of eight neighbours: lanes 0 to 15 the left half, the others the right half
    starts = [copy.get_slice(t).partition_S(Layout((16, 16), (16, 1))).offset for t in range(32)]
    assert starts == [16 * (t % 16) + 8 * (t // 16) for t in range(32)]


def test_ldmatrix__moves_bits_and_so_any_element_of_that_size() -> None:
    ref_to_src = {}
    for dtype in ("f16", "s8", "f32"):
        atom = copy_atom("SM75_U32x4_LDSM_N", dtype)
        scale = 16 / atom.dtype.bits
        assert atom.values_src == 8 * scale
        ref_to_src[dtype] = composition(right_inverse(atom.layout_ref), atom.layout_src)
    assert len(set(map(str, ref_to_src.values()))) == 3


def test_snapshot__is_json() -> None:
    for atom in COPY_ATOMS.values():
        snapshot = atom.to_snapshot()
        assert json.loads(json.dumps(snapshot)) == snapshot
        assert Layout.parse(snapshot["bit_layout_dst"]) == atom.bit_layout_dst


@pytest.mark.parametrize(
    ("name", "same_as"),
    [
        ("UniversalCopy<half_t>", "UniversalCopy<uint16_t>"),
        ("UniversalCopy<float>", "UniversalCopy<uint32_t>"),
        ("UniversalCopy<cute::uint128_t>", "UniversalCopy<uint128_t>"),
        ("AutoVectorizingCopy", "AutoVectorizingCopyWithAssumedAlignment<128>"),
        ("DefaultCopy", "AutoVectorizingCopyWithAssumedAlignment<8>"),
    ],
)
def test_copy_atom__knows_types_and_aliases(name: str, same_as: str) -> None:
    assert copy_atom(name).bit_layout_src == copy_atom(same_as).bit_layout_src


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: copy_atom("SM75_U32x4_LDSM"), UnknownAtomError, "Did you mean SM75_U32x4_LDSM_N"),
        (lambda: copy_atom("UniversalCopy<string>"), UnknownAtomError, "no copy atom"),
        (lambda: copy_atom("SM75_U16x8_LDSM_T", "f32"), PartitionError, "cannot move values of f32"),
        (
            lambda: make_tiled_copy_B(copy_atom("SM75_U32x4_LDSM_N", f16), make_tiled_mma(ATOM)),
            PartitionError,
            "uses too few vals",
        ),
    ],
)
def test_copy_atom__says_what_does_not_fit(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
