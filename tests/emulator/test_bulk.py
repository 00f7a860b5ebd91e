"""Bulk copies: when bytes land and are read, what is refused, and what the recorder is told."""

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import (
    AddressError,
    AlignmentError,
    BarrierError,
    ExitedCTAError,
    InvalidOperand,
    MulticastError,
    OverwrittenSource,
    ReadBeforeWait,
    StageReusedEarly,
    TransactionBytesError,
    UnfinishedCopy,
    UnfinishedLoad,
    UninitializedRead,
    UnsupportedInstruction,
)
from cutecourse.trace import Recorder
from tools.cases import ptx_cases

LOAD = "tensor/load_swizzle_128B"
STORE = "tensor/store_2d"
WAIT = """wait:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], 0;
    @!%done bra wait;
"""


def case_of(name):
    return ptx_cases.load(name)


def run(name, *changes, seed=0, recorder=None, **arguments):
    """Run a case with parts of its text replaced; its arrays before and after."""
    case = case_of(name)
    ptx = case.ptx
    for old, new in changes:
        assert old in ptx, f"{old!r} is not in {name}"
        ptx = ptx.replace(old, new)
    made = case.make_args()
    before = {key: value.copy() for key, value in made.items() if isinstance(value, np.ndarray)}
    for key, value in arguments.items():
        made[key] = value
    launched = {**case.launch_arguments(made), "seed": seed}
    launch(ptx, **launched, recorder=recorder)
    return before, {key: made[key] for key in before}


# --- time -------------------------------------------------------------------------------------------------


def test_bulk__a_read_before_the_wait_is_an_error_and_never_silently_wrong():
    for seed in range(12):
        # Who reads what was there before the copy was issued may as well have meant that.
        with pytest.raises((ReadBeforeWait, StageReusedEarly), match="mbarrier"):
            run(LOAD, (WAIT, "wait:\n"), seed=seed)


def test_bulk__pieces_land_in_an_order_that_the_seed_chooses():
    orders = set()
    for seed in range(6):
        recorder = Recorder()
        run(LOAD, seed=seed, recorder=recorder)
        lands = recorder.trace().of("tma.land")
        orders.add(tuple(event.data["offset"] for event in lands))
        assert len(lands) > 4
    assert len(orders) > 3


def test_bulk__a_store_that_is_written_over_before_it_has_read_is_named_or_right():
    # The store reads late: whether the write comes too early is the seed's choice, as it is the hardware's.
    text = "    st.shared.b16 [tile], 77;\n    cp.async.bulk.commit_group;\n"
    wanted = case_of(STORE).expected()["d"]
    caught = 0
    for seed in range(20):
        try:
            _, after = run(STORE, ("    cp.async.bulk.commit_group;\n", text), seed=seed)
        except OverwrittenSource:
            caught += 1
        else:
            np.testing.assert_array_equal(after["d"], wanted)
    assert caught > 10


def test_bulk__wait_group_read_waits_for_the_reading_only():
    # The source is read behind the wait, the write comes at a time that the seed chooses.
    look = """    cp.async.bulk.wait_group.read 0;
    ld.param.u64 %result, [d];
    cvta.to.global.u64 %result, %result;
    mov.u32 %at, 0;
spin:
    add.u32 %at, %at, 1;
    setp.lt.u32 %more, %at, 200;
    @%more bra spin;
    ld.global.b16 %mask, [%result+160];
    st.global.b16 [%result], %mask;
"""
    seen = set()
    for seed in range(24):
        before, after = run(STORE, ("    cp.async.bulk.wait_group 0;\n", look), seed=seed)
        assert after["d"][3, 8] == before["a"].view(np.uint16)[0]
        seen.add(int(after["d"][0, 0]))
    assert seen == {int(before["d"][3, 8]), int(before["a"].view(np.uint16)[0])}
    for seed in range(8):
        before, after = run(
            STORE, ("    cp.async.bulk.wait_group 0;\n", look.replace(".read", "")), seed=seed
        )
        assert after["d"][0, 0] == before["a"].view(np.uint16)[0]


@pytest.mark.parametrize(
    "change",
    [
        ("    cp.async.bulk.wait_group 0;\n", ""),
        ("    cp.async.bulk.commit_group;\n", ""),
        ("    cp.async.bulk.wait_group 0;\n", "    cp.async.bulk.wait_group.read 1;\n"),
    ],
)
@pytest.mark.parametrize("name", [STORE, "tensor/reduce_add", "bulk/shared_to_global"])
def test_bulk__a_block_that_ends_before_its_stores_have_read_is_an_error_with_every_seed(name, change):
    for seed in range(4):
        with pytest.raises(UnfinishedCopy, match=r"wait_group\.read 0") as caught:
            run(name, change, seed=seed)
        assert "bulk_group" in caught.value.text


