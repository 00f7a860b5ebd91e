"""cp.async.bulk.tensor and its kin: copies of boxes of a tensor, by coordinates and a tensor map."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import CHUNK, CHUNK_TYPE, Mask
from cutecourse.emulator.core.memory import PARAM_WINDOW
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import AddressError, AlignmentError, InvalidOperand
from cutecourse.emulator.instructions.bulk.groups import BulkGroups
from cutecourse.emulator.instructions.bulk.pieces import (
    Arrival,
    Chunks,
    Out,
    Targets,
    barrier_place,
    check_same_block,
    destination_ranks,
    land_later,
    lands_in_pieces,
    lane_value,
    own_place,
    pieces_of,
    remember,
    shared_place,
    take_multicast,
    take_operands,
    take_pair,
)
from cutecourse.emulator.instructions.bulk.reduce import OPERATIONS, Reduction, reduction
from cutecourse.emulator.memory.tensor_map import TOKEN_BYTES, BoundTensorMap, Window, covered
from cutecourse.emulator.numbers.formats import FORMATS
from cutecourse.ptx.syntax import Address, Vector

__all__: list[str] = []

_DIMS = ("1d", "2d", "3d", "4d", "5d")
_MODES = (
    "im2col", "im2col::w", "im2col::w::128", "im2col_no_offs", "tile::gather4", "tile::scatter4",
)  # fmt: skip
_ROUNDED = ("tf32", "tf32_ftz")
_BOX_ALIGNMENT = 128
_MAP_ALIGNMENT = 64
# What each reduction works on, and what a map's type stands for there.
_REDUCED = {
    "add": {
        "u32": "u32",
        "s32": "s32",
        "u64": "u64",
        "f32": "f32",
        "f32_ftz": "f32_ftz",
        "f16": "f16",
        "bf16": "bf16",
    },
    "min": {"u32": "u32", "s32": "s32", "u64": "u64", "s64": "s64", "f16": "f16", "bf16": "bf16"},
    "inc": {"u32": "u32"},
    "and": {"u32": "b32", "s32": "b32", "u64": "b64"},
}
_REDUCED |= {"max": _REDUCED["min"], "dec": _REDUCED["inc"], "or": _REDUCED["and"], "xor": _REDUCED["and"]}
_Range = list[tuple[int, int]]
_KEPT_BOXES = 4096
"""Boxes that an instruction keeps: blocks of a row or a column of the grid ask for the same ones."""


@dataclass(frozen=True, slots=True, eq=False)
class _Cut:
    """A part of each box that copies with one tensor map move to, or from, one place in shared memory.

    part      first element and the one behind the last, along each dimension
    chunks    the chunks of shared memory that they go to, outermost dimension first
    covered   the same chunks in any order, a slice where they are neighbours
    sources   the chunks of global memory that they come from, counted from the box's first: in the order of
              shared memory where `covered` is a slice, else in that of `chunks`
    """

    part: _Range
    chunks: NDArray[np.int64]
    covered: Chunks
    sources: NDArray[np.int64]

    @classmethod
    def make(cls, bound: BoundTensorMap, chunks: NDArray[np.int64], part: _Range) -> _Cut:
        """A part of a box whose chunks go to `chunks`."""
        unit = CHUNK // bound.map.item_bytes
        inner = slice(part[0][0] // unit, part[0][1] // unit)
        index = (*(slice(first, stop) for first, stop in part[:0:-1]), inner)
        own, sources = np.ascontiguousarray(chunks[index]), np.ascontiguousarray(bound.sources[index])
        all_of_it = covered(own)
        if isinstance(all_of_it, slice):
            sources = sources.reshape(-1)[np.argsort(own, axis=None)]
        return cls(part, own, all_of_it, sources)


@dataclass(frozen=True, slots=True, eq=False)
class _Cuts:
    """A box at one place in shared memory: cut into its parts, and whole."""

    parts: list[_Cut]
    whole: _Cut

    @classmethod
    def of(cls, bound: BoundTensorMap, offset: int) -> _Cuts:
        """Those at an offset in shared memory, made once for all boxes that lie alike."""
        found: _Cuts | None = bound.cuts.get(offset & 1023)
        if found is None:
            chunks = bound.chunks(offset)
            parts = [_Cut.make(bound, chunks, part) for part in _parts(bound)]
            whole = _Cut.make(bound, chunks, [(0, count) for count in bound.map.counts])
            found = bound.cuts[offset & 1023] = cls(parts, whole)
        return found


def _parts(bound: BoundTensorMap) -> list[_Range]:
    """A box cut along its longest outer dimension; a single row along that, in whole chunks."""
    counts = bound.map.counts
    whole = [(0, count) for count in counts]
    axis = max(range(1, len(counts)), key=lambda d: counts[d], default=0)
    if axis and counts[axis] > 1:
        cuts = pieces_of(counts[axis])
    else:
        axis, unit = 0, CHUNK // bound.map.item_bytes
        cuts = [(first * unit, stop * unit) for first, stop in pieces_of(counts[0] // unit)]
    return [[*whole[:axis], cut, *whole[axis + 1 :]] for cut in cuts]


@dataclass(eq=False, slots=True)
class _Box:
    """One box of a tensor: where copies start."""

    bound: BoundTensorMap
    coords: tuple[int, ...]
    stores: bool
    """Whether it is written: an H200 writes the whole of a 16-byte chunk in which the tensor's row ends."""
    inside: Window
    """What of it lies in the tensor."""
    _tiles: dict[tuple[int, bool], list[_Tile]] = field(default_factory=dict)

    def window(self, part: _Range) -> Window:
        """What of a part of the box lies in the tensor."""
        low, high = zip(*part, strict=True)
        return self.bound.window(self.coords, low, high, whole_chunks=self.stores)

    def source(self) -> NDArray[Any] | None:
        """Global memory from the box's first chunk on, if all lie in the tensor and come as they are."""
        tensor_map = self.bound.map
        if self.inside.stop != tensor_map.counts or any(self.inside.first) or tensor_map.dtype in _ROUNDED:
            return None
        return self.bound.from_first(self.inside)

    def tiles(self, offset: int, *, whole: bool) -> list[_Tile]:
        """What of it lands on its own, all of it or its parts; copies to places that are alike share it."""
        key = (offset & 1023, whole)
        found = self._tiles.get(key)
        if found is None:
            source, cuts = self.source(), _Cuts.of(self.bound, offset)
            some = [cuts.whole] if whole else cuts.parts
            found = self._tiles[key] = [_Tile(self.bound, self.coords, cut, source) for cut in some]
        return found


