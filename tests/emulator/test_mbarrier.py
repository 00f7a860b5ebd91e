"""mbarriers: rules that are refused, waits that never end and why, what the seed may choose, and events."""

from types import SimpleNamespace

import numpy as np
import pytest

from cutecourse.emulator import EmulatorError, launch
from cutecourse.emulator.errors import (
    AddressError,
    AlignmentError,
    BarrierCountError,
    BarrierInUse,
    BarrierStateError,
    BudgetExceeded,
    DeadlockError,
    InvalidOperand,
    NoBarrierError,
    OpenPhase,
    SharedMemoryRace,
    TransactionBytesError,
    UninitializedRead,
    UnsupportedInstruction,
)
from cutecourse.emulator.memory.mbarriers import MBarrier, PhaseWait
from cutecourse.emulator.memory.shared_address import SharedTargets
from cutecourse.trace import Recorder

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
INIT = "@%first mbarrier.init.shared::cta.b64 [full], {};\n bar.sync 0;\n"


def kernel(body, *, shared=""):
    """A kernel whose body finds %me, %first, the barriers `full` and `empty`, and `box` of 64 words."""
    return (
        HEAD
        + f"""
.visible .entry k(.param .u64 out)
{{
    .shared .align 8 .b64 full, empty;
    .shared .align 16 .b32 box[64];
    {shared}
    .reg .b32 %me, %cta, %x, %y, %z, %there, %k;
    .reg .b64 %to, %wide, %state, %later;
    .reg .pred %first, %p, %q;
    ld.param.u64 %to, [out];
    mov.u32 %me, %tid.x;
    mov.u32 %cta, %ctaid.x;
    mov.u32 %x, %ntid.x;
    mad.lo.u32 %x, %cta, %x, %me;
    mad.wide.u32 %to, %x, 4, %to;
    setp.eq.u32 %first, %me, 0;
    {body}
    ret;
}}
"""
    )


def run(body, *, grid=1, block=32, **options):
    out = np.zeros(grid * block, dtype=np.uint32)
    launch(kernel(body), grid=grid, block=block, args=[out], **options)
    return out


def line_of(text, wanted):
    """The number of the one line that holds `wanted`."""
    (found,) = [number for number, line in enumerate(text.split("\n"), 1) if wanted in line]
    return found


# --- rules -----------------------------------------------------------------------------------------------

