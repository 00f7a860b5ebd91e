"""What a rule is, and the mutants that it makes of a kernel.

A mutant is the kernel with one mistake: some statements of its PTX changed, or a field of a tensor map that
the host makes. No line moves, so that a report's line is that of the kernel's own text.

An operand is changed by a register of the statement's own: `op %r1;` becomes
`{ .reg .b32 mutant; add.u32 mutant, %r1, 16; op mutant; }`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cutecourse.kernels import LaunchSpec, TensorMapSpec

Place = re.Match[str]


@dataclass(frozen=True)
class Kernel:
    """A right kernel as the rules see it: its text, and how it is launched where that is known."""

    text: str
    spec: LaunchSpec | None = None
    along_k: Mapping[str, int] = field(default_factory=dict)
    """The coordinate along K of each operand of an MMA, by its map, where it is not the same in all."""

    @cached_property
    def code(self) -> str:
        """The text with blanks for its comments."""
        return re.sub(r"//[^\n]*", lambda comment: " " * len(comment[0]), self.text)

    @property
    def maps(self) -> tuple[TensorMapSpec, ...]:
        """The launch's tensor maps."""
        return (
            tuple(param for param in self.spec.params if isinstance(param, TensorMapSpec))
            if self.spec
            else ()
        )

    @property
    def warps(self) -> int | None:
        """Warps of a CTA, where the launch is known."""
        if self.spec is None:
            return None
        x, y, z = self.spec.block
        return -(-x * y * z // 32)


@dataclass(frozen=True)
class Change:
    """One mistake: what is put in place of which parts of the text, and which arguments become others."""

    edits: tuple[tuple[int, int, str], ...] = ()
    """Where a part starts and ends, and what stands there instead."""
    maps: Mapping[str, Any] = field(default_factory=dict)
    """A tensor map's other fields, or the name of an array's other element type, by the parameter's name."""
    before: str = ""
    """What is changed, in words, where it is no part of the text."""
    after: str = ""
    excluded: str | None = None
    """Why the kernel means the same with it, or why it is none that could run."""
    beyond: str | None = None
    """Why no report can name it: the kernel with it is a right kernel of something else."""


Find = Callable[[Kernel], Iterator[Change]]


@dataclass(frozen=True)
class Rule:
    """One mistake that a person makes: where it can be made, and the reports that name it.

    `right` are names of the emulator's error classes, or of notes that have no class; a class stands for
    its subclasses. `why` says in words why these, and no others, name the mistake.
    """

    name: str
    about: str
    right: frozenset[str]
    why: str
    find: Find


@dataclass(frozen=True)
class Mutant:
    """A kernel with one mistake. `line` counts from 1, and is 0 for an argument; see `Change`."""

    rule: Rule
    line: int
    before: str
    after: str
    text: str
    maps: Mapping[str, Any]
    excluded: str | None
    beyond: str | None


def mutants_of(kernel: Kernel, rules: tuple[Rule, ...]) -> Iterator[Mutant]:
    """Every rule at every place of a kernel, in the order of the rules and of the text."""
    for rule in rules:
        for change in rule.find(kernel):
            yield made(rule, kernel, change)


def made(rule: Rule, kernel: Kernel, change: Change) -> Mutant:
    """The mutant that a change of a kernel is."""
    text, line = kernel.text, 0
    edits = sorted(change.edits)
    for start, end, after in reversed(edits):
        kept = text[start:end].count("\n")
        text = text[:start] + " ".join(after.split()) + "\n" * kept + text[end:]
    if edits:
        line = kernel.text.count("\n", 0, edits[0][0]) + 1
    before = change.before or "; ".join(" ".join(kernel.code[start:end].split()) for start, end, _ in edits)
    after = change.after or "; ".join(" ".join(text.split()) for _, _, text in edits)
    return Mutant(rule, line, before, after, text, change.maps, change.excluded, change.beyond)


# --- changes of one statement -------------------------------------------------------------------------------

Write = Callable[[Place], str]
Why = Callable[[Kernel, Place], str | None]


def never(kernel: Kernel, place: Place) -> str | None:
    """Of a change that is a mistake wherever it is made."""
    return None


def at(pattern: str, write: Write, excluded: Why = never, beyond: Why = never) -> Find:
    """A change of each statement that a pattern finds."""

    def find(kernel: Kernel) -> Iterator[Change]:
        for place in re.finditer(pattern, kernel.code):
            yield Change(
                ((place.start(), place.end(), write(place)),),
                excluded=excluded(kernel, place),
                beyond=beyond(kernel, place),
            )

    return find


def dropped(place: Place) -> str:
    """Nothing in the statement's place."""
    return ""


def twice(place: Place) -> str:
    """The statement and once more the same."""
    return f"{place[0]} {place[0]}"


def replaced(place: Place, name: str, text: str) -> str:
    """The statement with a text in an operand's place."""
    start, end = (found - place.start() for found in place.span(name))
    return place[0][:start] + text + place[0][end:]


def instead(name: str, text: Callable[[Place], str]) -> Write:
    """Another text in an operand's place."""
    return lambda place: replaced(place, name, text(place))


def operand(name: str, bits: int, *steps: str) -> Write:
    """The operand by a register of `bits` bits that the steps make of it: `{0}` is the operand."""

    def write(place: Place) -> str:
        made = " ".join(f"{step.format(place[name])};" for step in steps)
        return f"{{ .reg .b{bits} mutant; {made} {replaced(place, name, 'mutant')} }}"

    return write


def moved(name: str, offset: int) -> Write:
    """An address some bytes further on."""
    return instead(name, lambda place: further(place[name], offset))


def the_other(mine: str, other: str) -> Write:
    """One operand in another's place."""
    return instead(mine, lambda place: place[other])


def counted(name: str, step: int) -> Write:
    """A number of the statement, so much larger."""
    return instead(name, lambda place: str(int(place[name]) + step))


def further(address: str, offset: int) -> str:
    """An address expression, `%r1`, `name` or `%r1+8`, plus an offset.

    >>> further("%r1 + 8", 16), further("stage", -16)
    ('%r1+24', 'stage+-16')
    """
    base, _, constant = address.replace(" ", "").partition("+")
    return f"{base}+{int(constant or '0', 0) + offset}"


def first_of(*reasons: Why) -> Why:
    """The first reason that holds."""

    def why(kernel: Kernel, place: Place) -> str | None:
        return next((found for reason in reasons if (found := reason(kernel, place))), None)

    return why
