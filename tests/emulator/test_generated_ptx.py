"""Legal PTX as compilers write it: pointer attributes, short addresses of parameters, assertions."""

from __future__ import annotations

import numpy as np
import pytest

from cutecourse import emulator
from cutecourse.emulator.errors import TensorMemoryLoadUnderWay, UnsupportedInstruction

HEAD = ".version 8.7\n.target {target}\n.address_size 64\n"


def _run(text: str, *args: object, target: str = "sm_90") -> tuple[np.ndarray, emulator.LaunchResult]:
    out = np.zeros(32, np.uint32)
    result = emulator.launch(HEAD.format(target=target) + text, grid=1, block=32, args=[*args, out])
    return out, result


@pytest.mark.parametrize("attribute", [".ptr .global .align 1", ".ptr .align 2 ", ".ptr .global", ""])
def test_pointer_attribute__leaves_the_parameter_where_its_type_puts_it(attribute: str) -> None:
    text = f""".visible .entry k(.param .u32 number, .param .u64 {attribute} pointer)
    {{
        .reg .b64 %rd<2>;
        .reg .b32 %r<2>;
        ld.param.b32 %r1, [number];
        ld.param.b64 %rd1, [pointer];
        st.global.b32 [%rd1], %r1;
        ret;
    }}"""
    out, _ = _run(text, 7)
    assert out[0] == 7


def test_param_alignment__still_counts_without_ptr() -> None:
    text = """.visible .entry k(.param .u32 first, .param .align 16 .b8 block[16], .param .u64 pointer)
    {
        .reg .b64 %rd<2>;
        .reg .b32 %r<2>;
        ld.param.b32 %r1, [first + 20];
        ld.param.b64 %rd1, [pointer];
        st.global.b32 [%rd1], %r1;
        ret;
    }"""
    out, _ = _run(text, 7, bytes(range(16)))
    assert out[0] == 0x07060504


def test_parameter_address__survives_a_register_of_32_bits() -> None:
    text = """.visible .entry k(.param .align 64 .b8 block[128], .param .u64 pointer)
    {
        .reg .b64 %rd<6>;
        .reg .b32 %r<4>;
        mov.b32 %r1, block;
        cvt.u64.u32 %rd1, %r1;
        cvta.param.u64 %rd2, %rd1;
        ld.b32 %r2, [%rd2+4];
        mov.b64 %rd4, block;
        cvta.param.u64 %rd5, %rd4;
        ld.b32 %r3, [%rd5+8];
        ld.param.b64 %rd3, [pointer];
        st.global.v2.b32 [%rd3], {%r2, %r3};
        ret;
    }"""
    out, _ = _run(text, bytes(range(128)))
    assert out[:2].tolist() == [0x07060504, 0x0B0A0908]


LOAD = """.extern .func __assertfail(.param .b64 a);
.shared .align 8 .b8 slot[8];
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, slot;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    ld.shared.b32 %r2, [slot];
    mov.u32 %r3, %tid.x;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {{%r3}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r4}}, [%r2];
    setp.lt.u32 %p1, %r3, 1024;
    @%p1 bra $ok;
    {failure}
$ok:
    add.u32 %r5, {used}, 1;
    mul.wide.u32 %rd2, %r3, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.b32 [%rd3], %r5;
    bar.sync 0;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;
    ret;
}}"""
ASSERTION = """{
    .param .b64 param0;
    st.param.b64 [param0], %rd1;
    call.uni __assertfail, (param0);
    }
    trap;"""


@pytest.mark.parametrize("failure", [ASSERTION, "trap;", ""], ids=["assertion", "trap", "nothing"])
def test_use_behind_an_assertion__ends_the_load(failure: str) -> None:
    out, result = _run(LOAD.format(failure=failure, used="%r4"), target="sm_100a")
    assert out.tolist() == list(range(1, 33))
    assert [note.hazard.name for note in result.notes] == ["load not waited for"]


@pytest.mark.parametrize("failure", [ASSERTION, "trap;", ""], ids=["assertion", "trap", "nothing"])
def test_load_that_is_never_used__is_under_way_behind_an_assertion_too(failure: str) -> None:
    with pytest.raises(TensorMemoryLoadUnderWay):
        _run(LOAD.format(failure=failure, used="%r3"), target="sm_100a")


@pytest.mark.parametrize(
    "instruction",
    ["mul.f32.f16 %f2, %h1, %f1;", "sub.ftz.f32.bf16 %f2, %h1, %f1;", "mad.rn.f32.f16 %f2, %h1, %h1, %f1;"],
)
def test_mixed_precision__is_refused_by_name_where_the_isa_has_none(instruction: str) -> None:
    text = f""".visible .entry k(.param .u64 out)
    {{
        .reg .b16 %h<3>;
        .reg .b32 %f<4>;
        mov.b16 %h1, 0x4000;
        mov.b32 %f1, 0f3F800000;
        {instruction}
        ret;
    }}"""
    with pytest.raises(UnsupportedInstruction, match="mixed precision"):
        _run(text, target="sm_100a")