class _Tile:
    """A part of a box that lands on its own."""

    def __init__(
        self, bound: BoundTensorMap, coords: tuple[int, ...], cut: _Cut, source: NDArray[Any] | None
    ) -> None:
        self.bound = bound
        self.coords = coords
        self.cut = cut
        self.source = source
        self.covered = cut.covered
        self.n_bytes = cut.chunks.size * CHUNK

    def put(self, held: NDArray[Any], first: int) -> None:
        """Put the elements as they are now into chunks that are counted from `first`."""
        cut, to = self.cut, self.covered
        if self.source is None:
            held[first:][cut.chunks] = self._filled()
        elif isinstance(to, slice):
            # In the mode "raise" NumPy would take them to a place of its own first.
            self.source.take(cut.sources, out=held[first + to.start : first + to.stop], mode="wrap")
        else:
            held[first:][cut.chunks] = self.source[cut.sources]

    def _filled(self) -> NDArray[Any]:
        """The elements in chunks; what lies outside of the tensor is filled."""
        tensor_map, part = self.bound.map, self.cut.part
        shape = [stop - first for first, stop in part]
        values = np.full(shape[::-1], tensor_map.fill, dtype=f"u{tensor_map.item_bytes}")
        low, high = zip(*part, strict=True)
        window = self.bound.window(self.coords, low, high)
        if not window.empty:
            inside = self.bound.elements(window)
            if tensor_map.dtype in _ROUNDED:
                inside = _to_tf32(inside)
            values[_inner(window, part)] = inside
        return values.view(CHUNK_TYPE)


def _inner(window: Window, part: _Range) -> tuple[slice, ...]:
    """Where a window lies in a part of its box, outermost dimension first."""
    places = zip(window.first, window.stop, part, strict=True)
    return tuple(slice(first - low, stop - low) for first, stop, (low, _) in places)[::-1]


def _to_tf32(words: NDArray[Any]) -> NDArray[np.uint32]:
    """Bits of f32 rounded to tf32, to nearest even, as an H200's load does it; any NaN is the same one."""
    wide = words.astype(np.uint64)
    rounded = (wide + 0xFFF + (wide >> 13 & 1)) & 0xFFFFE000
    nan = wide & 0x7FFFFFFF > FORMATS["f32"].infinity
    return np.where(nan, 0x7FFFE000, rounded).astype(np.uint32)


