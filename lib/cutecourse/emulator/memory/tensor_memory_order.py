"""The order of accesses to tensor memory: loads that nobody has waited for, and tcgen05's fences.

The values that a launch gives do not depend on this order. A missing fence is a note. A missing
tcgen05.wait::ld is a note if the thread used the loaded values before it told anybody, and an error if it did
not. The wait orders the load before the next use of its cells; registers need no wait.

Times are numbers that grow by one with each fence, completion and wait of a cohort. Cells are tracked in
groups of 16 lanes, and threads in warps.

Source: PTX ISA 9.0, Memory Consistency Model for 5th generation of TensorCore operations: Canonical
        synchronization patterns, Register dependencies (#tcgen05-memory-consistency-model).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.registry import name_of
from cutecourse.emulator.core.report import report
from cutecourse.emulator.memory.end_of_load import end_of_load
from cutecourse.emulator.memory.regions import GROUP, Region
from cutecourse.ptx.syntax import Instruction

__all__ = ["Clock", "Order", "Who", "who"]

Who = tuple[int, int, int]
"""A warp: its cluster's position in the cohort, its CTA's rank, its own rank."""


def who(origin: Origin) -> Who:
    """The warp that executes an operation."""
    bundle = origin.bundle
    return origin.lane // 32, bundle.rank, bundle.warp


@dataclass(eq=False)
class Clock:
    """The time of a cohort, and the time at which each warp last executed each fence."""

    now: int = 0
    before: dict[Who, int] = field(default_factory=dict)
    after: dict[Who, int] = field(default_factory=dict)

    def tick(self) -> int:
        """Advance the time by one and return it."""
        self.now += 1
        return self.now


_WARP_BITS, _LINE_BITS = 11, 22


class _Times:
    """The last write or read of each cell, shape (8, columns): time, line and, in the low bits, warp.

    Most are replaced before anybody reads them, so they go to the cells only when somebody does.
    """

    def __init__(self, columns: int) -> None:
        self._cells: NDArray[np.int64] = np.zeros((128 // GROUP, columns), dtype=np.int64)
        self._latest: dict[Region, tuple[int, Origin]] = {}
        """Accesses that are not in the cells yet, with their times, the oldest first."""
        self._old = False
        """True if there are any in the cells."""
        self.last = 0
        """The time of the last access."""
        self.last_by: dict[Who, int] = {}
        """The time of each warp's last access."""
        self.instructions: dict[int, Instruction] = {}
        """By their lines."""

    def set(self, region: Region, time: int, origin: Origin) -> None:
        latest = self._latest
        latest.pop(region, None)
        if len(latest) == self._cells.shape[1]:
            self.cells()
        latest[region] = time, origin
        self.last = self.last_by[who(origin)] = time

    def cells(self) -> NDArray[np.int64]:
        """The accesses of all cells."""
        for region, (time, origin) in self._latest.items():
            made = (time << _LINE_BITS | origin.site.line) << _WARP_BITS | _number(who(origin))
            self._cells[region.tracked] = made
            self.instructions.setdefault(origin.site.line, origin.site.instruction)
        self._old = self._old or bool(self._latest)
        self._latest.clear()
        return self._cells

    def latest(self, region: Region, *, but: Who | None = None) -> tuple[int, int, int]:
        """(time, line, warp) of a region's last access, except those of warp `but`; (0, 0, 0) if none."""
        held = self.cells()[region.tracked]
        if but is not None:
            held = np.where(held & (1 << _WARP_BITS) - 1 == _number(but), 0, held)
        found = int(held.max())
        of_line = found >> _WARP_BITS
        return of_line >> _LINE_BITS, of_line & (1 << _LINE_BITS) - 1, found & (1 << _WARP_BITS) - 1

    def forget(self, start: int, columns: int) -> None:
        stop = start + columns
        for region in [one for one in self._latest if start <= one.first and one.stop <= stop]:
            del self._latest[region]
        if self._old or any(start < one.stop and one.first < stop for one in self._latest):
            self.cells()[:, start:stop] = 0


def _number(warp: Who) -> int:
    return warp[1] << 6 | warp[2]