ONE = "mbarrier.init.shared::cta.b64 [full], 1;\n"
BROKEN = {
    "never initialised": (
        "mbarrier.arrive.shared::cta.b64 _, [full];",
        NoBarrierError,
        "mbarrier.init has not run",
    ),
    "test of nothing": (
        "mbarrier.test_wait.parity.shared::cta.b64 %p, [box], 0;",
        NoBarrierError,
        "holds no mbarrier",
    ),
    "invalidated": (
        ONE + "mbarrier.inval.shared::cta.b64 [full];\n mbarrier.arrive.shared::cta.b64 _, [full];",
        NoBarrierError,
        "it was invalidated at line",
    ),
    "inval of nothing": (
        "mbarrier.inval.shared::cta.b64 [full];",
        NoBarrierError,
        "mbarrier.init has not run",
    ),
    "overwritten": (
        ONE + "st.shared.u32 [full], %x;\n mbarrier.arrive.shared::cta.b64 _, [full];",
        NoBarrierError,
        "was overwritten by a store or a copy",
    ),
    "read": (
        ONE + "ld.shared.u32 %x, [full+4];",
        NoBarrierError,
        "only mbarrier instructions may read it",
    ),
    "initialised twice": (
        ONE + "mbarrier.init.shared::cta.b64 [full], 2;",
        BarrierInUse,
        "it is still valid. Invalidate it with mbarrier.inval first",
    ),
    "count 0": ("mbarrier.init.shared::cta.b64 [full], 0;", BarrierCountError, "in 1..1048575"),
    "count 2^20": ("mbarrier.init.shared::cta.b64 [full], 1048576;", BarrierCountError, "in 1..1048575"),
    "arrival of 0": (
        ONE + "mbarrier.arrive.shared::cta.b64 _, [full], 0;",
        BarrierCountError,
        "0 arrivals at once",
    ),
    "too many at once": (
        ONE + "mbarrier.arrive.shared::cta.b64 _, [full], 2;",
        BarrierCountError,
        "2 arrivals at mbarrier full .*: phase 0 waits for 1 more",
    ),
    "arrival while bytes are missing": (
        ONE
        + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 64;\n"
        + "mbarrier.arrive.shared::cta.b64 _, [full];",
        BarrierCountError,
        "all arrivals of phase 0 have come, and it still waits for 64 bytes",
    ),
    "all dropped out": (
        ONE + "mbarrier.arrive_drop.shared::cta.b64 _, [full];\n mbarrier.arrive.shared::cta.b64 _, [full];",
        BarrierCountError,
        "all its participants have dropped out",
    ),
    "noComplete completes": (
        ONE + "mbarrier.arrive.noComplete.shared::cta.b64 %state, [full], 1;",
        BarrierCountError,
        "would complete phase 0",
    ),
    "too many bytes expected": (
        ONE
        + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 1048575;\n"
        + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 1;",
        BarrierCountError,
        "would be 1048576 in phase 0",
    ),
    "too many bytes came": (
        ONE + "mbarrier.complete_tx.shared::cta.b64 [full], 1048576;",
        BarrierCountError,
        "would be -1048576 in phase 0",
    ),
    "misaligned": ("mbarrier.init.shared::cta.b64 [full+4], 1;", AlignmentError, "not a multiple of 8"),
    "past the end": ("mbarrier.init.shared::cta.b64 [full+4096], 1;", AddressError, "past the end"),
    "generic address of global memory": (
        "mbarrier.init.b64 [%to], 1;",
        AddressError,
        "outside shared memory",
    ),
    "parity 2": (
        ONE + "mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 2;",
        BarrierStateError,
        "it must be 0 or 1",
    ),
    "a state of another barrier": (
        ONE
        + "mbarrier.init.shared::cta.b64 [empty], 2;\n mbarrier.arrive.shared::cta.b64 %state, [empty];\n"
        + "mbarrier.test_wait.shared::cta.b64 %p, [full], %state;",
        BarrierStateError,
        "is not a state that an arrival at mbarrier full",
    ),
    "an old state": (
        ONE
        + "mbarrier.arrive.shared::cta.b64 %state, [full];\n mbarrier.arrive.shared::cta.b64 _, [full];\n"
        + "mbarrier.test_wait.shared::cta.b64 %p, [full], %state;",
        BarrierStateError,
        "the state is of phase 0 but .* phase 2",
    ),
    "pending_count of a complete state": (
        ONE + "mbarrier.arrive.shared::cta.b64 %state, [full];\n mbarrier.pending_count.b64 %x, %state;",
        BarrierStateError,
        "noComplete",
    ),
    "cp.async arrives nowhere": (
        "cp.async.mbarrier.arrive.shared::cta.b64 [full];",
        NoBarrierError,
        "has not run",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_mbarrier__a_broken_rule_has_its_error(name):
    body, error, words = BROKEN[name]
    with pytest.raises(error, match=words) as caught:
        run("@!%first bra done;\n" + body + "\ndone:")
    text = kernel("@!%first bra done;\n" + body + "\ndone:").split("\n")
    last = max(number for number, line in enumerate(text, 1) if body.split("\n")[-1].strip() in line)
    assert caught.value.line == last
    assert (caught.value.block, caught.value.warp, caught.value.lane) == ((0, 0, 0), 0, 0)


@pytest.mark.parametrize(
    ("instruction", "error"),
    [
        ("mbarrier.arrive.release.shared::cta.b64 _, [full];", UnsupportedInstruction),
        ("mbarrier.arrive.acquire.cta.shared::cta.b64 _, [full];", UnsupportedInstruction),
        ("mbarrier.arrive.shared::cluster.b64 %state, [full];", InvalidOperand),
        ("mbarrier.init.shared::cluster.b64 [full], 1;", UnsupportedInstruction),
        ("mbarrier.try_wait.shared::cluster.b64 %p, [full], %state;", UnsupportedInstruction),
        ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [full];", InvalidOperand),
        ("mbarrier.test_wait.shared::cta.b64 %p, [full], %state, 100;", InvalidOperand),
        ("fence.mbarrier_init.acquire.cluster;", UnsupportedInstruction),
        ("fence.proxy.tensormap::generic.acquire.gpu [%to], 64;", InvalidOperand),
    ],
)
def test_mbarrier__forms_that_do_not_exist_are_refused(instruction, error):
    with pytest.raises(error):
        run(instruction)


def test_waits__for_the_parity_minus_one_are_for_one():
    """The phase before the first one is complete, and the first one is not: 0 would wait for ever."""
    wait = "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p, [full], -1;\n@!%p bra AGAIN;\n"
    run(ONE + wait, block=1)
    with pytest.raises(DeadlockError, match="waits for parity 1"):
        run(ONE + "mbarrier.arrive.shared::cta.b64 _, [full];\n" + wait, block=1)


def test_inval__refuses_a_barrier_that_somebody_waits_for():
    body = (
        INIT.format(33)
        + """
    setp.ge.u32 %p, %me, 32;
    @%p bra end_it;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;
    @!%p bra wait;
end_it:
    mov.u32 %k, 0;
later:
    add.u32 %k, %k, 1;
    nanosleep.u32 20;
    setp.lt.u32 %q, %k, 200;
    @%q bra later;
    mbarrier.inval.shared::cta.b64 [full];
"""
    )
    with pytest.raises(BarrierInUse, match=r"block \(0, 0, 0\) warp 0 waits for its phase 0 at line"):
        run(body, block=64)


# --- waits -----------------------------------------------------------------------------------------------

PIPE = (
    INIT.format(1)
    + """
    @!%first bra wait;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 4096;
    mbarrier.complete_tx.shared::cta.b64 [full], 4000;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;  // here
    @!%p bra wait;
    st.global.u32 [%to], %me;
"""
)


def test_deadlock__missing_bytes_are_explained():
    with pytest.raises(TransactionBytesError) as caught:
        run(PIPE, block=64)
    text = kernel(PIPE)
    message = str(caught.value)
    line = line_of(text, "// here")
    assert caught.value.line == line
    assert message.startswith("96 bytes are missing at mbarrier full (shared offset 0)")
    waits = f"block (0, 0, 0) warps 0-1: line {line}, mbarrier.try_wait waits for parity 0 of mbarrier full"
    assert waits in message
    assert "is in phase 0 and lacks 96 bytes" in message
    expected = line_of(text, "expect_tx")
    assert f"4096 bytes expected at line {expected} by warp 0\n" in message
    assert f"4000 bytes landed, asked for at line {line_of(text, 'complete_tx')} by warp 0\n" in message


def test_deadlock__missing_arrivals_and_a_wrong_parity_are_explained():
    with pytest.raises(DeadlockError, match="lacks 32 of 33 arrivals"):
        run(PIPE.replace("[full], 1;", "[full], 33;", 1).replace("_, [full], 4096", "_, [full], 4000"))
    body = PIPE.replace("4096", "4000").replace("[full], 0;", "[full], 1;")
    # Phase 0 is complete: parity 1 asks for phase 1, which nobody arrives at.
    with pytest.raises(
        DeadlockError, match=r"waits for parity 1 of .* is in phase 1 and lacks 1 of 1 arrivals"
    ):
        run(body)


def test_deadlock__bytes_that_nobody_expects_are_explained():
    body = PIPE.replace(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 4096;",
        "mbarrier.arrive.shared::cta.b64 _, [full];",
    )
    # The arrival completes phase 0, and the bytes come in phase 1.
    with pytest.raises(OpenPhase, match=r"phase 1 of mbarrier full .* 4000 bytes more than were expected"):
        run(body)
    early = body.replace("    mbarrier.arrive.shared::cta.b64 _, [full];\n", "").replace(
        "4000;\n", "4000;\n mbarrier.arrive.shared::cta.b64 _, [full];\n"
    )
    with pytest.raises(
        TransactionBytesError, match=r"(?s)4000 bytes too many.*lacks nothing, but 4000 bytes came"
    ):
        run(early)


def test_deadlock__a_barrier_of_the_block_behind_the_wait_is_no_divergence():
    """One elected lane waits in vain and the others wait for it: the wait is to blame."""
    body = (
        INIT.format(1)
        + """
    @!%first bra together;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;
    @!%p bra wait;
together:
    bar.sync 0;
"""
    )
    with pytest.raises(DeadlockError, match=r"mbarrier\.try_wait waits for parity 0"):
        run(body)


def test_deadlock__a_loop_around_test_wait_is_found():
    body = (
        INIT.format(2)
        + """
    mbarrier.arrive.shared::cta.b64 %state, [full];
    @!%first bra done;
wait:
    mbarrier.test_wait.shared::cta.b64 %p, [full], %state;
    @!%p bra wait;
done:
"""
    )
    with pytest.raises(DeadlockError, match=r"mbarrier\.test_wait waits for parity 0"):
        run(body.replace("init.shared::cta.b64 [full], 2", "init.shared::cta.b64 [full], 33"))


def test_deadlock__clusters_of_a_bundle_are_told_apart():
    body = PIPE.replace(
        "@!%first bra wait;", "@!%first bra wait;\n setp.eq.u32 %p, %cta, 5;\n @%p bra wait;"
    ).replace("4096", "4000")
    with pytest.raises(DeadlockError) as caught:
        run(body, grid=9)
    message = str(caught.value)
    assert "block (5, 0, 0) warp 0" in message
    assert "lacks 1 of 1 arrivals" in message
    assert message.count("mbarrier.try_wait waits") == 1


def test_budget__ends_a_loop_that_goes_on_without_the_barrier():
    body = (
        INIT.format(1)
        + """
    mov.u32 %k, 0;
on:
    add.u32 %k, %k, 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 0;
    bra on;
"""
    )
    with pytest.raises(BudgetExceeded):
        run(body, block=1, max_instructions=5000)


def test_try_wait__gives_up_when_nothing_else_goes_on():
    body = (
        INIT.format(1)
        + """
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;
    selp.u32 %x, 1, 2, %p;
    st.global.u32 [%to], %x;
"""
    )
    for seed in range(4):
        np.testing.assert_array_equal(run(body, seed=seed), 2)


def test_try_wait__may_answer_false_too_early():
    """Without a loop around it, some seed reads what is not there yet, and no seed goes without a report."""
    body = (
        INIT.format(32)
        + """
    setp.ge.u32 %p, %me, 32;
    mov.u32 %x, box;
    mad.lo.u32 %x, %me, 4, %x;
    @%p bra consume;
    st.shared.u32 [%x], %me;
    mbarrier.arrive.shared::cta.b64 _, [full];
    bra done;
consume:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;
    ld.shared.u32 %y, [%x+-128];
    st.global.u32 [%to], %y;
done:
"""
    )
    found = set()
    for seed in range(60):
        with pytest.raises((UninitializedRead, SharedMemoryRace)) as error:
            run(body, block=64, seed=seed)
        found.add(error.type)
    assert found == {UninitializedRead, SharedMemoryRace}


def test_waits__without_one_the_data_is_not_there():
    body = (
        INIT.format(32)
        + """
    setp.ge.u32 %p, %me, 32;
    mov.u32 %x, box;
    mad.lo.u32 %x, %me, 4, %x;
    @%p bra consume;
    st.shared.u32 [%x], %me;
    mbarrier.arrive.shared::cta.b64 _, [full];
    bra done;
consume:
    ld.shared.u32 %y, [%x+-128];
    st.global.u32 [%to], %y;
done:
"""
    )
    seen = set()
    for seed in range(12):
        with pytest.raises((SharedMemoryRace, UninitializedRead)) as error:
            run(body, block=64, seed=seed)
        seen.add(error.type)
    assert seen == {SharedMemoryRace, UninitializedRead}  # there in time, or not


def test_waits__lanes_of_a_warp_may_wait_for_different_barriers():
    """Even lanes wait for `full`, which the odd ones complete after they have waited for `empty`."""
    body = """
    @%first mbarrier.init.shared::cta.b64 [full], 16;
    @%first mbarrier.init.shared::cta.b64 [empty], 32;
    bar.sync 0;
    setp.ge.u32 %p, %me, 32;
    @%p bra helper;
    and.b32 %x, %me, 1;
    setp.eq.u32 %q, %x, 1;
    mov.u32 %there, full;
    @%q mov.u32 %there, empty;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%there], 0;
    @!%p bra wait;
    @%q mbarrier.arrive.shared::cta.b64 _, [full];
    st.global.u32 [%to], 1;
    bra done;
helper:
    mbarrier.arrive.shared::cta.b64 _, [empty];
done:
"""
    for seed in range(6):
        out = run(body, grid=5, block=64, seed=seed).reshape(5, 64)
        np.testing.assert_array_equal(out, np.repeat([[1, 0]], 32, axis=1).reshape(1, 64).repeat(5, axis=0))


BACK_AND_FORTH = """
    @%first mbarrier.init.shared::cta.b64 [full], 32;
    @%first mbarrier.init.shared::cta.b64 [empty], 32;
    bar.sync 0;
    mov.u32 %x, 0;
    mov.u32 %k, 0;
    mov.u32 %y, box;
    and.b32 %z, %me, 31;
    mad.lo.u32 %y, %z, 4, %y;
    setp.ge.u32 %q, %me, 32;
    @%q bra second;
first:
    st.shared.u32 [%y], %x;
    mbarrier.arrive.shared::cta.b64 _, [full];
    and.b32 %z, %k, 1;
wait_first:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [empty], %z;
    @!%p bra wait_first;
    ld.shared.u32 %x, [%y];
    add.u32 %k, %k, 1;
    setp.lt.u32 %p, %k, 100;
    @%p bra first;
    st.global.u32 [%to], %x;
    ret;
second:
    and.b32 %z, %k, 1;
wait_second:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], %z;
    @!%p bra wait_second;
    ld.shared.u32 %x, [%y];
    mad.lo.u32 %x, %cta, 3, %x;
    add.u32 %x, %x, 1;
    st.shared.u32 [%y], %x;
    mbarrier.arrive.shared::cta.b64 _, [empty];
    add.u32 %k, %k, 1;
    setp.lt.u32 %p, %k, 100;
    @%p bra second;
"""
"""Two warps hand a counter back and forth, a hundred times."""


def test_waits__hundred_phases_of_many_blocks():
    """The blocks run as bundles and apart."""
    out = run(BACK_AND_FORTH, grid=20, block=64).reshape(20, 64)
    np.testing.assert_array_equal(out[:, :32], (100 * (3 * np.arange(20) + 1))[:, None].repeat(32, axis=1))


def test_waits__blocks_that_came_apart_go_on_together(monkeypatch):
    """The blocks come to the wait one after the other, and all are there before the phases complete."""
    body = """
    @%first mbarrier.init.shared::cta.b64 [full], 32;
    bar.sync 0;
    setp.ge.u32 %q, %me, 32;
    mul.lo.u32 %k, %cta, 50;
    @%q mov.u32 %k, 3000;
delay:
    sub.u32 %k, %k, 1;
    setp.gt.s32 %p, %k, 0;
    @%p bra delay;
    @%q bra second;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;
    @!%p bra wait;
    st.global.u32 [%to], 1;
    ret;
second:
    mbarrier.arrive.shared::cta.b64 _, [full];
"""
    woken = []
    wake = PhaseWait.wake
    monkeypatch.setattr(PhaseWait, "wake", lambda wait: (woken.append(len(wait.groups)), wake(wait))[1])
    for seed in range(4):
        out = run(body, grid=16, block=64, seed=seed).reshape(16, 64)
        assert (out[:, :32] == 1).all()
    assert sum(woken) / len(woken) > 4, woken


# --- events ----------------------------------------------------------------------------------------------


def test_events__tell_the_life_of_a_barrier():
    body = (
        INIT.format(2)
        + """
    @!%first bra wait;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 64;
    mbarrier.arrive_drop.shared::cta.b64 _, [full];
    mbarrier.complete_tx.shared::cta.b64 [full], 64;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;
    @!%p bra wait;
    @%first mbarrier.inval.shared::cta.b64 [full];
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
"""
    )
    recorder = Recorder()
    run(body, recorder=recorder)
    trace = recorder.trace()
    kinds = [
        event.kind
        for event in trace
        if (event.kind.startswith("mbarrier") and event.lane == 0) or event.kind == "mbarrier.phase"
    ]
    assert kinds == [
        "mbarrier.init",
        "mbarrier.expect_tx",
        "mbarrier.arrive",
        "mbarrier.arrive",
        "mbarrier.complete_tx",
        "mbarrier.phase",
        "mbarrier.inval",
    ]
    states = [event.data["state"] for event in trace.of("mbarrier") if "state" in event.data]
    assert states == [
        {"phase": 0, "pending": 2, "tx": 64},
        {"phase": 0, "pending": 1, "tx": 64},
        {"phase": 0, "pending": 0, "tx": 64},
        {"phase": 1, "pending": 1, "tx": 0},
    ]
    assert [e.data["dropped"] for e in trace.of("mbarrier.arrive")] == [False, True]
    (phase,) = trace.of("mbarrier.phase")
    assert phase.data["phase"] == 0
    assert phase.data["barrier"] == {"rank": 0, "offset": 0, "name": "full"}
    waits = list(trace.of("mbarrier.wait"))
    assert {e.data["outcome"] for e in waits} <= {"passed", "blocked", "false"}
    assert waits[-1].data["outcome"] == "passed" or list(trace.of("mbarrier.resume"))
    assert all(e.lane is None for e in waits)
    assert [e.data["name"] for e in trace.of("fence")] == ["fence.mbarrier_init.release.cluster"]
    numbers = [e.data["number"] for e in trace.of("barrier")]
    assert numbers == [0] * 4


def test_events__blocks_of_a_bundle_keep_their_own():
    recorder = Recorder()
    run(PIPE.replace("4096", "4000"), grid=6, recorder=recorder)
    inits = list(recorder.trace().of("mbarrier.init"))
    assert sorted((e.cluster, e.rank, e.block) for e in inits) == [(i, 0, (i, 0, 0)) for i in range(6)]


def test_events__a_recorder_changes_nothing():
    plain = run(PIPE.replace("4096", "4000"), grid=3, block=64, seed=5)
    watched = run(PIPE.replace("4096", "4000"), grid=3, block=64, seed=5, recorder=Recorder())
    np.testing.assert_array_equal(plain, watched)


def test_errors__are_of_one_family():
    for error in (NoBarrierError, BarrierInUse, BarrierCountError, BarrierStateError):
        assert issubclass(error, EmulatorError)


# --- the seed, and copies of cp.async --------------------------------------------------------------------


def test_seed__chooses_the_order_of_arrivals():
    body = (
        INIT.format(128)
        + """
    mbarrier.arrive.shared::cta.b64 _, [full];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;
    @!%p bra wait;
"""
    )
    orders = set()
    for seed in range(12):
        recorder = Recorder()
        run(body, block=128, seed=seed, recorder=recorder)
        orders.add(tuple(event.warp for event in recorder.trace().of("mbarrier.arrive")))
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len(orders) > 4


COPY = (
    INIT.format(32)
    + """
    mov.u32 %x, box;
    mad.lo.u32 %x, %me, 4, %x;
    cp.async.ca.shared.global [%x], [%to], 4;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [full];
"""
)
COPY_WAIT = """
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;
    @!%p bra wait;
"""
COPY_USE = """
    xor.b32 %y, %x, 4;
    ld.shared.u32 %y, [%y];
    add.u32 %y, %y, 1;
    st.global.u32 [%to], %y;
"""


@pytest.mark.parametrize("seed", range(4))
def test_cp_async_arrive__tells_that_the_copies_are_there(seed):
    out = np.arange(64, dtype=np.uint32)
    launch(kernel(COPY + COPY_WAIT + "bar.sync 0;\n" + COPY_USE), grid=2, block=32, args=[out], seed=seed)
    np.testing.assert_array_equal(out, (np.arange(64) ^ 1) + 1)


def test_cp_async_arrive__without_the_wait_they_are_not():
    with pytest.raises(UninitializedRead):
        run(COPY + COPY_USE)


def test_cp_async_arrive__comes_no_later_than_the_threads_own_wait():
    body = COPY + "cp.async.wait_all;\n mbarrier.test_wait.parity.shared::cta.b64 %p, [full], 0;\n"
    out = run(body + "selp.u32 %y, 1, 2, %p;\n st.global.u32 [%to], %y;")
    np.testing.assert_array_equal(out, 1)


def test_cp_async_arrive__without_noinc_the_phase_waits_for_one_more():
    """32 arrivals of threads complete no phase that the copies have added theirs to, until these come."""
    body = COPY.replace(".noinc", "") + "mbarrier.arrive.shared::cta.b64 _, [full];\n" + COPY_WAIT
    out = np.arange(32, dtype=np.uint32)
    launch(kernel(body + COPY_USE), grid=1, block=32, args=[out])
    np.testing.assert_array_equal(out, (np.arange(32) ^ 1) + 1)


def test_history__is_what_the_last_things_were_however_many_came():
    """Against the definition: one entry for what a warp does with an instruction in a phase, 24 of them."""
    kept, rng = 24, np.random.default_rng(0)
    sites = [object() for _ in range(6)]
    for n_sites, most in ((2, 4), (6, 60), (6, 400)):
        barrier = MBarrier.__new__(MBarrier)
        barrier.phase, barrier.history = 0, {}
        wanted = {}
        for _ in range(2000):
            who = SimpleNamespace(site=sites[rng.integers(n_sites)], bundle=sites[rng.integers(n_sites)])
            what, count = ("arrive", "complete_tx")[rng.integers(2)], int(rng.integers(1, 99))
            key = (what, barrier.phase, who.site, who.bundle)
            so_far = wanted.pop(key, (0, None))[0]
            if not so_far and len(wanted) == kept:
                del wanted[next(iter(wanted))]
            wanted[key] = (so_far + count, who)
            barrier.note(what, count, who)
            barrier.phase += not rng.integers(most)
            if not rng.integers(40):
                assert list(barrier.history.items()) == list(wanted.items())


@pytest.mark.parametrize("n", [1, 2, 5])
def test_grouped__lanes_of_a_warp_are_one_where_all_warps_agree(n):
    class Anywhere(SharedTargets):
        def resolve(self, bundle, lane, address):
            return 0, address

    rng = np.random.default_rng(n)
    for case in range(200):
        mask = np.ones((n, 32), dtype=np.bool_)
        if case % 4:
            mask = rng.random((n, 32)) < rng.choice([0.02, 0.5, 1])
            mask[rng.integers(n), rng.integers(32)] = True
        addresses = np.repeat(rng.integers(4, size=n) * 8, 32).reshape(n, 32)
        values = np.repeat(rng.integers(2, size=n), 32)
        if case % 3 == 0:
            addresses[rng.integers(n), rng.integers(32)] ^= 8
            values[rng.integers(n * 32)] ^= 1
        flat, lanes = addresses.reshape(-1), mask.ravel().nonzero()[0]
        bundle = SimpleNamespace(n=n, lanes=lambda mask: mask.ravel().nonzero()[0])
        targets = Anywhere.__new__(Anywhere)
        targets.site = None
        targets.address = SimpleNamespace(lanes=lambda _, given=addresses: given)
        warps = [own for warp in range(n) if len(own := lanes[lanes // 32 == warp])]
        agree = all(len(set(flat[own])) == 1 == len(set(values[own])) for own in warps)
        wanted = warps if agree else [np.array([lane]) for lane in lanes]
        found = list(targets.grouped(bundle, mask, values, together=True))
        assert [(own[0], flat[own[0]], own.tolist()) for own in wanted] == [
            (origin.lane, offset, own.tolist()) for origin, _, offset, own in found
        ]
