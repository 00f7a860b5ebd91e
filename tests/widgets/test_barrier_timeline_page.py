"""BarrierTimeline in Chromium: its arithmetic against the trace's own, and clicks, keys and words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from widgets import emulated, traces, umma_runs
from widgets.parts import cc, unnamed

from cutecourse.trace import KINDS, Recorder, Trace
from cutecourse.widgets import BarrierTimeline
from cutecourse.widgets.timeline_mmas import commit_arrivals, mma_groups, toucher
from cutecourse.widgets.traces import barrier_name, compact, of_barrier

pytestmark = pytest.mark.browser

ALL = [
    traces.pipeline,
    traces.multicast,
    traces.deadlock,
    traces.polling,
    traces.tensor_cores,
    lambda: emulated.two_loads(seed=3)[0],
    lambda: emulated.two_loads(expected=768)[0],
    lambda: umma_runs.recorded("umma_tile"),
    lambda: umma_runs.recorded("umma_two_sm_pipeline"),
]


# ---- arithmetic ----


@pytest.mark.parametrize("make", ALL)
def test_lives_transfers_mmas_and_waits__are_those_of_the_trace(
    make: Callable[[], Trace], javascript: Callable[..., Any]
) -> None:
    trace = make()
    found = javascript(
        "barrier_timeline.js",
        """const book = m.readBook(x);
           const index = (at) => (at === null ? null : book.events[at].index);
           return {
             lives: book.lives.map((life) => [
               [life.barrier.cluster, life.barrier.rank, life.barrier.offset], life.count,
               life.states.map((s) => [index(s.at), s.phase, s.pending, s.tx]),
               life.completions.map((c) => [book.events[c.at].time, c.phase]),
               life.to === null ? null : book.events[life.to].time]),
             transfers: book.transfers.map((one) => [one.issue.index,
               one.landings.map((e) => [e.time, e.cta.rank, e.data.offset, e.data.bytes]),
               one.read === null ? null : one.read.time]),
             mmas: book.mmas.map((one) => [one.issues.map((e) => e.index), one.commit?.index ?? null,
               one.completions.map((e) => e.index), one.done, one.label, one.count]),
             by: book.events.filter((e) => e.by).map((e) => [e.index, e.by.index]),
             waits: book.waits.map((w) => [w.event.cta.rank, w.event.warp, w.event.line,
               w.event.time, w.to === null ? null : book.events[w.to].time, w.tries]),
           };""",
        compact(trace),
    )
    assert found["lives"] == [
        [
            [life.cluster, life.rank, life.offset],
            life.count,
            [[s.event, s.phase, s.pending, s.tx] for s in life.states],
            [list(completion) for completion in life.completions],
            life.end,
        ]
        for life in trace.barriers()
    ]
    assert found["transfers"] == [
        [one.index, [[e.time, e.rank, e.offset, e.bytes] for e in one.landings], one.read]
        for one in trace.transfers()
    ]
    assert found["mmas"] == [
        [
            [event.index for event in one.issues],
            one.commit and one.commit.index,
            [event.index for event in one.completions],
            one.done,
            one.label,
            one.count,
        ]
        for one in mma_groups(trace)
    ]
    assert found["by"] == [[index, commit.index] for index, commit in commit_arrivals(trace).items()]
    assert found["waits"] == [
        [wait.rank, wait.warp, wait.line, wait.begin, wait.end, wait.tries] for wait in trace.waits()
    ]


@pytest.mark.parametrize("make", ALL)
def test_touches__are_the_ctas_that_the_figure_takes(
    make: Callable[[], Trace], javascript: Callable[..., Any]
) -> None:
    trace = make()
    ranks = toucher(trace)
    found = javascript(
        "barrier_timeline.js",
        """const book = m.readBook(x);
           return [0, 1].map((rank) => m.only(book, [0, rank]).events.map((e) => e.index));""",
        compact(trace),
    )
    assert found == [[event.index for event in trace if rank in ranks(event)] for rank in (0, 1)]


SAMPLE: dict[str, Any] = {
    "count": 1, "dropped": 0, "bytes": 64, "transfer": 0, "phase": 1, "parity": 1, "outcome": "passed",
    "name": "try_wait", "operation": "load", "tensor": "A", "coords": [0, 64], "box": [64, 8], "mask": 3,
    "destinations": [{"rank": 0, "offset": 0}], "source": 0, "offset": 16, "group": 2, "left": 0,
    "read": True, "number": 4, "columns": 32, "address": 5 << 16 | 7, "shape": "32x32b", "registers": 16,
    "issue": 0, "issues": [0], "m": 256, "n": 64, "k": 16, "types": "f32.f16.bf16", "a": 1 << 62,
    "b": 1 << 62, "d": 9, "idesc": 1, "accumulate": True, "barrier": {"rank": 0, "offset": 8, "name": "full"},
    "state": {"phase": 0, "pending": 1, "tx": 0}, "lanes": 32,
    "touches": [{"space": "shared", "rank": 0, "range": [0, 128], "writes": False}],
}  # fmt: skip
"""Something for each name in an event's data."""


