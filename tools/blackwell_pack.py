"""Record on a B200 or a B300 what no GPU of ours can run, as one file for a pull request; check such files.

    python -m tools.blackwell_pack                  run the cases and benchmarks, and write the pack
    python -m tools.blackwell_pack --check          accept or refuse the packs of the repository
    python -m tools.blackwell_pack --check FILE     accept or refuse this one

Each case runs in a process of its own, so that one that hangs or loses its context leaves the others alone.
The pack goes to tests/emulator/recordings/blackwell, and the coverage page then says what the GPU did. Where
there is no such GPU, it says so and exits with status 77.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import umma_throughput as bench
from cutecourse import runtime
from cutecourse.errors import CourseError
from tools.cases import packs, ptx_cases, ptx_recordings
from tools.cases.ptx_cases import Case
from tools.paths import ROOT

SECONDS = 120
"""A case that takes longer hangs."""


def run_apart(case: Case, compute_capability: str) -> dict[str, Any]:
    """A case's entry in the pack, from a process of its own. Errors: RuntimeError with the GPU's reason."""
    command = [sys.executable, "-m", "tools.blackwell_pack", "--one", case.name, compute_capability]
    try:
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"did not end in {SECONDS} seconds") from error
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["ended without a word"])[-1])
    entry: dict[str, Any] = json.loads(done.stdout)
    return entry


def make(
    gpu: runtime.Device,
    driver_cuda: str,
    *,
    cases: dict[str, Case] | None = None,
    run: Callable[[Case, str], dict[str, Any]] = run_apart,
    measure: Callable[..., list[dict[str, Any]]] = bench.measure,
) -> dict[str, Any]:
    """The pack of a GPU; a case or a benchmark that fails is named and leaves the others alone."""
    capability = ".".join(map(str, gpu.compute_capability))
    found: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for name, case in (packs.cases_for_blackwell() if cases is None else cases).items():
        try:
            found[name] = run(case, capability)
        except RuntimeError as error:
            refused[name] = str(error)
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    for way in bench.cases():
        try:
            rows += measure(gpu, [way])
        except CourseError as error:
            failed.append(f"{way}: {error}")
    head = ptx_recordings.head(gpu.name, gpu.compute_capability, driver_cuda)
    return {**head, "refused": refused, "throughput": rows, "throughput_failed": failed, "cases": found}


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--check", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--one", nargs=2, metavar=("CASE", "CAPABILITY"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        return _one(*options.one)
    if options.check is not None:
        return _check(options.check or sorted(packs.FOLDER.glob("*.json")))
    found = runtime.discover()
    gpu = bench.blackwell(found)
    if isinstance(gpu, str):
        print(f"blackwell_pack: left out, {gpu}.", file=sys.stderr)
        return bench.SKIPPED
    pack = make(gpu, found.driver or "unknown")
    name = re.sub(r"\W+", "_", gpu.name.lower())
    output = options.output or packs.FOLDER / f"{name}_{pack['date']}.json"
    ptx_recordings.write({key: value for key, value in pack.items() if key != "cases"}, pack["cases"], output)
    print(f"written: {output}")
    return _check([output])


def _one(name: str, compute_capability: str) -> int:
    from tools.cases.ptx_gpu import Gpu

    case = ptx_cases.load(name)
    outputs = Gpu().run(packs.for_gpu(case, compute_capability))
    print(json.dumps(ptx_recordings.entry_of(case, outputs)))
    return 0


def _check(files: list[Path]) -> int:
    status = 0
    for file in files:
        try:
            print(f"{file.name} is accepted: {packs.check(file)}")
        except packs.BadPack as error:
            print(error, file=sys.stderr)
            status = 1
    if not files:
        print("no pack from a Blackwell GPU yet")
    return status


if __name__ == "__main__":
    sys.exit(main())
