"""`prove`: run a kernel once, show that no order of events makes it go wrong, or find an order that does."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from cutecourse.emulator.core.program import Program
from cutecourse.emulator.core.steering import Delay, Execution, Steering
from cutecourse.emulator.errors import EmulatorError, LaunchError
from cutecourse.emulator.launch import LaunchResult, launch, program_of
from cutecourse.emulator.prove.causes import CauseRecord, Causes, Doubt
from cutecourse.emulator.prove.choices import branching_tests, choices
from cutecourse.emulator.prove.order import EventOrder
from cutecourse.emulator.tools.explore import Launch, Outcome, Rules, end_of, from_arguments
from cutecourse.ptx.checked import CheckedModule
from cutecourse.ptx.checks import read_module
from cutecourse.ptx.sources import line_in_words
from cutecourse.ptx.syntax import Module
from cutecourse.trace.words import number

__all__ = ["Proof", "prove", "replay"]

_SECONDS = 60.0
_EACH = 3
"""So many doubts at the same lines are tried."""
_TOGETHER = 2
"""So many delays are tried at once."""
_AS_IT_COMES = EventOrder()


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
    Errors:          LaunchError and PtxError, as `launch`.
    Simplified:      accesses of global memory are not compared.
    """
    started = perf_counter()
    if not seconds > 0:
        raise LaunchError(f"seconds is a time above 0, not {seconds!r}")
    checked = ptx if isinstance(ptx, CheckedModule) else read_module(ptx)
    search = _Prover(checked, from_arguments(checked, arguments), dict(compare or {}), started + seconds)
    fields = search.verdict(program_of(checked, arguments))
    return Proof(**fields, runs=search.runs, seconds=perf_counter() - started, module=checked.module)


def replay(order: EventOrder, ptx: str | CheckedModule, **arguments: Any) -> LaunchResult:
    """Launch a kernel, as `cutecourse.emulator.launch`, in an order that `prove` has found."""
    return launch(ptx, steering=order.steering(), **arguments)


class _Prover:
    """The runs of one launch."""

    def __init__(self, checked: CheckedModule, run: Launch, compare: Rules, until: float) -> None:
        self.checked = checked
        self._run = run
        self._compare = compare
        self._until = until
        self.runs = 0

    def run(
        self, order: EventOrder = _AS_IT_COMES, *, logs: bool = False
    ) -> tuple[Outcome, CauseRecord, Steering]:
        """Run the launch once, in an order."""
        steering, found = order.steering(), CauseRecord(log=[] if logs else None)
        self.runs += 1

        def delayed(seed: int, recorder: Any) -> Any:
            return self._run(
                seed, recorder, steering=steering, observe=lambda cohort: Causes(cohort, steering, found)
            )

        outcome, _, _ = end_of(delayed, 0, None, self._compare)
        return outcome, found, steering

    def verdict(self, program: Program) -> dict[str, Any]:
        """The fields of the proof."""
        first, found, steering = self.run()
        fields = {"events": found.events, "phases": found.phases, "notes": first.notes}
        if first.error is not None:
            return {**fields, "verdict": "counterexample", "error": first.raised}
        doubts, reasons, ways = list(found.doubts), choices(program), [False]
        branching, certain = branching_tests(program)
        if branching:
            ways.append(True)
            ended, more, refusing = self.run(EventOrder(refuses=True))
            if _differ(first, ended):
                wrong = {"error": ended.raised, "order": EventOrder(refuses=True)}
                return {**fields, "verdict": "counterexample", **wrong}
            doubts += more.doubts
            tests = set(branching)
            if _without(steering.times, tests) != _without(refusing.times, tests):
                lines = ", ".join(line_in_words(self.checked.module, line) for line in branching)
                reasons.append(f"a thread does something else if a wait is not over: line {lines}")
        reasons += [
            f"a thread does something else if the test at line {line_in_words(self.checked.module, line)} is"
            " false"
            for line in certain
        ]
        tried: set[tuple[frozenset[Delay], bool]] = set()
        queue: list[tuple[tuple[Delay, ...], bool]] = [
            ((one.late,), refuses) for one in _some(doubts) for refuses in ways
        ]
        for delays, refuses in queue:
            if (frozenset(delays), refuses) in tried or perf_counter() > self._until:
                continue
            tried.add((frozenset(delays), refuses))
            order = EventOrder(delays, refuses=refuses)
            ended, more, _ = self.run(order)
            if _differ(first, ended):
                return {**fields, "verdict": "counterexample", "error": ended.raised, "order": order}
            if len(delays) < _TOGETHER:
                new = [one.late for one in _some(more.doubts) if one.late not in delays]
                queue += [((*delays, late), refuses) for late in new]
        if not doubts and not reasons:
            return {**fields, "verdict": "proved"}
        if not reasons and not branching and all(one.kind != "block gone" for one in doubts):
            orders, wrong = self._all_orders(first)
            if wrong:
                return {**fields, "verdict": "counterexample", **wrong}
            if orders:
                return {**fields, "verdict": "proved", "orders": orders}
        reasons = [self._words(one) for one in _some(doubts, 1)] + reasons
        if perf_counter() > self._until:
            reasons.append("the time was over before all doubts had been tried")
        return {**fields, "verdict": "incomplete", "reasons": tuple(reasons)}

    def _all_orders(self, first: Outcome) -> tuple[int, dict[str, Any]]:
        """Run the launch once for each relation of happens-before that a legal order has.

        Each doubt of each run is reversed: what came before the later event and does not depend on it stays
        as it was, then the other event comes. This is the search of Abdulla et al., Optimal Dynamic Partial
        Order Reduction (POPL 2014), without its sleep sets: runs with the same phases are the same order.
        Returns: the number of orders, 0 if the time was over, and the fields of a proof if one goes wrong.
        """
        _, found, _ = self.run(logs=True)
        seen = {found.signature}
        runs = [found]
        for found in runs:
            assert found.log is not None
            position = {one.event: at for at, one in reversed(list(enumerate(found.log)))}
            reversals = dict.fromkeys(
                (one.late, Delay(one.event, work=one.event_is_work)) for one in found.doubts
            )
            for late, early in reversals:
                if perf_counter() > self._until:
                    return 0, {}
                x, e = position[late], position[early]
                kept = [
                    one.event
                    for at, one in enumerate(found.log[:e])
                    if at < x or (at > x and not one.comes_after(found.log[x]))
                ]
                script = list(dict.fromkeys([*kept, early]))
                later = frozenset(one.event for one in found.log).difference(script)
                order = EventOrder(script=tuple(script), later=later)
                ended, more, _ = self.run(order, logs=True)
                if _differ(first, ended):
                    return 0, {"error": ended.raised, "order": order}
                if more.signature not in seen:
                    seen.add(more.signature)
                    runs.append(more)
        return len(runs), {}

    def _words(self, doubt: Doubt) -> str:
        """Say which condition does not hold."""
        late, event = (
            line_in_words(self.checked.module, one.line) for one in (doubt.late.place, doubt.event)
        )
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


def _differ(one: Outcome, other: Outcome) -> bool:
    return other.error is not None or one.arrays != other.arrays


def _without(times: Mapping[Execution, int], lines: set[int]) -> dict[Execution, int]:
    return {place: n for place, n in times.items() if place.line not in lines}


def _some(doubts: Sequence[Doubt], each: int = _EACH) -> Iterator[Doubt]:
    """The first few doubts of each pair of lines."""
    count: dict[Hashable, int] = {}
    for doubt in doubts:
        count[doubt.key] = count.get(doubt.key, 0) + 1
        if count[doubt.key] <= each:
            yield doubt
