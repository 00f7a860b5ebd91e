"""DescriptorBits in Chromium: its arithmetic against Python on many words, and clicks, keys and words."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from widgets.parts import cc
from widgets.test_descriptor_bits import FORMATS, some_words

from cutecourse.descriptors import INSTR_SM100, SMEM_SM90, SMEM_SM100, DescriptorError, DescriptorFormat
from cutecourse.widgets import DescriptorBits
from cutecourse.widgets.descriptor_reading import (
    chunk_byte,
    format_snapshot,
    problems,
    reserved,
    segments,
    taken_by,
)

pytestmark = pytest.mark.browser

BLOCKS = {"k-block 0": 0x4000404000010040, "k-block 1": 0x4000404000010042}


# ---- the arithmetic ----


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_words__javascript_says_what_python_says(
    fmt: DescriptorFormat, javascript: Callable[..., Any]
) -> None:
    words = some_words(fmt, 200)
    found = javascript(
        "descriptor_bits.js",
        """return x.words.map((text) => {
          const word = m.parseWord(text, x.format);
          return { text: m.hexOf(word, x.format.bits), problems: m.problemsOf(x.format, word),
                   fields: m.fieldsOf(x.format, word).map((p) => [p.field.name, p.stored, p.binary, p.meant]),
                   taken: m.takenBy(x.format, word) };
        });""",
        {"format": format_snapshot(fmt), "words": [hex(word) for word in words]},
    )
    for word, one in zip(words, found, strict=True):
        assert one["text"] == f"0x{word:0{fmt.bits // 4}x}"
        assert one["problems"] == problems(fmt, word)
        parts = fmt.explain(word).fields
        assert one["fields"] == [[p.field.name, p.stored, p.binary, p.meant] for p in parts]
        assert one["taken"] == [list(pair) for pair in taken_by(fmt, word)]


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_fields__javascript_stores_and_refuses_as_python_does(
    fmt: DescriptorFormat, javascript: Callable[..., Any]
) -> None:
    rng = random.Random(6)
    cases: list[tuple[str, Any]] = []
    for field in fmt.fields:
        if field.names is not None:
            cases += [(field.name, name) for name in [*field.names, "NOTHING"]]
            continue
        most = field.largest * field.scale
        cases += [(field.name, n) for n in (0, field.scale, most, most + field.scale, -field.scale, 1, 3)]
        cases += [(field.name, rng.randrange(2 * most + 2)) for _ in range(10)]
    expected = []
    for name, meant in cases:
        try:
            expected.append(hex(fmt.pack(**{name: fmt.field(name).stored(meant)})))
        except DescriptorError as error:
            expected.append(str(error))
    found = javascript(
        "descriptor_bits.js",
        """return x.cases.map(([name, meant]) => {
          const field = x.format.fields.find((one) => one.name === name);
          try {
            return "0x" + m.withStored(0n, field, m.storedFor(field, meant)).toString(16);
          } catch (error) {
            if (error instanceof TypeError) throw error;
            return error.message;
          }
        });""",
        {"format": format_snapshot(fmt), "cases": cases},
    )
    assert found == expected
    refused = sum(not one.startswith("0x") for one in expected)
    assert 0 < refused < len(expected)


@pytest.mark.parametrize("fmt", [SMEM_SM90, SMEM_SM100], ids=lambda fmt: fmt.name)
def test_layouts__javascript_finds_the_same_bytes(
    fmt: DescriptorFormat, javascript: Callable[..., Any]
) -> None:
    rng = random.Random(9)
    snapshot = format_snapshot(fmt)
    cases = []
    for _ in range(300):
        name = rng.choice(list(snapshot["layouts"]))
        major = rng.choice(list(snapshot["layouts"][name]["terms"]))
        offsets = {f"{which}_byte_offset": 16 * rng.randrange(1 << 14) for which in ("leading", "stride")}
        word = fmt.encode(layout_type=name, **offsets)
        at = {index: rng.randrange(300) for index in ("rj" if major == "K" else "jk")}
        cases.append((hex(word), major, at, chunk_byte(fmt, word, major, **at)))
    found = javascript(
        "descriptor_bits.js",
        """return x.cases.map(([word, major, at]) =>
             m.chunkByte(m.layoutOf(x.format, BigInt(word)), major, at));""",
        {"format": snapshot, "cases": [case[:3] for case in cases]},
    )
    assert found == [case[3] for case in cases]


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_segments__are_those_of_python(fmt: DescriptorFormat, javascript: Callable[..., Any]) -> None:
    found = javascript(
        "descriptor_bits.js",
        """const cut = m.segmentsOf(x, 16).map((s) => [s.field?.name ?? null, s.low, s.bits]);
           return [m.reservedIn(x), cut];""",
        format_snapshot(fmt),
    )
    cut = [[field and field.name, low, bits] for field, low, bits in segments(fmt, 16)]
    assert found == [[list(run) for run in reserved(fmt)], cut]


def test_parse__reads_what_a_reader_types(javascript: Callable[..., Any]) -> None:
    texts = [
        "0x40",
        " 0X4000_4040 0001_0040 ",
        "64",
        "0b1000000",
        "ffff",
        "",
        "0x",
        "-1",
        "0x1_0000_0000_0000_0000",
    ]
    found = javascript(
        "descriptor_bits.js",
        """return x.texts.map((t) => {
          try { return "0x" + m.parseWord(t, x.format).toString(16); } catch (error) { return error.message; }
        });""",
        {"format": format_snapshot(SMEM_SM100), "texts": texts},
    )
    assert found[:4] == ["0x40", "0x4000404000010040", "0x40", "0x40"]
    assert all("is not a number" in one for one in found[4:8])
    assert "has 64 bits" in found[8]


# ---- the page ----


def word_of(page: Any) -> int:
    bits = cc(page, "bit").evaluate_all("all => all.map((b) => [+b.dataset.bit, b.textContent])")
    return sum(int(one) << bit for bit, one in bits)


def test_page__a_field_sets_the_word_and_the_word_sets_the_fields(mount: Any) -> None:
    page = mount(DescriptorBits(SMEM_SM100, BLOCKS["k-block 0"]))
    assert word_of(page) == BLOCKS["k-block 0"]
    cc(page, "value", field="start_address").fill("2064")
    expected = SMEM_SM100.decode(BLOCKS["k-block 0"]) | {"start_address": 2064}
    assert word_of(page) == SMEM_SM100.encode(**expected)
    assert "129 times 16 = 2064 bytes" in cc(page, "state").inner_text()
    cc(page, "value", field="layout_type").select_option("SWIZZLE_64B")
    expected |= {"layout_type": "SWIZZLE_64B"}
    assert word_of(page) == SMEM_SM100.encode(**expected)
    digits = f"{SMEM_SM100.encode(**expected):016x}"
    assert cc(page, "word").input_value() == "0x" + "_".join(digits[i : i + 4] for i in range(0, 16, 4))
    assert cc(page, "formula-K").inner_text() == "64 (r mod 8) + 1024 ⌊r/8⌋ + 16 j"
    cc(page, "word").fill("0x2000_0040_0000_0000")
    assert cc(page, "value", field="layout_type").input_value() == "SWIZZLE_128B_BASE32B"
    assert cc(page, "value", field="stride_byte_offset").input_value() == "1024"
    assert "No K-major operand has this layout" in cc(page, "reading").inner_text()
    assert cc(page, "outcome").inner_text() == "Refused"  # version is 0
    cc(page, "reset").click()
    assert word_of(page) == BLOCKS["k-block 0"]
    assert cc(page, "outcome").inner_text() == "Accepted"


def test_page__the_button_stays_under_the_pointer_when_a_message_goes(mount: Any) -> None:
    page = mount(DescriptorBits(SMEM_SM100, BLOCKS["k-block 0"]), width=900)
    cc(page, "word").fill("0x41")
    cc(page, "word").fill("no number")  # its message goes as the field is left, on the way to the button
    cc(page, "reset").click()
    assert word_of(page) == BLOCKS["k-block 0"]


def test_page__bits_turn_over_under_the_keys_and_name_their_field(mount: Any) -> None:
    page = mount(DescriptorBits(SMEM_SM100, BLOCKS["k-block 0"]), width=900)
    cc(page, "word").focus()
    page.keyboard.press("Tab")  # "As given" is disabled: nothing has changed
    assert page.evaluate("document.activeElement.dataset.bit") == "63"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert word_of(page) == BLOCKS["k-block 0"] | 1 << 61
    (problem,) = cc(page, "problem").all_inner_texts()
    assert "layout_type holds 3, which stands for nothing" in problem
    assert cc(page, "value", field="layout_type").evaluate("(e) => e.selectedOptions[0].text") == (
        "3: stands for nothing"
    )
    label = cc(page, "bit", bit=61).get_attribute("aria-label")
    assert (label, cc(page, "bit", bit=61).get_attribute("aria-checked")) == (
        "bit 61, layout_type: 1",
        "true",
    )
    page.keyboard.press("Enter")
    assert word_of(page) == BLOCKS["k-block 0"]
    page.keyboard.press("ArrowDown")  # a row of 32 bits lower
    assert page.evaluate("document.activeElement.dataset.bit") == "29"
    assert cc(page, "said-field").inner_text() == "leading_byte_offset"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.bit") == "29"  # the edge holds
    page.keyboard.press("Home")
    assert page.evaluate("document.activeElement.dataset.bit") == "31"
    page.keyboard.press("Space")
    assert "reserved" in cc(page, "problem").inner_text()
    assert cc(page, "said-field").count() == 0
    page.set_viewport_size({"width": 360, "height": 800})
    page.keyboard.press("ArrowUp")  # rows of 16 bits now
    assert page.evaluate("document.activeElement.dataset.bit") == "47"
    assert cc(page, "bit").and_(page.locator("[tabindex='0']")).count() == 1


def test_page__words_beside_each_other_mark_the_bits_that_differ(mount: Any) -> None:
    page = mount(DescriptorBits(SMEM_SM100, BLOCKS))
    marked = page.locator('[data-cc="bit"].cc-differs').evaluate_all("all => all.map((b) => +b.dataset.bit)")
    assert sum(1 << bit for bit in marked) == BLOCKS["k-block 0"] ^ BLOCKS["k-block 1"]
    assert cc(page, "against").all_inner_texts() == ["shown", "differs: start_address 1056 bytes"]
    assert page.locator('[data-cc="digits"] mark').all_inner_texts() == ["0", "2"]
    page.get_by_label("k-block 1").check()
    assert word_of(page) == BLOCKS["k-block 1"]
    assert cc(page, "against").all_inner_texts() == ["differs: start_address 1024 bytes", "shown"]
    cc(page, "value", field="start_address").fill("1024")
    assert page.locator(".cc-differs").count() == 0
    assert cc(page, "against").all_inner_texts() == ["the same bits", "shown"]
    cc(page, "reset").click()
    assert word_of(page) == BLOCKS["k-block 1"]


def test_page__what_does_not_fit_is_told_at_the_field_and_nothing_changes(mount: Any) -> None:
    page = mount(DescriptorBits(SMEM_SM100, BLOCKS["k-block 0"]))
    message = page.locator(".cc-message:visible")
    for name, text, said in [
        ("start_address", "1000", "start_address = 1000 bytes does not fit: bits [0,14) hold 0 to 262128"),
        ("start_address", "262144", "in steps of 16"),
        ("start_address", "", "takes a whole number of bytes"),
        ("version", "4", "version = 4 does not fit"),
    ]:
        before = cc(page, "value", field=name).input_value()
        cc(page, "value", field=name).fill(text)
        assert said in message.inner_text()
        assert cc(page, "value", field=name).get_attribute("aria-invalid") == "true"
        assert word_of(page) == BLOCKS["k-block 0"]
        cc(page, "value", field=name).fill(before)
        assert message.count() == 0
    cc(page, "word").fill("0x1_0000_0000_0000_0000")
    assert "has 64 bits" in message.inner_text()
    assert word_of(page) == BLOCKS["k-block 0"]
    cc(page, "value", field="version").focus()  # the word that is shown comes back
    assert message.count() == 0
    assert cc(page, "word").input_value().endswith("0001_0040")


def test_page__an_instruction_descriptor_says_which_operation_has_it(mount: Any) -> None:
    page = mount(DescriptorBits(INSTR_SM100, 0x08400010))
    takes = "all => all.map((o) => [o.dataset.name, o.dataset.takes])"
    both = [["SM100_MMA_F16BF16_SS", "true"], ["SM100_MMA_F16BF16_2x1SM_SS", "true"]]
    assert cc(page, "operation").evaluate_all(takes) == both
    cc(page, "value", field="m_dim").fill("256")
    assert cc(page, "operation").evaluate_all(takes) == [[both[0][0], "false"], both[1]]
    assert "M is 256; it takes 64 or 128." in cc(page, "operation").first.inner_text()
    assert cc(page, "outcome").inner_text() == "Accepted"


@pytest.mark.parametrize("width", [360, 768, 1300])
def test_page__fits_and_no_text_lies_over_another(width: int, mount: Any) -> None:
    page = mount(DescriptorBits(SMEM_SM100, BLOCKS), DescriptorBits(INSTR_SM100, 0x08400010), width=width)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    crossing = page.evaluate(
        """() => [...document.querySelectorAll(".cc-bitstrip, .cc-fieldrow")].flatMap((part) => {
             const texts = [...part.querySelectorAll(
               ".cc-segment-ends span, .cc-flip, .cc-segment-tag, label, .cc-fieldunit, .cc-fieldbits *")]
               .filter((t) => !t.children.length || t.matches(".cc-segment-tag"));
             const boxes = texts.filter((t) => t.textContent.trim()).map((t) => {
               const range = document.createRange();
               range.selectNodeContents(t);
               return { text: t.textContent, ...range.getBoundingClientRect().toJSON() };
             });
             return boxes.flatMap((a, i) => boxes.slice(i + 1)
               .filter((b) => a.left < b.right - 0.5 && b.left < a.right - 0.5
                           && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5)
               .map((b) => [a.text, b.text]));
           })"""
    )
    assert crossing == []
    rows = "(s) => new Set([...s.children].map((c) => Math.round(c.offsetTop))).size"
    expected = [4, 2] if width == 360 else [2, 1]
    assert page.locator(".cc-bitstrip").evaluate_all(f"all => all.map({rows})") == expected
