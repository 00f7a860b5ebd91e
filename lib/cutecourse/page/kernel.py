"""Run a page's cells as a notebook does; the built page calls this in the reader's browser."""

from __future__ import annotations

import ast
import io
import json
import linecache
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from typing import Any

from traitlets import HasTraits

from cutecourse.page import widgets
from cutecourse.page.outputs import CELL, Output, bundle, digest, error_output

_MOST_QUOTED = 200_000
"""Characters of a source that tracebacks may quote."""
_NO_PROCESSES = "does not support processes"
DISTRIBUTIONS = {
    "cutlass": "the CuTe DSL, which compiles kernels",
    "numba": "numba-cuda, which compiles kernels",
    "cuda": "NVIDIA's driver",
    "matplotlib": "Matplotlib",
    "ml_dtypes": "the package ml_dtypes",
}
"""The packages that no browser has, and what a page calls them."""


class Kernel:
    """Runs cells one after another in one namespace, and keeps what each one shows.

    `namespace` is where the cells' names live; without one, that of `__main__`.
    """

    def __init__(self, namespace: dict[str, Any] | None = None) -> None:
        self.namespace = vars(sys.modules["__main__"]) if namespace is None else namespace
        self.namespace["display"] = self.display
        self.outputs: list[Output] = []
        self._absent: dict[str, str] = {}
        self._count = 0

    def display(self, *values: Any) -> None:
        """Show values in the middle of a cell, as in a notebook."""
        self.outputs += [{"output_type": "display_data", "data": _shown(value)} for value in values]

    def run(self, source: str, cell: int | None = None) -> dict[str, Any]:
        """Run one cell; `cell` is its number on the page, under which a traceback names it.

        A cell that imports a package which no browser has goes on without that package, since most of a page
        may not need it. To use such a name is an error.

        Returns its outputs, their digest, what the browser lacks if that is why the cell failed (else ""),
        which imports were left out, and whether a kernel has run so far from PTX written by hand, because its
        compiler is not here.
        """
        self.outputs = []
        self._count += 1
        name = f"{CELL}{cell or f'of run {self._count}'}"
        if len(source) <= _MOST_QUOTED:  # a reader's file may travel in a source; it need not stay in memory
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        missing, before = "", dict(self._absent)
        with redirect_stdout(_Stream(self, "stdout")), redirect_stderr(_Stream(self, "stderr")):
            try:
                self._execute(source, name)
            except BaseException as error:  # noqa: BLE001 - a cell may raise anything, SystemExit included
                missing = missing_here(error) or self._left_out(error)
                self.outputs.append(error_output(error))
        return {
            "outputs": self.outputs,
            "digest": digest(self.outputs),
            "missing": missing,
            "left_out": sorted({p for name, p in self._absent.items() if before.get(name) != p}),
            "by_hand": _written_by_hand(),
        }

    def run_as_json(self, source: str, cell: int | None = None) -> str:
        """`run` for JavaScript."""
        return json.dumps(self.run(source, cell))

    def receive_json(self, message: str) -> None:
        """Hand what the reader changed in a widget to that widget."""
        widgets.receive(json.loads(message))

    def _execute(self, source: str, name: str) -> None:
        tree = ast.parse(source, name)
        tree.body = [node for node in tree.body if not self._leave_out(node)]
        last = tree.body[-1] if tree.body else None
        shown = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
        if isinstance(last, ast.Expr) and shown:
            tree.body.pop()
        exec(compile(tree, name, "exec"), self.namespace)
        if isinstance(last, ast.Expr) and shown:
            value = eval(compile(ast.Expression(last.value), name, "eval"), self.namespace)
            if value is not None:
                self.namespace["_"] = value
                self.outputs.append({"output_type": "execute_result", "data": _shown(value)})

    def _leave_out(self, node: ast.stmt) -> bool:
        """True for a statement that only imports a package that is not here; remembers the names."""
        if isinstance(node, ast.ImportFrom):
            packages = {(node.module or "").partition(".")[0]}
        elif isinstance(node, ast.Import):
            packages = {alias.name.partition(".")[0] for alias in node.names}
        else:
            return False
        if len(packages) != 1 or (package := packages.pop()) not in DISTRIBUTIONS or find_spec(package):
            return False
        self._absent |= {alias.asname or alias.name.partition(".")[0]: package for alias in node.names}
        return True

    def _left_out(self, error: BaseException) -> str:
        package = self._absent.get(error.name or "") if isinstance(error, NameError) else None
        return DISTRIBUTIONS[package] if package else ""


class _Stream(io.TextIOBase):
    """Standard output or error of a cell: texts that follow each other are one output."""

    def __init__(self, kernel: Kernel, name: str) -> None:
        self._kernel, self._name = kernel, name

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        outputs = self._kernel.outputs
        if not text:
            return 0
        if outputs and outputs[-1].get("name") == self._name:
            outputs[-1]["text"] += text
        else:
            outputs.append({"output_type": "stream", "name": self._name, "text": text})
        return len(text)


def _shown(value: Any) -> dict[str, Any]:
    """A value in each form that it can show itself in; a widget goes to the page that listens."""
    if isinstance(value, HasTraits) and widgets.connected():
        return widgets.show(value)
    return bundle(value)


def missing_here(error: BaseException) -> str:
    """Name the thing that a cell needs and a browser lacks; "" for an error with another cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ImportError) and cause.name:
            package = cause.name.partition(".")[0]
            if package in DISTRIBUTIONS:
                return DISTRIBUTIONS[package]
        if isinstance(cause, OSError) and _NO_PROCESSES in str(cause):
            return "a second process"
        cause = cause.__cause__ or cause.__context__
    return ""


def _written_by_hand() -> bool:
    runtime = sys.modules.get("cutecourse.runtime")
    return runtime is not None and any(record.missing is not None for record in runtime.history())


def start(post: Callable[[str], None]) -> Kernel:
    """Make the page's kernel; `post` carries what a widget says to the page, as JSON."""
    widgets.connect(lambda message: post(json.dumps(message)))
    return Kernel()
