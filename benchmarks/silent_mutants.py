"""`prove` on the mutants that no seed reports: which of them go wrong in another order.

python -m benchmarks.silent_mutants              all of them; takes minutes
python -m benchmarks.silent_mutants --only tma   a part, which is not kept

The mutants are those of results/mutants.json whose outcome is "wrong" (a wrong result, no report) or
"harmless" (right results under 23 seeds). A mutant that is wrong in every order is proved all the same:
`prove` says that all orders do alike, and not that they do what was meant.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.mutants import Row, read_results
from benchmarks.mutation.families import families
from benchmarks.mutation.family import Family
from benchmarks.mutation.rule import Mutant, mutants_of
from benchmarks.mutation.rules import RULES
from benchmarks.results_file import result_path, write_result
from cutecourse.emulator import prove
from cutecourse.errors import CourseError
from tools.facts import of_this_machine

__all__ = ["RESULT", "SILENT", "counts", "silent"]

RESULT = result_path("silent_mutants")
SILENT = ("wrong", "harmless")


def silent(only: str) -> Iterator[tuple[Row, Family, Mutant]]:
    """The rows of mutants that no seed reports, of kernels whose names contain `only`."""
    kept = read_results(result_path("mutants"))["rows"]
    wanted = {_key(row): row for row in kept if row["outcome"] in SILENT and only in row["kernel"]}
    for family in families():
        if any(row["kernel"] == family.name for row in wanted.values()):
            for mutant in mutants_of(family.kernel, RULES):
                row = wanted.pop((family.name, mutant.rule.name, mutant.line, mutant.before[:80]), None)
                if row is not None:
                    yield row, family, mutant


def _key(row: Row) -> tuple[Any, ...]:
    return row["kernel"], row["rule"], row["line"], row["before"]


def row_of(row: Row, family: Family, mutant: Mutant) -> Row:
    """The verdict on a mutant."""
    spec = family.spec
    args, _ = family.arguments(mutant.maps)
    about = {name: row[name] for name in ("rule", "kernel", "line", "outcome")}
    try:
        proof = prove(
            mutant.text,
            grid=spec.grid,
            block=spec.block,
            cluster=spec.cluster,
            args=args,
            dynamic_smem=spec.dynamic_smem,
            entry=family.compiled[1],
        )
    except CourseError as error:
        return {**about, "verdict": "refused", "error": type(error).__name__, "reasons": []}
    error_name = "" if proof.error is None else type(proof.error).__name__
    return {**about, "verdict": proof.verdict, "error": error_name, "reasons": list(proof.reasons)}


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """How many of each outcome got each verdict."""
    return dict(Counter(f"{row['outcome']}: {row['verdict']}" for row in rows))


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the counts, and keep the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="kernels whose names contain this")
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args(arguments)
    rows = []
    for row, family, mutant in silent(options.only):
        rows.append(row_of(row, family, mutant))
        print(*rows[-1].values(), flush=True)
    print(counts(rows))
    found = {"recorded": of_this_machine(), "counts": counts(rows), "rows": rows}
    write_result(found, options.output or (None if options.only else RESULT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
