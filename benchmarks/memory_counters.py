"""Compare the memory report with the GPU's own counters (Nsight Compute), launch by launch.

    python -m benchmarks.memory_counters             writes benchmarks/results/memory_counters_<gpu>.json
    python -m benchmarks.memory_counters --only copy_ --output FILE     of some launches only

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory_probes import probes
from benchmarks.results_file import result_path
from cutecourse import runtime
from cutecourse.kernels import epilogue_direct, epilogue_stmatrix, micro_gemm_swizzled
from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.spec import LaunchSpec, Tensor
from cutecourse.memory_report import MemoryReport, MemoryRow
from tools.facts import of_this_machine

__all__ = ["COUNTERS", "Case", "Counter", "cases", "counted", "explanation"]

_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared{}.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"


@dataclass(frozen=True)
class Counter:
    """A counter of the profiler, and the rows of the report that it should agree with.

    name     such as "shared load wavefronts".
    metrics  the profiler's metrics that are added; those with "-" in front are subtracted.
    space    "global" or "shared".
    kind     "load", "store", "atomic", or "copy": the side of a cp.async that writes shared memory.
    what     "transactions", "executions" or "excess" of the rows.
    """

    name: str
    metrics: tuple[str, ...]
    space: str
    kind: str
    what: str

    def of(self, report: MemoryReport) -> int:
        """What the report says."""
        return sum(getattr(row, self.what) for row in report if self.takes(row))

    def takes(self, row: MemoryRow) -> bool:
        """Return whether a row of the report belongs to this counter."""
        copies = row.space == "shared" and row.instruction.startswith("cp.async")
        return row.space == self.space and self.kind == ("copy" if copies else row.kind)

    def measured(self, values: Mapping[str, int]) -> int:
        """What the profiler says, given its metrics of one launch."""
        return sum(-values[each[1:]] if each[0] == "-" else values[each] for each in self.metrics)

    @property
    def metric(self) -> str:
        """The metrics as a formula."""
        return " ".join(each if each[0] == "-" else f"+ {each}" for each in self.metrics).removeprefix("+ ")


def _both(kind: str, *operations: str) -> tuple[Counter, Counter]:
    """The sectors and the requests of global memory, over some of the profiler's operations."""
    return (
        Counter(
            f"global {kind} sectors",
            tuple(_GLOBAL.format("sectors", each) for each in operations),
            "global",
            kind,
            "transactions",
        ),
        Counter(
            f"global {kind} requests",
            tuple(_GLOBAL.format("requests", each) for each in operations),
            "global",
            kind,
            "executions",
        ),
    )


def _passes(kind: str, operation: str) -> tuple[Counter, Counter]:
    """The wavefronts and the bank conflicts of shared memory, of one of the profiler's operations."""
    wavefronts = (_WAVEFRONTS.format(f"_op_{operation}"),)
    return (
        Counter(f"shared {kind} wavefronts", wavefronts, "shared", kind, "transactions"),
        Counter(f"shared {kind} conflicts", (_CONFLICTS.format(operation),), "shared", kind, "excess"),
    )


COUNTERS = (
    *_both("load", "ld"),
    *_both("store", "st"),
    *_both("atomic", "red", "atom"),
    *_passes("load", "ld"),
    *_passes("store", "st"),
    *_passes("atomic", "atom"),
    # The profiler has two counts of cp.async: one of the pipe through which all wavefronts go, in which
    # copies are what is left of the sum, and one that belongs to the instruction.
    Counter(
        "shared copy wavefronts",
        ("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",),
        "shared",
        "copy",
        "transactions",
    ),
    Counter(
        "shared copy conflicts",
        ("smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",),
        "shared",
        "copy",
        "excess",
    ),
    Counter(
        "shared copy wavefronts (pipe)",
        (
            _WAVEFRONTS.format(""),
            *(f"-{_WAVEFRONTS.format(f'_op_{each}')}" for each in ("ld", "st", "atom", "misc")),
        ),
        "shared",
        "copy",
        "transactions",
    ),
    Counter("shared copy conflicts (pipe)", (_CONFLICTS.format("ldgsts"),), "shared", "copy", "excess"),
)

