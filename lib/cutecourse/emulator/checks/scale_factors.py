"""Check that scale factors belong to the matrix that a tcgen05.mma multiplies by them.

The bytes of scale factors are followed from global memory to shared memory, if a bulk copy without a swizzle
brings them, and by tcgen05.cp to tensor memory. The coordinates of A and B are known from their tensor maps.
So each MMA shows which place in global memory scales which rows and k of which tensor. Of each 128 rows the
first one is looked at. These faults are reported:

-   The scale factors come from outside their tensor, but the matrix does not. (TMA fills them with zeros.)
-   One place scales different rows, or rows of two tensors. Several k of the same rows may share a place: a
    kernel may have one factor for 128 elements where the instruction takes one for 32.
-   The same rows and k are scaled from two places.

Scale factors that threads have written are not followed, because threads may have computed them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.provenance import Provenance, chunks_inside
from cutecourse.emulator.checks.tags import Steps, Tags
from cutecourse.emulator.checks.tensor_memory_copies import copies_to_tensor_memory
from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.memory.matrix_descriptor import MultipliedMatrix
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.tensor_memory import COLUMNS, TensorMemory

if TYPE_CHECKING:
    from cutecourse.emulator.core.memory import Allocation
    from cutecourse.emulator.instructions.bulk.pieces import Chunks
    from cutecourse.emulator.instructions.bulk.request import Copy
    from cutecourse.emulator.memory.access import Access

__all__ = ["ScaleFactors", "follow_scale_factors"]

_HAZARD = "another scale"
_OUTSIDE = -1
_WORDS = CHUNK // 4
_COLUMNS_OF_A_BLOCK, _ROWS_OF_A_BLOCK = 4, 128


class _Scaled(NamedTuple):
    """The first of some rows of a matrix, by its chunk's tag, and the line that scaled it."""

    rows: int
    """The address of the rows, at k = 0."""
    tag: int
    source: Tags
    line: int

    @property
    def in_words(self) -> str:
        """The rows by their coordinates."""
        return f"{self.source.coords(self.tag)} of {self.source.bound.map.name}"


def follow_scale_factors(cohort: Cohort) -> ScaleFactors | None:
    """Make the observer of a cohort's scale factors; None without tcgen05.cp, or if nobody wants a report."""
    machine = cohort.machine
    if not machine.program.own(copies_to_tensor_memory) or machine.severities.is_off(_HAZARD):
        return None
    return cohort.own(ScaleFactors)


