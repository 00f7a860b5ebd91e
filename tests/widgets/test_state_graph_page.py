"""StateGraph in Chromium: keys, clicks and buttons walk; what it says is what Python computed."""

from __future__ import annotations

import random
from typing import Any

import pytest
from widgets.parts import cc
from widgets.test_state_graph import NAMES

from cutecourse.protocols import pipeline
from cutecourse.widgets import StateGraph
from cutecourse.widgets.state_paths import follow_way, nearest, shortest_way

pytestmark = pytest.mark.browser


SHOWN = """() => {
  const all = (name) => [...document.querySelectorAll(`[data-cc=${name}]`)];
  return {
    at: document.querySelector(".cc-states-board .cc-chosen").dataset.at,
    barriers: all("phase").map((e, i) => [e, all("parity")[i], all("missing")[i]].map((e) => e.textContent)),
    next: all("action").filter((e) => e.ariaCurrent).map((e) => [+e.dataset.thread, +e.dataset.number]),
    free: all("act").map((e) => !e.disabled),
  };
}"""


def test_page__every_step_of_a_random_walk_says_what_python_says(mount: Any) -> None:
    rng = random.Random(31)
    widget = StateGraph(pipeline(2, 4), without=(0, 6))
    page = mount(widget)
    cc(page, "board").focus()
    states, now = widget.states, 0
    lengths = [len(one["actions"]) for one in widget.graph["threads"]]
    while any(after >= 0 for after in states[now]["to"]):
        state = states[now]
        shown = page.evaluate(SHOWN)
        assert shown["at"] == ",".join(map(str, state["at"]))
        assert shown["barriers"] == [
            [f"{phase}", f"{phase % 2}", f"{missing} of 1"] for phase, missing in state["barriers"]
        ]
        assert shown["free"] == [after >= 0 for after in state["to"]]
        places = [(0, state["at"][0] + (state["at"][0] >= 6)), (1, state["at"][1])]
        assert shown["next"] == [[thread, number] for thread, number in places if number < lengths[thread]]
        thread = rng.choice([thread for thread in (0, 1) if state["to"][thread] >= 0])
        page.keyboard.press(("ArrowUp", "ArrowDown")[thread])
        now = state["to"][thread]
    assert page.evaluate(SHOWN)["at"] == ",".join(map(str, states[now]["at"]))


def test_javascript__finds_the_same_ways_as_python(javascript: Any) -> None:
    widget = StateGraph(pipeline(2, 4))
    for variant in widget.graph["variants"]:
        states = variant["states"]
        for kind in ("deadlock", "race", "end"):
            body = "return m.wayFrom(x[0], 0, (state) => state.kind === x[1])"
            found = javascript("state_graph.js", body, [states, kind])
            target = nearest(states, kind)
            if target is None:
                assert found is None
            else:
                assert len(found) == len(shortest_way(states, target))
                assert javascript(
                    "state_graph.js", "return m.statesOn(x[0], x[1])", [states, found]
                ) == follow_way(states, found)


def test_page__a_wait_taken_away_shows_the_way_to_the_deadlock(mount: Any) -> None:
    page = mount(StateGraph(pipeline(2, 3), **NAMES))
    assert cc(page, "ahead").count() == 0
    assert cc(page, "goal", kind="deadlock").is_disabled()
    assert "From here no order hangs." in cc(page, "state").inner_text()
    cc(page, "removed").select_option(label="producer 7: wait for empty[0], parity 0")
    assert cc(page, "ahead").count() == 1
    assert "The dashed way leads to a deadlock in 8 steps." in cc(page, "state").inner_text()
    assert page.locator(".cc-states-gone").inner_text() == "wait for empty[0], parity 0"
    cc(page, "board").focus()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    words = cc(page, "words").all_inner_texts()
    assert words[0] == "Deadlock: no thread can act any more."
    assert words[1] == "producer is at its end."
    assert "it asks for parity 0, and full[0] is in phase 2, whose parity is 0. Phase 0" in words[2]
    page.keyboard.press("ArrowLeft")
    assert cc(page, "count").inner_text() == "7 steps"
    page.keyboard.press("Home")
    cc(page, "goal", kind="race").click()
    assert cc(page, "words").first.inner_text() == (
        "Race: producer is about to write stage 0, consumer is about to read stage 0, "
        "and nothing orders the two."
    )
    # The walked way leads back to any of its states, and on to any state that an order reaches from here.
    cc(page, "dot", at="1,0").click()
    assert cc(page, "count").inner_text() == "1 step"
    cc(page, "dot", at="8,0").click()
    assert cc(page, "words").first.inner_text() == words[0]
    cc(page, "dot", at="8,9").click()
    assert cc(page, "words").first.inner_text().startswith("The end")


@pytest.mark.parametrize("width", [390, 900])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page__fits_and_every_state_can_be_touched(width: int, theme: str, mount: Any) -> None:
    page = mount(StateGraph(pipeline(2, 3), without=(1, 3), **NAMES), width=width, theme=theme)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    for box in page.locator(".cc-states-board .cc-hit").evaluate_all(
        "all => all.map((e) => [e.getBoundingClientRect().width, e.getBoundingClientRect().height])"
    ):
        assert min(box) >= 24
