"""The `{minutes}` directive: how long a page takes, or with `all` every chapter, counted from the pages."""

from __future__ import annotations

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from cutecourse.errors import CourseError
from tools import minutes
from tools.paths import BOOK, chapter_pages, notebook_sources


class MinutesDirective(SphinxDirective):
    """`{minutes}`: this page's minutes in a sentence. `{minutes} all`: a table of the chapters."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Put the sentence or the table into the page as Markdown, so that its links are checked."""
        every = self.arguments == ["all"]
        page = BOOK / f"{self.env.docname}.md"
        if not every and (self.arguments or page not in notebook_sources()):
            raise ExtensionError(
                f"{self.get_location()}: {{minutes}} stands on a page with cells, or takes 'all'"
            )
        for source in chapter_pages() if every else [page]:
            for file in minutes.files_of(source):
                self.env.note_dependency(str(file))
        try:
            text = minutes.table() if every else minutes.sentence(page)
        except CourseError as error:
            raise ExtensionError(str(error)) from error
        container = nodes.container(classes=["cute-minutes"])
        lines = StringList(text.splitlines(), self.env.docname)
        self.state.nested_parse(lines, self.content_offset, container)
        for table in container.findall(nodes.table):
            table["classes"].append("cute-chapters")  # where `desk.js` puts what is done
        return container.children


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("minutes", MinutesDirective)
