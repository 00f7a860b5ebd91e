"""cp.async.bulk and its kin: copies of contiguous bytes that run beside the thread that asked for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import CHUNK, CHUNK_TYPE, WARP_SIZE, Mask
from cutecourse.emulator.core.memory import WRITTEN
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import InvalidOperand
from cutecourse.emulator.instructions.bulk.groups import BulkGroups
from cutecourse.emulator.instructions.bulk.landing import land_later
from cutecourse.emulator.instructions.bulk.operands import (
    barrier_place,
    check_same_block,
    destination_ranks,
    global_bytes,
    lane_value,
    own_place,
    shared_place,
    take_multicast,
    take_operands,
)
from cutecourse.emulator.instructions.bulk.outgoing import CopyOut
from cutecourse.emulator.instructions.bulk.pieces import Chunks, pieces_of
from cutecourse.emulator.instructions.bulk.reduce import OPERATIONS, Reduction, reduction
from cutecourse.emulator.instructions.bulk.request import Copy, Targets
from cutecourse.emulator.memory.proxies import COPY, check_source

__all__: list[str] = []

# Which types each reduction has, by where it goes; "b32" where the bits are all that counts.
_IN_SHARED = {"add": ("u32", "s32", "u64"), "min": ("u32", "s32"), "inc": ("u32",), "and": ("b32",)}
_IN_GLOBAL = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "and": ("b32", "b64"),
}
_AS = {"max": "min", "dec": "inc", "or": "and", "xor": "and"}
_BYTES = {"f16": 2, "bf16": 2}


class _Bytes:
    """A part of a copy of contiguous bytes on its way into shared memory."""

    def __init__(self, first: int, stop: int, read: Callable[[], NDArray[Any]]) -> None:
        self.covered: Chunks = slice(first, stop)
        self.n_bytes = (stop - first) * CHUNK
        self.read = read

    def put(self, held: NDArray[Any], first: int, box: None) -> None:
        """Put the bytes as they are now into chunks that are counted from `first`."""
        held[first:][self.covered] = self.read()


def _size(site: Site, bundle: Bundle, lane: int, slot: int) -> int:
    size = int(bundle.rows["u32"][slot].reshape(-1)[lane])
    if size % CHUNK:
        raise site.error(
            InvalidOperand, f"the size is {size} bytes; it must be a multiple of {CHUNK}", bundle, lane
        )
    return size


def _in_global(data: NDArray[np.uint8], start: int, first: int, stop: int) -> NDArray[Any]:
    """The chunks first..stop of a range of an allocation's bytes; they can be written."""
    return data[start + first * CHUNK : start + stop * CHUNK].view(CHUNK_TYPE)


@instruction("cp.async.bulk")
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


@instruction("cp.reduce.async.bulk")
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
    operation = site.expect(*OPERATIONS)
    types = (_IN_GLOBAL if to == "global" else _IN_SHARED)[_AS.get(operation, operation)]
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
    word = _BYTES.get(kind) or int(kind[1:]) // 8
    combine = _on_words(reduction(operation, kind), word)
    return _to_global(site, combine) if to == "global" else _between_blocks(site, combine)


