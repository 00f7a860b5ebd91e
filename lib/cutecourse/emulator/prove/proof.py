"""`prove`: run a kernel once, show that no order of events makes it go wrong, or find an order that does."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from cutecourse.emulator.core.program import Program
from cutecourse.emulator.core.steering import Execution, Steering
from cutecourse.emulator.errors import BudgetExceeded, DeadlockError, EmulatorError, LaunchError
from cutecourse.emulator.launch import LaunchResult, launch, program_of
from cutecourse.emulator.prove.causes import CauseRecord, Causes, Doubt
from cutecourse.emulator.prove.choices import choices, tests
from cutecourse.emulator.prove.order import EventOrder
from cutecourse.emulator.tools.explore import Launch, Outcome, Rules, end_of, from_arguments
from cutecourse.ptx.checked import CheckedModule
from cutecourse.ptx.checks import read_module
from cutecourse.ptx.sources import line_in_words
from cutecourse.ptx.syntax import Module
from cutecourse.trace.words import number

__all__ = ["Proof", "prove", "replay"]

_LANES = "lanes not ordered"
_NO_MATTER_OF_LANES = (BudgetExceeded, DeadlockError)
"""Errors that a run ends with whether or not the race check trusts the lanes."""
_SECONDS = 60.0
_EACH = 3
"""So many doubts at the same lines are tried."""
_TOGETHER = 2
"""So many delays are tried at once."""


@dataclass(frozen=True, repr=False)
class Proof:
    """The verdict on one launch: for its arguments and sizes, and for every legal order of its events.

    verdict     "proved", "counterexample" or "incomplete".
    runs        the number of times that the kernel ran.
    events      arrivals, waits and completions of bytes in its first run; `phases` of barriers were complete.
    orders      for "proved": the relations of happens-before that legal orders have; each was run.
    reasons     for "incomplete": the conditions that do not hold.
    order       for "counterexample": an order that goes wrong; None if the first one does.
    error       how that run ended; None if it gave other results than the first.
    notes       hazards that did not end the first run, as `Outcome.notes`; with "proved" they hold for all.
    """

    verdict: str
    runs: int
    seconds: float
    module: Module = field(compare=False)
    events: int = 0
    phases: int = 0
    orders: int = 1
    reasons: tuple[str, ...] = ()
    order: EventOrder | None = None
    error: EmulatorError | None = None
    notes: tuple[tuple[str, int, int | None], ...] = ()

    @property
    def proved(self) -> bool:
        """True if no order of events makes the launch go wrong."""
        return self.verdict == "proved"

    def __str__(self) -> str:
        seen = f"{number(self.events, 'event')} at barriers, {number(self.phases, 'phase')}"
        ran = f"{number(self.runs, 'run')}, {self.seconds:.1f} s"
        if self.verdict == "incomplete":
            return "\n  ".join([f"incomplete ({seen}; {ran}):", *self.reasons])
        if self.verdict == "counterexample":
            lines = [
                f"counterexample ({ran}):",
                *([] if self.order is None else self.order.story(self.module)),
            ]
            if self.order is None:
                lines.append("it needs no special order.")
            how = "The kernel ends without an error, and with other results."
            return "\n  ".join(lines) + f"\nThen:\n{how if self.error is None else self.error}"
        if self.orders > 1:
            text = f"proved: {self.orders} orders are possible, and all of them went well ({seen}; {ran})."
        else:
            text = (
                f"proved: every legal order gives each barrier the same phases ({seen}; {ran}), so what the"
                " checks say of one run holds for all."
            )
        noted = ", ".join(sorted({name for name, *_ in self.notes}))
        return text + (f"\n  They say: {noted}." if noted else "")

    __repr__ = __str__


def prove(
    ptx: str | CheckedModule,
    *,
    seconds: float = _SECONDS,
    compare: Rules | None = None,
    **arguments: Any,
) -> Proof:
    """Show that no legal order of events makes a launch go wrong, or find an order that does.

    ptx, arguments   as for `cutecourse.emulator.launch`; the arrays do not change.
    seconds          time after which it gives up.
    compare          for an array by its name, the part that counts, as for `explore`.
    Returns:         a `Proof`. "proved" rests on an argument about one run (emulator.prove.causes): if every
                     legal order gives each barrier the same phases, the checks of one run hold for all
                     orders. Else every order is run. A counterexample is a run that went wrong.
    Errors:          LaunchError, PtxError and UnsupportedInstruction, as `launch`.
    Simplified:      accesses of global memory are not compared.
    """
    started = perf_counter()
    if not seconds > 0:
        raise LaunchError(f"seconds is a time above 0, not {seconds!r}")
    checked = ptx if isinstance(ptx, CheckedModule) else read_module(ptx)
    apart = {**arguments, "hazards": {_LANES: "error", **(arguments.get("hazards") or {})}}
    runs = from_arguments(checked, arguments), from_arguments(checked, apart)
    search = _Prover(checked, runs, dict(compare or {}), started + seconds)
    fields = search.verdict(program_of(checked, arguments))
    return Proof(**fields, runs=search.runs, seconds=perf_counter() - started, module=checked.module)


def replay(order: EventOrder, ptx: str | CheckedModule, **arguments: Any) -> LaunchResult:
    """Launch a kernel, as `cutecourse.emulator.launch`, in an order that `prove` has found."""
    return launch(ptx, steering=order.steering(), **arguments)


class _Found(Exception):
    """The verdict is known: the fields of the proof that say why."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        super().__init__()


