"""The playground for PTX in headless Chromium: examples, a pasted kernel's form, links, and what is kept."""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutecourse.playground.examples import EXAMPLES
from support.web import guarded_context, hold_answer

pytestmark = pytest.mark.browser

PAGE = "playground_ptx.html"
HOSTILE = '<img src=x onerror="globalThis.broken = 1"></textarea><script>globalThis.broken = 1</script>'
PASTED = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry scaled(.param .u64 source, .param .u64 out, .param .f32 factor, .param .align 64 .b8 map[128])
.reqntid 64, 1, 1
{
    .reg .b64 %from, %to, %at;
    .reg .b32 %i;
    .reg .f32 %x, %y;
    mov.u32 %i, %tid.x;
    mul.wide.u32 %at, %i, 4;
    ld.param.u64 %from, [source];
    ld.param.u64 %to, [out];
    ld.param.f32 %y, [factor];
    add.u64 %from, %from, %at;
    add.u64 %to, %to, %at;
    ld.global.f32 %x, [%from];
    mul.f32 %x, %x, %y;
    st.global.f32 [%to], %x;
    ret;
}
"""
GROUPED = (Path(__file__).parents[1] / "emulator/modules/grouped_maps.ptx").read_text()


class Page:
    """The playground, as a reader uses it."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.root = page.locator("#cute-playground")
        self.text = self.root.locator("textarea")
        self.results = self.root.locator(".cute-pg-results")

    def choose(self, name: str) -> None:
        self.root.get_by_label("Open", exact=True).select_option(name)

    def press(self, name: str) -> Page:
        self.root.get_by_role("button", name=name, exact=True).click()
        return self

    def done(self) -> Page:
        self.root.get_by_role("button", name="Run", exact=True).wait_for()
        return self

    def field(self, parameter: str, label: str) -> Any:
        row = self.root.locator(".cute-pg-parameter", has=self.page.get_by_text(parameter, exact=True))
        return row.get_by_label(label, exact=True)

    @property
    def status(self) -> str:
        return str(self.root.locator(".cute-run-status").inner_text())

    @property
    def said(self) -> str:
        return str(self.root.locator(".cute-pg-said").inner_text())

    @property
    def python_files(self) -> list[str]:
        return [url for url in self.page.asked if "/_python/" in url]


def opened(context: Any, address: str, fragment: str = "") -> Page:
    page = context.new_page()
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(f"{address}/{PAGE}{fragment}")
    page.wait_for_selector(".cute-pg")
    return Page(page, address)


def second_row(playground: Page) -> list[str]:
    """The first cells of the second row of `out`, as the results show it."""
    row = playground.results.locator("details[open]", has_text="out: f32").locator("tr").nth(1)
    return str(row.inner_text()).split("\t")[:4]


def link(state: dict[str, Any]) -> str:
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(json.dumps(state).encode()) + packer.flush()
    return "#ptx=" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


@pytest.fixture(scope="module")
def served(browser: Any, book: Path, serve: Callable[..., Any]) -> Iterator[tuple[Any, str]]:
    with serve(book) as address, guarded_context(browser, viewport={"width": 1300, "height": 900}) as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield context, address


@pytest.fixture(scope="module")
def playground(served: tuple[Any, str]) -> Page:
    """The page, open once for all tests of this module: Python takes seconds to start."""
    return opened(*served)


def test_page__shows_an_example_and_fetches_no_python(playground: Page) -> None:
    assert playground.text.input_value() == EXAMPLES[0].text
    assert playground.field("n", "Value").input_value() == "250"
    assert playground.python_files == []


def test_example__runs_and_shows_its_results(playground: Page) -> None:
    playground.press("Run").done()
    assert playground.status == "The kernel ran to its end."
    assert "vector_add ran to its end on the emulator, in this browser" in playground.results.inner_text()
    assert playground.results.locator("td.cute-pg-changed").count() == 250
    with playground.page.expect_download() as saved:
        playground.press("Save c.npy")
    assert saved.value.suggested_filename == "c.npy"
    playground.done()


def test_broken_example__shows_its_hazard_its_line_and_a_timeline(playground: Page) -> None:
    [example] = [one for one in EXAMPLES if one.name == "deadlock"]
    playground.choose("example:deadlock")
    playground.press("Run").done()
    assert playground.status == "deadlock: the report is below."
    arrives = next(
        n for n, line in enumerate(example.text.splitlines(), 1) if "mbarrier.arrive.shared" in line
    )
    assert playground.results.get_by_role("button", name=f"Show line {arrives} of the text").count() > 0
    waits = next(
        n for n, line in enumerate(example.text.splitlines(), 1) if "[%barrier + 32784], %before" in line
    )
    playground.results.get_by_role("button", name=f"Show line {waits} of the text").first.click()
    chosen = playground.text.evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)")
    assert "[%barrier + 32784], %before" in chosen
    assert playground.root.locator(f'.cute-pg-mark[data-line="{waits}"]').count() == 1
    assert playground.results.locator(".cc-widget").inner_text().count("It never goes on.") == 1


