"""cp.async.bulk and related instructions: asynchronous copies of contiguous bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.kinds import CHUNK, CHUNK_TYPE, KINDS
from cutecourse.emulator.core.memory import WRITTEN
from cutecourse.emulator.core.origin import Origin, each_lane
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import InvalidOperand
from cutecourse.emulator.instructions.bulk.groups import BulkGroups
from cutecourse.emulator.instructions.bulk.landing import land_later
from cutecourse.emulator.instructions.bulk.operands import (
    DESTINATION,
    SOURCE,
    global_bytes,
    shared_place,
    take_cache_hint,
    take_multicast,
    targets_of,
)
from cutecourse.emulator.instructions.bulk.outgoing import CopyOut
from cutecourse.emulator.instructions.bulk.pieces import Chunks, pieces_of
from cutecourse.emulator.instructions.bulk.request import Copy
from cutecourse.emulator.instructions.bulk.stating import BULK, bulk_facts
from cutecourse.emulator.memory.host_arrays import check_writable
from cutecourse.emulator.memory.proxies import COPY, check_source
from cutecourse.emulator.numbers.reductions import IN_GLOBAL, IN_SHARED, Reduction, reduction

__all__: list[str] = []


class _Bytes:
    """A part of a copy of contiguous bytes on its way into shared memory."""

    def __init__(self, first: int, stop: int, read: Callable[[], NDArray[Any]]) -> None:
        self.covered: Chunks = slice(first, stop)
        self.n_bytes = (stop - first) * CHUNK
        self.read = read

    def put(self, held: NDArray[Any], first: int, box: None) -> None:
        """Put the bytes as they are now into chunks that are counted from `first`."""
        held[first:][self.covered] = self.read()


def _size(origin: Origin, slot: int) -> int:
    size = origin.value(origin.bundle.rows["u32"][slot])
    if size % CHUNK:
        raise origin.error(InvalidOperand, f"the size is {size} bytes; it must be a multiple of {CHUNK}")
    return size


def _in_global(data: NDArray[np.uint8], start: int, first: int, stop: int) -> NDArray[Any]:
    """A writable view of the chunks first..stop of a range of an allocation's bytes."""
    return data[start + first * CHUNK : start + stop * CHUNK].view(CHUNK_TYPE)


@instruction("cp.async.bulk", facts=bulk_facts)
def bulk_copy(site: Site) -> Step:
    """Copy contiguous bytes between global and shared memory or between blocks, asynchronously.

    Shapes:     once for each active lane: elect one. With .multicast::cluster the bytes land at the same
                offset in every CTA that the mask names; each has its own mbarrier at the mbarrier's offset.
    Units:      bytes; the size a multiple of 16.
    Alignment:  both addresses 16 bytes, the mbarrier 8.
    Errors:     InvalidOperand (size, mask, mbarrier in another CTA than the destination), AlignmentError,
                AddressError, UninitializedRead, MissingProxyFence and OverwrittenSource (a source in shared
                memory), NoBarrierError and BarrierCountError when bytes land; UnfinishedCopy for a block that
                ends before its copies have read.
    Simplified: pieces land in an order that the seed chooses; of a launch's copies the first 256 land in
                pieces, and of the later ones one in four; .ignore_oob and .cp_mask are not supported;
                cache hints have no effect.
    Source:     PTX ISA 9.0, cp.async.bulk
                (#data-movement-and-conversion-instructions-cp-async-bulk).
    """
    to = site.expect("shared::cluster", "shared::cta", "global")
    if to == "global":
        if not site.has("shared::cta"):
            site.unsupported("it copies from .shared::cta to .global")
        return _to_global(site, None)
    if site.has("global"):
        return _from_global(site, to)
    if to == "shared::cta" or not site.has("shared::cta"):
        site.unsupported("it copies from .global, or from .shared::cta to .shared::cluster")
    return _between_blocks(site, None)


