"""Answers wait for a prediction: with the mouse, the keyboard, a screen reader's names, print, no script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.pages import parse
from support.web import guarded_context
from tools.answers import answers_in
from tools.notebooks import code_cells
from tools.paths import chapter_pages
from tools.recordings import read_recording

pytestmark = pytest.mark.browser

READY = "html[data-cc-widgets=ready]"
CLOSED = "Show the answer without predicting"


@pytest.fixture(scope="module")
def address(book: Path, serve: Callable[..., Any]) -> Iterator[str]:
    with serve(book) as url:
        yield url


def _first_choice() -> tuple[str, str, str]:
    """The first prediction of the book with options: its page, its key, and what came out."""
    for source in chapter_pages():
        cells = code_cells(read_recording(source))
        for found in answers_in(source):
            shown = [o.data["text/plain"] for o in cells[found.asks].outputs if "data" in o]
            for cell in cells[found.asks + 1 : found.last + 1]:
                texts = [o.get("data", {}).get("text/plain", "") for o in cell.outputs]
                told = [re.match(rf"Reveal\('{found.key}', '(.*)'\)", text) for text in texts]
                if any("options=" in text for text in shown) and any(told):
                    return f"chapters/{source.stem}", found.key, next(m[1] for m in told if m)
    raise AssertionError("no prediction of the book has options")


@pytest.fixture
def question(page: Any, address: str) -> tuple[Any, Any, Any]:
    """A page with its first choice, not yet made: the page, the question's options, the answer."""
    name, key, _ = _first_choice()
    page.goto(f"{address}/{name}.html")
    page.wait_for_selector(READY)
    options = page.locator(f'[data-cc=predict][data-key="{key}"] [data-cc=option]')
    return page, options, page.locator(f'.cute-answer[data-key="{key}"]')


def _is_open(answer: Any) -> bool:
    """Whether the answer's text is drawn (content that is hidden until found has a box, of no height)."""
    return bool(
        answer.locator(".cute-answer-body").evaluate(
            "e => !e.hasAttribute('hidden') && e.getBoundingClientRect().height > 20"
        )
    )


def test_answers__are_on_the_page_one_for_each_prediction(book: Path) -> None:
    for source in chapter_pages():
        page = parse(book / "chapters" / f"{source.stem}.html")
        keys = [box["data-key"] for box in page.select(".cute-answer")]
        assert keys == [found.key for found in answers_in(source)]
        assert page.select(".cute-answer .cute-answer") == []
        assert page.select(".cute-answer :is(h1, h2, h3)") == []
        ids = [body["id"] for body in page.select(".cute-answer-body")]
        assert len(set(ids)) == len(ids)


def test_answer__is_folded_until_an_option_is_clicked(question: tuple[Any, Any, Any]) -> None:
    page, options, answer = question
    assert not _is_open(answer)
    options.first.click()
    assert _is_open(answer)
    assert answer.get_by_role("status").first.inner_text() == "The answer is shown below."
    page.reload()
    page.wait_for_selector(READY)
    assert _is_open(answer)


def test_answer__stays_when_the_reader_thinks_again_and_is_folded_on_the_next_visit(
    question: tuple[Any, Any, Any],
) -> None:
    page, options, answer = question
    options.first.click()
    options.nth(1).click()
    assert _is_open(answer)
    page.get_by_role("button", name="Forget it").first.click()
    assert _is_open(answer)
    page.reload()
    page.wait_for_selector(READY)
    assert not _is_open(answer)


def test_answer__says_in_words_whether_the_reader_was_right(question: tuple[Any, Any, Any]) -> None:
    _, options, answer = question
    truth = _first_choice()[2]
    for option in options.all():
        option.click()
        right = option.get_attribute("value") == truth
        words = answer.locator("[data-cc=reveal]").inner_text()
        assert ("Not right." in words) != right
        assert ("Right." in words) == right


def test_button__shows_the_answer_and_says_so_to_a_screen_reader(question: tuple[Any, Any, Any]) -> None:
    _, _, answer = question
    button = answer.get_by_role("button", name=CLOSED, exact=True)
    body = answer.locator(".cute-answer-body")
    assert button.get_attribute("aria-expanded") == "false"
    assert button.get_attribute("aria-controls") == body.get_attribute("id")
    status = answer.locator(".cute-answer-status")
    assert (status.get_attribute("role"), status.inner_text()) == ("status", "")
    button.click()
    assert _is_open(answer)
    again = answer.get_by_role("button", name="Hide the answer", exact=True)
    assert again.get_attribute("aria-expanded") == "true"
    assert status.inner_text() == "The answer is shown below."
    again.click()
    assert not _is_open(answer)


def test_keyboard__arrows_look_at_options_and_enter_chooses(question: tuple[Any, Any, Any]) -> None:
    page, options, answer = question
    options.first.focus()
    page.keyboard.press("ArrowDown")
    assert options.nth(1).is_checked()
    assert not _is_open(answer)
    said = page.locator("[data-cc=predict] [data-cc=said]").filter(has_text="Press Enter to choose")
    assert said.count() == 1
    page.keyboard.press("Enter")
    assert _is_open(answer)
    assert said.count() == 0
    assert options.nth(1).is_checked()


