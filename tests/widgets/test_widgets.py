"""The widgets' Python side: what they take, what they refuse, how they print, what they draw."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.colors
import numpy as np
import pytest
from widgets import traces, umma_runs

from cutecourse import palette
from cutecourse import widgets as package
from cutecourse.atoms import mma_atom
from cutecourse.banks import ldmatrix_access
from cutecourse.descriptors import SMEM_SM100
from cutecourse.errors import CourseError
from cutecourse.layout import Layout, coalesce, explain, logical_divide, make_identity_layout, tiled_divide
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
    WidgetError,
    apply_operation,
    draw_layout,
    draw_ownership,
    parse_tiler,
)
from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.recorded import code_of_all_widgets

PNG = b"\x89PNG\r\n"
ALL = [
    lambda: LayoutExplorer("(4,8):(8,1)"),
    MmaOwnership,
    WgmmaOwnership,
    lambda: Predict("a-key", "Which?", options=["one", "two"]),
    lambda: Reveal("a-key", 4),
    TmaBox,
    ClusterMasks,
    lambda: BarrierTimeline(traces.pipeline()),
    lambda: DescriptorBits(SMEM_SM100, {"block 0": 0x4000404000010040, "block 1": 0x4000404000010042}),
    lambda: TmemViewer(128, 256, cta_group=2, element=(70, 130)),
    lambda: TwoSmStage(umma_runs.traced("umma_two_sm")),
    lambda: BankMap("(8,64):(64,1)", accesses=[ldmatrix_access(matrices=1)], swizzle=(3, 3, 3)),
    lambda: StateGraph(pipeline(2, 3), without=(0, 6)),
    lambda: ScaleViewer("nvf4", m=77, n=40, k=100),
    lambda: RoleTimeline(umma_runs.stored("umma_persistent"), tiles=3),
]


# ---- every widget ----


@pytest.mark.parametrize("make", ALL)
def test_repr__is_the_same_for_two_equal_widgets_and_holds_no_address(make: Any) -> None:
    assert repr(make()) == repr(make())
    assert not re.search(r"0x[0-9a-f]{6,}", repr(make()))


@pytest.mark.sample(3)
@pytest.mark.parametrize("make", ALL)
def test_mimebundle__shows_a_view_and_the_repr(make: Any) -> None:
    widget = make()
    data, _ = widget._repr_mimebundle_()
    assert data["text/plain"] == repr(widget)
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == widget.model_id


@pytest.mark.parametrize("make", ALL)
def test_figure__is_a_picture_with_a_stable_repr(make: Any) -> None:
    figure = make().figure()
    assert figure._repr_png_().startswith(PNG)
    assert re.fullmatch(r"<figure with \d+ panels?>", repr(figure))


@pytest.mark.parametrize(
    "name",
    [
        "bank_map.js",
        "barrier_timeline.js",
        "cluster_masks.js",
        "descriptor_bits.js",
        "layout_explorer.js",
        "mma_ownership.js",
        "predict.js",
        "reveal.js",
        "role_timeline.js",
        "scale_viewer.js",
        "state_graph.js",
        "tma_box.js",
        "tmem_viewer.js",
        "two_sm_stage.js",
    ],
)
def test_bundle__is_one_module_that_imports_nothing_and_asks_for_nothing(name: str) -> None:
    text = module(name)
    assert not re.search(r"^\s*import\b", text, re.MULTILINE)
    assert text.count("export default") == 1
    assert not re.search(r"https?://|fetch\(|XMLHttpRequest|innerHTML|eval\(", text + stylesheet())
    assert all(line.count("`") % 2 == 0 for line in text.splitlines()), "text over a line's end"


def test_bundle__an_imported_name_that_is_missing_would_be_seen() -> None:
    folder = Path(package.__file__).parent / "js"
    for file in folder.glob("*.js"):
        for names, source in re.findall(r'import\s*\{([^}]*)\}\s*from\s*"\./([\w-]+\.js)"', file.read_text()):
            exported = set(
                re.findall(
                    r"^export (?:const|function|class) (\w+)", (folder / source).read_text(), re.MULTILINE
                )
            )
            wanted = {name.strip() for name in names.split(",") if name.strip()}
            assert wanted <= exported, f"{file.name} imports {wanted - exported} from {source}"


def test_code_of_all_widgets__has_each_class_under_the_name_that_its_state_gives() -> None:
    text = code_of_all_widgets()
    registered = json.loads(text.removeprefix("globalThis.cutecourseWidgets = ").removesuffix(";\n"))
    assert registered["style"] == stylesheet()
    for make in ALL:
        widget = make()
        assert registered["code"][widget._anywidget_id] == widget._esm
    assert len(registered["code"]) == len(ALL)
    exported = (getattr(package, name) for name in package.__all__)
    assert registered["code"].keys() == {
        f"{one.__module__}.{one.__name__}"
        for one in exported
        if isinstance(one, type) and issubclass(one, CourseWidget)
    }


# ---- colours ----


def _luminance(colour: str) -> float:
    channels = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def _contrast(a: str, b: str) -> float:
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["LIGHT", "DARK"])
def test_palette__text_is_readable_on_every_colour(theme: str) -> None:
    meanings = getattr(palette, f"MEANINGS_{theme}")
    grounds = [*getattr(palette, f"RAMP_{theme}"), *getattr(palette, f"QUADS_{theme}")]
    for ground in [*grounds, meanings["surface"], meanings["raised"], meanings["hole"]]:
        assert _contrast(meanings["ink"], ground) >= 4.5, ground
    for word, ground in product(("muted", "accent", "bad", "good"), ("surface", "raised")):
        assert _contrast(meanings[word], meanings[ground]) >= 4.5, (word, ground)
    assert _contrast(meanings["on-accent"], meanings["accent"]) >= 4.5


def test_palette__the_ramp_only_gets_darker_in_light_and_brighter_in_dark() -> None:
    light = [_luminance(colour) for colour in palette.RAMP_LIGHT]
    dark = [_luminance(colour) for colour in palette.RAMP_DARK]
    assert light == sorted(light, reverse=True)
    assert dark == sorted(dark)


def test_palette__eight_groups_of_threads_have_eight_colours_and_the_ninth_starts_again() -> None:
    assert [palette.quad_of(thread) for thread in (0, 3, 4, 31, 32)] == [0, 0, 1, 7, 0]
    assert len(set(palette.QUADS_LIGHT)) == len(set(palette.QUADS_DARK)) == 8


# ---- LayoutExplorer ----


def test_explorer__takes_a_layout_or_its_notation() -> None:
    assert LayoutExplorer(Layout((4, 8), (8, 1))).notation == "(4,8):(8,1)"
    assert LayoutExplorer("(_4, _8) : (_8, _1)").notation == "(4,8):(8,1)"
    assert LayoutExplorer("(4,8)").notation == "(4,8):(1,4)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("(4,8):(8", "not a layout"),
        ("(4,8):(8,1,2)", "not a layout"),
        ("S<3,4,3>:", "not a layout"),
        ("S<2,0,3> o 0 o (4,8):(8,1)", "plain layouts"),
        (make_identity_layout((4, 8)), "coordinate strides"),
        (Layout(4, -1), "negative stride"),
        ("(64,64):(1,64)", "up to 1024 cells"),
        ("2:5000", "up to 1024 cells and 4096 offsets"),
    ],
)
def test_explorer__refuses_in_words_what_it_cannot_draw(given: Any, message: str) -> None:
    with pytest.raises(WidgetError, match=re.escape(message)):
        LayoutExplorer(given)


def test_explorer__a_bad_assignment_leaves_the_last_good_layout() -> None:
    explorer = LayoutExplorer("(4,8):(8,1)")
    with pytest.raises(CourseError):
        explorer.notation = "(4,8"
    assert explorer.notation == "(4,8):(8,1)"


def test_explorer__refuses_an_operation_it_does_not_know() -> None:
    with pytest.raises(WidgetError, match="'transpose' is no operation"):
        LayoutExplorer("4:1", operation="transpose")


def test_explorer__computes_the_result_as_the_algebra_does() -> None:
    explorer = LayoutExplorer("(8,8):(1,8)", operation="logical_divide", operand=(2, 4))
    assert explorer.operand == "(2,4)"
    assert explorer.result() == logical_divide(Layout((8, 8)), (2, 4))
    assert LayoutExplorer("4:1").result() is None
    assert repr(explorer) == "LayoutExplorer('(8,8):(1,8)', operation='logical_divide', operand='(2,4)')"


def test_explorer__takes_an_explanation_or_its_snapshot() -> None:
    explanation = explain(tiled_divide, Layout((8, 8)), (2, 4))
    explorer = LayoutExplorer(explanation=explanation)
    assert (explorer.notation, explorer.operation, explorer.operand) == (
        "(8,8):(1,8)",
        "tiled_divide",
        "(2,4)",
    )
    assert explorer.result() == explanation.result
    assert LayoutExplorer(explanation=explanation.to_snapshot()).explanation == explorer.explanation
    with pytest.raises(WidgetError, match="neither an explanation"):
        LayoutExplorer(explanation="coalesce")
    with pytest.raises(WidgetError, match="has no steps"):
        LayoutExplorer(explanation={"operation": "coalesce", "operands": [{}], "result": "1:0"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("4:2", Layout(4, 2)),
        ("(4,8):(8,1)", Layout((4, 8), (8, 1))),
        ("(2,4:2)", (2, Layout(4, 2))),
        ("( _ , 4 )", (None, 4)),
        ("(4,)", (4,)),
        ("((2,_2),3)", ((2, 2), 3)),
    ],
)
def test_parse_tiler__reads_extents_layouts_and_tuples(text: str, value: Any) -> None:
    assert parse_tiler(text) == value


def test_apply_operation__leaves_an_optional_operand_out() -> None:
    assert apply_operation("coalesce", "(2,4):(1,2)") == coalesce(Layout((2, 4)))
    assert apply_operation("coalesce", "((2,4),3):((1,2),8)", "(1,1)") == Layout((8, 3), (1, 8))
    assert str(apply_operation("complement", "4:2")) == "2:1"


# ---- MmaOwnership ----


def test_ownership__takes_names_atoms_and_snapshots() -> None:
    atom = mma_atom("SM80_16x8x8_F32TF32TF32F32_TN")
    for given in (atom.name, atom, atom.to_snapshot()):
        widget = MmaOwnership([given])
        assert widget.atom == atom.name
        assert widget.atoms == [atom.to_snapshot()]
    assert MmaOwnership().atom == "SM80_16x8x16_F32F16F16F32_TN"
    assert MmaOwnership().thread is None
    assert repr(MmaOwnership(thread=0)) == "MmaOwnership('SM80_16x8x16_F32F16F16F32_TN', thread=0)"


def test_ownership__refuses_what_it_cannot_draw() -> None:
    with pytest.raises(WidgetError, match="'SM70' is no atom"):
        MmaOwnership(["SM70"])
    with pytest.raises(WidgetError, match="not among the atoms"):
        MmaOwnership(atom="SM70")
    with pytest.raises(WidgetError, match="threads 0 to 31"):
        MmaOwnership(thread=32)
    with pytest.raises(WidgetError, match="at least one"):
        MmaOwnership([])
    with pytest.raises(WidgetError, match="neither an MMA atom"):
        MmaOwnership([4])
    broken = mma_atom("SM80_16x8x8_F32TF32TF32F32_TN").to_snapshot()
    del broken["operands"]["B"]["layout"]
    with pytest.raises(WidgetError, match="'layout'"):
        MmaOwnership([broken])


def test_wgmma_ownership__draws_what_threads_hold() -> None:
    widget = WgmmaOwnership((8, 16), thread=127)
    assert [atom["shape_mnk"] for atom in widget.atoms] == [[64, 8, 16], [64, 16, 16]]
    for source, drawn in (("RS", {"A", "C"}), ("SS", {"C"})):
        titles = {axes.get_title(loc="left")[:1] for axes in WgmmaOwnership((8,), source).figure().axes}
        assert titles - {""} == drawn
    with pytest.raises(WidgetError, match="threads 0 to 127"):
        WgmmaOwnership(thread=128)
    with pytest.raises(WidgetError, match="64x12"):
        WgmmaOwnership((12,))


def test_draw_ownership__writes_thread_and_register_into_every_cell() -> None:
    atom = mma_atom("SM80_16x8x16_F32F16F16F32_TN")
    axes = {panel.get_title(loc="left")[:1]: panel for panel in draw_ownership(atom).axes}
    found = sorted(text.get_text() for text in axes["C"].texts)
    expected = sorted(
        f"{thread}\nc{value}"
        for thread, value in (atom.owner("C", (m, n)) for m in range(16) for n in range(8))
    )
    assert found == expected
    with pytest.raises(WidgetError, match="no thread 40"):
        draw_ownership(atom, thread=40)


@pytest.mark.parametrize("name", ["SM80_16x8x32_S32S8S8S32_TN", "SM80_8x8x4_F64F64F64F64_TN"])
def test_draw_ownership__names_registers_of_every_width(name: str) -> None:
    atom = mma_atom(name)
    panels = {panel.get_title(loc="left")[:1]: panel for panel in draw_ownership(atom).axes}
    found = {text.get_text() for text in panels["A"].texts}
    registers = {label.split("\n")[1].split(".")[0] for label in found}
    assert registers == {f"a{register}" for register in range(atom.registers("A"))}
    assert len(panels["A"].texts) == atom.operand_shape("A")[0] * atom.operand_shape("A")[1]


def test_draw_layout__writes_every_offset_and_marks_collisions_and_holes() -> None:
    grid, memory = draw_layout("(2,3):(2,3)").axes
    assert [int(text.get_text()) for text in grid.texts] == [Layout((2, 3), (2, 3))(i) for i in range(6)]
    assert [text.get_text() for text in memory.texts].count("·") == 3  # 1, 4 and 7 are holes
    _, memory = draw_layout("(2,3):(2,2)").axes
    assert [text.get_text() for text in memory.texts].count("×2") == 2


# ---- Predict and Reveal ----


def test_predict__infers_what_kind_of_answer_it_wants() -> None:
    assert Predict("k", "q?", options=[1, 2]).answer_type == "choice"
    assert Predict("k", "q?", options=[1, 2]).options == ["1", "2"]
    assert Predict("k", "q?").answer_type == "text"
    assert Predict("k", "q?", answer_type="number").said is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": " ", "question": "q"}, "needs a key"),
        ({"key": "k", "question": ""}, "needs a question"),
        ({"key": "k", "question": "q", "options": ["one"]}, "at least two options"),
        ({"key": "k", "question": "q", "options": ["one", "one"]}, "all different"),
        ({"key": "k", "question": "q", "answer_type": "essay"}, "one of choice, number, text"),
        ({"key": "k", "question": "q", "answer_type": "choice"}, "go together"),
        ({"key": "k", "question": "q", "options": ["a", "b"], "answer_type": "number"}, "go together"),
    ],
)
def test_predict__refuses_in_words(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(WidgetError, match=message):
        Predict(**arguments)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4, "4"),
        (np.int32(4), "4"),
        (np.float32(2.0), "2"),
        (0.5, "0.5"),
        (True, "True"),
        (Layout(4, 2), "4:2"),
    ],
)
def test_reveal__prints_the_value_so_that_recordings_compare_it(value: Any, text: str) -> None:
    predict = Predict("01-q", "How many?", answer_type="number")
    predict.said = 3
    revealed = predict.reveal(value)
    assert repr(revealed) == f"Reveal('01-q', {text!r})"
    assert (revealed.key, revealed.value, revealed.said) == ("01-q", text, 3)
