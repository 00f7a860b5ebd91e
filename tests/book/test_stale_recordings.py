"""The build refuses a recording that is not of the page: tried on a copy of the tree."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from coursebook import recordings
from coursebook.recordings import reread_when_recorded_anew

from support.pages import ROOT, build_book
from tools import book
from tools.paths import BOOK, chapter_pages, notebook_sources

CHAPTERS = [source.stem for source in chapter_pages()]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copy what building needs (the errata name tests); the library is the installed one."""
    for name in ("book", "tools", "benchmarks", "notebooks", "exercises", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("_build", "__pycache__"))
    return tmp_path


def _change_page(tree: Path, name: str) -> str:
    page = tree / "book" / "chapters" / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    head, fence, rest = text.partition("```{code-cell} ipython3\n")
    while rest.startswith(":tags:"):
        fence, rest = fence + rest.partition("\n")[0] + "\n", rest.partition("\n")[2]
    page.write_text(f"{head}{fence}changed = True\n{rest}", encoding="utf-8")
    return "code cell 1 differs from the recording"


def _remove_kernel(tree: Path, name: str) -> str:
    _edit_facts(tree, name, lambda facts: facts["kernels"].update(gone="0" * 16))
    return "the kernel gone that was recorded is gone"


def _change_kernel(tree: Path, name: str) -> str:
    _edit_facts(tree, name, lambda facts: facts["kernels"].update(tma_load="0" * 16))
    return "the kernel tma_load has changed since the recording"


def _remove_recording(tree: Path, name: str) -> str:
    (tree / "notebooks" / f"{name}.ipynb").unlink()
    return f"has no recording notebooks/{name}.ipynb"


def _edit_facts(tree: Path, name: str, edit: Callable[[dict[str, object]], None]) -> None:
    path = tree / "notebooks" / f"{name}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    edit(notebook["metadata"]["cutecourse"])
    path.write_text(json.dumps(notebook), encoding="utf-8")


def test_build__refuses_every_stale_recording(tree: Path, tmp_path: Path) -> None:
    changes = (_change_page, _remove_kernel, _change_kernel, _remove_recording)
    expected = {name: change(tree, name) for name, change in zip(CHAPTERS, changes, strict=False)}
    built = build_book(tmp_path / "out", root=tree)
    assert built.returncode == 1
    for name, what in expected.items():
        [line] = [line for line in built.stderr.splitlines() if f"book/chapters/{name}.md" in line]
        assert what in line
    assert "python -m tools.record" in built.stderr
    assert not (tmp_path / "out" / "_build" / "html" / "intro.html").exists()


@pytest.mark.long
def test_jupyter_books_own_command__refuses_a_stale_recording_too(tree: Path) -> None:
    expected = _change_page(tree, CHAPTERS[-1])
    command = "from jupyter_book.cli.main import main; main()"
    built = subprocess.run(
        [sys.executable, "-c", command, "build", "book"],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode != 0
    assert expected in built.stderr


@pytest.mark.long
def test_check__says_the_same_without_building(tree: Path) -> None:
    expected = _change_page(tree, CHAPTERS[-1])
    checked = subprocess.run(
        [sys.executable, "-m", "tools.record", "--check"],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert checked.returncode == 1
    assert expected in checked.stderr


def test_build__reads_pages_anew_that_may_quote_a_changed_text(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    pages = [source.relative_to(BOOK).with_suffix("").as_posix() for source in notebook_sources()]
    env: Any = SimpleNamespace(all_docs=dict.fromkeys(pages, (now + 10) * 1_000_000))
    assert reread_when_recorded_anew(None, env) == []  # type: ignore[arg-type]
    monkeypatch.setattr(recordings, "_newest_text", lambda: now + 20)
    anew = reread_when_recorded_anew(None, env)  # type: ignore[arg-type]
    assert "chapters/13a_two_sm_umma" in anew
    assert "notation" not in anew


def test_build__says_in_a_line_what_is_wrong_with_the_errata(tree: Path, tmp_path: Path) -> None:
    errata = tree / "book" / "errata.yml"
    errata.write_text("documents: {}\nerrata:\n  - id: E01-1\n", encoding="utf-8")
    built = build_book(tmp_path / "out", root=tree)
    assert built.returncode == 1
    assert built.stderr.startswith("error: E01-1: missing fields")
    assert len(built.stderr.splitlines()) == 1


def test_build__has_a_folder_for_assets_after_a_build_that_left_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    static = tmp_path / "_build" / "html" / "_static"
    static.parent.mkdir(parents=True)
    static.write_text("left by a build that failed")

    def run(*_: str) -> int:
        assert static.is_dir()
        return 0

    monkeypatch.setattr(book, "_run_jupyter_book", run)
    assert book.build(tmp_path) == 0
    (static / "kept.css").write_text("")
    assert book.build(tmp_path) == 0
    assert (static / "kept.css").exists()
