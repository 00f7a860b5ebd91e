"""The built pages: recorded outputs, links that lead somewhere, nothing from outside."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from cutecourse.kernels.spec import runs_on
from support.pages import parse
from tools.notebooks import code_cells, tags
from tools.paths import BOOK, RECORDED_ON, chapter_number, notebook_sources
from tools.recordings import machines, read_recording, read_stored, runs_in
from tools.tidy import WIDGET_STATE, WIDGET_VIEW

PAGES = notebook_sources()


def _page(book: Path, source: Path) -> Path:
    return (book / source.relative_to(BOOK)).with_suffix(".html")


def _words(text: str) -> str:
    return " ".join(text.split())


def _name(source: Path) -> str:
    return source.stem


def test_book__has_each_page_of_its_contents(book: Path) -> None:
    contents = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    files = [contents["root"], *(entry["file"] for part in contents["parts"] for entry in part["chapters"])]
    assert {source.relative_to(BOOK).with_suffix("").as_posix() for source in PAGES} <= set(files)
    assert [name for name in files if not (book / f"{name}.html").is_file()] == []


@pytest.mark.parametrize("source", PAGES, ids=_name)
def test_page__shows_every_recorded_text(book: Path, source: Path) -> None:
    shown = _words(parse(_page(book, source)).get_text())
    for number, cell in enumerate(code_cells(read_recording(source)), start=1):
        if tags(cell) & {"remove-output", "remove-cell"}:
            continue
        for output in cell.outputs:
            data = output.get("data", {})
            text = output.get("text") or (data["text/plain"] if set(data) == {"text/plain"} else "")
            assert _words(text) in shown, f"code cell {number}"


@pytest.mark.parametrize("source", PAGES, ids=_name)
def test_page__says_at_its_foot_where_its_kernels_ran(book: Path, source: Path) -> None:
    recording = read_stored(source)
    (note,) = parse(_page(book, source)).select(".cute-provenance")
    assert note.find_all_next("section") == []
    text = note.get_text()
    for run in runs_in(recording):
        assert run["kernel"] in text
        assert run["target"] in text
    for facts in machines(recording).values():
        for name in ("gpu", "driver", "date", "version", "python", "machine", "commit"):
            assert facts[name] in text
    assert ("the emulator" in text) == any(run["where"] == "emulator" for run in runs_in(recording))
    assert ("NVIDIA" in text) == bool(machines(recording))


@pytest.mark.parametrize("source", PAGES, ids=_name)
def test_page__says_above_its_first_picture_what_no_gpu_ran(book: Path, source: Path) -> None:
    emulated = [run for run in runs_in(read_stored(source)) if not runs_on(run["target"], RECORDED_ON)]
    said = parse(_page(book, source)).select("p.cute-emulated")
    assert len(said) == bool(emulated)
    for line in said:
        assert all(run["target"] in line.get_text() for run in emulated)
        assert line.find_previous("div", class_="cell") is None


@pytest.mark.parametrize("source", PAGES, ids=_name)
def test_page__opens_one_line_of_its_first_run_record_and_folds_the_others(book: Path, source: Path) -> None:
    lines = [s.get_text() for s in parse(_page(book, source)).select("details.cute-run > summary")]
    records = [cell for cell in code_cells(read_recording(source)) if "machine-dependent" in tags(cell)]
    assert len(lines) == len(records)
    assert all(" ran on " in line for line in lines[:1])
    assert {*lines[1:]} <= {"Where this ran"}


@pytest.mark.parametrize("source", PAGES, ids=_name)
def test_page__holds_each_widgets_state_and_figure(book: Path, source: Path) -> None:
    page = parse(_page(book, source))
    views = page.find_all("script", type=WIDGET_VIEW)
    recorded = [
        output
        for cell in code_cells(read_recording(source))
        for output in cell.outputs
        if WIDGET_VIEW in output.get("data", {})
    ]
    assert len(views) == len(recorded)
    assert len(page.select("figure.cute-static-figure img[alt]")) == len(recorded)
    assert len(page.find_all("script", type=WIDGET_STATE)) == (1 if recorded else 0)


def test_widget_code__is_in_the_site_once(book: Path) -> None:
    holders = [
        path for path in book.rglob("*") if path.is_file() and b"cc-widget cc-predict" in path.read_bytes()
    ]
    assert [path.name for path in holders] == ["widget_code.js"]


def test_pages__take_nothing_from_outside(book: Path) -> None:
    found = []
    for path in book.rglob("*.html"):
        page = parse(path)
        for element in page.find_all(
            ["script", "link", "img", "iframe", "source", "video", "audio", "object"]
        ):
            for attribute in ("src", "href", "data", "srcset"):
                address = str(element.get(attribute) or "")
                if address.startswith(("http:", "https:", "//")):
                    found.append(f"{path.name}: {address}")
        assert "thebe" not in " ".join(str(script.get("src")) for script in page.find_all("script")).lower()
        assert "mathjax" not in str(page.head).lower()
    for path in book.rglob("*.css"):
        found += [
            f"{path.name}: {match}"
            for match in re.findall(
                r"(?:url\(|@import)\s*[\"']?(https?://[^\"')]+)", path.read_text(encoding="utf-8")
            )
        ]
    assert found == []


def test_links__lead_to_pages_and_places_that_exist(book: Path) -> None:
    anchors: dict[Path, set[str]] = {}
    for path in book.rglob("*.html"):
        page = parse(path)
        anchors[path] = {str(element["id"]) for element in page.find_all(id=True)}
    broken, checked = [], 0
    for path in anchors:
        for link in parse(path).find_all("a", href=True):
            parts = urlsplit(str(link["href"]))
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            checked += 1
            # The state of a widget is no place; tests/widgets/test_share_page.py opens such links.
            known = None if parts.fragment.startswith("widget=") else anchors.get(target)
            if not target.exists() or (
                parts.fragment and known is not None and unquote(parts.fragment) not in known
            ):
                broken.append(f"{path.relative_to(book)}: {link['href']}")
    assert checked > 100
    assert sorted(set(broken)) == []


def test_pages__name_no_path_of_a_machine(book: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    assert [path.name for path in book.rglob("*.html") if root in path.read_text(encoding="utf-8")] == []


def test_status__lists_every_recording(book: Path) -> None:
    text = parse(book / "status.html").get_text()
    for source in PAGES:
        assert f"notebooks/{source.stem}.ipynb" in text


def test_status__names_the_families_that_no_gpu_ran(book: Path) -> None:
    (line,) = parse(book / "status.html").select("#emulator-unmet")
    assert "tcgen05" in line.get_text()
    assert "mma.sync" not in line.get_text()


def test_landing_page__leads_to_every_chapter_with_its_minutes(book: Path) -> None:
    page = parse(book / "intro.html")
    rows = {row.find("a")["href"]: row.get_text() for row in page.select("table tr") if row.find("a")}
    chapters = [source for source in PAGES if source.parent.name == "chapters"]
    # A chapter's exercises count on the last of its pages.
    last = {chapter_number(source): source for source in sorted(chapters)}
    for source in chapters:
        minutes = re.findall(r"\d+ min", _words(rows[f"chapters/{source.stem}.html"]))
        assert len(minutes) == (2 if source in last.values() else 1), source.stem
