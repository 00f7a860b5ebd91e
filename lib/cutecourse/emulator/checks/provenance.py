"""The origin of the bytes in shared memory, and a report of bytes that nobody reads.

Each 16-byte chunk of a cohort's shared memory has two numbers. Its `tag` says which chunk of a tensor a
tensor copy has put there (emulator.checks.tags). Its `owner` says who wrote it: a copy (1 and up) or a store
of threads (-2 and down). Once a tcgen05.mma or wgmma has read the chunk, the owner is `BY_MMA`. After any
other read the owner is 0, for nobody.

Tags and owners are set when a copy is issued, not when it lands: nobody may read the bytes in between. Chunks
from outside the tensor have no owner, because a box past the end need not be read. A cohort has tags and
owners only if its kernel has bulk copies from global to shared memory, tcgen05.mma or wgmma.

A tensor map without a swizzle whose boxes are contiguous in global memory may hold tiles that were rearranged
beforehand. Its coordinates say nothing about a matrix, so its chunks have no tags. Plain bulk copies give no
tags either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.tags import NUMBER, Steps, Tags
from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.facts import Pipe
from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.trace.words import runs

if TYPE_CHECKING:
    from cutecourse.emulator.core.program import Program
    from cutecourse.emulator.instructions.bulk.boxes import Box
    from cutecourse.emulator.instructions.bulk.pieces import Chunks
    from cutecourse.emulator.instructions.bulk.request import Copy
    from cutecourse.emulator.memory.access import Access
    from cutecourse.emulator.memory.regions import Region
    from cutecourse.emulator.memory.tensor_map import BoundTensorMap, Window
    from cutecourse.emulator.memory.tensor_memory import TensorMemory

__all__ = ["BY_MMA", "Provenance", "chunks_inside", "provenance_of", "ranges"]

BY_MMA = -1
_ALL_READ = np.int32(BY_MMA).tobytes()
_LEAST, _LEAST_OF_TILES = 32, 1024
"""A copy is reported if 1 byte in this many stays unread. Fewer may be corners of a halo; a tile has none."""
_ROWS = 8
_GRANULE = 1024 // CHUNK
"""Every swizzle repeats after this many chunks. If threads store tiles, all of these belong to one tile."""
_MOST_RANGES = 4
_CHECKS = ("another layout", "operand read twice", "another k", "loaded and never read")


def provenance_of(cohort: Cohort) -> Provenance | None:
    """A cohort's tags and owners; None if no instruction or no hazard needs them."""
    machine = cohort.machine
    asked = machine.program.own(_loads) or machine.program.own(_multiplies)
    if not asked or all(machine.severities.is_off(name) for name in _CHECKS):
        return None
    return cohort.own(Provenance)


def _loads(program: Program) -> bool:
    """True if a program has bulk copies from global to shared memory."""
    return any(
        facts.pipe is Pipe.BULK_COPIES and facts.reads("global") and facts.writes("shared", "shared::cluster")
        for _, facts in program.stated
    )


def _multiplies(program: Program) -> bool:
    """True if a program has tcgen05.mma or wgmma."""
    return any(facts.multiplies_asynchronously for _, facts in program.stated)


@dataclass(eq=False, slots=True)
class _Site:
    """The chunks that one instruction has brought into a cohort's shared memory."""

    origin: Origin
    brought: int = 0
    unread: int = 0
    left: str = ""
    """The part of the first such copy that nothing had read, in words."""
    scattered: bool = False
    """True if rows that were read lie between the unread ones."""
    tile: bool = False
    """True if a tcgen05.mma or wgmma has read some of the chunks."""


