"""The operand [tensorMap, {coordinates}] of the tensor copies, and the rules for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.core.machine import Machine
from cutecourse.emulator.core.memory import PARAM_WINDOW
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import AddressError, AlignmentError, InvalidOperand
from cutecourse.emulator.instructions.bulk.boxes import Box
from cutecourse.emulator.memory.host_arrays import check_writable
from cutecourse.emulator.memory.tensor_map import TOKEN_BYTES, BoundTensorMap
from cutecourse.emulator.memory.tensor_map_fences import is_acquired
from cutecourse.ptx.syntax import Address, Vector

__all__ = ["TensorOperand", "find_map", "take_dims"]

_DIMS = ("1d", "2d", "3d", "4d", "5d")
_IM2COL = "describe the images as a tensor of more dimensions, and copy each tap of the filter with .tile"
_INSTEAD = dict.fromkeys(("im2col", "im2col::w", "im2col::w::128", "im2col_no_offs"), _IM2COL)
"""The modes that are refused, and the way round each of them."""
_TABLE = 2
_ROWS = 4
"""A tensor of two dimensions, and as many of its rows, are what .tile::gather4 and .tile::scatter4 take."""
_MAP_ALIGNMENT = 64
_KEPT_BOXES = 16384
"""How many boxes of a map a launch caches: the blocks of a row or column of the grid use the same ones."""


class _Known:
    """The tensor maps and the boxes that a launch has used."""

    def __init__(self, machine: Machine) -> None:
        self.maps: dict[int, BoundTensorMap] = {}
        """Tensor maps in memory that a kernel cannot write, by address."""
        self.boxes: defaultdict[tuple[TensorOperand, BoundTensorMap], dict[tuple[int, ...], tuple[Box, ...]]]
        self.boxes = defaultdict(dict)
        """Boxes that are checked for an instruction's operand, by their coordinates."""


