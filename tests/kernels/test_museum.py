"""The museum's exhibits: a broken kernel is reported under a right class, a repaired one is silent."""

from __future__ import annotations

import difflib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from benchmarks import museum as benchmark
from benchmarks import museum_table, sanitizer
from cutecourse import cli, museum
from cutecourse.emulator import EmulatorError, errors, prove
from cutecourse.museum import Exhibit, ExhibitError, exhibits
from cutecourse.museum import __main__ as corpus
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
    assert len(EXHIBITS) >= 24
    assert sum(exhibit.runs_on_hopper for exhibit in EXHIBITS.values()) >= 12
    assert {exhibit.sign for exhibit in EXHIBITS.values()} == set(museum_table.SIGNS)
    assert {exhibit.found for exhibit in EXHIBITS.values()} == {"published", "by us"}


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
    spins = name == "last_one_out"  # in a loop over global memory, which prove does not follow
    assert [report(exhibit, "repaired", seed) for seed in (SEEDS if spins else range(4))] == [""] * (
        20 if spins else 4
    )
    proof = prove(**launch_of(exhibit.spec("repaired"), **exhibit.arguments()))
    assert proof.verdict == ("incomplete" if spins else "proved"), str(proof)


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


@each()
def test_command__of_a_story_finds_its_bug(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exhibit = EXHIBITS[name]
    monkeypatch.chdir(tmp_path)
    for file in re.findall(r"in:(\w+)\.npy", museum_table.command(exhibit, "k.ptx")):
        np.save(f"{file}.npy", exhibit.arguments()[file])
    program, *words = shlex.split(museum_table.command(exhibit, str(exhibit.folder / "broken.ptx")))
    assert program == "cutecourse"
    assert cli.main(words) == 1
    said = capsys.readouterr()
    assert said.out.startswith("counterexample"), said


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("guest_before_host", "between them: that of the cluster, or an mbarrier", "bar.sync"),
        ("shared_operand", "between them: bar.sync, or an mbarrier", "cluster"),
        ("registers_in_flight", "Put wgmma.wait_group before the registers are written.", "commit_group"),
    ],
)
def test_advice__fits_the_bug(name: str, right: str, wrong: str) -> None:
    exhibit = EXHIBITS[name]
    with pytest.raises(EmulatorError) as error:
        run(exhibit.spec("broken"), device="emulator", **exhibit.arguments())
    words = str(error.value).partition("\n")[0]
    assert right in words
    assert wrong not in words


# --- one party is late --------------------------------------------------------------------------------------

LATE = [name for name, exhibit in EXHIBITS.items() if exhibit.delay]


@each(LATE)
def test_delayed_texts__sleep_at_one_place_and_change_nothing_else(name: str) -> None:
    exhibit = EXHIBITS[name]
    assert exhibit.delay is not None
    assert exhibit.runs_on_hopper
    assert exhibit.delay.predicted in benchmark._ENDS
    for version, delayed in zip(museum.VERSIONS, museum.DELAYED, strict=True):
        added = list(difflib.ndiff(exhibit.text(version).splitlines(), exhibit.text(delayed).splitlines()))
        assert not [line for line in added if line[0] == "-"]
        assert sum("nanosleep.u32 1000000;" in line for line in added if line[0] == "+") == 4
    assert report(exhibit, "repaired_delayed", 0) == ""


def test_delay__that_has_no_place_or_is_not_there_is_refused() -> None:
    late = museum.Latecomer("bar.sync 7;", 0, 0, "hung")
    with pytest.raises(ExhibitError, match=r"0 lines begin with 'bar\.sync 7;'; a delay needs one"):
        late.put_into("bar.sync 0;")
    with pytest.raises(ExhibitError, match="query_tile has no delay"):
        EXHIBITS["query_tile"].text("broken_delayed")


@pytest.mark.program("ptxas")
@each()
def test_texts__are_assembled(name: str, tmp_path: Path) -> None:
    exhibit = EXHIBITS[name]
    for version in (*museum.VERSIONS, *(museum.DELAYED if exhibit.delay else ())):
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
    with pytest.raises(ExhibitError, match=r"half/exhibit\.json must have title.*it lacks sign, symptom"):
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
    rows = museum_table.TABLES["table"]().splitlines()[2:]
    for row, (name, (heading, story)) in zip(rows, museum_table.stories().items(), strict=True):
        assert f"[{heading}]({story})" in row
        assert EXHIBITS[name].project in row
        assert ("(found by us)" in row) == (EXHIBITS[name].found == "by us")
        assert row.count(" | ") == 7
    index = museum_table.TABLES["signs"]()
    assert all(index.count(f"({story})") == 1 for _, story in museum_table.stories().values())