@pytest.mark.parametrize("kind", KINDS)
def test_sentences__are_there_for_every_kind_of_event(kind: str, javascript: Callable[..., Any]) -> None:
    recorder = Recorder()
    recorder.begin(kernel="k", grid=(2, 1, 1), block=(64, 1, 1), cluster=(2, 1, 1))
    data = {name: SAMPLE[name] for name in KINDS[kind]}
    outcomes = ["passed", "blocked", *(["false"] if kind == "mbarrier.wait" else [])]
    for outcome in outcomes if "outcome" in data else [""]:
        given = data | ({"outcome": outcome} if outcome else {})
        recorder.emit(kind, time=1, cluster=0, rank=0, block=(0, 0, 0), warp=3, line=77, **given)
    found = javascript(
        "barrier_timeline.js",
        """const book = m.readBook(x);
           return book.events.map((e) => [m.sentence(e, null, book), m.markOf(e)]);""",
        compact(recorder.trace()),
    )
    for words, mark in found:
        assert kind == "fence" or kind not in words
        assert "undefined" not in words
        assert "null" not in words
        assert len(words.split()) > 2
        assert mark
    assert len({words for words, _ in found}) == len(found) == (len(outcomes) if "outcome" in data else 1)


def test_sentences__of_tensor_cores(javascript: Callable[..., Any]) -> None:
    trace = traces.tensor_cores()
    said = javascript(
        "barrier_timeline.js",
        "const book = m.readBook(x); return book.events.map((e) => m.sentence(e, null, book));",
        compact(trace),
    )
    numbers = [event.index for event in trace.of("mma.issue")]
    commits = [event.index for event in trace.of("mma.commit")]
    arrivals = [event.index for event in trace.of("mbarrier.arrive")]
    first, fourth = numbers[0], numbers[3]
    expected = {
        first: """CTA 0 warp 0 lane 0 issues MMA #9 at line 40: 256×256×16, f16 times f16; D is f32 at lane 0,
            column 0 of tensor memory and is overwritten; A and B are in shared memory; both CTAs of the pair
            take part""",
        fourth: """CTA 0 warp 0 lane 0 issues MMA #24 at line 50: 128×64×16, f16 times f16; D is f32 at lane
            32, column 192 of tensor memory and is added to; A is at lane 32, column 64 of tensor memory, B in
            shared memory; both CTAs of the pair take part""",
        first + 2: "MMA #9 (256×256×16, issued by CTA 0 warp 0 lane 0) is complete",
        commits[0]: """CTA 0 warp 0 lane 0 commits for the pair at line 44: when 1 MMA of its thread (#10) is
            complete, it arrives at barrier full[0] of CTAs 0, 1 (multicast mask 0x0003)""",
        commits[
            1
        ]: """CTA 0 warp 0 lane 0 commits for the pair at line 46: when 2 MMAs of its thread (#10, #13)
            are complete, it arrives at barrier full[0] of CTA 0""",
        arrivals[1]: "commit #12 of CTA 0 warp 0 lane 0 at line 44 arrives at barrier full[0] of CTA 1",
        arrivals[2]: "commit #14 of CTA 0 warp 0 lane 0 at line 46 arrives at barrier full[0] of CTA 0",
    }
    of = {kind: trace.of(kind).events[0].index for kind in KINDS if trace.of(kind).events}
    expected |= {
        of[
            "tmem.alloc"
        ]: """CTA 1 warp 2 at line 30 waits for 256 columns of tensor memory in both CTAs of the
            pair""",
        of["tmem.alloc"]
        + 1: """CTA 0 warp 2 at line 30 allocates 256 columns of tensor memory in both CTAs of
            the pair, from column 0 on""",
        of[
            "tmem.dealloc"
        ]: """CTA 0 warp 2 at line 80 waits for the other CTA of the pair, to free 256 columns of
            tensor memory in both CTAs of the pair""",
        of[
            "tmem.copy"
        ]: """CTA 0 warp 0 lane 0 at line 35 issues a copy from shared memory to lane 0, column 128
            of tensor memory in both CTAs of the pair""",
        of[
            "tmem.load"
        ]: """CTA 1 warp 1 at line 70 loads 32 registers a thread from lane 32, column 96 of tensor
            memory on, shape 32x32b""",
        of["tmem.wait"]: """CTA 1 warp 1 at line 71 executes tcgen05.wait::ld: its earlier loads from tensor
            memory are complete""",
    }
    assert {index: said[index] for index in expected} == {
        index: " ".join(words.split()) for index, words in expected.items()
    }


