"""Run each kernel that is wrong on purpose many times on a GPU, and count what comes out.

    python -m benchmarks.kernel_faults             runs all, writes results/kernel_faults_<gpu>.json
    python -m benchmarks.kernel_faults --tma       runs the TMA kernels, writes results/tma_faults_<gpu>.json
    python -m benchmarks.kernel_faults --missing   runs only the rows that this file lacks, and adds them
    python -m benchmarks.kernel_faults --only M    runs the faults of one module; kept only with --output
    python -m benchmarks.kernel_faults --output F  writes F

Every fault runs in a process of its own, because a GPU's fault ends the process's use of it. No kernel here
can wait forever. The right kernels are in the table as well.

A module of broken kernels, `cutecourse/kernels/*/*/*_broken.py`, takes part if it has

    RIGHT               the launch without a fault
    FAULTS              the faults by name
    broken(fault)       the launch with one fault
    arguments(seed)     the arguments of one run, the name of its result, and what the result should be
    MEASURED            the size for a GPU, where it differs: right, broken and arguments take it as well
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.results_file import result_path, write_result
from cutecourse import runtime
from cutecourse.kernels import LaunchSpec, tma_broken, tma_multicast_broken, tma_multicast_pipeline_broken
from cutecourse.kernels.files import kernel_module, kernel_modules
from tools.facts import of_this_machine

RUNS = 50
TILES = 16  # of a TMA kernel's matrix: enough that a wrong order shows
LIMIT_S = 120
AT_ONCE = 5
RIGHT = "right"

Arguments = tuple[dict[str, Any], str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Subject:
    """A kernel that is right, and the same kernel with one fault at a time."""

    name: str
    right: LaunchSpec
    faults: Collection[str]
    broken: Callable[[str], LaunchSpec]
    arguments: Callable[[int], Arguments]

    def launch(self, fault: str) -> LaunchSpec:
        """The launch with one fault, or the right one."""
        return self.right if fault == RIGHT else self.broken(fault)


def subjects(*, measured: bool = False) -> dict[str, Subject]:
    """Every module of broken kernels that follows the protocol above, by its name; `measured`: for a GPU."""
    found = {}
    for name in sorted(kernel_modules()):
        if name.endswith("_broken"):
            module = kernel_module(name)
            if not hasattr(module, "RIGHT"):
                continue
            size = getattr(module, "MEASURED", ()) if measured else ()
            found[name] = Subject(
                name,
                module.right(*size) if size else module.RIGHT,
                module.FAULTS,
                lambda fault, module=module, size=size: module.broken(fault, *size),
                lambda seed, module=module, size=size: module.arguments(seed, *size),
            )
    return found


def tma_subjects() -> dict[str, Subject]:
    """The TMA kernels of chapters 7 and 8, on more tiles than their pages use."""
    right = {
        tma_broken: (tma_broken.doubled(TILES), lambda fault: tma_broken.broken(fault, TILES)),
        tma_multicast_broken: (tma_multicast_broken.LAUNCH, tma_multicast_broken.broken),
        tma_multicast_pipeline_broken: (
            tma_multicast_pipeline_broken.shared_stages(TILES),
            lambda fault: tma_multicast_pipeline_broken.broken(fault, TILES),
        ),
    }
    found = {}
    for module, (launch, broken) in right.items():
        name = module.__name__.rpartition(".")[2]
        found[name] = Subject(
            name, launch, module.FAULTS, broken, lambda seed, module=module: _tma_arguments(module, seed)
        )
    return found


def _tma_arguments(module: ModuleType, seed: int) -> Arguments:
    rng = np.random.default_rng(seed)
    if module is tma_broken:
        source = rng.integers(1, 1000, (TILES * tma_broken.ROWS, tma_broken.COLUMNS), dtype=np.int32)
        given = {"gave_up": np.zeros(2, np.uint32), "tiles": TILES, "result": np.zeros_like(source)}
        return {"source": source, **given}, "result", 2 * source
    ctas, tile_shape = module.CTAS, (module.ROWS, module.COLUMNS)
    given = {"gave_up": np.zeros(ctas, np.uint32)}
    if module is tma_multicast_broken:
        tiles = rng.integers(1, 1000, tile_shape, dtype=np.int32)
    else:
        tiles = rng.integers(1, 1000, (TILES, *tile_shape), dtype=np.int32)
        given["tiles"] = TILES
    given["out"] = np.zeros((ctas, *tiles.shape), np.int32)
    expected = np.broadcast_to(tiles, (ctas, *tiles.shape))
    return {"source": tiles.reshape(-1, module.COLUMNS), **given}, "out", expected


def observe(subject: Subject, fault: str, *, device: str = "cuda:0", runs: int = RUNS) -> dict[str, Any]:
    """Run one fault many times and count: runs that gave up, runs with a wrong result, wrong elements.

    `gave_up` is None for a kernel that has no such result because it waits for no barrier.
    """
    spec = subject.launch(fault)
    gave_up, wrong = 0, []
    for seed in range(runs):
        given, name, expected = subject.arguments(seed)
        outcome = runtime.run(spec, device=device, seed=seed, **given)
        gave_up += "gave_up" in given and bool(outcome["gave_up"].any())
        wrong.append(int((outcome[name] != expected).sum()))
    return {
        "runs": runs,
        "gave_up": gave_up if "gave_up" in given else None,
        "wrong_runs": sum(count > 0 for count in wrong),
        "most_wrong_elements": max(wrong),
        "elements": int(expected.size),
        "error": None,
    }


def in_a_process(name: str, fault: str) -> dict[str, Any]:
    """`observe` in a process of its own; an error of the GPU is kept as its last line."""
    command = [sys.executable, "-m", "benchmarks.kernel_faults", "--one", name, fault]
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
    parser.add_argument("--tma", action="store_true", help="the TMA kernels of chapters 7 and 8")
    parser.add_argument("--missing", action="store_true", help="keep the rows of the file, run the others")
    parser.add_argument("--only", metavar="MODULE", help="the faults of one module")
    parser.add_argument("--one", nargs=2, metavar=("MODULE", "FAULT"), help="one fault, in this process")
    options = parser.parse_args(given)
    found = runtime.discover()
    if not found.devices:
        print(f"kernel_faults: needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    if options.one:
        name, fault = options.one
        print(json.dumps(observe({**subjects(measured=True), **tma_subjects()}[name], fault)))
        return 0
    gpu, chosen = found.devices[0], tma_subjects() if options.tma else subjects(measured=True)
    whole = result_path("tma_faults" if options.tma else "kernel_faults", gpu.name)
    output = options.output or (None if options.only else whole)
    if options.only and options.only not in chosen:
        parser.error(f"there is no module {options.only}; there are: {', '.join(chosen) or 'none'}")
    if options.only:
        chosen = {options.only: chosen[options.only]}
    facts = of_this_machine()
    result: dict[str, Any] = {"recorded": facts, "rows": []}
    if options.missing and output is not None and output.exists():
        result = json.loads(output.read_text())
        if result["recorded"]["gpu"] != facts["gpu"]:
            print(
                f"kernel_faults: {output} is of {result['recorded']['gpu']}, this is {facts['gpu']}.",
                file=sys.stderr,
            )
            return 1
    rows = result["rows"]
    known = {(row["kernel"], row["fault"]) for row in rows}
    asked = [
        (name, fault)
        for name, subject in chosen.items()
        for fault in (RIGHT, *subject.faults)
        if (name, fault) not in known
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (name, fault), seen in zip(asked, pool.map(lambda one: in_a_process(*one), asked), strict=True):
            row = {"kernel": name, "fault": fault, **seen}
            rows.append({**row, "recorded": facts} if options.missing else row)
            print(row)
    write_result(result, output)
    sound = [row for row in rows if row["fault"] == RIGHT]
    return int(any(row["error"] or row["gave_up"] or row["wrong_runs"] for row in sound))


if __name__ == "__main__":
    sys.exit(main())
