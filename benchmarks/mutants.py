"""Broken variants of right kernels on the emulator: which mistakes it reports, and under which name.

    python -m benchmarks.mutants                  every mutant; writes results/mutants.json
    python -m benchmarks.mutants --right          the right kernels under 100 seeds; adds to the same file
                                                  (fewer --seeds: only with --output FILE)
    python -m benchmarks.mutants --limit N        N mutants, evenly spread over the rules and the kernels;
                                                  kept only with --output FILE
    python -m benchmarks.mutants --ptxas          asks ptxas whether it assembles each mutant; runs none

`benchmarks.mutation` holds the rules (`rules_*.py`), the words of their expected sets (`expected.py`), the
kernels (`families.py`, `kernels/*.ptx`) and what runs them (`running.py`). A rule says before the run where
its mistake is made, which reports name it and why, where the change is none (`excluded`), and where no report
can name it because the kernel with it is a right kernel of something else (`beyond`: counted apart). Each
mutant runs with three seeds, until a report names its mistake, within ten times the instructions of the right
kernel. Its outcome is the first that holds:

right     a seed gave a report that the rule names (an error's class, or a base of it, or a note's)
other     a seed gave another report
wrong     nothing was reported, and a seed's result was wrong
harmless  nothing was reported, and every result was right: also under 20 more seeds, with other values in
          the arrays. Nothing is wrong with such a kernel, so the shares are of the others

A note or a warning that the right kernel gives at the same line is no report. Right kernels give no error and
no warning under any of the seeds, or nothing is written.

When the sets were fixed. The first ones (42 rules) were written before the classes for races, waits, operands
and loads existed, and gave 69.5% caught, 62.3% with the right class. All sets were written anew, once, on
2026-11-21 between 22:00 and 22:30 UTC, from the definitions of the hazards in `emulator.errors`,
before any check of the new classes ran here; those two figures and twenty lines of the old table were known.
What has changed in them since is in `benchmarks.mutation.rules.REVISIONS`, each with the definition that asks
for it.

Your own sites:

    python -m benchmarks.mutants --list [--family umma_tma] [--rule "wait dropped"]
    python -m benchmarks.mutants --family umma_tma --rule "wait dropped" --line 101
    python -m benchmarks.mutants --family umma_tma --line 77 --replace "" --expect "arrive.expect_tx dropped"
    python -m benchmarks.mutants --kernel MODULE[:NAME] ...   a launch specification, by default its LAUNCH
    python -m benchmarks.mutants --ptx FILE --grid 1 --block 128 --arg in:a.npy --arg out:c.npy:f32:128x128

`--list` prints each site as a line, with what stands there and what would. Without `--line` a rule is applied
at all its sites. `--replace` puts a text of yours in place of the whole line (of the PTX as `--list --text`
prints it); `--expect` names a rule, whose expected set is taken, or classes and hazards themselves, with
commas. A kernel that is none of the families gets arrays of small whole numbers, and numbers from
`--set n=5`; what is right is then what the right kernel gives. With `--ptx` the launch is described as for
`cutecourse emulate`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.mutation import command_line
from benchmarks.mutation.families import families
from benchmarks.mutation.family import Family
from benchmarks.mutation.rule import Mutant, mutants_of
from benchmarks.mutation.rules import REVISIONS, RULES
from benchmarks.mutation.running import (
    BUDGET_FACTOR,
    OUTCOMES,
    SEEDS,
    NotRightError,
    Right,
    launch,
    names,
    run_right,
    try_mutant,
)
from benchmarks.results_file import result_path
from cutecourse.emulator import HAZARDS
from tools.facts import of_this_machine

Row = dict[str, Any]
RIGHT_SEEDS = 100


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


def row_of(family: Family, mutant: Mutant, right: Right) -> Row:
    """Run one mutant: its row."""
    found = try_mutant(family, mutant, right)
    return {
        "rule": mutant.rule.name,
        "family": family.kind,
        "kernel": family.name,
        "line": mutant.line,
        "before": mutant.before[:80],
        "beyond": mutant.beyond or "",
        "outcome": found.outcome,
        "reports": list(found.reports),
        "wrong_seeds": found.wrong_seeds,
        "message": "" if found.outcome == "right" else found.message[:200],
    }


_WORK: list[tuple[Family, Mutant, Right]] = []
"""What the processes take from by number: a forked one has the parent's."""


