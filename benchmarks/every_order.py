"""The verdicts of `prove` on the course's kernels: each right one, and each with a fault.

python -m benchmarks.every_order                  all; the right ones under 20 seeds too; takes minutes
python -m benchmarks.every_order --only umma_one  a part, which is not kept

If the argument of emulator.prove.causes holds, every run gives each barrier the same phases, whatever the
seed. So the right kernels that are proved also run under several seeds, and their phases are compared.
Kernels run as PTX: their own text, or their twin, so no compiler is needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from math import prod
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.luck import arguments_for, runnable, with_fault
from benchmarks.results_file import result_path, write_result
from cutecourse.emulator import Proof, launch, prove
from cutecourse.emulator.core.steering import Steering
from cutecourse.emulator.prove.causes import CauseRecord, Causes
from cutecourse.kernels import LaunchSpec, SpecError, twin
from cutecourse.kernels.files import kernel_module, kernel_names
from cutecourse.runtime import launch_of
from tools.facts import of_this_machine

__all__ = ["RESULT", "SEEDS", "launch_with", "phases", "right_kernels", "row_of", "table"]

RESULT = result_path("every_order")
SEEDS = 20


def right_kernels() -> Iterator[str]:
    """The modules of the kernels in PTX or with a twin; a few twins are filled in on their page."""
    for name in kernel_names():
        kernel = kernel_module(name)
        if hasattr(kernel, "broken"):
            continue
        with suppress(SpecError):
            if kernel.LAUNCH.language != "ptx":
                twin(kernel.LAUNCH)
            yield name


def launch_with(module: str, spec: LaunchSpec) -> dict[str, Any]:
    """The arguments of `emulator.launch` for a kernel's PTX."""
    return launch_of(spec if spec.language == "ptx" else twin(spec), **arguments_for(module, spec))


def phases(launched: dict[str, Any], seed: int) -> frozenset[Any]:
    """The phase of each event at a barrier, in a run under a seed."""
    steering, found = Steering(), CauseRecord(log=[])
    launch(**launched, seed=seed, steering=steering, observe=lambda cohort: Causes(cohort, steering, found))
    return found.signature


def row_of(module: str, fault: str, proof: Proof) -> dict[str, Any]:
    """A row of the table."""
    order = proof.order
    how = "the first" if order is None else "a delay" if order.delays else "a script"
    return {
        "module": module,
        "fault": fault,
        "verdict": proof.verdict,
        "events": proof.events,
        "phases": proof.phases,
        "runs": proof.runs,
        "orders": proof.orders,
        "seconds": round(proof.seconds, 2),
        "order": how if proof.verdict == "counterexample" else "",
        "error": "" if proof.error is None else type(proof.error).__name__,
        "notes": sorted({name for name, *_ in proof.notes}),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The right kernels that use barriers, for a page."""
    lines = [f"{'kernel':<26}{'CTAs':>5}{'events':>8}{'phases':>8}{'seconds':>9}  verdict"]
    for row in rows:
        if not row["fault"] and row["phases"]:
            numbers = f"{row['ctas']:>5}{row['events']:>8}{row['phases']:>8}{row['seconds']:>9.2f}"
            lines.append(f"{row['module']:<26}{numbers}  {row['verdict']}")
    return "\n".join(lines)


def right_row(module: str) -> dict[str, Any]:
    """The row of a right kernel; one that is proved runs under several seeds too."""
    spec = kernel_module(module).LAUNCH
    launched = launch_with(module, spec)
    proof = prove(**launched)
    row = {**row_of(module, "", proof), "ctas": prod(spec.grid)}
    if proof.proved and proof.phases and proof.orders == 1:
        first = phases(launched, 0)
        row["seeds alike"] = sum(phases(launched, seed) == first for seed in range(SEEDS))
    return row


def fault_row(number: int) -> dict[str, Any]:
    """The row of a fault, given by its number among the runnable ones."""
    module, fault = list(runnable())[number]
    return row_of(module, fault.name, prove(**launch_with(module, with_fault(module, fault))))


def measure(only: str, processes: int) -> list[dict[str, Any]]:
    """One row for each kernel whose module's name contains `only`, right ones first."""
    right = [module for module in right_kernels() if only in module]
    wrong = [number for number, (module, _) in enumerate(runnable()) if only in module]
    rows = []
    with get_context("fork").Pool(processes) as pool:
        for row in chain(pool.imap(right_row, right), pool.imap(fault_row, wrong)):
            rows.append(row)
            print(row["module"], row["fault"], row["verdict"], row["error"], flush=True)
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and keep the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="modules whose names contain this")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args(arguments)
    rows = measure(options.only, options.processes)
    print(table(rows))
    found = {"recorded": of_this_machine(), "seeds": SEEDS, "rows": rows}
    write_result(found, options.output or (None if options.only else RESULT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
