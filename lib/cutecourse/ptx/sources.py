"""Lines of the source language that a PTX text was compiled from, as its `.loc` and `.file` tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from cutecourse.ptx.syntax import Block, Instruction, Loc, Module

__all__ = ["SourceLine", "line_in_words", "source_at", "source_of"]


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a source file; printed as `kernel.py:42`, without the folder."""

    path: str
    """As the text has it: on the machine that compiled it."""
    line: int
    inlined_at: SourceLine | None = None
    """Where the function that the line is of was inlined."""

    @property
    def file(self) -> str:
        """The file's name without its folders."""
        return re.split(r"[\\/]", self.path)[-1]

    def __str__(self) -> str:
        inlined = f", inlined at {self.inlined_at}" if self.inlined_at else ""
        return f"{self.file}:{self.line}{inlined}"


def source_at(module: Module, loc: Loc | None) -> SourceLine | None:
    """The source line that a `.loc` names; None where it names none: line 0, or a file without a name."""
    if loc is None:
        return None
    outer = source_at(module, loc.inlined_at)
    path = next((file.path for file in module.files if file.number == loc.file), None)
    if path is None or loc.line == 0:
        return outer
    return SourceLine(path, loc.line, outer)


def source_of(module: Module, line: int | None) -> SourceLine | None:
    """The source line of the instruction at a line of the PTX text."""
    if line is None or not module.files:
        return None
    return source_at(module, _locations(module).get(line))


def line_in_words(module: Module, line: int | None) -> str:
    """A line of the PTX text with its source line where that is known: `151 (kernel.py:42)`."""
    source = source_of(module, line)
    return str(line) if source is None else f"{line} ({source})"


@lru_cache(maxsize=16)
def _locations(module: Module) -> dict[int, Loc | None]:
    """The `.loc` of the first instruction in each line of a text."""
    found: dict[int, Loc | None] = {}
    for instruction in _instructions(module):
        found.setdefault(instruction.line, instruction.loc)
    return found


def _instructions(module: Module) -> Iterator[Instruction]:
    blocks = [function.body for function in module.functions if function.body]
    while blocks:
        for statement in blocks.pop().statements:
            if isinstance(statement, Block):
                blocks.append(statement)
            elif isinstance(statement, Instruction):
                yield statement
