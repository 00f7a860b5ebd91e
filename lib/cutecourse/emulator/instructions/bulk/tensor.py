"""cp.async.bulk.tensor and related instructions: copies of boxes of a tensor, given by a tensor map."""

from __future__ import annotations

from functools import partial
from typing import Any

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.kinds import CHUNK, Mask
from cutecourse.emulator.core.origin import Origin, each_lane
from cutecourse.emulator.core.owner import OwnerDict
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import InvalidOperand
from cutecourse.emulator.instructions.bulk.boxes import Box, Cuts, needed_bytes, write_part
from cutecourse.emulator.instructions.bulk.groups import BulkGroups
from cutecourse.emulator.instructions.bulk.landing import land_later
from cutecourse.emulator.instructions.bulk.operands import (
    SOURCE,
    shared_place,
    take_cache_hint,
    take_multicast,
    targets_of,
)
from cutecourse.emulator.instructions.bulk.outgoing import CopyOut
from cutecourse.emulator.instructions.bulk.pieces import lands_in_pieces
from cutecourse.emulator.instructions.bulk.request import Copy, Targets
from cutecourse.emulator.instructions.bulk.stating import BULK, bulk_facts
from cutecourse.emulator.instructions.bulk.tensor_operand import TensorOperand, find_map, take_dims
from cutecourse.emulator.numbers.reductions import IN_TENSOR, reduction

__all__: list[str] = []

_BOX_ALIGNMENT = 128


@instruction("cp.async.bulk.tensor", facts=bulk_facts)
def tensor_copy(site: Site) -> Step:
    """Copy a box of a tensor from global to shared memory, or back, asynchronously.

    Shapes:     once for each active lane: elect one. A load lands the box's rows one behind the other or,
                swizzled, each in a span of its own with its 16-byte chunks shuffled by bits of the shared
                address; with .multicast::cluster at the same offset in every CTA that the mask names, each of
                which has its own mbarrier at the mbarrier's offset. With .cta_group::2 the mbarrier may be
                the peer's: of each destination's pair, the CTA counts the bytes whose rank has the parity
                of the mbarrier's. Elements outside of the tensor are filled on a load, with the bytes
                counted, and left alone on a store. .tile::gather4 and .tile::scatter4 take a column and the
                numbers of four rows, whose boxes lie one behind the other in shared memory.
    Units:      coordinates in elements, innermost first; a load's may be negative. An element stride takes
                every n-th element.
    Alignment:  box in shared memory 128 bytes, tensor map 64, mbarrier 8; the first coordinate a multiple of
                16 bytes (an H200 takes it for an illegal instruction otherwise). A store writes whole 16-byte
                chunks: where the tensor's row ends inside of one, the row's padding is written too.
    Errors:     InvalidOperand (no tensor map there, wrong dimensions, mask, mbarrier in another CTA than the
                box), AlignmentError, AddressError, UninitializedRead, MissingProxyFence and
                OverwrittenSource (a store's source), NoBarrierError and BarrierCountError when bytes land;
                UnfinishedCopy for a block that ends before its stores have read.
    Simplified: a load's box lands in pieces in an order that the seed chooses. After the first 256 loads of
                a launch the seed lets one load in four land in pieces, the others as a whole. The four rows
                of .tile::gather4 and .tile::scatter4 are four copies. .im2col is not supported; cache hints
                have no effect.
    Source:     PTX ISA 9.0, cp.async.bulk.tensor
                (#data-movement-and-conversion-instructions-cp-async-bulk-tensor); the box's pitch under a
                swizzle wider than its row, tf32's rounding and the stores' last chunk: an H200.
    """
    to = site.expect("shared::cluster", "shared::cta", "global")
    if to == "global":
        if not site.has("shared::cta"):
            site.unsupported("it copies from .shared::cta to .global")
        return _out(site, *take_dims(site, rows="tile::scatter4"), None)
    if not site.has("global"):
        site.unsupported(f"it copies from .global to .{to}")
    return _load(site, *take_dims(site, rows="tile::gather4"), to)


@instruction("cp.reduce.async.bulk.tensor", facts=bulk_facts)
def tensor_reduce(site: Site) -> Step:
    """Combine a box in shared memory with a tensor's elements in global memory, element by element.

    Shapes:     as a store of cp.async.bulk.tensor.
    Errors:     as cp.async.bulk.tensor; InvalidOperand for an operation that the map's type does not have.
    Simplified: as cp.async.bulk.tensor; each element is changed atomically.
    Source:     PTX ISA 9.0, cp.reduce.async.bulk.tensor
                (#data-movement-and-conversion-instructions-cp-reduce-async-bulk-tensor).
    """
    dims, _ = take_dims(site)
    if not (site.has("global") and site.has("shared::cta")):
        site.unsupported("it reduces from .shared::cta into .global")
    return _out(site, dims, False, site.expect(*IN_TENSOR))


@instruction("cp.async.bulk.prefetch.tensor", facts=BULK)
def tensor_prefetch(site: Site) -> Step:
    """Prefetch a box of a tensor into the L2 cache, with no effect that a kernel can see.

    Shapes:     as cp.async.bulk.tensor.
    Errors:     as cp.async.bulk.tensor, for the tensor map and the coordinates.
    Source:     PTX ISA 9.0, cp.async.bulk.prefetch.tensor
                (#data-movement-and-conversion-instructions-cp-async-bulk-prefetch-tensor).
    """
    dims, rows = take_dims(site, rows="tile::gather4")
    site.has("L2", "global")
    take_cache_hint(site, 1)
    tensor = TensorOperand(site, 0, dims, rows=rows)

    def step(bundle: Bundle, mask: Mask) -> None:
        lanes = bundle.lanes(mask)
        for lane, boxes in zip(lanes.tolist(), tensor.boxes(bundle, lanes), strict=True):
            for box in boxes:
                Copy(Origin(site, bundle, lane), "prefetch", box.bound.map.box_bytes, box=box).announce()

    return step