class _Prover:
    """The runs of one launch."""

    def __init__(
        self, checked: CheckedModule, runs: tuple[Launch, Launch], compare: Rules, until: float
    ) -> None:
        """`runs` launch it as it was asked for, and so that lanes which nothing orders are an error."""
        self.checked = checked
        self._launches = runs
        self._compare = compare
        self._until = until
        self.runs = 0
        self._first: Outcome | None = None
        self._apart: list[Execution] = []
        """Where lanes of a warp ran apart."""
        self._only_together: EmulatorError | None = None
        """What the race check says of a run if lanes tell others only of what they have done themselves."""

    def _once(
        self, order: EventOrder, found: CauseRecord, *, trusts_flags: bool = True
    ) -> tuple[Outcome, Steering]:
        steering = order.steering()
        steering.trusts_flags = trusts_flags
        steering.trusts_lanes = self._only_together is not None
        run = self._launches[not steering.trusts_lanes]
        self.runs += 1

        def steered(seed: int, recorder: Any) -> Any:
            return run(
                seed, recorder, steering=steering, observe=lambda cohort: Causes(cohort, steering, found)
            )

        return end_of(steered, 0, None, self._compare)[0], steering

    def run(
        self, order: EventOrder | None = None, *, logs: bool = False
    ) -> tuple[Outcome, CauseRecord, Steering]:
        """Run the launch once, in an order or as it comes.

        Raises: `_Found` if the run goes wrong, ends otherwise than the first one, or comes to its budget.
        """
        found = CauseRecord(log=[] if logs else None)
        outcome, steering = self._once(order or EventOrder(), found)
        by_lane = self._only_together is None
        if by_lane and outcome.raised is not None and not isinstance(outcome.raised, _NO_MATTER_OF_LANES):
            self._only_together, found = outcome.raised, CauseRecord(log=[] if logs else None)
            outcome, steering = self._once(order or EventOrder(), found)
            if outcome.raised is None and any(name == _LANES for name, *_ in outcome.notes):
                raise _Found(verdict="counterexample", error=self._only_together, order=order)
            if outcome.raised is not None:
                self._only_together = None
        if isinstance(outcome.raised, BudgetExceeded):
            raise _Found(verdict="incomplete", reasons=(outcome.raised.problem,))
        self._first = self._first or outcome
        if found.apart is not None:
            self._apart.append(found.apart)
        if outcome.error is not None or outcome.arrays != self._first.arrays:
            raise _Found(verdict="counterexample", error=outcome.raised, order=order)
        return outcome, found, steering

    def verdict(self, program: Program) -> dict[str, Any]:
        """The fields of the proof."""
        seen: dict[str, Any] = {}
        try:
            first, found, steering = self.run()
            seen = {"events": found.events, "phases": found.phases, "notes": first.notes}
            doubts, reasons, ways = self._other_branches(program, found.doubts, steering)
            reasons += self._ordered_by_flags(found.flags)
            self._try_delays(doubts, ways)
            reasons += self._ordered_by_lanes()
            if doubts and self._apart:  # an order can delay a warp, but not some of its lanes
                where = self._line(self._apart[0].line)
                reasons.append(f"lanes of a warp run apart at line {where}, so not every order can be run")
            is_closed = not reasons and len(ways) == 1 and all(one.kind != "block gone" for one in doubts)
            orders = self._all_orders() if doubts and is_closed else 1
        except _Found as known:
            return {**seen, **known.fields, "order": self._shortened(known.fields)}
        if orders and (is_closed or not (doubts or reasons)):
            return {**seen, "verdict": "proved", "orders": orders}
        reasons = [self._words(one) for one in _some(doubts, 1)] + reasons
        if perf_counter() > self._until:
            reasons.append("the time was over before all doubts had been tried")
        return {**seen, "verdict": "incomplete", "reasons": tuple(reasons)}

    def _other_branches(
        self, program: Program, doubts: Sequence[Doubt], first: Steering
    ) -> tuple[list[Doubt], list[str], list[bool]]:
        """The runs in which tests that decide about more than waiting fail.

        In the first run such a test waits until it is true. In another one it fails once wherever its thread
        does not know the answer. Suppose that both have the same events but for waits, and that the second
        one waits for no phase that the first one does not wait for. Then what comes before what in the second
        run does so in every order, whatever each test says, and a condition that holds in it holds in all.

        Returns: the doubts of all runs; the reasons for which these runs do not stand for all orders; whether
                 tests fail: no, and also yes where that changes what a thread does next.
        """
        every, branching = tests(program)
        reasons = choices(program)
        if not branching:
            return [*doubts], reasons, [False]
        _, more, refusing = self.run(EventOrder(refuses=True))
        alike = _without(first.times, every) == _without(refusing.times, every)
        if not (alike and refusing.passed <= first.passed):
            lines = ", ".join(map(self._line, branching))
            reasons.append(f"a thread does something else if a wait is not over: line {lines}")
        return [*doubts, *more.doubts], reasons, [False, True]

    def _ordered_by_flags(self, flags: Sequence[Doubt]) -> list[str]:
        """Look for uses of shared memory that only fences, atomics or strong accesses order.

        The race check takes each of them to know all earlier ones of the run. Another order may exchange two.
        """
        if not flags:
            return []
        outcome, _ = self._once(EventOrder(), CauseRecord(), trusts_flags=False)
        if outcome.raised is None:
            return []
        for doubt in _some(flags):
            if perf_counter() > self._until:
                break
            self.run(EventOrder((doubt.late,)))
        line = "" if outcome.raised.line is None else f" at line {self._line(outcome.raised.line)}"
        what = f"only fences, atomics or strong accesses order the uses of shared memory{line}"
        return [f"{what}; the orders that were tried went well"]

    def _ordered_by_lanes(self) -> list[str]:
        """Say which uses of shared memory are in order only if lanes of a warp stay together."""
        error = self._only_together
        if error is None:
            return []
        line = "" if error.line is None else f" at line {self._line(error.line)}"
        words = (
            f"the use of memory{line} is in order only if the lanes of a warp stay together: one lane tells"
            " others of what another lane has done or waited for, and no bar.warp.sync or barrier stands"
            " between the two"
        )
        return [words]

    def _try_delays(self, doubts: Sequence[Doubt], ways: Sequence[bool]) -> None:
        """Let the late event of each doubt come as late as it can, and then pairs of them."""
        tried: set[EventOrder] = set()
        queue = [EventOrder((one.late,), refuses=refuses) for one in _some(doubts) for refuses in ways]
        for order in queue:
            if order in tried or perf_counter() > self._until:
                continue
            tried.add(order)
            _, more, _ = self.run(order)
            if len(order.delays) < _TOGETHER:
                new = [one.late for one in _some(more.doubts) if one.late not in order.delays]
                queue += [replace(order, delays=tuple(sorted((*order.delays, late)))) for late in new]

    def _all_orders(self) -> int:
        """Run the launch once for each relation of happens-before that a legal order has.

        Each doubt of each run is reversed: what came before the later event and does not depend on it stays
        as it was, then the other event comes. Runs with the same phases are the same order.
        Simplified: no sleep sets, so that an order may run again under another script.
        Source:  Flanagan and Godefroid, Dynamic Partial-Order Reduction for Model Checking Software (POPL
                 2005); Abdulla et al., Optimal Dynamic Partial Order Reduction (POPL 2014), for the reversal;
                 Godefroid, Partial-Order Methods for the Verification of Concurrent Systems (1996), for sleep
                 sets.
        Returns: the number of orders; 0 if the time was over.
        """
        runs, tried = {}, set[EventOrder]()
        todo = [self.run(logs=True)[1]]
        for found in todo:
            if found.signature in runs:
                continue
            runs[found.signature] = found
            for order in _reversals(found):
                if perf_counter() > self._until:
                    return 0
                if order not in tried:
                    tried.add(order)
                    todo.append(self.run(order, logs=True)[1])
        return len(runs)

    def _shortened(self, found: Mapping[str, Any]) -> EventOrder | None:
        """The order of a counterexample, with as few events in its script as still give the same error.

        Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (TSE 2002).
        """
        order: EventOrder | None = found.get("order")
        error: EmulatorError | None = found.get("error")
        if order is None or not order.script or error is None:
            return order
        size = len(order.script) // 2
        while size:
            at = 0
            while at + size < len(order.script) and perf_counter() < self._until:
                script = order.script[:at] + order.script[at + size :]
                shorter = replace(order, script=script, later=order.later)
                ended, _ = self._once(shorter, CauseRecord())
                if ended.raised is not None and _is_same(ended.raised, error):
                    order = shorter
                else:
                    at += size
            size //= 2
        return order

    def _line(self, line: int) -> str:
        return line_in_words(self.checked.module, line)

    def _words(self, doubt: Doubt) -> str:
        """Say which condition does not hold."""
        late, event = self._line(doubt.late.place.line), self._line(doubt.early.place.line)
        what = {
            "early arrival": f"line {event} may come before line {late}, in an earlier phase of"
            f" {doubt.where}",
            "late expectation": f"{doubt.where} may be complete before line {late} says what it waits for",
            "early wait": f"the wait at line {event} may begin before line {late}, an earlier phase of"
            f" {doubt.where}",
            "lapped wait": f"{doubt.where} may complete two phases before the wait at line {late} looks",
            "block gone": f"{doubt.where} may end before line {late} of another one uses its shared memory",
        }[doubt.kind]
        return f"{what}; the orders that were tried went well"


