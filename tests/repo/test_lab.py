"""`make lab`: copies without outputs that keep a reader's work, in a JupyterLab that asks about no news."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from cutecourse.checks import check
from support import web
from tools.answers import answers_in
from tools.lab import Copy, bring_up_to_date, chapter_copy
from tools.lab_progress import note_progress
from tools.notebooks import code_cells
from tools.pages import read_source
from tools.paths import exercise_sources, notebook_of, notebook_sources


def _command(repository: Path, work: Path, *arguments: str) -> str:
    """What `make lab` would run, in this test's environment."""
    outer = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "PYTHON", "VENV"}
    clean = {name: value for name, value in os.environ.items() if name not in outer}
    given = ["VENV=an-environment", f"WORK={work}", f"ARGS={' '.join(arguments)}"]
    plan = ["make", "--no-print-directory", "-n", "lab", *given]
    text = subprocess.run(plan, capture_output=True, text=True, cwd=repository, env=clean, check=True).stdout
    command = text[text.index("an-environment/bin/python -m tools.lab") :]
    command = command.replace("an-environment/bin/python", sys.executable)
    return command.replace("an-environment/bin/jupyter lab", f"{sys.executable} -m jupyterlab")


@pytest.fixture(scope="module")
def lab(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start what `make lab` starts, without a browser, and yield its address."""
    home = tmp_path_factory.mktemp("lab")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = ["--no-browser", "--ip=127.0.0.1", f"--port={port}", "--IdentityProvider.token=", "--allow-root"]
    folders = ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR")
    environment = {**os.environ, **{name: str(home / name) for name in (*folders, "JUPYTER_RUNTIME_DIR")}}
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            _command(repository, home / "work", *flags),
            shell=True,
            cwd=repository,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        url = f"http://127.0.0.1:{port}"
        try:
            web.wait_for_server(f"{url}/api", process, home / "log")
            yield url
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def test_lab__opens_on_copies_without_outputs_with_the_exercises_in_reach(lab: str) -> None:
    with urllib.request.urlopen(f"{lab}/") as first:
        assert first.url == f"{lab}/lab/tree/chapters"
    for file in ("chapters/01_hello_layout.ipynb", "exercises/01_hello_layout.ipynb"):
        with urllib.request.urlopen(f"{lab}/api/contents/{file}") as answer:
            found = json.load(answer)
        assert found["path"] == file
        code = [cell for cell in found["content"]["cells"] if cell["cell_type"] == "code"]
        assert code
        assert [cell["outputs"] for cell in code if cell["outputs"]] == []


def test_lab__has_the_files_that_cells_read_and_texts_link_to(lab: str) -> None:
    for folder in ("benchmarks/results", "book"):
        with urllib.request.urlopen(f"{lab}/api/contents/{folder}") as answer:
            assert json.load(answer)["content"]


def test_lab__asks_nobody_about_news(lab: str) -> None:
    with urllib.request.urlopen(f"{lab}/lab") as page:
        config = json.loads(
            re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', page.read().decode(), re.DOTALL)[1]
        )
    assert "@jupyterlab/apputils-extension:announcements" in config["disabledExtensions"]


# ---- the copies ----


def _copy(name: str, *cells: str) -> Copy:
    return Copy(name, new_notebook(cells=[new_code_cell(text) for text in cells]))


def _cells(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def _edit(path: Path, text: str) -> None:
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].source = text
    nbformat.write(notebook, path)


def _run(path: Path) -> None:
    """What JupyterLab leaves behind when somebody only runs the cells."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].execution_count = 1
    notebook.cells[0].outputs = [new_output("stream", text="1")]
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


def test_copies__are_written_once_and_left_alone_while_nothing_changes(tmp_path: Path) -> None:
    assert bring_up_to_date(tmp_path, [_copy("chapters/01_a.ipynb", "1")]) == []
    copy = tmp_path / "chapters" / "01_a.ipynb"
    _run(copy)
    assert bring_up_to_date(tmp_path, [_copy("chapters/01_a.ipynb", "1")]) == []
    assert nbformat.read(copy, as_version=4).cells[0].outputs


def test_copy__that_was_only_run_is_replaced_when_the_course_changes(tmp_path: Path) -> None:
    bring_up_to_date(tmp_path, [_copy("chapters/01_a.ipynb", "1")])
    copy = tmp_path / "chapters" / "01_a.ipynb"
    _run(copy)
    assert bring_up_to_date(tmp_path, [_copy("chapters/01_a.ipynb", "2")]) == []
    assert _cells(copy) == ["2"]
    assert [path.name for path in copy.parent.iterdir()] == ["01_a.ipynb"]


def test_copy__that_was_changed_is_kept_with_the_new_version_beside_it(tmp_path: Path) -> None:
    bring_up_to_date(tmp_path, [_copy("exercises/01_a.ipynb", "answer = ...")])
    copy = tmp_path / "exercises" / "01_a.ipynb"
    _edit(copy, "answer = 4")
    assert bring_up_to_date(tmp_path, [_copy("exercises/01_a.ipynb", "answer = ...")]) == []
    second = _copy("exercises/01_a.ipynb", "new = ...")
    (line,) = bring_up_to_date(tmp_path, [second])
    assert line == (
        "kept your exercises/01_a.ipynb; the course's new version is beside it: 01_a.updated.ipynb"
    )
    beside = copy.with_name("01_a.updated.ipynb")
    assert (_cells(copy), _cells(beside)) == (["answer = 4"], ["new = ..."])
    assert bring_up_to_date(tmp_path, [second]) == []  # said once
    # An untouched new version makes room for a newer one; one that holds work does not.
    bring_up_to_date(tmp_path, [_copy("exercises/01_a.ipynb", "newer = ...")])
    assert _cells(beside) == ["newer = ..."]
    _edit(beside, "newer = 5")
    (line,) = bring_up_to_date(tmp_path, [_copy("exercises/01_a.ipynb", "newest = ...")])
    assert line.endswith("01_a.updated2.ipynb")
    assert (_cells(copy), _cells(beside)) == (["answer = 4"], ["newer = 5"])


def test_copy__of_a_page_that_is_gone_goes_unless_it_holds_work(tmp_path: Path) -> None:
    bring_up_to_date(tmp_path, [_copy("chapters/01_a.ipynb", "1"), _copy("chapters/02_b.ipynb", "2")])
    _edit(tmp_path / "chapters" / "02_b.ipynb", "my own")
    (line,) = bring_up_to_date(tmp_path, [_copy("chapters/03_c.ipynb", "3")])
    assert line.startswith("kept your chapters/02_b.ipynb")
    assert sorted(path.name for path in (tmp_path / "chapters").iterdir()) == ["02_b.ipynb", "03_c.ipynb"]


def test_copy__that_was_there_before_or_is_broken_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "chapters").mkdir()
    copy = tmp_path / "chapters" / "01_a.ipynb"
    copy.write_text("no notebook")
    (line,) = bring_up_to_date(tmp_path, [_copy("chapters/01_a.ipynb", "1")])
    assert line.startswith("kept your chapters/01_a.ipynb")
    assert copy.read_text() == "no notebook"


