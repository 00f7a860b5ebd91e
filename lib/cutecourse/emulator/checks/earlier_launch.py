"""Uses of what an earlier launch has written, by a launch that may run beside it (griddepcontrol).

A programmatic dependent launch may start when all blocks of the launch before it have executed
griddepcontrol.launch_dependents, or have ended. Only griddepcontrol.wait makes sure that the earlier launch
is over and that its writes can be seen. So a use of a byte that it has written is right only if the warp's
clock knows of such a wait, by itself or by way of barriers (emulator.checks.clocks). The launches need not
overlap here for the report.

Simplified: only writes of the earlier launch count, and not what it reads. What the later launch stores by
            contiguous bulk copies is not compared. One wait that a warp knows of is enough.
Source:     PTX ISA 9.0, griddepcontrol
            (#parallel-synchronization-and-communication-instructions-griddepcontrol).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.race_plan import AccessPlan
from cutecourse.emulator.checks.races import Races
from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import Mask, any_true, warps_of
from cutecourse.emulator.core.memory import Allocation
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report

if TYPE_CHECKING:
    from cutecourse.emulator.core.site import Site
    from cutecourse.emulator.instructions.bulk.request import Copy
    from cutecourse.emulator.memory.access import Access

__all__ = ["BesideEarlier", "Earlier", "Footprint"]

_MOVES = ("load", "store", "reduce")
"""The operations of bulk copies that use memory; a prefetch gives no result."""


@dataclass(frozen=True, eq=False)
class Footprint:
    """The bytes of arrays that a launch has written, for a launch that depends on it.

    kernel    the kernel's name
    written   the allocations of its arrays, with their marks
    releases  True if it has executed griddepcontrol.launch_dependents
    """

    kernel: str
    written: tuple[Allocation, ...]
    releases: bool


@dataclass(frozen=True, eq=False)
class Earlier:
    """The bytes of a launch's own allocations that the launch before it has written."""

    kernel: str
    marks: tuple[tuple[Allocation, NDArray[np.uint8]], ...]
    """Each allocation that has such bytes, with a mark for each byte."""

    @classmethod
    def of(cls, footprint: Footprint, allocations: Iterable[Allocation]) -> Earlier | None:
        """Find a footprint's bytes in other allocations of the same arrays; None if they need no wait."""
        if not footprint.releases:
            return None
        found = []
        for allocation in allocations:
            marks = np.zeros(allocation.nbytes, np.uint8)
            start = _address(allocation.data)
            for one in footprint.written:
                assert one.written is not None
                begin = _address(one.data)
                first, stop = max(start, begin), min(start + len(marks), begin + one.nbytes)
                if first < stop:
                    marks[first - start : stop - start] |= one.written[first - begin : stop - begin]
            if marks.any():
                found.append((allocation, marks))
        return cls(footprint.kernel, tuple(found)) if found else None


def _address(data: NDArray[np.uint8]) -> int:
    return int(data.__array_interface__["data"][0])


class BesideEarlier(Races):
    """The race record of a launch that may run beside an earlier one."""

    def __init__(self, cohort: Cohort, plan: AccessPlan, earlier: Earlier) -> None:
        super().__init__(cohort, plan)
        self._earlier = earlier
        self._grid = self.clocks.component("grid", 0, 0)

    def grid_waited(self, bundle: Bundle, mask: Mask) -> None:
        """Warps have waited for the earlier launch."""
        rows = warps_of(bundle.full if mask is None else mask)
        self.clocks.known[self.clocks.number(bundle), rows, self._grid] = self.clocks.entry(1)
        self.clocks.tick(bundle, rows)

    def addressed(self, access: Access, bundle: Bundle, address: NDArray[Any], mask: Mask) -> None:
        """Compare loads, stores and atomics of warps that do not know of a wait."""
        if access.space in {"global", "generic"}:
            size = np.full(bundle.full.shape, access.size)
            self._compare(access.site, bundle, address, size, access.site.active(bundle, mask))

    def copy_asked(
        self,
        accesses: tuple[Access, Access],
        bundle: Bundle,
        addresses: tuple[NDArray[Any], NDArray[Any]],
        n_bytes: NDArray[Any],
        lanes: NDArray[np.bool_],
    ) -> None:
        """Compare the source of a cp.async."""
        self._compare(accesses[0].site, bundle, addresses[0], n_bytes, lanes)

    def bulk_issued(self, copy: Copy) -> None:
        """Compare the global memory that a bulk copy reads, or the box of a tensor copy."""
        origin = copy.origin
        if copy.operation not in _MOVES or not self._unordered(origin.bundle)[origin.cluster]:
            return
        for allocation, marks in self._earlier.marks:
            touched: NDArray[Any] | None = None
            if copy.box is not None and copy.box.bound.allocation is allocation:
                bound = copy.box.bound
                window = copy.box.window([(0, count) for count in bound.map.counts])
                touched = None if window.empty else bound.elements(window, marks)
            elif isinstance(copy.source, tuple) and copy.source[0] is allocation:
                touched = marks[copy.source[1] : copy.source[1] + copy.n_bytes]
            if touched is not None and touched.any():
                self._report(origin, allocation, None)

    def _unordered(self, bundle: Bundle) -> NDArray[np.bool_]:
        """The clusters whose warp of this bundle does not know of a wait."""
        known = self.clocks.known[self.clocks.number(bundle), :, self._grid]
        found: NDArray[np.bool_] = known < self.clocks.entry(1)
        return found

    def _compare(
        self, site: Site, bundle: Bundle, address: NDArray[Any], size: NDArray[Any], active: NDArray[np.bool_]
    ) -> None:
        asked = active & self._unordered(bundle)[:, None]
        if not any_true(asked):
            return
        lanes = np.flatnonzero(asked)
        places, sizes = address.reshape(-1)[lanes].astype(np.int64), size.reshape(-1)[lanes]
        for allocation, marks in self._earlier.marks:
            inside = np.flatnonzero((places >= allocation.base) & (places + sizes <= allocation.end))
            first = places[inside] - allocation.base
            for byte in range(int(sizes[inside].max(initial=0))):
                hit = np.flatnonzero((byte < sizes[inside]) & (marks[(first + byte) % len(marks)] != 0))
                if len(hit):
                    lane = int(lanes[inside[hit[0]]])
                    self._report(Origin(site, bundle, lane), allocation, int(first[hit[0]]) + byte)
                    return

    def _report(self, origin: Origin, allocation: Allocation, byte: int | None) -> None:
        where = "a box" if byte is None else f"byte 0x{byte:x}"
        report(
            "no grid wait",
            f"{where} of {allocation.name} is used, which kernel {self._earlier.kernel} of the launch before"
            " has written, and no griddepcontrol.wait orders this thread behind that launch. It has executed"
            " griddepcontrol.launch_dependents, so this launch may run beside it. Execute griddepcontrol.wait"
            " before the first use, and a barrier behind it if another thread does.",
            origin,
        )
