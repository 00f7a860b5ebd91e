"""Measure the rungs of chapter 10's ladder on a Hopper GPU, beside cuBLAS, QuACK and others.

    python -m benchmarks.hopper_gemm                   writes benchmarks/results/hopper_gemm_<gpu>.json
    python -m benchmarks.hopper_gemm --rivals FOLDER   takes the rivals' files from FOLDER, not from $RIVALS
    python -m benchmarks.hopper_gemm --search F        tries only the two best configurations of F's search
    python -m benchmarks.hopper_gemm --only 4096x4096x4096:f16 --output F   measures some of the cases

C = A times B transposed, 16 bits in and out, sums in f32. A and B hold normally distributed numbers, in sets
of buffers that take turns, so that L2 keeps nothing from one launch to the next. Every contestant's launches
are recorded in a CUDA graph, so nobody's Python is timed. Each rival takes part with its best configuration;
the result lists all that were tried. Some rows of each C are compared with float64, all of C with cuBLAS's.

There are two measurements. In the short one, the contestants take turns, and each round has its own order.
The result is the median of the rounds, with the quartiles for the spread. In the sustained one, each
contestant runs for seconds by itself, so that the power limit sets the clock; NVML reports clock and energy.
The ceiling of both is the rate of wgmma by itself (`benchmarks/wgmma_rate.py`). If `ncu` is installed, its
counters are kept too.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import inspect
import io
import json
import math
import multiprocessing
import os
import pickle
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks import hopper_rivals, wgmma_rate
from benchmarks.hopper_rivals import Launch, Sets
from benchmarks.launching import Built, Loaded, alternating, compiled, parameters
from benchmarks.power import sustain
from benchmarks.results_file import result_path, write_result
from cutecourse import runtime
from cutecourse.errors import CourseError
from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.hopper_ladder import RUNGS
from cutecourse.kernels.spec import LaunchSpec
from tools.facts import of_this_machine

Size = tuple[int, int, int]

LADDER = ("gemm_late", *RUNGS)
"""The last rung of chapter 5, and all rungs of chapter 10."""
PLAIN = "_plain"
"""The end of a rung's name in a result if its programmatic launch was replaced by a plain one."""
PREDICTIONS = {
    "hopper_one": 400.0,
    "hopper_stages": 560.0,
    "hopper_roles": 620.0,
    "hopper_clusters": 635.0,
    "hopper_persistent": 654.0,
    "hopper_pingpong": 588.0,
    "hopper_last": 667.0,
}
"""TFLOP/s at 4096 cubed in f16, written down before anything was measured."""
SETS = 4
ROUNDS = 21
TUNING_ROUNDS = 9
WARM_S = 1.0
SETTLE_S = 0.25
LAUNCHES_S = 3e-3
"""A graph holds launches for at least this many seconds, and at least one for each set."""
ROWS_CHECKED = 48
TOLERANCES = {"f16": 2.0**-10, "bf16": 2.0**-7}
"""Relative, for an element of C: twice the rounding to 16 bits. `check` adds the error of the f32 sums."""


@dataclass(frozen=True)
class Case:
    """A problem size and a type. The flags choose the contestants and the measurements."""

    mnk: Size
    dtype: str = "f16"
    everybody: bool = False
    sustained: bool = True
    counters: bool = False

    def __str__(self) -> str:
        return "x".join(map(str, self.mnk)) + f":{self.dtype}"

    @property
    def flops(self) -> float:
        """Multiplications and additions."""
        return 2.0 * math.prod(self.mnk)


CASES = (
    Case((4096, 4096, 4096), everybody=True, counters=True),
    Case((8192, 8192, 8192), everybody=True),
    Case((4000, 4104, 4056)),
    Case((2048, 2048, 2048)),
    Case((6144, 6144, 6144)),
    Case((4096, 4096, 4096), "bf16"),
    Case((8192, 8192, 8192), "bf16"),
    Case((16384, 16384, 16384)),
    Case((64, 8192, 8192), sustained=False),
    Case((256, 8192, 8192), sustained=False),
)

