"""Look into recorded notebooks: sections, compared outputs, run records, widgets, kernels' sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbformat import NotebookNode

from tools.notebooks import code_cells, tags
from tools.tidy import WIDGET_VIEW

RECORD_TAGS = {"machine-dependent", "nbval-ignore-output"}

_RUN_RECORD = re.compile(r"^kernel\s+(?P<kernel>\w+) \([^)]+\)\nran on\s", re.MULTILINE)
_FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^##\s+(.+)$", re.MULTILINE)


def texts(cell: NotebookNode) -> Iterator[str]:
    """Each text that a cell's outputs show and nbval compares."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output.text
        elif output.output_type == "error":
            yield f"{output.ename}: {output.evalue}"
        else:
            yield from (
                text
                for kind, text in output.data.items()
                if kind.startswith("text/") and isinstance(text, str)
            )


def recorded_kernel(cell: NotebookNode) -> list[str]:
    """The kernels whose run records a cell shows."""
    plain = [output.get("data", {}).get("text/plain", output.get("text", "")) for output in cell.outputs]
    return [match["kernel"] for text in plain for match in _RUN_RECORD.finditer(text)]


def compares_a_number(cell: NotebookNode) -> bool:
    """Whether nbval compares a number that the cell shows: not a picture's or a widget's own text."""
    if "nbval-ignore-output" in tags(cell):
        return False
    for output in cell.outputs:
        if output.output_type == "stream" and re.search(r"\d", output.text):
            return True
        if output.output_type == "error" and re.search(r"\d", output.evalue):
            return True
        data = output.get("data", {})
        if "image/png" in data or WIDGET_VIEW in data:
            continue
        if re.search(r"\d", data.get("text/plain", "")):
            return True
    return False


def sections(notebook: NotebookNode) -> dict[str, list[NotebookNode]]:
    """The code cells under each heading of level 2, by the heading; those before the first under ''."""
    found: dict[str, list[NotebookNode]] = {"": []}
    current = ""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            found[current].append(cell)
        else:
            for heading in _HEADING.findall(_FENCED.sub("", cell.source)):
                current = heading.strip()
                found.setdefault(current, [])
    return found


def modules_shown(notebook: NotebookNode) -> set[str]:
    """The kernels whose module, or a function of it, a cell shows with `source(...)`."""
    shown = set()
    for cell in code_cells(notebook):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "source":
                shown.add(ast.unparse(node.args[0]).partition(".")[0])
    return shown
