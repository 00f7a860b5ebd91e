"""Errata are data: incomplete ones are refused, and a page shows what the data says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.pages import parse
from tools import errata
from tools.errata import BadErratum, in_short, load, markdown, named, of_document, section
from tools.paths import BOOK, CHAPTERS, chapter_pages

GOOD: dict[str, Any] = {
    "id": "E01-1",
    "title": "Something",
    "places": [{"document": "post", "lines": "88-93"}, {"document": "host-functions", "lines": "20"}],
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
    documents = {
        "post": {"title": "A post", "source": "a blog, 2026"},
        "host-functions": {"title": "Notes", "source": "a repository"},
    }
    path.write_text(yaml.safe_dump({"documents": documents, "errata": list(entries)}), encoding="utf-8")
    return path


def test_load__reads_a_complete_entry(tmp_path: Path) -> None:
    (entry,) = load(_file(tmp_path, GOOD))
    assert entry.places[0].document.title == "A post"
    assert entry.chapter == "01"
    assert named([entry], "E01-1") == of_document([entry], "post") == [entry]
    assert of_document([entry], "host-functions") == []
    assert markdown(entry, links=True).splitlines() == [
        "**E01-1 · Something**",
        "",
        "- **Where:** lines 88-93; also Notes, line 20, under \u201cFunction Signature\u201d",
        "- **Claim:** It says this.",
        "- **Right:** That is right.",
        f"- **Shown by:** the cell {{ref}}`a-cell <a-cell>`, the test `{GOOD['tests'][0]}`",
        "- **How sure:** certain: computed",
        "- **Tempting because:** they look alike",
    ]
    assert "the cell a-cell, the test" in markdown(entry, links=False)


def test_of_document__takes_the_order_of_the_lines(tmp_path: Path) -> None:
    lines = {"E01-1": "100", "E01-2": "9-200", "E01-3": "20, 300"}
    entries = [
        GOOD | {"id": name, "places": [{"document": "post", "lines": where}]} for name, where in lines.items()
    ]
    ordered = of_document(load(_file(tmp_path, *entries)), "post")
    assert [entry.id for entry in ordered] == ["E01-2", "E01-3", "E01-1"]
    assert ordered[1].places[0].spans() == [(20, 20), (300, 300)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"right": ""}, "'right' is empty"),
        ({"id": "1"}, "is no id"),
        ({"id": "E77-1"}, "no chapter 77"),
        ({"title": ""}, "'title' is empty"),
        ({"places": []}, "no document is named"),
        ({"places": [{"document": "book", "lines": "1"}]}, r"not among \['host-functions', 'post'\]"),
        ({"places": [{"document": "post", "lines": "1 to 3"}]}, "'1 to 3' are no lines"),
        ({"places": [{"document": "post"}]}, "a place has a document and lines"),
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
        "**{ref}`E01-1 <erratum-e01-1>`** · Something",
        "",
        "- **Claim:** It says this.",
        "- **Right:** That is right.",
        "- **Tempting because:** they look alike",
    ]
    assert in_short(entry, links=False).startswith("**[E01-1](../errata.md)** · Something")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("77_x", "no erratum '77_x'"),
        ("E01-1, E01-1", "E01-1 is named twice"),
        ("E01-1, E77-1", "no erratum 'E77-1'"),
        ("E01-1, E01-2, E01-3, E01-4", "at most 3"),
    ],
)
def test_named__refuses_what_is_not_there_and_too_many(tmp_path: Path, what: str, message: str) -> None:
    entries = load(_file(tmp_path, *(GOOD | {"id": f"E01-{number}"} for number in range(1, 5))))
    assert [entry.id for entry in named(entries, "E01-3,E01-1")] == ["E01-3", "E01-1"]
    with pytest.raises(BadErratum, match=message):
        named(entries, what)


def test_section__shows_the_named_entries_only() -> None:
    first, second = load()[:2]
    text = section(f"{second.id}", links=False)
    assert second.id in text
    assert first.id not in text


def test_section__shows_a_document_s_entries_only() -> None:
    for key in errata.documents():
        shown = re.findall(r"^\*\*(E\d\d-\d+) ", section(key, links=False), re.MULTILINE)
        assert shown
        assert sorted(shown) == sorted(e.id for e in load() if e.places[0].document.key == key)


def test_errata_page__has_each_document_once() -> None:
    source = (BOOK / "errata.md").read_text(encoding="utf-8")
    asked = re.findall(r"^```\{errata\} (\S+)$", source, re.MULTILINE)
    assert sorted(asked) == sorted([errata.FILTER, *errata.documents()])


def test_errata_page__shows_every_entry_with_links_to_its_cells(book: Path) -> None:
    page = parse(book / "errata.html")
    for entry in load():
        (own,) = page.select(f"#{entry.id.lower()}")
        text = own.get_text().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")  # as the page sets it
        assert f"{entry.id} · {entry.title}" in text
        assert set(own["class"]) >= {f"cute-document-{place.document.key}" for place in entry.places}
        hrefs = [str(link["href"]) for link in own.find_all("a")]
        assert all(any(href.endswith(f"#{cell}") for href in hrefs) for cell in entry.cells), entry.id


@pytest.mark.browser
def test_filter__shows_what_matches_and_counts_it(page: Any, serve: Callable[..., Any], book: Path) -> None:
    every = len(load())
    with serve(book) as address:
        page.goto(f"{address}/errata.html")
        status = page.locator(".cute-errata-filter [role=status]")
        assert status.inner_text() == f"{every} of {every} errata"
        page.get_by_label("Words").focus()
        page.keyboard.type("e13-2")
        assert status.inner_text() == f"1 of {every} errata"
        assert page.locator(".cute-erratum:visible").count() == 1
        assert page.locator("#e13-2").is_visible()
        page.evaluate("location.hash = '#e02-1'")
        page.locator("#e02-1").wait_for(state="visible")
        assert status.inner_text() == f"{every} of {every} errata"
        page.get_by_label("Chapter").select_option("02")
        page.get_by_label("Document").select_option("hello-mma")
        expected = [e for e in load() if e.chapter == "02" and e.places[0].document.key == "hello-mma"]
        assert status.inner_text() == f"{len(expected)} of {every} errata"


def test_chapters__name_three_errata_at_most_and_link_each_to_the_errata_page(book: Path) -> None:
    for source in chapter_pages():
        asked = re.findall(r"^```\{errata\} *(E\d.*)$", source.read_text(encoding="utf-8"), re.MULTILINE)
        names = [name for what in asked for name in re.split(r",\s*", what.strip())]
        assert len(names) <= errata.AT_MOST, source.name
        page = parse(book / "chapters" / f"{source.stem}.html")
        links = {str(link["href"]) for link in page.select(".cute-erratum a")}
        assert {f"../errata.html#{name.lower()}" for name in names} <= links


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
