"""Snapshots: what the memories held at an event, against the events themselves and against NumPy."""

import numpy as np
import pytest

from cutecourse import runtime
from cutecourse.emulator import EmulatorError, TensorMap, launch
from cutecourse.emulator.errors import DeadlockError, ReadBeforeWait
from cutecourse.kernels import umma_gemm, umma_tile
from cutecourse.trace import Recorder, TraceError

COPY = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry copy(.param .align 64 .b8 source[128], .param .u64 result)
{
    .reg .pred %p;
    .reg .b32 %bar, %tile, %thread, %at, %value;
    .reg .b64 %map, %out;
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b64 full;
    mov.u32 %thread, %tid.x;
    mov.u32 %bar, full;
    mov.u32 %tile, tile;
    mov.b64 %map, source;
    cvta.param.u64 %map, %map;
    setp.ne.u32 %p, %thread, 0;
    @%p bra WAIT;
    mbarrier.init.shared::cta.b64 [%bar], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 1024;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%tile], [%map, {0, 4}], [%bar];
WAIT:
    bar.sync 0;
LOOP:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], PARITY;
    @!%p bra LOOP;
    ld.param.u64 %out, [result];
    shl.b32 %at, %thread, 5;
    add.u32 %tile, %tile, %at;
    ld.shared.u32 %value, [%tile];
    mad.wide.u32 %out, %thread, 4, %out;
    st.global.u32 [%out], %value;
    st.shared.u32 [%tile], 7;
    ret;
}
"""


def tile_map(source):
    """Boxes of 32 rows and 8 columns."""
    return TensorMap.tiled(source, dims=(8, 40), strides=(32,), box=(8, 32))


def copied(parity=0, **more):
    """The trace of a launch that loads a box of 32 rows and 8 columns, and the source."""
    source = np.arange(40 * 8, dtype=np.uint32).reshape(40, 8)
    result = np.zeros(32, np.uint32)
    recorder = Recorder()
    tensor_map = tile_map(source)
    try:
        launch(
            COPY.replace("PARITY", str(parity)),
            grid=2,
            block=32,
            args=[tensor_map, result],
            recorder=recorder,
            max_instructions=5000,
            **more,
        )
    except EmulatorError as error:
        return error, source
    return recorder.trace(), source


def matrices(m=128, n=128, k=256):
    a, b = (np.random.default_rng(i).integers(-4, 5, (e, k)).astype(np.float16) for i, e in ((1, m), (2, n)))
    return {"a": a, "b": b, "c": np.zeros((m, n), np.float32)}


@pytest.fixture(scope="module")
def pair():
    """A GEMM of two SMs with TMA, traced, and its operands."""
    spec = umma_gemm.gemm_spec((256, 256, 128), cluster=(2, 1))
    arrays = matrices(256, 256, 128)
    return runtime.run(spec, device="emulator", trace=True, **arrays).trace, arrays


def test_snapshot__barriers_hold_what_each_event_says(pair):
    trace, _ = pair
    told = trace.where(kind="mbarrier.*").where(kind=("*.arrive", "*.expect_tx", "*.complete_tx"))
    assert len(told) > 20
    for event, snapshot in zip(told, trace.snapshots(told), strict=True):
        x = next(e.block for e in trace if e.rank == event["barrier"]["rank"])
        found = snapshot.barrier(event["barrier"]["offset"], x)
        assert {"phase": found.phase, "pending": found.pending, "tx": found.tx} == event["state"]
        assert (snapshot.event, found.name) == (event, event["barrier"]["name"])


def test_snapshot__tensor_memory_holds_the_sums_of_the_mmas_so_far(pair):
    trace, arrays = pair
    done = trace.of("mma.complete")
    order = trace.of("mma.issue").events
    assert len(done) == len(order) == 8
    a, b = arrays["a"].astype(np.float32), arrays["b"].astype(np.float32)
    for n, snapshot in enumerate(trace.snapshots(done)):
        # MMAs into one D complete in the order of their issue: after n of them k is up to 16 (n + 1).
        k = 16 * (n + 1)
        expected = a[:, :k] @ b[:, :k].T
        for rank in (0, 1):
            held = snapshot.tensor_memory(rank, "f32")[:, :256]
            assert not held.mask.any()
            np.testing.assert_array_equal(held.data, expected[128 * rank : 128 * rank + 128])
        assert snapshot.allocated(0) == snapshot.allocated(1)


def test_snapshot__shared_memory_is_the_tensor_once_it_has_landed():
    trace, source = copied()
    lands = trace.where(kind="tma.land", block=0)
    snapshots = trace.snapshots(lands)
    landed = 0
    for event, snapshot in zip(lands, snapshots, strict=True):
        tile = snapshot.shared(0, "tile", "u32", (32, 8))
        landed += event["bytes"]
        assert (~tile.mask).sum() * 4 == landed
        rows = slice(event["offset"] // 32, (event["offset"] + event["bytes"]) // 32)
        np.testing.assert_array_equal(tile[rows].data, source[4:36][rows])
        assert not tile[rows].mask.any()
    assert landed == 1024
    np.testing.assert_array_equal(snapshots[-1].shared(0, "tile", np.uint32).reshape(32, 8), source[4:36])
    assert snapshots[-1].shared(0, "tile+32", "u32", 1)[0] == source[5, 0]
    assert snapshots[-1].shared(0, "full").mask.all()  # nobody may read a valid mbarrier's bytes


def test_snapshot__leaves_the_arrays_and_the_trace_as_they_are():
    source = np.arange(40 * 8, dtype=np.uint32).reshape(40, 8)
    result = np.zeros(32, np.uint32)
    recorder = Recorder()
    tensor_map = tile_map(source)
    text = COPY.replace("PARITY", "0")
    launch(text, grid=1, block=32, args=[tensor_map, result], recorder=recorder)
    trace, before = recorder.trace(), result.copy()
    source[:] = 0  # the snapshot is of the launch as it was
    result[:] = 1
    last = trace.of("tma.land").events[-1]
    tile = trace.snapshot(last).shared(0, "tile", "u32", (32, 8))
    np.testing.assert_array_equal(tile, np.arange(40 * 8).reshape(40, 8)[4:36])
    assert (result == 1).all()
    assert len(trace) == len(recorder)
    assert before[1] == 40


def test_snapshot__of_the_end_is_where_the_error_was():
    error, source = copied(parity=1)  # passes at once: it reads before the bytes have come
    assert isinstance(error, ReadBeforeWait)
    snapshot = error.trace.snapshot()
    assert snapshot.error.startswith("ReadBeforeWait: ")
    assert "ReadBeforeWait" in str(snapshot).splitlines()[0]
    tile = snapshot.shared(error.block, "tile", "u32", (32, 8))
    assert tile.mask.any()
    seen = ~tile.mask
    np.testing.assert_array_equal(tile.data[seen], source[4:36][seen])
    assert snapshot.barrier("full", error.block).phase == 0


def test_snapshot__of_a_deadlock_shows_what_is_missing():
    text = COPY.replace("[%bar], 1024;", "[%bar], 1040;").replace("PARITY", "0")
    recorder = Recorder()
    args = [tile_map(np.zeros((40, 8), np.uint32)), np.zeros(32, np.uint32)]
    with pytest.raises(DeadlockError) as caught:
        launch(text, grid=1, block=32, args=args, recorder=recorder)
    snapshot = caught.value.trace.snapshot()
    assert len(snapshot.title.splitlines()) == 1
    full = snapshot.barrier("full")
    assert (full.phase, full.pending, full.tx) == (0, 0, 16)


def test_snapshot__after_a_launch_that_ended_no_cta_is_left():
    trace, _ = copied()
    assert trace.snapshot().blocks == ()
    with pytest.raises(TraceError, match=r"block \(0, 0, 0\) was not running at the end of the launch"):
        trace.snapshot().shared(0)


def test_snapshot__says_what_there_is_instead():
    trace, _ = copied()
    snapshot = trace.snapshot(trace.of("tma.land").events[-1])
    for call, message in (
        (lambda: snapshot.shared(5), r"block \(5, 0, 0\) was not running at event \d+; those that were"),
        (lambda: snapshot.shared((0, 0, 0, 1)), r"block=\(0, 0, 0, 1\): give x, \(x, y\) or \(x, y, z\)"),
        (lambda: snapshot.shared(()), r"block=\(\): give x"),
        (lambda: snapshot.shared(0.5), "block=0.5: give x"),
        (
            lambda: snapshot.shared(0, "tiles"),
            r"no shared variable 'tiles'; the variables are: 'tile' \(1024 bytes\), 'full'",
        ),
        (lambda: snapshot.shared(0, "tile", "f12"), "'f12' is no type"),
        (lambda: snapshot.shared(0, "tile", "u32", (64, 8)), "2048 bytes, and the CTA has 1032 bytes"),
        (lambda: snapshot.shared(0, 4096), "byte 4096 is none of the CTA's 1032 bytes"),
        (lambda: snapshot.barrier("empty"), r"has no mbarrier 'empty' at event \d+; it has: 'full'"),
        (lambda: snapshot.tensor_memory(0, "f64"), "has 32 bits, and float64 64"),
        (lambda: trace.snapshot(10**6), "event 1000000 is none; this trace's last one is"),
    ):
        with pytest.raises(TraceError, match=message):
            call()


def test_snapshot__of_a_renamed_trace_has_the_new_names():
    trace, _ = copied()
    event = trace.of("mbarrier.init").events[0]
    renamed = trace.named(arrived=event["barrier"]["offset"])
    assert renamed.snapshot(event).barrier("arrived", event.block).pending == 1
    assert renamed.snapshot(renamed.events[event.index]).barriers(event.block)[0].name == "arrived"


def test_difference__names_bytes_cells_and_barriers(pair):
    trace, _ = pair
    first, last = trace.of("tma.land").events[0], trace.of("mma.complete").events[0]
    one, two = trace.snapshots([first, last])
    rows = one.difference(two).rows
    memories = {(block, memory) for block, memory, _ in rows}
    assert {("(0, 0, 0)", "shared memory"), ("(1, 0, 0)", "tensor memory")} <= memories
    told = [what for _, memory, what in rows if memory == "tensor memory"]
    assert any("lanes 0 to 127, columns 0 to 255: 32768 cells changed" in what for what in told)
    assert len(one.difference(one)) == 0
    assert str(one.difference(one)).endswith("nothing changed")
    assert "<table>" in one.difference(two)._repr_html_()


def test_difference__counts_the_bytes_that_landed():
    trace, _ = copied()
    lands = trace.where(kind="tma.land", block=0).events
    before, after = trace.snapshots([lands[0].index, lands[1].index])
    (row,) = [
        what
        for block, memory, what in before.difference(after).rows
        if (block, memory) == ("(0, 0, 0)", "shared memory")
    ]
    first, n_bytes = lands[1]["offset"], lands[1]["bytes"]
    assert row.startswith(f"bytes {first} to {first + n_bytes - 1} (tile")
    assert row.endswith(f": {n_bytes} changed, {n_bytes} of them not written before")


def test_snapshot__without_tensor_memory_masks_all_of_it():
    trace, _ = copied()
    cells = trace.snapshot(0).tensor_memory(trace.events[0].block, "f16")
    assert cells.shape == (128, 1024)
    assert cells.mask.all()


def test_where__finds_the_mmas_that_read_what_a_copy_wrote(pair):
    trace, _ = pair
    load = trace.of("tma.issue").events[0]
    to = load["destinations"][0]
    reads = trace.where(
        kind="mma.issue", smem=(to["rank"], range(to["offset"], to["offset"] + load["bytes"]))
    )
    assert len(reads) == 4  # k-blocks of 16 of a tile of 64 columns
    assert {touch.space for touch in trace.touches(reads.events[0])} == {"shared", "tensor"}
    wrote = trace.where(tmem=0, kind="mma.complete")
    assert len(wrote) == 8


def test_where__finds_who_reads_an_accumulators_lanes():
    run = runtime.run(umma_tile, device="emulator", trace=True, **matrices())
    lanes = run.trace.where(kind="tmem.load", tmem=(range(32, 64), range(512)))
    assert len(lanes) > 0
    assert {event.warp for event in lanes} == {1}


def test_recorder__with_memory_tells_loads_and_stores_with_their_bytes():
    source = np.arange(40 * 8, dtype=np.uint32).reshape(40, 8)
    result = np.zeros(32, np.uint32)
    recorder = Recorder(memory=True)
    text = COPY.replace("PARITY", "0")
    launch(text, grid=1, block=32, args=[tile_map(source), result], recorder=recorder)
    trace = recorder.trace()
    (load,) = trace.of("memory.load")
    lines = text.splitlines()
    assert "ld.shared.u32" in lines[load.line - 1]
    assert (load.warp, load.lane, load["lanes"]) == (0, None, 32)
    # Each lane reads the first word of a row of 32 bytes.
    assert [touch.first for touch in trace.touches(load)] == [32 * lane for lane in range(32)]
    assert {(touch.stop - touch.first, touch.writes) for touch in trace.touches(load)} == {(4, False)}
    to_global, to_shared = trace.of("memory.store")
    (touch,) = trace.touches(to_global)
    assert (touch.space, touch.name, touch.first, touch.stop) == ("global", "result", 0, 128)
    assert trace.where(gmem=("result", 127)).events == (to_global,)
    assert trace.where(smem="tile+32", kind="memory").events == (load, to_shared)
    assert "ld.shared.u32 by 32 lanes, shared 0x0 to 0x3" in str(load)
    assert str(to_global).endswith("result 0x0 to 0x7f")
    before, after = trace.snapshots([load, to_shared.index])
    assert before.shared(0, "tile", "u32", (32, 8))[3, 0] == source[7, 0]
    assert trace.to_snapshot()["memory"]
    assert after.barrier("full").phase == 1


def test_recorder__without_memory_tells_none_of_them():
    trace, _ = copied()
    assert not trace.of("memory")
