"""Tell an untouched skeleton from a wrong answer: a learner who has not begun needs another message."""

from __future__ import annotations

import ast
import inspect
import textwrap

from cutecourse.checks.result import Untouched

UNTOUCHED = "The gap is still open: replace the `...` with your answer, run the cell again, then check."


def refuse_untouched(answer: object) -> None:
    """Raise Untouched when an answer is a placeholder, or a function or kernel with `...` as a statement."""
    if answer is Ellipsis or answer is NotImplemented:
        raise Untouched(UNTOUCHED)
    if answer is None:
        raise Untouched(f"There is no answer yet: the value is None. {UNTOUCHED}")
    if isinstance(answer, (tuple, list, dict)):
        for item in answer.values() if isinstance(answer, dict) else answer:
            if item is Ellipsis or item is NotImplemented:
                raise Untouched(UNTOUCHED)
        return
    name = _function_with_gap(answer)
    if name is not None:
        raise Untouched(
            f"`{name}` still has a `...` in its body: replace it with your code, then check again."
        )


def _function_with_gap(answer: object) -> str | None:
    """The name of the function behind an answer (a kernel's, too) if `...` is one of its statements."""
    for candidate in (answer, getattr(answer, "kernel", None), getattr(answer, "host", None)):
        if not callable(candidate):
            continue
        function = inspect.unwrap(getattr(candidate, "py_func", candidate))
        if not inspect.isfunction(function):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, SyntaxError):
            continue
        if any(_is_gap(node) for node in ast.walk(tree)):
            return function.__name__
    return None


def _is_gap(node: ast.AST) -> bool:
    is_value = isinstance(node, (ast.Expr, ast.Assign, ast.Return))
    return is_value and isinstance(node.value, ast.Constant) and node.value.value is Ellipsis  # type: ignore[attr-defined]
