"""The tools behind the notebooks: what counts as stale, what is tidied, what plain text becomes of MyST."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

import cutecourse
from tools import tidy
from tools.execute import CellFailed, execute
from tools.notebooks import as_notebook
from tools.paths import (
    AuthoringError,
    UnknownChapter,
    chapter_number,
    chapter_pages,
    choose,
    page_number,
)
from tools.plain_markdown import UntranslatableMarkdown, plain


def _with_widget(model: str) -> NotebookNode:
    child = model.replace("a", "b")
    view = {"model_id": model, "version_major": 2, "version_minor": 0}
    output = new_output("display_data", data={tidy.WIDGET_VIEW: view, "text/plain": "W()"})
    notebook = new_notebook(cells=[new_code_cell("w", outputs=[output])])
    state = {
        "f" * 32: {"model_name": "Layout", "state": {}},
        model: {"model_name": "AnyModel", "state": {"layout": f"IPY_MODEL_{child}"}},
        child: {"model_name": "LayoutModel", "state": {}},
    }
    notebook.metadata["widgets"] = {tidy.WIDGET_STATE: {"state": state, "version_major": 2}}
    return notebook


def test_tidy__numbers_widgets_and_drops_those_that_nothing_shows() -> None:
    first, second = _with_widget("a1" * 16), _with_widget("a2" * 16)
    for notebook in (first, second):
        notebook.cells[0]["id"] = "the-cell"
        tidy.tidy(notebook, name="07_sample")
    assert json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    state = first.metadata["widgets"][tidy.WIDGET_STATE]["state"]
    view = first.cells[0].outputs[0].data[tidy.WIDGET_VIEW]
    assert len(state) == 2
    assert state[view["model_id"]]["state"]["layout"].removeprefix("IPY_MODEL_") in state


def test_tidy__names_a_widget_by_its_cell_so_that_an_earlier_one_changes_no_other() -> None:
    alone, behind = _with_widget("a1" * 16), _with_widget("a1" * 16)
    for notebook in (alone, behind):
        notebook.cells[0]["id"] = "the-cell"
    before = _with_widget("c3" * 16)
    behind.cells.insert(0, before.cells[0])
    for model, state in before.metadata["widgets"][tidy.WIDGET_STATE]["state"].items():
        behind.metadata["widgets"][tidy.WIDGET_STATE]["state"].setdefault(model, state)
    for notebook in (alone, behind):
        tidy.tidy(notebook, name="07_sample")
    assert alone.cells[0].outputs == behind.cells[1].outputs


def test_tidy__leaves_no_code_of_our_widgets() -> None:
    notebook = _with_widget("a1" * 16)
    models = notebook.metadata["widgets"][tidy.WIDGET_STATE]["state"]
    for model, name in (("a1" * 16, "cutecourse.widgets.W"), ("b1" * 16, "another.package.W")):
        models[model]["state"].update(_anywidget_id=name, _esm="code", _css="style", value=3)
    tidy.tidy(notebook, name="07_sample")
    ours, other = (
        model["state"] for model in notebook.metadata["widgets"][tidy.WIDGET_STATE]["state"].values()
    )
    assert {name: ours[name] for name in ours if name != "layout"} == {
        "_anywidget_id": "cutecourse.widgets.W",
        "value": 3,
    }
    assert (other["_esm"], other["_css"]) == ("code", "style")


def test_stored_widgets__are_figures_for_a_reader_and_come_back_for_the_build() -> None:
    notebook = _with_widget("a1" * 16)
    tidy.tidy(notebook, name="07_sample")
    before = json.dumps(notebook, sort_keys=True)
    tidy.store_widgets(notebook)
    assert "widgets" not in notebook.metadata
    assert tidy.WIDGET_VIEW not in notebook.cells[0].outputs[0].data
    nbformat.validate(notebook)
    tidy.restore_widgets(notebook)
    assert json.dumps(notebook, sort_keys=True) == before
    tidy.restore_widgets(notebook)
    assert json.dumps(notebook, sort_keys=True) == before


def test_tidy__leaves_no_address_and_no_traceback() -> None:
    outputs = [
        new_output("execute_result", data={"text/plain": "<object at 0x7f00aa>, write at 0x7f00aa"}),
        new_output(
            "error", ename="LayoutError", evalue="no", traceback=["\x1b[31m/home/someone/file.py", "line 3"]
        ),
    ]
    notebook = new_notebook(cells=[new_code_cell("a", outputs=outputs)])
    tidy.tidy(notebook, name="07_sample")
    assert notebook.cells[0].outputs[0].data["text/plain"] == "<object at 0x0>, write at 0x7f00aa"
    assert notebook.cells[0].outputs[1].traceback == ["LayoutError: no"]


@pytest.mark.parametrize(
    ("cell", "tags", "message"),
    [
        ("import sys\nprint('careful', file=sys.stderr)", [], "code cell 2 wrote to stderr"),
        ("1 / 0", [], "ZeroDivisionError"),
        ("1 + 1", ["raises-exception"], "tagged raises-exception and raised nothing"),
    ],
)
def test_execute__refuses_what_a_page_may_not_show(
    tmp_path: Path, cell: str, tags: list[str], message: str
) -> None:
    notebook = new_notebook(cells=[new_code_cell("a = 1"), new_code_cell(cell, metadata={"tags": tags})])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with pytest.raises(CellFailed, match=message):
        execute(notebook, where=tmp_path / "page.md", cwd=tmp_path)


def test_execute__says_for_each_cell_which_kernels_ran_where(tmp_path: Path) -> None:
    start = (
        "import numpy as np\nfrom cutecourse.kernels import hello_ptx\n"
        "from cutecourse.runtime import run\n6 * 7"
    )
    call = "run(hello_ptx{}, out=np.zeros(hello_ptx.LAUNCH.tensors[0].shape, np.uint32)){}"
    codes = [start, call.format("", ";"), call.format(", device='emulator'", ";"), "1"]
    notebook = new_notebook(cells=[new_code_cell(code) for code in codes])
    execution = execute(notebook, where=tmp_path / "page.md", cwd=tmp_path)
    runs = [[(run["kernel"], run["module"], run.get("asked_for")) for run in cell] for cell in execution.runs]
    assert runs == [[], [("hello_ptx", "hello_ptx", None)], [("hello_ptx", "hello_ptx", True)], []]
    assert execution.runs[2][0]["where"] == "emulator"
    assert execution.environment["version"] == cutecourse.__version__
    assert len(notebook.cells) == 4
    assert notebook.cells[0].outputs[0].data["text/plain"] == "42"


def test_execute__makes_one_text_of_what_is_printed_in_pieces(tmp_path: Path) -> None:
    cell = "import time\nprint('one', end='', flush=True)\ntime.sleep(0.5)\nprint(' two')"
    notebook = new_notebook(cells=[new_code_cell(cell)])
    execute(notebook, where=tmp_path / "page.md", cwd=tmp_path)
    assert [output.text for output in notebook.cells[0].outputs] == ["one two\n"]


def test_as_notebook__refuses_a_page_without_cells() -> None:
    with pytest.raises(AuthoringError, match=r"page\.md has no code cell"):
        as_notebook("# A title\n\ntext\n", where="page.md")


def test_choose__takes_numbers_names_and_files() -> None:
    sources = [Path("book/chapters/01_hello_layout.md"), Path("book/chapters/02_hello_mma.md")]
    assert choose(sources, []) == sources
    assert choose(sources, ["02"]) == choose(sources, ["book/chapters/02_hello_mma.md"]) == sources[1:]
    with pytest.raises(UnknownChapter, match=r"no chapter '03'; there are: 01_hello_layout, 02_hello_mma$"):
        choose([*sources, Path("exercises/sources/02_hello_mma.md")], ["03"])


def test_choose__takes_a_chapters_parts_and_its_exercises_by_the_chapters_number() -> None:
    pages = [Path(f"book/chapters/{name}.md") for name in ("12_one", "13a_two_sm", "13b_two_sm_pipeline")]
    exercises = Path("exercises/sources/13_two_sm.md")
    assert choose([*pages, exercises], ["13"]) == [*pages[1:], exercises]
    assert choose([*pages, exercises], ["13a"]) == choose(pages, ["13a_two_sm"]) == [pages[1]]
    assert choose([*pages, exercises], ["13_two_sm"]) == [exercises]
    with pytest.raises(UnknownChapter, match="no chapter '1'"):
        choose(pages, ["1"])


def test_chapter_pages__come_in_order_with_their_parts(tmp_path: Path) -> None:
    names = ["08_c.md", "07b_b.md", "07a_a.md", "7_no.md", "notes.md", "07aa_no.md"]
    for name in names:
        (tmp_path / name).touch()
    pages = chapter_pages(tmp_path)
    assert [page.name for page in pages] == ["07a_a.md", "07b_b.md", "08_c.md"]
    assert [chapter_number(page) for page in pages] == ["07", "07", "08"]
    assert [page_number(page) for page in pages] == ["7a", "7b", "8"]


def test_plain__shows_tabs_one_after_the_other_and_the_museum_s_tables() -> None:
    tabs = "::::{tab-set}\n:::{tab-item} C++\n```cpp\nint a;\n```\n:::\n:::{tab-item} PTX\nret;\n:::\n::::"
    assert plain(tabs, where="a page") == "**C++**\n\n```cpp\nint a;\n```\n**PTX**\n\nret;"
    assert "| At an mbarrier; " in plain("```{museum} hangs\n```", where="a page")
    with pytest.raises(UntranslatableMarkdown, match="museum"):
        plain("```{museum} runaway_math report\n```", where="a page")


def test_plain__turns_admonitions_labels_and_roles_into_markdown() -> None:
    text = (
        "(tn-strides)=\n:::{admonition} Predict\n:class: tip\n\n"
        "Which {term}`mode`, {ref}`as above <x>`?\n:::\n"
        "See [the words](../notation.md#glossary) and [the rest](../credits.md).\n"
    )
    assert plain(text, where="page.md") == (
        "> **Predict**\n>\n> Which mode, as above?\n"
        "See [the words](notation.ipynb#glossary) and [the rest](../book/credits.md)."
    )


def test_plain__nests_and_leaves_code_alone() -> None:
    text = "::::{note}\n:::{tip}\ninner\n:::\n::::\n```python\nx = '{term}`a`'  # [b](c.md)\n```"
    assert plain(text, where="page.md") == (
        "> **Note**\n>\n> > **Tip**\n> >\n> > inner\n```python\nx = '{term}`a`'  # [b](c.md)\n```"
    )


def test_plain__lists_a_glossary() -> None:
    text = ":::{glossary}\nshape\n  How many.\n  Per mode.\n\nstride\n  How far.\n:::"
    assert plain(text, where="page.md") == "- **shape**: How many. Per mode.\n- **stride**: How far."


@pytest.mark.parametrize("text", [":::{figure} a.png\n:::", "{math}`x^2`", ":::{note}\nnot closed"])
def test_plain__refuses_what_it_cannot_say(text: str) -> None:
    with pytest.raises(UntranslatableMarkdown, match=r"page\.md"):
        plain(text, where="page.md")


@pytest.mark.parametrize(
    ("source", "link"),
    [("../notebooks/", "../book/credits.md"), ("../../notebooks/", "../../book/credits.md")],
)
def test_plain__finds_its_way_from_the_exercises(source: str, link: str) -> None:
    text = plain("[1](../chapters/01_hello_layout.md) [e](../credits.md)", where="x", notebooks=source)
    assert text == f"[1]({source}01_hello_layout.ipynb) [e]({link})"


def test_as_notebook__leaves_out_a_label_that_stands_alone() -> None:
    text = "# A page\n\n(a-label)=\n\n```{code-cell} ipython3\n1\n```\n"
    cells = as_notebook(text, where="a page").cells
    assert [cell.source for cell in cells] == ["# A page", "1"]
