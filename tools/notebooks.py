"""Read a MyST source as a notebook, and compare a source with its recording."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

import cutecourse
from cutecourse.kernels.files import SpecError, kernel_files
from cutecourse.kernels.spec import runs_on
from cutecourse.kernels.twinning import TWINS
from tools.paths import (
    RECORDED_ON,
    AuthoringError,
    exercise_sources,
    notebook_of,
    notebook_sources,
    relative,
)
from tools.plain_markdown import plain
from tools.tidy import drop_code, restore_widgets, store_widgets

METADATA_KEY = "cutecourse"
RECORD_COMMAND = "python -m tools.record"


class StaleRecording(AuthoringError):
    """A recording does not belong to what is in the tree now."""


@dataclass(frozen=True)
class Difference:
    """One way in which a recording is not that of its source, in words."""

    source: Path
    text: str

    def __str__(self) -> str:
        return f"{relative(self.source)}: {self.text}"


def read_source(path: Path) -> NotebookNode:
    """A MyST page as a notebook without outputs."""
    return as_notebook(path.read_text(encoding="utf-8"), where=relative(path), page=path)


def as_notebook(text: str, *, where: str, notebooks: str = "", page: Path | None = None) -> NotebookNode:
    """MyST text as a notebook without outputs, with stable cell ids and a plain Python 3 kernel.

    `notebooks` is the way from where it will lie to the folder of the chapters' notebooks, `page` the
    book's page that the text is.
    """
    notebook = jupytext.reads(text, fmt="md:myst")
    if not any(cell.cell_type == "code" for cell in notebook.cells):
        raise AuthoringError(
            f"{where} has no code cell: is its head there, and a cell that starts with ```{{code-cell}}?"
        )
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source, where=where, notebooks=notebooks, page=page)
    # A label alone has no plain form, and JupyterLab invites its reader to type into an empty text cell.
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code" or cell.source.strip()]
    give_stable_ids(notebook)
    return notebook


def give_stable_ids(notebook: NotebookNode) -> None:
    """Set each cell's id to a hash of its text, numbered where the same text comes again."""
    seen: dict[str, itertools.count[int]] = {}
    for cell in notebook.cells:
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        number = next(seen.setdefault(digest, itertools.count()))
        cell["id"] = digest if number == 0 else f"{digest}-{number}"


def write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook the same way each time: keys sorted, one space a level, a newline at the end."""
    nbformat.validate(notebook)
    path.write_text(nbformat.writes(notebook, version=4).rstrip("\n") + "\n", encoding="utf-8")


def read_recording(source: Path) -> NotebookNode:
    """The recorded notebook of a source. Errors: StaleRecording when there is none."""
    path = notebook_of(source)
    if not path.exists():
        raise StaleRecording(f"{relative(source)} has no recording {relative(path)}; {how_to_record(source)}")
    recording = nbformat.read(path, as_version=4)
    restore_widgets(recording)
    drop_code(recording)
    return recording


def write_recording(notebook: NotebookNode, source: Path) -> Path:
    """Write the recorded notebook of a source, its widgets as values and figures; returns the path."""
    path = notebook_of(source)
    path.parent.mkdir(parents=True, exist_ok=True)
    store_widgets(notebook)
    write_notebook(notebook, path)
    return path


def how_to_record(source: Path) -> str:
    """The command that records a source anew, as a sentence's end."""
    return f"record it with: {RECORD_COMMAND} {source.stem}"


def kernel_hash(module: str) -> str | None:
    """sha256 of a kernel as it is in the tree now: the files that decide what it does.

    None where there is no such module. `cutecourse.kernels.twins.copy_async` is the twin of a kernel.
    """
    package, _, name = module.rpartition(".")
    try:
        files = kernel_files(name)
        if package == TWINS:
            files = tuple(file for file in files if file.suffix == ".ptx")
    except SpecError:
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            return None
        if spec is None or spec.origin is None:
            return None
        files = (Path(spec.origin),)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def differences(source: Path, recording: NotebookNode, cells: list[NotebookNode]) -> list[Difference]:
    """What in a recording is not as the tree has it now: cells, library version, kernels.

    `cells` are the code cells of the source, read by whoever compares.
    """
    found = [Difference(source, text) for text in _cell_differences(cells, recording)]
    facts = recording.metadata.get(METADATA_KEY)
    if facts is None:
        return [*found, Difference(source, f"the recording carries no '{METADATA_KEY}' metadata")]
    if facts["version"] != cutecourse.__version__:
        found.append(
            Difference(
                source, f"recorded with cutecourse {facts['version']}, this is {cutecourse.__version__}"
            )
        )
    for module, recorded in sorted(facts["kernels"].items()):
        current = kernel_hash(module)
        if current is None:
            found.append(Difference(source, f"the kernel module {module} that was recorded is gone"))
        elif current != recorded:
            found.append(Difference(source, f"the kernel module {module} has changed since the recording"))
    return found