def test_sentences__hold_every_number_of_every_event(javascript: Callable[..., Any]) -> None:
    for make in ALL:
        trace = make()
        found = javascript(
            "barrier_timeline.js",
            """const book = m.readBook(x);
               return book.events.map((e) => m.sentence(e, null, book));""",
            compact(trace),
        )
        for event, words in zip(trace, found, strict=True):
            data = event.data
            needed = [str(data[name]) for name in ("bytes", "parity", "number") if name in data]
            needed += [str(data["group"])] if event.kind == "bulk.commit" else []
            needed += [
                str(data[name]) for name in ("columns", "registers", "shape", "m", "n", "k") if name in data
            ]
            needed += [f"#{data[name]}" for name in ("issue",) if name in data]
            issues = data.get("issues", [])  # of many, the first and the last
            needed += [f"#{index}" for index in (issues if len(issues) < 5 else [issues[0], issues[-1]])]
            needed += [f"{len(issues)} MMA"] if issues else []
            needed += [str(data[name] & 0xFFFF) for name in ("address", "d") if data.get(name) is not None]
            needed += data.get("types", "").split(".")
            needed += ["pair"] if event.kind.startswith("mma.") and data.get("group") == 2 else []
            needed += [str(data[name]) for name in ("tensor", "operation") if data.get(name)]
            needed += [f"({','.join(map(str, data[name]))})" for name in ("coords", "box") if data.get(name)]
            needed += [f"#{data['transfer']}"] if data.get("transfer") is not None else []
            needed += [
                f"CTA {to['rank']} " for to in data.get("destinations", ()) if len(data["destinations"]) > 1
            ]
            needed += [f"0x{data['mask']:04x}"] if data.get("mask") else []
            needed += [data["barrier"]["name"]] if data.get("barrier") else []
            needed += [f"line {event.line}"] if event.line is not None and event.warp is not None else []
            needed += [f"warp {event.warp}"] if event.warp is not None else []
            for part in needed:
                assert part in words, (event, words)


# ---- on the page ----


