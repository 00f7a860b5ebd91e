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

AT_MOST = 3
"""How many errata a page names: those that its reader would make too."""

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


def chosen(entries: list[Erratum], what: str) -> list[Erratum]:
    """The entries that a page asks for: ids ("E13-1, E13-2", three at most), a chapter's, or "all".

    Errors: BadErratum for an id or a chapter that does not exist, an id named twice, or too many.
    """
    what = what.strip()
    if what == "all":
        return entries
    names = [name.strip() for name in what.split(",")]
    if not _ID.fullmatch(names[0]):
        if not (CHAPTERS / f"{what}.md").exists():
            raise BadErratum(f"there is no chapter {what!r} to show the errata of, and it is no erratum's id")
        return [entry for entry in entries if entry.chapter == what]
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


def names_entries(what: str) -> bool:
    """Whether a page asks for single entries, by their ids."""
    return _ID.match(what.strip()) is not None


def label(entry: Erratum) -> str:
    """The label of an entry on the errata page."""
    return f"erratum-{entry.id.lower()}"


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


def in_short(entry: Erratum, *, links: bool) -> str:
    """What a chapter says of an entry: the claim, what is right, and why the mistake is easy to make."""
    name = f"{{ref}}`{entry.id} <{label(entry)}>`" if links else f"[{entry.id}](../errata.md)"
    facts = [
        ("Claim", entry.claim),
        ("Right", entry.right),
        ("Tempting because", entry.easy_to_make),
    ]
    lines = [f"- **{title}:** {' '.join(text.split())}" for title, text in facts]
    return "\n".join([f"**{name}** · {entry.document.title}", "", *lines])


NOTHING_WRONG = "Nothing of the material that this chapter started from was found to be wrong."


def section(what: str, *, links: bool) -> str:
    """The entries that a page asks for, as Markdown."""
    show = in_short if names_entries(what) else markdown
    return "\n\n".join(show(entry, links=links) for entry in chosen(load(), what)) or NOTHING_WRONG
