"""Time one GEMM on the emulator, on Triton's interpreter and on numba's CUDA simulator, on this CPU.

    python -m benchmarks.simulators                    writes benchmarks/results/simulators.json
    python -m benchmarks.simulators --triton PYTHON    Triton is in another Python, with NumPy and no torch
    python -m benchmarks.simulators --output F         writes F

C (M, N) in f32 is A (M, K) times B (N, K) transposed in f16, of normally distributed numbers, and is compared
with NumPy's product before a time counts. Each time is of a process of its own, one at a time, behind a first
launch of the smallest size; `cpu` is the processor's time for the same launch. Where a simulator is not
installed, the rest is a part, which is kept only with --output.

What is compared is how long an engineer waits, not like with like. The emulator runs the PTX of a kernel with
TMA, mbarriers, multicast and two-SM tcgen05.mma, instruction by instruction, in an order that a seed chooses,
with all of its checks (`cutecourse.kernels.umma_gemm`, 128 x 256 of C for each block). Triton's interpreter
runs the source of a kernel, one program after the other, each operation on a tile as one of NumPy's: nothing
below tiles is there. numba's simulator runs the source of a kernel of one thread for each element, each
thread as a thread of Python's. Sizes that take longer than a minute are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gemm_timing import Size, ask, check, operands
from benchmarks.results_file import result_path, write_result
from tools.facts import of_this_machine

SMALL: Size = (128, 256, 64)
SIZES: dict[str, tuple[Size, ...]] = {
    "emulator": (SMALL, (512, 1024, 256), (1024, 1024, 1024), (2048, 2048, 2048)),
    "triton": (SMALL, (512, 1024, 256), (1024, 1024, 1024)),
    "numba": ((64, 64, 64), (128, 128, 64), SMALL),
}
NAMES = {"emulator": "the emulator", "triton": "Triton's interpreter", "numba": "numba's simulator"}
ENVIRONMENT = {"triton": {"TRITON_INTERPRET": "1"}, "numba": {"NUMBA_ENABLE_CUDASIM": "1"}}
ROUNDS = 3


# --- in a process of its own --------------------------------------------------------------------------------


def multiply(which: str, a: Any, b: Any, c: Any) -> Any:
    """The product by one of the three, and the seconds and processor's seconds that it took."""
    if which == "emulator":
        from cutecourse import runtime
        from cutecourse.kernels import umma_gemm

        small = len(c) < 512
        spec = umma_gemm.gemm_spec(
            (*c.shape, a.shape[1]), sms=1 if small else 2, cluster=(1, 1) if small else (4, 4)
        )
        runtime.compile(spec)
        start, cpu = time.perf_counter(), time.process_time()
        c = runtime.run(spec, device="emulator", a=a, b=b, c=c)["c"]
    elif which == "triton":
        from benchmarks.triton_gemm import triton_gemm

        start, cpu = time.perf_counter(), time.process_time()
        triton_gemm(a, b, c)
    else:
        from benchmarks.simulated_gemm import BLOCK, simulated_gemm

        start, cpu = time.perf_counter(), time.process_time()
        simulated_gemm[(c.shape[0] // BLOCK[0], c.shape[1] // BLOCK[1]), BLOCK](a, b, c)
    return c, time.perf_counter() - start, time.process_time() - cpu


def measure(which: str, size: Size) -> dict[str, Any]:
    """One time, behind a launch that loads what is loaded once. Errors: WrongProductError."""
    found: dict[str, Any] = {"load": os.getloadavg()[0]}
    for m, n, k in dict.fromkeys((SIZES[which][0], size)):
        a, b, expected = operands((m, n, k))
        c, seconds, cpu = multiply(which, a, b, np.zeros(expected.shape, np.float32))
        check(f"{NAMES[which]}, {m}x{n}x{k}", c, expected, k)
        found |= {"seconds": seconds, "cpu": cpu}
    if which != "emulator":
        found["version"] = sys.modules[which].__version__
    return found


# --- one process after the other ----------------------------------------------------------------------------


def one(which: str, size: Size) -> dict[str, Any] | None:
    """What such a process finds; None where what it needs is not installed."""
    try:
        return measure(which, size)
    except ModuleNotFoundError as missing:
        if missing.name != which:
            raise
        return None


def main(given: list[str] | None = None) -> int:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--triton", default=sys.executable, metavar="PYTHON", help="the Python with Triton")
    parser.add_argument("--output", type=Path, help="where the result goes")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="processes for each size")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.one is not None:
        which, *extents = options.one
        m, n, k = map(int, extents)
        print(json.dumps(one(which, (m, n, k))))
        return 0
    rows: list[dict[str, Any]] = []
    whole = True
    for which, sizes in SIZES.items():
        python = options.triton if which == "triton" else sys.executable
        for size in sizes:
            runs = [
                ask(
                    "benchmarks.simulators",
                    *("--one", which, *map(str, size)),
                    python=python,
                    environment=ENVIRONMENT.get(which),
                )
                for _ in range(options.rounds)
            ]
            times = [run for run in runs if run is not None]
            if not times:
                print(f"{NAMES[which]}: skipped, {which} is not installed in {Path(python).name}", flush=True)
                whole = False
                break
            seconds = statistics.median(run["seconds"] for run in times)
            m, n, k = size
            rows.append(
                {
                    "on": NAMES[which],
                    "version": times[0].get("version"),
                    "mnk": size,
                    "median_s": seconds,
                    "cpu_median_s": statistics.median(run["cpu"] for run in times),
                    "multiply_adds_per_s": m * n * k / seconds,
                    "seconds": [run["seconds"] for run in times],
                    "load": [run["load"] for run in times],
                }
            )
            cpu = rows[-1]["cpu_median_s"]
            print(f"{NAMES[which]:22} {m}x{n}x{k}: {seconds:8.3f} s (cpu {cpu:8.3f} s)", flush=True)
    result = {
        "recorded": of_this_machine(),
        "method": {"rounds": options.rounds, "takes": "median", "python": sys.version.split()[0]},
        "rows": rows,
    }
    write_result(result, options.output or (result_path("simulators") if whole else None))
    return 0


if __name__ == "__main__":
    sys.exit(main())
