"""Errata are data: incomplete ones are refused, and a page shows what the data says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.pages import parse
from tools import errata
from tools.errata import BadErratum, load, markdown, of_chapter
from tools.paths import CHAPTERS

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
    assert of_chapter([entry], CHAPTER) == of_chapter([entry], "all") == [entry]
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


def test_of_chapter__refuses_a_chapter_that_does_not_exist() -> None:
    with pytest.raises(BadErratum, match="no chapter '77_x'"):
        of_chapter([], "77_x")


def test_errata_page__shows_every_entry_and_each_chapter_its_own(book: Path) -> None:
    entries = load()
    everything = parse(book / "errata.html").get_text()
    pages = {chapter.stem: parse(chapter) for chapter in (book / "chapters").glob("[0-9][0-9]_*.html")}
    texts = {name: page.get_text() for name, page in pages.items()}
    shown = {name: page.select(".cute-errata") for name, page in pages.items()}
    for entry in entries:
        assert f"{entry.id} · {entry.document.title}" in everything
        assert f"{entry.id} ·" in texts[entry.chapter]
        (own,) = [link for link in shown[entry.chapter] if f"{entry.id} ·" in link.get_text()]
        hrefs = [str(link["href"]) for link in own.find_all("a")]
        assert all(any(href.endswith(f"#{cell}") for href in hrefs) for cell in entry.cells), entry.id
    for chapter in CHAPTERS.glob("[0-9][0-9]_*.md"):
        others = [entry.id for entry in entries if entry.chapter != chapter.stem]
        assert [identifier for identifier in others if f"{identifier} ·" in texts[chapter.stem]] == []


def test_errata_data__is_complete() -> None:
    assert len({entry.id for entry in load()}) == len(load(errata.ERRATA))


def test_cells__are_labels_of_the_entrys_own_chapter_and_of_no_other() -> None:
    pages: dict[str, list[str]] = {}
    for page in CHAPTERS.glob("*.md"):
        for label in re.findall(r"^\(([\w-]+)\)=$", page.read_text(encoding="utf-8"), re.MULTILINE):
            pages.setdefault(label, []).append(page.stem)
    assert len(pages) > 100
    assert {label: where for label, where in pages.items() if len(where) > 1} == {}
    wrong = [
        (entry.id, cell) for entry in load() for cell in entry.cells if pages.get(cell) != [entry.chapter]
    ]
    assert wrong == []