def _row(number: int) -> Row:
    return row_of(*_WORK[number])


def _in_processes(count: int, processes: int) -> Iterator[Row]:
    if processes < 2 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(_row, range(count))
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap(_row, range(count))


def measure(
    chosen: Iterable[Family], limit: int | None = None, processes: int = 1, show: bool = False
) -> dict[str, Any]:
    """Run right kernels, then mutants: the rows, those excluded by rule, and how many were made.

    Errors: NotRightError.
    """
    pairs, excluded, right = [], [], {}
    for family in chosen:
        right[family.name] = run_right(family)
        for mutant in mutants_of(family.kernel, RULES):
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
                pairs.append((family, mutant))
    _WORK[:] = [(family, mutant, right[family.name]) for family, mutant in spread(pairs, limit)]
    rows = []
    for row in _in_processes(len(_WORK), processes):
        rows.append(row)
        if show and row["outcome"] != "right" and not row["beyond"]:
            print(
                f"{row['outcome']:8} {row['rule']} | {row['kernel']}:{row['line']} | {row['reports']}",
                flush=True,
            )
    return {"made": len(pairs), "excluded": excluded, "rows": rows}


# --- figures ------------------------------------------------------------------------------------------------


def table(rows: list[Row], by: str) -> str:
    """How many mutants, and how many of each outcome, by "rule" or "family"."""
    lines = [f"{by:40}{'mutants':>8}{'caught':>8}" + "".join(f"{name:>9}" for name in OUTCOMES)]
    for group in [*dict.fromkeys(row[by] for row in rows), None]:
        of = Counter(row["outcome"] for row in rows if group in (row[by], None))
        total = of.total() - of["harmless"]
        caught = (of["right"] + of["other"]) / total if total else 1
        counts = "".join(f"{of[name]:>9}" for name in OUTCOMES)
        lines.append(f"{group or 'all':40}{of.total():>8}{caught:>8.0%}{counts}")
    return "\n".join(lines)


def figures(rows: list[Row]) -> dict[str, Any]:
    """Recall, right class, precision of the reports, over rows whose mistake a report can name.

    caught            of the mutants that are not harmless, the share with any report
    right_class       of the mutants that are not harmless, the share with a report that names the mistake
    reports_right     of the distinct reports of the mutants, the share that name the mistake
    """
    sets = {rule.name: rule.right for rule in RULES}
    of = Counter(row["outcome"] for row in rows)
    reports = [(report, sets[row["rule"]]) for row in rows for report in row["reports"]]
    named = sum(bool(names(report) & right) for report, right in reports)
    total = max(len(rows) - of["harmless"], 1)
    return {
        "mutants": len(rows),
        "caught": round((of["right"] + of["other"]) / total, 4),
        "right_class": round(of["right"] / total, 4),
        "reports": len(reports),
        "reports_right": round(named / max(len(reports), 1), 4),
        **{name: of[name] for name in OUTCOMES},
    }


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """The figures of a run."""
    inside = [row for row in found["rows"] if not row["beyond"]]
    outside = [row for row in found["rows"] if row["beyond"]]
    return {
        "made": found["made"],
        "run": len(found["rows"]),
        "excluded_by_rule": len(found["excluded"]),
        "named": figures(inside),
        "beyond_reports": dict(Counter(row["outcome"] for row in outside)),
        "with_those": figures(found["rows"]),
    }


def right_under(seeds: int, processes: int) -> dict[str, Any]:
    """The right kernels under so many seeds: what they report and get wrong, which is to be nothing."""
    chosen = families()
    _RIGHT[:] = [(family, seed) for family in chosen for seed in range(seeds)]
    for family in chosen:
        family.compiled  # noqa: B018 - once, before the processes part
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        problems = [problem for problem in pool.imap(_right, range(len(_RIGHT)), chunksize=8) if problem]
    return {"kernels": len(chosen), "seeds": seeds, "launches": len(_RIGHT), "problems": problems}


