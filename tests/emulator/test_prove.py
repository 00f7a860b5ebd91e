"""`prove` against a naive search of all interleavings, on small protocols that hypothesis makes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutecourse.emulator import EmulatorError, EventOrder, prove, replay
from cutecourse.emulator.errors import DeadlockError, ExitedCTAError, LaunchError, SharedMemoryRace
from cutecourse.protocols import Protocol
from support.protocols import SLOW_READER, naive_search, small_pipelines

WORDS = 2
"""The words of shared memory that the threads of hypothesis read and write."""

# --- protocols ----------------------------------------------------------------------------------------------


@st.composite
def any_protocol(draw):
    """Threads that do anything."""
    counts = draw(st.lists(st.integers(1, 2), min_size=1, max_size=3))
    barrier, word = st.integers(0, len(counts) - 1), st.integers(0, WORDS - 1)
    action = st.one_of(
        st.tuples(st.just("arrive"), barrier),
        st.tuples(st.just("wait"), barrier, st.integers(0, 1)),
        st.tuples(st.sampled_from(["read", "write"]), word),
    )
    return counts, draw(st.lists(st.lists(action, max_size=5), min_size=2, max_size=3))


def test_verdicts__are_those_of_the_naive_search():
    verdicts = Counter()

    @settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    @given(st.one_of(any_protocol(), small_pipelines()))
    def is_that_of_the_search(protocol):
        counts, threads = protocol
        small = Protocol(counts, threads)
        proof = prove(**small.launch)
        _, wrong = naive_search(counts, threads)
        states = {"race": small.races, "deadlock": small.deadlocks}
        assert {name for name, found in states.items() if found} == wrong
        assert proof.verdict == ("counterexample" if wrong else "proved"), (wrong, str(proof))
        verdicts[proof.verdict, proof.orders > 1] += 1

    is_that_of_the_search()
    # The comparison means something only if it saw right ones, wrong ones, and searches.
    assert verdicts["proved", False] > 10
    assert verdicts["proved", True] > 0
    assert verdicts["counterexample", False] > 10


# --- one protocol in words ----------------------------------------------------------------------------------


def test_a_lapped_wait__is_found_and_told_and_can_be_run_again():
    proof = prove(**SLOW_READER.launch)
    assert proof.verdict == "counterexample"
    assert not proof.proved
    assert isinstance(proof.error, DeadlockError)
    (delay,) = proof.order.delays
    assert delay.place.warp == 2
    assert "block (0, 0, 0) warp 2 executes line" in str(proof)
    assert "when nothing else can go on" in str(proof)
    kept = EventOrder.from_json(proof.order.to_json())
    assert kept == proof.order
    with pytest.raises(DeadlockError) as again:
        replay(kept, **SLOW_READER.launch)
    assert again.value.line == proof.error.line


@pytest.mark.parametrize(
    "words", ["", "{}", "[1]", '{"delays": [1], "script": [], "later": [], "refuses": false}']
)
def test_another_text__is_no_order(words):
    with pytest.raises(LaunchError, match="no order that prove has written"):
        EventOrder.from_json(words)


def test_a_protocol_that_no_phase_forces__is_run_in_every_order():
    """Either of the last two arrivals completes the second phase, so the argument does not hold."""
    proof = prove(**Protocol((2,), ((("arrive", 0), ("arrive", 0), ("wait", 0, 0)), (("arrive", 0),))).launch)
    assert proof.proved
    assert proof.orders > 1
    assert f"{proof.orders} orders are possible" in str(proof)


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_time_of_nothing__is_refused(seconds):
    with pytest.raises(LaunchError, match="seconds is a time above 0"):
        prove(**SLOW_READER.launch, seconds=seconds)


# --- lanes of one warp as roles -----------------------------------------------------------------------------

WAIT = "{0}: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], {1};\n@!%p bra {0};"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [bar];"
WARP_SYNC = "bar.warp.sync 3;"


def two_lanes(first, second, count=1):
    """A warp whose lane 0 does one thing with an mbarrier, and whose lane 1 does another."""
    ptx = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{{
    .shared .align 8 .b64 bar;
    .reg .b32 %me;
    .reg .pred %p, %zero, %one;
    mov.u32 %me, %tid.x;
    setp.eq.u32 %zero, %me, 0;
    setp.eq.u32 %one, %me, 1;
    @%zero mbarrier.init.shared::cta.b64 [bar], {count};
    bar.sync 0;
    @%zero bra FIRST;
    @!%one bra END;
    {second}
    bra END;
FIRST:
    {first}
END:
    ret;
}}
"""
    return {"ptx": ptx, "grid": 1, "block": 32}


