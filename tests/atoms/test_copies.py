"""Nested permutations, copies of copies, predicates and swizzled pointers, as C++ and the DSL have them."""

import json
import random
import shutil
from functools import cache
from typing import Any

import pytest
from atoms.cpp import regenerate_copies
from atoms.oracles import ask_dsl, ask_dsl_less
from atoms.ours import answer, differences, layout_of

from cutecourse.atoms import (
    LayoutTensor,
    PartitionError,
    SmemPtr,
    as_position_independent_swizzle_layout,
    as_position_independent_swizzle_tensor,
    copy_atom,
    domain_offset,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_mma,
    predicate,
    recast_ptr,
    recast_tensor,
)
from cutecourse.layout import (
    ComposedLayout,
    Layout,
    ProfileError,
    Swizzle,
    elem_less,
    idx2crd,
    local_tile,
    make_identity_layout,
    make_ordered_layout,
    size,
)
from support.cutlass_cpp import include_folder

DATA: dict[str, Any] = json.loads(regenerate_copies.PROGRAM.data.read_text())


def cases(kind: str) -> Any:
    """A test's parameter `case`: the recorded cases whose names begin so."""
    chosen = [case for case in DATA["cases"] if case["case"].startswith(f"{kind}-")]
    assert len(chosen) >= 6
    return pytest.mark.parametrize("case", chosen, ids=[case["case"] for case in chosen])


# ---- against CUTLASS's headers ----


def test_cases__are_those_of_the_seed() -> None:
    kept = [{key: value for key, value in case.items() if key != "expect"} for case in DATA["cases"]]
    assert kept == json.loads(json.dumps(regenerate_copies.random_cases()))


@pytest.mark.program("nvcc")
@pytest.mark.inputs("tests/atoms/cpp", "tests/support/cutlass_cpp.py")
def test_data__is_what_the_headers_print_now() -> None:
    """The pointers, which compile in seconds; `regenerate_copies.py --check` does every case."""
    chosen = [case for case in DATA["cases"] if case["case"] in ("pointer-001", "pointer-003", "flagged-000")]
    nvcc = shutil.which("nvcc")
    assert nvcc is not None
    printed = regenerate_copies.PROGRAM.answer(chosen, include_folder(), nvcc)
    assert printed == {case["case"]: case["expect"] for case in chosen}


@cases("nested")
def test_nested_permutation__equals_the_headers(case: dict[str, Any]) -> None:
    assert any("((" in tile or ",(" in tile for tile in case["permutation"] if tile)
    assert differences(answer(case), case["expect"], "cutlass") == []


@cases("side")
def test_make_tiled_copy_S_and_D__equal_the_headers(case: dict[str, Any]) -> None:
    assert differences(answer(case), case["expect"], "cutlass") == []


@cases("predicate")
def test_predicate__equals_the_headers(case: dict[str, Any]) -> None:
    atom = copy_atom(case["op"], case["dtype"])
    copy = make_tiled_copy(atom, Layout.parse(case["thr"]), Layout.parse(case["val"]))
    shape = eval(case["shape"])
    layout, start = local_tile(make_identity_layout(shape), copy.tiler_mn, tuple(case["at"]))
    for thread in case["slices"]:
        part = copy.get_slice(thread).partition_S(LayoutTensor(layout, start))
        bits = "".join("01"[bit] for bit in predicate(part, shape))
        assert bits == case["expect"][f"bits@{thread}"]


@cases("moved")
def test_domain_offset__equals_the_headers(case: dict[str, Any]) -> None:
    moved = domain_offset(tuple(case["coord"]), layout_of(case["tensor"]))
    assert differences({"t@0": moved}, case["expect"], "cutlass") == []


@cases("pointer")
def test_swizzled_pointer__equals_the_headers(case: dict[str, Any]) -> None:
    pointer = SmemPtr(case["start"], case["dtype"], Swizzle(*case["swizzle"]))
    tensor = LayoutTensor(Layout.parse(case["layout"]), pointer)
    other = recast_tensor(tensor, case["new"])
    found = {
        "addresses": tensor,
        "recast.layout": other.layout,
        "recast.addresses": other,
    }
    if case["aligned"]:
        for name, one in (("", tensor), ("recast.", other)):
            moved = as_position_independent_swizzle_tensor(one)
            found |= {f"{name}independent.layout": moved.layout, f"{name}independent.addresses": moved}
    else:
        with pytest.raises(PartitionError, match=r"inside the pattern of S<"):
            as_position_independent_swizzle_tensor(tensor)
    assert set(found) == set(case["expect"])
    for key, text in case["expect"].items():
        if key.endswith("layout"):
            assert Layout.parse(text) == found[key]
        else:
            where = [element.address for element in found[key].elements()]
            assert where[:256] == [int(word) for word in text.split()]


