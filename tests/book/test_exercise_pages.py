"""The exercises' pages show no solution, and in Chromium their answers are checked, kept and carried."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from cutecourse.checks import check
from support.pages import parse
from support.web import guarded_context
from tools.exercises import exercises_in, learner_notebook
from tools.notebooks import code_cells
from tools.paths import exercise_sources

SOURCES = exercise_sources()
SOURCE = SOURCES[0]
GIVEN = [cell.source for cell in code_cells(learner_notebook(SOURCE))]
MOST_GROWTH_BYTES = 20_000


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_page__has_the_learners_cells_and_no_solution_or_output(book: Path, source: Path) -> None:
    html = parse(book / "exercises" / f"{source.stem}.html")
    cells = [node.get_text().strip() for node in html.select("div.cell .cell_input pre")]
    assert cells == [cell.source.strip() for cell in code_cells(learner_notebook(source))]
    assert html.select("div.cell_output") == []
    text = html.get_text()
    for exercise in exercises_in(source):
        assert exercise.solution.strip() not in text
    facts = json.loads(html.find(id="cute-live").string)
    ways = [(cell["exercise"], cell.get("way")) for cell in facts["cells"] if "exercise" in cell]
    assert ways == [(one.id, "ptx" if one.in_ptx else None) for one in exercises_in(source)]
    files = [book / "_static" / name for name in ("run.js", "run.css", "exercises.js")]
    assert sum(path.stat().st_size for path in files) + len(json.dumps(facts)) < 2 * MOST_GROWTH_BYTES


@pytest.fixture(scope="module")
def address(book: Path, serve: Callable[..., Any]) -> Iterator[str]:
    with serve(book) as address:
        yield f"{address}/exercises/{SOURCE.stem}.html"


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    with guarded_context(browser) as context:
        page = context.new_page()
        page.said = []
        page.on("dialog", lambda dialog: (page.said.append(dialog.message), dialog.accept()))
        page.goto(address)
        page.wait_for_selector(".cute-answers-bar")
        yield page


def cell(page: Any, number: int) -> Any:
    return page.locator("div.cell").nth(number)


def text(page: Any, number: int) -> str:
    return str(page.evaluate(f"cutecourseBook.cells[{number}].text()"))


def write(page: Any, number: int, answer: str) -> None:
    """Replace a cell's code as a reader does, by typing; the cell is open already."""
    cell(page, number).locator(".cell_input pre").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(answer)


def run(page: Any, number: int) -> str:
    button = cell(page, number).get_by_role("button", name="Run", exact=True)
    button.click()
    button.wait_for()
    return str(cell(page, number).locator(".cute-live").inner_text())


def heading(page: Any, exercise: str) -> str:
    return str(page.locator("h2", has_text=exercise).inner_text())


def says(page: Any) -> str:
    return str(page.locator(".cute-answers-bar .cute-run-status").inner_text())


@pytest.mark.browser
def test_answer__is_checked_kept_downloaded_and_brought_back(page: Any, tmp_path: Path) -> None:
    assert "not started" in run(page, 1)
    write(page, 1, 'offset = 20\ncheck("01.1", offset)')
    assert "That is too small." in run(page, 1)
    right = 'offset = 31 - 1\n\ncheck("01.1", offset)'
    write(page, 1, right)
    assert "✓ 01.1" in run(page, 1)
    cell(page, 1).get_by_role("button", name="Hint").click()
    assert "Hint 1 of 2 for 01.1" in page.locator(".cute-hints p").inner_text()
    # The unsolved exercises between these two are no hindrance, and their cells have not run.
    assert "not started" in run(page, 4)
    assert cell(page, 2).locator(".cute-live").count() == 0

    assert "✓ solved" in heading(page, "01.1")
    assert "tried" not in heading(page, "01.4")  # nothing was tried yet

    page.reload()
    assert text(page, 1) == right
    assert "✓ solved" in heading(page, "01.1")
    kept = cell(page, 1).locator(".cute-live")
    assert kept.inner_text().startswith("✓ 01.1")
    assert "From an earlier visit." in cell(page, 1).inner_text()
    here = page.locator(".bd-links li.active a").last
    assert "1/6" in here.inner_text()
    assert here.get_by_text("(1 of 6 solved)").count() == 1
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as a notebook").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    assert [one.source for one in code_cells(notebook)] == [GIVEN[0], right, *GIVEN[2:]]
    outputs = [one.outputs for one in code_cells(notebook)]
    assert outputs[1][0].data["text/plain"].startswith("✓ 01.1")
    assert outputs[:1] + outputs[2:] == [[]] * (len(GIVEN) - 1)

    page.get_by_role("button", name="Start over").click()
    assert "1 changed cell" in page.said[-1]
    assert text(page, 1) == GIVEN[1]
    page.reload()
    assert text(page, 1) == GIVEN[1]
    assert "solved" not in heading(page, "01.1")
    # JupyterLab saves lists of lines; the reader answers there once more, and adds a cell.
    code_cells(notebook)[1].source = right = right.replace("31 - 1", "28 + 2")
    data = {"text/plain": repr(check("01.2", "(8,32):(32,1)")).splitlines(keepends=True)}
    code_cells(notebook)[2].outputs = [nbformat.v4.new_output("execute_result", data=data)]
    notebook.cells.append(nbformat.v4.new_code_cell("print(offset)"))
    nbformat.write(notebook, file)
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_text(f"Filled from {file.name}").wait_for()
    assert text(page, 1) == right
    assert "1 cell of your own was not loaded." in says(page)
    assert f"Filled from {file.name}: 01.1." in says(page)
    assert "✓ solved" in heading(page, "01.1")
    assert "tried" in heading(page, "01.2")
    assert "✗ 01.2" in cell(page, 2).locator(".cute-live").inner_text()


