"""tcgen05.alloc, dealloc and relinquish_alloc_permit: addresses, waiting, and each rule broken."""

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import (
    AddressError,
    AlignmentError,
    DeadlockError,
    DivergedWarp,
    InvalidOperand,
    NonUniformOperand,
    TensorMemoryAllocationError,
    TensorMemoryLeak,
    UninitializedRead,
)
from cutecourse.trace import Recorder

SYNC = "barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;\n"


def kernel(body, group=1):
    """A kernel whose body finds %me, %warp, %rank, shared slot[8] and %to; <G> becomes the group."""
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .shared .align 16 .b32 slot[8];
    .reg .b32 %me, %warp, %rank, %cta, %x, %y, %a<4>;
    .reg .b64 %to;
    .reg .pred %p, %q;
    ld.param.u64 %to, [out];
    mov.u32 %me, %tid.x;
    shr.u32 %warp, %me, 5;
    mov.u32 %cta, %ctaid.x;
    mov.u32 %rank, %cluster_ctarank;
    mad.wide.u32 %to, %cta, 16, %to;
    setp.eq.u32 %p, %warp, 0;
    {body}
    ret;
}}
""".replace("<G>", f"::{group}")


def alloc(columns, slot=0):
    return f"tcgen05.alloc.cta_group<G>.sync.aligned.shared::cta.b32 [slot+{4 * slot}], {columns};\n"


def dealloc(columns, slot=0):
    return (
        f"ld.shared.b32 %a{slot}, [slot+{4 * slot}];\n"
        f"tcgen05.dealloc.cta_group<G>.sync.aligned.b32 %a{slot}, {columns};\n"
    )


RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group<G>.sync.aligned;\n"


def keep(slot):
    return f"ld.shared.b32 %x, [slot+{4 * slot}];\nst.global.b32 [%to+{4 * slot}], %x;\n"


def run(body, *, group=1, grid=1, block=32, cluster=1, **options):
    out = np.full((grid, 4), 0xCBCBCBCB, dtype=np.uint32)
    launch(kernel(body, group), grid=grid, block=block, cluster=cluster, args=[out], **options)
    return out


@pytest.mark.parametrize("columns", [32, 64, 128, 256, 512])
def test_alloc__writes_an_address_of_lane_0(columns):
    assert run(alloc(columns) + keep(0) + dealloc(columns))[0, 0] == 0


def test_alloc__gives_columns_that_do_not_meet():
    body = alloc(256) + alloc(128, 1) + alloc(128, 2)
    body += keep(0) + keep(1) + keep(2) + dealloc(128, 1) + alloc(64, 3) + keep(3)
    body += dealloc(64, 3) + dealloc(256) + dealloc(128, 2)
    starts = run(body)[0].tolist()
    sizes = [256, 128, 128]
    taken = [set(range(s, s + n)) for s, n in zip(starts, sizes, strict=False)]
    assert not (taken[0] & taken[1])
    assert not (taken[0] & taken[2])
    assert not (taken[1] & taken[2])
    assert set(range(starts[3], starts[3] + 64)) <= taken[1], "freed columns are given again"


@pytest.mark.parametrize("columns", [0, 16, 48, 96, 1024])
def test_alloc__refuses_other_numbers_of_columns(columns):
    with pytest.raises(TensorMemoryAllocationError, match=f"{columns} columns: .* power of two"):
        run(alloc(columns))


def test_alloc__refuses_more_than_before():
    with pytest.raises(TensorMemoryAllocationError, match="64 columns after an allocation of 32"):
        run(alloc(32) + alloc(64, 1))


def test_alloc__refuses_what_lanes_disagree_on():
    with pytest.raises(NonUniformOperand, match="number of columns is 32 in lane 0 but 64 in lane 1"):
        run("shl.b32 %x, 32, %me;\n" + alloc("%x"))


def test_alloc__needs_the_whole_warp():
    with pytest.raises(DivergedWarp, match="all lanes of the warp together"):
        run("setp.lt.u32 %q, %me, 16;\n@%q " + alloc(32) + RELINQUISH)


def test_alloc__checks_where_it_writes():
    with pytest.raises(AlignmentError, match="not a multiple of 4"):
        run("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot+2], 32;\n")
    with pytest.raises(AddressError, match="past the end"):
        run("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot+32], 32;\n")


def test_alloc__takes_a_generic_address():
    body = ".reg .b64 %g;\ncvta.shared.u64 %g, slot;\n"
    body += "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%g], 32;\n"
    assert run(body + keep(0) + dealloc(32))[0, 0] == 0


def test_alloc__waits_for_columns_that_nobody_frees():
    with pytest.raises(
        DeadlockError, match="waits for 128 neighbouring columns of tensor memory; 0 are free"
    ):
        run(alloc(512) + alloc(128, 1))


def notes_of(body, block=64):
    out = np.zeros((1, 4), np.uint32)
    result = launch(kernel(body), grid=1, block=block, args=[out])
    assert all(note.hazard.severity == "note" for note in result.notes)
    return [(note.hazard.name, note.text.split(".")[1]) for note in result.notes]


def test_dealloc__of_another_warp_is_a_note():
    """The document has one warp do both, and CUTLASS has two."""
    one = alloc(32) + "bar.sync 0;\nbra B;\nA: bar.sync 0;\n"
    assert notes_of("@!%p bra A;\n" + one + dealloc(32) + RELINQUISH + "B:\n") == [
        ("another warp allocates or frees", "dealloc"),
        ("another warp allocates or frees", "relinquish_alloc_permit"),
    ]
    assert notes_of("@!%p bra B;\n" + alloc(32) + dealloc(32) + RELINQUISH + "B:\n") == []


def test_alloc__of_another_warp_is_a_note():
    """The document has one warp allocate, which can mean one at a time."""
    one = alloc(32) + "bar.sync 0;\nbra B;\nA: bar.sync 0;\n" + alloc(32, 1) + dealloc(32, 1) + "bra C;\nB:\n"
    assert notes_of("@!%p bra A;\n" + one + dealloc(32) + "C:\n") == [
        ("another warp allocates or frees", "alloc")
    ]


@pytest.mark.parametrize("seed", range(4))
def test_alloc__two_warps_take_all_columns_in_turns(seed):
    """Whichever warp comes second waits until the first has freed them: PTX ISA, "tcgen05.alloc blocks"."""
    turn = ".reg .b32 %at, %w;\nmov.b32 %at, slot;\nmad.lo.u32 %at, %warp, 4, %at;\n" + 3 * (
        "tcgen05.alloc.cta_group<G>.sync.aligned.shared::cta.b32 [%at], 512;\nld.shared.b32 %x, [%at];\n"
        "shl.b32 %w, %warp, 21;\nadd.u32 %w, %x, %w;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%w], {%me};\n"
        "tcgen05.wait::st.sync.aligned;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%y}, [%w];\n"
        "tcgen05.wait::ld.sync.aligned;\ntcgen05.dealloc.cta_group<G>.sync.aligned.b32 %x, 512;\n"
    )
    stored = "mad.wide.u32 %to, %me, 4, %to;\nst.global.b32 [%to], %y;\n"
    out = np.zeros(64, np.uint32)
    launch(kernel(turn + stored), grid=1, block=64, args=[out], seed=seed)
    assert out.tolist() == [*range(64)]


@pytest.mark.parametrize("seed", range(3))
def test_alloc__waits_until_enough_columns_are_free(seed):
    """Warp 0 asks for all columns twice; its second request is granted when warp 1 has freed the first."""
    first = alloc(512) + "bar.sync 0;\n" + alloc(512, 1) + keep(1) + dealloc(512, 1) + "bra B;\n"
    spin = "mov.b32 %y, 0;\nLOOP:\nadd.u32 %y, %y, 1;\nsetp.lt.u32 %q, %y, 3000;\n@%q bra LOOP;\n"
    recorder = Recorder()
    body = "@!%p bra A;\n" + first + "A: bar.sync 0;\n" + spin + dealloc(512) + "B:\n"
    run(body, block=64, seed=seed, recorder=recorder)
    told = [(e.kind, e["outcome"]) for e in recorder.trace() if e.kind in {"tmem.alloc", "tmem.dealloc"}]
    assert told[:2] == [("tmem.alloc", "passed"), ("tmem.alloc", "blocked")]
    assert sorted(told[2:]) == [
        ("tmem.alloc", "passed"),
        ("tmem.dealloc", "passed"),
        ("tmem.dealloc", "passed"),
    ]


def test_relinquish__of_any_warp_is_of_the_cta():
    body = "@%p bra A;\n" + RELINQUISH + "bar.sync 0;\nbra B;\nA:\nbar.sync 0;\n" + alloc(32) + "B:\n"
    with pytest.raises(TensorMemoryAllocationError, match=r"gave up its right to allocate at line \d+"):
        run(body, block=64)


def test_alloc__after_relinquish_is_refused():
    with pytest.raises(TensorMemoryAllocationError, match=r"gave up its right to allocate at line \d+"):
        run(alloc(32) + RELINQUISH + alloc(32, 1))


def test_relinquish__leaves_what_is_allocated():
    run(alloc(32) + RELINQUISH + dealloc(32))


@pytest.mark.parametrize(
    "body",
    [
        alloc(64) + dealloc(32),
        alloc(32) + dealloc(32) + dealloc(32),
        alloc(32) + "mov.b32 %x, 32;\ntcgen05.dealloc.cta_group<G>.sync.aligned.b32 %x, 32;\n",
        alloc(32) + "mov.b32 %x, 0x100000;\ntcgen05.dealloc.cta_group<G>.sync.aligned.b32 %x, 32;\n",
    ],
    ids=["fewer", "twice", "elsewhere", "lane"],
)
def test_dealloc__of_what_was_not_allocated_is_refused(body):
    with pytest.raises(TensorMemoryAllocationError, match="not an allocation of the CTA"):
        run(body)


@pytest.mark.parametrize("grid", [1, 5])
def test_leak__is_reported_at_the_allocation(grid):
    with pytest.raises(
        TensorMemoryLeak, match=r"32 columns .* from column 0 on\. Add the missing tcgen05\.dealloc"
    ) as seen:
        run(alloc(32), grid=grid)
    assert "tcgen05.alloc" in str(seen.value)


def test_address__is_not_there_before_the_allocation():
    with pytest.raises(UninitializedRead):
        run(
            "@%p bra A;\n" + keep(0) + "bra B;\nA:\n bar.sync 1, 32;\n" + alloc(32) + dealloc(32) + "B:\n",
            block=64,
        )


def test_group__is_the_same_in_the_whole_kernel():
    with pytest.raises(InvalidOperand, match=r"\.cta_group::1 here and \.cta_group::2 at line \d+"):
        run(alloc(32) + "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n", group=2, cluster=1)


# --- pairs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_pair__gets_the_same_columns(seed):
    body = alloc(64) + alloc(32, 1) + keep(0) + keep(1) + SYNC + dealloc(64) + dealloc(32, 1)
    out = run(body, group=2, grid=8, cluster=4, seed=seed)
    assert (out[:, :2] == out[0, :2]).all()
    assert out[0, 0] != out[0, 1]


def test_pair__needs_a_peer():
    with pytest.raises(AddressError, match="the cluster has 1"):
        run(alloc(32), group=2)


def test_pair__waits_for_the_peer():
    with pytest.raises(DeadlockError, match=r"tcgen05\.alloc.* waits for a warp of the peer, CTA 1"):
        run("setp.eq.u32 %q, %rank, 1;\n@%q bra A;\n" + alloc(32) + "A:\n" + SYNC, group=2, grid=2, cluster=2)


def test_pair__has_to_agree():
    with pytest.raises(TensorMemoryAllocationError, match="the two warps of a pair must ask for the same"):
        run("shl.b32 %x, 32, %rank;\n" + alloc("%x"), group=2, grid=2, cluster=2)


def test_pair__that_frees_in_another_order_than_it_meets_can_hang():
    """The document's example of a program that may hang: one CTA frees before the cluster's barrier."""
    body = (
        alloc(32)
        + "setp.eq.u32 %q, %rank, 1;\n@%q bra A;\n"
        + SYNC
        + dealloc(32)
        + "ret;\nA:\n"
        + dealloc(32)
        + SYNC
    )
    with pytest.raises(DeadlockError, match=r"tcgen05\.dealloc.* waits for a warp of the peer"):
        run(body, group=2, grid=2, cluster=2)


# --- events -------------------------------------------------------------------------------------------


def test_events__tell_of_columns_and_waiting():
    recorder = Recorder()
    run(alloc(64) + RELINQUISH + dealloc(64), group=2, grid=2, cluster=2, recorder=recorder)
    trace = recorder.trace()
    passed = [e for e in trace.of("tmem.alloc") if e["outcome"] == "passed"]
    assert sorted((e.rank, e["columns"], e["address"], e["group"]) for e in passed) == [
        (0, 64, 0, 2),
        (1, 64, 0, 2),
    ]
    assert next(e["outcome"] for e in trace.of("tmem.alloc")) == "blocked"
    assert len(trace.of("tmem.relinquish")) == 2
    assert sum(e["outcome"] == "passed" for e in trace.of("tmem.dealloc")) == 2
    assert "64 columns at 0x0 of both CTAs" in str(passed[0])