def test_index__has_every_exhibit_that_hangs() -> None:
    index = museum_table.TABLES["hangs"]()
    hang = [name for name, exhibit in EXHIBITS.items() if exhibit.sign.startswith("hangs")]
    assert [name for name in hang if f"({museum_table.stories()[name][1]})" not in index] == []
    assert "| At an mbarrier; the others have ended | All bytes have come, and no arrival | [Exactly" in index
    shown = [name for name in EXHIBITS if f"({museum_table.stories()[name][1]})" in index]
    assert [name for name in shown if f": {EXHIBITS[name].mistake}" not in index] == []
    assert [name for name in EXHIBITS if bool(EXHIBITS[name].mistake) != (name in shown)] == []


def test_proofs__counts_the_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"a": {"verdict": "counterexample"}, "b": {"verdict": "incomplete"}}
    monkeypatch.setattr(museum_table, "kept", lambda: rows)
    assert "It refutes 1 of the 2 broken kernels" in museum_table.TABLES["proofs"]()


STUCK = """no warp can go on, because phase 0 of mbarrier empty (shared offset 0) lacks 1 of 1 arrivals:
  block (0, 0, 0) warp 0: line 9, mbarrier.try_wait waits for parity 0 of mbarrier empty (shared offset 0)
  block (0, 0, 0) warps 2-3: line 5, waits at barrier 1: 64 of all 128 threads have arrived, but not warp 1
  mbarrier empty (block (0, 0, 0), shared offset 0): phase 0 has received nothing
    could bring arrivals but was never executed: line 40 (mbarrier.arrive)
  mbarrier full (block (0, 0, 0), shared offset 8): phase 2 has received nothing; phase 1 is complete
  mbarrier done (block (0, 0, 0), shared offset 16): phase 0 has received:
    128 bytes expected at line 28 by warp 1
    128 bytes landed, asked for at line 29 by warp 1"""


def test_standing__says_where_warps_are_and_what_has_come() -> None:
    assert benchmark.standing(STUCK) == {
        "at": ["mbarrier", "named barrier"],
        "has": [
            "2 phases are complete, nothing has come since",
            "64 of 128 threads have come",
            "all bytes have come, and no arrival",
            "nothing has ever come, and the line that would arrive never ran",
        ],
    }
    assert benchmark.standing("read of shared memory where byte 0x0 was never written.") is None
    divided = STUCK.replace(
        "waits at barrier 1: 64 of all", "waits at bar.sync 1 for the other lanes of its warp"
    )
    assert benchmark.standing(divided)["at"] == ["mbarrier", "other lanes"]
    with pytest.raises(ValueError, match=r"no place .* warps 2-3: line 5, waits for a friend"):
        benchmark.standing(STUCK.replace("waits at barrier 1: 64 of all", "waits for a friend"))


@each(name for name, row in museum_table.kept().items() if row["hangs"])
def test_kept_hangs__are_those_of_today(name: str) -> None:
    assert benchmark.hangs(EXHIBITS[name]) == museum_table.kept()[name]["hangs"]


def test_words__are_quoted_from_reports_and_sources() -> None:
    words = museum_table.TABLES["words"]()
    assert sum(bool(exhibit.said) for exhibit in EXHIBITS.values()) >= 15
    assert all(f"“{said}”" in words for exhibit in EXHIBITS.values() for said in exhibit.said)
    with pytest.raises(EmulatorError) as error:
        run(
            EXHIBITS["ring_of_buffers"].spec("broken"),
            device="emulator",
            **EXHIBITS["ring_of_buffers"].arguments(),
        )
    row = f"| `hazard: {error.value.hazard.name}` | the emulator | [Everybody waited]"
    assert row in words


def test_controls__are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = {"memcheck": {"state": "silent"}, "racecheck": {"state": "reports"}}
    row = {"exhibit": "runaway_math", "kernel": "repaired", "ends": {"right": 50}, "tools": tools}
    monkeypatch.setattr(museum_table, "kept_of_a_gpu", lambda: {"recorded": {}, "rows": [row]})
    assert museum_table._sanitizer(EXHIBITS["runaway_math"], "repaired") == "racecheck"
    assert "of these 2 runs, 1 gave a false alarm" in museum_table.TABLES["machine"]()


def test_luck__counts_kernels_that_were_always_right(monkeypatch: pytest.MonkeyPatch) -> None:
    names, ends = ["runaway_math", "one_for_two", "query_tile"], [{"right": 50}, {"right": 49, "hung": 1}, {}]
    rows = [{"exhibit": name, "kernel": "broken", "ends": end} for name, end in zip(names, ends, strict=True)]
    monkeypatch.setattr(museum_table, "kept_of_a_gpu", lambda: {"recorded": {}, "rows": rows})
    assert museum_table.TABLES["luck"]() == (
        "A GPU ran 2 of the broken ones, 50 times each, or fewer if they hung."
        " **1 of them gave the right result all 50 times.**"
    )


