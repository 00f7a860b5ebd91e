"""BarrierTimeline without a browser: what it takes and refuses, how small it is, what its figure says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import matplotlib.colors
import pytest
from widgets import emulated, traces

from cutecourse import palette
from cutecourse.trace import Recorder, Trace
from cutecourse.widgets import BarrierTimeline, WidgetError, draw_timeline
from cutecourse.widgets.timeline_mmas import commit_arrivals, mma_groups
from cutecourse.widgets.traces import MAX_EVENTS, barrier_name, by_warp, compact, of_barrier

ALL = [traces.pipeline, traces.multicast, traces.deadlock, traces.polling, traces.tensor_cores]


def expanded(small: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a compact trace as a snapshot holds them, without what is None."""
    events = []
    for index, kind, time, cta, warp, lane, line, data in small["events"]:
        cluster, rank, block = small["ctas"][cta]
        full = dict(data)
        if "barrier" in full:
            of, on, offset, name = small["barriers"][full["barrier"]]
            assert of == cluster
            full["barrier"] = {"rank": on, "offset": offset, "name": name}
        if "state" in full:
            full["state"] = dict(zip(("phase", "pending", "tx"), full["state"], strict=True))
        place = {"cluster": cluster, "rank": rank, "block": block, "warp": warp, "lane": lane, "line": line}
        events.append({"index": index, "kind": small["kinds"][kind], "time": time, **place, "data": full})
    return events


def in_short(trace: Trace) -> list[dict[str, Any]]:
    """The events of a trace without what is None, and without the descriptors of an MMA."""
    events = trace.to_snapshot()["events"]
    for event in events:
        left_out = {name for name, value in event["data"].items() if value is None}
        if event["kind"] == "mma.issue":
            left_out |= {"b", "idesc", *([] if event["data"]["a"] < 1 << 32 else ["a"])}
        event["data"] = {name: value for name, value in event["data"].items() if name not in left_out}
    return list(events)


@pytest.mark.parametrize("make", ALL)
def test_compact__loses_no_more_than_descriptors(make: Callable[[], Trace]) -> None:
    trace = make()
    assert expanded(compact(trace)) == in_short(trace)


def test_compact__keeps_numbers_that_javascript_can_hold() -> None:
    small = json.dumps(compact(traces.tensor_cores()))
    assert all(int(number) < 1 << 53 for number in re.findall(r"\d+", small))
    assert '"idesc"' not in small
    # A in tensor memory has an address, which is drawn.
    assert [
        event["data"].get("a") for event in expanded(json.loads(small)) if event["kind"] == "mma.issue"
    ] == [
        *[None] * 3,
        (32 << 16) + 64,
        None,
    ]


def test_compact__of_500_events_is_small_enough_for_a_page() -> None:
    trace = traces.pipeline(k_tiles=34)
    assert len(trace) >= 500
    widget = BarrierTimeline(trace)
    state = {name: value for name, value in widget.get_state().items() if not name.startswith("_")}
    picture = len(widget.figure().png()) * 4 // 3
    code = len(widget._esm) + len(widget._css)
    assert len(json.dumps(state)) + picture + code < 200_000
    assert len(json.dumps(state)) < 0.4 * len(json.dumps(trace.to_snapshot()))


def test_timeline__takes_a_trace_its_snapshot_and_a_run() -> None:
    trace = traces.pipeline()
    run = SimpleNamespace(trace=trace)
    made = [BarrierTimeline(one) for one in (trace, trace.to_snapshot(), run)]
    assert made[0].trace == made[1].trace == made[2].trace
    assert repr(made[0]) == "BarrierTimeline(tma_pipeline: 75 events)"
    assert BarrierTimeline(trace.of("mbarrier")).trace["kinds"][0] == "mbarrier.init"


