"""Measure chapter 3's copies of a big matrix beside a device-to-device memcpy, each predicted first.

    python -m benchmarks.copy_ladder             writes benchmarks/results/copy_ladder_<gpu>.json
    python -m benchmarks.copy_ladder --output F  writes F

The matrices stay on the GPU. In each round every kernel runs once after the other, and memcpy among them; the
median over the rounds counts. Before each launch the GPU reads another array, so the L2 cache is cold
and the launch is in the queue before it may begin. GB/s are bytes read plus bytes written. Each
result is compared with its source before it is timed. Then Nsight Compute, if it is there, counts sectors and
bytes of one launch each. Needs PyTorch, which holds the matrices.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.copy_variants import VARIANTS, variant_spec
from benchmarks.results_file import result_path, write_result
from cutecourse import runtime
from cutecourse.kernels import (
    LaunchSpec,
    copy_async,
    copy_one_thread,
    copy_predicated,
    copy_several,
    copy_threads,
    copy_tiled,
    transpose_naive,
    twin,
)
from cutecourse.runtime.gpu import GpuKernel
from tools.facts import of_this_machine

BIG = (16384, 8192)
AWKWARD = (16383, 8188)
SMALL = (64, 1024)
ROUNDS = 21
PEAK_GB_S = 4800
LATENCY_NS = 700

METRICS = {
    "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l2_reads": "lts__t_sectors_op_read.sum",
    "l2_writes": "lts__t_sectors_op_write.sum",
    "dram_bytes_read": "dram__bytes_read.sum",
    "dram_bytes_written": "dram__bytes_write.sum",
    "registers": "launch__registers_per_thread",
    "warps_active_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "dram_percent": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
}


@dataclass(frozen=True)
class Rung:
    """One kernel of the ladder, with what was expected of it before it ran on the GPU."""

    name: str
    spec: LaunchSpec
    predicted_gb_s: float
    because: str

    @property
    def bytes(self) -> int:
        """Bytes read plus bytes written."""
        m, n = self.spec.tensors[0].extents
        assert m is not None
        assert n is not None
        return 2 * 4 * m * n


def in_flight(threads_per_sm: int, bytes_per_thread: int, sms: int = 132) -> float:
    """GB/s, read plus written, if so many bytes are asked for all the time and each takes the latency."""
    return 2 * threads_per_sm * bytes_per_thread * sms / LATENCY_NS


CEILING = 0.9 * PEAK_GB_S
LADDER = (
    Rung(
        "copy_one_thread",
        copy_one_thread.spec(*SMALL),
        2 * 4 / LATENCY_NS,
        "one load of 4 bytes in flight, 700 ns each",
    ),
    Rung(
        "copy_threads, down",
        copy_threads.spec(*BIG, copy_threads.COLUMNS),
        in_flight(2048, 4) / 8,
        "as copy_threads, but each access moves 8 times as many sectors as it needs",
    ),
    Rung(
        "copy_threads",
        copy_threads.spec(*BIG),
        in_flight(2048, 4),
        "2048 threads on each of 132 SMs, 4 bytes in flight each",
    ),
    Rung("copy_tiled", copy_tiled.spec(*BIG), CEILING, "16 bytes in flight each: more than enough"),
    Rung("copy_several", copy_several.spec(*BIG), CEILING, "64 bytes in flight each: no faster"),
    Rung("copy_async", copy_async.spec(*BIG), CEILING, "the same bytes in flight, without registers"),
    Rung("copy_predicated", copy_predicated.spec(*BIG), CEILING, "a few instructions more, all hidden"),
    Rung(
        "copy_predicated, 16383x8188",
        copy_predicated.spec(*AWKWARD),
        CEILING,
        "the tiles at the edges are not full: less than one in a hundred",
    ),
    Rung(
        "transpose_naive",
        transpose_naive.spec(*BIG),
        CEILING * 2 / 9,
        "each store moves 32 sectors instead of 4: (1 + 8) / 2 times the bytes",
    ),
    Rung(
        "transpose by strided loads",
        copy_threads.transposing(*BIG),
        in_flight(2048, 4),
        "each load moves 32 sectors, but L1 keeps them for the CTA's other warps: as copy_threads",
    ),
)
MEMCPY = {"predicted_gb_s": CEILING, "because": "nine tenths of the memory's 4.8 TB/s"}


class WrongCopyError(runtime.GpuError):
    """A kernel did not copy what it was to copy."""


class Buffers:
    """Source and destination on the GPU: enough for the largest matrix, allocated once."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        size = BIG[0] * BIG[1]
        generator = torch.Generator(device="cuda").manual_seed(3)
        self.a = torch.randn(size, dtype=torch.float32, device="cuda", generator=generator)
        self.b = torch.empty_like(self.a)
        self.other = torch.zeros_like(self.a)

    def values(self) -> list[int]:
        """The two pointers, as a launch takes them."""
        return [self.a.data_ptr(), self.b.data_ptr()]

    def check(self, name: str, spec: LaunchSpec, kernel: GpuKernel) -> None:
        """Run the kernel once and compare. Errors: WrongCopyError."""
        m, n = spec.tensors[0].extents
        assert m is not None
        assert n is not None
        self.b.fill_(float("nan"))
        kernel.time(self.values(), grid=spec.grid, block=spec.block)
        expected, result = (
            self.torch.as_strided(array, tensor.extents, tensor.strides_for(tensor.extents))
            for array, tensor in zip((self.a, self.b), spec.tensors, strict=True)
        )
        if spec.tensors[1].extents == (n, m) and m != n:
            expected = expected.T
        if not self.torch.equal(result, expected):
            raise WrongCopyError(f"{name}: the result is not its source's copy.")
        if bool((~self.b[m * n :].isnan()).any()):
            raise WrongCopyError(f"{name}: something was written behind the result.")

    def read_other(self) -> None:
        """Read an array that no copy uses; it takes longer than the host needs to queue the next launch."""
        self.other.sum()

    def memcpy_seconds(self) -> float:
        """One device-to-device copy of the whole matrix."""
        self.read_other()
        before, after = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        self.b.copy_(self.a)
        after.record()
        after.synchronize()
        return float(before.elapsed_time(after)) / 1e3


