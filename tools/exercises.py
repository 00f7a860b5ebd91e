"""Generate the learner's notebooks from the exercise sources, where the solutions are marked.

    python -m tools.exercises              write exercises/NN_slug.ipynb for every source
    python -m tools.exercises --check      write nothing; say which are stale

A source is a MyST page like a chapter's. A solution stands between `### BEGIN SOLUTION` and
`### END SOLUTION`, one before each `check("NN.k", ...)`. The learner gets `name = ...` for a solution that
only assigns names, and `...` otherwise, or what stands, commented out, between `### BEGIN SKELETON` and
`### END SKELETON` just above it. A cell with the tag `in-ptx` has the same exercise's solution in PTX.
"""

from __future__ import annotations

import argparse
import ast
import copy
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from cutecourse.errors import CourseError
from tools.notebooks import as_notebook, carry_ids, tags, write_notebook
from tools.paths import EXERCISE_PAGES, EXERCISES, AuthoringError, exercise_sources, relative
from tools.recordings import Difference, check_recording

_REGION = re.compile(
    r"(?:^[ \t]*### BEGIN SKELETON\n(?P<skeleton>.*?)^[ \t]*### END SKELETON\n)?"
    r"^(?P<indent>[ \t]*)### BEGIN SOLUTION\n(?P<solution>.*?)^[ \t]*### END SOLUTION[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_MARKER = re.compile(r"###\s*(BEGIN|END)\s+(SOLUTION|SKELETON)", re.IGNORECASE)
_CHECK = re.compile(r"\bcheck\(\s*[\"'](?P<id>\d\d\.\d+)[\"']")
IN_PTX = "in-ptx"
"""The tag of a cell that asks for an exercise's kernel in PTX, where another asks for it in Python."""


class BadExerciseSource(AuthoringError):
    """An exercise source whose markers and checks do not pair up."""


@dataclass(frozen=True)
class Exercise:
    """One exercise of a source: its id, the cell with the solution, and what the learner finds there.

    An exercise that can be solved in PTX as well comes a second time, with `in_ptx`.
    """

    id: str
    cell: int
    solution: str
    skeleton: str
    in_ptx: bool = False


def exercises_in(source: Path) -> list[Exercise]:
    """The exercises of a source, in order.

    Errors: BadExerciseSource when a solution has no check after it, a check no solution before it,
    an id comes twice in one language, a marker has no partner, or there is no exercise at all.
    """
    found: list[Exercise] = []
    waiting: tuple[int, re.Match[str]] | None = None
    for index, cell in enumerate(_read(source).cells):
        if cell.cell_type != "code":
            continue
        _refuse_lone_markers(cell.source, source)
        events = [(m.start(), m) for m in _REGION.finditer(cell.source)]
        events += [(m.start(), m) for m in _CHECK.finditer(cell.source)]
        for _, match in sorted(events, key=lambda event: event[0]):
            if match.re is _REGION:
                if waiting:
                    raise BadExerciseSource(
                        f"{relative(source)}: two solutions before one check, near {found[-1:]}"
                    )
                waiting = (index, match)
            elif waiting is None:
                raise BadExerciseSource(
                    f"{relative(source)}: check({match['id']!r}) has no solution before it"
                )
            else:
                found.append(_exercise(match["id"], *waiting, in_ptx=IN_PTX in tags(cell)))
                waiting = None
    if waiting:
        raise BadExerciseSource(f"{relative(source)}: the last solution has no check after it")
    ids = [exercise.id for exercise in found]
    if len({(exercise.id, exercise.in_ptx) for exercise in found}) != len(found):
        raise BadExerciseSource(f"{relative(source)}: an exercise id comes twice in {ids}")
    if not ids:
        raise BadExerciseSource(f"{relative(source)} holds no exercise")
    return found


def _exercise(identifier: str, cell: int, match: re.Match[str], *, in_ptx: bool) -> Exercise:
    return Exercise(identifier, cell, textwrap.dedent(match["solution"]), _skeleton(match), in_ptx)


def _skeleton(match: re.Match[str]) -> str:
    given, solution = match["skeleton"], textwrap.dedent(match["solution"])
    return _uncomment(given) if given else _default_skeleton(solution, top_level=not match["indent"])


def _uncomment(text: str) -> str:
    return re.sub(r"^# ?", "", textwrap.dedent(text), flags=re.MULTILINE)


def _default_skeleton(solution: str, *, top_level: bool) -> str:
    """`name = ...` for each name that a solution assigns, or `...` where it is more than assignments."""
    statements = ast.parse(solution).body
    targets = [s.targets[0] for s in statements if isinstance(s, ast.Assign) and len(s.targets) == 1]
    if (
        top_level
        and len(targets) == len(statements)
        and all(isinstance(target, ast.Name) for target in targets)
    ):
        return "".join(f"{ast.unparse(target)} = ...\n" for target in targets)
    return "...\n"


def _refuse_lone_markers(text: str, source: Path) -> None:
    rest = _MARKER.search(_REGION.sub("", text))
    if rest:
        raise BadExerciseSource(
            f"{relative(source)}: the marker '{rest[0]}' has no partner, or text beside it"
        )


def _read(source: Path, notebooks: str = "") -> NotebookNode:
    """A source as a notebook that the caller may change."""
    return copy.deepcopy(_parsed(source.read_text(encoding="utf-8"), relative(source), notebooks))


@cache
def _parsed(text: str, where: str, notebooks: str) -> NotebookNode:
    return as_notebook(text, where=where, notebooks=notebooks)


def solution_notebook(source: Path) -> NotebookNode:
    """The notebook with the solutions in place, without outputs."""
    return _fill(source, lambda exercise: exercise.solution, "../../notebooks/")


def learner_notebook(source: Path) -> NotebookNode:
    """The notebook that a learner opens: a skeleton in place of each solution. Cells keep their ids."""
    notebook = _fill(source, lambda exercise: exercise.skeleton, "../notebooks/")
    path = learner_path(source)
    carry_ids(notebook, nbformat.read(path, as_version=4) if path.exists() else None)
    return notebook


def variant_notebook(source: Path, identifier: str, code: str) -> NotebookNode:
    """The solution notebook with `code` in place of one exercise's solution: a wrong answer, tried out."""
    known = [exercise.id for exercise in exercises_in(source)]
    if identifier not in known:
        raise BadExerciseSource(f"{relative(source)} has no exercise {identifier}; it has {', '.join(known)}")

    def text_for(exercise: Exercise) -> str:
        return code if exercise.id == identifier and not exercise.in_ptx else exercise.solution

    return _fill(source, text_for, "../../notebooks/")


def learner_page(source: Path) -> str:
    """The MyST text of the book's page: a skeleton in place of each solution, links to the book's pages."""
    exercises_in(source)  # refuses markers that do not pair up

    def gap(match: re.Match[str]) -> str:
        return textwrap.indent(_skeleton(match).rstrip("\n"), match["indent"])

    text = _REGION.sub(gap, source.read_text(encoding="utf-8"))
    return text.replace("](../../book/", "](../")


def _fill(source: Path, text_for: Callable[[Exercise], str], notebooks: str) -> NotebookNode:
    notebook = _read(source, notebooks)
    texts: dict[int, list[str]] = {}
    for exercise in exercises_in(source):
        texts.setdefault(exercise.cell, []).append(text_for(exercise))
    for index, replacements in texts.items():
        remaining = iter(replacements)

        def replace(match: re.Match[str], remaining: Iterator[str] = remaining) -> str:
            return textwrap.indent(next(remaining).rstrip("\n"), match["indent"])

        notebook.cells[index].source = _REGION.sub(replace, notebook.cells[index].source)
    return notebook


def write_pages() -> None:
    """Write the exercises' pages for a build of the book. A page that is as it should be is left alone."""
    EXERCISE_PAGES.mkdir(exist_ok=True)
    texts = {EXERCISE_PAGES / source.name: learner_page(source) for source in exercise_sources()}
    for path in EXERCISE_PAGES.glob("*.md"):
        if path not in texts:
            path.unlink()
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def learner_path(source: Path) -> Path:
    """Where the learner's notebook of a source lies."""
    return EXERCISES / f"{source.stem}.ipynb"


def generate_learners() -> list[Path]:
    """Write every learner's notebook; returns the paths."""
    paths = []
    for source in exercise_sources():
        write_notebook(learner_notebook(source), learner_path(source))
        paths.append(learner_path(source))
    return paths


def stale_learners() -> list[Difference]:
    """Learner's notebooks that are not what their source generates now."""
    found = []
    for source in exercise_sources():
        path = learner_path(source)
        fresh = nbformat.writes(learner_notebook(source), version=4).rstrip("\n") + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != fresh:
            found.append(
                Difference(source, f"{relative(path)} is stale; write it with: python -m tools.exercises")
            )
    return found


def check_solutions() -> list[Difference]:
    """Compare every exercise source with the recording of its solutions; nothing is executed."""
    return [
        found for source in exercise_sources() for found in check_recording(source, solution_notebook(source))
    ]


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.exercises", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; say which notebooks are stale")
    options = parser.parse_args(arguments)
    try:
        if not options.check:
            for path in generate_learners():
                print(f"wrote {relative(path)}")
            return 0
        stale = stale_learners()
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for difference in stale:
        print(difference, file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