def test_page__stepping_shows_every_barriers_state_after_each_event(mount: Any) -> None:
    trace = traces.pipeline()
    page = mount(BarrierTimeline(trace))
    assert cc(page, "event").count() == len(trace)
    cc(page, "plot").focus()
    page.keyboard.press("Home")
    lives = trace.barriers()
    for event in trace:
        if event.index:
            page.keyboard.press("ArrowRight")
        assert cc(page, "where").inner_text().startswith(f"event #{event.index} · time {event.time} · ")
        expected = []
        for life in lives:
            states = [s for s in life.states if s.event <= event.index]
            if states:
                now = states[-1]
                expected.append(
                    [f"{now.phase} parity {now.phase % 2}", f"{now.pending} of {life.count}", str(now.tx)]
                )
        shown = page.evaluate(
            """() => [...document.querySelectorAll('[data-cc="barrier"]')].map((row) =>
                 ["phase-now", "pending-now", "tx-now"].map(
                   (name) => row.querySelector(`[data-cc=${name}]`).innerText))"""
        )
        assert shown == expected, event
    page.keyboard.press("ArrowRight")  # the end holds
    assert cc(page, "count").inner_text() == f"{len(trace)} of {len(trace)}"


def test_page__a_wait_says_what_it_waits_for_and_who_waits(mount: Any) -> None:
    trace = traces.pipeline()
    page = mount(BarrierTimeline(trace))
    wait = next(e for e in trace.of("mbarrier.wait") if e["outcome"] == "blocked" and e["parity"] == 1)
    cc(page, "event").and_(page.locator(f'[data-index="{wait.index}"]')).click()
    assert cc(page, "words").inner_text() == (
        "Warp 1 waits at line 120 for barrier full[0], parity 1: "
        "phase 1 under way, 0 arrivals and 24576 bytes missing."
    )
    resumed = next(e for e in trace.of("mbarrier.resume") if e.index > wait.index)
    then = f"It goes on with event #{resumed.index}, at time {resumed.time}."
    assert cc(page, "then").inner_text() == then
    waiting = cc(page, "barrier").locator('[data-cc="waiting-now"]').all_inner_texts()
    assert waiting == ["warp 1 (parity 1)", "–", "–", "–"]
    assert page.evaluate("document.activeElement.dataset.cc") == "plot"
    chosen = page.locator('[role=option][aria-selected="true"]')
    assert chosen.get_attribute("id") == cc(page, "plot").get_attribute("aria-activedescendant")
    assert chosen.get_attribute("aria-label").startswith("warp 1 waits at line 120 for barrier full[0]")


def test_page__a_wait_bar_goes_from_block_to_resume_and_a_phase_is_as_long_as_it_was(mount: Any) -> None:
    trace = traces.pipeline()
    page = mount(BarrierTimeline(trace))
    middle = "(e) => { const b = e.getBoundingClientRect(); return b.left + b.width / 2; }"

    def x(index: int) -> float:
        return float(page.locator(f'[data-cc="event"][data-index="{index}"]').evaluate(middle))

    bars = cc(page, "wait").all()
    assert len(bars) == len(trace.waits()) == 4
    for bar, wait in zip(bars, trace.waits(), strict=True):
        begin = next(e.index for e in trace if e.time == wait.begin and e.kind == "mbarrier.wait")
        end = next(e.index for e in trace if e.time == wait.end and e.kind == "mbarrier.resume")
        box = bar.bounding_box()
        assert abs(box["x"] - x(begin)) < 2
        assert abs(box["x"] + box["width"] - x(end)) < 2
    for life in trace.barriers():
        found = cc(page, "phase", barrier=trace.barriers().index(life)).evaluate_all(
            "all => all.map((p) => +p.dataset.phase)"
        )
        assert found == list(range(life.states[-1].phase + 1))


