"""Look into recorded notebooks: sections, compared outputs, run records, widgets, kernels' sources."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from types import ModuleType

from nbformat import NotebookNode

from tools.tidy import WIDGET_VIEW

RECORD_TAGS = {"machine-dependent", "nbval-ignore-output"}

_RUN_RECORD = re.compile(r"^kernel\s+(?P<kernel>\w+) \([^)]+\)\nran on\s", re.MULTILINE)
_FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^##\s+(.+)$", re.MULTILINE)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> set[str]:
    return set(cell.metadata.get("tags", []))


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


def shown_sources(notebook: NotebookNode) -> dict[str, str]:
    """What `source(...)` cells showed, by the dotted name of the kernel module or of a function in it."""
    names: dict[str, str] = {}
    shown: dict[str, str] = {}
    for cell in code_cells(notebook):
        tree = ast.parse(re.sub(r"^\s*[%!].*$", "", cell.source, flags=re.MULTILINE))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cutecourse.kernels"):
                names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        last = tree.body[-1].value if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if isinstance(last, ast.Call) and isinstance(last.func, ast.Name) and last.func.id == "source":
            argument = ast.unparse(last.args[0])
            head, _, rest = argument.partition(".")
            if head in names:
                output = cell.outputs[-1]
                shown[".".join(filter(None, [names[head], rest]))] = output.data["text/plain"]
    return shown


def resolve(dotted: str) -> tuple[ModuleType, object]:
    """A kernel module, and the thing in it (or itself) that a dotted name says."""
    parts = dotted.split(".")
    module = importlib.import_module(".".join(parts[:3]))
    thing: object = module
    for part in parts[3:]:
        thing = getattr(thing, part)
    return module, thing
