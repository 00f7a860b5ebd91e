"""Where a thread uses the answer of a test: an instruction that may go on although its wait is not over.

Such an instruction orders what follows it only if the thread goes on because the answer was true. A loop
around the test sees to that, or a branch past a second test. Without a branch the thread does the same
whatever the answer is, so that the answer true of one run orders nothing.

The search follows the answer through predicates and other registers to the branches that it decides. A branch
decides if the side for the answer false does not reach the other side without a further test. An answer that
goes to memory or to other lanes, or with others into one register, counts as used where that happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cutecourse.emulator.core.facts import Facts, Flow, IntegerOperation
from cutecourse.emulator.core.owner import OwnerDict
from cutecourse.ptx.checks import registers
from cutecourse.ptx.scopes import FlatFunction, LabelSymbol, Register
from cutecourse.ptx.syntax import BranchTargets, Instruction, Name

__all__ = ["TestOutcome", "TrueAnswer", "Undecided", "outcomes_of"]

_MOST = 20_000
"""The search gives up after so many instructions, and the answer then counts as used at once."""

_Held = dict[Register, bool | None]
"""The registers that depend on an answer: True for one that holds it, False for its opposite, else None."""


@dataclass(frozen=True, eq=False, slots=True)
class TestOutcome:
    """The use that a thread makes of a test's answer.

    at_once  True if every path from the test comes to a branch that the answer decides, and no instruction
             on it does more than compute.
    decided  the positions at which a thread is only because the answer was true; empty if it decides nothing.
    """

    at_once: bool
    decided: frozenset[int]
    again: bool = False
    """True if after the answer false a thread does nothing but ask again."""


def outcomes_of(flat: FlatFunction, facts: tuple[Facts, ...]) -> dict[int, TestOutcome]:
    """The outcome of each test of a function, by the test's position."""
    tests = [position for position, one in enumerate(facts) if one.may_fail]
    search = _AnswerPaths(flat, facts)
    return {position: search.outcome(position) for position in tests}


