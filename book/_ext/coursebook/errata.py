"""The `{errata}` directive: a chapter's errata, or with `all` every one, from `book/errata.yml`."""

from __future__ import annotations

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from cutecourse.errors import CourseError
from tools import errata


class ErrataDirective(SphinxDirective):
    """Show errata; each cell that shows one is a link, and a missing label a warning of the build."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Put the entries into the page as Markdown that is parsed there, each a place to link to."""
        self.env.note_dependency(str(errata.ERRATA))
        try:
            entries = errata.of_chapter(errata.load(), self.arguments[0])
        except CourseError as error:
            raise ExtensionError(str(error)) from error
        container = nodes.container(classes=["cute-errata"])
        for entry in entries:
            part = nodes.container(classes=["cute-erratum"], ids=[entry.id.lower()])
            self._parse(errata.markdown(entry, links=True), part)
            container += part
        if not entries:
            self._parse(errata.NOTHING_WRONG, container)
        return [container]

    def _parse(self, text: str, node: nodes.Element) -> None:
        self.state.nested_parse(StringList(text.splitlines(), str(errata.ERRATA)), self.content_offset, node)


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("errata", ErrataDirective)