PROFILED_RIVALS = ("cublaslt", "quack")
COUNTERS = {
    "tensor_percent": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "smem_wavefronts_wgmma": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",
    "smem_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "smem_bank_reads": "l1tex__data_bank_reads.sum",
    "smem_bank_writes": "l1tex__data_bank_writes.sum",
    "smem_read_percent": "l1tex__data_bank_reads.avg.pct_of_peak_sustained_elapsed",
    "smem_write_percent": "l1tex__data_bank_writes.avg.pct_of_peak_sustained_elapsed",
    "sm_bytes_read": "l1tex__m_xbar2l1tex_read_bytes.sum",
    "l2_sectors_read": "lts__t_sectors_op_read.sum",
    "dram_bytes_read": "dram__bytes_read.sum",
    "dram_bytes_written": "dram__bytes_write.sum",
    "l2_percent": "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "instructions": "smsp__inst_executed.sum",
    "stall_long_scoreboard": "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "stall_wgmma": "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio",
    "stall_barrier": "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "cycles": "sm__cycles_elapsed.max",
    "clock_hz": "sm__cycles_elapsed.avg.per_second",
    "seconds": "gpu__time_duration.sum",
}
"""The metrics of ncu, by their names in the result."""


class WrongProductError(runtime.GpuError):
    """A contestant computed a wrong product."""


@dataclass
class Contestant:
    """A rung or a rival at one size: how to launch it on the sets, and the facts about it."""

    name: str
    kind: str
    config: str
    launch: Launch
    built: Built | None = None
    run: Callable[[], object] = field(default=lambda: None)
    in_graph: bool = True
    max_error: float = math.nan


# --- the rungs --------------------------------------------------------------------------------------------


def rung_spec(name: str, case: Case, sms: int) -> LaunchSpec:
    """The launch of a rung for a case on `sms` SMs. Errors: CourseError if the rung rejects the case."""
    make = kernel_module(name).spec
    takes = inspect.signature(make).parameters
    if "dtype" not in takes and case.dtype != "f16":
        raise runtime.GpuError(f"{name} takes f16 only.")
    given = {"dtype": case.dtype, "sms": sms}
    found = make(*case.mnk, **{key: value for key, value in given.items() if key in takes})
    assert isinstance(found, LaunchSpec)
    return found


def build(name: str, case: Case, sms: int) -> Built | str:
    """Compile a rung, or return the reason why it does not take the case."""
    try:
        return compiled(rung_spec(name, case, sms), "sm_90a")
    except Exception as error:  # noqa: BLE001 - one rung that does not compile stops no other
        return f"{type(error).__name__}: {error}"


def rung(name: str, case: Case, built: Built, sms: int, sets: Sets) -> Contestant:
    """A rung on the GPU, with the parameters of each set."""
    module = kernel_module(name.removesuffix(PLAIN))
    spec, kernel = rung_spec(module.FILE.name, case, sms), Loaded(built)
    values = [
        parameters(spec, dict(zip("abc", (one.data_ptr() for one in three), strict=True))) for three in sets
    ]
    how = module.best(*case.mnk[:2], sms) if hasattr(module, "best") else None
    tile = how.tile if how else module.TILE
    config = f"{tile[0]}x{tile[1]}, cluster {'x'.join(map(str, how.cluster if how else built.cluster[:2]))}"
    if how:
        config += ", ping-pong" if how.pingpong else ", cooperative"
    if spec.programmatic and not built.programmatic:
        config += ", plain launch"

    def launch(number: int) -> None:
        kernel.launch(*values[number % len(values)])

    return Contestant(name, "rung", config, launch, built)


# --- one case ---------------------------------------------------------------------------------------------