# --- operands ---------------------------------------------------------------------------------------------


class _TensorOperand:
    """The operand [tensorMap, {coordinates}] of an instruction."""

    def __init__(self, site: Site, index: int, dims: int, *, stores: bool = False) -> None:
        self.site = site
        self.dims = dims
        self.stores = stores
        operand = site.operand(index)
        self.address = site.address(index)
        items = operand.coordinates if isinstance(operand, Address) else ()
        if len(items) == 1 and isinstance(items[0], Vector):
            items = items[0].items
        if len(items) != dims:
            site.invalid(
                f"{site.instruction.name} takes {dims} coordinates after the tensor map, not {len(items)}"
            )
        self.slots = [site.read(item, "s32") for item in items]
        self._constant: dict[int, BoundTensorMap] = {}
        """Tensor maps in memory that a kernel cannot write, by address."""
        self._boxes: dict[tuple[BoundTensorMap, tuple[int, ...]], _Box] = {}

    def boxes(self, bundle: Bundle, lanes: NDArray[np.int64]) -> Iterator[_Box]:
        """The box that each of some lanes asks for, one after the other, checked."""
        rows = bundle.rows["s32"]
        each = [rows[slot].reshape(-1)[lanes].tolist() for slot in self.slots]
        addresses = self.address.lanes(bundle).reshape(-1)[lanes].tolist()
        for lane, address, *coords in zip(lanes.tolist(), addresses, *each, strict=True):
            bound = self._constant.get(address)
            if bound is None:
                bound = _find_map(self.site, bundle, lane, address)
                found = bundle.machine.memory.find(address)
                if found is not None and not found.writable:
                    self._constant[address] = bound
            key = (bound, tuple(coords))
            box = self._boxes.get(key)
            if box is None:
                box = self._make(bundle, lane, *key)
                if len(self._boxes) >= _KEPT_BOXES:
                    self._boxes.clear()
                self._boxes[key] = box
            if self.stores:
                bound.allocation.was_written = True
            else:
                bound.allocation.was_read = True
            yield box

    def _make(self, bundle: Bundle, lane: int, bound: BoundTensorMap, coords: tuple[int, ...]) -> _Box:
        """The box of a map at some coordinates, checked."""
        site = self.site
        tensor_map = bound.map
        if tensor_map.rank != self.dims:
            raise site.error(
                InvalidOperand,
                f"the tensor map has {tensor_map.rank} dimensions ({tensor_map.describe()}) but the"
                f" instruction is for {self.dims}",
                bundle,
                lane,
            )
        start = coords[0] * tensor_map.item_bytes
        if start % CHUNK:
            raise site.error(
                AlignmentError,
                f"the box starts at element {coords[0]} of the innermost dimension ({tensor_map.describe()}):"
                f" {start} bytes, which must be a multiple of {CHUNK}",
                bundle,
                lane,
            )
        if self.stores and min(coords) < 0:
            raise site.error(
                InvalidOperand,
                f"the box to write starts at {coords}: only a load may start below 0",
                bundle,
                lane,
            )
        counts = tensor_map.counts
        window = bound.window(coords, (0,) * len(counts), counts, whole_chunks=self.stores)
        if not window.empty and bound.base + bound.reach(window) > bound.allocation.nbytes:
            beyond = bound.base + bound.reach(window) - bound.allocation.nbytes
            raise site.error(
                AddressError,
                f"the box at {coords} of the tensor map ({tensor_map.describe()}) reaches {beyond} bytes"
                f" past the end of {bound.allocation.name}: the map's dims or strides do not match the array"
                + (", or a store's last 16-byte chunk crosses its end" if self.stores else ""),
                bundle,
                lane,
                allocation=bound.allocation.name,
            )
        return _Box(bound, coords, self.stores, window)


def _find_map(site: Site, bundle: Bundle, lane: int, address: int) -> BoundTensorMap:
    """The tensor map at a generic address."""
    if address % _MAP_ALIGNMENT:
        raise site.error(
            AlignmentError,
            f"the tensor map is at 0x{address:x}, which is not a multiple of {_MAP_ALIGNMENT}",
            bundle,
            lane,
            address=address,
        )
    memory = bundle.machine.memory
    found = memory.find(address)
    if found is not None and found.space in {"param", "const", "global"}:
        start = address - found.base
        token = found.data[start : start + TOKEN_BYTES].tobytes()
        parameters = bundle.machine.parameters
        if parameters is not None and token in parameters.tensor_maps:
            bound: BoundTensorMap = parameters.tensor_maps[token]
            return bound
        where = f"in {found.name}"
    else:
        where = "in no .param, .const or .global memory"
        if memory.find(address | PARAM_WINDOW) is not None:
            where = "an address in .param, which cvta.param.u64 must make a generic one"
    raise site.error(
        InvalidOperand,
        f"there is no tensor map at 0x{address:x} ({where}): pass an emulator.TensorMap as the kernel's"
        " 128-byte parameter, or copy all its bytes",
        bundle,
        lane,
        address=address,
    )


