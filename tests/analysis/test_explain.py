"""`explain`: what it finds in texts whose contents are known, and what bits a value may have."""

from __future__ import annotations

import itertools
import json
import random
import shlex

import pytest

from cutecourse.analysis import explain, report
from cutecourse.analysis.values import Bits
from cutecourse.descriptors import SMEM_SM100, make_instr_desc, make_instr_desc_block_scaled
from cutecourse.emulator import supported_instructions
from cutecourse.errors import CourseError
from tools.cases import ptx_cases

IDESC = make_instr_desc("bf16", "bf16", "f32", 256, 128)
SDESC = SMEM_SM100.encode(stride_byte_offset=1024, version=1, layout_type="SWIZZLE_128B")
TEXT = f"""
.version 8.8
.target sm_100a
.address_size 64
.file 1 "gemm.py"
.extern .shared .align 1024 .b8 dynamic[];
.global .align 8 .b8 table[64];
.visible .entry gemm(
    .param .align 64 .b8 a[128], .param .u64 out, .param .u32 n, .param .align 8 .b8 both[24],
    .param .u64 never
)
.reqntid 128, 1, 1
.maxnreg 64
{{
    .shared .align 8 .b64 full[2];
    .reg .b32 %r<10>;
    .reg .b64 %d, %e, %m, %out;
    .reg .pred %p;
    .loc 1 17 4
    mbarrier.init.shared.b64 [full], 1;
    mov.u64 %m, a;
    ld.param.u64 %out, [out];
    ld.param.u32 %r9, [n];
    ld.param.u32 %r8, [both+8];
    mul.wide.u32 %e, %r9, 4;
    add.s64 %out, %out, %e;
    st.global.u32 [%out], %r9;
    mov.u32 %r1, dynamic;
    shr.u32 %r1, %r1, 4;
    and.b32 %r1, %r1, 16383;
    cvt.u64.u32 %d, %r1;
    add.s64 %d, %d, {SDESC + 2};
    mov.b32 %r2, {IDESC};
    mov.u32 %r3, 0;
    setp.ne.u32 %p, %r3, 0;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [dynamic], [%m, {{%r3, %r3}}], [full];
    tcgen05.mma.cta_group::2.kind::f16 [%r3], %d, %out, %r2, %p;
    tcgen05.shift.cta_group::2.down [%r3];
    ret;
}}
"""


def site(found, start):
    (one,) = [one for one in found["sites"] if one["instruction"].startswith(start)]
    return one


def line_of(text, words):
    return next(number for number, line in enumerate(text.split("\n"), 1) if words in line)


def test_explain__what_is_declared():
    found = explain(TEXT)
    assert (found["kernel"], found["ptx_version"], found["target"]) == ("gemm", "8.8", ["sm_100a"])
    assert found["directives"] == {"reqntid": [128, 1, 1], "maxnreg": [64]}
    assert found["registers"] == {"b32": 10, "b64": 4, "pred": 1}
    assert found["memory"]["shared_static_bytes"] == 16
    assert found["memory"]["shared_dynamic"] == ["dynamic"]
    assert found["memory"]["variables"] == [{"space": "global", "name": "table", "used": False}]


def test_explain__what_each_parameter_is_for():
    roles = {p["name"]: p["role"] for p in explain(TEXT)["parameters"]}
    assert roles == {
        "a": "tensor map",
        "out": "pointer",
        "n": "scalar",
        "both": "struct",
        "never": "scalar, never read",
    }


def test_explain__lists_sites_with_line_and_sentence():
    found = explain(TEXT)
    summaries = {info.name: info.summary for info in supported_instructions()}
    assert [(one["kind"], one["line"]) for one in found["sites"]] == [
        ("barrier", line_of(TEXT, "mbarrier.init")),
        ("TMA", line_of(TEXT, "cp.async.bulk.tensor")),
        ("MMA", line_of(TEXT, "tcgen05.mma")),
        ("tcgen05", line_of(TEXT, "tcgen05.shift")),
    ]
    barrier = site(found, "mbarrier.init")
    assert barrier["what"] == summaries["mbarrier.init"]
    assert barrier["source"] == "gemm.py:17"
    assert "PTX ISA" in barrier["documented_in"]
    text = report(found)
    for one in found["sites"]:
        assert str(one["line"]) in text
        assert one["what"] in text


