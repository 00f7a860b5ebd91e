"""The `{status}` directive: what was recorded where, read from the recordings themselves."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from coursebook.recordings import place
from tools.paths import ROOT, exercise_sources, notebook_of, notebook_sources, relative
from tools.recordings import machines, read_stored, runs_in

HARDWARE_RECORDINGS = (ROOT / "tests" / "emulator" / "recordings", ROOT / "tests" / "tma" / "recordings")
BENCHMARK_RESULTS = ROOT / "benchmarks" / "results"

Rows = list[list[str]]


def notebook_rows() -> tuple[list[str], Rows, list[Path]]:
    """Each page's and each solution's recording: where its kernels ran, and on which machines with a GPU."""
    rows, files = [], []
    for source in [*notebook_sources(), *exercise_sources()]:
        recording = read_stored(source)
        known = machines(recording)
        files.append(notebook_of(source))
        places = collections.Counter(
            where for _, where in {(run["kernel"], place(run, known)) for run in runs_in(recording)}
        )
        rows.append(
            [
                relative(files[-1]),
                ", ".join(f"{count} on {where}" for where, count in sorted(places.items())) or "none",
                *(
                    "; ".join(f"{facts[name] or 'none'}" for facts in known.values())
                    for name in ("date", "driver", "commit")
                ),
            ]
        )
    return ["recording", "kernels that ran", "on a GPU on", "driver", "commit"], rows, files


def emulator_rows() -> tuple[list[str], Rows, list[Path]]:
    """Each recording that the emulator is compared with: where, when, and how many cases or answers."""
    return _json_rows(HARDWARE_RECORDINGS, ("cases", "answers"))


def benchmark_rows() -> tuple[list[str], Rows, list[Path]]:
    """Each file of measurements: where, when, and how many."""
    return _json_rows((BENCHMARK_RESULTS,), ("rows", "outcomes", "counts", "cases"))


def _json_rows(folders: Sequence[Path], counted: Sequence[str]) -> tuple[list[str], Rows, list[Path]]:
    rows = []
    files: list[Path] = []
    for path in sorted(path for folder in folders for path in [*folder.glob("*.json"), *folder.glob("*/")]):
        # A folder is one recording in several files, all with the same head.
        parts = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not parts:
            continue
        count = 0
        for part in parts:
            data: dict[str, Any] = json.loads(part.read_text(encoding="utf-8"))
            facts = data.get("recorded", data)
            try:
                machine = facts.get("gpu") or facts["machine"]
                count += len(data[next((key for key in counted if key in data), counted[0])])
                said = [facts["date"], machine, facts["driver"] or "", facts["commit"]]
            except KeyError as error:
                raise ExtensionError(f"{relative(part)} does not say its {error}") from error
        files += parts
        rows.append([relative(path), *map(str, [*said, count])])
    return ["file", "date", "machine", "driver", "commit", " or ".join(counted)], rows, files


_KINDS: dict[str, Callable[[], tuple[list[str], Rows, list[Path]]]] = {
    "notebooks": notebook_rows,
    "emulator": emulator_rows,
    "benchmarks": benchmark_rows,
}


class StatusDirective(SphinxDirective):
    """A table of recordings: `{status} notebooks`, `emulator` or `benchmarks`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Read the recordings and lay them out."""
        kind = directives.choice(self.arguments[0], tuple(_KINDS))
        header, rows, files = _KINDS[kind]()
        for path in files:
            self.env.note_dependency(str(path))
        if not rows:
            return [nodes.paragraph(text="Nothing has been recorded yet.")]
        return [table(header, rows)]


def table(header: Sequence[str], rows: Rows) -> nodes.container:
    """A plain table that scrolls by itself on a narrow screen."""
    group = nodes.tgroup("", cols=len(header))
    group += [nodes.colspec("", colwidth=1) for _ in header]
    head, body = nodes.thead(), nodes.tbody()
    head += _row(header)
    body += [_row(row) for row in rows]
    group += [head, body]
    node = nodes.table("", group, classes=["cute-status"])
    return nodes.container("", node, classes=["cute-scroll"])


def _row(texts: Sequence[str]) -> nodes.row:
    row = nodes.row()
    row += [nodes.entry("", nodes.paragraph(text=text)) for text in texts]
    return row


def setup(app: Sphinx) -> None:
    """Add the directive; the page is read anew on each build, since files may come and go."""
    app.add_directive("status", StatusDirective)
    app.connect("env-get-outdated", lambda app, env, *_: ["status"] if "status" in env.found_docs else [])
