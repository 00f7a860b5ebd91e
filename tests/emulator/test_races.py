"""Races in shared memory: each way to order two uses, with it and without.

A report has to be the same in any order in which warps run, so each case runs under several seeds. The
reference model judges each of these runs too (support.order_model); test_order has random programs for it.
"""

import re
from functools import partial

import numpy as np
import pytest

from cutecourse.emulator import EmulatorError, launch
from cutecourse.emulator.errors import (
    ExitedCTAError,
    NoBarrierError,
    OverwrittenSource,
    ReadBeforeWait,
    SameValueWritten,
    SharedMemoryRace,
    StageReusedEarly,
    TransactionBytesError,
    UninitializedRead,
)
from support import tcgen05
from support.order_events import judge

SEEDS = range(20)
JUDGED = 2
"""The model judges runs with seeds below this, because it is slow."""
WAIT = "{0}:\nmbarrier.try_wait.parity.shared::cta.b64 %p, [{1}], {2};\n@!%p bra {0};\n"


def kernel(body, *, target="sm_90", declared=""):
    """A kernel that finds %me, %warp, its CTA's %rank, a pointer %in, mbarriers and 1 KiB of `box`."""
    return f"""
.version 8.6
.target {target}
.address_size 64
.visible .entry k(.param .u64 in)
{{
    .shared .align 128 .b8 box[1024];
    .shared .align 8 .b64 full, empty;
    {declared}
    .reg .b32 %me, %warp, %rank, %x, %y, %z, %at;
    .reg .b64 %in, %far, %wide;
    .reg .pred %p, %q, %first, %w0, %w1, %w2;
    ld.param.u64 %in, [in];
    mov.u32 %me, %tid.x;
    mov.u32 %rank, %cluster_ctarank;
    shr.u32 %warp, %me, 5;
    setp.eq.u32 %first, %me, 0;
    setp.eq.u32 %w0, %warp, 0;
    setp.eq.u32 %w1, %warp, 1;
    setp.eq.u32 %w2, %warp, 2;
    shl.b32 %at, %me, 2;
    mov.u32 %x, box;
    add.u32 %at, %at, %x;
    st.shared.b32 [%at], %me;
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    @%first mbarrier.init.shared::cta.b64 [empty], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
{body}
    ret;
}}
"""


def outcomes(body, *, block=96, grid=1, seeds=SEEDS, **options):
    """Each seed's report, with the text of the line that it is at; None where there is none."""
    text = kernel(body)
    found = []
    for seed in seeds:
        how = {"grid": grid, "block": block, "args": [np.arange(1024, dtype=np.uint8)], "seed": seed}
        run = partial(launch, text, **how, **options)
        error = None
        if seed < JUDGED and "hazards" not in options:
            judged = judge(lambda run=run: run().notes)
            judged.agree()
            error = judged.error
        else:
            try:
                run()
            except EmulatorError as raised:
                error = raised
        at = None if error is None else text.split("\n")[error.line - 1].strip()
        found.append(None if error is None else (type(error), at, str(error)))
    return found


def is_clean(body, **options):
    assert outcomes(body, **options) == [None] * len(SEEDS)


def is_reported(body, kind, lines, words="", **options):
    """Under every seed an error of a class, at one of some lines."""
    for found in outcomes(body, **options):
        assert found is not None
        assert found[0] is kind, found[2]
        assert found[1] in lines, found[2]
        assert re.search(words, found[2]), found[2]


STORE = "@%w0 st.shared.b32 [box], %me;"
LOAD = "@%w1 ld.shared.b32 %y, [box];"


# --- threads ------------------------------------------------------------------------------------------------

ORDERS = {
    "bar.sync": "bar.sync 0;",
    "barrier of two warps": "@%w2 bra NOT;\nbar.sync 3, 64;\nNOT:",
    "arrive and sync": "@%w0 bar.arrive 4, 64;\n@%w1 bar.sync 4, 64;",
    "bar.red": "bar.red.popc.u32 %z, 0, %first;",
    "cluster": "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
    "mbarrier": "@%first mbarrier.arrive.shared::cta.b64 _, [full];\n" + WAIT.format("AGAIN", "full", 0),
    "a fence and a relaxed arrival": (
        "fence.acq_rel.cta;\n@%first mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [full];\n"
        + WAIT.format("AGAIN", "full", 0)
    ),
    "through a third warp": (
        "@%w0 bar.arrive 4, 64;\n@%w2 bar.sync 4, 64;\n@%w2 bar.arrive 5, 64;\n@%w1 bar.sync 5, 64;"
    ),
    "atomics": (
        "@%w0 atom.shared.add.u32 %z, [box+512], 1;\n@!%w1 bra DONE;\n"
        "AGAIN: atom.shared.add.u32 %z, [box+512], 0;\nsetp.lt.u32 %p, %z, 32;\n@%p bra AGAIN;\nDONE:"
    ),
    "a flag that is volatile": (
        "membar.cta;\n@%w0 st.volatile.shared.b32 [box+512], 1;\n@!%w1 bra DONE;\n"
        "AGAIN: ld.volatile.shared.b32 %z, [box+512];\nsetp.ne.u32 %p, %z, 1;\n@%p bra AGAIN;\nDONE:"
    ),
}
CLEARED = "@%w2 st.shared.b32 [box+512], 0;\nbar.sync 0;\n"


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize(
    ("first", "second"), [(STORE, LOAD), (LOAD, STORE), (STORE, STORE.replace("w0", "w1"))]
)
def test_threads__ordered_by(order, first, second):
    if first == LOAD:  # the one with the flag comes first
        order = order.replace("%w0", "%w9").replace("%w1", "%w0").replace("%w9", "%w1")
        order = order.replace("@%first mb", "@%q mb")
        order = "setp.eq.u32 %q, %me, 32;\n" + order
    is_clean(f"{CLEARED}{first}\n{order}\n{second}")


