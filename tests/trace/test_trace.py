"""Traces: what a recorder takes and refuses, and what queries make of a small launch written by hand."""

import json

import numpy as np
import pytest

from cutecourse.trace import KINDS, Recorder, Trace, TraceError

FULL = {"rank": 0, "offset": 0, "name": "full"}
EMPTY = {"rank": 1, "offset": 8, "name": None}


def recorded():
    """A producer expects 64 bytes and issues a load of two parts; a consumer asks twice, then waits."""
    recorder = Recorder()
    recorder.begin(kernel="toy", grid=(2, 1, 1), block=(64, 1, 1), cluster=(2, 1, 1), seed=5)
    time = 0

    def emit(kind, *, rank=0, warp=0, lane=None, line=None, after=1, **data):
        nonlocal time
        time += after
        place = {"cluster": 0, "rank": rank, "block": (rank, 0, 0), "warp": warp, "lane": lane, "line": line}
        return recorder.emit(kind, time=time, **place, **data)

    emit("mbarrier.init", lane=0, line=10, barrier=FULL, count=1)
    emit("mbarrier.init", rank=1, lane=0, line=11, barrier=EMPTY, count=2)
    state = {"phase": 0, "pending": 1, "tx": 64}
    emit("mbarrier.expect_tx", lane=0, line=20, barrier=FULL, bytes=64, state=state)
    issue = emit(
        "tma.issue",
        lane=0,
        line=21,
        operation="load",
        tensor="a",
        coords=(0, np.int64(8)),
        box=(8, 4),
        bytes=64,
        destinations=[{"rank": 0, "offset": 128}],
        barrier=FULL,
        mask=None,
        source=None,
    )
    emit("mbarrier.arrive", lane=0, line=22, barrier=FULL, count=1, dropped=0, state=state | {"pending": 0})
    wait = {"warp": 1, "line": 30, "barrier": FULL, "parity": 0, "name": "try_wait"}
    emit("mbarrier.wait", **wait, outcome="false")
    emit("tma.land", warp=None, after=10, transfer=issue, offset=128, bytes=32)
    state = {"phase": 0, "pending": 0, "tx": 32}
    emit("mbarrier.complete_tx", warp=None, barrier=FULL, bytes=32, transfer=issue, state=state)
    emit("mbarrier.wait", **wait, outcome="blocked")
    emit("tma.land", warp=None, after=10, transfer=issue, offset=160, bytes=32)
    state = {"phase": 1, "pending": 1, "tx": 0}
    emit("mbarrier.complete_tx", warp=None, barrier=FULL, bytes=32, transfer=issue, state=state)
    emit("mbarrier.phase", warp=None, barrier=FULL, phase=0)
    emit("mbarrier.resume", warp=1, line=30, barrier=FULL, parity=0)
    emit("mbarrier.wait", rank=1, line=40, barrier=EMPTY, parity=0, outcome="blocked", name="try_wait")
    emit("mbarrier.wait", rank=1, line=41, barrier=EMPTY, parity=1, outcome="passed", name="test_wait")
    emit("mbarrier.inval", lane=0, line=50, barrier=FULL)
    return recorder.trace()


def test_barriers__go_through_their_states():
    full, empty = recorded().barriers()
    assert [(s.phase, s.pending, s.tx) for s in full.states] == [
        (0, 1, 0),
        (0, 1, 64),
        (0, 0, 64),
        (0, 0, 32),
        (1, 1, 0),
    ]
    assert [s.time for s in full.states] == sorted(s.time for s in full.states)
    assert [phase for _, phase in full.completions] == [0]
    assert full.end == recorded().of("mbarrier.inval").events[0].time
    assert (empty.rank, empty.offset, empty.name, empty.end) == (1, 8, None, None)
    assert (str(full), str(empty)) == ("full", "shared 0x8 of CTA 1")


def test_barriers__an_init_after_an_inval_is_another_barrier():
    recorder = Recorder()
    for time, kind in enumerate(["mbarrier.init", "mbarrier.inval", "mbarrier.init"]):
        recorder.emit(kind, time=time, cluster=0, rank=0, block=(0, 0, 0), barrier=FULL, count=3)
    first, second = recorder.trace().barriers()
    assert (first.end, second.end) == (1, None)
    assert second.states[0].time == 2


def test_transfers__join_the_issue_with_its_landings():
    (transfer,) = recorded().transfers()
    assert transfer.issue["coords"] == [0, 8]
    assert [(part.offset, part.bytes) for part in transfer.landings] == [(128, 32), (160, 32)]
    assert transfer.last - transfer.first == 12
    assert transfer.issue.time < transfer.first
    assert transfer.read is None