@pytest.mark.browser
def test_answer_in_ptx__comes_first_with_a_crib_and_the_answer_in_python_is_folded(page: Any) -> None:
    for exercise, name, starts in (("01.5", "fixed_ptx", "Solve"), ("01.6", "tile_major_ptx", "Write")):
        section = page.locator("section", has=page.locator(f"h2:has-text('{exercise}')")).last
        assert name in section.locator(".cute-answer-cell:visible").first.inner_text()
        assert section.get_by_text(re.compile(f"^{starts} the .* in PTX")).is_visible()
        crib = section.locator(".cute-crib")
        assert not crib.locator("pre").is_visible()
        crib.locator("summary").click()
        assert len(crib.locator("pre").inner_text().strip().split("\n")) == 12
        fold = section.locator(".cute-in-python")
        assert fold.locator(".cute-answer-cell").count() == 1
        assert not fold.locator(".cute-answer-cell").is_visible()
    given = next(number for number, text in enumerate(GIVEN) if "def copy_padded(" in text)
    order = page.evaluate("[...document.querySelectorAll('div.cell')].map((e) => e.innerText)")
    assert [place for place, text in enumerate(order) if "def copy_padded(" in text] != [given]
    assert "def copy_padded(" in text(page, given)
    assert "Solve this exercise in PTX" in page.evaluate(f"cutecourseBook.cells[{given}].elsewhere")


@pytest.mark.browser
def test_answer__is_typed_with_the_keyboard_alone(page: Any) -> None:
    code = cell(page, 1).locator(".cell_input pre")
    cell(page, 0).get_by_role("button", name="Edit").focus()
    page.keyboard.press("Tab")
    assert code.evaluate("(node) => node === document.activeElement")
    page.keyboard.press("Control+a")
    for line in ("def f(x):", "if x / 2:  # half", "y = 2", "return"):
        page.keyboard.type(line)
        page.keyboard.press("Enter")
    lines = ["def f(x):", "    if x / 2:  # half", "        y = 2", "        return"]
    page.keyboard.press("Backspace")
    assert text(page, 1).split("\n")[: len(lines)] == lines
    painted = "[...CSS.highlights.get('cute-keyword')].filter((range) => node.contains(range.startContainer))"
    assert code.evaluate(f"(node) => {painted}.map(String)") == ["def", "if", "return"]
    assert page.evaluate("cutecourseBook.store.read()['01.1'].text") == text(page, 1)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # past the button that copies
    assert page.evaluate("document.activeElement.textContent") == "Run"
    # A line that the browser itself ended, and no caret at all.
    page.evaluate("cutecourseBook.cells[1].code.innerHTML = 'for a in b:<div><br></div><div>  c</div>'")
    assert text(page, 1) == "for a in b:\n\n  c"
    page.evaluate("getSelection().removeAllRanges()")
    code.dispatch_event("keydown", {"key": "Enter"})
    code.click()
    page.keyboard.press("Control+End")
    page.keyboard.press("Enter")
    page.keyboard.type("d")
    assert text(page, 1).endswith("  c\n  d")


@pytest.mark.browser
def test_bring_back__refuses_what_has_no_answer_for_this_page(page: Any) -> None:
    other = nbformat.writes(learner_notebook(SOURCES[1]))
    for name, content, why in (
        ("a.ipynb", "no json", "a.ipynb is not a notebook: it is not JSON."),
        ("b.ipynb", "{}", "b.ipynb is not a notebook: it has no cells."),
        ("c.ipynb", other, "c.ipynb has exercises of chapter 2; this page has those of chapter 1."),
    ):
        page.locator("input[type=file]").set_input_files(
            {"name": name, "mimeType": "application/json", "buffer": content.encode()}
        )
        page.get_by_text(why).wait_for()
    assert [text(page, number) for number in range(len(GIVEN))] == [one.strip() for one in GIVEN]


@pytest.mark.browser
def test_answer__to_an_exercise_that_has_changed_since_stays_beside_it(page: Any) -> None:
    kept = {"01.1": {"text": "offset = 7", "given": "gone", "task": "other"}}
    page.evaluate(f"localStorage.setItem('cutecourse:exercises:{SOURCE.stem}', '{json.dumps(kept)}')")
    page.reload()
    box = cell(page, 1).locator(".cute-earlier")
    assert "has changed since" in box.inner_text()
    assert text(page, 1) == GIVEN[1]
    write(page, 1, "offset = 8")
    page.reload()
    assert text(page, 1) == "offset = 8"
    box.get_by_role("button", name="Use it").click()
    assert text(page, 1) == "offset = 7"
    page.reload()
    assert text(page, 1) == "offset = 7"
    assert box.count() == 0


@pytest.mark.browser
def test_page__says_when_the_browser_keeps_no_answers(page: Any) -> None:
    page.evaluate(
        "void (Storage.prototype.setItem = () => { throw new DOMException('no', 'SecurityError'); })"
    )
    write(page, 1, "offset = 8")
    assert "This browser does not keep your answers" in says(page)