def test_page__buttons_slider_and_lanes_choose_events(mount: Any) -> None:
    trace = traces.pipeline()
    page = mount(BarrierTimeline(trace))
    cc(page, "last").click()
    assert cc(page, "where").inner_text().startswith(f"event #{trace.events[-1].index} ·")
    cc(page, "prev").click()
    assert cc(page, "count").inner_text() == f"{len(trace) - 1} of {len(trace)}"
    cc(page, "first").click()
    assert cc(page, "words").inner_text() == (
        "Warp 0 lane 0 initialises barrier full[0] at line 41 for 1 arrival a phase: "
        "phase 0 under way, 1 arrival and 0 bytes missing."
    )
    cc(page, "slider").focus()
    page.keyboard.press("ArrowRight")
    assert cc(page, "where").inner_text().startswith("event #1 ·")
    assert "initialises barrier empty[0]" in cc(page, "slider").get_attribute("aria-valuetext")
    cc(page, "plot").focus()
    page.keyboard.press("ArrowDown")  # the nearest event of warp 1
    first = next(event for event in trace if event.warp == 1)
    assert cc(page, "where").inner_text().startswith(f"event #{first.index} ·")
    page.keyboard.press("ArrowUp")
    assert "Warp 0" in cc(page, "words").inner_text()
    page.keyboard.press("End")
    assert cc(page, "count").inner_text() == f"{len(trace)} of {len(trace)}"
    narrow = cc(page, "plot").bounding_box()["width"]
    cc(page, "wider").click()
    assert cc(page, "plot").bounding_box()["width"] > 1.2 * narrow


def test_page__a_transfer_says_where_its_bytes_go_and_when_they_land(mount: Any) -> None:
    trace = traces.multicast(ctas=4)
    page = mount(BarrierTimeline(trace))
    issue = trace.transfers()[0]
    cc(page, "event").and_(page.locator(f'[data-index="{issue.index}"]')).click()
    words = cc(page, "words").inner_text()
    for part in ("CTA 0 warp 0 lane 0 issues", "a load of A", "1024 bytes", "CTA 3 0x400", "mask 0x000f"):
        assert part in words
    assert cc(page, "then").inner_text() == f"Its bytes land in 4 parts, the last at time {issue.last}."


def test_page__a_cluster_is_read_one_cta_at_a_time(mount: Any) -> None:
    trace = traces.multicast(ctas=16)
    page = mount(BarrierTimeline(trace, selected=trace.transfers()[0].index))
    assert cc(page, "cta").input_value() == "0,0"
    few = cc(page, "event").count()
    assert few < 150
    assert len(trace) > 1000
    cc(page, "cta").select_option("0,5")
    assert cc(page, "lane").locator("b").all_inner_texts()[:3] == ["warp 0", "warp 1", "other CTAs"]
    assert [row.inner_text() for row in cc(page, "barrier").locator(".cc-name").all()] == ["full[0]"]
    assert cc(page, "flight").count() == 32
    landed = page.locator('[data-cc="event"][data-kind="tma.land"]')
    assert landed.count() == 32
    assert "of CTA 5's shared memory" in landed.first.get_attribute("aria-label")
    wait = trace.where(rank=5).of("mbarrier.wait").events[0]
    cc(page, "event").and_(page.locator(f'[data-index="{wait.index}"]')).click()
    assert cc(page, "waiting-now").all_inner_texts() == ["warp 1 (parity 0)"]
    cc(page, "cta").select_option("")
    assert cc(page, "waiting-now").all_inner_texts()[5] == "CTA 5 warp 1 (parity 0)"
    assert cc(page, "event").count() == len(trace)
    assert cc(page, "barrier").count() == 16


def test_page__a_deadlock_is_shown_as_the_end(mount: Any) -> None:
    text = "no warp can go on\nwarp 0, line 120: full[0], parity 0, 8192 bytes missing"
    page = mount(BarrierTimeline(traces.deadlock(), end=text))
    assert text in cc(page, "ended").inner_text()
    never = cc(page, "wait", never="yes")
    assert never.count() == 2
    edge = page.locator(".cc-end").bounding_box()["x"]
    for bar in never.all():
        box = bar.bounding_box()
        assert abs(box["x"] + box["width"] - edge) < 6
    cc(page, "last").click()
    assert cc(page, "tx-now").inner_text() == "8192"
    assert cc(page, "waiting-now").inner_text() == "warp 0 (parity 0), warp 1 (parity 0)"
    page.locator('[data-cc="event"][data-kind="mbarrier.wait"]').first.click()
    assert cc(page, "then").inner_text() == "It never goes on."


