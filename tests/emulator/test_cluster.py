"""Clusters: their barrier and who never comes, remote memory, asynchronous stores, and events."""

import re

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import (
    AddressError,
    BarrierError,
    DeadlockError,
    DivergedWarp,
    LaunchError,
    NoBarrierError,
    ReadBeforeWait,
    SharedMemoryRace,
    TransactionBytesError,
    UninitializedRead,
)
from cutecourse.trace import Recorder

HEAD = ".version 8.1\n.target sm_90\n.address_size 64\n"
SYNC = "barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;\n"


def kernel(body):
    """A kernel whose body finds %me, %rank, the barrier `full`, `box` of 64 words and %to for its result."""
    return (
        HEAD
        + f"""
.visible .entry k(.param .u64 out)
{{
    .shared .align 8 .b64 full;
    .shared .align 16 .b32 box[64];
    .reg .b32 %me, %cta, %rank, %x, %y, %z, %there, %bar;
    .reg .b64 %to, %wide;
    .reg .pred %first, %p, %q;
    ld.param.u64 %to, [out];
    mov.u32 %me, %tid.x;
    mov.u32 %cta, %ctaid.x;
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %x, %ntid.x;
    mad.lo.u32 %x, %cta, %x, %me;
    mad.wide.u32 %to, %x, 4, %to;
    setp.eq.u32 %first, %me, 0;
    mov.u32 %x, box;
    mad.lo.u32 %x, %me, 4, %x;
    mov.u32 %bar, full;
    {body}
    ret;
}}
"""
    )


def run(body, *, grid=2, block=32, cluster=2, **options):
    out = np.zeros(grid * block, dtype=np.uint32)
    launch(kernel(body), grid=grid, block=block, cluster=cluster, args=[out], **options)
    return out


NEIGHBOUR = f"""
    mad.lo.u32 %y, %cta, 100, %me;
    st.shared.u32 [%x], %y;
    {SYNC}
    xor.b32 %z, %rank, 1;
    mapa.shared::cluster.u32 %there, %x, %z;
    ld.shared::cluster.u32 %y, [%there];
    st.global.u32 [%to], %y;
"""


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("grid", [2, 8, 150])
def test_cluster__bundles_of_many_clusters_keep_apart(grid, seed):
    out = run(NEIGHBOUR + SYNC, grid=grid, block=64, seed=seed).reshape(grid, 64)
    wanted = 100 * (np.arange(grid) ^ 1)[:, None] + np.arange(64)
    np.testing.assert_array_equal(out, wanted)


def test_cluster__without_the_barrier_remote_memory_is_not_written():
    seen = set()
    for seed in range(10):
        try:
            run(NEIGHBOUR.replace(SYNC, "") + SYNC, seed=seed)
            seen.add("in time")
        except UninitializedRead:
            seen.add("too early")
    assert "too early" in seen


def test_cluster__a_block_that_ends_takes_its_memory_along():
    """Without a barrier before the end, an order of the blocks reads from one that has ended."""
    seen = set()
    for seed in range(30):
        try:
            run(NEIGHBOUR, seed=seed)
            seen.add("in time")
        except AddressError as error:
            seen.add(error.problem.partition("shared memory: ")[2].partition(":")[0])
    assert seen >= {"block 0 of the cluster has ended", "block 1 of the cluster has ended"}


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (
            "mapa.shared::cluster.u32 %y, %x, 2;\n ld.shared::cluster.u32 %z, [%y];",
            AddressError,
            "names block 2 of a cluster of 2",
        ),
        (
            "mapa.shared::cluster.u32 %y, %bar, 256;\n mbarrier.arrive.shared::cluster.b64 _, [%y];",
            AddressError,
            "names CTA 255 of a cluster of 2",
        ),
        ("mapa.u64 %wide, %to, 0;", AddressError, "outside shared memory"),
        ("getctarank.u64 %y, %to;", AddressError, "outside shared memory"),
        (
            "mapa.shared::cluster.u32 %y, %x, 1;\n ld.shared.u32 %z, [%y];",
            AddressError,
            "lies in block 1 of the cluster: use .shared::cluster",
        ),
        (
            "mapa.shared::cluster.u32 %y, %bar, 1;\n mbarrier.arrive.shared::cta.b64 _, [%y];",
            AddressError,
            "it lies in CTA 1",
        ),
        (
            "mapa.shared::cluster.u32 %y, %bar, 1;\n mbarrier.arrive.shared::cluster.b64 _, [%y];",
            NoBarrierError,
            r"of block \(1, 0, 0\) holds no mbarrier",
        ),
        (
            "mapa.shared::cluster.u32 %y, %bar, 1;\n mbarrier.arrive.shared::cta.b64 _, [%y];",
            AddressError,
            r"an arrival there must have the state space \.shared::cluster",
        ),
        ("barrier.cluster.wait;", BarrierError, "has not arrived there"),
        (
            "barrier.cluster.arrive;\n barrier.cluster.arrive;",
            BarrierError,
            r"already arrived at the cluster's barrier",
        ),
    ],
)
def test_cluster__a_broken_rule_has_its_error(body, error, words):
    with pytest.raises(error, match=words) as caught:
        run("setp.ne.u32 %q, %rank, 0;\n @%q bra other;\n" + body + "\n ret;\nother:\n bar.sync 3, 64;")
    assert caught.value.block == (0, 0, 0)


