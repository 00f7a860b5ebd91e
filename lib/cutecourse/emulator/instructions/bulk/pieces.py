"""Bulk copies under way: how their bytes land in shared memory, and how stores read it and then write.

A copy into shared memory is issued by one thread and lands later in several pieces, in an order that the
launch's seed chooses; from the request until a piece has landed its destination counts as never written.
Each piece tells the mbarrier of its destination how many bytes have come. A copy out of shared memory reads
its source later and writes later still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import CHUNK, CHUNK_TYPE, WARP_SIZE
from cutecourse.emulator.core.machine import Machine, PendingWork
from cutecourse.emulator.core.memory import RANK_SHIFT, Allocation
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import AddressSource, Site
from cutecourse.emulator.errors import (
    AddressError,
    AlignmentError,
    ExitedCTAError,
    InvalidOperand,
    MulticastError,
)
from cutecourse.emulator.instructions.sync.mbarrier_state import complete_tx
from cutecourse.emulator.memory.proxies import BY_THREADS, IN_SIGHT, all_in_sight
from cutecourse.emulator.memory.unwritten import describe_unwritten

if TYPE_CHECKING:
    from cutecourse.emulator.checks.race_operations import Operation

__all__ = [
    "Arrival",
    "Chunks",
    "Out",
    "Piece",
    "Place",
    "Targets",
    "barrier_place",
    "check_alive",
    "check_same_block",
    "destination_ranks",
    "global_bytes",
    "land_later",
    "lands_in_pieces",
    "lane_value",
    "origins_under_way",
    "own_place",
    "pieces_of",
    "remember",
    "shared_place",
    "take_multicast",
    "take_operands",
    "take_pair",
]

_PIECES = 4
_CUT_FIRST = 256
_CUT_LATER = 4
_RANK_MASK = (1 << RANK_SHIFT) - 1
_LANDED = np.full(CHUNK, IN_SIGHT, dtype=np.uint8).view(CHUNK_TYPE)[0]
_NEVER = np.zeros(CHUNK, dtype=np.uint8).view(CHUNK_TYPE)[0]
Chunks = NDArray[np.int64] | slice
"""What picks chunks of shared memory: their numbers, or a slice of them."""


@dataclass(eq=False, slots=True)
class Place:
    """A place in the shared memory of a block of the cluster that a lane belongs to."""

    bundle: Bundle
    cluster: int
    rank: int
    offset: int

    def chunk(self, offset: int) -> int:
        """The number, in all of the cohort's shared memory, of the chunk at an offset in the block."""
        return (self.bundle.cohort.shared_start(self.cluster, self.rank) + offset) // CHUNK

    def in_block(self, rank: int) -> Place:
        """The same offset in another block."""
        return Place(self.bundle, self.cluster, rank, self.offset)

    def about(self) -> dict[str, int]:
        """For events."""
        return {"rank": self.rank, "offset": self.offset}


class Piece(Protocol):
    """A part of a copy into shared memory that lands on its own."""

    n_bytes: int
    """What the mbarrier counts for it."""
    covered: Chunks
    """Where it goes: numbers of chunks, counted from `first_chunk` of the copy; a slice where they are
    neighbours, which NumPy is faster with."""

    def put(self, held: NDArray[Any], first: int) -> None:
        """Put the source's bytes as they are now into chunks of `held` that are counted from `first`."""


# --- operands, and their checks ---------------------------------------------------------------------------


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


# --- into shared memory -----------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Targets:
    """Where a copy into shared memory goes, in one or more blocks; copies that are alike share it."""

    places: list[Place]
    """One in each destination block."""
    barrier: int
    """The mbarrier's offset in each destination block."""
    first_chunk: int
    """The offset in the block, in chunks, that the pieces' chunks are counted from."""
    parity: int | None = None
    """Which CTA of a destination's pair has the mbarrier, 0 the even one; None for the destination itself."""
    firsts: list[int] = field(init=False)
    """For each destination the chunk that the pieces' chunks are counted from, among the cohort's."""
    barriers: list[tuple[int, int, int]] = field(init=False)
    """For each destination the mbarrier that counts its bytes: cluster, rank and offset."""
    components: list[int] = field(init=False, default_factory=list)
    """Those mbarriers' components, once the record of races has asked for them."""
    named: list[Place] = field(default_factory=list)
    """The places that the instruction's own addresses name."""
    _seen_alive: int = -1
    """The cohort's `endings` when all blocks were last seen alive."""

    def __post_init__(self) -> None:
        offset = self.first_chunk * CHUNK
        self.firsts = [place.chunk(offset) for place in self.places]
        self.barriers = [(p.cluster, self.barrier_rank(p.rank), self.barrier) for p in self.places]

    def alive(self, cohort: Cohort) -> bool:
        """Whether no block that the copy needs has ended."""
        if self._seen_alive != cohort.endings:
            for place in (*self.named, *self.places):
                if not cohort.alive(place.rank).item(place.cluster):
                    return False
            self._seen_alive = cohort.endings
        return True

    def barrier_rank(self, rank: int) -> int:
        """The CTA whose mbarrier counts the bytes that land in a CTA."""
        return rank if self.parity is None else rank & ~1 | self.parity


