"""The `{errata}` directive: entries by their ids, all entries about a document by its key, or the filter."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from cutecourse.errors import CourseError
from tools import errata

_NAMED = "cute-errata-named"
"""In the build's notes on a page: the ids that it named so far."""


class ErrataDirective(SphinxDirective):
    """Show errata; each cell that shows one is a link, and a missing label a warning of the build."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Put the entries into the page as Markdown that is parsed there.

        On the errata page each entry is a place to link to; another page links there.
        """
        for path in (errata.ERRATA, errata.SOURCE_DOCUMENTS):
            self.env.note_dependency(str(path))
        what = " ".join(self.arguments[0].split())
        if what == errata.FILTER:
            return [nodes.container(classes=["cute-errata-filter"])]
        try:
            entries, known = errata.load(), errata.documents()
            if what in known:
                return [self._document(known[what], errata.of_document(entries, what))]
            return [self._named(errata.named(entries, what))]
        except CourseError as error:
            raise ExtensionError(f"{self.get_location()}: {error}") from error

    def _document(self, document: errata.Document, entries: list[errata.Erratum]) -> nodes.Node:
        container = nodes.container(classes=["cute-errata", f"cute-errata-of-{document.key}"])
        labels = self.env.get_domain("std").data["anonlabels"]
        for entry in entries:
            keys = dict.fromkeys(f"cute-document-{place.document.key}" for place in entry.places)
            classes = ["cute-erratum", f"cute-chapter-{entry.chapter}", *keys]
            part = nodes.container(classes=classes, ids=[entry.id.lower()])
            self._parse(errata.markdown(entry, links=True), part)
            container += part
            labels[errata.label(entry)] = (self.env.docname, entry.id.lower())
        return container

    def _named(self, entries: list[errata.Erratum]) -> nodes.Node:
        self._count(entries)
        container = nodes.container(classes=["cute-errata"])
        for entry in entries:
            part = nodes.container(classes=["cute-erratum"], ids=[entry.id.lower()])
            self._parse(errata.in_short(entry, links=True), part)
            container += part
        return container

    def _count(self, entries: list[errata.Erratum]) -> None:
        """Refuse the fourth erratum of a page, whatever directive names it."""
        named = self.env.temp_data.setdefault(_NAMED, [])
        named += [entry.id for entry in entries]
        if len(named) > errata.AT_MOST:
            raise ExtensionError(
                f"{self.get_location()}: the page names the errata {', '.join(named)}; "
                f"it may name {errata.AT_MOST}, those that its reader would make too"
            )

    def _parse(self, text: str, node: nodes.Element) -> None:
        self.state.nested_parse(StringList(text.splitlines(), str(errata.ERRATA)), self.content_offset, node)


def add_filter(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Load the filter's script where there is a filter."""
    if doctree is not None and any(
        "cute-errata-filter" in node["classes"] for node in doctree.findall(nodes.container)
    ):
        app.add_js_file("errata.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    """Add the directive, and the filter's script to its page."""
    app.add_directive("errata", ErrataDirective)
    app.connect("html-page-context", add_filter)