@instruction(
    "prefetch.tensormap",
    "prefetch.param.tensormap",
    "prefetch.const.tensormap",
    facts=Facts(category="TMA", uncounted="prefetch"),
)
def prefetch_tensormap(site: Site) -> Step:
    """Prefetch a tensor map for later copies, with no effect that a kernel can see.

    Shapes:     each lane for itself.
    Errors:     InvalidOperand where there is no tensor map, AlignmentError.
    Source:     PTX ISA 9.0, prefetch (#data-movement-and-conversion-instructions-prefetch-prefetchu).
    """
    address = site.address(0)
    return each_lane(site, lambda origin: find_map(origin, origin.value(address.lanes(origin.bundle))))


class _Targets(OwnerDict[Any, Targets]):
    """The destinations of a cohort's loads, cached because a kernel's loop uses the same ones again."""


def _load(site: Site, dims: int, rows: bool, to: str) -> Step:
    """A load: [dst], [map, coordinates], [mbarrier] {, mask} {, cache policy}."""
    if not site.has("mbarrier::complete_tx::bytes"):
        site.unsupported("a load needs .mbarrier::complete_tx::bytes")
    pair = site.one_of("cta_group::1", "cta_group::2") == "cta_group::2"
    destination, barrier = site.address(0), site.address(2)
    tensor = TensorOperand(site, 1, dims, rows=rows)
    cta_mask = take_multicast(site, 3, to)

    def step(bundle: Bundle, mask: Mask) -> None:
        lanes = bundle.lanes(mask)
        of_lanes = [source.lanes(bundle).reshape(-1)[lanes].tolist() for source in (destination, barrier)]
        masks = [None] * len(lanes)
        if cta_mask is not None:
            masks = bundle.rows["u16"][cta_mask].reshape(-1)[lanes].tolist()
        for lane, boxes, address, bar_address, bits in zip(
            lanes.tolist(), tensor.boxes(bundle, lanes), *of_lanes, masks, strict=True
        ):
            alignment = _BOX_ALIGNMENT
            for box in boxes:
                issue(bundle, lane, box, address, alignment, bar_address, bits)
                address, alignment = address + box.bound.map.shared_bytes, CHUNK

    def issue(
        bundle: Bundle, lane: int, box: Box, address: int, alignment: int, bar_address: int, bits: int | None
    ) -> None:
        origin = Origin(site, bundle, lane)
        cohort = bundle.cohort
        known = cohort.own(_Targets)
        key = (site, bundle, lane, box.bound, address, alignment, bar_address, bits)
        there = known.get(key)
        if there is None or not there.alive(cohort):
            there = known[key] = targets_of(
                origin,
                address,
                box.bound.map.shared_bytes,
                bar_address,
                own=to == "shared::cta",
                bits=bits,
                pair=pair,
                alignment=alignment,
                period=1024,
            )
        copy = Copy(origin, "load", box.bound.map.box_bytes, there, box, bits)
        copy.announce()
        cuts = Cuts.of(box.bound, there.place.offset)
        in_pieces = lands_in_pieces(bundle.machine)
        land_later(copy, cuts.parts if in_pieces else [cuts.whole], covered=cuts.whole.covered)

    return step


def _out(site: Site, dims: int, rows: bool, operation: str | None) -> Step:
    """A store or a reduction: [map, coordinates], [src] {, cache policy}."""
    if not site.has("bulk_group"):
        site.unsupported("a copy to global memory needs .bulk_group")
    take_cache_hint(site, 2)
    tensor = TensorOperand(site, 0, dims, rows=rows, stores=True)
    source = site.address(1)

    def step(bundle: Bundle, mask: Mask) -> None:
        lanes = bundle.lanes(mask)
        for lane, boxes in zip(lanes.tolist(), tensor.boxes(bundle, lanes), strict=True):
            origin = Origin(site, bundle, lane)
            address, alignment = origin.value(source.lanes(bundle)), _BOX_ALIGNMENT
            for box in boxes:
                issue(origin, box, address, alignment)
                address, alignment = address + box.bound.map.shared_bytes, CHUNK

    def issue(origin: Origin, box: Box, address: int, alignment: int) -> None:
        bundle, tensor_map = origin.bundle, box.bound.map
        combine = None
        if operation is not None:
            if tensor_map.dtype not in IN_TENSOR[operation]:
                raise origin.error(
                    InvalidOperand,
                    f".{operation} has no elements of type {tensor_map.dtype} ({tensor_map.describe()});"
                    f" it has {', '.join(IN_TENSOR[operation])}",
                )
            combine = reduction(operation, tensor_map.dtype)
        place = shared_place(origin, address, tensor_map.shared_bytes, alignment, SOURCE, own=True)
        groups = bundle.own(BulkGroups)
        kind, group = "reduce" if operation else "store", groups.group(origin.lane)
        copy = CopyOut(origin, kind, tensor_map.box_bytes, box=box, source=place, group=group)
        copy.announce()
        base = place.chunk(place.offset & ~1023)
        for cut in Cuts.of(box.bound, place.offset).parts:
            chunks = cut.chunks + base
            copy.add(chunks, partial(write_part, box, cut.part, combine), needed_bytes(box, cut.part, chunks))
        groups.copies.append(copy)

    return step
