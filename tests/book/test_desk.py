"""The reader's desk in Chromium: where the reader was, what is done, and the way on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.web import guarded_context
from tools.answers import answers_in
from tools.paths import chapter_number, chapter_pages, exercise_sources

READY = "html[data-cc-widgets=ready]"
FIRST, SECOND = (f"chapters/{source.stem}" for source in chapter_pages()[:2])
EXERCISES = f"exercises/{exercise_sources()[0].stem}"


@pytest.fixture(scope="module")
def address(book: Path, serve: Callable[..., Any]) -> Iterator[str]:
    with serve(book) as address:
        yield address


@pytest.fixture
def open_page(kept_page: Any, address: str) -> Iterator[Callable[[str], Any]]:
    """Open a page of the book in the module's page; what the test stores goes at its end."""

    def open_(name: str) -> Any:
        kept_page.goto(f"{address}/{name}")
        kept_page.wait_for_selector(READY)
        return kept_page

    yield open_
    kept_page.evaluate("localStorage.clear()")


def test_way__leads_from_a_chapter_to_its_exercises_and_on_to_the_next_chapter(book: Path) -> None:
    def links(name: str, pattern: str) -> list[str]:
        found = re.findall(pattern, (book / f"{name}.html").read_text(encoding="utf-8"), re.DOTALL)
        folder = (book / name).parent
        return [os.path.relpath(folder / link, book).removesuffix(".html") for link in found]

    for name, before, after in (
        (EXERCISES, [FIRST], [SECOND]),
        (FIRST, ["tour"], [EXERCISES]),
        (SECOND, [EXERCISES], [EXERCISES.replace("01_hello_layout", "02_hello_mma")]),
    ):
        assert links(name, r'class="left-prev"\s+href="([^"]+)"') == before
        assert links(name, r'class="right-next"\s+href="([^"]+)"') == after
    sheets = {chapter_number(one): f"exercises/{one.stem}" for one in exercise_sources()}
    for source in chapter_pages():
        page = (book / "chapters" / f"{source.stem}.html").read_text(encoding="utf-8")
        way = re.search(r'</h1>\s*<nav class="cute-way".*?</nav>', page, re.DOTALL)
        assert way is not None
        assert re.search(r'href="#(cheat-sheet|the-card)"', way[0])
        assert (sheet := sheets.get(chapter_number(source))) is None or f'"../{sheet}.html"' in way[0]


@pytest.mark.browser
def test_contents__mark_the_section_in_view(open_page: Callable[[str], Any]) -> None:
    page = open_page(f"{FIRST}.html")
    links = page.locator(".page-toc a")
    assert links.count() > 5
    for number in (4, 6, 5):  # downwards past a long section, and back up
        anchor = links.nth(number).get_attribute("href")
        page.evaluate("id => document.getElementById(id).querySelector('h2').scrollIntoView()", anchor[1:])
        page.wait_for_selector(f".page-toc a.active[href='{anchor}']")
        assert page.locator(".page-toc a.active").count() == 1
        assert links.nth(number).get_attribute("aria-current") == "true"


@pytest.mark.browser
def test_landing_page__leads_back_to_the_section_where_the_reader_was(
    open_page: Callable[[str], Any],
) -> None:
    page = open_page("intro.html")
    assert not page.locator(".cute-desk").is_visible()
    open_page(f"{FIRST}.html")
    anchor = page.locator(".page-toc a").nth(3).get_attribute("href")
    page.evaluate("id => document.getElementById(id).querySelector('h2').scrollIntoView()", anchor[1:])
    page.wait_for_selector(f".page-toc a.active[href='{anchor}']")
    page = open_page("intro.html")
    page.locator(".cute-desk a").click()
    page.wait_for_url(f"**/{FIRST}.html{anchor}")
    # The section has another anchor since: its heading is found by its words, and without them by its number.
    place = "({last}) => last.anchor = 'renamed'"
    page.evaluate(f"cutecourseDesk.change({place})")
    page = open_page("intro.html")
    page.locator(".cute-desk a").click()
    page.wait_for_selector(f".page-toc a.active[href='{anchor}']")


@pytest.mark.browser
def test_page__counts_as_read_when_all_is_predicted_or_the_reader_says_so(
    open_page: Callable[[str], Any],
) -> None:
    page = open_page(f"{FIRST}.html")
    source = chapter_pages()[0]
    keys = [found.key for found in answers_in(source)]
    mark = page.locator(".bd-links li.active a .cute-done")
    page.locator(f'[data-key="{keys[0]}"] [data-cc=option]').first.check()
    assert mark.inner_text().strip().startswith(f"1/{len(keys)}")
    page.evaluate(
        """keys => {
          for (const key of keys) {
            const { value } = document.querySelector(`[data-key="${key}"] [data-cc=option]`);
            localStorage.setItem(`cutecourse.predict.${key}`, JSON.stringify(value));
          }
        }""",
        keys[2:],
    )
    page.reload()
    page.locator(f'[data-key="{keys[1]}"] [data-cc=option]').first.check()
    box = page.get_by_label("I have read this page")
    assert box.is_checked()
    assert "✓" in mark.inner_text()
    box.uncheck()
    assert "✓" not in mark.inner_text()
    box.check()
    page = open_page("intro.html")
    row = page.locator(".cute-chapters tr", has=page.locator(f"a[href='{FIRST}.html']"))
    assert row.get_by_text("(read)").count() == 1
    assert f"1 of {len(chapter_pages())} pages read" in page.locator(".cute-desk").inner_text()


