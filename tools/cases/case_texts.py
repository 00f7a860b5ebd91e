"""Where the texts of the PTX cases come from: files of their own, rows of tables, and wgmma's own list.

    FAMILY/NAME.ptx       one case, written out
    FAMILY/table.txt      cases that share a text: a row is a case, a column fills a placeholder
    templates/NAME.ptx    such a text, with placeholders: ${instruction}

`wgmma_cases` lists the cases of wgmma, whose texts a function writes. A table has one section a template:

    # the texts are those of templates/binary.ptx
    [binary]
    target = sm_80
    name     instruction  bits  expect
    add_s32  add.s32      32    wrap(lambda x, y: x + y, "i4", a, b)

`target = sm_80` is a column with one value for all rows of the section. Two spaces or more separate the
cells, so a cell has single spaces only. A line of the template is left out if its placeholder's value is `-`.
`${bytes}` is an eighth of the column `bits`, and likewise `${a_bytes}` of `a_bits`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from string import Template

from tools.cases import wgmma_cases
from tools.paths import ROOT, relative

__all__ = ["FOLDER", "TABLE", "CaseError", "CaseText", "case_texts", "hint"]

FOLDER = ROOT / "tests" / "emulator" / "cases"
TEMPLATES = "templates"
TABLE = "table.txt"
LEFT_OUT = "-"

_SECTION = re.compile(r"\[(\w+)\]")
_SHARED = re.compile(r"(\w+) = (.+)")
_GAP = re.compile(r" {2,}")
_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")


class CaseError(Exception):
    """A case, or a table of cases, cannot be read."""


@dataclass(frozen=True)
class CaseText:
    """One case's name, where it is written down, and what makes its text."""

    name: str
    place: str
    """A file, and for a row of a table its line: for messages."""
    write: Callable[[], str]


def case_texts(folder: Path = FOLDER) -> dict[str, CaseText]:
    """All cases of a folder by name, in a fixed order; no text is made yet.

    Errors: CaseError if a table cannot be read or two cases have one name.
    """
    found: dict[str, CaseText] = {}
    for case in _all(folder):
        if case.name in found:
            raise CaseError(f"two cases are called {case.name}: {found[case.name].place} and {case.place}")
        found[case.name] = case
    return dict(sorted(found.items()))


def hint(name: str) -> str:
    """How to see a case's text: the end of a message about it."""
    return f"`python -m tools.cases {name}` prints the case."


def _all(folder: Path) -> Iterator[CaseText]:
    base = relative(folder)
    for path in folder.glob("*/*.ptx"):
        if path.parent.name != TEMPLATES:
            name = f"{path.parent.name}/{path.stem}"
            yield CaseText(name, f"{base}/{name}.ptx", partial(_read, path))
    for path in folder.glob(f"*/{TABLE}"):
        yield from _rows(path)
    if folder == FOLDER:
        place = relative(Path(wgmma_cases.__file__))
        for case in wgmma_cases.CASES:
            yield CaseText(case.name, place, case.text)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _rows(table: Path) -> Iterator[CaseText]:
    """The cases of one table."""
    template, shared, columns = None, dict[str, str](), list[str]()
    file = relative(table)
    for number, line in enumerate(_read(table).splitlines(), 1):
        place = f"{file}, line {number}"
        if not line.strip() or line.startswith("#"):
            continue
        if section := _SECTION.fullmatch(line):
            template, shared, columns = table.parent.parent / TEMPLATES / f"{section[1]}.ptx", {}, []
        elif template is None:
            raise CaseError(f"{place}: a table begins with a template's name in brackets: [binary]")
        elif not columns and (value := _SHARED.fullmatch(line)):
            shared[value[1]] = value[2]
        elif not columns:
            columns = _GAP.split(line)
            if columns[0] != "name":
                raise CaseError(f"{place}: the first column has to be 'name', not {columns[0]!r}")
        else:
            cells = _GAP.split(line.rstrip())
            if len(cells) != len(columns):
                raise CaseError(
                    f"{place}: {len(cells)} cells for the {len(columns)} columns {', '.join(columns)}; two"
                    " spaces or more separate cells"
                )
            row = dict(zip(columns[1:], cells[1:], strict=True))
            name = f"{table.parent.name}/{cells[0]}"
            yield CaseText(name, place, partial(_fill, template, {**shared, **row}, place))


@cache
def _placeholders(path: Path) -> frozenset[str]:
    """A template's placeholders. Errors: CaseError."""
    if not path.exists():
        raise CaseError(f"there is no template {relative(path)}")
    return frozenset(_PLACEHOLDER.findall(_read(path)))


@cache
def _without(path: Path, left_out: tuple[str, ...]) -> Template:
    """A template without the lines that have one of these placeholders."""
    lines = _read(path).splitlines(keepends=True)
    return Template("".join(line for line in lines if not {*_PLACEHOLDER.findall(line)} & {*left_out}))


def _fill(path: Path, row: dict[str, str], place: str) -> str:
    """A template's text with a row's values."""
    placeholders = _placeholders(path)
    values = dict(row)
    for column, value in row.items():
        in_bytes = column.removesuffix("bits") + "bytes"
        if column.endswith("bits") and value.isdigit() and in_bytes in placeholders:
            values.setdefault(in_bytes, str(int(value) // 8))
        elif column not in placeholders:
            raise CaseError(f"{place}: {relative(path)} has no placeholder {column}")
    if missing := placeholders - values.keys():
        raise CaseError(f"{place}: no column gives {', '.join(sorted(missing))} of {relative(path)}")
    left_out = tuple(column for column, value in row.items() if value == LEFT_OUT)
    return _without(path, left_out).substitute(values)
