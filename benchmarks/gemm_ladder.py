"""Measure the rungs of the mma.sync GEMM on this machine's GPU, beside cuBLAS and beside their ceiling.

    python -m benchmarks.gemm_ladder             writes benchmarks/results/gemm_ladder_<gpu>.json
    python -m benchmarks.gemm_ladder --output F  writes F

C = A times B transposed, all f16, with sums in f32. First each kernel's C is compared with PyTorch's product
in f32 of small integers, whose sums are exact. Then A and B hold normally distributed numbers, in three sets
of buffers that take turns, so that L2 keeps nothing from one launch to the next. The kernels take turns as
well: in each of `ROUNDS` rounds, in an order of its own, each is launched `LAUNCHES` times between two
events, and the median of the rounds counts. cuBLAS is `torch.mm` of the same tensors. The ceiling is a loop
of mma.sync on registers that fills the GPU (`benchmarks/mma_ceiling.py`), timed in the same rounds.

Where `ncu` is, its counters for one launch of each rung are kept beside the times.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import multiprocessing
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gemm_variants import AWKWARD_VARIANTS, VARIANTS, Variant
from benchmarks.launching import Built, Loaded, alternating, assembled
from benchmarks.mma_ceiling import ceiling_spec, flops, fragments, product_of_fragments
from benchmarks.results_file import result_path
from cutecourse import runtime
from cutecourse.errors import CourseError
from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.gemm_ladder import RUNGS
from cutecourse.kernels.spec import LaunchSpec
from tools.facts import of_this_machine

Size = tuple[int, int, int]

SQUARE: Size = (4096, 4096, 4096)
AWKWARD: tuple[Size, ...] = ((4000, 4104, 4056), (4095, 4097, 4094))
"""Sizes that no tile divides: rows of whole 16 bytes, and rows of 4 bytes for A and B and of 2 for C."""
PARTS: tuple[Size, ...] = ((4000, 4104, 4096), (4096, 4096, 4056), (4096, 4096, 4064))
"""What makes the first awkward size slow: tiles cut off, rows that begin anywhere, or only shorter rows."""
ANY_SIZE = ("gemm_any", "gemm_tiles", "gemm_late")
ROUNDS = 31
LAUNCHES = 6
SETS = 3
LOOPS = (
    (8, 4, 8, "random"),
    (8, 2, 8, "random"),
    (8, 4, 4, "random"),
    (8, 2, 2, "random"),
    (16, 4, 4, "random"),
    (16, 2, 4, "random"),
    (16, 2, 2, "random"),
    (16, 1, 4, "random"),
    (8, 4, 8, "equal"),
    (16, 2, 2, "equal"),
)
"""Warps of an SM, each one's fragments of A and of B, and their numbers. Equal numbers show what power does;
the ceiling is the best of the others."""
MMAS = 2**18
"""MMAs of each SM in one launch of a loop."""
SUSTAINED_S = 0.6

PREDICTIONS = {
    "gemm_first": 0.25,
    "gemm_ldmatrix": 0.35,
    "gemm_stages": 0.60,
    "gemm_registers": 0.68,
    "gemm_epilogue": 0.70,
    "gemm_any": 0.69,
    "gemm_tiles": 0.80,
    "gemm_late": 0.88,
}
"""Parts of the ceiling at 4096 cubed, written down before anything was measured. Only gemm_late came later: a
variant of gemm_tiles had shown that the place of the copies matters.

