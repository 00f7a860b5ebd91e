"""Uses of what an earlier launch uses too, by a launch that may run beside it (griddepcontrol).

A programmatic dependent launch may start when all blocks of the launch before it have executed
griddepcontrol.launch_dependents, or have ended. Only griddepcontrol.wait makes sure that the earlier launch
is over and that its writes can be seen. So a use of a byte that it has written, or a write to a byte that it
has read, is right only if the warp's clock knows of such a wait, by itself or by way of barriers
(emulator.checks.clocks). The launches need not overlap here for the report.

Simplified: stores of the later launch by contiguous bulk copies are not compared. One wait that a warp knows
            of is enough.
Source:     PTX ISA 9.0, griddepcontrol
            (#parallel-synchronization-and-communication-instructions-griddepcontrol).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.race_plan import AccessPlan
from cutecourse.emulator.checks.races import Races
from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import Mask, any_true, warps_of
from cutecourse.emulator.core.memory import Allocation
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report

if TYPE_CHECKING:
    from cutecourse.emulator.core.site import Site
    from cutecourse.emulator.instructions.bulk.request import Copy
    from cutecourse.emulator.memory.access import Access

__all__ = ["BesideEarlier", "Earlier", "Footprint", "Reads"]

_GLOBAL = ("global", "generic")

_MOVES = ("load", "store", "reduce")
"""The operations of bulk copies that use memory; a prefetch gives no result."""


_Marks = NDArray[np.uint8]
"""A mark per byte of an allocation; not 0 if the byte has been used."""


class Reads(Observer):
    """Marks the bytes of a launch's arrays that it reads."""

    def __init__(self, arrays: Iterable[Allocation]) -> None:
        self.marks = [(allocation, np.zeros(allocation.nbytes, np.uint8)) for allocation in arrays]

    def addressed(self, access: Access, bundle: Bundle, address: NDArray[Any], mask: Mask) -> None:
        """Mark what lanes load."""
        if access.reads and access.space in _GLOBAL:
            size = np.full(bundle.full.shape, access.size)
            self._mark(address, size, access.site.active(bundle, mask))

    def copy_asked(
        self,
        accesses: tuple[Access, Access],
        bundle: Bundle,
        addresses: tuple[NDArray[Any], NDArray[Any]],
        n_bytes: NDArray[Any],
        lanes: NDArray[np.bool_],
    ) -> None:
        """Mark the source of a cp.async."""
        self._mark(addresses[0], n_bytes, lanes)

    def bulk_issued(self, copy: Copy) -> None:
        """Mark the source of a bulk copy."""
        if copy.operation == "load":
            for allocation, marks in self.marks:
                touched = _touched(copy, allocation, marks)
                if touched is not None:
                    touched[...] = np.iinfo(touched.dtype).max

    def _mark(self, address: NDArray[Any], size: NDArray[Any], active: NDArray[np.bool_]) -> None:
        lanes = np.flatnonzero(active)
        for allocation, marks in self.marks:
            for _, places in _places(allocation, address.reshape(-1)[lanes], size.reshape(-1)[lanes]):
                marks[places] = 1


def _places(
    allocation: Allocation, address: NDArray[Any], size: NDArray[Any]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.int64]]]:
    """The first byte of each access inside an allocation, then the second ones, ...: accesses, and bytes."""
    first = address.astype(np.int64) - allocation.base
    inside = np.flatnonzero((first >= 0) & (first + size <= allocation.nbytes))
    for byte in range(int(size[inside].max(initial=0))):
        those = inside[size[inside] > byte]
        yield those, first[those] + byte


def _touched(copy: Copy, allocation: Allocation, marks: _Marks) -> NDArray[Any] | None:
    """The marks of an allocation's bytes that a bulk copy uses, or None."""
    if copy.box is not None and copy.box.bound.allocation is allocation:
        bound = copy.box.bound
        window = copy.box.window([(0, count) for count in bound.map.counts])
        return None if window.empty else bound.elements(window, marks)
    if isinstance(copy.source, tuple) and copy.source[0] is allocation:
        return marks[copy.source[1] : copy.source[1] + copy.n_bytes]
    return None


@dataclass(frozen=True, eq=False)
class Footprint:
    """The bytes of arrays that a launch has used, for a launch that depends on it.

    kernel    the kernel's name
    used      the allocations of its arrays, each with marks of the written bytes and of the read ones
    releases  True if it has executed griddepcontrol.launch_dependents
    """

    kernel: str
    used: tuple[tuple[Allocation, _Marks, _Marks], ...]
    releases: bool


