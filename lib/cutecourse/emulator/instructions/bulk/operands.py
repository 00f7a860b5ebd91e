"""The operands of bulk copies, and the rules for each: addresses, sizes, mbarriers and multicast masks."""

from __future__ import annotations

from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.core.memory import RANK_SHIFT, Allocation
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import (
    AddressError,
    AlignmentError,
    InvalidOperand,
)
from cutecourse.emulator.instructions.bulk.request import Place, Targets
from cutecourse.emulator.memory.cta_ranks import check_alive, destination_ranks
from cutecourse.emulator.memory.shared_address import GENERIC, is_generic, outside

__all__ = [
    "DESTINATION",
    "SOURCE",
    "global_bytes",
    "shared_place",
    "take_cache_hint",
    "take_multicast",
    "targets_of",
]

DESTINATION, SOURCE = "the copy's destination", "the copy's source"
_RANK_MASK = (1 << RANK_SHIFT) - 1


def take_cache_hint(site: Site, index: int) -> None:
    """Take .L2::cache_hint and its policy, the operand at an index; they have no effect here."""
    if site.has("L2::cache_hint"):
        site.operand(index)


def take_multicast(site: Site, index: int, to: str) -> int | None:
    """Take .multicast::cluster with its mask, the operand at an index, and the cache hint behind it."""
    multicast = site.has("multicast::cluster")
    if multicast and to == "shared::cta":
        site.unsupported(".multicast::cluster goes to .shared::cluster")
    take_cache_hint(site, index + multicast)
    return site.source(index, "u16") if multicast else None


def targets_of(
    origin: Origin,
    address: int,
    n_bytes: int,
    barrier: int,
    *,
    own: bool,
    bits: int | None = None,
    pair: bool = False,
    alignment: int = CHUNK,
    period: int = CHUNK,
) -> Targets:
    """Where a copy into shared memory goes, checked: to an address, or there in all CTAs of a multicast mask.

    own     the address has to be in the own block's memory.
    barrier the mbarrier's address: in the block that the copy goes to or, with `pair`, in its peer.
    bits    the multicast mask.
    period  chunks are counted from the last multiple of so many bytes.
    """
    place = shared_place(origin, address, n_bytes, alignment, DESTINATION, own=own)
    bar = shared_place(origin, barrier, 8, 8, "the mbarrier")
    ranks: tuple[int, ...] = (place.rank,)
    if bits is not None:
        ranks = destination_ranks(origin, bits, DESTINATION)
    elif place.rank != bar.rank and not (pair and place.rank ^ 1 == bar.rank):
        raise origin.error(
            InvalidOperand,
            f"the mbarrier lies in CTA {bar.rank} and the destination in CTA {place.rank}: both must"
            f" be in the same CTA{', or in the same pair' if pair else ''}",
        )
    first_chunk, parity = (place.offset & -period) // CHUNK, bar.rank & 1 if pair else None
    return Targets(place, ranks, bar.offset, first_chunk, parity, named=(place.rank, bar.rank))


def shared_place(
    origin: Origin, address: int, n_bytes: int, alignment: int, what: str, *, own: bool = False
) -> Place:
    """The block and offset of an address in shared memory, checked; with `own` it is in the own block.

    Errors: AlignmentError; AddressError for a block that the cluster does not have, and for bytes behind the
            end of the block's memory; ExitedCTAError for a block that has ended; InvalidOperand for another
            block with `own`.
    """
    bundle, cohort = origin.bundle, origin.bundle.cohort
    offset, rank = (address & _RANK_MASK, address >> RANK_SHIFT) if cohort.size > 1 else (address, 0)
    limit = bundle.program.shared_bytes
    if rank < cohort.size and not offset % alignment and offset + n_bytes <= limit:
        check_alive(origin, rank, what)
        if own and rank != bundle.rank:
            raise origin.error(
                InvalidOperand,
                f"{what} is at 0x{address:x}, in CTA {rank}, but .shared::cta means the executing CTA"
                f" (CTA {bundle.rank})",
                address=address,
            )
        return Place(bundle, origin.cluster, rank, offset)
    if is_generic(address):
        raise origin.error(AddressError, f"{what} is at 0x{address:x}: {GENERIC}", address=address)
    if rank >= cohort.size:
        raise origin.error(
            AddressError,
            f"{what} is at 0x{address:x}, in CTA {rank} of a cluster of {cohort.size}",
            address=address,
        )
    name = bundle.program.shared_name(offset)
    at = f"shared address 0x{address:x}" + (f" ({name})" if name else "")
    if offset % alignment:
        raise origin.error(
            AlignmentError,
            f"{what} is at {at}, which is not a multiple of {alignment}",
            address=address,
            allocation=name,
        )
    raise origin.error(
        AddressError,
        f"{what} is {n_bytes} bytes at {at}: it {outside(bundle, offset, n_bytes)}",
        address=address,
        allocation=name,
    )


def global_bytes(origin: Origin, address: int, n_bytes: int, what: str) -> tuple[Allocation, int]:
    """The allocation that holds some bytes of global memory, and where in it they start.

    Errors: AlignmentError, AddressError.
    """
    memory = origin.bundle.machine.memory
    found = memory.find(address)
    if address % CHUNK:
        raise origin.error(
            AlignmentError,
            f"{what} is at 0x{address:x}, which is not a multiple of {CHUNK}",
            address=address,
            allocation=found.name if found else None,
        )
    if found is None or found.space != "global" or address + n_bytes > found.end:
        if found is not None and found.space == "global":
            where = f"they end {address + n_bytes - found.end} bytes past the end of {found.name}"
        elif near := memory.nearest(address):
            side = f"{near[1]} bytes past the end" if near[1] >= 0 else f"{-near[1]} bytes before the start"
            where = f"{side} of the nearest allocation, {near[0].name} ({near[0].nbytes} bytes)"
        else:
            where = "no allocation is near"
        raise origin.error(
            AddressError,
            f"{what} is {n_bytes} bytes at 0x{address:x} in global memory: {where}",
            address=address,
            allocation=found.name if found else None,
        )
    return found, address - found.base
