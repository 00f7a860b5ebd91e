"""The Blackwell benchmark without a Blackwell: its refusal, its arithmetic, a run on the emulator."""

import json
import subprocess

import numpy as np
import pytest

from benchmarks import umma_throughput as bench
from cutecourse import runtime
from cutecourse.runtime import Device, Discovery

B200 = Device(0, "NVIDIA B200", (10, 0), 180 * 2**30, 148)
H200 = Device(0, "NVIDIA H200", (9, 0), 141 * 2**30, 132)
SMALL = (bench.Case((256, 256, 64), 2, (2, 1)), bench.Case((130, 257, 64), 1, (1, 1)))


def emulated(spec, gpu, a, b, repeats):
    """What a GPU would give, from the emulator; a launch of its own takes a millisecond."""
    assert gpu is B200
    run = runtime.run(spec, device="emulator", a=a, b=b, c=np.zeros((a.shape[0], b.shape[0]), np.float32))
    return run["c"], [1e-3 + 1e-4 * repeat for repeat in reversed(range(repeats))]


def measured(cases=SMALL, time=emulated, library=None):
    return bench.measure(
        B200,
        cases,
        time=time,
        library=lambda gpu, a, b, repeats: library,
        speeds=lambda ordinal: (1.8e9, 8e12),
        repeats=3,
    )


def test_main__refuses_in_one_line_where_there_is_no_blackwell(monkeypatch, capsys):
    for found, said in (
        (Discovery((H200,), "13.0", None), "this machine has NVIDIA H200 (9.0)"),
        (Discovery((), None, "no NVIDIA driver was found"), "none: no NVIDIA driver was found"),
    ):
        monkeypatch.setattr(runtime, "discover", lambda found=found: found)
        assert bench.main([]) == bench.SKIPPED
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(
            "umma_throughput: left out, it needs a GPU of compute capability 10.0 or 10.3, and"
        )
        assert said in line


def test_blackwell__is_one_of_both_generations():
    later = Device(1, "NVIDIA B300", (10, 3), 288 * 2**30, 148)
    assert bench.blackwell(Discovery((H200, later), "13.0", None)) is later
    assert bench.TARGETS[later.compute_capability] == "sm_103a"
    assert isinstance(bench.blackwell(Discovery((Device(0, "RTX", (12, 0), 1, 1),), "13.0", None)), str)


def test_bounds__are_those_computed_by_hand():
    limits = bench.bounds((1024, 1024, 1024), 100, 2e9, 1e12)
    assert limits["tensor_cores"] == pytest.approx(100 * 2e9 * 8192 / 1e12)
    # 2^31 operations, over 4 MiB of operands and 4 MiB of C at 1 TB/s.
    assert limits["memory"] == pytest.approx(2**31 / (8 * 2**20))
    assert bench.bounds((8, 8, 8), 1, 1e9, None)["memory"] is None


def test_measure__takes_the_least_time_of_a_checked_product():
    for row, case in zip(rows := measured(library=2e-3), SMALL, strict=True):
        assert row["seconds"] == pytest.approx(1e-3)
        assert row["tflops"] == pytest.approx(bench.flops(case.mnk) / 1e-3 / 1e12)
        assert row["cublas_tflops"] == pytest.approx(row["tflops"] / 2)
        assert row["rows_checked"] == 2
        assert row["of_bound"] == pytest.approx(
            row["tflops"] / min(row["bound_tflops"]["tensor_cores"], row["bound_tflops"]["memory"])
        )
    shown = bench.table(rows)
    assert "2 SMs, cluster 2x1" in shown
    assert "1 SM, cluster 1x1" in shown


def test_measure__refuses_a_product_with_one_wrong_tile():
    def wrong(spec, gpu, a, b, repeats):
        c, spent = emulated(spec, gpu, a, b, repeats)
        c[128:256, 128:256] += 1  # a tile of another CTA than the first
        return c, spent

    with pytest.raises(bench.WrongProductError, match=r"2 SMs, cluster 2x1, 256x256x64: C\[\d+,128\] is"):
        measured(SMALL[:1], time=wrong)


def test_main__writes_a_file_named_by_the_gpu(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(runtime, "discover", lambda: Discovery((B200,), "13.0", None))
    rows = measured()
    monkeypatch.setattr(bench, "measure", lambda gpu: rows)
    monkeypatch.setattr(bench, "result_path", lambda name, gpu: tmp_path / f"{name}_{gpu[-4:].lower()}.json")
    assert bench.main([]) == 0
    result = json.loads((tmp_path / "umma_throughput_b200.json").read_text())
    assert result["recorded"]["compute_capability"] == [10, 0]
    assert [row["sms"] for row in result["rows"]] == [2, 1]
    assert [row["cublas_tflops"] for row in result["rows"]] == [None, None]
    assert "written: " in capsys.readouterr().out


def test_cases__are_launches_that_the_kernel_takes():
    assert len({(case.mnk, case.sms, case.cluster) for case in bench.CASES}) == len(bench.CASES)
    for case in bench.CASES:
        spec = case.spec()
        assert all(extent % of == 0 for extent, of in zip(spec.grid, spec.cluster, strict=True))
    assert {case.cluster for case in bench.CASES if case.sms == 2} >= {(2, 1), (4, 4)}


def test_make__has_a_door_for_it(repository):
    done = subprocess.run(["make", "-n", "bench-blackwell"], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0
    assert "-m benchmarks.umma_throughput" in done.stdout


@pytest.mark.gpu("sm_100a")
def test_timed__multiplies_on_a_blackwell():
    (case,) = SMALL[:1]
    gpu = bench.blackwell(runtime.discover())
    a, b = bench.operands(case.mnk)
    c, spent = bench.timed(case.spec(), gpu, a, b, 2)
    assert bench.check(case, a, b, c) == 2
    assert len(spent) == 2
