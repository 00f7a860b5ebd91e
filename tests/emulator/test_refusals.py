"""What the emulator refuses: before the launch, by name, and with something to do instead that it runs."""

import numpy as np
import pytest

from cutecourse.emulator import launch, supported_instructions
from cutecourse.emulator.core.decode import decode
from cutecourse.emulator.errors import UnsupportedInstruction
from cutecourse.ptx.checks import read_module

KERNEL = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry kernel(.param .u64 p)
{{
    .reg .b16 %h<9>;
    .reg .b32 %r<16>;
    .reg .b64 %d<9>;
    .reg .f32 %f<9>;
    .reg .pred %p<5>;
    .shared .align 128 .b8 s[1024];
    {};
    ret;
}}
"""
MMA = "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}"
TENSOR = "cp.async.bulk.tensor.2d.shared::cta.global"
DONE = "mbarrier::complete_tx::bytes [s], [%d0, {%r1, %r2"
REFUSED = [
    # the form, what the message names, and this as an instruction
    ("multimem.st.global.f32 [%d0], %f1", "ld, st and red", "st.global.f32 [%d0], %f1"),
    (
        f"mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {MMA}, {MMA}, %r8, 0",
        "Take mma.sync, with the zeros",
        f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {MMA}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}}",
    ),
    (
        "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d0, {%r1}]",
        "ld.global",
        "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d0]",
    ),
    ("sust.b.1d.b32.clamp [%d0, {%r2}], %r1", "st.global", "st.global.b32 [%d0], %r1"),
    ("alloca.u64 %d1, 16", ".local array", ".local .b8 stack[16]"),
    ("vadd.u32.u32.u32 %r1, %r2, %r3", "bfe or prmt", "bfe.u32 %r1, %r2, 8, 8"),
    (
        "tcgen05.mma.ws.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, %p1",
        "without .ws",
        "tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, %p1",
    ),
    (
        "tcgen05.mma.sp.cta_group::1.kind::f16 [%r1], %d1, %d2, [%r3], %r2, %p1",
        "take the dense form",
        "tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, %p1",
    ),
    (
        "tcgen05.mma.cta_group::1.kind::f16.ashift [%r1], [%r5], %d2, %r2, %p1",
        "copy A to the lanes",
        "tcgen05.mma.cta_group::1.kind::f16 [%r1], [%r5], %d2, %r2, %p1",
    ),
    (
        "tcgen05.shift.cta_group::1.down [%r1]",
        "tcgen05.ld",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2]",
    ),
    (
        "tcgen05.ld.red.sync.aligned.16x64b.x2.f32.min {%r1, %r2}, %r3, [%r4]",
        "goes with .32x32b",
        "tcgen05.ld.red.sync.aligned.32x32b.x2.f32.min {%r1, %r2}, %r3, [%r4]",
    ),
    (f"{TENSOR}.im2col.{DONE}}}], [s+512], {{%h1}}", "with .tile", f"{TENSOR}.tile.{DONE}}}], [s+512]"),
    (
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [s], 14",
        "load them as .u8",
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [s], 0",
    ),
    (
        "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [s], 1",
        "take 0",
        "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [s], 0",
    ),
    (
        "tensormap.replace.tile.swizzle_atomicity.shared::cta.b1024.b32 [s], 2",
        "take 0",
        "tensormap.replace.tile.swizzle_atomicity.shared::cta.b1024.b32 [s], 0",
    ),
    ("cvt.rs.bf16x2.f32 %r1, %f1, %f2, %r3", "take .rn", "cvt.rn.bf16x2.f32 %r1, %f1, %f2"),
    ("fma.rn.oob.bf16x2 %r1, %r2, %r3, %r4", "form without", "fma.rn.bf16x2 %r1, %r2, %r3, %r4"),
    (
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d0], [s], 16, %h1",
        "form without",
        "cp.async.bulk.global.shared::cta.bulk_group [%d0], [s], 16",
    ),
]


def decoded(form: str) -> None:
    module = read_module(KERNEL.format(form))
    decode(module, module.module.entries["kernel"], 0)


@pytest.mark.parametrize(("form", "match", "instead"), REFUSED, ids=[row[0].split(" ")[0] for row in REFUSED])
def test_refusal__names_the_form_and_says_what_to_do_instead(form, match, instead):
    with pytest.raises(UnsupportedInstruction) as caught:
        launch(KERNEL.format(form), grid=1, block=32, args=[np.zeros(4, np.uint32)])
    assert caught.value.problem.startswith(f"{form.split(' ')[0]} is not supported: ")
    assert match in caught.value.problem
    assert caught.value.line is not None
    decoded(instead)


def test_refusal__of_every_instruction_without_a_form_stands_in_the_table():
    refused = {info.name.partition(".")[0] for info in supported_instructions() if info.refused}
    alike = {"tld4", "txq", "suld", "sured", "suq", "istypep", "stacksave", "stackrestore"}
    alike |= {"vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset", "vset2", "vset4"}
    assert refused - alike <= {form.partition(".")[0] for form, *_ in REFUSED}
    for info in supported_instructions():
        words = info.refused.lower()
        assert not words or any(word in words for word in ("take ", "use ", "declare ", "load ")), info.name


OF_A_FUNCTION = """
.version 8.0
.target sm_80
.address_size 64
.func (.reg .b32 r) f(.reg .b32 x) {{ add.s32 r, x, 1; ret; }}
{}
.visible .entry kernel(.param .u64 p) {{ .reg .b64 %d<3>; {} ret; }}
"""


@pytest.mark.parametrize(
    ("declaration", "use"),
    [("", "mov.u64 %d1, f;"), (".global .align 8 .u64 table[2] = {f, f};", "mov.u64 %d1, table;")],
)
def test_refusal__of_a_function_s_address_says_what_to_call_instead(declaration, use):
    words = r"address of the function f .*call the function by its name"
    with pytest.raises(UnsupportedInstruction, match=words):
        launch(OF_A_FUNCTION.format(declaration, use), grid=1, block=32, args=[np.zeros(4, np.uint32)])
    launch(OF_A_FUNCTION.format(declaration, ""), grid=1, block=32, args=[np.zeros(4, np.uint32)])
