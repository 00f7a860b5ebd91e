"""One launch under many seeds: does its outcome depend on the order of completion and of scheduling?

The hardware promises no order between warps, blocks and asynchronous operations beyond what a kernel asks
for. A kernel whose outcome changes with the emulator's seed has asked for too little.
"""

from __future__ import annotations

import hashlib
import operator
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.errors import EmulatorError, LaunchError
from cutecourse.emulator.launch import LaunchResult
from cutecourse.emulator.launch import launch as launch_once
from cutecourse.emulator.memory.host_arrays import host_arrays
from cutecourse.emulator.memory.tensor_map import TensorMap
from cutecourse.emulator.recording.argument_copies import Copies
from cutecourse.emulator.tools.trace_alignment import Stop, TraceAlignment, align_traces
from cutecourse.ptx.checked import CheckedModule
from cutecourse.ptx.checks import read_module
from cutecourse.ptx.syntax import Module
from cutecourse.trace import Recorder, Trace
from cutecourse.trace.words import html_table, in_runs, number, text_table

__all__ = ["Difference", "Exploration", "Launch", "Outcome", "Rules", "end_of", "explore", "from_arguments"]

_HEAD = ("seeds", "compared with the first", "ended with")
_OUTCOME = 100
"""The text shows this many characters of an outcome."""
Array = NDArray[Any]
Launch = Callable[..., Any]
"""`run(seed, recorder)`; one from `from_arguments` takes further arguments of the launch by name."""
Rules = Mapping[str, Callable[[Array], Array] | None]


@dataclass(frozen=True)
class Outcome:
    """The end of a launch under one seed.

    arrays   a digest of each array's bytes after the launch, by name; empty after an error, because the
             bytes written so far then depend on the seed in a correct kernel too.
    error    the name of the error's class, with its PTX line, block and warp and its text; None without one.
    notes    hazard, PTX line and the other line of each note, without its count and first place.
    """

    seed: int
    arrays: Mapping[str, str] = field(repr=False)
    error: str | None = None
    line: int | None = None
    block: tuple[int, int, int] | None = None
    warp: int | None = None
    message: str = field(default="", repr=False)
    notes: tuple[tuple[str, int, int | None], ...] = ()
    raised: EmulatorError | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        if self.error is not None:
            where = "" if self.line is None else f" at PTX line {self.line}"
            lines = self.message.splitlines()
            head = " ".join(line.strip() for line in lines[: 1 + lines[0].endswith(":")])
            return f"{self.error}{where}: {head}"
        return f"no error, {number(len(self.notes), 'note')}"


@dataclass(frozen=True, repr=False)
class Difference:
    """The first outcome that differs from the first seed's, and the traces of both launches.

    kind         "error" (its class or line), "notes" or "outputs".
    array        for outputs, the first array that differs. `index` is its first element that differs (None if
                 shapes or types differ), `count` how many do, and `values` that element under each seed.
    arrays       for outputs, the compared part of every array, under the first and the second seed.
    alignment    both traces, and the place where they part.
    """

    kind: str
    first: Outcome
    second: Outcome
    alignment: TraceAlignment
    array: str | None = None
    index: tuple[int, ...] | None = None
    count: int = 0
    values: tuple[Any, Any] | None = None
    arrays: tuple[Mapping[str, Array], Mapping[str, Array]] = ({}, {})

    @property
    def headline(self) -> str:
        """The difference in words, without the traces."""
        one, other = self.first, self.second
        lines = [f"seed {other.seed} differs from seed {one.seed} in its {self.kind}:"]
        if self.kind == "outputs":
            lines.append(f"  {self._element()}")
        elif self.kind == "notes":
            for outcome, against in ((one, other), (other, one)):
                only = [note for note in outcome.notes if note not in against.notes]
                shown = ", ".join(f"{name} at PTX line {line}" for name, line, _ in only) or "none"
                lines.append(f"  only under seed {outcome.seed}: {shown}")
        else:
            lines += [f"  seed {outcome.seed}: {outcome}" for outcome in (one, other)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.headline}\n{self.alignment}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p style='white-space:pre-line'>{escape(self.headline)}</p>{self.alignment._repr_html_()}"

    def _element(self) -> str:
        if self.index is None or self.values is None:
            return f"{self.array} has another shape or type under one of them, or is missing"
        at = ", ".join(map(str, self.index))
        (a, b), one, other = self.values, self.first.seed, self.second.seed
        return (
            f"{self.array}[{at}] is {a} under seed {one} and {b} under seed {other};"
            f" {number(self.count, 'element')} of {self.array} differ"
        )


