"""Lines of the source language that a PTX text was compiled from, as its `.loc` and `.file` tell.

`without_locations` takes `.loc` and `.file` out of a text and keeps what they say beside it: the text then
has the lines that it has without line information, and reports name the source all the same.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

from cutecourse.ptx.syntax import Block, FileDirective, Instruction, Loc, Module

__all__ = [
    "LineTable",
    "SourceLine",
    "SourcedText",
    "assembly_lines",
    "line_in_words",
    "source_at",
    "source_of",
    "without_locations",
]

_LOC = re.compile(
    r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:,\s*function_name\s+\S+,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?\s*"
)
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"(.*)"\s*')
_FUNCTION = re.compile(r"\s*(?:\.\w+\s+)*\.(?:entry|func)\b")
_CELL = re.compile(r"[\\/]ipykernel_\d+[\\/]\d+\.py$")
_ASSEMBLY = re.compile(r"^[ \t]*// (begin|end) inline asm[ \t]*$", re.MULTILINE)
_SUFFIXES = (".py", ".ipynb", ".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".inl")
"""Files that a report quotes a line of. A text may name any file; one that holds no program stays unread."""
_MOST_BYTES = 4 << 20
_SHOWN = 100
"""A quotation has at most this many characters."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a source file; printed as `kernel.py:42`, without the folder."""

    path: str
    """As the text has it: on the machine that compiled it."""
    line: int
    inlined_at: SourceLine | None = None
    """Where the function that the line is of was inlined."""
    sure: bool = True
    """False if the text may mean that it was inlined elsewhere."""

    def chain(self) -> list[SourceLine]:
        """This line, the one where its function was inlined, and so on to the line of the kernel itself."""
        return [self, *(self.inlined_at.chain() if self.inlined_at else ())]

    @property
    def file(self) -> str:
        """The file's name without its folders; `cell` for a cell of a notebook, whose file has a number."""
        return "cell" if _CELL.search(self.path) else re.split(r"[\\/]", self.path)[-1]

    @property
    def text(self) -> str:
        """The line itself, without indentation; empty where this machine does not have the file."""
        path = Path(self.path)
        if self.path not in linecache.cache:
            try:
                readable = path.suffix in _SUFFIXES and path.is_file() and path.stat().st_size <= _MOST_BYTES
            except (OSError, ValueError):
                readable = False
            if not readable:
                return ""
        return linecache.getline(self.path, self.line).strip()

    def quoted(self) -> list[str]:
        """The line, and the kernel's line into which it was inlined, each as `kernel.py:42: x = y[i]`."""
        inlined = self.chain()[-1].quoted() if self.inlined_at else []
        if not (text := self.text):
            return inlined
        text = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
        return [f"{self.file}:{self.line}: {text}", *inlined]

    def __str__(self) -> str:
        if self.inlined_at is None:
            return f"{self.file}:{self.line}"
        return f"{self.file}:{self.line}, {'' if self.sure else 'probably '}inlined at {self.chain()[-1]}"


@dataclass(frozen=True, eq=False)
class LineTable:
    """The source of the lines of a PTX text that has no `.loc`. Each table is equal to itself only.

    files   the source files and their numbers.
    places  for each line of the text that an instruction may stand in, its place in a source file.
    """

    files: tuple[FileDirective, ...]
    places: Mapping[int, Loc]


class SourcedText(str):
    """A PTX text with the source of its lines beside it, or with none."""

    __slots__ = ("line_table",)
    line_table: LineTable | None

    def __new__(cls, text: str, line_table: LineTable | None = None) -> Self:
        """The text as it stands, with a table for it."""
        made = super().__new__(cls, text)
        made.line_table = line_table
        return made


def without_locations(text: str) -> tuple[str, LineTable]:
    r"""Take `.loc` and `.file` out of a text, each in a line of its own, and return what they say as a table.

    The CuTe DSL's compiler also writes an empty line at the end of inline assembly, which it does not write
    without line information; that line goes as well.

    >>> plain, table = without_locations('.func f() {\n.loc 1 42 7\nret;\n}\n.file 1 "kernel.py"')
    >>> plain, table.places[2].line, table.files[0].path
    ('.func f() {\nret;\n}', 42, 'kernel.py')
    """
    lines: list[str] = []
    files: list[FileDirective] = []
    places: dict[int, Loc] = {}
    here: Loc | None = None
    inside = assembly_lines(text)
    for number, line in enumerate(text.split("\n"), start=1):
        if found := _LOC.fullmatch(line):
            if number not in inside:
                here = _place(found.groups()[:3], _place(found.groups()[3:], None) if found[4] else None)
        elif found := _FILE.fullmatch(line):
            files.append(FileDirective(len(lines) + 1, 1, int(found[1]), found[2]))
        else:
            if (number - 1 in inside and number not in inside) and not lines[-1]:
                places.pop(len(lines), None)
                lines.pop()
            here = None if _FUNCTION.match(line) else here
            lines.append(line)
            if here:
                places[len(lines)] = here
    return "\n".join(lines), LineTable(tuple(files), places)


def _place(words: Sequence[str], inlined_at: Loc | None) -> Loc:
    file, line, column = map(int, words)
    return Loc(file, line, column, inlined_at)


def assembly_lines(text: str) -> set[int]:
    """The lines of a text that stand in inline assembly, without the comments around it.

    A `.loc` there is wrong: LLVM adds the number of the line within the assembly to that of the statement.
    """
    lines: set[int] = set()
    line, position, start = 1, 0, 0
    for mark in _ASSEMBLY.finditer(text) if ".loc" in text else ():
        line += text.count("\n", position, mark.start())
        position = mark.start()
        if mark[1] == "begin":
            start = line
        elif start:
            lines.update(range(start + 1, line))
            start = 0
    return lines


def source_at(module: Module, loc: Loc | None) -> SourceLine | None:
    """The source line that a `.loc` names; None where it names none: line 0, or a file without a name."""
    if loc is None:
        return None
    outer = source_at(module, loc.inlined_at)
    path = next((file.path for file in module.files if file.number == loc.file), None)
    if path is None or loc.line == 0:
        return outer
    sure = loc.sure and (outer is None or outer.sure)
    return SourceLine(path, loc.line, outer, sure)


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
