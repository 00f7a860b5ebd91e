"""TmaBox: what it takes and prints, and what it shows on a page with no kernel."""

from __future__ import annotations

import re
from typing import Any

import pytest
from widgets.parts import cc, unnamed

from cutecourse.layout import ComposedLayout, Layout, Swizzle, tile_to_shape
from cutecourse.tma import TmaError
from cutecourse.widgets import TmaBox, WidgetError

A_TILE = tile_to_shape(Layout((8, 64), (64, 1)), (128, 64))


def swizzled_byte(i: int, j: int) -> int:
    """Where element (i, j) of the default tile lies: the layout's bytes under Swizzle<3,4,3>."""
    return Swizzle(3, 4, 3)(A_TILE((i, j)) * 2)


# ---- Python ----


def test_tma_box__takes_its_start_by_keyword_and_prints_what_differs() -> None:
    assert repr(TmaBox()) == "TmaBox((512, 256), 'f16', tile=(128, 64))"
    box = TmaBox((300, 96), "f32", tile=(64, 32), major="MN", swizzle="64B", coord=(4, 2), multicast=2)
    assert repr(box) == (
        "TmaBox((300, 96), 'f32', tile=(64, 32), major='MN', swizzle='64B', coord=(4, 2), multicast=2)"
    )
    assert (box.smem_major, TmaBox(smem_major="MN").smem_major) == ("MN", "MN")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"extents": (512,)}, "extents (512,) is no pair of whole numbers"),
        ({"extents": (0, 8)}, "from 1 to 65536"),
        ({"tile": (128, 1024)}, "from 1 to 512"),
        ({"tile": (128.0, 64)}, "is no pair of whole numbers"),
        ({"dtype": "s4"}, "dtype 's4' is unknown to TmaBox"),
        ({"dtype": "half"}, "u8, f16, f32, f64"),
        ({"major": "N"}, "major 'N' is unknown to TmaBox; choose from K, MN"),
        ({"swizzle": "256B"}, "none, 32B, 64B, 128B"),
        ({"smem_layout": "tiled"}, "atoms, plain"),
        ({"multicast": 3}, "1, 2, 4"),
        ({"address": 256}, "give 0 to 255 bytes"),
        ({"padding": -1}, "give 0 to 255 elements"),
        ({"coord": (0, -1)}, "from 0 to"),
        ({"coord": (5, 0)}, "more than one tile past the tensor, which has 4 x 4 tiles"),
    ],
)
def test_tma_box__refuses_in_words(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(WidgetError, match=re.escape(message)):
        TmaBox(**arguments)


def test_tma_box__a_bad_assignment_leaves_the_last_good_value() -> None:
    box = TmaBox()
    with pytest.raises(WidgetError):
        box.swizzle = "16B"
    with pytest.raises(WidgetError):
        box.tile = [0, 64]
    assert (box.swizzle, box.tile) == ("128B", [128, 64])


def test_trace__is_the_atom_of_what_is_chosen() -> None:
    trace = TmaBox(multicast=4).trace()
    assert isinstance(trace.slayout, ComposedLayout)
    assert (trace.slayout.inner, trace.slayout.outer) == (Swizzle(3, 4, 3), A_TILE)
    assert (trace.encoding.box, trace.encoding.dims) == ((64, 32), (256, 512))
    assert TmaBox(major="MN").trace().encoding.box == (64, 8)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"tile": (100, 64)}, "atom"),
        ({"smem_major": "MN"}, "majorness"),
        ({"address": 8}, "address"),
        ({"extents": (512, 100)}, "stride_multiple"),
        ({"tile": (512, 64)}, "box"),
        ({"tile": (64, 128), "smem_layout": "plain"}, "swizzle_span"),
        ({"tile": (64, 32), "smem_layout": "plain"}, "filled"),
        ({"tile": (8, 64), "swizzle": "32B", "multicast": 4}, "aligned"),
        ({"tile": (256, 128), "dtype": "f64", "extents": (256, 256)}, "shared"),
    ],
)
def test_figure__of_a_refused_choice_names_the_rule(arguments: dict[str, Any], rule: str) -> None:
    box = TmaBox(**arguments)
    with pytest.raises(TmaError) as refused:
        box.trace()
    assert refused.value.rule == rule
    words = [text.get_text() for panel in box.figure().axes for text in panel.texts]
    assert any(f"rule: {rule}" in " ".join(text.split()) for text in words)


