"""tcgen05.cp: which lanes get which rows, by the document's warps, and each rule broken."""

import numpy as np
import pytest

from cutecourse.emulator import (
    InvalidOperand,
    MissingProxyFence,
    TensorMemoryAccessError,
    TensorMemoryHazard,
    UnsupportedInstruction,
)
from support import tcgen05

POISON = 0xCBCBCBCB
SMEM = 4096
COMMIT = "@%first tcgen05.commit.cta_group<G>.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
WAIT = "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n@!%q bra AGAIN;\n"
SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
FENCE = "fence.proxy.async.shared::cta;\n"


def copy_in():
    text = "shl.b32 %x, %me, 4;\nmul.wide.u32 %at, %me, 16;\nadd.u64 %at, %in, %at;\nmov.u32 %y, box;\n"
    text += "add.u32 %x, %x, %y;\n"
    for first in range(0, SMEM, 2048):
        text += f"ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%at+{first}];\n"
        text += f"st.shared.v4.b32 [%x+{first}], {{%r0, %r1, %r2, %r3}};\n"
    return text


def image(rows, words):
    """(rows, shared memory, descriptor) of rows of 16 or 32 bytes: atoms of 8 rows of 16 bytes."""
    held = np.zeros((rows // 8, words // 4, 8, 4), np.uint32)
    values = np.arange(1, rows * words + 1, dtype=np.uint32).reshape(rows, words)
    for row in range(rows):
        held[row // 8, :, row % 8, :] = values[row].reshape(-1, 4)
    memory = np.zeros(SMEM // 4, np.uint32)
    memory[: held.size] = held.ravel()
    return values, memory, (128 >> 4) << 16 | (32 * words >> 4) << 32 | 1 << 46


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


def run(body, memory, *, group=1, **options):
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
        smem=SMEM,
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
    body = FILL + copy_in() + FENCE + SYNC + cp(shape, desc) + COMMIT + WAIT + KEEP
    wanted = np.full((128, 8), POISON, np.uint32)
    wanted[:, :words] = values[[source_row(lane) for lane in range(128)]]
    np.testing.assert_array_equal(run(body, memory)[0], wanted)


def test_cp__of_a_pair_copies_in_both():
    _, memory, desc = image(128, 8)
    commit = COMMIT.replace("b64 [bar]", "b64.X").replace(
        ".shared::cluster.b64.X", ".shared::cluster.multicast::cluster.b64 [bar], %h"
    )
    body = copy_in() + FENCE + SYNC + ".reg .b16 %h;\nmov.b16 %h, 3;\n"
    body += "setp.ne.u32 %p, %rank, 0;\n@%p bra AGAIN;\n"
    out = run(body + cp("128x256b", desc, group=2) + commit + WAIT + KEEP, memory, group=2)
    np.testing.assert_array_equal(out[1], out[0] + 1000)
    assert out[0, 5].tolist() == list(range(41, 49))


def test_cp__is_a_hazard_until_it_is_complete():
    _, memory, desc = image(128, 8)
    body = copy_in() + FENCE + SYNC + cp("128x256b", desc) + "bar.sync 0;\n" + KEEP
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
        run(copy_in() + SYNC + cp("128x256b", desc), memory)
    with pytest.raises(InvalidOperand, match="bits 46 to 48"):
        run(copy_in() + FENCE + SYNC + cp("128x256b", desc ^ 1 << 46), memory)
    with pytest.raises(TensorMemoryAccessError, match="of lane 32, and has to be of lane 0"):
        run(copy_in() + FENCE + SYNC + cp("128x256b", desc, lane=32), memory)
    with pytest.raises(TensorMemoryAccessError, match="column 128 is not allocated"):
        run(copy_in() + FENCE + SYNC + cp("128x256b", desc, column=124), memory)


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        ("4x256b", "4x256b is not supported yet"),
        ("64x128b", r"64x128b comes as \.64x128b\.warpx2::02_13, \.64x128b\.warpx2::01_23"),
        ("128x256b.b8x16.b4x16_p64", "unpacked on the way"),
    ],
)
def test_cp__refuses_other_forms_by_name(shape, match):
    with pytest.raises(UnsupportedInstruction, match=match):
        run(cp(shape, 0), np.zeros(SMEM // 4, np.uint32))
