"""Tensor memory: accumulators, loads and the allocators' rules as CUTLASS's headers have them."""

from __future__ import annotations

import json
import re

import pytest
from umma.cutlass_data import CASES, cpp, names, nested, plain

from cutecourse.dtypes import dtype
from cutecourse.umma import (
    TMEM_LOADS,
    TMEM_STORES,
    FragmentTrace,
    TmemAllocator,
    TmemCopyTrace,
    UmmaError,
    allocator1sm,
    allocator2sm,
    make_fragment_C,
    make_tmem_copy,
    make_tmem_fragment_A,
    tmem_frg,
)
from cutecourse.umma.tmem_atoms import tmem_copy_op
from support import cutlass_cpp


def fragment_of(name: str) -> FragmentTrace:
    case = CASES[name]
    shape = nested(case["shape"])
    if "storage" not in case:
        return make_fragment_C(shape, case["dtype"], case["sms"])
    bits = dtype(case["storage"]).bits
    return tmem_frg(shape, case["dtype"], case["sms"], storage_bits=bits, tmem_alloc=case["alloc"])


def copy_of(name: str) -> TmemCopyTrace:
    return make_tmem_copy(CASES[name]["op"], fragment_of(name))


@pytest.mark.parametrize("name", names("fragment"))
def test_make_fragment_C__lays_the_accumulator_out_as_cutlass(name: str) -> None:
    expect, fragment = CASES[name]["expect"], fragment_of(name)
    assert cpp(fragment.layout) == plain(expect["layout"])
    assert fragment.columns == int(plain(expect["columns"]))


@pytest.mark.parametrize(
    "name", [name for name in names("fragment") if CASES[name].get("storage") == CASES[name]["dtype"]]
)
def test_make_tmem_fragment_A__is_the_fragment_of_the_TS_traits(name: str) -> None:
    case = CASES[name]
    made = make_tmem_fragment_A(nested(case["shape"]), case["dtype"], case["sms"])
    assert made == fragment_of(name)


RULES = {
    "Shape Divisibility Condition": "tiling",
    "Requesting more TMEM than is available": "capacity",
    "M-mode size should be": "m_size",
    "UMMA_1SM only accepts Interleaved or NonInterleaved": "tmem_alloc",
    "UMMA_2SM only accepts Interleaved or Duplicated": "tmem_alloc",
    "Only TmemAllocMode::Interleaved is supported": "tmem_alloc",
    "require StorageType big enough": "storage",
}


@pytest.mark.parametrize("name", names("fragment", refused=True))
def test_make_fragment_C__refuses_what_cutlass_refuses(name: str) -> None:
    reason = CASES[name]["expect"]["refused"]
    with pytest.raises(UmmaError) as info:
        fragment_of(name)
    assert info.value.rule == next(rule for part, rule in RULES.items() if part in reason), reason


@pytest.mark.parametrize(
    ("shape", "n_sm"),
    [
        (((64, 64), 2, 2), 1),
        (((128, 64), 2, 1), 1),
        (((64, 64), 1, 2), 2),
        (((32, 64), 1, 1), 2),
        (((128, 32), 1, 2), 2),
    ],
)
def test_make_fragment_C__gives_each_element_a_place_of_its_own(shape: tuple, n_sm: int) -> None:
    fragment = make_fragment_C(shape, "f32", n_sm)
    places = [fragment.place(index) for index in range(fragment.tensor().size)]
    assert len({place.address for place in places}) == len(places)
    assert max(place.lane for place in places) < 128
    assert max(place.column for place in places) == fragment.columns - 1


@pytest.mark.parametrize("name", names("tmem_ops"))
def test_tmem_ops__have_the_traits_of_cutlass(name: str) -> None:
    case = CASES[name]
    for index, op_name in enumerate(case["ops"]):
        op = tmem_copy_op(op_name)
        given = {
            "thr_id": op.atom.thr_id,
            "val_id": op.val_id,
            "src_layout": op.atom.bit_layout_src,
            "dst_layout": op.atom.bit_layout_dst,
            "ref_layout": op.atom.bit_layout_ref,
        }
        for key, layout in given.items():
            assert cpp(layout) == plain(case["expect"][key][index]), (op_name, key)


def test_tmem_ops__are_all_that_the_data_has() -> None:
    asked = {op for name in names("tmem_ops") for op in CASES[name]["ops"]}
    assert asked == set(TMEM_LOADS) | set(TMEM_STORES)
    assert len(asked) == 148


@pytest.mark.parametrize("name", names("tmem_copy"))
def test_make_tmem_copy__computes_every_value_of_cutlass(name: str) -> None:
    expect, copy = CASES[name]["expect"], copy_of(name)
    assert cpp(copy.fragment.layout) == plain(expect["fragment"])
    assert cpp(copy.copy_op.atom.bit_layout_src) == plain(expect["src_layout"])
    assert cpp(copy.copy_op.atom.bit_layout_dst) == plain(expect["dst_layout"])
    for field in ("val_id", "atom_t_layout", "atom_v_layout", "layout_tv", "tiler"):
        assert cpp(getattr(copy, field)) == plain(expect[field]), field
    shift = 0 if copy.fragment.value_type.bits == 32 else 1
    for index, thread in enumerate(expect["thread"]):
        memory, registers = copy.partition_S(thread), copy.partition_D(thread)
        if copy.copy_op.store:
            memory, registers = registers, memory
        assert memory.offset >> shift == expect["address"][index]
        assert cpp(memory.layout) == plain(expect["memory"][index])
        assert cpp(registers.layout) == plain(expect["registers"][index])
        for key, position in (("first", 0), ("second", 1), ("last", registers.size - 1)):
            assert cpp(registers(position)) == re.sub("ArithTuple", "", plain(expect[key][index]))


