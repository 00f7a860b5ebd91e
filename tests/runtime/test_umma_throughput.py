"""The Blackwell benchmark without a Blackwell: its refusal, its arithmetic, a run on the emulator."""

import json
import subprocess

import pytest

from benchmarks import umma_throughput as bench
from cutecourse import runtime
from cutecourse.kernels.chapters import CHAPTERS
from cutecourse.runtime import Device, Discovery

B200 = Device(0, "NVIDIA B200", (10, 0), 180 * 2**30, 148)
H200 = Device(0, "NVIDIA H200", (9, 0), 141 * 2**30, 132)
SMALL = (bench.Case((256, 256, 64), 2, (2, 1)), bench.Case((130, 257, 64), 1, (1, 1)))
RUNGS = tuple(
    bench.Case((256, 264, 72), 2, (2, 1), *kernel)
    for kernel in (("umma_store",), ("umma_persistent",), ("umma_classes",), ("umma_scheduled", 128, 4))
)


def emulated(spec, gpu, a, b, repeats):
    """What a GPU would give, from the emulator; a launch of its own takes a millisecond."""
    assert gpu is B200
    name = list(spec.arguments)[2]
    run = runtime.run(spec, device="emulator", a=a, b=b, **{name: bench.no_result(spec)})
    return run[name], [1e-3 + 1e-4 * repeat for repeat in reversed(range(repeats))]


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


def test_measure__checks_and_counts_the_rungs_that_store_bf16():
    for row, case in zip(rows := measured(RUNGS), RUNGS, strict=True):
        assert (row["kernel"], row["rows_checked"]) == (case.kernel, 2)
        moved = 2 * (256 * 72 + 264 * 72) + 2 * 256 * 264
        assert row["bound_tflops"]["memory"] == pytest.approx(bench.flops(case.mnk) / moved * 8)
    assert "scheduled, 2 SMs, cluster 2x1, N 128, 4 stages" in bench.table(rows)

    def unrounded(spec, gpu, a, b, repeats):
        c, spent = emulated(spec, gpu, a, b, repeats)
        return c ^ 1, spent  # the last bit of bf16

    with pytest.raises(bench.WrongProductError, match="store, 2 SMs"):
        measured(RUNGS[:1], time=unrounded)


def test_main__takes_the_mmas_and_stages_that_it_is_given(monkeypatch, capsys):
    given = []
    monkeypatch.setattr(runtime, "discover", lambda: Discovery((B200,), "13.0", None))
    monkeypatch.setattr(bench, "measure", lambda gpu, cases: given.extend(cases) or [])
    monkeypatch.setattr(bench.Path, "write_text", lambda *_, **__: None)
    assert bench.main(["--n", "64", "192", "--stages", "5", "--output", "unused.json"]) == 0
    scheduled = [case for case in given if case.kernel == "umma_scheduled"]
    assert {(case.columns, case.stages) for case in scheduled} == {(64, 5), (192, 5)}
    assert {case.sms for case in scheduled} == {1, 2}
    with pytest.raises(SystemExit):
        bench.main(["--stages", "9", "--n", "256"])
    assert "--stages 9: shared memory has no room" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        bench.main(["--stages", "4", "0"])
    assert "--stages 0: a kernel has at least one" in capsys.readouterr().err


def test_main__writes_a_file_named_by_the_gpu(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(runtime, "discover", lambda: Discovery((B200,), "13.0", None))
    rows = measured()
    monkeypatch.setattr(bench, "measure", lambda gpu, cases: rows)
    monkeypatch.setattr(bench, "result_path", lambda name, gpu: tmp_path / f"{name}_{gpu[-4:].lower()}.json")
    assert bench.main([]) == 0
    result = json.loads((tmp_path / "umma_throughput_b200.json").read_text())
    assert result["recorded"]["compute_capability"] == [10, 0]
    assert [row["sms"] for row in result["rows"]] == [2, 1]
    assert [row["cublas_tflops"] for row in result["rows"]] == [None, None]
    assert "written: " in capsys.readouterr().out


def test_cases__are_launches_that_the_kernel_takes():
    cases = bench.cases()
    assert len(set(cases)) == len(cases)
    for case in cases:
        spec = case.spec()
        assert all(extent % of == 0 for extent, of in zip(spec.grid, spec.cluster, strict=True))
    assert {case.cluster for case in cases if case.sms == 2} >= {(2, 1), (4, 4)}
    chapter_14 = {name for chapter in CHAPTERS if chapter.number == 14 for name in chapter.kernels}
    assert {case.kernel for case in cases} == {"umma_gemm", *chapter_14}
    tried = {(case.columns, case.stages) for case in cases if case.columns}
    assert tried == {(columns, stages) for columns in (128, 256) for stages in (3, 4, 6)}


@pytest.mark.parametrize(("case", "mapped"), [(SMALL[0], "ab"), (RUNGS[0], "abd")])
def test_timed__passes_each_array_as_the_kernel_takes_it(case, mapped, monkeypatch):
    seen = []

    class OnGpu:
        """In place of the GPU: keeps the arguments of a launch."""

        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def launch(self, arguments, **how):
            seen.append((arguments, how))
            return [1e-3] * how["repeat"]

    monkeypatch.setattr(runtime, "GpuKernel", OnGpu)
    spec = case.spec()
    a, b = bench.operands(case.mnk)
    c, spent = bench.timed(spec, B200, a, b, 2)
    ((arguments, how),) = seen
    assert [one.name for one in arguments if isinstance(one, runtime.MappedArray)] == list(mapped)
    for one, given in zip(arguments, (a, b, c), strict=True):
        assert getattr(one, "array", one) is given
    assert (how["grid"], how["cluster"], len(spent)) == (spec.grid, spec.cluster, 2)


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
