"""What the pages say of the emulator: each instruction is there, with the counts of the recordings."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from cutecourse.cli import emulate
from cutecourse.emulator import HAZARDS, launch
from cutecourse.emulator.core.registry import lookup, supported_instructions
from cutecourse.emulator.errors import UnsupportedInstruction
from cutecourse.emulator.launch import DEFAULT_BUDGET
from support.pages import parse
from tools import emulator_coverage
from tools.cases import ptx_cases
from tools.emulator_coverage import PARTS, TESTS, BadCoverage, Coverage, markdown, measure
from tools.paths import BOOK, RECORDED_TARGET

NAMES = {info.name for info in supported_instructions()}
COMPARED = 1  # the column, behind the name
VIDEO = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset", "vset2", "vset4")
TEXTURES = ("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep")
OTHERS = ("multimem", "mma.sp", "mma.sp::ordered_metadata", "alloca", "stacksave", "stackrestore")
REFUSED = {
    "tcgen05.shift": "tcgen05.shift.cta_group::1.down [%r];",
    **{name: f"{name} %r;" for name in (*VIDEO, *TEXTURES, *OTHERS)},
}


@cache
def recorded_cases() -> frozenset[str]:
    files = (TESTS / "recordings" / RECORDED_TARGET).glob("*.json")
    return frozenset(case for path in files for case in json.loads(path.read_text())["cases"])


@cache
def instructions_of(case: str) -> frozenset[str]:
    """The instructions of a case, read without the parser: the first word of each statement."""
    text = re.sub(r"//.*", "", ptx_cases.texts()[case].write())
    found = set()
    for statement in re.split(r"[;\n]", text):
        rest = re.sub(r"^[\s{}]*(?:[\w$]+:(?!:))?[\s{}]*(?:@!?%?\w+\s+)?", "", statement)
        parts = re.match(r"[\w.:]*", rest)[0].split(".")
        names = (".".join(parts[:used]) for used in range(len(parts), 0, -1))
        found.add(next((name for name in names if name in NAMES), ""))
    return frozenset(found - {""})


@cache
def recounted() -> dict[str, Counter[str]]:
    """How many recorded cases, and how many that only follow the specification, have each instruction."""
    counts: dict[str, Counter[str]] = {"recorded": Counter(), "specification": Counter()}
    for case, source in ptx_cases.texts().items():
        if case in recorded_cases():
            counts["recorded"].update(instructions_of(case))
        elif "\n// specification_only:" in source.write():
            counts["specification"].update(instructions_of(case))
    return counts


def pages_of(part: str) -> list[Path]:
    """The sources of the book's pages on which a part stands."""
    directive = re.compile(rf"^```\{{emulator\}} {part}$", re.MULTILINE)
    sources = sorted([*BOOK.glob("*.md"), *BOOK.glob("chapters/*.md")])
    return [path for path in sources if directive.search(path.read_text(encoding="utf-8"))]


def built(book: Path, part: str) -> Path:
    """The first of the built pages on which a part stands."""
    return book / pages_of(part)[0].relative_to(BOOK).with_suffix(".html")


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    return measure()


