"""Tensor memory: 128 lanes by 512 columns of 32 bits for each CTA, and the allocations of columns.

An address holds a lane in its upper and a column in its lower 16 bits. Every access is checked against the
allocations, and against asynchronous operations that have not yet read or written there.

Source: PTX ISA 9.0, Tensor Memory (#tensor-memory), Tensor Memory Addressing and Allocation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Cohort, Split
from cutecourse.emulator.core.kinds import all_true
from cutecourse.emulator.core.memory import POISON
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.waits import Held
from cutecourse.emulator.errors import (
    EmulatorError,
    TensorMemoryAllocationError,
    TensorMemoryFreed,
    TensorMemoryOutside,
)
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.tensor_memory_order import Clock, Order

__all__ = [
    "COLUMNS",
    "LANES",
    "LANE_SHIFT",
    "SMALLEST",
    "ColumnAllocation",
    "Moving",
    "TensorMemories",
    "TensorMemory",
    "Ticket",
    "split_address",
]

LANES, COLUMNS = 128, 512
LANE_SHIFT = 16
SMALLEST = 32
_POISON = np.uint32(int.from_bytes(bytes([POISON] * 4), "little"))


def split_address(address: int) -> tuple[int, int]:
    """(lane, column) of an address.

    >>> split_address(0x0020_0004)
    (32, 4)
    """
    return address >> LANE_SHIFT, address & ((1 << LANE_SHIFT) - 1)


@dataclass(frozen=True, slots=True)
class ColumnAllocation:
    """Columns that a CTA has allocated."""

    start: int
    columns: int
    origin: Origin


@dataclass(eq=False, slots=True)
class Moving:
    """An asynchronous operation that has not yet read or written a region."""

    origin: Origin
    region: Region
    writes: bool
    remedy: str
    """The event for which a program must wait before it touches the region."""
    pipeline: str = ""
    """"mma" or "cp" for an operation that runs in order with others of its pipeline."""


def _overtaken(what: str, region: Region, moving: Moving, *, same: bool) -> str:
    other = "" if same or moving.pipeline == "cp" else " as another accumulator"
    name, line = moving.origin.site.instruction.name, moving.origin.site.in_words
    return (
        f"{what} uses {region}, which the {name} of line {line} has not"
        f" {f'written{other}' if moving.writes else 'read'} yet"
    )


class TensorMemory:
    """The tensor memory of one CTA.

    `cells` and `written` have shape (128, 512); cells that nobody has written hold poison.
    """

    def __init__(self, clock: Clock) -> None:
        self.order = Order(clock, COLUMNS)
        self.cells: NDArray[np.uint32] = np.full((LANES, COLUMNS), _POISON, dtype=np.uint32)
        self.written: NDArray[np.bool_] = np.zeros((LANES, COLUMNS), dtype=np.bool_)
        self.full: set[Region] = set()
        """Regions whose cells are all known to be written, so that they are not checked again."""
        self.taken: NDArray[np.bool_] = np.zeros(COLUMNS, dtype=np.bool_)
        self._held: set[Region] = set()
        """Regions whose columns are all known to be allocated."""
        self.allocations: dict[int, ColumnAllocation] = {}
        self.freed: dict[int, Origin] = {}
        """The thread that freed each column, for columns that are not allocated again."""
        self.moving: list[Moving] = []
        """The asynchronous operations that are under way."""
        self.allocator: Origin | None = None
        """The warp that has asked for columns last."""
        self.smallest_so_far = COLUMNS
        self.relinquished: int | None = None
        """The line at which the CTA gave up its right to allocate."""

    # --- allocation -----------------------------------------------------------------------------------------

    def take(self, start: int, columns: int, origin: Origin) -> None:
        """Allocate columns that are free; they hold poison."""
        self.allocations[start] = ColumnAllocation(start, columns, origin)
        self.taken[start : start + columns] = True
        for column in range(start, start + columns) if self.freed else ():
            self.freed.pop(column, None)
        self._forget(start, columns)
        self.smallest_so_far = columns

    def give_back(self, start: int, origin: Origin) -> None:
        """Free an allocation."""
        found = self.allocations.pop(start)
        self.freed |= dict.fromkeys(range(start, start + found.columns), origin)
        self.taken[start : start + found.columns] = False
        for tell in origin.bundle.cohort.listeners.tensor_freed:
            tell(self, start, found.columns, origin)
        self._forget(start, found.columns)

    def _forget(self, start: int, columns: int) -> None:
        written = self.written[:, start : start + columns]
        if written.any():
            self.cells[:, start : start + columns] = _POISON
            written[...] = False
        self.full.clear()
        self._held.clear()
        self.order.forget(start, columns)

    def check_allocated(self, region: Region, what: str, origin: Origin) -> None:
        """Refuse columns that do not exist or are not allocated.

        Errors: TensorMemoryOutside, TensorMemoryFreed.
        """
        if region in self._held:
            return
        if region.stop > COLUMNS:
            raise origin.error(
                TensorMemoryOutside,
                f"{what} uses {region}, but tensor memory has only {LANES} lanes and {COLUMNS} columns",
            )
        taken = self.taken[region.first : region.stop]
        if not all_true(taken):
            column = region.first + int(np.argmin(taken))
            held = ", ".join(
                f"{a.start}..{a.start + a.columns - 1}"
                for a in sorted(self.allocations.values(), key=lambda a: a.start)
            )
            before = ""
            kind: type[EmulatorError] = TensorMemoryOutside
            if (freed := self.freed.get(column)) is not None:
                kind = TensorMemoryFreed
                block, warp, _ = freed.bundle.where(freed.lane)
                before = (
                    f"; column {column} was freed at line {freed.site.in_words} by block {block} warp {warp}"
                )
            raise origin.error(
                kind,
                f"{what} uses {region}, but column {column} is not allocated"
                f" (allocated: {held or 'no columns'}{before})",
            )
        if len(self._held) < COLUMNS:
            self._held.add(region)

    # --- access ---------------------------------------------------------------------------------------------

    def check_quiet(
        self,
        region: Region,
        what: str,
        origin: Origin,
        *,
        writes: bool,
        pipeline: str = "",
        frees: bool = False,
    ) -> None:
        """Refuse a region that an asynchronous operation has not yet written or, for a write, not yet read.

        `pipeline` is "mma" or "cp" for an access that runs in order with the operations of both pipelines.
        The document promises only some of these orders, and none for a tcgen05.cp. A note records an order
        that it does not promise, and a missing fence or wait that it asks for; freeing needs no fence.

        Errors: TensorMemoryWriteUnderWay, TensorMemoryReadUnderWay, TensorMemoryLoadUnderWay.
        """
        for moving in self.moving:
            if not (writes or moving.writes) or not moving.region.meets(region):
                continue
            site = moving.origin.site
            if pipeline and moving.pipeline:
                same = writes and moving.writes and moving.region.same(region)
                if pipeline == "cp" or (moving.pipeline == "mma" and not same):
                    words = partial(_overtaken, what, region, moving, same=same)
                    report("order not promised", words, origin, site.line)
                continue
            report(
                "read before written" if moving.writes else "written before read",
                f"{what} uses {region}, which the {site.instruction.name} of line {site.in_words} has not"
                f" {'written' if moving.writes else 'read'} yet. {moving.remedy}",
                origin,
                site.line,
            )
        if writes and self.order.loads:
            self.order.check_loads(region, what, origin)
        if frees:
            return
        for tell in origin.bundle.cohort.listeners.tensor_used:
            tell(self, region, what, origin, writes=writes, pipeline=pipeline)
        self.order.check_fences(region, what, origin, writes=writes, pipelined=bool(pipeline))

    def end(self, moving: Moving) -> None:
        """Note that an asynchronous operation has read or written its region."""
        self.moving.remove(moving)
        if moving.writes:
            self.order.written(moving.region, moving.origin, pipelined=bool(moving.pipeline))
        if not moving.pipeline:
            for tell in moving.origin.bundle.cohort.listeners.tensor_store_over:
                tell(self, moving.region, moving.origin)


@dataclass(eq=False)
class Ticket(Held):
    """A warp's request that cannot be answered yet: why its lanes wait, and how they go on."""

    origin: Origin
    columns: int
    group: int
    answer: Callable[[int], None]
    """Called with the first column when the request is granted."""
    following: int
    start: int | None = None
    """The columns to free; None for an allocation."""
    split: Split | None = None

    @property
    def line(self) -> int:
        """The line of the alloc or dealloc."""
        return self.origin.site.line

    @property
    def cluster(self) -> int:
        """The cluster's position in its cohort."""
        return self.origin.cluster

    @property
    def rank(self) -> int:
        """The CTA's rank in its cluster."""
        return self.origin.bundle.rank

    @property
    def ranks(self) -> range:
        """The CTAs that the request concerns."""
        first = self.rank // self.group * self.group
        return range(first, first + self.group)

    def describe(self, warp: int) -> str:
        """Why the lanes wait."""
        return self.origin.bundle.cohort.own(TensorMemories).why(self)