NO_ORDER = {
    "nothing": "",
    "another barrier": "@%w0 bar.sync 3, 64;\n@%w2 bar.sync 3, 64;",
    "the arrival only": "@%w1 bar.arrive 4, 64;\n@%w0 bar.sync 4, 64;",
    "a phase that is over": WAIT.format("AGAIN", "full", 1),
    "an mbarrier at which somebody else arrives": (
        "setp.eq.u32 %q, %me, 64;\n@%q mbarrier.arrive.shared::cta.b64 _, [full];\n"
        + WAIT.format("AGAIN", "full", 0)
    ),
    "a relaxed arrival": (
        "@%first mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [full];\n" + WAIT.format("AGAIN", "full", 0)
    ),
    "a fence of the other proxy": "fence.proxy.async.shared::cta;",
}


@pytest.mark.parametrize("order", NO_ORDER.values(), ids=NO_ORDER)
def test_threads__not_ordered_by(order):
    is_reported(f"{STORE}\n{order}\n{LOAD}", SharedMemoryRace, {STORE, LOAD}, r"in box.* nothing orders")
    second = STORE.replace("w0", "w1")
    is_reported(f"{STORE}\n{order}\n{second}", SharedMemoryRace, {STORE, second})


def test_threads__a_barrier_before_both_orders_nothing():
    is_reported(f"bar.sync 0;\n{STORE}\n{LOAD}\nbar.sync 0;", SharedMemoryRace, {STORE, LOAD})


def test_threads__of_neighbouring_words_or_reads_need_no_order():
    is_clean(f"{LOAD}\n@%w0 ld.shared.b32 %y, [box];\n@%w2 st.shared.b32 [box+4], %me;")
    is_clean("@%w0 st.shared.b8 [box+1], %me;\n@%w1 ld.shared.b8 %y, [box];")


def test_threads__wide_accesses_meet_narrow_ones():
    wide = "@%w1 ld.shared.v4.b32 {%x, %y, %z, %at}, [box];"
    store = "@%w0 st.shared.b8 [box+13], %me;"
    is_reported(f"{store}\n{wide}", SharedMemoryRace, {store, wide}, "offset 0xd ")
    is_clean(f"{store}\nbar.sync 0;\n{wide}")


def test_threads__lanes_of_one_warp_are_not_compared():
    is_clean("@%w0 st.shared.b32 [box], %me;\nxor.b32 %at, %at, 4;\n@%w0 ld.shared.b32 %y, [%at];")


def test_threads__who_has_ended_has_come_to_the_barrier():
    is_clean(f"{STORE}\n@%w0 bra OUT;\nbar.sync 0;\n{LOAD}\nOUT:")


def test_threads__that_write_the_same_value_are_noted_and_go_on():
    body = "mov.u32 %y, 33554689;\n@!%w2 st.shared.b32 [box], %y;\nbar.sync 0;\nld.shared.b32 %z, [box];"
    for seed in SEEDS:
        done = launch(kernel(body), grid=3, block=96, args=[np.zeros(1024, np.uint8)], seed=seed)
        (note,) = done.notes
        assert (note.hazard.name, note.severity) == ("same value written", "note")
        assert "Both write the same value." in note.problem
    is_reported(
        body, SameValueWritten, {"@!%w2 st.shared.b32 [box], %y;"}, hazards={"same value written": "error"}
    )


@pytest.mark.parametrize(
    "body",
    [
        # Lane 0 of the second warp stores what is there, and the others do not.
        "@%w0 st.shared.b32 [box], %me;\nsub.u32 %z, 63, %me;\n@%w1 st.shared.b32 [box], %z;",
        # Of two words one is the same.
        "mov.u32 %y, 7;\n@%w0 st.shared.v2.b32 [box], {%y, %y};\n@%w1 st.shared.v2.b32 [box], {%y, %me};",
        # A third warp reads it.
        "@!%w2 st.shared.b32 [box], 7;\n@%w2 ld.shared.b32 %y, [box];",
    ],
)
def test_threads__that_write_the_same_value_in_part_race(body):
    off = {"same value written": "off"}
    for found in outcomes(body, hazards=off):
        assert found is not None
        assert found[0] is SharedMemoryRace


def test_never_written__says_which_store_or_copy_may_be_too_late():
    text = kernel(
        "@%w0 st.shared.b32 [late], %me;\n@%w1 ld.shared.b32 %y, [late];", declared=".shared .b32 late;"
    )
    store = next(n for n, line in enumerate(text.split("\n"), 1) if "[late], %me" in line)
    first = next(n for n, line in enumerate(text.split("\n"), 1) if "st.shared.b32 [%at]" in line)
    found = []
    for seed in SEEDS:
        with pytest.raises((UninitializedRead, SharedMemoryRace)) as error:
            launch(text, grid=1, block=96, args=[np.zeros(1024, np.uint8)], seed=seed)
        found.append(error.value)
    words = f"If a store at lines {first}, {store} is to write it, put a barrier between it and the read."
    unwritten = [error for error in found if isinstance(error, UninitializedRead)]
    assert unwritten
    assert all(words in str(error) for error in unwritten)


