"""ldmatrix, stmatrix and movmatrix against loops over lanes and elements."""

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import AddressError, AlignmentError
from support.collectives import PRODUCT, names, product, run


@pytest.mark.parametrize("name", names("ldmatrix", "ldmatrix_x"))
def test_ldmatrix__gives_each_lane_its_two_elements(name: str) -> None:
    before, after = run(name)
    rows, offsets = before["rows"], before["offsets"]
    n_matrices = after["d"].shape[1]
    for thread in range(64):
        warp, lane = divmod(thread, 32)
        for j in range(n_matrices):
            if "trans" in name:
                places = [(2 * (lane % 4) + e, lane // 4) for e in (0, 1)]
            else:
                places = [(lane // 4, 2 * (lane % 4) + e) for e in (0, 1)]
            low, high = (rows[offsets[32 * warp + 8 * j + row] // 16, col] for row, col in places)
            assert after["d"][thread, j] == int(low) | int(high) << 16, (thread, j)


@pytest.mark.parametrize("name", names("ldmatrix", "stmatrix"))
def test_stmatrix__puts_each_lanes_two_elements_into_a_row(name: str) -> None:
    before, after = run(name)
    held, offsets = before["a"].reshape(64, -1, 2), before["offsets"]
    memory = np.full((64, 8), 0xA5A5, dtype=np.uint16)
    for thread in range(64):
        warp, lane = divmod(thread, 32)
        for j in range(held.shape[1]):
            for e in (0, 1):
                place = (lane // 4, 2 * (lane % 4) + e)
                row, col = place[::-1] if "trans" in name else place
                memory[offsets[32 * warp + 8 * j + row] // 16, col] = held[thread, j, e]
    np.testing.assert_array_equal(after["d"].view(np.uint16), memory)


def test_movmatrix__transposes() -> None:
    before, after = run("ldmatrix/movmatrix")
    for warp in range(2):
        matrix = before["a"][32 * warp : 32 * warp + 32].reshape(8, 8)
        turned = after["d"][32 * warp : 32 * warp + 32].view(np.uint16).reshape(8, 8)
        np.testing.assert_array_equal(turned, matrix.T)


def test_ldmatrix__an_address_off_by_eight_is_an_error() -> None:
    ptx = PRODUCT.replace("{%g0, %g1}, [%row]", "{%g0, %g1}, [%row+8]")
    with pytest.raises(AlignmentError, match=r"not a multiple of 16"):
        product(ptx)


def test_ldmatrix__a_row_outside_shared_memory_is_an_error() -> None:
    ptx = PRODUCT.replace("{%g0, %g1}, [%row]", "{%g0, %g1}, [%row+512]")
    with pytest.raises(AddressError, match="past the end") as caught:
        product(ptx)
    assert caught.value.lane == 0


SOME_BLOCKS = """
.version 8.0
.target sm_80
.address_size 64

.visible .entry kernel(.param .u64 out)
{
    .shared .align 16 .b8 tile[512];
    .reg .b32 %t, %b, %at, %x, %f<4>;
    .reg .b64 %to;
    .reg .pred %p;

    mov.u32 %t, %tid.x;
    mov.u32 %b, %ctaid.x;
    mad.lo.u32 %x, %b, 32, %t;
    ld.param.u64 %to, [out];
    mad.wide.u32 %to, %x, 16, %to;
    mov.u32 %at, tile;
    mad.lo.u32 %at, %t, 16, %at;
    st.shared.v4.b32 [%at], {%x, %x, %x, %x};
    bar.warp.sync 0xffffffff;
    setp.eq.u32 %p, %b, 1;
    @%p bra DONE;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%f0, %f1, %f2, %f3}, [%at];
    st.global.v4.b32 [%to], {%f0, %f1, %f2, %f3};
DONE:
    ret;
}
"""


def test_ldmatrix__of_four_matrices_in_some_of_the_blocks() -> None:
    # Blocks of a grid run side by side: here one of three goes another way.
    out = np.full((3, 32, 4), 0xCDCDCDCD, dtype=np.uint32)
    launch(SOME_BLOCKS, grid=3, block=32, args=[out])
    rows = (np.arange(32)[:, None] // 4 + 8 * np.arange(4)).astype(np.uint32)  # the lane that has the row
    np.testing.assert_array_equal(out, [rows, np.full((32, 4), 0xCDCDCDCD), rows + 64])
