"""The map of the documents that the course started from: complete, and every place in it is there."""

from __future__ import annotations

import hashlib
import importlib
import re
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from myst_parser.mdit_to_docutils.base import default_slugify

from cutecourse.emulator.core.registry import supported_instructions
from support.pages import parse
from tools import errata
from tools.paths import BOOK, CHAPTERS
from tools.source_documents import MAP, BadMap, Map, anchor_of, load, markdown

# How many headings and tables each document has, and the hash of its headings' lines, levels and titles. The
# documents are not part of the course; this was taken from them, so that no heading is lost from the map.
WHAT_THERE_IS = {
    "host-functions": (54, "fd3943e19d0f56c0", [221, 757]),
    "tma-partition": (8, "15232093a86eb286", []),
    "hello-mma": (10, "8eef397ef653bf98", [25, 316, 386, 396, 422]),
    "tma-trace": (12, "425a4d61ba1751d5", []),
    "device-functions": (78, "614e9bd6ea28e3c2", [1120]),
}


@pytest.fixture(scope="module")
def the_map() -> Map:
    return load()


@pytest.mark.parametrize("key", WHAT_THERE_IS)
def test_map__has_every_heading_and_table(the_map: Map, key: str) -> None:
    covered = the_map.document(key)
    text = "".join(f"{h.line} {h.level} {h.title}\n" for h in covered.headings)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert (len(covered.headings), digest, [t.line for t in covered.tables]) == WHAT_THERE_IS[key]


def test_map__has_every_document_of_the_errata(the_map: Map) -> None:
    assert {covered.document.key for covered in the_map.documents} == set(WHAT_THERE_IS)
    assert set(errata.documents()) == set(WHAT_THERE_IS)


def test_headings_without_a_section__only_lead_through_the_document(the_map: Map) -> None:
    without = {h.title for covered in the_map.documents for h in covered.headings if not h.places}
    assert without == {"Table of Contents", "Next Steps"}


def test_every_erratum__is_under_a_heading(the_map: Map) -> None:
    entries = errata.load()
    named = {
        name
        for covered in the_map.documents
        for heading in covered.headings
        for name in covered.errata_of(heading, entries)
    }
    assert {entry.id for entry in entries} - named == set()


def test_errata_of__takes_the_lines_up_to_the_next_heading(the_map: Map) -> None:
    covered = the_map.document("host-functions")
    by_line = {heading.line: heading for heading in covered.headings}
    entries = errata.load()
    assert "E06-1" in covered.errata_of(by_line[485], entries)  # line 491
    assert "E06-1" not in covered.errata_of(by_line[466], entries)


def test_anchors__are_those_that_the_book_has() -> None:
    titles = [
        title
        for page in CHAPTERS.glob("*.md")
        for title in re.findall(r"^#{2,3} +(.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(titles) > 50
    assert [anchor_of(t) for t in titles] == [default_slugify(t.replace("`", "")) for t in titles]


def _changed(tmp_path: Path, change: dict[str, Any]) -> Path:
    """The map with the first document's first heading changed."""
    data = yaml.safe_load(MAP.read_text(encoding="utf-8"))
    key = next(iter(data["documents"]))
    heading = data["documents"][key]["headings"][0]
    for field, value in change.items():
        if value is None:
            del heading[field]
        else:
            heading[field] = value
    path = tmp_path / "source_documents.yml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"to": ["06a_tma_descriptor#no-such-section"]}, "has no section #no-such-section"),
        ({"to": ["05_nowhere#the-swizzle"]}, "no chapter '05_nowhere'"),
        ({"to": []}, "no section covers it"),
        ({"to": None}, "say `to`, or `navigation: true`"),
        ({"navigation": True}, "and not both"),
        ({"line": 5}, "not in the order"),
    ],
)
def test_load__refuses(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadMap, match=re.escape(message)):
        load(_changed(tmp_path, change))


def test_load__refuses_another_set_of_documents(tmp_path: Path) -> None:
    data = yaml.safe_load(MAP.read_text(encoding="utf-8"))
    del data["documents"]["tma-trace"]
    path = tmp_path / "source_documents.yml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    with pytest.raises(BadMap, match="has the documents"):
        load(path)


def test_markdown__refuses_an_unknown_document(the_map: Map) -> None:
    with pytest.raises(BadMap, match="no document 'none'"):
        markdown(the_map, "none")


def _is_there(path: str) -> bool:
    """Whether a dotted name can be imported, or is an attribute of what can."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for name in parts[length:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def test_functions__are_in_the_dsl_and_in_the_library(the_map: Map) -> None:
    names = [f"cutlass.{name}" for function in the_map.functions for name in function.dsl]
    names += [f"cutecourse.{function.ours}" for function in the_map.functions if function.ours]
    assert len(names) > 50
    assert [name for name in names if not _is_there(name)] == []


def test_functions__are_in_cutlass(the_map: Map) -> None:
    headers = [
        Path(str(found.locate())).read_text(encoding="utf-8", errors="replace")
        for found in files("nvidia-cutlass") or ()
        if re.search(r"include/(cute/.*|cutlass/arch/barrier)\.(hpp|h)$", str(found))
    ]
    words = {word for text in headers for word in re.findall(r"\w+", text)}
    assert {function.cpp for function in the_map.functions} - words == set()


def _section(page: str, anchor: str) -> str:
    """The text of a section: from its heading to the next of the same level or a higher one."""
    text = (CHAPTERS / f"{page}.md").read_text(encoding="utf-8")
    heads = [
        (at.start(), len(at[1]), anchor_of(at[2])) for at in re.finditer(r"^(#+) +(.+)$", text, re.MULTILINE)
    ]
    ((start, level),) = [(start, level) for start, level, one in heads if one == anchor]
    end = next((at for at, deep, _ in heads if at > start and deep <= level), len(text))
    return text[start:end]


def test_functions__are_named_in_the_section_that_covers_them(the_map: Map) -> None:
    unnamed = []
    for function in the_map.functions:
        names = {name.rpartition(".")[2] for name in (function.cpp, *function.dsl, function.ours) if name}
        words = set(re.findall(r"\w+", _section(function.place.page, function.place.anchor)))
        if not names & words:
            unnamed.append(function.cpp)
    assert unnamed == []


def test_functions__name_instructions_that_the_emulator_knows(the_map: Map) -> None:
    known = {info.name for info in supported_instructions()}
    named = {name for function in the_map.functions for name in function.ptx}
    assert len(named) > 10
    assert {name for name in named if not any(name.startswith(one) for one in known)} == set()


def test_page__shows_the_whole_map(book: Path, the_map: Map) -> None:
    page = parse(book / "source_documents.html")
    source = (BOOK / "source_documents.md").read_text(encoding="utf-8")
    wanted = [covered.document.key for covered in the_map.documents] + ["functions", "tables"]
    assert sorted(re.findall(r"\{source-documents\} (\S+)", source)) == sorted(wanted)
    rows = page.select(".cute-source-documents tbody tr")
    expected = sum(len(covered.headings) + len(covered.tables) for covered in the_map.documents)
    assert len(rows) == expected + len(the_map.functions)
