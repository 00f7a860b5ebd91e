"""Broken variants of the course's kernels on the emulator: which mistakes it reports, and under which name.

    python -m benchmarks.mutants              every mutant; writes benchmarks/results/mutants_<n>_cores.json
    python -m benchmarks.mutants --limit N    N mutants, evenly spread over the rules and the kernels
    python -m benchmarks.mutants --seconds S  starts no further mutant after S seconds
    python -m benchmarks.mutants --output F   writes F

`benchmarks.mutation_rules` makes the mutants and says before the run which reports count as right and which
mutants are none. Each one runs with three seeds, within ten times the instructions of the right kernel, and
what comes out is compared with NumPy's result. Its outcome is the first that holds:

right    a seed ended with a report that the rule names
other    a seed ended with another report
wrong    nothing was reported, and a seed's result was wrong
missed   nothing was reported, and every result was right

The right kernels run first with the same seeds: they report nothing, and a note of theirs is no report.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mutation_rules import RULES, Mutant, mutants_of
from benchmarks.results_file import RESULTS
from cutecourse import emulator, runtime
from cutecourse.emulator.launch import DEFAULT_BUDGET
from cutecourse.errors import CourseError
from cutecourse.kernels import LaunchSpec
from cutecourse.runtime.arguments import Bound, bind, flat_arguments
from tools.facts import of_this_machine

SEEDS = (0, 1, 2)
BUDGET_FACTOR = 10
OUTCOMES = ("right", "other", "wrong", "missed")

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """A right kernel: its launch, its arrays, and what each output array holds afterwards."""

    name: str
    spec: LaunchSpec
    arrays: Arrays
    expected: Arrays


class NotRightError(RuntimeError):
    """A kernel that is to be broken reports something, or is wrong, by itself."""


def whole(*shape: int, seed: int) -> Any:
    """Whole numbers of f16 whose sums of products are exact in f32."""
    return np.random.default_rng(seed).integers(-8, 8, shape, endpoint=True).astype(np.float16)


def product(name: str, spec: LaunchSpec) -> Family:
    """A GEMM's family."""
    a, b, c = spec.tensors
    left, right = (
        whole(*(extent for extent in one.extents if extent), seed=seed) for seed, one in enumerate((a, b))
    )
    out = np.full([extent for extent in c.extents if extent], np.nan, np.float32)
    names = [one.argument for one in (a, b, c)]
    expected = left.astype(np.float32) @ right.astype(np.float32).T
    return Family(name, spec, dict(zip(names, (left, right, out), strict=True)), {names[2]: expected})


def families() -> list[Family]:
    """The kernels that are broken, smallest first."""
    # The CuTe DSL takes seconds to import, and reading results needs none of it.
    from cutecourse.kernels import (
        tma_broken,
        tma_load,
        tma_multicast,
        tma_pipeline,
        tma_store,
        umma_gemm,
        umma_tile,
        umma_tma,
        umma_tma_broken,
        umma_two_sm,
    )

    a, tall, tile = whole(128, 256, seed=1), whole(512, 256, seed=2), whole(64, 64, seed=3)
    stored = np.full((128, 256), -1, np.float16)
    after = stored.copy()
    after[64:128, 128:192] = tile
    quarter = whole(128, 64, seed=4)
    tiles = tma_broken.TILES
    source = np.random.default_rng(5).integers(
        1, 1000, (tiles * tma_broken.ROWS, tma_broken.COLUMNS), dtype=np.int32
    )
    given_up = np.zeros(2, np.uint32)
    return [
        Family(
            "tma_load",
            tma_load.LAUNCH,
            {"a": a, "out": np.zeros((64, 64), np.float16)},
            {"out": a[64:128, 128:192]},
        ),
        Family(
            "tma_pipeline",
            tma_pipeline.LAUNCH,
            {"a": tall, "out": np.full(512, np.nan, np.float32)},
            {"out": tall.astype(np.float32).sum(axis=1)},
        ),
        Family("tma_store", tma_store.LAUNCH, {"tile": tile, "b": stored}, {"b": after}),
        Family(
            "tma_multicast",
            tma_multicast.LAUNCH,
            {"a": quarter, "out": np.full((4, 128, 64), -1, np.float16)},
            {"out": np.stack([quarter] * 4)},
        ),
        Family(
            "tma_broken, right",
            tma_broken.LAUNCH,
            {"source": source, "result": np.zeros_like(source), "gave_up": given_up, "tiles": tiles},
            {"result": 2 * source, "gave_up": given_up},
        ),
        product("umma_tile", umma_tile.LAUNCH),
        product("umma_tma", umma_tma.LAUNCH),
        product("umma_tma_multicast 2x2", umma_tma_broken.LAUNCH),
        product("umma_two_sm", umma_two_sm.LAUNCH),
        product("umma_two_sm_pipeline 2x2", umma_gemm.gemm_spec((256, 512, 512), cluster=(2, 2))),
    ]


