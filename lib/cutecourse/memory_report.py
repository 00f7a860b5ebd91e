"""Count the memory transactions of a launch, instruction by instruction, from the addresses of its lanes.

Global memory moves in sectors of 32 bytes, shared memory in wavefronts: one pass over the 32 banks each.
`cutecourse.memory_access` has the rules for one instruction of one warp. This module applies them to every
access that an emulated launch has logged, and puts the sums beside the least that the same bytes need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from cutecourse.memory_access import (
    BANK_BYTES,
    BANKS,
    SECTOR_BYTES,
    Operation,
    bank_conflicts,
    copy_bank_conflicts,
    ldmatrix_bank_conflicts,
    least_sectors,
    sectors_of_atomic,
)
from cutecourse.ptx.sources import source_of
from cutecourse.ptx.syntax import Module
from cutecourse.trace import AccessLog, WarpAccesses
from cutecourse.trace.words import number

__all__ = ["MemoryReport", "MemoryRow", "memory_report"]

_LINE_BYTES = BANKS * BANK_BYTES
_UNITS = {"global": "sectors", "shared": "wavefronts"}
_COPIES = ("copy", "cached copy")


@dataclass(frozen=True)
class MemoryRow:
    """The bytes that one instruction has moved to or from one memory.

    line          the line of the PTX text; where several lines are added up, the first of them.
    instruction   its full name, such as "ld.shared.v4.f32".
    source        the source line, such as "copy.py:12", where the text has `.loc`; else None.
    space         "global" or "shared".
    kind          "load", "store" or "atomic".
    executions    how many warps executed it with at least one active lane, counted each time: the requests.
    transactions  sectors of global memory, or wavefronts of shared memory.
    least         the fewest: sectors for the same bytes if they lay one behind the other, wavefronts if no
                  two lanes wanted different words of one bank.
    passes        how an access of shared memory falls into wavefronts (`WarpAccesses.passes`).

    A cp.async has two rows: a load from global memory and a store to shared memory.
    """

    line: int
    instruction: str
    source: str | None
    space: str
    kind: str
    executions: int
    transactions: int
    least: int
    passes: str = "lanes"

    @property
    def excess(self) -> int:
        """Transactions beyond the least possible; in shared memory these are the bank conflicts."""
        return self.transactions - self.least

    @property
    def unit(self) -> str:
        """The unit of `transactions`: "sectors" or "wavefronts"."""
        return _UNITS[self.space]


@dataclass(frozen=True, repr=False)
class MemoryReport:
    """The transactions of a launch. Prints as a table; `rows` has one entry for each instruction and memory.

    rows      sorted by line.
    unseen    instructions that use memory but are not counted, and how often a warp executed them.
    log       the accesses that were counted.
    numbered  whether a row is about one line, whose number the table shows.

    Simplified: caches are left out. A load that hits in L1 counts as one that misses. ptxas may merge, move
                or drop loads and stores; the report counts what the PTX text says.
    """

    kernel: str
    rows: tuple[MemoryRow, ...]
    unseen: Mapping[str, int]
    log: AccessLog = field(compare=False)
    numbered: bool = True

    def __iter__(self) -> Iterator[MemoryRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def of(
        self,
        *,
        space: str | None = None,
        kind: str | None = None,
        line: int | None = None,
        instruction: str | None = None,
    ) -> MemoryReport:
        """The rows that all of this is true of; `instruction` is the beginning of its name."""
        kept = tuple(
            row
            for row in self.rows
            if space in (None, row.space)
            and kind in (None, row.kind)
            and line in (None, row.line)
            and (instruction is None or row.instruction.startswith(instruction))
        )
        return replace(self, rows=kept, unseen={})

    def worst(self, count: int = 5) -> MemoryReport:
        """The rows with the largest excess, `count` of them at most, in the order of their lines."""
        ordered = sorted((row for row in self.rows if row.excess), key=lambda row: (-row.excess, row.line))
        kept = set(ordered[:count])
        return replace(self, rows=tuple(row for row in self.rows if row in kept), unseen={})

    def by_instruction(self) -> MemoryReport:
        """The same counts with one row for all lines that have the same instruction, without their numbers.

        A text that a compiler wrote and one written by hand then give the same table if they access memory
        with the same instructions.
        """
        groups: dict[tuple[str, str], list[MemoryRow]] = {}
        for row in self.rows:
            groups.setdefault((row.instruction, row.space), []).append(row)
        merged = tuple(
            replace(
                rows[0],
                source=None,
                executions=sum(row.executions for row in rows),
                transactions=sum(row.transactions for row in rows),
                least=sum(row.least for row in rows),
            )
            for rows in groups.values()
        )
        return replace(self, rows=merged, numbered=False)

    @property
    def global_sectors(self) -> int:
        """The sectors of 32 bytes that global memory moves."""
        return self._sum("global", "transactions")

    @property
    def global_least(self) -> int:
        """The fewest sectors that hold the same bytes."""
        return self._sum("global", "least")

    @property
    def global_requests(self) -> int:
        """How often a warp accessed global memory."""
        return self._sum("global", "executions")

    @property
    def shared_wavefronts(self) -> int:
        """The passes over the banks that shared memory takes."""
        return self._sum("shared", "transactions")

    @property
    def shared_least(self) -> int:
        """The passes that would be left without bank conflicts."""
        return self._sum("shared", "least")

    @property
    def conflicts(self) -> int:
        """The passes over the banks that are lost to conflicts."""
        return self.shared_wavefronts - self.shared_least

    def addresses(self, line: int, space: str = "shared") -> list[list[int | None]]:
        """The addresses of every access at a line, one list of 32 lanes for each; None for an idle lane.

        They come CTA by CTA and warp by warp. Shared memory is counted from its start.
        """
        found = []
        for access in self.log:
            if access.line == line and access.space == space:
                for place, row, sizes in zip(
                    access.blocks.tolist(), access.addresses.tolist(), access.n_bytes.tolist(), strict=True
                ):
                    lanes = [a if size else None for a, size in zip(row, sizes, strict=True)]
                    found.append(((*reversed(place), access.warp), lanes))
        found.sort(key=lambda each: each[0])
        return [lanes for _, lanes in found]

    def _sum(self, space: str, name: str) -> int:
        return sum(getattr(row, name) for row in self.rows if row.space == space)

    def __str__(self) -> str:
        head: tuple[str, ...] = ("line", "instruction", "times", "transactions", "least", "excess", "source")
        table: list[tuple[str, ...]] = [
            (
                str(row.line),
                _short(f"{row.instruction} ({row.space})" if _two_sided(row) else row.instruction),
                str(row.executions),
                number(row.transactions, row.unit[:-1]),
                str(row.least),
                str(row.excess),
                row.source or "",
            )
            for row in self.rows
        ]
        if not any(cells[-1] for cells in table):
            head, table = head[:-1], [cells[:-1] for cells in table]
        if not self.numbered:
            head, table = head[1:], [cells[1:] for cells in table]
        widths = [max(len(cells[i]) for cells in (head, *table)) for i in range(len(head))]
        left = {"instruction", "source"}

        def line(cells: tuple[str, ...]) -> str:
            parts = [
                cell.ljust(width) if name in left else cell.rjust(width)
                for name, cell, width in zip(head, cells, widths, strict=True)
            ]
            return "  ".join(parts).rstrip()

        lines = [line(head), *map(line, table)] if table else []
        return "\n".join([*lines, *self.totals()])

    __repr__ = __str__

    def totals(self) -> list[str]:
        """The last lines of the table: both memories, and what is not counted."""
        lines = []
        spaces = {row.space for row in self.rows}
        if "global" in spaces:
            lines.append(f"global memory: {_beside_least(self.global_sectors, self.global_least, 'sector')}")
        if "shared" in spaces:
            told = _beside_least(self.shared_wavefronts, self.shared_least, "wavefront")
            lost = f"; bank conflicts: {self.conflicts}" if self.conflicts else ""
            lines.append(f"shared memory: {told}{lost}")
        if not spaces:
            lines.append("no accesses of global or shared memory here")
        if self.unseen:
            listed = ", ".join(f"{times} {name}" for name, times in self.unseen.items())
            lines.append(f"not counted: {listed}")
        return lines


def memory_report(
    log: AccessLog, module: Module, *, kernel: str = "", uncounted: Mapping[str, int] | None = None
) -> MemoryReport:
    """Count what a launch has logged.

    module     the PTX text, which says which source line an instruction comes from.
    uncounted  how often a warp executed instructions that use memory in other ways than lane by lane
               (`LaunchResult.uncounted`). They are listed, not counted.
    """
    sums: dict[tuple[int, str, str, str, str], list[int]] = {}
    other: Counter[str] = Counter(uncounted or {})
    for access in log:
        if access.space not in _UNITS:
            other[f"{access.name} ({_SPACES.get(access.space, access.space)})"] += len(access.addresses)
            continue
        key = (access.line, access.space, access.kind, access.name, access.passes)
        total = sums.setdefault(key, [0, 0, 0])
        for cost, least in _costs(access):
            total[0] += 1
            total[1] += cost
            total[2] += least
    rows = []
    for (line, space, kind, name, passes), (executions, transactions, least) in sorted(sums.items()):
        source = source_of(module, line)
        rows.append(
            MemoryRow(
                line,
                name,
                None if source is None else str(source),
                space,
                kind,
                executions,
                transactions,
                least,
                passes,
            )
        )
    return MemoryReport(kernel, tuple(rows), dict(sorted(other.items())), log)


_SPACES = {
    "const": "constant memory",
    "local": "local memory",
    "param": "parameters",
    "remote": "another CTA's shared memory",
}


def _costs(access: WarpAccesses) -> Iterable[tuple[int, int]]:
    """(transactions, least) of each warp."""
    if access.sources is not None:
        yield from _copy_costs(access)
        return
    operation = "matrix" if access.passes == "rows" else access.kind
    # A shift by a whole sector, or by a whole line of the banks, changes nothing.
    unit = SECTOR_BYTES if access.space == "global" else _LINE_BYTES
    active = access.n_bytes != 0
    first = np.where(active, access.addresses, np.iinfo(np.int64).max).min(axis=1) // unit * unit
    moved = np.where(active, access.addresses - first[:, None], 0)
    for addresses, sizes in zip(moved, access.n_bytes, strict=True):
        yield _cost(access.space, operation, addresses.tobytes(), sizes.tobytes())


def _copy_costs(access: WarpAccesses) -> Iterable[tuple[int, int]]:
    """(wavefronts, least) of a copy's store to shared memory, for each warp."""
    assert access.sources is not None
    active = access.n_bytes != 0
    moved = []
    for places in (access.addresses, access.sources):
        first = np.where(active, places, np.iinfo(np.int64).max).min(axis=1) // _LINE_BYTES * _LINE_BYTES
        moved.append(np.where(active, places - first[:, None], -1))
    for to, source, sizes in zip(*moved, access.n_bytes, strict=True):
        yield _copy_cost(source.tobytes(), to.tobytes(), int(sizes.max()), access.passes == "cached copy")