The first rung waits for memory in each k-tile, and its fragments cost four wavefronts where one would do.
ldmatrix removes the second cost, stages hide the first. A tile of 128 x 128 with warps of 64 x 64 needs as
many cycles of shared memory as of MMA (1362 / 64 * (2 / 64 + 2 / 128) = 1.0), so it cannot come close to the
ceiling; 256 x 128 needs 0.91 of them. The ceiling itself was expected at 600 TFLOP/s: 1362 multiply-adds a
cycle on 132 SMs at 1.7 GHz. cuBLAS uses wgmma here, which is faster than that: 700 TFLOP/s.
"""

COUNTERS = {
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "data_pipe_percent": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "tensor_pipe_percent": "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l2_sectors_read": "lts__t_sectors_op_read.sum",
    "l2_percent": "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "dram_bytes_read": "dram__bytes_read.sum",
    "instructions": "smsp__inst_executed.sum",
    "warps_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "stall_long_scoreboard": "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "stall_short_scoreboard": "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
    "stall_barrier": "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "stall_math_pipe": "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
    "stall_mio": "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio",
    "cycles": "sm__cycles_elapsed.max",
    "clock_hz": "sm__cycles_elapsed.avg.per_second",
    "seconds": "gpu__time_duration.sum",
}


class WrongProductError(runtime.GpuError):
    """The kernel that was timed did not multiply."""


@dataclass(frozen=True)
class Job:
    """One kernel to build: a rung by its name or a variant, for one size."""

    kernel: str | Variant
    mnk: Size

    def spec(self) -> LaunchSpec:
        """The launch."""
        if isinstance(self.kernel, Variant):
            return self.kernel.spec(self.mnk)
        found = kernel_module(self.kernel).spec(*self.mnk)
        assert isinstance(found, LaunchSpec)
        return found

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.kernel if isinstance(self.kernel, str) else self.kernel.name


def build(job: Job, arch: str) -> Built | str:
    """Compile and assemble a kernel; why not, where a compiler refuses a variant."""
    spec = job.spec()
    try:
        compiled = runtime.compile(spec)
        ptx = job.kernel.edited(compiled.ptx) if isinstance(job.kernel, Variant) else str(compiled.ptx)
        return assembled(ptx, spec, compiled.entry, arch)
    except CourseError as error:
        if isinstance(job.kernel, str):
            raise
        return str(error)


def medians(cases: dict[Any, Callable[[int], None]]) -> dict[Any, float]:
    """Seconds of one launch of each case, the median of the rounds. A case takes the launch's number."""

    def several(launch: Callable[[int], None]) -> Callable[[], object]:
        return lambda: [launch(number) for number in range(LAUNCHES)]

    seconds = alternating({key: several(launch) for key, launch in cases.items()}, ROUNDS)
    return {key: statistics.median(found) / LAUNCHES for key, found in seconds.items()}


def matrices(mnk: Size, integers: bool, sets: int) -> list[tuple[Any, Any, Any]]:
    """Sets of A, B and C on the GPU."""
    import torch

    m, n, k = mnk
    made = []
    for seed in range(sets):
        generator = torch.Generator("cuda").manual_seed(seed)
        given: dict[str, Any] = {"device": "cuda", "generator": generator}
        if integers:
            a, b = (torch.randint(-3, 4, (rows, k), **given).half() for rows in (m, n))
        else:
            a, b = (torch.randn((rows, k), dtype=torch.float16, **given) for rows in (m, n))
        made.append((a, b, torch.full((m, n), float("nan"), dtype=torch.float16, device="cuda")))
    return made


def check(name: str, kernel: Loaded, mnk: Size) -> None:
    """Errors: WrongProductError where an element of C is not the exact sum, rounded once."""
    import torch

    ((a, b, c),) = matrices(mnk, integers=True, sets=1)
    kernel.launch(a.data_ptr(), b.data_ptr(), c.data_ptr())
    expected = (a.float() @ b.float().T).half()
    if not torch.equal(c, expected):
        wrong = int((c != expected).sum())
        raise WrongProductError(f"{name} at {mnk}: {wrong} of {c.numel()} elements are wrong.")


@dataclass(frozen=True)
class Loop:
    """A loop of MMAs on registers: its launch, its operations, and where its threads leave their cycles."""

    warps: int
    along_m: int
    along_n: int
    numbers: str
    launch: Callable[[int], None]
    work: float
    turns: int
    cycles: Any

    @property
    def fmas_per_cycle(self) -> float:
        """Multiply-adds of an SM in a cycle of its own clock, in the last launch."""
        by_block = self.cycles.view(-1, 32 * self.warps).amax(dim=1).float().median().item()
        return 16 * 8 * 16 * self.warps * self.along_m * self.along_n * self.turns / float(by_block)

    def __str__(self) -> str:
        return f"{self.warps} warps, {self.along_m} x {self.along_n} fragments, {self.numbers} numbers"


