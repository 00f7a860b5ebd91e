"""Measure the rungs of attention for Hopper, and variants, beside flash-attn-4, cuDNN and PyTorch's.

    python -m benchmarks.attention                    writes benchmarks/results/attention_<gpu>.json
    python -m benchmarks.attention --rivals FOLDER    takes flash-attn-4 from FOLDER, not from $RIVALS
    python -m benchmarks.attention --seconds 0        leaves the sustained runs out

Forward, bf16, head 128, 16 heads, 16384 tokens in all; a row of memory has all heads of a token. TFLOP/s
count 4 B H S^2 D operations, half of them where causal. Q, K and V hold normally distributed numbers, in
sets that take turns. Every contestant's launches are recorded in a CUDA graph. Some rows of each O are
compared with float64 before a time counts.

In the short measurement, the contestants take turns, and each round has its own order; the result is the
median of the rounds, with the quartiles. In the sustained one, each runs by itself, so that the power limit
sets the clock; NVML reports clock and energy. The rungs before the last one run so at one length, the
variants do not. There, ncu also counts one launch of each. FOLDER has the wheels `flash_attn_4`,
`quack_kernels`, `einops`, `apache_tvm_ffi` and `torch_c_dlpack_ext`; none is part of this repository.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import pickle
import site
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks import hopper_gemm
from benchmarks.attention_variants import TRIALS
from benchmarks.launching import Built, Loaded, alternating, compiled, parameters
from benchmarks.power import sustain
from benchmarks.results_file import result_path, write_result
from cutecourse import runtime
from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.spec import LaunchSpec
from tools.facts import of_this_machine

HEADS, DEPTH, TOKENS = 16, 128, 16384
LENGTHS = (2048, 4096, 8192, 16384)
VARIED = 4096
"""The length at which the variants are measured."""
EVERYWHERE = ("128 keys",)
"""Variants that are measured at every length."""
LADDER: dict[str, tuple[str, dict[str, int], tuple[float, float]]] = {
    "attention_one": ("attention_one", {}, (430, 340)),
    "attention_roles": ("attention_roles", {}, (480, 370)),
    "attention_roles, three": ("attention_roles", {"consumers": 3}, (560, 420)),
    "attention_pingpong": ("attention_pingpong", {}, (520, 400)),
    "attention_overlap": ("attention_overlap", {}, (570, 440)),
    "attention_lazy": ("attention_lazy", {}, (635, 500)),
    "attention_last": ("attention_last", {}, (667, 620)),
}
"""The rungs: kernel, options, and the TFLOP/s predicted for VARIED, without the causal mask and with it.

The predictions were written down before the rungs were first measured; the last one had been measured.
"""
RIVAL = "flash-attn-4"
WHEELS = ("flash_attn_4", "quack_kernels", "einops", "apache_tvm_ffi", "torch_c_dlpack_ext")
SETS = 2
ROUNDS = 15
LAUNCHES_S = 4e-3
"""A graph holds launches for about this many seconds."""
SETTLE_S = 0.2
NCU_S = 150
SAMPLED_ROWS = 24
OFF = 4e-3
"""The norm of the error over the norm of O, at most: P and O are rounded to 8 bits."""

Case = tuple[int, bool]
"""The length of the sequences, and whether a row sees the keys up to its own only."""


@dataclass
class Entrant:
    """A kernel ready to run: a call launches `launches` times."""

    run: Callable[[], object]
    launches: int
    error: float
    built: Built | None = None


def flops(case: Case) -> float:
    """Multiplications and additions of one launch, as flash-attention's papers count them."""
    length, causal = case
    return 4.0 * HEADS * TOKENS * length * DEPTH / (2 if causal else 1)


def entries(case: Case) -> Iterator[tuple[str, LaunchSpec]]:
    """Our kernels for a case, each with its launch."""
    length, causal = case
    batches = TOKENS // length
    for name, (kernel, options, _) in LADDER.items():
        yield name, kernel_module(kernel).spec(length, HEADS, batches, causal=causal, **options)
    for trial in TRIALS:
        if trial.how.causal == causal and (length == VARIED or trial.name in EVERYWHERE):
            yield trial.name, trial.spec((length, HEADS, batches))


