"""How a recording is compared with its source, how it keeps what ran on a GPU, and what its file holds."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import record, recordings, tidy
from tools.keys import kernel_key
from tools.notebooks import as_notebook, carry_ids, code_cells, write_notebook
from tools.paths import CHAPTERS, notebook_sources
from tools.recordings import (
    METADATA_KEY,
    differences,
    keep_runs_on_gpus,
    not_on_hardware,
    read_recording,
    runs_in,
    text_differences,
    with_text_of,
    write_recording,
)

KERNEL = "tma_load"
MACHINE = {"gpu": "NVIDIA H100", "driver": "1", "date": "2026-01-01", "commit": "abc"}


def _on_gpu(kernel: str = KERNEL, module: str | None = KERNEL, target: str = "sm_90") -> dict[str, Any]:
    return {"kernel": kernel, "module": module, "target": target, "where": "gpu", "machine": "then"}


def _emulated(kernel: str = KERNEL, target: str = "sm_90", **more: Any) -> dict[str, Any]:
    return {"kernel": kernel, "module": KERNEL, "target": target, "where": "emulator", **more}


def _cell(code: str, shown: str = "", *runs: dict[str, Any], tags: tuple[str, ...] = ()) -> NotebookNode:
    outputs = [new_output("execute_result", data={"text/plain": shown})] if shown else []
    cell = new_code_cell(code, outputs=outputs, execution_count=1)
    if tags:
        cell.metadata["tags"] = list(tags)
    if runs:
        cell.metadata[METADATA_KEY] = nbformat.from_dict({"runs": list(runs)})
    return cell


def _recording(*cells: NotebookNode, kernels: dict[str, str | None] | None = None) -> NotebookNode:
    notebook = new_notebook(cells=list(cells))
    kernels = {KERNEL: kernel_key(KERNEL)} if kernels is None else kernels
    notebook.metadata[METADATA_KEY] = nbformat.from_dict(
        {"source": "page.md", "kernels": kernels, "machines": {"then": MACHINE}}
    )
    return notebook


def _texts(recording: NotebookNode, *codes: str) -> list[str]:
    cells = [new_code_cell(code) for code in codes]
    return [difference.text for difference in differences(notebook_sources()[0], recording, cells)]


# ---- is it current? ----


def test_differences__are_none_for_other_comments_and_docstrings() -> None:
    recording = _recording(_cell("a = 1"), _cell("def f():\n    return a"))
    assert _texts(recording, "a = 1  # one", 'def f():\n    """Give a."""\n    return a') == []


def test_differences__name_the_cell_and_the_line() -> None:
    (text,) = _texts(_recording(_cell("a = 1"), _cell("b = 2\na + b")), "a = 1", "b = 2\na - b")
    assert "code cell 2 differs from the recording at its line 2" in text
    assert "a - b" in text
    assert "a + b" in text


def test_differences__see_a_missing_cell_and_other_tags() -> None:
    assert _texts(_recording(_cell("a = 1")), "a = 1", "a") == ["the page has 2 code cells, the recording 1"]
    recording = _recording(_cell("a = 1", tags=("hide-input",)))
    assert "tagged [] on the page, ['hide-input'] in the recording" in _texts(recording, "a = 1")[0]


def test_differences__see_a_changed_and_a_missing_kernel() -> None:
    recording = _recording(_cell("a"), kernels={KERNEL: "0" * 16, "gone": "0" * 16})
    assert _texts(recording, "a") == [
        "the kernel gone that was recorded is gone",
        f"the kernel {KERNEL} has changed since the recording",
    ]


def test_differences__see_a_notebook_that_no_recorder_wrote() -> None:
    assert "carries no 'cutecourse' metadata" in _texts(new_notebook(cells=[new_code_cell("a")]), "a")[0]


def test_text__is_carried_over_without_its_outputs_being_touched() -> None:
    page = "# A page\n\nNew words.\n\n```{code-cell} ipython3\n1  # one\n```\n\nMore.\n"
    old = page.replace("New", "Old").replace("\n\nMore.", "").replace("  # one", "")
    recording = as_notebook(old, where="a page")
    recording.cells[1].outputs = [new_output("stream", text="1")]
    recording.metadata[METADATA_KEY] = nbformat.from_dict({"kernels": {}})
    source = notebook_sources()[0]
    fresh = as_notebook(page, where="a page")
    assert differences(source, recording, code_cells(fresh)) == []
    (difference,) = text_differences(source, recording, fresh)
    assert "--text" in difference.text
    carry_ids(fresh, recording)
    carried = with_text_of(fresh, recording)
    assert text_differences(source, carried, as_notebook(page, where="a page")) == []
    assert carried.cells[1].source == "1  # one"
    assert carried.cells[1].outputs[0].text == "1"
    assert [cell.id for cell in carried.cells[:2]] == [cell.id for cell in recording.cells]


def test_check__lists_kernels_that_a_gpu_could_have_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {
        "01_hello_layout": _recording(_cell("a", "", _emulated("copy"), _on_gpu("stamp"))),
        "02_hello_mma": _recording(_cell("a", "", _emulated("asked", "sm_80", asked_for=True))),
        "11a_hello_umma": _recording(_cell("a", "", _emulated("blackwell", "sm_100a"))),
    }
    sources = [CHAPTERS / f"{name}.md" for name in found]
    monkeypatch.setattr(record, "notebook_sources", lambda: sources)
    monkeypatch.setattr(record, "exercise_sources", list)
    monkeypatch.setattr(record, "read_stored", lambda source: found[source.stem])
    monkeypatch.setattr(record, "check_pages", list)
    for name in ("check_solutions", "stale_learners"):
        monkeypatch.setattr(record.exercises, name, list)
    assert record.main(["--check"]) == 0
    said = capsys.readouterr().out
    assert "not yet recorded on hardware" in said
    assert "    notebooks/01_hello_layout.ipynb: copy\n" in said
    assert "compute capability 9.0" in said
    assert said.endswith("    python -m tools.record 01_hello_layout\n")


# ---- ids, and files that merge ----


def test_ids__stay_with_their_cells_and_say_nothing_of_their_text() -> None:
    old = new_notebook(cells=[new_markdown_cell("text"), new_code_cell("a"), new_code_cell("b")])
    ids = [cell.id for cell in old.cells]
    texts = ["text", "inserted", "a changed", "b"]
    new = new_notebook(cells=[new_markdown_cell(texts[0]), *map(new_code_cell, texts[1:])])
    carry_ids(new, old)
    assert [cell.id for cell in new.cells if cell.source in ("text", "b")] == [ids[0], ids[2]]
    assert ids[1] in [cell.id for cell in new.cells[1:3]]
    assert len({cell.id for cell in new.cells}) == 4
    again = new_notebook(cells=[new_code_cell("a"), new_code_cell("a")])
    carry_ids(again, None)
    assert again.cells[0].id != again.cells[1].id


def _run(cwd: Path, *command: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    return subprocess.run(
        ["git", *identity, *command], cwd=cwd, check=True, capture_output=True, text=True
    ).stdout


def test_file__merges_two_changes_of_one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.ipynb"
    monkeypatch.setattr(recordings, "notebook_of", lambda source: path)
    cells = [_cell(f"cell_{number}", f"shown {number}") for number in range(9)]

    def write(*changed: NotebookNode) -> None:
        notebook = _recording(*(NotebookNode(cell) for cell in changed))
        carry_ids(notebook, nbformat.read(path, as_version=4) if path.exists() else None)
        for number, cell in enumerate(notebook.cells, start=1):
            cell.execution_count = number
        write_recording(notebook, Path("page.md"))

    write(*cells)
    _run(tmp_path, "init")
    _run(tmp_path, "add", ".")
    _run(tmp_path, "commit", "-m", "a page")
    _run(tmp_path, "branch", "other")
    write(*cells[:2], _cell("early", "an added cell"), *cells[2:])
    _run(tmp_path, "commit", "-am", "an early cell")
    _run(tmp_path, "checkout", "other")
    write(*cells[:7], _cell("late", "another"), *cells[7:])
    _run(tmp_path, "commit", "-am", "a late cell")
    _run(tmp_path, "merge", "main")
    merged = read_recording(Path("page.md"))
    assert len(merged.cells) == 11
    assert [cell.execution_count for cell in merged.cells] == [*range(1, 12)]
    assert len({cell.id for cell in merged.cells}) == 11


def test_file__holds_no_time_of_this_machine() -> None:
    plain = "kernel   k (PTX)\nran on   NVIDIA H100\ntime     compile 1.75 s, run 39 µs"
    html = (
        "<details><summary>k ran on NVIDIA H100 in 39 µs</summary><table><tr><th>kernel</th><td>k</td></tr>"
        "<tr><th>time</th><td>compile 1.75 s, run 39 µs</td></tr></table></details>"
    )
    output = new_output("execute_result", data={"text/plain": plain, "text/html": html})
    notebook = new_notebook(cells=[new_code_cell("k.record", outputs=[output])])
    notebook.cells[0].metadata["tags"] = [tidy.RUN_RECORD]
    tidy.tidy(notebook, name="page")
    data = notebook.cells[0].outputs[0].data
    assert data["text/plain"] == "kernel   k (PTX)\nran on   NVIDIA H100"
    assert data["text/html"] == (
        "<details><summary>k ran on NVIDIA H100</summary><table><tr><th>kernel</th><td>k</td></tr>"
        "</table></details>"
    )


# ---- recording in parts ----

RECORD = "kernel   {kernel} (PTX)\nran on   {place}"
GPU, EMULATOR = "NVIDIA H100, compute capability 9.0", "the emulator, on this machine's CPU"


def _record_cell(code: str, place: str) -> NotebookNode:
    return _cell(code, RECORD.format(kernel=KERNEL, place=place), tags=(tidy.RUN_RECORD,))


def _earlier() -> NotebookNode:
    return _recording(_cell("x = run()", "5", _on_gpu()), _record_cell("x.record", GPU), _cell("x + 1", "6"))


def test_keep__takes_what_ran_on_a_gpu_byte_for_byte_and_nothing_else() -> None:
    fresh = _recording(
        _cell("x = run()  # words", "5", _emulated()),
        _cell("y = run()", "7", _emulated("other", asked_for=True)),
        _record_cell("x.record", EMULATOR),
        _cell("x + 1", "6!"),
    )
    earlier = _earlier()
    assert keep_runs_on_gpus(fresh, earlier) == []
    assert fresh.cells[0].outputs == earlier.cells[0].outputs
    assert fresh.cells[2].outputs == earlier.cells[1].outputs
    assert fresh.cells[3].outputs[0].data["text/plain"] == "6!"
    assert [(run["kernel"], run["where"]) for run in runs_in(fresh)] == [
        (KERNEL, "gpu"),
        ("other", "emulator"),
    ]
    assert not_on_hardware(fresh) == []


def test_keep__finds_cells_that_have_moved() -> None:
    fresh = _recording(
        _cell("x + 1", "6"), _cell("x = run()", "5", _emulated()), _record_cell("x.record", EMULATOR)
    )
    last = _recording(*reversed(fresh.cells))
    for recording in (fresh, last):
        assert keep_runs_on_gpus(recording, _earlier()) == []
        assert not_on_hardware(recording) == []
        assert sum(GPU in str(cell.outputs) for cell in recording.cells) == 1


def test_keep__takes_the_record_of_a_cell_that_runs_and_shows_it() -> None:
    earlier, fresh = _record_cell("run().record", GPU), _record_cell("run().record", EMULATOR)
    for cell, run in ((earlier, _on_gpu()), (fresh, _emulated())):
        cell.metadata[METADATA_KEY] = nbformat.from_dict({"runs": [run]})
    recording = _recording(fresh)
    assert keep_runs_on_gpus(recording, _recording(earlier)) == []
    assert GPU in recording.cells[0].outputs[0].data["text/plain"]


@pytest.mark.parametrize(
    ("shown", "code", "key", "why"),
    [
        ("4", "x = run()", None, "code cell 1 shows something else than when it ran on a GPU"),
        ("5", "x = run()", "0" * 16, f"code cell 1: {KERNEL} has changed since it ran on a GPU"),
        ("5", "x = run(2)", None, "a cell that ran on a GPU has other code now, or is gone"),
    ],
)
def test_keep__loses_a_run_whose_result_may_be_another(
    shown: str, code: str, key: str | None, why: str
) -> None:
    fresh = _recording(_cell(code, shown, _emulated()), _record_cell("x.record", EMULATOR))
    earlier = _earlier()
    if key:
        earlier.metadata[METADATA_KEY]["kernels"][KERNEL] = key
    assert keep_runs_on_gpus(fresh, earlier) == [why]
    assert fresh.cells[0].outputs[0].data["text/plain"] == shown
    assert EMULATOR in fresh.cells[1].outputs[0].data["text/plain"]
    assert not_on_hardware(fresh) == [KERNEL]


def test_keep__gives_way_to_a_new_run_on_a_gpu() -> None:
    fresh = _recording(_cell("x = run()", "5 as before", _on_gpu()))
    assert keep_runs_on_gpus(fresh, _earlier()) == []
    assert fresh.cells[0].outputs[0].data["text/plain"] == "5 as before"


def test_write_notebook__refuses_what_is_no_notebook(tmp_path: Path) -> None:
    notebook = new_notebook(cells=[new_code_cell("a")])
    notebook.cells[0]["outputs"] = "none"
    with pytest.raises(nbformat.ValidationError):
        write_notebook(notebook, tmp_path / "page.ipynb")


def test_differences__see_a_quotation_of_something_that_is_gone() -> None:
    cell = "from cutecourse.display import source\nfrom cutecourse.kernels import gone\nsource(gone)"
    (text,) = _texts(_recording(_cell(cell)), cell)
    assert text.startswith("code cell 1 quotes something that is not there: ImportError")
