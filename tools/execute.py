"""Run a notebook's cells in a kernel of their own, and ask that kernel what it used."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbclient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from tools.notebooks import code_cells, tags
from tools.paths import AuthoringError, relative

CELL_TIMEOUT_S = 600

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

# Runs in the notebook's kernel before its first cell, and notes after each cell which kernels it ran, and
# where: only the runtime there knows.
_LISTENER = """
def _cutecourse_listen():
    import sys

    seen, runs = [0], []

    def note(result):
        runtime = sys.modules.get("cutecourse.runtime")
        history = runtime.history() if runtime else ()
        found = []
        for record in history[seen[0]:]:
            entry = {name: getattr(record, name) for name in ("kernel", "module", "target", "where")}
            if record.faults:
                entry["faults"] = list(record.faults)
            if record.why.startswith("asked for by device="):
                entry["asked_for"] = True
            if entry not in found:
                found.append(entry)
        seen[0] = len(history)
        runs.append(found)

    get_ipython().events.register("post_run_cell", note)
    return runs

_cutecourse_runs = _cutecourse_listen()
"""

_QUESTION = """
def _cutecourse_question():
    import importlib.metadata, json, platform
    import cutecourse

    names = ["numpy", "nvidia-cutlass-dsl", "numba-cuda", "cuda-bindings"]
    packages = {}
    for name in names:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    environment = {
        "python": platform.python_version(), "version": cutecourse.__version__, "packages": packages,
    }
    print(json.dumps({"runs": _cutecourse_runs[1:], "environment": environment}))

_cutecourse_question()
"""


class CellFailed(AuthoringError):
    """A cell of a notebook raised, or wrote to stderr, and its source does not say that it should."""


@dataclass(frozen=True)
class Execution:
    """A kernel's answer after the last cell: the runs of each code cell, and its versions."""

    runs: list[list[dict[str, Any]]]
    environment: dict[str, Any]


def execute(notebook: NotebookNode, *, where: Path, cwd: Path) -> Execution:
    """Run all cells in place, outputs and widget state into the notebook.

    Errors: CellFailed, naming the cell and what it said.
    """
    client = nbclient.NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=True,
        # What a busy machine sends in pieces is one text: a page would show each piece on a line of its own.
        coalesce_streams=True,
        # The kernel's own log (a remark on its transport) is not about the notebook.
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(cwd)}},
    )
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    with client.setup_kernel(env=environment):
        _run_apart(client, _LISTENER)
        for index, cell in enumerate(notebook.cells):
            try:
                client.execute_cell(cell, index, execution_count=client.code_cells_executed + 1)
            except CellExecutionError as error:
                text = _COLOURS.sub("", str(error))
                name = f"{relative(where)}, code cell {_number(notebook, cell)}"
                raise CellFailed(f"{name}:\n{text}") from None
        client.set_widgets_metadata()
        answer = json.loads(_run_apart(client, _QUESTION).outputs[0].text)
    _refuse_stderr(notebook, where)
    return Execution(answer["runs"], answer["environment"])


def _run_apart(client: nbclient.NotebookClient, code: str) -> NotebookNode:
    """Run code as one more cell, which is taken out of the notebook again."""
    cells = client.nb.cells
    cells.append(new_code_cell(code))
    try:
        return client.execute_cell(cells[-1], len(cells) - 1, store_history=False)
    finally:
        cells.pop()


def _refuse_stderr(notebook: NotebookNode, where: Path) -> None:
    for cell in code_cells(notebook):
        name = f"{relative(where)}, code cell {_number(notebook, cell)}"
        for output in cell.outputs:
            if output.output_type == "stream" and output.name == "stderr":
                raise CellFailed(f"{name} wrote to stderr, and a reader would see it:\n{output.text}")
        if "raises-exception" in tags(cell) and not any(o.output_type == "error" for o in cell.outputs):
            raise CellFailed(f"{name} is tagged raises-exception and raised nothing")


def _number(notebook: NotebookNode, cell: NotebookNode) -> int:
    return next(number for number, other in enumerate(code_cells(notebook), start=1) if other is cell)