def _reversals(found: CauseRecord) -> Iterator[EventOrder]:
    """For each doubt of a run an order in which its two events come the other way round."""
    assert found.log is not None
    position = {one.event: at for at, one in reversed(list(enumerate(found.log)))}
    events = frozenset(position)
    for late, early in dict.fromkeys((one.late, one.early) for one in found.doubts):
        until, at_late = position[early], position[late]
        kept = [
            one.event
            for at, one in enumerate(found.log[:until])
            if at < at_late or (at > at_late and not one.comes_after(found.log[at_late]))
        ]
        script = tuple(dict.fromkeys([*kept, early]))
        yield EventOrder(script=script, later=events.difference(script))


def _is_same(error: EmulatorError, other: EmulatorError) -> bool:
    """True if two errors have the same class and line."""
    return type(error) is type(other) and error.line == other.line


def _without(times: Mapping[Execution, int], lines: Sequence[int]) -> dict[Execution, int]:
    return {place: n for place, n in times.items() if place.line not in lines}


def _some(doubts: Sequence[Doubt], each: int = _EACH) -> Iterator[Doubt]:
    """The first few doubts of each pair of lines."""
    count: dict[Hashable, int] = {}
    for doubt in doubts:
        count[doubt.key] = count.get(doubt.key, 0) + 1
        if count[doubt.key] <= each:
            yield doubt