def test_cluster__a_state_of_a_remote_arrival_is_refused():
    body = """
    mov.u64 %wide, full;
    cvta.shared.u64 %wide, %wide;
    xor.b32 %z, %rank, 1;
    mapa.u64 %wide, %wide, %z;
    mbarrier.arrive.b64 %wide, [%wide];
"""
    with pytest.raises(AddressError, match="must have the destination _"):
        run(body)


def test_launch__a_cluster_larger_than_the_kernel_allows_is_refused():
    text = kernel("").replace("entry k(.param .u64 out)", "entry k(.param .u64 out) .maxclusterrank 2")
    out = np.zeros(128, dtype=np.uint32)
    launch(text, grid=4, block=32, cluster=2, args=[out])
    with pytest.raises(
        LaunchError, match=r"a cluster of 4 blocks is larger than the kernel's \.maxclusterrank 2"
    ):
        launch(text, grid=4, block=32, cluster=4, args=[out])


# --- the barrier -----------------------------------------------------------------------------------------


def test_barrier__who_never_arrives_is_named():
    body = f"""
    setp.eq.u32 %p, %rank, 1;
    setp.ge.and.u32 %p, %me, 32, %p;
    @%p bra other;
    {SYNC}
    ret;
other:
    bar.sync 3, 64;
"""
    with pytest.raises(DeadlockError) as caught:
        run(body, grid=4, block=64)
    message = str(caught.value)
    assert (
        "barrier.cluster.wait waits for barrier.cluster.arrive of block (1, 0, 0) warp 1 (32 threads)"
        in message
    )
    assert (
        "barrier.cluster.wait waits for barrier.cluster.arrive of block (3, 0, 0) warp 1 (32 threads)"
        in message
    )
    assert "blocks (1, 0, 0), (3, 0, 0) warp 1: " in message
    assert "waits at barrier 3: 32 of 64 threads have arrived" in message


def test_barrier__a_block_waits_while_its_neighbour_waits_for_an_mbarrier():
    body = f"""
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    bar.sync 0;
    setp.ne.u32 %q, %rank, 1;
    @%q bra sync;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;
    @!%p bra wait;
sync:
    {SYNC}
"""
    with pytest.raises(DeadlockError) as caught:
        run(body)
    message = str(caught.value)
    assert "barrier.cluster.arrive of block (1, 0, 0) warp 0 (32 threads)" in message
    assert "mbarrier full (block (1, 0, 0), CTA 1 of its cluster, shared offset 0)" in message
    assert "lacks 1 of 1 arrivals" in message


def test_barrier__an_aligned_arrival_of_some_lanes_is_divergence():
    body = """
    setp.lt.u32 %p, %me, 8;
    @%p bra some;
    bar.warp.sync 0xffffffff;
some:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
"""
    with pytest.raises(DivergedWarp):
        run(body)


def test_barrier__blocks_that_end_are_not_waited_for():
    body = f"""
    setp.eq.u32 %p, %rank, 2;
    @%p ret;
    {SYNC}
    st.global.u32 [%to], 1;
"""
    for seed in range(5):
        out = run(body, grid=16, cluster=4, seed=seed).reshape(16, 32)
        np.testing.assert_array_equal(out, np.tile([1, 1, 0, 1], 4)[:, None].repeat(32, axis=1))


def test_barrier__completes_when_the_last_that_is_missing_ends():
    """The others wait already when the threads that never arrive end."""
    body = f"""
    setp.ne.u32 %p, %rank, 2;
    @%p bra sync;
    mov.u32 %y, 0;
later:
    add.u32 %y, %y, 1;
    nanosleep.u32 20;
    setp.lt.u32 %q, %y, 50;
    @%q bra later;
    ret;
sync:
    {SYNC}
    st.global.u32 [%to], 1;
"""
    out = run(body, grid=8, block=64, cluster=4).reshape(8, 64)
    np.testing.assert_array_equal(out, np.tile([1, 1, 0, 1], 2)[:, None].repeat(64, axis=1))