KERNELS = (
    "hello_ptx", "copy_transposed",
    "mma_ownership_map", "mma_raw", "micro_gemm",
    "copy_one_thread", "copy_threads", "copy_tiled", "copy_several", "copy_async", "copy_predicated",
    "transpose_naive",
    "micro_gemm_ldmatrix", "micro_gemm_swizzled", "mn_major_partition", "mn_major_raw", "mn_major_ldmatrix",
    "mn_major_fragment_like", "mma_stamp_permuted",
    "mn_major_ldmatrix_trans", "transpose_shared", "transpose_padded", "transpose_swizzled", "transpose_wide",
    "epilogue_stmatrix",
    "gemm_first", "gemm_ldmatrix", "gemm_stages", "gemm_registers", "gemm_epilogue", "gemm_any", "gemm_tiles",
)  # fmt: skip
"""Kernels of the chapters 1 to 5, at the sizes of their launch specifications."""
OPEN = {"copy_transposed": (32, 32)}
"""The extents of arrays that a launch specification leaves open."""


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
    named = [(name, kernel_module(name).LAUNCH) for name in KERNELS]
    named += [
        ("micro_gemm_swizzled (plain)", micro_gemm_swizzled.PLAIN),
        ("epilogue_direct (column-major)", epilogue_direct.LAUNCH),
        ("epilogue_direct (row-major)", epilogue_direct.ROW_MAJOR),
        ("epilogue_stmatrix (column-major)", epilogue_stmatrix.TRANSPOSED),
    ]
    kernels = [Case(name, spec, _zeros(name, spec)) for name, spec in named]
    return [*kernels, *(Case(each.name, each.spec, each.arrays) for each in probes())]


def _zeros(name: str, spec: LaunchSpec) -> dict[str, Any]:
    """Arrays of zeros for all parameters: no address in these kernels depends on a number in an array."""
    found = {}
    for param in spec.params:
        assert isinstance(param, Tensor)
        found[param.name] = np.zeros(OPEN.get(name, param.shape), param.dtype.numpy)
    return found


def counted(case: Case) -> dict[str, int]:
    """What the memory report says of a launch on the emulator, by counter."""
    report = case.launch("emulator", memory_report=True).memory
    assert report is not None
    return {counter.name: counter.of(report) for counter in COUNTERS}


@dataclass(frozen=True)
class Explanation:
    """Why a counter of some launches differs from the report."""

    counters: tuple[str, ...]
    launches: Callable[[str, str], bool]
    """Given a launch's name and its PTX."""
    text: str


EXPLANATIONS = (
    Explanation(
        ("shared copy wavefronts (pipe)", "shared copy conflicts (pipe)"),
        lambda _, ptx: "cp.async.cg" in ptx,
        "cp.async.cg writes what arrives from L2 into shared memory, past the pipe that this counter "
        "watches. The pipe writes only the zeros of lanes that copy nothing.",
    ),
    Explanation(
        ("shared copy wavefronts (pipe)", "shared copy conflicts (pipe)"),
        lambda _, ptx: "cp.async.ca" in ptx,
        "The pipe writes the bytes of a cp.async.ca as they come out of L1, and a line may come in parts. "
        "For the larger kernels these two counters change from run to run.",
    ),
    Explanation(
        ("shared copy wavefronts",),
        lambda name, _: name in {"gemm_any", "gemm_tiles"},
        "The sources of these cp.async have rows of 144 bytes, and many lanes fill with zeros. The profiler "
        "counts fewer wavefronts than the addresses say. With rows of whole sectors the two agree.",
    ),
    Explanation(
        ("global load sectors",),
        lambda _, ptx: "cp.async.cg" in ptx,
        "cp.async.cg reads 64 bytes of rows that lie 144 bytes apart, so every other row begins in the "
        "middle of a sector. The profiler counts 18 of the 20 sectors that a warp touches. It counts all 20 "
        "for cp.async.ca and ld.global at the same addresses.",
    ),
    Explanation(
        ("shared load wavefronts", "shared load conflicts", "shared atomic wavefronts"),
        lambda name, _: name.startswith("red.shared.add.f32"),
        "There is no instruction for it: ptxas makes a loop that loads the word and then tries a "
        "compare-and-swap.",
    ),
)


