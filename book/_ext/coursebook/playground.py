"""The playground for PTX: its script, its style, and its examples on the one page that has it."""

from __future__ import annotations

import json
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from coursebook.live import FOLDER
from cutecourse.playground.arguments import FILLS
from cutecourse.playground.examples import EXAMPLES
from cutecourse.playground.form import KINDS, LIMIT
from cutecourse.tma.encoding import SWIZZLES

PAGE = "playground_ptx"


def facts() -> dict[str, Any]:
    """What the script starts from: where Python's files lie, the fields of each kind, and the examples."""
    examples = [
        {"name": one.name, "title": one.title, "look": one.look, "broken": bool(one.ends), **one.state()}
        for one in EXAMPLES
    ]
    return {
        "folder": f"{FOLDER}/",
        "kinds": KINDS,
        "fills": FILLS,
        "swizzles": list(SWIZZLES),
        "limit": LIMIT,
        "examples": examples,
    }


def add_playground(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give the playground's page its script and the facts that the script starts from."""
    if doctree is None or pagename != PAGE:
        return
    app.add_js_file("run.js", loading_method="defer")
    app.add_css_file("run.css")
    app.add_js_file("playground.js", loading_method="defer")
    app.add_css_file("playground.css")
    text = json.dumps(facts()).replace("</", "<\\/")  # nothing in it ends the script
    context["body"] += f'<script type="application/json" id="cute-playground-facts">{text}</script>\n'


def setup(app: Sphinx) -> None:
    """Connect to Sphinx's events."""
    app.connect("html-page-context", add_playground)
