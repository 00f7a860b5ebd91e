"""Recordings: the notebooks that hold the outputs of pages and of exercise solutions, and where kernels ran.

A file holds less than the notebook that `read_recording` gives, so that it changes when a result changes and
two changes of one page merge. A cell's count says only that the cell ran, a widget is its values and its
figure, and a quotation of the tree's own text (`tools.quotations`) is empty.

Each code cell's metadata has the runs of its kernels: what was compiled for which target, and where it ran. A
run on a GPU names its machine, which the notebook's metadata describe. The emulator gives the same results on
every machine, so its runs name none.
"""

from __future__ import annotations

import contextlib
import difflib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from cutecourse.kernels.spec import runs_on
from tools.keys import code_key, fault_name, kernel_key
from tools.notebooks import code_cells, tags, write_notebook
from tools.paths import RECORDED_ON, AuthoringError, notebook_of, relative
from tools.quotations import BadQuotation, outputs_of, quotations
from tools.tidy import (
    RUN_RECORD,
    WIDGET_STATE,
    WIDGET_VIEW,
    drop_code,
    drop_unused_widgets,
    models_below,
    restore_widgets,
    store_widgets,
)

METADATA_KEY = "cutecourse"
RECORD_COMMAND = "python -m tools.record"
_NOT_COMPARED = "nbval-ignore-output"

Run = Mapping[str, Any]
"""One kernel's run: `kernel`, `module` (the course's kernel that it comes from), its `faults` if it has some,
`target`, `where` ("gpu" or "emulator"), `asked_for` if the cell chose the device, and on a GPU `machine`, a
key of `machines`."""


class StaleRecording(AuthoringError):
    """A recording does not belong to what is in the tree now."""


@dataclass(frozen=True)
class Difference:
    """One way in which a recording is not that of its source, in words."""

    source: Path
    text: str

    def __str__(self) -> str:
        return f"{relative(self.source)}: {self.text}"


# ---- files ----


def read_recording(source: Path) -> NotebookNode:
    """The recorded notebook of a source, complete. Errors: StaleRecording when there is none."""
    recording = read_stored(source)
    drop_code(recording)
    restore_widgets(recording)
    cells = code_cells(recording)
    quoted = quotations([cell.source for cell in cells])
    for number, cell in enumerate(cells):
        if number in quoted:
            # A recording whose quotations fail is stale, as `differences` says; it can be read all the same.
            with contextlib.suppress(BadQuotation):
                cell.outputs = outputs_of(quoted[number])
            _set_tags(cell, tags(cell) - {_NOT_COMPARED})
        _set_count(cell, number + 1)
    return recording


def read_stored(source: Path) -> NotebookNode:
    """The recorded notebook of a source, as its file has it. Errors: StaleRecording when there is none."""
    path = notebook_of(source)
    if not path.exists():
        raise StaleRecording(f"{relative(source)} has no recording {relative(path)}; {how_to_record(source)}")
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    return notebook


def write_recording(notebook: NotebookNode, source: Path) -> Path:
    """Write the recorded notebook of a source; returns the path."""
    path = notebook_of(source)
    path.parent.mkdir(parents=True, exist_ok=True)
    store_widgets(notebook)
    cells = code_cells(notebook)
    quoted = quotations([cell.source for cell in cells])
    for number, cell in enumerate(cells):
        if number in quoted:
            cell.outputs = []
            _set_tags(cell, tags(cell) | {_NOT_COMPARED})
        _set_count(cell, 1)
    write_notebook(notebook, path)
    return path


def _set_count(cell: NotebookNode, count: int) -> None:
    cell.execution_count = count
    for output in cell.outputs:
        if output.output_type == "execute_result":
            output.execution_count = count


def _set_tags(cell: NotebookNode, names: set[str]) -> None:
    if names:
        cell.metadata["tags"] = sorted(names)
    else:
        cell.metadata.pop("tags", None)


def how_to_record(source: Path) -> str:
    """The command that records a source anew, as a sentence's end."""
    return f"record it with: {RECORD_COMMAND} {source.stem}"


# ---- runs ----


def runs_of(cell: NotebookNode) -> list[Run]:
    """The runs of a cell's kernels."""
    return list(cell.metadata.get(METADATA_KEY, {}).get("runs", []))


def runs_in(recording: NotebookNode) -> list[Run]:
    """The runs of all cells of a recording, each once, in order."""
    found: list[Run] = []
    for run in (run for cell in code_cells(recording) for run in runs_of(cell)):
        if run not in found:
            found.append(run)
    return found


def machines(recording: NotebookNode) -> Mapping[str, Mapping[str, Any]]:
    """The machines with the GPUs that ran kernels of a recording, by the keys that the runs name."""
    found: Mapping[str, Mapping[str, Any]] = recording.metadata.get(METADATA_KEY, {}).get("machines", {})
    return found