GONE = r"destination lies in CTA 0 of the cluster, which has ended"
NOT_AWAITED = (
    r"ended, but no thread had waited for phase 0 of mbarrier bar \(block \(0, 0, 0\).* this copy brings"
)


@pytest.mark.parametrize(
    ("seed", "kind", "words"),
    [
        (0, UnfinishedCopy, "ended before this copy had read its shared memory"),
        (1, UnfinishedLoad, NOT_AWAITED),
        (2, UnfinishedLoad, NOT_AWAITED),
        (8, ExitedCTAError, GONE),
    ],
)
def test_bulk__a_block_that_ends_before_anothers_bytes_have_come_is_an_error(seed, kind, words):
    # CTA 0 ends as soon as it has asked; CTA 1 has asked by then, or has not yet.
    leave = ("wait:\n", "    setp.eq.u32 %done, %rank, 0;\n    @%done ret;\nwait:\n")
    with pytest.raises(kind, match=words) as caught:
        run("bulk/shared_to_cluster", leave, ("    @!%first bra wait;\n", "    @!%first ret;\n"), seed=seed)
    assert "cp.async.bulk.shared::" in caught.value.text


def test_bulk__a_wait_for_the_reading_is_enough_at_the_end():
    wanted = case_of(STORE).expected()["d"]
    for seed in range(4):
        _, after = run(STORE, ("bulk.wait_group 0", "bulk.wait_group.read 0"), seed=seed)
        np.testing.assert_array_equal(after["d"], wanted)


def test_bulk__bytes_that_nobody_brings_are_a_deadlock_that_names_them():
    with pytest.raises(TransactionBytesError, match=r"16 bytes are missing"):
        run("tensor/load_2d", ("%state, [%bar], 640;", "%state, [%bar], 656;"))


