"""The built book in headless Chromium: widgets compute, search finds, nothing is asked of the outside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cutecourse.layout import Layout
from support.web import guarded_context
from tools.notebooks import code_cells
from tools.paths import BOOK, notebook_sources
from tools.recordings import read_recording
from tools.tidy import WIDGET_VIEW

pytestmark = pytest.mark.browser

PAGES = ["intro", "review", "cheat_sheets", "status", "emulator_coverage", "credits"] + [
    source.relative_to(BOOK).with_suffix("").as_posix() for source in notebook_sources()
]
CHAPTERS = [name for name in PAGES if name.startswith("chapters/")]
READY = "html[data-cc-widgets=ready]"


@pytest.fixture(scope="module")
def address(book: Path, serve: Callable[..., Any]) -> Iterator[str]:
    with serve(book) as url:
        yield url


@pytest.fixture
def open_page(request: pytest.FixtureRequest, address: str) -> Iterator[Callable[[str], Any]]:
    """Open a page of the book; any message on the console that is an error or a warning fails the test.

    It opens in the module's page if the test asks for that, else in one of its own.
    """
    page = request.getfixturevalue("kept_page" if "kept_page" in request.fixturenames else "page")
    messages: list[str] = []

    def listen(message: Any) -> None:
        if message.type in {"error", "warning"}:
            messages.append(message.text)

    page.on("console", listen)

    def open_(name: str) -> Any:
        page.goto(f"{address}/{name}.html")
        page.wait_for_selector(READY)
        assert messages == []
        return page

    yield open_
    page.remove_listener("console", listen)
    assert messages == []


def _widgets(name: str) -> list[str]:
    """The texts of the widgets that a chapter's recording shows, in order."""
    source = next(source for source in notebook_sources() if source.stem == name.rpartition("/")[2])
    return [
        output.data["text/plain"]
        for cell in code_cells(read_recording(source))
        for output in cell.outputs
        if WIDGET_VIEW in output.get("data", {})
    ]


@pytest.mark.parametrize("name", PAGES)
def test_page__opens_without_a_message_fits_each_screen_and_asks_nothing_of_the_outside(
    kept_page: Any, open_page: Any, name: str
) -> None:
    page = kept_page
    page.set_viewport_size({"width": 768, "height": 800})
    page.emulate_media(color_scheme="dark")
    # Leaving the guarded context fails when a request to the outside was attempted.
    open_page(name)
    for width in (768, 360):
        _check_that_nothing_scrolls_sideways(page, width)
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(color_scheme="light")
    assert page.locator("h1:visible").count() == 1
    assert page.evaluate("performance.getEntriesByType('resource').length") > 5
    if name in CHAPTERS:
        _check_widgets(page, name)