class Bench:
    """One case on the GPU: the sets, the expected C, and the check of the contestants."""

    def __init__(self, case: Case) -> None:
        import torch

        self.case, self.refused = case, {}
        m, n, k = case.mnk
        kind = torch.float16 if case.dtype == "f16" else torch.bfloat16
        self.sets = []
        for seed in range(SETS):
            generator = torch.Generator("cuda").manual_seed(seed)
            a, b = (torch.randn((rows, k), dtype=kind, device="cuda", generator=generator) for rows in (m, n))
            self.sets.append((a, b, torch.empty((m, n), dtype=kind, device="cuda")))
        a, b, c = self.sets[0]
        self._rows = torch.linspace(0, m - 1, min(m, ROWS_CHECKED), device="cuda").long()
        self._expected = a[self._rows].double() @ b.double().T
        self.cublas = Contestant("cublas", "rival", "PyTorch's choice", hopper_rivals.cublas(self.sets))
        self.cublas.launch(0)
        self._product = c.clone()
        self.launches = SETS
        (once,) = alternating({0: lambda: self.cublas.launch(0)}, 1)[0]
        self.launches = SETS * max(1, math.ceil(LAUNCHES_S / once / SETS))

    def check(self, one: Contestant) -> None:
        """Clear C and run a contestant's graph. Errors: WrongProductError if an element is off."""
        import torch

        for _, _, c in self.sets:
            c.fill_(math.nan)
        one.run()
        torch.cuda.synchronize()
        c, tolerance = self.sets[0][2], TOLERANCES[self.case.dtype]
        lost = 2.0**-14 * self.case.mnk[2] ** 0.5
        off = (c[self._rows].double() - self._expected).abs()
        one.max_error = float(off.max())
        wrong = ~(off <= lost + tolerance * self._expected.abs())
        if bool(wrong.any()):
            raise WrongProductError(f"{one.name}, {self.case}: {int(wrong.sum())} elements of C are wrong.")
        allowed = 2 * (lost + tolerance * self._product.float().abs())
        far = ~((c.float() - self._product.float()).abs() <= allowed)
        if bool(far.any()) or not all(bool(other.isfinite().all()) for _, _, other in self.sets):
            raise WrongProductError(f"{one.name}, {self.case}: {int(far.sum())} elements are not cuBLAS's.")

    def ready(self, one: Contestant) -> Contestant:
        """Warm a contestant up, record its launches in a graph, and check the C that they compute."""
        import torch

        for number in range(SETS):
            one.launch(number)
        torch.cuda.synchronize()

        def launches() -> None:
            for number in range(self.launches):
                one.launch(number)

        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="relaxed"):
                launches()
            one.run = graph.replay
            self.check(one)
        except WrongProductError:
            raise
        except (RuntimeError, CourseError) as error:  # what cannot be captured is launched call by call
            self.refused[f"{one.name}, {one.config}, in a graph"] = str(error)[:300]
            torch.cuda.synchronize()
            one.run, one.in_graph = launches, False
            self.check(one)
        return one

    def best(
        self, rival: str, folder: Path | None, known: Sequence[str]
    ) -> tuple[Contestant | None, list[dict[str, Any]]]:
        """A rival's best configuration in short rounds, and the rate of each; tries only `known` if given."""
        if absent := hopper_rivals.missing(rival, folder):
            self.refused[rival] = f"not given: {', '.join(absent)}"
            return None, []
        tried: dict[str, Contestant] = {}
        try:
            offered = hopper_rivals.candidates(rival, folder)
        except Exception as error:  # noqa: BLE001 - the other rivals are measured all the same
            self.refused[rival] = f"{type(error).__name__}: {error}"[:600]
            return None, []
        for candidate in offered:
            if known and candidate.config not in known:
                continue
            try:
                launch = candidate.prepare(self.sets)
                tried[candidate.config] = self.ready(Contestant(rival, "rival", candidate.config, launch))
            except hopper_rivals.NotOfferedError:
                continue
            except Exception as error:  # noqa: BLE001
                self.refused[f"{rival}, {candidate.config}"] = f"{type(error).__name__}: {error}"[:300]
        if not tried:
            return None, []
        seconds = alternating({config: one.run for config, one in tried.items()}, TUNING_ROUNDS)
        rates = {config: self.rate(statistics.median(found)) for config, found in seconds.items()}
        where = {"mnk": list(self.case.mnk), "dtype": self.case.dtype}
        rows = [{"name": rival, "config": config, "tflops": rate, **where} for config, rate in rates.items()]
        return tried[max(rates, key=lambda config: rates[config])], rows

    def rate(self, seconds: float) -> float:
        """TFLOP/s of a graph that ran for `seconds`."""
        return self.case.flops * self.launches / seconds / 1e12


def quartiles(values: Sequence[float]) -> list[float]:
    """The first and the third quartile."""
    first, _, third = statistics.quantiles(values, n=4)
    return [first, third]


def facts(case: Case, one: Contestant) -> dict[str, Any]:
    """The facts about a contestant that each of its rows repeats."""
    built = one.built
    return {
        "name": one.name,
        "kind": one.kind,
        "mnk": list(case.mnk),
        "dtype": case.dtype,
        "config": one.config,
        "predicted": PREDICTIONS.get(one.name) if case == CASES[0] else None,
        "registers": built.registers if built else None,
        "spill_bytes": built.spill_bytes if built else None,
        "smem_bytes": built.dynamic_smem if built else None,
        "serialized": built.serialized if built else None,
        "in_graph": one.in_graph,
        "max_error": one.max_error,
    }


