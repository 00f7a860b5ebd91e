"""tcgen05.alloc, dealloc and relinquish_alloc_permit: who owns which columns of tensor memory.

The memory itself is in emulator.memory.tensor_memory.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import WAIT, Bundle, Split
from cutecourse.emulator.core.kinds import WARP_SIZE, any_true
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.program import Program, Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.warp_values import require_whole_warps
from cutecourse.emulator.errors import (
    AddressError,
    ExitedCTAError,
    NonUniformOperand,
    TensorMemoryAllocationError,
)
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.shared_address import SharedTargets, take_shared_space
from cutecourse.emulator.memory.tensor_memory import (
    COLUMNS,
    LANES,
    SMALLEST,
    TensorMemories,
    TensorMemory,
    Ticket,
    split_address,
)

__all__ = ["check_peer", "take_cta_group", "uniform_value"]


class _CtaGroup:
    """The .cta_group that a program's tcgen05 instructions share, with the line of the first."""

    def __init__(self, program: Program) -> None:
        self.group = self.line = 0


def take_cta_group(site: Site) -> int:
    """Take .cta_group::1 or ::2, the same in all of a kernel's tcgen05 instructions."""
    group = int(site.expect("cta_group::1", "cta_group::2")[-1])
    first = site.program.own(_CtaGroup)
    if not first.group:
        first.group, first.line = group, site.line
    elif first.group != group:
        site.invalid(
            f".cta_group::{group} here and .cta_group::{first.group} at line {first.line}:"
            " all tcgen05 instructions of a kernel must have the same"
        )
    return group


