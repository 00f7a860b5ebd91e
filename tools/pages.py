"""Read a page of the book as a notebook, its minutes counted, and compare the pages with their recordings."""

from __future__ import annotations

from pathlib import Path

from nbformat import NotebookNode

from tools import minutes
from tools.notebooks import Difference, as_notebook, check_recording
from tools.paths import AuthoringError, notebook_sources, relative

RUN_RECORD = "machine-dependent"
"""The tag of a cell that shows a run's record."""


def read_source(path: Path) -> NotebookNode:
    """A MyST page as a notebook without outputs."""

    def minutes_of(argument: str) -> str:
        if argument not in ("", "all"):
            raise AuthoringError(f"{relative(path)}: {{minutes}} takes 'all' or nothing, not {argument!r}")
        return minutes.table() if argument else minutes.sentence(path)

    return as_notebook(path.read_text(encoding="utf-8"), where=relative(path), minutes=minutes_of)


def check_pages() -> list[Difference]:
    """Compare every page with its recording; nothing is executed."""
    return [found for source in notebook_sources() for found in check_recording(source, read_source(source))]