def test_threads__of_many_blocks_each_by_itself():
    body = "setp.eq.u32 %q, %rank, 0;\nmov.u32 %z, %ctaid.x;\nsetp.ne.u32 %p, %z, 5;\n"
    body += f"{STORE}\n@%p bar.sync 0;\n{LOAD}"
    text = kernel(body)
    for seed in range(6):
        with pytest.raises(SharedMemoryRace) as error:
            launch(text, grid=9, block=96, args=[np.zeros(1024, np.uint8)], seed=seed)
        assert error.value.block == (5, 0, 0)


def test_threads__say_which_warps_and_lines_and_bytes():
    text = kernel(f"{STORE}\n{LOAD}")
    number = {line.strip(): at for at, line in enumerate(text.split("\n"), 1)}
    with pytest.raises(SharedMemoryRace) as error:
        launch(text, grid=1, block=96, args=[np.zeros(1024, np.uint8)])
    mine, other = (STORE, LOAD) if error.value.line == number[STORE] else (LOAD, STORE)
    assert error.value.line == number[mine]
    assert f"at line {number[other]}" in str(error.value)
    assert f"warp {1 if mine == STORE else 0} has" in str(error.value)
    assert (error.value.warp, error.value.address, error.value.allocation) == (int(mine == LOAD), 0, "box")


def test_hazards__off_keep_no_record_and_a_warning_goes_on():
    body = f"{STORE}\n{LOAD}"
    off = dict.fromkeys(("race", "read before its wait", "stage reused early"), "off")
    is_clean(body, hazards=off)
    result = launch(
        kernel(body), grid=1, block=96, args=[np.zeros(1024, np.uint8)], hazards={"race": "warning"}
    )
    assert [(note.hazard.name, note.severity) for note in result.notes] == [("race", "warning")]


FENCE_EACH = "membar.cta;"


def test_threads__a_fence_publishes_what_comes_before_it_alone():
    """Whichever warp fences first, its store comes after the fence."""
    is_reported(f"{FENCE_EACH}\n{STORE}\n{LOAD}", SharedMemoryRace, {STORE, LOAD})


def test_threads__a_thread_that_completes_bytes_publishes_nothing():
    """mbarrier.complete_tx "does not provide any memory ordering semantics"."""
    expect = "setp.eq.u32 %q, %me, 64;\n@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16;\n"
    complete = "@%first mbarrier.complete_tx.shared::cta.b64 [full], 16;\n"
    wait = WAIT.format("AGAIN", "full", 0)
    is_reported(f"{STORE}\n{expect}{complete}{wait}{LOAD}", SharedMemoryRace, {STORE, LOAD})
    is_clean(f"{STORE}\nmembar.cta;\n{expect}{complete}{wait}{LOAD}")


# --- lanes of a warp ----------------------------------------------------------------------------------------

NEXT = "st.shared.b32 [%at], 7;\nORDER\nxor.b32 %at, %at, 4;\nld.shared.b32 %y, [%at];"
APART = {
    "a neighbour's word": NEXT,
    "what one lane has written": "@%first st.shared.b32 [box], 7;\nORDER\nld.shared.b32 %y, [box];",
    "written again": "st.shared.b32 [%at], 7;\nORDER\nxor.b32 %at, %at, 4;\nst.shared.b32 [%at], 8;",
    "written after it is read": (
        "bar.sync 0;\nxor.b32 %z, %at, 4;\nld.shared.b32 %y, [%z];\nORDER\nst.shared.b32 [%at], 8;"
    ),
    "added to by all": (
        "bar.sync 0;\nld.shared.b32 %y, [box];\nadd.u32 %y, %y, %me;\nORDER\nst.shared.b32 [box], %y;"
    ),
    "copied out by one": (
        "st.shared.b32 [%at], 7;\nfence.proxy.async.shared::cta;\nORDER\n"
        "@%first cp.async.bulk.global.shared::cta.bulk_group [%in], [box], 128;\n"
        "@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.wait_group 0;"
    ),
    "copied over by one": (
        "bar.sync 0;\nld.shared.b32 %y, [%at];\nORDER\n"
        "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;\n"
        "@%first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [box], [%in], 128, [full];\n"
        "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %q, [full], 0;\n@!%q bra AGAIN;"
    ),
    "half of a vector": (
        "st.shared.b32 [%at], 7;\nORDER\nand.b32 %at, %at, -8;\nld.shared.v2.b32 {%y, %z}, [%at];"
    ),
    "a row of ldmatrix": (
        "st.shared.b32 [%at], 7;\nORDER\nand.b32 %z, %me, 7;\nshl.b32 %z, %z, 4;\nadd.u32 %z, %z, %x;\n"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%y}, [%z];"
    ),
}
NO_ORDER = {
    "nothing": "",
    "a shuffle": "shfl.sync.idx.b32 %z, %me, 0, 31, -1;",
    "a vote": "vote.sync.all.pred %q, %first, -1;",
}
MEET = {"bar.warp.sync": "bar.warp.sync -1;", "bar.sync": "bar.sync 0;"}