def check_peer(origin: Origin, group: int) -> None:
    """Refuse .cta_group::2 for a CTA that is one of no pair, or whose peer has ended."""
    if group == 1:
        return
    bundle = origin.bundle
    peer = bundle.rank ^ 1
    if peer >= bundle.cohort.size:
        raise origin.error(
            AddressError,
            f".cta_group::2 works on CTAs {bundle.rank & ~1} and {bundle.rank | 1} of the cluster, but the"
            f" cluster has {bundle.cohort.size}",
        )
    if not bundle.cohort.alive(peer)[origin.lane // WARP_SIZE]:
        raise origin.error(ExitedCTAError, f".cta_group::2: the peer, CTA {peer} of the cluster, has ended")


def uniform_value(site: Site, bundle: Bundle, warp: int, row: NDArray[Any], what: str) -> int:
    """The value that all lanes of a warp have to give alike. Errors: NonUniformOperand."""
    values = row.reshape(-1, WARP_SIZE)[warp]
    first = int(values[0])
    other = values != first
    if any_true(other):
        lane = int(np.argmax(other))
        raise site.error(
            NonUniformOperand,
            f"{what} is {first} in lane 0 but {int(values[lane])} in lane {lane}: it must be the same in"
            " all lanes of the warp",
            bundle,
            warp * WARP_SIZE + lane,
        )
    return first


def _check_columns(origin: Origin, columns: int) -> None:
    if not SMALLEST <= columns <= COLUMNS or columns & (columns - 1):
        raise origin.error(
            TensorMemoryAllocationError,
            f"{columns} columns: their number must be a power of two from {SMALLEST} to {COLUMNS}",
        )


def _check_warp(origin: Origin, memory: TensorMemory, *, allocates: bool) -> None:
    """See that one warp allocates and frees. Errors: TensorMemoryAllocationError for an allocation."""
    warp = origin.bundle.warp
    if allocates and memory.warp is None:
        memory.warp = warp
    if memory.warp is None or memory.warp == warp:
        return
    if allocates:
        raise origin.error(
            TensorMemoryAllocationError,
            f"warp {warp} allocates tensor memory, but warp {memory.warp} of the CTA has done so before:"
            " one warp must do all of it",
        )
    problem = f"warp {warp} executes it, but warp {memory.warp} of the CTA has allocated"
    report("another warp frees", problem, origin, memory.line)


def _ask(bundle: Bundle, split: Split, tickets: list[Ticket], following: int) -> int:
    """Enter requests, one for each warp; those that wait become splits of their own."""
    memories = TensorMemories.of(bundle.cohort)
    for ticket in tickets:
        memories.ask(ticket)
    waiting = [ticket for ticket in tickets if ticket in memories.tickets]
    for ticket in waiting:
        lanes = np.zeros((bundle.n, WARP_SIZE), dtype=np.bool_)
        lanes[ticket.cluster] = True
        mask = bundle.full if split.mask is None else split.mask
        own = split if (mask & ~lanes).sum() == 0 else bundle.fork(split, lanes, split.at)
        ticket.split = own
        own.waiting = ticket
    return WAIT if split.waiting is not None else following


def _emit(kind: str, origin: Origin, columns: int, address: int | None, group: int, outcome: str) -> None:
    for tell in origin.bundle.cohort.listeners.happened:
        tell(
            kind,
            origin.bundle,
            origin.lane,
            origin.site.line,
            one=False,
            columns=columns,
            address=address,
            group=group,
            outcome=outcome,
        )


@instruction("tcgen05.alloc", control=True, gated=True)
def alloc(site: Site) -> Step:
    """Allocate columns of tensor memory and write their address to shared memory.

    Shapes:     a whole warp; address and number are the same in all lanes. With .cta_group::2 one warp of
                each CTA of the pair together, which get the same columns.
    Units:      columns of 128 lanes; a power of two from 32 to 512.
    Blocks:     while so many neighbouring columns are not free; with .cta_group::2 until the peer comes.
    Errors:     TensorMemoryAllocationError (number; more than before; another warp than before; after
                relinquish_alloc_permit; a pair that disagrees), NonUniformOperand, AddressError,
                AlignmentError, DivergedWarp; TensorMemoryLeak for what is not freed when the CTA ends.
    Simplified: each CTA has an SM of its own, so only its own allocations limit it. First fit; the
                hardware's choice is not documented.
    Source:     PTX ISA 9.0, tcgen05.alloc
                (#tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit).
    """
    group = take_cta_group(site)
    site.expect("aligned")
    if not site.has("sync"):
        site.unsupported("it needs .sync")
    space = take_shared_space(site, cluster=False)
    site.type("b32")
    targets = SharedTargets(site, site.address(0), space, 4)
    number = site.source(1, "u32")
    site.converge()

    def control(bundle: Bundle, split: Split, following: int) -> int:
        require_whole_warps(site, bundle, split.mask)
        memories = TensorMemories.of(bundle.cohort)
        tickets = []
        for warp in np.flatnonzero(site.active(bundle, split.mask).any(axis=1)).tolist():
            origin = Origin(site, bundle, warp * WARP_SIZE)
            columns = uniform_value(site, bundle, warp, bundle.rows["u32"][number], "the number of columns")
            address = uniform_value(
                site, bundle, warp, targets.address.lanes(bundle), "the address of the result"
            )
            _, offset = targets.resolve(bundle, origin.lane, address)
            check_peer(origin, group)
            _check_columns(origin, columns)
            memory = memories[warp, bundle.rank]
            _check_warp(origin, memory, allocates=True)
            memory.line = site.line
            if memory.relinquished is not None:
                raise origin.error(
                    TensorMemoryAllocationError,
                    f"the CTA gave up its right to allocate at line {memory.relinquished}",
                )
            if columns > memory.smallest_so_far:
                raise origin.error(
                    TensorMemoryAllocationError,
                    f"{columns} columns after an allocation of {memory.smallest_so_far}: later allocations"
                    " of a CTA must not be larger",
                )
            answer = partial(_allocated, origin, columns, group, offset)
            tickets.append(Ticket(origin, columns, group, answer, site.line, following))
        at = _ask(bundle, split, tickets, following)
        for ticket in tickets:
            if ticket.split is not None:
                _emit("tmem.alloc", ticket.origin, ticket.columns, None, group, "blocked")
        return at

    return control


def _allocated(origin: Origin, columns: int, group: int, offset: int, start: int) -> None:
    """Write the address to shared memory."""
    cohort = origin.bundle.cohort
    at = cohort.shared_start(origin.lane // WARP_SIZE, origin.bundle.rank) + offset
    cohort.shared[at : at + 4] = np.frombuffer(start.to_bytes(4, "little"), dtype=np.uint8)
    cohort.shared_written[at : at + 4] = 0xFF
    _emit("tmem.alloc", origin, columns, start, group, "passed")


@instruction("tcgen05.dealloc", control=True, gated=True)
def dealloc(site: Site) -> Step:
    """Free columns of tensor memory that tcgen05.alloc allocated.

    Shapes:     a whole warp; address and number are the same in all lanes. With
                .cta_group::2 one warp of each CTA of the pair together.
    Units:      columns.
    Blocks:     with .cta_group::2 until the peer comes, which the hardware may do or not.
    Errors:     TensorMemoryAllocationError (no such allocation), TensorMemoryHazard where an operation still
                works on the columns, NonUniformOperand, DivergedWarp. Another warp than the one that
                allocated is a note (emulator.core.hazards).
    Source:     PTX ISA 9.0, tcgen05.dealloc
                (#tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit).
    """
    group = take_cta_group(site)
    site.expect("aligned")
    if not site.has("sync"):
        site.unsupported("it needs .sync")
    site.type("b32")
    where, number = site.source(0, "u32"), site.source(1, "u32")
    site.converge()

    def control(bundle: Bundle, split: Split, following: int) -> int:
        require_whole_warps(site, bundle, split.mask)
        memories = TensorMemories.of(bundle.cohort)
        tickets = []
        for warp in np.flatnonzero(site.active(bundle, split.mask).any(axis=1)).tolist():
            origin = Origin(site, bundle, warp * WARP_SIZE)
            columns = uniform_value(site, bundle, warp, bundle.rows["u32"][number], "the number of columns")
            address = uniform_value(site, bundle, warp, bundle.rows["u32"][where], "the address")
            check_peer(origin, group)
            memory = memories[warp, bundle.rank]
            _check_warp(origin, memory, allocates=False)
            start = _find(origin, memory, address, columns)
            answer = partial(_freed, origin, columns, group)
            tickets.append(Ticket(origin, columns, group, answer, site.line, following, start=start))
        at = _ask(bundle, split, tickets, following)
        for ticket in tickets:
            if ticket.split is not None:
                _emit("tmem.dealloc", ticket.origin, ticket.columns, ticket.start, group, "blocked")
        return at

    return control


def _find(origin: Origin, memory: TensorMemory, address: int, columns: int) -> int:
    """The first column of the allocation at an address, checked."""
    lane, start = split_address(address)
    found = memory.allocations.get(start)
    if lane or found is None or found.columns != columns:
        held = ", ".join(f"{a.columns} at 0x{a.start:x}" for a in memory.allocations.values())
        raise origin.error(
            TensorMemoryAllocationError,
            f"{columns} columns at 0x{address:x} are to be freed, but are not an allocation of the CTA"
            f" (columns allocated: {held or 'none'})",
        )
    region = Region(np.ones(LANES, dtype=np.bool_), start, start + columns)
    memory.check_quiet(region, "tcgen05.dealloc", origin, writes=True, frees=True)
    return start


def _freed(origin: Origin, columns: int, group: int, start: int) -> None:
    _emit("tmem.dealloc", origin, columns, start, group, "passed")


@instruction("tcgen05.relinquish_alloc_permit")
def relinquish_alloc_permit(site: Site) -> Step:
    """Give up the CTA's right to allocate tensor memory; its allocations stay.

    Shapes:     a whole warp.
    Errors:     TensorMemoryAllocationError for a later tcgen05.alloc of any warp; DivergedWarp. Another warp
                than the one that allocated is a note.
    Simplified: with .cta_group::2 it does not wait for the peer, which the hardware may do or not.
    Source:     PTX ISA 9.0, tcgen05.relinquish_alloc_permit
                (#tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit).
    """
    group = take_cta_group(site)
    if not (site.has("sync") and site.has("aligned")):
        site.unsupported("it needs .sync.aligned")
    site.converge()

    def step(bundle: Bundle, mask: NDArray[np.bool_] | None) -> None:
        require_whole_warps(site, bundle, mask)
        memories = TensorMemories.of(bundle.cohort)
        for warp in np.flatnonzero(site.active(bundle, mask).any(axis=1)).tolist():
            origin = Origin(site, bundle, warp * WARP_SIZE)
            memory = memories[warp, bundle.rank]
            _check_warp(origin, memory, allocates=False)
            memory.relinquished = site.line
            for tell in bundle.cohort.listeners.happened:
                tell("tmem.relinquish", bundle, origin.lane, site.line, one=False, group=group)

    return step
