"""Compare the memory report with the GPU's own counters (Nsight Compute), launch by launch.

    python -m benchmarks.memory_counters             writes benchmarks/results/memory_counters_<gpu>.json

The launches are small: kernels of the course, and probes of one instruction each (benchmarks.memory_probes).
Each row of the file has a counter, what the report counts on the emulator, what the GPU counted, and an
explanation where the two differ. Needs `ncu` and the right to read the counters. Exits with 1 if a difference
has no explanation.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.memory_probes import probes
from benchmarks.results_file import result_path
from cutecourse import runtime
from cutecourse.kernels import (
    copy_one_thread,
    copy_threads,
    copy_tiled,
    copy_transposed,
    epilogue_direct,
    hello_ptx,
    micro_gemm,
    micro_gemm_ldmatrix,
    mma_ownership_map,
    mma_raw,
    mn_major_ldmatrix,
    mn_major_ldmatrix_trans,
    mn_major_partition,
    mn_major_raw,
)
from cutecourse.kernels.spec import LaunchSpec
from cutecourse.memory_report import MemoryReport, MemoryRow
from tools.facts import of_this_machine

__all__ = ["COUNTERS", "Case", "cases", "counted", "explanation"]


@dataclass(frozen=True)
class Counter:
    """A counter of the profiler, and the rows of the report that it should agree with.

    what    "transactions", "executions" or "excess" of the rows.
    """

    name: str
    metric: str
    space: str
    kind: str
    what: str

    def of(self, report: MemoryReport) -> int:
        """What the report says."""
        return sum(getattr(row, self.what) for row in report if self.takes(row))

    def takes(self, row: MemoryRow) -> bool:
        """Return whether a row of the report belongs to this counter."""
        return row.space == self.space and row.kind == self.kind


_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
COUNTERS = (
    Counter("global load sectors", _GLOBAL.format("sectors", "ld"), "global", "load", "transactions"),
    Counter("global load requests", _GLOBAL.format("requests", "ld"), "global", "load", "executions"),
    Counter("global store sectors", _GLOBAL.format("sectors", "st"), "global", "store", "transactions"),
    Counter("global store requests", _GLOBAL.format("requests", "st"), "global", "store", "executions"),
    Counter("shared load wavefronts", _WAVEFRONTS.format("ld"), "shared", "load", "transactions"),
    Counter("shared load conflicts", _CONFLICTS.format("ld"), "shared", "load", "excess"),
    Counter("shared store wavefronts", _WAVEFRONTS.format("st"), "shared", "store", "transactions"),
    Counter("shared store conflicts", _CONFLICTS.format("st"), "shared", "store", "excess"),
)


@dataclass(frozen=True)
class Case:
    """A launch to compare: its name, its specification and its arrays."""

    name: str
    spec: LaunchSpec
    arrays: Mapping[str, Any]

    def launch(self, device: str, *, memory_report: bool = False) -> runtime.Run:
        """Run it."""
        return runtime.run(self.spec, device=device, memory_report=memory_report, **self.arrays)


def cases() -> list[Case]:
    """The launches, in the order in which they are profiled."""
    return [*_kernels(), *(Case(each.name, each.spec, each.arrays) for each in probes())]


def _kernels() -> list[Case]:
    a, b = np.ones((16, 16), np.float16), np.ones((8, 16), np.float16)
    c = np.zeros((16, 8), np.float32)
    small = np.zeros((4, 32), np.float32)
    tile = np.zeros((64, 64), np.float32)
    wide = np.zeros((64, 256), np.float32)
    integers = {"a": np.zeros((16, 16), np.int32), "b": np.zeros((8, 16), np.int32)}
    turned = np.zeros((32, 32), np.float32)

    def case(kernel: ModuleType, **arrays: Any) -> Case:
        return Case(kernel.LAUNCH.name, kernel.LAUNCH, arrays)

    return [
        Case("epilogue_direct (column-major)", epilogue_direct.LAUNCH, {"c": c}),
        Case("epilogue_direct (row-major)", epilogue_direct.ROW_MAJOR, {"c": c}),
        case(hello_ptx, out=np.zeros(32, np.uint32)),
        case(copy_transposed, out=turned, a=turned),
        case(mma_ownership_map, **integers, c=np.zeros((16, 8), np.int32)),
        *(
            case(kernel, a=a, b=b, c=c)
            for kernel in (
                mma_raw,
                micro_gemm,
                micro_gemm_ldmatrix,
                mn_major_partition,
                mn_major_raw,
                mn_major_ldmatrix,
                mn_major_ldmatrix_trans,
            )
        ),
        case(copy_one_thread, source=small, result=small),
        case(copy_threads, source=tile, result=tile),
        case(copy_tiled, source=wide, result=wide),
    ]


def counted(case: Case) -> dict[str, int]:
    """What the memory report says of a launch on the emulator, by counter."""
    report = case.launch("emulator", memory_report=True).memory
    assert report is not None
    return {counter.name: counter.of(report) for counter in COUNTERS}


@cache
def _reports() -> dict[str, MemoryReport]:
    return {}


def explanation(case: str, counter: str, ours: int, theirs: int) -> str | None:
    """Why the GPU counted something else than the report; None where nobody knows."""
    del case, counter, ours, theirs
    return None


def rows(measured: list[dict[str, int]]) -> list[dict[str, Any]]:
    """The comparison: a row for each counter of each launch that is not zero on both sides."""
    found = []
    for case, values in zip(cases(), measured, strict=True):
        ours = counted(case)
        for counter in COUNTERS:
            mine, theirs = ours[counter.name], values[counter.metric]
            if not mine and not theirs:
                continue
            row: dict[str, Any] = {
                "kernel": case.name,
                "counter": counter.name,
                "metric": counter.metric,
                "counted": mine,
                "measured": theirs,
            }
            if mine != theirs:
                row["explanation"] = explanation(case.name, counter.name, mine, theirs)
            found.append(row)
    return found


def counters(text: str) -> list[dict[str, int]]:
    """Nsight Compute's CSV, one dictionary for each launch in order."""
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise runtime.GpuError(f"ncu printed no table:\n{text[-2000:]}")
    by_launch: dict[int, dict[str, int]] = defaultdict(dict)
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        by_launch[int(row["ID"])][row["Metric Name"]] = round(float(row["Metric Value"].replace(",", "")))
    return [by_launch[launch] for launch in sorted(by_launch)]


