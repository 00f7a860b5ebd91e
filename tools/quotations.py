"""Quotations: cells that show the tree's own text, such as a kernel's source, and compute nothing else.

A recording does not hold what they show. It is put in whenever a recording is read, as the tree has it then.
So a comment in a kernel or the docstring of an instruction changes no recording.

A cell is a quotation if all that it shows comes from a function of `QUOTING`, and if its names lead back to
imports and to assignments of the same kind, also in the cells above.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import io
from collections.abc import Iterator, Sequence
from functools import lru_cache

from IPython.core.formatters import DisplayFormatter
from nbformat import NotebookNode
from nbformat.v4 import new_output

from tools.paths import AuthoringError

QUOTING = {
    "cutecourse.analysis": {"explain", "report"},
    "cutecourse.display": {
        "Source",
        "difference",
        "excerpt",
        "launch_source",
        "side_by_side",
        "source",
        "source_file",
    },
}
"""The functions that quote, by their modules."""
_HELPERS = ("cutecourse.kernels", "re", "textwrap")
"""Modules from which a quotation may use anything else: kernels, twins, changes of a text."""
_TEXT_METHODS = {
    "join",
    "partition",
    "removeprefix",
    "replace",
    "rstrip",
    "split",
    "splitlines",
    "strip",
}
_BUILTINS = {"print", "str"}
_REFUSED = (ast.Await, ast.GeneratorExp, ast.Lambda, ast.ListComp, ast.NamedExpr, ast.Yield, ast.YieldFrom)

Binding = ast.Import | ast.ImportFrom | ast.Assign


def quotations(codes: Sequence[str]) -> dict[int, str]:
    """Which of a page's code cells are quotations, by their numbers from 0: each as a program of its own."""
    names = _Names()
    found: dict[int, str] = {}
    for number, code in enumerate(codes):
        try:
            statements = ast.parse(code).body
        except SyntaxError:
            continue
        above = names.copy()
        for statement in statements:
            names.bind(statement)
        if _is_quotation(statements, above):
            needed = [ast.unparse(statement) for statement in above.needed(statements)]
            found[number] = "\n".join([*needed, code])
    return found


class BadQuotation(AuthoringError):
    """A quotation of something that the tree does not have."""


def outputs_of(program: str) -> list[NotebookNode]:
    """The outputs of a quotation, as its cell has them in Jupyter, without their count.

    Errors: BadQuotation.
    """
    try:
        return copy.deepcopy(_outputs_of(program))
    except Exception as error:
        raise BadQuotation(f"{type(error).__name__}: {error}") from error


@lru_cache(maxsize=1024)
def _outputs_of(program: str) -> list[NotebookNode]:
    statements = ast.parse(program).body
    last = statements[-1]
    value = None
    names: dict[str, object] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(statements[:-1], []), "<quotation>", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "<quotation>", "eval"), names)
        else:
            exec(compile(ast.Module(statements, []), "<quotation>", "exec"), names)
    outputs = []
    if printed.getvalue():
        outputs.append(new_output("stream", name="stdout", text=printed.getvalue()))
    if value is not None:
        data, metadata = DisplayFormatter().format(value)
        outputs.append(new_output("execute_result", data=data, metadata=metadata))
    return outputs


