"""Python beside the pages, so that a reader can run their cells, and digests of the recorded outputs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from nbformat import NotebookNode
from sphinx.application import Sphinx

from cutecourse.page.outputs import digest
from tools import third_party
from tools.notebooks import code_cells, tags
from tools.paths import BOOK, ROOT, notebook_sources
from tools.recordings import read_recording
from tools.tidy import RUN_RECORD

FOLDER = "_python"
"""Where the files lie among the pages."""
HERE = Path(__file__).parent / "browser"
DATA = (
    "benchmarks/results/*.json",
    "tests/emulator/recordings/tensor_map_rules.json",
    "tests/tma/recordings/sm_90.json",
)
"""The files that cells read, from the repository's root. Cells run in `notebooks`, here as in JupyterLab."""
_HIDES = {"remove-input", "remove-cell"}
_LEFT_OUT = {"__pycache__"}
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def course_files() -> Iterator[tuple[str, Path]]:
    """The files that Python finds in the browser: the library, traitlets, and what cells read."""
    library = ROOT / "lib"
    for path in sorted((library / "cutecourse").rglob("*")):
        if path.is_file() and not _LEFT_OUT & set(path.parts):
            yield f"lib/{path.relative_to(library).as_posix()}", path
    # The widgets' values. It is pure Python, so the browser gets the one that is installed here.
    for file in importlib.metadata.files("traitlets") or []:
        if file.suffix != ".pyc" and file.parts[0].startswith("traitlets") and "tests" not in file.parts:
            yield f"lib/{file.as_posix()}", Path(str(file.locate()))
    for pattern in DATA:
        for path in sorted(ROOT.glob(pattern)):
            yield path.relative_to(ROOT).as_posix(), path


def course_archive() -> bytes:
    """The course's files as a zip archive, the same bytes for the same files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("notebooks/", _LONG_AGO), b"")
        for name, path in course_files():
            info = zipfile.ZipInfo(name, _LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    return buffer.getvalue()


def write_files(folder: Path) -> None:
    """Write what the browser fetches at the first click, with its licences.

    `files.json` names the course's archive, counts the bytes, and has a digest of Python and its library.
    """
    folder.mkdir(parents=True, exist_ok=True)
    archive = course_archive()
    course = f"course-{hashlib.sha256(archive).hexdigest()[:12]}.zip"
    core = [*(third_party.PYODIDE / name for name in third_party.CORE), third_party.wheel("numpy")]
    notices = [third_party.FOLDER / "README.md", *third_party.PYODIDE.glob("LICENSE*")]
    sources = [*core, HERE / "worker.mjs", *notices]
    wanted = {source.name for source in sources} | {course, "files.json"}
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()
    for source in sources:
        target = folder / source.name
        if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
            shutil.copyfile(source, target)
    (folder / course).write_bytes(archive)
    # Modules come through `import`, whose bytes a page cannot count.
    counted = [path.stat().st_size for path in core if path.suffix != ".mjs"]
    library = hashlib.sha256()
    for name in ("pyodide.asm.wasm", "python_stdlib.zip"):
        library.update((third_party.PYODIDE / name).read_bytes())
    listing = {
        "course": course,
        "bytes": sum(counted) + len(archive),
        "library": library.hexdigest()[:12],
    }
    (folder / "files.json").write_text(json.dumps(listing), encoding="utf-8")


def digests(cells: list[NotebookNode]) -> list[str]:
    """The digest of each recorded output of a page; "" for a cell that shows where a kernel ran."""
    return ["" if RUN_RECORD in tags(cell) else digest(cell.outputs) for cell in cells]


def hidden_sources(cells: list[NotebookNode]) -> dict[int, str]:
    """The code of the cells that the page shows without it, by their numbers from 0."""
    return {number: cell.source for number, cell in enumerate(cells) if _HIDES & tags(cell)}


def add_runner(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """On a page with cells: the runner, and the facts that it starts from."""
    source = BOOK / f"{pagename}.md"
    if doctree is None or source not in notebook_sources():
        return
    app.add_js_file("run.js", loading_method="defer")
    app.add_css_file("run.css")
    up = "../" * pagename.count("/")
    cells = code_cells(read_recording(source))
    facts = {"folder": f"{up}{FOLDER}/", "digests": digests(cells), "sources": hidden_sources(cells)}
    text = json.dumps(facts).replace("</", "<\\/")  # nothing in it ends the script
    context["body"] += f'<script type="application/json" id="cute-live">{text}</script>\n'


def add_files(app: Sphinx, exception: Exception | None) -> None:
    """Write Python's files once the pages are written."""
    if exception is None and app.builder.name == "html":
        write_files(Path(app.outdir) / FOLDER)


def setup(app: Sphinx) -> None:
    """Connect to Sphinx's events."""
    app.connect("html-page-context", add_runner)
    app.connect("build-finished", add_files)
