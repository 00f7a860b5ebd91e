"""The vendored files are those that their lists name, and a changed one is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools import third_party


def test_vendored_files__are_as_listed() -> None:
    assert third_party.problems(third_party.listed_sums(), third_party.computed_sums()) == []
    assert third_party.lock_problems() == []


def test_vendored_files__are_all_tracked(repository: Path, tracked: list[Path]) -> None:
    there = {
        path.relative_to(third_party.FOLDER).as_posix()
        for path in tracked
        if third_party.FOLDER in path.parents
    }
    assert there == third_party.listed_sums().keys() | {"README.md", "SHA256SUMS"}


def test_problems__tell_of_a_changed_a_new_and_a_missing_file(tmp_path: Path) -> None:
    folder = tmp_path / "third_party"
    shutil.copytree(third_party.FOLDER / "numpy", folder / "numpy")
    [wheel] = (folder / "numpy").iterdir()
    before = third_party.computed_sums(folder)
    wheel.write_bytes(wheel.read_bytes() + b"\n")
    (folder / "new.txt").write_text("new")
    found = third_party.problems(before | {"gone.txt": "0"}, third_party.computed_sums(folder))
    assert [text.split(" ")[0] for text in found] == ["gone.txt", "new.txt", f"numpy/{wheel.name}"]


def test_lock_problems__tell_of_a_wheel_that_pyodide_does_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "numpy-2.4.3-cp314-cp314-emscripten.whl").write_bytes(b"not NumPy")
    monkeypatch.setattr(third_party, "FOLDER", tmp_path)
    name, checksum = third_party.lock_problems()
    assert "Pyodide's lock names numpy-2.4.3-cp314" in name
    assert "another checksum" in checksum