class TensorMemories:
    """The tensor memory of every CTA of a cohort, made when first used, and the requests that wait."""

    def __init__(self, cohort: Cohort) -> None:
        self.clock = Clock()
        self._memories: dict[tuple[int, int], TensorMemory] = {}
        self.tickets: list[Ticket] = []

    def __getitem__(self, place: tuple[int, int]) -> TensorMemory:
        """The memory of the CTA (cluster's position, rank)."""
        found = self._memories.get(place)
        if found is None:
            found = self._memories[place] = TensorMemory(self.clock)
        return found

    def used(self, cluster: int, rank: int) -> TensorMemory | None:
        """The memory of a CTA that has used any."""
        return self._memories.get((cluster, rank))

    # --- requests -------------------------------------------------------------------------------------------

    def ask(self, ticket: Ticket) -> None:
        """Enter a request, and grant what can be granted."""
        self.tickets.append(ticket)
        self._settle(ticket.cluster, ticket.ranks)

    def _settle(self, cluster: int, ranks: range) -> None:
        """Grant some CTAs' requests in the order in which they came, while one can be granted."""
        for ticket in [t for t in self.tickets if t.cluster == cluster and t.rank in ranks]:
            partners = self._partners(ticket)
            if partners is None:
                continue
            memories = [self[cluster, rank] for rank in ticket.ranks]
            start = ticket.start
            if start is not None:
                for memory in memories:
                    memory.give_back(start, ticket.origin)
            else:
                start = self._first_fit(memories, ticket.columns)
                if start is None:
                    continue
                for memory, partner in zip(memories, partners, strict=True):
                    memory.take(start, ticket.columns, partner.origin)
            for partner in partners:
                self.tickets.remove(partner)
                bundle = partner.origin.bundle
                bundle.machine.changes += 1
                partner.answer(start)
                if partner.split is not None:
                    bundle.unpark(partner.split, partner.following)
            self._settle(cluster, ranks)
            return

    def _partners(self, ticket: Ticket) -> list[Ticket] | None:
        """The requests that belong together, one for each CTA; None until the peer has made its request."""
        if ticket.group == 1:
            return [ticket]
        peer = ticket.rank ^ 1
        for other in self.tickets:
            same = other.cluster == ticket.cluster and other.rank == peer
            if same and (other.start is None) == (ticket.start is None):
                if (other.columns, other.start) != (ticket.columns, ticket.start):
                    raise ticket.origin.error(
                        TensorMemoryAllocationError,
                        f"CTA {ticket.rank} asks for {ticket.columns} columns and its peer, CTA {peer}, for"
                        f" {other.columns}"
                        + ("" if ticket.start is None else f" from column {ticket.start} and {other.start}")
                        + ": the two warps of a pair must ask for the same",
                    )
                return sorted((ticket, other), key=lambda t: t.rank)
        return None

    def _first_fit(self, memories: list[TensorMemory], columns: int) -> int | None:
        taken = np.logical_or.reduce([memory.taken for memory in memories])
        starts = range(0, COLUMNS - columns + 1, SMALLEST)
        return next((start for start in starts if not taken[start : start + columns].any()), None)

    def why(self, ticket: Ticket) -> str:
        """Why a request waits, in words."""
        what = ticket.origin.site.instruction.name
        if self._partners(ticket) is None:
            return f"{what} waits for a warp of the peer, CTA {ticket.rank ^ 1}, to do the same"
        free = sum(int((~self[ticket.cluster, rank].taken).sum()) for rank in ticket.ranks) // (
            len(ticket.ranks)
        )
        return f"{what} waits for {ticket.columns} neighbouring columns of tensor memory; {free} are free"