def short(
    bench: Bench, contestants: Sequence[Contestant], top: wgmma_rate.Runner | None = None
) -> dict[str, Any]:
    """Run the alternating rounds; return their rows and their ceiling, which is None without `top`."""
    cases: dict[str, Callable[[], object]] = {one.name: one.run for one in contestants}
    turns, in_turn = 0, dict(cases)
    if top is not None:
        # The ceiling does as much work in a turn as the others, so the clock has as much time to fall.
        turns = top.loop.turns(round(bench.case.flops * bench.launches / 2 / top.blocks))
        in_turn["ceiling"] = lambda: top.launch(turns)
    warm = time.monotonic()
    while time.monotonic() - warm < WARM_S:
        alternating({0: bench.cublas.run}, 1)
    seconds = alternating(in_turn, ROUNDS)
    rates = {name: [bench.rate(one) for one in seconds[name]] for name in cases}
    rows = []
    for one in contestants:
        ratios = [mine / cublas for mine, cublas in zip(rates[one.name], rates["cublas"], strict=True)]
        median = statistics.median(rates[one.name])
        row = {**facts(bench.case, one), "tflops": median, "quartiles": quartiles(rates[one.name])}
        row |= {"ratio": median / statistics.median(rates["cublas"]), "ratio_quartiles": quartiles(ratios)}
        rows.append({**row, "kernel": None, "counters": None})
    ceiling = None
    if top is not None:
        tflops = [top.loop.flops(turns, top.blocks) / one / 1e12 for one in seconds["ceiling"]]
        ceiling = {
            "mnk": list(bench.case.mnk),
            "dtype": bench.case.dtype,
            "tflops": statistics.median(tflops),
        }
    return {"rows": rows, "ceiling": ceiling}


def steady(bench: Bench, contestants: Sequence[Contestant], seconds: float) -> list[dict[str, Any]]:
    """Run each contestant by itself, half the time in this order and half in reverse; return the rows."""
    readings: dict[str, list[Any]] = {one.name: [] for one in contestants}
    for one in (*contestants, *reversed(contestants)):
        readings[one.name].append(sustain(one.run, bench.launches, SETTLE_S, seconds / 2))
    means = {
        name: {
            "tflops": statistics.mean(bench.case.flops / one.seconds / 1e12 for one in found),
            "watts": statistics.mean(one.watts for one in found),
            "clock_mhz": statistics.mean(one.clock_mhz for one in found),
            "turns": [{**vars(one), "tflops": bench.case.flops / one.seconds / 1e12} for one in found],
        }
        for name, found in readings.items()
    }
    rows = []
    for one in contestants:
        mean = means[one.name]
        row = {**facts(bench.case, one), **mean, "ratio": mean["tflops"] / means["cublas"]["tflops"]}
        rows.append({**row, "joules_per_tflop": mean["watts"] / mean["tflops"]})
    return rows


# --- counters ---------------------------------------------------------------------------------------------


def profiled(
    case: Case, rungs: dict[str, Built], rivals: dict[str, str], folder: Path | None
) -> dict[str, tuple[str, dict[str, float]]]:
    """The kernel's name and the profiler's counters, of a launch of cuBLAS, the rivals and each rung."""
    return under_ncu("benchmarks.hopper_gemm", (case, rungs, rivals, folder))