def lanes(body, **options):
    """The notes of lanes that nothing orders, under a few seeds."""
    args = [np.arange(1024, dtype=np.uint8)]
    for seed in range(3):
        notes = launch(kernel(body), **{"grid": 1, "block": 32, "args": args, "seed": seed} | options).notes
        yield [note for note in notes if note.hazard.name == "lanes not ordered"]


@pytest.mark.parametrize("body", APART.values(), ids=APART)
@pytest.mark.parametrize("between", NO_ORDER.values(), ids=NO_ORDER)
@pytest.mark.parametrize("shape", [{}, {"grid": 5}], ids=["alone", "many"])
def test_lanes__that_only_run_together_are_warned_of(body, between, shape):
    assert all(lanes(body.replace("ORDER", between), **shape))


@pytest.mark.parametrize("body", APART.values(), ids=APART)
@pytest.mark.parametrize("between", MEET.values(), ids=MEET)
def test_lanes__that_meet_are_ordered(body, between):
    assert not any(lanes(body.replace("ORDER", between)))


@pytest.mark.parametrize(
    "body",
    [
        "st.shared.b32 [%at], 7;\nld.shared.b32 %y, [%at];",  # each its own
        "st.shared.b32 [box], 7;\nld.shared.b32 %y, [box];",  # all have written it
        "@%first st.shared.b32 [box], 7;\n@%first ld.shared.b32 %y, [box];",
        "atom.shared.add.u32 %y, [box], 1;\natom.shared.add.u32 %y, [box], 1;",
        "@!%w0 st.shared.b32 [%at], 7;\n@%w0 ld.shared.b32 %y, [%at];",
        "bar.sync 0;\nld.shared.b32 %y, [%at];\nadd.u32 %y, %y, 1;\nst.shared.b32 [%at], %y;",
    ],
)
def test_lanes__that_use_their_own_words_need_no_barrier(body):
    assert not any(lanes(body))


def test_lanes__a_report_names_the_write_and_the_barrier_that_is_missing():
    for (note,) in lanes(NEXT.replace("ORDER", ""), block=96):
        assert note.severity == "warning"
        assert note.other_line is not None
        assert f"which another lane of this warp has written at line {note.other_line}" in note.problem
        assert "Put bar.warp.sync between them" in note.problem


ONE_WAITS = {
    "for a copy": (
        "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;\n"
        "@%first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [box], [%in], 128, [full];\n"
        "@!%first bra MET;\nAGAIN: mbarrier.try_wait.parity.shared::cta.b64 %q, [full], 0;\n"
        "@!%q bra AGAIN;\nMET: ORDER\n@%w0 ld.shared.b32 %y, [%at];"
    ),
    "for another warp's stores": (
        "@%w1 st.shared.b32 [%at+-128], %me;\nbar.warp.sync -1;\nsetp.eq.u32 %q, %me, 32;\n"
        "@%q mbarrier.arrive.shared::cta.b64 _, [full];\n@!%first bra MET;\n"
        "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %q, [full], 0;\n@!%q bra AGAIN;\n"
        "MET: ORDER\n@%w0 ld.shared.b32 %y, [%at];"
    ),
    "for another warp's reads": (
        "@%w1 ld.shared.b32 %y, [%at+-128];\nbar.warp.sync -1;\nsetp.eq.u32 %q, %me, 32;\n"
        "@%q mbarrier.arrive.shared::cta.b64 _, [full];\n@!%first bra MET;\n"
        "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %q, [full], 0;\n@!%q bra AGAIN;\n"
        "MET: ORDER\n@%w0 st.shared.b32 [%at], 7;"
    ),
    "until a copy has read its source": (
        "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
        "@%first cp.async.bulk.global.shared::cta.bulk_group [%in], [box], 128;\n"
        "@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.wait_group.read 0;\n"
        "ORDER\n@%w0 st.shared.b32 [%at], 7;"
    ),
    "until a copy has read it, in all lanes": (
        "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
        "@%first cp.async.bulk.global.shared::cta.bulk_group [%in], [box], 128;\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n"
        "ORDER\n@%w0 st.shared.b32 [%at], 7;"
    ),
    "and another one copies": (
        "@%w1 ld.shared.b32 %y, [%at+-128];\nbar.warp.sync -1;\nsetp.eq.u32 %q, %me, 32;\n"
        "@%q mbarrier.arrive.shared::cta.b64 _, [empty];\n@!%first bra MET;\n"
        "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %q, [empty], 0;\n@!%q bra AGAIN;\n"
        "MET: ORDER\nsetp.eq.u32 %q, %me, 1;\n"
        "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;\n"
        "@%q cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [box], [%in], 128, [full];\n"
        "@!%q bra OVER;\n"
        "FULL: mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;\n@!%p bra FULL;\nOVER:"
    ),
}


@pytest.mark.parametrize("body", ONE_WAITS.values(), ids=ONE_WAITS)
@pytest.mark.parametrize("between", NO_ORDER.values(), ids=NO_ORDER)
@pytest.mark.parametrize("shape", [{}, {"grid": 5}], ids=["alone", "many"])
def test_lanes__that_another_lane_waits_for_are_warned_of(body, between, shape):
    """Where nothing keeps the other lanes, they may be early, and then nobody has waited."""
    try:
        for notes in lanes(body.replace("ORDER", between), block=64, **shape):
            assert any("Another lane of this warp has waited" in note.problem for note in notes)
    except (ReadBeforeWait, SharedMemoryRace, StageReusedEarly):
        assert not between