def test_a_lane_that_laps_the_wait_of_another__is_found():
    lapped = two_lanes(ARRIVE + ARRIVE, WAIT.format("L", 0))
    proof = prove(**lapped)
    assert proof.verdict == "counterexample"
    with pytest.raises(DeadlockError) as again:
        replay(proof.order, **lapped)
    assert again.value.line == proof.error.line
    assert prove(**two_lanes(ARRIVE, WAIT.format("L", 0))).proved


def test_lanes_that_meet_between_two_events__are_in_order():
    met = two_lanes(ARRIVE + WARP_SYNC + ARRIVE, WAIT.format("L", 0) + WARP_SYNC)
    assert prove(**met).proved
    vote = "MEET: vote.sync.any.pred %p, %zero, 3;"
    met = two_lanes(ARRIVE + "bra MEET;", f"{WAIT.format('L', 0)} {vote} @%zero {ARRIVE}")
    assert prove(**met).proved


def test_lanes_whose_orders_cannot_all_be_run__are_not_proved():
    """Either of the last two arrivals completes the second phase; with two warps, both orders are run."""
    proof = prove(**two_lanes(ARRIVE + ARRIVE + WAIT.format("L", 0), ARRIVE, count=2))
    assert proof.verdict == "incomplete"
    assert "lanes of a warp run apart at line" in str(proof)


# --- two published examples, rebuilt ------------------------------------------------------------------------


def overtaking(*, fixed):
    """CTA 1 arrives at CTA 0's `full` in each of three rounds and, unless fixed, never waits for CTA 0."""
    wait = "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p"
    waits = f"EMPTY:\n{wait}, [empty], %parity;\n@!%p bra EMPTY;"
    arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%far];"
    tells = f"mapa.shared::cluster.u32 %far, %empty, 1;\n{arrive}"
    return f"""
.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
.reqnctapercluster 2
{{
    .shared .align 8 .b64 full, empty;
    .reg .b32 %me, %rank, %round, %parity, %full, %empty, %far;
    .reg .b64 %out;
    .reg .pred %p, %first;
    ld.param.u64 %out, [out];
    mov.u32 %me, %tid.x;
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %full, full;
    mov.u32 %empty, empty;
    setp.eq.u32 %first, %me, 0;
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    @%first mbarrier.init.shared::cta.b64 [empty], 1;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @!%first bra MEET;
    mov.u32 %round, 0;
    setp.eq.u32 %p, %rank, 0;
    @%p bra CONSUME;
PRODUCE:
    setp.eq.u32 %p, %round, 0;
    @%p bra SEND;
    sub.u32 %parity, %round, 1;
    and.b32 %parity, %parity, 1;
    {waits if fixed else ""}
SEND:
    mapa.shared::cluster.u32 %far, %full, 0;
    {arrive}
    add.u32 %round, %round, 1;
    setp.lt.u32 %p, %round, 3;
    @%p bra PRODUCE;
    bra MEET;
CONSUME:
    and.b32 %parity, %round, 1;
FULL:
    {wait}, [full], %parity;
    @!%p bra FULL;
    add.u32 %round, %round, 1;
    st.global.u32 [%out], %round;
    add.u64 %out, %out, 4;
    {tells if fixed else ""}
    setp.lt.u32 %p, %round, 3;
    @%p bra CONSUME;
MEET:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
}}
"""


def test_a_producer_that_overtakes__is_found():
    """Source: the example cluster_overtake of mlc-ai/agentic-gpu-programming-for-mlsys, in words of ours."""
    launch = {"grid": 2, "block": 32, "args": [np.zeros(3, np.uint32)]}
    proof = prove(overtaking(fixed=False), **launch)
    assert proof.verdict == "counterexample"
    assert isinstance(proof.error, DeadlockError)
    assert prove(overtaking(fixed=True), **launch).proved


HAND_OVER = "tcgen05.fence::before_thread_sync;\nbar.sync 0;\ntcgen05.fence::after_thread_sync;\n"


def handed_over(*, fixed):
    """Four warps store to tensor memory, four others load it; a barrier lies between them if fixed."""
    values = ", ".join(f"%v{number}" for number in range(8))
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .shared .align 4 .b32 slot;
    .reg .b32 %me, %warp, %group, %quarter, %base, %at, %row, %v<8>;
    .reg .b64 %out, %wide;
    .reg .pred %first, %loads;
    ld.param.u64 %out, [out];
    mov.u32 %me, %tid.x;
    shr.u32 %warp, %me, 5;
    shr.u32 %group, %warp, 2;
    and.b32 %quarter, %warp, 3;
    and.b32 %row, %me, 127;
    setp.eq.u32 %first, %warp, 0;
    setp.eq.u32 %loads, %group, 1;
    @%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
    {HAND_OVER}
    ld.shared.u32 %base, [slot];
    shl.b32 %at, %quarter, 21;
    add.u32 %at, %at, %base;
    @%loads bra STORED;
    {"".join(f"mad.lo.u32 %v{number}, %row, 8, {number};" for number in range(8))}
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%at], {{{values}}};
    tcgen05.wait::st.sync.aligned;