def test_keyboard__tab_reaches_the_button_and_skips_what_is_folded(question: tuple[Any, Any, Any]) -> None:
    page, options, answer = question
    options.first.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == CLOSED
    page.keyboard.press("Tab")
    assert not answer.evaluate("e => e.contains(document.activeElement)")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert _is_open(answer)
    assert page.evaluate("document.activeElement.textContent") == "Hide the answer"


def test_question__is_a_group_with_a_name_and_its_options_too(question: tuple[Any, Any, Any]) -> None:
    _, options, answer = question
    key = answer.get_attribute("data-key")
    widget = answer.page.locator(f'[data-cc=predict][data-key="{key}"]')
    group = widget.get_by_role("group", name="Your prediction")
    names = [option.get_attribute("value").replace("`", "") for option in options.all()]
    assert [group.get_by_role("radio", name=name, exact=True).count() for name in names] == [1] * len(names)


def test_link__into_an_answer_opens_it(page: Any, address: str, book: Path) -> None:
    for source in chapter_pages():
        inside = parse(book / "chapters" / f"{source.stem}.html").select(".cute-answer-body [id]")
        if inside:
            break
    target = inside[0]["id"]
    page.goto(f"{address}/chapters/{source.stem}.html#{target}")
    page.wait_for_selector(READY)
    answer = page.locator(".cute-answer", has=page.locator(f'[id="{target}"]'))
    assert _is_open(answer)
    assert answer.locator(f'[id="{target}"]').bounding_box()["y"] < page.viewport_size["height"]
    # The same link once more, after the reader has folded the answer.
    answer.get_by_role("button", name="Hide the answer").click()
    assert not _is_open(answer)
    page.evaluate(
        """id => {
          const link = Object.assign(document.createElement("a"), { href: "#" + id });
          document.body.append(link);
          link.click();
        }""",
        target,
    )
    answer.locator(".cute-answer-body:not([hidden])").wait_for()


def test_search_in_the_page__may_find_what_is_folded(question: tuple[Any, Any, Any]) -> None:
    _, _, answer = question
    body = answer.locator(".cute-answer-body")
    assert body.get_attribute("hidden") == "until-found"
    body.dispatch_event("beforematch", {"bubbles": True})
    assert _is_open(answer)


def test_print__shows_every_answer_and_no_button(question: tuple[Any, Any, Any]) -> None:
    page, _, _ = question
    page.emulate_media(media="print")
    for body in page.locator(".cute-answer-body").all():
        assert body.evaluate("e => getComputedStyle(e).contentVisibility") == "visible"
        assert body.bounding_box()["height"] > 20
    assert page.locator(".cute-answer-bar:visible").count() == 0


def test_without_javascript__the_answers_follow_in_the_text(browser: Any, address: str) -> None:
    name = _first_choice()[0]
    with guarded_context(browser, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{address}/{name}.html")
        bodies = page.locator(".cute-answer-body").all()
        assert bodies
        assert all(body.bounding_box()["height"] > 20 for body in bodies)
        assert page.get_by_role("button", name=CLOSED).count() == 0


def test_without_the_script_that_folds__the_answers_are_shown(browser: Any, address: str) -> None:
    name = _first_choice()[0]
    with guarded_context(browser) as context:
        context.route("**/answers.js*", lambda route: route.abort())
        page = context.new_page()
        page.goto(f"{address}/{name}.html")
        page.wait_for_selector(READY)
        assert page.locator(".cute-answer-body").first.bounding_box()["height"] > 20


def test_answer__is_never_seen_before_it_is_folded(browser: Any, address: str) -> None:
    name = _first_choice()[0]
    with guarded_context(browser) as context:
        waiting: list[Any] = []

        def hold(route: Any) -> None:
            waiting.append(route)

        context.route("**/answers.js*", hold)
        page = context.new_page()
        page.goto(f"{address}/{name}.html", wait_until="commit")
        page.wait_for_selector(".cute-answer-body", state="attached")
        assert page.locator(".cute-answer-body").first.is_hidden()
        waiting[0].continue_()
        page.wait_for_selector(READY)
        assert page.get_by_role("button", name=CLOSED).count() > 0


def test_prediction__that_answers_another_question_is_dropped(page: Any, address: str) -> None:
    name, key, _ = _first_choice()
    page.add_init_script(f"localStorage.setItem('cutecourse.predict.{key}', '\"no such option\"')")
    page.goto(f"{address}/{name}.html")
    page.wait_for_selector(READY)
    assert not _is_open(page.locator(f'.cute-answer[data-key="{key}"]'))
    assert page.evaluate("key => localStorage.getItem('cutecourse.predict.' + key)", key) is None