@pytest.mark.parametrize("body", ONE_WAITS.values(), ids=ONE_WAITS)
@pytest.mark.parametrize("between", MEET.values(), ids=MEET)
def test_lanes__that_meet_behind_the_wait_of_one_know_what_it_knows(body, between):
    assert not any(lanes(body.replace("ORDER", between), block=64))


def test_lanes__that_meet_in_part_are_ordered_among_themselves():
    body = ONE_WAITS["for a copy"].replace("@%w0 ld", "setp.lt.u32 %p, %me, COUNT;\n@%p ld")
    for count, warned in ((4, False), (5, True)):
        shuffle, few = NO_ORDER["a shuffle"], "setp.lt.u32 %p, %me, 4;"
        meeting = f"{shuffle}\n{few}\n@%p bar.warp.sync 15;\n{shuffle}"
        text = body.replace("ORDER", meeting).replace("COUNT", str(count))
        for notes in lanes(text):
            assert any("Another lane" in note.problem for note in notes) == warned


def test_lanes__that_wait_by_themselves_need_not_meet():
    """Each lane waits for itself, one after the other, and then reads what was copied."""
    one, rest = WAIT.format("ONE", "full", 0), WAIT.format("AGAIN", "full", 0)
    body = ONE_WAITS["for a copy"]
    start = body[: body.index("@!%first bra MET")]
    text = f"{start}@!%first bra REST;\n{one}bra MET;\nREST:\n{rest}MET: ld.shared.b32 %y, [%at];"
    assert not any(lanes(text))


# --- clusters -----------------------------------------------------------------------------------------------

FAR = "mapa.shared::cluster.u32 %z, %x, 1;\nsetp.eq.u32 %q, %rank, 0;\n@%q bra SEND;\n"
REMOTE = "@%w0 st.shared::cluster.b32 [%z], %me;"


@pytest.mark.parametrize("ordered", [True, False])
def test_cluster__stores_in_another_cta(ordered):
    barrier = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
    between = barrier if ordered else "bar.sync 0;\n"
    end = "" if ordered else barrier
    body = "mapa.shared::cluster.u32 %z, %x, 1;\nsetp.eq.u32 %q, %rank, 1;\n@%q bra READ;\n"
    body += f"{REMOTE}\n{between}{end}bra END;\nREAD:\n{between}{LOAD}\n{end}END:"
    if ordered:
        is_clean(body, grid=4, cluster=2)
    else:
        is_reported(body, SharedMemoryRace, {REMOTE, LOAD}, "of CTA 1", grid=4, cluster=2)


def test_cluster__remote_arrivals_order():
    body = f"""
    setp.eq.u32 %q, %rank, 1;
    @%q bra READ;
    mapa.shared::cluster.u32 %z, %x, 1;
    {REMOTE}
    mov.u32 %y, full;
    mapa.shared::cluster.u32 %y, %y, 1;
    @%first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%y];
    bra END;
READ:
    {WAIT.format("AGAIN", "full", 0)}
    {LOAD}
END:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
"""
    is_clean(body, grid=2, cluster=2)
    without = body.replace(WAIT.format("AGAIN", "full", 0), "")
    is_reported(without, SharedMemoryRace, {REMOTE, LOAD}, grid=2, cluster=2)


@pytest.mark.parametrize(
    ("between", "right"),
    [
        ("{}mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%y];", True),
        ("{}mbarrier.arrive.shared::cluster.b64 _, [%y];", False),  # .cta is the default
        ("{}mbarrier.arrive.release.cta.shared::cluster.b64 _, [%y];", False),
        ("bar.sync 0;\n{}mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%y];", True),
        ("fence.acq_rel.cluster;\n{}mbarrier.arrive.shared::cluster.b64 _, [%y];", True),
    ],
)
def test_cluster__an_arrival_shows_stores_to_ctas_in_its_scope_alone(between, right):
    """As NVIDIA/cutlass #3324 and #3643 tell: the leader of a pair sees the arrival before the stores."""
    body = f"""
    mov.u32 %y, full;
    mapa.shared::cluster.u32 %y, %y, 1;
    mapa.shared::cluster.u32 %z, %x, 1;
    setp.eq.u32 %q, %rank, 1;
    @%q bra READ;
    {REMOTE}
    {between.format("@%first ")}
    bra END;
READ:
    {WAIT.format("AGAIN", "full", 0)}
    {LOAD}
END:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%w1 ld.shared.b32 %y, [box+4];
"""
    for seed in range(4):
        notes = launch(kernel(body), grid=4, block=96, cluster=2, args=[np.zeros(1)], seed=seed).notes
        found = [note for note in notes if note.hazard.name == "scope too narrow"]
        assert len(found) == (not right), notes
        for note in found:
            assert note.text.strip() == LOAD
            assert "Write mbarrier.arrive.release.cluster" in note.problem


MEET_CTAS = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
FAR_USES = {
    "store": "@%w0 st.shared::cluster.b32 [%z], %me;",
    "load": "@%w0 ld.shared::cluster.b32 %y, [%z];",
    "arrival": "@%first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%y];",
}


