"""Find each prediction of a page and what answers it: that part is hidden until the reader has chosen.

Everything after a cell with `Predict(...)` belongs to its answer, up to the line `<!-- answered -->`, or
without that line to the end of the cell that calls `.reveal(...)`.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.paths import AuthoringError, relative

ANSWERED = "<!-- answered -->"
"""The line that ends an answer, in a paragraph of its own."""

_FENCE = re.compile(r"^(?P<fence>`{3,}|:{3,}|~{3,})(?P<info>.*)$")
_HEADING = re.compile(r"^#{1,6}\s+\S")
_HEAD = re.compile(r"\A---\n.*?^---\n", re.MULTILINE | re.DOTALL)


class BadPrediction(AuthoringError):
    """A prediction without an answer, an answer without a prediction, or a heading inside an answer."""


@dataclass(frozen=True)
class Answer:
    """The answer to one prediction: the code cells after `asks` up to `last`, counted from 0.

    `marked` says that the line `<!-- answered -->` ends it, so the text after that cell belongs to it.
    """

    key: str
    asks: int
    last: int
    marked: bool


@dataclass(frozen=True)
class _Part:
    kind: str
    line: int
    text: str = ""


def answers_in(source: Path) -> list[Answer]:
    """The answers of a page, in order.

    Errors: BadPrediction, naming the page and the line.
    """
    return find_answers(source.read_text(encoding="utf-8"), relative(source))


def find_answers(text: str, where: str) -> list[Answer]:
    """The answers in a page's text; `where` names the page in messages. Errors: BadPrediction."""
    found: list[Answer] = []
    waiting: tuple[str, int, int] | None = None  # key, cell, line of the prediction that is open
    told: int | None = None  # the cell that revealed its answer
    inside: list[_Part] = []  # the headings since the prediction
    number = -1

    def close(*, marked: bool) -> None:
        nonlocal waiting, told
        if waiting is None:
            return
        key, cell, line = waiting
        if told is None:
            raise BadPrediction(
                f"{where}, line {line}: the prediction {key!r} has no answer; "
                "call its .reveal(...) in a later cell, before the next prediction"
            )
        found.append(Answer(key, cell, number if marked else told, marked))
        waiting = told = None

    for part in _parts(text, where):
        if part.kind == "heading":
            if waiting is not None and told is None:
                raise BadPrediction(_heading_inside(where, part, waiting[0]))
            inside.append(part)
        elif part.kind == "answered":
            if waiting is None:
                raise BadPrediction(f"{where}, line {part.line}: {ANSWERED} has no prediction before it")
            if inside:
                raise BadPrediction(_heading_inside(where, inside[0], waiting[0]))
            close(marked=True)
        else:
            number += 1
            keys, reveals = _calls(part, where)
            if keys and reveals:
                raise BadPrediction(
                    f"{where}, line {part.line}: this cell asks and answers; .reveal(...) takes its own cell"
                )
            if keys:
                close(marked=False)
                waiting, inside = (keys[0], number, part.line), []
            elif reveals:
                if waiting is None or told is not None:
                    raise BadPrediction(
                        f"{where}, line {part.line}: .reveal(...) has no prediction of its own before it"
                    )
                told = number
    close(marked=False)
    return found


def _heading_inside(where: str, heading: _Part, key: str) -> str:
    return (
        f"{where}, line {heading.line}: the heading {heading.text!r} stands inside the answer to {key!r}; "
        f"end the answer before it, with {ANSWERED} or with the cell that calls .reveal(...)"
    )


def _parts(text: str, where: str) -> list[_Part]:
    """The code cells, headings and ends of answers of a page, in order, with their lines."""
    lines = text.splitlines()
    head = _HEAD.match(text)
    index = head[0].count("\n") if head else 0
    parts: list[_Part] = []
    while index < len(lines):
        line = lines[index]
        fence = _FENCE.match(line)
        if fence:
            start = index
            index += 1
            while index < len(lines) and lines[index].strip() != fence["fence"]:
                index += 1
            body = lines[start + 1 : index]
            if fence["info"].startswith("{code-cell}"):
                while body and re.match(r"^:[\w-]+:", body[0]):
                    body = body[1:]
                parts.append(_Part("code", start + 1, "\n".join(body)))
            elif any(inner.strip() == ANSWERED for inner in body):
                raise BadPrediction(f"{where}, line {start + 1}: {ANSWERED} stands inside a block")
        elif line.strip() == ANSWERED:
            around = [lines[i].strip() for i in (index - 1, index + 1) if 0 <= i < len(lines)]
            if line != ANSWERED or any(around):
                raise BadPrediction(
                    f"{where}, line {index + 1}: {ANSWERED} takes a line of its own between two empty lines"
                )
            parts.append(_Part("answered", index + 1))
        elif _HEADING.match(line):
            parts.append(_Part("heading", index + 1, line.strip()))
        index += 1
    return parts


def _calls(part: _Part, where: str) -> tuple[list[str], int]:
    """The keys of the predictions that a cell makes, and how many answers it shows."""
    try:
        tree = ast.parse(re.sub(r"^\s*[%!].*$", "", part.text, flags=re.MULTILINE))
    except SyntaxError:  # a cell that shows what Python says of it
        return [], 0
    keys: list[str] = []
    reveals = 0
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "Predict":
            key = node.args[0] if node.args else None
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                raise BadPrediction(
                    f"{where}, line {part.line}: Predict(...) takes its key as a text in quotes"
                )
            keys.append(key.value)
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "reveal":
            reveals += 1
    if len(keys) > 1:
        raise BadPrediction(
            f"{where}, line {part.line}: this cell asks {len(keys)} times; one cell asks once"
        )
    return keys, reveals


def with_folded_text(notebook: NotebookNode, answers: list[Answer]) -> NotebookNode:
    """The notebook with the text of each answer in a fold: JupyterLab shows it after a click.

    The cells of a notebook for JupyterLab have no outputs, so that only text could give an answer away.
    """
    code = [index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    cells: list[NotebookNode] = []
    spans = [(code[a.asks], code[a.last], a.marked) for a in answers]
    for index, cell in enumerate(notebook.cells):
        span = next((s for s in spans if s[0] < index <= s[1] + s[2]), None)
        if span is None or cell.cell_type == "code":
            cells.append(cell)
            continue
        answer, _, rest = cell.source.partition(ANSWERED)
        if answer.strip():
            fold = "<details><summary>After your prediction</summary>\n\n{}\n\n</details>"
            cells.append(nbformat.v4.new_markdown_cell(fold.format(answer.strip())))
        if rest.strip():
            cells.append(nbformat.v4.new_markdown_cell(rest.strip()))
    notebook.cells = cells
    return notebook