def loops(multiprocessors: int, arch: str) -> list[Loop]:
    """The loops on registers; each has been checked."""
    import torch

    made = []
    for warps, along_m, along_n, numbers in LOOPS:
        spec = ceiling_spec(multiprocessors, warps, along_m, along_n)
        kernel = Loaded(assembled(spec.ptx or "", spec, "mma_ceiling", arch))
        a, b = fragments(spec, seed=warps)
        if numbers == "equal":
            a, b = np.ones_like(a), np.ones_like(b)
        tensors = [torch.from_numpy(one).cuda() for one in (a, b)]
        tensors += [torch.zeros(spec.tensors[2].extents, device="cuda")]
        tensors += [torch.zeros(len(a), dtype=torch.int64, device="cuda")]
        addresses = [one.data_ptr() for one in tensors]
        kernel.launch(*addresses, np.uint32(2))
        expected = 2 * product_of_fragments(a[:128], b[:128])
        if not np.allclose(tensors[2][:128].cpu().numpy(), expected, atol=1e-3):
            raise WrongProductError("mma_ceiling did not multiply.")
        turns = MMAS // (warps * along_m * along_n)

        def launch(_number: int, kernel: Loaded = kernel, held: Any = tensors, turns: int = turns) -> None:
            kernel.launch(*(one.data_ptr() for one in held), np.uint32(turns))

        work = float(flops(spec, turns))
        made.append(Loop(warps, along_m, along_n, numbers, launch, work, turns, tensors[3]))
    return made


