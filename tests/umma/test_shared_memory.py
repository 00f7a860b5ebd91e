"""Operands in shared memory: layouts, descriptors and tiles as CUTLASS's headers make them."""

from __future__ import annotations

import json
import shutil
from itertools import product

import pytest
from umma.cpp import regenerate
from umma.cutlass_data import CASES, cpp, names, nested, plain, smem_layout, without_pointer

from cutecourse.descriptors import SMEM_SM90, SMEM_SM100
from cutecourse.dtypes import dtype
from cutecourse.layout import ComposedLayout, Layout, Swizzle, get_nonswizzle_portion, size, tile_to_shape
from cutecourse.umma import (
    SMEM_LAYOUT_ATOMS,
    SmemDescriptorTrace,
    UmmaError,
    canonical_layout,
    gmma_descriptor,
    make_smem_layout_atom,
    smem_desc_tensor,
    smem_descriptor,
    tile_to_mma_shape,
)
from support import cutlass_cpp


def described(name: str) -> SmemDescriptorTrace:
    case = CASES[name]
    make = smem_descriptor if case["kind"] == "desc" else gmma_descriptor
    layout = given_layout(case["smem"], case["dtype"])
    return make(layout, case["dtype"], case["major"], case["address"])


def given_layout(text: str, element: str) -> Layout | ComposedLayout:
    """The layout as the C++ program is given it: an atom and a shape, or written out."""
    if text.startswith(("K_", "MN_")):
        kind, shape = text.split(" ")
        return tile_to_shape(make_smem_layout_atom(kind, element), nested(shape))
    return smem_layout(text.replace(" o ", " o _0 o "))


# ---- against CUTLASS ----


@pytest.mark.parametrize("name", [*names("desc"), *names("gmma")])
def test_smem_descriptor__gives_the_bits_of_cutlass(name: str) -> None:
    case = CASES[name]
    trace = described(name)
    assert f"0x{trace.desc:016x}" == f"0x{case['expect']['desc']:016x}"
    assert cpp(trace.u128_layout) == plain(case["expect"]["u128_layout"])
    bits, base, shift = map(int, nested(f"({case['expect']['u128_swizzle'][3:-1]})"))
    assert trace.smem_swizzle == Swizzle(bits, base, shift)


def test_smem_descriptor__is_compared_in_forty_configurations() -> None:
    assert len(names("desc")) + len(names("mma_shape")) >= 40
    assert {CASES[name]["major"] for name in names("desc")} == {"K", "MN"}


@pytest.mark.parametrize("kind", SMEM_LAYOUT_ATOMS)
@pytest.mark.parametrize("element", ["e4m3", "f16", "tf32"])
def test_canonical_layout__is_what_cutlass_reads_from_the_descriptor(kind: str, element: str) -> None:
    """Every major, swizzle and width: the layout, CUTLASS's descriptor of it, the layout from its fields."""
    case = CASES[f"canonical-{kind}-{element}"]
    fields = SMEM_SM100.decode(case["expect"]["desc"])
    canonical = canonical_layout(
        kind, element, 4, fields["leading_byte_offset"], fields["stride_byte_offset"]
    )
    given = given_layout(case["smem"], element)
    assert canonical.layout.inner == given.inner
    places = [
        [get_nonswizzle_portion(layout)(i) for i in range(size(given.outer))]
        for layout in (canonical.layout, given)
    ]
    assert places[0] == places[1]
    assert fields["layout_type"] == canonical.layout_type
    assert case["expect"]["desc"] >> 61 == canonical.type_bits
    assert smem_descriptor(canonical.layout, element, canonical.major).desc == case["expect"]["desc"]


@pytest.mark.parametrize("kind", SMEM_LAYOUT_ATOMS)
def test_canonical_layout__packs_its_atoms_without_offsets(kind: str) -> None:
    for element in ("e4m3", "f16", "tf32"):
        for m in (1, 2, 4):
            canonical = canonical_layout(kind, element, m)
            found = smem_descriptor(canonical.layout, element, canonical.major)
            assert found.leading_byte_offset == canonical.leading_byte_offset
            assert found.stride_byte_offset == canonical.stride_byte_offset
            assert found.layout_type == canonical.layout_type
    assert json.loads(json.dumps(canonical.to_snapshot()))["form"] == canonical.form
    assert canonical.form in str(canonical.explain())


def test_canonical_layout__refuses_what_a_descriptor_cannot_say() -> None:
    for rule, arguments in (("atom", ("K_SW128_32B", "f16")), ("offset_bits", ("K_SW128", "f16", 2, 0, 8))):
        with pytest.raises(UmmaError) as info:
            canonical_layout(*arguments)
        assert info.value.rule == rule


