"""The table of MMA atoms against CUTLASS's headers, the DSL, the PTX ISA's formulas, and its own laws."""

import json
from collections import Counter
from collections.abc import Callable

import pytest
from atoms.oracles import CUTLASS, DSL_MMA_OPS, ask_dsl

from cutecourse.atoms import (
    CUTLASS_VERSION,
    MMA_ATOMS,
    SM89_ATOMS,
    AtomError,
    MmaAtom,
    OwnershipError,
    UnknownAtomError,
    mma_atom,
    ownership_map,
)
from cutecourse.errors import CourseError
from cutecourse.layout import Layout

ATOM = "SM80_16x8x16_F32F16F16F32_TN"
OPERANDS = ("A", "B", "C")
# CUTLASS 4.2.0 has a wrong stride in the B layouts of these (the atoms' notes say which)
WRONG_B = {name for name in MMA_ATOMS if name.startswith("SM80_16x8x32_") and ("4S" in name or "4U" in name)}
ATOMS = {**MMA_ATOMS, **SM89_ATOMS}
every_atom = pytest.mark.parametrize("atom", ATOMS.values(), ids=ATOMS)


def cpp_layout(text: str) -> Layout:
    """Read C++'s print; one layout there has a superfluous pair of parentheses around a stride."""
    layout: Layout = Layout.parse(text.replace("((_16,_8)))", "(_16,_8))"))
    return layout


def flat(layout: Layout) -> tuple[object, ...]:
    """List a layout's modes without one-element tuples: C++ writes `(_8)` where `_8` is meant."""
    return tuple(tuple(mode.leaves()) for mode in layout)


# ---- against CUTLASS's headers ----


def test_table__has_every_operation_of_the_header() -> None:
    assert set(ATOMS) == set(CUTLASS["mma_atoms"])
    assert (len(MMA_ATOMS), len(SM89_ATOMS)) == (63, 8)
    assert {name[:5] for name in MMA_ATOMS} == {"SM80_"}
    assert {name[:5] for name in SM89_ATOMS} == {"SM89_"}


@every_atom
def test_table__equals_the_headers(atom: MmaAtom) -> None:
    row = CUTLASS["mma_atoms"][atom.name]
    assert row["shape_mnk"] == "(_{},_{},_{})".format(*atom.shape_mnk)
    assert cpp_layout(row["thr_id"]) == atom.thr_id
    for operand in OPERANDS:
        assert flat(cpp_layout(row[f"layout_{operand.lower()}"])) == flat(atom.layout(operand))
    for operand in (*OPERANDS, "D"):
        assert row[f"dtype_{operand.lower()}"] == atom.dtype(operand).name
        registers = f"{atom.registers(operand)} x {atom.register_bits(operand)}"
        assert row[f"registers_{operand.lower()}"] == registers
    assert row["asm"] == atom.ptx


@every_atom
def test_table__says_where_it_stands_in_the_headers(atom: MmaAtom) -> None:
    row = CUTLASS["mma_atoms"][atom.name]
    assert CUTLASS["cutlass"].startswith(CUTLASS_VERSION)
    assert (atom.source.line, atom.ptx_source.line) == (row["traits_line"], row["arch_line"])
    assert atom.name in str(atom.source)
    assert atom.name in str(atom.ptx_source)


# ---- against the CuTe DSL ----


def test_table__equals_the_dsl() -> None:
    cases = [{"kind": "mma_atom", "op": op} for op in DSL_MMA_OPS]
    answers = ask_dsl(cases)
    assert len(answers) == 8
    for op, (status, answer) in zip(DSL_MMA_OPS, answers, strict=True):
        atom = mma_atom(op)
        ours = {f"layout_{o.lower()}": str(atom.layout(o)) for o in OPERANDS}
        ours |= {"shape_mnk": "({},{},{})".format(*atom.shape_mnk), "thr_id": str(atom.thr_id)}
        assert status == "ok"
        # the DSL writes a mode of one value as 1:0, C++ as _1:_0 inside the pair: the text is the same
        assert answer == ours, op


