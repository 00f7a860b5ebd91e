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
    """`table`, or an exhibit's name and a key of `benchmarks.museum_table.PARTS`."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Put the part into the page as Markdown that is parsed there."""
        self.env.note_dependency(str(museum.RESULT))
        container = nodes.container(classes=["cute-museum"])
        self.state.nested_parse(
            StringList(self._text().splitlines(), self.env.docname), self.content_offset, container
        )
        if self.arguments == ["table"]:
            container["classes"].append("cute-scroll")
            for found in container.findall(nodes.table):
                found["classes"].append("cute-emulator")
        return [container]

    def _text(self) -> str:
        name, part = [*self.arguments, ""][:2]
        if self.arguments == ["table"]:
            return museum_table.markdown()
        if name not in exhibits() or part not in museum_table.PARTS:
            raise ExtensionError(
                f"{self.get_location()}: `{{museum}}` takes table, or the name of an exhibit and one of "
                f"{', '.join(museum_table.PARTS)}"
            )
        for file in sorted(exhibits()[name].folder.iterdir()):
            self.env.note_dependency(str(file))
        return museum_table.PARTS[part](exhibits()[name])


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("museum", MuseumDirective)
