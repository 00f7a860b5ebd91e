"""The page of symptoms: its table and its runs agree, and no broken kernel of the course is left out."""

from __future__ import annotations

import re

import pytest

from cutecourse import emulator
from cutecourse.kernels import (
    copy_broken,
    gemm_broken,
    smem_broken,
    tma_broken,
    tma_multicast_broken,
    tma_multicast_pipeline_broken,
    umma_broken,
    umma_tile_broken,
    umma_tma_broken,
    wgmma_broken,
)
from tools.notebooks import code_cells
from tools.paths import BOOK
from tools.recordings import read_recording
from tools.source_documents import anchor_of

PAGE = BOOK / "symptoms.md"
BROKEN = (
    copy_broken,
    gemm_broken,
    smem_broken,
    tma_broken,
    tma_multicast_broken,
    tma_multicast_pipeline_broken,
    umma_broken,
    umma_tile_broken,
    umma_tma_broken,
    wgmma_broken,
)


@pytest.fixture(scope="module")
def runs() -> dict[str, dict[str, str]]:
    """What the recording shows: each symptom's faults and their reports."""
    (text,) = (
        output.text
        for cell in code_cells(read_recording(PAGE))
        for output in cell.outputs
        if "SYMPTOMS.items()" in cell.source
    )
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith(" "):
            label, report = re.split(r"\s{2,}", line.strip())[:2]
            found[list(found)[-1]][label] = report
        else:
            found[line] = {}
    return found


def test_table__leads_to_a_section_for_each_symptom(runs: dict[str, dict[str, str]]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(.+?)\]\(#([\w-]+)\)", text, re.MULTILINE)
    sections = {anchor_of(title) for title in re.findall(r"^## (.+)$", text, re.MULTILINE)}
    assert [anchor for _, anchor in rows if anchor not in sections] == []
    # What is refused before it runs, and what is only slow, has no fault that could be run.
    assert [name for name, _ in rows if name not in runs] == ["refused before it starts", "right, and slow"]
    assert set(runs) <= {name for name, _ in rows}


def test_every_report__is_of_the_emulator(runs: dict[str, dict[str, str]]) -> None:
    reports = {report for faults in runs.values() for report in faults.values()} - {"no report"}
    reports.discard("note: no wgmma fence")
    warnings = {report for report in reports if report.startswith("warning: ")}
    assert len(reports - warnings) > 5
    for report in reports - warnings:
        assert issubclass(getattr(emulator.errors, report), emulator.EmulatorError)
    assert warnings
    for warning in warnings:
        assert emulator.HAZARDS[warning.removeprefix("warning: ")].severity == "warning"


@pytest.mark.parametrize("module", BROKEN)
def test_every_fault_of_a_broken_kernel__stands_under_a_symptom(module, runs) -> None:
    short = module.__name__.rpartition(".")[2]
    shown = {label for faults in runs.values() for label in faults}
    assert {f"{short}, {name}" for name in module.FAULTS} - shown == set()