def test_transfers__without_a_landing_has_no_time():
    (transfer,) = recorded().of("tma.issue").transfers()
    assert (transfer.first, transfer.last) == (None, None)


def test_waits__of_tensor_memory_are_allocations_that_blocked():
    recorder = Recorder()
    recorder.begin(kernel="toy", grid=(1, 1, 1), block=(64, 1, 1), cluster=(1, 1, 1), seed=5)
    place = {"cluster": 0, "rank": 0, "block": (0, 0, 0), "lane": None, "line": 4}
    allocation = {"columns": 512, "group": 1}
    recorder.emit("tmem.alloc", time=1, warp=0, **place, **allocation, address=0, outcome="passed")
    recorder.emit("tmem.alloc", time=2, warp=1, **place, **allocation, address=None, outcome="blocked")
    recorder.emit("tmem.wait", time=3, warp=0, **place, name="tcgen05.wait::ld")
    recorder.emit("tmem.alloc", time=9, warp=1, **place, **allocation, address=0, outcome="passed")
    (wait,) = recorder.trace().waits()
    assert (wait.kind, wait.what, wait.warp) == ("tmem", "512 columns of tensor memory", 1)
    assert (wait.begin, wait.end) == (2, 9)


def test_waits__of_tensor_memory_are_what_frees_it_with_the_peer_too():
    recorder = Recorder()
    recorder.begin(kernel="toy", grid=(2, 1, 1), block=(64, 1, 1), cluster=(2, 1, 1), seed=5)
    place = {"cluster": 0, "lane": None, "line": 4, "warp": 0, "columns": 64, "address": 0, "group": 2}
    one, other = ({**place, "rank": rank, "block": (rank, 0, 0)} for rank in (0, 1))
    recorder.emit("tmem.dealloc", time=2, **one, outcome="blocked")
    recorder.emit("tmem.dealloc", time=7, **other, outcome="passed")
    recorder.emit("tmem.dealloc", time=7, **one, outcome="passed")
    (wait,) = recorder.trace().waits()
    assert (wait.kind, wait.rank, wait.begin, wait.end) == ("tmem", 0, 2, 7)
    assert wait.what == "the other CTA to free 64 columns of tensor memory"


def test_waits__tries_are_one_wait_until_it_passes():
    first, second = recorded().waits()
    events = recorded().events
    asked = [event.time for event in events if event.line == 30]
    assert (first.begin, first.end, first.tries, first.warp) == (asked[0], asked[-1], 2, 1)
    assert first.what == "parity 0 of full"
    assert (second.rank, second.line, second.end) == (1, 40, None)


def test_of__takes_kinds_and_families():
    trace = recorded()
    assert {event.kind for event in trace.of("tma")} == {"tma.issue", "tma.land"}
    assert len(trace.of("mbarrier", "tma")) == len(trace)
    with pytest.raises(TraceError, match=r"no events 'mbarier'; the kinds are mbarrier\.init"):
        trace.of("mbarier")


def test_where__keeps_an_events_index():
    trace = recorded()
    assert [event.index for event in trace.where(rank=1)] == [1, 13, 14]
    assert all(event.data["barrier"] == FULL for event in trace.where(barrier="full"))
    assert trace.where(barrier=8).events == trace.where(rank=1).events
    assert len(trace.where(warp=1, line=30)) == 3
    with pytest.raises(TraceError, match="cluster=1: the launch has cluster 0 to 0"):
        trace.where(cluster=1)


def test_snapshot__is_json_and_comes_back_equal():
    trace = recorded()
    snapshot = json.loads(json.dumps(trace.to_snapshot()))
    assert Trace.from_snapshot(snapshot) == trace
    about = ["kernel", "where", "grid", "block", "cluster", "seed", "variables", "memory"]
    assert list(snapshot) == [*about, "events"]
    assert (snapshot["kernel"], snapshot["where"], snapshot["seed"]) == ("toy", "emulator", 5)
    with pytest.raises(TraceError, match="no trace's snapshot"):
        Trace.from_snapshot({"events": []})
    snapshot["events"][0]["kind"] = "mbarrier.begin"
    with pytest.raises(TraceError, match=r"no event 'mbarrier\.begin'"):
        Trace.from_snapshot(snapshot)