@dataclass(frozen=True, eq=False)
class Earlier:
    """The bytes of a launch's own allocations that the launch before it has used."""

    kernel: str
    marks: tuple[tuple[Allocation, _Marks, _Marks], ...]
    """Each allocation with such bytes: the marks of written ones, and of all."""

    @classmethod
    def of(cls, footprint: Footprint, allocations: Iterable[Allocation]) -> Earlier | None:
        """Find a footprint's bytes in other allocations of the same arrays; None if they need no wait."""
        if not footprint.releases:
            return None
        found = []
        for allocation in allocations:
            marks = np.zeros((2, allocation.nbytes), np.uint8)
            start = _address(allocation.data)
            for one, written, read in footprint.used:
                begin = _address(one.data)
                first, stop = max(start, begin), min(start + allocation.nbytes, begin + one.nbytes)
                if first < stop:
                    here, there = slice(first - start, stop - start), slice(first - begin, stop - begin)
                    marks[0, here] |= written[there]
                    marks[1, here] |= written[there] | read[there]
            if marks.any():
                found.append((allocation, marks[0], marks[1]))
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
        self.clocks.known[bundle.number, rows, self._grid] = self.clocks.entry(1)
        self.clocks.tick(bundle, rows)

    def addressed(self, access: Access, bundle: Bundle, address: NDArray[Any], mask: Mask) -> None:
        """Compare loads, stores and atomics of warps that do not know of a wait."""
        if access.space in _GLOBAL:
            size = np.full(bundle.full.shape, access.size)
            active = access.site.active(bundle, mask)
            self._compare(access.site, bundle, address, size, active, writes=access.writes)

    def copy_asked(
        self,
        accesses: tuple[Access, Access],
        bundle: Bundle,
        addresses: tuple[NDArray[Any], NDArray[Any]],
        n_bytes: NDArray[Any],
        lanes: NDArray[np.bool_],
    ) -> None:
        """Compare the source of a cp.async."""
        self._compare(accesses[0].site, bundle, addresses[0], n_bytes, lanes, writes=False)

    def bulk_issued(self, copy: Copy) -> None:
        """Compare the global memory that a bulk copy reads, or the box of a tensor copy."""
        origin = copy.origin
        if copy.operation not in _MOVES or not self._unordered(origin.bundle)[origin.cluster]:
            return
        for allocation, written, either in self._earlier.marks:
            touched = _touched(copy, allocation, written if copy.operation == "load" else either)
            if touched is not None and touched.any():
                of_written = _touched(copy, allocation, written)
                was = "written" if of_written is not None and of_written.any() else "read"
                self._report(origin, f"a box of {allocation.name}", was)

    def _unordered(self, bundle: Bundle) -> NDArray[np.bool_]:
        """The clusters whose warp of this bundle does not know of a wait."""
        known = self.clocks.known[bundle.number, :, self._grid]
        found: NDArray[np.bool_] = known < self.clocks.entry(1)
        return found

    def _compare(
        self,
        site: Site,
        bundle: Bundle,
        address: NDArray[Any],
        size: NDArray[Any],
        active: NDArray[np.bool_],
        *,
        writes: bool,
    ) -> None:
        asked = active & self._unordered(bundle)[:, None]
        if not any_true(asked):
            return
        lanes = np.flatnonzero(asked)
        for allocation, written, either in self._earlier.marks:
            marks = either if writes else written
            for those, places in _places(allocation, address.reshape(-1)[lanes], size.reshape(-1)[lanes]):
                hit = np.flatnonzero(marks[places])
                if len(hit):
                    byte = int(places[hit[0]])
                    origin = Origin(site, bundle, int(lanes[those[hit[0]]]))
                    was = "written" if written[byte] else "read"
                    self._report(origin, f"byte 0x{byte:x} of {allocation.name}", was)
                    return

    def _report(self, origin: Origin, what: str, was: str) -> None:
        use = "used" if was == "written" else "written"
        report(
            "no grid wait",
            f"{what} is {use}, which kernel {self._earlier.kernel} of the launch before has {was}, and no"
            " griddepcontrol.wait orders this thread behind that launch. It has executed"
            " griddepcontrol.launch_dependents, so this launch may run beside it. Execute griddepcontrol.wait"
            " before the first use, and a barrier behind it if another thread does.",
            origin,
        )
