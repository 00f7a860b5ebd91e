"""Where the course covers the documents it started from: `source_documents.yml`, checked, as Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tools import errata
from tools.paths import CHAPTERS, AuthoringError, page_number, relative

MAP = errata.SOURCE_DOCUMENTS
NAVIGATION = "leads through the document"

_FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{2,3} +(.+?)[ \t]*$", re.MULTILINE)


class BadMap(AuthoringError):
    """The map of the documents lacks something, or names a page or a section that is not there."""


@dataclass(frozen=True)
class Place:
    """A section of a chapter: the chapter's slug, the heading's anchor and its text."""

    page: str
    anchor: str
    title: str

    def link(self) -> str:
        """The place as a link from a page of the book's own folder."""
        return f"[{page_number(Path(self.page))} · {self.title}](chapters/{self.page}.md#{self.anchor})"


@dataclass(frozen=True)
class Heading:
    """A heading of a document; it has no places where it only leads through the document."""

    line: int
    level: int
    title: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Table:
    """A table of a document: the line it starts at, what it is about in our words, and where that is."""

    line: int
    about: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Covered:
    """One document with its headings and tables, in its order."""

    document: errata.Document
    headings: tuple[Heading, ...]
    tables: tuple[Table, ...]

    def errata_of(self, heading: Heading, entries: Iterable[errata.Erratum]) -> list[str]:
        """The ids of the errata about what stands between a heading and the next one."""
        later = [other.line for other in self.headings if other.line > heading.line]
        stop = min(later, default=10**9)
        return [
            entry.id
            for entry in entries
            if any(
                place.document.key == self.document.key and first < stop and last >= heading.line
                for place in entry.places
                for first, last in place.spans()
            )
        ]


@dataclass(frozen=True)
class Function:
    """One function in C++, in the CuTe DSL and here, the instructions behind it, and where it is shown.

    `dsl` is under `cutlass`, `ours` under `cutecourse`; several names stand with commas, none is "".
    """

    cpp: str
    dsl: tuple[str, ...]
    ours: str
    ptx: tuple[str, ...]
    place: Place


@dataclass(frozen=True)
class Map:
    """The whole map."""

    documents: tuple[Covered, ...]
    functions: tuple[Function, ...]

    def document(self, key: str) -> Covered:
        """One document by its key in `errata.yml`. Errors: BadMap."""
        for covered in self.documents:
            if covered.document.key == key:
                return covered
        raise BadMap(f"there is no document {key!r}")


def anchor_of(title: str) -> str:
    """The anchor that MyST gives a heading.

    >>> anchor_of("`cta_group::2`, wherever it stands")
    'cta_group2-wherever-it-stands'
    """
    return re.sub(r"[^\w\u4e00-\u9fff\- ]", "", title.lower().replace(" ", "-"))


def load(path: Path = MAP) -> Map:
    """The map, complete.

    Errors: BadMap, for a document that is missing or unknown, a heading without a place, headings out of
    order, and a place that is not there.
    """
    data = errata.parsed(path)
    known = errata.documents()
    if set(data["documents"]) != set(known):
        raise BadMap(f"{relative(path)} has the documents {sorted(data['documents'])}, not {sorted(known)}")
    return Map(
        tuple(_covered(known[key], raw) for key, raw in data["documents"].items()),
        tuple(_function(raw) for raw in data["functions"]),
    )


def _covered(document: errata.Document, raw: dict[str, Any]) -> Covered:
    headings = tuple(_heading(document.key, entry) for entry in raw["headings"])
    lines = [heading.line for heading in headings]
    if lines != sorted(set(lines)):
        raise BadMap(f"{document.key}: the headings are not in the order of their lines")
    tables = []
    for entry in raw["tables"]:
        where = f"{document.key}, table at line {entry['line']}"
        tables.append(Table(int(entry["line"]), str(entry["about"]), _places(where, entry["to"])))
    return Covered(document, headings, tuple(tables))


def _heading(key: str, raw: dict[str, Any]) -> Heading:
    where = f"{key}, line {raw['line']} ({raw['title']})"
    if ("to" in raw) == bool(raw.get("navigation")):
        raise BadMap(f"{where}: say `to`, or `navigation: true`, and not both")
    places = () if "to" not in raw else _places(where, raw["to"])
    return Heading(int(raw["line"]), int(raw["level"]), str(raw["title"]), places)


def _function(raw: dict[str, Any]) -> Function:
    (place,) = _places(raw["cpp"], [raw["to"]])
    return Function(raw["cpp"], _names(raw["dsl"]), raw["ours"], _names(raw["ptx"]), place)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _places(where: str, targets: list[str]) -> tuple[Place, ...]:
    if not targets:
        raise BadMap(f"{where}: no section covers it")
    places = []
    for target in targets:
        page, _, anchor = target.partition("#")
        titles = _sections(page)
        if titles is None:
            raise BadMap(f"{where}: there is no chapter {page!r}")
        if anchor not in titles:
            raise BadMap(f"{where}: {page} has no section #{anchor}; it has {', '.join(titles)}")
        places.append(Place(page, anchor, titles[anchor]))
    return tuple(places)


@cache
def _sections(page: str) -> dict[str, str] | None:
    """The sections of a chapter by their anchors; the first of several with the same one, as in MyST."""
    path = CHAPTERS / f"{page}.md"
    if not path.is_file():
        return None
    text = _FENCED.sub("", path.read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    for title in _HEADING.findall(text):
        found.setdefault(anchor_of(title), title)
    return found


# ---- Markdown ----


def markdown(the_map: Map, what: str) -> str:
    """A table of the map: of a document's headings (by its key), of all `tables`, or of the `functions`."""
    if what == "functions":
        return _functions(the_map.functions)
    if what == "tables":
        return _tables(the_map.documents)
    return _headings(the_map.document(what))


def _headings(covered: Covered) -> str:
    entries = errata.load()
    rows = ["| line | heading | covered in | errata |", "| ---: | --- | --- | --- |"]
    for heading in covered.headings:
        title = heading.title.replace("|", "\\|")
        title = f"**{title}**" if heading.level < 3 else title
        where = "<br>".join(place.link() for place in heading.places) or NAVIGATION
        rows.append(
            f"| {heading.line} | {title} | {where} | {', '.join(covered.errata_of(heading, entries))} |"
        )
    return "\n".join(rows)


def _tables(documents: Iterable[Covered]) -> str:
    rows = ["| document, line | the table | covered in |", "| --- | --- | --- |"]
    for covered in documents:
        for table in covered.tables:
            where = "<br>".join(place.link() for place in table.places)
            rows.append(f"| {covered.document.title}, {table.line} | {table.about} | {where} |")
    return "\n".join(rows)


def _functions(functions: Iterable[Function]) -> str:
    rows = ["| CuTe C++ | CuTe DSL | here | PTX | shown in |", "| --- | --- | --- | --- | --- |"]
    for function in functions:
        dsl = [name.removeprefix("cute.nvgpu.") for name in function.dsl]
        cells = [_code([function.cpp]), _code(dsl), _code([function.ours]), _code(function.ptx)]
        rows.append(f"| {' | '.join(cells)} | {function.place.link()} |")
    return "\n".join(rows)


def _code(names: Iterable[str]) -> str:
    """Names as code that may break behind a dot or an underscore: five columns of them are wide."""
    parts = (re.sub(r"([._])(?=\w)", r"\1<wbr>", html.escape(name)) for name in names if name)
    return "<br>".join(f"<code>{part}</code>" for part in parts)
