"""The exercises' pages: facts for the script that keeps answers, and the notebooks that it fills in."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from coursebook.live import FOLDER
from tools.exercises import exercises_in, learner_notebook
from tools.lab import exercise_copy
from tools.notebooks import write_notebook
from tools.paths import EXERCISE_PAGES, exercise_sources

CRIB = Path(__file__).parent / "assets" / "crib.ptx"
"""A kernel's body in twelve lines of PTX, each with its meaning, for a reader who has never written any."""


def cell_facts(source: Path) -> list[dict[str, str]]:
    """For each code cell of an exercise's page: its id, and for an answer `exercise`, `way` and `task`.

    `id` is the cell's id in the learner's notebook, `way` is "ptx" where the answer is a kernel in PTX, and
    `task` is a hash of the text between the exercise's heading and the cell.
    """
    notebook = learner_notebook(source)
    answers = {found.cell: found for found in exercises_in(source)}
    facts, words = [], hashlib.sha256()
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            if cell.source.startswith("## "):
                words = hashlib.sha256()
            words.update(cell.source.encode())
            continue
        fact = {"id": cell["id"]}
        if index in answers:
            found = answers[index]
            fact |= {"exercise": found.id, "task": words.hexdigest()[:12]}
            fact |= {"way": "ptx"} if found.in_ptx else {}
        facts.append(fact)
    return facts


def add_answers(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """On an exercise's page: the runner, the script that keeps answers, and their facts."""
    source = _sources().get(pagename)
    if doctree is None or source is None:
        return
    for script in ("run.js", "exercises.js"):
        app.add_js_file(script, loading_method="defer")
    app.add_css_file("run.css")
    cells = cell_facts(source)
    facts: dict[str, Any] = {"folder": f"../{FOLDER}/", "page": source.stem, "cells": cells}
    facts |= {"digests": [""] * len(cells), "sources": {}}
    if any("way" in cell for cell in cells):
        facts["crib"] = CRIB.read_text(encoding="utf-8")
    text = json.dumps(facts).replace("</", "<\\/")  # nothing in it ends the script
    context["body"] += f'<script type="application/json" id="cute-live">{text}</script>\n'


def add_notebooks(app: Sphinx, exception: Exception | None) -> None:
    """Write the learner's notebooks beside the pages, once these are written."""
    if exception is not None or app.builder.name != "html":
        return
    for pagename, source in _sources().items():
        write_notebook(exercise_copy(source), Path(app.outdir) / f"{pagename}.ipynb")


def _sources() -> dict[str, Path]:
    return {f"{EXERCISE_PAGES.name}/{source.stem}": source for source in exercise_sources()}


def setup(app: Sphinx) -> None:
    """Connect to Sphinx's events."""
    app.connect("html-page-context", add_answers)
    app.connect("build-finished", add_notebooks)