def test_figure__writes_what_lies_in_each_16_bytes() -> None:
    panels = {panel.get_title(loc="left").split(",")[0]: panel for panel in TmaBox().figure().axes}
    found = [text.get_text() for text in panels["shared memory"].texts]
    expected = [""] * 128
    for i in range(16):
        for j in range(0, 64, 8):
            expected[swizzled_byte(i, j) // 16] = f"m{i}\nk{j}–{j + 7}"
    assert found == expected


# ---- on a page ----


@pytest.mark.browser
def test_page__shows_fields_counts_and_the_first_rows(mount: Any) -> None:
    page = mount(TmaBox((512, 256), tile=(128, 128), coord=(1, 1)))
    fields = dict(cc(page, "field").evaluate_all("all => all.map((e) => [e.dataset.field, e.textContent])"))
    assert fields == {
        "tensorDataType": "CU_TENSOR_MAP_DATA_TYPE_FLOAT16",
        "tensorRank": "2",
        "globalAddress": "base",
        "globalDim": "{256, 512}",
        "globalStrides": "{512} bytes",
        "boxDim": "{64, 128}",
        "elementStrides": "{1, 1}",
        "interleave": "CU_TENSOR_MAP_INTERLEAVE_NONE",
        "swizzle": "CU_TENSOR_MAP_SWIZZLE_128B",
        "l2Promotion": "CU_TENSOR_MAP_L2_PROMOTION_L2_128B",
        "oobFill": "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
    }
    counts = {name: cc(page, name).inner_text() for name in ("instructions", "box-bytes", "tile-bytes")}
    assert counts == {"instructions": "2", "box-bytes": "16384", "tile-bytes": "32768"}
    cells = cc(page, "chunk").evaluate_all("all => all.map((c) => [+c.dataset.chunk, c.dataset.first])")
    expected = {swizzled_byte(i, j) // 16: f"{i},{j}" for i in range(16) for j in range(0, 64, 8)}
    assert dict(cells) == expected


@pytest.mark.browser
def test_page__a_choice_in_one_picture_is_lit_in_the_other(mount: Any) -> None:
    page = mount(TmaBox(coord=(1, 2)))
    cc(page, "chunk", chunk=19).click()
    assert cc(page, "bytes").inner_text() == "304–319"
    assert cc(page, "banks").inner_text() == "12–15"
    assert swizzled_byte(2, 8) == 304
    assert cc(page, "tile-crd").inner_text() == "(2, 8–15)"
    assert cc(page, "tensor-crd").inner_text() == "(130, 136–143)"
    assert "from column 1 to 1 xor 2 = 3" in cc(page, "state").inner_text()
    assert cc(page, "coordinates").inner_text() == "{128, 128}"

    picture = cc(page, "tile-picture")
    size = picture.bounding_box()
    mark = cc(page, "area-mark").bounding_box()
    assert abs(mark["x"] - size["x"] - size["width"] * 8 / 64) < 3
    assert abs(mark["y"] - size["y"] - size["height"] * 2 / 128) < 3
    # Element (100, 40) lies far down in shared memory: the rows follow the choice.
    picture.click(position={"x": size["width"] * 40.5 / 64, "y": size["height"] * 100.5 / 128})
    start = swizzled_byte(100, 40)
    assert cc(page, "bytes").inner_text() == f"{start}–{start + 15}"
    lit = page.locator('[data-cc="chunk"].cc-lit')
    assert lit.get_attribute("data-first") == "100,40"
    assert cc(page, "window").inner_text().startswith(f"bytes {start // 2048 * 2048} to ")


@pytest.mark.browser
def test_page__the_keys_walk_both_pictures(mount: Any) -> None:
    page = mount(TmaBox())
    cc(page, "tile-picture").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    assert cc(page, "tile-crd").inner_text() == "(1, 8–15)"  # the first key chooses (0, 0)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert cc(page, "tile-crd").inner_text() == "(1, 0–7)"  # the edge holds
    page.keyboard.press("Escape")
    assert cc(page, "tile-crd").count() == 0

    cc(page, "colour").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.chunk") == "9"
    assert cc(page, "tile-crd").inner_text() == "(1, 0–7)"
    page.keyboard.press("Control+End")
    assert cc(page, "bytes").inner_text() == "2032–2047"
    page.keyboard.press("ArrowDown")  # over the end of the rows in sight
    assert cc(page, "bytes").inner_text() == "2160–2175"
    assert page.evaluate("document.activeElement.dataset.chunk") == str(2160 // 16)
    page.keyboard.press("ArrowUp")
    assert cc(page, "window").inner_text() == "bytes 0 to 2047 of 16384"
    cc(page, "next").click()
    assert cc(page, "window").inner_text() == "bytes 2048 to 4095 of 16384"


@pytest.mark.browser
def test_page__out_of_the_tensor_there_are_zeros(mount: Any) -> None:
    page = mount(TmaBox((500, 232), coord=(3, 3)))
    cells = cc(page, "chunk").evaluate_all(
        "all => all.map((c) => [c.dataset.first, +c.dataset.valid, c.classList.contains('cc-hole')])"
    )
    for first, valid, hatched in cells:
        inside = min(8, max(0, 232 - 192 - int(first.split(",")[1])))
        assert (valid, hatched) == (inside, inside == 0)
    assert cc(page, "area-outside").count() == 4  # at the right and at the bottom, in both pictures
    assert cc(page, "tile-bytes").inner_text() == "16384"
    picture = cc(page, "tile-picture")
    size = picture.bounding_box()
    picture.click(position={"x": 3, "y": size["height"] - 3})
    assert cc(page, "zeros").inner_text() == ", outside: zeros"


@pytest.mark.browser
def test_page__padding_mends_the_stride_and_the_tensor_ends_within_16_bytes(mount: Any) -> None:
    page = mount(TmaBox((512, 100), coord=(0, 1)))
    assert cc(page, "refused").count() == 1
    cc(page, "padding").fill("4")
    assert cc(page, "field", field="globalStrides").inner_text() == "{208} bytes"
    assert cc(page, "field", field="globalDim").inner_text() == "{100, 512}"
    byte = swizzled_byte(0, 32)  # k = 96 to 103 of the tensor
    cc(page, "chunk", chunk=byte // 16).click()
    assert cc(page, "chunk", chunk=byte // 16).get_attribute("data-valid") == "4"
    assert cc(page, "zeros").inner_text() == ", the last 4 outside: zeros"


@pytest.mark.browser
@pytest.mark.parametrize(
    ("set_to", "rule", "field", "said"),
    [
        ({"extent-k": "100"}, "stride_multiple", "globalStrides", "CUDA_ERROR_INVALID_VALUE"),
        ({"tile-m": "512"}, "box", "boxDim", "CUDA_ERROR_INVALID_VALUE"),
        ({"tile-k": "128", "layout": "plain"}, "swizzle_span", "boxDim", "CUDA_ERROR_INVALID_VALUE"),
        ({"smem-major": "MN"}, "majorness", "globalDim", "CuTe refuses"),
        ({"address": "8"}, "address", "globalAddress", "CUDA_ERROR_INVALID_VALUE"),
        ({"tile-m": "100"}, "atom", None, "CuTe refuses"),
    ],
)
def test_page__a_broken_rule_stops_the_picture_and_says_why(
    set_to: dict[str, str], rule: str, field: str | None, said: str, mount: Any
) -> None:
    page = mount(TmaBox())
    assert cc(page, "rule", ok="false").count() == 0
    assert cc(page, "verdict").inner_text().endswith("hold")
    for name, value in set_to.items():
        control = cc(page, name)
        if control.evaluate("(e) => e.tagName") == "SELECT":
            control.select_option(value)
        else:
            control.fill(value)
    assert cc(page, "rule", ok="false").first.get_attribute("data-rule") == rule
    assert said in cc(page, "refused").inner_text()
    assert field is None or not re.search(rf"\b{field[0].upper()}{field[1:]}", cc(page, "tma").inner_text())
    assert cc(page, "chunk").count() == 0
    assert cc(page, "outcome").inner_text() == "refused"
    assert cc(page, "area-box").count() == 0
    wrong = page.locator(".cc-wrong [data-field]")
    assert wrong.evaluate_all("all => all.map((e) => e.dataset.field)") == ([field] if field else [])
    cc(page, "example").select_option(index=1)
    assert cc(page, "chunk").count() == 128


@pytest.mark.browser
def test_page__the_rules_start_folded_and_stay_as_the_reader_left_them(mount: Any) -> None:
    page = mount(TmaBox())
    rules = cc(page, "rule")
    assert not rules.first.is_visible()
    cc(page, "verdict").focus()
    page.keyboard.press("Enter")
    assert rules.first.is_visible()
    cc(page, "extent-k").fill("100")
    assert cc(page, "verdict").inner_text().startswith("Rules: 1 of ")
    assert "globalStrides are multiples of 16 bytes" in cc(page, "rule", ok="false").inner_text()
    assert "The rule: globalStrides are multiples of 16 bytes" in cc(page, "refused").inner_text()
    cc(page, "verdict").click()
    assert not rules.first.is_visible()


@pytest.mark.browser
def test_page__bad_input_is_told_at_the_field_and_keeps_the_picture(mount: Any) -> None:
    page = mount(TmaBox())
    for name, value, words in [
        ("extent-m", "0", "a whole number from 1 to 65536"),
        ("tile-k", "2.5", "a whole number from 1 to 512"),
        ("coord-m", "9", "a whole number from 0 to 4"),
        ("box", "1", "a whole number from 0 to 0"),
    ]:
        control = cc(page, name)
        control.fill(value)
        assert page.locator(".cc-message:visible").inner_text() == words
        assert control.get_attribute("aria-invalid") == "true"
        assert cc(page, "chunk").count() == 128
        control.fill({"extent-m": "512", "tile-k": "64"}.get(name, "0"))
        assert page.locator(".cc-message:visible").count() == 0


@pytest.mark.browser
def test_page__every_example_is_what_its_name_says(mount: Any) -> None:
    page = mount(TmaBox())
    names = cc(page, "example").locator("option").all_inner_texts()
    for name in names[1:]:
        cc(page, "example").select_option(name)
        assert cc(page, "example").input_value() == name
        assert (cc(page, "refused").count() == 1) == name.startswith("broken")
    cc(page, "example").select_option("multicast: four CTAs, a slice each")
    cc(page, "box").fill("2")
    assert "CTA 2 of 4, its instruction 0" in cc(page, "state").inner_text()
    assert cc(page, "coordinates").inner_text() == "{0, 64}"
    cc(page, "extent-m").fill("300")
    assert cc(page, "example").input_value() == ""


@pytest.mark.browser
def test_page__colours_tell_the_place_in_the_line_or_the_line(mount: Any) -> None:
    page = mount(TmaBox())
    paint = "all => all.map((c) => [c.dataset.first, getComputedStyle(c).backgroundColor])"
    by_place = {(int(first.split(",")[1]), colour) for first, colour in cc(page, "chunk").evaluate_all(paint)}
    assert len(by_place) == 8
    cc(page, "colour").select_option("line")
    lines = {
        (int(first.split(",")[0]) % 8, colour) for first, colour in cc(page, "chunk").evaluate_all(paint)
    }
    assert len(lines) == 8


@pytest.mark.browser
def test_page__two_views_of_one_model_show_the_same(mount: Any) -> None:
    box = TmaBox()
    page = mount(box, box)
    first, second = cc(page, "tma").all()
    cc(first, "swizzle").select_option("64B")
    assert cc(second, "swizzle").input_value() == "64B"
    cc(second, "chunk", chunk=5).click()
    assert cc(first, "bytes").inner_text() == "80–95"


@pytest.mark.browser
def test_page__controls_and_pictures_are_named_reached_and_fit_a_phone(mount: Any) -> None:
    page = mount(TmaBox((500, 232), coord=(3, 3)), TmaBox((512, 100)), width=360)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
    assert unnamed(page) == []
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    reached = set()
    for _ in range(24):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.cc ?? ''"))
    assert {"example", "extent-m", "swizzle", "coord-k", "box", "tile-picture", "next", "chunk"} <= reached


@pytest.mark.browser
def test_page__follows_the_theme(mount: Any) -> None:
    page = mount(TmaBox(), theme="dark")
    ground = cc(page, "tma").evaluate("(e) => getComputedStyle(e).backgroundColor")
    chunk = cc(page, "chunk", chunk=0).element_handle()
    colour = "(e) => getComputedStyle(e).backgroundColor"
    dark = chunk.evaluate(colour)
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    assert ground == "rgb(20, 24, 30)"
    page.wait_for_function(f"([e, dark]) => ({colour})(e) !== dark", arg=[chunk, dark])
