"""Boxes of a tensor, the parts into which a box is cut, and where each part lies.

Many copies of a kernel move boxes with the same layout. So the places of a box's parts in shared and in
global memory are computed once for each tensor map and offset, and kept with the map. The part of a box that
lies in its tensor is kept with the instruction's operand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.kinds import CHUNK, CHUNK_TYPE
from cutecourse.emulator.instructions.bulk.pieces import Chunks, pieces_of
from cutecourse.emulator.memory.tensor_map import BoundTensorMap, Window, covered
from cutecourse.emulator.numbers.formats import FORMATS
from cutecourse.emulator.numbers.reductions import Reduction

__all__ = ["Box", "Cut", "Cuts", "needed_bytes", "write_part"]

_ROUNDED = ("tf32", "tf32_ftz")
Range = list[tuple[int, int]]
"""The first element, and the one after the last, along each dimension."""


@dataclass(slots=True, eq=False)
class Cut:
    """A part of each box that copies with one tensor map move to, or from, one place in shared memory.

    n_bytes   the number of bytes in the part
    part      its first element and the one after the last, along each dimension
    chunks    the chunks of shared memory that hold it, outermost dimension first
    covered   the same chunks in any order; a slice if they are neighbours
    sources   its chunks of global memory, counted from the box's first: in the order of shared memory if
              `covered` is a slice, else in the order of `chunks`
    """

    n_bytes: int
    part: Range
    chunks: NDArray[np.int64]
    covered: Chunks
    sources: NDArray[np.int64]

    @classmethod
    def make(cls, bound: BoundTensorMap, chunks: NDArray[np.int64], part: Range) -> Cut:
        """A part of a box whose chunks go to `chunks`."""
        unit = CHUNK // bound.map.item_bytes
        inner = slice(part[0][0] // unit, part[0][1] // unit)
        index = (*(slice(first, stop) for first, stop in part[:0:-1]), inner)
        own, sources = np.ascontiguousarray(chunks[index]), np.ascontiguousarray(bound.sources[index])
        all_of_it = covered(own)
        if isinstance(all_of_it, slice):
            sources = sources.reshape(-1)[np.argsort(own, axis=None)]
        n_bytes = own.size * CHUNK * bound.map.dense_bytes // bound.map.item_bytes
        return cls(n_bytes, part, own, all_of_it, sources)

    def put(self, held: NDArray[Any], first: int, box: Box) -> None:
        """Put the elements of a box as they are now into chunks that are counted from `first`."""
        to = self.covered
        if box.source is None:
            held[first:][self.chunks] = box.filled(self.part)
        elif isinstance(to, slice):
            # In mode "raise" NumPy would first copy the chunks to a buffer.
            box.source.take(self.sources, out=held[first + to.start : first + to.stop], mode="wrap")
        else:
            held[first:][self.chunks] = box.source[self.sources]


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """A box at one place in shared memory: cut into its parts, and whole."""

    parts: list[Cut]
    whole: Cut

    @classmethod
    def of(cls, bound: BoundTensorMap, offset: int) -> Cuts:
        """The cuts at an offset in shared memory, made once for all boxes with the same layout."""
        found: Cuts | None = bound.cuts.get(offset & 1023)
        if found is None:
            chunks = bound.chunks(offset)
            parts = [Cut.make(bound, chunks, part) for part in _parts(bound)]
            whole = Cut.make(bound, chunks, [(0, count) for count in bound.map.counts])
            found = bound.cuts[offset & 1023] = cls(parts, whole)
        return found


def _parts(bound: BoundTensorMap) -> list[Range]:
    """Cut a box along its longest outer dimension; cut a single row into runs of whole chunks."""
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
class Box:
    """One box of a tensor."""

    bound: BoundTensorMap
    coords: tuple[int, ...]
    stores: bool
    """True if the box is written: an H200 writes the whole 16-byte chunk in which the tensor's row ends."""
    inside: Window | None
    """The part of the box that lies in the tensor; None for all of it."""
    source: NDArray[Any] | None = None
    """Global memory from the box's first chunk on, if the box lies in the tensor and is not converted."""

    @classmethod
    def of(cls, bound: BoundTensorMap, coords: tuple[int, ...], window: Window, *, stores: bool) -> Box:
        """The box at some coordinates; `window` is the part of it that lies in the tensor."""
        if window.stop != bound.map.counts or any(window.first):
            return cls(bound, coords, stores, window)
        as_it_is = bound.map.dtype not in _ROUNDED and not stores and not bound.map.is_padded
        return cls(bound, coords, stores, None, bound.from_first(window) if as_it_is else None)

    def window(self, part: Range) -> Window:
        """The share of a part of the box that lies in the tensor."""
        low, high = zip(*part, strict=True)
        return self.bound.window(self.coords, low, high, whole_chunks=self.stores)

    def filled(self, part: Range) -> NDArray[Any]:
        """The elements of a part in chunks; elements outside of the tensor are filled."""
        tensor_map = self.bound.map
        shape = [stop - first for first, stop in part]
        if tensor_map.is_padded:
            return self._padded(part)
        values = np.full(shape[::-1], tensor_map.fill, dtype=f"u{tensor_map.item_bytes}")
        window = self.window(part)
        if not window.empty:
            inside = self.bound.elements(window)
            if tensor_map.dtype in _ROUNDED:
                inside = _to_tf32(inside)
            values[_inner(window, part)] = inside
        return values.view(CHUNK_TYPE)

    def _padded(self, part: Range) -> NDArray[Any]:
        """The groups of 16 elements of a part in chunks, each with zeros behind it."""
        shape = [stop - first for first, stop in part]
        values = np.zeros((*shape[::-1], CHUNK), dtype=np.uint8)
        window = self.window(part)
        if not window.empty:
            dense = np.ascontiguousarray(self.bound.elements(window))
            n_bytes = self.bound.map.dense_bytes
            values[(*_inner(window, part), slice(n_bytes))] = dense.view(np.uint8).reshape(
                *dense.shape, n_bytes
            )
        return values.reshape(-1).view(CHUNK_TYPE).reshape(shape[::-1])


def _inner(window: Window, part: Range) -> tuple[slice, ...]:
    """Where a window lies in a part of its box, outermost dimension first."""
    places = zip(window.first, window.stop, part, strict=True)
    return tuple(slice(first - low, stop - low) for first, stop, (low, _) in places)[::-1]


def _to_tf32(words: NDArray[Any]) -> NDArray[np.uint32]:
    """Round f32 bits to tf32, to nearest even, as a load on an H200 does; every NaN becomes the same NaN."""
    wide = words.astype(np.uint64)
    rounded = (wide + 0xFFF + (wide >> 13 & 1)) & 0xFFFFE000
    nan = wide & 0x7FFFFFFF > FORMATS["f32"].infinity
    return np.where(nan, 0x7FFFE000, rounded).astype(np.uint32)


def needed_bytes(box: Box, part: Range, chunks: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Which bytes of a part's chunks a store writes; None for all."""
    window = box.window(part)
    if list(zip(window.first, window.stop, strict=True)) == part:
        return None
    shape = [stop - first for first, stop in part]
    needed = np.zeros((*shape[::-1], box.bound.map.item_bytes), dtype=np.bool_)
    if not window.empty:
        needed[_inner(window, part)] = True
    return needed.reshape(*chunks.shape, CHUNK)


def write_part(box: Box, part: Range, combine: Reduction | None, chunks: NDArray[Any]) -> None:
    """Write the share of a part that lies in the tensor, or combine it with the elements there."""
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