def test_pasted_kernel__gets_a_form_of_its_parameters(playground: Page) -> None:
    playground.text.fill(PASTED)
    playground.press("Run").done()  # the form is made anew, and the reader sees it before anything runs
    assert "Check the arguments" in playground.status
    assert playground.results.inner_text() == ""
    assert playground.field("source", "Element type").input_value() == "f32"
    assert playground.field("out", "Filled with").input_value() == "zeros"
    assert playground.field("map", "Box, innermost first").input_value() == "64,64"
    assert playground.root.get_by_label("Threads (block)").input_value() == "64"
    playground.field("factor", "Value").fill("much")
    playground.press("Run").done()
    assert playground.field("factor", "Value").get_attribute("aria-invalid") == "true"
    assert (
        "'much' is not a number"
        in playground.root.locator(".cute-pg-wrong:visible", has_text="much").inner_text()
    )
    playground.field("factor", "Value").fill("2")
    playground.field("source", "Filled with").select_option("arange")
    playground.field("factor", "Value").press("Enter")
    playground.done()
    assert second_row(playground) == ["16", "32", "34", "36"]


def test_pointer_to_tensor_maps__takes_one_map_or_several(served: tuple[Any, str]) -> None:
    playground = opened(*served)  # of its own: the other tests go on with one kernel
    playground.text.fill(GROUPED)
    playground.press("Run").done()
    assert playground.field("maps", "Given as").input_value() == "map"
    assert playground.field("maps", "Box, innermost first").input_value() == "64,64"
    playground.field("maps", "Given as").select_option("maps")
    for label, value in (("Shape", "3x4x16"), ("Box, innermost first", "8,2")):
        playground.field("maps", label).fill(value)
    for name, kind in (("maps", "f32"), ("out", "f32")):
        playground.field(name, "Element type").select_option(kind)
    playground.field("maps", "Filled with").select_option("arange")
    playground.root.get_by_label("CTAs (grid)").fill("3")
    playground.press("Run").done()
    assert playground.status == "The kernel ran to its end."
    assert second_row(playground) == ["16", "84", "85", "86"]


def test_file__fills_an_array(playground: Page) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(1024, dtype=np.float32) + 100)
    file = {"name": "a.npy", "mimeType": "application/octet-stream", "buffer": buffer.getvalue()}
    playground.field("source", "Filled with").select_option("file")
    playground.press("Run").done()
    assert (
        "choose a file" in playground.root.locator(".cute-pg-wrong:visible", has_text="choose").inner_text()
    )
    playground.field("source", "File").set_input_files(file)
    playground.press("Run").done()
    assert second_row(playground) == ["16", "232", "234", "236"]
    playground.press("Copy link")
    playground.root.get_by_text("The link is copied. Your files are not in it.").wait_for()


def test_upload__takes_ptx_and_refuses_what_is_no_text(playground: Page) -> None:
    upload = playground.root.get_by_label("Or a PTX file")
    before = playground.text.input_value()
    upload.set_input_files({"name": "k.cubin", "mimeType": "", "buffer": b"\x7fELF\x00\xff"})
    playground.root.get_by_text("k.cubin is not text. Give PTX, not a cubin.").wait_for()
    assert playground.text.input_value() == before
    upload.set_input_files({"name": "k.ptx", "mimeType": "", "buffer": EXAMPLES[0].text.encode()})
    playground.done()
    assert playground.field("n", "Value").input_value() == "1024"  # a guess: only examples know better
    playground.field("a", "Filled with").select_option("ones")
    playground.field("b", "Filled with").select_option("ones")
    playground.field("n", "Value").fill("3")
    playground.field("n", "Value").press("Control+Enter")
    playground.done()
    assert playground.results.locator("td.cute-pg-changed").count() == 3
    playground.choose("yours:0")
    assert playground.text.input_value() == before


def test_seeds__are_compared(playground: Page) -> None:
    playground.root.get_by_label("Number of seeds").fill("3")
    playground.press("Try seeds").done()
    assert "All seeds agree" in playground.results.inner_text()
    assert "3 seeds agree" in playground.results.inner_text()


def test_every_order__is_proved(playground: Page) -> None:
    playground.press("Prove every order").done()
    assert "Proved: every order goes well" in playground.results.inner_text()


def test_text__that_is_no_ptx_shows_its_line(playground: Page) -> None:
    kept = playground.text.input_value()
    playground.text.fill(kept.replace("[out]", "[aut]"))
    playground.press("Run").done()
    assert playground.root.locator("#cute-pg-text-wrong").inner_text().startswith("PTX line 14, column")
    assert playground.root.locator('.cute-pg-mark[data-line="14"][data-kind="error"]').count() == 1
    assert not playground.root.get_by_role("group", name="Arguments").is_visible()  # it is of another text
    playground.text.fill(kept)
    playground.press("Run").done()
    assert playground.root.get_by_role("group", name="Arguments").is_visible()


