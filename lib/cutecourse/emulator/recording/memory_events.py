"""Loads, stores and atomic operations: as events for a recorder, and lane by lane for an access log.

A recorder asks for them with `Recorder(memory=True)`. An event is one warp's access by one instruction, with
the ranges of bytes that its lanes touch together. The accesses of a cp.async appear twice, both times at its
line: when it is issued, and when the copy takes place.

An access log gets the address of each lane. A cp.async is logged once, when it is issued.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Pipe
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.machine import Machine
from cutecourse.emulator.core.memory import LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW, WINDOW_BITS, Allocation
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.memory.access import Access
from cutecourse.trace import AccessLog

__all__ = ["AccessLogging", "MemoryRecording"]

_OFFSET = (1 << RANK_SHIFT) - 1


class MemoryRecording(Observer):
    """Gives a recorder the threads' accesses to shared and global memory."""

    def addressed(self, access: Access, bundle: Bundle, address: NDArray[Any], mask: Mask) -> None:
        """Announce the bytes that the lanes of each warp access."""
        if access.space not in {"shared", "shared::cluster", "global", "generic"}:
            return
        lanes = bundle.lanes(mask)
        flat = address.reshape(-1)
        for warp in np.unique(lanes // WARP_SIZE).tolist():
            own = lanes[lanes // WARP_SIZE == warp]
            addresses = np.unique(flat[own].astype(np.uint64)).tolist()
            touches = _ranges(access, bundle, addresses)
            if touches:
                about = {"name": access.site.instruction.name, "lanes": len(own), "touches": touches}
                for tell in bundle.cohort.listeners.happened:
                    origin = Origin(access.site, bundle, int(own[0]))
                    tell(f"memory.{_kind(access)}", origin, one=len(own) == 1, **about)


class AccessLogging(Observer):
    """Writes the address of every lane into an access log."""

    def __init__(self, log: AccessLog) -> None:
        self.log = log

    def addressed(self, access: Access, bundle: Bundle, address: NDArray[Any], mask: Mask) -> None:
        """Log the address of every active lane."""
        facts = access.site.facts
        if facts.uncounted or facts.pipe is Pipe.COPIES_OF_THREADS:  # `copy_asked` logs the copies
            return
        lanes = access.site.active(bundle, mask)
        self._add(access, bundle, _kind(access), address, lanes * np.uint8(access.size))

    def copy_asked(
        self,
        accesses: tuple[Access, Access],
        bundle: Bundle,
        addresses: tuple[NDArray[Any], NDArray[Any]],
        n_bytes: NDArray[Any],
        lanes: NDArray[np.bool_],
    ) -> None:
        """Log a cp.async as a load and a store."""
        (load, store), (origin, to) = accesses, addresses
        self._add(load, bundle, "load", origin, (lanes * n_bytes).astype(np.uint8))
        self._add(store, bundle, "store", to, lanes * np.uint8(store.size), origin)

    def _add(
        self,
        access: Access,
        bundle: Bundle,
        kind: str,
        address: NDArray[Any],
        n_bytes: NDArray[np.uint8],
        sources: NDArray[Any] | None = None,
    ) -> None:
        """Log an access of `n_bytes` bytes in each lane, shape (n, 32); 0 leaves the lane out.

        sources  for a copy to shared memory, the global address in each lane.
        """
        for space, places, here in _by_space(access.space, bundle, address):
            self.log.add(
                line=access.site.line,
                name=access.site.instruction.name,
                space=space,
                kind=kind,
                warp=bundle.warp,
                blocks=bundle.cohort.blocks[:, bundle.rank],
                addresses=places,
                n_bytes=n_bytes if here is None else n_bytes * here,
                passes=access.site.facts.passes,
                sources=sources,
            )


def _kind(access: Access) -> str:
    return "store" if not access.reads else "atomic" if access.writes else "load"


def _by_space(
    space: str, bundle: Bundle, address: NDArray[Any]
) -> Iterator[tuple[str, NDArray[Any], NDArray[np.bool_] | None]]:
    """The spaces that lanes access, with their addresses there and the lanes (None: all of them)."""
    if space == "generic":
        flat = address.astype(np.uint64)
        window = flat >> np.uint64(WINDOW_BITS)
        low = flat & np.uint64((1 << WINDOW_BITS) - 1)
        shared = window == SHARED_WINDOW >> WINDOW_BITS
        local = window == LOCAL_WINDOW >> WINDOW_BITS
        for name, places, here in (("local", low, local), ("global", flat, ~(shared | local))):
            if here.any():
                yield name, places, here
        if shared.any():
            for name, places, inside in _by_space("shared", bundle, low):
                yield name, places, shared if inside is None else shared & inside
    elif space.startswith("shared") and bundle.cohort.size > 1:
        own = (address >> RANK_SHIFT) == bundle.rank
        yield "shared", address & _OFFSET, own
        if not own.all():
            yield "remote", address & _OFFSET, ~own
    else:
        yield ("shared" if space.startswith("shared") else space), address, None


def _ranges(access: Access, bundle: Bundle, addresses: list[int]) -> list[dict[str, Any]]:
    """Join ascending addresses into ranges of bytes."""
    found: list[dict[str, Any]] = []
    for address in addresses:
        about = _place(access.space, bundle, address)
        if about is None:
            continue
        place, first = about
        before = found[-1] if found else None
        if before is not None and before["range"][1] >= first and place.items() <= before.items():
            before["range"][1] = max(before["range"][1], first + access.size)
        else:
            found.append({**place, "writes": access.writes, "range": [first, first + access.size]})
    return found


def _place(space: str, bundle: Bundle, address: int) -> tuple[dict[str, Any], int] | None:
    """The memory that holds an address, and the offset there; None for memory that is not recorded."""
    if space == "generic":
        if address >> WINDOW_BITS == SHARED_WINDOW >> WINDOW_BITS:
            space, address = "shared", address & ((1 << WINDOW_BITS) - 1)
        else:
            space = "global"
    if space.startswith("shared"):
        several = bundle.cohort.size > 1
        rank = address >> RANK_SHIFT if several else bundle.rank
        return {"space": "shared", "rank": rank}, address & _OFFSET if several else address
    found = bundle.machine.memory.find(address)
    if found is None or found.space != "global":
        return None
    return {"space": "global", "name": _name(bundle.machine, found)}, address - found.base


def _name(machine: Machine, allocation: Allocation) -> str:
    """The tensor map or parameter that names an allocation; else the name that errors use."""
    for bound in machine.tensor_maps.values():
        if bound.allocation is allocation and bound.map.name is not None:
            return str(bound.map.name)
    for name, offset in machine.program.placement.parameters.items():
        if int.from_bytes(machine.parameters[offset : offset + 8], "little") == allocation.base:
            return name
    return allocation.name