@pytest.mark.parametrize("name", names("tmem_copy", refused=True))
def test_make_tmem_copy__refuses_places_that_the_accumulator_has_not(name: str) -> None:
    with pytest.raises(UmmaError) as info:
        copy_of(name)
    assert info.value.rule == "lanes", CASES[name]["expect"]["refused"]


@pytest.mark.parametrize("repetitions", [1, 4, 128])
def test_make_tmem_copy__gives_each_thread_one_lane(repetitions: int) -> None:
    fragment = make_fragment_C(((128, 128), 1, 1))
    copy = make_tmem_copy(f"SM100_TMEM_LOAD_32dp32b{repetitions}x", fragment)
    for thread in (0, 31, 42, 127):
        elements = copy.elements(thread)
        assert [place.column for _, place in elements] == list(range(128))
        for coord, place in elements:
            assert (place.lane, place.warp) == (thread, thread // 32)
            assert (coord[0][0], coord[0][1]) == (thread, place.column)


@pytest.mark.parametrize(
    ("shape", "n_sm", "ops"),
    [
        (((128, 8), 1, 1), 1, ("LOAD_16dp128b2x", "STORE_16dp32b2x", "LOAD_32dp32b8x")),
        (((64, 8), 1, 1), 1, ("LOAD_16dp256b1x", "STORE_16dp64b2x")),
        (((64, 16), 1, 1), 2, ("STORE_16dp256b1x", "LOAD_16dp64b4x", "STORE_32dp32b8x")),
    ],
)
def test_make_tmem_copy__moves_every_element_once_and_by_its_warp(
    shape: tuple, n_sm: int, ops: tuple[str, ...]
) -> None:
    fragment = make_fragment_C(shape, "f32", n_sm)
    for op in ops:
        copy = make_tmem_copy(f"SM100_TMEM_{op}", fragment)
        moved = []
        for thread in range(128):
            for coord, place in copy.elements(thread):
                assert place.warp == thread // 32, op
                assert fragment.place(*coord) == place, op
                moved.append(tuple(coord[0]))
        assert sorted(moved) == [(m, n) for m in range(shape[0][0]) for n in range(shape[0][1])], op


def test_make_tmem_copy__refuses_other_loads_by_name() -> None:
    fragment = make_fragment_C(((128, 64), 1, 1))
    for rule, op in (
        ("family", "SM100_TMEM_LOAD_STAT_32dp32b2x"),
        ("op", "SM100_TMEM_LOAD_64dp32b1x"),
        ("op", "SM100_TMEM_STORE_16dp256b64x"),
    ):
        with pytest.raises(UmmaError, match=op) as info:
            make_tmem_copy(op, fragment)
        assert info.value.rule == rule


def test_make_fragment_C__refuses_what_is_no_partitioned_shape() -> None:
    for rule, arguments in (
        ("shape", ((128, 256), "f32")),
        ("n_sm", (((128, 64), 1, 1), "f32", 3)),
        ("dtype", (((128, 64), 1, 1), "f64")),
    ):
        with pytest.raises(UmmaError) as info:
            make_fragment_C(*arguments)
        assert info.value.rule == rule


def test_records__explain_themselves() -> None:
    fragment = make_fragment_C(((64, 128), 1, 1), n_sm=2)
    assert json.loads(json.dumps(fragment.to_snapshot()))["columns"] == 64
    assert str(fragment.layout) in str(fragment.explain())
    copy = make_tmem_copy("SM100_TMEM_LOAD_32dp32b2x", fragment)
    assert "four warps" in str(copy.explain())
    assert json.loads(json.dumps(copy.to_snapshot()))["op"] == "SM100_TMEM_LOAD_32dp32b2x"


# ---- allocators ----


@pytest.mark.parametrize("allocator", [allocator1sm, allocator2sm], ids=["1sm", "2sm"])
def test_allocator__has_the_numbers_and_instructions_of_the_header(allocator: TmemAllocator) -> None:
    folder = cutlass_cpp.include_folder()
    header = (folder / "cute" / "arch" / "tmem_allocator_sm100.hpp").read_text()
    text = header.split(f"class {allocator.name}")[1].split("class Allocator")[0]
    constants = dict(re.findall(r"constexpr int (\w+) = (\d+);", text))
    assert allocator.columns_per_allocation_slice == int(constants["ColumnsPerAllocationSlice"])
    assert allocator.capacity_columns == int(constants["Sm100TmemCapacityColumns"])
    for instruction in allocator.ptx:
        assert instruction in text


def test_allocator__takes_powers_of_two_from_32_to_512() -> None:
    allowed = (32, 64, 128, 256, 512)
    for columns in allowed:
        allocator1sm.check(columns)
    for columns in set(range(-1, 1100)) - set(allowed):
        with pytest.raises(UmmaError) as info:
            allocator1sm.check(columns)
        assert info.value.rule == "columns"
    for columns in range(1, 513):
        taken = allocator2sm.columns_for(columns)
        allocator2sm.check(taken)
        assert taken >= columns
        assert taken == 32 or taken // 2 < columns
    for columns in (0, 513):
        with pytest.raises(UmmaError):
            allocator1sm.columns_for(columns)