# what the course says of each refusal of CUTLASS, by its assertion
RULES = {
    "Expected stride failure": "stride",
    "Expected profile failure": "profile",
    "Expected MN-size multiple of 8": "mn_size",
    "Unsupported layout swizzle": "swizzle",
    "SWIZZLE_128B_BASE32B is invalid": "swizzle",
    "can only be constructed on rank-2 tensors": "rank",
    "Divisibility condition": "recast",
    "Expected K-size": "k_size",
}


@pytest.mark.parametrize("name", [*names("desc", refused=True), *names("gmma", refused=True)])
def test_smem_descriptor__refuses_what_cutlass_refuses(name: str) -> None:
    reason = CASES[name]["expect"]["refused"]
    rule = next(rule for part, rule in RULES.items() if part in reason)
    with pytest.raises(UmmaError) as info:
        described(name)
    assert info.value.rule == rule, reason


@pytest.mark.parametrize("name", names("mma_shape"))
def test_tile_to_mma_shape__computes_every_value_of_cutlass(name: str) -> None:
    case = CASES[name]
    expect = case["expect"]
    order = nested(case["order"]) if case["order"] else None
    atom = make_smem_layout_atom(case["atom"], case["dtype"])
    assert cpp(atom) == without_pointer(expect["atom"])
    trace = tile_to_mma_shape(atom, nested(case["shape"]), order)
    for field in ("mma_tile_shape", "zipped", "mn_shape", "mn_tiled", "tiler", "result"):
        assert cpp(getattr(trace, field)) == without_pointer(expect[field]), field
    tensor = smem_desc_tensor(trace.result, case["dtype"], case["atom"].split("_")[0], case["address"])
    assert cpp(tensor.layout) == plain(expect["desc_layout"])
    descs = expect["desc"] if isinstance(expect["desc"], list) else [expect["desc"]]
    assert [tensor(index) for index in range(len(descs))] == descs


@pytest.mark.parametrize("name", names("mma_shape", refused=True))
def test_tile_to_mma_shape__refuses_an_atom_that_does_not_divide(name: str) -> None:
    case = CASES[name]
    assert "block shape does not divide" in case["expect"]["refused"]
    with pytest.raises(UmmaError) as info:
        tile_to_mma_shape(make_smem_layout_atom(case["atom"], case["dtype"]), nested(case["shape"]))
    assert info.value.rule == "tile_to_shape"


@pytest.mark.program("nvcc")
@pytest.mark.inputs("tests/umma/cpp", "tests/support/cutlass_cpp.py")
def test_cutlass_data__is_what_the_headers_say_now() -> None:
    """A few of the cases: all of them take minutes (`cpp/regenerate.py --check`)."""
    include, nvcc = cutlass_cpp.include_folder(), shutil.which("nvcc")
    assert nvcc is not None
    again = ["K-SW32-f16", "MN-SW64-tf32", "core-matrices-MN", "03-A"]
    cases = [{key: value for key, value in CASES[name].items() if key != "expect"} for name in again]
    answers = regenerate.PROGRAM.answer(cases, include, nvcc)
    assert answers == {name: CASES[name]["expect"] for name in again}


def test_cutlass_data__has_every_case() -> None:
    fresh = {case["case"]: case for case in regenerate.all_cases()}
    kept = {name: {k: v for k, v in case.items() if k != "expect"} for name, case in CASES.items()}
    assert kept == fresh


# ---- laws ----


def byte_of(layout: Layout | ComposedLayout, bits: int, coord: tuple[int, int]) -> int:
    """Where an element lies, in bytes, with its swizzle."""
    offset = get_nonswizzle_portion(layout)(coord) * bits // 8
    return layout.inner(offset) if isinstance(layout, ComposedLayout) else offset


