"""Measure how fast a big matrix is transposed in five ways, beside a copy of the same bytes.

    python -m benchmarks.transpose             writes benchmarks/results/transpose_<gpu>.json
    python -m benchmarks.transpose --output F  writes F

The matrix is f32 and far larger than the L2 cache. Everything is timed by events on memory that is on the GPU
already. The ways take turns for `ROUNDS` rounds, and the median counts. Before each of them the GPU reads
another array: nothing useful is left in the L2 cache then, and the launch waits in the queue for its turn.
GB/s are the bytes read plus the bytes written. Each result is compared with the transpose before the first
round and after the last one. The kernels' twins in PTX are timed as well.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.results_file import result_path
from cutecourse import runtime
from cutecourse.kernels import (
    LaunchSpec,
    transpose_naive,
    transpose_padded,
    transpose_shared,
    transpose_swizzled,
    transpose_wide,
    twin,
)
from tools.facts import of_this_machine

ROWS, COLUMNS = 8192, 16384
ROUNDS = 21
READS_BEFORE = 4
"""How often the other array is read before a launch: about 0.5 ms, longer than the host needs to queue it."""
KERNELS = (transpose_naive, transpose_shared, transpose_padded, transpose_swizzled, transpose_wide)
COPY = "memcpy"

PREDICTED = {
    "transpose_shared": 0.45,
    "transpose_padded": 0.90,
    "transpose_swizzled": 0.90,
    "transpose_wide": 0.97,
}
"""The share of the copy's rate that was expected of each kernel, written down before the first measurement.
`benchmarks.copy_ladder` predicts transpose_naive.

shared    a tile's column reads take 32 warps x 32 passes, its writes 32: 8 KiB in 1056 cycles of an SM
padded    64 passes for the same 8 KiB: memory limits it, and 4-byte accesses keep few bytes in flight
swizzled  as padded; the exclusive or is not noticed
wide      as the copy, which also moves 16 bytes at a time
"""


class WrongTransposeError(runtime.GpuError):
    """A kernel that was timed did not transpose."""


def specs() -> dict[str, LaunchSpec]:
    """Each kernel for the big matrix, and its twin, by name."""
    kernels = [kernel.spec(ROWS, COLUMNS) for kernel in KERNELS]
    return {spec.name: spec for kernel in kernels for spec in (kernel, twin(kernel))}


def clock_mhz() -> float | None:
    """The highest clock of the multiprocessors that the driver names."""
    command = ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return None if done.returncode else float(done.stdout.splitlines()[0])


def measure() -> dict[str, list[float]]:
    """The seconds of each way in each round, the copy's among them."""
    import torch

    source = torch.randn(ROWS, COLUMNS, device="cuda")
    result = torch.full((COLUMNS, ROWS), float("nan"), device="cuda")
    other = torch.zeros_like(source)
    transposed = source.T.contiguous()
    pointers = [source.data_ptr(), result.data_ptr()]
    ways: dict[str, Callable[[], float]] = {}
    launches = specs()

    def read_other() -> None:
        for _ in range(READS_BEFORE):
            other.sum()

    def copied() -> float:
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        read_other()
        before.record()
        result.view(ROWS, COLUMNS).copy_(source)
        after.record()
        after.synchronize()
        return before.elapsed_time(after) / 1e3

    with ExitStack() as stack:
        for name, spec in launches.items():
            compiled = runtime.compile(spec)
            kernel = stack.enter_context(
                runtime.GpuKernel(compiled.ptx, compiled.entry, dynamic_smem=spec.dynamic_smem)
            )

            def timed(kernel: runtime.GpuKernel = kernel, spec: LaunchSpec = spec) -> float:
                read_other()
                return kernel.time(pointers, grid=spec.grid, block=spec.block)[0]

            ways[name] = timed

        def check() -> None:
            for name in launches:
                result.fill_(float("nan"))
                ways[name]()
                if not torch.equal(result, transposed):
                    raise WrongTransposeError(f"{name}: the result is not the transpose.")

        check()
        ways[COPY] = copied
        for way in ways.values():
            way()
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(ROUNDS):
            order = list(ways)[number % len(ways) :] + list(ways)[: number % len(ways)]
            for name in order:
                seconds[name].append(ways[name]())
        check()
    return seconds


def rows_of(seconds: dict[str, list[float]]) -> list[dict[str, Any]]:
    """One row for each way: the median, the fastest and the slowest round in GB/s, beside the prediction."""
    size = 2 * 4 * ROWS * COLUMNS
    rates = {name: [size / one / 1e9 for one in several] for name, several in seconds.items()}
    copy = statistics.median(rates[COPY])
    return [
        {
            "way": name,
            "gb_s": round(statistics.median(several), 1),
            "least_gb_s": round(min(several), 1),
            "most_gb_s": round(max(several), 1),
            "of_memcpy": round(statistics.median(several) / copy, 4),
            "predicted_of_memcpy": PREDICTED.get(name.removesuffix("_ptx")),
        }
        for name, several in rates.items()
    ]


def main(given: list[str] | None = None) -> int:
    """Measure, write, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(given)
    found = runtime.discover()
    if not found.devices:
        print(f"transpose: needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    gpu = found.devices[0]
    rows = rows_of(measure())
    result = {
        "recorded": of_this_machine(),
        "rows_of_matrix": ROWS,
        "columns_of_matrix": COLUMNS,
        "rounds": ROUNDS,
        "multiprocessors": gpu.multiprocessors,
        "clock_mhz": clock_mhz(),
        "rows": rows,
    }
    output = options.output or result_path("transpose", gpu.name)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")
    for row in rows:
        predicted = row["predicted_of_memcpy"]
        expected = "" if predicted is None else f"  predicted {predicted:.0%}"
        print(f"{row['way']:<24} {row['gb_s']:>8} GB/s  {row['of_memcpy']:>6.1%} of memcpy{expected}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
