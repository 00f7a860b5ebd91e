"""Bulk copies read what threads wrote to shared memory only behind a proxy fence; PTX ISA, Proxies."""

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import MissingProxyFence, OverwrittenSource

KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in)
{{
    .reg .pred %first;
    .reg .b32 %t, %at, %v;
    .reg .b64 %out, %in;
    .shared .align 16 .b8 source[256];
    .shared .align 8 .b64 full;
    ld.param.u64 %out, [out];
    ld.param.u64 %in, [in];
    mov.u32 %t, %tid.x;
    setp.eq.u32 %first, %t, 0;
    mov.u32 %at, source;
    mad.lo.u32 %at, %t, 4, %at;
{body}
    ret;
}}
"""
WRITE = "    st.shared.u32 [%at], %t;\n"
AGAIN = "    st.shared.u32 [%at], 7;\n"
FENCE = "    fence.proxy.async.shared::cta;\n"
SYNC = "    bar.sync 0;\n"
STORE = """
    @%first cp.async.bulk.global.shared::cta.bulk_group [%out], [source], 256;
    @%first cp.async.bulk.commit_group;
"""
WAIT = "    @%first cp.async.bulk.wait_group 0;\n"
LOAD = """
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    bar.sync 0;
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [source], [%in], 256, [full];
AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %first, [full], 0;
    @!%first bra AGAIN;
    setp.eq.u32 %first, %t, 0;
"""


def run(body, seed=0):
    out, given = np.zeros(64, np.uint32), np.arange(100, 164, dtype=np.uint32)
    launch(KERNEL.format(body=body), grid=1, block=64, args=[out, given], seed=seed)
    return out


@pytest.mark.parametrize(
    "order",
    [
        WRITE + FENCE + SYNC + STORE + WAIT,  # each thread fences what it wrote
        WRITE + SYNC + FENCE + STORE + WAIT,  # the fence lies behind the barrier, before the copy
        WRITE + "    fence.proxy.async;\n" + SYNC + STORE + WAIT,
    ],
    ids=["fence-barrier", "barrier-fence", "all-spaces"],
)
@pytest.mark.parametrize("seed", range(3))
def test_fence__brings_stores_into_the_copys_sight(order, seed):
    assert run(order, seed).tolist() == list(range(64))


@pytest.mark.parametrize(
    "order",
    [
        WRITE + SYNC + STORE + WAIT,
        FENCE + WRITE + SYNC + STORE + WAIT,  # too early
        WRITE + "    fence.proxy.alias;\n    fence.acq_rel.cta;\n" + SYNC + STORE + WAIT,  # others' fences
        WRITE + FENCE + SYNC + "    @%first st.shared.u32 [%at], 7;\n" + STORE + WAIT,  # written once more
        LOAD + WRITE + SYNC + STORE + WAIT,  # loaded by a copy, then changed by threads
    ],
    ids=["none", "early", "other", "again", "changed"],
)
def test_no_fence__is_reported(order):
    with pytest.raises(MissingProxyFence, match=r"shared offset 0x0 \(in source\) .* no fence.proxy.async"):
        run(order)


@pytest.mark.parametrize("seed", range(3))
def test_copies__see_each_others_bytes_without_a_fence(seed):
    assert run(LOAD + STORE + WAIT, seed).tolist() == list(range(100, 164))


def test_source__written_before_it_is_read_is_reported_or_not_seen():
    reports = 0
    for seed in range(12):
        try:
            out = run(WRITE + FENCE + SYNC + STORE + SYNC + AGAIN + WAIT, seed)
            assert out.tolist() == list(range(64))
        except OverwrittenSource:
            reports += 1
    assert reports


def test_source__may_be_written_once_it_is_read():
    waited = STORE + "    @%first cp.async.bulk.wait_group.read 0;\n" + SYNC + AGAIN
    for seed in range(4):
        assert run(WRITE + FENCE + SYNC + waited + WAIT, seed).tolist() == list(range(64))