def profile() -> list[dict[str, int]]:
    """Run the launches under Nsight Compute, in one process, without touching the GPU's clocks."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise runtime.GpuError("ncu (Nsight Compute) is not on the PATH.")
    metrics = ",".join(counter.metric for counter in COUNTERS)
    command = [ncu, "--csv", "--clock-control", "none", "--metrics", metrics, sys.executable]
    command += ["-m", "benchmarks.memory_counters", "--launch-only"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise runtime.GpuError(f"ncu failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return counters(done.stdout)


def main(arguments: list[str] | None = None) -> int:
    """Profile, compare, write, and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--launch-only", action="store_true", help="launch the kernels; what ncu is given")
    options = parser.parse_args(arguments)
    found = runtime.discover()
    if not found.devices:
        print(f"memory_counters: needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    if options.launch_only:
        for case in cases():
            case.launch("cuda:0")
        return 0
    compared = rows(profile())
    different = [row for row in compared if row["counted"] != row["measured"]]
    for row in different:
        print(
            f"{row['kernel']:<40} {row['counter']:<24} counted {row['counted']:>5} measured"
            f" {row['measured']:>5} {row['explanation'] or 'NOT EXPLAINED'}"
        )
    print(f"{len(cases())} launches, {len(compared)} counters, {len(different)} differences")
    gpu = found.devices[0]
    output = options.output or result_path("memory_counters", gpu.name)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"recorded": of_this_machine(), "rows": compared}, indent=1) + "\n")
    return int(any(row["explanation"] is None for row in different))


if __name__ == "__main__":
    sys.exit(main())