def under_ncu(module: str, what: object, seconds: float = 60) -> dict[str, tuple[str, dict[str, float]]]:
    """Profile `python -m module --launch-only FOLDER`, which finds `what` pickled in FOLDER's file `what`.

    Errors: GpuError with what ncu printed instead of counters.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise runtime.GpuError("ncu is not on the PATH.")
    with tempfile.TemporaryDirectory() as place:
        Path(place, "what").write_bytes(pickle.dumps(what))
        command = [ncu, "--csv", "--profile-from-start", "off", "--clock-control", "none"]
        command += ["--print-units", "base", "--metrics", ",".join(COUNTERS.values())]
        command += [sys.executable, "-m", module, "--launch-only", place]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        raise runtime.GpuError(f"ncu failed: {done.stdout[-1500:]}{done.stderr[-500:]}")
    return counted(done.stdout)


def counted(printed: str) -> dict[str, tuple[str, dict[str, float]]]:
    """The kernel and the counters of each contestant, read from the output of ncu and `launch_only`.

    If a contestant launches several kernels, the longest one counts.
    Errors: GpuError if there is no table, or if the number of contestants in it is wrong.
    """
    lines = printed.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise runtime.GpuError(f"ncu printed no table: {printed[-1500:]}")
    order = re.findall(r"^launched (.+)$", printed, re.MULTILINE)
    named = {metric: name for name, metric in COUNTERS.items()}
    kernels: dict[int, str] = {}
    found: dict[int, dict[str, float]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        value = re.sub(r"[^0-9.eE+-]", "", row["Metric Value"] or "")
        kernels[int(row["ID"])] = row["Kernel Name"][:120]
        if value and row["Metric Name"] in named:
            found.setdefault(int(row["ID"]), {})[named[row["Metric Name"]]] = float(value)
    for counters in found.values():
        if "l2_sectors_read" in counters:
            counters["l2_bytes_read"] = 32 * counters.pop("l2_sectors_read")
    groups: list[list[int]] = []
    for launch in sorted(found):
        if kernels[launch] == kernels[min(found)]:  # PyTorch fills a tensor before each contestant
            groups.append([])
        elif groups:
            groups[-1].append(launch)
    if len(order) != len(groups) or not all(groups):
        raise runtime.GpuError(f"ncu saw {len(groups)} contestants, not {', '.join(order)}.")
    longest = [max(group, key=lambda launch: found[launch].get("seconds", 0)) for group in groups]
    return {name: (kernels[one], found[one]) for name, one in zip(order, longest, strict=True)}


def launch_only(place: str, sms: int) -> None:
    """Launch each contestant once while the profiler is on; ncu runs this."""
    case, rungs, rivals, folder = pickle.loads(Path(place, "what").read_bytes())
    hopper_rivals.install(folder)
    bench = Bench(case)
    contestants = [bench.cublas]
    for rival, config in rivals.items():
        (best,) = (one for one in hopper_rivals.candidates(rival, folder) if one.config == config)
        contestants.append(Contestant(rival, "rival", config, best.prepare(bench.sets)))
    contestants += [rung(name, case, built, sms, bench.sets) for name, built in rungs.items()]
    one_by_one({one.name: one.launch for one in contestants})


def one_by_one(launches: dict[str, Launch]) -> None:
    """Launch each contestant twice, the second time while the profiler is on, and print its name."""
    import torch

    mark = torch.empty(1 << 20, device="cuda")
    for name, launch in launches.items():
        launch(0)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        mark.fill_(1.0)
        launch(1)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        print(f"launched {name}", flush=True)


def with_counters(
    result: dict[str, Any], case: Case, rungs: dict[str, Built], rivals: dict[str, str], folder: Path | None
) -> None:
    """Put the counters beside a case's rows, or say why there are none."""
    counters: dict[str, tuple[str, dict[str, float]]] = {}
    try:
        counters = profiled(case, rungs, rivals, folder)
    except Exception as error:  # noqa: BLE001 - the times are valid without counters
        result["refused"][f"{case}: counters"] = str(error)[-2000:]
    for row in result["rows"]:
        if _of(row, case) and row["name"] in counters:
            row["kernel"], row["counters"] = counters[row["name"]]


# --- everything -------------------------------------------------------------------------------------------


Search = list[dict[str, Any]]
"""The rates of rivals' configurations, one row each: name, config, tflops, mnk and dtype."""


def known(search: Search, case: Case, rival: str) -> list[str]:
    """A rival's two best configurations in an earlier search; empty if the search did not have this case."""
    rows = [row for row in search if row["name"] == rival and _of(row, case)]
    return [row["config"] for row in sorted(rows, key=lambda row: -row["tflops"])[:2]]


