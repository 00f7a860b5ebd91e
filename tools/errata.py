"""The errata as data: read `book/errata.yml`, refuse what is incomplete, and put it into Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from tools.paths import BOOK, ROOT, AuthoringError, chapter_number, chapter_pages, relative

ERRATA = BOOK / "errata.yml"
SOURCE_DOCUMENTS = BOOK / "source_documents.yml"
"""The map of the documents: it knows their headings."""

HOW_SURE = ("certain", "very likely", "likely")

AT_MOST = 3
"""How many errata a page names: those that its reader would make too."""

_LINES = re.compile(r"\d+(-\d+)?(, \d+(-\d+)?)*")
_ID = re.compile(r"E(\d\d)-(\d+)")
_FIELDS = {
    "id",
    "title",
    "places",
    "claim",
    "right",
    "cells",
    "tests",
    "sure",
    "because",
    "easy_to_make",
}


_TEXTS = ("title", "claim", "right", "because", "easy_to_make")


class BadErratum(AuthoringError):
    """An entry of the errata that lacks something, or names something that is not there."""


@dataclass(frozen=True)
class Document:
    """A text that the course started from."""

    key: str
    title: str
    source: str


@dataclass(frozen=True)
class Place:
    """Where a document makes a statement: its lines, such as "88-93, 97"."""

    document: Document
    lines: str

    def spans(self) -> list[tuple[int, int]]:
        """The first and last line of each group of lines."""
        found = re.findall(r"(\d+)(?:-(\d+))?", self.lines)
        return [(int(first), int(last or first)) for first, last in found]

    def words(self) -> str:
        """The lines as a page shows them, with the nearest heading above the first one."""
        word = "line" if self.lines.isdigit() else "lines"
        above = [title for line, title in _headings(self.document.key) if line <= self.spans()[0][0]]
        return f"{word} {self.lines}" + (f", under \u201c{above[-1]}\u201d" if above else "")


@dataclass(frozen=True)
class Erratum:
    """One statement that is wrong, what is right, and what shows it."""

    id: str
    title: str
    places: tuple[Place, ...]
    claim: str
    right: str
    cells: tuple[str, ...]
    tests: tuple[str, ...]
    sure: str
    because: str
    easy_to_make: str

    @property
    def chapter(self) -> str:
        """The number of the chapter that treats the matter, such as "07"."""
        return self.id[1:3]


@cache
def _headings(document: str) -> list[tuple[int, str]]:
    covered = parsed(SOURCE_DOCUMENTS)["documents"].get(document, {})
    return [(entry["line"], str(entry["title"])) for entry in covered.get("headings", [])]


def parsed(path: Path) -> Any:
    """A YAML file's contents, read once while it stays as it is: every page asks. Nobody changes them."""
    return _parsed(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _parsed(path: Path, _written: int) -> Any:
    # libyaml's reader, where PyYAML was built with it, takes a tenth of the time.
    return yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def load(path: Path = ERRATA) -> list[Erratum]:
    """All entries, in the file's order.

    Errors: BadErratum, for a missing or unknown field, an unknown document or chapter, a test that is not
    there, an id that comes twice, lines that are none, or an entry that nothing shows.
    """
    data = parsed(path)
    known = documents(path)
    chapters = {chapter_number(page) for page in chapter_pages()}
    entries = [_entry(raw, known, chapters) for raw in data["errata"] or []]
    ids = [entry.id for entry in entries]
    for identifier in ids:
        if ids.count(identifier) > 1:
            raise BadErratum(f"{relative(path)}: the id {identifier} comes twice")
    return entries


def documents(path: Path = ERRATA) -> dict[str, Document]:
    """The documents that the errata are about, by their keys."""
    data = parsed(path)
    return {
        key: Document(key, entry["title"], entry["source"])
        for key, entry in (data["documents"] or {}).items()
    }


def _entry(raw: dict[str, Any], documents: dict[str, Document], chapters: set[str]) -> Erratum:
    name = raw.get("id", "an entry without an id")
    raw = {"cells": [], "tests": [], **raw}
    if set(raw) != _FIELDS:
        missing, unknown = sorted(_FIELDS - set(raw)), sorted(set(raw) - _FIELDS)
        raise BadErratum(f"{name}: missing fields {missing}, unknown fields {unknown}")
    match = _ID.fullmatch(str(name))
    if match is None:
        raise BadErratum(
            f"{name!r} is no id: write E, the chapter's number, a hyphen and a number, as in E02-1"
        )
    if match[1] not in chapters:
        raise BadErratum(f"{name}: there is no chapter {match[1]}")
    places = tuple(_place(name, place, documents) for place in raw["places"])
    if not places:
        raise BadErratum(f"{name}: no document is named that says it")
    if raw["sure"] not in HOW_SURE:
        raise BadErratum(f"{name}: 'sure' is one of {', '.join(HOW_SURE)}, not {raw['sure']!r}")
    if not raw["cells"] and not raw["tests"]:
        raise BadErratum(f"{name}: neither a cell nor a test shows it")
    for test in raw["tests"]:
        _require_test(name, test)
    texts = {
        key: " ".join(str(raw[key]).split()) for key in ("title", "claim", "right", "because", "easy_to_make")
    }
    for key, text in texts.items():
        if not text:
            raise BadErratum(f"{name}: the field {key!r} is empty")
    return Erratum(
        id=name,
        places=places,
        cells=tuple(raw["cells"]),
        tests=tuple(raw["tests"]),
        sure=raw["sure"],
        **texts,
    )


def _place(name: str, raw: dict[str, Any], documents: dict[str, Document]) -> Place:
    if set(raw) != {"document", "lines"}:
        raise BadErratum(f"{name}: a place has a document and lines, not {sorted(raw)}")
    if raw["document"] not in documents:
        raise BadErratum(f"{name}: the document {raw['document']!r} is not among {sorted(documents)}")
    lines = str(raw["lines"])
    if not _LINES.fullmatch(lines):
        raise BadErratum(f"{name}: {lines!r} are no lines; write 88, 88-93 or 88-93, 97")
    return Place(documents[raw["document"]], lines)


def _require_test(name: str, test: str) -> None:
    file, _, function = test.partition("::")
    function = function.partition("[")[0].rpartition("::")[2]
    path = ROOT / file
    if not path.is_file() or not re.search(
        rf"^\s*def {re.escape(function)}\(", path.read_text("utf-8"), re.MULTILINE
    ):
        raise BadErratum(f"{name}: there is no test {test!r}")


def named(entries: list[Erratum], what: str) -> list[Erratum]:
    """The entries that a page names by their ids: "E13-1, E13-2", three at most.

    Errors: BadErratum for an id that does not exist or is named twice, or too many.
    """
    names = [name.strip() for name in what.split(",")]
    by_id = {entry.id: entry for entry in entries}
    for name in names:
        if name not in by_id:
            raise BadErratum(f"there is no erratum {name!r} in {relative(ERRATA)}")
        if names.count(name) > 1:
            raise BadErratum(f"the erratum {name} is named twice")
    if len(names) > AT_MOST:
        raise BadErratum(
            f"{len(names)} errata are named ({what}); a page names at most {AT_MOST}, "
            "those that its reader would make too"
        )
    return [by_id[name] for name in names]


def of_document(entries: Iterable[Erratum], key: str) -> list[Erratum]:
    """The entries whose first place is in a document, in the order of its lines."""
    own = [entry for entry in entries if entry.places[0].document.key == key]
    return sorted(own, key=lambda entry: entry.places[0].spans())


def label(entry: Erratum) -> str:
    """The label of an entry on the errata page."""
    return f"erratum-{entry.id.lower()}"


def markdown(entry: Erratum, *, links: bool) -> str:
    """One entry as Markdown; a cell is a link to its label, or without `links` (in JupyterLab) only named."""
    first, *others = entry.places
    where = [first.words()] + [f"{place.document.title}, {place.words()}" for place in others]
    shown = [f"the cell {{ref}}`{cell} <{cell}>`" if links else f"the cell {cell}" for cell in entry.cells]
    shown += [f"the test `{test}`" for test in entry.tests]
    facts = [
        ("Where", "; also ".join(where)),
        ("Claim", entry.claim),
        ("Right", entry.right),
        ("Shown by", ", ".join(shown)),
        ("How sure", f"{entry.sure}: {entry.because}"),
        ("Tempting because", entry.easy_to_make),
    ]
    heading = f"**{entry.id} \u00b7 {entry.title}**"
    return "\n".join([heading, "", *(f"- **{name}:** {text}" for name, text in facts)])


def in_short(entry: Erratum, *, links: bool) -> str:
    """What a chapter says of an entry: the claim, what is right, and why the mistake is easy to make."""
    name = f"{{ref}}`{entry.id} <{label(entry)}>`" if links else f"[{entry.id}](../errata.md)"
    facts = [
        ("Claim", entry.claim),
        ("Right", entry.right),
        ("Tempting because", entry.easy_to_make),
    ]
    lines = [f"- **{title}:** {text}" for title, text in facts]
    return "\n".join([f"**{name}** \u00b7 {entry.title}", "", *lines])


FILTER = "filter"
"""The argument of the directive that marks where the errata page has its filter."""


def section(what: str, *, links: bool) -> str:
    """What the directive shows, as Markdown: a document's entries (by its key), or those that are named."""
    if what == FILTER:
        return ""
    if what in documents():
        return "\n\n".join(markdown(entry, links=links) for entry in of_document(load(), what))
    return "\n\n".join(in_short(entry, links=links) for entry in named(load(), what))
