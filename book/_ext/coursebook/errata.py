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
        """Put the entries into the page as Markdown that is parsed there."""
        self.env.note_dependency(str(errata.ERRATA))
        try:
            text = errata.section(self.arguments[0], links=True)
        except CourseError as error:
            raise ExtensionError(str(error)) from error
        container = nodes.container(classes=["cute-errata"])
        self.state.nested_parse(
            StringList(text.splitlines(), str(errata.ERRATA)), self.content_offset, container
        )
        return [container]


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("errata", ErrataDirective)
