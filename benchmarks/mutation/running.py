"""Running a kernel or a mutant on the emulator, and what its reports are worth."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.mutation.family import Family
from benchmarks.mutation.rule import Mutant
from cutecourse import emulator
from cutecourse.emulator import HAZARDS, errors
from cutecourse.emulator.launch import DEFAULT_BUDGET
from cutecourse.errors import CourseError

SEEDS = (0, 1, 2)
PROOF_SEEDS = range(3, 23)
"""The seeds under which a mutant runs that seems harmless, with other values in its arrays."""
BUDGET_FACTOR = 10
OUTCOMES = ("right", "other", "wrong", "harmless")

Seen = tuple[str, int, int | None]


class NotRightError(RuntimeError):
    """A kernel that is to be broken reports something, or is wrong, by itself."""


@dataclass(frozen=True)
class Ran:
    """What one launch did.

    error    the error's class, or None; `message` its first line.
    notes    hazard, PTX line and the other line of each note, of warnings as well.
    """

    error: str | None
    message: str
    notes: frozenset[Seen]
    correct: bool
    issued: int
    results: Mapping[str, Any]


@dataclass(frozen=True)
class Right:
    """What a right kernel does: the notes that are its own, its instructions, its results."""

    usual: frozenset[Seen]
    issued: int
    results: Mapping[str, Any]

    @property
    def budget(self) -> int:
        """Instructions that its mutants may issue."""
        return BUDGET_FACTOR * self.issued


def launch(
    family: Family,
    text: str,
    seed: int,
    budget: int = DEFAULT_BUDGET,
    maps: Mapping[str, Any] | None = None,
    expected: Mapping[str, Any] | None = None,
) -> Ran:
    """Run a text with a family's launch and arrays, some of its arguments replaced."""
    spec = family.spec
    try:
        args, results = family.arguments(maps or {})
        first = family.primary
        before = None
        if first is not None:
            before = emulator.launch(
                str(first.ptx), grid=first.grid, block=first.block, args=args, has_dependents=True
            )
        done = emulator.launch(
            text,
            grid=spec.grid,
            block=spec.block,
            cluster=spec.cluster,
            args=args,
            dynamic_smem=spec.dynamic_smem,
            entry=family.compiled[1],
            seed=seed,
            max_instructions=budget,
            primary=before,
        )
    except CourseError as error:
        return Ran(type(error).__name__, str(error).splitlines()[0], frozenset(), False, 0, {})
    except Exception as error:  # noqa: BLE001 - a mutant that breaks the emulator is a finding of its own
        return Ran(f"crash: {type(error).__name__}", str(error), frozenset(), False, 0, {})
    found = results()
    wanted = family.expected if expected is None else expected
    correct = all(np.array_equal(found[name], value) for name, value in (wanted or {}).items())
    notes = frozenset((note.hazard.name, note.line, note.other_line) for note in done.notes)
    return Ran(None, "", notes, correct, done.issued, found)


def run_right(family: Family, seeds: Sequence[int] = SEEDS) -> Right:
    """Run a right kernel. Errors: NotRightError for a report of its own or a wrong result."""
    runs = []
    for seed in seeds:
        run = launch(family, family.compiled[0], seed)
        warned = sorted(name for name, _, _ in run.notes if HAZARDS[name].severity == "warning")
        if run.error or not run.correct or warned:
            what = run.error or ", ".join(warned) or "wrong result"
            raise NotRightError(f"{family.name}, seed {seed}: {what} {run.message}")
        if family.expected is None and runs:
            same = all(np.array_equal(runs[0].results[name], one) for name, one in run.results.items())
            if not same:
                raise NotRightError(f"{family.name}: seeds {seeds[0]} and {seed} give different results")
        runs.append(run)
    usual = frozenset().union(*(run.notes for run in runs))
    return Right(usual, max(run.issued for run in runs), runs[0].results)


# --- what reports are worth ---------------------------------------------------------------------------------


def names(report: str) -> frozenset[str]:
    """A report's own name, its class's and its bases': a set that holds any of them names it.

    >>> sorted(names("TransactionBytesError"))
    ['DeadlockError', 'TransactionBytesError']
    """
    known = HAZARDS.get(report)
    kind = getattr(errors, known.error if known else report, None)
    if not isinstance(kind, type):
        return frozenset({report})
    bases = {base.__name__ for base in kind.__mro__ if issubclass(base, errors.EmulatorError)}
    return frozenset({report} | bases - {"EmulatorError", "TensorMemoryError"})


def reports_of(run: Ran, usual: frozenset[Seen]) -> list[str]:
    """A launch's reports beyond the right kernel's own: the error's class, the notes' hazards."""
    found = [run.error] if run.error else []
    return found + sorted({name for name, _, _ in run.notes - usual})


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    outcome: str
    reports: tuple[str, ...]
    wrong_seeds: int
    message: str


def judge(runs: Sequence[Ran], right: frozenset[str], usual: frozenset[Seen]) -> Verdict:
    """The outcome of a mutant's runs.

    right     a seed gave a report that the rule names
    other     there were reports, and none of them
    wrong     nothing was reported, and a seed's result was wrong
    harmless  nothing was reported, and every result was right
    """
    reports = list(dict.fromkeys(report for run in runs for report in reports_of(run, usual)))
    wrong = sum(not run.correct for run in runs)
    message = next((run.message for run in runs if run.error), "")
    if any(names(report) & right for report in reports):
        outcome = "right"
    elif reports:
        outcome = "other"
    else:
        outcome = "wrong" if wrong else "harmless"
    return Verdict(outcome, tuple(reports), wrong, message)


def try_mutant(family: Family, mutant: Mutant, right: Right, seeds: Sequence[int] = SEEDS) -> Verdict:
    """Run a mutant seed by seed until a report names its mistake.

    One without a report and with the right result runs under more seeds and with other values.
    """
    runs: list[Ran] = []
    for seed in seeds:
        expected = right.results if family.expected is None else None
        runs.append(launch(family, mutant.text, seed, right.budget, mutant.maps, expected))
        if any(names(report) & mutant.rule.right for report in reports_of(runs[-1], right.usual)):
            break
    found = judge(runs, mutant.rule.right, right.usual)
    if found.outcome != "harmless":
        return found
    for seed in PROOF_SEEDS:
        other = shuffled(family, seed)
        expected = launch(other, family.compiled[0], seed).results
        runs.append(launch(other, mutant.text, seed, right.budget, mutant.maps, expected))
    return judge(runs, mutant.rule.right, right.usual)


def shuffled(family: Family, seed: int) -> Family:
    """The family with the values of each of its arrays in another order."""
    rng = np.random.default_rng(seed)
    arrays = {
        name: rng.permuted(value.reshape(-1)).reshape(value.shape) if isinstance(value, np.ndarray) else value
        for name, value in family.arrays.items()
    }
    return dataclasses.replace(family, arrays=arrays, expected=None)