def test_explain__reads_descriptors_that_are_constants():
    a, b, instruction = site(explain(TEXT), "tcgen05.mma")["descriptors"]
    assert instruction["value"] == f"{IDESC:#x}"
    fields = instruction["fields"]
    assert (fields["m_dim"], fields["n_dim"]) == ("256 rows", "128 columns")
    assert (fields["a_format"], fields["c_format"]) == ("BF16", "F32")
    assert instruction["not_constant"] == []
    # The start comes from the launch; the rest is in the text.
    assert a["of"] == "A"
    assert a["value"] is None
    assert a["not_constant"] == ["start_address"]
    assert a["fields"]["layout_type"] == "SWIZZLE_128B"
    assert a["fields"]["stride_byte_offset"] == "1024 bytes"
    assert b["fields"] == {}


def test_explain__decodes_a_descriptor_with_scale_factors():
    idesc = make_instr_desc_block_scaled("e2m1", "e2m1", "f32", "ue4m3", 256, 128, kind="mxf4nvf4", b_sf_id=2)
    form = "tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X"
    form += " [%r3], %d, %out, %r2, [%r4], [%r5], %p"
    text = TEXT.replace("tcgen05.mma.cta_group::2.kind::f16 [%r3], %d, %out, %r2, %p", form)
    found = explain(text.replace(f"mov.b32 %r2, {IDESC};", f"mov.b32 %r2, {idesc};"))
    *_, instruction = site(found, "tcgen05.mma")["descriptors"]
    assert instruction["format"] == "InstrDescriptorBlockScaled"
    fields = instruction["fields"]
    assert (fields["a_format"], fields["scale_format"], fields["b_sf_id"]) == ("E2M1", "UE4M3", "2")
    assert (fields["m_dim"], fields["n_dim"]) == ("256 rows", "128 columns")
    assert "InstrDescriptorBlockScaled" in report(found)


def test_explain__what_the_emulator_refuses():
    (fault,) = explain(TEXT)["refused"]
    assert (fault["line"], fault["class"]) == (line_of(TEXT, "tcgen05.shift"), "UnsupportedInstruction")
    unknown = TEXT.replace("tcgen05.shift.cta_group::2.down [%r3]", "mma.sp.sync.aligned %r3")
    found = explain(unknown)
    assert [f["line"] for f in found["refused"]] == [line_of(unknown, "mma.sp")]
    assert site(found, "mma.sp")["what"].endswith("Not supported.")
    assert "The emulator refuses" in report(found)


def test_explain__what_a_launch_has_to_say():
    needs = explain(TEXT, file="gemm.ptx")["needs"]
    assert needs["block"] == [128, 1, 1]
    assert needs["cluster"] is None
    assert needs["pairs_of_ctas"]
    assert needs["dynamic_shared_memory"]
    words = shlex.split(needs["command"])
    assert " ".join(words[:10]) == "cutecourse emulate gemm.ptx --grid 2 --cluster 2 --smem 231424 --arg"
    tensor_map, out, n, both, never = words[10::2][:1] + words[12::2][:4]
    assert json.loads(tensor_map.removeprefix("map:"))["box"] == [64, 64]
    assert out == "out:out.npy:u32:1048576"
    assert (n, both, never) == ("u32:1", "{bytes:0000000000000000,u32:1}", "u64:1")


def test_explain__what_a_scalar_does():
    n = explain(TEXT)["parameters"][2]
    assert n["used_by"] == [
        f"{name} at line {line_of(TEXT, name)} (gemm.py:17)" for name in ("mul.wide.u32", "st.global.u32")
    ]
    assert n["in_address"]
    assert "(gemm.py:17), an address is computed from it" in report(explain(TEXT))