class Order:
    """The order of accesses to the tensor memory of one CTA."""

    def __init__(self, clock: Clock, columns: int) -> None:
        self.clock = clock
        self.loads: dict[Who, list[tuple[Origin, Region]]] = {}
        """The loads for which each warp has not waited."""
        self._completed = _Times(columns)
        self._stored = _Times(columns)
        self._loaded = _Times(columns)

    # --- what happens ---------------------------------------------------------------------------------------

    def written(self, region: Region, origin: Origin, *, pipelined: bool) -> None:
        """Note that a tcgen05.mma or cp has written a region, or a tcgen05.st for which its warp waited."""
        times = self._completed if pipelined else self._stored
        times.set(region, self.clock.tick(), origin)

    def load(self, regions: list[Region], origin: Origin) -> None:
        """Note that a warp loads regions; it has not waited yet."""
        held = self.loads.setdefault(who(origin), [])
        if len(held) >= 2 * len(regions) and held[-1][0].site is origin.site:
            # A loop that never waits: keep the regions that are new for this instruction.
            own = [loaded for by, loaded in held if by.site is origin.site]
            regions = [r for r in regions if not any(r.same(loaded) for loaded in own)]
        held.extend((origin, region) for region in regions)

    def waited_for_loads(self, warp: Who) -> list[tuple[Origin, Region]]:
        """Note that a warp has executed tcgen05.wait::ld; return the loads that it ends."""
        ended = self.loads.pop(warp, [])
        for origin, region in ended:
            self._loaded.set(region, self.clock.tick(), origin)
        return ended

    def forget(self, start: int, columns: int) -> None:
        """Forget the accesses to columns that are allocated or freed."""
        for times in (self._completed, self._stored, self._loaded):
            times.forget(start, columns)
        for warp, loads in list(self.loads.items()):
            kept = [x for x in loads if x[1].stop <= start or start + columns <= x[1].first]
            if kept:
                self.loads[warp] = kept
            else:
                del self.loads[warp]

    # --- what is checked ------------------------------------------------------------------------------------

    def check_loads(self, region: Region, what: str, origin: Origin) -> None:
        """Check, when a region is written or freed, that no warp has loaded it without waiting.

        Errors: TensorMemoryLoadUnderWay if the warp will wait for its load, or neither waits for it nor uses
                its result before it tells others.
        """
        for warp, loads in self.loads.items():
            site = next((load.site for load, loaded in loads if loaded.meets(region)), None)
            if site is None:
                continue
            problem = f"{what} uses {region}, which warp {warp[2]} loaded at line {site.in_words}"
            end = end_of_load(site)
            if end == "wait":
                problem += ", but that warp has not reached its tcgen05.wait::ld. Nothing makes one wait for"
                problem += " the other."
            else:
                problem += " with no tcgen05.wait::ld since"
            if end == "nothing":
                problem += ", and without using what it loaded. The load can still be under way."
            report("load not waited for" if end == "use" else "load under way", problem, origin, site.line)

    def check_fences(
        self, region: Region, what: str, origin: Origin, *, writes: bool, pipelined: bool
    ) -> None:
        """Note the fences that are missing between earlier accesses to a region and this one.

        `pipelined` is for a tcgen05.mma or cp, which run in order with others of their kind.
        """
        own = who(origin)
        before, after = self.clock.before, self.clock.after.get(own, 0)
        if not pipelined and self._completed.last > after:
            time, line, _ = self._completed.latest(region)
            if time > after:
                done = self._completed.instructions[line]
                how = f"the {name_of(done)} of line {origin.bundle.program.line_in_words(line)} wrote"
                report("no fence after", partial(_no_fence_after, region, what, own, how), origin, line)
        for times, verb in ((self._stored, "stored"), (self._loaded, "loaded")):
            if not times.last or (times is self._loaded and not writes):
                continue
            if after >= times.last and all(
                warp == own or before.get(warp, 0) >= time for warp, time in times.last_by.items()
            ):
                continue  # whichever cells it is
            time, line, other = times.latest(region, but=own)
            if not time:
                continue
            their = (own[0], other >> 6, other & 63)
            how = f"warp {their[2]} {verb} at line {origin.bundle.program.line_in_words(line)}"
            if before.get(their, 0) < time:
                problem = (
                    f"{what} uses {region}, which {how}, but that warp has executed no"
                    " tcgen05.fence::before_thread_sync since"
                )
                report("no fence before", problem, origin, line)
            if after < time:
                report("no fence after", partial(_no_fence_after, region, what, own, how), origin, line)


def _no_fence_after(region: Region, what: str, own: Who, how: str) -> str:
    return (
        f"{what} uses {region}, which {how}, but warp {own[2]} has executed no"
        " tcgen05.fence::after_thread_sync since"
    )
