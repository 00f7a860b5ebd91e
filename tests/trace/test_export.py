"""Traces in Chrome's format: held against the format's rules, and against what the events say."""

from __future__ import annotations

import copy
import gzip
import json
from typing import Any

import numpy as np
import pytest
from widgets import traces

from cutecourse.emulator import launch
from cutecourse.trace import KINDS, Recorder, Trace
from cutecourse.trace.export import TIME_UNIT
from support.chrome_trace import problems
from support.tcgen05 import kernel

HAND_MADE = {
    "pipeline": traces.pipeline,
    "multicast": traces.multicast,
    "deadlock": traces.deadlock,
    "polling": traces.polling,
    "tensor_cores": traces.tensor_cores,
}


def named(document: dict[str, Any]) -> tuple[dict[int, str], dict[int, str]]:
    """Names of processes and of threads, by number."""
    events = document["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return processes, threads


def of(document: dict[str, Any], phase: str, thread: str | None = None) -> list[dict[str, Any]]:
    _, threads = named(document)
    events = (event for event in document["traceEvents"] if event["ph"] == phase)
    return [e for e in events if thread is None or threads[e["tid"]].partition(" (")[0] == thread]


def flow(event: dict[str, Any]) -> str:
    """Which flow a step belongs to, empty for what is no step of one."""
    return str(event["args"]["flow"]) if event["ph"] in "stf" else ""


@pytest.mark.parametrize("make", HAND_MADE.values(), ids=HAND_MADE)
def test_to_chrome__follows_the_format(make):
    assert problems(make().to_chrome()) == []


@pytest.mark.parametrize("kinds", [("tma",), ("mbarrier",), ("mma",), ("tmem", "cluster"), ("mma.commit",)])
@pytest.mark.parametrize("make", HAND_MADE.values(), ids=HAND_MADE)
def test_to_chrome__of_a_part_follows_the_format_too(make, kinds):
    assert problems(make().of(*kinds).to_chrome()) == []


def test_to_chrome__of_nothing_is_an_empty_file():
    document = Trace((), kernel="k", grid=(1, 1, 1), block=(32, 1, 1)).to_chrome()
    assert problems(document) == []
    assert document["traceEvents"] == []


def test_to_chrome__says_what_its_time_counts():
    trace = traces.pipeline()
    document = trace.to_chrome()
    assert document["otherData"]["timeUnit"] == TIME_UNIT
    assert "no duration on a GPU" in TIME_UNIT
    assert document["otherData"]["seed"] == trace.seed
    labels = [e["args"]["labels"] for e in document["traceEvents"] if e["name"] == "process_labels"]
    assert labels == ["1 us = 1 instruction issued"]
    times = {e["ts"] for e in of(document, "i")}
    assert times <= {event.time for event in trace}


@pytest.mark.parametrize("make", HAND_MADE.values(), ids=HAND_MADE)
def test_to_chrome__shows_every_event(make):
    """An instant or a slice by its index, a part of a transfer, or a wait by its thread and time."""
    trace = make()
    document = trace.to_chrome()
    shown: set[int] = set()
    for event in of(document, "i") + of(document, "X"):
        args = event["args"]
        shown |= {args[key] for key in ("event", "transfer") if isinstance(args.get(key), int)}
        shown |= set(args.get("events", ())) | set(args.get("arrivals", ()))
    spans = [(e["ts"], e["ts"] + e["dur"]) for e in of(document, "X") if e["cat"] == "wait"]
    for event in trace:
        if event.index in shown:
            continue
        if event.kind == "tma.land":
            assert event.data["transfer"] in shown
        elif event.kind == "mma.complete":
            assert event.data["issue"] in shown
        else:
            assert event.kind.endswith((".wait", ".resume")) or event.data["outcome"] == "blocked"
            assert any(begin <= event.time <= end for begin, end in spans), event


def test_to_chrome__ctas_are_processes_and_warps_are_threads():
    processes, threads = named(traces.tensor_cores().to_chrome())
    assert list(processes.values()) == [
        "CTA (0, 0, 0), rank 0 of cluster 0",
        "CTA (1, 0, 0), rank 1 of cluster 0",
    ]
    assert {"warp 0", "warp 2", "tensor core", "commits", "barriers"} <= set(threads.values())


def test_to_chrome__a_wait_lasts_from_its_first_try_to_its_end():
    trace = traces.polling()
    document = trace.to_chrome()
    polled = next(e for e in of(document, "X") if e["name"] == "wait for parity 0 of full[0]")
    asked = [event.time for event in trace.of("mbarrier.wait")]
    assert (polled["ts"], polled["ts"] + polled["dur"]) == (asked[0], asked[-1])
    assert polled["args"]["tries"] == 3


def test_to_chrome__a_wait_without_end_says_so():
    document = traces.deadlock().to_chrome()
    waits = [e for e in of(document, "X") if e["cat"] == "wait"]
    assert len(waits) == 2
    end = max(event.time for event in traces.deadlock()) + 1
    for wait in waits:
        assert wait["name"] == "wait for parity 0 of full[0], which does not end"
        assert wait["args"]["ended"] is False
        assert wait["ts"] + wait["dur"] == end


def test_to_chrome__a_transfer_lasts_until_its_last_byte():
    trace = traces.pipeline()
    document = trace.to_chrome()
    slices = {e["args"]["event"]: e for e in of(document, "X", "TMA")}
    assert len(slices) == len(trace.transfers()) == 8
    for transfer in trace.transfers():
        made = slices[transfer.index]
        assert (made["ts"], made["ts"] + made["dur"]) == (transfer.issue.time, transfer.last + 1)
        assert made["args"]["ended"] is True
        assert made["name"].startswith("load A (" if transfer.issue["tensor"] == "A" else "load B (")


def test_to_chrome__a_multicast_goes_to_every_cta():
    trace = traces.multicast(ctas=4, rounds=1)
    document = trace.to_chrome()
    processes, _ = named(document)
    for transfer in trace.transfers():
        ways = [e for e in document["traceEvents"] if flow(e).startswith(f"tma {transfer.index}.")]
        landed = [e for e in ways if e["ph"] == "f"]
        assert sorted(e["pid"] for e in landed) == sorted(processes)
        assert sorted(e["ts"] for e in landed) == [landing.time for landing in transfer.landings]
        (source,) = {e["pid"] for e in ways if e["ph"] == "s"}
        assert f"rank {transfer.issue.rank} of" in processes[source]
        assert {e["ts"] for e in ways if e["ph"] == "s"} == {transfer.issue.time}


def test_to_chrome__an_mma_goes_to_the_commit_that_tells_of_it():
    trace = traces.tensor_cores()
    document = trace.to_chrome()
    complete = {event.data["issue"]: event.time for event in trace.of("mma.complete")}
    slices = {e["args"]["event"]: e for e in of(document, "X", "tensor core")}
    assert set(slices) == {event.index for event in trace.of("mma.issue")}
    for index, made in slices.items():
        assert made["args"]["ended"] is (index in complete)
        if index in complete:
            assert made["ts"] + made["dur"] == complete[index] + 1
    commits = {e["args"]["event"]: e for e in of(document, "X", "commits")}
    first = trace.of("mma.commit").events[0]
    for index in first.data["issues"]:
        if index in complete:
            end = next(e for e in document["traceEvents"] if flow(e) == f"mma {index}" and e["ph"] == "f")
            assert end["tid"] == commits[first.index]["tid"]


def test_to_chrome__counters_are_the_barriers_states():
    trace = traces.pipeline()
    document = trace.to_chrome()
    for history in trace.barriers():
        name = f"{history.name}: arrivals pending"
        values = [(e["ts"], e["args"]["arrivals"]) for e in of(document, "C") if e["name"] == name]
        assert values == [(state.time, state.pending) for state in history.states]
        name = f"{history.name}: tx-count"
        values = [(e["ts"], e["args"]["bytes"]) for e in of(document, "C") if e["name"] == name]
        loaded = any(state.tx for state in history.states)
        assert values == ([(state.time, state.tx) for state in history.states] if loaded else [])


def test_to_chrome__what_a_warp_issues_at_one_time_is_one_slice():
    """Lanes that nobody elected issue together, and a flow has to find its slice."""
    recorder = Recorder()
    place = {"cluster": 0, "rank": 0, "block": (0, 0, 0), "warp": 0, "line": 9}
    about = dict.fromkeys(KINDS["tma.issue"]) | {"operation": "load", "bytes": 16, "destinations": []}
    for lane in range(32):
        recorder.emit("tma.issue", time=5, lane=lane, **place, **about)
    document = recorder.trace().to_chrome()
    assert problems(document) == []
    (issue,) = of(document, "X", "warp 0")
    assert issue["name"] == "issue load 16 bytes, 32 times"
    assert issue["args"]["events"] == list(range(32))
    assert len({e["tid"] for e in of(document, "X", "TMA")}) == 32


def test_to_chrome__a_flow_finds_its_slice_among_others_of_that_time():
    """An arrival and a wait that is over at once stand at the time of the issue, on the same thread."""
    recorder = Recorder()
    place = {"cluster": 0, "rank": 0, "block": (0, 0, 0), "warp": 0, "line": 9, "lane": 0}
    barrier = {"rank": 0, "offset": 0, "name": "full"}
    state = {"phase": 0, "pending": 0, "tx": 16}
    about = dict.fromkeys(KINDS["tma.issue"]) | {"operation": "load", "bytes": 16, "destinations": []}
    recorder.emit("mbarrier.arrive", time=5, **place, barrier=barrier, count=1, dropped=0, state=state)
    recorder.emit("tma.issue", time=5, **place, **about)
    recorder.emit("bulk.wait", time=5, **place, left=0, read=True, outcome="blocked")
    recorder.emit("bulk.resume", time=5, **place)
    recorder.emit("fence", time=5, **place, name="fence.proxy.async")
    assert problems(recorder.trace().to_chrome()) == []


def test_to_chrome__waits_of_a_warps_lanes_that_cross_are_in_two_rows():
    recorder = Recorder()
    place = {"cluster": 0, "rank": 0, "block": (0, 0, 0), "warp": 0}
    for time, lane, kind in [(1, 0, "wait"), (3, 1, "wait"), (5, 0, "resume"), (8, 1, "resume")]:
        data = {"left": 0, "read": True, "outcome": "blocked"} if kind == "wait" else {}
        recorder.emit(f"bulk.{kind}", time=time, lane=lane, **place, **data)
    document = recorder.trace().to_chrome()
    assert problems(document) == []
    assert set(named(document)[1].values()) == {"warp 0", "warp 0 (2)"}


def test_to_chrome__of_a_launch_on_the_emulator():
    body = """
    @!%first bra DONE;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
    mov.u32 %x, box;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%x], [%in], 64, [bar];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
    @!%p bra WAIT;
DONE:
    bar.sync 0;
"""
    recorder = Recorder()
    given, out = np.zeros(16, np.uint32), np.zeros(16, np.uint32)
    args = [out, given, out.nbytes, given.nbytes]
    launch(kernel(body), grid=1, block=64, args=args, recorder=recorder)
    trace = recorder.trace()
    document = trace.to_chrome()
    assert problems(document) == []
    (transfer,) = of(document, "X", "TMA")
    assert transfer["name"] == "load 64 bytes"
    assert transfer["args"]["ended"] is True
    assert "bar: tx-count" in {e["name"] for e in of(document, "C")}
    assert "warp 1" in named(document)[1].values()


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_save_chrome__writes_what_a_viewer_opens(tmp_path, name):
    trace = traces.pipeline()
    path = trace.save_chrome(tmp_path / name)
    raw = path.read_bytes()
    text = gzip.decompress(raw) if name.endswith(".gz") else raw
    assert json.loads(text) == json.loads(json.dumps(trace.to_chrome()))


def cross(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Let one slice end in the middle of the next."""
    second.update(tid=first["tid"], ts=first["ts"] + 1, dur=first["dur"])


CHANGES = {
    "a phase that is none": lambda d: of(d, "i")[0].update(ph="Q"),
    "no time": lambda d: of(d, "X")[0].pop("ts"),
    "a negative duration": lambda d: of(d, "X")[0].update(dur=-1),
    "a scope that is none": lambda d: of(d, "i")[0].update(s="x"),
    "a counter of words": lambda d: of(d, "C")[0].update(args={"bytes": "many"}),
    "a thread without a name": lambda d: of(d, "i")[0].update(tid=9999),
    "slices that cross": lambda d: cross(*of(d, "X", "TMA")[:2]),
    "a flow without an end": lambda d: d["traceEvents"].remove(of(d, "f")[0]),
    "a flow with a name for a number": lambda d: of(d, "s")[0].update(id="tma 1"),
    "a flow from nowhere": lambda d: of(d, "s")[0].update(ts=0),
    "a number that JSON lacks": lambda d: of(d, "X")[0].update(dur=float("nan")),
    "a unit that is none": lambda d: d.update(displayTimeUnit="instructions"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_problems__finds_what_breaks_the_format(change):
    """The rules are worth something only if they can be broken."""
    document = copy.deepcopy(traces.pipeline().to_chrome())
    change(document)
    assert problems(document) != []


def test_to_chrome__many_instants_of_one_time_and_place_are_one():
    recorder = Recorder()
    recorder.begin(kernel="k", grid=(1, 1, 1), block=(32, 1, 1))
    place = {"cluster": 0, "rank": 0, "block": (0, 0, 0), "lane": None, "line": 3}
    barrier = {"rank": 0, "offset": 0, "name": "full"}
    recorder.emit("mbarrier.init", time=1, warp=0, barrier=barrier, count=1, **place)
    for n in range(5):
        state = {"phase": 0, "pending": 1, "tx": -16 * n}
        recorder.emit(
            "mbarrier.complete_tx",
            time=9,
            warp=None,
            barrier=barrier,
            bytes=16,
            transfer=None,
            state=state,
            **place,
        )
    recorder.emit("fence", time=9, warp=0, name="fence.proxy.async", **place)
    document = recorder.trace().to_chrome()
    assert problems(document) == []
    shown = {event["name"]: event["args"] for event in of(document, "i")}
    assert list(shown) == [
        "mbarrier.init: full expects 1 arrival",
        "mbarrier.complete_tx (5)",
        "fence.proxy.async",
    ]
    assert shown["mbarrier.complete_tx (5)"]["events"] == [1, 2, 3, 4, 5]


def test_to_chrome__a_wait_over_at_once_takes_no_flow_from_the_issue_before_it():
    recorder = Recorder()
    recorder.begin(kernel="k", grid=(1, 1, 1), block=(32, 1, 1))
    place = {"time": 5, "cluster": 0, "rank": 0, "block": (0, 0, 0), "lane": 0}
    about = {"tensor": "c", "coords": (0, 0), "box": (8, 8), "bytes": 64, "destinations": [], "mask": None}
    source = {"rank": 0, "offset": 0}
    issue = recorder.emit(
        "tma.issue", warp=0, line=3, operation="store", barrier=None, source=source, **about, **place
    )
    recorder.emit("bulk.wait", warp=0, line=4, left=0, read=True, outcome="blocked", **place)
    recorder.emit("tma.read", warp=None, line=3, transfer=issue, **place)
    recorder.emit("bulk.resume", warp=0, line=4, **place)
    document = recorder.trace().to_chrome()
    assert problems(document) == []
    (wait,) = [event for event in of(document, "X") if event["cat"] == "wait"]
    assert (wait["ts"], wait["dur"]) == (5, 1)
