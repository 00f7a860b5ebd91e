"""Run a page's cells as a notebook does; the built page calls this in the reader's browser.

The same functions say at build time what a recorded output is (`digest`), so that page and recording are
compared by one rule.
"""

from __future__ import annotations

import ast
import hashlib
import html
import io
import json
import linecache
import re
import symtable
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from typing import Any

from cutecourse.errors import CourseError, frames_of_others

Output = dict[str, Any]
"""An output as a notebook file has it: `output_type`, and `text`, `data` or `ename` and `evalue`."""

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_REPRS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "image/svg+xml": "_repr_svg_",
    "text/plain": "__repr__",
}
_CELL = "cell-"
"""How the names begin under which tracebacks quote cells."""
_MOST_QUOTED = 200_000
"""Characters of a source that tracebacks may quote."""
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]+(?=>)")
_BLOCK = re.compile(r"</?(?:details|div|h\d|li|p|pre|section|strong|summary|table|td|th|tr|ul)\b[^>]*>")
"""Tags that part words; the others stand inside of words, where code is coloured."""
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
        self.outputs += [{"output_type": "display_data", "data": bundle(value)} for value in values]

    def run(self, source: str) -> dict[str, Any]:
        """Run one cell.

        A cell that imports a package which no browser has goes on without that package, since most of a page
        may not need it. To use such a name is an error.

        Returns its outputs, their digest, what the browser lacks if that is why the cell failed (else ""),
        which imports were left out, and whether a kernel has run so far from PTX written by hand, because its
        compiler is not here.
        """
        self.outputs = []
        self._count += 1
        name = f"{_CELL}{self._count}"
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

    def run_as_json(self, source: str) -> str:
        """`run` for JavaScript."""
        return json.dumps(self.run(source))

    def receive_json(self, message: str) -> None:
        """Hand what the reader changed in a widget to that widget."""
        from cutecourse.widgets import page_widget

        page_widget.receive(json.loads(message))

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
                self.outputs.append({"output_type": "execute_result", "data": bundle(value)})

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
        package = self._absent.get(error.name) if isinstance(error, NameError) else None
        return DISTRIBUTIONS[package] if package else ""


def cells_needed(sources: Sequence[str], number: int) -> list[int]:
    """The cells above cell `number` that bind the names it uses, directly or through each other, in order."""
    _, wanted = _names(sources[number])
    found = []
    for index in reversed(range(number)):
        binds, uses = _names(sources[index])
        if binds & wanted:
            found.append(index)
            wanted |= uses
    return found[::-1]


def cells_needed_as_json(sources: str, number: int) -> str:
    """`cells_needed` for JavaScript."""
    return json.dumps(cells_needed(json.loads(sources), number))


def _names(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell binds, and those that it uses before it has bound them itself."""
    try:
        statements = ast.parse(source).body
        tables = [symtable.symtable(ast.unparse(one), "cell", "exec") for one in statements]
    except SyntaxError:
        words = set(re.findall(r"[^\W\d]\w*", source))
        return words, words
    binds: set[str] = set()
    uses: set[str] = set()
    for statement, table in zip(statements, tables, strict=True):
        uses |= (_globals(table) | _changed(statement)) - binds
        binds |= {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    return binds, uses


def _globals(table: symtable.SymbolTable) -> set[str]:
    """The names of the cell's own namespace that a statement uses, inside of its functions too."""
    outermost = table.get_type() == "module"
    own = {one.get_name() for one in table.get_symbols() if one.is_referenced()}
    if not outermost:
        own = {name for name in own if table.lookup(name).is_global()}
    return own.union(*map(_globals, table.get_children()))


def _changed(statement: ast.stmt) -> set[str]:
    """The names that `+=` and its kin change; a symbol table has them as bound alone."""
    changes = [node.target for node in ast.walk(statement) if isinstance(node, ast.AugAssign)]
    return {target.id for target in changes if isinstance(target, ast.Name)}


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


def bundle(value: Any) -> dict[str, Any]:
    """A value in each form that it can show itself in, by MIME type."""
    data: dict[str, Any] = {}
    if not isinstance(value, type):
        several = getattr(value, "_repr_mimebundle_", None)
        found = several() if several is not None else None
        if found is not None:
            data |= found[0] if isinstance(found, tuple) else found
        for mime, method in _REPRS.items():
            form = getattr(value, method, None)
            if mime not in data and form is not None and (made := form()) is not None:
                data[mime] = made
    return data or {"text/plain": repr(value)}


def error_output(error: BaseException) -> Output:
    """An error as a notebook shows it: the reader's lines and the message, without our own insides."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(_CELL):
        trace = trace.tb_next
    ours = isinstance(error, CourseError)
    told = traceback.TracebackException(type(error), error, frames_of_others(trace) if ours else trace)
    if ours:
        told.__cause__ = told.__context__ = None
    return {
        "output_type": "error",
        "ename": type(error).__name__,
        "evalue": str(error),
        "traceback": "".join(told.format()).rstrip("\n"),
    }


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


def digest(outputs: Iterable[Mapping[str, Any]]) -> str:
    """Twelve letters that are the same for outputs that say the same, recorded or live."""
    text = "\0".join(canonical(outputs))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def canonical(outputs: Iterable[Mapping[str, Any]]) -> list[str]:
    """What a cell says, a text for each output; streams that follow each other are one."""
    told: list[str] = []
    streaming = False
    for output in outputs:
        if output["output_type"] == "stream":
            if streaming:
                told[-1] += output["text"]
            else:
                told.append(output["text"])
            streaming = True
            continue
        streaming = False
        if output["output_type"] == "error":
            told.append(f"{output['ename']}: {output['evalue']}")
        else:
            told.append(_words(output["data"]))
    return [_ADDRESS.sub("0x0", text).strip() for text in told]


def _words(data: Mapping[str, Any]) -> str:
    """Reduce an output to what it says: a picture's shapes, the words of other HTML, or its text.

    The words alone, because a notebook colours code and a browser here does not.
    """
    page = data.get("text/html")
    if WIDGET_VIEW in data or page is None:
        return str(data.get("text/markdown") or data["text/plain"])
    if "<svg" in page:
        return page
    words = re.sub(r"<[^>]*>", "", _BLOCK.sub(" ", page))
    return " ".join(html.unescape(words).split())


def start(post: Callable[[str], None]) -> Kernel:
    """Make the page's kernel; `post` carries what a widget says to the page, as JSON."""
    from cutecourse.widgets import page_widget

    page_widget.connect(lambda message: post(json.dumps(message)))
    return Kernel()
