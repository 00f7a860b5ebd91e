"""Broken texts and odd launches on the emulator: each ends in a result or in an error that says what it is.

    python -m benchmarks.fuzz                 10,000 mutations; writes benchmarks/results/fuzz.json
    python -m benchmarks.fuzz --count N --first F      mutations F to F + N - 1; kept only with --output FILE
    python -m benchmarks.fuzz --show NUMBER   the text of one mutation and its launch
    python -m benchmarks.fuzz --one NUMBER    runs it here, without limits, with whatever it raises

A mutation is its number: the number chooses a module (a kernel of the course, an instruction's case, a
compiler's module), one to four changes of `benchmarks.fuzz_mutations`, and where they go. Each runs in a
worker process with limits of instructions, processor time and memory. A finding is whatever else it does
than return or raise a CourseError: another exception, a warning, a mutation that meets a limit of time or
memory, a worker that dies.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import gc
import itertools
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fuzz_mutations import LAUNCH_CHANGES, TEXT_CHANGES, WEIGHTS, Launch
from benchmarks.results_file import result_path, write_result
from cutecourse import emulator, runtime
from cutecourse.dtypes import encode
from cutecourse.errors import CourseError
from cutecourse.kernels import LaunchSpec, Tensor
from tools.cases import ptx_cases
from tools.facts import of_this_machine
from tools.paths import ROOT

COUNT = 10_000
INSTRUCTIONS = 20_000
CPU_LIMIT_S = 60
MEMORY_LIMIT_BYTES = 2 << 30
"""Of address space, beyond what a worker has before its first mutation."""
DEAD_S = 120
"""A worker that has not answered for so long is ended."""

MODULES = ROOT / "tests" / "emulator" / "modules"

REPAIRED = {
    "args=None or a number: TypeError in launch": "a LaunchError that says what args has to be",
    "an instruction whose type or register has 1 or 128 bits: KeyError": "UnsupportedInstruction",
    "a worker met its limit of memory after 3000 mutations: launches that end in an error left their blocks'"
    " memory in objects that name each other": "they are looked for when launches have had 256 MiB",
}
"""What earlier runs found, and what became of it."""


@dataclass(frozen=True)
class Base:
    """A right module and its launch."""

    name: str
    ptx: str
    launch: Launch


class TooLongError(BaseException):
    """The processor time of one mutation is over."""


# --- what is mutated ----------------------------------------------------------------------------------------


def texts() -> list[Base]:
    """The instructions' cases, the compilers' modules, and the kernels whose PTX is written by hand."""
    found = []
    for case in ptx_cases.all_cases():
        given = case.launch_arguments(case.make_args())
        found.append(Base(case.name, case.ptx, Launch(**given)))
    for path in sorted(MODULES.glob("*.ptx")):
        text = path.read_text(encoding="utf-8")
        for entry in text.split(".entry ")[1:]:
            name, _, rest = entry.partition("(")
            args = [_argument(one) for one in rest.partition(")")[0].split(".param ")[1:]]
            found.append(Base(f"{path.stem}.{name}", text, Launch(4, 64, 1, args, 512, name)))
    from cutecourse.kernels import tma_broken, tma_multicast_broken, umma_one, umma_tile, umma_two_sm

    hand = [
        tma_broken.LAUNCH,
        tma_multicast_broken.LAUNCH,
        umma_one.LAUNCH,
        umma_tile.LAUNCH,
        umma_two_sm.LAUNCH,
    ]
    return found + [_of_spec(spec) for spec in hand if spec.language == "ptx"]


def _argument(declared: str) -> Any:
    """An argument for a parameter of a C++ kernel: pointers are of 64 bits."""
    if ".b8" in declared:
        return bytes(int(declared.rpartition("[")[2].partition("]")[0]))
    return np.zeros(1024, np.float64) if "64" in declared.split(maxsplit=1)[0] else 5


def everything() -> list[Base]:
    """Those, and the kernels that the CuTe DSL and numba-cuda compile."""
    from cutecourse.kernels.files import kernel_module, kernel_names

    found = texts()
    for name in kernel_names():
        spec = kernel_module(name).LAUNCH
        if all(base.name != spec.name for base in found):
            # One of the kernels is there to be refused by the CuTe DSL.
            with suppress(runtime.CompileError):
                found.append(_of_spec(spec))
    return found


def _of_spec(spec: LaunchSpec) -> Base:
    random_ = np.random.default_rng(0)
    given: dict[str, Any] = {}
    for name, parameter in spec.arguments.items():
        if isinstance(parameter, Tensor):
            shape = [extent or 64 for extent in parameter.extents]
            given[name] = encode(random_.integers(0, 5, shape), parameter.dtype)
        else:
            given[name] = 3
    args = runtime.emulator_arguments(spec, runtime.bind(spec, given))
    compiled = runtime.compile(spec)
    launch = Launch(spec.grid, spec.block, spec.cluster, args, spec.dynamic_smem, compiled.entry)
    return Base(spec.name, str(compiled.ptx), launch)


# --- one mutation -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutation:
    """One broken module and its launch."""

    number: int
    base: str
    changes: tuple[str, ...]
    ptx: str
    launch: Launch


def make(number: int, bases: Sequence[Base]) -> Mutation:
    """The mutation of this number: the same every time, from the same modules."""
    random_ = random.Random(number)
    # A family's cases are many and small: every second module is none of them.
    large = [base for base in bases if "/" not in base.name]
    base = random_.choice(large if large and number % 2 else bases)
    all_texts = [one.ptx for one in bases]
    ptx, launch = base.ptx, base.launch
    changes = []
    if random_.random() < 0.85:
        weights = [WEIGHTS[name] for name in TEXT_CHANGES]
        for name in random_.choices(list(TEXT_CHANGES), weights, k=random_.choice([1, 1, 1, 2, 2, 4])):
            ptx = TEXT_CHANGES[name](ptx, all_texts, random_)
            changes.append(name)
    if not changes or random_.random() < 0.15:
        name = random_.choice(list(LAUNCH_CHANGES))
        launch = LAUNCH_CHANGES[name](launch, random_)
        changes.append(name)
    return Mutation(number, base.name, tuple(changes), ptx, launch)


def run(mutation: Mutation) -> str:
    """What a mutation ends in: "result", or the name of its error's class. Anything else is raised."""
    launch = mutation.launch
    try:
        emulator.launch(
            mutation.ptx,
            grid=launch.grid,
            block=launch.block,
            cluster=launch.cluster,
            args=copy.deepcopy(launch.args),
            dynamic_smem=launch.dynamic_smem,
            entry=launch.entry,
            seed=launch.seed,
            max_instructions=INSTRUCTIONS,
        )
    except CourseError as error:
        return type(error).__name__
    return "result"