@pytest.mark.parametrize("use", FAR_USES.values(), ids=FAR_USES)
@pytest.mark.parametrize("met", [True, False])
def test_cluster__a_cta_ends_after_the_uses_of_its_memory(use, met):
    """Under each seed, whether or not the CTA has ended before."""
    far = "mapa.shared::cluster.u32 %z, %x, 1;\nmov.u32 %y, full;\nmapa.shared::cluster.u32 %y, %y, 1;\n"
    body = f"{far}setp.eq.u32 %q, %rank, 1;\n@%q bra END;\n{use}\nEND:\n{MEET_CTAS if met else ''}"
    if met:
        is_clean(body, grid=2, cluster=2)
        return
    for kind, line, words in outcomes(body, grid=2, cluster=2):
        assert (kind, line) == (ExitedCTAError, use), words


def test_cluster__a_cta_may_end_when_it_has_waited_for_the_last_use():
    body = f"""
    mapa.shared::cluster.u32 %z, %x, 1;
    mov.u32 %y, full;
    mapa.shared::cluster.u32 %y, %y, 1;
    setp.eq.u32 %q, %rank, 1;
    @%q bra LAST;
    {FAR_USES["store"]}
    bar.warp.sync -1;
    {FAR_USES["arrival"]}
    bra END;
LAST:
    {WAIT.format("AGAIN", "full", 0)}
END:
"""
    is_clean(body, grid=2, cluster=2)


# --- bulk copies --------------------------------------------------------------------------------------------

EXPECT = "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;\n"
COPY = "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%in], 256, [full];"


def full(parity, label="FULL"):
    return WAIT.format(f"{label}{parity}", "full", parity)


def empty(parity, label="EMPTY"):
    return WAIT.format(f"{label}{parity}", "empty", parity)


RELEASE = "bar.warp.sync -1;\nsetp.eq.u32 %q, %me, 32;\n@%q mbarrier.arrive.shared::cta.b64 _, [empty];\n"


def stages(*, first_wait=True, second_wait=True, released=True, waited=True):
    """Warp 0 copies twice to one stage, warp 1 reads both."""
    return (
        "@%w2 bra END;\n@%w1 bra READ;\n"
        + EXPECT
        + COPY
        + "\n"
        + (empty(0) if waited else "")
        + EXPECT
        + COPY
        + "\nbra END;\nREAD:\n"
        + (full(0) if first_wait else "")
        + LOAD
        + "\n"
        + (RELEASE if released else "")
        + (full(1) if second_wait else "")
        + LOAD
        + "\n"
        + "END:"
    )


def test_copies__with_both_waits_are_right():
    is_clean(stages())


def test_copies__read_before_their_wait():
    """The second time the old bytes are there, and known."""
    is_reported(stages(second_wait=False), ReadBeforeWait, {LOAD}, "Wait for mbarrier full with parity 1")


def test_copies__wait_for_the_phase_before_is_none():
    body = stages().replace(full(1), full(0, "SECOND"))
    is_reported(body, ReadBeforeWait, {LOAD}, "parity 1")


def test_copies__issued_over_what_is_still_read():
    body = stages(waited=False)
    # Both reads and both copies are under way together: with the second phase not expected before the first
    # is over, the arrival itself can be one too many.
    for found in outcomes(body):
        assert found is not None
        assert found[0].__name__ in {"StageReusedEarly", "BarrierCountError"}, found[2]
        if found[0] is StageReusedEarly:
            assert re.search("Wait for mbarrier empty|Let the reader arrive", found[2]), found[2]


def test_copies__over_another_name_the_barrier_at_which_the_readers_arrive():
    """If there is none, the report says that there has to be one."""
    twice = EXPECT + COPY + "\n" + EXPECT.replace("full", "next") + COPY.replace("full", "next") + "\n"
    declared = "@%first mbarrier.init.shared::cta.b64 [next], 1;\n"
    for unused, words in (("", "Wait for mbarrier empty "), ("empty", "Let the readers arrive at another")):
        body = declared + (f"@%first mbarrier.inval.shared::cta.b64 [{unused}];\n" if unused else "") + twice
        text = kernel(body, declared=".shared .align 8 .b64 next;")
        with pytest.raises(StageReusedEarly, match=words) as caught:
            launch(text, grid=1, block=96, args=[np.arange(1024, dtype=np.uint8)])
        assert "have been read" in str(caught.value)
        assert "mbarrier full" not in str(caught.value)


SHORT = EXPECT.replace("256", "128")


def test_copies__of_more_bytes_than_are_announced():
    """The threads have waited for the phase, so the report is about the bytes."""
    load = "ld.shared.b32 %y, [box+252];"
    words = (
        "completed after 128 bytes, because the expect_tx at line [0-9]+ announces no more. So the 256 bytes"
        " that warp 0, lane 0 copies at line [0-9]+ may still be on their way when line [0-9]+ uses them"
    )
    is_reported(f"{SHORT}{COPY}\n{full(0)}{load}", TransactionBytesError, {SHORT.strip()}, words)
    is_clean(f"{EXPECT}{COPY}\n{full(0)}{load}")


def test_copies__over_what_a_thread_reads():
    early = f"{LOAD}\n{EXPECT}{COPY}\n{full(0)}"
    for found in outcomes(early):  # which of the two is meant to come first cannot be seen
        assert found is not None
        assert found[:2] in {(StageReusedEarly, COPY), (ReadBeforeWait, LOAD)}, found[2]
    is_clean(f"{LOAD}\nbar.sync 0;\n{EXPECT}{COPY}\n{full(0)}")


