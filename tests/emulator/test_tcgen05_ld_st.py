"""tcgen05.ld, st and wait: which register holds which cell, by CUTLASS's traits, and each rule broken."""

import re
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import (
    InvalidOperand,
    NonUniformOperand,
    TensorMemoryAccessError,
    TensorMemoryHazard,
    UninitializedRead,
    UnsupportedInstruction,
)
from cutecourse.trace import Recorder
from support import tcgen05

WAIT = "tcgen05.wait::st.sync.aligned;\n"
SHAPES = {
    "32dp32b": "32x32b",
    "16dp64b": "16x64b",
    "16dp128b": "16x128b",
    "16dp256b": "16x256b",
    "16dp32b": "16x32bx2",
}
REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
ALL = [
    (shape, count, packed)
    for shape, registers in REGISTERS.items()
    for count in (1, 2, 4, 8, 16, 32, 64, 128)
    for packed in (False, True)
    if registers * count <= 128
]


# --- the oracle: CUTLASS's layouts --------------------------------------------------------------------------


@cache
def _traits():
    found = find_spec("cutlass_library")
    assert found is not None, "the package nvidia-cutlass is not installed"
    header = Path(found.submodule_search_locations[0]) / "source/include/cute/atom/copy_traits_sm100.hpp"
    text = header.read_text()
    pattern = re.compile(
        r"struct Copy_Traits<SM100_TMEM_LOAD_(\d+dp\d+b)(\d+)x(_16b)?>\s*\{(.*?)\n\};", re.DOTALL
    )
    return {(SHAPES[m[1]], int(m[2]), bool(m[3])): m[4] for m in pattern.finditer(text) if m[1] in SHAPES}


def _tuple(text):
    """Shape <_128, _16> or Stride<_1, TMEM::DP_b> as nested tuples; a lane is 2^21 bits."""
    text = re.sub(r"(Shape|Stride)\s*<", "(", text).replace(">", ",)")
    text = text.replace("TMEM::DP_b", str(1 << 21))
    return eval(re.sub(r"\b_(\d+)", r"\1", text))


def _layout(body, name):
    found = re.search(name + r" = Layout<(Shape.*?>),\s*(Stride.*?)>;", body, re.DOTALL)
    return _tuple(found[1].strip()), _tuple(found[2].strip())


def _flat(shape, stride):
    if isinstance(shape, int):
        return [(shape, stride)]
    return [mode for s, d in zip(shape, stride, strict=True) for mode in _flat(s, d)]


def _apply(modes, index):
    offset = np.zeros_like(index)
    for extent, stride in modes:
        offset = offset + index % extent * stride
        index = index // extent
    return offset


def cutlass_cells(shape, count, packed):
    """(lane, column) of each half register, shape (32, registers, 2), as CUTLASS's traits have them."""
    body = _traits()[shape, count, packed]
    (thr_shape, val_shape), (thr_stride, val_stride) = _layout(body, "DstLayout")
    n = REGISTERS[shape] * count
    thread = _apply(_flat(thr_shape, thr_stride), np.arange(32))
    half = _apply(_flat(val_shape, val_stride), 16 * np.arange(2 * n)).reshape(n, 2)
    logical = thread[:, None, None] + half
    address = _apply(_flat(*_layout(body, "ValID")), logical)
    return address >> 21, (address >> 5) & 0xFFFF, address & 31


def values(columns=64, seed=1):
    return np.random.default_rng(seed).integers(0, 2**32, (128, columns), dtype=np.uint32)


def fill(columns=64):
    """Each thread stores its row of %in to tensor memory, 64 columns at a time."""
    text = [
        f"mul.wide.u32 %at, %me, {4 * columns};\n",
        "add.u64 %at, %in, %at;\n",
        "add.u32 %d, %tmem, %lane;\n",
    ]
    for first in range(0, columns, 64):
        text += [f"ld.global.b32 %r{i}, [%at+{4 * (first + i)}];\n" for i in range(64)]
        held = ", ".join(f"%r{i}" for i in range(64))
        text += [f"add.u32 %x, %d, {first};\n", f"tcgen05.st.sync.aligned.32x32b.x64.b32 [%x], {{{held}}};\n"]
    return "".join(text) + WAIT


def held(n):
    return "{" + ", ".join(f"%r{i}" for i in range(n)) + "}"


def keep(n):
    """Each thread writes n registers to %out."""
    text = [f"mul.wide.u32 %at, %me, {4 * n};\n", "add.u64 %at, %out, %at;\n"]
    return "".join(text + [f"st.global.b32 [%at+{4 * i}], %r{i};\n" for i in range(n)])