# --- one launch ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """What one launch did: the error's class and first line or None, the notes' names, and the result."""

    error: str | None
    message: str
    notes: frozenset[str]
    correct: bool
    issued: int


def launch(family: Family, ptx: str, entry: str, seed: int, budget: int) -> Ran:
    """Run a text with a family's launch and arrays."""
    spec = family.spec
    bound = bind(spec, family.arrays)
    args = [
        runtime.emulator_tensor_map(arg.encoding, arg.array, name=arg.name)
        if isinstance(arg, runtime.MappedArray)
        else arg
        for arg in flat_arguments(spec, bound)
    ]
    try:
        done = emulator.launch(
            ptx,
            grid=spec.grid,
            block=spec.block,
            cluster=spec.cluster,
            args=args,
            dynamic_smem=spec.dynamic_smem,
            entry=entry,
            seed=seed,
            max_instructions=budget,
        )
    except CourseError as error:
        return Ran(type(error).__name__, str(error).splitlines()[0], frozenset(), False, 0)
    except Exception as error:  # noqa: BLE001 - a mutant that breaks the emulator is a finding of its own
        return Ran(f"crash: {type(error).__name__}", str(error), frozenset(), False, 0)
    found = {name: value.logical() for name, value in bound.items() if isinstance(value, Bound)}
    correct = all(np.array_equal(found[name], value) for name, value in family.expected.items())
    return Ran(None, "", frozenset(note.hazard.name for note in done.notes), correct, done.issued)


def verdict(runs: Sequence[Ran], right: frozenset[str], usual: frozenset[str]) -> tuple[str, str]:
    """The outcome of a mutant's runs, and the reports; `usual` are the right kernel's own notes.

    >>> verdict([Ran(None, "", frozenset(), True, 9)], frozenset({"DeadlockError"}), frozenset())
    ('missed', '')
    """
    reports = [run.error for run in runs if run.error]
    reports += sorted({f"note: {name}" for run in runs for name in run.notes - usual})
    shown = ", ".join(dict.fromkeys(reports))
    if any(right & _classes(report) for report in reports):
        return "right", shown
    if reports:
        return "other", shown
    return ("missed" if all(run.correct for run in runs) else "wrong"), shown


def _classes(report: str) -> frozenset[str]:
    """The names of an error's class and of its bases: a TransactionBytesError is a DeadlockError as well."""
    kind = getattr(emulator, report, None)
    return frozenset({report} if kind is None else {base.__name__ for base in kind.__mro__})


# --- all of them --------------------------------------------------------------------------------------------


def spread(mutants: list[tuple[Family, Mutant]], limit: int | None) -> list[tuple[Family, Mutant]]:
    """The mutants in an order that takes each rule and family in turn, no more than `limit`."""
    seen: Counter[tuple[str, str]] = Counter()
    keyed = []
    for family, mutant in mutants:
        place = (mutant.rule.name, family.name)
        keyed.append((seen[place], family, mutant))
        seen[place] += 1
    turn: Counter[tuple[str, int]] = Counter()
    order = []
    for number, family, mutant in keyed:
        order.append((number, turn[mutant.rule.name, number], family, mutant))
        turn[mutant.rule.name, number] += 1
    order.sort(key=lambda row: row[:2])
    return [(family, mutant) for _, _, family, mutant in order][:limit]


