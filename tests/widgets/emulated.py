"""Launches that the emulator records: two plain bulk loads behind two barriers, also with wrong bytes."""

from __future__ import annotations

import numpy as np

from cutecourse.emulator import EmulatorError, launch
from cutecourse.trace import Recorder, Trace

STAGE_BYTES = 512

PTX = """
.version 8.6
.target sm_90a
.address_size 64

.visible .entry two_loads(.param .u64 source, .param .u64 result, .param .u32 expected)
{
    .reg .pred %p<4>;
    .reg .b32 %r<12>;
    .reg .b64 %rd<8>;
    .shared .align 128 .b8 tiles[1024];
    .shared .align 8 .b64 full[2];

    mov.u32 %r0, %tid.x;
    mov.u32 %r1, full;
    mov.u32 %r2, tiles;
    ld.param.u64 %rd0, [source];
    ld.param.u64 %rd1, [result];
    ld.param.u32 %r3, [expected];
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra READY;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mbarrier.init.shared::cta.b64 [%r1+8], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra CONSUMER;
    @%p0 bra DONE;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd2, [%r1], %r3;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 512, [%r1];
    add.u64 %rd3, %rd0, 512;
    add.u32 %r4, %r2, 512;
    add.u32 %r5, %r1, 8;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd2, [%r5], %r3;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd3], 512, [%r5];
    bra DONE;
CONSUMER:
    sub.u32 %r6, %r0, 32;
    shl.b32 %r7, %r6, 4;
    cvt.u64.u32 %rd4, %r7;
    add.u64 %rd5, %rd1, %rd4;
    add.u32 %r8, %r2, %r7;
FIRST:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
    @!%p2 bra FIRST;
    ld.shared.u32 %r9, [%r8];
    st.global.u32 [%rd5], %r9;
SECOND:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1+8], 0;
    @!%p2 bra SECOND;
    ld.shared.u32 %r10, [%r8+512];
    st.global.u32 [%rd5+512], %r10;
DONE:
    ret;
}
"""


def two_loads(expected: int = STAGE_BYTES, seed: int = 0) -> tuple[Trace, EmulatorError | None]:
    """Run it, and return its trace and the error it ended with, if any."""
    recorder = Recorder()
    source = np.arange(256, dtype=np.uint32)
    result = np.zeros(256, dtype=np.uint32)
    try:
        launch(PTX, grid=1, block=64, args=(source, result, expected), seed=seed, recorder=recorder)
    except EmulatorError as error:
        return recorder.trace(), error
    np.testing.assert_array_equal(result[::4], source[::4])
    return recorder.trace(), None
