"""The race check of tensor memory: accesses that nothing orders, by the clocks of the race record.

A load is over at its tcgen05.wait::ld, a store at its tcgen05.wait::st, a tcgen05.mma or cp when the mbarrier
of a tcgen05.commit after it says so. What follows must know of that: by the wait itself, or by barriers and
mbarriers from warp to warp. The operations of the pipe need no wait among each other. An access that happens
early in this launch is no excuse: the report does not depend on the order that the seed chooses.

A pair's columns are freed in both of its CTAs. So each of the two warps that free them must know that nobody
in either CTA uses them any more.

Simplified: the pipe's operations that two threads issue count as ordered, whoever issues first.

Missing fences of tcgen05 are notes of their own (memory.tensor_memory_order). Cells are tracked in groups of
16 lanes, and threads in warps.

Source: PTX ISA 9.0, Memory Consistency Model for 5th generation of TensorCore operations
        (#tcgen05-memory-consistency-model); tcgen05.dealloc
        (#tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.clocks import Clocks, Row
from cutecourse.emulator.checks.race_operations import Operations
from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.registry import name_of
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import TensorMemoryFreed
from cutecourse.emulator.memory.end_of_load import end_of_load
from cutecourse.emulator.memory.mbarriers import unread_answer
from cutecourse.emulator.memory.regions import GROUP, Region
from cutecourse.emulator.memory.tensor_memory import COLUMNS, LANES, TensorMemories, TensorMemory

__all__ = ["TensorMemoryRaces"]


class _Tags:
    """The tag of a component's last access to each tracked cell, shape (8, 512); 0 for none.

    Most tags are replaced before anybody reads them, so they go to the cells only when somebody does.
    """

    __slots__ = ("_cells", "_latest", "highest")

    def __init__(self) -> None:
        self._cells: NDArray[np.uint32] = np.zeros((LANES // GROUP, COLUMNS), dtype=np.uint32)
        self._latest: dict[Region, int] = {}
        """Tags that are not in the cells yet, the oldest first."""
        self.highest = 0
        """No cell's tag is higher. A clock that knows it knows all of them, and no cell has to be read."""

    def put(self, region: Region, tag: int) -> None:
        latest = self._latest
        latest.pop(region, None)
        if len(latest) == COLUMNS:
            self.cells()
        latest[region] = tag
        self.highest = max(self.highest, tag)

    def cells(self) -> NDArray[np.uint32]:
        """The tags of all cells."""
        for region, tag in self._latest.items():
            self._cells[region.tracked] = tag
        self._latest.clear()
        return self._cells

    def last(self, region: Region) -> int:
        """The highest tag in a region."""
        return int(self.cells()[region.tracked].max())

    def unknown(self, region: Region, known: int) -> bool:
        """True if a clock's entry does not cover the last access to some cell of a region."""
        return self.highest >= known and self.last(region) >= known


@dataclass(eq=False, slots=True)
class _MemoryUses:
    """The uses of one CTA's tensor memory, by the component whose clock counts them."""

    loads: dict[int, _Tags] = field(default_factory=dict)
    stores: dict[int, _Tags] = field(default_factory=dict)
    written: dict[int, _Tags] = field(default_factory=dict)
    """D of a thread's tcgen05.mma, and the destination of its tcgen05.cp."""
    multiplied: dict[int, _Tags] = field(default_factory=dict)
    """A of a thread's tcgen05.mma."""
    asked: dict[int, tuple[int, Origin]] = field(default_factory=dict)
    """The columns that the peer has asked to free, (number, who), by the first."""
    version: int = 0
    """Counts the uses of warps that a later one of the pipe may have to know."""
    writes: int = 0
    """Counts the writes."""
    heard: dict[int, int] = field(default_factory=dict)
    """The number of writes at which a warp was found to know all of them."""
    checked: dict[tuple[Region, int, bool], int] = field(default_factory=dict)
    """The version at which an issuing component was found to know all earlier uses of a region."""
    last: dict[tuple[Region, int, bool], int] = field(default_factory=dict)
    """The tag that a component last left in a region."""

    def all_written_known(self, row: Row, warp: int) -> bool:
        """True if a warp's clock knows all writes of others, wherever they are."""
        return all(
            tags.highest < row.item(component)
            for kind in (self.written, self.stores)
            for component, tags in kind.items()
            if component != warp
        )

    def forget(self, first: int, columns: int) -> None:
        """Forget the uses of columns that are free now."""
        for kind in (self.loads, self.stores, self.written, self.multiplied):
            for tags in kind.values():
                tags.cells()[:, first : first + columns] = 0
        self.asked.pop(first, None)
        self.checked.clear()
        self.last.clear()


def _put(kind: dict[int, _Tags], component: int, region: Region, tag: int) -> None:
    found = kind.get(component)
    if found is None:
        found = kind[component] = _Tags()
    found.put(region, tag)