STORED:
    {HAND_OVER if fixed else ""}
    @!%loads bra LOADED;
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{values}}}, [%at];
    tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %wide, %row, 32;
    add.u64 %out, %out, %wide;
    {"".join(f"st.global.u32 [%out+{4 * number}], %v{number};" for number in range(8))}
LOADED:
    {HAND_OVER}
    @!%first bra END;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 32;
END:
    ret;
}}
"""


def test_tensor_memory_that_nothing_hands_over__is_found():
    """Source: the example tmem_race of mlc-ai/agentic-gpu-programming-for-mlsys, in words of ours."""
    launch = {"grid": 1, "block": 256, "args": [np.zeros((128, 8), np.uint32)]}
    proof = prove(handed_over(fixed=False), **launch)
    assert proof.verdict == "counterexample"
    assert isinstance(proof.error, EmulatorError)
    assert prove(handed_over(fixed=True), **launch).proved


# --- the limits of a verdict --------------------------------------------------------------------------------


def test_a_launch_that_comes_to_its_budget__is_neither_proved_nor_refuted():
    proof = prove(**SLOW_READER.launch, max_instructions=20)
    assert proof.verdict == "incomplete"
    assert "max_instructions" in str(proof)


def sent_to_a_cta(*, waits):
    """CTA 0 stores asynchronously to CTA 1, which waits for the bytes or does not."""
    wait = "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [full], 0"
    return f"""
.version 8.6
.target sm_90
.address_size 64
.visible .entry k()
.reqnctapercluster 2
{{
    .shared .align 8 .b64 full;
    .shared .align 4 .b32 word;
    .reg .b32 %me, %rank, %at, %bar, %far;
    .reg .pred %p, %first;
    mov.u32 %me, %tid.x;
    mov.u32 %rank, %cluster_ctarank;
    setp.eq.u32 %first, %me, 0;
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @!%first bra END;
    setp.eq.u32 %p, %rank, 1;
    @%p bra RECEIVE;
    mov.u32 %at, word;
    mov.u32 %bar, full;
    mapa.shared::cluster.u32 %far, %at, 1;
    mapa.shared::cluster.u32 %bar, %bar, 1;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%far], 7, [%bar];
    bra END;
RECEIVE:
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 4;
FULL:
    {wait if waits else "mov.b32 %at, 0"};
    {"@!%p bra FULL;" if waits else ""}
END:
    ret;
}}
"""


def test_a_cta_that_ends_before_work_of_another_has_come__is_found():
    proof = prove(sent_to_a_cta(waits=False), grid=2, block=32)
    assert proof.verdict == "counterexample"
    assert isinstance(proof.error, ExitedCTAError)
    assert prove(sent_to_a_cta(waits=True), grid=2, block=32).proved


# --- fences and atomics -------------------------------------------------------------------------------------


def flagged(between, *, meets=False):
    """Warp 0 writes a word, warp 1 reads it, and each executes an instruction in between."""
    return f"""