def split_of(count, packed):
    """The columns between the halves, as CUTLASS has them: the width of one."""
    return count * (2 if packed else 1)


def load(shape, count, packed, column=0, lane=0):
    half = f", {split_of(count, packed)}" if shape == "16x32bx2" else ""
    pack = ".pack::16b" if packed else ""
    n = REGISTERS[shape] * count
    return (
        f"add.u32 %x, %d, {(lane << 16) + column};\n"
        f"tcgen05.ld.sync.aligned.{shape}.x{count}{pack}.b32 {held(n)}, [%x]{half};\n"
    )


@pytest.mark.parametrize(("shape", "count", "packed"), ALL)
def test_ld__every_register_is_the_cell_of_cutlass_traits(shape, count, packed):
    n = REGISTERS[shape] * count
    lane, column, bit = cutlass_cells(shape, count, packed)
    columns = max(64, 1 << int(column.max()).bit_length())
    given = values(columns)
    body = fill(columns) + load(shape, count, packed) + "tcgen05.wait::ld.sync.aligned;\n" + keep(n)
    out = tcgen05.run(body, given, np.zeros((128, n), np.uint32), columns=columns)
    for warp in range(4):
        cells = given[32 * warp + lane, column]
        halves = (cells >> bit.astype(np.uint32)) & 0xFFFF
        wanted = halves[..., 0] | halves[..., 1] << 16
        np.testing.assert_array_equal(out[32 * warp : 32 * warp + 32], wanted)


# All that are short, and the longest of each shape.
STORED = [c for c in ALL if c[1] <= 16 or (REGISTERS[c[0]] * c[1] == 128 and not c[2])]


@pytest.mark.parametrize(("shape", "count", "packed"), STORED)
def test_st__every_register_goes_to_the_cell_of_cutlass_traits(shape, count, packed):
    n = REGISTERS[shape] * count
    lane, column, _bit = cutlass_cells(shape, count, packed)
    columns = max(64, 1 << int(column.max()).bit_length())
    given, stored = values(columns), values(n, seed=2)
    half = f", {split_of(count, packed)}" if shape == "16x32bx2" else ""
    unpack = ".unpack::16b" if packed else ""
    body = fill(columns) + f"mul.wide.u32 %at, %me, {4 * n};\nadd.u64 %at, %in, %at;\n"
    body += "".join(f"ld.global.b32 %r{i}, [%at+{4 * i + given.nbytes}];\n" for i in range(n))
    body += f"tcgen05.st.sync.aligned.{shape}.x{count}{unpack}.b32 [%d]{half}, {held(n)};\n" + WAIT
    body += load("32x32b", 64, False) + "tcgen05.wait::ld.sync.aligned;\n" + keep(64)
    both = np.concatenate([given.ravel(), stored.ravel()])
    out = tcgen05.run(body, both, np.zeros((128, 64), np.uint32), columns=columns)
    wanted = given.copy()
    for warp in range(4):
        mine = stored[32 * warp : 32 * warp + 32]
        halves = np.stack([mine & 0xFFFF, mine >> 16], axis=-1)
        if packed:
            wanted[32 * warp + lane, column] = halves
        else:
            wanted[32 * warp + lane[..., 0], column[..., 0]] = mine
    np.testing.assert_array_equal(out, wanted[:, :64])


@pytest.mark.parametrize("lane", [0, 16])
def test_ld__16_lanes_may_be_the_upper_ones(lane):
    given = values()
    body = fill(64) + load("16x256b", 1, False, column=8, lane=lane) + keep(4)
    out = tcgen05.run(body, given, np.zeros((128, 4), np.uint32))
    cells_lane, column, _ = cutlass_cells("16x256b", 1, False)
    np.testing.assert_array_equal(out[:32], given[cells_lane[..., 0] + lane, column[..., 0] + 8])


# --- rules --------------------------------------------------------------------------------------------


def broken(body, kind, match, **options):
    with pytest.raises(kind, match=match):
        tcgen05.run(fill(64) + body, values(), np.zeros((128, 64), np.uint32), **options)


def test_ld__of_another_warps_lanes_is_refused():
    broken(
        load("32x32b", 1, False, lane=32),
        TensorMemoryAccessError,
        r"lane \d+: warp \d reaches lanes \d+ to \d+, so \.32x32b must start at lane \d+",
    )
    broken(load("32x32b", 1, False, lane=16), TensorMemoryAccessError, "reaches lanes")
    broken(load("16x64b", 1, False, lane=8), TensorMemoryAccessError, r"must start at lane \d+ or \d+")


