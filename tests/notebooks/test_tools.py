"""The tools behind the notebooks: what counts as stale, what is tidied, what plain text becomes of MyST."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import cutecourse
from tools import notebooks, record, tidy
from tools.execute import CellFailed, execute
from tools.notebooks import METADATA_KEY, as_notebook, differences, kernel_hash
from tools.paths import (
    CHAPTERS,
    AuthoringError,
    UnknownChapter,
    chapter_number,
    chapter_pages,
    choose,
    page_number,
)
from tools.plain_markdown import UntranslatableMarkdown, plain

KERNEL = "cutecourse.kernels.spec"  # any module: its hash is taken the same way


def _recording(
    *sources: str, version: str = cutecourse.__version__, kernels: dict[str, str] | None = None
) -> NotebookNode:
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    notebook.metadata[METADATA_KEY] = nbformat.from_dict({"version": version, "kernels": kernels or {}})
    return notebook


def _texts(recording: NotebookNode, *sources: str) -> list[str]:
    cells = [new_code_cell(source) for source in sources]
    return [difference.text for difference in differences(notebooks.notebook_sources()[0], recording, cells)]


def test_differences__are_none_for_the_same_cells_version_and_kernels() -> None:
    recording = _recording("a = 1", "a + 1", kernels={KERNEL: kernel_hash(KERNEL) or ""})
    assert _texts(recording, "a = 1", "a + 1") == []


def test_differences__name_the_cell_and_the_line() -> None:
    (text,) = _texts(_recording("a = 1", "b = 2\na + b"), "a = 1", "b = 2\na - b")
    assert "code cell 2 differs from the recording at its line 2" in text
    assert "a - b" in text
    assert "a + b" in text


def test_differences__see_a_missing_cell_and_other_tags() -> None:
    assert _texts(_recording("a = 1"), "a = 1", "a") == ["the page has 2 code cells, the recording 1"]
    recording = _recording("a = 1")
    recording.cells[0].metadata["tags"] = ["hide-input"]
    assert "tagged [] on the page, ['hide-input'] in the recording" in _texts(recording, "a = 1")[0]


def test_differences__see_another_library_version() -> None:
    (text,) = _texts(_recording("a", version="0.0.1"), "a")
    assert text == f"recorded with cutecourse 0.0.1, this is {cutecourse.__version__}"


def test_differences__see_a_changed_and_a_missing_kernel() -> None:
    recording = _recording("a", kernels={KERNEL: "0" * 64, "cutecourse.kernels.gone": "0" * 64})
    assert _texts(recording, "a") == [
        "the kernel module cutecourse.kernels.gone that was recorded is gone",
        f"the kernel module {KERNEL} has changed since the recording",
    ]


@pytest.mark.parametrize(
    ("kernel", "changed", "stale"),
    [
        ("umma_two_sm", "umma/umma_two_sm/__init__.py", True),  # the launch
        ("umma_two_sm", "umma/umma_two_sm/source.py", True),  # the kernel
        ("umma_parts", "umma/umma_tile/source.py", True),  # which umma_parts' file imports
        ("umma_two_sm", "umma/umma_tile/source.py", False),
        ("twins.copy_async", "copy/copy_async/twin.ptx", True),
        ("hello_ptx", "layout/hello_ptx/__init__.py", True),
    ],
)
def test_kernel_hash__is_that_of_the_launch_and_of_the_kernel(
    repository: Path, tmp_path: Path, kernel: str, changed: str, stale: bool
) -> None:
    copy = tmp_path / "cutecourse"
    shutil.copytree(repository / "lib" / "cutecourse", copy, ignore=shutil.ignore_patterns("__pycache__"))
    kernels = copy / "kernels"
    ask = f"from tools.notebooks import kernel_hash; print(kernel_hash('cutecourse.kernels.{kernel}'))"

    def hash_now() -> str:
        path = f"{tmp_path}{os.pathsep}{repository}"
        command = [sys.executable, "-c", ask]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path}
        ).stdout.strip()

    before = hash_now()
    assert len(before) == 64
    with (kernels / changed).open("a") as file:
        file.write("\n")
    assert (hash_now() != before) is stale


def test_differences__see_a_notebook_that_no_recorder_wrote() -> None:
    assert "carries no 'cutecourse' metadata" in _texts(new_notebook(cells=[new_code_cell("a")]), "a")[0]


def _with_runs(*runs: tuple[str, str, str, bool, bool]) -> NotebookNode:
    recording = _recording("a")
    names = ("kernel", "where", "target", "gpu_at_hand", "asked_for")
    recording.metadata[METADATA_KEY]["runs"] = [dict(zip(names, run, strict=True)) for run in runs]
    return recording


def test_check__lists_kernels_that_an_h200_could_have_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recordings = {
        "01_hello_layout": _with_runs(
            ("copy", "emulator", "sm_90", False, False), ("stamp", "gpu", "sm_90", True, False)
        ),
        "02_hello_mma": _with_runs(
            ("asked", "emulator", "sm_80", True, True), ("asked", "emulator", "sm_80", False, True)
        ),
        "11a_hello_umma": _with_runs(("blackwell", "emulator", "sm_100a", False, False)),
    }
    sources = [CHAPTERS / f"{name}.md" for name in recordings]
    monkeypatch.setattr(record, "notebook_sources", lambda: sources)
    monkeypatch.setattr(record, "exercise_sources", list)
    monkeypatch.setattr(record, "read_recording", lambda source: recordings[source.stem])
    for name in ("check_pages", "check_solutions"):
        monkeypatch.setattr(record, name, list)
    assert record.main(["--check"]) == 0
    said = capsys.readouterr().out
    assert "not yet recorded on hardware" in said
    assert "    notebooks/01_hello_layout.ipynb: copy\n" in said
    assert said.endswith("    python -m tools.record 01_hello_layout\n")


def test_stable_ids__follow_from_the_text_alone() -> None:
    first = new_notebook(cells=[new_code_cell("a"), new_markdown_cell("a"), new_code_cell("a")])
    second = new_notebook(
        cells=[new_code_cell("new"), new_code_cell("a"), new_markdown_cell("a"), new_code_cell("a")]
    )
    for notebook in (first, second):
        notebooks.give_stable_ids(notebook)
    assert [cell["id"] for cell in first.cells] == [cell["id"] for cell in second.cells[1:]]
    assert len({cell["id"] for cell in second.cells}) == 4


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
        tidy.tidy(notebook, name="07_sample")
        notebooks.give_stable_ids(notebook)
    assert json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    state = first.metadata["widgets"][tidy.WIDGET_STATE]["state"]
    view = first.cells[0].outputs[0].data[tidy.WIDGET_VIEW]
    assert len(state) == 2
    assert state[view["model_id"]]["state"]["layout"].removeprefix("IPY_MODEL_") in state


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


def test_execute__says_which_kernels_and_versions_were_used(tmp_path: Path) -> None:
    cell = "from cutecourse.kernels import hello_ptx, stamp_layout\nstamp_layout.FILE.load()\n6 * 7"
    notebook = new_notebook(cells=[new_code_cell(cell)])
    execution = execute(notebook, where=tmp_path / "page.md", cwd=tmp_path)
    assert execution.kernel_modules == ["cutecourse.kernels.hello_ptx", "cutecourse.kernels.stamp_layout"]
    assert execution.runs == []
    assert execution.environment["version"] == cutecourse.__version__
    assert len(notebook.cells) == 1
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


def test_text__is_carried_over_without_its_outputs_being_touched() -> None:
    page = "# A page\n\nNew words.\n\n```{code-cell} ipython3\n1\n```\n\nMore.\n"
    recording = as_notebook(page.replace("New", "Old").replace("\n\nMore.", ""), where="a page")
    recording.cells[1].outputs = [new_output("stream", text="1")]
    recording.metadata[METADATA_KEY] = nbformat.from_dict({"version": "1"})
    source = notebooks.notebook_sources()[0]
    (difference,) = notebooks.text_differences(source, recording, as_notebook(page, where="a page"))
    assert "--text" in difference.text
    carried = notebooks.with_text_of(as_notebook(page, where="a page"), recording)
    assert notebooks.text_differences(source, carried, as_notebook(page, where="a page")) == []
    assert carried.cells[1].outputs[0].text == "1"
    assert carried.metadata[METADATA_KEY].version == "1"
