"""The `{emulator}` directive: what the emulator knows, and how it was verified, from its registry."""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from cutecourse.errors import CourseError
from tools import emulator_coverage

PAGE = "emulator_coverage"


class EmulatorDirective(SphinxDirective):
    """One part of the page: a key of `tools.emulator_coverage.PARTS`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Put the part into the page as Markdown that is parsed there."""
        part = directives.choice(self.arguments[0], tuple(emulator_coverage.PARTS))
        try:
            text = emulator_coverage.markdown(part)
        except CourseError as error:
            raise ExtensionError(str(error)) from error
        container = nodes.container(classes=["cute-scroll"], ids=[f"emulator-{part}"])
        self.state.nested_parse(StringList(text.splitlines(), PAGE), self.content_offset, container)
        for table in container.findall(nodes.table):
            table["classes"] += ["cute-emulator"]
        return [container]


def setup(app: Sphinx) -> None:
    """Add the directive; the page is read anew on each build, since cases may come and go."""
    app.add_directive("emulator", EmulatorDirective)
    app.connect("env-get-outdated", lambda app, env, *_: [PAGE] if PAGE in env.found_docs else [])