@lru_cache(maxsize=1 << 14)
def _copy_cost(sources: bytes, destinations: bytes, size: int, cached: bool) -> tuple[int, int]:
    source, to = (
        [place if place >= 0 else None for place in np.frombuffer(places, dtype=np.int64).tolist()]
        for places in (sources, destinations)
    )
    found = copy_bank_conflicts(source, to, size, cached=cached)
    return found.wavefronts, found.ideal


@lru_cache(maxsize=1 << 14)
def _cost(space: str, operation: str, addresses: bytes, sizes: bytes) -> tuple[int, int]:
    places: NDArray[np.int64] = np.frombuffer(addresses, dtype=np.int64)
    size = max(sizes)
    lanes = [int(place) if some else None for place, some in zip(places, sizes, strict=True)]
    if space == "global" and operation == "atomic":
        return sectors_of_atomic(lanes, size), least_sectors(lanes, size)
    if space == "global":
        return _global_cost(places.tolist(), list(sizes))
    if operation == "matrix":
        found = ldmatrix_bank_conflicts([lane for lane in lanes if lane is not None])
    else:
        found = bank_conflicts(lanes, size, cast(Operation, operation))
    return found.wavefronts, found.ideal


def _global_cost(places: list[int], sizes: list[int]) -> tuple[int, int]:
    """Lanes may differ in size: a cp.async with src-size reads only so many bytes."""
    held = {byte for place, size in zip(places, sizes, strict=True) for byte in range(place, place + size)}
    return len({byte // SECTOR_BYTES for byte in held}), -(-len(held) // SECTOR_BYTES)


def _beside_least(count: int, least: int, what: str) -> str:
    """A sum in words.

    >>> _beside_least(8, 4, "sector"), _beside_least(4, 4, "sector")
    ('8 sectors, at least 4 needed', '4 sectors, the least possible')
    """
    beside = "the least possible" if count == least else f"at least {least} needed"
    return f"{number(count, what)}, {beside}"


def _two_sided(row: MemoryRow) -> bool:
    return row.passes in _COPIES


def _short(name: str) -> str:
    return name if len(name) <= 44 else name[:41] + "..."