class TensorOperand:
    """The operand [tensorMap, {coordinates}] of an instruction.

    dims    of the tensor
    rows    True where the instruction names the numbers of four rows: it has four boxes of one row each
    """

    def __init__(
        self, site: Site, index: int, dims: int, *, rows: bool = False, stores: bool = False
    ) -> None:
        self.site = site
        self.dims = dims
        self.rows = rows
        self.stores = stores
        operand = site.operand(index)
        self.address = site.address(index)
        items = operand.coordinates if isinstance(operand, Address) else ()
        if len(items) == 1 and isinstance(items[0], Vector):
            items = items[0].items
        wanted = dims - 1 + _ROWS if rows else dims
        if len(items) != wanted:
            site.invalid(
                f"{site.instruction.name} takes {wanted} coordinates after the tensor map, not {len(items)}"
            )
        self.slots = [site.read(item, "s32") for item in items]

    def boxes(self, bundle: Bundle, lanes: NDArray[np.int64]) -> Iterator[tuple[Box, ...]]:
        """The boxes that each of some lanes asks for, one lane after the other, checked."""
        rows = bundle.rows["s32"]
        each = [rows[slot].reshape(-1)[lanes].tolist() for slot in self.slots]
        addresses = self.address.lanes(bundle).reshape(-1)[lanes].tolist()
        known = bundle.machine.own(_Known)
        for lane, address, coords in zip(lanes.tolist(), addresses, zip(*each, strict=True), strict=True):
            bound = known.maps.get(address)
            if bound is None:
                origin = Origin(self.site, bundle, lane)
                bound = find_map(origin, address)
                found = bundle.machine.memory.find(address)
                if found is not None and found.writable:
                    _check_changed(origin, bound, address)
                else:
                    known.maps[address] = bound
            if bound.map.packed > 1:
                coords = self._in_bytes(Origin(self.site, bundle, lane), bound, coords)
            kept = known.boxes[self, bound]
            boxes = kept.get(coords)
            if boxes is None:
                if len(kept) >= _KEPT_BOXES:
                    kept.clear()
                origin = Origin(self.site, bundle, lane)
                places = [(coords[0], row) for row in coords[1:]] if self.rows else [coords]
                boxes = kept[coords] = tuple(self._make(origin, bound, place) for place in places)
            if self.stores:
                bound.allocation.was_written = True
            else:
                bound.allocation.was_read = True
            yield boxes

    def _in_bytes(self, origin: Origin, bound: BoundTensorMap, coords: tuple[int, ...]) -> tuple[int, ...]:
        """Coordinates whose innermost one counts bytes and not the elements that share a byte."""
        packed = bound.map.packed
        if coords[0] % packed:
            raise origin.error(
                AlignmentError,
                f"the box starts at element {coords[0]} of the innermost dimension ({bound.map.describe()}):"
                f" it must be a multiple of {packed * CHUNK // bound.map.item_bytes}",
            )
        return (coords[0] // packed, *coords[1:])

    def _make(self, origin: Origin, bound: BoundTensorMap, coords: tuple[int, ...]) -> Box:
        """The box of a map at some coordinates, checked."""
        tensor_map = bound.map
        if self.stores:
            check_writable(origin, bound.allocation, "the copy")
        if tensor_map.rank != self.dims:
            raise origin.error(
                InvalidOperand,
                f"the tensor map has {tensor_map.rank} dimensions ({tensor_map.describe()}) but the"
                f" instruction is for {self.dims}",
            )
        if self.rows and tensor_map.box[1] != 1:
            raise origin.error(
                InvalidOperand,
                f"the map's box has {tensor_map.box[1]} rows ({tensor_map.describe()}), and must have one:"
                " the instruction names four rows, and each is a box",
            )
        if self.stores and tensor_map.is_padded:
            raise origin.error(
                InvalidOperand,
                f"a copy to global memory takes no map that leaves gaps ({tensor_map.describe()})",
            )
        start = coords[0] * tensor_map.item_bytes
        if start % CHUNK:
            raise origin.error(
                AlignmentError,
                f"the box starts at element {coords[0]} of the innermost dimension ({tensor_map.describe()}):"
                f" {start} bytes, which must be a multiple of {CHUNK}",
            )
        if self.stores and min(coords) < 0:
            raise origin.error(
                InvalidOperand,
                f"the box to write starts at {coords}: only a load may start below 0",
            )
        counts = tensor_map.counts
        window = bound.window(coords, (0,) * len(counts), counts, whole_chunks=self.stores)
        if not window.empty and bound.base + bound.reach(window) > bound.allocation.nbytes:
            beyond = bound.base + bound.reach(window) - bound.allocation.nbytes
            raise origin.error(
                AddressError,
                f"the box at {coords} of the tensor map ({tensor_map.describe()}) reaches {beyond} bytes"
                f" past the end of {bound.allocation.name}: the map's dims or strides do not match the array"
                + (", or a store's last 16-byte chunk crosses its end" if self.stores else ""),
                allocation=bound.allocation.name,
            )
        return Box.of(bound, coords, window, stores=self.stores)


def find_map(origin: Origin, address: int) -> BoundTensorMap:
    """The tensor map at a generic address."""
    machine = origin.bundle.machine
    memory = machine.memory
    found = memory.find(address)
    if address % _MAP_ALIGNMENT:
        advice = (
            "; no memory is there, so this may be the map's content: take the address of the parameter with"
            " mov.b64 and cvta.param.u64, not its value with ld.param"
        )
        raise origin.error(
            AlignmentError,
            f"the tensor map is at 0x{address:x}, which is not a multiple of {_MAP_ALIGNMENT}"
            + (advice if found is None else ""),
            address=address,
        )
    if found is not None and found.space in {"param", "const", "global"}:
        start = address - found.base
        token = found.data[start : start + TOKEN_BYTES].tobytes()
        bound: BoundTensorMap | None = machine.tensor_maps.get(token)
        if bound is not None:
            return bound
        where = f"in {found.name}"
    else:
        where = "in no .param, .const or .global memory"
        near, past = memory.nearest(address) or (None, -1)
        if near is not None and past >= 0 and near.data[-TOKEN_BYTES:].tobytes() in machine.tensor_maps:
            where = f"{past} bytes past the end of {near.name}"
        if memory.find(address | PARAM_WINDOW) is not None:
            where = "an address in .param, which cvta.param.u64 must make a generic one"
    raise origin.error(
        InvalidOperand,
        f"there is no tensor map at 0x{address:x} ({where}): pass an emulator.TensorMap as the kernel's"
        " 128-byte parameter, or a list of them for a pointer, or copy all its bytes",
        address=address,
    )


def _check_changed(origin: Origin, bound: BoundTensorMap, address: int) -> None:
    """Refuse a map that breaks a rule, and one that was changed and not acquired since.

    Errors: InvalidOperand, MissingTensorMapFence.
    """
    problem = bound.map.problem()
    if problem is None and not bound.allocation.nbytes:
        problem = "its global_address was never given"
    if problem is None and bound.base % CHUNK:
        problem = f"the tensor's address is {bound.base % CHUNK} bytes behind a multiple of {CHUNK}"
    if problem is not None:
        raise origin.error(InvalidOperand, f"the tensor map at 0x{address:x} was changed: {problem}")
    if not is_acquired(origin.bundle, origin.cluster, address):
        report(
            "no tensor map fence",
            f"the tensor map at 0x{address:x} was changed, and no thread of this CTA has executed"
            " fence.proxy.tensormap::generic.acquire for it since. Release the change with"
            " tensormap.cp_fenceproxy or fence.proxy.tensormap::generic.release, then acquire it before the"
            " copy.",
            origin,
            address=address,
        )


def take_dims(site: Site, *, rows: str = "") -> tuple[int, bool]:
    """Take the dimension and the mode of a tensor instruction; `rows` names the mode for four rows.

    The second result is True in that mode.
    """
    dims = _DIMS.index(site.expect(*_DIMS)) + 1
    mode = site.one_of(*_INSTEAD)
    if mode is not None:
        site.unsupported(f".{mode} is not supported: {_INSTEAD[mode]}")
    if not rows or not site.has(rows):
        site.has("tile")
        return dims, False
    if dims != _TABLE:
        site.invalid(f".{rows} is for a tensor of {_TABLE} dimensions, not of {dims}")
    return dims, True
