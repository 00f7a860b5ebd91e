"""The chapters' cheat sheets on one page, one printed page for each."""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from tools.paths import CHAPTERS, chapter_pages

PAGE = "cheat_sheets"
_SHEET = re.compile(
    r"^## (?:The card|Cheat sheet)\n(?P<text>.*?)(?=^## |^```\{|\Z)", re.MULTILINE | re.DOTALL
)
_FOLDED = re.compile(r"^(?P<fence>:{3,})\{dropdown\}.*?^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
_LABEL = re.compile(r"^\([\w-]+\)=\n", re.MULTILINE)
_LINK = re.compile(r"\]\((?P<path>[\w./-]*?)(?P<anchor>#[\w-]*)?\)")


def anchor_of(source: Path) -> str:
    """The anchor of a page's cheat sheet."""
    return f"sheet-{source.stem.partition('_')[0]}"


def sheet_of(source: Path) -> str:
    """The text of a chapter's cheat sheet without its folds and labels; links start from the book's folder.

    Errors: ExtensionError for a page without a cheat sheet.
    """
    found = _SHEET.search(source.read_text(encoding="utf-8"))
    if found is None:
        raise ExtensionError(f"{source.name} has no cheat sheet; it is the section `## Cheat sheet`")

    def moved(match: re.Match[str]) -> str:
        path, anchor = match["path"], match["anchor"] or ""
        if not path:
            path = f"{CHAPTERS.name}/{source.name}"
        elif path.startswith("../"):
            path = path.removeprefix("../")
        else:
            path = f"{CHAPTERS.name}/{path}"
        return f"]({path}{anchor})"

    return _LINK.sub(moved, _LABEL.sub("", _FOLDED.sub("", found["text"]))).strip("\n")


class CheatSheetsDirective(SphinxDirective):
    """`{cheat-sheets}`: the cheat sheet of every chapter's page, each in a section of its own."""

    def run(self) -> list[nodes.Node]:
        """Put the sheets into the page; it follows the chapters when they change."""
        sections: list[nodes.Node] = []
        for source in chapter_pages():
            self.env.note_dependency(str(source))
            title = re.search(r"^# +(.+)$", source.read_text(encoding="utf-8"), re.MULTILINE)
            assert title is not None
            section = nodes.section(ids=[anchor_of(source)], classes=["cute-sheet"])
            section += nodes.title(title[1], title[1])
            self.state.nested_parse(StringList(sheet_of(source).splitlines(), str(source)), 0, section)
            sections.append(section)
        return sections


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("cheat-sheets", CheatSheetsDirective)
