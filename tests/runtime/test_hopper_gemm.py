"""The Hopper benchmarks without a Hopper: their refusals, their arithmetic, wgmma's loop emulated."""

import json
import subprocess
import sys
from unittest.mock import MagicMock

import numpy as np
import pytest

from benchmarks import hopper_gemm as bench
from benchmarks import hopper_rivals, launching, wgmma_rate
from benchmarks.power import Meter, Reading
from benchmarks.wgmma_rate import Loop
from cutecourse import runtime
from cutecourse.runtime import Device, Discovery

H200 = Device(0, "NVIDIA H200", (9, 0), 141 * 2**30, 132)
B200 = Device(0, "NVIDIA B200", (10, 0), 180 * 2**30, 148)


@pytest.mark.parametrize(
    ("loop", "turns"),
    [(Loop(8, 1), 1), (Loop(8, 2), 18), (Loop(24, 2, "registers"), 2), (Loop(8, 1, "registers"), 17)],
    ids=str,
)
def test_wgmma_rate__multiplies_what_shared_memory_and_registers_hold(loop, turns):
    spec = wgmma_rate.rate_spec(1, loop)
    image, fragments = wgmma_rate.numbers(spec)
    outputs = {
        tensor.name: np.zeros(tensor.extents, kind)
        for tensor, kind in zip(spec.tensors[2:], (np.float32, np.uint64), strict=True)
    }
    given = {"image": image, "fragments": fragments, "turns": np.uint32(turns), **outputs}
    run = runtime.run(spec, device="emulator", **given)
    found = wgmma_rate.accumulators(loop, run["c"])
    assert np.allclose(found, wgmma_rate.expected(loop, image, fragments, turns), atol=2e-2)
    # The accumulators start again after 16 turns: the 17th leaves one product, the 18th two.
    assert loop.flops(turns, 3) == 3 * turns * loop.warpgroups * 2 * 64 * loop.n * 256


def test_wgmma_rate__fits_every_n_into_a_multiprocessor():
    assert {loop.n for loop in wgmma_rate.SHORT} == set(range(8, 257, 8))
    for loop in (*wgmma_rate.SHORT, *wgmma_rate.SUSTAINED):
        spec = wgmma_rate.rate_spec(132, loop)
        assert spec.dynamic_smem <= 227 * 1024
        assert abs(loop.turns() * 64 * loop.n * 256 * loop.warpgroups / wgmma_rate.FMAS - 1) < 0.01


@pytest.mark.parametrize("module", [bench, wgmma_rate])
def test_main__says_what_is_missing(module, monkeypatch, capsys):
    for found, said in (
        (Discovery((B200,), "13.0", None), "NVIDIA B200"),
        (Discovery((), None, "no NVIDIA driver was found"), "no NVIDIA driver was found"),
    ):
        monkeypatch.setattr(runtime, "discover", lambda found=found: found)
        assert module.main([]) == 1
        assert said in capsys.readouterr().err


def test_lacking__names_each_rivals_files(tmp_path):
    lines = bench.lacking(Discovery((H200,), "13.0", None), tmp_path)
    assert not [line for line in lines if "Hopper" in line]
    assert [line.split(":")[0] for line in lines if "--rivals" in line] == ["cutlass_dsl", "quack", "triton"]
    (tmp_path / "triton_persistent.py").touch()
    assert hopper_rivals.missing("triton", tmp_path) == []
    assert hopper_rivals.missing("triton", None) == ["triton_persistent.py"]


def test_cases__are_those_of_the_chapter():
    full = {case.mnk for case in bench.CASES if case.everybody}
    assert full == {(4096,) * 3, (8192,) * 3}
    assert {case.mnk for case in bench.CASES if case.dtype == "bf16"} == full
    assert len(hopper_rivals._QUACK) >= 9
    for case in bench.CASES:
        # Four sets do not fit into 60 MB of L2.
        m, n, k = case.mnk
        assert bench.SETS * 2 * (m * k + n * k + m * n) > 60e6


def test_rung_spec__passes_on_what_the_rung_takes():
    case = bench.Case((256, 136, 72), "bf16")
    assert bench.rung_spec("hopper_one", case, 8).tensors[0].dtype.name == "bf16"
    assert bench.rung_spec("gemm_late", bench.Case((256, 136, 72)), 8).tensors[0].dtype.name == "f16"
    with pytest.raises(runtime.GpuError, match="gemm_late takes f16 only"):
        bench.rung_spec("gemm_late", case, 8)


def test_counted__takes_the_longest_kernel_of_each_contestant():
    cycles, seconds = bench.COUNTERS["cycles"], bench.COUNTERS["seconds"]
    mark = "vectorized_elementwise_kernel"
    table = f"""launched cublas
launched hopper_one
==PROF== Disconnected
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","{mark}","{seconds}","ns","90"
"1","nvjet","{cycles}","cycle","1,064"
"1","nvjet","{seconds}","ns","12.5"
"2","splitK","{seconds}","ns","3"
"3","{mark}","{seconds}","ns","90"
"4","hopper","{cycles}","cycle","900"
"""
    assert bench.counted(table) == {
        "cublas": ("nvjet", {"cycles": 1064, "seconds": 12.5}),
        "hopper_one": ("hopper", {"cycles": 900}),
    }
    with pytest.raises(runtime.GpuError, match="saw 2 contestants, not cublas"):
        bench.counted(table.replace("launched hopper_one\n", ""))
    with pytest.raises(runtime.GpuError, match="no table"):
        bench.counted("launched cublas")


