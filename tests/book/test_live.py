"""The cells of chapter 2 run in headless Chromium as in a reader's browser; nothing comes from outside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup

from support.web import guarded_context, hold_answer
from tools.notebooks import code_cells
from tools.paths import BOOK
from tools.recordings import read_recording

pytestmark = pytest.mark.browser

SOURCE = BOOK / "chapters" / "02_hello_mma.md"
PAGE = "chapters/02_hello_mma.html"
CELLS = [cell.source.strip() for cell in code_cells(read_recording(SOURCE))]
MOST_GROWTH_BYTES = 25_000


def number(text: str) -> int:
    """The number of the one cell that holds a text."""
    [found] = [index for index, source in enumerate(CELLS) if text in source]
    return found


@pytest.fixture(scope="module")
def page(browser: Any, book: Path, serve: Callable[..., Any]) -> Iterator[Any]:
    """The page, open once for all tests of this module: Python takes seconds to start."""
    cut: set[str] = set()
    view = {"width": 1300, "height": 900}
    with serve(book, cut=cut) as address, guarded_context(browser, viewport=view) as context:
        page = context.new_page()
        page.cut = cut
        page.asked = []
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(f"{address}/{PAGE}")
        page.wait_for_selector("html[data-cc-widgets=ready]")
        yield page


class Cell:
    """A cell of the page, as a reader uses it."""

    def __init__(self, page: Any, index: int) -> None:
        self.page, self.index = page, index
        self.node = page.locator("div.cell").nth(index)
        self.live = self.node.locator(".cute-live")
        self.recorded = self.node.locator(".cell_output:not(.cute-live)")
        self.status = self.node.locator(".cute-run-status")

    def click(self, name: str) -> None:
        fold = self.node.locator("details:not([open]) > summary", has_text="source")
        if fold.count():
            fold.click()
        self.node.get_by_role("button", name=name, exact=True).click()

    def run(self) -> Cell:
        self.click("Run")
        return self.done()

    def done(self) -> Cell:
        self.node.get_by_role("button", name="Run", exact=True).wait_for()
        return self

    def write(self, text: str) -> Cell:
        """Replace the code as a reader does, by typing; the text has its own indentation."""
        self.click("Edit")
        self.page.keyboard.press("Control+a")
        for number, line in enumerate(text.split("\n")):
            if number:
                self.page.keyboard.press("Enter")
                self.page.keyboard.press("Shift+Home")
                self.page.keyboard.press("Delete")
            self.page.keyboard.insert_text(line)
        return self

    @property
    def name(self) -> str:
        return str(self.node.locator(".cute-cell-name").inner_text())

    @property
    def says(self) -> str:
        return str(self.status.inner_text())

    @property
    def agrees(self) -> str:
        return str(self.node.get_attribute("data-live"))


@pytest.fixture
def cell(page: Any) -> Callable[[str], Cell]:
    return lambda text: Cell(page, number(text))


def python_files(page: Any) -> list[str]:
    return [url for url in page.asked if "/_python/" in url]


def test_page__fetches_nothing_before_the_first_click_and_grows_little(page: Any, book: Path) -> None:
    assert page.locator("div.cell").count() == len(CELLS)
    assert page.get_by_role("button", name="Run", exact=True).count() > 0
    assert python_files(page) == []
    html = (book / PAGE).read_text(encoding="utf-8")
    soup = BeautifulSoup(html, "html.parser")
    added = [
        str(soup.find(id="cute-live")),
        str(soup.find("meta", {"http-equiv": "Content-Security-Policy"})),
    ]
    files = [(book / "_static" / name).read_text(encoding="utf-8") for name in ("run.js", "run.css")]
    assert all(len(part) > 100 for part in added)
    assert sum(len(part.encode()) for part in added + files) < MOST_GROWTH_BYTES


def test_run__can_be_repeated_after_a_fetch_that_breaks_off(page: Any, cell: Callable[[str], Cell]) -> None:
    first = cell("the same as scalar fma")
    for name in ("numpy", "course", "python_stdlib", "pyodide.asm.wasm", "pyodide-lock", "files.json"):
        page.cut.add(name)
        says = first.run().says
        assert re.match(rf"{name}\S* could not be fetched \(.+\)\. Press Run to try again\.", says), says
        page.cut.clear()
    first.click("Run")
    page.wait_for_selector("progress:visible")
    assert first.done().says == "Ran in this browser. The output matches the recorded one."
    assert first.live.locator("pre").inner_text() == first.recorded.locator("pre").text_content()
    assert not first.recorded.is_visible()
    first.click("Show the recorded output")
    assert first.recorded.is_visible()
    assert not first.live.is_visible()


def test_run__gives_the_recorded_output_of_a_kernel_and_says_where_it_ran(
    cell: Callable[[str], Cell],
) -> None:
    # As if the recording were another: all cells of this page give what was recorded.
    quotes = cell("excerpt(mma_raw.PTX")
    quotes.page.evaluate("number => { cutecourseBook.cells[number].digest = 'another'; }", quotes.index)
    product = cell("raw = run(mma_raw")
    assert product.run().agrees == "same"
    assert "wrong elements: 0" in product.live.inner_text()
    # Of a cell above the recorded output stays in front, and its difference is marked.
    assert quotes.agrees == "other"
    assert quotes.recorded.is_visible()
    assert not quotes.live.is_visible()
    record = cell("raw.record").run()
    assert "mma_raw ran on the emulator, in this browser" in record.live.inner_text()


def test_edit__runs_what_the_reader_wrote_and_reset_undoes_it(page: Any, cell: Callable[[str], Cell]) -> None:
    first = cell("the same as scalar fma")
    first.write("for n in range(2):\n    print('mine', n)")
    page.keyboard.type(" # by hand / typed")
    assert first.node.locator(".cell_input pre").inner_text().strip().endswith(" # by hand / typed")
    first.run()
    assert first.live.inner_text().split("\n")[:2] == ["mine 0", "mine 1"]
    assert first.agrees == "other"
    assert "differs from the recorded one: you have changed this cell." in first.says
    first.click("Reset")
    assert first.node.locator(".cell_input pre").inner_text().strip() == CELLS[first.index]
    assert first.recorded.is_visible()
    assert first.live.count() == 0


def test_edit__makes_later_outputs_old_and_a_difference_names_it(cell: Callable[[str], Cell]) -> None:
    name, uses, other = cell("name = parse_mma_name"), cell("assert name.ptx"), cell("excerpt(stamps, ")
    assert uses.run().agrees == "same"
    other.run()
    name.write("name = parse_mma_name('SM80_16x8x8_F32F16F16F32_TN')").run()
    assert uses.says == f"This output is older than your change to {name.name}. Run this cell again."
    assert "cute-old" in str(uses.node.get_attribute("class"))
    assert other.agrees == "same"
    assert "older" not in other.says
    uses.run()
    assert f"differs from the recorded one: you have changed {name.name}." in uses.says
    assert f'File "{uses.name}", line 1' in uses.live.inner_text()
    name.click("Reset")
    assert "older than your change" in uses.says
    assert uses.run().agrees == "same"


def test_edit__keeps_keys_that_the_page_has_a_meaning_for(page: Any, cell: Callable[[str], Cell]) -> None:
    first = cell("the same as scalar fma")
    first.click("Edit")
    page.keyboard.press("Control+a")
    page.keyboard.type("for n in [1 / 2]:")
    page.keyboard.press("Enter")
    page.keyboard.type("print(n)")
    page.keyboard.press("Shift+Enter")
    assert first.done().live.inner_text() == "0.5\n"
    first.click("Reset")


def test_run__numbers_the_lines_of_a_ptx_text(cell: Callable[[str], Cell]) -> None:
    first = cell("the same as scalar fma")
    first.write(r"print('// a kernel\n.version 8.0\n.target sm_80')").run()
    assert first.live.inner_text() == "// a kernel\n.version 8.0\n.target sm_80\n"
    assert first.live.locator(".cute-line").count() == 3
    painted = "[...CSS.highlights.get('cute-keyword')].filter((range) => node.contains(range.startContainer))"
    assert first.live.evaluate(f"(node) => {painted}.map(String)") == [".version", ".target"]
    first.click("Reset")


def test_run__waits_for_the_cell_that_is_running(page: Any, cell: Callable[[str], Cell]) -> None:
    first, second = cell("the same as scalar fma"), cell("registers = Predict(")
    go_on = hold_answer(page, "cutecourseBook")
    first.write("print('first')").click("Run")
    second.click("Run")
    assert "Waiting for the cell that is running" in second.says
    go_on()
    assert "first" in first.done().live.inner_text()
    assert second.done().agrees == "same"
    first.write("while True:\n    pass").click("Run")
    second.click("Run")
    second.click("Stop")
    assert second.done().says == "Stopped before it ran."
    second.click("Run")
    first.click("Stop")
    assert first.done().says == "Stopped. Press Run to start Python again."
    assert second.done().says == "Stopped before it ran."
    first.click("Reset")


def test_error__looks_like_a_notebooks(cell: Callable[[str], Cell]) -> None:
    first = cell("the same as scalar fma")
    text = first.write("def f():\n    return 1 / 0\nf()").run().live.inner_text()
    assert text.startswith("Traceback")
    assert f'File "{first.name}", line 3' in text
    assert first.says.startswith("This cell ended with a traceback (ZeroDivisionError).")
    assert first.name == f"cell {first.index + 1}"
    assert "return 1 / 0" in text
    assert text.rstrip().endswith("ZeroDivisionError: division by zero")
    assert "cutecourse/page" not in text
    first.click("Reset")


def test_cell__that_needs_a_compiler_says_so(cell: Callable[[str], Cell]) -> None:
    first = cell("the same as scalar fma")
    first.write("from numba import cuda\nprint('on')").run()
    assert first.live.inner_text() == "on\n"
    assert "without numba, which it does not have" in first.says
    first.write("cuda.jit").run()
    assert "numba-cuda, which compiles kernels" in first.live.inner_text()
    assert first.says == "This cell cannot run in a browser."
    first.click("Reset")


def test_widget__is_alive_in_both_directions(cell: Callable[[str], Cell]) -> None:
    asks = cell("registers = Predict(").run()
    assert asks.agrees == "same"
    asks.live.get_by_label("16", exact=True).check()
    first = cell("the same as scalar fma")
    assert "he said 16" in first.write("print('he said', registers.said)").run().live.inner_text()
    first.write("registers.said = '2'").run()
    assert asks.live.get_by_label("2", exact=True).is_checked()
    first.click("Reset")


def test_widget__made_here_has_the_link_of_the_pages_own(page: Any, cell: Callable[[str], Cell]) -> None:
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    owns = cell("MmaOwnership([")
    owns.node.dispatch_event("beforematch")  # as a search in the page opens the folded answer around it
    owns.run()
    owns.live.locator('[data-cc="atom"]').select_option("SM80_16x8x8_F32F16F16F32_TN")
    owns.live.get_by_role("button", name="Copy link").click()
    assert owns.live.locator(".cc-link-said").inner_text() == "The link is copied."
    page.evaluate("location.href = window.copied")
    owns.recorded.wait_for()
    assert not owns.live.is_visible()
    assert owns.recorded.locator('[data-cc="atom"]').input_value() == "SM80_16x8x8_F32F16F16F32_TN"


def test_widget__of_changed_code_says_that_no_link_leads_to_it(
    page: Any, cell: Callable[[str], Cell]
) -> None:
    owns = cell("MmaOwnership([")
    owns.write("MmaOwnership(['SM80_16x8x8_F32F16F16F32_TN'])").run()
    address = page.url
    owns.live.get_by_role("button", name="Copy link").click()
    assert "Changed code made this widget" in owns.live.locator(".cc-link-said").inner_text()
    assert page.url == address
    owns.click("Reset")


def test_stop__ends_an_endless_loop_and_run_starts_again(cell: Callable[[str], Cell]) -> None:
    first = cell("the same as scalar fma")
    first.write("while True:\n    pass").click("Run")
    first.node.get_by_text("Running …").wait_for()
    first.click("Stop")
    assert first.done().says == "Stopped. Press Run to start Python again."
    first.click("Reset")
    assert first.run().agrees == "same"


def test_library__is_kept_compiled_for_the_next_page_and_forgotten_when_it_does_not_work(page: Any) -> None:
    store = "caches.open('cutecourse-python')"
    keys = f"{store}.then((store) => store.keys()).then((keys) => keys.map((key) => key.url))"
    Cell(page, number("the same as scalar fma")).run()
    pause = "new Promise((done) => setTimeout(done, 200))"
    page.evaluate(f"async () => {{ for (let n = 0; n < 300 && !(await {keys}).length; n++) await {pause}; }}")
    assert page.evaluate(keys) != []
    other = page.context.new_page()
    asked = []
    other.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    other.goto(page.url)
    first = Cell(other, number("the same as scalar fma"))
    assert first.run().agrees == "same"
    assert "pyodide.asm.wasm" in asked
    assert "python_stdlib.zip" not in asked

    first.write("import sys\nsys.modules['ast'].__cached__, sys.modules['ast'].__spec__.origin").run()
    assert "python314.zip/ast.pyc" in first.live.inner_text()
    [key] = other.evaluate(keys)
    other.evaluate(f"key => {store}.then((store) => store.put(key, new Response('x')))", key)
    other.evaluate("cutecourseBook.stop()")
    assert "Press Run to try again" in first.run().says
    assert other.evaluate(keys) == []
    other.close()


def test_python__came_from_this_site_alone(page: Any) -> None:
    # Leaving the guarded context fails when the page or its worker tried to reach anything else.
    assert {url.rpartition("/")[2].split("-")[0] for url in python_files(page)} >= {
        "course",
        "numpy",
        "pyodide.asm.wasm",
    }
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert re.search(r"default-src 'none'.*connect-src 'self'", policy)


def test_page__opened_from_a_file_says_how_to_serve_it(book: Path, browser_context: Any) -> None:
    page = browser_context.new_page()
    page.goto((book / PAGE).as_uri())
    cell = Cell(page, number("the same as scalar fma"))
    cell.click("Run")
    assert "python -m http.server" in cell.says
