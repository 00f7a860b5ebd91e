"""Check that the operands of an MMA match the bytes that copies have brought to shared memory.

Every byte that the MMA reads is defined. These checks find products that can hardly be intended.

another layout      A matrix comes from one tensor, but its coordinates at (row, column) are not the sum of a
                    part for the row and a part for the column: the matrix is shuffled, because the
                    descriptor's swizzle or stride differs from the tensor map's. Rows may be gathered, and
                    columns may be in any order. But the 8 rows that a swizzle permutes share one innermost
                    coordinate (without a swizzle, all groups of 8 repeat the same ones), and are evenly
                    spaced if the tensor map has another swizzle. Along M or N, k moves by whole boxes only.
                    A matrix with rows of several tensors or several k is reported if none of its groups of 8
                    rows directly follows another: a stride that is too large skips rows and runs into the
                    bytes behind the tile. A stride that is too small makes rows overlap.
another type        The tensor map's elements are floating-point numbers of another type than the MMA's.
fill multiplied     A matrix begins in a box that lies wholly past its tensor's end. A box that only reaches
                    past the end may provide zeros for the last k or rows.
operand read twice  A stride of 0 in the descriptor puts the same chunk at several places of one matrix.

Matrices that come from several tensors, or in part from threads, are not checked further.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.provenance import BY_MMA, Provenance
from cutecourse.emulator.checks.tags import NUMBER, Steps, Tags
from cutecourse.emulator.core.kinds import CHUNK, any_true
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.memory.matrix_descriptor import MatrixDescriptor, MultipliedMatrix, chunk_offsets

__all__ = ["Found", "check_operand", "good_operands"]

Found = tuple[int, Steps | None]
"""The tag of a matrix's first chunk, and the steps of k from there; None if these are unknown."""

_MANY = 4
"""This many groups of rows distinguish a wrong stride from chance."""
_ATOM = 8
"""A swizzle permutes this many rows together."""
_OF_MAPS = ("none", "32B", "64B", "128B")
_READ_AS = {
    "f16": {"f16"},
    "bf16": {"bf16"},
    "f32": {"tf32"},
    "f32_ftz": {"tf32"},
    "tf32": {"tf32"},
    "tf32_ftz": {"tf32"},
    "f64": {"f64"},
}
"""The types as which an MMA may read a tensor map's elements. Integers may stand for bytes of any type."""


def check_operand(origin: Origin, matrix: MultipliedMatrix, provenance: Provenance) -> list[Found]:
    """Check a matrix that an MMA reads, in each CTA that holds a part of it."""
    name, descriptor, kind, k_major = matrix.name, matrix.descriptor, matrix.kind, matrix.k_major
    twice = _twice(descriptor, matrix.places.shape[1:], k_major, matrix.item)
    if twice is not None:
        hazard = "another layout" if descriptor.stride and descriptor.leading else "operand read twice"
        report(hazard, partial(_read_twice, matrix, twice), origin)
    found: list[Found] = []
    for chunks in matrix.places:
        tags = provenance.tag[chunks]
        provenance.owner[chunks] = BY_MMA
        first = int(tags[0, 0])
        if not first or twice is not None:
            continue
        outside = _outside(provenance, first) if provenance.beyond[chunks[0, 0]] else ""
        if outside:
            report("fill multiplied", f"{name} lies outside its tensor: {outside}", origin)
        tags -= first
        key = (first >> NUMBER, descriptor.swizzle, kind, k_major, tags.tobytes())
        if key not in provenance.good:
            source = provenance.tags_by(first)
            assert source is not None
            tensor_map = source.bound.map
            if kind not in _READ_AS.get(tensor_map.dtype, {kind}):
                report(
                    "another type",
                    f"{name} is read as .{kind}, but comes from {tensor_map.name}, whose elements are"
                    f" .{tensor_map.dtype}. The type in the instruction descriptor, or the map's, is wrong.",
                    origin,
                )
            of_one_tensor = not abs(tags).max() >> NUMBER
            wrong = _shuffled(tags, source, descriptor.swizzle, k_major=k_major) if of_one_tensor else None
            if wrong is None and k_major:
                wrong = _in_pieces(tags + first, provenance)
            if wrong is not None:
                problem = partial(_another_layout, source, matrix, tags + first, wrong)
                report("another layout", problem, origin)
                continue
            provenance.good[key] = Steps.of(source, tags, first, matrix.item, k_major=k_major)
        found.append((first, provenance.good[key]))
    return found


def good_operands(
    provenance: Provenance, matrix: MultipliedMatrix, places: NDArray[np.int64]
) -> list[Found] | None:
    """The findings of `check_operand` in equal matrices of several CTAs; None if it may have to report.

    `places` has the chunks of all of them, shape (CTAs, rows, chunks); `matrix` is the first. The caller
    marks the chunks as read.
    """
    k_major = matrix.k_major
    if _twice(matrix.descriptor, places.shape[1:], k_major, matrix.item) is not None:
        return None
    tags = provenance.tag[places]
    starts = tags[:, :1, :1].copy()
    firsts: list[int] = starts[:, 0, 0].tolist()
    first = firsts[0]
    if not first:
        return None if any(firsts) else []
    tags -= starts
    relative = tags[0].tobytes()
    number = first >> NUMBER
    key = (number, matrix.descriptor.swizzle, matrix.kind, k_major, relative)
    if key not in provenance.good or tags.tobytes() != relative * len(firsts):
        return None
    if any(tag >> NUMBER != number for tag in firsts):
        return None
    if provenance.any_beyond and any_true(provenance.beyond[places[:, 0, 0]]):
        return None
    steps = provenance.good[key]
    return [(tag, steps) for tag in firsts]