def test_bulk__each_active_lane_copies():
    # All 32 lanes of the warp add the same box.
    before, after = run("tensor/reduce_add", ("setp.eq.u32 %first, %me, 0;", "setp.lt.u32 %first, %me, 32;"))
    once = case_of("tensor/reduce_add").expected()["d0"] - before["d0"]
    np.testing.assert_array_equal(after["d0"], before["d0"] + 32 * once)


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change", "kind", "words"),
    [
        ("tensor/load_2d", ("[tile+0]", "[tile+64]"), AlignmentError, r"destination.*0x40 \(tile\).*of 128"),
        ("tensor/load_2d", ("{8, 3}", "{9, 3}"), AlignmentError, r"element 9 .*18 bytes.*multiple of 16"),
        ("tensor/load_2d", ("[tile+512]", "[tile+1024]"), AddressError, r"bytes past the end"),
        ("tensor/load_2d", ("[%map, ", "[%map+64, "), InvalidOperand, r"no tensor map at .*in kernel para"),
        ("tensor/load_2d", ("[%map, ", "[%map+32, "), AlignmentError, r"tensor map is at .*multiple of 64"),
        ("tensor/load_2d", ("[%map, ", "[4096, "), InvalidOperand, r"map at 0x1000 \(in no \.param"),
        (STORE, ("{8, 3}", "{8, -1}"), InvalidOperand, r"starts at \(8, -1\): only a load may start below 0"),
        ("tensor/load_2d", ("], [%bar];", "], [%bar+4];"), AlignmentError, r"mbarrier is at .*multiple of 8"),
        ("tensor/load_2d", ("    @%first mbarrier.init.shared::cta.b64 [%bar], 1;\n", ""), BarrierError,
         "mbarrier"),
        ("tensor/load_3d", ("tensor.3d", "tensor.2d"), InvalidOperand, r"takes 2 coordinates .*not 3"),
        (STORE, ("[tile+0]", "[tile+16]"), AlignmentError, r"source is at .*multiple of 128"),
        (STORE, ("{8, 3}", "{1, 3}"), AlignmentError, r"element 1 "),
        ("bulk/global_to_shared", ("], 1024, [", "], 1000, ["), InvalidOperand, r"size is 1000 bytes"),
        ("bulk/global_to_shared", ("[tile+16]", "[tile+8]"), AlignmentError, r"destination.*multiple of 16"),
        ("bulk/global_to_shared", ("[%source+32]", "[%source+40]"), AlignmentError,
         r"source.*multiple of 16"),
        ("bulk/global_to_shared", ("[%source+32]", "[%source+1040]"), AddressError, r"16 bytes past the end"),
        ("bulk/shared_to_global", ("[%result+16]", "[%result+80]"), AddressError,
         r"destination.*past the end"),
        ("tensor/multicast_2", ("mov.b16 %mask, 3", "mov.b16 %mask, 5"), MulticastError,
         r"names CTA 2 of a cluster of 2"),
        ("tensor/multicast_2", ("mov.b16 %mask, 3", "mov.b16 %mask, 0"), InvalidOperand, r"mask is 0"),
        ("tensor/load_into_another_cta", ("[%away]", "[%bar]"), InvalidOperand, r"mbarrier lies in CTA"),
        ("tensor/reduce_add", (".add.tile", ".inc.tile"), InvalidOperand,
         r"\.inc has no elements of type s32"),
        ("tensor/load_gather4", ("{64, 5, -1, 10, 11}", "{64, 5, -1, 10}"), InvalidOperand,
         r"takes 5 coordinates .*not 4"),
        ("tensor/load_gather4", ("[tile+128]", "[tile+64]"), AlignmentError, r"destination.*of 128"),
        ("tensor/load_gather4", ("[tile+1280]", "[tile+1980]"), AlignmentError, r"destination"),
        ("tensor/load_gather4", ("[tile+128], ", "[tile+1920], "), AddressError, "bytes past the end"),
        ("tensor/load_gather4", ("{64, 5,", "{60, 5,"), AlignmentError, r"element 60 .*multiple of 16"),
        ("tensor/load_gather4", ("global.tile::gather4.mbar", "global.tile.mbar"), InvalidOperand,
         r"takes 2 coordinates .*not 5"),
        ("tensor/load_3d", (".tile.", ".tile::gather4."), InvalidOperand, "is for a tensor of 2 dimensions"),
        ("tensor/store_scatter4", ("{64, 5, 0,", "{64, 5, -1,"), InvalidOperand,
         r"starts at \(64, -1\): only a load may start below 0"),
    ],
)  # fmt: skip
def test_bulk__refuses_what_the_instruction_cannot_do(name, change, kind, words):
    with pytest.raises(kind, match=words) as caught:
        run(name, change)
    assert caught.value.line is not None


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("tensor/load_4d", (".tile.", ".im2col."), r"\.im2col is not supported: "),
        ("tensor/store_2d", (".bulk_group [", ".mbarrier::complete_tx::bytes ["), r"needs \.bulk_group"),
        ("bulk/reduce_global_add_u32", (".add.u32", ".add.s64"), r"\.add in \.global has no type \.s64"),
        ("bulk/reduce_global_add_f16", (".add.noftz.f16", ".add.f16"), r"needs \.noftz"),
        ("bulk/shared_to_global", (".L2::cache_hint", ".L2::cache_hint.cp_mask"), r"no model of \.cp_mask"),
    ],
)  # fmt: skip
def test_bulk__names_the_forms_that_it_does_not_have(name, change, words):
    with pytest.raises(UnsupportedInstruction, match=words):
        run(name, change)


def test_bulk__a_map_for_four_rows_must_have_a_box_of_one_row():
    made = case_of("tensor/load_gather4").make_args()
    made["m1"].box[1] = 2
    with pytest.raises(InvalidOperand, match=r"map's box has 2 rows .* must have one"):
        run("tensor/load_gather4", a=made["a"], m0=made["m0"], m1=made["m1"])


@pytest.mark.parametrize("seed", range(4))
def test_bulk__rows_that_are_read_before_the_wait_are_an_error(seed):
    with pytest.raises((ReadBeforeWait, StageReusedEarly), match="mbarrier"):
        run("tensor/load_gather4", (WAIT, "wait:\n"), seed=seed)


def test_bulk__a_map_of_another_rank_is_refused():
    case = case_of("tensor/load_3d")
    made = case.make_args()
    other = case_of("tensor/load_2d").make_args()
    with pytest.raises(InvalidOperand, match=r"tensor map has 2 dimensions .* instruction is for 3"):
        run("tensor/load_3d", m=other["m"])
    assert made["m"].box != other["m"].box


def test_bulk__a_map_that_reaches_past_its_array_is_seen_when_a_box_does():
    made = case_of("tensor/load_2d").make_args()
    longer = made["m"]
    longer.dims[1] = 1000
    longer.array = longer.array[:4]
    run("tensor/load_2d", ("{8, 3}", "{8, 0}"), ("{104, 50}", "{0, 0}"), a=longer.array, m=longer)
    with pytest.raises(
        AddressError, match=r"box at \(8, 3\).* reaches 136 bytes past the end of array argument"
    ):
        run("tensor/load_2d", ("{104, 50}", "{0, 0}"), a=longer.array, m=longer)


# Shared memory below this offset is not filled.
SKIP = "setp.ge.u32 %done, %at, {};\n    @%done st.shared.b32 [%to], %v;"


