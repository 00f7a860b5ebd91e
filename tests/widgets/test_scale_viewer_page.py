"""ScaleViewer in Chromium: its arithmetic against Python, and what its controls change."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from cutecourse.block_scales import FORMATS
from cutecourse.widgets import ScaleViewer
from cutecourse.widgets._bundle import module
from cutecourse.widgets.scale_places import form_facts, scale_place

pytestmark = pytest.mark.browser

PLACES = """async ([code, cases]) => {
  const { _math: m } = await import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  return cases.map(([facts, row, k]) => m.placeOf(facts, row, k));
}"""


def test_place__javascript_agrees_with_python(page: Any) -> None:
    cases = [
        (form, row, k)
        for form in FORMATS
        for row in range(0, 128, 7)
        for k in range(0, form_facts(form)["kTile"], 5)
    ]
    page.goto("about:blank")
    found = page.evaluate(
        PLACES, [module("scale_viewer.js"), [[form_facts(form), row, k] for form, row, k in cases]]
    )
    for case, place in zip(cases, found, strict=True):
        python = dataclasses.asdict(scale_place(*case))
        python["dataId"] = python.pop("data_id")
        assert place == {**python, "lanes": list(python["lanes"])}


def test_page__controls_choose_another_product(mount: Any) -> None:
    page = mount(ScaleViewer("mxf8", m=77, n=40, k=69))
    said = page.locator('[data-cc="say-A"]')
    assert (
        "byte 218 of the k-tile's blocks; column 2, lanes 13, 45, 77, 109, byte 2. SFA id 2."
        in said.inner_text()
    )
    page.locator('[data-cc="form"]').select_option("nvf4")
    page.locator('[data-cc="k"]').fill("200")
    assert page.locator('[data-cc="mma"]').inner_text() == "3"
    assert "SFA id 0" in said.inner_text()
    page.locator('[data-cc="k"]').fill("256")
    assert page.locator('[data-cc="message"]').last.inner_text() == "Give a whole number from 0 to 255."
    page.locator('[data-cc="form"]').select_option("mxf8")
    assert page.locator('[data-cc="k"]').input_value() == "127"
