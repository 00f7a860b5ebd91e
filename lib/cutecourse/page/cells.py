"""Which cells of a page have to run before another one, and which ones another one's change reaches."""

from __future__ import annotations

import ast
import json
import re
import symtable
from collections.abc import Sequence


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


def cells_using(sources: Sequence[str], number: int, before: str = "") -> list[int]:
    """The cells below cell `number` that use a name it binds, directly or through each other, in order.

    before   the cell's text before a change: a name that it no longer binds counts as well.
    """
    changed = _names(sources[number])[0] | _names(before)[0]
    found = []
    for index in range(number + 1, len(sources)):
        binds, uses = _names(sources[index])
        if uses & changed:
            found.append(index)
            changed |= binds
        else:
            changed -= binds
    return found


def cells_using_as_json(sources: str, number: int, before: str) -> str:
    """`cells_using` for JavaScript."""
    return json.dumps(cells_using(json.loads(sources), number, before))


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
        uses |= (_globals(table) - _counted(statement) | _changed(statement)) - binds
        binds |= {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    return binds, uses


def _globals(table: symtable.SymbolTable) -> set[str]:
    """The names of the cell's own namespace that a statement uses, inside of its functions too."""
    outermost = table.get_type() == "module"
    own = {one.get_name() for one in table.get_symbols() if one.is_referenced()}
    if not outermost:
        own = {name for name in own if table.lookup(name).is_global()}
    return own.union(*map(_globals, table.get_children()))


def _counted(statement: ast.stmt) -> set[str]:
    """The names that a loop binds before its body uses them."""
    if not isinstance(statement, ast.For):
        return set()
    targets = {node.id for node in ast.walk(statement.target) if isinstance(node, ast.Name)}
    return targets - {node.id for node in ast.walk(statement.iter) if isinstance(node, ast.Name)}


def _changed(statement: ast.stmt) -> set[str]:
    """The names that `+=` and its kin change; a symbol table has them as bound alone."""
    changes = [node.target for node in ast.walk(statement) if isinstance(node, ast.AugAssign)]
    return {target.id for target in changes if isinstance(target, ast.Name)}
