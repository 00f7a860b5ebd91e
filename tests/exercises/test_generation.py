"""From a source with marked solutions to the learner's notebook, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.exercises import (
    BadExerciseSource,
    exercises_in,
    learner_notebook,
    solution_notebook,
    variant_notebook,
)

HEAD = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  name: python3
---

# Exercises
"""


def _source(tmp_path: Path, *cells: str) -> Path:
    path = tmp_path / "07_sample.md"
    path.write_text(
        HEAD + "".join(f"\n```{{code-cell}} ipython3\n{cell}\n```\n" for cell in cells), encoding="utf-8"
    )
    return path


ASSIGNS = '### BEGIN SOLUTION\nrows = 4\ncols = rows * 2\n### END SOLUTION\n\ncheck("07.1", (rows, cols))'
FUNCTION = """def owner(m, n):
    # which lane?
    ### BEGIN SOLUTION
    lane = m * 4
    return lane + n // 2
    ### END SOLUTION

check("07.2", owner)"""


def test_learner_notebook__names_what_a_solution_assigns(tmp_path: Path) -> None:
    cell = learner_notebook(_source(tmp_path, ASSIGNS)).cells[-1]
    assert cell.source == 'rows = ...\ncols = ...\n\ncheck("07.1", (rows, cols))'


def test_learner_notebook__keeps_a_functions_head_and_indentation(tmp_path: Path) -> None:
    cell = learner_notebook(_source(tmp_path, FUNCTION)).cells[-1]
    assert cell.source == 'def owner(m, n):\n    # which lane?\n    ...\n\ncheck("07.2", owner)'


def test_learner_notebook__takes_the_skeleton_that_is_given(tmp_path: Path) -> None:
    skeleton = "### BEGIN SKELETON\n# # fill in\n# rows = 2 * ...\n### END SKELETON\n"
    cell = learner_notebook(_source(tmp_path, skeleton + ASSIGNS)).cells[-1]
    assert cell.source == '# fill in\nrows = 2 * ...\n\ncheck("07.1", (rows, cols))'


def test_solution_notebook__differs_only_in_the_gap(tmp_path: Path) -> None:
    cell = solution_notebook(_source(tmp_path, FUNCTION)).cells[-1]
    lines = cell.source.splitlines()
    assert lines[:2] + lines[4:] == ["def owner(m, n):", "    # which lane?", "", 'check("07.2", owner)']
    assert lines[2:4] == ["    lane = m * 4", "    return lane + n // 2"]


def test_variant_notebook__replaces_one_solution_alone(tmp_path: Path) -> None:
    source = _source(tmp_path, ASSIGNS, FUNCTION)
    variant = variant_notebook(source, "07.2", "return 0")
    assert "    return 0\n" in variant.cells[-1].source
    assert "cols = rows * 2" in variant.cells[-2].source


def test_variant_notebook__refuses_an_unknown_exercise(tmp_path: Path) -> None:
    with pytest.raises(BadExerciseSource, match=r"no exercise 07\.9; it has 07\.1"):
        variant_notebook(_source(tmp_path, ASSIGNS), "07.9", "")


def test_exercises_in__finds_a_solution_in_another_cell_than_its_check(tmp_path: Path) -> None:
    solution, _, rest = FUNCTION.partition("\n\n")
    found = exercises_in(_source(tmp_path, ASSIGNS, solution, rest))
    assert [exercise.id for exercise in found] == ["07.1", "07.2"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1 + 1"], "holds no exercise"),
        (['check("07.1", 3)'], "has no solution before it"),
        (["### BEGIN SOLUTION\na = 1\n### END SOLUTION"], "has no check after it"),
        ([ASSIGNS, ASSIGNS], "comes twice"),
        (['### BEGIN SOLUTION\na = 1\ncheck("07.1", a)'], "has no partner"),
        (['### begin solution\na = 1\n### end solution\ncheck("07.1", a)'], "has no partner"),
        ([ASSIGNS.partition("\n\n")[0], ASSIGNS], "two solutions before one check"),
    ],
)
def test_exercises_in__refuses_markers_that_do_not_pair(
    tmp_path: Path, cells: list[str], message: str
) -> None:
    with pytest.raises(BadExerciseSource, match=message):
        exercises_in(_source(tmp_path, *cells))