def byte_by_descriptor(trace: SmemDescriptorTrace, coord: tuple[int, int]) -> int:
    """Where the descriptor says that an element lies, from its fields alone, as CuTe documents each form.

    The forms are those in the comment above make_umma_desc, with T elements in 16 bytes.
    """
    unit = 128 // trace.dtype.bits
    i, k = coord
    leading, stride = trace.leading_byte_offset, trace.stride_byte_offset
    width = {"SWIZZLE_NONE": 1, "SWIZZLE_32B": 2, "SWIZZLE_64B": 4}.get(trace.layout_type, 8)
    if trace.major == "K":
        row, rows = i % 8, i // 8
        inside, column = k % unit, k // unit
        step = leading if trace.layout_type == "SWIZZLE_NONE" else 16
        place = row * width * 16 + rows * stride + inside * trace.dtype.bits // 8 + column * step
    else:
        inside, column = i % unit, i // unit
        within, atom = column % width, column // width
        rows = 4 if trace.layout_type == "SWIZZLE_128B_BASE32B" else 8
        row, more = k % rows, k // rows
        along_mn, along_k = (stride, leading) if trace.layout_type == "SWIZZLE_NONE" else (leading, stride)
        place = (
            inside * trace.dtype.bits // 8 + within * 16 + atom * along_mn + row * width * 16 + more * along_k
        )
    return trace.smem_swizzle(place)


@pytest.mark.parametrize("kind", SMEM_LAYOUT_ATOMS)
@pytest.mark.parametrize("element", ["e4m3", "f16", "tf32"])
def test_smem_descriptor__places_every_element_where_the_layout_does(kind: str, element: str) -> None:
    """One instruction's part: the two readings, layout and descriptor, give the same bytes."""
    bits = dtype(element).bits
    depth = 256 // bits  # elements of K that an instruction takes: 32 bytes
    major = kind.split("_", maxsplit=1)[0]
    atom = make_smem_layout_atom(kind, element)
    rows, columns = (int(extent) for extent in atom.shape)
    tile = tile_to_shape(atom, (2 * max(rows, 32), max(columns, 2 * depth)))
    trace = smem_descriptor(tile, element, major)
    for coord in product(range(0, int(size(get_nonswizzle_portion(tile)[0])), 3), range(depth)):
        assert byte_by_descriptor(trace, coord) == byte_of(tile, bits, coord), coord


@pytest.mark.parametrize("swizzle", ["K_SW32", "K_SW64", "K_SW128"])
def test_smem_desc_tensor__steps_along_k_by_two_units(swizzle: str) -> None:
    element = "f16"
    columns = int(make_smem_layout_atom(swizzle, element).shape[1])
    tile = tile_to_mma_shape(make_smem_layout_atom(swizzle, element), ((128, 16), 1, columns // 16)).result
    tensor = smem_desc_tensor(tile, element, "K", 2048)
    starts = [int(tensor.explain(0, 0, k).fields[0].stored) * 16 for k in range(columns // 16)]
    assert starts == [2048 + 32 * k for k in range(columns // 16)]


# ---- records and refusals of our own ----


def test_smem_descriptor__explains_its_steps() -> None:
    trace = described("K-SW32-f16")
    explanation = trace.explain()
    assert explanation.result == trace.hexadecimal
    assert [step.rule for step in explanation.steps][:2] == ["recast", "swizzle"]
    snapshot = json.loads(json.dumps(trace.to_snapshot()))
    assert snapshot["hexadecimal"] == f"0x{trace.desc:016x}"
    assert trace.descriptor.format is SMEM_SM100
    assert described("gmma-K-SW128").descriptor.format is SMEM_SM90
    shape = tile_to_mma_shape(make_smem_layout_atom("K_SW128", "f16"), ((128, 16), 1, 4))
    assert json.loads(json.dumps(shape.to_snapshot()))["mn_shape"] == "((128,1),(16,4))"
    assert "tiled_divide" in str(shape.explain())


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        ("start_address", ("Sw<3,4,3> o (128,64):(64,1)", "K", 1032)),
        ("start_address", ("Sw<3,4,3> o (128,64):(64,1)", "K", 1 << 18)),
        ("offset_bits", ("Sw<3,4,3> o ((8,2),64):((64,131072),1)", "K", 0)),
        ("major", ("Sw<3,4,3> o (128,64):(64,1)", "M", 0)),
    ],
)
def test_smem_descriptor__refuses_what_cpp_drops_without_a_word(rule: str, arguments: tuple) -> None:
    text, major, address = arguments
    with pytest.raises(UmmaError) as info:
        smem_descriptor(
            Layout.parse(text.replace("Sw", "S").replace(" o ", " o 0 o ")), "f16", major, address
        )
    assert info.value.rule == rule


def test_make_smem_layout_atom__names_what_there_is() -> None:
    with pytest.raises(UmmaError, match=r"'K_SW256'.*K_SW128"):
        make_smem_layout_atom("K_SW256", "f16")
    with pytest.raises(UmmaError) as info:
        tile_to_mma_shape(make_smem_layout_atom("K_SW128", "f16"), (128, 64))
    assert info.value.rule == "mma_tile_shape"