def test_copies__find_the_data_that_the_recorded_notebooks_read(tmp_path: Path) -> None:
    bring_up_to_date(tmp_path / "work", [_copy("chapters/01_a.ipynb", "1")])
    there = tmp_path / "work" / "chapters" / ".."
    for source in [*notebook_sources(), *exercise_sources()]:
        for name in re.findall(r"Path\(\s*\"\.\./(\w+)", source.read_text(encoding="utf-8")):
            assert (there / name).resolve() == (notebook_of(source).parent / ".." / name).resolve()


def test_chapter_copy__folds_the_words_of_answers_and_keeps_the_code() -> None:
    for source in notebook_sources():
        answers = answers_in(source)
        if not answers:
            continue
        notebook = chapter_copy(source)
        code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        assert code == [cell.source for cell in code_cells(read_source(source))]
        folds = [cell for cell in notebook.cells if cell.source.startswith("<details>")]
        assert all(cell.source.endswith("</details>") for cell in folds)
        assert len(folds) >= sum(answer.marked for answer in answers)


def test_progress__lists_what_is_solved_and_forgets_no_tick(tmp_path: Path) -> None:
    copy = tmp_path / "exercises" / "01_hello_layout.ipynb"
    copy.parent.mkdir()
    (copy.parent / "mine.ipynb").write_text("no notebook")
    assert note_progress(tmp_path) == []
    assert not (tmp_path / "progress.md").exists()
    cells = []
    for exercise, answer in (("01.1", 30), ("01.2", "(8,32):(32,1)")):
        shown = {"text/plain": repr(check(exercise, answer))}
        outputs = [new_output("execute_result", data=shown)]
        cells.append(new_code_cell(f"check({exercise!r}, answer)", outputs=outputs))
    nbformat.write(new_notebook(cells=cells), copy)
    (line,) = note_progress(tmp_path)
    assert re.match(r"1 of \d+ exercises are solved", line)
    row = "| [1](exercises/01_hello_layout.ipynb) | 1 of 6 | 01.1 ✓, 01.2, 01.3, 01.4, 01.5, 01.6 |"
    assert row in (tmp_path / "progress.md").read_text(encoding="utf-8").splitlines()
    copy.unlink()  # as if its outputs were cleared
    assert note_progress(tmp_path) == [line]