def measure(limit: int | None, seconds: float, show: Callable[[str], None]) -> dict[str, Any]:
    """Run right kernels, then mutants. Errors: NotRightError."""
    start = time.monotonic()
    compiled: dict[str, tuple[str, str, int, frozenset[str]]] = {}
    all_mutants, excluded = [], []
    for family in families():
        made = runtime.compile(family.spec)
        text, entry = str(made.ptx), made.entry
        runs = [launch(family, text, entry, seed, DEFAULT_BUDGET) for seed in SEEDS]
        for run in runs:
            if run.error or not run.correct:
                raise NotRightError(f"{family.name}: {run.error or 'wrong result'} {run.message}")
        usual = frozenset().union(*(run.notes for run in runs))
        compiled[family.name] = (text, entry, BUDGET_FACTOR * max(run.issued for run in runs), usual)
        for mutant in mutants_of(text, RULES):
            if mutant.excluded:
                excluded.append(
                    {
                        "rule": mutant.rule.name,
                        "kernel": family.name,
                        "line": mutant.line,
                        "why": mutant.excluded,
                    }
                )
            else:
                all_mutants.append((family, mutant))
    spent = time.monotonic() - start
    show(f"right kernels: {spent:.1f} s; {len(all_mutants)} mutants, {len(excluded)} excluded")
    rows = []
    for family, mutant in spread(all_mutants, limit):
        if time.monotonic() - start > seconds:
            break
        _, entry, budget, usual = compiled[family.name]
        runs = [launch(family, mutant.text, entry, seed, budget) for seed in SEEDS]
        outcome, reports = verdict(runs, mutant.rule.right, usual)
        row = {
            "rule": mutant.rule.name,
            "kernel": family.name,
            "line": mutant.line,
            "before": mutant.before[:120],
            "outcome": outcome,
            "reports": reports,
            "wrong_seeds": sum(not run.correct for run in runs),
            "message": next((run.message for run in runs if run.error), "")[:160],
        }
        rows.append(row)
        if outcome != "right":
            show(f"{outcome:6} {row['rule']} | {row['kernel']}:{row['line']} | {reports}")
    return {"made": len(all_mutants), "excluded": excluded, "rows": rows}


def table(rows: list[dict[str, Any]]) -> str:
    """By rule: how many, and how many of each outcome."""
    lines = [f"{'rule':34}{'mutants':>8}" + "".join(f"{name:>8}" for name in OUTCOMES)]
    for rule in [*dict.fromkeys(row["rule"] for row in rows), None]:
        of = Counter(row["outcome"] for row in rows if rule in (row["rule"], None))
        lines.append(f"{rule or 'all':34}{of.total():>8}" + "".join(f"{of[name]:>8}" for name in OUTCOMES))
    return "\n".join(lines)


def main(given: list[str] | None = None) -> int:
    """Run, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, help="at most so many mutants")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="start none after so many seconds"
    )
    parser.add_argument("--output", type=Path, default=RESULTS / f"mutants_{os.cpu_count()}_cores.json")
    options = parser.parse_args(given)
    recorded = of_this_machine()
    found = measure(options.limit, options.seconds, lambda line: print(line, flush=True))
    rows = found["rows"]
    print(table(rows))
    outcomes = Counter(row["outcome"] for row in rows)
    counts = {
        "made": found["made"],
        "run": len(rows),
        "caught": outcomes["right"] + outcomes["other"],
        "right_class": outcomes["right"],
        "wrong_silently": outcomes["wrong"],
        "missed": outcomes["missed"],
        "excluded_by_rule": len(found["excluded"]),
    }
    print(counts)
    lines = [f"  {json.dumps(row)}" for row in rows]
    head = {"recorded": recorded, "seeds": list(SEEDS), "budget_factor": BUDGET_FACTOR, "counts": counts,
            "rules": {rule.name: {"about": rule.about, "right": sorted(rule.right)} for rule in RULES},
            "excluded": found["excluded"]}  # fmt: skip
    body = json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + ",\n".join(lines) + "\n ]\n}\n"
    options.output.write_text(body, encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
