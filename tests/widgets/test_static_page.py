"""Every widget on a page with no kernel: click, type, walk with the keys, read what it computed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from widgets import traces, umma_runs
from widgets.parts import cc, unnamed

from cutecourse import layout as algebra
from cutecourse import palette
from cutecourse.atoms import mma_atom
from cutecourse.banks import column_access, ldmatrix_access
from cutecourse.descriptors import SMEM_SM100
from cutecourse.layout import Layout, cosize, explain, idx2crd, logical_divide, pretty_str, size, tiled_divide
from cutecourse.protocols import pipeline
from cutecourse.widgets import (
    OPERATIONS,
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
    apply_operation,
    parse_tiler,
)
from cutecourse.widgets.snapshots import atom_snapshot, cells_of, register_name

pytestmark = pytest.mark.browser

F16 = "SM80_16x8x16_F32F16F16F32_TN"


def everything() -> list[Any]:
    return [
        Predict("01-a", "Which comes first, `(0,1)` or `(1,0)`?", options=["`(0,1)`", "`(1,0)`"]),
        Predict("01-b", "How far apart?", answer_type="number"),
        LayoutExplorer("((2,2),(3,2)):((1,8),(2,20))", operation="zipped_divide", operand="(2,3)"),
        MmaOwnership(),
        Reveal("01-b", 8),
        TmaBox(),
        ClusterMasks((4, 4), thr_id=2, cta=6),
        BarrierTimeline(traces.deadlock(), end="no warp can go on"),
        TwoSmStage(umma_runs.traced("umma_two_sm")),
        DescriptorBits(SMEM_SM100, {"k-block 0": 0x4000404000010040, "k-block 1": 0x4000404000010042}),
        TmemViewer(128, 256, cta_group=2, allocations={"acc": 256, "scales": 32}, element=(70, 130)),
        BankMap(
            "(32,64):(64,1)", accesses=[ldmatrix_access(), column_access(5)], selected={"row": 3, "column": 8}
        ),
        StateGraph(pipeline(2, 3), without=(0, 6)),
        ScaleViewer("nvf4", m=77, n=40, k=100),
        RoleTimeline(umma_runs.stored("umma_persistent"), tiles=3),
    ]


# ---- LayoutExplorer ----


@pytest.mark.parametrize(
    "text", ["(4,8):(8,1)", "((2,2),(3,2)):((1,8),(2,20))", "(4,3,2):(1,2,3)", "8:2", "(3,4):(0,1)"]
)
def test_explorer__every_cell_and_every_memory_place_says_what_python_says(text: str, mount: Any) -> None:
    layout = Layout.parse(text)
    page = mount(LayoutExplorer(text))
    cells = cc(page, "cell").evaluate_all(
        "all => all.map((c) => [+c.dataset.index, c.dataset.coord, +c.textContent])"
    )
    assert sorted(cells) == [
        [i, pretty_str(idx2crd(i, layout.shape)), layout(i)] for i in range(size(layout))
    ]
    counts = cc(page, "memory").evaluate_all("all => all.map((c) => [+c.dataset.offset, +c.dataset.count])")
    offsets = [layout(i) for i in range(size(layout))]
    assert counts == [[o, offsets.count(o)] for o in range(cosize(layout))]
    assert cc(page, "size").inner_text() == str(size(layout))
    assert cc(page, "cosize").inner_text() == str(cosize(layout))


def test_explorer__a_click_on_a_cell_computes_its_offset(mount: Any) -> None:
    page = mount(LayoutExplorer("((2,2),(3,2)):((1,8),(2,20))"))
    assert cc(page, "offset").count() == 0
    layout = Layout(((2, 2), (3, 2)), ((1, 8), (2, 20)))
    for index in (0, 9, 23):
        cc(page, "cell", index=index).click()
        assert cc(page, "offset").inner_text() == str(layout(index))
        assert cc(page, "coord").inner_text() == pretty_str(idx2crd(index, layout.shape))
        lit = cc(page, "memory").and_(page.locator(".cc-lit"))
        assert lit.evaluate_all("all => all.map((c) => +c.dataset.offset)") == [layout(index)]
    assert "= 1*1 + 1*8 + 2*2 + 1*20" in cc(page, "state").inner_text()


def test_explorer__pointing_works_both_ways_and_shows_holes_and_collisions(mount: Any) -> None:
    page = mount(LayoutExplorer("(4,8):(1,2)"), LayoutExplorer("4:3"))
    first, second = cc(page, "explorer").all()
    assert "not injective" in cc(first, "kind").inner_text()
    cc(first, "memory", offset=4).hover()
    lit = first.locator('[data-cc="cell"].cc-lit').evaluate_all("all => all.map((c) => c.dataset.coord)")
    assert lit == ["(0,2)", "(2,1)"]
    assert "2 coordinates: (2,1), (0,2)" in cc(first, "state").inner_text()
    cc(second, "memory", offset=4).hover()
    assert "offset 4 is a hole" in cc(second, "state").inner_text()
    assert first.locator('[data-cc="cell"].cc-lit').count() == 0  # the pointer left the first one
    cc(second, "cell", index=2).hover()
    assert second.locator('[data-cc="memory"].cc-lit').get_attribute("data-offset") == "6"


def test_explorer__arrow_keys_walk_the_grids_and_tab_leaves_them(mount: Any) -> None:
    page = mount(LayoutExplorer("(4,8):(8,1)"))
    cc(page, "operation").focus()
    page.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    assert cc(page, "coord").inner_text() == "(1,3)"
    assert cc(page, "offset").inner_text() == "11"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("End")
    assert cc(page, "offset").inner_text() == "15"
    page.keyboard.press("Control+Home")
    assert cc(page, "offset").inner_text() == "0"
    page.keyboard.press("ArrowLeft")
    assert cc(page, "offset").inner_text() == "0"  # the edge holds
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.cc") == "memory"
    page.keyboard.press("ArrowRight")
    assert cc(page, "coord").inner_text() == "(0,1)"
    page.keyboard.press("Escape")
    assert cc(page, "offset").count() == 0
    assert page.locator('[data-cc="cell"][tabindex="0"]').count() == 1


def test_explorer__editing_redraws_and_bad_input_keeps_the_last_good_picture(mount: Any) -> None:
    page = mount(LayoutExplorer("(4,8):(8,1)"))
    message = page.locator(".cc-message:visible")
    cc(page, "stride").fill("(1,4)")
    assert cc(page, "cell", index=9).inner_text() == "9"
    assert cc(page, "notation").input_value() == "(4,8):(1,4)"
    for bad, said in [
        ("(4,8", "a parenthesis is not closed"),
        ("(4,8):(1,4,2)", "there are 2 modes and 3 strides"),
        ("(4,0):(1,4)", "every extent is at least 1"),
        ("(4,8):(1@0,1@1)", "coordinate strides"),
        ("(4,8):(-1,4)", "negative stride"),
        ("(64,64)", "up to 1024 cells"),
        ("4,8", "put the modes in parentheses"),
    ]:
        cc(page, "notation").fill(bad)
        assert said in message.inner_text()
        assert cc(page, "notation").get_attribute("aria-invalid") == "true"
        assert cc(page, "cell").count() == 32
        assert cc(page, "cell", index=9).inner_text() == "9"
    cc(page, "notation").fill("((2,2),8):((1,16),2)")
    assert message.count() == 0
    assert cc(page, "shape").input_value() == "((2,2),8)"
    assert cc(page, "cell", index=2).inner_text() == "16"


@pytest.mark.sample(4)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_explorer__steps_lead_to_pythons_result(operation: str, mount: Any) -> None:
    page = mount(LayoutExplorer("(4,6):(6,1)"))
    cc(page, "operation").select_option(operation)
    operand = cc(page, "operand")
    text = operand.input_value() if operand.is_visible() else ""
    expected = explain(
        getattr(algebra, operation),
        Layout((4, 6), (6, 1)),
        *((parse_tiler(text),) if text else ()),
    )
    if cc(page, "inside").is_visible():
        cc(page, "inside").check()
    for number, step in enumerate(expected.steps, 1):
        if number > 1:
            cc(page, "next").click()
        heading = cc(page, "step").inner_text()
        assert heading.startswith(f"{operation}: step {number} of {len(expected.steps)}")
        assert step.rule in cc(page, "steps").inner_text()
        shown = page.locator('[data-cc="value"], [data-cc="result"]').all_inner_texts()
        assert shown == [pretty_str(value) for _, value in step.values]
    assert cc(page, "result").inner_text() == str(expected.result)
    assert cc(page, "next").is_disabled()
    assert cc(page, "step").inner_text().endswith("the result")


def test_explorer__folds_what_called_operations_do_until_asked(mount: Any) -> None:
    page = mount(LayoutExplorer("(8,8):(1,8)", operation="logical_divide", operand="4:2"))
    steps = explain(logical_divide, Layout((8, 8)), Layout(4, 2)).steps
    heading = cc(page, "step").inner_text()
    shown = int(heading.rpartition(" of ")[2].split(",")[0])
    assert len([step for step in steps if step.level == 0]) <= shown < len(steps)
    cc(page, "next").click()
    assert "step 2 of" in cc(page, "step").inner_text()
    cc(page, "prev").click()
    assert cc(page, "step").inner_text() == heading
    cc(page, "inside").check()
    assert f"step 1 of {len(steps)}" in cc(page, "step").inner_text()


@pytest.mark.parametrize(
    ("layout", "operation", "operand"),
    [
        ("4:2", "complement", "24"),
        ("(2,2):(1,12)", "complement", "48"),
        ("(4,8):(8,1)", "zipped_divide", "(2,4)"),
    ],
)
def test_explorer__no_step_only_repeats_the_layout(
    layout: str, operation: str, operand: str, mount: Any
) -> None:
    page = mount(LayoutExplorer(layout, operation=operation, operand=operand))
    same = {layout, layout.replace("4:2", "(4):(2)")}
    while not cc(page, "next").is_disabled():
        values = page.locator('[data-cc="value"]').all_inner_texts()
        assert not set(values) & same
        cc(page, "next").click()
    assert cc(page, "result").inner_text() == str(apply_operation(operation, layout, operand))


def board_cells(board: Any) -> list[list[str]]:
    """The large and the small number of each cell of a board, row by row."""
    return board.locator("td").evaluate_all(
        "all => all.map((c) => [c.firstChild?.nodeName === '#text' ? c.firstChild.data : '', "
        "c.querySelector('small')?.textContent ?? ''])"
    )


def test_explorer__a_composition_numbers_the_cells_that_b_picks(mount: Any) -> None:
    outer, inner = Layout.parse("(6,4):(8,2)"), Layout.parse("(4,3):(3,1)")
    page = mount(LayoutExplorer(str(outer), operation="composition", operand=str(inner)))
    board = cc(page, "board").first
    picks = [inner(c) for c in range(size(inner))]
    expected = [
        [str(picks.index(row + 6 * column)) if row + 6 * column in picks else "", str(outer((row, column)))]
        for row in range(6)
        for column in range(4)
    ]
    assert board_cells(board) == expected
    assert board.locator(".cc-marked").count() == size(inner)


def test_explorer__a_complement_shows_what_the_layout_covers_and_what_is_added(mount: Any) -> None:
    page = mount(LayoutExplorer("4:2", operation="complement", operand="24"))
    alone, both = cc(page, "board").all()
    covered = [place for place, (text, _) in enumerate(board_cells(alone)) if text != "·"]
    assert covered == [0, 2, 4, 6]
    starts = both.locator("td").evaluate_all(
        "all => all.flatMap((c, i) => c.matches('.cc-marked') ? [i] : [])"
    )
    complement = apply_operation("complement", "4:2", "24")
    assert starts == sorted(complement(j) for j in range(size(complement)))


def test_explorer__blocked_and_raked_stand_side_by_side_over_one_memory(mount: Any) -> None:
    page = mount(LayoutExplorer("(2,2):(1,2)", operation="raked_product", operand="(2,3):(1,2)"))
    titles = page.locator(".cc-boards h4").all_inner_texts()
    assert [title.partition(":")[0] for title in titles] == [
        "blocked_product",
        "raked_product",
        "both in memory",
    ]
    blocked, raked, memory = cc(page, "board").all()
    assert sorted(board_cells(blocked)) == sorted(board_cells(raked)) == sorted(board_cells(memory))
    assert board_cells(blocked)[:2] == [["0", "0"], ["2", "0"]]
    assert board_cells(raked)[:2] == [["0", "0"], ["0", "2"]]


def test_explorer__the_operand_is_live_and_a_refusal_is_told_at_the_field(mount: Any) -> None:
    page = mount(LayoutExplorer("(8,8):(1,8)", operation="logical_divide", operand="(2,4)"))
    for text in ("4", "(4:2,8)", "16:2"):
        cc(page, "operand").fill(text)
        cc(page, "last").click()
        assert cc(page, "result").inner_text() == str(apply_operation("logical_divide", "(8,8):(1,8)", text))
    cc(page, "operand").fill("(2,3,4)")
    assert "has 3 modes" in page.locator(".cc-message:visible").inner_text()
    cc(page, "operand").fill("(2,")
    assert "it ends too early" in page.locator(".cc-message:visible").inner_text()
    assert (
        cc(page, "call").inner_text() == "logical_divide((8,8):(1,8), 16:2)"
    )  # the last one that could be done
    cc(page, "operand").fill("(2,2)")
    assert cc(page, "call").inner_text() == "logical_divide((8,8):(1,8), (2,2))"
    assert page.locator(".cc-message:visible").count() == 0


def test_explorer__a_result_can_be_drawn_below_and_taken_back(mount: Any) -> None:
    page = mount(LayoutExplorer("(8,8):(1,8)", operation="zipped_divide", operand="(2,4)"))
    cc(page, "last").click()
    cc(page, "draw").click()
    tiled = apply_operation("zipped_divide", "(8,8):(1,8)", "(2,4)")
    assert int(cc(page, "cell", coord="((1,2),(3,1))").inner_text()) == tiled(((1, 2), (3, 1)))
    assert cc(page, "draw").get_attribute("aria-pressed") == "true"
    cc(page, "draw").click()
    assert cc(page, "cell", coord="(1,2)").inner_text() == "17"


def test_explorer__steps_through_an_explanation_from_python_until_it_is_edited(mount: Any) -> None:
    explanation = explain(tiled_divide, Layout((8, 8)), (2, 4))
    page = mount(LayoutExplorer(explanation=explanation))
    assert cc(page, "operation").input_value() == "tiled_divide"
    cc(page, "inside").check()
    for _ in range(3):
        cc(page, "next").click()
    step = explanation.steps[3]
    assert f"{step.rule} — {step.text.replace('`', '')}" in cc(page, "steps").inner_text()
    cc(page, "last").click()
    assert cc(page, "result").inner_text() == str(explanation.result)
    cc(page, "shape").fill("(8,16)")
    assert cc(page, "steps").is_hidden()
    assert cc(page, "operation").input_value() == ""


def test_explorer__two_views_of_one_model_show_the_same(mount: Any) -> None:
    explorer = LayoutExplorer("(4,8):(8,1)")
    page = mount(explorer, explorer)
    first, second = cc(page, "explorer").all()
    cc(first, "notation").fill("(2,3):(3,1)")
    assert cc(second, "notation").input_value() == "(2,3):(3,1)"
    cc(second, "cell", index=5).click()
    assert cc(first, "offset").inner_text() == "5"


# ---- MmaOwnership ----


def lit_cells(page: Any, letter: str) -> set[tuple[int, ...]]:
    crds = page.locator(f'[data-cc="own"][data-operand="{letter}"].cc-lit').evaluate_all(
        "all => all.map((c) => c.dataset.crd)"
    )
    return {tuple(map(int, crd.split(","))) for crd in crds}


@pytest.mark.parametrize(
    "name", [F16, "SM80_16x8x8_F32TF32TF32F32_TN", "SM80_16x8x32_S32S8S8S32_TN", "SM80_8x8x4_F64F64F64F64_TN"]
)
def test_ownership__every_cell_names_its_owner(name: str, mount: Any) -> None:
    snapshot = atom_snapshot(mma_atom(name))
    page = mount(MmaOwnership([name]))
    for letter in "ABC":
        operand = snapshot.operands[letter]
        found = cc(page, "own", operand=letter).evaluate_all(
            "all => all.map((c) => [c.dataset.crd, +c.dataset.thread, c.dataset.register])"
        )
        expected = [[f"{m},{n}", t, register_name(letter, v, operand)] for t, v, (m, n) in cells_of(operand)]
        assert sorted(found) == sorted(expected)


def test_ownership__a_thread_lights_its_cells_in_all_three(mount: Any) -> None:
    atom = mma_atom(F16)
    page = mount(MmaOwnership())
    assert "m16n8k16" in cc(page, "ptx").inner_text()
    cc(page, "thread").fill("13")
    assert cc(page, "thread-number").inner_text() == "13"
    for letter in "ABC":
        assert lit_cells(page, letter) == {cell for _, cell in atom.cells(letter, 13)}
    assert cc(page, "register", register="a2").inner_text() == "a2: lo (3,10), hi (3,11)"
    assert [atom.cell("A", 13, 4), atom.cell("A", 13, 5)] == [(3, 10), (3, 11)]
    cc(page, "thread").focus()
    page.keyboard.press("ArrowUp")
    assert lit_cells(page, "C") == {cell for _, cell in atom.cells("C", 14)}
    cc(page, "thread").fill("32")
    assert "0 to 31" in page.locator(".cc-message:visible").inner_text()
    assert lit_cells(page, "C") == {cell for _, cell in atom.cells("C", 14)}
    cc(page, "thread").fill("")
    assert page.locator(".cc-message:visible").count() == 0
    assert lit_cells(page, "C") == set()


def test_ownership__of_wgmma_has_a_warpgroup_and_only_what_threads_hold(mount: Any) -> None:
    atom = mma_atom("SM90_64x8x16_F32F16F16_RS")
    page = mount(WgmmaOwnership())
    assert "m64n8k16" in cc(page, "ptx").inner_text()
    assert cc(page, "own", operand="B").count() == 0
    cc(page, "thread").fill("77")
    assert "warp 2, lane 13" in cc(page, "registers").inner_text()
    for letter in "AC":
        assert lit_cells(page, letter) == {cell for _, cell in atom.cells(letter, 77)}


def test_ownership__starts_with_nobody_and_comes_back_to_it(mount: Any) -> None:
    page = mount(MmaOwnership())

    def nobody() -> bool:
        return (
            page.locator(".cc-lit, .cc-aside, .cc-chosen").count() == 0
            and "Nobody is selected" in cc(page, "registers").inner_text()
            and cc(page, "thread").input_value() == ""
            and cc(page, "clear").is_disabled()
        )

    assert nobody()
    assert cc(page, "groups").locator("li").count() == 8
    cc(page, "own", operand="C", crd="3,3").click()
    assert not nobody()
    cc(page, "clear").click()
    page.mouse.move(0, 0)
    assert nobody()
    cc(page, "own", operand="A", crd="0,0").focus()
    page.keyboard.press("ArrowDown")
    assert cc(page, "owner").inner_text() == "4"
    page.keyboard.press("Escape")
    assert nobody()


@pytest.mark.parametrize("width", [1000, 390])
def test_ownership__stays_where_it_is_when_a_cell_is_clicked(width: int, mount: Any) -> None:
    page = mount(MmaOwnership())
    page.set_viewport_size({"width": width, "height": 900})

    def places() -> Any:
        return page.locator("[data-cc=own], .cc-widget").evaluate_all(
            "all => all.map((e) => e.getBoundingClientRect()).map((r) => [r.x, r.y + scrollY, r.width])"
        )

    before = places()
    for letter, crd in (("B", "0,0"), ("C", "15,7"), ("A", "9,3")):
        cc(page, "own", operand=letter, crd=crd).click()
        assert cc(page, "owner").count() == 1
        assert places() == before
    cc(page, "clear").click()
    assert places() == before


def test_ownership__pointing_shows_the_owner_beside_the_cell(mount: Any) -> None:
    atom = mma_atom(F16)
    page = mount(MmaOwnership(thread=9))
    assert cc(page, "bubble").is_hidden()
    cc(page, "own", operand="C", crd="3,3").hover()
    thread, _ = atom.owner("C", (3, 3))
    assert cc(page, "bubble").inner_text() == f"C(3,3) thread {thread}, c1"
    assert lit_cells(page, "A") == {cell for _, cell in atom.cells("A", thread)}
    assert cc(page, "thread").input_value() == "9"
    cell = cc(page, "own", operand="C", crd="3,3").bounding_box()
    bubble = cc(page, "bubble").bounding_box()
    assert 0 <= cell["y"] - (bubble["y"] + bubble["height"]) <= 12
    assert bubble["x"] <= cell["x"] + cell["width"] / 2 <= bubble["x"] + bubble["width"]
    page.mouse.move(0, 0)
    assert cc(page, "bubble").is_hidden()
    assert lit_cells(page, "A") == {cell for _, cell in atom.cells("A", 9)}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_ownership__cells_of_other_threads_stay_readable(theme: str, mount: Any) -> None:
    page = mount(MmaOwnership(thread=9), theme=theme)
    ratios = cc(page, "own").evaluate_all(
        """all => {
          const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
          const rgb = (colour) => {
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
          };
          const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
          const weights = [0.2126, 0.7152, 0.0722];
          const light = (c) => c.reduce((sum, v, i) => sum + linear(v / 255) * weights[i], 0);
          return all.filter((c) => c.classList.contains("cc-aside")).map((c) => {
            const [style, cover] = [getComputedStyle(c), getComputedStyle(c, "::before")];
            const [under, over] = [rgb(style.backgroundColor), rgb(cover.backgroundColor)];
            const part = Number(cover.opacity);
            const ground = under.map((v, i) => v * (1 - part) + over[i] * part);
            const [a, b] = [light(rgb(style.color)), light(ground)].sort((x, y) => y - x);
            return style.opacity === "1" ? (a + 0.05) / (b + 0.05) : 0;
          });
        }"""
    )
    assert len(ratios) == 16 * 16 + 16 * 8 + 16 * 8 - 8 - 4 - 4
    assert min(ratios) >= 4.5


def test_ownership__on_a_phone_the_answer_is_beside_the_tapped_cell(mount: Any) -> None:
    page = mount(MmaOwnership(), width=390)
    cell = cc(page, "own", operand="C", crd="12,5")
    cell.scroll_into_view_if_needed()
    cell.click()
    box, bubble = cell.bounding_box(), cc(page, "bubble").bounding_box()
    assert cc(page, "bubble").is_visible()
    assert abs(box["y"] - bubble["y"]) < 60
    assert bubble["x"] >= 0
    assert bubble["x"] + bubble["width"] <= 390
    widths = page.locator(".cc-ownership .cc-scroll").evaluate_all(
        "all => all.map((s) => s.scrollWidth - s.clientWidth)"
    )
    assert widths == [0, 0, 0]


def test_ownership__a_cell_names_its_owner_and_register_in_words(mount: Any) -> None:
    atom = mma_atom(F16)
    page = mount(MmaOwnership())
    for letter, cell, words in [("A", (9, 6), "a1.lo"), ("B", (5, 11), "b1.hi"), ("C", (15, 7), "c3")]:
        cc(page, "own", operand=letter, crd=f"{cell[0]},{cell[1]}").click()
        thread, value = atom.owner(letter, cell)
        assert cc(page, "owner").inner_text() == str(thread)
        assert cc(page, "owner-value").inner_text() == str(value)
        assert cc(page, "owner-register").inner_text() == words
        assert cc(page, "thread").input_value() == str(thread)
        assert lit_cells(page, "A") == {c for _, c in atom.cells("A", thread)}
    page.keyboard.press("ArrowUp")
    assert cc(page, "cell-name").inner_text() == "C(m=14, n=7)"
    assert cc(page, "owner").inner_text() == str(atom.owner("C", (14, 7))[0])


def test_ownership__b_is_drawn_with_k_going_down(mount: Any) -> None:
    page = mount(MmaOwnership())
    cc(page, "own", operand="B", crd="2,3").click()
    page.keyboard.press("ArrowDown")
    assert cc(page, "cell-name").inner_text() == "B(n=2, k=4)"
    assert "drawn as K×N" in page.locator(".cc-ownership").inner_text()


def test_ownership__another_atom_has_other_owners(mount: Any) -> None:
    page = mount(MmaOwnership(thread=9))
    cc(page, "atom").select_option("SM80_16x8x8_F32TF32TF32F32_TN")
    tf32 = mma_atom("SM80_16x8x8_F32TF32TF32F32_TN")
    assert cc(page, "own", operand="A").count() == 16 * 8
    assert lit_cells(page, "A") == set()
    assert tf32.ptx in cc(page, "ptx").inner_text()


def test_ownership__one_group_of_four_threads_has_one_colour_everywhere(mount: Any) -> None:
    page = mount(MmaOwnership())
    colours = cc(page, "own").evaluate_all(
        "all => all.map((c) => [+c.dataset.thread, getComputedStyle(c).backgroundColor])"
    )
    by_group: dict[int, set[str]] = {}
    for thread, colour in colours:
        by_group.setdefault(thread // 4, set()).add(colour)
    assert all(len(one) == 1 for one in by_group.values())
    assert len(set.union(*by_group.values())) == 8


# ---- Predict and Reveal ----


def test_predict__a_choice_is_kept_over_a_reload(mount: Any) -> None:
    page = mount(Predict("01-x", "Which?", options=["row", "column"]), Reveal("01-x", "column"))
    assert cc(page, "reveal").get_attribute("data-agrees") == "none"
    assert "The machine says column." in cc(page, "reveal").inner_text()
    page.get_by_label("row").check()
    assert cc(page, "said").first.inner_text() == "You said row."
    assert cc(page, "reveal").get_attribute("data-agrees") == "no"
    assert "You said row; the machine says column." in cc(page, "reveal").inner_text()
    page.reload()
    page.wait_for_selector("html[data-cc-widgets=ready]")
    assert page.get_by_label("row").is_checked()
    assert "You said row; the machine says column." in cc(page, "reveal").inner_text()
    page.get_by_label("column").check()
    assert cc(page, "reveal").get_attribute("data-agrees") == "yes"
    cc(page, "clear").click()
    assert cc(page, "reveal").get_attribute("data-agrees") == "none"
    page.reload()
    page.wait_for_selector("html[data-cc-widgets=ready]")
    assert page.locator("input:checked").count() == 0


def test_predict__a_number_is_read_compared_as_a_number_and_refused_in_words(mount: Any) -> None:
    page = mount(Predict("01-y", "How many?", answer_type="number"), Reveal("01-y", 4))
    cc(page, "keep").click()
    assert "Type your prediction first" in page.locator(".cc-message:visible").inner_text()
    cc(page, "answer").fill("four")
    page.keyboard.press("Enter")
    assert '"four" is not a number' in page.locator(".cc-message:visible").inner_text()
    assert cc(page, "reveal").get_attribute("data-agrees") == "none"
    cc(page, "answer").fill("4.0")
    page.keyboard.press("Enter")
    assert cc(page, "reveal").get_attribute("data-agrees") == "yes"
    assert page.evaluate("localStorage.getItem('cutecourse.predict.01-y')") == "4"
    cc(page, "answer").fill("3")
    cc(page, "keep").click()
    assert "You said 3; the machine says 4." in cc(page, "reveal").inner_text()


def test_predict__words_agree_whatever_their_blanks_and_case(mount: Any) -> None:
    page = mount(Predict("01-z", "Which layout?"), Reveal("01-z", "(4,8):(8,1)"))
    cc(page, "answer").fill("(4, 8) : (8, 1)")
    page.keyboard.press("Enter")
    assert cc(page, "reveal").get_attribute("data-agrees") == "yes"


def test_predict__keys_do_not_mix_and_markup_stays_text(mount: Any) -> None:
    page = mount(Predict("01-p", "Tell."), Predict("01-q", "Tell again."), Reveal("01-q", "<b>no</b>"))
    boxes = cc(page, "answer").all()
    boxes[0].fill("<img src=x onerror=alert(1)>")
    boxes[0].press("Enter")
    assert cc(page, "reveal").get_attribute("data-agrees") == "none"
    assert page.locator("img").count() == 0
    assert "<b>no</b>" in cc(page, "reveal").inner_text()


def test_predict__two_widgets_with_one_key_and_two_open_pages_agree(mount: Any) -> None:
    question = Predict("01-t", "How many?", answer_type="number")
    page = mount(question, Predict("01-t", "Once more: how many?", answer_type="number"), Reveal("01-t", 7))
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("html[data-cc-widgets=ready]")
    cc(page, "answer").first.fill("7")
    cc(page, "keep").first.click()
    assert [box.input_value() for box in cc(page, "answer").all()] == ["7", "7"]
    other.wait_for_selector('[data-cc="reveal"][data-agrees="yes"]')
    assert cc(other, "answer").first.input_value() == "7"


def test_predict__a_page_that_may_not_store_still_remembers_while_it_is_open(mount: Any, page: Any) -> None:
    page.add_init_script(
        """Object.defineProperty(window, "localStorage",
             { get() { throw new DOMException("no", "SecurityError"); } });"""
    )
    mount(Predict("01-s", "How many?", answer_type="number"), Reveal("01-s", 7))
    cc(page, "answer").fill("6")
    page.keyboard.press("Enter")
    assert "You said 6; the machine says 7." in cc(page, "reveal").inner_text()


# ---- all of them ----


def test_all__can_be_reached_and_are_named_for_a_screen_reader(mount: Any) -> None:
    # An operation's picture is an image; the plain explorer's cells are reached one by one.
    page = mount(LayoutExplorer("(4,8):(8,1)"), *everything())
    assert unnamed(page) == []
    reached = set()
    for _ in range(50):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.cc ?? ''"))
    assert {
        "option",
        "answer",
        "keep",
        "notation",
        "operation",
        "operand",
        "cell",
        "memory",
        "next",
        "atom",
        "own",
    } <= reached


def test_all__ids_are_unique_and_every_description_exists(mount: Any) -> None:
    page = mount(*everything(), *everything())
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    missing = page.evaluate(
        """() => [...document.querySelectorAll("[aria-describedby], label[for]")]
             .map((e) => e.getAttribute("aria-describedby") ?? e.htmlFor)
             .filter((id) => !document.getElementById(id)).length"""
    )
    assert missing == 0


def test_all__fit_a_phone_and_scroll_inside_themselves(mount: Any) -> None:
    page = mount(*everything(), width=360)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
    first, second = page.locator(".cc-explorer .cc-boards .cc-panel").all()
    assert second.bounding_box()["y"] >= first.bounding_box()["y"] + first.bounding_box()["height"]
    for grid in page.locator(".cc-scroll").all():
        assert grid.evaluate(
            "(e) => e.scrollWidth <= e.clientWidth || getComputedStyle(e).overflowX === 'auto'"
        )


def _rgb(colour: str) -> str:
    return "rgb({}, {}, {})".format(*(int(colour[i : i + 2], 16) for i in (1, 3, 5)))


@pytest.mark.parametrize(
    ("theme", "meanings"), [("light", palette.MEANINGS_LIGHT), ("dark", palette.MEANINGS_DARK)]
)
def test_all__follow_the_theme_of_the_page(theme: str, meanings: dict[str, str], mount: Any) -> None:
    page = mount(*everything(), theme=theme)
    colours = "(all) => all.map((e) => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color])"
    found = page.locator(".cc-widget").evaluate_all(colours)
    assert found == [[_rgb(meanings["surface"]), _rgb(meanings["ink"])]] * len(found)


def test_all__the_theme_can_change_while_the_page_is_open(mount: Any) -> None:
    page = mount(*everything())
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    ground = page.locator(".cc-widget").first.evaluate("(e) => getComputedStyle(e).backgroundColor")
    assert ground == _rgb(palette.MEANINGS_DARK["surface"])


def test_all__nothing_moves_for_who_asked_for_less_motion(mount: Any, page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    mount(*everything())
    moving = page.evaluate(
        """() => [...document.querySelectorAll(".cc-widget, .cc-widget *")]
             .map((e) => getComputedStyle(e))
             .filter((s) => !/^0s/.test(s.transitionDuration) || s.animationName !== "none").length"""
    )
    assert moving == 0
    assert re.search("prefers-reduced-motion: no-preference", LayoutExplorer("4:1")._css)


def test_mount__leaves_other_widgets_alone_and_loads_each_code_once(mount: Any, page: Any) -> None:
    page.add_init_script(
        """window.blobs = 0;
           const make = URL.createObjectURL;
           URL.createObjectURL = (blob) => { window.blobs += 1; return make(blob); };"""
    )
    mount(LayoutExplorer("4:1"), LayoutExplorer("4:2"), Predict("01-k", "q?"))
    assert page.evaluate("window.blobs") == 2
    assert (
        page.locator("style").evaluate_all(
            "all => all.filter((s) => s.textContent.includes('.cc-widget')).length"
        )
        == 1
    )
    assert page.locator(".cc-mount").count() == 3
