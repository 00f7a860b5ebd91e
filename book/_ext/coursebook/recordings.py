"""Merge recorded outputs into the pages, refuse those of other pages, and say where they are from."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import myst_nb.core.read
from docutils import nodes
from nbformat import NotebookNode
from nbformat.v4 import new_output
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

import cutecourse
from coursebook import answers
from cutecourse.kernels.spec import runs_on
from tools.notebooks import code_cells, tags
from tools.pages import check_pages
from tools.paths import BOOK, RECORDED_ON, notebook_of, notebook_sources, relative
from tools.quotations import quotations
from tools.recordings import Run, differences, machines, read_recording, read_stored, runs_in
from tools.tidy import RUN_RECORD, WIDGET_VIEW

_RECORD_LINE = re.compile(r"<summary>(?P<line>.*?)</summary>")
_read_markdown = myst_nb.core.read.read_myst_markdown_notebook


def read_with_outputs(text: str, *args: Any, path: str | Path | None = None, **kwargs: Any) -> NotebookNode:
    """MyST-NB's reader of a page, with the outputs of its recording in the code cells.

    It stands in place of a private function of MyST-NB, which is why that package is pinned.
    """
    notebook: NotebookNode = _read_markdown(text, *args, path=path, **kwargs)
    source = Path(path).resolve() if path else None
    if source is None or source not in notebook_sources():
        return notebook
    recording = read_recording(source)
    _refuse([str(difference) for difference in differences(source, recording, code_cells(notebook))])
    fold = False
    for cell, recorded in zip(code_cells(notebook), code_cells(recording), strict=True):
        cell.outputs = [shown for output in recorded.outputs for shown in with_static_figure(output)]
        if RUN_RECORD in tags(cell):
            cell.outputs = [folded_record(output) for output in cell.outputs] if fold else cell.outputs
            fold = True
        cell.execution_count = recorded.execution_count
    answers.mark(notebook, source)
    if "widgets" in recording.metadata:
        notebook.metadata["widgets"] = recording.metadata["widgets"]
    return notebook


def folded_record(output: NotebookNode) -> NotebookNode:
    """A run's record of which nothing is open but that there is one: the page has shown one already."""
    data = output.get("data", {})
    match = _RECORD_LINE.search(data.get("text/html", ""))
    if match is None:
        return output
    summary = f"<summary>Where this ran</summary><p>{match['line']}.</p>"
    folded = data["text/html"].replace(match[0], summary)
    return NotebookNode({**output, "data": NotebookNode({**data, "text/html": folded})})


def with_static_figure(output: NotebookNode) -> list[NotebookNode]:
    """A widget's output, followed by its figure as an output of its own; any other output alone.

    The page shows one form of an output; a widget is to have two: itself, and its figure for print and for
    readers without JavaScript.
    """
    data = output.get("data", {})
    if WIDGET_VIEW not in data:
        return [output]
    if "image/png" not in data:
        raise ExtensionError(f"the widget {data.get('text/plain')} has no figure in its recording")
    alt, image = html.escape(data["text/plain"], quote=True), data["image/png"].strip()
    figure = (
        f'<figure class="cute-static-figure"><img alt="{alt}" src="data:image/png;base64,{image}"></figure>'
    )
    return [output, new_output("display_data", data={"text/html": figure})]


def refuse_stale_recordings(app: Sphinx) -> None:
    """Before anything is read, say all that differs of all pages, also of those that Sphinx would skip."""
    _refuse([str(difference) for difference in check_pages(words=False)])


def _refuse(found: list[str]) -> None:
    if found:
        listing = "\n".join(f"  {line}" for line in found)
        raise ExtensionError(
            f"the recordings do not match these pages:\n{listing}\n"
            "record them anew with: python -m tools.record NN (see book/AUTHORING.md)"
        )


