"""Too many and too few operands of an instruction: one sentence, for every definition."""

from __future__ import annotations

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import InvalidOperand
from cutecourse.ptx import PtxSyntaxError, parse

KERNEL = """
.version 8.8 .target sm_90a .address_size 64
.visible .entry k(.param .u64 out)
{{
    .shared .align 16 .b32 s[32];
    .reg .b32 %r<8>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<8>;
    .reg .pred %p<4>;
    {}
    ret;
}}
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("add.u32 %r1, %r2, %r3, %r4;", "add.u32 takes 3 operands here, not 4"),
        ("mov.u32 %r1, %r2, %r3;", "mov.u32 takes 2 operands here, not 3"),
        ("ld.shared.b32 %r1, [s], %r3;", "ld.shared.b32 takes 2 operands here, not 3"),
        ("fma.rn.f32 %f1, %f2, %f3, %f4, %f5;", "fma.rn.f32 takes 4 operands here, not 5"),
        ("ret %r1;", "ret takes 0 operands here, not 1"),
        ("setp.eq.u32 %p1, %r1, %r2, %r3, %r4;", "setp.eq.u32 takes "),
        ("add.u32;", "add.u32 has 0 operands here, but operand 1 is missing"),
        ("add.u32 %r1;", "add.u32 has 1 operand here, but operand 2 is missing"),
        ("ld.shared.b32 %r1;", "ld.shared.b32 has 1 operand here, but operand 2 is missing"),
        ("ld.global.L2::cache_hint.b32 %r1, [%rd1];", "has 2 operands here, but operand 3 is missing"),
        ("createpolicy.fractional.L2::evict_last.b64 %rd1;", "createpolicy takes 2 to 4 operands, not 1"),
    ],
)
def test_operands__are_as_many_as_the_instruction_takes(text: str, said: str) -> None:
    with pytest.raises(InvalidOperand) as caught:
        launch(KERNEL.format(text), grid=1, block=32, args=[np.zeros(32, np.uint32)])
    assert caught.value.problem.startswith(said) or said in caught.value.problem
    assert text in str(caught.value)


@pytest.mark.parametrize("directive", [".maxntid", ".reqntid", ".reqnctapercluster 0", ".maxntid 32, 0"])
def test_directives__that_count_have_numbers(directive: str) -> None:
    with pytest.raises(PtxSyntaxError, match=r"number.* after \.(maxntid|reqntid|reqnctapercluster)"):
        parse(KERNEL.format("").replace("out)\n", f"out)\n{directive}\n"))