def test_explain__a_registers_value_is_that_of_the_text_before_it():
    """The descriptor's register holds other numbers before and after, and on the way of a branch."""
    body = f"mov.b32 %r2, 5;\n    mov.b32 %r2, {IDESC};"
    text = TEXT.replace(f"mov.b32 %r2, {IDESC};", body).replace("ret;", "mov.b32 %r2, 9;\n    ret;")
    assert site(explain(text), "tcgen05.mma")["descriptors"][2]["value"] == f"{IDESC:#x}"
    guarded = text.replace(f"mov.b32 %r2, {IDESC};", f"@%p mov.b32 %r2, {IDESC};")
    assert site(explain(guarded), "tcgen05.mma")["descriptors"][2]["value"] is None
    branch = text.replace("tcgen05.mma", "@%p bra HERE;\nHERE:\n    tcgen05.mma")
    assert site(explain(branch), "tcgen05.mma")["descriptors"][2]["value"] is None


@pytest.mark.parametrize("name", [name for name in ptx_cases.names() if name.startswith("tcgen05/mma")])
def test_explain__reads_the_instruction_descriptor_of_each_case(name):
    """The cases write it as a number: the one that is found stands there."""
    text = ptx_cases.load(name).ptx
    found = explain(text)
    assert found["refused"] == []
    instructions = [
        part
        for one in found["sites"]
        if one["kind"] == "MMA"
        for part in one["descriptors"]
        if part["of"] == "instruction"
    ]
    assert instructions
    for part in instructions:
        assert part["value"] is not None
        assert part["value"].removeprefix("0x") in text.lower()


@pytest.mark.parametrize("seed", range(4))
def test_explain__of_a_mutated_text_ends_in_a_report_or_an_error(seed):
    """Cut, doubled and swapped pieces: whatever comes of them, no error but ours."""
    choose = random.Random(seed)
    pieces = ["%r1", "%p", "-1", "9" * 30, "{", "}", "[", "]", ",", ";", ".b64", "_", "|", "mov", "tcgen05."]
    outcomes = set()
    for _ in range(60):
        start = choose.randrange(len(TEXT))
        stop = start + choose.choice([0, 1, 5, 40])
        text = TEXT[:start] + choose.choice(["", *pieces]) + TEXT[stop:]
        try:
            outcomes.add(bool(report(explain(text))))
        except CourseError as error:
            outcomes.add(type(error))
    assert len(outcomes) > 1


# --- known bits ---------------------------------------------------------------------------------------------

WIDTH = 3
ALL = [
    Bits(WIDTH, known, value)
    for known, value in itertools.product(range(1 << WIDTH), repeat=2)
    if not value & ~known
]


def numbers(bits):
    """All numbers that a value may be."""
    return [n for n in range(1 << bits.width) if n & bits.known == bits.value]


OPERATIONS = {
    "and": (lambda a, b: a & b, lambda a, b: a & b),
    "or": (lambda a, b: a | b, lambda a, b: a | b),
    "xor": (lambda a, b: a ^ b, lambda a, b: a ^ b),
    "add": (lambda a, b: a + b, lambda a, b: (a + b) % (1 << WIDTH)),
    "sub": (lambda a, b: a - b, lambda a, b: (a - b) % (1 << WIDTH)),
}


@pytest.mark.parametrize(("on_bits", "on_numbers"), OPERATIONS.values(), ids=OPERATIONS)
def test_bits__hold_in_every_case_and_miss_nothing(on_bits, on_numbers):
    """An operation knows exactly the bits in which all results agree."""
    for a, b in itertools.product(ALL, repeat=2):
        results = {on_numbers(x, y) for x in numbers(a) for y in numbers(b)}
        agreed = sum(1 << i for i in range(WIDTH) if len({r >> i & 1 for r in results}) == 1)
        found = on_bits(a, b)
        assert (found.known, found.value) == (agreed, min(results) & agreed), (a, b)


@pytest.mark.parametrize("by", range(-WIDTH, WIDTH + 1))
def test_bits__shifted_hold_in_every_case(by):
    for a in ALL:
        results = {(x << by if by > 0 else x >> -by) % (1 << WIDTH) for x in numbers(a)}
        assert set(numbers(a.shifted(by))) == results


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_bits__resized_hold_in_every_case(width):
    for a in ALL:
        assert set(numbers(a.resized(width))) == {x % (1 << width) for x in numbers(a)}