def test_barrier__in_a_launch_without_clusters_is_the_blocks_own():
    body = f"""
    st.shared.u32 [%x], %me;
    {SYNC}
    xor.b32 %y, %me, 33;
    mov.u32 %z, box;
    mad.lo.u32 %y, %y, 4, %z;
    ld.shared::cluster.u32 %y, [%y];
    st.global.u32 [%to], %y;
"""
    out = run(body, grid=3, block=64, cluster=1).reshape(3, 64)
    np.testing.assert_array_equal(out, np.tile(np.arange(64) ^ 33, (3, 1)))


# --- asynchronous stores ---------------------------------------------------------------------------------

STORE = f"""
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;
    {SYNC}
    xor.b32 %z, %rank, 1;
    mapa.shared::cluster.u32 %there, %x, %z;
    mapa.shared::cluster.u32 %z, %bar, %z;
    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%there], %me, [%z];
wait:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [full], 0;
    @!%p bra wait;
    ld.shared.u32 %y, [%x];
    st.global.u32 [%to], %y;
    {SYNC}
"""
WAIT = "    @!%p bra wait;\n"


def test_st_async__comes_before_its_bytes_are_counted():
    for seed in range(5):
        np.testing.assert_array_equal(run(STORE, grid=6, seed=seed), np.tile(np.arange(32), 6))


def test_st_async__without_the_wait_the_words_are_not_there():
    for seed in range(10):
        with pytest.raises((ReadBeforeWait, SharedMemoryRace, UninitializedRead)):
            run(STORE.replace(WAIT, ""), seed=seed)


def test_st_async__missing_bytes_name_who_stored():
    with pytest.raises(TransactionBytesError) as caught:
        run(STORE.replace("[full], 128", "[full], 132"))
    message = str(caught.value)
    assert "lacks 4 bytes" in message
    assert message.startswith("4 bytes are missing at mbarrier full")
    assert re.search(r"128 bytes landed, asked for at line \d+ by warp 0 of CTA [01]\n", message)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (("%bar, %z;", "%bar, %rank;"), AddressError, "both must be in the same CTA"),
        (
            ("[full], 1;", "[full], 2;\n mbarrier.inval.shared::cta.b64 [full];"),
            NoBarrierError,
            "invalidated",
        ),
        (("[%there], %me", "[%there+2], %me"), "misaligned", "not a multiple of 4"),
    ],
)
def test_st_async__a_broken_rule_has_its_error(change, error, words):
    from cutecourse.emulator.errors import AlignmentError

    with pytest.raises(AlignmentError if error == "misaligned" else error, match=words):
        run(
            STORE.replace("@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;", "").replace(
                *change
            )
        )


def test_st_async__needs_a_cluster():
    with pytest.raises(AddressError, match="clusters of one CTA"):
        run(STORE.replace("xor.b32 %z, %rank, 1;", "mov.u32 %z, 0;"), cluster=1)


def test_red_async__needs_a_word_that_was_written():
    body = STORE.replace(
        "st.async.weak.shared::cluster", "red.async.relaxed.cluster.shared::cluster"
    ).replace("complete_tx::bytes.u32", "complete_tx::bytes.add.u32")
    with pytest.raises(UninitializedRead, match="never written"):
        run(body)


# --- events ----------------------------------------------------------------------------------------------


def test_events__of_a_cluster_name_its_blocks():
    recorder = Recorder()
    run(STORE, grid=4, recorder=recorder)
    trace = recorder.trace()
    arrivals = list(trace.of("cluster.arrive"))
    assert len(arrivals) == 8
    assert {(e.cluster, e.rank, e.block) for e in arrivals} == {(i // 2, i % 2, (i, 0, 0)) for i in range(4)}
    waits = list(trace.of("cluster.wait"))
    assert len(waits) == 8
    blocked = sum(e.data["outcome"] == "blocked" for e in waits)
    assert blocked == len(list(trace.of("cluster.resume")))
    landed = list(trace.of("mbarrier.complete_tx"))
    assert len(landed) == 4 * 32
    assert all(e.data["bytes"] == 4 and e.data["transfer"] is None and e.lane is None for e in landed)
    assert {e.data["barrier"]["rank"] for e in landed} == {0, 1}
    last = [e.data["state"] for e in landed if e.cluster == 1 and e.rank == 1][-1]
    assert last == {"phase": 1, "pending": 1, "tx": 0}
