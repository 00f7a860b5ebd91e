"""The review deck: the book's predictions as cards, on the one page that asks them again."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from coursebook.desk import chapter_docname
from tools.answers import answers_in
from tools.notebooks import code_cells
from tools.paths import chapter_pages
from tools.recordings import read_recording

PAGE = "review"


def cards(source: Path) -> list[dict[str, Any]]:
    """A chapter's predictions: `key`, `question`, `options` (none for a typed answer), `value` and `place`.

    `place` is the address of the answer from the book's folder.
    """
    cells = code_cells(read_recording(source))
    found = []
    for answer in answers_in(source):
        shown = [
            call
            for cell in cells[answer.asks : answer.last + 1]
            for call in map(_call, _texts(cell.outputs))
            if call
        ]
        asked = next(
            (one for one in shown if one["name"] == "Predict" and one["args"][0] == answer.key), None
        )
        told = next((one for one in shown if one["name"] == "Reveal" and one["args"][0] == answer.key), None)
        if asked is None or told is None:
            continue
        name = re.sub(r"[^\w-]", "-", answer.key)
        found.append(
            {
                "key": answer.key,
                "question": asked["args"][1],
                "options": asked["options"],
                "value": told["args"][1],
                "place": f"{chapter_docname(source)}.html#answer-{name}",
            }
        )
    return found


def _texts(outputs: list[Any]) -> list[str]:
    return [output.get("data", {}).get("text/plain", "") for output in outputs]


def _call(text: str) -> dict[str, Any] | None:
    """A widget's text, `Predict('key', 'question', options=[...])`, as its name, arguments and options."""
    if not text.startswith(("Predict(", "Reveal(")):
        return None
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    options: list[str] = next(
        (ast.literal_eval(one.value) for one in call.keywords if one.arg == "options"), []
    )
    return {"name": call.func.id, "args": [ast.literal_eval(one) for one in call.args], "options": options}


class ReviewDirective(SphinxDirective):
    """`{review}`: the place of the deck; without JavaScript it says that it needs some."""

    def run(self) -> list[nodes.Node]:
        """Put the place into the page."""
        for source in chapter_pages():
            self.env.note_dependency(str(source))
        words = "The deck needs JavaScript."
        return [nodes.container("", nodes.paragraph(words, words), classes=["cute-review"])]


def add_deck(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give the page its script and the cards."""
    if doctree is None or pagename != PAGE:
        return
    app.add_js_file("review.js", loading_method="defer")
    titles = app.env.titles
    deck = [
        {**card, "title": titles[chapter_docname(source)].astext()}
        for source in chapter_pages()
        for card in cards(source)
    ]
    text = json.dumps(deck).replace("</", "<\\/")  # nothing in it ends the script
    context["body"] += f'<script type="application/json" id="cute-cards">{text}</script>\n'


def setup(app: Sphinx) -> None:
    """Add the directive, and connect to Sphinx's event."""
    app.add_directive("review", ReviewDirective)
    app.connect("html-page-context", add_deck)
