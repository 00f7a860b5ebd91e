"""Tensor memory as the widget draws it: accumulators by CuTe's layouts, columns allocated, loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from cutecourse.errors import CourseError
from cutecourse.umma import (
    TMEM_COLUMNS,
    TMEM_LANES,
    FragmentTrace,
    TmemAllocator,
    UmmaError,
    allocator1sm,
    allocator2sm,
    make_fragment_C,
    make_tiled_mma,
    place_of,
)
from cutecourse.widgets.errors import WidgetError

__all__ = [
    "LOADS",
    "SHAPES",
    "Accumulator",
    "ColumnRequest",
    "accumulator",
    "allocate",
    "allocator_of",
    "free",
    "load_of",
    "shapes_snapshot",
    "smallest_of",
]

OPERATIONS = {1: "SM100_MMA_F16BF16_SS", 2: "SM100_MMA_F16BF16_2x1SM_SS"}
SHAPES = ((1, 64), (1, 128), (2, 64), (2, 128), (2, 256))
"""(CTAs of an MMA, M): those that CuTe has a layout of the accumulator for."""
LOADS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Columns that one tcgen05.ld 32x32b reads: .x1 to .x128."""
_WARP_LANES = 32


# ---- accumulators ----


@dataclass(frozen=True)
class Accumulator:
    """Where C (m x n) of an MMA of `cta_group` CTAs lies, counted from the accumulator's first column.

    CTA v has the rows from `v * m / cta_group` on; the place in its tensor memory is CuTe's layout's.
    """

    m: int
    n: int
    cta_group: int
    fragment: FragmentTrace

    @property
    def rows(self) -> int:
        """Rows of C in each CTA."""
        return self.m // self.cta_group

    @property
    def columns(self) -> int:
        """Columns that it takes."""
        return self.fragment.columns

    def place(self, row: int, column: int) -> tuple[int, int, int]:
        """(CTA, lane, column) of C[row, column].

        >>> accumulator(128, 256, 2).place(70, 130)
        (1, 70, 2)
        """
        cta, inside = divmod(row, self.rows)
        by_row, by_column = _offsets(self)
        place = place_of(by_row[inside] + by_column[column], self.fragment.value_type)
        return cta, place.lane, place.column

    def element(self, cta: int, lane: int, column: int) -> tuple[int, int] | None:
        """C's (row, column) that lies there; None where none does."""
        found = _elements(self).get((lane, column))
        return None if found is None else (cta * self.rows + found[0], found[1])


@cache
def _offsets(of: Accumulator) -> tuple[list[int], list[int]]:
    """The layout of each row and of each column: a layout's value is the sum of its modes'."""
    layout = of.fragment.layout
    rows = [int(layout((row, 0), 0, 0)) for row in range(of.rows)]
    return rows, [int(layout((0, column), 0, 0)) for column in range(of.n)]


@cache
def _elements(of: Accumulator) -> dict[tuple[int, int], tuple[int, int]]:
    return {of.place(row, column)[1:]: (row, column) for row in range(of.rows) for column in range(of.n)}


@cache
def accumulator(m: int, n: int, cta_group: int) -> Accumulator:
    """The accumulator of one MMA.

    Errors: WidgetError, for shapes without a layout, and N that the instruction does not take.
    """
    known = _shapes().get((cta_group, m))
    if known is None:
        groups = ", ".join(f"M = {m} of cta_group {group}" for group, m in SHAPES)
        raise WidgetError(f"M = {m} with cta_group {cta_group} has no accumulator; there are {groups}.")
    if n not in known:
        raise WidgetError(f"N = {n}: with M = {m} and cta_group {cta_group} N is {_steps(list(known))}.")
    return known[n]


def _steps(ns: Sequence[int]) -> str:
    return f"{ns[0]} to {ns[-1]} in steps of {ns[1] - ns[0]}"