def test_ld__warps_of_a_second_warpgroup_reach_the_same_lanes():
    given = values()
    body = "setp.ge.u32 %q, %warp, 4;\nadd.u32 %d, %tmem, %lane;\n@%q bra SECOND;\n" + fill(64)
    body += "SECOND:\nbar.sync 0;\n@!%q bra DONE;\n" + load("32x32b", 4, False)
    body += "and.b32 %me, %me, 127;\n" + keep(4) + "DONE:\n"
    out = tcgen05.run(body, given, np.zeros((128, 4), np.uint32), block=256)
    np.testing.assert_array_equal(out, given[:, :4])


def test_ld__outside_of_the_allocation_is_refused():
    broken(
        load("32x32b", 8, False, column=124),
        TensorMemoryAccessError,
        "column 128 is not allocated .allocated: 0..127.",
    )
    broken(load("32x32b", 8, False, column=508), TensorMemoryAccessError, "128 lanes and 512 columns")


def test_ld__of_what_nobody_has_written_is_refused():
    broken(
        load("32x32b", 8, False, column=60), UninitializedRead, "register 4 would be loaded from column 64"
    )


def test_ld__needs_one_address_for_the_warp():
    broken(
        "add.u32 %d, %d, %me;\n" + load("32x32b", 1, False),
        NonUniformOperand,
        "address is 0x|address is 0 in lane 0",
    )


def test_st__without_a_wait_is_a_hazard():
    body = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%d], {%r0};\n" + load("32x32b", 1, False)
    broken(body, TensorMemoryHazard, r"which the tcgen05\.st.* has not written yet\. .*tcgen05\.wait::st")


def test_st__twice_to_a_cell_without_a_wait_is_a_hazard():
    store = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%d], {%r0};\n"
    broken(store + store, TensorMemoryHazard, r"has not written")


def test_st__that_nobody_waits_for_is_seen_when_the_columns_are_freed():
    broken(
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%d], {%r0};\n", TensorMemoryHazard, r"tcgen05\.dealloc uses"
    )


# Tables 49 and 50 of the document: the registers of each shape and repetition; what is not there is NA.
TABLE = {
    ("16x32bx2", "16x64b", "32x32b"): {1: 1, 2: 2, 4: 4, 8: 8, 16: 16, 32: 32, 64: 64, 128: 128},
    ("16x128b",): {1: 2, 2: 4, 4: 8, 8: 16, 16: 32, 32: 64, 64: 128},
    ("16x256b",): {1: 4, 2: 8, 4: 16, 8: 32, 16: 64, 32: 128},
}


def test_all__is_the_documents_table():
    legal = {
        (shape, count, n) for shapes, row in TABLE.items() for shape in shapes for count, n in row.items()
    }
    assert {(shape, count, REGISTERS[shape] * count) for shape, count, _ in ALL} == legal


@pytest.mark.parametrize("instruction", ["ld", "st"])
@pytest.mark.parametrize(
    ("shape", "count", "why"),
    [
        ("16x128b", 128, "would take 256 registers"),
        ("16x256b", 64, "would take 256 registers"),
        ("16x256b", 128, "would take 512 registers"),
        ("32x32b", 3, "needs one of the modifiers"),
        ("32x32b", 256, "needs one of the modifiers"),
        ("16x32b", 1, "needs one of the modifiers"),
        ("8x32b", 1, "needs one of the modifiers"),
    ],
)
def test_forms__outside_of_the_table_are_refused(instruction, shape, count, why):
    operands = "{%r0}, [%d]" if instruction == "ld" else "[%d], {%r0}"
    body = f"tcgen05.{instruction}.sync.aligned.{shape}.x{count}.b32 {operands};\n"
    broken(body, UnsupportedInstruction, why)


@pytest.mark.parametrize("warp", range(8))
def test_st__reaches_the_lanes_of_its_warp_only(warp):
    """Each of eight warps may store to one quarter of the lanes; the other three are reported."""
    for quarter in range(4):
        store = f"setp.ne.u32 %q, %warp, {warp};\n@%q bra NOT;\nadd.u32 %x, %tmem, {quarter << 21};\n"
        store += "tcgen05.st.sync.aligned.32x32b.x1.b32 [%x], {%r0};\n" + WAIT + "NOT:\n"
        given, out = np.zeros((256, 1), np.uint32), np.zeros((256, 1), np.uint32)
        if quarter == warp % 4:
            tcgen05.run(store, given, out, block=256)
            continue
        hazards = {} if quarter else {"lanes left out": "error"}
        with pytest.raises(TensorMemoryAccessError, match=f"warp {warp} reaches lanes {32 * (warp % 4)} to"):
            tcgen05.run(store, given, out, block=256, hazards=hazards)