def measure() -> dict[str, Any]:
    """All rungs, their twins, the variants and memcpy, in alternating rounds."""
    buffers = Buffers()
    sms = buffers.torch.cuda.get_device_properties(0).multi_processor_count
    launches: dict[str, tuple[LaunchSpec, float]] = {}
    for rung in LADDER:
        launches[rung.name] = (rung.spec, rung.bytes)
        launches[f"{rung.name} (by hand)"] = (twin(rung.spec), rung.bytes)
    for variant in VARIANTS:
        launches[variant.name] = (variant_spec(variant, *BIG, sms), 8.0 * BIG[0] * BIG[1])
    seconds: dict[str, list[float]] = {name: [] for name in ("memcpy", *launches)}
    with contextlib.ExitStack() as stack:
        kernels = {}
        for name, (spec, _) in launches.items():
            compiled = runtime.compile(spec)
            kernel = stack.enter_context(
                GpuKernel(compiled.ptx, compiled.entry, dynamic_smem=spec.dynamic_smem)
            )
            buffers.check(name, spec, kernel)
            kernels[name] = kernel
        for _ in range(ROUNDS):
            seconds["memcpy"].append(buffers.memcpy_seconds())
            for name, (spec, _) in launches.items():
                if "one_thread" in name and len(seconds[name]) >= 5:
                    continue
                buffers.read_other()
                seconds[name] += kernels[name].time(buffers.values(), grid=spec.grid, block=spec.block)
    sizes = {"memcpy": 8.0 * BIG[0] * BIG[1]} | {name: size for name, (_, size) in launches.items()}
    gb_s = {name: sizes[name] / statistics.median(times) / 1e9 for name, times in seconds.items()}
    spread = {
        name: [sizes[name] / one / 1e9 for one in (max(times), min(times))] for name, times in seconds.items()
    }

    def row(name: str) -> dict[str, Any]:
        return {
            "gb_s": round(gb_s[name], 4 if gb_s[name] < 1 else 1),
            "slowest_and_fastest": [round(one, 4 if one < 1 else 1) for one in spread[name]],
            "of_memcpy": round(gb_s[name] / gb_s["memcpy"], 5),
        }

    return {
        "matrix": BIG,
        "rounds": ROUNDS,
        "memcpy": row("memcpy") | MEMCPY,
        "rows": [
            {
                "rung": rung.name,
                "shape": rung.spec.tensors[0].extents,
                "predicted_gb_s": round(rung.predicted_gb_s, 4),
                "because": rung.because,
                **row(rung.name),
                "by_hand": row(f"{rung.name} (by hand)"),
            }
            for rung in LADDER
        ],
        "variants": [{"variant": variant.name, **row(variant.name)} for variant in VARIANTS],
    }