@cache
def _shapes() -> dict[tuple[int, int], dict[int, Accumulator]]:
    """Accumulators by (cta_group, M) and N: what `make_tiled_mma` takes and `make_fragment_C` lays out."""
    found: dict[tuple[int, int], dict[int, Accumulator]] = {}
    for group, m in SHAPES:
        taken = {n for n in range(8, 257, 8) if _takes(group, m, n)}
        for n in range(8, 257, 8):
            if taken and n not in taken:
                continue
            try:
                fragment = make_fragment_C(((m // group, n), 1, 1), "f32", group)
            except UmmaError:
                continue
            found.setdefault((group, m), {})[n] = Accumulator(m, n, group, fragment)
    return found


def _takes(group: int, m: int, n: int) -> bool:
    try:
        make_tiled_mma(OPERATIONS[group], "f16", "f16", "f32", m, n)
    except CourseError:
        return False
    return True


def shapes_snapshot() -> dict[str, dict[str, Any]]:
    """Every layout as plain JSON: `{"2,128": {"operation": "...", "layouts": {"256": "((64,(128,2)),..."}}}`.

    `operation` is the library's for this shape, "" where it has none and only the layout is known.
    """
    return {
        f"{group},{m}": {
            "operation": OPERATIONS[group] if _takes(group, m, max(known)) else "",
            "layouts": {str(n): str(one.fragment.layout) for n, one in known.items()},
        }
        for (group, m), known in _shapes().items()
    }


def load_of(column: int, repetitions: int) -> tuple[int, int]:
    """Which load reads a column of the accumulator and which register it fills, with .x`repetitions` each.

    >>> load_of(70, 32)
    (2, 6)
    """
    return divmod(column, repetitions)


# ---- allocation ----


@dataclass(frozen=True)
class ColumnRequest:
    """Columns that a warp asked for: `state` is "placed" from `column` on, "waits" or "refused" (-1).

    `why` says which rule refuses.
    """

    name: str
    columns: int
    column: int = -1
    state: str = "refused"
    why: str = ""

    def to_snapshot(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def allocator_of(cta_group: int) -> TmemAllocator:
    """CUTLASS's allocator for one CTA or a pair."""
    return allocator1sm if cta_group == 1 else allocator2sm


def _settle(held: Iterable[ColumnRequest]) -> list[ColumnRequest]:
    """Give columns to those that wait, in their order; one that has to wait holds up those behind it."""
    held = list(held)
    for at, one in enumerate(held):
        if one.state != "waits":
            continue
        column = _first_fit(held, one.columns)
        if column is None:
            break
        held[at] = replace(one, column=column, state="placed")
    return held


def _first_fit(held: Iterable[ColumnRequest], columns: int) -> int | None:
    """The lowest column from which so many are free. The hardware's order is not documented."""
    places = [one for one in held if one.state == "placed"]
    step = allocator1sm.columns_per_allocation_slice
    for start in range(0, TMEM_COLUMNS - columns + 1, step):
        if all(start + columns <= one.column or start >= one.column + one.columns for one in places):
            return start
    return None


def smallest_of(held: Iterable[ColumnRequest], smallest: int = TMEM_COLUMNS) -> int:
    """The fewest columns that were given at a time; `smallest` is what it was before these."""
    return min([smallest, *(one.columns for one in held if one.state == "placed")])


def allocate(
    held: Iterable[ColumnRequest], name: str, columns: int, cta_group: int, smallest: int = TMEM_COLUMNS
) -> list[ColumnRequest]:
    """Ask for columns: placed, waiting while they are not free, or refused by a rule, which is named.

    `smallest` is the fewest columns that the CTA was given before, also if it has freed them.
    Source: the allocator's rule is CUTLASS's (`TmemAllocator.check`); that later allocations must not be
            larger is PTX ISA 9.0's, tcgen05.alloc.
    """
    held = list(held)
    allocator, least = allocator_of(cta_group), smallest_of(held, smallest)
    why = ""
    try:
        allocator.check(columns)
    except UmmaError:
        why = (
            f"{columns} is no power of two from {allocator.columns_per_allocation_slice} to "
            f"{allocator.capacity_columns}"
        )
    else:
        if columns > least:
            why = f"{columns} columns after an allocation of {least}: later ones of a CTA must not be larger"
    if why:
        return [*held, ColumnRequest(name, columns, why=why)]
    return _settle([*held, ColumnRequest(name, columns, state="waits")])


def free(held: Iterable[ColumnRequest], name: str) -> list[ColumnRequest]:
    """Give columns back; who waits for some may get them now. What is allocated never moves."""
    return _settle(one for one in held if one.name != name)


def requests(given: Any, needed: int, cta_group: int) -> list[tuple[str, int]]:
    """Named requests, as a caller writes them: a mapping, pairs, or numbers of columns; by default one.

    Errors: WidgetError, for what is no request, and two of one name.
    """
    if isinstance(given, Mapping):
        pairs: list[tuple[Any, ...]] = list(given.items())
    elif isinstance(given, Sequence) and not isinstance(given, str):
        pairs = [
            tuple(one) if isinstance(one, (tuple, list)) else (f"allocation {index}", one)
            for index, one in enumerate(given)
        ]
    else:
        raise WidgetError(f"{given!r} are no allocations; write {{'accumulator': 256}} or [256, 128].")
    if not pairs:
        return [("accumulator", allocator_of(cta_group).columns_for(needed))]
    for one in pairs:
        whole = len(one) == 2 and isinstance(one[1], int) and not isinstance(one[1], bool)
        if not whole or one[1] < 1 or not str(one[0]).strip():
            raise WidgetError(f"{one!r} is no allocation; write a name and a number of columns.")
    named = [(str(name).strip(), columns) for name, columns in pairs]
    if len({name for name, _ in named}) < len(named):
        raise WidgetError("Two allocations have one name; give each its own.")
    return named


def warps_reach(lane: int) -> int:
    """Which warps load a lane: those whose number is this, modulo 4."""
    if not 0 <= lane < TMEM_LANES:
        raise WidgetError(f"There is no lane {lane}; tensor memory has {TMEM_LANES}.")
    return lane // _WARP_LANES
