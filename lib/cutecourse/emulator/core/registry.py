"""The registry of instructions: the function that defines each one, and its section in the PTX ISA.

A module of instructions defines functions like this one; the registry calls them once for each instruction
of a kernel, before it runs, with a `Site` (emulator.core.site) that knows the instruction's text and
operands:

    @instruction("add")
    def add(site: Site) -> Step:
        '''Add two numbers. (Shapes, Units, Errors, Simplified, Source: see any module here.)'''
        kind = site.type()                               # "s32", "f16x2", ...; takes the modifier
        saturate = site.has("sat")                       # takes the modifier if it is there
        d, a, b = site.destination(0, kind), site.source(1, kind), site.source(2, kind)

        def step(bundle, mask):                          # runs each time, for many warps at once
            rows = bundle.rows[kind]                     # list of arrays, shape (n_warps, 32)
            put(rows[d], rows[a] + rows[b], mask)        # mask: None (all lanes) or (n_warps, 32) bool

        return step

A modifier that the definition does not take makes the instruction unsupported. So the emulator never runs a
form that is not modelled.

An instruction that touches memory, orders threads, branches or works asynchronously also states its facts
(emulator.core.facts), as a value or as a function of the parsed instruction:

    @instruction("st", facts=lambda one: Facts(uses=(MemoryUse(space_of(one), bytes_of(one), writes=True),)))

Checks, reports and pages ask for them by `facts_of`, so they know a new instruction without an edit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.site import Site
from cutecourse.ptx.syntax import Instruction

__all__ = [
    "FactsOf",
    "InstructionInfo",
    "Step",
    "facts_of",
    "instruction",
    "lookup",
    "name_of",
    "supported_instructions",
]

FactsOf = Callable[[Instruction], Facts]
"""The facts of one instruction, where its modifiers or operands decide. It must take any operands."""
_NOTHING = Facts()


@dataclass(frozen=True)
class InstructionInfo:
    """One row of the coverage table: an instruction's name, its source section and its definition."""

    name: str
    source: str
    module: str
    summary: str
    control: bool
    gated: bool
    define: Callable[[Site], Step]
    facts: Facts | FactsOf

    @property
    def refused(self) -> str:
        """The reason why the instruction is always refused; empty for one that runs."""
        return self.facts.refused if isinstance(self.facts, Facts) else ""

    def facts_of(self, one: Instruction) -> Facts:
        """The facts of an instruction that this definition is for."""
        return self.facts if isinstance(self.facts, Facts) else self.facts(one)

    def waits_for_lanes(self, modifiers: tuple[str, ...]) -> bool:
        """True if a form of the instruction begins only when its lanes have come together."""
        return self.gated and ("sync" in modifiers or "aligned" in modifiers)


_REGISTRY: dict[str, InstructionInfo] = {}


def instruction(
    *names: str, control: bool = False, gated: bool = False, facts: Facts | FactsOf = _NOTHING
) -> Callable[[Callable[[Site], Step]], Callable[[Site], Step]]:
    """Register the function that defines the instructions `names`; the longest name that fits is taken.

    A name is the opcode with as many leading modifiers as tell it apart: "add", "shfl.sync",
    "cp.async.wait_group". With `control` the function returns `control(bundle, split, next_block)`, which
    ends a basic block. With `gated` as well, an `.aligned` form first waits for the lanes of the warp, as
    instructions without `control` always do. `facts` says what others must know (emulator.core.facts).
    """

    def register(define: Callable[[Site], Step]) -> Callable[[Site], Step]:
        text = define.__doc__ or ""
        source = re.search(r"Source:\s*(.*?)(?:\n\s*\n|\Z)", text, re.DOTALL)
        if not source:
            raise TypeError(f"{define.__name__}: the docstring of an instruction must have a Source: line")
        for name in names:
            if name in _REGISTRY:
                raise TypeError(
                    f"{name} is defined twice, in {_REGISTRY[name].module} and {define.__module__}"
                )
            _REGISTRY[name] = InstructionInfo(
                name=name,
                source=" ".join(source.group(1).split()),
                module=define.__module__,
                summary=text.strip().splitlines()[0],
                control=control,
                gated=gated or not control,
                define=define,
                facts=facts,
            )
        lookup.cache_clear()
        return define

    return register


@cache
def lookup(opcode: str, modifiers: tuple[str, ...]) -> tuple[InstructionInfo, int] | None:
    """Find the definition with the longest name that fits, and the number of modifiers in that name."""
    for used in range(len(modifiers), -1, -1):
        found = _REGISTRY.get(".".join((opcode, *modifiers[:used])))
        if found:
            return found, used
    return None


def facts_of(one: Instruction) -> Facts:
    """The facts of a parsed instruction; the defaults for one that the emulator does not know."""
    found = lookup(one.opcode, one.modifiers)
    return _NOTHING if found is None else found[0].facts_of(one)


def name_of(one: Instruction) -> str:
    """The registered name of a parsed instruction, such as "tcgen05.mma"; its full name if it has none."""
    found = lookup(one.opcode, one.modifiers)
    return one.name if found is None else found[0].name


def supported_instructions() -> list[InstructionInfo]:
    """Every registered instruction, sorted by name: the rows of the coverage table."""
    return sorted(_REGISTRY.values(), key=lambda info: info.name)