@cases("flagged")
def test_position_independent_layout__equals_the_headers(case: dict[str, Any]) -> None:
    layout = ComposedLayout(Swizzle(*case["swizzle"]), 0, Layout.parse(case["layout"]))
    dtype = {8: "u8", 16: "f16", 32: "f32"}[case["bits"]]
    found = as_position_independent_swizzle_layout(layout, dtype)
    assert found == Layout.parse(case["expect"]["layout"])


# ---- against the DSL ----


def spec(case: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in case.items() if key != "expect"}


@cache
def dsl_answers() -> list[tuple[dict[str, Any], str, dict[str, str]]]:
    """The DSL's answers to the recorded cases that it can do, and to fresh ones: asked once."""
    makers = {
        "nested": regenerate_copies.nested_case,
        "side": regenerate_copies.side_case,
        "moved": regenerate_copies.moved_case,
    }
    asked = [spec(case) for case in DATA["cases"] if case["case"].partition("-")[0] in makers]
    for name, make in makers.items():
        asked += [make(random.Random(f"fresh {name} {n}"), f"{name}-fresh-{n}") for n in range(12)]
    # The DSL counts a swizzled tensor's start after the swizzle, which C++ and this library do not.
    asked = [case for case in asked if not (case["kind"] == "moved" and case["tensor"].startswith("S"))]
    rng = random.Random(11)
    asked += [spec(case) for case in DATA["cases"] if case["kind"] == "pointer"]
    asked += [retile_case(rng, number) for number in range(12)]
    for stride in ((1, 16), (16, 1)):
        partition = (
            make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN").get_slice(0).partition_A(Layout((16, 16), stride))
        )
        asked.append({"kind": "fragment_like", "layout": str(partition.layout)})
    return [(case, *said) for case, said in zip(asked, ask_dsl(asked), strict=True)]


def drawn(rng: random.Random, shape: Any) -> Any:
    if isinstance(shape, tuple):
        return tuple(drawn(rng, part) for part in shape)
    return rng.randrange(-1, shape + (1 if rng.random() < 0.2 else 0))


def retile_case(rng: random.Random, number: int) -> dict[str, Any]:
    """A fragment of A or C that a copy sees: the compact layout of a partition."""
    operand = rng.choice("ac")
    atoms = rng.choice([(2, 2, 1), (1, 2, 1), (4, 1, 1)])
    tile = (16 * atoms[0], 16) if operand == "a" else (16 * atoms[0], 8 * atoms[1])
    values = {"a": (2, 2, 2), "c": (2, 2)}[operand]
    fragment = (values, rng.choice([1, 2]), rng.choice([2, 4]))
    return {
        "case": f"retile-{number}",
        "kind": "retile",
        "operand": operand,
        "copy": "SM75_U32x4_LDSM_N" if operand == "a" else "UniversalCopy<uint32_t>",
        "dtype": "f16" if operand == "a" else "f32",
        "op": "SM80_16x8x16_F32F16F16F32_TN",
        "atom_layout": str(Layout(atoms)),
        "permutation": [None, None, None],
        "tile": tile,
        "fragment": str(Layout(fragment)),
    }


def ours(case: dict[str, Any]) -> dict[str, Any]:
    if case["kind"] == "moved":
        return {"t@0": domain_offset(tuple(case["coord"]), layout_of(case["tensor"]))}
    return answer(case)


@pytest.mark.parametrize("kind", ["tiled_mma", "side_copy", "moved"])
def test_partitions__equal_the_dsl(kind: str) -> None:
    chosen = [(case, status, said) for case, status, said in dsl_answers() if case["kind"] == kind]
    wrong = [(c, found) for c, _, said in chosen if (found := differences(ours(c), said, "dsl"))]
    assert sum(status == "ok" for _, status, _ in chosen) >= 12
    assert wrong == []


