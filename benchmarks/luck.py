"""How much a report depends on luck: every fault of the course's kernels under one seed, and under fifty.

python -m benchmarks.luck                      every fault under 50 seeds; takes minutes
python -m benchmarks.luck --seeds 2 --only tma  a part, which is not kept

A seed chooses everything that hardware leaves open: the order of warps, when copies and MMAs complete. A
fault counts as reported if a launch ends with an error, or has a warning or a note, of a kind that the fault
names (`Fault.reports`). Kernels run as PTX: their own text, or their twin, so no compiler is needed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_file import result_path, write_result
from cutecourse.emulator import EmulatorError, errors
from cutecourse.kernels import LaunchSpec, Tensor, twin
from cutecourse.kernels.faults import Fault
from cutecourse.kernels.files import kernel_module, kernel_modules
from cutecourse.kernels.twinning import has_twin
from cutecourse.runtime import run
from tools.cases.element_arrays import array_type
from tools.facts import of_this_machine

__all__ = ["RESULT", "SEEDS", "arguments_for", "faults", "launch_of", "runnable", "seen", "small_integers",
           "table", "with_fault"]  # fmt: skip

RESULT = result_path("luck")
SEEDS = 50
SIZES: dict[str, tuple[int, ...]] = {"wgmma_broken": (64, 128)}
"""Smaller sizes for modules whose faults are large."""


def faults() -> Iterator[tuple[str, Fault]]:
    """Every fault of a kernel's folder, with the module that has it."""
    for module in kernel_modules():
        if not module.endswith(".source"):
            for fault in getattr(kernel_module(module), "FAULTS", {}).values():
                yield module, fault


def launch_of(module: str) -> LaunchSpec:
    """The launch that a module's faults are put into: its own, or its kernel's."""
    launch: LaunchSpec | None = getattr(kernel_module(module), "LAUNCH", None)
    return launch or kernel_module(module.partition(".")[0]).LAUNCH  # type: ignore[no-any-return]


def with_fault(module: str, fault: Fault) -> LaunchSpec:
    """The launch with a fault in it."""
    broken = getattr(kernel_module(module), "broken", None)
    spec = broken(fault.name, *SIZES.get(module, ())) if broken else launch_of(module).with_fault(fault)
    assert isinstance(spec, LaunchSpec)
    return spec


def small_integers(spec: LaunchSpec) -> dict[str, Any]:
    """Small integers in every array: their sums are exact in any order. A number is 3, a counter 0."""
    random = np.random.default_rng(3)
    given: dict[str, Any] = {
        name: random.integers(-8, 9, param.extents).astype(array_type(param.dtype))
        if isinstance(param, Tensor)
        else 3
        for name, param in spec.arguments.items()
    }
    if "counter" in given:
        given["counter"][:] = 0
    return given


def arguments_for(module: str, spec: LaunchSpec) -> dict[str, Any]:
    """The arguments that a module gives to its launches, or small integers."""
    arguments = getattr(kernel_module(module), "arguments", None)
    return arguments(0, *SIZES.get(module, ()))[0] if arguments else small_integers(spec)


def seen(module: str, fault: Fault, seeds: Iterable[int]) -> list[str]:
    """For each seed the class of a report that the fault names, else of another error or warning, else ""."""
    spec = with_fault(module, fault)
    if spec.language != "ptx":
        spec = twin(spec)
    found = []
    for seed in seeds:
        try:
            ran = run(spec, device="emulator", seed=seed, **arguments_for(module, spec))
            notes = sorted(ran.notes, key=lambda note: note.severity == "note")
            kinds = [note.hazard.kind.__name__ for note in notes if note.hazard.kind is not None]
            loud = sum(note.severity != "note" for note in notes)
        except EmulatorError as report:
            kinds, loud = [type(report).__name__], 1
        found.append(next((kind for kind in kinds if names(fault, kind)), (kinds[:loud] or [""])[0]))
    return found


def names(fault: Fault, kind: str) -> bool:
    """Return whether a fault names a class of reports, or one above it."""
    named = tuple(getattr(errors, name) for name in fault.reports)
    return bool(kind) and issubclass(getattr(errors, kind), named)


def table(rows: Iterable[Mapping[str, Any]], seeds: int) -> str:
    """A page's table: for each report of seed 0, how many of its faults the other seeds report as well.

    "each": every seed gives a report that the fault names, "alike": always the same one.
    """
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        group = groups[row["first"] or "nothing"]
        always = len(row["named"]) == len(row["kinds"])
        group["faults"] += 1
        group["each"] += always
        group["alike"] += always and len(row["kinds"]) == 1
    head = f"{'seed 0 reports':<26}{'faults':>7}{f'each of {seeds} seeds':>18}{'alike':>7}"
    order = sorted(groups.items(), key=lambda item: (-item[1]["faults"], item[0]))
    lines = [f"{name:<26}{n['faults']:>7}{n['each']:>18}{n['alike']:>7}" for name, n in order]
    whole: Counter[str] = sum(groups.values(), Counter())
    last = f"{'all':<26}{whole['faults']:>7}{whole['each']:>18}{whole['alike']:>7}"
    return "\n".join([head, *lines, last])


def runnable() -> Iterator[tuple[str, Fault]]:
    """The faults that something reports and that run without a compiler."""
    for module, fault in faults():
        spec = launch_of(module)
        if fault.reports and (spec.language == "ptx" or has_twin(spec.module)):
            yield module, fault


def row_of(job: tuple[int, int]) -> dict[str, Any]:
    """The row of a fault, given by its number among the runnable ones, under so many seeds."""
    number, seeds = job
    module, fault = list(runnable())[number]
    found = seen(module, fault, range(seeds))
    kinds = dict(Counter(found).most_common())
    return {
        "module": module,
        "fault": fault.name,
        "first": found[0],
        "kinds": kinds,
        "named": [kind for kind in kinds if names(fault, kind)],
    }


def measure(only: str, seeds: int, processes: int) -> list[dict[str, Any]]:
    """One row for each fault, of the modules whose names contain `only`."""
    jobs = [(number, seeds) for number, (module, _) in enumerate(runnable()) if only in module]
    rows = []
    with get_context("fork").Pool(processes) as pool:
        for row in pool.imap(row_of, jobs):
            rows.append(row)
            print(row["module"], row["fault"], row["kinds"], flush=True)
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and keep the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--only", default="", help="modules whose names contain this")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args(arguments)
    whole = options.seeds == SEEDS and not options.only
    rows = measure(options.only, options.seeds, options.processes)
    print(table(rows, options.seeds))
    found = {"recorded": of_this_machine(), "seeds": options.seeds, "rows": rows}
    write_result(found, options.output or (RESULT if whole else None))
    return 0


if __name__ == "__main__":
    sys.exit(main())
