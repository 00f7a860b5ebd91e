"""The museum's hunt: its kernel before and after each repair; and how readers make a warp late."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import hunt as benchmark
from benchmarks.results_file import RESULTS
from cutecourse import cli
from cutecourse.emulator import EmulatorError, launch, prove
from cutecourse.emulator.errors import DeadlockError, KernelTrap, UnfinishedLoad
from cutecourse.museum import exhibits, hunt
from cutecourse.runtime import Device, Discovery

NVCC = pytest.mark.program("nvcc")
LAUNCHES = [(edits, *launch) for edits in range(len(hunt.EDITS) + 1) for launch in benchmark.LAUNCHES]
TEXTS = ["kept", pytest.param("compiled", marks=[NVCC, pytest.mark.inputs("lib/cutecourse/museum/hunt")])]
FREE = 2
"""The stages that warp 0 can still fill when warp 1 has left with one in its hands."""


@cache
def compiled(edits: int) -> str:
    return benchmark.compiled(hunt.source(edits), "first_match")


def ptx(text: str, edits: int) -> str:
    return hunt.ptx(edits) if text == "kept" else compiled(edits)


def arguments(tiles: int, tile: int) -> list[Any]:
    return [np.arange(tiles * hunt.TILE, dtype=np.int32), np.zeros(1, np.int32), tiles, tile * hunt.TILE + 10]


def end(text: str, tiles: int, tile: int) -> type[EmulatorError] | None:
    """How a launch ends: with an error, or right."""
    given = arguments(tiles, tile)
    try:
        launch(text, grid=1, block=64, args=given)
    except EmulatorError as error:
        return type(error)
    assert given[1][0] == given[3]
    return None


@pytest.mark.parametrize("edits", range(len(hunt.EDITS) + 1))
def test_edits__change_the_source_once_each(edits: int) -> None:
    before, after = hunt.source(max(edits - 1, 0)), hunt.source(edits)
    assert edits == 0 or before.count(hunt.EDITS[edits - 1][0]) == 1
    assert (before != after) == (edits > 0)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("edits", range(3))
def test_hunted_kernel__hangs_if_the_ring_fills_up_behind_a_reader_that_left(text: str, edits: int) -> None:
    for tiles in (1, 3, 4, 5, 7):
        for tile in range(tiles):
            behind = tiles - 1 - tile
            right: type[EmulatorError] | None = None
            if edits < 2 and behind:
                right = DeadlockError if behind > FREE + edits else UnfinishedLoad
            assert end(ptx(text, edits), tiles, tile) == right, (tiles, tile)


@pytest.mark.parametrize("text", TEXTS)
def test_report__names_the_line_below_the_one_that_is_wrong(text: str) -> None:
    lines = hunt.source().splitlines()
    never = 1 + next(number for number, line in enumerate(lines) if "arrive(&empty" in line)
    assert "break;" in lines[never - 2]
    with pytest.raises(DeadlockError, match=rf"first_match\.cu:{never}\) was never executed"):
        launch(ptx(text, 0), grid=1, block=64, args=arguments(6, 0))


@pytest.mark.parametrize(
    ("edits", "tile", "verdict"), [(0, 5, "proved"), (0, 0, "counterexample"), (2, 0, "proved")]
)
def test_proof__is_of_the_launch_that_it_gets(edits: int, tile: int, verdict: str) -> None:
    assert prove(hunt.ptx(edits), grid=1, block=64, args=arguments(6, tile)).verdict == verdict


@pytest.mark.parametrize("edits", range(3))
def test_kept_ptx__names_files_and_no_folders(edits: int) -> None:
    assert '.file\t1 "first_match.cu"' in hunt.ptx(edits)
    assert not re.search(r'\.file\s+\d+ "[^"]*/', hunt.ptx(edits))


def test_late_warp__is_the_one_that_the_proof_names() -> None:
    exhibit = exhibits()["one_for_two"]
    text = exhibit.text("broken")
    proof = str(prove(text, grid=1, block=64, args=list(exhibit.arguments().values())))
    named = re.search(r"warp (\d+) executes line (\d+) when nothing else can go on", proof)
    assert named is not None
    assert exhibit.delay is not None
    assert int(named[1]) == exhibit.delay.warp
    assert text.splitlines()[int(named[2]) - 1].strip().startswith(exhibit.delay.before)


def test_page__names_options_that_the_command_has(capsys: pytest.CaptureFixture[str]) -> None:
    page = benchmark.PAGE.read_text(encoding="utf-8")
    options = set()
    for command in ("emulate", "prove"):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        options |= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    own = page.partition("## Look at your own kernel")[2].partition("**It hangs on a GPU right now.**")[0]
    named = set(re.findall(r"--[a-z]+", own))
    assert len(named) >= 8
    assert named <= options


# --- a warp that is late ------------------------------------------------------------------------------------


def sleeper(text: str, blocks: int = 2) -> tuple[int, int]:
    """Who executes a nap: the block and the warp. Each nap is made a trap, which ends the launch there."""
    assert text.count("nanosleep.u32") >= 1
    trapped = re.sub(r"nanosleep\.u32\s+[^;]+;", "trap;", text)
    with pytest.raises(KernelTrap) as error:
        launch(trapped, grid=blocks, block=32 * benchmark.WARPS, args=[np.zeros((4, 2), np.uint64)])
    assert error.value.block is not None
    assert error.value.warp is not None
    return error.value.block[0], error.value.warp


def place(text: str) -> int:
    """After how many readings of the clock the nap comes."""
    before, _, _ = text.partition("nanosleep")
    return before.count("%globaltimer")


@NVCC
@pytest.mark.parametrize("form", ["C++", "PTX"])
@pytest.mark.parametrize("where", [0, 1])
def test_late_forms__make_the_warp_sleep_that_was_named_and_no_other(form: str, where: int) -> None:
    text = benchmark.stamps(form, where, 3)
    assert sleeper(text) == (0, 3)
    assert place(text) == where + 1
    assert len(re.findall(r"nanosleep", text)) == 4


@NVCC
def test_late_form_in_cpp__leaves_nothing_without_its_options() -> None:
    assert "nanosleep" not in benchmark.compiled(benchmark.pasted("cpp") + benchmark._STAMPS, "stamps")


@NVCC
@pytest.mark.inputs("book/museum.md", "tests/kernels/test_museum_hunt.py")
def test_counting__is_compiled_into_an_atomic_addition() -> None:
    page = benchmark.PAGE.read_text(encoding="utf-8")
    (block,) = (one for one in re.findall(r"```cpp\n(.*?)```", page, re.DOTALL) if "atomicAdd" in one)
    host, device = block.split("// In the kernel")
    kernel = "__global__ void kernel(unsigned* came) {\n//" + device + "}\n"
    main = "int main() { int grid = 1, block = 32;\n" + host + "}\n"
    text = benchmark.compiled("#include <cstdio>\n#include <unistd.h>\n" + kernel + main, "counting")
    assert re.search(r"(%rd\d+), %rd\d+, 12;[^;]*atom\.global\.add\.u32\s+%r\d+, \[\1\], 1;", text)


DSL = """
import numpy as np
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def places(took: cute.Tensor):
    late(0)
    cute.arch.sync_threads()
    late(1)