def explanation(case: Case, counter: str) -> str | None:
    """Why the GPU counted something else than the report; None where nobody knows."""
    ptx = str(runtime.compile(case.spec).ptx)
    for each in EXPLANATIONS:
        if counter in each.counters and each.launches(case.name, ptx):
            return each.text
    return None


def rows(measured: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """The comparison: a row for each counter of each launch, where one of the two sides is not zero.

    measured  by launch and counter.
    """
    found = []
    for case in cases():
        if case.name not in measured:
            continue
        ours = counted(case)
        for counter in COUNTERS:
            mine, theirs = ours[counter.name], measured[case.name].get(counter.name, 0)
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
                row["explanation"] = explanation(case, counter.name)
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


def profile(only: str = "") -> dict[str, dict[str, int]]:
    """Run the launches under Nsight Compute, in one process, without touching the GPU's clocks.

    only  the beginning of the launches' names.

    What comes back is by launch and counter.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise runtime.GpuError("ncu (Nsight Compute) is not on the PATH.")
    metrics = dict.fromkeys(each.removeprefix("-") for counter in COUNTERS for each in counter.metrics)
    command = [ncu, "--csv", "--clock-control", "none", "--metrics", ",".join(metrics), sys.executable]
    command += ["-m", "benchmarks.memory_counters", "--launch-only", "--only", only]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise runtime.GpuError(f"ncu failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    names = [case.name for case in cases() if case.name.startswith(only)]
    return {
        name: {counter.name: counter.measured(values) for counter in COUNTERS}
        for name, values in zip(names, counters(done.stdout), strict=True)
    }


def show(compared: list[dict[str, Any]]) -> int:
    """Print the differences and the sums, and return how many differences have no explanation."""
    different = [row for row in compared if row["counted"] != row["measured"]]
    for row in different:
        why = "" if row["explanation"] else "  NOT EXPLAINED"
        print(
            f"{row['kernel']:<40} {row['counter']:<30} counted {row['counted']:>5}"
            f" measured {row['measured']:>5}{why}"
        )
    launches = len({row["kernel"] for row in compared})
    print(f"{launches} launches, {len(compared)} counts, {len(different)} differences")
    return sum(row["explanation"] is None for row in different)


def main(arguments: list[str] | None = None) -> int:
    """Profile, compare, write, and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--launch-only", action="store_true", help="launch the kernels; what ncu is given")
    parser.add_argument("--only", default="", metavar="BEGINNING", help="launches whose names begin so")
    parser.add_argument(
        "--again",
        type=Path,
        metavar="FILE",
        help="compare what FILE has measured with today's report, and write it; needs no GPU",
    )
    options = parser.parse_args(arguments)
    if options.again:
        before = json.loads(options.again.read_text())
        measured: dict[str, dict[str, int]] = defaultdict(dict)
        for row in before["rows"]:
            measured[row["kernel"]][row["counter"]] = row["measured"]
        compared = rows(measured)
        _write(options.output or options.again, before["recorded"], compared)
        return int(show(compared) > 0)
    found = runtime.discover()
    if not found.devices:
        print(f"memory_counters: needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    if options.launch_only:
        for case in cases():
            if case.name.startswith(options.only):
                case.launch("cuda:0")
        return 0
    if options.only and options.output is None:
        parser.error("--only is a part of the benchmark: say with --output where to keep it")
    compared = rows(profile(options.only))
    output = options.output or result_path("memory_counters", found.devices[0].name)
    _write(output, of_this_machine(), compared)
    return int(show(compared) > 0)


def _write(output: Path, recorded: Mapping[str, object], compared: list[dict[str, Any]]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"recorded": recorded, "rows": compared}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
