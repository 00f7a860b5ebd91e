"""Every solution passes, every skeleton fails as a skeleton, every plausible mistake is pointed at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
import yaml

from cutecourse import checks
from support.exercises import run_cells
from tools.exercises import (
    exercises_in,
    learner_notebook,
    solution_notebook,
    stale_learners,
    variant_notebook,
)
from tools.paths import SOLUTIONS, chapter_number, chapter_pages, exercise_sources

WRONG_ANSWERS = Path(__file__).parent / "wrong_answers"
# Raises when there is none: a parametrised test over nothing would pass.
SOURCES = exercise_sources()


@dataclass(frozen=True)
class WrongAnswer:
    source: Path
    exercise: str
    number: int
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.source.stem}-{self.exercise}-{self.number}"


def _wrong_answers() -> list[WrongAnswer]:
    found = []
    for source in SOURCES:
        data = yaml.safe_load((WRONG_ANSWERS / f"{source.stem}.yml").read_text(encoding="utf-8"))
        for exercise, entries in data.items():
            found += [
                WrongAnswer(source, exercise, number, entry["code"], entry["message"])
                for number, entry in enumerate(entries, start=1)
            ]
    return found


@pytest.fixture(autouse=True)
def _no_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.delenv("CUTECOURSE_STRICT", raising=False)


def _ids(source: Path) -> list[str]:
    return [exercise.id for exercise in exercises_in(source)]


# nbval runs the same cells in a kernel of their own.
@pytest.mark.sample(2)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_solution__passes_every_check(source: Path, tmp_path: Path) -> None:
    results = run_cells(solution_notebook(source), tmp_path)
    assert [result.id for result in results] == _ids(source)
    assert [repr(result) for result in results if not result] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_skeleton__fails_with_its_own_readable_message(source: Path, tmp_path: Path) -> None:
    results = run_cells(learner_notebook(source), tmp_path)
    assert [result.id for result in results] == _ids(source)
    for result in results:
        assert result.status == "untouched", repr(result)
        assert "..." in result.message
        assert "not started" in repr(result)


@pytest.mark.parametrize("wrong", _wrong_answers(), ids=str)
def test_wrong_answer__is_pointed_at(wrong: WrongAnswer, tmp_path: Path) -> None:
    notebook = variant_notebook(wrong.source, wrong.exercise, wrong.code)
    [result] = run_cells(notebook, tmp_path, only=wrong.exercise)
    assert result.id == wrong.exercise
    assert result.status in ("wrong", "raised"), repr(result)
    assert wrong.message in repr(result)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_wrong_answers__are_at_least_two_an_exercise(source: Path) -> None:
    counts = dict.fromkeys(_ids(source), 0)
    for wrong in _wrong_answers():
        if wrong.source == source:
            counts[wrong.exercise] += 1
    assert {exercise: count for exercise, count in counts.items() if count < 2} == {}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_checks__are_those_of_the_source(source: Path) -> None:
    assert list(checks.exercises(source.stem[:2])) == list(dict.fromkeys(_ids(source)))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_source__has_four_exercises_with_a_kernel_and_a_bug(source: Path) -> None:
    notebook = solution_notebook(source)
    found = exercises_in(source)
    tags = [tag for exercise in found for tag in notebook.cells[exercise.cell].metadata.get("tags", [])]
    assert len(found) >= 4
    assert "kernel-to-write" in tags
    assert "bug-to-find" in tags


def test_sources__one_for_each_chapter_and_the_museum() -> None:
    chapters = sorted({chapter_number(page) for page in chapter_pages()})
    *of_chapters, last = SOURCES
    assert [chapter_number(source) for source in of_chapters] == chapters
    assert last.stem == "17_museum"


def test_learner_notebooks__are_those_of_their_sources() -> None:
    assert [str(difference) for difference in stale_learners()] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_learner_notebook__shows_no_solution(source: Path) -> None:
    text = "\n".join(cell.source for cell in learner_notebook(source).cells)
    assert "BEGIN SOLUTION" not in text
    for exercise in exercises_in(source):
        assert exercise.solution.strip() not in text


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_solution_recording__shows_each_check_passed(source: Path) -> None:
    notebook = nbformat.read(SOLUTIONS / f"{source.stem}.ipynb", as_version=4)
    shown = "\n".join(
        output.get("data", {}).get("text/plain", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    for exercise in _ids(source):
        assert f"✓ {exercise} " in shown