def test_timeline__chooses_the_first_of_many_ctas() -> None:
    trace = traces.multicast()
    assert BarrierTimeline(trace).cta == [0, 0]
    assert BarrierTimeline(trace, cta=5).cta == [0, 5]
    assert BarrierTimeline(trace, cta=(0, 15)).cta == [0, 15]
    assert BarrierTimeline(trace, cta="all").cta == []
    assert BarrierTimeline(traces.pipeline()).cta == []
    assert repr(BarrierTimeline(trace, cta=5, end="x\ny")) == (
        f"BarrierTimeline(tma_multicast: {len(trace)} events, cta=(0, 5), end='x')"
    )


@pytest.mark.parametrize(
    ("given", "arguments", "message"),
    [
        (4, {}, "int is neither a trace nor the snapshot of one"),
        ({"events": []}, {}, "no trace's snapshot"),
        (Recorder().trace(), {}, "holds no event"),
        (SimpleNamespace(trace=None), {}, "neither a trace"),
        (traces.multicast(), {"cta": 16}, r"no CTA \(0, 16\)"),
        (traces.multicast(), {"cta": (1, 0)}, r"no CTA \(1, 0\)"),
        (traces.pipeline(), {"selected": 75}, "no event #75"),
    ],
)
def test_timeline__refuses_in_words(given: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(WidgetError, match=message):
        BarrierTimeline(given, **arguments)


def test_timeline__refuses_more_events_than_anyone_reads() -> None:
    recorder = Recorder()
    for time in range(MAX_EVENTS + 1):
        recorder.emit("fence", time=time, cluster=0, rank=0, block=(0, 0, 0), warp=0, name="proxy.async")
    with pytest.raises(WidgetError, match="4001 events; up to 4000 are drawn"):
        BarrierTimeline(recorder.trace())


# ---- the figure ----


def words_of(figure: Any) -> list[str]:
    (axes,) = figure.axes
    return [text.get_text() for text in axes.texts]


def test_figure__names_phases_bytes_and_lanes() -> None:
    figure = BarrierTimeline(traces.pipeline()).figure()
    (axes,) = figure.axes
    lanes = [label.get_text() for label in axes.get_yticklabels()]
    assert lanes[:3] == ["warp 0", "warp 1", "transfers"]
    assert [name for name in lanes if "[" in name] == ["full[0]", "empty[0]", "full[1]", "empty[1]"]
    assert lanes.count("bytes missing") == 2  # the empty barriers count none
    words = words_of(figure)
    assert {"phase 0", "phase 1", "phase 2", "24576", "A 16384 B", "B 8192 B"} <= set(words)
    # Two loads of each operand in each of two stages.
    assert (words.count("A 16384 B"), words.count("B 8192 B")) == (4, 4)


def test_figure__of_one_cta_has_its_barrier_and_its_part_only() -> None:
    figure = draw_timeline(traces.multicast(), cta=(0, 3))
    (axes,) = figure.axes
    lanes = [label.get_text() for label in axes.get_yticklabels()]
    assert lanes == [
        "warp 0",
        "warp 1",
        "other CTAs",
        "transfers",
        "full[0]",
        "arrivals missing",
        "bytes missing",
    ]
    hue = matplotlib.colors.to_rgba(palette.QUADS_LIGHT[0])
    # 16 slices in each of two rounds land there.
    assert sum(patch.get_facecolor() == hue for patch in axes.patches) == 32


def test_figure__of_a_deadlock_says_so() -> None:
    figure = BarrierTimeline(traces.deadlock(), end=RuntimeError("no warp can go on\nwarp 0 waits")).figure()
    (axes,) = figure.axes
    assert axes.get_xlabel() == "ended with an error: no warp can go on"
    assert sum(patch.get_hatch() is not None for patch in axes.patches) == 2  # both warps wait for ever
    assert "8192" in words_of(figure)


@pytest.mark.parametrize("make", ALL)
def test_figure__is_the_same_each_time(make: Callable[[], Trace]) -> None:
    assert BarrierTimeline(make()).figure().png() == BarrierTimeline(make()).figure().png()


def boxes(figure: Any, hue: int) -> list[Any]:
    colour = matplotlib.colors.to_rgba(palette.QUADS_LIGHT[hue])
    return [patch for patch in figure.axes[0].patches if patch.get_facecolor() == colour]


def test_figure__of_an_allocation_that_blocks_shows_its_wait() -> None:
    figure = BarrierTimeline(traces.tensor_cores()).figure()
    # Blocked: an alloc, a dealloc, and a wait for the commit.
    assert len(boxes(figure, 2)) == len(traces.tensor_cores().waits()) == 3


def test_figure__of_mmas_has_a_bar_for_each_commit() -> None:
    trace = traces.tensor_cores()
    figure = BarrierTimeline(trace).figure()
    lanes = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert lanes[lanes.index("MMAs") + 1] == "full[0] of CTA 0"
    bars = boxes(figure, 3)
    assert [bar.get_linestyle() for bar in bars] == ["solid", "solid", "dashed"]
    assert [word for word in words_of(figure) if "MMA" in word] == [
        "2 MMAs 256×256×16",
        "1 MMA 256×256×16",
        "2 MMAs",
    ]
    assert [bar.get_x() + bar.get_width() for bar in bars][2] > max(
        b.get_x() + b.get_width() for b in bars[:2]
    )


@pytest.mark.parametrize("rank", [0, 1])
def test_figure__of_mmas_of_two_ctas_shows_them_in_both(rank: int) -> None:
    figure = draw_timeline(traces.tensor_cores(), cta=(0, rank))
    assert len(boxes(figure, 3)) == 3
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert {"issues an MMA", "an MMA is complete", "commits MMAs", "allocates or frees tensor memory"} <= set(
        legend
    )


def test_mma_groups__are_those_of_a_thread_up_to_its_next_commit() -> None:
    trace = traces.tensor_cores()
    issues, commits = trace.of("mma.issue").events, trace.of("mma.commit").events
    groups = mma_groups(trace)
    # An MMA that was complete when the commit came is one of those the commit is for.
    assert [one.issues for one in groups] == [issues[:2], issues[2:3], issues[3:]]
    assert [one.commit for one in groups] == [*commits, None]
    assert [one.done for one in groups] == [True, True, False]
    assert [one.label for one in groups] == [
        "2 MMAs 256×256×16",
        "1 MMA 256×256×16",
        "2 MMAs 128×64×16, no commit",
    ]
    # A trace that was cut may hold a commit without its MMAs, and completions of none.
    assert mma_groups(trace.of("mma.commit", "mma.complete")) == ()


def test_commit_arrivals__are_those_of_a_threads_commits_in_order() -> None:
    trace = traces.tensor_cores()
    first, second = (event.index for event in trace.of("mma.commit"))
    arrivals = [event.index for event in trace.of("mbarrier.arrive")]
    found = {index: commit.index for index, commit in commit_arrivals(trace).items()}
    assert found == dict(zip(arrivals, [first, first, second], strict=True))
    assert commit_arrivals(traces.pipeline()) == {}


# ---- what the emulator records ----


def test_by_warp__a_warps_arrivals_are_one_event() -> None:
    recorder = Recorder()
    barrier = {"rank": 0, "offset": 0, "name": "empty"}
    place: dict[str, Any] = {"cluster": 0, "block": (0, 0, 0), "line": 9}
    recorder.emit("mbarrier.init", time=1, rank=0, warp=0, lane=0, **place, barrier=barrier, count=6)
    left = 6
    for rank, warp, lane, time in [
        (0, 1, 0, 5),
        (1, 1, 0, 5),
        (0, 1, 1, 5),
        (0, 1, 2, 5),
        (0, 2, 0, 5),
        (0, 2, 1, 6),
    ]:
        if rank:  # another CTA's barrier in between keeps nothing apart
            other = {**barrier, "rank": 1}
            state = {"phase": 0, "pending": 3, "tx": 0}
        else:
            left -= 1
            other, state = barrier, {"phase": 0, "pending": left, "tx": 0}
        recorder.emit(
            "mbarrier.arrive", time=time, rank=rank, warp=warp, lane=lane, **place,
            barrier=other, count=1, dropped=0, state=state,
        )  # fmt: skip
    trace = recorder.trace()
    merged = by_warp(trace)
    assert [(e.index, e.rank, e.warp, e.lane, e["count"]) for e in merged.of("mbarrier.arrive")] == [
        (1, 0, 1, None, 3),
        (2, 1, 1, 0, 1),
        (5, 0, 2, 0, 1),
        (6, 0, 2, 1, 1),
    ]
    assert merged.events[1]["state"]["pending"] == 3
    assert merged.events[1]["lanes"] == 3
    assert BarrierTimeline(trace, selected=4).selected == 2  # the last that stands before it
    with pytest.raises(WidgetError, match="no event #7"):
        BarrierTimeline(trace, selected=7)


def test_timeline__names_barriers_as_the_page_does() -> None:
    trace = traces.pipeline()
    widget = BarrierTimeline(trace, names={"full[0]": "ready", 24: "free"})
    assert [name for *_, name in widget.trace["barriers"]] == ["ready", "empty[0]", "full[1]", "free"]
    with pytest.raises(WidgetError, match="name or offset 'fool'; it has 0, 16, 24, 8, 'empty"):
        BarrierTimeline(trace, names={"fool": "x"})


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_timeline__takes_what_the_emulator_records(seed: int) -> None:
    trace, error = emulated.two_loads(seed=seed)
    assert error is None
    assert [life.states[-1].phase for life in trace.barriers()] == [1, 1]
    assert expanded(compact(by_warp(trace))) == in_short(trace)
    lanes = [label.get_text() for label in BarrierTimeline(trace).figure().axes[0].get_yticklabels()]
    assert lanes[:4] == ["warp 0", "warp 1", "transfers", "full"]


def test_timeline__takes_a_deadlock_of_the_emulator() -> None:
    trace, error = emulated.two_loads(expected=768)
    assert error is not None
    widget = BarrierTimeline(trace, end=error)
    assert "waits for parity 0 of mbarrier full" in widget.end
    label = widget.figure().axes[0].get_xlabel()
    assert label.startswith("ended with an error: ")
    assert "no warp can go on" in label


@pytest.mark.parametrize("make", [traces.pipeline, traces.multicast, traces.deadlock])
def test_timeline__starts_at_the_first_event_that_does_something(make: Callable[[], Trace]) -> None:
    trace = make()
    widget = BarrierTimeline(trace)
    (first,) = (event for event in trace if event.index == widget.selected)
    assert (
        first.kind in {"mbarrier.arrive", "mbarrier.expect_tx", "tma.issue"} or first["outcome"] == "blocked"
    )
    shown = [event for event in trace if not widget.cta or [event.cluster, event.rank] == widget.cta]
    before = {event.kind for event in shown if event.index < first.index}
    assert not before & {"mbarrier.arrive", "mbarrier.expect_tx", "tma.issue"}


def test_timeline__of_one_barrier_keeps_it_and_its_transfers() -> None:
    trace = traces.pipeline()
    (name, *others) = sorted({barrier_name(event) for event in trace if event.data.get("barrier")})
    assert others
    part = of_barrier(trace, name)
    assert {barrier_name(event) for event in part if event.data.get("barrier")} == {name}
    issued = {event.index for event in part.of("tma.issue")}
    assert {event["transfer"] for event in part.of("tma.land")} == issued
    assert of_barrier(trace, "") is trace
    assert f"barrier='{name}'" in repr(BarrierTimeline(trace, barrier=name))
    with pytest.raises(WidgetError, match="no barrier 'nobody'; it has"):
        BarrierTimeline(trace, barrier="nobody")
