"""The operands of bulk copies, and the rules for each: addresses, sizes, mbarriers and multicast masks."""

from __future__ import annotations

from functools import cache

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE
from cutecourse.emulator.core.memory import RANK_SHIFT, Allocation
from cutecourse.emulator.core.site import AddressSource, Site
from cutecourse.emulator.errors import (
    AddressError,
    AlignmentError,
    ExitedCTAError,
    InvalidOperand,
    MulticastError,
)
from cutecourse.emulator.instructions.bulk.request import Place

__all__ = [
    "barrier_place",
    "check_alive",
    "check_same_block",
    "destination_ranks",
    "global_bytes",
    "lane_value",
    "own_place",
    "shared_place",
    "take_multicast",
    "take_operands",
    "take_pair",
]

_RANK_MASK = (1 << RANK_SHIFT) - 1


def take_multicast(site: Site) -> bool:
    """Take .multicast::cluster."""
    return site.has("multicast::cluster")


def take_pair(site: Site) -> bool:
    """Take .cta_group: whether the mbarrier may be the peer's of the destination, as ::2 has it."""
    return site.one_of("cta_group::1", "cta_group::2") == "cta_group::2"


def destination_ranks(
    site: Site, bundle: Bundle, lane: int, mask: int, what: str = "the copy's destination"
) -> tuple[int, ...]:
    """The CTAs that a multicast mask names, checked against the cluster; `what` lies there.

    Errors: InvalidOperand, MulticastError, ExitedCTAError.
    """
    size = bundle.cohort.size
    if mask == 0:
        raise site.error(InvalidOperand, "the multicast mask is 0: it names no CTA", bundle, lane)
    ranks = _ranks_in(mask)
    for rank in ranks:
        if rank >= size:
            raise site.error(
                MulticastError,
                f"the multicast mask 0x{mask:04x} names CTA {rank} of a cluster of {size}",
                bundle,
                lane,
            )
        check_alive(site, bundle, lane, rank, what)
    return ranks


@cache
def _ranks_in(mask: int) -> tuple[int, ...]:
    """The ranks whose bits a mask of 16 has."""
    return tuple(rank for rank in range(16) if mask >> rank & 1)


def take_operands(site: Site, count: int) -> None:
    """Refuse an instruction with another number of operands."""
    if len(site.operands) != count:
        site.invalid(f"{site.instruction.name} takes {count} operands here, not {len(site.operands)}")


def lane_value(address: AddressSource, bundle: Bundle, lane: int) -> int:
    """The address that one lane gives."""
    return int(address.lanes(bundle).reshape(-1)[lane])


def shared_place(
    site: Site, bundle: Bundle, lane: int, address: int, n_bytes: int, alignment: int, what: str
) -> Place:
    """The block and offset of an address in shared memory, checked.

    Errors: AlignmentError; AddressError for a block that the cluster does not have, and for bytes behind the
            end of the block's memory; ExitedCTAError for a block that has ended.
    """
    cohort = bundle.cohort
    cluster = lane // WARP_SIZE
    offset, rank = (address & _RANK_MASK, address >> RANK_SHIFT) if cohort.size > 1 else (address, 0)
    limit = bundle.program.shared_bytes
    if rank < cohort.size and not offset % alignment and offset + n_bytes <= limit:
        check_alive(site, bundle, lane, rank, what)
        return Place(bundle, cluster, rank, offset)
    name = bundle.program.shared_name(offset)
    near = f" ({name})" if name else ""
    if rank >= cohort.size:
        raise site.error(
            AddressError,
            f"{what} is at 0x{address:x}, in CTA {rank} of a cluster of {cohort.size}",
            bundle,
            lane,
            address=address,
        )
    if offset % alignment:
        raise site.error(
            AlignmentError,
            f"{what} is at shared address 0x{address:x}{near}, which is not a multiple of {alignment}",
            bundle,
            lane,
            address=address,
            allocation=name,
        )
    raise site.error(
        AddressError,
        f"{what} is {n_bytes} bytes at shared address 0x{address:x}{near}, which end"
        f" {offset + n_bytes - limit} bytes past the end of the block's {limit} bytes",
        bundle,
        lane,
        address=address,
        allocation=name,
    )


def own_place(
    site: Site, bundle: Bundle, lane: int, address: int, n_bytes: int, alignment: int, what: str
) -> Place:
    """As `shared_place`, for an address that has to be in the own block's memory."""
    place = shared_place(site, bundle, lane, address, n_bytes, alignment, what)
    if place.rank != bundle.rank:
        raise site.error(
            InvalidOperand,
            f"{what} is at 0x{address:x}, in CTA {place.rank}, but .shared::cta means the executing CTA"
            f" (CTA {bundle.rank})",
            bundle,
            lane,
            address=address,
        )
    return place


def check_alive(site: Site, bundle: Bundle, lane: int, rank: int, what: str) -> None:
    """Refuse shared memory of another block that has ended: it is nobody's any more."""
    cluster = lane // WARP_SIZE
    if rank != bundle.rank and not bundle.cohort.alive(rank)[cluster]:
        raise site.error(
            ExitedCTAError,
            f"{what} lies in CTA {rank} of the cluster, which has ended. That CTA must wait at the cluster's"
            " barrier, or for an mbarrier, until no other CTA uses its memory.",
            bundle,
            lane,
        )


def global_bytes(
    site: Site, bundle: Bundle, lane: int, address: int, n_bytes: int, what: str
) -> tuple[Allocation, int]:
    """The allocation that holds some bytes of global memory, and where in it they start.

    Errors: AlignmentError, AddressError.
    """
    memory = bundle.machine.memory
    found = memory.find(address)
    if address % CHUNK:
        raise site.error(
            AlignmentError,
            f"{what} is at 0x{address:x}, which is not a multiple of {CHUNK}",
            bundle,
            lane,
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
        raise site.error(
            AddressError,
            f"{what} is {n_bytes} bytes at 0x{address:x} in global memory: {where}",
            bundle,
            lane,
            address=address,
            allocation=found.name if found else None,
        )
    return found, address - found.base


def barrier_place(site: Site, bundle: Bundle, lane: int, address: int) -> Place:
    """Where the mbarrier lies that an operand names."""
    return shared_place(site, bundle, lane, address, 8, 8, "the mbarrier")


def check_same_block(
    site: Site, bundle: Bundle, lane: int, to: Place, barrier: Place, *, pair: bool = False
) -> None:
    """A copy's mbarrier lies in the block that the copy goes to, or with `pair` in its peer."""
    if pair and to.rank ^ 1 == barrier.rank:
        return
    if to.rank != barrier.rank:
        raise site.error(
            InvalidOperand,
            f"the mbarrier lies in CTA {barrier.rank} and the destination in CTA {to.rank}: both must"
            f" be in the same CTA{', or in the same pair' if pair else ''}",
            bundle,
            lane,
        )