def test_copies__and_threads_that_write_there():
    is_reported(f"{EXPECT}{COPY}\n@%w1 st.shared.b32 [box+64], %me;\n{full(0)}", SharedMemoryRace,
                {COPY, "@%w1 st.shared.b32 [box+64], %me;"})  # fmt: skip
    is_clean(f"{EXPECT}{COPY}\n{full(0)}bar.sync 0;\n@%w1 st.shared.b32 [box+64], %me;")


def test_copies__a_barrier_behind_one_threads_wait_is_enough():
    waited = f"@!%w0 bra OVER;\n{full(0)}OVER:\nbar.sync 0;\n{LOAD}"
    is_clean(f"{EXPECT}{COPY}\n{waited}")
    is_reported(f"{EXPECT}{COPY}\nbar.sync 0;\n{LOAD}\n{full(0)}", ReadBeforeWait, {LOAD})


def test_copies__publish_themselves_and_not_what_their_issuer_did():
    """Their complete-tx "does not transitively establish ordering" of the issuing thread's instructions."""
    store, load = STORE.replace("[box]", "[box+512]"), LOAD.replace("[box]", "[box+512]")
    expect = "setp.eq.u32 %q, %me, {};\n" + EXPECT.replace("%first", "%q")
    is_reported(f"{store}\n{expect.format(64)}{COPY}\n{full(0)}{load}", SharedMemoryRace, {store, load})
    is_clean(f"{store}\n{expect.format(0)}{COPY}\n{full(0)}{load}")


@pytest.mark.parametrize("first", [STORE, LOAD.replace("w1", "w0")])
@pytest.mark.parametrize("last", [STORE.replace("w0", "w1"), LOAD])
def test_copies__come_between_what_they_overwrite_and_who_waits_for_them(first, last):
    """The last warp knows of the copy alone, and the copy comes after the first warp's access."""
    arrive = "setp.eq.u32 %q, %me, 32;\n" + EXPECT.replace("%first", "%q")
    is_clean(f"{first}\n{arrive}{COPY}\n{full(0)}{last}")


ACROSS = """
    mapa.shared::cluster.u32 %z, %x, 1;
    mov.u32 %y, full;
    mapa.shared::cluster.u32 %y, %y, 1;
    @%first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%z], [box+128], 256, [%y];
"""
SOURCE = "@%w1 st.shared.b32 [box+128], %me;"


def across(body):
    """CTA 0 runs a body, and CTA 1 waits for the bytes that CTA 0 copies to it."""
    cluster = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
    body = body.replace("{CLUSTER}", cluster)
    wait = f"{EXPECT}{full(0)}"
    return (
        f"fence.proxy.async.shared::cta;\n{cluster}setp.eq.u32 %q, %rank, 1;\n@%q bra READ;\n"
        f"{body}\n{cluster}bra END;\nREAD:\n{wait}{cluster * body.count(cluster)}{cluster}END:"
    )


def test_copies_between_ctas__read_their_source():
    copy = ACROSS.strip().split("\n")[-1].strip()
    quiet = {"grid": 2, "cluster": 2}
    for found in outcomes(across(f"{ACROSS}{SOURCE}"), **quiet):  # whichever of the two comes first
        assert found is not None
        assert found[0] in {OverwrittenSource, SharedMemoryRace}, found[2]
    is_reported(across(f"{ACROSS}bar.sync 0;\n{SOURCE}"), OverwrittenSource, {SOURCE, copy}, **quiet)
    is_clean(across(f"{ACROSS}{{CLUSTER}}{SOURCE}"), **quiet)


ADD = ACROSS.strip().split("\n")[-1].strip().replace("cp.", "cp.reduce.").replace("bytes", "bytes.add.u32")


def test_reductions__race_with_a_copy_and_not_with_each_other():
    spin = "mov.u32 %me, 0;\nSPIN: add.u32 %me, %me, 1;\nsetp.lt.u32 %p, %me, 500;\n@%p bra SPIN;\n"
    quiet = {"grid": 2, "cluster": 2}
    both = across(f"{ACROSS}{spin}{ADD}").replace("[full], 256", "[full], 512")
    for found in outcomes(both, **quiet):  # where the copy has not landed, the reduction finds no bytes
        assert found is not None
        assert found[0] in {StageReusedEarly, UninitializedRead}, found[2]
    prepared = ACROSS[: ACROSS.index("@%first")]
    twice = across(f"{prepared}{ADD}\n{ADD}").replace("[full], 256", "[full], 512")
    is_clean(twice, **quiet)


OUT = "@%first cp.async.bulk.global.shared::cta.bulk_group [%in], [box], 256;"
FENCED = "fence.proxy.async.shared::cta;\nbar.sync 0;\n"


@pytest.mark.parametrize("wait", ["wait_group.read 0", "wait_group 0"])
def test_copies_out__are_over_behind_the_wait_for_their_group(wait):
    again = "@%w1 st.shared.b32 [box+128], %me;"
    done = f"@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.{wait};\n"
    is_clean(f"{FENCED}{OUT}\n{done}bar.sync 0;\n{again}")
    # With no barrier behind the wait, or one before it, nobody else knows.
    is_reported(f"{FENCED}{OUT}\nbar.sync 0;\n{again}\n{done}", OverwrittenSource, {again}, "wait_group")
    is_reported(f"{FENCED}{OUT}\n{done}{again}", OverwrittenSource, {again, OUT})


