"""BankMap in Chromium: its arithmetic against Python, and clicks, keys and words."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from widgets.bank_cases import random_map
from widgets.parts import cc

from cutecourse.banks import column_access, ldmatrix_access, row_access
from cutecourse.layout import Layout, Swizzle, composition
from cutecourse.memory_access import cost_of, wavefronts
from cutecourse.widgets import BankMap
from cutecourse.widgets.bank_figure import runs_of, waiting_lanes
from cutecourse.widgets.bank_places import bits_of, place_sentence

pytestmark = pytest.mark.browser

TILE = "(32,64):(64,1)"
ACCESSES = [ldmatrix_access(matrices=1), ldmatrix_access(), row_access(3), column_access(2)]


# ---- the arithmetic ----


def test_arithmetic__javascript_agrees_with_python(javascript: Callable[..., Any]) -> None:
    rng = random.Random(9)
    shown = [random_map(rng)[0] for _ in range(100)]
    for one in shown[::3]:
        one.base = 1024 * rng.randrange(4)
    turns = [rng.randrange(6) for _ in shown]
    found = javascript(
        "bank_map.js",
        """return x.map(({ state, access, turn, cell }) => {
          const tile = m.tileOf(state);
          const problem = m.obstacle(tile, access);
          const waves = tile.waves(access);
          return { text: tile.text, offsets: tile.after,
                   places: tile.places, bytes: tile.bytes, across: tile.across, problem,
                   over: m.overrun(tile), unit: m.unitOf(tile, access), grown: tile.grown,
                   waves: waves.map((w) => [w.first, w.span, w.words]), runs: waves.map(m.runsOf),
                   late: [...m.waitingLanes(waves)].sort((a, b) => a - b), cost: m.costOf(waves),
                   words: m.sentence(tile, access), bits: m.bitsOf(tile),
                   turn: m.wavefrontSentence(waves, Math.min(turn, waves.length)),
                   place: m.placeSentence(tile, ...cell) };
        });""",
        [
            {
                "state": {
                    "notation": one.notation,
                    "bits": one.element_bits,
                    "swizzle": one.swizzle,
                    "padding": one.padding,
                    "base": one.base,
                },
                "access": one.accesses[0],
                "turn": turn,
                "cell": [one.tile.extents[0] - 1, 5],
            }
            for one, turn in zip(shown, turns, strict=True)
        ],
    )
    refused = overrun = merged = 0
    for one, turn, js in zip(shown, turns, found, strict=True):
        tile, access = one.tile, one.chosen
        assert access is not None
        assert js["text"] == str(tile.whole)
        assert js["offsets"] == [after for _, after in tile.offsets]
        assert (js["places"], js["bytes"]) == (tile.places, tile.bytes)
        assert (js["across"], js["grown"]) == (tile.across, tile.padded_mode)
        assert (js["problem"], js["over"]) == (tile.obstacle(access), tile.overrun())
        assert js["unit"] == tile.unit(access)
        waves = tile.waves(access)
        assert js["waves"] == [
            [wave.first, wave.span, [[bank, word, list(lanes)] for bank, word, lanes in wave.words]]
            for wave in waves
        ]
        assert js["runs"] == [[[b, n, list(lanes)] for b, n, lanes in runs_of(wave)] for wave in waves]
        assert js["late"] == sorted(waiting_lanes(waves))
        cost = cost_of(waves)
        assert js["cost"] == {
            "wavefronts": cost.wavefronts,
            "ideal": cost.ideal,
            "conflicts": cost.conflicts,
        }
        one.wavefront = turn
        assert " ".join(filter(None, [js["words"], js["turn"], js["over"]])) == one.words
        assert js["bits"] == bits_of(tile)
        assert js["place"] == place_sentence(tile, tile.extents[0] - 1, 5)
        refused += bool(js["problem"])
        overrun += bool(js["over"])
        merged += any(wave.span > 128 // max(4, tile.access_bytes(access)) for wave in waves)
    assert min(refused, overrun, merged) > 2


# ---- the page ----


def banks_drawn(page: Any) -> list[int]:
    return page.locator(".cc-bank-tile [data-bank]").evaluate_all("all => all.map((c) => +c.dataset.bank)")


def test_page__every_cell_has_the_bank_of_the_layout(mount: Any) -> None:
    page = mount(BankMap(TILE, accesses=ACCESSES, swizzle=(2, 3, 3)), width=1000)
    layout = composition(Swizzle(2, 3, 3), Layout((32, 64), (64, 1)))
    assert banks_drawn(page) == [
        layout((row, 8 * chunk)) // 2 % 32 for row in range(32) for chunk in range(8)
    ]
    cc(page, "access").select_option(label="column 2")  # cells of one word now
    assert banks_drawn(page) == [layout((row, 2 * word)) // 2 % 32 for row in range(32) for word in range(32)]


def test_page__the_numbers_of_a_swizzle_move_by_buttons_and_by_keys(mount: Any) -> None:
    page = mount(BankMap(TILE, accesses=ACCESSES))
    assert cc(page, "cost").inner_text() == (
        "8 of 8 lanes start in bank 0: 8 wavefronts where 1 would do, 7 conflicts."
    )
    for conflicts in (3, 1, 0):
        cc(page, "bits-more").click()
        assert f"{conflicts} conflict" in cc(page, "cost").inner_text()
    assert cc(page, "cost").inner_text() == (
        "No bank is asked for two different words: 1 wavefront, 0 conflicts."
    )
    cc(page, "bits").focus()
    page.keyboard.press("ArrowUp")
    # S goes along: the bits that are read lie above those that are flipped.
    assert [cc(page, name).input_value() for name in ("bits", "base", "shift")] == ["4", "3", "4"]
    assert cc(page, "shift-less").is_disabled()
    page.keyboard.press("ArrowDown")
    cc(page, "shift").fill("2")
    assert "3 to 12" in page.locator(".cc-message:visible").inner_text()
    assert cc(page, "shift").get_attribute("aria-invalid") == "true"
    cc(page, "shift").fill("3")
    shown = BankMap(TILE, accesses=ACCESSES, swizzle=(3, 3, 3))
    each = "; ".join(f"{name}: {count} conflicts" for name, count in shown.conflicts.items())
    assert cc(page, "all").inner_text() == f"All instructions: {each}."
    assert page.locator(".cc-message:visible").count() == 0
    cc(page, "base").fill("2")
    assert cc(page, "problem").inner_text() == (
        "Swizzle<3,2,3> moves the 8 elements of one lane apart. M must be at least 3."
    )
    assert not cc(page, "waves").is_visible()
    assert cc(page, "refused").is_visible()
    assert "ldmatrix.x4 at (0, 0): cannot run; row 3: 0 conflicts" in cc(page, "all").inner_text()
    cc(page, "none").click()
    assert cc(page, "none").is_disabled()
    assert "7 conflicts" in cc(page, "cost").inner_text()


def test_page__a_button_at_its_end_hands_the_focus_on(mount: Any) -> None:
    page = mount(BankMap(TILE, accesses=ACCESSES, swizzle=(1, 1, 3)))
    focused = "document.activeElement.dataset.cc"
    cc(page, "base-less").focus()
    page.keyboard.press("Enter")
    assert (cc(page, "base-less").is_disabled(), page.evaluate(focused)) == (True, "base-more")
    cc(page, "none").focus()
    page.keyboard.press("Enter")
    assert page.evaluate(focused) == "bits-more"
    assert cc(page, "bits-less").is_disabled()
    cc(page, "access").select_option(label="row 3")
    cc(page, "wave-more").focus()
    page.keyboard.press("Enter")
    assert page.evaluate(focused) == "wave-less"
    page.keyboard.press("Enter")
    assert page.evaluate(focused) == "wave-more"


def test_page__padding_costs_bytes_and_can_misalign(mount: Any) -> None:
    page = mount(BankMap(TILE, accesses=ACCESSES))
    assert cc(page, "what").inner_text() == "ldmatrix.x1 at (0, 0) on (32,64):(64,1)"
    assert cc(page, "size").inner_text() == "The tile takes 4096 bytes of shared memory."
    cc(page, "padding").fill("8")
    assert cc(page, "layout").inner_text() == "(32,64):(72,1)"
    assert cc(page, "size").inner_text() == "The tile takes 4608 bytes of shared memory, 512 of them padding."
    assert "0 conflicts" in cc(page, "cost").inner_text()
    cc(page, "padding-less").click()
    assert "Lane 1 would access byte 142, which is no multiple of 16." in cc(page, "problem").inner_text()
    cc(page, "access").select_option(label="column 2")
    assert "conflict" in cc(page, "cost").inner_text()


def test_page__a_layout_without_one_row_stride_has_no_padding(mount: Any) -> None:
    page = mount(BankMap("((8,4),(8,2)):((8,128),(1,64))", accesses=[ldmatrix_access(matrices=2)]))
    assert not cc(page, "padding").is_visible()
    assert "2 wavefronts, 0 conflicts" in cc(page, "cost").inner_text()


def test_page__wavefronts_are_walked_and_mark_their_lanes(mount: Any) -> None:
    page = mount(BankMap(TILE, accesses=ACCESSES, access=3, swizzle=(3, 3, 3)), width=1000)
    now = "all => all.map((f) => +f.dataset.lane).sort((a, b) => a - b)"
    marked = page.locator(".cc-bank-tile .cc-now")
    assert (cc(page, "wave").inner_text(), marked.count()) == ("all 4", 0)
    assert cc(page, "wave-less").is_disabled()
    cc(page, "wave-more").click()
    cc(page, "wave-more").click()
    assert cc(page, "wave").inner_text() == "2 of 4"
    assert marked.evaluate_all(now) == list(range(8, 16))
    assert cc(page, "turn").inner_text() == (
        "Wavefront 2 of 4 serves lanes 8 to 15: 8 of the 32 banks deliver a word."
    )
    drawn = page.locator(".cc-bank-block").evaluate_all(
        "all => all.map((b) => [+b.dataset.wave, +b.dataset.bank, b.dataset.lanes])"
    )
    shown = BankMap(TILE, accesses=ACCESSES, access=3, swizzle=(3, 3, 3))
    assert shown.chosen is not None
    waves = wavefronts(shown.tile.addresses(shown.chosen), 2)
    assert drawn == [
        [turn, bank, " ".join(map(str, lanes))]
        for turn, wave in enumerate(waves, 1)
        for bank, _, lanes in runs_of(wave)
    ]
    late = page.locator(".cc-bank-tile .cc-late").evaluate_all(now)
    assert late == list(range(8, 32))
    box = cc(page, "waves").bounding_box()
    cc(page, "waves").click(position={"x": 100, "y": box["height"] - 8})
    assert cc(page, "wave").inner_text() == "4 of 4"
    assert cc(page, "wave-more").is_disabled()
    cc(page, "bits-more").click()
    assert cc(page, "wave").inner_text() == "all 4"


def test_page__clicks_and_arrow_keys_choose_an_element(mount: Any) -> None:
    page = mount(BankMap(TILE, accesses=ACCESSES, swizzle=(3, 3, 3)), width=1000)
    cell = page.locator(".cc-bank-tile [data-bank]").nth(8 * 3 + 1)
    box, picture = cell.bounding_box(), cc(page, "tile").bounding_box()
    at = {"x": box["x"] - picture["x"] + 5, "y": box["y"] - picture["y"] + 5}
    cc(page, "tile").click(position=at)
    assert cc(page, "place").inner_text().startswith("(3, 8) has offset 200, and the swizzle makes it 208.")
    page.keyboard.press("ArrowDown")
    assert cc(page, "place").inner_text().startswith("(4, 8) has offset 264")
    page.keyboard.press("Shift+ArrowRight")
    assert cc(page, "place").inner_text().startswith("(4, 40) has offset 296")
    assert page.evaluate("document.activeElement.dataset.cc") == "tile"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for _ in range(3):
        page.keyboard.press("Shift+ArrowRight")
    assert cc(page, "place").inner_text().startswith("(4, 56)")
    page.keyboard.press("Escape")
    assert cc(page, "place").count() == 0
    page.keyboard.press("ArrowDown")
    assert cc(page, "place").inner_text().startswith("(0, 0) has offset 0.")


def test_page__an_m_major_tile_is_drawn_along_its_columns(mount: Any) -> None:
    page = mount(BankMap("(64,16):(1,64)", accesses=[ldmatrix_access(trans=True)]), width=1000)
    assert "mode 0 goes across" in page.locator(".cc-bank h4").first.inner_text()
    assert len(banks_drawn(page)) == 16 * 8
    cc(page, "tile").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert cc(page, "place").inner_text().startswith("(8, 0) has offset 8.")


def test_page__the_bits_say_what_is_read_flipped_and_shaded(mount: Any) -> None:
    page = mount(BankMap(TILE, accesses=ACCESSES, swizzle=(3, 3, 3), selected={"row": 3, "column": 8}))
    digits = {name: "".join(cc(page, name).all_inner_texts()) for name in ("before", "after", "role", "bit")}
    assert digits["before"] == f"{200:011b}"
    assert digits["after"] == f"{208:011b}"
    assert digits["role"] == "YYYZZZ"
    shaded = page.locator('[data-cc="before"].cc-of-bank').evaluate_all(
        "all => all.map((b) => +b.dataset.bit)"
    )
    assert shaded == [5, 4, 3, 2, 1]
    changed = page.locator('[data-cc="after"].cc-changed').evaluate_all(
        "all => all.map((b) => +b.dataset.bit)"
    )
    assert changed == [4, 3]
    assert cc(page, "legend").inner_text() == (
        "The shaded bits choose the bank. Swizzle<3,3,3> reads bits 6 to 8 (Y) and flips bits 3 to 5 (Z) "
        "where the bit 3 places above is 1."
    )
    cc(page, "tile").focus()
    page.keyboard.press("Escape")
    assert "offset 64, where lane 1 begins" in page.locator(".cc-bank h5").inner_text()


def test_page__a_tile_of_bytes_counts_in_bytes(mount: Any) -> None:
    page = mount(BankMap("(32,128):(128,1)", 8, accesses=[ldmatrix_access(elems=16)], swizzle=(3, 4, 3)))
    assert (
        page.locator(".cc-bank h4").first.inner_text() == "The tile: 16 bytes in a cell, with the first bank"
    )
    assert "Swizzle, counted in bytes" in page.locator(".cc-bank legend").all_inner_texts()
    assert page.get_by_label("Extra bytes in a row", exact=True).count() == 1
    assert page.get_by_role("button", name="Extra bytes in a row: one more").count() == 1
    page.get_by_role("button", name="M, base: one less").click()
    assert "M must be at least 4" in cc(page, "problem").inner_text()


def test_page__without_an_access_there_is_only_the_tile(mount: Any) -> None:
    page = mount(BankMap("(8,64):(64,1)"))
    assert not cc(page, "access").is_visible()
    assert not cc(page, "waves").is_visible()
    assert len(banks_drawn(page)) == 8 * 32
    assert "mode 0" not in page.locator(".cc-bank h4").first.inner_text()


@pytest.mark.parametrize("width", [360, 768, 1300])
def test_page__fits_and_no_label_lies_over_another(width: int, mount: Any) -> None:
    page = mount(
        BankMap(TILE, accesses=ACCESSES, access=1, swizzle=(3, 3, 3), wavefront=2),
        BankMap("(32,32):(32,1)", 32, accesses=[column_access(5)]),
        BankMap("(64,64):(64,1)", accesses=[row_access(2)], padding=8),
        BankMap("(32,128):(128,1)", 8, accesses=[ldmatrix_access(elems=16)], swizzle=(3, 4, 3)),
        width=width,
    )
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    crossing = page.evaluate(
        """() => [...document.querySelectorAll(".cc-bank svg, .cc-bank-bits")].flatMap((picture) => {
             const boxes = [...picture.querySelectorAll("text, .cc-bit-head, .cc-bank-rowname")]
               .filter((t) => t.textContent.trim()).map((t) => {
                 const range = document.createRange();
                 range.selectNodeContents(t);
                 const box = range.getBoundingClientRect();
                 return { text: t.textContent, left: box.left, right: box.right, top: box.top + 2,
                          bottom: box.bottom - 2 };
               });
             return boxes.flatMap((a, i) => boxes.slice(i + 1)
               .filter((b) => a.left < b.right - 0.5 && b.left < a.right - 0.5
                           && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5)
               .map((b) => [a.text, b.text]));
           })"""
    )
    assert crossing == []


def test_page__on_paper_there_are_no_controls_and_everything_fits(mount: Any) -> None:
    page = mount(BankMap("(64,64):(64,1)", accesses=ACCESSES, swizzle=(3, 3, 3)), width=1300)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 900})
    assert not cc(page, "access").is_visible()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 700
    scroll = page.locator(".cc-bank .cc-scroll")
    assert scroll.evaluate(
        "(s) => s.scrollHeight <= s.clientHeight + 1 && s.scrollWidth <= s.clientWidth + 1"
    )
    assert cc(page, "what").inner_text() == "ldmatrix.x1 at (0, 0) on S<3,3,3> o 0 o (64,64):(64,1)"
    assert "0 conflicts" in cc(page, "cost").inner_text()