class ScaleFactors(Observer):
    """The places in global memory of the bytes in a cohort's shared memories, and in its tensor memories."""

    def __init__(self, cohort: Cohort) -> None:
        self._in_shared: NDArray[np.int64] = np.zeros(cohort.shared.size // CHUNK, dtype=np.int64)
        """The address that each chunk was copied from; 0 if unknown, `_OUTSIDE` for a tensor's fill."""
        self._in_tensor: defaultdict[TensorMemory, NDArray[np.int64]] = defaultdict(
            lambda: np.zeros(COLUMNS, dtype=np.int64)
        )
        """The same of the word in lane 0 of each column."""
        self._arrays: dict[int, Allocation] = {}
        self._of_place: dict[int, _Scaled] = {}
        """The rows that each byte of global memory has scaled first."""
        self._of_matrix: dict[tuple[int, int], int] = {}
        """The byte that has scaled some rows and k first."""

    # --- where they come from -------------------------------------------------------------------------------

    def bulk_writes(self, copy: Copy, parts: Sequence[Chunks], pieces: int) -> None:
        """Note the addresses of a box without a swizzle, and of contiguous bytes of global memory."""
        assert copy.to is not None
        chunks: Chunks = slice(0, copy.n_bytes // CHUNK)
        addresses: NDArray[np.int64] | int = 0
        if copy.box is not None:
            bound = copy.box.bound
            chunks = bound.chunks(copy.to.place.offset)
            if bound.map.swizzle == "none" and copy.operation != "reduce":
                strides = bound.map.item_bytes, *bound.map.strides
                first = sum(at * stride for at, stride in zip(copy.box.coords, strides, strict=True))
                addresses = bound.allocation.base + bound.base + first + bound.sources * CHUNK
                inside = chunks_inside(bound, copy.box.inside)
                if inside is not None:
                    addresses = np.where(inside, addresses, _OUTSIDE)
                self._arrays[bound.allocation.base] = bound.allocation
        elif isinstance(copy.source, tuple) and copy.operation != "reduce":
            array, first = copy.source
            addresses = array.base + first + CHUNK * np.arange(copy.n_bytes // CHUNK)
            self._arrays[array.base] = array
        for start in copy.to.firsts:
            at = slice(start, start + chunks.stop) if isinstance(chunks, slice) else chunks + start
            self._in_shared[at] = addresses

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
        """Forget the addresses of chunks that threads write."""
        if access.writes:
            self._in_shared[index.reshape(-1) * access.size // CHUNK] = 0

    def tensor_copied(self, memory: TensorMemory, region: Region, chunks: NDArray[np.int64]) -> None:
        """Note the addresses of what a tcgen05.cp brings to lane 0."""
        if region.lanes[0]:
            first = self._in_shared[chunks[0]].repeat(_WORDS)
            words = np.where(first > 0, first + 4 * (np.arange(first.size) % _WORDS), first)
            self._in_tensor[memory][region.first : region.stop] = words

    def tensor_stored(self, memory: TensorMemory, region: Region) -> None:
        """Forget the addresses of columns that are written."""
        self._in_tensor[memory][region.first : region.stop] = 0

    def tensor_summed(
        self, memory: TensorMemory, region: Region, origin: Origin, kind: str, *, adds: bool
    ) -> None:
        """Forget the addresses of columns that an accumulator takes."""
        self.tensor_stored(memory, region)

    # --- what they scale ------------------------------------------------------------------------------------

    def check(
        self,
        origin: Origin,
        memory: TensorMemory,
        region: Region,
        byte: int,
        matrix: MultipliedMatrix,
        chunks: NDArray[np.int64],
        steps: Steps,
        provenance: Provenance,
    ) -> None:
        """Compare the scale factors of a matrix's rows with what has been scaled before.

        region  where the factors are, 128 rows in 4 columns, and `byte` the first block's place in a word.
        chunks  all rows of the matrix that they scale; numbers of chunks in the cohort, as in the matrix.
        """
        places = self._in_tensor[memory][region.first : region.stop : _COLUMNS_OF_A_BLOCK].tolist()
        for block, place in enumerate(places):
            row = _ROWS_OF_A_BLOCK * block
            chunk = chunks[row, 0] if matrix.k_major else chunks[0, row * matrix.item // CHUNK]
            tag = int(provenance.tag[chunk])
            source = provenance.tags_by(tag)
            if not place or source is not steps.source or not source.is_inside(tag):
                continue
            scaled = _Scaled(source.address(steps.others(tag)), tag, source, origin.site.line)
            if place == _OUTSIDE:
                report(_HAZARD, partial(_outside, matrix.name, scaled), origin)
                continue
            place += byte
            before = self._of_place.setdefault(place, scaled)
            if before.rows != scaled.rows:
                problem = partial(_other_rows, matrix.name, self._in_words(place), scaled, before)
                report(_HAZARD, problem, origin, before.line)
                continue
            first = self._of_matrix.setdefault((scaled.rows, steps.k(tag)), place)
            if first != place:
                problem = partial(
                    _other_place, matrix.name, scaled, self._in_words(place), self._in_words(first)
                )
                report(_HAZARD, problem, origin, self._of_place[first].line)

    def _in_words(self, place: int) -> str:
        """A byte of global memory by its array."""
        base = max(base for base in self._arrays if base <= place)
        return f"byte {place - base} of {self._arrays[base].name}"


def _outside(name: str, scaled: _Scaled) -> str:
    return (
        f"the scale factors of {name} come from outside their tensor, where TMA fills in zeros, but"
        f" {name} begins at {scaled.in_words}, inside. Does their copy use another block's coordinates?"
    )


def _other_rows(name: str, place: str, scaled: _Scaled, before: _Scaled) -> str:
    return (
        f"{name} is scaled by {place} at {scaled.in_words}, but the same scale factor belongs to"
        f" {before.in_words} (line {before.line}). Do the copy, the columns and the data ID lead to the scale"
        f" factors of {name}'s own rows?"
    )


def _other_place(name: str, scaled: _Scaled, place: str, first: str) -> str:
    return (
        f"{name} is scaled by {place} at {scaled.in_words}, which was scaled by {first} before. Do the"
        " copy, the columns and the data ID lead to the scale factors of this k?"
    )