def test_page__a_loop_around_test_wait_is_one_wait_and_a_second_life_another_barrier(mount: Any) -> None:
    trace = traces.polling()
    page = mount(BarrierTimeline(trace))
    assert cc(page, "ended").is_hidden()
    first = next(e for e in trace if e.data.get("outcome") == "false")
    cc(page, "event").and_(page.locator(f'[data-index="{first.index}"]')).click()
    assert "asks with test_wait and hears no at line 20" in cc(page, "words").inner_text()
    assert "It goes on after 3 tries" in cc(page, "then").inner_text()
    assert cc(page, "phase").evaluate_all("all => all.map((p) => +p.dataset.phase)") == [0, 1, 0]
    inval = next(e for e in trace if e.kind == "mbarrier.inval")
    cc(page, "event").and_(page.locator(f'[data-index="{inval.index}"]')).click()
    assert cc(page, "barrier").count() == 0


@pytest.mark.parametrize("cta", ["all", 0, 1])
def test_page__mmas_are_bars_in_every_cta_that_takes_part(cta: Any, mount: Any) -> None:
    trace = traces.tensor_cores()
    page = mount(BarrierTimeline(trace, cta=cta), width=1300)
    lanes = cc(page, "lane").evaluate_all("all => all.map((e) => e.dataset.lane.split(/[ /]/)[0])")
    assert [lane for lane in lanes if lane in {"mma", "barrier"}][:3] == ["mma", "mma", "barrier"]
    assert cc(page, "lane").locator("b", has_text="MMAs").count() == 1
    middle = "(e) => { const b = e.getBoundingClientRect(); return b.left + b.width / 2; }"

    def x(index: int) -> float:
        return float(page.locator(f'[data-cc="event"][data-index="{index}"]').evaluate(middle))

    groups = mma_groups(trace)
    bars = cc(page, "mmas").all()
    assert len(bars) == len(groups) == 3
    for bar, group in zip(bars, groups, strict=True):
        assert bar.get_attribute("data-done") == ("yes" if group.done else "no")
        box = bar.bounding_box()
        assert abs(box["x"] - x(group.issues[0].index)) < 2
        assert box["x"] + box["width"] - x(group.completions[-1].index) > (-2 if group.done else 20)
        for event in group.completions:
            mark = page.locator(f'[data-cc="event"][data-index="{event.index}"]').bounding_box()
            assert box["y"] - 2 < mark["y"] + mark["height"] / 2 < box["y"] + box["height"] + 2
    # The first commit's arrival at CTA 0 stands behind its MMAs, in their lane.
    arrival = trace.of("mbarrier.arrive").events[cta if cta != "all" else 0]
    mark = page.locator(f'[data-cc="event"][data-index="{arrival.index}"]').bounding_box()
    box = bars[0].bounding_box()
    assert box["y"] - 2 < mark["y"] + mark["height"] / 2 < box["y"] + box["height"] + 2
    shown = page.locator(".cc-legend").inner_text()
    for name in ("issues an MMA", "an MMA is complete", "commits MMAs", "reads or writes tensor memory"):
        assert name in shown


def test_page__an_mma_says_when_it_is_complete_and_a_commit_when_it_arrives(mount: Any) -> None:
    trace = traces.tensor_cores()
    page = mount(BarrierTimeline(trace))

    def then(event: Any) -> str:
        cc(page, "event").and_(page.locator(f'[data-index="{event.index}"]')).click()
        return str(cc(page, "then").inner_text())

    issues, commits = trace.of("mma.issue").events, trace.of("mma.commit").events
    first, *_, last = trace.of("mma.complete").events
    arrivals = trace.of("mbarrier.arrive").events
    assert then(issues[0]) == (
        f"It is complete at time {first.time}, event #{first.index}; commit #{commits[0].index} follows."
    )
    assert then(issues[3]) == "It is not complete at the end; no commit of its thread follows."
    assert then(issues[4]).startswith(f"It is complete at time {last.time}, event #{last.index}; no commit")
    one, two, three = arrivals
    assert then(commits[0]) == (
        f"Its 2 arrivals come at times {one.time} to {two.time}, events #{one.index} to #{two.index}."
    )
    assert then(commits[1]) == f"It arrives at time {three.time}, with event #{three.index}."


