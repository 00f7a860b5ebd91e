"""What a trace costs: the same launches with nobody listening, with a recorder, and without any hook.

    python -m benchmarks.tracing               writes benchmarks/results/tracing.json
    python -m benchmarks.tracing --output F    writes F

Each variant has a process of its own: `off` as the package is, `on` the same with a recorder, `without` where
every hook of the trace is taken out of the emulator's source (benchmarks/trace_hooks.py); all are copies
that were parsed and written again. They take turns, launch by launch, in an order that changes from round to
round, and a turn counts the processor's time of its process. For each round the ratio to the launch without
hooks is taken, and of all ratios the median with its quartiles: what else the machine does meets all of them.
`same` is one more process without hooks, and shows how far apart equal code comes out. A process keeps the
luck of where its memory lies for as long as it lives, so all of them are started anew several times.

A recorder keeps copies of the arguments besides the events; `on` holds both.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_file import result_path, write_result
from benchmarks.trace_hooks import TakenOut, write_package
from tools.facts import of_this_machine
from tools.paths import ROOT

ROUNDS = 8
"""Turns of each variant and workload in each life of the processes."""
LIVES = 6
VARIANTS = ("without", "same", "off", "on")
SETTLED = 3
"""Launches of each process before one counts."""


# --- in a process of its own ------------------------------------------------------------------------------


def workloads() -> dict[str, Callable[[bool], int]]:
    """Launches by name: each takes whether to trace, and says how many events came of it."""
    from cutecourse import runtime
    from cutecourse.kernels import mma_raw, tma_broken, umma_tile
    from cutecourse.kernels.umma_gemm import gemm_spec

    def operands(m: int, n: int, k: int) -> dict[str, Any]:
        rng = np.random.default_rng(0)
        a, b = (rng.integers(-4, 5, (extent, k)).astype(np.float16) for extent in (m, n))
        return {"a": a, "b": b, "c": np.zeros((m, n), np.float32)}

    def runs(spec: Any, times: int, **arrays: Any) -> Callable[[bool], int]:
        def launch(trace: bool) -> int:
            done = [runtime.run(spec, device="emulator", trace=trace, **arrays) for _ in range(times)]
            return sum(len(one.trace) for one in done if one.trace is not None)

        return launch

    tiles = 24
    source = np.arange(16 * tiles * 32, dtype=np.int32).reshape(-1, 32)
    doubled = {"source": source, "result": np.zeros_like(source), "gave_up": np.zeros(2, np.uint32)}
    small = {"a": np.ones((16, 16), np.float16), "b": np.ones((8, 16), np.float16)}
    small["c"] = np.zeros((16, 8), np.float32)
    return {
        "umma_gemm 512x1024x256 4x4": runs(
            gemm_spec((512, 1024, 256), cluster=(4, 4)), 1, **operands(512, 1024, 256)
        ),
        "umma_tile 128x128x256": runs(umma_tile.LAUNCH, 2, **operands(128, 128, 256)),
        "TMA pipeline, 24 tiles": runs(tma_broken.doubled(tiles), 2, tiles=tiles, **doubled),
        "mma.sync, one warp": runs(mma_raw.LAUNCH, 40, **small),
    }


def serve(variant: str) -> int:
    """Answer each line, the name of a workload, with the processor's time it took and its events."""
    known = workloads()
    for name, launch in known.items():
        for _ in range(SETTLED):
            events = launch(variant == "on")
        print(json.dumps([name, events]), flush=True)
    print(json.dumps(None), flush=True)
    for line in sys.stdin:
        start = time.process_time()
        events = known[line.strip()](variant == "on")
        print(json.dumps([time.process_time() - start, events]), flush=True)
    return 0


# --- all processes ------------------------------------------------------------------------------------------


