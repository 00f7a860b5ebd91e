"""The recorded notebooks are those of their sources, and hold what nbval needs to compare."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from nbformat import NotebookNode

from cutecourse.display import source as source_of
from cutecourse.kernels.twinning import TWINS
from support import recordings
from tools.notebooks import METADATA_KEY, check_pages, check_solutions, read_recording
from tools.paths import CHAPTERS, exercise_sources, notebook_of, notebook_sources
from tools.tidy import WIDGET_STATE, WIDGET_VIEW

# Both raise when there is none.
PAGES = notebook_sources()
ALL = [*PAGES, *exercise_sources()]
CHAPTER_PAGES = [page for page in PAGES if page.parent == CHAPTERS]

_MACHINE_PATH = re.compile(r"(?<![\w/.])/(?:tmp|home|root|work|usr|opt|Users)/\S+")


@cache
def _recording(source: Path) -> NotebookNode:
    return read_recording(source)


def _name(source: Path) -> str:
    return f"{source.parent.name}-{source.stem}"


def test_recordings__belong_to_what_is_in_the_tree() -> None:
    assert [str(difference) for difference in [*check_pages(), *check_solutions()]] == []


@pytest.mark.parametrize("source", ALL, ids=_name)
def test_every_code_cell__was_executed_in_order(source: Path) -> None:
    cells = recordings.code_cells(_recording(source))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


@pytest.mark.parametrize("source", ALL, ids=_name)
def test_machine_dependent_tags__stand_on_the_run_records_and_nowhere_else(source: Path) -> None:
    for number, cell in enumerate(recordings.code_cells(_recording(source)), start=1):
        tags = recordings.tags(cell) & recordings.RECORD_TAGS
        expected = recordings.RECORD_TAGS if recordings.recorded_kernel(cell) else set()
        assert tags == expected, f"code cell {number}"


@pytest.mark.parametrize("source", ALL, ids=_name)
def test_run_record_cell__shows_one_record_and_nothing_else(source: Path) -> None:
    for number, cell in enumerate(recordings.code_cells(_recording(source)), start=1):
        if "machine-dependent" in recordings.tags(cell):
            assert len(cell.outputs) == 1, f"code cell {number}"
            assert len(recordings.recorded_kernel(cell)) == 1, f"code cell {number}"


@pytest.mark.parametrize("source", PAGES, ids=_name)
def test_each_kernel_that_ran__has_its_record_in_one_cell(source: Path) -> None:
    recording = _recording(source)
    shown = [
        kernel for cell in recordings.code_cells(recording) for kernel in recordings.recorded_kernel(cell)
    ]
    ran = {run["kernel"] for run in recording.metadata[METADATA_KEY]["runs"]}
    assert sorted(shown) == sorted(ran)


@pytest.mark.parametrize("source", PAGES, ids=_name)
def test_shown_source__is_the_source_that_ran(source: Path) -> None:
    recording = _recording(source)
    for dotted, text in recordings.shown_sources(recording).items():
        module, thing = recordings.resolve(dotted)
        assert text.rstrip("\n") == str(source_of(thing)).rstrip("\n"), dotted
        assert module.__name__ in recording.metadata[METADATA_KEY]["kernels"]


@pytest.mark.parametrize("source", PAGES, ids=_name)
def test_each_kernel_that_ran__shows_its_source(source: Path) -> None:
    recording = _recording(source)
    shown = {".".join(dotted.split(".")[:3]) for dotted in recordings.shown_sources(recording)}
    ran = {run["kernel"] for run in recording.metadata[METADATA_KEY]["runs"]}
    modules = {
        module
        for module in recording.metadata[METADATA_KEY]["kernels"]
        if not module.startswith(f"{TWINS}.") and recordings.resolve(module)[0].LAUNCH.name in ran
    }
    assert modules - shown == set()


# On a playground the reader's own numbers count.
TEACHING = [source for source in PAGES if not source.stem.startswith("playground_")]


@pytest.mark.parametrize("source", TEACHING, ids=_name)
def test_each_section_with_code__compares_a_number(source: Path) -> None:
    sections = recordings.sections(_recording(source))
    # What stands before the first section says what the chapter is for, and imports.
    without = [
        heading
        for heading, cells in sections.items()
        if heading and cells and not any(map(recordings.compares_a_number, cells))
    ]
    assert without == []


@pytest.mark.parametrize("source", ALL, ids=_name)
def test_errors__stand_where_they_are_expected(source: Path) -> None:
    for number, cell in enumerate(recordings.code_cells(_recording(source)), start=1):
        raised = any(output.output_type == "error" for output in cell.outputs)
        assert raised == ("raises-exception" in recordings.tags(cell)), f"code cell {number}"


@pytest.mark.parametrize("source", ALL, ids=_name)
def test_outputs__hold_no_address_and_no_path_of_a_machine(source: Path) -> None:
    for number, cell in enumerate(recordings.code_cells(_recording(source)), start=1):
        for text in recordings.texts(cell):
            assert not re.search(r" at 0x[0-9a-f]{4,}>", text), f"code cell {number}"
            assert not _MACHINE_PATH.search(text), f"code cell {number}: {_MACHINE_PATH.search(text)}"


@pytest.mark.parametrize("source", ALL, ids=_name)
def test_each_widget__has_its_state_and_its_figure(source: Path) -> None:
    recording = _recording(source)
    state = recording.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    for cell in recordings.code_cells(recording):
        for output in cell.outputs:
            data = output.get("data", {})
            if WIDGET_VIEW in data:
                assert data[WIDGET_VIEW]["model_id"] in state
                assert data["image/png"].startswith("iVBORw0KGgo")


@pytest.mark.parametrize("source", ALL, ids=_name)
def test_recorded_widgets__bring_no_code_and_no_view(source: Path) -> None:
    text = notebook_of(source).read_text(encoding="utf-8")
    for name in ("_esm", "_css", WIDGET_VIEW, WIDGET_STATE):
        assert f'"{name}"' not in text


@pytest.mark.parametrize("source", CHAPTER_PAGES, ids=lambda source: source.stem)
def test_chapter__has_a_prediction_and_its_answer(source: Path) -> None:
    shown = [
        output.data["text/plain"]
        for cell in recordings.code_cells(_recording(source))
        for output in cell.outputs
        if WIDGET_VIEW in output.get("data", {})
    ]
    asked = [re.match(r"Predict\('([^']+)'", text) for text in shown]
    answered = [re.match(r"Reveal\('([^']+)'", text) for text in shown]
    keys = [match[1] for match in asked if match]
    assert keys
    assert len(set(keys)) == len(keys)
    assert sorted(keys) == sorted(match[1] for match in answered if match)


def test_predictions__have_keys_of_their_own_in_the_whole_book() -> None:
    keys = [
        key
        for source in PAGES
        for cell in recordings.code_cells(_recording(source))
        for key in re.findall(r"\bPredict\(\s*[\"']([^\"']+)", cell.source)
    ]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("source", ALL, ids=_name)
def test_notebook_text__shows_no_raw_directive(source: Path) -> None:
    for cell in _recording(source).cells:
        if cell.cell_type == "markdown":
            assert not re.search(r"^(:{3,}|`{3,})\{", cell.source, re.MULTILINE)
            assert not re.search(r"\{(term|ref|doc)\}`", cell.source)
