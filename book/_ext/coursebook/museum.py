"""The `{museum}` directive: the table of who finds each bug, and the computed parts of an exhibit's story."""

from __future__ import annotations

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from benchmarks import museum, museum_table
from cutecourse.museum import exhibits


class MuseumDirective(SphinxDirective):
    """A key of `benchmarks.museum_table.TABLES`, or an exhibit's name and a key of its `PARTS`."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Put the part into the page as Markdown that is parsed there."""
        self.env.note_dependency(str(museum.RESULT))
        container = nodes.container(classes=["cute-museum"])
        self.state.nested_parse(
            StringList(self._text().splitlines(), self.env.docname), self.content_offset, container
        )
        if self.arguments[0] in museum_table.TABLES:
            container["classes"].append("cute-scroll")
            for found in container.findall(nodes.table):
                found["classes"].append("cute-emulator")
        return [container]

    def _text(self) -> str:
        name, part = [*self.arguments, ""][:2]
        if part == "" and name in museum_table.TABLES:
            return museum_table.TABLES[name]()
        if name not in exhibits() or part not in museum_table.PARTS:
            raise ExtensionError(
                f"{self.get_location()}: `{{museum}}` takes one of {', '.join(museum_table.TABLES)}, or an"
                f" exhibit's name and one of {', '.join(museum_table.PARTS)}"
            )
        for file in sorted(exhibits()[name].folder.iterdir()):
            self.env.note_dependency(str(file))
        return museum_table.PARTS[part](exhibits()[name])


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("museum", MuseumDirective)
