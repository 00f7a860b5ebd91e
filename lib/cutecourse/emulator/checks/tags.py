"""Tags of chunks: numbers that say which chunk of a tensor lies in a chunk of shared memory.

A tag has a number for the tensor map and, below that, a field for each coordinate of the chunk's first
element, wide enough that differences of tags are differences of coordinates. Tag 0 stands for an unknown
chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.memory.tensor_map import BoundTensorMap

__all__ = ["NUMBER", "Steps", "Tags"]

_MARGIN = 4
"""A coordinate may lie up to this many boxes outside the tensor."""
NUMBER = 48
"""The bit of a tag at which the tensor map's number begins."""


@dataclass(frozen=True, slots=True)
class Tags:
    """The numbering of a tensor map's chunks: its own number, and place and bias of each coordinate's field.

    The innermost coordinate counts chunks of 16 bytes, the others elements.
    """

    bound: BoundTensorMap
    number: int
    shifts: tuple[int, ...]
    biases: tuple[int, ...]
    extents: tuple[int, ...]
    """The tensor's extents, in the units of the coordinates."""
    relative: NDArray[np.int64]
    """The tags of a box's chunks minus the first one's; axes from the outermost dimension."""
    _in_place: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(cls, bound: BoundTensorMap, number: int) -> Tags | None:
        """Number the chunks of a tensor map; None if its coordinates mean nothing or do not fit."""
        tensor_map = bound.map
        item, dims, box = tensor_map.item_bytes, list(tensor_map.dims), list(tensor_map.box)
        dense = len(dims) == 1 or (box[0] == dims[0] and tensor_map.strides[0] == dims[0] * item)
        if tensor_map.swizzle == "none" and dense:
            return None
        unit = CHUNK // item
        dims[0], box[0] = -(-dims[0] // unit), box[0] // unit
        shifts, biases, at = [], [], 0
        for dim, extent in zip(dims, box, strict=True):
            shifts.append(at)
            biases.append(_MARGIN * extent)
            # One spare bit keeps sums of differences out of the next field.
            at += (dim + 2 * _MARGIN * extent).bit_length() + 1
        if at > NUMBER:
            return None
        relative = np.zeros((), dtype=np.int64)
        counts = [tensor_map.counts[0] // unit, *tensor_map.counts[1:]]
        steps = [1, *tensor_map.element_strides[1:]]
        for count, step, shift in zip(counts, steps, shifts, strict=True):
            relative = (np.arange(count, dtype=np.int64) * step << shift).reshape(
                -1, *[1] * relative.ndim
            ) + relative
        return cls(bound, number, tuple(shifts), tuple(biases), tuple(dims), relative)

    def first(self, coords: Sequence[int]) -> int | None:
        """The tag of a box's first chunk; None if it lies too far outside the tensor."""
        tensor_map = self.bound.map
        places = (coords[0] * tensor_map.item_bytes // CHUNK, *coords[1:])
        tag = self.number << NUMBER
        for place, shift, bias, extent in zip(places, self.shifts, self.biases, self.extents, strict=True):
            if not -bias <= place < extent + bias:
                return None
            tag += place + bias << shift
        return tag

    def in_place(self, offset: int) -> NDArray[np.int64]:
        """`relative` in the order of the chunks in shared memory, for a box without gaps at an offset."""
        found = self._in_place.get(offset & 1023)
        if found is None:
            chunks = self.bound.chunks(offset)
            found = self._in_place[offset & 1023] = np.empty(chunks.size, dtype=np.int64)
            found[chunks - chunks.min()] = self.relative
        return found

    def steps(self, tags: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
        """Differences of tags along one coordinate; the innermost one counts chunks."""
        return _signed(tags >> self.shifts[axis], self._width(axis)) + (
            _signed(tags, self.shifts[axis]) < 0 if axis else 0
        )

    def moving(self, tags: NDArray[np.int64]) -> list[int]:
        """The coordinates in which differences of tags are not 0."""
        return [axis for axis in range(len(self.shifts)) if self.steps(tags, axis).any()]

    def box(self, axis: int) -> int:
        """The extent of a box along a coordinate, in steps of that coordinate."""
        extent = self.bound.map.box[axis]
        return extent if axis else extent * self.bound.map.item_bytes // CHUNK

    def coord(self, tag: int, axis: int) -> int:
        """One coordinate of a chunk; the innermost one counts chunks."""
        return (tag >> self.shifts[axis] & (1 << self._width(axis)) - 1) - self.biases[axis]

    def stride(self, axis: int) -> int:
        """Bytes of global memory from one step of a coordinate to the next."""
        return self.bound.map.strides[axis - 1] if axis else CHUNK

    def neighbours(self, before: int, tag: int, rows: int) -> bool:
        """True if a chunk is `rows` rows after another along one of the outer coordinates."""
        steps = zip(self.shifts[1:], self.bound.map.element_strides[1:], strict=True)
        return any(tag - before == rows * step << shift for shift, step in steps)

    def _width(self, axis: int) -> int:
        return (*self.shifts[1:], NUMBER)[axis] - self.shifts[axis]

    def is_inside(self, tag: int) -> bool:
        """True if a chunk begins inside the tensor."""
        return all(0 <= self.coord(tag, axis) < extent for axis, extent in enumerate(self.extents))

    def address(self, tag: int) -> int:
        """The address of a chunk in global memory."""
        first = self.bound.allocation.base + self.bound.base
        return first + sum(self.coord(tag, axis) * self.stride(axis) for axis in range(len(self.shifts)))

    def coords(self, tag: int) -> tuple[int, ...]:
        """The coordinates of a chunk's first element."""
        found = [self.coord(tag, axis) for axis in range(len(self.shifts))]
        found[0] *= CHUNK // self.bound.map.item_bytes
        return tuple(found)


def _signed(numbers: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """The lowest `bits` bits of numbers, as signed numbers."""
    half = 1 << bits - 1
    return (numbers + half) % (2 * half) - half


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of k in a matrix: the coordinate of its tensor that k follows, and the steps along it.

    `relative` are the k of the matrix minus the first; a step of the coordinate is `per_step` k.
    """

    source: Tags
    axis: int
    per_step: int
    relative: tuple[int, ...]
    starts: tuple[tuple[int, int], ...]
    """The places along M or N from which k begins elsewhere: the row (MN-major: the chunk), and that k minus
    the matrix's first. There is one, (0, 0), if all of the matrix has the same k."""

    @classmethod
    def of(
        cls, source: Tags, tags: NDArray[np.int64], first: int, item: int, *, k_major: bool
    ) -> Steps | None:
        """The steps of a matrix's chunks; `tags` minus the first. None if k follows no single coordinate."""
        if abs(tags).max() >> NUMBER:
            return None
        along = tags[0] if k_major else tags[:, 0]
        axes = source.moving(along)
        if len(axes) != 1:
            return None
        (axis,) = axes
        steps = source.steps(along, axis)
        # K-major: a chunk holds adjacent k. MN-major: the first two rows are taken to be one k apart.
        unit = item if k_major else int(steps[1]) * source.stride(axis)
        if unit <= 0 or source.stride(axis) % unit:
            return None
        per_step = source.stride(axis) // unit
        inside = range(CHUNK // item) if k_major else range(1)
        relative = tuple(int(step) * per_step + i for step in steps for i in inside)
        across = source.steps(tags[:, 0] if k_major else tags[0], axis)
        places = [0, *(np.flatnonzero(np.diff(across)) + 1).tolist()]
        starts = tuple((place, int(across[place]) * per_step) for place in places)
        return cls(source, axis, per_step, relative, starts)

    def k(self, tag: int) -> int:
        """The k of a matrix's first chunk, counted from the tensor's start."""
        return self.source.coord(tag, self.axis) * self.per_step

    def others(self, tag: int) -> int:
        """The chunk's tag without its k."""
        shift = self.source.shifts[self.axis]
        return tag - (self.source.coord(tag, self.axis) << shift)

    @property
    def consecutive(self) -> bool:
        """True if the k of the matrix are consecutive."""
        return self.relative == tuple(range(len(self.relative)))

    @property
    def extent(self) -> int:
        """The number of k in the tensor."""
        return self.source.extents[self.axis] * self.per_step

    @property
    def box(self) -> int:
        """The number of k in one box."""
        return self.source.box(self.axis) * self.per_step
