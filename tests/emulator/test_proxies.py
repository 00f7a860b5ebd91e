"""Bulk copies read what threads wrote to shared memory only behind a proxy fence; PTX ISA, Proxies."""

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import MissingProxyFence, OverwrittenSource
from support.order_events import judge

KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in)
{{
    .reg .pred %first, %one;
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
ONE = "    setp.lt.u32 %one, %t, 32;\n    @%one fence.proxy.async.shared::cta;\n"
OTHER = ONE.replace("lt", "ge")
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


def agrees(body, seed):
    """Compare the reports of a launch that goes on after them with the model's, by the store's line."""
    args = [np.zeros(64, np.uint32), np.zeros(64, np.uint32)]
    options = {"grid": 1, "block": 64, "args": args, "seed": seed, "hazards": {"no proxy fence": "warning"}}
    judged = judge(lambda: launch(KERNEL.format(body=body), **options).notes)
    assert judged.error is None
    reported = any(note.hazard.name == "no proxy fence" for note in judged.notes)
    assert reported == bool(judged.unfenced())
    return reported


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
    assert not agrees(order, seed)


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
    assert agrees(order, 0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "order",
    [
        WRITE + ONE + SYNC + STORE + WAIT,  # the other warp's store may come after this fence
        WRITE + SYNC + OTHER + STORE + WAIT,  # nothing orders the fence before the copy
    ],
    ids=["before the barrier", "behind the barrier"],
)
def test_fence__of_one_warp_covers_what_it_knows_of_and_tells_whom_it_meets(order, seed):
    """Another order of the warps would leave a store out of sight, so each run is reported."""
    with pytest.raises(MissingProxyFence, match=r"no fence\.proxy\.async (stands between|after it)"):
        run(order, seed)
    assert agrees(order, seed)


WARP_SYNC = "    bar.warp.sync 0xffffffff;\n"
ONLY = "    and.b32 %v, %t, 31;\n    setp.eq.u32 %one, %v, {};\n    @%one {}"


def by_lane(lane, what):
    """Something that one lane of each warp executes."""
    return ONLY.format(lane, what.lstrip())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("fences", "right"),
    [
        (by_lane(0, FENCE), False),  # it covers the stores of lane 0 alone
        (by_lane(0, FENCE) + by_lane(5, FENCE), False),
        (WARP_SYNC + by_lane(0, FENCE), True),  # the lanes have met: it covers what all of them stored
        (by_lane(0, AGAIN) + FENCE, True),
        (WARP_SYNC + by_lane(3, AGAIN) + by_lane(0, FENCE), False),  # lane 3 has stored since they met
        (WARP_SYNC + by_lane(3, AGAIN) + by_lane(3, FENCE) + by_lane(0, FENCE), True),
        ("".join(by_lane(lane, FENCE) for lane in range(32)), True),
    ],
)  # fmt: skip
def test_fence__of_one_lane_covers_its_own_stores_and_those_before_the_lanes_met(fences, right, seed):
    """What an elected lane stores, only its own fence covers, unless the lanes meet before another one's."""
    body = WRITE + fences + SYNC + STORE + WAIT
    if right:
        run(body, seed)
        return
    with pytest.raises(MissingProxyFence, match=r"no fence\.proxy\.async stands between .* that execute it"):
        run(body, seed)


def test_no_fence__names_the_store_that_no_fence_covers():
    """Fences cover the stores of lines 18 and 21, and none covers that of line 24."""
    body = WRITE + FENCE + SYNC + WRITE + FENCE + SYNC + "    st.shared.u32 [%at], 3;\n" + SYNC + STORE + WAIT
    with pytest.raises(MissingProxyFence) as error:
        run(body)
    assert "that warp 0 wrote at line 24 with no fence.proxy.async after it" in str(error.value)
    assert "line 18" not in str(error.value)


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