def launch_each() -> None:
    """Launch every rung once; what ncu is given."""
    buffers = Buffers()
    for rung in LADDER:
        compiled = runtime.compile(rung.spec)
        with GpuKernel(compiled.ptx, compiled.entry, dynamic_smem=rung.spec.dynamic_smem) as kernel:
            kernel.time(buffers.values(), grid=rung.spec.grid, block=rung.spec.block)


def profile() -> list[dict[str, float]]:
    """The profiler's counters of one launch of each rung, in their order. Errors: GpuError."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise runtime.GpuError("ncu (Nsight Compute) is not on the PATH.")
    command = [ncu, "--csv", "--clock-control", "none", "--kernel-name", "regex:^(copy_|transpose_)"]
    command += ["--metrics", ",".join(METRICS.values()), "--print-units", "base"]
    command += [sys.executable, "-m", "benchmarks.copy_ladder", "--launch-only"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=os.environ)
    lines = done.stdout.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
    if done.returncode or start is None:
        raise runtime.GpuError(f"ncu failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    names = {metric: name for name, metric in METRICS.items()}
    found: dict[int, dict[str, float]] = {}
    for line in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        value = float(line["Metric Value"].replace(",", ""))
        found.setdefault(int(line["ID"]), {})[names[line["Metric Name"]]] = value
    counters = [found[launch] for launch in sorted(found)]
    if len(counters) != len(LADDER):
        raise runtime.GpuError(f"ncu saw {len(counters)} launches, there were {len(LADDER)}.")
    return counters


def main(arguments: list[str] | None = None) -> int:
    """Measure, profile, write, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--launch-only", action="store_true", help="launch each rung once; what ncu is given")
    options = parser.parse_args(arguments)
    found = runtime.discover()
    if not found.devices:
        print(f"copy_ladder: needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    if options.launch_only:
        launch_each()
        return 0
    result = {"recorded": of_this_machine(), **measure()}
    if shutil.which("ncu"):
        for row, counters in zip(result["rows"], profile(), strict=True):
            row["counters"] = counters
    print(f"{'memcpy':<36} {result['memcpy']['gb_s']:>9} GB/s, predicted {MEMCPY['predicted_gb_s']:.0f}")
    for row in result["rows"]:
        print(
            f"{row['rung']:<36} {row['gb_s']:>9} GB/s, predicted {row['predicted_gb_s']:>9}, "
            f"{row['of_memcpy']:.4f} of memcpy, by hand {row['by_hand']['gb_s']}"
        )
    for row in result["variants"]:
        print(f"{row['variant']:<60} {row['gb_s']:>9} GB/s {row['of_memcpy']:.4f}")
    write_result(result, options.output or result_path("copy_ladder", found.devices[0].name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