_RIGHT: list[tuple[Family, int]] = []


def _right(number: int) -> str | None:
    family, seed = _RIGHT[number]
    run = launch(family, family.compiled[0], seed)
    warned = sorted({name for name, _, _ in run.notes if HAZARDS[name].severity == "warning"})
    if run.error or not run.correct or warned:
        return f"{family.name}, seed {seed}: {run.error or ', '.join(warned) or 'wrong result'} {run.message}"
    return None


# --- the command --------------------------------------------------------------------------------------------


USUAL: Row = {"before": "", "beyond": "", "wrong_seeds": 0, "message": ""}
"""What a kept row leaves out; one whose outcome is "right" leaves all of it out but `beyond`."""


def read_results(path: Path) -> dict[str, Any]:
    """The kept results, their rows as `row_of` makes them; `before` is empty where a mutant was named."""
    kept: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
    kinds = kept["families"]
    kept["rows"] = [{**USUAL, "family": kinds[row["kernel"]], **row} for row in kept["rows"]]
    return kept


def written(head: dict[str, Any], rows: list[Row]) -> str:
    """The results as JSON, one row a line; `families` has the family of each kernel."""
    head = {**head, "families": {row["kernel"]: row["family"] for row in rows}}
    kept = [
        {
            name: value
            for name, value in row.items()
            if name != "family"
            and value != USUAL.get(name)
            and (row["outcome"] != "right" or name == "beyond" or name not in USUAL)
        }
        for row in rows
    ]
    lines = ",\n".join(f"  {json.dumps(row, separators=(',', ':'))}" for row in kept)
    return json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + lines + "\n ]\n}\n"


def main(given: list[str] | None = None) -> int:
    """Run, print the tables, write the results."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--limit", type=int, help="at most so many mutants")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--output", type=Path, help="where the result goes")
    parser.add_argument("--right", action="store_true", help="run the right kernels only")
    parser.add_argument("--seeds", type=int, default=RIGHT_SEEDS, help="for --right (default: %(default)s)")
    parser.add_argument("--ptxas", action="store_true", help="ask ptxas about each mutant")
    command_line.add_options(parser)
    options = parser.parse_args(given)
    if command_line.is_asked(options):
        return command_line.answer(options)
    if options.ptxas:
        return command_line.ask_ptxas(families(), options.processes)
    output = options.output or result_path("mutants")
    kept = read_results(output) if output.exists() else {}
    if options.right:
        found = right_under(options.seeds, options.processes)
        print(*found["problems"], sep="\n")
        print({**found, "problems": len(found["problems"])})
        if options.seeds >= RIGHT_SEEDS or options.output:  # a part is not what the pages read
            head = {key: value for key, value in kept.items() if key != "rows"}
            head["right_kernels"] = {"recorded": of_this_machine(), **found}
            output.write_text(written(head, kept.get("rows", [])), encoding="ascii")
        return int(bool(found["problems"]))
    recorded = of_this_machine()
    start = time.monotonic()
    try:
        found = measure(families(), options.limit, options.processes, show=True)
    except NotRightError as error:
        print(f"{error}\nnothing was run or written", file=sys.stderr)
        return 1
    inside = [row for row in found["rows"] if not row["beyond"]]
    print(table(inside, "rule"), table(inside, "family"), sep="\n\n")
    counts = summary(found)
    print(json.dumps(counts, indent=1), f"{time.monotonic() - start:.0f} s", sep="\n")
    if options.limit is not None and options.output is None:
        return 0  # a part is not what the pages read
    head = {
        "recorded": recorded,
        "seeds": list(SEEDS),
        "budget_factor": BUDGET_FACTOR,
        "counts": counts,
        "right_kernels": kept.get("right_kernels"),
        "rules": {
            rule.name: {"about": rule.about, "right": sorted(rule.right), "why": rule.why} for rule in RULES
        },
        "revisions": REVISIONS,
        "excluded": found["excluded"],
    }
    output.write_text(written(head, found["rows"]), encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