def outcome(mutation: Mutation) -> dict[str, Any]:
    """What a mutation ends in, within the limits; `where` is the end of a finding's traceback."""
    row: dict[str, Any] = {
        "number": mutation.number,
        "base": mutation.base,
        "changes": list(mutation.changes),
    }
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            row["outcome"] = run(mutation)
    except (Exception, TooLongError) as error:  # noqa: BLE001 - whatever it is, it is a finding
        signal.setitimer(signal.ITIMER_PROF, 0)
        row["outcome"] = f"finding: {type(error).__name__}"
        row["message"] = str(error)[:200]
        row["where"] = [
            f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)[-4:]
        ]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return row


def _too_long(number: int, frame: Any) -> None:
    raise TooLongError(f"more than {CPU_LIMIT_S} s of processor time")


# --- many ---------------------------------------------------------------------------------------------------


def limit_memory() -> None:
    """Give this process no more address space than the limit beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY_LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _work(pipe: Connection, bases: Sequence[Base]) -> None:
    """Answer numbers with outcomes until the pipe closes, with limited memory."""
    faulthandler.enable()
    limit_memory()
    for done in itertools.count():
        if done % 50 == 0:
            gc.collect()  # the limit is for one mutation, not for what others have left
        try:
            number = pipe.recv()
        except EOFError:
            return
        start = time.process_time()
        row = outcome(make(number, bases))
        row["seconds"] = round(time.process_time() - start, 2)
        pipe.send(row)


def _served(numbers: Iterator[int], bases: Sequence[Base], keep: Callable[[dict[str, Any]], None]) -> None:
    """One worker process at a time, started again where it dies."""
    context = multiprocessing.get_context("spawn")
    process = None
    for number in numbers:
        if process is None:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, bases), daemon=True)
            process.start()
            theirs.close()
        try:
            ours.send(number)
            row = ours.recv() if ours.poll(DEAD_S) else None
            problem = f"no answer within {DEAD_S} s"
        except (EOFError, ConnectionError):
            row, problem = None, "its process died"
        if row is None:
            process.kill()
            process.join()
            process = None
            mutation = make(number, bases)
            row = {"number": number, "base": mutation.base, "changes": list(mutation.changes),
                   "outcome": "finding: worker", "message": problem, "seconds": 0.0}  # fmt: skip
        keep(row)
    if process is not None:
        ours.close()
        process.join()


def fuzz(numbers: Sequence[int], bases: Sequence[Base], workers: int = 1) -> list[dict[str, Any]]:
    """The outcomes of mutations, in their order."""
    rows: list[dict[str, Any]] = []

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        if row["outcome"].startswith("finding"):
            where = " < ".join(reversed(row.get("where", [])))
            print(
                f"{row['number']:6} {row['base']}: {row['outcome']} {row['message'][:80]} | {where}",
                flush=True,
            )

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda part: _served(iter(numbers[part::workers]), bases, keep), range(workers)))
    return sorted(rows, key=lambda row: row["number"])


def main(given: list[str] | None = None) -> int:
    """Run the mutations, print counts, write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--show", type=int, metavar="NUMBER")
    parser.add_argument("--one", type=int, metavar="NUMBER")
    options = parser.parse_args(given)
    bases = everything()
    if options.show is not None or options.one is not None:
        mutation = make(options.show if options.one is None else options.one, bases)
        print(f"{mutation.base}: {', '.join(mutation.changes)}")
        if options.one is None:
            print(mutation.launch, mutation.ptx, sep="\n")
        else:
            print(run(mutation))
        return 0
    recorded = of_this_machine()
    start = time.monotonic()
    rows = fuzz(range(options.first, options.first + options.count), bases, options.workers)
    outcomes = Counter(row["outcome"] for row in rows)
    findings = [row for row in rows if row["outcome"].startswith("finding")]
    result = {
        "recorded": recorded,
        "mutations": len(rows),
        "first": options.first,
        "modules": len(bases),
        "limits": {
            "instructions": INSTRUCTIONS,
            "processor_s": CPU_LIMIT_S,
            "memory_bytes": MEMORY_LIMIT_BYTES,
        },
        "seconds": round(time.monotonic() - start),
        "slowest_processor_s": max((row["seconds"] for row in rows), default=0),
        "outcomes": dict(outcomes.most_common()),
        "changes": dict(Counter(name for row in rows for name in row["changes"]).most_common()),
        "findings": findings,
        "repaired_before": REPAIRED,
    }
    whole = (options.first, options.count) == (0, COUNT)
    write_result(result, options.output or (result_path("fuzz") if whole else None))
    print(
        json.dumps(
            {name: result[name] for name in ("mutations", "seconds", "slowest_processor_s", "outcomes")}
        )
    )
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
