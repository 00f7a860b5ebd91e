"""What a GPU does with the kernels that are wrong on purpose: each fault run many times, and what came out.

    python -m benchmarks.tma_faults             runs all, writes benchmarks/results/tma_faults_<gpu>.json
    python -m benchmarks.tma_faults --missing   runs only the rows that this file lacks, and adds them
    python -m benchmarks.tma_faults --output F  writes F

Every fault runs in a process of its own, since a GPU's fault ends the process's use of it. No kernel here can
wait forever: a warp that has waited in vain says so and goes on. The right kernels are in the table as well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.results_file import result_path
from cutecourse import runtime
from cutecourse.kernels import LaunchSpec, tma_broken, tma_multicast_broken, tma_multicast_pipeline_broken
from tools.facts import of_this_machine

RUNS = 50
TILES = 16  # of the doubled matrix: enough that a wrong order shows
LIMIT_S = 120
RIGHT = "right"
MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (tma_broken, tma_multicast_broken, tma_multicast_pipeline_broken)
}


def kernel(module: ModuleType, fault: str) -> LaunchSpec:
    """The launch of one fault, or of the right kernel."""
    spec: LaunchSpec
    if module is tma_broken:
        spec = tma_broken.doubled(TILES) if fault == RIGHT else tma_broken.broken(fault, TILES)
        return spec
    if module is tma_multicast_pipeline_broken:
        spec = module.shared_stages(TILES) if fault == RIGHT else module.broken(fault, TILES)
        return spec
    return module.LAUNCH if fault == RIGHT else module.broken(fault)


def arguments(module: ModuleType, seed: int) -> tuple[dict[str, Any], str, np.ndarray[Any, Any]]:
    """The arrays of one run, the name of its result, and what the result should be."""
    rng = np.random.default_rng(seed)
    if module is tma_broken:
        source = rng.integers(1, 1000, (TILES * tma_broken.ROWS, tma_broken.COLUMNS), dtype=np.int32)
        given = {"gave_up": np.zeros(2, np.uint32), "tiles": TILES, "result": np.zeros_like(source)}
        return {"source": source, **given}, "result", 2 * source
    if module is tma_multicast_pipeline_broken:
        ctas, tile_shape = module.CTAS, (module.ROWS, module.COLUMNS)
        tiles = rng.integers(1, 1000, (TILES, *tile_shape), dtype=np.int32)
        given = {"gave_up": np.zeros(ctas, np.uint32), "tiles": TILES}
        given["out"] = np.zeros((ctas, *tiles.shape), np.int32)
        expected = np.broadcast_to(tiles, (ctas, *tiles.shape))
        return {"source": tiles.reshape(-1, module.COLUMNS), **given}, "out", expected
    tile = rng.integers(1, 1000, (tma_multicast_broken.ROWS, tma_multicast_broken.COLUMNS), dtype=np.int32)
    ctas = tma_multicast_broken.CTAS
    given = {"gave_up": np.zeros(ctas, np.uint32), "out": np.zeros((ctas, *tile.shape), np.int32)}
    return {"source": tile, **given}, "out", np.broadcast_to(tile, (ctas, *tile.shape))


def observe(module: ModuleType, fault: str, *, device: str = "cuda:0", runs: int = RUNS) -> dict[str, Any]:
    """Run one fault many times and count: runs that gave up, runs with a wrong result, wrong elements."""
    spec = kernel(module, fault)
    gave_up, wrong = 0, []
    for seed in range(runs):
        given, name, expected = arguments(module, seed)
        outcome = runtime.run(spec, device=device, seed=seed, **given)
        gave_up += bool(outcome["gave_up"].any())
        wrong.append(int((outcome[name] != expected).sum()))
    return {
        "runs": runs,
        "gave_up": gave_up,
        "wrong_runs": sum(count > 0 for count in wrong),
        "most_wrong_elements": max(wrong),
        "elements": int(expected.size),
        "error": None,
    }


def in_a_process(module: str, fault: str) -> dict[str, Any]:
    """`observe` in a process of its own; an error of the GPU is kept as its first line."""
    command = [sys.executable, "-m", "benchmarks.tma_faults", "--one", module, fault]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"did not end within {LIMIT_S} s"}
    if done.returncode:
        return {"error": next(reversed(done.stderr.strip().splitlines() or ["no message"]))}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def main(given: list[str] | None = None) -> int:
    """Observe every fault, write, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--missing", action="store_true", help="keep the rows of the file, run the others")
    parser.add_argument("--one", nargs=2, metavar=("MODULE", "FAULT"), help="one fault, in this process")
    options = parser.parse_args(given)
    found = runtime.discover()
    if not found.devices:
        print(f"tma_faults: needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    if options.one:
        module, fault = options.one
        print(json.dumps(observe(MODULES[module], fault)))
        return 0
    gpu = found.devices[0]
    output = options.output or result_path("tma_faults", gpu.name)
    facts = of_this_machine()
    result: dict[str, Any] = {"recorded": facts, "rows": []}
    if options.missing and output.exists():
        result = json.loads(output.read_text())
        if result["recorded"]["gpu"] != facts["gpu"]:
            print(
                f"tma_faults: {output} is of {result['recorded']['gpu']}, this is {facts['gpu']}.",
                file=sys.stderr,
            )
            return 1
    rows = result["rows"]
    known = {(row["kernel"], row["fault"]) for row in rows}
    for name, module in MODULES.items():
        for fault in (RIGHT, *module.FAULTS):
            if (name, fault) in known:
                continue
            row = {"kernel": name, "fault": fault, **in_a_process(name, fault)}
            rows.append({**row, "recorded": facts} if options.missing else row)
            print(row)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")
    sound = [row for row in rows if row["fault"] == RIGHT]
    return int(any(row["error"] or row["gave_up"] or row["wrong_runs"] for row in sound))


if __name__ == "__main__":
    sys.exit(main())
