"""The museum's exhibits: a broken kernel is reported under a right class, a repaired one is silent."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from benchmarks import museum as benchmark
from benchmarks import museum_table, sanitizer
from cutecourse import museum
from cutecourse.emulator import EmulatorError, errors, prove
from cutecourse.museum import Exhibit, ExhibitError, exhibits
from cutecourse.runtime import Device, Discovery, GpuError, launch_of, run
from cutecourse.runtime.assembly import find_ptxas

EXHIBITS = exhibits()
SEEDS = range(20)
pytestmark = pytest.mark.filterwarnings("error")


def each(names: Any = EXHIBITS) -> Any:
    return pytest.mark.parametrize("name", list(names))


def report(exhibit: Exhibit, version: str, seed: int) -> str:
    """The class of the error that ends a run, or "" for a run without notes that gives the right results."""
    try:
        ran = run(exhibit.spec(version), device="emulator", seed=seed, **exhibit.arguments())
    except EmulatorError as error:
        return type(error).__name__
    assert not ran.notes
    for name, right in exhibit.expected().items():
        np.testing.assert_array_equal(ran[name], right)
    return ""


def is_right(exhibit: Exhibit, kind: str) -> bool:
    named = tuple(getattr(errors, name) for name in exhibit.reports)
    return issubclass(getattr(errors, kind), named)


def test_museum__has_as_many_as_it_says() -> None:
    assert len(EXHIBITS) >= 20
    assert sum(exhibit.runs_on_hopper for exhibit in EXHIBITS.values()) >= 12


@each()
def test_broken__is_reported_under_a_right_class(name: str) -> None:
    exhibit = EXHIBITS[name]
    found = [report(exhibit, "broken", seed) for seed in SEEDS]
    assert any(found)
    assert all(is_right(exhibit, kind) for kind in filter(None, found)), found
    proof = prove(**launch_of(exhibit.spec("broken"), **exhibit.arguments()))
    assert proof.verdict == "counterexample"
    assert is_right(exhibit, type(proof.error).__name__), str(proof)


@each()
def test_repaired__is_silent_right_and_proved(name: str) -> None:
    exhibit = EXHIBITS[name]
    assert [report(exhibit, "repaired", seed) for seed in range(4)] == [""] * 4
    assert prove(**launch_of(exhibit.spec("repaired"), **exhibit.arguments())).proved


@each()
def test_texts__differ_only_in_the_bug(name: str) -> None:
    exhibit = EXHIBITS[name]
    broken, repaired = (exhibit.text(version).splitlines()[1:] for version in museum.VERSIONS)
    changed = [line for line in difflib.ndiff(broken, repaired) if line[0] in "+-"]
    assert 1 <= len(changed) <= 6
    assert len(repaired) <= 120


@each()
def test_chapter__explains_it_and_links_back(name: str, repository: Path) -> None:
    exhibit = EXHIBITS[name]
    text = (repository / "book" / "chapters" / f"{exhibit.chapter}.md").read_text(encoding="utf-8")
    assert f"](../{museum_table.stories()[name][1]})" in text


@each()
def test_story__has_all_its_parts(name: str, repository: Path) -> None:
    page = museum_table.stories()[name][1].partition("#")[0]
    text = (repository / "book" / page).read_text(encoding="utf-8")
    story = text.partition(f"({museum_table.label(name)})=")[2].partition("\n(exhibit-")[0]
    assert [part for part in museum_table.PARTS if f"{{museum}} {name} {part}" not in story] == []
    heading = story.strip().partition("\n")[0]
    assert not any(heading.count(word) for word in ("fence", "wait_group", "tcgen05", "bar.", "mbarrier"))


@pytest.mark.parametrize("part", list(museum_table.PARTS))
def test_parts__of_a_story_say_what_they_should(part: str) -> None:
    text = museum_table.PARTS[part](EXHIBITS["runaway_math"])
    right = {
        "report": "Seed 0:\n\n```text\nDeadlockError: no warp can go on",
        "difference": "\n-    mov.u32             %bar, 1;\n+    mad.lo.u32          %bar, %slot, 4, 1;",
        "source": "[pull request #4732](https://github.com/flashinfer-ai/flashinfer/pull/4732); `include/",
    }
    assert right[part] in text


@pytest.mark.program("ptxas")
@each()
def test_texts__are_assembled(name: str, tmp_path: Path) -> None:
    exhibit = EXHIBITS[name]
    for version in museum.VERSIONS:
        source = tmp_path / f"{version}.ptx"
        source.write_text(exhibit.text(version), encoding="utf-8")
        command = [str(find_ptxas()), f"-arch={exhibit.target}", "-o", str(tmp_path / "out"), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.gpu(exhibit.target))
        for name, exhibit in EXHIBITS.items()
        if exhibit.runs_on_hopper
    ],
)
def test_repaired__is_right_on_a_gpu(name: str) -> None:
    exhibit = EXHIBITS[name]
    ran = run(exhibit.spec("repaired"), device="cuda:0", **exhibit.arguments())
    for result, right in exhibit.expected().items():
        np.testing.assert_array_equal(ran[result], right)


def test_exhibit__that_lacks_a_field_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "exhibit.json").write_text('{"title": "A kernel"}', encoding="utf-8")
    monkeypatch.setattr(museum, "_FOLDER", tmp_path)
    exhibits.cache_clear()
    with pytest.raises(ExhibitError, match=r"half/exhibit\.json must have title.*it lacks symptom"):
        exhibits()
    monkeypatch.undo()
    exhibits.cache_clear()


@pytest.mark.parametrize(
    ("content", "right"),
    [
        ({"every": 3}, [3, 3, 3, 3]),
        ({"first": 5, "step": -2}, [5, 3, 1, -1]),
        ({"first": 0, "step": 2, "modulo": 3}, [0, 2, 1, 0]),
        ({"values": [7, 9]}, [7, 7, 9, 9]),
    ],
)
def test_arrays__are_filled_as_the_launch_file_says(content: dict[str, Any], right: list[int]) -> None:
    np.testing.assert_array_equal(museum._filled(content, "s32", [2, 2]).reshape(-1), right)


def test_arrays__that_are_not_described_are_refused() -> None:
    with pytest.raises(ExhibitError, match="an array of 4 elements needs every, first and step, or values"):
        museum._filled({"values": [1, 2, 3]}, "s32", [2, 2])


# --- who finds them -----------------------------------------------------------------------------------------


def test_table__has_every_exhibit_and_links_to_its_story() -> None:
    assert list(museum_table.kept()) == list(EXHIBITS)
    assert sorted(museum_table.stories()) == list(EXHIBITS)
    rows = museum_table.markdown().splitlines()[2:]
    for row, (name, (heading, story)) in zip(rows, museum_table.stories().items(), strict=True):
        assert f"[{heading}]({story})" in row
        assert EXHIBITS[name].project in row


@each(["runaway_math", "first_wgmma", "empty_sequence"])
def test_kept_figures__are_those_of_today(name: str) -> None:
    assert benchmark.emulated(EXHIBITS[name]) == museum_table.kept()[name]


@pytest.mark.parametrize(
    ("text", "status", "right"),
    [
        ("right\nright\nwrong\n", 0, {"right": 2, "wrong": 1}),
        ("right\n", None, {"right": 1, "hung": 1}),
        ("right\nerror k: the GPU could not launch\n", 0, {"right": 1, "error": 1}),
        ("Traceback (most recent call last):\n", 1, {"error": 1}),
    ],
)
def test_ends__of_runs_in_a_process(text: str, status: int | None, right: dict[str, int]) -> None:
    assert dict(benchmark.ends(text, status)) == right


def test_runs__go_on_in_new_processes_until_three_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def limited(command: list[str], limit_s: float) -> tuple[str, int | None]:
        asked.append(int(command[-1]))
        return "right\n" * 4, None

    monkeypatch.setattr(benchmark, "limited", limited)
    assert benchmark.observe_runs("runaway_math", "broken")["ends"] == {"right": 12, "hung": 3}
    assert asked == [50, 45, 40]


class FakeKernel:
    """A kernel on a GPU that is not there: the third launch of an exhibit ends with an error."""

    launches = 0

    def __init__(self, ptx: str, entry: str, *, dynamic_smem: int = 0) -> None:
        assert sanitizer.lined(ptx, entry).count(".loc 1 ") > 3
        self.entry = entry

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def launch(self, args: list[Any], **shape: Any) -> None:
        if self.entry == "fill":
            assert shape == {"grid": (264, 1, 1), "block": (1024, 1, 1)}
            return
        FakeKernel.launches += 1
        if FakeKernel.launches == 2:
            args[1][...] = EXHIBITS[self.entry].expected()["out"]
        if FakeKernel.launches == 3:
            raise GpuError("the GPU could not launch: CUDA_ERROR_LAUNCH_FAILED\nmore")


def test_run_here__says_how_each_run_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu = Device(0, "NVIDIA H200", (9, 0), 141 * 2**30, 132)
    monkeypatch.setattr(benchmark.runtime, "discover", lambda: Discovery((gpu,), "13.0", None))
    monkeypatch.setattr(benchmark, "LinedKernel", FakeKernel)
    benchmark.run_here(EXHIBITS["empty_sequence"], "broken", 5)
    said = capsys.readouterr().out
    assert said.splitlines()[:2] == ["wrong", "right"]
    assert dict(benchmark.ends(said, 0)) == {"wrong": 1, "right": 1, "error": 1}


@pytest.mark.program("ptxas")
def test_filling_kernel__is_assembled(tmp_path: Path) -> None:
    source = tmp_path / "fill.ptx"
    source.write_text(sanitizer.lined(benchmark._FILL, "fill"), encoding="utf-8")
    command = [str(find_ptxas()), "-arch=sm_90a", "-o", str(tmp_path / "out"), str(source)]
    assert subprocess.run(command, check=False).returncode == 0


def test_checker__is_judged_by_its_exit_status() -> None:
    wait = "import sys; sys.exit('bar.sync            0;' in open(sys.argv[1]).read())"
    table = benchmark.checkers_table(
        f'{sys.executable} -c "{wait}" {{ptx}}', ["empty_sequence", "query_tile"]
    )
    assert [line.split() for line in table.splitlines()[1:3]] == [
        ["empty_sequence", "reports", "reports"],
        ["query_tile", "reports", "reports"],
    ]
    assert table.splitlines()[3].startswith("0 of 2 exhibits")
    with pytest.raises(SystemExit, match="no_such_program cannot be run"):
        benchmark.checkers_table("no_such_program {ptx}", ["query_tile"])


def test_main__asks_for_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(benchmark.runtime, "discover", lambda: Discovery((), None, "there is no driver"))
    assert benchmark.main(["--gpu"]) == 1
    assert capsys.readouterr().err == "museum: --gpu needs a GPU; there is no driver.\n"
