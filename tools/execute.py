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

# Runs in the notebook's kernel after its last cell. Only what was imported there can say which kernels
# the notebook used, and only the runtime there knows where they ran.
_QUESTION = """
def _cutecourse_question():
    import importlib.metadata, json, platform, sys
    import cutecourse

    # A kernel's module is named as it is imported, without the folders in which it lies.
    kernels = sorted(
        "cutecourse.kernels." + name.rpartition(".")[2] for name, module in list(sys.modules.items())
        if name.startswith("cutecourse.kernels.") and hasattr(module, "LAUNCH")
    )
    twinning = sys.modules.get("cutecourse.kernels.twinning")
    kernels += [f"{twinning.TWINS}.{name}" for name in getattr(twinning, "twinned", tuple)()]
    runtime = sys.modules.get("cutecourse.runtime")
    runs = []
    for record in getattr(runtime, "history", lambda: [])():
        entry = {name: getattr(record, name) for name in ("kernel", "where", "device", "target")}
        # Also where a cell asked for the emulator: whether a GPU could have run the kernel.
        choice = sys.modules["cutecourse.runtime.discovery"].choose(record.target, "auto")
        entry["gpu_at_hand"] = choice.device is not None
        entry["asked_for"] = record.why.startswith("asked for by device=")
        if entry not in runs:
            runs.append(entry)
    names = ["numpy", "matplotlib", "anywidget", "nvidia-cutlass-dsl", "numba-cuda", "cuda-bindings"]
    packages = {}
    for name in names:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    environment = {
        "python": platform.python_version(), "version": cutecourse.__version__, "packages": packages,
    }
    print(json.dumps({"kernels": kernels, "runs": runs, "environment": environment}))

_cutecourse_question()
"""


class CellFailed(AuthoringError):
    """A cell of a notebook raised, or wrote to stderr, and its source does not say that it should."""


@dataclass(frozen=True)
class Execution:
    """What a kernel said about itself after the last cell."""

    kernel_modules: list[str]
    runs: list[dict[str, Any]]
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
        for index, cell in enumerate(notebook.cells):
            try:
                client.execute_cell(cell, index, execution_count=client.code_cells_executed + 1)
            except CellExecutionError as error:
                text = _COLOURS.sub("", str(error))
                name = f"{relative(where)}, code cell {_number(notebook, cell)}"
                raise CellFailed(f"{name}:\n{text}") from None
        client.set_widgets_metadata()
        answer = _ask(client)
    _refuse_stderr(notebook, where)
    return Execution(answer["kernels"], answer["runs"], answer["environment"])


def _ask(client: nbclient.NotebookClient) -> dict[str, Any]:
    """Run the question as one more cell, which is taken out of the notebook again."""
    cells = client.nb.cells
    cells.append(new_code_cell(_QUESTION))
    try:
        cell = client.execute_cell(cells[-1], len(cells) - 1, store_history=False)
    finally:
        cells.pop()
    answer: dict[str, Any] = json.loads(cell.outputs[0].text)
    return answer


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
