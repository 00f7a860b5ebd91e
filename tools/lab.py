"""Give a reader copies of the chapters and exercises to work in, and never write over the reader's work.

    python -m tools.lab            bring the copies in `work` up to date
    python -m tools.lab --folder DIR

A copy has no outputs. When the course changes, a copy that its reader has not changed is replaced. One that
was changed is kept, and the new version is put beside it as `NN_slug.updated.ipynb`. What was given is
remembered in `.given.json`, as a hash of each notebook's cells: running cells is no change, editing one is.
`progress.md` lists the exercises that are solved.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from cutecourse.errors import CourseError
from tools.answers import answers_in, with_folded_text
from tools.exercises import learner_notebook
from tools.lab_progress import note_progress
from tools.pages import read_source
from tools.paths import ROOT, exercise_sources, notebook_sources, relative

if sys.platform == "win32":
    import _winapi

WORK = ROOT / "work"
GIVEN = ".given.json"
LINKED = ("benchmarks", "tests", "book")
"""Folders of the course that cells read and texts link to as `../name`."""


@dataclass(frozen=True)
class Copy:
    """One notebook as the course has it now, and its path in the reader's folder."""

    path: str
    notebook: NotebookNode


def copies() -> Iterator[Copy]:
    """Every page with cells and every learner's notebook, without outputs."""
    for source in notebook_sources():
        yield Copy(f"chapters/{source.stem}.ipynb", chapter_copy(source))
    for source in exercise_sources():
        yield Copy(f"exercises/{source.stem}.ipynb", exercise_copy(source))


def exercise_copy(source: Path) -> NotebookNode:
    """A learner's notebook to work in: its links lead to the copies of the chapters."""
    notebook = learner_notebook(source)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = cell.source.replace("](../notebooks/", "](../chapters/")
    return notebook


def chapter_copy(source: Path) -> NotebookNode:
    """A page as a notebook to work in: no outputs, and the words of each answer folded."""
    return with_folded_text(read_source(source), answers_in(source))


def fingerprint(notebook: NotebookNode) -> str:
    """A hash of the cells' kinds and texts; outputs, ids and what JupyterLab notes do not count."""
    cells = [[cell.cell_type, cell.source] for cell in notebook.cells]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def bring_up_to_date(folder: Path, fresh: Iterable[Copy]) -> list[str]:
    """Write what is new into the reader's folder; returns what the reader should know, a line each."""
    folder.mkdir(parents=True, exist_ok=True)
    link_data(folder)
    memory = folder / GIVEN
    given: dict[str, str] = json.loads(memory.read_text(encoding="utf-8")) if memory.exists() else {}
    said: list[str] = []
    current = set()
    for copy in fresh:
        current.add(copy.path)
        said += _update(folder, copy, given)
    # A page of the course may get another name: the copy under the old one goes, unless it holds work.
    for path in [path for path in given if _course_name(path) not in current]:
        if _reader_changed(folder / path, given[path]):
            said.append(f"kept your {path}; the course no longer has this notebook under that name")
        else:
            (folder / path).unlink(missing_ok=True)
        del given[path]
    memory.write_text(json.dumps(given, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return said


def _update(folder: Path, copy: Copy, given: dict[str, str]) -> list[str]:
    target, now = folder / copy.path, fingerprint(copy.notebook)
    if target.exists():
        if given.get(copy.path) == now:
            return []  # whatever the reader did with it, the course has nothing new
        if _fingerprint_of(target) == now:
            given[copy.path] = now
            return []
    if not _reader_changed(target, given.get(copy.path)):
        _write(copy.notebook, target)
        given[copy.path] = now
        return []
    beside = _beside(copy.path, folder, given, now)
    if beside is None:
        return []
    _write(copy.notebook, folder / beside)
    given[beside] = now
    return [f"kept your {copy.path}; the course's new version is beside it: {Path(beside).name}"]


def _beside(path: str, folder: Path, given: dict[str, str], now: str) -> str | None:
    """Where the new version of a changed copy goes; None when it was put there before."""
    names = [name for name in given if name != path and _course_name(name) == path]
    if any(given[name] == now for name in names):
        return None
    stem = path.removesuffix(".ipynb")
    candidates = (f"{stem}.updated{number}.ipynb" for number in ("", *range(2, 1000)))
    return next(
        name
        for name in candidates
        if not (folder / name).exists() or not _reader_changed(folder / name, given.get(name))
    )


def _course_name(path: str) -> str:
    """The notebook of the course that a copy, or a new version beside one, belongs to."""
    stem, dot, _ = path.partition(".updated")
    return f"{stem}.ipynb" if dot else path


def _reader_changed(path: Path, given: str | None) -> bool:
    """Whether a file holds something that the course did not put there."""
    return path.exists() and _fingerprint_of(path) != given


def _fingerprint_of(path: Path) -> str:
    """A notebook's fingerprint; of a file that is none any more, the hash of its bytes."""
    try:
        return fingerprint(nbformat.read(path, as_version=4))
    except (AttributeError, KeyError, TypeError, ValueError):  # no notebook any more: the reader's own
        return hashlib.sha256(path.read_bytes()).hexdigest()


def _write(notebook: NotebookNode, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def link_data(folder: Path) -> None:
    """Link the folders that cells read, so that `../benchmarks` is there as it is for the recording.

    On Windows the links are junctions, since symbolic links need a right that few users have.
    """
    for name in LINKED:
        link = folder / name
        if sys.platform == "win32":
            if not link.exists():
                _winapi.CreateJunction(str(ROOT / name), str(link))
            continue
        wanted = os.path.relpath(ROOT / name, folder)
        if link.is_symlink() and os.readlink(link) != wanted:
            link.unlink()
        if not link.exists():
            link.symlink_to(wanted, target_is_directory=True)


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.lab", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=WORK, help="the reader's folder (default: work)")
    options = parser.parse_args(arguments)
    try:
        folder = options.folder.resolve()
        said = note_progress(folder) if folder.exists() else []  # before a copy is replaced
        said += bring_up_to_date(folder, copies())
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    where = relative(options.folder.resolve())
    print(
        f"Your copies of the chapters and exercises are in {where}; the course never writes over your work."
    )
    for line in said:
        print(f"  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
