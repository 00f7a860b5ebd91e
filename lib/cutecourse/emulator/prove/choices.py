"""Choices: places where what a thread does depends on the order of events, and not only when it does it.

One run stands for all orders only if each thread executes the same instructions in all of them. A kernel
without races computes the same values in every order, except for those that these instructions give: an
atomic operation's old value, a strong load, a clock, the number of the SM. Such a value must not decide which
instructions a thread executes, or which barrier it uses.

Simplified: registers and memories are followed without regard to the order of instructions. What such a value
            is stored into taints every load from that memory. The arguments of calls are not followed:
            a call with such a value is a choice.
"""

from __future__ import annotations

from collections.abc import Iterator

from cutecourse.emulator.core.facts import Facts, Flow
from cutecourse.emulator.core.outcomes import outcomes_of
from cutecourse.emulator.core.program import Program
from cutecourse.emulator.core.special import depends_on_order
from cutecourse.ptx.checks import names, registers
from cutecourse.ptx.scopes import Register, Scope
from cutecourse.ptx.syntax import Instruction
from cutecourse.trace.words import number

__all__ = ["choices", "tests"]


def choices(program: Program) -> list[str]:
    """The reasons for which one run of a program does not stand for all orders, one for each source."""
    found = _Taint(program)
    while found.spread():
        pass
    return list(dict.fromkeys(found.reasons()))


def tests(program: Program) -> tuple[list[int], list[int]]:
    """The lines of all tests, and of those after whose answer false a thread does more than ask again."""
    every, branching = [], []
    for name, flat in program.flat.items():
        for position, outcome in outcomes_of(flat, program.facts[name]).items():
            line = flat.instructions[position].line
            every.append(line)
            if not outcome.again and outcome.decided:
                branching.append(line)
    return every, branching


class _Taint:
    """The registers and memories that hold values which depend on the order."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.registers: dict[tuple[str, Register], Instruction] = {}
        """Each with the instruction that its value comes from."""
        self.memories: dict[str, Instruction] = {}

    def _all(self) -> Iterator[tuple[str, Instruction, Facts, Scope]]:
        for name, flat in self.program.flat.items():
            for one, facts, scope in zip(
                flat.instructions, self.program.facts[name], flat.scopes, strict=True
            ):
                yield name, one, facts, scope

    def spread(self) -> bool:
        """Follow the values one step further; False if nothing is new."""
        before = len(self.registers) + len(self.memories)
        for function, one, facts, scope in self._all():
            source = self._source(function, one, facts, scope)
            if source is None:
                continue
            for use in facts.uses:
                if use.writes:
                    self.memories.setdefault(use.space, source)
            for result in facts.split(one.operands)[0]:
                for register in registers(result, scope):
                    self.registers.setdefault((function, register), source)
        return len(self.registers) + len(self.memories) > before

    def _source(self, function: str, one: Instruction, facts: Facts, scope: Scope) -> Instruction | None:
        """The instruction that makes the result of `one` depend on the order; None if it does not."""
        if facts.depends_on_order:
            return one
        if any(depends_on_order(name.text) for operand in one.operands for name in names(operand)):
            return one
        for use in facts.uses:
            if use.reads and use.space in self.memories:
                return self.memories[use.space]
        return self._read(function, one, facts, scope)

    def _read(self, function: str, one: Instruction, facts: Facts, scope: Scope) -> Instruction | None:
        """The source of a value that an instruction reads; None if it reads no such value."""
        for operand in facts.split(one.operands)[1]:
            for register in registers(operand, scope):
                if (function, register) in self.registers:
                    return self.registers[function, register]
        return None

    def reasons(self) -> Iterator[str]:
        """Say where a value that depends on the order decides what a thread does."""
        decided: dict[str, list[str]] = {}
        for function, one, facts, scope in self._all():
            if facts.takes_clusters:
                yield f"{self._at(one)} takes tiles as they come: another order gives a CTA other tiles"
            guard = None if one.guard is None else scope.lookup(one.guard.name)
            source = None
            if isinstance(guard, Register):
                source = self.registers.get((function, guard))
            if source is None and (facts.meets_others or facts.flow in {Flow.CALL, Flow.BRANCH}):
                source = self._read(function, one, facts, scope)
            if source is not None:
                decided.setdefault(self._at(source), []).append(self._at(one))
        for source, uses in decided.items():
            first, *more = dict.fromkeys(uses)
            others = f" (and {number(len(more), 'line')} more)" if more else ""
            yield f"{first} depends on {source}, whose value depends on the order of threads{others}"

    def _at(self, one: Instruction) -> str:
        return f"{one.name} (line {self.program.line_in_words(one.line)})"
