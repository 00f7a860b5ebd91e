"""The `{emulator}` directive: what the emulator knows, and how it was verified, from its registry."""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from cutecourse.errors import CourseError
from tools import emulator_coverage

_MARK = "emulator"
"""In the metadata of the pages that have a part."""


class EmulatorDirective(SphinxDirective):
    """One part of what is known: a key of `tools.emulator_coverage.PARTS`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Put the part into the page as Markdown that is parsed there."""
        part = directives.choice(self.arguments[0], tuple(emulator_coverage.PARTS))
        try:
            text = emulator_coverage.markdown(part)
        except CourseError as error:
            raise ExtensionError(str(error)) from error
        self.env.metadata[self.env.docname][_MARK] = True
        container = nodes.container(classes=["cute-scroll"], ids=[f"emulator-{part}"])
        self.state.nested_parse(
            StringList(text.splitlines(), self.env.docname), self.content_offset, container
        )
        for table in container.findall(nodes.table):
            table["classes"] += ["cute-emulator"]
        return [container]


def setup(app: Sphinx) -> None:
    """Add the directive; its pages are read anew on each build, since cases may come and go."""
    app.add_directive("emulator", EmulatorDirective)
    app.connect("env-get-outdated", _outdated)


def _outdated(app: Sphinx, env: BuildEnvironment, *_: object) -> list[str]:
    """The pages that had a part at the last build, and are still there."""
    return [page for page in env.found_docs if _MARK in env.metadata.get(page, {})]