@pytest.mark.browser
def test_progress__goes_out_as_a_file_and_comes_back_in_another_browser(
    browser: Any, address: str, open_page: Callable[[str], Any], tmp_path: Path
) -> None:
    page = open_page("intro.html")
    page.evaluate("localStorage.setItem('cutecourse.predict.01-cosize', '\"38\"')")
    page.evaluate("localStorage.setItem('cutecourse:exercises:x', '{}')")
    said = "✓ 01.1 Offset: passed"
    page.evaluate(
        "said => cutecourseDesk.keepVerdict('01.1', { status: 'passed', said }, 'offset = 35', 'task')", said
    )
    page.reload()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save my progress").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    with guarded_context(browser) as context:
        other = context.new_page()
        other.goto(f"{address}/intro.html")
        other.wait_for_selector(READY)
        other.evaluate("said => cutecourseDesk.keepVerdict('01.2', { status: 'passed', said }, '', '')", said)
        chosen = other.locator(".cute-keeping input[type=file]")
        for text, why in (("no json", "it is not JSON"), ('{"kept": {"x": "1"}}', "holds no progress")):
            chosen.set_input_files(
                {"name": "a.json", "mimeType": "application/json", "buffer": text.encode()}
            )
            other.locator(".cute-keeping", has_text=why).wait_for()
        chosen.set_input_files(file)
        other.locator(".cute-keeping", has_text="Your progress is as").wait_for()
        kept = json.loads(file.read_text(encoding="utf-8"))["kept"]
        assert other.evaluate("localStorage.getItem('cutecourse.predict.01-cosize')") == '"38"'
        assert json.loads(kept["cutecourse:progress"])["verdicts"]["01.1"]["said"] == said
        assert sorted(other.evaluate("Object.keys(cutecourseDesk.read().verdicts)")) == ["01.1", "01.2"]
        assert "2 of" in other.locator(".cute-desk").inner_text()


@pytest.mark.browser
def test_cheat_sheets__print_one_to_a_page_and_one_alone_by_its_address(
    open_page: Callable[[str], Any], address: str
) -> None:
    page = open_page("cheat_sheets.html")
    assert page.locator(".cute-sheet").count() == len(chapter_pages())
    assert _pages(page.pdf(format="A4")) == len(chapter_pages())
    way = open_page(f"{FIRST}.html").locator(".cute-way a", has_text="for print")
    way.click()
    page.wait_for_url("**/cheat_sheets.html#sheet-01")
    assert _pages(page.pdf(format="A4")) == 1
    page.evaluate("window.print = () => { window.printed = location.hash; }")
    page.get_by_role("button", name="Print 2 ·").click()
    assert page.evaluate("window.printed") == "#sheet-02"


def _pages(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def test_review__has_every_prediction_of_the_book_with_its_answer_among_the_options(book: Path) -> None:
    page = (book / "review.html").read_text(encoding="utf-8")
    cards = json.loads(re.search(r'id="cute-cards">(.*?)</script>', page, re.DOTALL)[1].replace("<\\/", "</"))
    keys = [found.key for source in chapter_pages() for found in answers_in(source)]
    assert [card["key"] for card in cards] == keys
    for card in cards:
        assert not card["options"] or card["value"] in card["options"]
        place, _, anchor = card["place"].partition("#")
        assert f'id="{anchor}"' in (book / place).read_text(encoding="utf-8")


@pytest.mark.browser
def test_review__asks_again_after_days_by_keyboard_alone(open_page: Callable[[str], Any]) -> None:
    page = open_page("review.html")
    assert "no prediction yet" in page.locator(".cute-review").inner_text()
    cards = json.loads(page.locator("#cute-cards").text_content())
    right, wrong = [card for card in cards if card["options"]][:2]
    for key, said in ((right["key"], '"a"'), (wrong["key"], '"b"')):
        page.evaluate("([key, said]) => localStorage.setItem(`cutecourse.predict.${key}`, said)", [key, said])
    page.reload()
    assert "Nothing is due today. The next of your 2 predictions" in page.locator(".cute-review").inner_text()
    old = "for (const key in kept.predicted) kept.predicted[key] = '2026-01-01';"
    page.evaluate(f"cutecourseDesk.change((kept) => {{ {old} }})")
    assert "2 predictions are due for review" in open_page("intro.html").locator(".cute-desk").inner_text()
    open_page("review.html")
    page.get_by_role("button", name="Start").focus()
    page.keyboard.press("Enter")
    for card, answer in (
        (right, right["value"]),
        (wrong, next(o for o in wrong["options"] if o != wrong["value"])),
    ):
        assert card["title"] in page.get_by_role("group").inner_text()
        page.keyboard.press(str(card["options"].index(answer) + 1))
        said = page.locator(".cute-review-said")
        assert said.get_attribute("role") == "status"
        assert said.inner_text().startswith("✓ Right." if card is right else "≠ Not right. The machine says")
        page.keyboard.press("Enter")  # the focus is on "Next"
    assert "Nothing is due today" in page.locator(".cute-review").inner_text()
    days = "({ key }) => cutecourseDesk.dueOf(key) === cutecourseDesk.later(cutecourseDesk.today(), %d)"
    assert page.evaluate(days % 3, right)
    assert page.evaluate(days % 1, wrong)