class Provenance(Observer):
    """The tags and owners of a cohort's shared memory."""

    def __init__(self, cohort: Cohort) -> None:
        self.cohort = cohort
        self.stores_count = cohort.machine.program.own(_multiplies)
        """True if the tiles that threads store are checked, because the kernel has tcgen05.mma or wgmma."""
        n_chunks = cohort.shared.size // CHUNK
        self.tag: NDArray[np.int64] = np.zeros(n_chunks, dtype=np.int64)
        self.owner: NDArray[np.int32] = np.zeros(n_chunks, dtype=np.int32)
        self.beyond: NDArray[np.bool_] = np.zeros(n_chunks, dtype=np.bool_)
        """True for the chunks of a box wholly outside its tensor, and of a reduction."""
        self.any_beyond = False
        """False while all of `beyond` is False, so that it need not be read."""
        self.loads: list[Copy] = []
        self.good: dict[tuple[int, str, str, bool, bytes], Steps | None] = {}
        """The steps along k of operands that were found correct, by tensor map, descriptor's swizzle, element
        type, K-major or not, and tags minus the first."""
        self._sites: dict[int, _Site] = {}
        self._stores: list[Origin] = []
        self._store_numbers: dict[int, int] = {}
        self._tags: dict[int, Tags | None] = {}
        self._by_number: list[Tags] = []

    # --- what is written ------------------------------------------------------------------------------------

    def bulk_writes(self, copy: Copy, parts: Sequence[Chunks], pieces: int) -> None:
        """Record a copy of a tensor's box or of contiguous bytes.

        The bytes of a reduction need not be read.
        """
        if copy.box is not None:
            self._box(copy, copy.box)
        elif copy.n_bytes:
            inside = False if copy.operation == "reduce" else None
            self._land(copy, slice(0, copy.n_bytes // CHUNK), 0, inside)

    def _box(self, copy: Copy, box: Box) -> None:
        """Record the box of a tensor that a copy writes to each of its destinations."""
        bound, offset = box.bound, _offset_of(copy)
        tags = self._tags_of(bound)
        first = None if tags is None else tags.first(box.coords)
        inner = chunks_inside(bound, box.inside)
        chunks: Chunks = bound.covered(offset)
        in_place = inner is None and isinstance(chunks, slice)
        if not in_place:
            chunks = bound.chunks(offset)
        values: NDArray[np.int64] | int = 0
        if tags is not None and first is not None:
            values = (tags.in_place(offset) if in_place else tags.relative) + first
        self._land(copy, chunks, values, inner)

    def _land(
        self,
        copy: Copy,
        chunks: Chunks,
        tags: NDArray[np.int64] | int,
        inside: NDArray[np.bool_] | bool | None,
    ) -> None:
        """Set owners and tags. `inside` says which chunks hold elements of the tensor; None: all of them."""
        assert copy.to is not None
        self.loads.append(copy)
        number = len(self.loads)
        site = self._sites.get(id(copy.origin.site))
        if site is None:
            site = self._sites[id(copy.origin.site)] = _Site(copy.origin)
        marks = number if inside is None else np.where(inside, number, 0).astype(np.int32)
        n_chunks = chunks.stop - chunks.start if isinstance(chunks, slice) else chunks.size
        brought = n_chunks if inside is None else int(np.count_nonzero(marks))
        site.brought += brought * len(copy.to.firsts)
        all_read = _ALL_READ * n_chunks
        for start in copy.to.firsts:
            at = (
                slice(start + chunks.start, start + chunks.stop)
                if isinstance(chunks, slice)
                else chunks + start
            )
            old = self.owner[at]
            # Usually an MMA has read all of it.
            if old.tobytes() != all_read and old.max() > 0:
                self._lost(old, start)
            self.owner[at] = marks
            self.tag[at] = tags
            if not brought or self.any_beyond:
                self.beyond[at] = not brought
                self.any_beyond = True

    def accessed(
        self,
        access: Access,
        bundle: Bundle,
        index: NDArray[np.int64],
        lanes: NDArray[np.int64] | None,
        values: NDArray[Any] | None,
        *,
        away: bool,
    ) -> None:
        """Update owners and tags where threads read or write shared memory."""
        at = index.reshape(-1)
        chunks = at * access.size // CHUNK
        if access.size > CHUNK:
            chunks = np.concatenate([chunks, chunks + 1])
        if access.reads or not self.stores_count or not at.size:
            self.owner[chunks] = 0
        else:
            number = self._store_numbers.get(id(access))
            if number is None:
                self._stores.append(access.thread(bundle, lanes, 0))
                number = self._store_numbers[id(access)] = BY_MMA - len(self._stores)
            self.owner[chunks] = number
        if access.writes:
            self.tag[chunks] = 0

    def _tags_of(self, bound: BoundTensorMap) -> Tags | None:
        key = id(bound)
        if key not in self._tags:
            found = Tags.of(bound, len(self._by_number) + 1)
            self._tags[key] = found
            if found is not None:
                self._by_number.append(found)
        return self._tags[key]

    def tags_by(self, tag: int) -> Tags | None:
        """The numbering of the tensor map that a chunk's tag names; None for no tag."""
        return self._by_number[(tag >> NUMBER) - 1] if tag else None

    # --- bytes that are read --------------------------------------------------------------------------------

    def bulk_reads(self, copy: Copy, chunks: NDArray[np.int64]) -> None:
        """Record the chunks that a copy reads."""
        self.owner[chunks] = 0

    def tensor_copied(self, memory: TensorMemory, region: Region, chunks: NDArray[np.int64]) -> None:
        """Record the chunks that a tcgen05.cp reads."""
        self.owner[chunks] = 0

    # --- what is not read -----------------------------------------------------------------------------------

    def _lost(self, owners: NDArray[np.int32], start: int) -> None:
        """Count the unread chunks of copies that are now overwritten, or whose block has ended."""
        for number in np.unique(owners[owners > 0]).tolist():
            copy = self.loads[number - 1]
            site = self._sites[id(copy.origin.site)]
            site.unread += int((owners == number).sum())
            if not site.left:
                stride = self.cohort.shared_stride // CHUNK
                held = _chunks_of(copy, self.owner[start // stride * stride :][:stride])
                site.left, site.scattered = _left(copy, held == number)
                site.tile = bool((held == BY_MMA).any())
                site.origin = copy.origin

    def cohort_ended(self, cohort: Cohort) -> None:
        """Report the bytes that nobody has read."""
        stride = cohort.shared_stride // CHUNK
        for start in range(0, len(self.owner), stride):
            owners = self.owner[start : start + stride]
            if owners.max() > 0:
                written = cohort.shared_chunks[1][start : start + stride]
                landed = written.view(np.uint8).reshape(-1, CHUNK).all(axis=1)
                self._lost(np.where(landed, owners, 0), start)
            if self._stores and owners.min() < BY_MMA:
                self._check_stores(owners, start)
        sites = [site for site in self._sites.values() if site.unread]
        if all(site.unread == site.brought for site in self._sites.values()):
            return  # the kernel uses nothing that it loads: it only times copies, say
        for site in sites:
            least = _LEAST_OF_TILES if site.tile else _LEAST
            if site.unread * least >= site.brought:
                name = "another layout" if site.tile and site.scattered else "loaded and never read"
                report(name, partial(_unread, site), site.origin)

    def _check_stores(self, owners: NDArray[np.int32], start: int) -> None:
        """Report tiles that threads have stored and that a tcgen05.mma or wgmma has read only in part.

        Zeros need not be read, because they may be padding.
        """
        owners = owners[: len(owners) // _GRANULE * _GRANULE].reshape(-1, _GRANULE)
        held = self.cohort.shared_chunks[0][start : start + owners.size].view(np.uint64).reshape(-1, 2)
        unread = (owners < BY_MMA) & held.any(axis=1).reshape(owners.shape)
        unread &= (owners == BY_MMA).any(axis=1)[:, None]
        scattered = _scattered(unread, owners)
        for number in np.unique(owners[unread]).tolist():
            origin = self._stores[BY_MMA - number - 1]
            which = np.flatnonzero(unread & (owners == number))
            offset = int(which[0]) * CHUNK

            def problem(n_bytes: int = CHUNK * len(which), offset: int = offset) -> str:
                return (
                    f"{n_bytes} bytes that threads stored here are in a tile that an MMA reads, but"
                    f" no MMA has read them, first at shared offset 0x{offset:x}. Does the"
                    " descriptor's layout, M or N leave them out?"
                )

            report("another layout" if scattered else "loaded and never read", problem, origin)


def _scattered(unread: NDArray[np.bool_], owners: NDArray[np.int32]) -> bool:
    """False if the 8 rows of each group lack equally many chunks, and no read group lies between unread ones.

    Then an MMA left out some k, or neighbouring rows. Shapes: (groups, 64 chunks), 8 rows of 128 bytes each.
    """
    rows = unread.reshape(len(unread), _ROWS, -1).sum(axis=2)
    if (rows != rows[:, :1]).any():
        return True
    which = np.flatnonzero(rows[:, 0])
    return any(
        bool((owners[low + 1 : high] == BY_MMA).any()) for low, high in pairwise(which) if high > low + 1
    )


def _offset_of(copy: Copy) -> int:
    """The offset in bytes at which a copy begins in each block's shared memory."""
    assert copy.to is not None
    return copy.to.place.offset


def _chunks_of(copy: Copy, block: NDArray[np.int32]) -> NDArray[np.int32]:
    """The owners of the chunks that a copy fills, out of all in a block, in the order of the box."""
    offset = _offset_of(copy)
    if copy.box is None:
        return block[offset // CHUNK :][: copy.n_bytes // CHUNK]
    return block[copy.box.bound.chunks(offset) + (offset & ~1023) // CHUNK]


def chunks_inside(bound: BoundTensorMap, inside: Window | None) -> NDArray[np.bool_] | None:
    """True for each chunk of a box that holds elements of the tensor; None if all do."""
    if inside is None:
        return None
    counts = bound.map.counts
    unit = CHUNK // bound.map.item_bytes
    found = np.zeros((*counts[:0:-1], counts[0] // unit), dtype=np.bool_)
    if not inside.empty:
        outer = [slice(low, high) for low, high in zip(inside.first[1:], inside.stop[1:], strict=True)]
        found[(*outer[::-1], slice(inside.first[0] // unit, -(-inside.stop[0] // unit)))] = True
    return found


# --- in words -----------------------------------------------------------------------------------------------


def ranges(numbers: Sequence[int], unit: int = 1) -> str:
    """Ascending numbers as ranges: "0..7, 16..23, ..."; each stands for `unit` neighbours.

    >>> ranges([0, 1, 2, 5], 8)
    '0..23, 40..47'
    """
    found = [(first * unit, (last + 1) * unit - 1) for first, last in runs(numbers)]
    shown = [f"{low}..{high}" if high > low else f"{low}" for low, high in found]
    return ", ".join(shown[:_MOST_RANGES] + ["..."] * (len(shown) > _MOST_RANGES))


def _left(copy: Copy, unread: NDArray[np.bool_]) -> tuple[str, bool]:
    """Describe the unread chunks of a copy; the flag is True if rows that were read lie between them."""
    if copy.box is None:
        return f"bytes {ranges(np.flatnonzero(unread).tolist(), CHUNK)} of {copy.n_bytes}", False
    scattered = False
    tensor_map = copy.box.bound.map
    parts = []
    for axis, count in enumerate(tensor_map.counts):
        unit = 1 if axis else CHUNK // tensor_map.item_bytes
        others = tuple(i for i in range(unread.ndim) if i != unread.ndim - 1 - axis)
        seen = np.flatnonzero(unread.any(axis=others))
        if len(seen) * unit < count:
            parts.append(f"{ranges(seen.tolist(), unit)} along dimension {axis}")
            scattered |= axis > 0 and bool((np.diff(seen) > 1).any())
    where = f"the box at {copy.box.coords} ({tensor_map.describe()})"
    shown = f"{', '.join(parts)} of {where}" if parts else f"chunks along all dimensions of {where}"
    return shown, scattered


def _unread(site: _Site) -> str:
    return (
        f"{site.unread * CHUNK} of the {site.brought * CHUNK} bytes that this copy brought were overwritten,"
        f" or their block ended, before anything had read them. The first time it was {site.left}"
        + (". Does a descriptor's stride or swizzle skip rows?" if site.tile and site.scattered else "")
    )
