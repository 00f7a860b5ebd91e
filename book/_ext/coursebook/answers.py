"""Put each answer into a container of its own: a script folds it until the reader has predicted.

The page holds every answer as open text, so it is there in print and without JavaScript.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from cutecourse.errors import CourseError
from tools.answers import ANSWERED, Answer, answers_in
from tools.notebooks import code_cells, tags
from tools.paths import BOOK, notebook_sources

_ASKS, _LAST = "cute-asks", "cute-last"


class answer(nodes.General, nodes.Element):  # noqa: N801 - docutils names its nodes so
    """The answer to the prediction with this `key`."""


def mark(notebook: NotebookNode, source: Path) -> None:
    """Tag the cells that ask, and those that end an answer, so that they are found again on the page."""
    cells = code_cells(notebook)
    for number, found in enumerate(_answers(source)):
        for cell, tag in ((cells[found.asks], _ASKS), (cells[found.last], _LAST)):
            cell.metadata["tags"] = [*sorted(tags(cell)), f"{tag}-{number}"]


def _answers(source: Path) -> list[Answer]:
    try:
        return answers_in(source)
    except CourseError as error:
        raise ExtensionError(str(error)) from error


def wrap_answers(app: Sphinx, doctree: nodes.document) -> None:
    """Move what follows each question, up to the end of its answer, into a container."""
    source = BOOK / f"{app.env.docname}.md"
    if source not in notebook_sources():
        return
    cells = {name: node for node in doctree.findall(nodes.container) for name in node["classes"]}
    for number, found in enumerate(_answers(source)):
        asks, last = (cells.get(f"tag_{tag}-{number}") for tag in (_ASKS, _LAST))
        if asks is None or last is None or asks.parent is not last.parent:
            raise ExtensionError(
                f"{app.env.docname}: the prediction {found.key!r} and its answer do not stand in one section"
            )
        siblings = asks.parent.children
        start, end = siblings.index(asks) + 1, siblings.index(last) + 1
        if found.marked:
            end = next(i for i in range(end, len(siblings)) if _ends_an_answer(siblings[i])) + 1
        inside = [node for node in siblings[start:end] if not _ends_an_answer(node)]
        container = answer("", key=found.key)
        parent = asks.parent
        parent[start:end] = [container]
        container += inside


def _ends_an_answer(node: nodes.Node) -> bool:
    return isinstance(node, nodes.raw) and node.astext().strip() == ANSWERED


def _visit(translator: Any, node: answer) -> None:
    key = html.escape(node["key"], quote=True)
    name = re.sub(r"[^\w-]", "-", node["key"])
    translator.body.append(
        f'<div class="cute-answer" data-key="{key}"><div class="cute-answer-body" id="answer-{name}">\n'
    )


def _depart(translator: Any, node: answer) -> None:
    translator.body.append("</div></div>\n")


def setup(app: Sphinx) -> None:
    """Add the node, and wrap the answers of each page that is read."""
    app.add_node(answer, html=(_visit, _depart))
    app.connect("doctree-read", wrap_answers)
