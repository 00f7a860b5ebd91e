"""TmemViewer in Chromium: its arithmetic against Python and the emulator, and clicks, keys and words."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from widgets.accumulators import emulated
from widgets.parts import cc

from cutecourse.widgets import TmemViewer
from cutecourse.widgets.tmem_figure import blocks
from cutecourse.widgets.tmem_places import (
    SHAPES,
    ColumnRequest,
    accumulator,
    allocate,
    free,
    shapes_snapshot,
    smallest_of,
)

pytestmark = pytest.mark.browser


# ---- the arithmetic ----


def test_places__javascript_agrees_with_python_for_every_layout(javascript: Callable[..., Any]) -> None:
    rng = random.Random(12)
    snapshot = shapes_snapshot()
    cases = []
    for group, m in SHAPES:
        known = [int(n) for n in snapshot[f"{group},{m}"]["layouts"]]
        for n in {known[0], known[-1], *rng.sample(known, 4)}:
            one = accumulator(m, n, group)
            cells = [(rng.randrange(m), rng.randrange(n)) for _ in range(60)]
            spots = [
                (rng.randrange(group), rng.randrange(128), rng.randrange(one.columns + 4)) for _ in range(60)
            ]
            cases.append((one, cells, spots))
    found = javascript(
        "tmem_viewer.js",
        """return x.cases.map(([m_, n, group, cells, spots]) => {
          const one = m.accumulatorOf(x.shapes, m_, n, group);
          return { columns: one.columns, rows: one.rows, notation: one.notation,
                   places: cells.map(([r, c]) => Object.values(one.place(r, c))),
                   elements: spots.map(([v, l, c]) => one.element(v, l, c)),
                   blocks: m.blocksOf(one).map((b) => [b.cta, b.warp, b.c, b.memory]) };
        });""",
        {
            "shapes": snapshot,
            "cases": [[one.m, one.n, one.cta_group, cells, spots] for one, cells, spots in cases],
        },
    )
    empty = 0
    for (one, cells, spots), js in zip(cases, found, strict=True):
        assert (js["columns"], js["rows"], js["notation"]) == (
            one.columns,
            one.rows,
            str(one.fragment.layout),
        )
        assert js["places"] == [list(one.place(*cell)) for cell in cells]
        elements = [one.element(*spot) for spot in spots]
        assert js["elements"] == [list(element) if element else None for element in elements]
        empty += elements.count(None)
        assert js["blocks"] == [[cta, warp, list(c), list(memory)] for cta, warp, c, memory in blocks(one)]
    assert empty > 100


@pytest.mark.parametrize(("m", "n", "group"), [(64, 24, 1), (128, 32, 2)])
def test_loads__javascript_names_the_register_that_the_emulator_fills(
    m: int, n: int, group: int, javascript: Callable[..., Any]
) -> None:
    measured = emulated(m, n, group)
    found = javascript(
        "tmem_viewer.js",
        """const one = m.accumulatorOf(x.shapes, x.m, x.n, x.group);
           return x.cells.map(([r, c]) => {
             const { cta, lane, column } = one.place(r, c);
             const { warp, thread, load, register, lane: inside } = m.loadOf(lane, column, 8);
             return [cta, thread, load, register, 32 * warp + inside];
           });""",
        {"shapes": shapes_snapshot(), "m": m, "n": n, "group": group, "cells": list(measured.values())},
    )
    assert [tuple(one[:4]) for one in found] == list(measured)
    assert all(one[4] == one[1] for one in found)


def test_allocations__javascript_gives_the_columns_that_python_gives(javascript: Callable[..., Any]) -> None:
    rng = random.Random(2)
    runs = []
    for _ in range(40):
        steps: list[tuple[str, int]] = []
        for i in range(25):
            if steps and rng.random() < 0.4:
                steps.append((f"a{rng.randrange(i)}", 0))
            else:
                steps.append((f"a{i}", rng.choice((16, 96, *[32 << max(0, 4 - i // 3)] * 5, 32, 1024))))
        runs.append(steps)
    expected = []
    for steps in runs:
        held: list[ColumnRequest] = []
        smallest, states = 512, []
        for name, columns in steps:
            held = allocate(held, name, columns, 1, smallest) if columns else free(held, name)
            smallest = smallest_of(held, smallest)
            states.append([one.to_snapshot() for one in held])
        expected.append(states)
    found = javascript(
        "tmem_viewer.js",
        """return x.map((steps) => {
          let [held, smallest] = [[], 512];
          return steps.map(([name, columns]) => {
            held = columns ? m.allocateColumns(held, name, columns, smallest) : m.freeColumns(held, name);
            smallest = m.smallestOf(held, smallest);
            return held;
          });
        });""",
        runs,
    )
    assert found == expected
    states = [one["state"] for run in expected for step in run for one in step]
    assert min(states.count(state) for state in ("placed", "waits", "refused")) > 100


# ---- the page ----


def said(page: Any) -> dict[str, str]:
    names = ("element", "at-cta", "at-lane", "at-column", "warp", "thread", "load", "register", "reach")
    return {name: cc(page, name).inner_text() for name in names if cc(page, name).count()}


def test_page__an_element_says_its_place_and_its_register(mount: Any) -> None:
    page = mount(TmemViewer(128, 256, cta_group=2))
    assert "Choose an element of C" in cc(page, "state").inner_text()
    cc(page, "row").fill("70")
    cc(page, "col").fill("130")
    assert accumulator(128, 256, 2).place(70, 130) == (1, 70, 2)
    assert said(page) == {
        "element": "C[70, 130]",
        "at-cta": "1",
        "at-lane": "70",
        "at-column": "2",
        "warp": "2",
        "thread": "70",
        "load": "0",
        "register": "r2",
        "reach": "64 to 95",
    }
    assert cc(page, "address").inner_text() == "0x00460002"
    assert (cc(page, "cta").input_value(), cc(page, "lane").input_value()) == ("1", "70")
    cc(page, "col").fill("100")
    cc(page, "repetitions").select_option("8")
    assert (said(page)["load"], said(page)["register"]) == ("12", "r4")
    assert said(page)["warp"] == "0"


def test_page__a_place_says_its_element_or_that_there_is_none(mount: Any) -> None:
    page = mount(TmemViewer(64, 64))
    cc(page, "lane").fill("37")
    cc(page, "column").fill("11")
    assert accumulator(64, 64, 1).element(0, 37, 11) == (21, 11)
    assert said(page)["element"] == "C[21, 11]"
    assert (cc(page, "row").input_value(), cc(page, "col").input_value()) == ("21", "11")
    cc(page, "lane").fill("50")  # the upper half of a warp's lanes
    assert said(page) == {
        "element": "No element of C",
        "at-cta": "0",
        "at-lane": "50",
        "at-column": "11",
        "reach": "32 to 63",
    }
    assert cc(page, "row").input_value() == ""
    assert cc(page, "lanes-each").inner_text() == "16"


def test_page__clicks_and_arrow_keys_walk_both_pictures(mount: Any) -> None:
    page = mount(TmemViewer(256, 128, cta_group=2), width=1300)
    picture = cc(page, "c-picture")
    box = picture.bounding_box()
    picture.click(position={"x": box["width"] * 0.503, "y": box["height"] * 0.752})
    row, column = (int(cc(page, name).input_value()) for name in ("row", "col"))
    assert abs(row - 192) <= 2
    assert abs(column - 64) <= 2
    assert said(page)["at-cta"] == "1"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+ArrowRight")
    assert said(page)["element"] == f"C[{row + 1}, {column + 16}]"
    assert page.evaluate("document.activeElement.dataset.cc") == "c-picture"
    page.keyboard.press("Escape")
    assert said(page) == {}
    memory = cc(page, "memory", cta=1)
    box = memory.bounding_box()
    memory.click(position={"x": box["width"] * 200.5 / 512, "y": box["height"] * 40.5 / 128})
    assert abs(int(said(page)["at-column"]) - 200) <= 1
    assert said(page)["element"] == "No element of C"
    for _ in range(5):
        page.keyboard.press("Shift+ArrowLeft")
    assert said(page)["element"].startswith("C[168, 1")  # lane 40 of CTA 1, column 120 or next to it
    assert said(page)["at-cta"] == "1"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_page__a_shape_redraws_and_the_lone_allocation_follows(mount: Any) -> None:
    page = mount(TmemViewer(128, 256, element=(100, 200)))
    assert cc(page, "memory").count() == 1
    cc(page, "shape").select_option("2,128")
    assert cc(page, "memory").count() == 2
    assert cc(page, "layout").inner_text() == str(accumulator(128, 256, 2).fragment.layout)
    assert "columns 0 to 127" in cc(page, "what").inner_text()
    assert said(page)["element"] == "C[100, 200]"  # the element stays
    assert said(page)["at-column"] == "72"
    cc(page, "n").fill("24")
    message = page.locator(".cc-message:visible")
    assert "N is 16 to 256 in steps of 16" in message.inner_text()
    assert cc(page, "layout").inner_text() == str(accumulator(128, 256, 2).fragment.layout)
    cc(page, "n").fill("32")
    assert message.count() == 0
    assert cc(page, "rows").inner_text() == "64"
    assert "columns 0 to 31" in cc(page, "what").inner_text()
    cc(page, "shape").select_option("2,64")
    assert "has M = 64 over two CTAs" in cc(page, "operation").inner_text()
    cc(page, "row").fill("64")
    assert "m: 0 to 63" in message.inner_text()


def test_page__columns_are_allocated_freed_waited_for_and_refused(mount: Any) -> None:
    page = mount(TmemViewer(128, 256))

    def ask(name: str, columns: int) -> None:
        cc(page, "new-name").fill(name)
        cc(page, "new-columns").fill(str(columns))
        cc(page, "allocate").click()

    state = "all => all.map((a) => [a.dataset.name, a.dataset.state])"
    ask("odd", 48)
    ask("second", 256)
    ask("third", 256)
    ask("scales", 32)
    assert cc(page, "allocation").evaluate_all(state) == [
        ["accumulator", "placed"],
        ["odd", "refused"],
        ["second", "placed"],
        ["third", "waits"],
        ["scales", "waits"],
    ]
    assert "48 is no power of two from 32 to 512" in cc(page, "what").nth(1).inner_text()
    assert cc(page, "free-columns").inner_text() == "0"
    ask("scales", 32)
    assert "this name is taken" in page.locator(".cc-message:visible").inner_text()
    cc(page, "new-name").fill("")
    cc(page, "free", name="accumulator").click()
    cc(page, "free", name="third").click()
    assert cc(page, "what").all_inner_texts()[1:] == ["columns 256 to 511", "columns 0 to 31"]
    assert (cc(page, "free-columns").inner_text(), cc(page, "smallest").inner_text()) == ("224", "32")
    ask("late", 64)
    assert "64 columns after an allocation of 32" in cc(page, "what").last.inner_text()
    cc(page, "hold", name="scales").click()
    assert "The accumulator takes 256 columns, and scales has 32" in cc(page, "problem").inner_text()
    cc(page, "hold", name="second").click()  # nobody moved
    assert cc(page, "problem").count() == 0
    cc(page, "row").fill("3")
    cc(page, "col").fill("4")
    assert said(page)["at-column"] == "260"
    cc(page, "anew").click()
    assert "No allocation holds the accumulator" in cc(page, "problem").inner_text()
    assert (cc(page, "free-columns").inner_text(), cc(page, "smallest").inner_text()) == ("512", "512")
    ask("again", 256)
    assert cc(page, "problem").count() == 0


def test_page__the_picture_frames_what_one_load_reads(mount: Any) -> None:
    page = mount(
        TmemViewer(128, 128, allocations={"a": 128, "b": 128}, holder="b", element=(70, 40)), width=1300
    )
    frame = page.locator(".cc-tm-picture-memory .cc-tm-frame")
    at = frame.evaluate("(f) => [f.style.top, f.style.left, f.style.height, f.style.width].map(parseFloat)")
    # Lanes 64 to 95; the second load of 32 columns, which starts at column 128 + 32.
    assert at == [100 * 64 / 128, 100 * 160 / 512, 100 * 32 / 128, 100 * 32 / 512]
    cc(page, "repetitions").select_option("64")
    at = frame.evaluate("(f) => [f.style.left, f.style.width].map(parseFloat)")
    assert at == [100 * 128 / 512, 100 * 64 / 512]


@pytest.mark.parametrize("width", [360, 768, 1300])
def test_page__fits_and_no_label_lies_over_another(width: int, mount: Any) -> None:
    page = mount(
        TmemViewer(128, 256, cta_group=2, allocations={"acc": 128, "next": 64, "scales": 32}),
        TmemViewer(64, 8),
        TmemViewer(256, 256, cta_group=2),
        TmemViewer(64, 256, cta_group=2),
        width=width,
    )
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    crossing = page.evaluate(
        """() => [...document.querySelectorAll(".cc-tmem")].flatMap((widget) => {
             const shown = (t) => t.textContent.trim() && t.offsetParent;
             const texts = [...widget.querySelectorAll(
               ".cc-tm-hue span, .cc-tm-bar span, .cc-tm-lanes span, .cc-tm-ticks span, h4, .cc-tm-axis")];
             const boxes = texts.filter(shown).map((t) => {
               const range = document.createRange();
               range.selectNodeContents(t);
               const box = range.getBoundingClientRect();
               const clip = t.closest(".cc-tm-hue, .cc-tm-bar")?.getBoundingClientRect() ?? box;
               return { text: t.textContent,
                        left: Math.max(box.left, clip.left), right: Math.min(box.right, clip.right),
                        top: Math.max(box.top, clip.top), bottom: Math.min(box.bottom, clip.bottom) };
             });
             return boxes.flatMap((a, i) => boxes.slice(i + 1)
               .filter((b) => a.left < b.right - 0.5 && b.left < a.right - 0.5
                           && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5)
               .map((b) => [a.text, b.text]));
           })"""
    )
    assert crossing == []