def test_page__an_allocation_that_blocks_is_a_wait_and_tcgen05_wait_is_none(mount: Any) -> None:
    trace = traces.tensor_cores()
    page = mount(BarrierTimeline(trace))
    assert cc(page, "wait").count() == len(trace.waits()) == 3
    blocked, _, passed = trace.of("tmem.alloc").events
    cc(page, "event").and_(page.locator(f'[data-index="{blocked.index}"]')).click()
    then = f"It goes on with event #{passed.index}, at time {passed.time}."
    assert cc(page, "then").inner_text() == then
    wait = trace.of("tmem.wait").events[0]
    cc(page, "event").and_(page.locator(f'[data-index="{wait.index}"]')).click()
    assert cc(page, "then").count() == 0


@pytest.mark.parametrize("width", [360, 768, 1300])
def test_page__scrolls_inside_itself_and_keeps_the_chosen_event_in_view(width: int, mount: Any) -> None:
    page = mount(BarrierTimeline(traces.pipeline(k_tiles=16)), width=width)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    view = page.locator(".cc-timeline-scroll").bounding_box()
    lanes = page.locator(".cc-lanes").bounding_box()
    for button in ("last", "first"):
        cc(page, button).click()
        box = page.locator('[role=option][aria-selected="true"]').bounding_box()
        assert lanes["x"] + lanes["width"] <= box["x"] + 8
        assert box["x"] + box["width"] <= view["x"] + view["width"] + 1


def test_page__shows_the_lane_of_the_chosen_event(mount: Any) -> None:
    trace = traces.multicast(ctas=10, rounds=1)
    page = mount(BarrierTimeline(trace, cta="all"), width=768)
    view = page.locator(".cc-timeline-scroll").bounding_box()
    assert cc(page, "plot").bounding_box()["height"] > 1.5 * view["height"]
    cc(page, "last").click()
    page.locator(".cc-timeline-scroll").evaluate("(e) => { e.scrollTop = 0; }")
    cc(page, "plot").focus()
    landing = trace.of("tma.land").events[-1]
    for _ in range(len(trace) - landing.index):
        page.keyboard.press("ArrowLeft")
        box = page.locator('[role=option][aria-selected="true"]').bounding_box()
        assert view["y"] <= box["y"] + box["height"] / 2 <= view["y"] + view["height"]
    assert cc(page, "where").inner_text().startswith(f"event #{landing.index - 1} ")
    assert page.locator(".cc-timeline-scroll").evaluate("(e) => e.scrollTop") > 0


def test_page__controls_are_named_and_ids_unique(mount: Any) -> None:
    one = BarrierTimeline(traces.multicast(ctas=2))
    page = mount(one, one, BarrierTimeline(traces.deadlock()))
    assert unnamed(page) == []
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    first, second = cc(page, "timeline").all()[:2]
    cc(first, "last").click()  # two views of one model
    assert cc(second, "count").inner_text() == cc(first, "count").inner_text()


@pytest.mark.parametrize("make", [traces.pipeline, traces.multicast, traces.deadlock])
def test_one_barrier__shows_the_events_that_the_figure_takes(
    make: Callable[[], Trace], javascript: Callable[..., Any]
) -> None:
    trace = make()
    names = sorted({barrier_name(event) for event in trace if event.data.get("barrier")})
    found = javascript(
        "barrier_timeline.js",
        """const book = m.readBook(x[0]);
           return x[1].map((name) => m.only(book, null, name).events.map((e) => e.index));""",
        [compact(trace), names],
    )
    assert found == [[event.index for event in of_barrier(trace, name)] for name in names]


def test_one_barrier__is_chosen_in_the_view(mount: Callable[..., Any]) -> None:
    trace = traces.pipeline()
    name, *_ = sorted({barrier_name(event) for event in trace if event.data.get("barrier")})
    page = mount(BarrierTimeline(trace))
    lanes = page.locator('[data-cc="lane"].cc-lane-barrier')
    assert lanes.count() > 1
    cc(page, "only-barrier").select_option(name)
    assert lanes.count() == 1
    assert name in lanes.first.inner_text()
