"""Read a MyST source as a notebook, and write notebooks the same way each time."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from tools.paths import AuthoringError
from tools.plain_markdown import Minutes, plain


def as_notebook(
    text: str, *, where: str, notebooks: str = "", minutes: Minutes | None = None
) -> NotebookNode:
    """MyST text as a notebook without outputs, with a plain Python 3 kernel.

    `notebooks` is the way from where it will lie to the folder of the chapters' notebooks, `minutes` says
    what `{minutes}` stands for.
    """
    notebook: NotebookNode = jupytext.reads(text, fmt="md:myst")
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
            cell.source = plain(cell.source, where=where, notebooks=notebooks, minutes=minutes)
    # A label alone has no plain form, and JupyterLab invites its reader to type into an empty text cell.
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code" or cell.source.strip()]
    carry_ids(notebook, None)
    return notebook


def carry_ids(notebook: NotebookNode, earlier: NotebookNode | None) -> None:
    """Give each cell the id that it had in an earlier version of the notebook, in place, or a new one.

    A cell whose text has changed keeps its id too, if it stands at the same place among its neighbours. So an
    id says nothing of the text, and two changes of one notebook merge.
    """
    for cell in notebook.cells:
        cell["id"] = uuid.uuid4().hex[:12]
    for new, old in _same_cells(notebook.cells, earlier.cells if earlier else []):
        new["id"] = old["id"]


def _same_cells(
    new: list[NotebookNode], old: list[NotebookNode]
) -> Iterator[tuple[NotebookNode, NotebookNode]]:
    before, after = ([(cell.cell_type, cell.source) for cell in cells] for cells in (old, new))
    for kind, i, j, k, m in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(new[k:m], old[i:j], strict=True)
        elif kind == "replace":
            for cell_type in ("code", "markdown"):
                yield from zip(_of(cell_type, new[k:m]), _of(cell_type, old[i:j]), strict=False)


def _of(cell_type: str, cells: list[NotebookNode]) -> list[NotebookNode]:
    return [cell for cell in cells if cell.cell_type == cell_type]


def write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook the same way each time: keys sorted, one space a level, a newline at the end."""
    nbformat.validate(notebook)
    path.write_text(nbformat.writes(notebook, version=4).rstrip("\n") + "\n", encoding="utf-8")


def tags(cell: NotebookNode) -> set[str]:
    """The tags of a cell."""
    return set(cell.metadata.get("tags", []))


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The code cells of a notebook, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]