def prepared(
    cases: Sequence[Case], folder: Path | None, search: Search, sms: int
) -> dict[tuple[str, Case], Built | str]:
    """Compile the rungs. In parallel, warm up the rivals that keep compiled code on disk."""
    jobs = [(name, case, sms) for case in cases for name in (LADDER if case.everybody else LADDER[-1:])]
    ahead = set()
    for rival in ("quack", "triton"):
        if folder is None or hopper_rivals.missing(rival, folder):
            continue
        offered: list[str] = []
        with contextlib.suppress(Exception):  # the measurement meets this error again and records it
            offered = [one.config for one in hopper_rivals.candidates(rival, folder)]
        taking_part = [case for case in cases if case.everybody or rival == "quack"]
        ahead |= {
            (rival, folder, config, case.dtype)
            for case in taking_part
            for config in known(search, case, rival) or offered
        }
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=context) as pool, ProcessPoolExecutor(mp_context=context) as other:
        warmed = [other.submit(hopper_rivals.warm, *one) for one in sorted(ahead)]
        built = list(pool.map(build, *zip(*jobs, strict=True)))
        for one in warmed:
            one.exception()
    return dict(zip([job[:2] for job in jobs], built, strict=True))


def measure(
    cases: Sequence[Case],
    folder: Path | None,
    search: Search,
    seconds: float,
    sms: int,
    keep: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Measure the cases; after each one, pass the result so far to `keep`."""
    built = prepared(cases, folder, search, sms)
    top = wgmma_rate.ceiling(sms)
    result: dict[str, Any] = {"rows": [], "sustained": [], "search": list(search), "refused": {}}
    result["ceiling"] = {"short": None, "sustained": None, "by_size": [], "sustained_by_size": []}
    for case in cases:
        rungs = {name: built[name, case] for name in (LADDER if case.everybody else LADDER[-1:])}
        for name, one in list(rungs.items()):
            if isinstance(one, Built) and one.programmatic:
                rungs[name + PLAIN] = replace(one, programmatic=False)
        try:
            rivals = one_case(result, case, rungs, top, folder, search, seconds)
        except Exception as error:  # noqa: BLE001 - the other cases are measured all the same
            result["refused"][f"{case}: everything"] = f"{type(error).__name__}: {error}"[:2000]
        else:
            mine = {name: one for name, one in rungs.items() if isinstance(one, Built)}
            if case.counters:
                with_counters(result, case, mine, rivals, folder)
        keep(result)
        print(table(result, case), flush=True)
    return result


def one_case(
    result: dict[str, Any],
    case: Case,
    rungs: dict[str, Built | str],
    top: wgmma_rate.Runner,
    folder: Path | None,
    search: Search,
    seconds: float,
) -> dict[str, str]:
    """Measure one case and add it to the result; return the configurations of the rivals to profile."""
    bench = Bench(case)
    contestants = [bench.ready(bench.cublas)]
    for rival in hopper_rivals.RIVALS if case.everybody else ("quack",):
        found, rows = bench.best(rival, folder, chosen := known(search, case, rival))
        contestants += [found] if found else []
        result["search"] += [] if chosen else rows
    for name, one in rungs.items():
        try:
            if isinstance(one, str):
                raise runtime.GpuError(one)
            contestants.append(bench.ready(rung(name, case, one, top.blocks, bench.sets)))
        except Exception as error:  # noqa: BLE001 - the other rungs are measured all the same
            bench.refused[name] = f"{type(error).__name__}: {error}"[:600]
    result["refused"] |= {f"{case}: {what}": why for what, why in bench.refused.items()}
    measured = short(bench, contestants, top)
    result["rows"] += measured["rows"]
    result["ceiling"]["by_size"].append(measured["ceiling"])
    result["ceiling"]["short"] = measured["ceiling"]["tflops"]
    if case.sustained and seconds:
        result["sustained"] += steady(bench, contestants, seconds)
    if case.everybody and seconds:
        ceiling = {"mnk": list(case.mnk), "dtype": case.dtype, **top.sustained(SETTLE_S, seconds)}
        result["ceiling"]["sustained_by_size"].append(ceiling)
        result["ceiling"]["sustained"] = ceiling
    return {one.name: one.config for one in contestants if one.name in PROFILED_RIVALS}


def table(result: dict[str, Any], case: Case) -> str:
    """Format one case: TFLOP/s and ratio in short rounds, then sustained with clock, watts and energy."""
    mine = {row["name"]: row for row in result["sustained"] if _of(row, case)}
    lines = [f"{case}", f"{'':<17}{'TFLOP/s':>8}{'ratio':>7}{'quartiles':>14}  sustained"]
    for row in result["rows"]:
        if not _of(row, case):
            continue
        low, high = row["ratio_quartiles"]
        line = f"{row['name']:<17}{row['tflops']:>8.1f}{row['ratio']:>7.3f}{low:>7.3f}{high:>7.3f}"
        if long := mine.get(row["name"]):
            line += f"{long['tflops']:>8.1f}{long['ratio']:>7.3f}{long['clock_mhz']:>6.0f} MHz"
            line += f"{long['watts']:>5.0f} W{long['joules_per_tflop']:>6.3f} J/TFLOP"
        lines.append(f"{line}  {row['config']}")
    tops = [one for one in result["ceiling"]["by_size"] if _of(one, case)]
    lines += [f"{'wgmma alone':<17}{one['tflops']:>8.1f}" for one in tops]
    for one in result["ceiling"]["sustained_by_size"]:
        if _of(one, case):
            lines[-1] += f"{'':<21}{one['tflops']:>8.1f}{'':>7}{one['clock_mhz']:>6.0f} MHz"
            lines[-1] += f"{one['watts']:>5.0f} W{one['joules_per_tflop']:>6.3f} J/TFLOP"
    lines += [f"left out: {what}: {why}" for what, why in result["refused"].items() if str(case) in what]
    return "\n".join(lines)


def _of(row: dict[str, Any], case: Case) -> bool:
    return (tuple(row["mnk"]), row["dtype"]) == (case.mnk, case.dtype)


def lacking(found: runtime.Discovery, folder: Path | None) -> list[str]:
    """The things that the measurement needs and this machine lacks, one line for each."""
    lines = []
    gpu = found.devices[0] if found.devices else None
    if gpu is None or gpu.compute_capability != (9, 0):
        there = f"this one is {gpu.name}" if gpu else found.reason
        lines.append(f"a Hopper GPU (compute capability 9.0): {there}")
    packages = ("torch", "pynvml", "cutlass")
    lines += [f"the Python package {name}" for name in packages if not hopper_rivals.installed(name)]
    lines += [f"the program {name}" for name in ("ptxas",) if shutil.which(name) is None]
    for rival in hopper_rivals.RIVALS:
        if absent := hopper_rivals.missing(rival, folder):
            lines.append(f"{rival}: {', '.join(absent)} (--rivals FOLDER)")
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Measure, write the result, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rivals", type=Path, default=os.environ.get("RIVALS"), help="the rivals' files")
    parser.add_argument("--only", nargs="+", choices=[str(case) for case in CASES], help="some of the cases")
    parser.add_argument("--seconds", type=float, default=2.0, help="sustained, each contestant; 0 for none")
    parser.add_argument("--search", type=Path, help="a result whose two best configurations are tried")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--launch-only", metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    folder = Path(options.rivals) if options.rivals else None
    found = runtime.discover()
    for line in lacking(found, folder):
        print(f"hopper_gemm: missing: {line}", file=sys.stderr)
    gpu = found.devices[0] if found.devices else None
    if gpu is None or gpu.compute_capability != (9, 0):
        return 1
    import torch

    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.zeros(1, device="cuda")  # PyTorch's context is the primary one, which all kernels here share
    if options.launch_only:
        launch_only(options.launch_only, gpu.multiprocessors)
        return 0
    hopper_rivals.install(folder)
    head = {
        "recorded": {
            **of_this_machine(),
            "multiprocessors": gpu.multiprocessors,
            **hopper_rivals.versions(),
        },
        "method": {
            "short": f"median of {ROUNDS} rounds, each contestant once in each, in a CUDA graph of launches",
            "sustained": f"{options.seconds} s each in two turns, each after {SETTLE_S} s; the means",
            "sets": SETS,
            "numbers": "normally distributed",
            "search": f"medians of {TUNING_ROUNDS} rounds; a rival's best one for a size enters the rounds",
            "ratio": "to cuBLAS through PyTorch in the same run",
            "checked": f"{ROWS_CHECKED} rows against float64, all of C against cuBLAS's",
        },
    }
    whole = options.only is None
    output = options.output or (result_path("hopper_gemm", gpu.name) if whole else None)

    def keep(result: dict[str, Any]) -> None:
        if output is not None:
            output.write_text(json.dumps({**head, **result}, indent=1) + "\n", encoding="utf-8")

    cases = [case for case in CASES if whole or str(case) in options.only]
    search = json.loads(options.search.read_text())["search"] if options.search else []
    result = measure(cases, folder, search, options.seconds, gpu.multiprocessors, keep)
    write_result({**head, **result}, output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
