"""Tell an untouched skeleton from a wrong answer: a learner who has not begun needs another message."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types

from cutecourse.checks.result import Untouched

UNTOUCHED = "Nothing is filled in yet: replace the `...` with your answer and run the cell again."


def refuse_untouched(answer: object) -> None:
    """Raise Untouched for a placeholder, and for a function, kernel or text with a `...` to fill in."""
    if answer is Ellipsis or answer is NotImplemented:
        raise Untouched(UNTOUCHED)
    if answer is None:
        raise Untouched("The value is None: replace the `...` with your answer and run the cell again.")
    if isinstance(answer, (tuple, list, dict)):
        for item in answer.values() if isinstance(answer, dict) else answer:
            if item is Ellipsis or item is NotImplemented:
                raise Untouched(UNTOUCHED)
        return
    text = answer if isinstance(answer, str) else getattr(answer, "ptx", None)
    if text is Ellipsis:
        raise Untouched(UNTOUCHED)
    if isinstance(text, str) and any(line.strip() == "..." for line in text.splitlines()):
        raise Untouched("The text still has a line `...`: replace it with your code and run the cell again.")
    name = _function_with_gap(answer)
    if name is not None:
        raise Untouched(
            f"`{name}` still has a `...` in its body: replace it with your code and run the cell again."
        )


def _function_with_gap(answer: object) -> str | None:
    """The name of the function behind an answer (a kernel's, too) if `...` is one of its statements."""
    host = getattr(answer, "host", None)
    for candidate in (answer, getattr(answer, "kernel", None), host, *_enclosed(host)):
        function = _plain_function(candidate)
        tree = _tree(function)
        if function is None or tree is None:
            continue
        # A kernel may be given and call the function that is to be written: one of the same notebook.
        called = [_plain_function(function.__globals__.get(name)) for name in _names(tree)]
        for one in (function, *called):
            if one is None or one.__module__ != function.__module__:
                continue
            body = _tree(one)
            if body is not None and any(_is_gap(node) for node in ast.walk(body)):
                return one.__name__
    return None


def _enclosed(candidate: object) -> list[object]:
    """The objects that a function was made with: its arguments, or what it has from the scope around it."""
    given = getattr(candidate, "arguments", None)
    if isinstance(given, tuple):
        return list(given)
    function = _plain_function(candidate)
    return [cell.cell_contents for cell in (function.__closure__ or ())] if function else []


def _plain_function(candidate: object) -> types.FunctionType | None:
    """The Python function behind a function, a kernel or a jitted function; None for anything else."""
    if not callable(candidate):
        return None
    function = inspect.unwrap(getattr(candidate, "py_func", candidate))
    return function if inspect.isfunction(function) else None


def _tree(function: types.FunctionType | None) -> ast.Module | None:
    if function is None:
        return None
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return None


def _names(tree: ast.AST) -> list[str]:
    return sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)})


def _is_gap(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return any(map(_is_dots, (*node.args, *(keyword.value for keyword in node.keywords))))
    return isinstance(node, (ast.Expr, ast.Assign, ast.Return)) and _is_dots(node.value)


def _is_dots(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis
