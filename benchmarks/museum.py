"""Who finds the museum's bugs: the emulator under one seed and twenty, prove, compute-sanitizer, and a GPU.

    python -m benchmarks.museum                 the emulator's columns; seconds
    python -m benchmarks.museum --gpu           50 runs of each exhibit on a GPU, and compute-sanitizer
    python -m benchmarks.museum --gpu --delay   and 50 runs in which one warp comes late, if the exhibit says
                                                which
    python -m benchmarks.museum --only NAME ... some of the exhibits; kept only with --output FILE

On a GPU each run begins with outputs that hold what no right result has, and with shared memory that another
kernel has filled, so that a kernel does not find what an earlier run of it left there. Runs are in processes
of their own with a time limit. One that does not end counts as hung, and after three lost processes an
exhibit gets no more runs. Exhibits that need a Blackwell GPU have no runs here. A delayed text is made from
the broken one, and from the repaired one, which must be right all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_file import result_path, write_result
from benchmarks.sanitizer import TOOLS, LinedKernel, known_options, limited, verdict, version
from cutecourse import emulator, runtime
from cutecourse.emulator import EmulatorError, prove
from cutecourse.emulator.errors import DeadlockError
from cutecourse.museum import DELAYED, VERSIONS, Exhibit, exhibits
from cutecourse.runtime.arguments import flat_arguments
from tools.facts import of_this_machine

RESULT = result_path("museum")
SEEDS = 20
RUNS = 50
LIMIT_S = 25
LOST = 3
"""After so many processes that ended by a fault or at their limit, an exhibit gets no more runs."""
_ENDS = ("right", "wrong", "hung", "error")
_PLACES = {
    "waits for parity": "mbarrier",
    "waits at barrier": "named barrier",
    "for the other lanes of its warp": "other lanes",
    "barrier.cluster.wait waits": "barrier of the cluster",
    "repeats a loop": "loop over memory",
}
_THREADS = re.compile(r"waits at barrier \d+: (\d+) of (?:all )?(\d+) threads")
_PHASE = re.compile(r"  mbarrier .*\): phase (?P<phase>\d+) has received(?P<nothing> nothing)?")

_FILLED_BYTES = 200 << 10
_FILL = f"""
.version 8.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 memory[];
.visible .entry fill()
{{
    .reg .pred %more;
    .reg .b32 %at, %end, %thread;
    mov.u32 %thread, %tid.x;
    mov.u32 %at, memory;
    add.u32 %end, %at, {_FILLED_BYTES};
    mad.lo.u32 %at, %thread, 4, %at;
NEXT:
    st.shared.u32 [%at], 0x7eadbeef;
    add.u32 %at, %at, 4096;
    setp.lt.u32 %more, %at, %end;
    @%more bra NEXT;
    ret;
}}
"""


# --- the emulator -------------------------------------------------------------------------------------------


def reported(exhibit: Exhibit, kernel: str, seed: int) -> str:
    """The class of the error of one run on the emulator, or ""."""
    try:
        runtime.run(exhibit.spec(kernel), device="emulator", seed=seed, **exhibit.arguments())
    except EmulatorError as error:
        return type(error).__name__
    return ""


def standing(report: str) -> dict[str, list[str]] | None:
    """Where the warps stand in a report of a launch that cannot go on, and what their barriers have got.

    None for any other report. A warp that stands nowhere has ended.

    Errors: ValueError for a warp that waits in a place that `_PLACES` lacks.
    """
    at, has = [], []
    for line in report.splitlines():
        place = next((place for words, place in _PLACES.items() if words in line), None)
        if line.startswith("  block ("):
            if place is None:
                raise ValueError(f"no place of _PLACES is in this line of a report: {line.strip()}")
            at.append(place)
        if found := _THREADS.search(line):
            has.append(f"{found[1]} of {found[2]} threads have come")
        elif found := _PHASE.match(line):
            has.append(_received(int(found["phase"]), found["nothing"]))
        elif line.startswith("    could bring arrivals but was never executed"):
            has[-1] += ", and the line that would arrive never ran"
        elif re.match(r"    \d+ bytes landed", line):
            has[-1] = "all bytes have come, and no arrival"
    return {"at": sorted(at), "has": sorted(has)} if at else None


def _received(phase: int, nothing: str | None) -> str:
    """What an mbarrier has got, in the phase that it is in and before."""
    if not phase:
        return "nothing has ever come" if nothing else "not all has come"
    past = f"{phase} phases are complete" if phase > 1 else "a phase is complete"
    return f"{past}, {'nothing has' if nothing else 'not all has'} come since"


def hangs(exhibit: Exhibit) -> list[dict[str, Any]]:
    """Where the broken kernel stands when it hangs, after whatever reports, and under how many seeds."""
    found: Counter[str] = Counter()
    for seed in range(SEEDS):
        launch = runtime.launch_of(exhibit.spec("broken"), **exhibit.arguments())
        try:
            emulator.launch(**launch, seed=seed, keep_going=True)
        except DeadlockError as error:
            if state := standing(str(error)):
                found[json.dumps(state)] += 1
        except EmulatorError:
            continue
    return [{**json.loads(state), "seeds": count} for state, count in found.most_common()]


def emulated(exhibit: Exhibit) -> dict[str, Any]:
    """The emulator's row of a broken kernel."""
    found = [reported(exhibit, "broken", seed) for seed in range(SEEDS)]
    proof = prove(**runtime.launch_of(exhibit.spec("broken"), **exhibit.arguments()))
    return {
        "exhibit": exhibit.name,
        "first": found[0],
        "seeds": dict(Counter(found).most_common()),
        "verdict": proof.verdict,
        "proof": "" if proof.error is None else type(proof.error).__name__,
        "hangs": hangs(exhibit),
    }


# --- a GPU --------------------------------------------------------------------------------------------------


def run_here(exhibit: Exhibit, kernel: str, runs: int) -> None:
    """Run a kernel on the GPU in this process. Print the end of each run on a line of its own."""
    spec, right = exhibit.spec(kernel), exhibit.expected()
    sms = runtime.discover().devices[0].multiprocessors
    with (
        LinedKernel(str(spec.ptx), str(spec.entry)) as loaded,
        LinedKernel(_FILL, "fill", dynamic_smem=_FILLED_BYTES) as fill,
    ):
        for _ in range(runs):
            bound = runtime.bind(spec, exhibit.arguments())
            if runs > 1:
                fill.launch([], grid=(2 * sms, 1, 1), block=(1024, 1, 1))
            try:
                loaded.launch(
                    flat_arguments(spec, bound), grid=spec.grid, block=spec.block, cluster=spec.cluster
                )
            except runtime.GpuError as error:
                print("error", next(iter(str(error).splitlines())), flush=True)
                return
            found = {
                name: value.logical() for name, value in bound.items() if isinstance(value, runtime.Bound)
            }
            same = all(np.array_equal(found[name], values) for name, values in right.items())
            print("right" if same else "wrong", flush=True)


def ends(text: str, status: int | None) -> Counter[str]:
    r"""How often the runs of a process ended in each way, by its output and its exit status.

    >>> dict(ends("right\nwrong\nright\n", 0))
    {'right': 2, 'wrong': 1}
    >>> dict(ends("right\n", None))
    {'right': 1, 'hung': 1}
    """
    words = [line.split()[0] for line in text.splitlines() if line.split()[:1]]
    found = Counter(word for word in words if word in _ENDS)
    if status is None:
        found["hung"] += 1
    elif status and not found["error"]:
        found["error"] += 1
    return found


def observe_runs(exhibit: str, kernel: str) -> dict[str, Any]:
    """All runs of a kernel on the GPU, in as many processes as that takes."""
    found: Counter[str] = Counter()
    lost = 0
    words = ""
    while (left := RUNS - found.total()) > 0 and lost < LOST:
        text, status = limited([*_itself(exhibit, kernel), str(left)], LIMIT_S)
        one = ends(text, status)
        lost += bool(one["hung"] or one["error"])
        if one["error"]:
            words = (text.strip().splitlines() or ["no output"])[-1][:160]
        found += one
    return {"ends": {end: found[end] for end in _ENDS if found[end]}, "words": words}


