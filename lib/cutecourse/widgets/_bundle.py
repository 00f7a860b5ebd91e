"""Puts a widget's JavaScript together: one self-contained ES module and one stylesheet each.

The sources under `js/` are ordinary ES modules that import each other by relative path. A widget's code
travels as one string in its state (so that it lives on a page with no server), and there a relative path
leads nowhere; so the imported modules are written into the importing one. No bundler, no Node: the
rules are that an import stands on lines of its own, from `"./name.js"`, without renaming, that two modules
never give one name to two things, and that no text in backticks goes over a line's end. Comments and
indentation stay behind: every widget of a recorded notebook carries its code.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from cutecourse.palette import css_variables

HERE = Path(__file__).parent
_IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"\./([\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const|function|class|let)", re.MULTILINE)


def module(name: str) -> str:
    """The source of `js/name` with everything it imports written before it, each file once."""
    seen: set[str] = set()

    def gather(file: str, *, top: bool) -> str:
        if file in seen:
            return ""
        seen.add(file)
        text = (HERE / "js" / file).read_text(encoding="utf-8")
        imported = "".join(gather(found, top=False) for found in _IMPORT.findall(text))
        text = _IMPORT.sub("", text)
        return imported + (text if top else _EXPORT.sub("", text))

    return without_comments(gather(name, top=True))


def without_comments(text: str) -> str:
    """Drop a script's or stylesheet's indentation, blank lines, and comments that have lines of their own.

    No text in backticks may go over a line's end.
    """
    text = re.sub(r"^\s*/\*.*?\*/\n", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"


@functools.cache
def stylesheet() -> str:
    """The colours as CSS variables, then the rules that all widgets share, with few spaces between them."""
    rules = without_comments((HERE / "js" / "widgets.css").read_text(encoding="utf-8"))
    return css_variables() + re.sub(r"\s*([{};])\s*", r"\1", rules)
