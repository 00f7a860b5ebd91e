"""The errata as data: read `book/errata.yml`, refuse what is incomplete, and put it into Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.paths import BOOK, CHAPTERS, ROOT, AuthoringError, relative

ERRATA = BOOK / "errata.yml"
HOW_SURE = ("certain", "very likely", "likely")

_ID = re.compile(r"E(\d\d)-(\d+)")
_FIELDS = {
    "id",
    "chapter",
    "document",
    "lines",
    "claim",
    "right",
    "cells",
    "tests",
    "sure",
    "because",
    "easy_to_make",
}


class BadErratum(AuthoringError):
    """An entry of the errata that lacks something, or names something that is not there."""


@dataclass(frozen=True)
class Document:
    """A text that the course started from."""

    key: str
    title: str
    source: str


@dataclass(frozen=True)
class Erratum:
    """One statement that is wrong, what is right, and what shows it."""

    id: str
    chapter: str
    document: Document
    lines: str
    claim: str
    right: str
    cells: tuple[str, ...]
    tests: tuple[str, ...]
    sure: str
    because: str
    easy_to_make: str


def load(path: Path = ERRATA) -> list[Erratum]:
    """All entries, in the file's order.

    Errors: BadErratum, for a missing or unknown field, an unknown document or chapter, a test that is not
    there, an id that comes twice, or an entry that nothing shows.
    """
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    known = documents(path)
    entries = [_entry(raw, known) for raw in data["errata"] or []]
    ids = [entry.id for entry in entries]
    for identifier in ids:
        if ids.count(identifier) > 1:
            raise BadErratum(f"{relative(path)}: the id {identifier} comes twice")
    return entries


def documents(path: Path = ERRATA) -> dict[str, Document]:
    """The documents that the errata are about, by their keys."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {
        key: Document(key, entry["title"], entry["source"])
        for key, entry in (data["documents"] or {}).items()
    }


def _entry(raw: dict[str, Any], documents: dict[str, Document]) -> Erratum:
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
    if not (CHAPTERS / f"{raw['chapter']}.md").exists() or not raw["chapter"].startswith(match[1]):
        raise BadErratum(f"{name}: there is no chapter {raw['chapter']!r}, or the id is of another one")
    if raw["document"] not in documents:
        raise BadErratum(f"{name}: the document {raw['document']!r} is not among {sorted(documents)}")
    if raw["sure"] not in HOW_SURE:
        raise BadErratum(f"{name}: 'sure' is one of {', '.join(HOW_SURE)}, not {raw['sure']!r}")
    if not raw["cells"] and not raw["tests"]:
        raise BadErratum(f"{name}: neither a cell nor a test shows it")
    for test in raw["tests"]:
        _require_test(name, test)
    texts = {key: str(raw[key]).strip() for key in ("claim", "right", "because", "easy_to_make", "lines")}
    for key, text in texts.items():
        if not text:
            raise BadErratum(f"{name}: the field {key!r} is empty")
    return Erratum(
        id=name,
        chapter=raw["chapter"],
        document=documents[raw["document"]],
        cells=tuple(raw["cells"]),
        tests=tuple(raw["tests"]),
        sure=raw["sure"],
        **texts,
    )


def _require_test(name: str, test: str) -> None:
    file, _, function = test.partition("::")
    function = function.partition("[")[0].rpartition("::")[2]
    path = ROOT / file
    if not path.is_file() or not re.search(
        rf"^\s*def {re.escape(function)}\(", path.read_text("utf-8"), re.MULTILINE
    ):
        raise BadErratum(f"{name}: there is no test {test!r}")


def of_chapter(entries: list[Erratum], chapter: str) -> list[Erratum]:
    """The entries of a chapter, or all for "all". Errors: BadErratum for a chapter that does not exist."""
    if chapter == "all":
        return entries
    if not (CHAPTERS / f"{chapter}.md").exists():
        raise BadErratum(f"there is no chapter {chapter!r} to show the errata of")
    return [entry for entry in entries if entry.chapter == chapter]


def markdown(entry: Erratum, *, links: bool) -> str:
    """One entry as Markdown; a cell is a link to its label, or without `links` (in JupyterLab) only named."""
    shown = [f"the cell {{ref}}`{cell} <{cell}>`" if links else f"the cell {cell}" for cell in entry.cells]
    shown += [f"the test `{test}`" for test in entry.tests]
    facts = [
        ("It says", entry.claim),
        ("Right is", entry.right),
        ("Shown by", ", ".join(shown)),
        ("How sure", f"{entry.sure}: {entry.because}"),
        ("Easy to make, because", entry.easy_to_make),
    ]
    lines = [f"- **{name}:** {' '.join(text.split())}" for name, text in facts]
    lines_word = "line" if entry.lines.isdigit() else "lines"
    heading = f"**{entry.id}** · {entry.document.title}, {lines_word} {entry.lines} ({entry.document.source})"
    return "\n".join([heading, "", *lines])


NOTHING_WRONG = "Nothing of the material that this chapter started from was found to be wrong."


def section(chapter: str, *, links: bool) -> str:
    """All entries of a chapter (or "all") as Markdown."""
    entries = of_chapter(load(), chapter)
    return "\n\n".join(markdown(entry, links=links) for entry in entries) or NOTHING_WRONG