@pytest.mark.parametrize(("name", "offset"), [(STORE, "0x0"), ("bulk/shared_to_global", "0x20")])
def test_bulk__a_store_from_memory_that_nobody_wrote_is_an_error(name, offset):
    words = rf"copy's source has a byte at shared offset {offset} \(in tile\) that was never written"
    with pytest.raises(UninitializedRead, match=words):
        run(name, ("st.shared.b32 [%to], %v;", SKIP.format(64)))


def test_bulk__a_store_needs_no_bytes_for_what_lies_outside():
    # The box's 32 bytes go to elements 8 to 23 of 20; the chunk in which the tensor ends is written whole.
    made = case_of("tensor/store_1d").make_args()["m"]
    made.dims[0] = 16
    less = SKIP.replace("ge", "lt")
    for seed in range(3):
        _, after = run(
            "tensor/store_1d", ("st.shared.b32 [%to], %v;", less.format(16)), seed=seed, d=made.array, m=made
        )
    np.testing.assert_array_equal(after["d"][16:], case_of("tensor/store_1d").make_args()["d"][16:])
    with pytest.raises(UninitializedRead):
        run("tensor/store_1d", ("st.shared.b32 [%to], %v;", less.format(16)))


def test_bulk__a_store_whose_last_chunk_lies_behind_the_array_is_an_error():
    made = case_of("tensor/store_1d").make_args()["m"]
    made.array = made.array[:20].copy()
    with pytest.raises(
        AddressError, match=r"reaches 8 bytes past the end .* last 16-byte chunk crosses its end"
    ):
        run("tensor/store_1d", d=made.array, m=made)


def test_bulk__bytes_cannot_land_in_a_cta_that_has_ended():
    ends = (
        "    mov.u32 %rank, %cluster_ctarank;\n",
        "    mov.u32 %rank, %cluster_ctarank;\n    setp.eq.u32 %done, %rank, 1;\n    @%done ret;\n",
    )
    for seed in range(3):
        with pytest.raises(AddressError, match=r"CTA 1 of the cluster, which has ended"):
            run("tensor/multicast_2", ends, seed=seed)


# --- events -----------------------------------------------------------------------------------------------


def test_bulk__a_load_tells_of_its_request_and_of_every_piece():
    recorder = Recorder()
    run("tensor/multicast_4", recorder=recorder)
    trace = recorder.trace()
    issues = trace.of("tma.issue")
    assert len(issues) == 4
    for issue in issues:
        data = issue.data
        assert (data["operation"], data["tensor"], data["box"], data["mask"]) == ("load", "m", [64, 8], 15)
        assert data["coords"] == [0, 8 * issue.rank]
        assert data["destinations"] == [{"rank": r, "offset": 1024 * issue.rank} for r in range(4)]
        assert data["barrier"]["name"] == "bar"
        for rank in range(4):
            lands = [e for e in trace.where(rank=rank).of("tma.land") if e.data["transfer"] == issue.index]
            assert sum(e.data["bytes"] for e in lands) == 1024
            pieces = sorted((e.data["offset"], e.data["bytes"]) for e in lands)
            assert pieces == [(1024 * issue.rank + 256 * i, 256) for i in range(4)]
            counted = [
                e
                for e in trace.where(rank=rank).of("mbarrier.complete_tx")
                if e.data["transfer"] == issue.index
            ]
            assert sum(e.data["bytes"] for e in counted) == 1024
            assert {e.line for e in lands} == {issue.line}


def test_bulk__a_store_tells_of_its_request_its_reading_and_its_groups():
    recorder = Recorder()
    run(STORE, recorder=recorder)
    trace = recorder.trace()
    (issue,) = trace.of("tma.issue")
    assert (issue.data["operation"], issue.data["coords"], issue.data["bytes"]) == ("store", [8, 3], 128)
    assert issue.data["source"] == {"rank": 0, "offset": 0}
    (read,) = trace.of("tma.read")
    assert read.data["transfer"] == issue.index < read.index
    (commit,) = trace.of("bulk.commit")
    assert commit.data["group"] == 0
    (wait,) = trace.of("bulk.wait")
    assert (wait.data["left"], wait.data["read"]) == (0, False)
    assert wait.data["outcome"] == "blocked"
    assert [event.kind for event in trace.of("bulk")] == ["bulk.commit", "bulk.wait", "bulk.resume"]


def test_bulk__nothing_is_told_where_nobody_listens():
    _, silent = run("tensor/multicast_4", seed=3)
    _, told = run("tensor/multicast_4", seed=3, recorder=Recorder())
    np.testing.assert_array_equal(silent["d"], told["d"])
