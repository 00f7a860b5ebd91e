"""Time one GEMM on the emulator, on Triton's interpreter and on numba's CUDA simulator, on this CPU.

    python -m benchmarks.simulators                    writes benchmarks/results/simulators_<n>_cores.json
    python -m benchmarks.simulators --triton PYTHON    Triton is in another Python, with NumPy and no torch
    python -m benchmarks.simulators --output F         writes F

C (M, N) in f32 is A (M, K) times B (N, K) transposed in f16, of normally distributed numbers, and is compared
with NumPy's product before a time counts. Each time is of a process of its own, one at a time, behind a first
launch of the smallest size; `cpu` is the processor's time for the same launch.

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
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_file import result_path
from tools.facts import of_this_machine
from tools.paths import ROOT

Size = tuple[int, int, int]
SMALL: Size = (128, 256, 64)
SIZES: dict[str, tuple[Size, ...]] = {
    "emulator": (SMALL, (512, 1024, 256), (1024, 1024, 1024), (2048, 2048, 2048)),
    "triton": (SMALL, (512, 1024, 256), (1024, 1024, 1024)),
    "numba": ((64, 64, 64), (128, 128, 64), SMALL),
}
NAMES = {"emulator": "the emulator", "triton": "Triton's interpreter", "numba": "numba's simulator"}
ENVIRONMENT = {"triton": {"TRITON_INTERPRET": "1"}, "numba": {"NUMBA_ENABLE_CUDASIM": "1"}}
ROUNDS = 3
TOLERANCE = 2.0**-16
"""Of a sum of K products of normally distributed numbers, as a part of the square root of K."""
NOT_INSTALLED = 3


class WrongProductError(RuntimeError):
    """What was timed did not multiply."""


# --- in a process of its own --------------------------------------------------------------------------------


def multiply(which: str, a: Any, b: Any, c: Any) -> Any:
    """The product by one of the three, and the seconds and processor's seconds that it took."""
    if which == "emulator":
        from cutecourse import runtime
        from cutecourse.kernels.umma_gemm import gemm_spec

        small = len(c) < 512
        spec = gemm_spec((*c.shape, a.shape[1]), sms=1 if small else 2, cluster=(1, 1) if small else (4, 4))
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
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal((extent, k)).astype(np.float16) for extent in (m, n))
        c, seconds, cpu = multiply(which, a, b, np.zeros((m, n), np.float32))
        worst = float(np.abs(c - a.astype(np.float64) @ b.astype(np.float64).T).max())
        if not worst <= TOLERANCE * k**0.5:
            raise WrongProductError(f"{NAMES[which]}, {m}x{n}x{k}: an element is off by {worst:.2e}.")
        found |= {"seconds": seconds, "cpu": cpu}
    if which != "emulator":
        found["version"] = sys.modules[which].__version__
    return found


# --- one process after the other ----------------------------------------------------------------------------


def ask(python: str, which: str, size: Size) -> dict[str, Any] | None:
    """Measure in a process of its own; None where what it needs is not installed."""
    path = os.pathsep.join(filter(None, (str(ROOT), str(ROOT / "lib"), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [python, "-m", "benchmarks.simulators", "--one", which, *map(str, size)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **ENVIRONMENT.get(which, {})},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode == NOT_INSTALLED:
        return None
    done.check_returncode()
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def one(which: str, size: Size) -> int:
    """What such a process does."""
    try:
        print(json.dumps(measure(which, size)))
    except ModuleNotFoundError as missing:
        if missing.name != which:
            raise
        return NOT_INSTALLED
    return 0


def main() -> int:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--triton", default=sys.executable, metavar="PYTHON", help="the Python with Triton")
    parser.add_argument("--output", type=Path, help="where the result goes")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="processes for each size")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        which, *extents = options.one
        m, n, k = map(int, extents)
        return one(which, (m, n, k))
    rows: list[dict[str, Any]] = []
    for which, sizes in SIZES.items():
        python = options.triton if which == "triton" else sys.executable
        for size in sizes:
            runs = [ask(python, which, size) for _ in range(options.rounds)]
            times = [run for run in runs if run is not None]
            if not times:
                print(f"{NAMES[which]}: skipped, {which} is not installed in {Path(python).name}", flush=True)
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
    output = options.output or result_path("simulators", f"{os.cpu_count()} cores")
    output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written to {output.relative_to(ROOT) if output.is_relative_to(ROOT) else output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