def _outside(provenance: Provenance, tag: int) -> str:
    """Say where a chunk lies past its tensor's end; an empty text if it does not."""
    source = provenance.tags_by(tag)
    assert source is not None
    tensor_map = source.bound.map
    coords = source.coords(tag)
    for axis, (at, extent) in enumerate(zip(coords, tensor_map.dims, strict=True)):
        if at >= extent:
            return (
                f"it begins at {coords} of {tensor_map.name}, which has {extent} elements along dimension"
                f" {axis}. Is it the right tile?"
            )
    return ""


def _shuffled(
    tags: NDArray[np.int64], source: Tags, swizzle: str, *, k_major: bool
) -> tuple[int, int] | None:
    """A place that shows that one tensor's chunks are shuffled; `tags` are relative to the first one."""
    wrong = tags != tags[:, :1] + tags[:1, :]
    if not wrong.any():
        mode = source.bound.map.swizzle
        rows = tags[: len(tags) // _ATOM * _ATOM, 0].reshape(-1, _ATOM)
        along = source.steps(rows, 0)
        steps = along - along[:, :1]
        wrong = (steps != (steps[:1] if mode == "none" else 0)).reshape(-1, 1)
        if swizzle in _OF_MAPS and swizzle != mode and not wrong.any():
            steps = np.diff(rows)
            wrong[1:] = (steps != steps[:, :1]).any(axis=1).repeat(_ATOM)[1:, None]
    if not wrong.any():
        # Along M or N, k stays the same or moves by whole boxes.
        along, across = (tags[0], tags[:, 0]) if k_major else (tags[:, 0], tags[0])
        other = np.zeros(len(across), dtype=np.bool_)
        for axis in source.moving(along):
            other |= source.steps(across, axis) % source.box(axis) != 0
        wrong = other[:, None] if k_major else other[None, :]
    if not wrong.any():
        return None
    row, chunk = np.argwhere(wrong)[0].tolist()
    return row, chunk


def _in_pieces(tags: NDArray[np.int64], provenance: Provenance) -> tuple[int, int] | None:
    """A place at which a matrix of several tensors or k skips rows, so that no 8 rows follow 8 others."""
    firsts = tags[: len(tags) // _ATOM * _ATOM : _ATOM, 0].tolist()
    skipped: set[int] = set()
    pieces = set()
    for place, tag in enumerate(firsts):
        source = provenance.tags_by(tag)
        if source is None:
            pieces.add((0, 0))
            continue
        piece = (source.number, source.coord(tag, 0))
        pieces.add(piece)
        before = firsts[place - 1] if place else 0
        if before >> NUMBER != tag >> NUMBER or source.coord(before, 0) != piece[1]:
            continue
        if source.neighbours(before, tag, _ATOM):
            return None
        skipped.add(tag - before)
    if len(pieces) > 1 and len(skipped) == 1 and len(firsts) >= _MANY and skipped != {0}:
        return _ATOM, 0
    return None


_Twice = tuple[tuple[int, int], tuple[int, int], int]


@lru_cache(maxsize=1024)
def _twice(descriptor: MatrixDescriptor, shape: tuple[int, ...], k_major: bool, item: int) -> _Twice | None:
    """Two places (row, chunk) of a matrix with the same chunk, and the count of repeats; None without any."""
    rows, chunks = shape
    flat = chunk_offsets(descriptor, chunks, rows, k_major=k_major, item=item).reshape(-1)
    _, index, inverse = np.unique(flat, return_index=True, return_inverse=True)
    if len(index) == len(flat):
        return None
    again = int(np.flatnonzero(index[inverse] != np.arange(len(flat)))[0])
    before = int(index[inverse[again]])
    return divmod(before, chunks), divmod(again, chunks), len(flat) - len(index)


# --- in words -----------------------------------------------------------------------------------------------


def _layout(descriptor: MatrixDescriptor) -> str:
    return (
        f"swizzle {descriptor.swizzle}, leading dimension {descriptor.leading} and stride dimension"
        f" {descriptor.stride} bytes"
    )


def _element(matrix: MultipliedMatrix, place: tuple[int, int]) -> str:
    """A chunk of a matrix by its first element: A[m, k] or B[n, k]."""
    row, chunk = place
    unit = CHUNK // matrix.item
    along, k = (row, chunk * unit) if matrix.k_major else (chunk * unit, row)
    return f"{matrix.name}[{along}, {k}]"


def _read_twice(matrix: MultipliedMatrix, twice: _Twice) -> str:
    before, again, count = twice
    return (
        f"{matrix.name} has the same 16 bytes at {_element(matrix, before)} and at {_element(matrix, again)},"
        f" and the same happens {count} times. Its descriptor 0x{matrix.bits:016x} has"
        f" {_layout(matrix.descriptor)}"
    )


def _another_layout(
    source: Tags, matrix: MultipliedMatrix, tags: NDArray[np.int64], wrong: tuple[int, int]
) -> str:
    row, chunk = wrong
    seen = [
        f"{_element(matrix, place)} is {source.coords(int(tags[place]))}"
        for place in dict.fromkeys(((0, 0), (1, 0), (0, chunk), (row, 0), (row, chunk)))
    ]
    tensor_map = source.bound.map
    return (
        f"{matrix.name} is a shuffled tile of {tensor_map.name}. By its descriptor 0x{matrix.bits:016x}"
        f" ({_layout(matrix.descriptor)}), {', '.join(seen[:-1])}, and {seen[-1]}. The tensor map has"
        f" swizzle {tensor_map.swizzle} and rows of {tensor_map.pitch_bytes} bytes"
    )