def test_retile__equals_the_dsl() -> None:
    chosen = [
        (case, said) for case, status, said in dsl_answers() if case["kind"] == "retile" and status == "ok"
    ]
    assert len(chosen) >= 10
    for case, said in chosen:
        assert Layout.parse(said["retile"]) == answer(case)["retile"], case


def test_recast_tensor__equals_the_dsl_which_drops_the_swizzle_of_the_pointer() -> None:
    chosen = [(case, status, said) for case, status, said in dsl_answers() if case["kind"] == "pointer"]
    assert len(chosen) >= 12
    for case, status, said in chosen:
        assert status == "ok", (case, said)
        swizzle = Swizzle(*case["swizzle"])
        tensor = LayoutTensor(Layout.parse(case["layout"]), SmemPtr(0, case["dtype"], swizzle))
        recast = recast_tensor(tensor, case["new"])
        assert Layout.parse(said["recast.layout"]) == recast.layout
        assert str(swizzle) in said["pointer"]
        assert "S<" not in said["recast_ptr"]
        assert str(recast.offset.swizzle) in said["recast_ptr, swizzle"]


def test_fragment_like__of_the_dsl_takes_the_order_of_all_strides() -> None:
    chosen = [(case, said) for case, _, said in dsl_answers() if case["kind"] == "fragment_like"]
    assert len(chosen) == 2
    for case, said in chosen:
        partition = Layout.parse(case["layout"])
        assert Layout.parse(said["fragment"]) == make_ordered_layout(partition.shape, partition.stride)


def test_elem_less__equals_the_dsl() -> None:
    rng = random.Random(12)
    profiles: list[Any] = [3, (3, 4), (3, (4, 5)), ((2, 3), (4, (5, 2))), (7, 1, 3)]
    pairs = [(drawn(rng, shape), shape) for shape in rng.choices(profiles, k=16)]
    # The nesting differs: the DSL refuses, and C++ would take the first.
    refused: list[tuple[Any, Any]] = [((1,), (2, 2)), ((1, 2), 3), ((1, 2), (3, (4, 5)))]
    said = ask_dsl_less([*pairs, *refused])
    assert said[: len(pairs)] == [elem_less(a, b) for a, b in pairs]
    assert {True, False} <= set(said[: len(pairs)])
    assert said[len(pairs) :] == [None] * len(refused)
    for a, b in refused:
        with pytest.raises(ProfileError):
            elem_less(a, b)


# ---- laws ----


