"""`cutecourse.descriptors` has the bits that CUTLASS's structs have, and says what it refuses."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from descriptors.cpp import regenerate

from cutecourse import descriptors
from cutecourse.descriptors import (
    ELEMENT_FORMATS,
    FORMATS,
    INSTR_BLOCK_SCALED_SM100,
    INSTR_SM100,
    SMEM_SM90,
    SMEM_SM100,
    DescriptorError,
    DescriptorFormat,
    instr_format,
    make_instr_desc,
    make_instr_desc_block_scaled,
    make_runtime_instr_desc,
)
from support import cutlass_cpp

Case = dict[str, Any]
DATA = json.loads(regenerate.PROGRAM.data.read_text())
CASES: dict[str, Case] = {case["case"]: case for case in DATA["cases"]}
STRUCTS = {"smem_sm90": SMEM_SM90, "smem_sm100": SMEM_SM100, "instr_sm100": INSTR_SM100}
STRUCTS["instr_scaled_sm100"] = INSTR_BLOCK_SCALED_SM100


def of_kind(kind: str) -> list[str]:
    return [name for name, case in CASES.items() if case["kind"] == kind]


def without_underscore(values: dict[str, int]) -> dict[str, int]:
    return {name.removesuffix("_"): value for name, value in values.items()}


@pytest.mark.parametrize("name", of_kind("pack"))
def test_pack__sets_the_bits_of_cutlass(name: str) -> None:
    case = CASES[name]
    fmt, values = STRUCTS[case["struct"]], without_underscore(case["values"])
    assert fmt.pack(**values) == case["expect"]["desc"]
    assert fmt.unpack(case["expect"]["desc"]) == values


@pytest.mark.parametrize("name", of_kind("unpack"))
def test_explain__reads_random_bits_as_cutlass(name: str) -> None:
    case = CASES[name]
    decoded = STRUCTS[case["struct"]].explain(case["bits"])
    assert {part.field.name: part.stored for part in decoded.fields} == without_underscore(case["expect"])
    packed = decoded.format.pack(**{part.field.name: part.stored for part in decoded.fields})
    assert packed | decoded.unused == case["bits"]


@pytest.mark.parametrize("name", of_kind("made"))
def test_make_instr_desc__gives_the_number_of_cutlass(name: str) -> None:
    case = CASES[name]
    desc = make_instr_desc(
        case["a"], case["b"], case["c"], case["m"], case["n"], case["a_major"], case["b_major"],
        a_neg=case["a_neg"] == "Neg", b_neg=case["b_neg"] == "Neg", saturate=case["saturate"] == "True",
    )  # fmt: skip
    assert desc == case["expect"]["desc"]
    assert make_runtime_instr_desc(desc) == case["expect"]["runtime"]


@pytest.mark.parametrize("name", of_kind("scaled"))
def test_make_instr_desc_block_scaled__gives_the_number_of_cutlass(name: str) -> None:
    case = CASES[name]
    desc = make_instr_desc_block_scaled(
        case["a"], case["b"], "f32", case["scales"], case["m"], case["n"], case["a_major"], case["b_major"],
        kind=case["mma"], a_neg=case["a_neg"] == "Neg", b_neg=case["b_neg"] == "Neg",
    )  # fmt: skip
    assert desc == case["expect"]["desc"]
    said = instr_format(case["mma"]).decode(desc)
    assert (said["a_format"], said["b_format"]) == (case["a"].upper(), case["b"].upper())
    assert said["scale_format"] == case["scales"].upper()


@pytest.mark.parametrize("name", of_kind("enumeration"))
def test_enumerations__have_the_numbers_of_cutlass(name: str) -> None:
    ours = ELEMENT_FORMATS[name] if name in ELEMENT_FORMATS else getattr(descriptors, name)
    assert dict(ours) == CASES[name]["expect"]


@pytest.mark.program("nvcc")
@pytest.mark.inputs("tests/descriptors/cpp", "tests/support/cutlass_cpp.py")
def test_cutlass_data__is_what_the_headers_say_now() -> None:
    include, nvcc = cutlass_cpp.include_folder(), shutil.which("nvcc")
    assert nvcc is not None
    assert cutlass_cpp.dump(regenerate.PROGRAM.collect(include, nvcc)) == regenerate.PROGRAM.data.read_text()


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=list(FORMATS))
def test_format__gives_each_bit_to_one_field_at_most(fmt: DescriptorFormat) -> None:
    assert sum(field.mask for field in fmt.fields) == fmt.used < 1 << fmt.bits
    assert list(fmt.fields) == sorted(fmt.fields, key=lambda field: field.low)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=list(FORMATS))
def test_encode__inverts_decode(fmt: DescriptorFormat) -> None:
    rng = random.Random(4)
    for _ in range(200):
        stored = {
            field.name: rng.choice(list(field.names.values()))
            if field.names is not None
            else rng.randint(0, field.largest)
            for field in fmt.fields
        }
        value = fmt.pack(**stored)
        assert fmt.encode(**fmt.decode(value)) == value


def test_explain__shows_every_field_and_what_it_stands_for() -> None:
    decoded = SMEM_SM100.explain(0x4000404000010040)
    assert {part.field.name: part.meant for part in decoded.fields} == {
        "start_address": "1024 bytes",
        "leading_byte_offset": "16 bytes",
        "stride_byte_offset": "1024 bytes",
        "version": "1",
        "base_offset": "0",
        "lbo_mode": "0",
        "layout_type": "SWIZZLE_128B",
    }
    html = decoded._repr_html_()
    for field in SMEM_SM100.fields:
        assert f"<code>{field.name}</code>" in html
        assert field.name in str(decoded)


def test_to_snapshot__is_json_and_keeps_all_64_bits() -> None:
    value = SMEM_SM100.pack(layout_type=7, start_address=1)
    snapshot = json.loads(json.dumps(SMEM_SM100.explain(value).to_snapshot()))
    assert int(snapshot["value"], 16) == value
    rebuilt = sum(field["stored"] << field["low"] for field in snapshot["fields"])
    assert rebuilt == value
    assert snapshot["fields"][-1]["meant"] == "stands for nothing"
    assert json.loads(json.dumps(INSTR_SM100.to_snapshot()))["bits"] == 32


def test_instr_format__names_types_as_the_kind_has_them() -> None:
    desc = make_instr_desc("s8", "u8", "s32", 128, 64)
    assert instr_format("i8").decode(desc)["a_format"] == "INT8"
    assert INSTR_SM100.decode(desc)["a_format"] == "BF16"  # the same bits, read as kind f16


@contextmanager
def refused(field: str, *parts: str) -> Iterator[None]:
    with pytest.raises(DescriptorError) as info:
        yield
    assert info.value.field == field
    for part in parts:
        assert part in str(info.value)


def test_pack__refuses_what_does_not_fit_and_names_the_field() -> None:
    with refused("stride_byte_offset", "stride_byte_offset = 16384", "[32,46)", "0 to 16383"):
        SMEM_SM100.pack(stride_byte_offset=16384)
    with refused("layout_type", "layout_type = 4", "0 to 3"):
        SMEM_SM90.pack(layout_type=4)
    with refused("start_address", "start_address = -1"):
        SMEM_SM90.pack(start_address=-1)
    with refused("version", "no field 'version'", "GmmaDescriptor"):
        SMEM_SM90.pack(version=1)
    with refused("start_address", "integer"):
        SMEM_SM90.pack(start_address=1.5)  # type: ignore[arg-type]


def test_encode__refuses_units_and_names_that_do_not_exist() -> None:
    with refused("start_address", "start_address = 1032 bytes", "in steps of 16"):
        SMEM_SM100.encode(start_address=1032)
    with refused("leading_byte_offset", "0 to 262128"):
        SMEM_SM100.encode(leading_byte_offset=1 << 18)
    with refused("layout_type", "'SWIZZLE_16B'", "SWIZZLE_NONE (0)"):
        SMEM_SM100.encode(layout_type="SWIZZLE_16B")
    with refused("layout_type", "layout_type = 3 stands for nothing"):
        SMEM_SM100.encode(layout_type=3)
    with refused("version", "is a number"):
        SMEM_SM100.encode(version="one")


def test_unpack__refuses_bits_that_no_field_has() -> None:
    with refused("", "does not use", "0x4000"):
        SMEM_SM100.unpack(1 << 14)
    with refused("", "32 bits"):
        INSTR_SM100.unpack(1 << 32)
    with refused("layout_type", "holds 5"):
        SMEM_SM100.decode(5 << 61)


def test_make_instr_desc__refuses_types_and_shapes_by_name() -> None:
    with refused("n_dim", "n_dim = 12", "steps of 8"):
        make_instr_desc("f16", "f16", "f32", 128, 12)
    with refused("m_dim", "m_dim = 512", "0 to 496"):
        make_instr_desc("f16", "f16", "f32", 512, 64)
    with refused("b_format", "kind f16", "kind i8"):
        make_instr_desc("f16", "s8", "f32", 128, 64)
    with refused("a_format", "no number for f64"):
        make_instr_desc("f64", "f64", "f32", 128, 64)
    with refused("c_format", "no number for bf16"):
        make_instr_desc("f16", "f16", "bf16", 128, 64)
    with refused("a_major", "'M'"):
        make_instr_desc("f16", "f16", "f32", 128, 64, a_major="M")


def test_make_instr_desc_block_scaled__refuses_by_name() -> None:
    types = ("e2m1", "e2m1", "f32", "ue8m0", 128, 64)
    with refused("kind", "'f8f6f4' has no scale factors"):
        make_instr_desc_block_scaled(*types, kind="f8f6f4")
    with refused("a_format", "mxf4 has no e4m3; it has e2m1"):
        make_instr_desc_block_scaled("e4m3", *types[1:], kind="mxf4")
    with refused("scale_format", "mxf4 has ue8m0, not ue4m3"):
        make_instr_desc_block_scaled(*types[:3], "ue4m3", 128, 64, kind="mxf4")
    with refused("c_type", "f32, not f16"):
        make_instr_desc_block_scaled("e4m3", "e4m3", "f16", "ue8m0", 128, 64)
    with refused("a_sf_id", "a_sf_id = 4"):
        make_instr_desc_block_scaled(*types, a_sf_id=4)
    with refused("kind", "'f18'", "mxf4nvf4"):
        instr_format("f18")