def test_table__says_where_a_prediction_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"exhibit": "runaway_math", "kernel": "broken_delayed", "ends": {"right": 50}},
        {"exhibit": "query_tile", "kernel": "broken", "ends": {"right": 50}},
        {"exhibit": "half_the_crew", "kernel": "broken", "ends": {"hung": 3}},
    ]
    gpu = {"gpu": "NVIDIA H100 80GB HBM3", "driver": "580.1", "compute_sanitizer": "2025.3"}
    monkeypatch.setattr(museum_table, "kept_of_a_gpu", lambda: {"recorded": gpu, "rows": rows})
    assert museum_table._late(EXHIBITS["runaway_math"]) == "50 right; predicted: hung"
    assert museum_table._late(EXHIBITS["one_for_two"]) == "not yet run"
    assert museum_table._late(EXHIBITS["query_tile"]) == "–"
    assert museum_table._late(EXHIBITS["half_the_crew"]) == "not needed"
    assert "an H100 80GB HBM3 with driver 580.1" in museum_table.TABLES["machine"]()


@pytest.mark.parametrize(
    ("plain", "late", "right"),
    [
        ([], [], "not yet run"),
        (["wrong", "hung"], [], "hung or wrong in each run"),
        (["right", "hung"], [], "hung at times"),
        (["right"], [], "right 50 times"),
        (["right"], ["right"], "right 50 times, even with a late warp"),
        (["right"], ["wrong"], "right 50 times, and wrong each time that a warp was late"),
        (["right"], ["right", "hung"], "right 50 times, and hung at times when a warp was late"),
    ],
)
def test_often__tells_sometimes_from_always(
    monkeypatch: pytest.MonkeyPatch, plain: list[str], late: list[str], right: str
) -> None:
    rows = [
        {"exhibit": "runaway_math", "kernel": kernel, "ends": dict.fromkeys(ends, 1)}
        for kernel, ends in (("broken", plain), ("broken_delayed", late))
    ]
    monkeypatch.setattr(museum_table, "kept_of_a_gpu", lambda: {"rows": rows})
    assert museum_table._often(EXHIBITS["runaway_math"]) == right


@each(["runaway_math", "first_wgmma", "prefetched_weights"])
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


def test_checker__is_judged_by_its_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    wait = "import sys; sys.exit('bar.sync            0;' in open(sys.argv[1]).read())"
    named = ["--only", "empty_sequence", "query_tile"]
    assert corpus.main([f'{sys.executable} -c "{wait}" {{ptx}}', *named]) == 1
    table = capsys.readouterr().out.splitlines()
    assert [line.split() for line in table[1:3]] == [
        ["empty_sequence", "reports", "reports"],
        ["query_tile", "reports", "reports"],
    ]
    assert table[3].startswith("0 of 2 exhibits")
    broken = "import sys; sys.exit('broken' in sys.argv[1])"
    assert corpus.main([f'{sys.executable} -c "{broken}" {{ptx}} {{launch}}', *named]) == 0


def test_checker__runs_from_a_copy_of_the_folder_alone(tmp_path: Path) -> None:
    shutil.copytree(EXHIBITS["query_tile"].folder.parent, tmp_path / "museum")
    broken = "sh -c '! grep -q broken {ptx}'"
    command = [sys.executable, "-I", "-S", str(tmp_path / "museum"), broken]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    every = len(EXHIBITS)
    said = f"{every} of {every} exhibits are told apart: {every} broken and 0 repaired are reported"
    assert done.stdout.splitlines()[-1] == said


@pytest.mark.parametrize("command", ["no_such_program {ptx}", "cat {kernel}", "cat '"])
def test_checker__that_cannot_be_run_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert corpus.main([command, "--only", "query_tile"]) == 2
    assert "cannot be run" in capsys.readouterr().err


def test_main__asks_for_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(benchmark.runtime, "discover", lambda: Discovery((), None, "there is no driver"))
    assert benchmark.main(["--gpu"]) == 1
    assert capsys.readouterr().err == "museum: --gpu needs a GPU; there is no driver.\n"


def test_main__refuses_a_delay_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        benchmark.main(["--delay"])
    assert "--delay needs --gpu" in capsys.readouterr().err


def test_measure__runs_delayed_texts_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "observe_runs", lambda name, kernel: {"ends": {"right": 50}, "words": ""})
    rows = benchmark.measure(None, ["query_tile", "runaway_math"], 60, 1, delay=True)
    assert [(row["exhibit"], row["kernel"]) for row in rows] == [
        ("query_tile", "broken"),
        ("query_tile", "repaired"),
        *(("runaway_math", kernel) for kernel in (*museum.VERSIONS, *museum.DELAYED)),
    ]
    assert all(row["ends"] == {"right": 50} for row in rows)