# ---- against the formulas of the PTX ISA (section mma, matrix fragments), written down on their own ----


def isa_16bit_k16_a(lane: int, i: int) -> tuple[int, int]:
    group, pos = lane >> 2, lane % 4
    return (group if i < 2 or 4 <= i < 6 else group + 8), pos * 2 + (i & 1) + (8 if i >= 4 else 0)


def isa_16bit_k16_b(lane: int, i: int) -> tuple[int, int]:
    return lane >> 2, (lane % 4) * 2 + (i & 1) + (8 if i >= 2 else 0)


def isa_16bit_k8_a(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)


def isa_16bit_k8_b(lane: int, i: int) -> tuple[int, int]:
    return lane >> 2, (lane % 4) * 2 + i


def isa_accumulator(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)


def isa_tf32_k8_a(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (8 if i in (1, 3) else 0), lane % 4 + (4 if i >= 2 else 0)


def isa_tf32_k8_b(lane: int, i: int) -> tuple[int, int]:
    return lane >> 2, lane % 4 + 4 * i


def isa_tf32_k4_a(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + 8 * i, lane % 4


def isa_k4_row(lane: int, i: int) -> tuple[int, int]:
    assert i == 0
    return lane >> 2, lane % 4


def isa_8x8_accumulator(lane: int, i: int) -> tuple[int, int]:
    return lane >> 2, (lane % 4) * 2 + i


def isa_int8_k32_a(lane: int, i: int) -> tuple[int, int]:
    return (
        (lane >> 2) if i < 4 or 8 <= i < 12 else (lane >> 2) + 8,
        (lane % 4) * 4 + (i & 3) + (16 if i >= 8 else 0),
    )


def isa_int8_k32_b(lane: int, i: int) -> tuple[int, int]:
    return lane >> 2, (lane % 4) * 4 + (i & 3) + (16 if i >= 4 else 0)


def isa_int8_k16_a(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (8 if i >= 4 else 0), (lane % 4) * 4 + (i & 3)


def isa_int8_k16_b(lane: int, i: int) -> tuple[int, int]:
    return lane >> 2, (lane % 4) * 4 + i


def isa_int4_k32_8x8(lane: int, i: int) -> tuple[int, int]:
    return lane >> 2, (lane % 4) * 8 + i


def isa_int4_k32_a(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (8 if i >= 8 else 0), (lane % 4) * 8 + (i & 7)


def isa_int4_k64_a(lane: int, i: int) -> tuple[int, int]:
    return (
        (lane >> 2) if i < 8 or 16 <= i < 24 else (lane >> 2) + 8,
        (lane % 4) * 8 + (i & 7) + (32 if i >= 16 else 0),
    )


def isa_int4_k64_b(lane: int, i: int) -> tuple[int, int]:
    return lane >> 2, (lane % 4) * 8 + (i & 7) + (32 if i >= 8 else 0)


def isa_b1_k128(lane: int, i: int) -> tuple[int, int]:
    return lane >> 2, (lane % 4) * 32 + i


def isa_b1_k128_a(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (8 if i >= 32 else 0), (lane % 4) * 32 + (i & 0x1F)


def isa_b1_k256_a(lane: int, i: int) -> tuple[int, int]:
    return (
        (lane >> 2) if i < 32 or 64 <= i < 96 else (lane >> 2) + 8,
        (lane % 4) * 32 + (i & 0x1F) + (128 if i >= 64 else 0),
    )


def isa_b1_k256_b(lane: int, i: int) -> tuple[int, int]:
    return lane >> 2, (lane % 4) * 32 + (i & 0x1F) + (128 if i >= 32 else 0)


Formula = Callable[[int, int], tuple[int, int]]
ISA: dict[tuple[str, int], tuple[Formula, Formula, Formula]] = {
    ("16x8x16", 16): (isa_16bit_k16_a, isa_16bit_k16_b, isa_accumulator),
    ("16x8x8", 16): (isa_16bit_k8_a, isa_16bit_k8_b, isa_accumulator),
    ("16x8x8", 32): (isa_tf32_k8_a, isa_tf32_k8_b, isa_accumulator),
    ("16x8x4", 32): (isa_tf32_k4_a, isa_k4_row, isa_accumulator),
    ("8x8x4", 64): (isa_k4_row, isa_k4_row, isa_8x8_accumulator),
    ("16x8x32", 8): (isa_int8_k32_a, isa_int8_k32_b, isa_accumulator),
    ("16x8x16", 8): (isa_int8_k16_a, isa_int8_k16_b, isa_accumulator),
    ("8x8x16", 8): (isa_int8_k16_b, isa_int8_k16_b, isa_8x8_accumulator),
    ("8x8x32", 4): (isa_int4_k32_8x8, isa_int4_k32_8x8, isa_8x8_accumulator),
    ("16x8x32", 4): (isa_int4_k32_a, isa_int4_k32_8x8, isa_accumulator),
    ("16x8x64", 4): (isa_int4_k64_a, isa_int4_k64_b, isa_accumulator),
    ("8x8x128", 1): (isa_b1_k128, isa_b1_k128, isa_8x8_accumulator),
    ("16x8x128", 1): (isa_b1_k128_a, isa_b1_k128, isa_accumulator),
    ("16x8x256", 1): (isa_b1_k256_a, isa_b1_k256_b, isa_accumulator),
}


@every_atom
def test_layouts__equal_the_formulas_of_the_ptx_isa(atom: MmaAtom) -> None:
    formulas = ISA["{}x{}x{}".format(*atom.shape_mnk), atom.dtype_a.bits]
    for operand, formula in zip(OPERANDS, formulas, strict=True):
        ours = [atom.cells(operand, lane) for lane in range(32)]
        theirs = [[(i, formula(lane, i)) for i in range(atom.values(operand))] for lane in range(32)]
        if atom.name in WRONG_B and operand == "B":
            assert ours != theirs, "CUTLASS mended its layout: take the note away"
        else:
            assert ours == theirs, (atom.name, operand)


# ---- laws ----


@every_atom
def test_layouts__cover_every_cell_once(atom: MmaAtom) -> None:
    for operand in OPERANDS:
        rows, columns = atom.operand_shape(operand)
        held = Counter(cell for lane in range(atom.threads) for _, cell in atom.cells(operand, lane))
        exact = held == Counter({(r, c): 1 for r in range(rows) for c in range(columns)})
        assert exact != (atom.name in WRONG_B and operand == "B"), (atom.name, operand)


@every_atom
def test_owner__is_the_inverse_of_cells(atom: MmaAtom) -> None:
    for operand in OPERANDS:
        if atom.name in WRONG_B and operand == "B":
            continue
        rows, columns = atom.operand_shape(operand)
        for row in range(rows):
            for column in range(columns):
                thr, val = atom.owner(operand, (row, column))
                assert (val, (row, column)) in atom.cells(operand, thr)
                assert atom.cell(operand, thr, val) == (row, column)


@every_atom
def test_fragment_sizes__are_the_operands_divided_by_the_threads(atom: MmaAtom) -> None:
    m, n, k = atom.shape_mnk
    w = atom.threads
    assert atom.fragment_sizes() == {"A": m * k // w, "B": n * k // w, "C": m * n // w}


@every_atom
def test_register_of__packs_values_from_the_low_bits(atom: MmaAtom) -> None:
    for operand in (*OPERANDS, "D"):
        places = [atom.register_of(operand, val) for val in range(atom.values(operand))]
        assert places == sorted(set(places))
        assert {register for register, _ in places} == set(range(atom.registers(operand)))
        assert [atom.value_in(operand, *place) for place in places] == list(range(atom.values(operand)))
        bits = atom.registers(operand) * atom.register_bits(operand)
        assert bits == atom.values(operand) * atom.dtype(operand).bits


def test_register_of__holds_two_halves_of_neighbouring_columns() -> None:
    atom = mma_atom(ATOM)
    for register in range(atom.registers("A")):
        low = atom.cell("A", 13, atom.value_in("A", register, 0))
        high = atom.cell("A", 13, atom.value_in("A", register, 1))
        assert high == (low[0], low[1] + 1)


def test_ownership_map__of_c_is_what_a_warp_stamps() -> None:
    table = ownership_map(mma_atom(ATOM), "C")
    # eight rows of four threads, each with two neighbouring columns, and the same again below
    assert table[:8] == [[4 * row + column // 2 for column in range(8)] for row in range(8)]
    assert table[8:] == table[:8]


def test_ownership_map__tells_values_and_registers_too() -> None:
    atom = mma_atom(ATOM)
    threads, values = ownership_map(atom, "A"), ownership_map(atom, "A", "value")
    registers = ownership_map(atom, "A", "register")
    for row in range(16):
        for column in range(16):
            assert atom.cell("A", threads[row][column], values[row][column]) == (row, column)
            assert registers[row][column] == values[row][column] // 2


# ---- snapshots ----


@every_atom
def test_snapshot__is_json_and_says_all_of_the_atom(atom: MmaAtom) -> None:
    snapshot = atom.to_snapshot()
    assert json.loads(json.dumps(snapshot)) == snapshot
    keys = "name shape_mnk dtype_d dtype_a dtype_b dtype_c threads ptx operands source"
    assert set(keys.split()) <= set(snapshot)
    for operand in (*OPERANDS, "D"):
        told = snapshot["operands"][operand]
        assert Layout.parse(told["layout"]) == atom.layout(operand)
        assert told["registers"] * told["register_bits"] == told["values"] * told["bits"]
        rows, columns = told["shape"]
        layout = Layout.parse(told["layout"])
        cells = {layout(t, v) for t in range(snapshot["threads"]) for v in range(told["values"])}
        assert (cells == set(range(rows * columns))) or snapshot["note"]


# ---- errors ----


def test_mma_atom__suggests_near_names() -> None:
    with pytest.raises(UnknownAtomError, match="Did you mean SM80_16x8x16_F32F16F16F32_TN") as error:
        mma_atom("SM80_16x8x16_F32F16F16F32")
    assert isinstance(error.value, CourseError)
    assert not str(error.value).startswith("'")
    with pytest.raises(UnknownAtomError, match="839 names"):
        mma_atom("wgmma")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda atom: atom.cells("C", 32), "threads 0 to 31; there is no thread 32"),
        (lambda atom: atom.cells("C", -1), "no thread -1"),
        (lambda atom: atom.cell("B", 0, 4), "values 0 to 3 of B, not 4"),
        (lambda atom: atom.owner("C", (16, 0)), r"C is 16 x 8; it has no cell \(16, 0\)"),
        (lambda atom: atom.owner("A", (0, -1)), r"no cell \(0, -1\)"),
        (lambda atom: atom.register_of("A", 8), "values 0 to 7 of A, not 8"),
        (lambda atom: atom.value_in("A", 4), "registers 0 to 3"),
        (lambda atom: atom.values("E"), "no operand 'E'"),
    ],
)
def test_mma_atom__says_what_is_out_of_range(call: Callable[[MmaAtom], object], message: str) -> None:
    with pytest.raises(OwnershipError, match=message) as error:
        call(mma_atom(ATOM))
    assert isinstance(error.value, AtomError)


def test_owner__of_a_cell_that_the_table_leaves_out_says_why() -> None:
    atom = mma_atom("SM80_16x8x32_S32S4S4S32_TN")
    assert len(WRONG_B) == 8
    with pytest.raises(
        OwnershipError, match=r"no thread holds cell .* CUTLASS 4\.2\.0 gives B the stride 32"
    ):
        atom.owner("B", (0, 31))
    assert {name for name, a in MMA_ATOMS.items() if a.note} == WRONG_B