def not_on_hardware(recording: NotebookNode) -> list[str]:
    """The kernels that ran on the emulator for want of a GPU, though one of `RECORDED_ON` runs them."""
    return sorted(
        {
            run["kernel"]
            for run in runs_in(recording)
            if run["where"] == "emulator" and not run.get("asked_for") and runs_on(run["target"], RECORDED_ON)
        }
    )


def describe(recording: NotebookNode, source: Path, known: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the notebook's own metadata, in place: its source, the keys of its kernels, and its machines."""
    runs = runs_in(recording)
    used = sorted({name for run in runs for name in kernels_of(run)})
    recording.metadata[METADATA_KEY] = nbformat.from_dict(
        {
            "source": relative(source),
            "kernels": {name: kernel_key(name) for name in used},
            "machines": {
                key: known[key] for key in sorted({run["machine"] for run in runs if "machine" in run})
            },
        }
    )


def kernels_of(run: Run) -> list[str]:
    """The names of what a run depends on: the course's kernel, and the faults that were put into it."""
    if run["module"] is None:
        return []
    return [run["module"], *(fault_name(run["module"], fault) for fault in run.get("faults", ()))]


# ---- is it current? ----


def check_recording(source: Path, notebook: NotebookNode, *, words: bool = True) -> list[Difference]:
    """Compare a source, read as a notebook, with its recording; nothing is executed.

    With `words`, a recording also has to have the words and comments of its source.
    """
    try:
        recording = read_stored(source)
    except StaleRecording as error:
        return [Difference(source, str(error))]
    found = differences(source, recording, code_cells(notebook))
    return found or (text_differences(source, recording, notebook) if words else [])


def differences(source: Path, recording: NotebookNode, cells: list[NotebookNode]) -> list[Difference]:
    """Changes that can change a recording's results: of the code of its cells, or of the kernels they ran.

    `cells` are the code cells of the source, read by whoever compares.
    """
    found = [Difference(source, text) for text in _cell_differences(cells, recording)]
    found += [Difference(source, text) for text in _bad_quotations(cells)]
    facts = recording.metadata.get(METADATA_KEY)
    if facts is None:
        return [*found, Difference(source, f"the recording carries no '{METADATA_KEY}' metadata")]
    for name, recorded in sorted(facts["kernels"].items()):
        current = kernel_key(name)
        if current is None:
            found.append(Difference(source, f"the kernel {name} that was recorded is gone"))
        elif current != recorded:
            found.append(Difference(source, f"the kernel {name} has changed since the recording"))
    return found


def _cell_differences(cells: list[NotebookNode], recording: NotebookNode) -> list[str]:
    """The first difference between the cells: those that follow it would only repeat it."""
    recorded = code_cells(recording)
    for number, (cell, old) in enumerate(zip(cells, recorded, strict=False), start=1):
        if code_key(cell.source) != code_key(old.source):
            line, new_line, old_line = _first_different_line(cell.source.strip(), old.source.strip())
            where = f"code cell {number} differs from the recording at its line {line}"
            return [f"{where}:\n    page:      {new_line}\n    recording: {old_line}"]
        new_tags, old_tags = (sorted(tags(one) - {_NOT_COMPARED}) for one in (cell, old))
        if new_tags != old_tags:
            return [f"code cell {number} is tagged {new_tags} on the page, {old_tags} in the recording"]
    if len(cells) != len(recorded):
        return [f"the page has {len(cells)} code cells, the recording {len(recorded)}"]
    return []


def _bad_quotations(cells: list[NotebookNode]) -> Iterator[str]:
    for number, program in quotations([cell.source for cell in cells]).items():
        try:
            outputs_of(program)
        except BadQuotation as error:
            yield f"code cell {number + 1} quotes something that is not there: {error}"


def _first_different_line(new: str, old: str) -> tuple[int, str, str]:
    pairs = itertools.zip_longest(new.splitlines(), old.splitlines(), fillvalue="(no such line)")
    for number, (new_line, old_line) in enumerate(pairs, start=1):
        if new_line != old_line:
            return number, new_line, old_line
    return 1, new, old


def text_differences(source: Path, recording: NotebookNode, notebook: NotebookNode) -> list[Difference]:
    """Compare a recording's words and comments with those of its source, read as `notebook`."""
    if _texts(recording) == _texts(notebook):
        return []
    return [Difference(source, f"its words have changed; carry them over with: {RECORD_COMMAND} --text")]


def _texts(notebook: NotebookNode) -> list[str]:
    return [cell.source.strip() for cell in notebook.cells]


def with_text_of(notebook: NotebookNode, recording: NotebookNode) -> NotebookNode:
    """The recording with the words and comments of the source; the code of both gives the same results."""
    recorded = iter(code_cells(recording))
    cells = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cells.append(next(recorded))
            cells[-1].source, cells[-1]["id"] = cell.source, cell.id
        else:
            cells.append(cell)
    notebook.cells, notebook.metadata = cells, recording.metadata
    return notebook


def outputs_differ(cells: list[NotebookNode]) -> int | None:
    """The number, from 1, of the first quotation that shows something else than a build puts in its place."""
    for number, program in quotations([cell.source for cell in cells]).items():
        if compared(outputs_of(program)) != compared(cells[number].outputs):
            return number + 1
    return None


# ---- recording in parts ----


def keep_runs_on_gpus(fresh: NotebookNode, earlier: NotebookNode) -> list[str]:
    """Put what cells showed when they ran on a GPU into a recording that was made without one, in place.

    A cell keeps its earlier outputs, byte for byte, if its code and its kernels have the same keys as then,
    and shows the same now. A cell that shows the record of such a run keeps it too. Returns why other cells
    that ran on a GPU are not kept, a sentence each.
    """
    lost: list[str] = []
    kept: set[str] = set()
    pairs = list(_pairs(code_cells(fresh), code_cells(earlier)))
    on_gpu = [cell for cell in code_cells(earlier) if any(run["where"] == "gpu" for run in runs_of(cell))]
    paired = {id(old) for _, _, old in pairs}
    changed = {
        name
        for name, key in earlier.metadata.get(METADATA_KEY, {}).get("kernels", {}).items()
        if kernel_key(name) != key
    }
    for number, cell, old in pairs:
        runs = [run for run in runs_of(old) if run["where"] == "gpu"]
        if not runs or any(run["where"] == "gpu" for run in runs_of(cell)):
            continue
        newer = sorted({name for run in runs for name in kernels_of(run)} & changed)
        if newer:
            lost.append(f"code cell {number}: {', '.join(newer)} has changed since it ran on a GPU")
        elif RUN_RECORD not in tags(old) and compared(cell.outputs) != compared(old.outputs):
            lost.append(f"code cell {number} shows something else than when it ran on a GPU")
        else:
            _keep(cell, old, fresh, earlier)
            kept |= {run["kernel"] for run in runs}
    if any(id(old) not in paired for old in on_gpu):
        lost.append("a cell that ran on a GPU has other code now, or is gone")
    for _, cell, old in pairs:
        if RUN_RECORD in tags(old) and _recorded_on_gpu(old) in kept and not _recorded_on_gpu(cell):
            _keep(cell, old, fresh, earlier)
    drop_unused_widgets(fresh)
    return lost


def _pairs(
    fresh: list[NotebookNode], earlier: list[NotebookNode]
) -> Iterator[tuple[int, NotebookNode, NotebookNode]]:
    """The cells that have the same code in two recordings, with their number in the first, from 1.

    Those in the same order come first, and then those that have moved.
    """
    new, old = ([code_key(cell.source) for cell in cells] for cells in (fresh, earlier))
    left, moved = dict(enumerate(new)), dict(enumerate(old))
    for a, b, size in difflib.SequenceMatcher(None, new, old, autojunk=False).get_matching_blocks():
        for step in range(size):
            del left[a + step], moved[b + step]
            yield a + step + 1, fresh[a + step], earlier[b + step]
    for a, key in left.items():
        b = next((b for b, other in moved.items() if other == key), None)
        if b is not None:
            del moved[b]
            yield a + 1, fresh[a], earlier[b]


def _keep(cell: NotebookNode, old: NotebookNode, fresh: NotebookNode, earlier: NotebookNode) -> None:
    cell.outputs = old.outputs
    if METADATA_KEY in old.metadata:
        cell.metadata[METADATA_KEY] = old.metadata[METADATA_KEY]
    states = _states(earlier)
    for output in old.outputs:
        view = output.get("data", {}).get(WIDGET_VIEW)
        for model in models_below(states, view["model_id"]) if view else ():
            _states(fresh)[model] = states[model]


def _states(notebook: NotebookNode) -> NotebookNode:
    """The values of a notebook's widgets, by their models."""
    widgets = notebook.metadata.setdefault("widgets", NotebookNode())
    kept = widgets.setdefault(WIDGET_STATE, NotebookNode(version_major=2, version_minor=0))
    states: NotebookNode = kept.setdefault("state", NotebookNode())
    return states


def _recorded_on_gpu(cell: NotebookNode) -> str | None:
    """The kernel whose record a cell shows, if it ran on a GPU."""
    for output in cell.outputs:
        text = output.get("data", {}).get("text/plain", "")
        if text.startswith("kernel ") and "compute capability" in text:
            return str(text.split()[1])
    return None


def compared(outputs: list[NotebookNode]) -> list[Any]:
    """The parts of a cell's outputs that nbval compares: texts, but no pictures, widgets and counts."""
    found: list[Any] = []
    for output in outputs:
        if output.output_type == "stream":
            found.append((output.name, output.text))
        elif output.output_type == "error":
            found.append((output.ename, output.evalue))
        else:
            left_out = {"image/png", "image/jpeg", WIDGET_VIEW}
            found.append({kind: text for kind, text in output.data.items() if kind not in left_out})
    return found
