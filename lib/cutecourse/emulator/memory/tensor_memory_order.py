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

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.memory.end_of_load import end_of_load
from cutecourse.emulator.memory.regions import GROUP, Region, groups

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


@dataclass(eq=False, slots=True)
class _Load:
    origin: Origin
    region: Region


class _Times:
    """The time, line and warp of the last write or read of each cell.

    `time`, `line` and `warp` have shape (8, columns); they exist after the first access.
    """

    def __init__(self, columns: int) -> None:
        self._shape = (128 // GROUP, columns)
        self.last = 0
        """The time of the last access."""
        self.names: dict[int, str] = {}
        """The instructions by their lines."""

    def set(self, region: Region, time: int, origin: Origin, warp: Who) -> None:
        if not self.last:
            self.time: NDArray[np.int64] = np.zeros(self._shape, dtype=np.int64)
            self.line: NDArray[np.int32] = np.zeros(self._shape, dtype=np.int32)
            self.warp: NDArray[np.int32] = np.zeros(self._shape, dtype=np.int32)
        rows, columns = groups(region), slice(region.first, region.stop)
        self.time[rows, columns] = time
        self.line[rows, columns] = origin.site.line
        self.warp[rows, columns] = _number(warp)
        self.last = time
        if origin.site.line not in self.names:
            self.names[origin.site.line] = _short(origin)

    def latest(self, region: Region, *, but: Who | None = None) -> tuple[int, int, int]:
        """(time, line, warp) of a region's last access, except those of warp `but`; (0, 0, 0) if none."""
        rows, columns = groups(region), slice(region.first, region.stop)
        times = self.time[rows, columns]
        if but is not None:
            times = np.where(self.warp[rows, columns] == _number(but), 0, times)
        at = int(times.argmax())
        if not times.flat[at]:
            return 0, 0, 0
        return (
            int(times.flat[at]),
            int(self.line[rows, columns].flat[at]),
            int(self.warp[rows, columns].flat[at]),
        )

    def forget(self, start: int, columns: int) -> None:
        if self.last:
            self.time[:, start : start + columns] = 0


def _short(origin: Origin) -> str:
    """tcgen05.ld for tcgen05.ld.sync.aligned.32x32b.x32.b32."""
    return ".".join(origin.site.instruction.name.split(".")[:2])


def _number(warp: Who) -> int:
    return warp[1] << 6 | warp[2]


class Order:
    """The order of accesses to the tensor memory of one CTA."""

    def __init__(self, clock: Clock, columns: int) -> None:
        self.clock = clock
        self.loads: dict[Who, list[_Load]] = {}
        """The loads for which each warp has not waited."""
        self._completed = _Times(columns)
        self._stored = _Times(columns)
        self._loaded = _Times(columns)

    # --- what happens ---------------------------------------------------------------------------------------

    def completed(self, region: Region, origin: Origin) -> None:
        """Note that a tcgen05.mma or cp has written a region."""
        self._completed.set(region, self.clock.tick(), origin, who(origin))

    def stored(self, region: Region, origin: Origin) -> None:
        """Note that a warp has waited for its tcgen05.st."""
        self._stored.set(region, self.clock.tick(), origin, who(origin))

    def load(self, regions: list[Region], origin: Origin) -> None:
        """Note that a warp loads regions; it has not waited yet."""
        held = self.loads.setdefault(who(origin), [])
        if len(held) >= 2 * len(regions) and held[-1].origin.site is origin.site:
            # A loop that never waits: keep the regions that are new.
            regions = [r for r in regions if not any(r.same(load.region) for load in held)]
        held.extend(_Load(origin, region) for region in regions)

    def waited_for_loads(self, warp: Who) -> None:
        """Note that a warp has executed tcgen05.wait::ld."""
        for load in self.loads.pop(warp, ()):
            self._loaded.set(load.region, self.clock.tick(), load.origin, warp)

    def forget(self, start: int, columns: int) -> None:
        """Forget the accesses to columns that are allocated or freed."""
        for times in (self._completed, self._stored, self._loaded):
            times.forget(start, columns)
        for warp, loads in list(self.loads.items()):
            kept = [x for x in loads if x.region.stop <= start or start + columns <= x.region.first]
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
            for load in loads:
                if not load.region.meets(region):
                    continue
                site = load.origin.site
                problem = f"{what} uses {region}, which warp {warp[2]} loaded at line {site.line}"
                end = end_of_load(site)
                if end == "wait":
                    report(
                        "load under way",
                        f"{problem}, but that warp has not reached its tcgen05.wait::ld. Nothing"
                        " makes one wait for"
                        " the other.",
                        origin,
                        site.line,
                    )
                    break
                problem += " with no tcgen05.wait::ld since"
                if end == "nothing":
                    report(
                        "load under way",
                        f"{problem}, and without using what it loaded. The load can still be under way.",
                        origin,
                        site.line,
                    )
                    break
                report("load not waited for", problem, origin, site.line)
                break

    def check_fences(
        self, region: Region, what: str, origin: Origin, *, writes: bool, pipelined: bool
    ) -> None:
        """Note the fences that are missing between earlier accesses to a region and this one.

        `pipelined` is for a tcgen05.mma or cp, which run in order with others of their kind.
        """
        own = who(origin)
        after = self.clock.after.get(own, 0)
        if not pipelined and self._completed.last > after:
            time, line, _ = self._completed.latest(region)
            if time > after:

                def completed() -> str:
                    how = f"the {self._completed.names[line]} of line {line} wrote"
                    return _no_fence_after(region, what, own, how)

                report("no fence after", completed, origin, line)
        for times, verb in ((self._stored, "stored"), (self._loaded, "loaded")):
            if not times.last or (times is self._loaded and not writes):
                continue
            time, line, other = times.latest(region, but=own)
            if not time:
                continue
            their = (own[0], other >> 6, other & 63)
            how = f"warp {their[2]} {verb} at line {line}"
            if self.clock.before.get(their, 0) < time:
                problem = (
                    f"{what} uses {region}, which {how}, but that warp has executed no"
                    " tcgen05.fence::before_thread_sync since"
                )
                report("no fence before", problem, origin, line)
            if after < time:
                report("no fence after", _no_fence_after(region, what, own, how), origin, line)


def _no_fence_after(region: Region, what: str, own: Who, how: str) -> str:
    return (
        f"{what} uses {region}, which {how}, but warp {own[2]} has executed no"
        " tcgen05.fence::after_thread_sync since"
    )
