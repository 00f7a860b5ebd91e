"""tcgen05.alloc, dealloc and relinquish_alloc_permit: who owns which columns of tensor memory.

The memory itself is in emulator.memory.tensor_memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import WAIT, Bundle, Split
from cutecourse.emulator.core.facts import Facts, MemoryUse
from cutecourse.emulator.core.kinds import Mask, any_true
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.program import Program, Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.warp_values import each_warp, take_sync_aligned, tell_warp
from cutecourse.emulator.errors import (
    AddressError,
    ExitedCTAError,
    NonUniformOperand,
    TensorMemoryAllocationError,
)
from cutecourse.emulator.instructions.stating import by_modifiers, shared_space_of
from cutecourse.emulator.memory.proxies import BY_THREADS
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
from cutecourse.ptx.syntax import Instruction

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
            f".cta_group::{group} here and .cta_group::{first.group} at line"
            f" {site.program.line_in_words(first.line)}: all tcgen05 instructions of a kernel must have"
            " the same"
        )
    return group


def check_peer(origin: Origin, group: int) -> None:
    """Refuse .cta_group::2 for a CTA that has no peer, or whose peer has ended."""
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
    if not bundle.cohort.alive(peer)[origin.cluster]:
        raise origin.error(ExitedCTAError, f".cta_group::2: the peer, CTA {peer} of the cluster, has ended")


def uniform_value(origin: Origin, row: NDArray[Any], what: str) -> int:
    """The value that must be the same in all lanes of a warp. Errors: NonUniformOperand."""
    values = row[origin.cluster]
    first = int(values[0])
    other = values != first
    if any_true(other):
        lane = int(np.argmax(other))
        raise Origin(origin.site, origin.bundle, origin.lane + lane).error(
            NonUniformOperand,
            f"{what} is {first} in lane 0 but {int(values[lane])} in lane {lane}: it must be the same in"
            " all lanes of the warp",
        )
    return first


def _check_warp(origin: Origin, allocator: Origin | None) -> None:
    """Report a warp that allocates, frees or relinquishes although another one has allocated."""
    if allocator is not None and allocator.bundle.warp != origin.bundle.warp:
        report(
            "another warp allocates or frees",
            f"warp {origin.bundle.warp} executes it, but warp {allocator.bundle.warp} of the CTA has"
            " allocated",
            origin,
            allocator.site.line,
        )


_Check = Callable[[Origin, TensorMemory, int, int], tuple[int | None, int | None]]
"""(thread, memory, number of columns, address) -> the first column to free, the offset in shared memory to
write the address to; None for what an instruction does not do."""


def _define(
    site: Site, group: int, number: int, address: Callable[[Bundle], NDArray[Any]], what: str, check: _Check
) -> Step:
    """Define alloc or dealloc: check each warp's request, and enter it; `address` is that of `what`."""

    def tell_of(origin: Origin, columns: int, start: int | None, outcome: str) -> None:
        kind = f"tmem.{site.instruction.modifiers[0]}"
        tell_warp(origin, kind, columns=columns, address=start, group=group, outcome=outcome)

    def answer(origin: Origin, columns: int, offset: int | None, start: int) -> None:
        if offset is not None:
            cohort = origin.bundle.cohort
            at = cohort.shared_start(origin.cluster, origin.bundle.rank) + offset
            cohort.shared[at : at + 4] = np.frombuffer(start.to_bytes(4, "little"), dtype=np.uint8)
            cohort.shared_written[at : at + 4] = BY_THREADS
        tell_of(origin, columns, start, "passed")

    def control(bundle: Bundle, split: Split, following: int) -> int:
        memories = bundle.cohort.own(TensorMemories)
        tickets = []
        for origin in each_warp(site, bundle, split.mask):
            columns = uniform_value(origin, bundle.rows["u32"][number], "the number of columns")
            place = uniform_value(origin, address(bundle), what)
            check_peer(origin, group)
            start, offset = check(origin, memories[origin.cluster, bundle.rank], columns, place)
            granted = partial(answer, origin, columns, offset)
            tickets.append(Ticket(origin, columns, group, granted, following, start=start))
        for ticket in tickets:
            memories.ask(ticket)
        for ticket in tickets:
            if ticket in memories.tickets:
                lanes = np.zeros_like(bundle.full)
                lanes[ticket.cluster] = True
                ticket.split = bundle.part(split, lanes)
                ticket.split.waiting = ticket
                tell_of(ticket.origin, ticket.columns, ticket.start, "blocked")
        return WAIT if split.waiting is not None else following

    return control