def _dims(site: Site) -> int:
    """Take the dimension and the mode of a tensor instruction."""
    dims = _DIMS.index(site.expect(*_DIMS)) + 1
    mode = site.one_of(*_MODES)
    if mode is not None:
        site.unsupported(f".{mode} is not supported yet, only .tile")
    site.has("tile")
    return dims


# --- instructions -----------------------------------------------------------------------------------------


@instruction("cp.async.bulk.tensor")
def tensor_copy(site: Site) -> Step:
    """Copy a box of a tensor from global to shared memory, or back, asynchronously.

    Shapes:     once for each active lane: elect one. A load lands the box's rows one behind the other or,
                swizzled, each in a span of its own with its 16-byte chunks shuffled by bits of the shared
                address; with .multicast::cluster at the same offset in every CTA that the mask names, each of
                which has its own mbarrier at the mbarrier's offset. With .cta_group::2 the mbarrier may be
                the peer's: of each destination's pair, the CTA counts the bytes whose rank has the parity
                of the mbarrier's. Elements outside of the tensor are filled on a load, with the bytes
                counted, and left alone on a store.
    Units:      coordinates in elements, innermost first; a load's may be negative. An element stride takes
                every n-th element.
    Alignment:  box in shared memory 128 bytes, tensor map 64, mbarrier 8; the first coordinate a multiple of
                16 bytes (an H200 takes it for an illegal instruction otherwise). A store writes whole 16-byte
                chunks: where the tensor's row ends inside of one, the row's padding is written too.
    Errors:     InvalidOperand (no tensor map there, wrong dimensions, mask, mbarrier in another CTA than the
                box), AlignmentError, AddressError, UninitializedRead, MissingProxyFence and
                OverwrittenSource (a store's source), NoBarrierError and BarrierCountError when bytes land;
                UnfinishedCopy for a block that ends before its stores have read.
    Simplified: the box lands in pieces, or as a whole, in an order that the seed chooses. .im2col and
                .tile::gather4 are not supported yet; cache hints have no effect.
    Source:     PTX ISA 9.0, cp.async.bulk.tensor
                (#data-movement-and-conversion-instructions-cp-async-bulk-tensor); the box's pitch under a
                swizzle wider than its row, tf32's rounding and the stores' last chunk: an H200.
    """
    dims = _dims(site)
    to = site.expect("shared::cluster", "shared::cta", "global")
    if to == "global":
        if not site.has("shared::cta"):
            site.unsupported("it copies from .shared::cta to .global")
        return _out(site, dims, None)
    if not site.has("global"):
        site.unsupported(f"it copies from .global to .{to}")
    return _load(site, dims, to)


@instruction("cp.reduce.async.bulk.tensor")
def tensor_reduce(site: Site) -> Step:
    """Combine a box in shared memory with a tensor's elements in global memory, element by element.

    Shapes:     as a store of cp.async.bulk.tensor.
    Errors:     as cp.async.bulk.tensor; InvalidOperand for an operation that the map's type does not have.
    Simplified: as cp.async.bulk.tensor; each element is changed atomically.
    Source:     PTX ISA 9.0, cp.reduce.async.bulk.tensor
                (#data-movement-and-conversion-instructions-cp-reduce-async-bulk-tensor).
    """
    dims = _dims(site)
    if not (site.has("global") and site.has("shared::cta")):
        site.unsupported("it reduces from .shared::cta into .global")
    return _out(site, dims, site.expect(*OPERATIONS))