@instruction("cp.reduce.async.bulk", facts=bulk_facts)
def bulk_reduce(site: Site) -> Step:
    """Combine contiguous bytes of shared memory with global memory, or another block's, element by element.

    Shapes:     as cp.async.bulk from shared memory.
    Units:      bytes; the size a multiple of 16.
    Errors:     as cp.async.bulk; UninitializedRead also for a destination in shared memory.
    Simplified: as cp.async.bulk; each element is changed atomically.
    Source:     PTX ISA 9.0, cp.reduce.async.bulk
                (#data-movement-and-conversion-instructions-cp-reduce-async-bulk).
    """
    to = site.expect("shared::cluster", "global")
    if not site.has("shared::cta"):
        site.unsupported("it reduces from .shared::cta")
    known = IN_GLOBAL if to == "global" else IN_SHARED
    operation = site.expect(*known)
    types = known[operation]
    noftz = site.has("noftz")
    # The ISA's examples write .xor.s32 for bits of that width.
    kind = site.type()
    if types[0][0] == "b" and kind[0] in "su":
        kind = f"b{kind[1:]}"
    if kind not in types:
        site.unsupported(
            f".{operation} in .{to} has no type .{kind}; it has {', '.join('.' + t for t in types)}"
        )
    if noftz != (operation == "add" and kind in {"f16", "bf16"}):
        site.unsupported(f".{operation}.{kind} {'has no' if noftz else 'needs'} .noftz")
    combine = _on_words(reduction(operation, kind), KINDS[kind][1].itemsize)
    return _to_global(site, combine) if to == "global" else _between_blocks(site, combine)


