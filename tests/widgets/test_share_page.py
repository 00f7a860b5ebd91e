"""Links to widgets on a page with no kernel: they carry what the reader changed, or say why not."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from widgets import traces, umma_runs
from widgets.parts import cc

from cutecourse.banks import column_access, ldmatrix_access
from cutecourse.descriptors import SMEM_SM100
from cutecourse.layout import Layout, explain, tiled_divide
from cutecourse.protocols import pipeline
from cutecourse.widgets import (
    BankMap,
    BarrierTimeline,
    ClusterMasks,
    DescriptorBits,
    LayoutExplorer,
    MmaOwnership,
    Predict,
    Reveal,
    RoleTimeline,
    ScaleViewer,
    StateGraph,
    TmaBox,
    TmemViewer,
    TwoSmStage,
    WgmmaOwnership,
)
from cutecourse.widgets.recorded import SOURCES
from cutecourse.widgets.sharing import shared_traits
from tools.paths import BOOK

pytestmark = pytest.mark.browser

# What widgets show: their words, their controls, and what is marked in them.
SHOWN = """() => [...document.querySelectorAll(".cc-widget")].map((root) => {
  const copy = root.cloneNode(true);
  copy.querySelector(".cc-link-said").remove();
  const marks = ".cc-lit, .cc-chosen, .cc-shown, [aria-pressed=true], [aria-selected=true]";
  return {
    text: copy.textContent,
    fields: [...root.querySelectorAll("input, select")].map((one) => [one.checked, one.value]),
    marked: [...root.querySelectorAll(marks)].map((node) => node.textContent),
  };
})"""


def edit_explorer(page: Any) -> None:
    cc(page, "notation").fill("((2,2),8):((1,16),2)")
    cc(page, "operation").select_option("logical_divide")
    cc(page, "operand").fill("(2,4)")
    cc(page, "next").click()
    page.locator("summary").click()
    cc(page, "cell", index=5).click()
    page.locator("summary").click()


def walk_explanation(page: Any) -> None:
    cc(page, "inside").check()
    cc(page, "next").click()
    cc(page, "next").click()


def choose_owner(page: Any) -> None:
    cc(page, "atom").select_option("SM80_16x8x8_F32F16F16F32_TN")
    cc(page, "own", operand="A", crd="9,6").click()


def choose_box(page: Any) -> None:
    cc(page, "swizzle").select_option("64B")
    cc(page, "tile-m").fill("64")
    cc(page, "chunk", chunk=9).click()


def choose_cta(page: Any) -> None:
    cc(page, "thr-id").select_option("2")
    cc(page, "cta", rank=6).click()
    cc(page, "show", letter="B").click()


def walk_timeline(page: Any) -> None:
    cc(page, "only-barrier").select_option(index=1)
    cc(page, "next").click()
    cc(page, "next").click()


def walk_stage(page: Any) -> None:
    for _ in range(3):
        cc(page, "next").click()


def set_bits(page: Any) -> None:
    page.get_by_label("block 1").check()
    cc(page, "value", field="start_address").fill("2048")
    cc(page, "bit", bit=60).click()


def choose_column(page: Any) -> None:
    cc(page, "shape").select_option("2,128")
    cc(page, "row").fill("70")
    cc(page, "col").fill("130")


def choose_access(page: Any) -> None:
    cc(page, "access").select_option(label="column 2")
    cc(page, "bits-more").click()
    cc(page, "wave-more").click()


def walk_states(page: Any) -> None:
    cc(page, "removed").select_option("3")
    cc(page, "on").click()
    cc(page, "on").click()


def choose_factor(page: Any) -> None:
    cc(page, "form").select_option("nvf4")
    cc(page, "m").fill("77")
    cc(page, "k").fill("200")


def masks() -> ClusterMasks:
    return ClusterMasks((4, 4))


def bits() -> DescriptorBits:
    return DescriptorBits(SMEM_SM100, {"block 0": 0x4000404000010040, "block 1": 0x4000404000010042})


def banks() -> BankMap:
    return BankMap("(32,64):(64,1)", accesses=[ldmatrix_access(), column_access(2)])


def timeline() -> BarrierTimeline:
    return BarrierTimeline(traces.pipeline())


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "LayoutExplorer": (LayoutExplorer, edit_explorer),
    "LayoutExplorer of an explanation": (
        lambda: LayoutExplorer(explanation=explain(tiled_divide, Layout((8, 8)), (2, 4))),
        walk_explanation,
    ),
    "MmaOwnership": (MmaOwnership, choose_owner),
    "WgmmaOwnership": (lambda: WgmmaOwnership((8,)), lambda page: cc(page, "thread").fill("77")),
    "TmaBox": (TmaBox, choose_box),
    "ClusterMasks": (masks, choose_cta),
    "BarrierTimeline": (timeline, walk_timeline),
    "TwoSmStage": (lambda: TwoSmStage(umma_runs.traced("umma_two_sm")), walk_stage),
    "RoleTimeline": (lambda: RoleTimeline(umma_runs.stored("umma_persistent"), tiles=3), walk_stage),
    "DescriptorBits": (bits, set_bits),
    "TmemViewer": (lambda: TmemViewer(128, 256), choose_column),
    "BankMap": (banks, choose_access),
    "StateGraph": (lambda: StateGraph(pipeline(2, 3)), walk_states),
    "ScaleViewer": (ScaleViewer, choose_factor),
}


def copied(page: Any) -> str:
    """Press the control and read the link from the clipboard."""
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    button = page.get_by_role("button", name="Copy link").first
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator(".cc-link-said").first.inner_text() == "The link is copied."
    return str(page.evaluate("window.copied"))


def follow(page: Any, link: str) -> None:
    """Open a link as somebody does who gets it: on a new page."""
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("html[data-cc-widgets=ready]")


def test_share__every_kind_of_widget_has_a_case() -> None:
    cases = {name.partition(" ")[0] for name in KINDS}
    assert {kind.__name__ for kind in SOURCES if shared_traits(kind)} == cases


@pytest.mark.parametrize("kind", KINDS)
def test_share__what_the_reader_changed_is_there_again_behind_the_link(kind: str, mount: Any) -> None:
    make, change = KINDS[kind]
    widget = make()
    page = mount(widget, site=True)
    recorded = page.evaluate(SHOWN)
    change(page)
    page.mouse.move(0, 0)
    changed = page.evaluate(SHOWN)
    assert changed != recorded
    link = copied(page)
    follow(page, link)
    assert page.evaluate(SHOWN) == changed
    assert page.locator(".cc-link-said").inner_text() == ""
    assert copied(page) == link
    # Python's own checks take the values too.
    values = dict(parse_qsl(urlsplit(link).fragment, keep_blank_values=True))
    assert values.pop("widget") == f"{type(widget).__name__}-1"
    assert values.pop("version")
    with widget.hold_trait_notifications():
        for name, text in values.items():
            widget.set_trait(name, text if isinstance(getattr(widget, name), str) else json.loads(text))


def test_share__a_prediction_has_no_link(mount: Any) -> None:
    page = mount(Predict("01-a", "How far apart?", answer_type="number"), Reveal("01-a", 8), site=True)
    assert page.locator(".cc-widget").count() == 2
    assert page.get_by_role("button", name="Copy link").count() == 0


REFUSED = [
    ("widget=TmaBox-2&swizzle=64B", "it names a widget that this page does not have"),
    ("widget=TmaBox-1&swizzle=" + "6" * 4000, "it has more than 4000 characters"),
    ("widget=TmaBox-1&version=abc&swizzle=64B", "it was made for another version of this page's TmaBox-1"),
    ("widget=TmaBox-1&swizzle=70B", "swizzle of TmaBox-1 cannot be 70B"),
    ("widget=TmaBox-1&padding=0.5", "padding of TmaBox-1 cannot be 0.5"),
    ("widget=TmaBox-1&padding=true", "padding of TmaBox-1 cannot be true"),
    ("widget=TmaBox-1&tile=[64]", "tile of TmaBox-1 cannot be [64]"),
    ("widget=TmaBox-1&tile=[64,", "tile of TmaBox-1 cannot be [64,"),
    ('widget=TmaBox-1&selected={"chunk":1,"__proto__":{}}', "selected of TmaBox-1 cannot be"),
    ("widget=TmaBox-1&_esm=alert(1)", "TmaBox-1 has no _esm that a link can set"),
    ("widget=TmaBox-1&__proto__=1", "TmaBox-1 has no __proto__ that a link can set"),
    ("widget=TmaBox-1&swizzle=%E0%A4%A", "swizzle of TmaBox-1 cannot be"),
    ("widget=TmaBox-1&colour=<img src=x onerror=alert(1)>", "colour of TmaBox-1 cannot be <img src=x"),
    ("widget=LayoutExplorer-1&notation=(4,8", "a parenthesis is not closed"),
    ("widget=LayoutExplorer-1&notation=(64,64)", "up to 1024 cells"),
    ("widget=LayoutExplorer-1&operation=constructor", "operation of LayoutExplorer-1 cannot be constructor"),
    ("widget=MmaOwnership-1&atom=toString", "MmaOwnership-1 cannot show these values"),
    ("widget=MmaOwnership-1&thread=40", "This atom has no thread 40."),
    ("widget=ClusterMasks-1&cluster=[3,4]&thr_id=2", "cluster (3,4)"),
    ("widget=BarrierTimeline-1&cta=[0,7]", "The trace has no CTA (0, 7)"),
    ("widget=BarrierTimeline-1&barrier=nobody", "The trace has no barrier nobody"),
    ("widget=DescriptorBits-1&chosen=2", "chosen of DescriptorBits-1 cannot be 2"),
    (
        'widget=DescriptorBits-1&words=[["a","0x1ffffffffffffffff"],["b","0x0"]]',
        "DescriptorBits-1 cannot show these values together",
    ),
    ("widget=TmemViewer-1&m=256&cta_group=1", "M = 256 with cta_group 1 has no accumulator"),
    ("widget=BankMap-1&access=2", "access of BankMap-1 cannot be 2"),
    ("widget=BankMap-1&swizzle=[3,3,1]", "BankMap-1 cannot show these values"),
]


# Open one link after the other, and return the line that is said of each; "" when none is said for a second.
OPEN_ALL = """async (fragments) => {
  const said = [];
  for (const fragment of fragments) {
    location.hash = fragment;
    let node = null;
    for (let tries = 0; !node && tries < 200; tries += 1) {
      await new Promise((done) => setTimeout(done, 5));
      node = document.querySelector(".cc-link-said:not(:empty)");
    }
    said.push(node?.textContent ?? "");
    if (node) node.textContent = "";
  }
  return said;
}"""


def test_share__a_link_that_does_not_fit_says_so_and_changes_nothing(mount: Any) -> None:
    widgets = [TmaBox(), LayoutExplorer(), MmaOwnership(), masks(), timeline(), bits(), TmemViewer(), banks()]
    page = mount(*widgets, site=True)
    cc(page, "notation").fill("(2,3):(3,1)")  # this too stays as it is
    before = page.evaluate(SHOWN)
    said = page.evaluate(OPEN_ALL, [fragment for fragment, _ in REFUSED])
    for (fragment, words), line in zip(REFUSED, said, strict=True):
        assert line.startswith("The link does not fit: "), fragment
        assert words in line
    assert page.evaluate(SHOWN) == before
    assert cc(page, "notation").input_value() == "(2,3):(3,1)"


def test_share__the_examples_of_the_playground_fit_its_explorer(mount: Any) -> None:
    page_text = (BOOK / "playground_layouts.md").read_text(encoding="utf-8")
    fragments = [html.unescape(found) for found in re.findall(r'<a href="#(widget=[^"]*)"', page_text)]
    assert len(fragments) >= 5
    page = mount(LayoutExplorer("(4,8):(8,1)", operation="zipped_divide", operand="(2,4)"), site=True)
    for fragment in fragments:
        page.evaluate("fragment => { location.hash = fragment; }", fragment)
        values = dict(parse_qsl(fragment, keep_blank_values=True))
        page.wait_for_function(
            "text => document.querySelector('[data-cc=notation]')?.value === text", arg=values["notation"]
        )
        assert page.locator(".cc-link-said").inner_text() == ""
        values.pop("widget")
        expected = LayoutExplorer(values.pop("notation"), **values).result()
        if expected is not None:
            cc(page, "last").click()
            assert cc(page, "result").inner_text() == str(expected)


def test_share__a_widget_made_from_other_data_refuses_the_link(mount: Any) -> None:
    page = mount(BarrierTimeline(traces.deadlock()), site=True)
    cc(page, "next").click()
    version = copied(page).partition("version=")[2].partition("&")[0]
    page = mount(BarrierTimeline(traces.polling()), site=True)
    follow(page, f"{page.url}#widget=BarrierTimeline-1&version={version}&selected=3")
    assert "another version of this page" in page.locator(".cc-link-said").inner_text()


def test_share__a_link_on_the_page_sets_what_it_names_and_works_again_after_an_edit(mount: Any) -> None:
    page = mount(LayoutExplorer("(4,8):(8,1)", operation="coalesce"), site=True)
    page.evaluate("""() => {
      const link = document.createElement("a");
      link.href = "#widget=LayoutExplorer-1&notation=(2,(1,6)):(1,(6,2))";
      link.textContent = "an example";
      document.body.append(link);
    }""")
    for _ in range(2):
        page.get_by_role("link", name="an example").click()
        page.wait_for_function(
            "document.querySelector('[data-cc=notation]')?.value === '(2,(1,6)):(1,(6,2))'"
        )
        assert cc(page, "operation").input_value() == "coalesce"
        cc(page, "notation").fill("8:1")


def test_share__a_marked_field_is_corrected_first_and_the_address_bar_replaces_the_clipboard(
    mount: Any,
) -> None:
    page = mount(ClusterMasks((2, 2)), site=True, width=390)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    said, button = page.locator(".cc-link-said"), page.get_by_role("button", name="Copy link")
    cc(page, "cta", rank=3).click()
    cc(page, "tile").fill("(128,")
    button.click()
    assert said.inner_text().startswith("Correct the marked field first")
    cc(page, "tile").fill("(128,128,64)")
    button.click()
    assert "in the address bar" in said.inner_text()
    assert "cta=3" in page.url
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_share__a_link_opens_what_is_folded_and_scrolls_there(mount: Any) -> None:
    page = mount(LayoutExplorer(), ClusterMasks((2, 2)), site=True)
    page.evaluate("""() => {
      const last = [...document.querySelectorAll(".cc-mount")].at(-1);
      const fold = document.createElement("details");
      fold.style.marginTop = "3000px";
      last.replaceWith(fold);
      fold.append(last);
      location.hash = "widget=ClusterMasks-1&cta=2";
    }""")
    cc(page, "cluster-masks").wait_for()
    page.wait_for_function("scrollY > 2500")
    assert page.locator("details[open] [data-cc=rank]").inner_text() == "2"
