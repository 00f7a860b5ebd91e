"""tcgen05.cp: which lanes get which rows, by the document's warps, and each rule broken."""

import subprocess

import numpy as np
import pytest

from cutecourse.emulator.errors import (
    InvalidOperand,
    MissingProxyFence,
    TensorMemoryAccessError,
    TensorMemoryHazard,
    UnsupportedInstruction,
)
from support import tcgen05
from support.tcgen05 import FENCE, copy_in, descriptor, idesc

POISON = 0xCBCBCBCB
SMEM = 4096
COMMIT = "@%first tcgen05.commit.cta_group<G>.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
WAIT = "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n@!%q bra AGAIN;\n"
SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"


def image(rows, words):
    """(rows, shared memory, descriptor) of rows of 16 or 32 bytes: atoms of 8 rows of 16 bytes."""
    held = np.zeros((rows // 8, words // 4, 8, 4), np.uint32)
    values = np.arange(1, rows * words + 1, dtype=np.uint32).reshape(rows, words)
    for row in range(rows):
        held[row // 8, :, row % 8, :] = values[row].reshape(-1, 4)
    memory = np.zeros(SMEM // 4, np.uint32)
    memory[: held.size] = held.ravel()
    return values, memory, descriptor(0, 128, 32 * words)


def cp(shape, desc, group=1, lane=0, column=0):
    return (
        f"mov.b64 %a, {desc};\nadd.u32 %d, %tmem, {(lane << 16) + column};\n"
        f"@%first tcgen05.cp.cta_group::{group}.{shape} [%d], %a;\n"
    )


KEEP = (
    "tcgen05.fence::after_thread_sync;\nmul.wide.u32 %at, %me, 32;\nadd.u64 %at, %out, %at;\n"
    "add.u32 %d, %tmem, %lane;\n"
    "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%d];\n"
    + "".join(f"st.global.b32 [%at+{4 * i}], %r{i};\n" for i in range(8))
)
# What is not copied is stored before, so that it can be loaded.
FILL = (
    "add.u32 %d, %tmem, %lane;\nmov.b32 %r0, 0xCBCBCBCB;\n"
    "tcgen05.st.sync.aligned.32x32b.x8.b32 [%d], {%r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0};\n"
    "tcgen05.wait::st.sync.aligned;\n"
)


def run(body, memory, *, group=1, smem=SMEM, **options):
    grid = 2 if group == 2 else 1
    out = np.zeros((grid, 128, 8), np.uint32)
    given = np.stack([memory + 1000 * i for i in range(grid)])
    return tcgen05.run(
        body.replace("<G>", f"::{group}"),
        given,
        out,
        grid=grid,
        cluster=grid,
        group=group,
        smem=smem,
        **options,
    )


@pytest.mark.parametrize(
    ("shape", "rows", "words", "source_row"),
    [
        ("128x256b", 128, 8, lambda lane: lane),
        ("128x128b", 128, 4, lambda lane: lane),
        ("64x128b.warpx2::02_13", 64, 4, lambda lane: lane % 64),
        ("64x128b.warpx2::01_23", 64, 4, lambda lane: lane % 32 + 32 * (lane // 64)),
        ("32x128b.warpx4", 32, 4, lambda lane: lane % 32),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_cp__gives_each_lane_its_row(shape, rows, words, source_row):
    values, memory, desc = image(rows, words)
    body = FILL + copy_in(SMEM) + FENCE + SYNC + cp(shape, desc) + COMMIT + WAIT + KEEP
    wanted = np.full((128, 8), POISON, np.uint32)
    wanted[:, :words] = values[[source_row(lane) for lane in range(128)]]
    np.testing.assert_array_equal(run(body, memory)[0], wanted)


@pytest.mark.parametrize("lane", [0, 31])
def test_cp__of_four_rows_gives_each_warp_one_lane(lane):
    """CUTLASS's traits: row r goes 32 r lanes below the address."""
    values, memory, desc = image(8, 8)  # an atom of eight rows, of which four are copied
    body = FILL + copy_in(SMEM) + FENCE + SYNC + cp("4x256b", desc, lane=lane) + COMMIT + WAIT + KEEP
    wanted = np.full((128, 8), POISON, np.uint32)
    wanted[lane + 32 * np.arange(4)] = values[:4]
    np.testing.assert_array_equal(run(body, memory)[0], wanted)


@pytest.mark.parametrize(("swizzle", "bits"), [("32B", 1), ("64B", 2), ("128B", 3)])
@pytest.mark.parametrize("start", [0, 0x280])
def test_cp__swizzles_the_address(swizzle, bits, start):
    """Rows of 16 bytes in a tile with rows of 32, 64 or 128 bytes, whose start is not the pattern's."""
    span = 16 << bits
    values = np.arange(1, 32 * 4 + 1, dtype=np.uint32).reshape(32, 4)
    at = start + span * np.arange(32)[:, None] + 4 * np.arange(4)
    held = np.zeros(3 * SMEM // 4, np.uint32)
    held[(at ^ (at >> 3 & ((1 << bits) - 1) << 4)) // 4] = values
    desc = descriptor(start, 0, 8 * span, swizzle)
    body = FILL + copy_in(3 * SMEM) + FENCE + SYNC + cp("32x128b.warpx4", desc) + COMMIT + WAIT + KEEP
    out = run(body, held, smem=3 * SMEM)[0]
    np.testing.assert_array_equal(out[:, :4], np.tile(values, (4, 1)))
    assert (out[:, 4:] == POISON).all()


def test_cp__and_the_mma_behind_it_are_in_order():
    """The document has them for a pipeline: A is copied to tensor memory and used with no wait between."""
    a = np.random.default_rng(1).integers(-4, 5, (128, 16)).astype(np.float16)
    b = np.random.default_rng(2).integers(-4, 5, (8, 16)).astype(np.float16)
    held = np.zeros(2 * SMEM, np.uint8)
    for first, matrix in ((0, a), (SMEM, b)):
        tile = matrix.reshape(-1, 8, 2, 8).transpose(0, 2, 1, 3)  # atoms of 8 rows of 16 bytes
        held[first : first + tile.size * 2] = np.ascontiguousarray(tile).view(np.uint8).ravel()
    desc = descriptor(0, 128, 256)
    body = copy_in(2 * SMEM) + FENCE + SYNC + cp("128x256b", desc, column=32)
    body += f"mov.b64 %b, {desc + (SMEM >> 4)};\nmov.b32 %x, {idesc(128, 8)};\nsetp.ne.u32 %q, 0, 0;\n"
    body += "@%first tcgen05.mma.cta_group::1.kind::f16 [%tmem], [%d], %b, %x, %q;\n"
    # Not promised, and so everywhere: the next copy over A leaves the product alone.
    body += cp("128x256b", desc + (SMEM >> 4), column=32) + COMMIT + WAIT + KEEP
    for seed in range(8):
        out = run(body, held.view(np.uint32), smem=2 * SMEM, seed=seed)
        np.testing.assert_array_equal(out[0].view(np.float32), a.astype(np.float32) @ b.T)


def test_cp__of_a_pair_copies_in_both():
    _, memory, desc = image(128, 8)
    commit = COMMIT.replace("b64 [bar]", "b64.X").replace(
        ".shared::cluster.b64.X", ".shared::cluster.multicast::cluster.b64 [bar], %h"
    )
    body = copy_in(SMEM) + FENCE + SYNC + ".reg .b16 %h;\nmov.b16 %h, 3;\n"
    body += "setp.ne.u32 %p, %rank, 0;\n@%p bra AGAIN;\n"
    out = run(body + cp("128x256b", desc, group=2) + commit + WAIT + KEEP, memory, group=2)
    np.testing.assert_array_equal(out[1], out[0] + 1000)
    assert out[0, 5].tolist() == list(range(41, 49))


def test_cp__is_a_hazard_until_it_is_complete():
    _, memory, desc = image(128, 8)
    body = copy_in(SMEM) + FENCE + SYNC + cp("128x256b", desc) + "bar.sync 0;\n" + KEEP
    found = []
    for seed in range(8):
        try:
            run(body, memory, seed=seed)
        except TensorMemoryHazard as error:
            found.append(str(error))
    assert found
    assert all("tcgen05.cp" in report for report in found)


def test_cp__needs_a_fence_and_a_right_descriptor():
    _, memory, desc = image(128, 8)
    with pytest.raises(MissingProxyFence, match="the source has a byte at shared offset 0x0"):
        run(copy_in(SMEM) + SYNC + cp("128x256b", desc), memory)
    with pytest.raises(InvalidOperand, match="bits 46 to 48"):
        run(copy_in(SMEM) + FENCE + SYNC + cp("128x256b", desc ^ 1 << 46), memory)
    with pytest.raises(TensorMemoryAccessError, match="in lane 32, but must be in lane 0"):
        run(copy_in(SMEM) + FENCE + SYNC + cp("128x256b", desc, lane=32), memory)
    with pytest.raises(TensorMemoryAccessError, match="in lane 32, but must be in lane 0 to 31"):
        run(copy_in(SMEM) + FENCE + SYNC + cp("4x256b", desc, lane=32), memory)
    with pytest.raises(TensorMemoryAccessError, match="column 128 is not allocated"):
        run(copy_in(SMEM) + FENCE + SYNC + cp("128x256b", desc, column=124), memory)


@pytest.mark.parametrize(("form", "bits", "place"), [("b6x16_p32", 6, 1), ("b4x16_p64", 4, 2)])
@pytest.mark.parametrize(("shape", "rows", "words"), [("128x256b", 128, 8), ("32x128b.warpx4", 32, 4)])
def test_cp__unpacks_elements_and_leaves_their_padding_out(shape, rows, words, form, bits, place):
    """Each of 16 elements gets the middle of a byte."""
    codes = np.random.default_rng(5).integers(0, 1 << bits, (rows, words // 4, 16)).astype(np.uint8)
    ones = np.unpackbits(codes[..., None], axis=-1, count=bits, bitorder="little")
    held = np.full((rows // 8, words // 4, 8, 16), 0xA5, np.uint8)  # the padding
    packed = np.packbits(ones.reshape(*codes.shape[:2], -1), axis=-1, bitorder="little")
    held[..., : 2 * bits] = packed.reshape(rows // 8, 8, words // 4, -1).transpose(0, 2, 1, 3)
    memory = np.zeros(SMEM // 4, np.uint32)
    memory[: held.size // 4] = held.reshape(-1).view(np.uint32)
    desc = descriptor(0, 128, 32 * words)
    body = FILL + copy_in(SMEM) + FENCE + SYNC + cp(f"{shape}.b8x16.{form}", desc) + COMMIT + WAIT + KEEP
    wanted = (codes << place).reshape(rows, -1).view(np.uint32)
    np.testing.assert_array_equal(run(body, memory)[0][:, :words], np.tile(wanted, (128 // rows, 1)))


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        ("64x128b", r"64x128b comes as \.64x128b\.warpx2::02_13, \.64x128b\.warpx2::01_23"),
        ("64x128b.warpx4", r"64x128b comes as \.64x128b\.warpx2::02_13, \.64x128b\.warpx2::01_23"),
        ("32x128b", r"32x128b comes as \.32x128b\.warpx4"),
        ("128x128b.warpx4", r"128x128b comes as \.128x128b"),
        ("4x256b.warpx4", r"4x256b comes as \.4x256b"),
        ("128x256b.b8x16", r"\.b8x16 needs \.b6x16_p32 or \.b4x16_p64"),
        ("128x256b.b4x16_p64", r"\.b8x16 needs"),
        ("16x256b", r"needs one of the modifiers \.128x256b"),
    ],
)
def test_cp__refuses_other_forms_by_name(shape, match):
    with pytest.raises(UnsupportedInstruction, match=match):
        run(cp(shape, 0), np.zeros(SMEM // 4, np.uint32))


@pytest.mark.program("ptxas")
def test_ptxas__assembles_the_forms(tmp_path, find_program):
    shapes = ["128x256b", "4x256b", "128x128b", "32x128b.warpx4"]
    shapes += ["64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "128x256b.b8x16.b6x16_p32"]
    (tmp_path / "k.ptx").write_text(tcgen05.kernel("".join(cp(shape, 0) for shape in shapes)))
    done = subprocess.run(
        [find_program("ptxas"), "-arch=sm_100a", "-o", tmp_path / "k.cubin", tmp_path / "k.ptx"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