def test_text__that_is_too_large_is_refused_before_it_is_in_the_page(playground: Page) -> None:
    kept = playground.text.input_value()
    playground.page.evaluate("navigator.clipboard.writeText('// '.repeat(2_000_000))")
    playground.text.focus()
    playground.page.keyboard.press("Control+End")
    playground.page.keyboard.press("Control+V")
    playground.root.get_by_text(f"The text would have {6_000_000 + len(kept)} characters").wait_for()
    assert playground.text.input_value() == kept


def test_work__is_kept_when_an_example_is_opened(playground: Page) -> None:
    playground.choose("example:race")
    assert playground.text.input_value() != PASTED
    playground.press("Back to your text")
    assert playground.text.input_value() == PASTED
    assert playground.field("factor", "Value").input_value() == "2"


def test_run__shows_no_results_below_a_kernel_that_was_opened_meanwhile(playground: Page) -> None:
    go_on = hold_answer(playground.page, "cutecoursePlayground")
    playground.press("Run")
    playground.choose("example:transpose")
    playground.field("source", "Shape").fill("77")
    go_on()
    playground.done()
    assert playground.field("source", "Shape").input_value() == "77"
    assert playground.results.inner_text() == ""


def test_stop__ends_a_launch(playground: Page) -> None:
    playground.choose("example:endless")
    playground.root.get_by_text("Seed, limit, severities").click()
    playground.root.get_by_label("Instruction limit").fill("100000000")
    playground.press("Run")
    playground.root.get_by_text("Running …", exact=False).wait_for()
    playground.press("Stop").done()
    assert playground.status == "Stopped. Press Run to start Python again."


def test_work__is_kept_over_a_reload(playground: Page) -> None:
    before = playground.text.input_value()
    playground.page.reload()
    playground.page.wait_for_selector(".cute-pg")
    assert playground.text.input_value() == before
    playground.root.get_by_text("Seed, limit, severities").click()
    assert playground.root.get_by_label("Instruction limit").input_value() == "100000000"
    assert "scaled, saved" in playground.root.get_by_label("Open", exact=True).inner_text()


def test_link__carries_text_and_arguments_and_runs_nothing(playground: Page, served: tuple[Any, str]) -> None:
    context, address = served
    playground.choose("example:transpose")
    playground.field("source", "Filled with").select_option("ones")
    playground.press("Copy link")
    playground.root.get_by_text("The link is copied").wait_for()
    address = playground.page.evaluate("navigator.clipboard.readText()")
    other = opened(context, address.partition(PAGE)[0].rstrip("/"), "#" + address.partition("#")[2])
    other.root.get_by_text("This kernel came with a link").wait_for()
    assert other.text.input_value() == playground.text.input_value()
    assert other.field("source", "Filled with").input_value() == "ones"
    assert (other.results.inner_text(), other.python_files) == ("", [])
    other.page.close()


def test_link__of_hostile_text_is_shown_as_text(served: tuple[Any, str]) -> None:
    argument = {"kind": "array", "dtype": HOSTILE, "shape": HOSTILE, "fill": HOSTILE, "extra": HOSTILE}
    parameters = [{"name": HOSTILE, "declared": HOSTILE, "kinds": ["array"], "argument": argument}]
    state = {"text": HOSTILE, "entry": HOSTILE, "launch": {"grid": HOSTILE}, "parameters": parameters}
    page = opened(*served, link(state))
    page.root.get_by_text("This kernel came with a link").wait_for()
    assert page.text.input_value() == HOSTILE
    assert page.field(HOSTILE, "Shape").input_value() == HOSTILE
    assert page.root.locator("img, script").count() == 0
    assert page.page.evaluate("globalThis.broken") is None
    assert page.python_files == []
    page.page.close()


@pytest.mark.parametrize(
    ("fragment", "why"),
    [
        ("#ptx=%%%", "characters"),
        ("#ptx=AAAA", "part of it is missing or wrong"),
        (link({"text": 5, "parameters": []}), "its text is not in this page's format"),
        (link({"text": "a" * 1_100_000, "parameters": []}), "more than 1000000 bytes"),
        ("#example=none", "no such example"),
    ],
    ids=["letters", "packing", "type", "size", "example"],
)
def test_link__that_is_broken_says_so_and_loses_nothing(
    served: tuple[Any, str], fragment: str, why: str
) -> None:
    page = opened(*served, fragment)
    page.root.get_by_text("The link cannot be opened").wait_for()
    assert why in page.said
    assert page.text.input_value() != ""
    page.page.close()