def _on_words(combine: Reduction, word: int) -> Reduction:
    """A reduction of elements of `word` bytes, for chunks."""

    def on_chunks(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        flat = [np.ascontiguousarray(chunks).view(f"u{word}") for chunks in (old, new)]
        return np.ascontiguousarray(combine(*flat)).view(CHUNK_TYPE)

    return on_chunks


@instruction("cp.async.bulk.prefetch", facts=BULK)
def bulk_prefetch(site: Site) -> Step:
    """Prefetch contiguous bytes into the L2 cache, with no effect that a kernel can see.

    Shapes:     each lane for itself.
    Units:      bytes; address and size multiples of 16.
    Errors:     InvalidOperand, AlignmentError, AddressError.
    Source:     PTX ISA 9.0, cp.async.bulk.prefetch
                (#data-movement-and-conversion-instructions-cp-async-bulk-prefetch).
    """
    site.has("L2", "global")
    take_cache_hint(site, 2)
    source, size_slot = site.address(0), site.source(1, "u32")

    def issue(origin: Origin) -> None:
        size = _size(origin, size_slot)
        global_bytes(origin, origin.value(source.lanes(origin.bundle)), size, "the prefetched source")
        Copy(origin, "prefetch", size).announce()

    return each_lane(site, issue)


def _from_global(site: Site, to: str) -> Step:
    """[dst], [src], size, [mbarrier] {, mask} {, cache policy}."""
    if not site.has("mbarrier::complete_tx::bytes"):
        site.unsupported("a copy into shared memory needs .mbarrier::complete_tx::bytes")
    destination, source, barrier = site.address(0), site.address(1), site.address(3)
    size_slot = site.source(2, "u32")
    cta_mask = take_multicast(site, 4, to)

    def issue(origin: Origin) -> None:
        bundle = origin.bundle
        size = _size(origin, size_slot)
        goal, bar = (origin.value(operand.lanes(bundle)) for operand in (destination, barrier))
        bits = None if cta_mask is None else origin.value(bundle.rows["u16"][cta_mask])
        targets = targets_of(origin, goal, size, bar, own=to == "shared::cta", bits=bits)
        allocation, start = global_bytes(origin, origin.value(source.lanes(bundle)), size, SOURCE)
        allocation.was_read = True
        copy = Copy(origin, "load", size, targets, mask=bits, source=(allocation, start))
        copy.announce()
        land_later(
            copy,
            [
                _Bytes(first, stop, partial(_in_global, allocation.data, start, first, stop))
                for first, stop in pieces_of(size // CHUNK)
            ],
        )

    return each_lane(site, issue)


def _between_blocks(site: Site, combine: Reduction | None) -> Step:
    """[dst], [src], size, [mbarrier]: from the block's own shared memory to another block of the cluster."""
    if not site.has("mbarrier::complete_tx::bytes"):
        site.unsupported("a copy into shared memory needs .mbarrier::complete_tx::bytes")
    destination, source, barrier = site.address(0), site.address(1), site.address(3)
    size_slot = site.source(2, "u32")

    def issue(origin: Origin) -> None:
        bundle = origin.bundle
        size = _size(origin, size_slot)
        goal, at, bar = (origin.value(operand.lanes(bundle)) for operand in (destination, source, barrier))
        from_ = shared_place(origin, at, size, CHUNK, SOURCE, own=True)
        targets = targets_of(origin, goal, size, bar, own=False)
        copy = Copy(origin, "load" if combine is None else "reduce", size, targets, source=from_)
        copy.announce()
        to_first, from_first = targets.firsts[0], from_.chunk(from_.offset)
        pieces = []
        for first, stop in pieces_of(size // CHUNK):
            old = np.arange(first, stop) + to_first if combine is not None else None
            new = np.arange(first, stop) + from_first
            for read in (new,) if old is None else (new, old):
                for tell in bundle.cohort.listeners.bulk_reads:
                    tell(copy, read)
                check_source(origin, read, SOURCE, COPY)
            pieces.append(_Bytes(first, stop, partial(_shared_now, copy, new, old, combine)))
        land_later(copy, pieces)

    return each_lane(site, issue)


def _shared_now(
    copy: Copy, new: NDArray[np.int64], old: NDArray[np.int64] | None, combine: Reduction | None
) -> NDArray[Any]:
    """Read chunks of shared memory as they are now; a reduction combines them with the destination's."""
    origin = copy.origin
    bundle = origin.bundle
    if not bundle.cohort.alive(bundle.rank)[origin.cluster]:
        report(
            "unfinished copy",
            "the block ended before this copy had read its shared memory. Keep the block alive until the"
            " destination's mbarrier has completed its phase.",
            origin,
        )
    check_source(origin, new, SOURCE, COPY, issued=True)
    held, _ = bundle.cohort.shared_chunks
    if old is None or combine is None:
        return held[new]
    return combine(held[old], held[new])


def _to_global(site: Site, combine: Reduction | None) -> Step:
    """[dst], [src], size {, cache policy}: from the block's own shared memory."""
    if not site.has("bulk_group"):
        site.unsupported("a copy to global memory needs .bulk_group")
    take_cache_hint(site, 3)
    destination, source = site.address(0), site.address(1)
    size_slot = site.source(2, "u32")

    def issue(origin: Origin) -> None:
        bundle = origin.bundle
        size = _size(origin, size_slot)
        goal, at = (origin.value(operand.lanes(bundle)) for operand in (destination, source))
        allocation, start = global_bytes(origin, goal, size, DESTINATION)
        check_writable(origin, allocation, "the copy")
        allocation.was_written = True
        place = shared_place(origin, at, size, CHUNK, SOURCE, own=True)
        groups = bundle.own(BulkGroups)
        kind = "store" if combine is None else "reduce"
        copy = CopyOut(origin, kind, size, source=place, group=groups.group(origin.lane))
        copy.announce()
        for first, stop in pieces_of(size // CHUNK):
            target = _in_global(allocation.data, start, first, stop)
            marks = None
            if allocation.written is not None:
                marks = _in_global(allocation.written, start, first, stop)
            chunks = np.arange(first, stop) + place.chunk(place.offset)
            copy.add(chunks, partial(_write, target, marks, combine))
        groups.copies.append(copy)

    return each_lane(site, issue)


def _write(
    target: NDArray[Any], marks: NDArray[Any] | None, combine: Reduction | None, chunks: NDArray[Any]
) -> None:
    target[...] = chunks if combine is None else combine(target, chunks)
    if marks is not None:
        marks.view(np.uint8)[...] = WRITTEN
