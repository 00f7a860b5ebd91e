"""The exercises that a reader has solved in the copies for JupyterLab, by the verdicts in their outputs.

`progress.md` in the reader's folder lists the exercises. `.progress.json` remembers the solved ones, so a
tick stays when outputs are cleared or the course brings a new version of a notebook.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.exercises import exercises_in
from tools.paths import chapter_number, exercise_sources

SOLVED = ".progress.json"
TABLE = "progress.md"
_PASSED = re.compile(r"\A✓ (\d\d\.\d+) .*: passed$", re.MULTILINE)


def solved_in(folder: Path) -> set[str]:
    """The ids of the exercises that a notebook of this folder shows as passed."""
    return {
        match[1]
        for path in sorted(folder.glob("*.ipynb"))
        for text in _texts(path)
        if (match := _PASSED.match(text))
    }


def _texts(path: Path) -> Iterator[str]:
    """The plain texts that the cells of a notebook show; none where the file is no notebook any more."""
    try:
        cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        texts = [output.get("data", {}).get("text/plain", "") for output in outputs]
    except (AttributeError, KeyError, TypeError, ValueError):
        return
    yield from (text if isinstance(text, str) else "".join(text) for text in texts)


def note_progress(folder: Path) -> list[str]:
    """Write the table of the exercises into the reader's folder; returns a line on what is solved, or none.

    Nothing is written before the first exercise is solved.
    """
    memory = folder / SOLVED
    before = set(json.loads(memory.read_text(encoding="utf-8"))) if memory.exists() else set()
    solved = before | solved_in(folder / "exercises")
    if not solved:
        return []
    memory.write_text(json.dumps(sorted(solved)) + "\n", encoding="utf-8")
    rows, known = [], 0
    for source in exercise_sources():
        ids = list(dict.fromkeys(found.id for found in exercises_in(source)))
        known += len(ids)
        marks = ", ".join(f"{one} ✓" if one in solved else one for one in ids)
        number = chapter_number(source).lstrip("0")
        done = f"{len(solved.intersection(ids))} of {len(ids)}"
        rows.append(f"| [{number}](exercises/{source.stem}.ipynb) | {done} | {marks} |")
    head = ["# Your exercises", "", "| chapter | solved | exercises |", "| --- | ---: | --- |"]
    (folder / TABLE).write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")
    return [f"{len(solved)} of {known} exercises are solved; {TABLE} lists them"]
