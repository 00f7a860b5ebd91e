"""RoleTimeline in Chromium: what it shows after each step, its keys and buttons, narrow and dark pages."""

from __future__ import annotations

from typing import Any

import pytest
from widgets import umma_runs
from widgets.parts import cc, unnamed

from cutecourse import palette
from cutecourse.widgets import RoleTimeline

pytestmark = pytest.mark.browser


def shown() -> RoleTimeline:
    return RoleTimeline(umma_runs.stored("umma_persistent"))


SHOWN = """() => {
  const all = (name) => [...document.querySelectorAll(`[data-cc=${name}]`)];
  return {
    words: all("words")[0].innerText,
    holders: all("holder").map((node) => node.innerText),
    loaded: all("warp").map((node) => node.dataset.loaded === "true"),
    cursor: Number(document.querySelector(".cc-cursor").getAttribute("x1")),
  };
}"""


def test_page__every_step_shows_who_holds_each_accumulator(mount: Any) -> None:
    widget = shown()
    page = mount(widget)
    pair = widget.pair
    cc(page, "board").focus()
    before = -1.0
    for number, step in enumerate(widget.steps):
        if number:
            page.keyboard.press("ArrowRight")
        now = page.evaluate(SHOWN)
        assert now["words"] == step["words"]
        assert now["holders"] == [
            "free"
            if tile is None
            else f"free: all warps have loaded tile {tile}"
            if state == "free"
            else f"{pair['states'][state]}, tile {tile}"
            for state, tile, _ in step["holds"]
        ]
        assert now["loaded"] == [
            tile is not None and bool(loaded >> warp & 1)
            for _, tile, loaded in step["holds"]
            for warp in range(8)
        ]
        assert now["cursor"] >= before
        before = now["cursor"]
    page.keyboard.press("ArrowRight")  # the end holds
    assert cc(page, "count").inner_text() == f"{len(widget.steps)} of {len(widget.steps)}"


def test_page__buttons_slider_keys_and_the_picture_choose_steps(mount: Any) -> None:
    widget = shown()
    page = mount(widget)
    steps = widget.steps
    at = next(i for i, s in enumerate(steps) if (s["role"], s["tile"]) == ("multiply", 2))
    cc(page, "tile", tile=2).click()
    assert cc(page, "words").inner_text() == steps[at]["words"]
    assert cc(page, "tile", tile=2).get_attribute("aria-pressed") == "true"
    cc(page, "prev").click()
    assert cc(page, "words").inner_text() == steps[at - 1]["words"]
    cc(page, "slider").focus()
    page.keyboard.press("ArrowRight")
    assert cc(page, "slider").get_attribute("aria-valuetext") == steps[at]["words"]
    cc(page, "board").focus()
    page.keyboard.press("Home")
    page.keyboard.press("PageDown")
    first = next(i for i, s in enumerate(steps) if s["role"] != steps[0]["role"])
    assert cc(page, "count").inner_text() == f"{first + 1} of {len(steps)}"
    plot = cc(page, "plot").first
    box = plot.bounding_box()
    plot.click(position={"x": box["width"] - 1, "y": 5})
    assert cc(page, "words").inner_text() == steps[-1]["words"]
    page.wait_for_function("document.querySelectorAll('[data-cc=bar]').length === 12")


def test_arithmetic__the_step_next_to_a_place_is_pythons(javascript: Any) -> None:
    pair = shown().pair
    first, last = min(one[3] for one in pair["spans"]), max(one[4] for one in pair["spans"])
    shares = [i / 40 for i in range(41)]
    body = "return x.shares.map((share) => m.nearest(x.pair, share));"
    got = javascript("role_timeline.js", body, {"pair": pair, "shares": shares})
    far = [
        [abs((step["time"] - first) / (last - first) - share) for step in pair["steps"]] for share in shares
    ]
    assert got == [row.index(min(row)) for row in far]


@pytest.mark.parametrize("width", [360, 768, 1300])
def test_page__fits(width: int, mount: Any) -> None:
    page = mount(shown(), width=width)
    cc(page, "last").click()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    small = page.evaluate(
        """() => [...document.querySelectorAll(".cc-roles *")]
             .filter((e) => e.children.length === 0 && e.textContent.trim())
             .filter((e) => parseFloat(getComputedStyle(e).fontSize) < 11)
             .map((e) => e.outerHTML)"""
    )
    assert small == []


def test_page__is_dark_where_the_page_is_and_every_control_has_a_name(mount: Any) -> None:
    page = mount(shown(), shown(), theme="dark")
    rgb = tuple(int(palette.MEANINGS_DARK["surface"][i : i + 2], 16) for i in (1, 3, 5))
    ground = cc(page, "roles").first.evaluate("(e) => getComputedStyle(e).backgroundColor")
    assert ground == f"rgb{rgb}"
    assert unnamed(page) == []
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