def _rows(table: str) -> dict[str, list[str]]:
    """The cells of a Markdown table's rows by their first cell, without its marks."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()[2:]]
    return {re.sub(r"<.*?>", "", row[0]).strip(): [cell.strip() for cell in row[1:]] for row in rows}


def test_page__shows_each_registered_instruction_with_its_counts(book: Path) -> None:
    page = parse(built(book, "instructions"))
    rows = {row.find("td").get_text(): row for row in page.select("#emulator-instructions tbody tr")}
    refused = {row.find("td").get_text() for row in page.select("#emulator-refused tbody tr")}
    assert rows.keys() | refused == NAMES
    assert not rows.keys() & refused
    for info in supported_instructions():
        if info.name in refused:
            continue
        cells = [" ".join(cell.get_text(" ").split()) for cell in rows[info.name].select("td")]
        cells = [
            cell.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") for cell in cells
        ]  # as the page sets it
        summary, section = info.summary.replace("`", ""), info.source.split(", ", 1)[1].split(" (#")[0]
        assert cells[1].startswith(f"{summary} {section}"), info.name
        assert "(#" not in cells[1]
        assert int(cells[3]) == recounted()["recorded"][info.name], info.name
        assert int(cells[5]) == recounted()["specification"][info.name], info.name


def test_page__shows_each_hazard_with_its_severity(book: Path) -> None:
    page = parse(built(book, "hazards"))
    rows = [
        [cell.get_text() for cell in row.select("td")] for row in page.select("#emulator-hazards tbody tr")
    ]
    assert {row[0]: row[1] for row in rows} == {name: hazard.severity for name, hazard in HAZARDS.items()}
    assert {row[0]: row[4] for row in rows} == {name: hazard.error for name, hazard in HAZARDS.items()}


def test_page__names_the_limits_of_a_launch() -> None:
    parser = argparse.ArgumentParser()
    emulate.register(parser.add_subparsers())
    given = parser.parse_args(["emulate", "kernel.ptx"])
    text = " ".join((BOOK / "emulator.md").read_text(encoding="utf-8").split())
    millions = f"{DEFAULT_BUDGET / 10**6:g} million instructions"
    assert f"stops after {millions} (`max_instructions=`, `--budget`)" in text
    assert given.budget == DEFAULT_BUDGET
    limits = f"{given.timeout / 60:g} minutes or at {given.max_memory:g} GiB"
    assert f"after {limits} (`--timeout`, `--max-memory`)" in text


@pytest.mark.parametrize("part", PARTS)
def test_part__stands_on_a_page(part: str) -> None:
    assert pages_of(part)


def test_measure__counts_what_was_recorded(coverage: Coverage) -> None:
    assert coverage.recorded == recorded_cases()
    assert {name: len(count.recorded) for name, count in coverage.counts.items() if count.recorded} == dict(
        recounted()["recorded"]
    )
    assert {
        name: len(count.specification) for name, count in coverage.counts.items() if count.specification
    } == dict(recounted()["specification"])


def test_measure__says_which_instructions_a_gpu_ran() -> None:
    rows = _rows(markdown("instructions"))
    assert rows["mma.sync"][COMPARED] == "a GPU"
    assert rows["bar.cta.red"][COMPARED].startswith("a GPU, as `bar.red`")
    assert rows["tcgen05.mma"][COMPARED] == "specification"
    assert rows["tcgen05.relinquish_alloc_permit"][COMPARED] == "tests"
    assert [name for name, row in rows.items() if row[COMPARED] == "nothing of its own"] == []


def test_measure__finds_the_instructions_in_tests(coverage: Coverage) -> None:
    counts = coverage.counts
    assert "test_abort" in counts["trap"].modules
    assert "test_tcgen05_mma" in counts["tcgen05.mma"].modules
    assert "test_registry" not in counts["add"].modules  # Python's text, no PTX


@pytest.fixture
def one_family(tmp_path: Path) -> Path:
    """A folder with the cases of `elect` and their recording."""
    shutil.copytree(TESTS / "cases" / "elect", tmp_path / "cases" / "elect")
    recordings = tmp_path / "recordings" / RECORDED_TARGET
    recordings.mkdir(parents=True)
    shutil.copy(TESTS / "recordings" / RECORDED_TARGET / "elect.json", recordings)
    assert measure(tmp_path).counts["elect.sync"].recorded
    return tmp_path


@pytest.fixture
def unrecorded(one_family: Path) -> Path:
    """A new case: a recorded one with an instruction more."""
    folder = one_family / "cases" / "elect"
    new = folder / "new.ptx"
    new.write_text((folder / "masks.ptx").read_text().replace("    ret;", "    nanosleep.u32 20;\n    ret;"))
    return new


@pytest.mark.usefixtures("unrecorded")
def test_measure__counts_what_is_not_yet_recorded_apart(one_family: Path) -> None:
    coverage = measure(one_family)
    assert coverage.unrecorded == {"elect/new": frozenset({"nanosleep.u32"})}
    assert coverage.recorded == coverage.counts["elect.sync"].recorded == {"elect/exited", "elect/masks"}
    assert (
        coverage.counts["elect.sync"].unrecorded == coverage.counts["nanosleep"].unrecorded == {"elect/new"}
    )
    assert not coverage.counts["nanosleep"].recorded | coverage.counts["nanosleep"].specification


@pytest.mark.usefixtures("unrecorded")
def test_pages__say_what_is_not_yet_recorded(one_family: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator_coverage, "_measured", lambda: measure(one_family))
    assert _rows(markdown("unrecorded")) == {"elect/new": ["`nanosleep.u32`"]}
    assert "1 is not yet recorded on hardware" in markdown("summary")
    assert _rows(markdown("instructions"))["nanosleep"][COMPARED] == "its cases' expectations"


@pytest.mark.usefixtures("unrecorded")
def test_command__names_what_is_not_yet_recorded_and_says_how_to_record_it(
    one_family: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert emulator_coverage.main([], one_family) == 0
    said = capsys.readouterr().out
    assert "    elect/new (no recorded case has nanosleep.u32)\n" in said
    assert "    python -m tools.record_cases --family elect\n" in said


def test_command__says_when_everything_is_recorded(
    one_family: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert emulator_coverage.main([], one_family) == 0
    assert "every case that a GPU of compute capability 9.0 can run is recorded" in capsys.readouterr().out


def test_command__fails_for_a_stale_recording(one_family: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = next((one_family / "cases" / "elect").glob("*.ptx"))
    path.write_text(path.read_text() + "\n")
    assert emulator_coverage.main([], one_family) == 1
    assert f"elect/{path.name}: the case has changed" in capsys.readouterr().err


def test_measure__refuses_an_unrecorded_case_that_cannot_be_recorded(
    one_family: Path, unrecorded: Path
) -> None:
    unrecorded.write_text(unrecorded.read_text().replace(".target sm_90", ".target sm_100"))
    with pytest.raises(BadCoverage, match=r"capability 9.0 does not run sm_100: .*specification_only"):
        measure(one_family)


def test_measure__refuses_a_case_that_has_changed(one_family: Path) -> None:
    path = next((one_family / "cases" / "elect").glob("*.ptx"))
    path.write_text(path.read_text() + "\n")
    with pytest.raises(BadCoverage, match=r"has changed"):
        measure(one_family)


def test_measure__refuses_a_recording_whose_case_is_gone(one_family: Path) -> None:
    path = next((one_family / "cases" / "elect").glob("*.ptx"))
    path.unlink()
    with pytest.raises(BadCoverage, match=f"gone: elect/{path.stem}"):
        measure(one_family)


def test_measure__refuses_a_recorded_case_that_is_specification_only(one_family: Path) -> None:
    path = next((one_family / "cases" / "elect").glob("*.ptx"))
    path.write_text(path.read_text().replace("// grid:", "// specification_only: no\n// grid:", 1))
    with pytest.raises(BadCoverage, match="is recorded"):
        measure(one_family)


def test_refused__are_those_that_the_emulator_refuses() -> None:
    assert {info.name for info in supported_instructions() if info.refused} == REFUSED.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_refused__end_in_an_error(name: str) -> None:
    opcode, *modifiers = REFUSED[name].split()[0].split(".")
    assert lookup(opcode, tuple(modifiers))[0].name == name
    text = (
        ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry kernel()\n"
        f"{{\n    .reg .b32 %r;\n    .reg .b64 %d;\n    {REFUSED[name]}\n    ret;\n}}\n"
    )
    with pytest.raises(UnsupportedInstruction, match="is not supported: "):
        launch(text, grid=1, block=32, args=[])