@pytest.mark.parametrize("shape", [(9, 22), (16, 32), (1, 1), (17, 5)])
@pytest.mark.parametrize("vector", [1, 2])
def test_predicate__lets_every_element_through_once(shape: tuple[int, int], vector: int) -> None:
    atom = copy_atom(f"UniversalCopy<uint{16 * vector}_t>", "f16")
    copy = make_tiled_copy(atom, Layout((8, 4), (4, 1)), Layout((1, vector)))
    whole = make_identity_layout(shape)
    copied: list[Any] = []
    for m in range(-(-shape[0] // 8)):
        for n in range(-(-shape[1] // (4 * vector))):
            layout, start = local_tile(whole, copy.tiler_mn, (m, n))
            for thread in range(copy.size):
                part = copy.get_slice(thread).partition_S(LayoutTensor(layout, start))
                bits = predicate(part, shape)
                assert bits.count == sum(bits(i) for i in range(len(bits)))
                copied += [crd for crd, bit in zip(part.elements(), bits, strict=True) if bit]
    assert sorted(copied) == sorted(idx2crd(i, shape) for i in range(size(shape)))


def test_predicate__of_the_first_element_is_right_for_the_vector_if_no_vector_crosses_the_edge() -> None:
    copy = make_tiled_copy(
        copy_atom("UniversalCopy<uint64_t>", "f16"), Layout((8, 4), (4, 1)), Layout((1, 4))
    )
    for columns, whole_vectors in ((12, True), (10, False)):
        same = True
        for thread in range(copy.size):
            part = copy.get_slice(thread).partition_S(make_identity_layout((8, 16)))
            each = predicate(part, (8, columns))
            first = predicate(part((0, None), None, None), (8, columns))
            same &= all(each((value, 0), 0, 0) == first(0, 0, 0) for value in range(4))
        assert same == whole_vectors


def test_elem_less__says_nothing_about_what_is_below_zero() -> None:
    part = domain_offset((0, -3), make_identity_layout((4, 8)))
    assert part(0, 0) == (0, -3)
    assert predicate(part, (4, 8)).count == 32


def test_domain_offset__adds_the_offset_of_the_coordinate() -> None:
    for layout in (Layout((4, 8), (8, 1)), Layout((4, (2, 4)), (1, (4, 16))), make_identity_layout((4, 8))):
        for at in ((1, 2), (0, 0), (3, 5)):
            moved = domain_offset(at, layout)
            assert moved(0, 0) == layout(at)
            assert moved.layout == layout
    swizzled = ComposedLayout(Swizzle(2, 0, 3), 0, Layout((8, 8), (8, 1)))
    moved = domain_offset((3, 2), swizzled)
    assert [moved(i, j) for i in range(4) for j in range(4)] == [
        swizzled((3 + i, 2 + j)) for i in range(4) for j in range(4)
    ]


@pytest.mark.parametrize("bits", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["u8", "f16", "f32", "f64"])
def test_swizzle__on_bytes_and_on_elements_is_the_same_function(bits: int, dtype: str) -> None:
    in_bytes = ComposedLayout(Swizzle(bits, 4, 3), 0, Layout((16, 16), (16, 1)))
    on_elements = as_position_independent_swizzle_layout(in_bytes, dtype)
    width = SmemPtr(0, dtype).bits // 8
    for start in (0, 1024, 4096):
        pointer = LayoutTensor(in_bytes.outer, SmemPtr(start, dtype, in_bytes.inner))
        for index in range(256):
            assert pointer(index).address == start + width * on_elements(index)
    # Inside the pattern the two differ, which is why the tensor version refuses.
    span = 16 << (bits + 3)
    inside = LayoutTensor(in_bytes.outer, SmemPtr(span // 2, dtype, in_bytes.inner))
    assert [inside(i).address for i in range(256)] != [span // 2 + width * on_elements(i) for i in range(256)]


def test_recast_ptr__keeps_the_address_and_may_change_the_swizzle() -> None:
    pointer = SmemPtr(64, "f16", Swizzle(3, 4, 3))
    assert recast_ptr(pointer, dtype="f32") == SmemPtr(64, "f32", Swizzle(3, 4, 3))
    assert recast_ptr(pointer, Swizzle(1, 4, 3)) == SmemPtr(64, "f16", Swizzle(1, 4, 3))
    assert (pointer + 32).address == Swizzle(3, 4, 3)(128)


def test_hierarchical_permutation__gives_each_warp_two_atoms_side_by_side() -> None:
    """Why a GEMM asks for it: a thread's values of B for two atoms come from one block of 16 columns."""
    atom = "SM80_16x8x16_F32F16F16F32_TN"
    plain = make_tiled_mma(atom, (2, 2, 1), (32, 32, 16))
    together = make_tiled_mma(atom, (2, 2, 1), (32, Layout(((8, 2), 2), ((1, 16), 8)), 16))
    coords = make_identity_layout((32, 16))
    for thread in range(0, 128, 5):
        warp_n = thread // 64
        columns = {n for n, _ in plain.get_slice(thread).partition_B(coords).elements()}
        assert {n // 8 for n in columns} == {warp_n, warp_n + 2}
        columns = {n for n, _ in together.get_slice(thread).partition_B(coords).elements()}
        assert {n // 16 for n in columns} == {warp_n}
    ldmatrix = copy_atom("SM75_U32x4_LDSM_N", "f16")
    assert make_tiled_copy_A(ldmatrix, plain) == make_tiled_copy_A(ldmatrix, together)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SmemPtr(3, "f16"), "3 is no multiple of the 2 bytes"),
        (lambda: recast_ptr(SmemPtr(2, "f16"), dtype="f32"), "2 is no multiple of the 4 bytes"),
        (lambda: recast_tensor(LayoutTensor(Layout(8)), "f16"), "has no pointer"),
        (
            lambda: as_position_independent_swizzle_tensor(
                LayoutTensor(Layout(8), SmemPtr(128, "f16", Swizzle(3, 4, 3)))
            ),
            "128 bytes inside the pattern .* Align it to 1024 bytes",
        ),
    ],
)
def test_pointers__refuse_with_the_rule(call: Any, message: str) -> None:
    with pytest.raises(PartitionError, match=message):
        call()