def sustained(cases: dict[str, tuple[Callable[[int], None], float]]) -> list[dict[str, Any]]:
    """What each case reaches when it runs for `SUSTAINED_S`, and the clock and the power that it then has."""
    import torch

    rows = []
    for name, (launch, work) in cases.items():
        sampler = subprocess.Popen(
            [
                "nvidia-smi",
                "--query-gpu=clocks.sm,power.draw.instant",
                "--format=csv,noheader,nounits",
                "-lms",
                "20",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        events = []
        start = time.monotonic()
        while time.monotonic() - start < SUSTAINED_S:
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            for number in range(4 * LAUNCHES):
                launch(number)
            after.record()
            after.synchronize()
            events.append((before, after))
        sampler.terminate()
        text, _ = sampler.communicate()
        samples = [tuple(map(float, line.split(","))) for line in text.splitlines() if line.count(",") == 1]
        samples = samples[len(samples) // 2 :]
        late = [a.elapsed_time(b) / 1e3 / (4 * LAUNCHES) for a, b in events[len(events) // 2 :]]
        row = {"name": name, "tflops": work / statistics.median(late) / 1e12, "samples": len(samples)}
        if samples:
            clocks, watts = zip(*samples, strict=True)
            row |= {"clock_mhz": statistics.median(clocks), "watts": statistics.median(watts)}
        rows.append(row)
    return rows


def profiled(kernels: dict[str, Built], mnk: Size) -> tuple[dict[str, dict[str, float]], str]:
    """The profiler's counters of one launch of each kernel, and why there are none if so."""
    ncu = shutil.which("ncu")
    if ncu is None:
        return {}, "ncu is not on the PATH"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernels").write_bytes(pickle.dumps((list(kernels.values()), mnk)))
        command = [
            ncu,
            "--csv",
            "--clock-control",
            "none",
            "--print-units",
            "base",
            "--metrics",
            ",".join(COUNTERS.values()),
        ]
        command += ["--kernel-name", "regex:gemm_|mma_ceiling"]
        command += [sys.executable, "-m", "benchmarks.gemm_ladder", "--launch-only", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    if done.returncode:
        return {}, f"ncu failed: {done.stdout[-1500:]}{done.stderr[-500:]}"
    lines = done.stdout.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return {}, f"ncu printed no table: {done.stdout[-1500:]}"
    named = {metric: name for name, metric in COUNTERS.items()}
    by_launch: dict[int, dict[str, float]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        value = re.sub(r"[^0-9.eE+-]", "", row["Metric Value"] or "")
        if value and row["Metric Name"] in named:
            by_launch.setdefault(int(row["ID"]), {})[named[row["Metric Name"]]] = float(value)
    return dict(zip(kernels, (by_launch[launch] for launch in sorted(by_launch)), strict=True)), ""


def launch_only(folder: str) -> None:
    """Launch each kernel once: what ncu is given."""
    import torch

    built, mnk = pickle.loads(Path(folder, "kernels").read_bytes())
    ((a, b, c),) = matrices(mnk, integers=False, sets=1)
    for one in built:
        Loaded(one).launch(a.data_ptr(), b.data_ptr(), c.data_ptr())
    torch.cuda.synchronize()


def measure(
    jobs: Sequence[Job], arch: str, multiprocessors: int
) -> tuple[dict[str, Any], dict[Size, dict[str, Built]]]:
    """Build, check and time the rungs and variants, cuBLAS and the ceiling; return the rungs' code too."""
    import torch

    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        built = dict(zip(jobs, pool.map(build, jobs, [arch] * len(jobs)), strict=True))
    refused = {job.name: why for job, why in built.items() if isinstance(why, str)}
    usable = {job: one for job, one in built.items() if isinstance(one, Built)}
    registers = loops(multiprocessors, arch)
    sizes = list(dict.fromkeys(job.mnk for job in jobs))
    times: dict[Any, float] = {}
    for mnk in sizes:
        sets = matrices(mnk, integers=False, sets=SETS)
        cases: dict[Any, Callable[[int], None]] = {}
        for job, one in usable.items():
            if job.mnk != mnk:
                continue
            kernel = Loaded(one)
            check(job.name, kernel, mnk)

            def launch(number: int, kernel: Loaded = kernel, sets: list[Any] = sets) -> None:
                kernel.launch(*(tensor.data_ptr() for tensor in sets[number % SETS]))

            cases[job] = launch

        def cublas(number: int, sets: list[Any] = sets) -> None:
            a, b, c = sets[number % SETS]
            torch.mm(a, b.T, out=c)

        cases["cublas", mnk] = cublas
        cases |= {(mnk, str(loop)): loop.launch for loop in registers}
        times |= medians(cases)
        if mnk == SQUARE:
            work = float(2 * mnk[0] * mnk[1] * mnk[2])
            in_cycles = {str(loop): loop.fmas_per_cycle for loop in registers}
            long = {
                f"ceiling, {loop}" if loop.numbers == "random" else str(loop): (loop.launch, loop.work)
                for loop in registers
            }
            long |= {RUNGS[-1]: (cases[Job(RUNGS[-1], mnk)], work), "cuBLAS": (cases["cublas", mnk], work)}
            steady = sustained(long)
        del sets, cases

    def rate(mnk: Size, seconds: float) -> float:
        return 2 * mnk[0] * mnk[1] * mnk[2] / seconds / 1e12

    by_loop = {
        mnk: {str(loop): loop.work / times[mnk, str(loop)] / 1e12 for loop in registers} for mnk in sizes
    }
    best = {
        mnk: max(rates[str(loop)] for loop in registers if loop.numbers == "random")
        for mnk, rates in by_loop.items()
    }
    rows, variants = [], []
    for job, one in usable.items():
        tflops = rate(job.mnk, times[job])
        row = {"mnk": list(job.mnk), "seconds": times[job], "tflops": tflops, "registers": one.registers}
        row |= {"spill_bytes": one.spill_bytes, "share_of_ceiling": tflops / best[job.mnk]}
        if isinstance(job.kernel, str):
            row = {"rung": job.name, **row}
            if job.mnk == SQUARE:
                row["predicted"] = PREDICTIONS[job.name]
            rows.append(row)
        else:
            choice = job.kernel
            made = {"tile": list(choice.tile), "warps": list(choice.warps), "stages": choice.stages}
            made |= {
                "group": choice.group,
                "sets": choice.sets,
                "copies": choice.copies,
                "cache": choice.cache,
            }
            variants.append({"name": choice.name, **made, "ctas": choice.ctas, **row})
    result = {
        "ceiling": {
            "tflops": best[SQUARE],
            "by_size": [{"mnk": list(mnk), "tflops": value} for mnk, value in best.items()],
            "loops": [
                {
                    "warps": loop.warps,
                    "fragments": [loop.along_m, loop.along_n],
                    "numbers": loop.numbers,
                    "tflops": by_loop[SQUARE][str(loop)],
                    "fmas_per_cycle": in_cycles[str(loop)],
                    "clock_ghz": by_loop[SQUARE][str(loop)]
                    * 1e3
                    / (2 * multiprocessors * in_cycles[str(loop)]),
                }
                for loop in registers
            ],
        },
        "sustained": steady,
        "cublas": [{"mnk": list(mnk), "tflops": rate(mnk, times["cublas", mnk])} for mnk in sizes],
        "rows": rows,
        "variants": variants,
        "refused": refused,
    }
    rungs = {
        mnk: {job.name: one for job, one in usable.items() if job.mnk == mnk and job.name in RUNGS}
        for mnk in sizes
    }
    return result, rungs


def with_counters(result: dict[str, Any], rungs: dict[Size, dict[str, Built]]) -> dict[str, Any]:
    """The result with the profiler's counters beside the rungs, and why there are none if so."""
    found, missing = {}, []
    for mnk, kernels in rungs.items():
        found[mnk], why = profiled(kernels, mnk)
        missing += [why] * bool(why)
    rows = []
    for row in result["rows"]:
        m, n, k = row["mnk"]
        values = found.get((m, n, k), {}).get(row["rung"], {})
        row = {**row, "counters": values}
        if "cycles" in values:
            sms = result["recorded"]["multiprocessors"]
            row["fmas_per_cycle"] = m * n * k / (sms * values["cycles"])
        rows.append(row)
    return {**result, "rows": rows, "no_counters": missing}


def report(result: dict[str, Any]) -> str:
    """A short table."""
    ceiling = result["ceiling"]
    lines = [f"ceiling {ceiling['tflops']:.1f} TFLOP/s"]
    lines += [
        f"  {one['warps']} warps, {one['fragments']}, {one['numbers']}: {one['tflops']:.1f} TFLOP/s, "
        f"{one['fmas_per_cycle']:.0f} a cycle at {one['clock_ghz']:.3f} GHz"
        for one in ceiling["loops"]
    ]
    lines += [f"sustained {one}" for one in result["sustained"]]
    lines += [f"cuBLAS {one['mnk']} {one['tflops']:.1f}" for one in result["cublas"]]
    for row in result["rows"] + result["variants"]:
        name, mnk = row.get("rung") or row["name"], "x".join(map(str, row["mnk"]))
        rate = f"{row['tflops']:>7.1f} TFLOP/s {row['share_of_ceiling']:>6.1%}"
        lines.append(
            f"{name:<52} {mnk:>14} {rate} {row['registers']:>4} regs {row['spill_bytes']:>4} spilled"
        )
    lines += [f"refused {name}: {why}" for name, why in result["refused"].items()]
    return "\n".join(lines)


def counted(result: dict[str, Any]) -> str:
    """The counters, a line for each rung."""
    lines = list(result["no_counters"])
    for row in result["rows"]:
        if row["counters"]:
            values = " ".join(f"{name}={value:.4g}" for name, value in row["counters"].items())
            lines.append(f"{row['rung']} {row['mnk']}: {values}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure, write, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--launch-only", metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    found = runtime.discover()
    if not found.devices:
        print(f"gemm_ladder: needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    import torch

    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.zeros(1, device="cuda")  # PyTorch's context is the primary one, which all kernels here share
    if options.launch_only:
        launch_only(options.launch_only)
        return 0
    gpu = found.devices[0]
    arch = f"sm_{gpu.compute_capability[0]}{gpu.compute_capability[1]}"
    jobs = [Job(rung, SQUARE) for rung in RUNGS]
    jobs += [Job(rung, mnk) for mnk in AWKWARD for rung in ANY_SIZE]
    jobs += [Job(RUNGS[-1], mnk) for mnk in PARTS]
    jobs += [Job(variant, SQUARE) for variant in VARIANTS]
    jobs += [Job(variant, AWKWARD[0]) for variant in AWKWARD_VARIANTS]
    measured, rungs = measure(jobs, arch, gpu.multiprocessors)
    result = {
        "recorded": {**of_this_machine(), "multiprocessors": gpu.multiprocessors, "torch": torch.__version__},
        "method": {"rounds": ROUNDS, "launches": LAUNCHES, "sets": SETS, "takes": "median of the rounds"},
        **measured,
    }
    output = options.output or result_path("gemm_ladder", gpu.name)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(report(result), flush=True)
    result = with_counters(result, {mnk: rungs[mnk] for mnk in (SQUARE, *AWKWARD, *PARTS[1:2])})
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(counted(result))
    print(f"written: {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