def test_copies_out__of_bytes_that_another_warp_has_written():
    wrong = "@%w1 st.shared.b32 [box+64], %me;\nfence.proxy.async.shared::cta;\n"
    end = "@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.wait_group.read 0;"
    lines = {"@%w1 st.shared.b32 [box+64], %me;", OUT}
    for found in outcomes(f"{wrong}{OUT}\n{end}"):
        assert found is not None
        assert found[0].__name__ in {"SharedMemoryRace", "OverwrittenSource", "MissingProxyFence"}
        assert found[1] in lines
    is_clean(f"{wrong}bar.sync 0;\n{OUT}\n{end}")


# --- mbarriers that others have made ------------------------------------------------------------------------


def test_mbarrier__used_with_no_order_behind_its_init():
    """Whether or not the init has run before."""
    declared = ".shared .align 8 .b64 late;"
    arrive = "setp.eq.u32 %q, %me, 32;\n@%q mbarrier.arrive.shared::cta.b64 _, [late];"
    body = f"@%first mbarrier.init.shared::cta.b64 [late], 1;\n{{}}{arrive}"
    for seed in SEEDS:
        launch(kernel(body.format("bar.sync 0;\n"), declared=declared), grid=1, block=96,
               args=[np.zeros(1024, np.uint8)], seed=seed)  # fmt: skip
        with pytest.raises(NoBarrierError, match=r"mbarrier\.init"):
            launch(kernel(body.format(""), declared=declared), grid=1, block=96,
                   args=[np.zeros(1024, np.uint8)], seed=seed)  # fmt: skip


# --- tensor cores -------------------------------------------------------------------------------------------

OPERANDS = tcgen05.ZEROS + tcgen05.FENCE
MULTIPLY = tcgen05.multiply()
COMMIT = f"@%first {tcgen05.COMMIT}"
AGAIN = "shl.b32 %x, %me, 5;\nadd.u32 %x, %x, %y;\nst.shared.b32 [%x], %r0;\n"


def waited(parity=0):
    return WAIT.format(f"DONE{parity}", "bar", parity)


def test_mma__operands_may_be_written_again_behind_its_commit():
    right = OPERANDS + "bar.sync 0;\n" + tcgen05.DESCRIPTOR + MULTIPLY + COMMIT
    for seed in SEEDS:
        tcgen05.run_zeros(right + waited() + AGAIN, seed=seed)
        with pytest.raises(OverwrittenSource, match=r"the tcgen05\.mma that warp 0 issued"):
            tcgen05.run_zeros(right + AGAIN + waited(), seed=seed)
        # Known to warp 0 alone, and the barrier stands before its wait.
        alone = "setp.ne.u32 %p, %warp, 0;\n@%p bra OVER;\n" + waited() + "OVER:\n"
        with pytest.raises(OverwrittenSource, match=r"wait for the mbarrier of that commit"):
            tcgen05.run_zeros(right + "bar.sync 0;\n" + alone + AGAIN, seed=seed)
        tcgen05.run_zeros(right + alone + "bar.sync 0;\n" + AGAIN, seed=seed)


def test_mma__a_commit_is_for_the_operations_of_its_own_thread():
    other = f"setp.eq.u32 %q, %me, 1;\n@%q {tcgen05.COMMIT}"
    body = OPERANDS + "bar.sync 0;\n" + tcgen05.DESCRIPTOR + MULTIPLY + other + waited() + AGAIN
    for seed in SEEDS:
        with pytest.raises(OverwrittenSource, match=r"the tcgen05\.mma that warp 0 issued"):
            tcgen05.run_zeros(body, seed=seed)


@pytest.mark.parametrize("meeting", ["", "bar.sync 0;"], ids=["no barrier", "barrier"])
def test_mbarrier__its_init_comes_before_its_use_in_a_kernel_that_has_nothing_else(meeting):
    """No thread and no copy uses shared memory, so the mbarrier is all that a warp could find too early."""
    ptx = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{{
    .shared .align 8 .b64 full;
    .reg .b32 %me;
    .reg .pred %p, %first;
    mov.u32 %me, %tid.x;
    setp.eq.u32 %first, %me, 0;
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    {meeting}
    @%first mbarrier.arrive.shared::cta.b64 _, [full];
{WAIT.format("FULL", "full", 0)}
    ret;
}}
"""
    for seed in SEEDS:
        if meeting:
            assert not launch(ptx, grid=1, block=64, seed=seed).notes
        else:
            with pytest.raises(NoBarrierError, match=r"mbarrier\.init"):
                launch(ptx, grid=1, block=64, seed=seed)


def test_mma__operands_are_written_before_it_is_issued():
    """The first values stand there, and are fenced: only the order of the second ones is missing."""
    first = OPERANDS + "bar.sync 0;\n" + tcgen05.DESCRIPTOR
    second = AGAIN.replace("%r0;", "%me;") + tcgen05.FENCE
    for seed in SEEDS:
        tcgen05.run_zeros(first + second + "bar.sync 0;\n" + MULTIPLY + COMMIT + waited(), seed=seed)
        with pytest.raises((OverwrittenSource, SharedMemoryRace), match=r"tcgen05\.mma"):
            tcgen05.run_zeros(first + second + MULTIPLY + COMMIT + waited(), seed=seed)