class _Names:
    """The names that a page's cells have bound so far, as far as a quotation can use them."""

    def __init__(self) -> None:
        self._bound: dict[str, list[Binding]] = {}
        self._opaque: set[str] = set()
        self._statements: list[Binding] = []

    def copy(self) -> _Names:
        """The same names, to go on from here in another way."""
        other = _Names()
        other._bound = {name: [*statements] for name, statements in self._bound.items()}
        other._opaque = {*self._opaque}
        other._statements = [*self._statements]
        return other

    def bind(self, statement: ast.stmt) -> None:
        """Take in a statement. A quotation can use imports of helpers and pure assignments, nothing else."""
        names = set(_names_bound(statement))
        if isinstance(statement, ast.Import | ast.ImportFrom) or self.is_pure_assignment(statement):
            assert isinstance(statement, Binding)
            self._statements.append(statement)
            for name in names:
                self._bound.setdefault(name, []).append(statement)
        else:
            self._opaque |= names

    def is_pure_assignment(self, statement: ast.stmt) -> bool:
        """Return whether a statement gives names to what quotations can use."""
        return (
            isinstance(statement, ast.Assign)
            and all(isinstance(target, ast.Name | ast.Tuple) for target in statement.targets)
            and self.is_pure(statement.value)
        )

    def is_pure(self, expression: ast.expr, own: frozenset[str] = frozenset()) -> bool:
        """Return whether an expression uses only helpers and quoting functions; `own` are a loop's names."""
        return all(self._allows(node, own) for node in ast.walk(expression))

    def quotes(self, expression: ast.expr) -> bool:
        """Return whether an expression calls a quoting function, or uses a name whose value came from one."""
        return any(
            (isinstance(statement, ast.ImportFrom) and node.id in QUOTING.get(statement.module or "", ()))
            or (isinstance(statement, ast.Assign) and self.quotes(statement.value))
            for node in ast.walk(expression)
            if isinstance(node, ast.Name)
            for statement in self._bound.get(node.id, [])
        )

    def needed(self, nodes: Sequence[ast.AST]) -> list[Binding]:
        """The statements that the names in some nodes come from, in order."""
        found: set[int] = set()
        waiting = list(nodes)
        while waiting:
            for node in ast.walk(waiting.pop()):
                for statement in self._bound.get(node.id, []) if isinstance(node, ast.Name) else []:
                    if id(statement) not in found:
                        found.add(id(statement))
                        waiting.append(statement)
        return [statement for statement in self._statements if id(statement) in found]

    def _allows(self, node: ast.AST, own: frozenset[str]) -> bool:
        if isinstance(node, ast.Name):
            return node.id in own or self._allows_name(node.id)
        if not isinstance(node, ast.Call):
            return not isinstance(node, _REFUSED)
        root = node.func
        if isinstance(root, ast.Attribute) and root.attr in _TEXT_METHODS:
            return True
        while isinstance(root, ast.Attribute):
            root = root.value
        return isinstance(root, ast.Name) and (
            root.id in _BUILTINS
            or any(isinstance(one, ast.Import | ast.ImportFrom) for one in self._bound.get(root.id, []))
        )

    def _allows_name(self, name: str) -> bool:
        if name in self._opaque:
            return False
        statements = self._bound.get(name)
        return name in _BUILTINS if statements is None else all(_is_helper(name, one) for one in statements)


def _is_quotation(statements: list[ast.stmt], above: _Names) -> bool:
    """Return whether a cell shows only quotations, and binds only what quotations can use."""
    names = above.copy()
    shows = False
    for statement in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.Assign):
            if isinstance(statement, ast.Assign) and not names.is_pure_assignment(statement):
                return False
            names.bind(statement)
            continue
        own: frozenset[str] = frozenset()
        shown: list[ast.stmt] = [statement]
        if isinstance(statement, ast.For):
            if not names.is_pure(statement.iter) or statement.orelse:
                return False
            own, shown = frozenset(_names_bound(statement)), statement.body
        for one in shown:
            if (
                not isinstance(one, ast.Expr)
                or not names.is_pure(one.value, own)
                or not names.quotes(one.value)
            ):
                return False
            if one is not statements[-1] and not _prints(one.value):
                return False
            shows = True
    return shows


def _prints(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print"


def _is_helper(name: str, statement: Binding) -> bool:
    if isinstance(statement, ast.Assign):
        return True
    if isinstance(statement, ast.Import):
        return all(
            alias.name in _HELPERS for alias in statement.names if (alias.asname or alias.name) == name
        )
    module = statement.module or ""
    return name in QUOTING.get(module, ()) or any(
        module == helper or module.startswith(f"{helper}.") for helper in _HELPERS
    )


def _names_bound(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name
