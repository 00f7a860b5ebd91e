"""st.bulk: which bytes become zero, and what is refused."""

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import AlignmentError, InvalidOperand, SharedMemoryRace

KERNEL = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry kernel(.param .u64 out, .param .u64 size)
{{
    .shared .align 16 .b8 tile[256];
    .reg .b32 %t, %at, %v;
    .reg .b64 %to, %size, %generic;
    .reg .pred %first;
    mov.u32 %t, %tid.x;
    setp.eq.u32 %first, %t, 0;
    ld.param.u64 %size, [size];
    mov.u32 %at, tile;
    cvt.u64.u32 %generic, %at;
    cvta.shared.u64 %generic, %generic;
    mad.lo.u32 %at, %t, 4, %at;
    st.shared.b32 [%at], -1;
    bar.sync 0;
    {fill};
    {order}
    ld.shared.b32 %v, [%at];
    ld.param.u64 %to, [out];
    mad.wide.u32 %to, %t, 4, %to;
    st.global.b32 [%to], %v;
    ret;
}}
"""


def filled(fill: str, size: int = 40, order: str = "bar.sync 0;") -> np.ndarray:
    out = np.zeros(64, np.uint32)
    launch(KERNEL.format(fill=fill, order=order), grid=1, block=64, args=[out, size])
    return out


@pytest.mark.parametrize(
    "fill",
    ["@%first st.bulk.weak.shared::cta [tile+24], %size, 0", "@%first st.bulk [%generic+24], %size, 0"],
)
def test_st_bulk__fills_with_zeros(fill: str) -> None:
    wanted = np.full(64, 0xFFFFFFFF)
    wanted[6:16] = 0
    np.testing.assert_array_equal(filled(fill), wanted)


def test_st_bulk__without_a_barrier_is_a_race() -> None:
    with pytest.raises(SharedMemoryRace):
        filled("@%first st.bulk.weak.shared::cta [tile], %size, 0", size=256, order="")


@pytest.mark.parametrize(
    ("fill", "size", "kind", "match"),
    [
        ("@%first st.bulk.shared::cta [tile], %size, 0", 20, InvalidOperand, "20 bytes are no multiple of 8"),
        ("@%first st.bulk.shared::cta [tile], %size, 1", 16, InvalidOperand, "the constant 0"),
        ("@%first st.bulk.shared::cta [tile+4], %size, 0", 16, AlignmentError, "multiple of 8"),
    ],
)
def test_st_bulk__says_what_is_wrong(fill: str, size: int, kind: type, match: str) -> None:
    with pytest.raises(kind, match=match):
        filled(fill, size)