@pytest.mark.parametrize("given_lane", [0, 64])
def test_lanes__are_the_warps_own_ones_where_no_error_ends_the_launch(given_lane):
    """As in DeepGEMM, every warp names lane 0, or where the hazard is lowered another one."""
    body = (
        "mad.wide.u32 %at, %me, 4, %in;\nld.global.b32 %r0, [%at];\n"
        f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%tmem], {{%r0}};\n{WAIT}"
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%tmem];\ntcgen05.wait::ld.sync.aligned;\n"
        "mad.wide.u32 %at, %me, 4, %out;\nst.global.b32 [%at], %r1;\n"
    )
    given, out = np.arange(1, 129, dtype=np.uint32)[:, None], np.zeros((128, 1), np.uint32)
    body = body.replace("[%tmem]", "[%x]")
    body = f"add.u32 %x, %tmem, {given_lane << 16};\n" + body
    tcgen05.run(body, given, out, hazards={"wrong lanes": "note"} if given_lane else {})
    np.testing.assert_array_equal(out, given)


def test_halves__have_an_offset_that_makes_sense():
    load_at = "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%r0, %r1}, [%d], "
    broken(load_at + "%x;\n", InvalidOperand, "must be an integer constant")
    broken(load_at + "-2;\n", InvalidOperand, "is -2, but must be 0 or more columns")
    store = "tcgen05.st.sync.aligned.16x32bx2.x2.b32 [%d], 1, {%r0, %r1};\n"
    broken(store, InvalidOperand, "with an offset of 1 columns both halves would store to the same cells")


def test_ld__refuses_forms_that_do_not_exist():
    broken("tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r0}, [%d];\n", UnsupportedInstruction, "256 registers")
    broken("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0}, [%d];\n", InvalidOperand, "takes 2 registers, and 1")
    broken(
        "tcgen05.ld.red.sync.aligned.32x32b.x1.max.f32 {%r0}, %r2, [%d];\n",
        UnsupportedInstruction,
        "with .x2 or more",
    )
    broken(
        "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%r0, %r1}, {%r2, %r3}, [%d];\n",
        InvalidOperand,
        "one register for the result, and 2",
    )


def test_events__tell_of_loads_and_stores():
    recorder = Recorder()
    body = fill(64) + load("16x64b", 2, False) + "tcgen05.wait::ld.sync.aligned;\n" + keep(2)
    tcgen05.run(body, values(), np.zeros((128, 2), np.uint32), recorder=recorder)
    trace = recorder.trace()
    assert sorted(e["address"] >> 16 for e in trace.of("tmem.load")) == [0, 32, 64, 96]
    assert str(trace.of("tmem.load").events[0]).startswith("tmem.load: 16x64b at 0x")
    assert [e["name"] for e in trace.of("tmem.wait")].count("st") == 4


@pytest.mark.program("ptxas")
def test_ptxas__assembles_every_form(tmp_path, find_program):
    body = "add.u32 %d, %tmem, %lane;\n"
    for shape, count, packed in ALL:
        body += load(shape, count, packed)
        half = f", {split_of(count, packed)}" if shape == "16x32bx2" else ""
        unpack = ".unpack::16b" if packed else ""
        n = REGISTERS[shape] * count
        body += f"tcgen05.st.sync.aligned.{shape}.x{count}{unpack}.b32 [%d]{half}, {held(n)};\n"
    (tmp_path / "k.ptx").write_text(tcgen05.kernel(body))
    done = subprocess.run(
        [find_program("ptxas"), "-arch=sm_100a", "-o", tmp_path / "k.cubin", tmp_path / "k.ptx"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_ld_red__is_over_when_its_result_has_been_used():
    """Here nothing reads the vector, and nothing waits."""
    text = (Path(__file__).parent / "cases" / "tcgen05" / "ld_red.ptx").read_text("utf-8")
    left_out = ("tcgen05.wait::ld", "st.global.b32 [%d")
    lines = [line for line in text.splitlines() if not any(one in line for one in left_out)]
    shapes = ((128, 16, np.float32), (128, 16, np.uint32), (128, 5, np.float32), (128, 3, np.uint32))
    args = [np.ones((rows, columns), kind) for rows, columns, kind in shapes]
    found = launch("\n".join(lines), grid=1, block=128, args=args)
    assert any("tcgen05.wait::ld" in str(note) for note in found.notes)