def observe_tool(sanitizer: str, options: Sequence[str], exhibit: str, kernel: str, tool: str) -> Any:
    """One run of a kernel under one of compute-sanitizer's tools."""
    command = [sanitizer, "--tool", tool, *options, *_itself(exhibit, kernel), "1"]
    text, status = limited(command, LIMIT_S)
    said = verdict(text, status, exhibit)
    return {key: said[key] for key in ("state", "words", "lines") if key in said}


def _itself(exhibit: str, kernel: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.museum", "--one", exhibit, kernel]


def measure(
    sanitizer: str | None, names: Iterable[str], seconds: float, workers: int, *, delay: bool
) -> list[dict[str, Any]]:
    """The GPU's rows: the runs of each kernel, and each tool's words. Jobs without time are missing."""
    until = time.monotonic() + seconds
    options = known_options(sanitizer) if sanitizer else []
    rows: dict[tuple[str, str], dict[str, Any]] = {
        (name, kernel): {"exhibit": name, "kernel": kernel, "tools": {}}
        for name in names
        for kernel in (*VERSIONS, *(DELAYED if delay and exhibits()[name].delay else ()))
    }

    def work(job: tuple[str, str, str]) -> None:
        name, kernel, tool = job
        if time.monotonic() > until:
            return
        if not tool:
            rows[name, kernel].update(observe_runs(name, kernel))
            print(f"{name:22}{kernel:18}{rows[name, kernel]['ends']}", flush=True)
        elif sanitizer:
            said = observe_tool(sanitizer, options, name, kernel, tool)
            rows[name, kernel]["tools"][tool] = said
            print(f"{name:22}{kernel:18}{tool:10} {said['state']:8} {said['words'][:80]}", flush=True)

    jobs = [(*key, tool) for tool in ("", *TOOLS) for key in rows if not tool or key[1] in VERSIONS]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, jobs))
    return list(rows.values())


# --- the command --------------------------------------------------------------------------------------------


def main(given: list[str] | None = None) -> int:
    """Measure, and keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gpu", action="store_true", help="run the exhibits on a GPU, and compute-sanitizer")
    parser.add_argument("--delay", action="store_true", help="with --gpu: also runs with a warp that is late")
    parser.add_argument("--only", nargs="+", default=[], choices=[*exhibits()], metavar="NAME")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seconds", type=float, default=220, help="start nothing new on the GPU after them")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) * 3 // 4))
    parser.add_argument("--one", nargs=3, metavar=("NAME", "KERNEL", "RUNS"), help="runs in this process")
    options = parser.parse_args(given)
    if options.delay and not options.gpu:
        parser.error("--delay needs --gpu: on the emulator, seeds take its place")
    names = options.only or list(exhibits())
    if options.one:
        name, kernel, runs = options.one
        run_here(exhibits()[name], kernel, int(runs))
    elif options.gpu:
        return _measure_gpu(options, [name for name in names if exhibits()[name].runs_on_hopper])
    else:
        rows = []
        for name in names:
            rows.append(emulated(exhibits()[name]))
            print(rows[-1])
        result = {"recorded": of_this_machine(), "seeds": SEEDS, "rows": rows}
        write_result(result, options.output or (None if options.only else RESULT))
    return 0


def _measure_gpu(options: argparse.Namespace, names: Sequence[str]) -> int:
    found = runtime.discover()
    if not found.devices:
        print(f"museum: --gpu needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    sanitizer = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin"
    )
    if not sanitizer:
        print("museum: there is no compute-sanitizer, so its column stays empty.", file=sys.stderr)
    recorded = {**of_this_machine(), "compute_sanitizer": version(sanitizer) if sanitizer else ""}
    rows = measure(sanitizer, names, options.seconds, options.workers, delay=options.delay)
    whole = result_path("museum", found.devices[0].name)
    write_result({"recorded": recorded, "rows": rows}, options.output or (None if options.only else whole))
    sound = [row for row in rows if row["kernel"].startswith("repaired") and "ends" in row]
    missing = sum("ends" not in row for row in rows)
    print(f"{len(rows)} kernels; {missing} had no time")
    return int(any(set(row["ends"]) != {"right"} for row in sound))


if __name__ == "__main__":
    sys.exit(main())