@instruction("cp.async.bulk.prefetch.tensor")
def tensor_prefetch(site: Site) -> Step:
    """Ask for a box of a tensor to be brought to the L2 cache: this changes nothing that a kernel can see.

    Shapes:     as cp.async.bulk.tensor.
    Errors:     as cp.async.bulk.tensor, for the tensor map and the coordinates.
    Source:     PTX ISA 9.0, cp.async.bulk.prefetch.tensor
                (#data-movement-and-conversion-instructions-cp-async-bulk-prefetch-tensor).
    """
    dims = _dims(site)
    site.has("L2", "global")
    hinted = site.has("L2::cache_hint")
    take_operands(site, 1 + hinted)
    tensor = _TensorOperand(site, 0, dims)

    def step(bundle: Bundle, mask: Mask) -> None:
        lanes = bundle.lanes(mask)
        for lane, box in zip(lanes.tolist(), tensor.boxes(bundle, lanes), strict=True):
            _remember(Origin(site, bundle, lane), "prefetch", box)

    return step


@instruction("prefetch.tensormap", "prefetch.param.tensormap", "prefetch.const.tensormap")
def prefetch_tensormap(site: Site) -> Step:
    """Prefetch a tensor map for later copies: this changes nothing that a kernel can see.

    Shapes:     each lane for itself.
    Errors:     InvalidOperand where there is no tensor map, AlignmentError.
    Source:     PTX ISA 9.0, prefetch (#data-movement-and-conversion-instructions-prefetch-prefetchu).
    """
    take_operands(site, 1)
    address = site.address(0)

    def step(bundle: Bundle, mask: Mask) -> None:
        flat = address.lanes(bundle).reshape(-1)
        for lane in bundle.lanes(mask).tolist():
            _find_map(site, bundle, lane, int(flat[lane]))

    return step


@instruction("tensormap.replace", "tensormap.cp_fenceproxy")
def tensormap_replace(site: Site) -> Step:
    """Change a field of a tensor map, or copy a changed one for tensor copies to see. Not supported yet.

    Shapes:     each lane for itself; the copy by the whole warp together.
    Errors:     UnsupportedInstruction, always.
    Source:     PTX ISA 9.0, tensormap.replace
                (#data-movement-and-conversion-instructions-tensormap-replace) and tensormap.cp_fenceproxy
                (#parallel-synchronization-and-communication-instructions-tensormap-cp-fenceproxy).
    """
    site.unsupported("it is not supported yet; pass a tensor map for each use")


def _remember(origin: Origin, operation: str, box: _Box, **more: Any) -> int | None:
    tensor_map = box.bound.map
    return remember(
        origin,
        operation,
        tensor=tensor_map.name,
        coords=box.coords,
        box=tensor_map.counts,
        n_bytes=tensor_map.box_bytes,
        **more,
    )