def _on_words(combine: Reduction, word: int) -> Reduction:
    """A reduction of elements of `word` bytes, for chunks."""

    def on_chunks(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        flat = [np.ascontiguousarray(chunks).view(f"u{word}") for chunks in (old, new)]
        return np.ascontiguousarray(combine(*flat)).view(CHUNK_TYPE)

    return on_chunks


@instruction("cp.async.bulk.prefetch")
def bulk_prefetch(site: Site) -> Step:
    """Ask for contiguous bytes to be brought to the L2 cache: this changes nothing that a kernel can see.

    Shapes:     each lane for itself.
    Units:      bytes; address and size multiples of 16.
    Errors:     InvalidOperand, AlignmentError, AddressError.
    Source:     PTX ISA 9.0, cp.async.bulk.prefetch
                (#data-movement-and-conversion-instructions-cp-async-bulk-prefetch).
    """
    site.has("L2", "global")
    hinted = site.has("L2::cache_hint")
    take_operands(site, 2 + hinted)
    source, size_slot = site.address(0), site.source(1, "u32")

    def step(bundle: Bundle, mask: Mask) -> None:
        for lane in bundle.lanes(mask).tolist():
            size = _size(site, bundle, lane, size_slot)
            global_bytes(site, bundle, lane, lane_value(source, bundle, lane), size, "the prefetched source")
            Copy(Origin(site, bundle, lane), "prefetch", size).announce()

    return step


def _from_global(site: Site, to: str) -> Step:
    """[dst], [src], size, [mbarrier] {, mask} {, cache policy}."""
    if not site.has("mbarrier::complete_tx::bytes"):
        site.unsupported("a copy into shared memory needs .mbarrier::complete_tx::bytes")
    multicast = take_multicast(site)
    if multicast and to == "shared::cta":
        site.unsupported(".multicast::cluster goes to .shared::cluster")
    hinted = site.has("L2::cache_hint")
    take_operands(site, 4 + multicast + hinted)
    destination, source, barrier = site.address(0), site.address(1), site.address(3)
    size_slot = site.source(2, "u32")
    cta_mask = site.source(4, "u16") if multicast else None

    def step(bundle: Bundle, mask: Mask) -> None:
        for lane in bundle.lanes(mask).tolist():
            issue(bundle, lane)

    def issue(bundle: Bundle, lane: int) -> None:
        size = _size(site, bundle, lane, size_slot)
        address = lane_value(destination, bundle, lane)
        what = "the copy's destination"
        if to == "shared::cta":
            place = own_place(site, bundle, lane, address, size, CHUNK, what)
        else:
            place = shared_place(site, bundle, lane, address, size, CHUNK, what)
        bar = barrier_place(site, bundle, lane, lane_value(barrier, bundle, lane))
        at = lane_value(source, bundle, lane)
        allocation, start = global_bytes(site, bundle, lane, at, size, "the copy's source")
        allocation.was_read = True
        bits: int | None = None
        ranks: tuple[int, ...] = (place.rank,)
        if cta_mask is None:
            check_same_block(site, bundle, lane, place, bar)
        else:
            bits = int(bundle.rows["u16"][cta_mask].reshape(-1)[lane])
            ranks = destination_ranks(site, bundle, lane, bits)
        copy = Copy(
            Origin(site, bundle, lane),
            "load",
            size,
            Targets(place, ranks, bar.offset, place.offset // CHUNK),
            mask=bits,
            source=(allocation, start),
        )
        copy.announce()
        land_later(
            copy,
            [
                _Bytes(first, stop, partial(_in_global, allocation.data, start, first, stop))
                for first, stop in pieces_of(size // CHUNK)
            ],
        )

    return step


def _between_blocks(site: Site, combine: Reduction | None) -> Step:
    """[dst], [src], size, [mbarrier]: from the own shared memory to a block of the cluster."""
    if not site.has("mbarrier::complete_tx::bytes"):
        site.unsupported("a copy into shared memory needs .mbarrier::complete_tx::bytes")
    take_operands(site, 4)
    destination, source, barrier = site.address(0), site.address(1), site.address(3)
    size_slot = site.source(2, "u32")

    def step(bundle: Bundle, mask: Mask) -> None:
        for lane in bundle.lanes(mask).tolist():
            issue(bundle, lane)

    def issue(bundle: Bundle, lane: int) -> None:
        size = _size(site, bundle, lane, size_slot)
        place = shared_place(
            site, bundle, lane, lane_value(destination, bundle, lane), size, CHUNK, "the copy's destination"
        )
        from_ = own_place(
            site, bundle, lane, lane_value(source, bundle, lane), size, CHUNK, "the copy's source"
        )
        bar = barrier_place(site, bundle, lane, lane_value(barrier, bundle, lane))
        check_same_block(site, bundle, lane, place, bar)
        copy = Copy(
            Origin(site, bundle, lane),
            "load" if combine is None else "reduce",
            size,
            Targets(place, (place.rank,), bar.offset, place.offset // CHUNK),
            source=from_,
        )
        copy.announce()
        to_first, from_first = place.chunk(place.offset), from_.chunk(from_.offset)
        pieces = []
        for first, stop in pieces_of(size // CHUNK):
            old = np.arange(first, stop) + to_first if combine is not None else None
            new = np.arange(first, stop) + from_first
            for read in (new,) if old is None else (new, old):
                for tell in bundle.cohort.listeners.bulk_reads:
                    tell(copy, read)
                check_source(copy.origin, read, "the copy's source", COPY)
            pieces.append(_Bytes(first, stop, partial(_shared_now, copy, new, old, combine)))
        land_later(copy, pieces)

    return step


def _shared_now(
    copy: Copy, new: NDArray[np.int64], old: NDArray[np.int64] | None, combine: Reduction | None
) -> NDArray[Any]:
    """Chunks of shared memory as they are now, combined with what the destination holds."""
    origin = copy.origin
    bundle = origin.bundle
    if not bundle.cohort.alive(bundle.rank)[origin.lane // WARP_SIZE]:
        report(
            "unfinished copy",
            "the block ended before this copy had read its shared memory. Keep the block alive until the"
            " destination's mbarrier has completed its phase.",
            origin,
        )
    check_source(origin, new, "the copy's source", COPY, issued=True)
    held, _ = bundle.cohort.shared_chunks
    if old is None or combine is None:
        return held[new]
    return combine(held[old], held[new])


def _to_global(site: Site, combine: Reduction | None) -> Step:
    """[dst], [src], size {, cache policy}: from the own shared memory."""
    if not site.has("bulk_group"):
        site.unsupported("a copy to global memory needs .bulk_group")
    hinted = site.has("L2::cache_hint")
    take_operands(site, 3 + hinted)
    destination, source = site.address(0), site.address(1)
    size_slot = site.source(2, "u32")

    def step(bundle: Bundle, mask: Mask) -> None:
        for lane in bundle.lanes(mask).tolist():
            issue(bundle, lane)

    def issue(bundle: Bundle, lane: int) -> None:
        size = _size(site, bundle, lane, size_slot)
        at = lane_value(destination, bundle, lane)
        allocation, start = global_bytes(site, bundle, lane, at, size, "the copy's destination")
        allocation.was_written = True
        place = own_place(
            site, bundle, lane, lane_value(source, bundle, lane), size, CHUNK, "the copy's source"
        )
        groups = bundle.own(BulkGroups)
        copy = CopyOut(
            Origin(site, bundle, lane),
            "store" if combine is None else "reduce",
            size,
            source=place,
            group=groups.group(lane),
        )
        copy.announce()
        for first, stop in pieces_of(size // CHUNK):
            target = _in_global(allocation.data, start, first, stop)
            marks = None
            if allocation.written is not None:
                marks = _in_global(allocation.written, start, first, stop)
            chunks = np.arange(first, stop) + place.chunk(place.offset)
            copy.add(chunks, partial(_write, target, marks, combine))
        groups.copies.append(copy)

    return step


def _write(
    target: NDArray[Any], marks: NDArray[Any] | None, combine: Reduction | None, chunks: NDArray[Any]
) -> None:
    target[...] = chunks if combine is None else combine(target, chunks)
    if marks is not None:
        marks.view(np.uint8)[...] = WRITTEN
