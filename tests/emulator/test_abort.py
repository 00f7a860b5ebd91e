"""Instructions that end a kernel with an error, and those that do nothing that a program can see."""

from __future__ import annotations

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import KernelTrap


def _run(instruction: str) -> np.ndarray:
    """Thread 5 alone executes an instruction, between two stores; give what was stored."""
    out = np.zeros(2, dtype=np.uint32)
    text = f"""
.version 8.0
.target sm_80
.address_size 64

.visible .entry kernel(.param .u64 out)
{{
    .reg .b32 %me;
    .reg .b64 %out;
    .reg .pred %other;

    mov.u32 %me, %tid.x;
    setp.ne.u32 %other, %me, 5;
    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
    @%other bra done;
    st.global.b32 [%out], %me;
    {instruction}
    st.global.b32 [%out+4], %me;
done:
    ret;
}}
"""
    launch(text, grid=1, block=32, args=[out])
    return out


@pytest.mark.parametrize("instruction", ["trap;", "brkpt;"])
def test_abort__says_who_ended_the_kernel(instruction: str) -> None:
    with pytest.raises(KernelTrap) as caught:
        _run(instruction)
    error = caught.value
    assert (error.kernel, error.block, error.warp, error.lane) == ("kernel", (0, 0, 0), 0, 5)
    assert error.text.strip() == instruction


@pytest.mark.parametrize("instruction", ["pmevent 3;", "discard.global.L2 [%out], 128;"])
def test_no_effect__leaves_the_kernel_as_it_is(instruction: str) -> None:
    assert _run(instruction).tolist() == [5, 5]
