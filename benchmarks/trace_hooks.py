"""The emulator's source with every hook of the trace taken out, for measuring what the hooks cost.

A hook asks whether somebody listens, `if machine.recorder is not None`, before it does anything. The rewrite
goes over the syntax tree of each module: it decides every such question as if nobody could ever listen and
folds what depends on it, so that the question is gone as well, and with it the calls that only gather what an
event would say.
"""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

__all__ = ["TakenOut", "without_hooks", "write_package"]

_GATHERERS = {"remember", "_remember"}
"""Functions that only tell the recorder; of each the call goes, and None stands for what it gave."""
_GATHERING_METHODS = {"tell"}
"""Methods that do. One of the same name as a function above is another thing: races remember accesses."""


class TakenOut(RuntimeError):
    """The rewrite left a hook in, or found none: the source is written in another way than it knows."""


class _Fold(ast.NodeTransformer):
    """Decides what nobody's listening decides; `count` says how many questions there were."""

    def __init__(self) -> None:
        self.count = 0

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        nobody = isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value is None
        if not nobody or len(node.ops) != 1 or not _is_recorder(node.left):
            return node
        self.count += 1
        return ast.copy_location(ast.Constant(isinstance(node.ops[0], ast.Is)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        neutral = isinstance(node.op, ast.And)
        if any(_decided(value) is (not neutral) for value in node.values):
            return ast.copy_location(ast.Constant(not neutral), node)
        left = [value for value in node.values if _decided(value) is None]
        if not left:
            return ast.copy_location(ast.Constant(neutral), node)
        node.values = left
        return left[0] if len(left) == 1 else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        decided = _decided(node.test)
        return node if decided is None else node.body if decided else node.orelse

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        decided = _decided(node.test)
        if decided is None:
            return node
        kept = node.body if decided else node.orelse
        return kept or ast.copy_location(ast.Pass(), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute):
            gathers = node.func.attr in _GATHERING_METHODS
        else:
            gathers = getattr(node.func, "id", "") in _GATHERERS
        if not gathers:
            return node
        self.count += 1
        return ast.copy_location(ast.Constant(None), node)


def _is_recorder(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == "recorder"


def _decided(node: ast.expr) -> bool | None:
    """What a test is known to be."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def without_hooks(source: str) -> tuple[str, int]:
    r"""A module's source without hooks, and how many were taken out.

    >>> without_hooks("def f(machine):\n    if machine.recorder is not None:\n        machine.emit()\n")
    ('def f(machine):\n    pass', 1)
    >>> without_hooks("told = gather() if bundle.machine.recorder is not None else []")
    ('told = []', 1)
    """
    fold = _Fold()
    tree = fold.visit(ast.parse(source))
    # What follows an answer that is always given is never reached, and costs nothing.
    return ast.unparse(ast.fix_missing_locations(tree)), fold.count


def write_package(source: Path, to: Path, *, hooks: bool) -> int:
    """Copy the package at `source` to the folder `to`, the emulator's modules without hooks.

    With `hooks` they are only read and written again, so that both copies have gone through the same hands.
    Returns how many hooks were taken out. Errors: TakenOut where there were none.
    """
    package = to / source.name
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    taken = 0
    for path in sorted((package / "emulator").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if hooks:
            written = ast.unparse(ast.parse(text))
        else:
            written, count = without_hooks(text)
            taken += count
        path.write_text(written + "\n", encoding="utf-8")
    if not hooks and taken < 30:
        raise TakenOut(f"{taken} hooks were found in {source / 'emulator'}: too few to be all of them")
    return taken