def _cell_differences(cells: list[NotebookNode], recording: NotebookNode) -> list[str]:
    """The first difference between the cells: those that follow it would only repeat it."""
    recorded = [cell for cell in recording.cells if cell.cell_type == "code"]
    for number, (cell, old) in enumerate(zip(cells, recorded, strict=False), start=1):
        if cell.source.strip() != old.source.strip():
            line, new_line, old_line = _first_different_line(cell.source.strip(), old.source.strip())
            where = f"code cell {number} differs from the recording at its line {line}"
            return [f"{where}:\n    page:      {new_line}\n    recording: {old_line}"]
        if tags(cell) != tags(old):
            new_tags, old_tags = sorted(tags(cell)), sorted(tags(old))
            return [f"code cell {number} is tagged {new_tags} on the page, {old_tags} in the recording"]
    if len(cells) != len(recorded):
        return [f"the page has {len(cells)} code cells, the recording {len(recorded)}"]
    return []


def _first_different_line(new: str, old: str) -> tuple[int, str, str]:
    pairs = itertools.zip_longest(new.splitlines(), old.splitlines(), fillvalue="(no such line)")
    for number, (new_line, old_line) in enumerate(pairs, start=1):
        if new_line != old_line:
            return number, new_line, old_line
    return 1, new, old


def tags(cell: NotebookNode) -> set[str]:
    """The tags of a cell."""
    return set(cell.metadata.get("tags", []))


def text_differences(source: Path, recording: NotebookNode, notebook: NotebookNode) -> list[Difference]:
    """Whether the words of a recording are those of its source; `notebook` is the source, read as one."""
    if _texts(recording) == _texts(notebook):
        return []
    return [Difference(source, f"its words have changed; carry them over with: {RECORD_COMMAND} --text")]


def with_text_of(notebook: NotebookNode, recording: NotebookNode) -> NotebookNode:
    """The recording with the words, and their places, of the source; both have the same code cells."""
    recorded = iter(code_cells(recording))
    notebook.cells = [next(recorded) if cell.cell_type == "code" else cell for cell in notebook.cells]
    notebook.metadata = recording.metadata
    return notebook


def _texts(notebook: NotebookNode) -> list[str | None]:
    """The text cells, and None for each code cell between them."""
    return [cell.source.strip() if cell.cell_type == "markdown" else None for cell in notebook.cells]


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The code cells of a notebook, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def check_pages() -> list[Difference]:
    """Compare every page with its recording; nothing is executed."""
    return [found for source in notebook_sources() for found in _check_one(source, read_source(source))]


def check_solutions() -> list[Difference]:
    """Compare every exercise source with the recording of its solutions; nothing is executed."""
    from tools.exercises import solution_notebook

    found: list[Difference] = []
    for source in exercise_sources():
        found += _check_one(source, solution_notebook(source))
    return found


def not_on_hardware(recording: NotebookNode) -> list[str]:
    """The kernels that a recording ran on the emulator because no GPU was there, though an H200 runs them.

    A kernel whose cell asks for the emulator is none of them.
    """
    return sorted(
        {
            run["kernel"]
            for run in recording.metadata[METADATA_KEY]["runs"]
            if not run["gpu_at_hand"] and not run.get("asked_for") and runs_on(run["target"], RECORDED_ON)
        }
    )


def _check_one(source: Path, notebook: NotebookNode) -> list[Difference]:
    try:
        recording = read_recording(source)
    except StaleRecording as error:
        return [Difference(source, str(error))]
    found = differences(source, recording, code_cells(notebook))
    return found or text_differences(source, recording, notebook)
