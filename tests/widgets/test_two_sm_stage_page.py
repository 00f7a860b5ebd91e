"""TwoSmStage in Chromium: what it shows after each step, its keys and buttons, narrow and dark pages."""

from __future__ import annotations

from typing import Any

import pytest
from widgets.parts import cc, unnamed
from widgets.umma_runs import traced

from cutecourse import palette
from cutecourse.widgets import TwoSmStage

pytestmark = pytest.mark.browser


SHOWN = """() => {
  const all = (name, scope = document) => [...scope.querySelectorAll(`[data-cc=${name}]`)];
  const text = (node) => node?.innerText ?? "";
  return {
    words: text(all("words")[0]),
    landed: all("landed").map(text),
    parts: all("segment").map(({ dataset }) => [+dataset.cta, +dataset.load, +dataset.landed]),
    barriers: all("barrier").map((box) =>
      ["phase-now", "pending-now", "tx-now"].map((name) => text(all(name, box)[0]))),
    mmas: all("mma").map((e) => e.dataset.state),
  };
}"""


def test_page__every_step_shows_what_python_says(mount: Any) -> None:
    widget = TwoSmStage(traced("umma_two_sm_pipeline"), pair=2, k_tile=3)
    page = mount(widget)
    stage = widget.stage
    barriers = [list(one["start"]) for one in stage["barriers"]]
    landed = [[0] * len(stage["loads"]) for _ in stage["ctas"]]
    issued = complete = 0
    cc(page, "board").focus()
    for number, step in enumerate(widget.steps):
        if number:
            page.keyboard.press("ArrowRight")
        for at, *values in step["barriers"]:
            barriers[at] = values
        if "land" in step:
            landed[step["land"][0]][step["land"][1]] += step["land"][2]
        issued, complete = step.get("issued", issued), step.get("complete", complete)
        shown = page.evaluate(SHOWN)
        assert shown["words"] == step["words"]
        assert shown["landed"] == [f"{sum(row)} of 32768 bytes" for row in landed]
        assert len(shown["parts"]) == 12
        for cta, load, done in shown["parts"]:
            assert done == landed[cta][load]
        for row, (phase, pending, tx), one in zip(
            shown["barriers"], barriers, stage["barriers"], strict=True
        ):
            assert row[:2] == [f"{phase} (parity {phase % 2})", f"{pending} of {one['count']}"]
            text = "" if one["role"] == "empty" else str(tx) if tx >= 0 else f"{tx} ({-tx} early)"
            assert row[2] == text
        assert shown["mmas"] == [
            "complete" if i < complete else "issued" if i < issued else "open" for i in range(4)
        ]
    assert cc(page, "count").inner_text() == f"{len(widget.steps)} of {len(widget.steps)}"
    assert cc(page, "tensor-now").all_inner_texts() == ["holds the sum of k-tiles 0 to 3"] * 2
    page.keyboard.press("ArrowRight")  # the end holds
    assert cc(page, "count").inner_text().startswith(f"{len(widget.steps)} of")


def test_page__buttons_slider_keys_and_parts_choose_steps(mount: Any) -> None:
    widget = TwoSmStage(traced("umma_two_sm"))
    page = mount(widget)
    acts = [step["act"] for step in widget.steps]
    cc(page, "last").click()
    assert cc(page, "words").inner_text() == widget.steps[-1]["words"]
    cc(page, "prev").click()
    assert cc(page, "words").inner_text() == widget.steps[-2]["words"]
    cc(page, "act", act="mma").click()
    assert cc(page, "words").inner_text() == widget.steps[acts.index("mma")]["words"]
    assert cc(page, "ptx").inner_text().startswith("tcgen05.mma.cta_group::2.kind::f16")
    assert cc(page, "act", act="mma").get_attribute("aria-pressed") == "true"
    assert cc(page, "mma", state="issued").count() == 1
    assert cc(page, "tensor-now", cta=1).inner_text() == "being written: 1 of 4 MMAs issued, 0 complete"
    cc(page, "board").focus()
    page.keyboard.press("PageDown")
    assert cc(page, "words").inner_text() == widget.steps[acts.index("commit")]["words"]
    page.keyboard.press("PageUp")
    assert cc(page, "mma", state="issued").count() == 4
    page.keyboard.press("Home")
    assert cc(page, "count").inner_text() == f"1 of {len(acts)}"
    cc(page, "slider").focus()
    page.keyboard.press("ArrowRight")
    assert cc(page, "words").inner_text() == widget.steps[1]["words"]
    assert cc(page, "slider").get_attribute("aria-valuetext") == widget.steps[1]["words"]


def test_page__a_landing_marks_its_bytes_and_the_barrier_that_counts_them(mount: Any) -> None:
    widget = TwoSmStage(traced("umma_two_sm"))
    at, step = next((i, s) for i, s in enumerate(widget.steps) if s.get("land", [0])[0] == 1)
    widget.selected = at
    page = mount(widget)
    marked = page.locator(".cc-now").evaluate_all(
        "all => all.map((e) => [e.dataset.cc, e.dataset.cta ?? ''])"
    )
    # The bytes lie in the peer; the barrier is the leader's.
    assert sorted(marked) == [["barrier", ""], ["cta", "1"], ["segment", "1"]]
    assert cc(page, "cta", cta=0).locator(".cc-stage-barrier.cc-now").count() == 1
    assert f"{step['land'][2]} bytes" in cc(page, "words").inner_text()
    assert cc(page, "cta", cta=1).inner_text().count("not used: the leader's counts the bytes of both") == 1


@pytest.mark.parametrize("width", [360, 768, 1300])
@pytest.mark.parametrize("name", ["umma_two_sm_pipeline", "umma_tma"])
def test_page__fits_and_leader_and_peer_stand_beside_each_other(name: str, width: int, mount: Any) -> None:
    page = mount(TwoSmStage(traced(name)), width=width)
    cc(page, "last").click()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    boxes = [card.bounding_box() for card in cc(page, "cta").all()]
    if len(boxes) == 2:
        assert boxes[0]["y"] == boxes[1]["y"]
        assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    cut = page.evaluate(
        """() => [...document.querySelectorAll(".cc-stage *")]
             .filter((e) => e.children.length === 0 && e.scrollWidth > e.clientWidth + 1)
             .filter((e) => getComputedStyle(e).overflowX === "hidden")
             .map((e) => e.outerHTML)"""
    )
    assert cut == []


def test_page__is_dark_where_the_page_is_and_every_control_has_a_name(mount: Any) -> None:
    one = TwoSmStage(traced("umma_two_sm"))
    page = mount(one, one, TwoSmStage(traced("umma_tma"), k_tile=2), theme="dark")
    rgb = tuple(int(palette.MEANINGS_DARK["surface"][i : i + 2], 16) for i in (1, 3, 5))
    ground = cc(page, "stage").first.evaluate("(e) => getComputedStyle(e).backgroundColor")
    assert ground == f"rgb{rgb}"
    assert unnamed(page) == []
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    first, second, third = cc(page, "stage").all()
    cc(first, "last").click()  # two views of one model
    assert cc(second, "count").inner_text() == cc(first, "count").inner_text()
    assert cc(third, "count").inner_text().startswith("1 of")