@by_modifiers
def _alloc_facts(one: Instruction) -> Facts:
    return Facts(
        category="tcgen05",
        uses=(MemoryUse(shared_space_of(one), 4, writes=True),),
        uncounted="tcgen05.alloc",
        allocates=True,
        publishes=True,
    )


@instruction("tcgen05.alloc", control=True, gated=True, facts=_alloc_facts)
def alloc(site: Site) -> Step:
    """Allocate columns of tensor memory and write their address to shared memory.

    Shapes:     a whole warp; address and number are the same in all lanes. With .cta_group::2 one warp of
                each CTA of the pair together, which get the same columns.
    Units:      columns of 128 lanes; a power of two from 32 to 512.
    Blocks:     until that many neighbouring columns are free; with .cta_group::2 until the peer comes too.
    Errors:     TensorMemoryAllocationError (number; more than before; after relinquish_alloc_permit; a pair
                that disagrees), NonUniformOperand, AddressError, AlignmentError, DivergedWarp;
                TensorMemoryLeak for what is not freed when the CTA ends. Another warp than the one that
                allocated before is a note (emulator.core.hazards).
    Simplified: each CTA has an SM of its own, so only its own allocations limit it. First fit; the
                hardware's choice is not documented.
    Source:     PTX ISA 9.0, tcgen05.alloc
                (#tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit).
    """
    group = take_cta_group(site)
    take_sync_aligned(site)
    space = take_shared_space(site, cluster=False)
    site.type("b32")
    targets = SharedTargets(site, site.address(0), space, 4)

    def check(origin: Origin, memory: TensorMemory, columns: int, address: int) -> tuple[None, int]:
        _, offset = targets.resolve(origin.bundle, origin.lane, address)
        if not SMALLEST <= columns <= COLUMNS or columns & (columns - 1):
            raise origin.error(
                TensorMemoryAllocationError,
                f"{columns} columns: their number must be a power of two from {SMALLEST} to {COLUMNS}",
            )
        _check_warp(origin, memory.allocator)
        memory.allocator = origin
        if memory.relinquished is not None:
            raise origin.error(
                TensorMemoryAllocationError,
                f"the CTA gave up its right to allocate at line"
                f" {site.program.line_in_words(memory.relinquished)}",
            )
        if columns > memory.smallest_so_far:
            raise origin.error(
                TensorMemoryAllocationError,
                f"{columns} columns after an allocation of {memory.smallest_so_far}: later allocations"
                " of a CTA must not be larger",
            )
        return None, offset

    lanes = targets.address.lanes
    return _define(site, group, site.source(1, "u32"), lanes, "the address of the result", check)


@instruction("tcgen05.dealloc", control=True, gated=True, facts=Facts(category="tcgen05", publishes=True))
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
    take_sync_aligned(site)
    site.type("b32")
    where, number = site.source(0, "u32"), site.source(1, "u32")

    def check(origin: Origin, memory: TensorMemory, columns: int, address: int) -> tuple[int, None]:
        lane, start = split_address(address)
        found = memory.allocations.get(start)
        if lane or found is None or found.columns != columns:
            held = ", ".join(f"{a.columns} at 0x{a.start:x}" for a in memory.allocations.values())
            raise origin.error(
                TensorMemoryAllocationError,
                f"{columns} columns at 0x{address:x} are to be freed, but are not an allocation of the CTA"
                f" (columns allocated: {held or 'none'})",
            )
        _check_warp(origin, found.origin)
        region = Region(np.ones(LANES, dtype=np.bool_), start, start + columns)
        memory.check_quiet(region, "tcgen05.dealloc", origin, writes=True, frees=True)
        for tell in origin.bundle.cohort.listeners.tensor_freeing:
            tell(memory, start, columns, origin, group)
        return start, None

    return _define(site, group, number, lambda bundle: bundle.rows["u32"][where], "the address", check)


@instruction("tcgen05.relinquish_alloc_permit", facts=Facts(category="tcgen05", publishes=True))
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
    take_sync_aligned(site)

    def step(bundle: Bundle, mask: Mask) -> None:
        for origin in each_warp(site, bundle, mask):
            memory = bundle.cohort.own(TensorMemories)[origin.cluster, bundle.rank]
            _check_warp(origin, memory.allocator)
            memory.relinquished = site.line
            tell_warp(origin, "tmem.relinquish", group=group)

    return step