@dataclass(frozen=True, repr=False)
class Exploration:
    """The result of `explore`: the outcome of each seed that ran, in order, and the first difference."""

    outcomes: tuple[Outcome, ...]
    first_difference: Difference | None = None

    @property
    def agree(self) -> bool:
        """True if all seeds that ran ended alike, possibly in the same error."""
        return self.first_difference is None

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that ran."""
        return tuple(outcome.seed for outcome in self.outcomes)

    def table(self) -> str:
        """The seeds with their outcomes; seeds that ended alike share a row."""
        rows = [
            (seeds, compared, textwrap.shorten(how, _OUTCOME, placeholder=" ..."))
            for seeds, compared, how in self._rows()
        ]
        return text_table(_HEAD, rows)

    def _rows(self) -> list[tuple[str, str, str]]:
        first = self.outcomes[0]
        alike: dict[tuple[str, str], list[int]] = {}
        for outcome in self.outcomes:
            alike.setdefault((str(outcome), _compared(outcome, first)), []).append(outcome.seed)
        return [(in_runs(seeds, " to "), compared, how) for (how, compared), seeds in alike.items()]

    def _repr_html_(self) -> str:
        table = html_table(_HEAD, self._rows(), f"{number(len(self.outcomes), 'seed')} ran")
        difference = self.first_difference
        return table if difference is None else table + difference._repr_html_()

    def __str__(self) -> str:
        ran = number(len(self.outcomes), "seed")
        if self.first_difference is not None:
            difference = self.first_difference
            return f"{ran} ran; {difference.headline}\n\n{self.table()}\n\n{difference.alignment}"
        outcome = self.outcomes[0]
        kept = ", ".join(outcome.arrays)
        return f"{ran} agree: {outcome}" + (f"; the same bits in {kept}" if kept else "")

    __repr__ = __str__


def _compared(outcome: Outcome, first: Outcome) -> str:
    """Say in words how an outcome differs from the first one."""
    kind = _differ(first, outcome)
    if kind is None:
        kept = ", ".join(first.arrays)
        return f"the same bits in {kept}" if kept else "the same"
    if kind != "outputs":
        return "another error" if kind == "error" else "other notes"
    names = [name for name in first.arrays if outcome.arrays.get(name) != first.arrays[name]]
    return f"other bits in {', '.join(names)}"


def explore(
    launch: Launch | str | CheckedModule,
    *,
    seeds: Iterable[int] = range(10),
    max_seeds: int = 100,
    compare: Rules | None = None,
    **arguments: Any,
) -> Exploration:
    """Run a launch under many seeds, until one ends differently from the first.

    launch     a PTX text, or the module that was read from it, with the `arguments` of
               `cutecourse.emulator.launch`: each seed gets copies of the arrays, and the arrays themselves
               do not change. Or a callable that takes the seed and a recorder (or None) and launches on
               arrays of its own, made anew each time. It returns a mapping from names to arrays, a pair of
               such a mapping and the `LaunchResult`, or the result of `cutecourse.runtime.run`.
    seeds      the others are compared with the first one; at most `max_seeds` of them run.
    compare    for an array by its name, the part that counts: `{"queue": np.sort}` if any order is right,
               `{"scratch": None}` if nothing counts. Everything that counts is compared bit for bit.
    Returns:   an `Exploration`. Outcomes differ in the error's class or line, in the notes, or in the bits
               of an array. Printed text is not compared: correct kernels print in any order.
    Errors:    LaunchError and PtxError, which are the same under every seed; LaunchError for seeds that are
               not integers or fewer than two, and for a callable that returns something else or has another
               outcome when it runs again with the same seed.
    Bounded:   keeps a digest of each launch, and no arrays. Only the two launches that differ run once more,
               with a recorder.
    """
    rules = dict(compare or {})
    if callable(launch):
        if arguments:
            raise LaunchError(f"a callable launches by itself and takes no {', '.join(arguments)}")
        run: Launch = launch
    else:
        run = from_arguments(launch, arguments)
    if not isinstance(max_seeds, int):
        raise LaunchError(f"max_seeds is an integer, not {max_seeds!r}")
    try:
        chosen = [operator.index(seed) for seed in islice(seeds, max(max_seeds, 0))]
    except TypeError:
        raise LaunchError(f"seeds are integers, several of them, not {seeds!r}") from None
    if len(chosen) < 2:
        raise LaunchError(f"{number(len(chosen), 'seed')} to explore: at least 2 make a comparison")
    outcomes: list[Outcome] = []
    for seed in chosen:
        outcomes.append(end_of(run, seed, None, rules)[0])
        if kind := _differ(outcomes[0], outcomes[-1]):
            return Exploration(tuple(outcomes), _difference(run, rules, kind, outcomes[0], outcomes[-1]))
    return Exploration(tuple(outcomes))


# --- one launch -----------------------------------------------------------------------------------------


def end_of(
    run: Launch, seed: int, recorder: Recorder | None, rules: Rules
) -> tuple[Outcome, dict[str, Array], Trace | None]:
    """Launch once; return the outcome, the compared parts of the arrays, and the trace if there is one."""
    try:
        left = run(seed, recorder)
    except LaunchError:
        raise
    except EmulatorError as error:
        ended = Outcome(
            seed,
            {},
            type(error).__name__,
            error.line,
            error.block,
            error.warp,
            message=error.problem,
            raised=error,
        )
        return ended, {}, error.trace
    arrays, notes = _parts(left)
    if unknown := [name for name in rules if name not in arrays]:
        raise LaunchError(f"compare names {', '.join(unknown)}; the arrays are {', '.join(arrays) or 'none'}")
    counts: dict[str, Array] = {}
    for name, array in arrays.items():
        rule = rules.get(name, np.asarray)
        if rule is not None:
            counts[name] = np.ascontiguousarray(rule(np.asarray(array)))
    digests = {name: _digest(array) for name, array in counts.items()}
    noted = sorted(
        {(note.hazard.name, note.line, note.other_line) for note in notes},
        key=lambda note: (note[1], note[0], note[2] or 0),
    )
    return Outcome(seed, digests, notes=tuple(noted)), counts, getattr(left, "trace", None)


def _digest(array: Array) -> str:
    about = f"{array.dtype} {array.shape} ".encode()
    return hashlib.sha256(about + array.tobytes()).hexdigest()


def _parts(left: Any) -> tuple[Mapping[str, Any], Sequence[Any]]:
    """The arrays and the notes in what a callable returned."""
    if isinstance(left, Mapping):
        return left, ()
    if isinstance(left, tuple) and len(left) == 2 and isinstance(left[0], Mapping):
        if isinstance(left[1], LaunchResult):
            return left[0], left[1].notes
    elif isinstance(getattr(left, "buffers", None), Mapping):
        return left.buffers, left.notes
    raise LaunchError(
        f"the callable returned a {type(left).__name__}: it must return a mapping from names to arrays, a"
        " pair of one and the LaunchResult, or what runtime.run returns"
    )


def _differ(first: Outcome, second: Outcome) -> str | None:
    if (first.error, first.line) != (second.error, second.line):
        return "error"
    if first.arrays != second.arrays:
        return "outputs"
    return None if first.notes == second.notes else "notes"


def _difference(
    run: Launch,
    rules: Rules,
    kind: str,
    first: Outcome,
    second: Outcome,
) -> Difference:
    """Run both launches again with a recorder, and find the difference."""
    traces: list[Trace] = []
    arrays: list[dict[str, Array]] = []
    for outcome in (first, second):
        recorder = Recorder()
        again, counts, trace = end_of(run, outcome.seed, recorder, rules)
        if _differ(outcome, again):
            raise LaunchError(
                f"seed {outcome.seed} ended with {outcome}, and run again with {again}, or with other arrays:"
                " a launch to explore must make its arrays anew each time and depend on its seed only"
            )
        # A launch through runtime.run records by itself.
        traces.append(trace if trace is not None and not len(recorder) else recorder.trace())
        arrays.append(counts)
    stops = [
        None if outcome.error is None else Stop(outcome.error, outcome.block, outcome.warp)
        for outcome in (first, second)
    ]
    alignment = align_traces(traces[0], traces[1], (stops[0], stops[1]))
    if kind != "outputs":
        return Difference(kind, first, second, alignment)
    a, b = arrays
    name = next(name for name in (*a, *b) if first.arrays.get(name) != second.arrays.get(name))
    both = (a, b)
    one, other = a.get(name), b.get(name)
    if one is None or other is None or (one.dtype, one.shape) != (other.dtype, other.shape):
        return Difference(kind, first, second, alignment, name, arrays=both)
    size = one.dtype.itemsize
    bits = [np.frombuffer(array.tobytes(), np.uint8).reshape(-1, size) for array in (one, other)]
    unlike = np.flatnonzero((bits[0] != bits[1]).any(axis=1))
    index = tuple(int(i) for i in np.unravel_index(int(unlike[0]), one.shape))
    values = (one[index], other[index])
    return Difference(kind, first, second, alignment, name, index, len(unlike), values, both)


# --- a launch from its arguments --------------------------------------------------------------------------


def from_arguments(ptx: str | CheckedModule, arguments: Mapping[str, Any]) -> Launch:
    """A callable that launches on copies of the arrays."""
    if mine := [name for name in ("seed", "recorder") if name in arguments]:
        raise LaunchError(f"explore sets {' and '.join(mine)} itself")
    checked = ptx if isinstance(ptx, CheckedModule) else read_module(ptx)
    given = arguments.get("args", ())
    if not isinstance(given, np.ndarray | str | bytes):  # `launch` refuses these
        given = [host_arrays(argument) for argument in given]
    names = _names(checked.module, arguments.get("entry"))

    def run(seed: int, recorder: Recorder | None, **more: Any) -> Any:
        copies = Copies()
        args = [copies.of(argument) for argument in given] if isinstance(given, list) else given
        if not copies.possible:
            args = given  # `launch` says what is wrong with them
        result = launch_once(checked, seed=seed, recorder=recorder, **{**arguments, "args": args}, **more)
        left: dict[str, Array] = {}
        for place, argument in enumerate(args):
            name = names[place] if place < len(names) else f"argument {place}"
            found = list(_arrays(argument))
            left |= {name if len(found) == 1 else f"{name}.{i}": array for i, array in enumerate(found)}
        return left, result

    return run


def _names(module: Module, entry: str | None) -> list[str]:
    """The parameters' names; none if `launch` will refuse the entry."""
    chosen = list(module.entries.values()) if entry is None else module.entries_named(entry)
    return [chosen[0].shown(parameter) for parameter in chosen[0].params] if chosen else []


def _arrays(argument: Any) -> Iterable[Array]:
    if isinstance(argument, np.ndarray):
        yield argument
    elif isinstance(argument, TensorMap):
        yield argument.array
    elif isinstance(argument, tuple | list):
        for item in argument:
            yield from _arrays(item)