class TensorMemoryRaces:
    """The record of a cohort's tensor memory; part of its race record, whose clocks it asks."""

    def __init__(self, cohort: Cohort, clocks: Clocks, operations: Operations) -> None:
        self.cohort = cohort
        self.clocks = clocks
        self.operations = operations
        self._uses: defaultdict[TensorMemory, _MemoryUses] = defaultdict(_MemoryUses)
        self._ends: dict[Site, str] = {}
        self._names: dict[int, str] = {}
        """The names of operations of the pipes, by their lines."""

    def _tag(self, bundle: Bundle, cluster: int, line: int) -> int:
        """The tag of what a warp does now."""
        warp = bundle.number
        return self.clocks.known.item(warp, cluster, warp) - self.clocks.step | line

    # --- uses -----------------------------------------------------------------------------------------------

    def by_pipe(
        self, memory: TensorMemory, region: Region, what: str, origin: Origin, *, writes: bool
    ) -> None:
        """Check and record the region that a tcgen05.mma or cp writes, or reads as A."""
        uses, clocks, line = self._uses[memory], self.clocks, origin.site.line
        reader = self.operations.of_tensor_core(origin)
        mine, warp = reader.component, clocks.of_warp(origin.bundle)
        if uses.asked:
            self._asked(uses, region, what, origin)
        key = (region, mine, writes)
        if uses.checked.get(key) != uses.version:
            row = clocks.row(origin.bundle, origin.cluster)
            self._threads(uses, region, what, origin, row, warp, writes=writes)
            parts = self.operations.threads.parts
            if parts.of(origin) is not None:
                known = parts.row(origin)
                self._threads(uses, region, what, origin, known, warp, writes=writes, only_lanes=True)
            uses.checked[key] = uses.version
        tag = reader.tag & ~clocks.line_mask | line
        if uses.last.get(key) == tag:
            return
        uses.last[key] = tag
        uses.writes += writes
        self._names[line] = name_of(origin.site.instruction)
        _put(uses.written if writes else uses.multiplied, mine, region, tag)
        if writes:
            # One pipe runs them in order: who knows that this one is over knows it of the others.
            for other, tags in uses.written.items():
                if other != mine:
                    tags.cells()[region.tracked] = 0
                    uses.last.clear()  # the other one has nothing there any more

    def by_warp(
        self, memory: TensorMemory, region: Region, what: str, origin: Origin, *, writes: bool
    ) -> None:
        """Check a region that a warp loads or stores. A load is recorded, a store when it is over."""
        uses = self._uses[memory]
        warp = self.clocks.of_warp(origin.bundle)
        if uses.asked:
            self._asked(uses, region, what, origin)
        if writes or uses.heard.get(warp) != uses.writes:
            row = self.clocks.row(origin.bundle, origin.cluster)
            self._pipes(uses, region, what, origin, row, writes=writes)
            self._threads(uses, region, what, origin, row, warp, writes=writes)
            if uses.all_written_known(row, warp):
                uses.heard[warp] = uses.writes
        if writes:
            return
        end = self._ends.get(origin.site)
        if end is None:
            end = self._ends[origin.site] = end_of_load(origin.site)
        if end == "use":  # which ends the load as a wait does; memory.end_of_load says why
            _put(uses.loads, warp, region, self._tag(origin.bundle, origin.cluster, origin.site.line))
            uses.version += 1

    def loads_over(
        self, memory: TensorMemory, bundle: Bundle, cluster: int, loads: Sequence[tuple[Origin, Region]]
    ) -> None:
        """A warp has executed tcgen05.wait::ld after some loads."""
        uses, warp = self._uses[memory], self.clocks.of_warp(bundle)
        now = self._tag(bundle, cluster, 0)
        for origin, region in loads:
            if self._ends[origin.site] != "use":
                _put(uses.loads, warp, region, now | origin.site.line)
                uses.version += 1

    def store_over(self, memory: TensorMemory, region: Region, origin: Origin) -> None:
        """A warp has executed tcgen05.wait::st after a store."""
        warp, uses = self.clocks.of_warp(origin.bundle), self._uses[memory]
        _put(uses.stores, warp, region, self._tag(origin.bundle, origin.cluster, origin.site.line))
        uses.version += 1
        uses.writes += 1

    def freeing(self, memory: TensorMemory, first: int, columns: int, origin: Origin, group: int) -> None:
        """Check columns that a warp is about to free, in its own CTA or in both CTAs of its pair."""
        cluster, rank = origin.cluster, origin.bundle.rank
        warp, row = self.clocks.of_warp(origin.bundle), self.clocks.row(origin.bundle, cluster)
        region = Region(np.ones(LANES, dtype=np.bool_), first, first + columns)
        what = name_of(origin.site.instruction)
        own = self._uses[memory]
        self._pipes(own, region, what, origin, row, writes=True)
        if group == 1:
            self._threads(own, region, what, origin, row, warp, writes=True)
            return
        peers = self._uses[self.cohort.own(TensorMemories)[cluster, rank ^ 1]]
        own.asked[first] = peers.asked[first] = (columns, origin)
        for kind in (own.loads, own.stores, peers.loads, peers.stores, peers.written, peers.multiplied):
            for component, tags in kind.items():
                if component != warp and tags.unknown(region, row.item(component)):
                    user, line = self._last(tags, region, component, origin)
                    raise origin.error(
                        TensorMemoryFreed,
                        f"{what} frees {region} of both CTAs of the pair, and nothing orders it after their"
                        f" use by {user} at line {line}. {_MEET}",
                    )

    def freed(self, memory: TensorMemory, first: int, columns: int) -> None:
        """Forget what used columns that are free now."""
        if memory.allocations:
            self._uses[memory].forget(first, columns)
        else:
            self._uses.pop(memory, None)

    # --- checks ---------------------------------------------------------------------------------------------

    def _last(self, tags: _Tags, region: Region, component: int, origin: Origin) -> tuple[str, int]:
        """The warp of a component's last access to a region, in words, and the line."""
        found = self.clocks.components[component]
        x, y, z = self.cohort.blocks[origin.cluster, found.rank].tolist()
        own = found.rank == origin.bundle.rank
        where = "" if own else f" of block ({x}, {y}, {z})"
        line = tags.last(region) & self.clocks.line_mask
        return f"warp {found.number}{where}", line

    def _asked(self, uses: _MemoryUses, region: Region, what: str, origin: Origin) -> None:
        """Refuse columns that the peer has asked to free. Errors: TensorMemoryFreed."""
        for first, (columns, who) in uses.asked.items():
            if first < region.stop and region.first < first + columns:
                block, warp, _ = who.bundle.where(who.lane)
                raise origin.error(
                    TensorMemoryFreed,
                    f"{what} uses {region}, which block {block} warp {warp} frees at line {who.site.line} for"
                    f" both CTAs of the pair. {_MEET}",
                )

    def _threads(
        self,
        uses: _MemoryUses,
        region: Region,
        what: str,
        origin: Origin,
        row: Row,
        warp: int,
        *,
        writes: bool,
        only_lanes: bool = False,
    ) -> None:
        """Check a use against the loads (if it writes) and the stores of other warps."""
        for use, kind in (("store", uses.stores), ("load", uses.loads if writes else {})):
            for other, tags in kind.items():
                if other != warp and tags.unknown(region, row.item(other)):
                    self._unordered(use, region, what, origin, tags, other, only_lanes=only_lanes)

    def _pipes(
        self, uses: _MemoryUses, region: Region, what: str, origin: Origin, row: Row, *, writes: bool
    ) -> None:
        """Check a thread's use against what tcgen05.mma and cp write and, if it writes, against their A."""
        for use, kind in (("write", uses.written), ("read", uses.multiplied if writes else {})):
            for other, tags in kind.items():
                if tags.unknown(region, row.item(other)):
                    self._unordered(use, region, what, origin, tags, other)

    def _unordered(
        self,
        use: str,
        region: Region,
        what: str,
        origin: Origin,
        tags: _Tags,
        component: int,
        *,
        only_lanes: bool = False,
    ) -> None:
        """Report a use that nothing orders after an earlier one of `component`.

        With `only_lanes` other lanes of the thread's warp know of that one.
        """
        hazard, words, remedy = _EARLIER[use]
        if only_lanes:
            hazard, remedy = "lanes not ordered", _LANES
        user, line = self._last(tags, region, component, origin)
        done = words.format(
            user=user, line=origin.bundle.program.line_in_words(line), name=self._names.get(line)
        )
        problem = f"{what} uses {region}, which {done}, and nothing orders the one after the other. {remedy}"
        report(hazard, problem + unread_answer(origin), origin, line)


_MEET = (
    "Both CTAs must meet at a barrier of the cluster, or tell each other by mbarriers, before one frees them."
)
_LANES = (
    "Another lane of this warp has waited for that, and this lane has not. Put bar.warp.sync between that"
    " wait and this line."
)
_COMMIT = "Wait for the mbarrier of a tcgen05.commit after that operation."
_WAIT_FOR_LOAD = "Wait for the mbarrier at which that warp arrives after its tcgen05.wait::ld."
_WAIT_FOR_STORE = "That warp must arrive at a barrier after its tcgen05.wait::st, and this one wait for it."
_EARLIER = {
    "load": ("load under way", "{user} loads at line {line}", _WAIT_FOR_LOAD),
    "store": ("read before written", "{user} stores to at line {line}", _WAIT_FOR_STORE),
    "write": ("read before written", "the {name} of {user} at line {line} writes", _COMMIT),
    "read": ("written before read", "the {name} of {user} at line {line} reads as A", _COMMIT),
}
"""By the kind of the earlier use: the hazard, what that use is, and what to do."""