@dataclass(eq=False, slots=True)
class Arrival:
    """A copy into the shared memory of one or more blocks, as it was asked for."""

    origin: Origin
    to: Targets
    transfer: int | None
    """The event that tells of the request."""


def pieces_of(count: int) -> list[tuple[int, int]]:
    """Cut a range of `count` things into a few pieces: (first, stop) of each."""
    n = min(_PIECES, count)
    edges = [count * i // n for i in range(n + 1)] if n else [0]
    return list(pairwise(edges))


def lands_in_pieces(machine: Machine) -> bool:
    """Whether a copy that is asked for lands in pieces, and not as a whole in each destination.

    A launch's first copies do, and of the later ones one in a few, as the seed chooses: what a kernel does
    wrong with a part of its bytes it does in its first turns, or often.
    """
    machine.copies += 1
    return machine.copies <= _CUT_FIRST or machine.random.randrange(_CUT_LATER) == 0


def land_later(
    arrival: Arrival, pieces: Sequence[Piece], *, covered: Chunks | None = None, keep: bool = False
) -> None:
    """Let the pieces land in every destination, later and in any order.

    `covered` are the chunks of all pieces, where they are known. `keep` leaves what the destination holds
    readable until then, for a reduction.
    """
    bundle = arrival.origin.bundle
    machine, races = bundle.machine, bundle.cohort.races
    _, written = bundle.cohort.shared_chunks
    wholes = [piece.covered for piece in pieces] if covered is None else [covered]
    copies = None if races is None else races.copies(arrival, wholes, len(pieces), adds=keep)
    for position, first in enumerate(arrival.to.firsts):
        copy = None if copies is None else copies[position]
        if not keep:
            for whole in wholes:
                _mark(written, first, whole, _NEVER)
        for piece in pieces:
            machine.defer(partial(_land, arrival, position, piece, copy))


def _mark(written: NDArray[Any], first: int, chunks: Chunks, mark: Any) -> None:
    """Write the same mark beside chunks that are counted from `first`."""
    if isinstance(chunks, slice):
        written[first + chunks.start : first + chunks.stop] = mark
    else:
        written[first:][chunks] = mark


def origins_under_way(cohort: Cohort, cluster: int, rank: int, offset: int) -> Iterator[Origin]:
    """Who has asked for the copies that have still to bring bytes to the mbarrier at an offset of a CTA."""
    for work in cohort.machine.pending:
        arguments = work.arguments_of(_land)
        if arguments is None:
            continue
        arrival, position = arguments[:2]
        same = arrival.origin.bundle.cohort is cohort
        if same and arrival.to.barriers[position] == (cluster, rank, offset):
            yield arrival.origin


def _land(arrival: Arrival, position: int, piece: Piece, copy: Operation | None) -> None:
    """A piece lands in one of the copy's destinations."""
    origin, to = arrival.origin, arrival.to
    place, first = to.places[position], to.firsts[position]
    cohort = origin.bundle.cohort
    if not to.alive(cohort):
        check_alive(origin.site, origin.bundle, origin.lane, place.rank, "the copy's destination")
        _check_landing(origin, place.rank)
    held, written = cohort.shared_chunks
    piece.put(held, first)
    _mark(written, first, piece.covered, _LANDED)
    for tell in cohort.listeners.happened_in:
        tell(
            "tma.land",
            cohort,
            place.cluster,
            place.rank,
            origin.site.line,
            transfer=arrival.transfer,
            offset=(to.first_chunk + _lowest(piece.covered)) * CHUNK,
            bytes=piece.n_bytes,
        )
    cluster, rank, offset = to.barriers[position]
    complete_tx(
        cohort,
        cluster,
        rank,
        offset,
        piece.n_bytes,
        transfer=arrival.transfer,
        origin=origin,
        work=copy,
    )


def _check_landing(origin: Origin, rank: int) -> None:
    """Report bytes that come to the own block of a copy, which has ended. Errors: UnfinishedLoad."""
    bundle = origin.bundle
    if rank == bundle.rank and not bundle.cohort.alive(rank)[origin.lane // WARP_SIZE]:
        problem = (
            "the block ended before this copy had brought all its bytes. Add a wait for the copy's mbarrier"
            " before the kernel's end."
        )
        report("unfinished load", problem, origin)


def _lowest(chunks: Chunks) -> int:
    return int(chunks.start) if isinstance(chunks, slice) else int(chunks.min())


# --- out of shared memory ---------------------------------------------------------------------------------


@dataclass(eq=False)
class Out:
    """A copy out of shared memory: pieces are read, and what was read is written later.

    `cohort_chunks` are numbers of chunks among the cohort's shared memory; `needed` tells for each whether it
    has to have been written (None: all).
    """

    origin: Origin
    group: int
    """The number that the thread's open group will have."""
    transfer: int | None = None
    released: bool = False
    """Whether the thread has waited until the source was read."""
    reads: list[PendingWork] = field(default_factory=list)
    writes: list[PendingWork] = field(default_factory=list)

    def add(
        self,
        cohort_chunks: NDArray[np.int64],
        write: Callable[[NDArray[Any]], None],
        needed: NDArray[np.bool_] | None = None,
    ) -> None:
        """Read these chunks later, and give them to `write` later still."""
        bundle = self.origin.bundle
        if bundle.cohort.races is not None:
            bundle.cohort.races.copies_out(self.origin, cohort_chunks, self.group)
        self.check(cohort_chunks, needed)
        self.reads.append(self.origin.bundle.machine.defer(partial(self._read, cohort_chunks, write, needed)))

    def check(
        self, cohort_chunks: NDArray[np.int64], needed: NDArray[np.bool_] | None, *, issued: bool = False
    ) -> None:
        """Refuse a source that nobody has written, or that the asynchronous proxy does not see yet."""
        bundle = self.origin.bundle
        if bundle.cohort.provenance is not None and not issued:
            bundle.cohort.provenance.read(cohort_chunks)
        marks = bundle.cohort.shared_chunks[1][cohort_chunks]
        if all_in_sight(marks):
            return
        written = marks.view(np.uint8).reshape(*marks.shape, CHUNK)
        wrong = (written == 0) | (written == BY_THREADS)
        if needed is not None:
            wrong &= needed
        if issued and bundle.machine.severities["no proxy fence"] != "error":
            # What was stored without a fence before the issue looks the same as what was stored since.
            wrong &= written == 0
        if not wrong.any():
            return
        place = np.argwhere(wrong)[0]
        byte = int(cohort_chunks[tuple(place[:-1])]) * CHUNK + int(place[-1])
        offset = byte % bundle.cohort.shared_stride
        name = bundle.program.shared_name(offset)
        hazard = "never written"
        problem = "never written. " + describe_unwritten(self.origin, "the copy", asynchronous=True)
        if written[tuple(place)] and issued:
            hazard = "source overwritten"
            problem = (
                "written again before the copy had read it. Is a cp.async.bulk.wait_group.read"
                " with a barrier after it missing before that store?"
            )
        elif written[tuple(place)]:
            hazard = "no proxy fence"
            problem = (
                "written by a thread with no fence.proxy.async after it, so the copy may not see it."
                " Each thread must fence its stores; then comes a barrier, then the copy."
            )
        report(
            hazard,
            f"the copy's source has a byte at shared offset 0x{offset:x}"
            + (f" (in {name})" if name else "")
            + f" that was {problem}",
            self.origin,
            address=offset,
            allocation=name,
        )

    def _read(
        self,
        cohort_chunks: NDArray[np.int64],
        write: Callable[[NDArray[Any]], None],
        needed: NDArray[np.bool_] | None,
    ) -> None:
        self.check(cohort_chunks, needed, issued=True)
        bundle = self.origin.bundle
        machine = bundle.machine
        held, _ = bundle.cohort.shared_chunks
        self.writes.append(machine.defer(partial(write, held[cohort_chunks])))
        if self.was_read:
            cluster, line = self.origin.lane // WARP_SIZE, self.origin.site.line
            for tell in bundle.cohort.listeners.happened_in:
                tell("tma.read", bundle.cohort, cluster, bundle.rank, line, transfer=self.transfer)

    @property
    def was_read(self) -> bool:
        """Whether the whole source has been read."""
        return all(work.done for work in self.reads)

    @property
    def done(self) -> bool:
        """Whether all of it has been written."""
        return self.was_read and all(work.done for work in self.writes)

    def finish_reads(self) -> None:
        """Read what has not been read."""
        self._finish(self.reads)
        self.released = True

    def finish(self) -> None:
        """Read and write what is left."""
        self.finish_reads()
        self._finish(self.writes)

    def _finish(self, works: list[PendingWork]) -> None:
        left = [work for work in works if not work.done]
        self.origin.bundle.machine.random.shuffle(left)
        for work in left:
            work.finish()


# --- events -----------------------------------------------------------------------------------------------


def remember(
    origin: Origin,
    operation: str,
    *,
    tensor: str | None,
    coords: Sequence[int],
    box: Sequence[int],
    n_bytes: int,
    destinations: Sequence[Place] = (),
    barrier: int | None = None,
    barrier_rank: int | None = None,
    mask: int | None = None,
    source: Any = None,
) -> int | None:
    """Announce a request; returns its event's index, or None where nobody listens.

    `barrier` is an offset in CTA `barrier_rank`, which is the first destination's where it is left out.
    """
    bundle = origin.bundle
    listeners = bundle.cohort.listeners.happened
    if not listeners:
        return None
    about = None
    if barrier is not None:
        rank = destinations[0].rank if destinations else bundle.rank
        rank = rank if barrier_rank is None else barrier_rank
        label = bundle.program.placement.shared_label(barrier)
        about = {"rank": rank, "offset": barrier, "name": label}
    (tell,) = listeners
    index: int | None = tell(
        "tma.issue",
        bundle,
        origin.lane,
        origin.site.line,
        operation=operation,
        tensor=tensor,
        coords=list(coords),
        box=list(box),
        bytes=n_bytes,
        destinations=[place.about() for place in destinations],
        barrier=about,
        mask=mask,
        source=source,
    )
    return index