def test_table__says_what_happened_in_words():
    lines = str(recorded()).splitlines()
    assert lines[0].startswith("toy on the emulator: grid (2, 1, 1), block (64, 1, 1), cluster (2, 1, 1)")
    shown = {line.split()[0]: line for line in lines[2:]}
    assert shown["3"].endswith(
        "tma.issue: load a at (0, 8), box (8, 4), 64 bytes to CTA 0 0x80, signals full"
    )
    assert "1 arrival and 64 bytes missing" in shown["2"]
    assert "32 bytes of #3 at full" in shown["7"]
    assert len(lines) == 2 + len(recorded())


def test_table__with_a_limit_shows_both_ends():
    lines = str(recorded().table(5)).splitlines()
    assert len(lines) == 2 + 5 + 1
    assert "11 events not shown" in lines[5]
    assert lines[-1] == str(recorded().table(None)).splitlines()[-1]
    assert "11 events not shown" in recorded().table(5)._repr_html_()
    assert recorded().table()._repr_html_() == recorded()._repr_html_()


def test_table__says_when_bytes_came_before_they_were_expected():
    recorder = Recorder()
    place = {"time": 0, "cluster": 0, "rank": 0, "block": (0, 0, 0)}
    state = {"phase": 0, "pending": 1, "tx": -64}
    recorder.emit("mbarrier.complete_tx", **place, barrier=FULL, bytes=64, transfer=None, state=state)
    assert "phase 0, 1 arrival missing, 64 bytes not yet expected" in str(recorder.trace())


def test_named__gives_barriers_names_and_leaves_the_rest():
    trace = recorded()
    renamed = trace.named(empty=8)
    assert [str(barrier) for barrier in renamed.barriers()] == ["full", "empty of CTA 1"]
    assert len(renamed.where(barrier="empty")) == len(trace.where(barrier=8)) == 3
    assert renamed.where(rank=0).events == trace.where(rank=0).events
    assert trace.barriers()[1].name is None
    with pytest.raises(TraceError, match="empty: no barrier lies at offset 16; there is one at: 0, 8"):
        trace.named(empty=16)


def test_html__escapes_and_has_a_row_for_each_event():
    trace = recorded()
    assert trace._repr_html_().count("<tr>") == 1 + len(trace)
    named = Recorder()
    named.emit("fence", time=0, cluster=0, rank=0, block=(0, 0, 0), name="<b>")
    assert "&lt;b&gt;" in named.trace()._repr_html_()


@pytest.mark.parametrize("outcome", ["passed", "blocked"])
def test_words__every_kind_has_them(outcome):
    """Each kind of the table is told in words, from nothing but the data that the table promises."""
    samples = {
        "barrier": FULL,
        "state": {"phase": 0, "pending": 1, "tx": 0},
        "outcome": outcome,
        "operation": "store",
        "destinations": [],
        "coords": [0],
        "box": [8],
        "mask": 3,
        "tensor": None,
        "name": "proxy.async",
        "read": True,
        "issues": [0, 1],
        "touches": [{"space": "global", "name": "out", "range": [0, 4], "writes": True}],
    }
    recorder = Recorder()
    for kind, needed in KINDS.items():
        data = {name: samples.get(name, 1) for name in needed}
        recorder.emit(kind, time=0, cluster=0, rank=0, block=(0, 0, 0), **data)
    trace = recorder.trace()
    assert [str(event).partition(":")[0] for event in trace] == [*list(KINDS)[:-1], "proxy.async"]


def test_emit__refuses_what_no_reader_could_use():
    recorder = Recorder()
    place = {"time": 0, "cluster": 0, "rank": 0, "block": (0, 0, 0)}
    with pytest.raises(TraceError, match=r"no event 'tma\.load'"):
        recorder.emit("tma.load", **place)
    with pytest.raises(TraceError, match=r"holds barrier, phase; it came without phase"):
        recorder.emit("mbarrier.phase", **place, barrier=FULL)
    with pytest.raises(TraceError, match="cannot hold array"):
        recorder.emit("fence", **place, name=np.zeros(2))
    assert len(recorder) == 0
    recorder.begin(kernel="one", grid=(1, 1, 1), block=(1, 1, 1))
    with pytest.raises(TraceError, match="holds the launch of one; take a new one for two"):
        recorder.begin(kernel="two", grid=(1, 1, 1), block=(1, 1, 1))


def test_event__gives_its_data_by_name():
    issue = recorded().of("tma.issue").events[0]
    assert issue["bytes"] == 64
    with pytest.raises(TraceError, match="holds no 'byte'; it holds operation"):
        issue["byte"]
