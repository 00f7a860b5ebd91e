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
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.site import Site

__all__ = ["InstructionInfo", "Step", "instruction", "lookup", "supported_instructions"]


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

    @property
    def refused(self) -> bool:
        """True if the definition's docstring says that the instruction is always refused."""
        return "UnsupportedInstruction, always" in (self.define.__doc__ or "")

    def waits_for_lanes(self, modifiers: tuple[str, ...]) -> bool:
        """True if a form of the instruction begins only when its lanes have come together."""
        return self.gated and ("sync" in modifiers or "aligned" in modifiers)


_REGISTRY: dict[str, InstructionInfo] = {}


def instruction(
    *names: str, control: bool = False, gated: bool = False
) -> Callable[[Callable[[Site], Step]], Callable[[Site], Step]]:
    """Register the function that defines the instructions `names`; the longest name that fits is taken.

    A name is the opcode with as many leading modifiers as tell it apart: "add", "shfl.sync",
    "cp.async.wait_group". With `control` the function returns `control(bundle, split, next_block)`, which
    ends a basic block. With `gated` as well, an `.aligned` form first waits for the lanes of the warp, as
    instructions without `control` always do.
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
            )
        return define

    return register


def lookup(opcode: str, modifiers: tuple[str, ...]) -> tuple[InstructionInfo, int] | None:
    """Find the definition with the longest name that fits, and the number of modifiers in that name."""
    for used in range(len(modifiers), -1, -1):
        found = _REGISTRY.get(".".join((opcode, *modifiers[:used])))
        if found:
            return found, used
    return None


def supported_instructions() -> list[InstructionInfo]:
    """Every registered instruction, sorted by name: the rows of the coverage table."""
    return sorted(_REGISTRY.values(), key=lambda info: info.name)
