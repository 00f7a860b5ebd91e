"""What a browser has is enough for the exercises: no compiler is there, and kernels are written in PTX."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from nbformat import NotebookNode

from cutecourse import runtime
from cutecourse.checks import CheckResult, collecting
from cutecourse.kernels import LaunchSpec, Scalar, Tensor
from cutecourse.page.cells import cells_needed
from cutecourse.page.kernel import Kernel
from cutecourse.runtime.assembly import assembly_report
from tools.exercises import exercises_in, learner_notebook, solution_notebook
from tools.native_sweep import answers
from tools.notebooks import code_cells
from tools.paths import BOOK, exercise_sources

SOURCES = exercise_sources()
WRONG = yaml.safe_load(Path(__file__).with_name("wrong_answers_in_ptx.yml").read_text(encoding="utf-8"))
CRIB = BOOK / "_ext" / "coursebook" / "assets" / "crib.ptx"
_VERDICT = re.compile(r"^(\S) (\d\d\.\d+) ", re.MULTILINE)


@pytest.mark.sample(2)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_solutions__pass_where_no_compiler_is(source: Path) -> None:
    shown = [
        str(output.get("data", {}).get("text/plain", ""))
        for answer in answers([cell.source for cell in code_cells(solution_notebook(source))])
        for output in answer["outputs"]
    ]
    verdicts = [verdict for text in shown for verdict in _VERDICT.findall(text)]
    passed = {exercise for mark, exercise in verdicts if mark == "✓"}
    assert {exercise.id for exercise in exercises_in(source)} - passed == set()


def test_kernels_to_write__can_be_written_in_ptx() -> None:
    """Without a compiler: each is written in PTX, or can be solved in PTX as well."""
    for source in SOURCES:
        cells = solution_notebook(source).cells
        found = exercises_in(source)
        asks = {
            one.id
            for one in found
            if "kernel-to-write" in cells[one.cell].metadata.get("tags", [])
            and re.search(r"@(cute|cuda)\.", one.solution)
        }
        assert asks - {one.id for one in found if one.in_ptx} == set()


def test_crib__is_a_kernel_that_runs() -> None:
    head = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry scale"
    body = CRIB.read_text(encoding="utf-8")
    assert len(body.splitlines()) == 12
    spec = LaunchSpec(
        name="scale",
        language="ptx",
        ptx=f"{head}(.param .u64 out, .param .u64 a, .param .u32 n)\n{{\n{body}}}\n",
        entry="scale",
        grid=(2, 1, 1),
        block=(64, 1, 1),
        params=(Tensor("out", "f32", (100,)), Tensor("a", "f32", (100,)), Scalar("n", "u32")),
    )
    a = np.arange(100, dtype=np.float32)
    done = runtime.run(spec, device="emulator", out=np.zeros(100, np.float32), a=a, n=100)
    assert (done["out"] == 2 * a + 1).all()


def _in_ptx() -> list[tuple[Path, str]]:
    return [(source, one.id) for source in SOURCES for one in exercises_in(source) if one.in_ptx]


def _checked(notebook: NotebookNode, source: Path, exercise: str) -> CheckResult:
    """The check of an exercise's answer in PTX, which runs with the cells alone that the page runs for it."""
    [cell] = [one.cell for one in exercises_in(source) if one.id == exercise and one.in_ptx]
    texts = [one.source for one in code_cells(notebook)]
    number = sum(one.cell_type == "code" for one in notebook.cells[:cell])
    kernel = Kernel({"__name__": "__main__"})
    with collecting() as results:
        for needed in (*cells_needed(texts, number), number):
            kernel.run(texts[needed])
    return results[-1]


@pytest.mark.parametrize(("source", "exercise"), _in_ptx(), ids=lambda value: str(value)[-5:])
def test_answer_in_ptx__is_checked(source: Path, exercise: str) -> None:
    notebook = solution_notebook(source)
    assert _checked(notebook, source, exercise), repr(_checked(notebook, source, exercise))
    assert _checked(learner_notebook(source), source, exercise).status == "untouched"
    [cell] = [one.cell for one in exercises_in(source) if one.id == exercise and one.in_ptx]
    right = notebook.cells[cell].source
    for old, new, message in WRONG[exercise]:
        notebook.cells[cell].source = right.replace(old, new)
        assert notebook.cells[cell].source != right
        result = _checked(notebook, source, exercise)
        assert result.status == "wrong", repr(result)
        assert message in repr(result)


@pytest.mark.sample(5)
@pytest.mark.program("ptxas")
@pytest.mark.parametrize(("source", "exercise"), _in_ptx(), ids=lambda value: str(value)[-5:])
def test_answer_in_ptx__is_accepted_by_ptxas(
    source: Path, exercise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[LaunchSpec] = []
    run = runtime.run

    def spy(spec: LaunchSpec, **arguments: Any) -> Any:
        launched.append(spec)
        return run(spec, **arguments)

    monkeypatch.setattr(runtime, "run", spy)
    assert _checked(solution_notebook(source), source, exercise)
    [kernel] = assembly_report(launched[-1], launched[-1].target)
    assert kernel.spill_bytes == 0
