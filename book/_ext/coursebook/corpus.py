"""The `{corpus}` directive: which public kernels run on the emulator, from the kept outcomes."""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from benchmarks.corpus import table
from benchmarks.results_file import result_path


class CorpusDirective(SphinxDirective):
    """One part of the outcomes: a key of `benchmarks.corpus.table.PARTS`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Put the part into the page as Markdown that is parsed there."""
        part = directives.choice(self.arguments[0], tuple(table.PARTS))
        self.env.note_dependency(str(result_path("corpus")))
        container = nodes.container(classes=["cute-scroll"], ids=[f"corpus-{part}"])
        lines = StringList(table.markdown(part).splitlines(), self.env.docname)
        self.state.nested_parse(lines, self.content_offset, container)
        for found in container.findall(nodes.table):
            found["classes"] += ["cute-emulator"]
        return [container]


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("corpus", CorpusDirective)
