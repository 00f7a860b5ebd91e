"""The reader's desk: what each page has to do, and the way from a chapter to its exercises and on."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from coursebook import cheat_sheets
from coursebook.assets import generated_assets
from tools.answers import answers_in
from tools.exercises import exercises_in
from tools.paths import CHAPTERS, EXERCISE_PAGES, chapter_number, chapter_pages, exercise_sources

CHEAT_SHEET = ("cheat-sheet", "the-card")
"""The anchors that the heading of a cheat sheet may have."""
_AFTER_THEME = 950


def chapter_docname(source: Path) -> str:
    """A chapter's page as the build names it."""
    return f"{CHAPTERS.name}/{source.stem}"


def exercise_docname(source: Path) -> str:
    """A page of exercises as the build names it."""
    return f"{EXERCISE_PAGES.name}/{source.stem}"


def course_map() -> dict[str, dict[str, list[str]]]:
    """By page: `asks`, the keys of a chapter's predictions, or `solves`, the ids of a page's exercises."""
    chapters = {
        chapter_docname(source): {"asks": [found.key for found in answers_in(source)]}
        for source in chapter_pages()
    }
    exercises = {
        exercise_docname(source): {"solves": [*dict.fromkeys(found.id for found in exercises_in(source))]}
        for source in exercise_sources()
    }
    return {**chapters, **exercises}


def way() -> list[str]:
    """The chapters' pages and their exercises in the order in which a reader takes them."""
    chapters, exercises = chapter_pages(), {chapter_number(source): source for source in exercise_sources()}
    found = []
    for number in dict.fromkeys(chapter_number(source) for source in chapters):
        found += [chapter_docname(source) for source in chapters if chapter_number(source) == number]
        found += [exercise_docname(exercises[number])] if number in exercises else []
    return found


def add_map(app: Sphinx) -> None:
    """Write the script with the course's map, and load it and the desk on every page."""
    text = json.dumps(course_map(), separators=(",", ":"))
    (generated_assets(app) / "course_map.js").write_text(f"globalThis.cutecourseMap={text};\n", "utf-8")
    for script in ("course_map.js", "desk.js"):
        app.add_js_file(script, loading_method="defer")


def lead(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Lead from a chapter to its exercises and on to the next chapter, and link them below the title.

    Before the first page and behind the last one, the order of the contents stays.
    """
    order = way()
    if doctree is None or pagename not in order:
        return
    place = order.index(pagename)
    for side, neighbours in (("prev", order[:place][-1:]), ("next", order[place + 1 :][:1])):
        for name in neighbours:
            address = app.builder.get_relative_uri(pagename, name)
            context[side] = {"link": address, "title": _title(app, name)}
    context["body"] = _with_way(app, pagename, context["body"])


def _title(app: Sphinx, name: str) -> str:
    return html.escape(app.env.titles[name].astext())


def _with_way(app: Sphinx, pagename: str, body: str) -> str:
    """The page with a line of links below its title: to the rest of its chapter, and to the cheat sheet."""
    number = Path(pagename).name[:2]
    family = [name for name in way() if Path(name).name[:2] == number]
    links = [
        f'<a href="{app.builder.get_relative_uri(pagename, name)}">{_title(app, name)}</a>'
        for name in family
        if name != pagename
    ]
    for anchor in CHEAT_SHEET:
        if f'id="{anchor}"' in body:
            sheet = app.builder.get_relative_uri(pagename, cheat_sheets.PAGE)
            own = cheat_sheets.anchor_of(Path(pagename))
            links += [f'<a href="#{anchor}">Cheat sheet</a>', f'<a href="{sheet}#{own}">for print</a>']
    head, end, rest = body.partition("</h1>")
    if not end:
        raise ExtensionError(f"{pagename} has no title")
    return f'{head}{end}\n<nav class="cute-way" aria-label="This chapter">{" · ".join(links)}</nav>{rest}'


def setup(app: Sphinx) -> None:
    """Connect to Sphinx's events."""
    app.connect("builder-inited", add_map)
    app.connect("html-page-context", lead, priority=_AFTER_THEME)