def _check_that_nothing_scrolls_sideways(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    wide = page.evaluate(
        """() => {
          const width = document.documentElement.clientWidth;
          if (document.documentElement.scrollWidth <= width) return [];
          return [...document.querySelectorAll('main *')]
            .filter(e => e.getBoundingClientRect().right > width + 1)
            .slice(0, 5).map(e => e.outerHTML.slice(0, 120));
        }"""
    )
    assert wide == [], width
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def _check_widgets(page: Any, name: str) -> None:
    """The widgets are mounted, and their figures wait for print."""
    expected = len(_widgets(name))
    assert page.locator(".cc-mount .cc-widget").count() == expected > 0
    figures = page.locator("figure.cute-static-figure")
    assert figures.count() == expected
    assert not figures.first.is_visible()
    page.emulate_media(media="print")
    assert figures.first.is_visible()
    assert not page.locator(".cc-mount").first.is_visible()


def test_layout_explorer__computes_without_a_kernel(open_page: Any) -> None:
    name = next(
        name for name in CHAPTERS if any(text.startswith("LayoutExplorer") for text in _widgets(name))
    )
    page = open_page(name)
    explorer = page.locator("[data-cc=explorer]").first
    layout = Layout((4, 8), (3, 17))
    explorer.locator("[data-cc=notation]").fill(str(layout))
    for crd in [(1, 0), (3, 5), (2, 7)]:
        cell = explorer.locator(f'[data-cc=cell][data-index="{crd[0] + 4 * crd[1]}"]').first
        assert cell.get_attribute("data-offset") == str(layout(crd))
        assert str(layout(crd)) in cell.inner_text()
    explorer.locator("[data-cc=shape]").fill("(2,3)")
    explorer.locator("[data-cc=stride]").fill("(3,1)")
    offsets = explorer.locator("[data-cc=cell]").evaluate_all("cells => cells.map(c => c.dataset.offset)")
    assert sorted(map(int, offsets)) == list(range(6))


def _choice(name: str) -> re.Match[str] | None:
    texts = [
        re.match(r"Predict\('(?P<key>[^']+)'.*options=\[(?P<options>.*)\]", text) for text in _widgets(name)
    ]
    return next(filter(None, texts), None)


def test_prediction__survives_a_reload_and_stands_beside_the_result(open_page: Any) -> None:
    name = next(name for name in CHAPTERS if _choice(name))
    match = _choice(name)
    assert match is not None
    key = match["key"]
    page = open_page(name)
    option = page.locator(f'[data-cc=predict][data-key="{key}"] [data-cc=option]').first
    said = option.get_attribute("value")
    reveal = page.locator(f'[data-cc=reveal][data-key="{key}"]')
    assert reveal.get_attribute("data-agrees") == "none"
    option.check()
    assert reveal.locator("[data-cc=said]").inner_text() == said
    machine = reveal.locator("[data-cc=value]").inner_text()
    assert reveal.get_attribute("data-agrees") == ("yes" if machine == said else "no")
    page.reload()
    page.wait_for_selector(READY)
    assert page.locator(f'[data-cc=predict][data-key="{key}"] [data-cc=option]').first.is_checked()
    assert page.locator(f'[data-cc=reveal][data-key="{key}"] [data-cc=said]').inner_text() == said


def test_search__finds_a_term_without_a_network(open_page: Any) -> None:
    page = open_page("intro")
    page.keyboard.press("Control+k")
    box = page.locator("input[name=q]:visible").first
    box.fill("cosize")
    box.press("Enter")
    page.wait_for_url("**/search.html?q=cosize*")
    found = page.locator("#search-results li a", has_text="Notation and glossary").first
    found.wait_for()
    found.click()
    page.wait_for_url("**/notation.html*")
    assert "cosize" in page.locator("main").inner_text()


def test_colours__follow_the_reader_and_the_button(open_page: Any) -> None:
    page = open_page("intro")

    def ground() -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3])

    page.emulate_media(color_scheme="light")
    assert ground() > 600
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-theme=dark]")
    assert ground() < 200
    button = page.locator("button.theme-switch-button:visible").first
    for _ in range(3):
        button.click()
        if page.evaluate("document.documentElement.dataset.theme") == "light":
            break
    assert ground() > 600


def test_panels__stand_side_by_side_on_a_wide_screen_and_stacked_on_a_phone(
    browser: Any, address: str
) -> None:
    texts = {name: (BOOK / f"{name}.md").read_text(encoding="utf-8") for name in CHAPTERS}
    first = {name: re.findall(r"side_by_side\(\s*(\w+)=", text)[:1] for name, text in texts.items()}
    name = next(name for name in CHAPTERS if first[name] == ["cpp"])
    for width, stacked in ((1600, False), (360, True)):
        with guarded_context(browser, viewport={"width": width, "height": 900}) as context:
            page = context.new_page()
            page.goto(f"{address}/{name}.html")
            boxes = [
                panel.bounding_box()
                for panel in page.locator(".cute-panels").first.locator(".cute-panel").all()
            ]
            assert len(boxes) >= 2
            assert (boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"]) == stacked


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CHAPTERS)
def test_page__works_when_opened_from_a_file(book: Path, browser_context: Any, name: str) -> None:
    page = browser_context.new_page()
    page.goto((book / f"{name}.html").as_uri())
    page.wait_for_selector(READY)
    assert page.locator(".cc-mount .cc-widget").count() == len(_widgets(name))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CHAPTERS)
def test_page__shows_the_figures_without_javascript(browser: Any, address: str, name: str) -> None:
    with guarded_context(browser, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{address}/{name}.html")
        figures = page.locator("figure.cute-static-figure img")
        assert figures.count() == len(_widgets(name))
        assert all(figure.is_visible() for figure in figures.all())
