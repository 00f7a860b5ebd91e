"""The `{source-documents}` directive: where the course covers the documents that it started from."""

from __future__ import annotations

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from cutecourse.errors import CourseError
from tools import errata, source_documents
from tools.paths import CHAPTERS


class SourceDocumentsDirective(SphinxDirective):
    """Show a table of the map: a document's headings (by its key), all `tables`, or the `functions`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Put the table into the page as Markdown that is parsed there, so that its links are checked."""
        for path in (source_documents.MAP, errata.ERRATA, *sorted(CHAPTERS.glob("*.md"))):
            self.env.note_dependency(str(path))
        try:
            text = source_documents.markdown(source_documents.load(), self.arguments[0])
        except CourseError as error:
            raise ExtensionError(str(error)) from error
        container = nodes.container(classes=["cute-source-documents"])
        lines = StringList(text.splitlines(), str(source_documents.MAP))
        self.state.nested_parse(lines, self.content_offset, container)
        return [container]


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("source-documents", SourceDocumentsDirective)
