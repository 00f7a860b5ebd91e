"""The `{errata}` directive: a chapter's errata, or with `all` every one, from `book/errata.yml`."""

from __future__ import annotations

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

        On the page that shows them all, each is a place to link to; another page links there.
        """
        self.env.note_dependency(str(errata.ERRATA))
        what = " ".join(self.arguments[0].split())
        try:
            entries = errata.chosen(errata.load(), what)
        except CourseError as error:
            raise ExtensionError(f"{self.get_location()}: {error}") from error
        container = nodes.container(classes=["cute-errata"])
        in_short = errata.names_entries(what)
        if in_short:
            self._count(entries)
        for entry in entries:
            part = nodes.container(classes=["cute-erratum"], ids=[entry.id.lower()])
            self._parse((errata.in_short if in_short else errata.markdown)(entry, links=True), part)
            container += part
            if what == "all":
                labels = self.env.get_domain("std").data["anonlabels"]
                labels[errata.label(entry)] = (self.env.docname, entry.id.lower())
        if not entries:
            self._parse(errata.NOTHING_WRONG, container)
        return [container]

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


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("errata", ErrataDirective)