@cute.jit
def host(took: cute.Tensor):
    places(took).launch(grid=(2, 1, 1), block=(128, 1, 1))


took = from_dlpack(np.zeros(8, np.int64))
print(cute.compile[cute.KeepPTX(True), cute.GPUArch("sm_90a")](host, took).__ptx__)
"""


@pytest.mark.compilers
@pytest.mark.inputs("book/museum.md", "tests/kernels/test_museum_hunt.py")
def test_late_form_in_the_dsl__makes_the_warp_sleep_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late.py").write_text(benchmark.pasted("python") + DSL)
    monkeypatch.setenv("LATE", "1,3,1")
    command = [sys.executable, "late.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("nanosleep") == 4
    assert re.search(r"bar(rier)?\.sync", done.stdout.partition("nanosleep")[0])
    assert sleeper(done.stdout) == (1, 3)


# --- on a GPU -----------------------------------------------------------------------------------------------


def test_run_here__says_how_each_run_ends(capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.run_here(2, 4, 0, 2, device="emulator")
    assert capsys.readouterr().out == "right\nright\n"


def test_kept_runs__end_on_a_gpu_as_on_the_emulator() -> None:
    paths = sorted(RESULTS.glob("hunt_*.json"))
    assert paths
    for path in paths:
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        assert [(row["edits"], row["tiles"], row["tile"]) for row in rows] == LAUNCHES
        for row in rows:
            hangs = end(hunt.ptx(row["edits"]), row["tiles"], row["tile"]) is DeadlockError
            assert [*row["ends"]] == ["hung" if hangs else "right"], row


@pytest.mark.parametrize(("naps", "edits", "status"), [(0, 0, 0), (1, 0, 1), (0, len(hunt.EDITS), 1)])
def test_main__fails_if_a_nap_or_the_repaired_kernel_does(
    naps: int, edits: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the naps, or of the kernels after so many edits, some fail; a broken kernel may."""
    gpu = Device(0, "NVIDIA H200", (9, 0), 141 * 2**30, 132)
    monkeypatch.setattr(benchmark.runtime, "discover", lambda: Discovery((gpu,), "13.0", None))

    def alone(*words: object) -> tuple[str, int | None]:
        if words[0] == "--nap":
            return ("", 1) if words[2] == 1 and naps else ("[[0.0, 0.0]]", 0)
        return ("", None) if words[1] == edits else ("right\n" * benchmark.RUNS, 0)

    monkeypatch.setattr(benchmark, "_alone", alone)
    assert benchmark.main(["--output", str(tmp_path / "hunt.json")]) == status
    kept = json.loads((tmp_path / "hunt.json").read_text())
    assert sum(nap["ms"] is None for nap in kept["naps"]) == 2 * naps
    assert sum("hung" in row["ends"] for row in kept["rows"]) == len(benchmark.LAUNCHES)


def test_main__asks_for_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(benchmark.runtime, "discover", lambda: Discovery((), None, "there is no driver"))
    assert benchmark.main([]) == 1
    assert capsys.readouterr().err == "hunt: a GPU is needed; there is no driver.\n"