def _load(site: Site, dims: int, to: str) -> Step:
    """A load: [dst], [map, coordinates], [mbarrier] {, mask} {, cache policy}."""
    if not site.has("mbarrier::complete_tx::bytes"):
        site.unsupported("a load needs .mbarrier::complete_tx::bytes")
    multicast, pair = take_multicast(site), take_pair(site)
    if multicast and to == "shared::cta":
        site.unsupported(".multicast::cluster goes to .shared::cluster")
    hinted = site.has("L2::cache_hint")
    take_operands(site, 3 + multicast + hinted)
    destination, barrier = site.address(0), site.address(2)
    tensor = _TensorOperand(site, 1, dims)
    cta_mask = site.source(3, "u16") if multicast else None

    def step(bundle: Bundle, mask: Mask) -> None:
        lanes = bundle.lanes(mask)
        of_lanes = [source.lanes(bundle).reshape(-1)[lanes].tolist() for source in (destination, barrier)]
        masks = [None] * len(lanes)
        if cta_mask is not None:
            masks = bundle.rows["u16"][cta_mask].reshape(-1)[lanes].tolist()
        for each in zip(lanes.tolist(), tensor.boxes(bundle, lanes), *of_lanes, masks, strict=True):
            issue(bundle, *each)

    def issue(bundle: Bundle, lane: int, box: _Box, address: int, bar_address: int, bits: int | None) -> None:
        origin = Origin(site, bundle, lane)
        cohort = bundle.cohort
        known: dict[Any, Targets] = cohort.state.setdefault("tensor loads", {})
        key = (site, bundle, lane, box.bound, address, bar_address, bits)
        there = known.get(key)
        if there is None or not there.alive(cohort):
            there = known[key] = targets(origin, box, address, bar_address, bits)
        transfer = None
        if cohort.listeners.happened:
            transfer = _remember(
                origin,
                "load",
                box,
                destinations=there.places,
                barrier=there.barrier,
                barrier_rank=there.barriers[0][1] if pair else None,
                mask=bits,
            )
        arrival = Arrival(origin, there, transfer)
        offset = there.places[0].offset
        land_later(
            arrival,
            box.tiles(offset, whole=not lands_in_pieces(bundle.machine)),
            covered=box.bound.covered(offset),
        )
        if cohort.provenance is not None:
            cohort.provenance.box(arrival, box.bound, box.coords, box.inside)

    def targets(origin: Origin, box: _Box, address: int, bar_address: int, bits: int | None) -> Targets:
        """Where a load goes, checked."""
        bundle, lane = origin.bundle, origin.lane
        what, size = "the copy's destination", box.bound.map.shared_bytes
        if to == "shared::cta":
            place = own_place(site, bundle, lane, address, size, _BOX_ALIGNMENT, what)
        else:
            place = shared_place(site, bundle, lane, address, size, _BOX_ALIGNMENT, what)
        bar = barrier_place(site, bundle, lane, bar_address)
        places = [place]
        if bits is None:
            check_same_block(site, bundle, lane, place, bar, pair=pair)
        else:
            places = [place.in_block(rank) for rank in destination_ranks(site, bundle, lane, bits)]
        parity = bar.rank & 1 if pair else None
        return Targets(places, bar.offset, (place.offset & ~1023) // CHUNK, parity, named=[place, bar])

    return step


def _out(site: Site, dims: int, operation: str | None) -> Step:
    """A store or a reduction: [map, coordinates], [src] {, cache policy}."""
    if not site.has("bulk_group"):
        site.unsupported("a copy to global memory needs .bulk_group")
    hinted = site.has("L2::cache_hint")
    take_operands(site, 2 + hinted)
    tensor = _TensorOperand(site, 0, dims, stores=True)
    source = site.address(1)

    def step(bundle: Bundle, mask: Mask) -> None:
        lanes = bundle.lanes(mask)
        for lane, box in zip(lanes.tolist(), tensor.boxes(bundle, lanes), strict=True):
            issue(bundle, lane, box)

    def issue(bundle: Bundle, lane: int, box: _Box) -> None:
        tensor_map = box.bound.map
        combine = None
        if operation is not None:
            kind = _REDUCED[operation].get(tensor_map.dtype)
            if kind is None:
                raise site.error(
                    InvalidOperand,
                    f".{operation} has no elements of type {tensor_map.dtype} ({tensor_map.describe()});"
                    f" it has {', '.join(_REDUCED[operation])}",
                    bundle,
                    lane,
                )
            combine = reduction(operation, kind)
        address = lane_value(source, bundle, lane)
        place = own_place(
            site, bundle, lane, address, tensor_map.shared_bytes, _BOX_ALIGNMENT, "the copy's source"
        )
        groups = BulkGroups.of(bundle)
        origin = Origin(site, bundle, lane)
        transfer = _remember(origin, "reduce" if operation else "store", box, source=place.about())
        out = Out(origin, groups.group(lane), transfer)
        base = place.chunk(place.offset & ~1023)
        for cut in _Cuts.of(box.bound, place.offset).parts:
            chunks = cut.chunks + base
            out.add(chunks, partial(_write, box, cut.part, combine), _needed(box, cut.part, chunks))
        groups.copies.append(out)

    return step


def _needed(box: _Box, part: _Range, chunks: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Which bytes of a part's chunks a store writes; None for all."""
    window = box.window(part)
    if list(zip(window.first, window.stop, strict=True)) == part:
        return None
    shape = [stop - first for first, stop in part]
    needed = np.zeros((*shape[::-1], box.bound.map.item_bytes), dtype=np.bool_)
    if not window.empty:
        needed[_inner(window, part)] = True
    return needed.reshape(*chunks.shape, CHUNK)


def _write(box: _Box, part: _Range, combine: Reduction | None, chunks: NDArray[Any]) -> None:
    """Write what of a part lies in the tensor, or combine it with what is there."""
    window = box.window(part)
    if window.empty:
        return
    shape = [stop - first for first, stop in part]
    values = chunks.reshape(-1).view(f"u{box.bound.map.item_bytes}").reshape(shape[::-1])
    values = values[_inner(window, part)]
    target = box.bound.elements(window)
    box.bound.mark(window)
    if combine is None:
        target[...] = values
    elif not box.bound.overlaps:
        target[...] = combine(target[...], np.ascontiguousarray(values))
    else:
        for place in np.ndindex(target.shape[:-1]):
            target[place] = combine(target[place], np.ascontiguousarray(values[place]))