class Worker:
    """A process with one variant of the package."""

    def __init__(self, variant: str, library: Path) -> None:
        self.variant = variant
        self.events: dict[str, int] = {}
        path = os.pathsep.join([str(library), str(ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.tracing", "--serve", variant],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        while (answer := self._read()) is not None:
            name, self.events[name] = answer

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.variant} ended")
        return json.loads(line)

    def time(self, workload: str) -> float:
        """Seconds of the processor for a workload."""
        assert self._process.stdin is not None
        print(workload, file=self._process.stdin, flush=True)
        seconds, _ = self._read()
        return float(seconds)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


Times = dict[str, dict[str, list[float]]]
"""Seconds by workload and variant."""


def take(rounds: int, workers: dict[str, Worker], times: Times, random_: random.Random) -> None:
    """Add the times of some rounds of each workload."""
    order = list(workers)
    for workload in workers["off"].events:
        seconds = times.setdefault(workload, {variant: [] for variant in workers})
        for _ in range(rounds):
            random_.shuffle(order)
            for variant in order:
                seconds[variant].append(workers[variant].time(workload))


def measure(lives: int, rounds: int, libraries: dict[str, Path]) -> list[dict[str, Any]]:
    """A row for each workload. Errors: TakenOut, where a launch with nobody listening has events."""
    times: Times = {}
    random_ = random.Random(0)
    events: dict[str, int] = {}
    for _ in range(lives):
        workers = {variant: Worker(variant, library) for variant, library in libraries.items()}
        try:
            if any(workers[variant].events != workers["off"].events for variant in ("without", "same")):
                raise TakenOut("a launch with nobody listening had events")
            events = workers["on"].events
            take(rounds, workers, times, random_)
        finally:
            for worker in workers.values():
                worker.close()
    rows = []
    for workload, seconds in times.items():
        row = {"workload": workload, "events": events[workload], **summary(seconds)}
        print(line_of(row), flush=True)
        rows.append(row)
    return rows


def summary(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Medians, and each variant's ratio to the launches without hooks, round by round.

    >>> summary({"without": [2.0, 4.0, 2.0], "off": [2.0, 5.0, 2.5]})["ratios"]["off"]["median"]
    1.25
    """
    ratios = {}
    for variant, taken in seconds.items():
        if variant == "without":
            continue
        of_rounds = [a / b for a, b in zip(taken, seconds["without"], strict=True)]
        low, middle, high = statistics.quantiles(of_rounds, n=4, method="inclusive")
        ratios[variant] = {"median": middle, "quartiles": [low, high]}
    return {"median_s": {v: statistics.median(taken) for v, taken in seconds.items()}, "ratios": ratios}


def line_of(row: dict[str, Any]) -> str:
    """A row as text."""
    shown = [f"{row['workload']:28} {1000 * row['median_s']['without']:8.1f} ms without hooks"]
    for variant, ratio in row["ratios"].items():
        low, high = ratio["quartiles"]
        shown.append(f"{variant} {ratio['median']:.3f} ({low:.3f} to {high:.3f})")
    return "  ".join([*shown, f"{row['events']} events"])


def main() -> int:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=Path, help="where the result goes")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each variant and workload")
    parser.add_argument("--lives", type=int, default=LIVES, help="how often all processes are started anew")
    parser.add_argument("--serve", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        return serve(options.serve)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        hooked, bare = Path(folder, "hooked"), Path(folder, "bare")
        write_package(ROOT / "lib" / "cutecourse", hooked, hooks=True)
        taken = write_package(ROOT / "lib" / "cutecourse", bare, hooks=False)
        libraries = {"without": bare, "same": bare, "off": hooked, "on": hooked}
        rows = measure(options.lives, options.rounds, libraries)
    result = {
        "recorded": of_this_machine(),
        "method": {
            "lives": options.lives,
            "rounds": options.rounds,
            "takes": "median of the rounds' ratios of process time",
            "hooks_taken_out": taken,
            "load": [load, os.getloadavg()[0]],
            "python": sys.version.split()[0],
        },
        "rows": rows,
    }
    write_result(result, options.output or result_path("tracing"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