.version 8.6
.target sm_90
.address_size 64
.visible .entry k()
{{
    .shared .align 4 .b32 word, flag;
    .reg .b32 %me, %old, %x;
    .reg .pred %first, %reads;
    mov.u32 %me, %tid.x;
    setp.eq.u32 %first, %me, 0;
    setp.ge.u32 %reads, %me, 32;
    @%first st.shared.u32 [word], 0;
    @%first st.shared.u32 [flag], 0;
    bar.sync 0;
    @%reads bra READ;
    @%first st.shared.u32 [word], 9;
    {between}
    {"bar.arrive 1, 64;" if meets else ""}
    bra END;
READ:
    {"bar.sync 1, 64;" if meets else ""}
    {between}
    ld.shared.u32 %x, [word];
END:
    ret;
}}
"""


@pytest.mark.parametrize(
    "between",
    [
        "fence.acq_rel.cta;",
        "atom.shared.add.u32 %old, [flag], 1;",
        "red.shared.add.u32 [flag], 1;",
        "@%first st.volatile.shared.u32 [flag], 1;\n    ld.volatile.shared.u32 %old, [flag];",
    ],
)
def test_a_race_that_the_order_of_fences_or_atomics_hides__is_found(between):
    """The race check of a run takes the second of two fences to know what came before the first."""
    proof = prove(flagged(between), grid=1, block=64)
    assert proof.verdict == "counterexample"
    assert isinstance(proof.error, SharedMemoryRace)
    with pytest.raises(SharedMemoryRace):
        replay(proof.order, flagged(between), grid=1, block=64)
    assert prove(flagged(between, meets=True), grid=1, block=64).proved


# --- scripts ------------------------------------------------------------------------------------------------


def test_a_script__has_only_the_events_that_make_the_run_go_wrong():
    """Warp 2 is first: then warp 1 comes two phases too late, in whichever order all else happens."""
    made = (("write", 0), ("write", 1), ("read", 1), ("arrive", 0))
    used = (("wait", 0, 0), ("wait", 0, 0), ("arrive", 0), ("arrive", 0), ("arrive", 0))
    launch = Protocol((1,), (made, used, (("arrive", 0),))).launch
    proof = prove(**launch)
    assert len(proof.order.script) == 1
    with pytest.raises(DeadlockError) as again:
        replay(proof.order, **launch)
    assert again.value.line == proof.error.line


# --- lanes of one warp that read, write and tell others -----------------------------------------------------


def in_warps(first, second, **options):
    """Warp 0 does one thing and the others another; `full` and `empty` count 1, or as the options say."""
    counts = {"full": 1, "empty": 1} | options
    ptx = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{{
    .shared .align 16 .b8 box[128];
    .shared .align 8 .b64 full, empty;
    .reg .b32 %me, %lane, %at, %x;
    .reg .pred %p, %zero, %one, %two, %third;
    mov.u32 %me, %tid.x;
    and.b32 %lane, %me, 31;
    shl.b32 %at, %lane, 2;
    mov.u32 %x, box;
    add.u32 %at, %at, %x;
    setp.eq.u32 %zero, %lane, 0;
    setp.eq.u32 %one, %lane, 1;
    setp.lt.u32 %two, %lane, 2;
    setp.eq.u32 %p, %me, 0;
    @%p mbarrier.init.shared::cta.b64 [full], {counts["full"]};
    @%p mbarrier.init.shared::cta.b64 [empty], {counts["empty"]};
    st.shared.b32 [%at], %lane;
    bar.sync 0;
    setp.ge.u32 %third, %me, 64;
    setp.ge.u32 %p, %me, 32;
    @%p bra SECOND;
    {first}
    bra END;
SECOND:
    {second}
END:
    ret;
}}
"""
    return {"ptx": ptx, "grid": 1, "block": 96}


def wait_for(barrier, label):
    return f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p, [{barrier}], 0;\n@!%p bra {label};\n"


READ, WRITE = "ld.shared.b32 %x, [%at];\n", "st.shared.b32 [%at], 7;\n"
FULL = "@%zero mbarrier.arrive.shared::cta.b64 _, [full];\n"
SYNC = "bar.warp.sync -1;\n"
WAIT_FULL = wait_for("full", "WAIT")
ONE_OF = f"@!%zero bra MET;\n{WAIT_FULL}MET:\n"
THIRD = f"bra END;\nTHIRD:\n{wait_for('empty', 'LAST')}{WRITE}"
TELL = "@%one mbarrier.arrive.shared::cta.b64 _, [empty];\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"{READ}MEET{FULL}", f"{WAIT_FULL}{WRITE}"),
        (f"{WRITE}MEET{FULL}", f"{WAIT_FULL}{READ}"),
        (f"{WRITE}{SYNC}{FULL}", f"{ONE_OF}MEET{READ}"),
        (f"@%one {READ}@%zero {READ}MEET{FULL}", f"{ONE_OF}{SYNC}@%zero {WRITE}@%one {WRITE}"),
        (f"ld.shared.b32 %x, [box];\nMEET{FULL}", f"{ONE_OF}@%zero st.shared.b32 [box], 7;"),
        # lane 1 of warp 1 tells warp 2 of what lane 0 has waited for
        (
            f"{READ}{SYNC}{FULL}",
            f"@%third bra THIRD;\n@!%two bra END;\n@%one bra LATE;\n{WAIT_FULL}LATE: MEET{TELL}{THIRD}",
        ),
    ],
    ids=["read", "written", "waited", "two read", "all read one word", "told"],
)
def test_lanes_that_do_not_meet__are_not_proved(first, second):
    sync = SYNC.replace("-1", "3") if "THIRD" in second else SYNC
    second = second if "THIRD" in second else f"@%third bra END;\n{second}"
    together = [text.replace("MEET", sync) for text in (first, second)]
    apart = [text.replace("MEET", "") for text in (first, second)]
    assert prove(**in_warps(*together)).proved
    assert not prove(**in_warps(*apart)).proved


def test_lanes_that_each_tell_of_themselves__need_not_meet():
    arrive = "mbarrier.arrive.shared::cta.b64 _, [full];\n"
    waits = f"@%third bra END;\n{WAIT_FULL}"
    assert prove(**in_warps(READ + arrive, waits + WRITE, full=32)).proved
    assert prove(**in_warps("ld.shared.b32 %x, [box];\n" + arrive, waits + WRITE, full=32)).proved
    two = "@!%two bra END;\n"
    assert prove(**in_warps(two + READ + arrive, waits + two + WRITE, full=2)).proved