class _AnswerPaths:
    """The paths of one function."""

    def __init__(self, flat: FlatFunction, facts: tuple[Facts, ...]) -> None:
        self._flat = flat
        self._facts = facts

    def outcome(self, test: int) -> TestOutcome:
        """Follow the answer of the test at a position."""
        at_once, again, decided = True, True, set[int]()
        todo: list[tuple[int, _Held]] = [(test + 1, dict.fromkeys(self._written(test), True))]
        seen: set[tuple[int, frozenset[tuple[Register, bool | None]]]] = set()
        while todo:
            position, held = todo.pop()
            key = (position, frozenset(held.items()))
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > _MOST:
                return TestOutcome(at_once=True, decided=frozenset(decided))
            if not held or position in {test, len(self._facts)}:
                at_once = False  # on this path the answer is lost
                continue
            stated, jumps = self._facts[position], self._jumps(position)
            plain = _only_computes(stated)
            if self._is_guarded_by(position, held):
                true = self._runs(position, held)
                if jumps or stated.flow is not None:
                    yes, no = ([position + 1], jumps) if true is False else (jumps, [position + 1])
                    if true is None:
                        decided.update([*yes, *no])
                    elif self._decides(test, held, yes, no):
                        decided.update(yes)
                        again &= self._only_asks_again(test, no)
                    else:
                        todo += [(after, held) for after in [*yes, *no]]
                    continue
                if not plain and true is not False:
                    decided.add(position)
                    continue
            elif (jumps or not plain) and not self._read(position).isdisjoint(held):
                decided.update(jumps or [position])
                continue
            at_once &= plain
            todo += [(after, self._after(position, held)) for after in self._following(position)]
        at_once &= bool(decided)
        return TestOutcome(at_once, frozenset(decided), again=at_once and again)

    def _decides(self, test: int, held: _Held, yes: list[int], no: list[int]) -> bool:
        """True if the way of the answer false does not come to the other way without a further test.

        A loop that asks again so many times and then goes on all the same counts as a loop.
        """
        if self._asks_again(test, no):
            return True
        seen: set[tuple[int, frozenset[tuple[Register, bool | None]]]] = set()
        todo = [(position, held) for position in no]
        while todo:
            position, held = todo.pop()
            key = (position, frozenset(held.items()))
            if key in seen or position >= len(self._facts):
                continue
            seen.add(key)
            if position in yes:
                return False
            stated = self._facts[position]
            if stated.may_fail or stated.flow is Flow.CALL or len(seen) > _MOST:
                continue
            jumps, following = self._jumps(position), self._following(position)
            true = self._runs(position, held)
            if true is not None and (jumps or stated.flow is not None):
                following = [position + 1] if true else jumps
            todo += [(after, self._after(position, held)) for after in following]
        return True

    def _asks_again(self, test: int, starts: list[int]) -> bool:
        """True if a path leads back to the test for the same phase and does nothing but compute."""
        asked = self._read(test)
        seen: set[int] = set()
        todo = list(starts)
        while todo:
            position = todo.pop()
            if position == test:
                return True
            if position in seen or position >= len(self._facts):
                continue
            seen.add(position)
            if _only_computes(self._facts[position]) and asked.isdisjoint(self._written(position)):
                todo += self._following(position)
        return False

    def _only_asks_again(self, test: int, starts: list[int]) -> bool:
        """True if every path leads back to the test for the same phase, or to an error, and only computes."""
        asked, todo, seen = self._read(test), list(starts), {test}
        while todo:
            position = todo.pop()
            if position in seen:
                continue
            seen.add(position)
            if position >= len(self._facts) or self._facts[position].flow is Flow.LEAVE:
                return False
            if not _only_computes(self._facts[position]) or asked & self._written(position):
                return False
            todo += self._following(position)
        return True

    # --- one instruction ------------------------------------------------------------------------------------

    def _one(self, position: int) -> Instruction:
        return self._flat.instructions[position]

    def _guard(self, position: int) -> Register | None:
        guard = self._one(position).guard
        found = None if guard is None else self._flat.scopes[position].lookup(guard.name)
        return found if isinstance(found, Register) else None

    def _is_guarded_by(self, position: int, held: _Held) -> bool:
        guard = self._guard(position)
        return guard is not None and guard in held

    def _runs(self, position: int, held: _Held) -> bool | None:
        """True if an instruction runs for the answer true alone, False if for the answer false alone."""
        guard, value = self._one(position).guard, None
        register = self._guard(position)
        if guard is not None and register is not None:
            value = held.get(register)
        return None if guard is None or value is None else value != guard.negated

    def _written(self, position: int) -> set[Register]:
        return self._registers(position, 0)

    def _read(self, position: int) -> set[Register]:
        return self._registers(position, 1)

    def _registers(self, position: int, which: int) -> set[Register]:
        """The registers among an instruction's results (0) or sources (1)."""
        operands = self._facts[position].split(self._one(position).operands)[which]
        return {found for one in operands for found in registers(one, self._flat.scopes[position])}

    def _jumps(self, position: int) -> list[int]:
        """The positions of the labels that an instruction names."""
        found = []
        scope = self._flat.scopes[position]
        for operand in self._one(position).operands:
            symbol = scope.lookup(operand.text) if isinstance(operand, Name) else None
            if isinstance(symbol, LabelSymbol):
                found.append(symbol.position)
            elif isinstance(symbol, BranchTargets):
                labels = (scope.lookup(name) for name in symbol.labels)
                found += [label.position for label in labels if isinstance(label, LabelSymbol)]
        return found

    def _following(self, position: int) -> list[int]:
        """Where a thread may be after an instruction."""
        jumps, flow = self._jumps(position), self._facts[position].flow
        stays = self._one(position).guard is None and (jumps or flow in {Flow.LEAVE, Flow.FAIL})
        return jumps if stays else [*jumps, position + 1]

    def _after(self, position: int, held: _Held) -> _Held:
        """The registers that depend on the answer after an instruction."""
        written = self._written(position)
        if not written:
            return held
        one = self._one(position)
        read = [register for register in self._read(position) if register in held]
        if self._is_guarded_by(position, held):
            return {**held, **dict.fromkeys(written, None)}
        if not read:
            left = {register: value for register, value in held.items() if register not in written}
            return left if one.guard is None else held
        value: bool | None = None
        operation = self._facts[position].computes
        if len(one.operands) == 2 and one.guard is None and len(read) == 1:
            if operation is IntegerOperation.COPY:
                value = held[read[0]]
            elif operation is IntegerOperation.NOT and read[0].bits == 1 and held[read[0]] is not None:
                value = not held[read[0]]
        return {**held, **dict.fromkeys(written, value)}


def _only_computes(facts: Facts) -> bool:
    return not facts.uses and not facts.category and facts.pipe is None and facts.flow is not Flow.CALL


# --- while the kernel runs ----------------------------------------------------------------------------------


class TrueAnswer(Protocol):
    """The answer true of a test."""

    def counts(self, lanes: list[int]) -> None:
        """Tell that lanes, numbered through the bundle, go on because the answer was true."""


class Undecided(OwnerDict[TestOutcome, dict[int, TrueAnswer]]):
    """For each test of a bundle, the lanes that got the answer true and have not come to its use yet."""

    def add(self, outcome: TestOutcome, lanes: list[int], answer: TrueAnswer) -> None:
        """Keep lanes, numbered through the bundle, whose test was true."""
        self.setdefault(outcome, {}).update(dict.fromkeys(lanes, answer))

    def drop(self, outcome: TestOutcome, lanes: list[int]) -> None:
        """Forget lanes that ask again."""
        kept = self.get(outcome, {})
        for lane in lanes:
            kept.pop(lane, None)

    def reach(self, outcomes: list[TestOutcome], lanes: list[int]) -> None:
        """Lanes have come to a place that these answers decide, so that the answers count from now on."""
        for outcome in outcomes:
            kept = self.get(outcome, {})
            found = {lane: kept.pop(lane) for lane in lanes if lane in kept}
            for answer in dict.fromkeys(found.values()):
                answer.counts([lane for lane in found if found[lane] is answer])
