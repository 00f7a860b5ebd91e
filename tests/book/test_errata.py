"""Errata are data: incomplete ones are refused, and a page shows what the data says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.pages import parse
from tools import errata
from tools.errata import BadErratum, chosen, in_short, load, markdown, section
from tools.paths import BOOK, CHAPTERS, chapter_pages

CHAPTER = next(CHAPTERS.glob("01_*.md")).stem
GOOD: dict[str, Any] = {
    "id": "E01-1",
    "chapter": CHAPTER,
    "document": "post",
    "lines": "88-93",
    "claim": "It says\nthis.",
    "right": "That is right.",
    "cells": ["a-cell"],
    "tests": ["tests/book/test_errata.py::test_load__reads_a_complete_entry"],
    "sure": "certain",
    "because": "computed",
    "easy_to_make": "they look alike",
}


def _file(tmp_path: Path, *entries: dict[str, Any]) -> Path:
    path = tmp_path / "errata.yml"
    documents = {"post": {"title": "A post", "source": "a blog, 2026"}}
    path.write_text(yaml.safe_dump({"documents": documents, "errata": list(entries)}), encoding="utf-8")
    return path


def test_load__reads_a_complete_entry(tmp_path: Path) -> None:
    (entry,) = load(_file(tmp_path, GOOD))
    assert entry.document.title == "A post"
    assert chosen([entry], CHAPTER) == chosen([entry], "all") == chosen([entry], "E01-1") == [entry]
    assert markdown(entry, links=True).splitlines() == [
        "**E01-1** · A post, lines 88-93 (a blog, 2026)",
        "",
        "- **It says:** It says this.",
        "- **Right is:** That is right.",
        f"- **Shown by:** the cell {{ref}}`a-cell <a-cell>`, the test `{GOOD['tests'][0]}`",
        "- **How sure:** certain: computed",
        "- **Easy to make, because:** they look alike",
    ]
    assert "the cell a-cell, the test" in markdown(entry, links=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"right": ""}, "'right' is empty"),
        ({"id": "1"}, "is no id"),
        ({"id": "E02-1"}, "the id is of another one"),
        ({"chapter": "77_nothing"}, "no chapter '77_nothing'"),
        ({"document": "book"}, r"not among \['post'\]"),
        ({"sure": "perhaps"}, "'sure' is one of certain, very likely, likely"),
        ({"cells": [], "tests": []}, "neither a cell nor a test"),
        ({"tests": ["tests/book/test_errata.py::test_that_is_not_there"]}, "no test"),
        ({"tests": ["tests/nowhere.py::test_load"]}, "no test"),
        ({"sources": "x"}, r"unknown fields \['sources'\]"),
    ],
)
def test_load__refuses_an_incomplete_entry(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadErratum, match=message):
        load(_file(tmp_path, GOOD | change))


def test_load__refuses_a_missing_field_and_an_id_that_comes_twice(tmp_path: Path) -> None:
    with pytest.raises(BadErratum, match=r"missing fields \['sure'\]"):
        load(_file(tmp_path, {key: value for key, value in GOOD.items() if key != "sure"}))
    with pytest.raises(BadErratum, match="E01-1 comes twice"):
        load(_file(tmp_path, GOOD, GOOD))


def test_in_short__says_what_a_reader_needs_and_leads_to_the_errata_page(tmp_path: Path) -> None:
    (entry,) = load(_file(tmp_path, GOOD))
    assert in_short(entry, links=True).splitlines() == [
        "**{ref}`E01-1 <erratum-e01-1>`** · A post",
        "",
        "- **Claim:** It says this.",
        "- **Right:** That is right.",
        "- **Tempting because:** they look alike",
    ]
    assert in_short(entry, links=False).startswith("**[E01-1](../errata.md)** · A post")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("77_x", "no chapter '77_x'"),
        ("E01-1, E01-1", "E01-1 is named twice"),
        ("E01-1, E77-1", "no erratum 'E77-1'"),
        ("E01-1, E01-2, E01-3, E01-4", "at most 3"),
    ],
)
def test_chosen__refuses_what_is_not_there_and_too_many(tmp_path: Path, what: str, message: str) -> None:
    entries = load(_file(tmp_path, *(GOOD | {"id": f"E01-{number}"} for number in range(1, 5))))
    assert [entry.id for entry in chosen(entries, "E01-3,E01-1")] == ["E01-3", "E01-1"]
    with pytest.raises(BadErratum, match=message):
        chosen(entries, what)


def test_section__shows_the_named_entries_only() -> None:
    first, second = load()[:2]
    text = section(f"{second.id}", links=False)
    assert second.id in text
    assert first.id not in text


def test_errata_page__shows_every_entry_with_links_to_its_cells(book: Path) -> None:
    page = parse(book / "errata.html")
    for entry in load():
        (own,) = page.select(f"#{entry.id.lower()}")
        assert f"{entry.id} · {entry.document.title}" in own.get_text()
        hrefs = [str(link["href"]) for link in own.find_all("a")]
        assert all(any(href.endswith(f"#{cell}") for href in hrefs) for cell in entry.cells), entry.id


def test_chapters__name_three_errata_at_most_and_link_each_to_the_errata_page(book: Path) -> None:
    for source in chapter_pages():
        asked = re.findall(r"^```\{errata\} *(E\d.*)$", source.read_text(encoding="utf-8"), re.MULTILINE)
        named = [name for what in asked for name in re.split(r",\s*", what.strip())]
        assert len(named) <= errata.AT_MOST, source.name
        page = parse(book / "chapters" / f"{source.stem}.html")
        links = {str(link["href"]) for link in page.select(".cute-erratum a")}
        assert {f"../errata.html#{name.lower()}" for name in named} <= links


def test_errata_data__is_complete() -> None:
    assert len({entry.id for entry in load()}) == len(load(errata.ERRATA))


def test_cells__are_labels_of_one_page_each() -> None:
    pages: dict[str, list[str]] = {}
    for page in [*CHAPTERS.glob("*.md"), *BOOK.glob("*.md")]:
        for label in re.findall(r"^\(([\w-]+)\)=$", page.read_text(encoding="utf-8"), re.MULTILINE):
            pages.setdefault(label, []).append(page.stem)
    assert len(pages) > 100
    assert {label: where for label, where in pages.items() if len(where) > 1} == {}
    assert [(entry.id, cell) for entry in load() for cell in entry.cells if cell not in pages] == []
