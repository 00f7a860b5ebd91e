"""ldmatrix, stmatrix and movmatrix against loops over lanes and elements."""

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import (
    AddressError,
    AlignmentError,
    InvalidOperand,
    UnsupportedInstruction,
)
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


# --- elements of 8, 6 and 4 bits, by no GPU of compute capability 9.0 ---------------------------------------


def load_or_store(body: str, *, words: int) -> str:
    """A warp copies 512 bytes to shared memory runs `body`, and stores some words of each lane.

    `%row` is the address of the lane's row of 16 bytes.
    """
    return f"""
.version 8.8
.target sm_120a
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out)
{{
    .shared .align 16 .b8 tile[512];
    .reg .b32 %t, %u, %row, %r<4>, %v<4>;
    .reg .b64 %from, %to;
    .reg .pred %odd;
    mov.u32 %t, %tid.x;
    ld.param.u64 %from, [in];
    mad.wide.u32 %from, %t, 16, %from;
    ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%from];
    mov.u32 %row, tile;
    mad.lo.u32 %row, %t, 16, %row;
    st.shared.v4.b32 [%row], {{%v0, %v1, %v2, %v3}};
    bar.sync 0;
    {body}
    ld.param.u64 %to, [out];
    mad.wide.u32 %to, %t, {4 * words}, %to;
    {"".join(f"st.global.b32 [%to+{4 * i}], %r{i};" for i in range(words))}
    ret;
}}
"""


def loaded(instruction: str, rows: np.ndarray, words: int) -> np.ndarray:
    """The bytes that each lane has after a load: (32, words, 4)."""
    out = np.zeros((32, words), np.uint32)
    registers = ", ".join(f"%r{i}" for i in range(words))
    text = load_or_store(f"{instruction} {{{registers}}}, [%row];", words=words)
    launch(text, grid=1, block=32, args=[rows, out])
    return out.view(np.uint8).reshape(32, words, 4)


ROWS = np.random.default_rng(7).integers(0, 256, (32, 16)).astype(np.uint8)


@pytest.mark.parametrize("n", [1, 2])
def test_ldmatrix__transposes_bytes(n: int) -> None:
    """Register h of a lane has four neighbours along the rows, of column l / 4 + 8 h: operand B of fp8."""
    found = loaded(f"ldmatrix.sync.aligned.m16n16.x{n}.trans.shared.b8", ROWS, 2 * n)
    for lane in range(32):
        for register in range(2 * n):
            matrix, half = divmod(register, 2)
            for e in range(4):
                wanted = ROWS[16 * matrix + 4 * (lane % 4) + e, lane // 4 + 8 * half]
                assert found[lane, register, e] == wanted


@pytest.mark.parametrize(("name", "bits"), [("b6x16_p32", 6), ("b4x16_p64", 4)])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_ldmatrix__unpacks_rows_of_narrow_elements(n: int, name: str, bits: int) -> None:
    found = loaded(f"ldmatrix.sync.aligned.m8n16.x{n}.shared::cta.b8x16.{name}", ROWS, n)
    for lane in range(32):
        for matrix in range(n):
            row = int.from_bytes(ROWS[8 * matrix + lane // 4].tobytes(), "little")
            for e in range(4):
                place = 4 * (lane % 4) + e
                assert found[lane, matrix, e] == row >> (bits * place) & ((1 << bits) - 1)


@pytest.mark.parametrize(("name", "bits"), [("b6x16_p32", 6), ("b4x16_p64", 4)])
def test_ldmatrix__unpacks_and_transposes(name: str, bits: int) -> None:
    found = loaded(f"ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.{name}", ROWS, 4)
    for lane in range(32):
        for register in range(4):
            matrix, half = divmod(register, 2)
            for e in range(4):
                row = int.from_bytes(ROWS[16 * matrix + 4 * (lane % 4) + e].tobytes(), "little")
                assert found[lane, register, e] == row >> (bits * (lane // 4 + 8 * half)) & ((1 << bits) - 1)


def test_stmatrix__of_bytes_undoes_ldmatrix_as_cutlass_joins_them() -> None:
    """CUTLASS's example zips the halves of both registers, and a shuffle brings them to their columns."""
    body = """
    ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [%row];
    prmt.b32 %v0, %r0, %r1, 0x5410;
    prmt.b32 %v1, %r0, %r1, 0x7632;
    and.b32 %u, %t, 1;
    setp.ne.u32 %odd, %u, 0;
    // The pair of lanes that has this lane's columns: lane - lane % 4 + lane % 4 / 2.
    and.b32 %u, %t, 3;
    sub.u32 %r3, %t, %u;
    shr.u32 %u, %u, 1;
    add.u32 %u, %r3, %u;
    shfl.sync.idx.b32 %r0, %v0, %u, 31, -1;
    shfl.sync.idx.b32 %r1, %v1, %u, 31, -1;
    add.u32 %u, %u, 2;
    shfl.sync.idx.b32 %r2, %v0, %u, 31, -1;
    shfl.sync.idx.b32 %r3, %v1, %u, 31, -1;
    selp.b32 %r0, %r1, %r0, %odd;
    selp.b32 %r1, %r3, %r2, %odd;
    xor.b32 %row, %row, 256;
    stmatrix.sync.aligned.m16n8.x2.trans.shared.b8 [%row], {%r0, %r1};
    xor.b32 %row, %row, 256;
    bar.sync 0;
    ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%row];
    """
    out = np.zeros((32, 4), np.uint32)
    aligned = load_or_store(body, words=4).replace(".align 16 .b8 tile", ".align 512 .b8 tile")
    launch(aligned, grid=1, block=32, args=[ROWS, out])
    found = out.view(np.uint8).reshape(32, 16)
    np.testing.assert_array_equal(found[16:], ROWS[:16])
    np.testing.assert_array_equal(found[:16], ROWS[:16])


@pytest.mark.parametrize(
    ("form", "match"),
    [
        ("ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r0, %r1}, [%row]", "comes with .trans"),
        ("ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%r0, %r1}, [%row]", "as .x1 or .x2"),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b8 {%r0}, [%row]", "takes .b8x16"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b8 {%r0}, [%row]", "of type .b16"),
        ("stmatrix.sync.aligned.m16n8.x1.shared.b8 [%row], {%r0}", "comes with .trans"),
        ("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r0, %r1}, [%row]", "4 registers, but 2"),
    ],
)
def test_ldmatrix__says_which_forms_there_are(form: str, match: str) -> None:
    with pytest.raises((UnsupportedInstruction, InvalidOperand), match=match):
        launch(load_or_store(form + ";", words=1), grid=1, block=32, args=[ROWS, np.zeros(32, np.uint32)])