def build(job: tuple[Case, str]) -> Built | str:
    """Compile one of our kernels for a case, or return the reason why it does not compile."""
    case, name = job
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)  # the CuTe DSL keeps its PTX where it runs
        try:
            return compiled(dict(entries(case))[name], "sm_90a")
        except Exception as error:  # noqa: BLE001 - one that does not compile stops no other
            return f"{type(error).__name__}: {error}"[:400]
        finally:
            os.chdir("/")


class Bench:
    """One case on the GPU: the sets, the expected rows of O, and the check."""

    def __init__(self, case: Case) -> None:
        import torch

        self.case, (length, causal) = case, case
        shape = (TOKENS // length, length, HEADS, DEPTH)
        self.sets = []
        for seed in range(SETS):
            generator = torch.Generator("cuda").manual_seed(seed)
            q, k, v = (
                torch.randn(shape, dtype=torch.bfloat16, device="cuda", generator=generator) for _ in range(3)
            )
            self.sets.append((q, k, v, torch.empty_like(q)))
        self._rows = torch.linspace(0, length - 1, SAMPLED_ROWS, device="cuda").long()
        self._expected = [self._exactly(*where, causal) for where in self._sampled()]

    def _sampled(self) -> list[tuple[int, int]]:
        batches = len(self.sets[0][0])
        return [(0, 0), (batches // 2, HEADS // 2), (batches - 1, HEADS - 1)]

    def _exactly(self, batch: int, head: int, causal: bool) -> Any:
        import torch

        q, k, v, _ = (one[batch, :, head].double() for one in self.sets[0])
        s = q[self._rows] @ k.T / math.sqrt(DEPTH)
        if causal:
            s.masked_fill_(torch.arange(len(k), device="cuda")[None] > self._rows[:, None], -math.inf)
        return torch.softmax(s, -1) @ v

    def check(self, name: str, o: Any) -> float:
        """The worst relative error of the sampled heads. Errors: GpuError if it is more than OFF."""
        worst = 0.0
        for (batch, head), expected in zip(self._sampled(), self._expected, strict=True):
            off = o[batch, self._rows, head].double() - expected
            worst = max(worst, float(off.norm() / expected.norm()))
        if not worst <= OFF or not bool(o.isfinite().all()):
            raise runtime.GpuError(f"{name}, {self.case}: O is off by {worst:.2e}.")
        return worst

    def ready(self, name: str, launch: Callable[[int], Any], built: Built | None = None) -> Entrant:
        """Check what a contestant computes, and record its launches in a graph."""
        import torch

        for *_, o in self.sets:
            o.fill_(math.nan)
        answers = [launch(number) for number in range(SETS)]
        torch.cuda.synchronize()
        error = self.check(name, self.sets[0][3] if answers[0] is None else answers[0])
        launches = SETS * max(1, round(LAUNCHES_S * 650e12 / flops(self.case) / SETS))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="relaxed"):
            for number in range(launches):
                launch(number % SETS)

        def run(keep: Any = launch) -> None:
            graph.replay()

        return Entrant(run, launches, error, built)

    def ours(self, spec: LaunchSpec, built: Built) -> Callable[[int], None]:
        """How one of our kernels is launched on a set."""
        import torch

        kernel, counter = Loaded(built), torch.zeros(1, dtype=torch.int32, device="cuda")
        values = []
        for four in self.sets:
            addresses = {name: one.data_ptr() for name, one in zip("qkvo", four, strict=True)}
            values.append(parameters(spec, {**addresses, "counter": counter.data_ptr()}))

        def launch(number: int, keep: Any = counter) -> None:
            kernel.launch(*values[number])

        return launch

    def rivals(self) -> Iterator[tuple[str, Callable[[int], Any]]]:
        """The rivals, each with how it is launched on a set; a launch returns its O."""
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        causal = self.case[1]

        def through(backend: Any) -> Callable[[int], Any]:
            def launch(number: int) -> Any:
                q, k, v = (one.transpose(1, 2) for one in self.sets[number][:3])
                with sdpa_kernel(backend):
                    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
                return o.transpose(1, 2)

            return launch

        yield "cudnn", through(SDPBackend.CUDNN_ATTENTION)
        yield "pytorch", through(SDPBackend.FLASH_ATTENTION)
        try:
            from flash_attn.cute.interface import flash_attn_func
        except ImportError:
            return

        def flash(number: int) -> Any:
            o = flash_attn_func(*self.sets[number][:3], causal=causal)
            return o[0] if isinstance(o, tuple) else o

        yield RIVAL, flash


def launch_only(place: str) -> None:
    """Launch rivals and rungs once while the profiler is on; ncu runs this."""
    import torch

    case, rungs, folder = pickle.loads(Path(place, "what").read_bytes())
    install(folder)
    torch.zeros(1, device="cuda")
    bench, specs = Bench(case), dict(entries(case))
    launches = dict(bench.rivals())
    hopper_gemm.one_by_one(launches | {name: bench.ours(specs[name], built) for name, built in rungs.items()})


def counted(case: Case, built: dict[str, Built | str], folder: Path | None) -> dict[str, dict[str, float]]:
    """The profiler's counters of the rivals and rungs. Errors: GpuError with what ncu printed instead."""
    rungs = {name: one for name, one in built.items() if name in LADDER and isinstance(one, Built)}
    found = hopper_gemm.under_ncu("benchmarks.attention", (case, rungs, folder), NCU_S)
    return {name: counters for name, (_, counters) in found.items()}


def measure(case: Case, built: dict[str, Built | str], seconds: float) -> dict[str, Any]:
    """Measure a case: a row for each contestant, and the reasons of those that were left out."""
    bench, ready, refused = Bench(case), {}, {}
    specs = dict(entries(case))
    launchers: list[tuple[str, Callable[[], Callable[[int], Any]], Built | None]] = []
    for name, one in built.items():
        if isinstance(one, str):
            refused[name] = one
        else:
            launchers.append((name, lambda name=name, one=one: bench.ours(specs[name], one), one))
    launchers += [(name, lambda launch=launch: launch, None) for name, launch in bench.rivals()]
    for name, make, one in launchers:
        try:
            ready[name] = bench.ready(name, make(), one)
        except Exception as error:  # noqa: BLE001 - the others are measured all the same
            refused[name] = f"{type(error).__name__}: {error}"[:400]
    times = alternating({name: one.run for name, one in ready.items()}, ROUNDS)
    trials = {trial.name: trial.predicted for trial in TRIALS}
    predicted = trials | {name: rates[case[1]] for name, (_, _, rates) in LADDER.items()}
    rows = []
    for name, one in ready.items():
        rates = [flops(case) * one.launches / spent / 1e12 for spent in times[name]]
        low, median, high = statistics.quantiles(rates, n=4)
        row = {"name": name, "length": case[0], "causal": case[1], "tflops": median, "quartiles": [low, high]}
        row |= {"error": one.error, "predicted": predicted.get(name) if case[0] == VARIED else None}
        if one.built:
            row |= {"registers": one.built.registers, "spill_bytes": one.built.spill_bytes}
            row |= {"serialized": one.built.serialized, "smem_bytes": one.built.dynamic_smem}
        if seconds and name not in trials and (case[0] == VARIED or name not in [*LADDER][:-1]):
            long = sustain(one.run, one.launches, SETTLE_S, seconds)
            rate = flops(case) / long.seconds / 1e12
            row["sustained"] = {
                "tflops": rate,
                "watts": long.watts,
                "clock_mhz": long.clock_mhz,
                "joules_per_tflop": long.watts / rate,
            }
        rows.append(row)
    return {"rows": rows, "refused": refused}


def table(case: Case, rows: list[dict[str, Any]]) -> str:
    """Format one case, the fastest first."""
    lines = [f"S = {case[0]}{', causal' if case[1] else ''}"]
    for row in sorted(rows, key=lambda one: -one["tflops"]):
        line = (
            f"{row['tflops']:8.1f} [{row['quartiles'][0]:.1f} {row['quartiles'][1]:.1f}]  {row['name']:<24}"
        )
        if row["predicted"]:
            line += f" predicted {row['predicted']:.0f}"
        if counters := row.get("counters"):
            line += f" tensor cores {counters.get('tensor_percent', math.nan):.0f}%"
        if long := row.get("sustained"):
            line += f" sustained {long['tflops']:.1f} {long['clock_mhz']:.0f} MHz {long['watts']:.0f} W"
            line += f" {long['joules_per_tflop']:.3f} J/TFLOP"
        lines.append(line)
    return "\n".join(lines)


def install(folder: Path | None) -> None:
    """Make the rival's wheels importable, if a folder has them."""
    wheels = [str(one) for name in WHEELS for one in sorted(folder.glob(f"{name}-*.whl"))] if folder else []
    if wheels:
        place = tempfile.mkdtemp()
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", place]
        subprocess.run([*pip, *wheels], check=True)
        site.addsitedir(place)


def versions() -> dict[str, str]:
    """The versions of the packages that take part."""
    found = {}
    for name in ("torch", "flash-attn-4", "quack-kernels", "nvidia-cutlass-dsl"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measure, write the result, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rivals", type=Path, default=os.environ.get("RIVALS"), help="flash-attn-4's wheels")
    parser.add_argument("--seconds", type=float, default=1.0, help="sustained, each contestant; 0 for none")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--launch-only", metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.launch_only:
        launch_only(options.launch_only)
        return 0
    found = runtime.discover()
    gpu = found.devices[0] if found.devices else None
    if gpu is None or gpu.compute_capability != (9, 0):
        there = f"this one is {gpu.name}" if gpu else found.reason
        print(f"attention: missing: a Hopper GPU (compute capability 9.0): {there}", file=sys.stderr)
        return 1
    cases = [(length, causal) for length in LENGTHS for causal in (False, True)]
    jobs = [(case, name) for case in cases for name, _ in entries(case)]
    built: dict[Case, dict[str, Built | str]] = {case: {} for case in cases}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for (case, name), one in zip(jobs, pool.map(build, jobs), strict=True):
            built[case][name] = one
    folder = Path(options.rivals) if options.rivals else None
    install(folder)
    import torch

    output = options.output or result_path("attention", gpu.name)
    result: dict[str, Any] = {
        "recorded": {**of_this_machine(), "versions": versions()},
        "method": {
            "short": f"median of {ROUNDS} rounds, each contestant once in each, in a CUDA graph of launches",
            "sustained": f"{options.seconds} s each, after {SETTLE_S} s",
            "checked": f"{SAMPLED_ROWS} rows of three heads against float64",
            "flops": "4 B H S^2 D, half where causal; B S = 16384, H = 16, D = 128, bf16",
        },
        "rows": [],
        "refused": {},
    }
    for case in sorted(cases, key=lambda one: (one[0] != VARIED, one)):
        torch.cuda.empty_cache()
        part = measure(case, built[case], options.seconds)
        if case[0] == VARIED:
            torch.cuda.empty_cache()
            try:
                counters = counted(case, built[case], folder)
            except Exception as error:  # noqa: BLE001 - the times are valid without counters
                counters, part["refused"]["counters"] = {}, str(error)[-2000:]
            for row in part["rows"]:
                row |= {"counters": counters[row["name"]]} if row["name"] in counters else {}
        result["rows"] += part["rows"]
        result["refused"] |= {f"{case}: {name}": why for name, why in part["refused"].items()}
        print(table(case, part["rows"]), flush=True)
        for name, why in part["refused"].items():
            print(f"left out: {name}: {why}", flush=True)
        output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    write_result(result, output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