def test_meter__is_the_slope_through_the_counters_steps():
    steps = [(1.0, 100.0), (1.1, 170.0), (1.5, 450.0), (2.0, 800.0)]
    assert Meter(joules=steps).watts == pytest.approx(700)
    assert np.isnan(Meter(joules=steps[:1]).watts)


class Event:
    """An event of a GPU on which everything takes two milliseconds."""

    def __init__(self, **_):
        pass

    def record(self):
        pass

    def elapsed_time(self, _):
        return 2.0


@pytest.fixture
def made_up(monkeypatch, tmp_path):
    """A machine with a made-up PyTorch, one rival that works and one that does not."""
    torch = MagicMock()
    torch.cuda.Event = Event
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(bench.Bench, "check", lambda self, one: setattr(one, "max_error", 0.01))
    monkeypatch.setattr(bench, "WARM_S", 0)
    monkeypatch.setattr(bench, "LADDER", ("hopper_one",))
    monkeypatch.setattr(bench, "Loaded", MagicMock())
    monkeypatch.setattr(bench, "parameters", lambda spec, addresses: [0])
    monkeypatch.setattr(bench, "sustain", lambda *_: Reading(1e-3, 1400.0, 690.0, 2.0))
    monkeypatch.setattr(bench, "profiled", MagicMock(side_effect=runtime.GpuError("no counters here")))
    built = launching.Built(b"", "hopper_one", (4, 4, 1), (128, 1, 1), 4096, 90, 0)
    pool = MagicMock()
    pool.__enter__.return_value.map = lambda build, names, cases, sms: [built for _ in names]
    monkeypatch.setattr(bench, "ProcessPoolExecutor", lambda **_: pool)
    monkeypatch.setattr(hopper_rivals, "installed", lambda module: True)
    top = MagicMock(loop=Loop(256), blocks=132)
    top.sustained.return_value = {
        "tflops": 800.0,
        "watts": 690.0,
        "clock_mhz": 1700.0,
        "joules_per_tflop": 0.9,
    }
    monkeypatch.setattr(wgmma_rate, "ceiling", lambda sms: top)

    def offers(folder):
        yield hopper_rivals.Candidate("quack", "128x256", lambda sets: lambda number: None)
        yield hopper_rivals.Candidate("quack", "512x512", lambda sets: 1 / 0)

    monkeypatch.setattr(
        hopper_rivals, "_CANDIDATES", {"quack": offers, "triton": lambda folder: iter([1 / 0])}
    )
    monkeypatch.setattr(hopper_rivals, "RIVALS", ("quack", "triton"))
    for names in hopper_rivals.FILES.values():
        for name in names:
            (tmp_path / name.replace("*", "1")).touch()
    return tmp_path


def test_measure__keeps_rows_ratios_and_what_was_refused(made_up):
    kept = []
    case = bench.CASES[0]
    result = bench.measure([case], made_up, [], 2.0, 132, lambda found: kept.append(json.dumps(found)))
    assert json.loads(kept[-1]) == json.loads(json.dumps(result))
    assert [row["name"] for row in result["rows"]] == ["cublas", "quack", "hopper_one"]
    tflops = 2 * 4096**3 * 4 / 2e-3 / 1e12  # a graph of four launches in two milliseconds
    assert all(row["tflops"] == pytest.approx(tflops) for row in result["rows"])
    assert all(row["ratio"] == pytest.approx(1) for row in (*result["rows"], *result["sustained"]))
    assert result["sustained"][0]["tflops"] == pytest.approx(2 * 4096**3 / 1e-3 / 1e12)
    assert [len(row["turns"]) for row in result["sustained"]] == [2, 2, 2]
    assert [row["config"] for row in result["search"]] == ["128x256"]
    assert {what.split(": ")[1] for what in result["refused"]} == {"quack, 512x512", "triton", "counters"}
    shown = bench.table(result, case)
    assert "wgmma alone" in shown
    assert "ZeroDivisionError" in shown


def test_measure__launches_a_programmatic_rung_in_both_ways(made_up, monkeypatch):
    built = launching.Built(b"", "hopper_last", (4, 1, 1), (384, 1, 1), 4096, 168, 0, programmatic=True)
    monkeypatch.setattr(bench, "prepared", lambda cases, *_: {("hopper_last", case): built for case in cases})
    monkeypatch.setattr(bench, "LADDER", ("hopper_last",))
    case = bench.CASES[0]
    result = bench.measure([case], None, [], 2.0, 132, lambda found: None)
    early, plain = result["rows"][1:]
    assert (early["name"], plain["name"]) == ("hopper_last", "hopper_last_plain")
    assert plain["config"] == f"{early['config']}, plain launch"
    loaded = [call.args[0].programmatic for call in bench.Loaded.call_args_list]
    assert loaded == [True, False]


def test_known__is_the_two_best_of_the_size():
    case = bench.CASES[0]
    search = [
        {"name": name, "config": config, "tflops": tflops, "mnk": [size] * 3, "dtype": "f16"}
        for name, config, tflops, size in (
            ("quack", "a", 600, 4096),
            ("quack", "b", 650, 4096),
            ("quack", "c", 640, 4096),
            ("quack", "d", 700, 8192),
            ("triton", "e", 700, 4096),
        )
    ]
    assert bench.known(search, case, "quack") == ["b", "c"]
    assert bench.known(search, case, "cutlass_dsl") == []


def test_make__has_a_door_for_it(repository):
    done = subprocess.run(["make", "-n", "bench-hopper"], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0
    assert "-m benchmarks.wgmma_rate" in done.stdout
    assert "-m benchmarks.hopper_gemm" in done.stdout
