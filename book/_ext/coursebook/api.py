"""The `{api}` directive: the library's public names with their docstrings, from the library itself."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from tools import api_reference
from tools.api_reference import Entry

_MARK = "api"
"""In the metadata of the pages that have it."""


class ApiDirective(SphinxDirective):
    """A section for each public module, and in it each public name, folded."""

    def run(self) -> list[nodes.Node]:
        """Make the sections; docstrings stay as they are, because their columns are aligned."""
        self.env.metadata[self.env.docname][_MARK] = True
        return [_section(name) for name in api_reference.MODULES]


def _section(name: str) -> nodes.section:
    module = api_reference.module(name)
    title = f"cutecourse.{name}"
    section = nodes.section(ids=[nodes.make_id(title)], names=[title])
    section += nodes.title("", "", nodes.literal("", title))
    for paragraph in (module.__doc__ or "").strip().split("\n\n"):
        if re.search(r"^\s{2,}|>>>|\s{3,}", paragraph, re.MULTILINE):
            section += _verbatim(paragraph)
        else:
            section += nodes.paragraph("", "", *_with_code(paragraph))
    for entry in api_reference.entries(name):
        section += _details(entry, f"{title}.{entry.name}")
    return section


def _details(entry: Entry, anchor: str) -> nodes.container:
    first = entry.doc.split("\n")[0]
    head = f'<details id="{anchor}" class="cute-api"><summary>'
    place = nodes.container(classes=["cute-api-entry"])
    place += nodes.raw("", head, format="html")
    place += nodes.literal("", entry.name)
    if first:
        place += nodes.inline("", "", nodes.Text(" "), *_with_code(first))
    place += nodes.raw("", "</summary>", format="html")
    place += _code(entry.signature)
    rest = entry.doc.partition("\n")[2].strip("\n")
    if rest:
        place += _verbatim(rest)
    if entry.members:
        listed = nodes.definition_list()
        for member in entry.members:
            term = nodes.term("", "", nodes.literal("", member.signature))
            about = nodes.definition("", _verbatim(member.doc)) if member.doc else nodes.definition()
            listed += nodes.definition_list_item("", term, about)
        place += listed
    place += nodes.raw("", "</details>", format="html")
    return place


def _code(text: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language="python", force=True)


def _verbatim(text: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language="none")


def _with_code(text: str) -> list[nodes.Node]:
    """A sentence whose names in backticks are code."""
    parts = re.split(r"`+([^`]+)`+", text)
    return [nodes.literal("", part) if place % 2 else nodes.Text(part) for place, part in enumerate(parts)]


def setup(app: Sphinx) -> None:
    """Add the directive; its page is read anew on each build, since the library may have changed."""
    app.add_directive("api", ApiDirective)
    app.connect("env-get-outdated", _outdated)


def _outdated(app: Sphinx, env: BuildEnvironment, *_: object) -> list[str]:
    """The pages that had the reference at the last build, and are still there."""
    return [page for page in env.found_docs if _MARK in env.metadata.get(page, {})]
