"""BarrierTimeline in Chromium: its arithmetic against the trace's own, and clicks, keys and words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from widgets import emulated, traces

from cutecourse.trace import Trace
from cutecourse.widgets import BarrierTimeline
from cutecourse.widgets.traces import compact

pytestmark = pytest.mark.browser

ALL = [
    traces.pipeline,
    traces.multicast,
    traces.deadlock,
    traces.polling,
    lambda: emulated.two_loads(seed=3)[0],
    lambda: emulated.two_loads(expected=768)[0],
]


def cc(scope: Any, name: str, **data: Any) -> Any:
    more = "".join(f'[data-{key}="{value}"]' for key, value in data.items())
    return scope.locator(f'[data-cc="{name}"]{more}')


# ---- arithmetic ----


@pytest.mark.parametrize("make", ALL)
def test_lives_transfers_and_waits__are_those_of_the_trace(
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
    assert found["waits"] == [
        [wait.rank, wait.warp, wait.line, wait.begin, wait.end, wait.tries] for wait in trace.waits()
    ]


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
            needed = [str(data[name]) for name in ("bytes", "parity", "group", "number") if name in data]
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
    cc(page, "cta").select_option("")
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


def test_page__controls_are_named_and_ids_unique(mount: Any) -> None:
    one = BarrierTimeline(traces.multicast(ctas=2))
    page = mount(one, one, BarrierTimeline(traces.deadlock()))
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll(
                     "input, select, button, [role=listbox], [role=option], [role=table]")]
             .filter((e) => e.getClientRects().length)
             .filter((e) => !(e.getAttribute("aria-label") || e.labels?.length || e.textContent.trim()))
             .map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    first, second = cc(page, "timeline").all()[:2]
    cc(first, "last").click()  # two views of one model
    assert cc(second, "count").inner_text() == cc(first, "count").inner_text()