def reread_when_recorded_anew(app: Sphinx, env: BuildEnvironment, *_: Any) -> list[str]:
    """Pages whose recording, or a text that they may quote, is younger than Sphinx's last reading of them."""
    quoted = _newest_text()
    stale = []
    for source in notebook_sources():
        docname = source.relative_to(BOOK).with_suffix("").as_posix()
        read_at = env.all_docs.get(docname)
        written = notebook_of(source).stat().st_mtime
        if quotations([cell.source for cell in code_cells(read_stored(source))]):
            written = max(written, quoted)
        if read_at is not None and written > read_at / 1_000_000:
            stale.append(docname)
    return stale


def _newest_text() -> float:
    """When a text of the library was last written, in seconds: a page may quote any of them."""
    library = Path(cutecourse.__file__).parent
    texts = (path for path in library.rglob("*") if path.suffix in (".py", ".ptx", ".cu"))
    return max(path.stat().st_mtime for path in texts)


def add_provenance(app: Sphinx, doctree: nodes.document) -> None:
    """Put the note on where the page's kernels ran at its foot, and what no GPU ran above its first cell."""
    source = BOOK / f"{app.env.docname}.md"
    if source not in notebook_sources():
        return
    recording = read_stored(source)
    title = next(iter(doctree.findall(nodes.title)), None)
    if title is None or title.parent is None:
        raise ExtensionError(f"{relative(source)} has no title")
    title.parent.append(provenance(runs_in(recording), machines(recording)))
    sentence = emulated_sentence(runs_in(recording))
    first = next((node for node in doctree.findall(nodes.container) if "cell" in node["classes"]), None)
    if sentence and first is not None:
        first.parent.insert(
            first.parent.index(first), nodes.paragraph(text=sentence, classes=["cute-emulated"])
        )


def emulated_sentence(runs: Sequence[Run]) -> str:
    """Which kernels of a page no GPU at hand could run, so that the emulator did; "" where there are none."""
    emulated = [run for run in runs if not runs_on(run["target"], RECORDED_ON)]
    if not emulated:
        return ""
    targets = " or ".join(sorted({run["target"] for run in emulated}))
    which = "The" if len(emulated) == len(runs) else f"The {targets}"
    return f"{which} kernels of this page ran on the emulator: no GPU for {targets} was at hand."


def provenance(runs: Sequence[Run], known: Mapping[str, Mapping[str, Any]]) -> nodes.container:
    """Which kernels of a page ran where, and for a GPU on which machine, when, and with which versions."""
    note = nodes.container(classes=["cute-provenance"])
    note += nodes.paragraph(text=_runs_sentence(runs, known))
    for facts in known.values():
        packages = ", ".join(f"{name} {version}" for name, version in sorted(facts["packages"].items()))
        commit = f", commit {facts['commit']}" if facts["commit"] else ""
        text = (
            f"{facts['gpu']}, driver {facts['driver']}, on {facts['date']}: {facts['machine']}, "
            f"cutecourse {facts['version']}{commit}, Python {facts['python']}, {packages}."
        )
        note += nodes.paragraph(text=text, classes=["cute-provenance-versions"])
    return note


def _runs_sentence(runs: Sequence[Run], known: Mapping[str, Mapping[str, Any]]) -> str:
    if not runs:
        return "No kernel runs on this page; Python computed what it shows."
    places: dict[str, list[str]] = {}
    for run in runs:
        places.setdefault(f"on {place(run, known)}, compiled for {run['target']}", []).append(run["kernel"])
    parts = [f"{', '.join(sorted(set(kernels)))} ran {where}" for where, kernels in sorted(places.items())]
    return "; ".join(parts) + "."


def place(run: Run, known: Mapping[str, Mapping[str, Any]]) -> str:
    """Where a kernel ran: the GPU's name, or the emulator."""
    return str(known[run["machine"]]["gpu"]) if run["where"] == "gpu" else "the emulator"


def setup(app: Sphinx) -> None:
    """Connect to Sphinx's events."""
    myst_nb.core.read.read_myst_markdown_notebook = read_with_outputs
    app.connect("builder-inited", refuse_stale_recordings)
    app.connect("env-get-outdated", reread_when_recorded_anew)
    app.connect("doctree-read", add_provenance)
