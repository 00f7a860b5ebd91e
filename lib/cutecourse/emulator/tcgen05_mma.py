"""tcgen05.mma: one thread has a CTA, or a pair, multiply matrices into tensor memory.

Descriptors are read in cutecourse.emulator.matrix_descriptor. Where rows and columns of D lie, by CTAs, M:

    1  128   row r in lane r
    1   64   row r in lane 32 (r / 16) + r % 16, counted from lane 0 or 16
    2  256   rows 128 v on in CTA v of the pair, one a lane
    2  128   rows 64 v on in CTA v: columns below N / 2 in lanes 0 to 63, the others in lanes 64 to 127

Each CTA of a pair holds M / 2 rows of A and N / 2 columns of B in its own shared memory, at the places that
the descriptors name in both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.bundle import CHUNK, WARP_SIZE, Bundle, Mask
from cutecourse.emulator.errors import (
    AddressError,
    InvalidOperand,
    TensorMemoryLanesError,
)
from cutecourse.emulator.event_memory import chunks_touched, region_touches
from cutecourse.emulator.hazards import report
from cutecourse.emulator.matrix_descriptor import (
    FieldError,
    chunk_offsets,
    decode_instruction,
    decode_matrix,
)
from cutecourse.emulator.mbarrier_state import Origin
from cutecourse.emulator.operand_checks import check_operand
from cutecourse.emulator.provenance import follow
from cutecourse.emulator.registry import Step, instruction
from cutecourse.emulator.site import Site
from cutecourse.emulator.tcgen05_alloc import check_peer, take_cta_group
from cutecourse.emulator.tcgen05_queue import Operation, Queue, check_source
from cutecourse.emulator.tensor_memory import (
    LANES,
    Moving,
    Region,
    TensorMemories,
    TensorMemory,
    split_address,
)
from cutecourse.ptx.syntax import Address, Vector

__all__ = ["Magnitudes", "accumulate", "read_f16", "sums_are_exact"]

_KINDS = ("kind::f16", "kind::tf32")
_OTHER_KINDS = ("kind::f8f6f4", "kind::i8", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")
_COLLECTORS = tuple(f"collector::a::{use}" for use in ("fill", "use", "lastuse", "discard"))
_KEEPING = _COLLECTORS[:2]
_MOST_SCALE = 15
_AFTER_COMMIT = "wait for the mbarrier of a tcgen05.commit behind it"
_NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}
_EXPONENTS = {"f16": (10, 15), "bf16": (7, 127), "tf32": (23, 127)}
"""Where the exponent starts in an element's bits, and its bias."""
_TF32_FRACTION = 10
_ONE_THREAD = 1 << 18
"""Matrix products of so few multiplications are no work for which BLAS asks a second thread."""


# --- numbers ------------------------------------------------------------------------------------------------


def read_f16(bits: NDArray[Any], kind: str) -> NDArray[np.float64]:
    """Elements as numbers: f16 and bf16 from 16 bits, tf32 from 32, whose low 13 bits do not count."""
    if kind == "f16":
        return bits.view(np.float16).astype(np.float64)
    if kind == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """Of some numbers the largest magnitude (not finite if one is not), and a power of two that divides all.

    >>> Magnitudes.of(np.array([[1.5, 0.0], [-3.0, 1.0]], dtype=np.float16).view(np.uint16), "f16")
    Magnitudes(largest=3.0, unit=0.0009765625)
    """

    largest: float
    unit: float

    @classmethod
    def of(cls, bits: NDArray[Any], kind: str) -> Magnitudes:
        """Of elements as `read_f16` takes them, by the exponent of the smallest that is not zero."""
        fraction, bias = _EXPONENTS[kind]
        magnitude = bits & bits.dtype.type((1 << (8 * bits.itemsize - 1)) - 1)
        largest = magnitude.max()
        if not largest:
            return cls(0.0, 1.0)
        # Zero, less one, is the largest of all; a subnormal number has the smallest normal one's unit.
        smallest = int((magnitude - bits.dtype.type(1)).min()) + 1
        exponent = max(smallest >> fraction, 1) - bias - (_TF32_FRACTION if kind == "tf32" else fraction)
        return cls(float(read_f16(largest.reshape(1), kind)[0]), math.ldexp(1.0, exponent))


@dataclass(frozen=True, slots=True, eq=False)
class _Factor:
    """A matrix, or a part of one, as numbers: `values` has the shape (rows of M or N, K)."""

    values: NDArray[np.float64]
    range: Magnitudes


def sums_are_exact(
    a: NDArray[np.float64], b: NDArray[np.float64], of_a: Magnitudes, of_b: Magnitudes
) -> bool:
    """Whether a double has every sum of some products of a row of A and a row of B.

    The products are multiples of the product of both units, so a sum below 2^53 of those is exact. It is no
    larger than the largest product times the number of terms, nor than the rows' lengths multiplied.
    """
    limit = of_a.unit * of_b.unit * 2.0**53
    if a.shape[1] * of_a.largest * of_b.largest <= limit:
        return True
    # The lengths are rounded themselves, by far less than is added here.
    return _longest(a) * _longest(b) * (1 + 2.0**-20) <= limit


def _longest(rows: NDArray[np.float64]) -> float:
    """The length of the longest row."""
    with np.errstate(all="ignore"):
        return math.sqrt(float(np.einsum("ik,ik->i", rows, rows).max()))


def accumulate(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    c: NDArray[Any] | None,
    kind: str,
    *,
    exact: bool = False,
    out: NDArray[np.uint32] | None = None,
) -> NDArray[np.uint32]:
    """A * B^T + C in one instruction, as bits of f32 or f16.

    Products are exact; they and C are added in double precision, C last, and rounded once, to nearest even.
    `mma_arithmetic.rounded_once_bound` says how far that may be from the published models of the hardware.
    `exact` tells that no sum of products needs rounding (`sums_are_exact`), so that their order makes no
    difference; the result is the same and comes faster. `out` takes the result where it is given.

    Shapes: a (M, K), b (N, K), c, out and the result (M, N); b is best a transposed (K, N).

    >>> one = np.ones((2, 4))
    >>> accumulate(one, one, None, "f32").view(np.float32).tolist()
    [[4.0, 4.0], [4.0, 4.0]]
    """
    with np.errstate(all="ignore"):
        total = _in_any_order(a, b) if exact else _in_one_order(a, b)
        if c is not None:
            np.add(total, c, out=total)
        bits = np.empty(total.shape, dtype=np.uint32) if out is None else out
        if kind == "f16":
            bits[...] = total.astype(np.float16).view(np.uint16)
        else:
            bits.view(np.float32)[...] = total
    if total.size and math.isnan(total.max()):
        bits[np.isnan(total)] = _NAN[kind]
    return bits


def _in_one_order(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """A * B^T, rounded alike whatever the machine and whoever else computes, which BLAS does not promise."""
    found: NDArray[np.float64] = np.einsum("ik,kj->ij", np.ascontiguousarray(a), np.ascontiguousarray(b.T))
    return found


def _in_any_order(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """A * B^T by BLAS, in parts: its threads would wait for each other longer than one takes for all."""
    rows, terms = a.shape
    total = np.empty((rows, len(b)))
    step = max(1, _ONE_THREAD // (rows * terms))
    for first in range(0, len(b), step):
        np.matmul(a, b[first : first + step].T, out=total[:, first : first + step])
    return total


def _numbers(bits: NDArray[np.uint32], kind: str) -> NDArray[Any]:
    """D's elements as numbers, of a type that has them all."""
    if kind == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    return bits.view(np.float32)


# --- placement ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """A part of D in one CTA: its rows' lanes, and which columns of the whole it is."""

    lanes: NDArray[np.int64]
    first: int
    stop: int
    rows: NDArray[np.int64] | slice
    """The lanes once more; a slice where they are neighbours, which NumPy copies nothing for."""

    @classmethod
    def of(cls, lanes: NDArray[np.int64], first: int, stop: int) -> _Part:
        """The part with these lanes and columns."""
        lanes.flags.writeable = False
        neighbours = lanes[-1] - lanes[0] == len(lanes) - 1
        return cls(lanes, first, stop, slice(int(lanes[0]), int(lanes[-1]) + 1) if neighbours else lanes)

    def region(self, column: int, columns: int) -> Region:
        """The part's lanes in columns of tensor memory."""
        mask = np.zeros(LANES, dtype=np.bool_)
        mask[self.lanes] = True
        return Region(mask, column, column + columns)


@lru_cache(maxsize=256)
def _parts(m: int, n: int, group: int, lane: int) -> tuple[_Part, ...]:
    """The parts of D in each CTA that takes part; rows are the CTA's own."""
    rows = m // group
    row = np.arange(rows, dtype=np.int64)
    if group == 2 and rows == 64:
        return (_Part.of(row, 0, n // 2), _Part.of(row + 64, n // 2, n))
    if rows == 64:
        return (_Part.of(lane + 32 * (row // 16) + row % 16, 0, n),)
    return (_Part.of(row, 0, n),)


@lru_cache(maxsize=1024)
def _region(part: _Part, column: int, columns: int) -> Region:
    return part.region(column, columns)


@dataclass(frozen=True, eq=False, slots=True)
class _Matrix:
    """A CTA's part of a matrix in shared memory."""

    chunks: NDArray[np.int64]
    """The numbers of its chunks, by row of M or N where it is K-major, else by row of K."""
    stop: int
    """The byte behind the last."""


@lru_cache(maxsize=1024)
def _matrix(bits: int, chunks: int, rows: int, item: int, *, k_major: bool) -> _Matrix:
    """What a descriptor's bits stand for; arguments and errors as for `chunk_offsets`."""
    found = chunk_offsets(decode_matrix(bits), chunks, rows, k_major=k_major, item=item)
    return _Matrix(found // CHUNK, int(found.max()) + CHUNK)


# --- the instruction ----------------------------------------------------------------------------------------


class _Operands:
    """The operands of one tcgen05.mma: [d], a or [a], b, idesc {, mask}, enable {, scale}."""

    def __init__(self, site: Site, group: int) -> None:
        self.site = site
        operands = site.operands
        self.d = site.address(0)
        self.a_in_tmem = len(operands) > 1 and isinstance(operands[1], Address)
        self.a_address = site.address(1) if self.a_in_tmem else None
        self.a = None if self.a_in_tmem else site.source(1, "u64")
        self.b = site.source(2, "u64")
        self.shape = site.source(3, "u32")
        at = 4
        self.mask: list[int] = []
        if at < len(operands) and isinstance(operands[at], Vector):
            self.mask = site.sources(at, "u32")
            if len(self.mask) != 4 * group:
                site.invalid(f"disable-output-lane has {4 * group} registers here, not {len(self.mask)}")
            at += 1
        self.enable = site.source(at, "pred")
        self.scale = 0
        if len(operands) > at + 1:
            scale = site.constant(at + 1)
            if scale is None or not 0 <= scale <= _MOST_SCALE:
                site.invalid(f"scale-input-d is a constant from 0 to {_MOST_SCALE}")
            self.scale = scale
        if len(operands) > at + 2:
            site.invalid(f"{site.instruction.name} takes {at + 2} operands at most, not {len(operands)}")


@instruction("tcgen05.mma")
def mma(site: Site) -> Step:
    """Multiply matrices into tensor memory, beside the thread that asks: D = A * B + D, or D = A * B.

    Shapes:     once for each active lane: elect one. D is m x n, of the CTA or the pair, as the instruction
                descriptor says; A is m x k in shared memory or, two 16-bit elements in a column, in tensor
                memory in the lanes of D's rows; B is k x n in shared memory. Lanes of D whose bit is set in
                disable-output-lane are not written.
    Units:      addresses in lanes and columns; descriptors in bits; scale-input-d is an exponent.
    Errors:     InvalidOperand for a descriptor's field, by its name; TensorMemoryLanesError,
                TensorMemoryHazard, UninitializedRead, MissingProxyFence, OverwrittenSource, AddressError (a
                matrix behind the end of shared memory, no peer).
    Simplified: reads its operands and writes D when it completes, at a time that the seed chooses, behind
                earlier operations on the same cells of tensor memory. Products are exact, their sum and D are
                added in double precision and rounded once to nearest even, where the hardware cuts off
                aligned terms (cutecourse.emulator.mma_arithmetic): the last bits can differ. The collector
                buffer is accounted for, and A read again all the same. .kind::f16 and .kind::tf32 only,
                without .ws, .sp, .ashift and .block_scale.
    Source:     PTX ISA 9.0, tcgen05.mma (#tcgen05-mma-instructions-mma); Data Path Layout Organization;
                the two halves of a pair's 128 rows: the figure of layout B.
    """
    group = take_cta_group(site)
    other = site.one_of(*_OTHER_KINDS)
    if other is not None:
        site.unsupported(f".{other} is not supported yet, only .kind::f16 and .kind::tf32")
    kind = site.expect(*_KINDS).removeprefix("kind::")
    for extra in ("ws", "sp", "ashift", "block_scale"):
        if site.has(extra):
            site.unsupported(f".{extra} is not supported yet")
    collector = site.one_of(*_COLLECTORS, default=_COLLECTORS[-1]) or _COLLECTORS[-1]
    operands = _Operands(site, group)
    follow(site.machine, stores=True)

    def step(bundle: Bundle, mask: Mask) -> None:
        for lane in bundle.lanes(mask).tolist():
            _Mma(Origin(site, bundle, lane), operands, kind, group).issue(collector)

    return step


class _Mma:
    """One tcgen05.mma that a thread has issued."""

    def __init__(self, origin: Origin, operands: _Operands, kind: str, group: int) -> None:
        self.origin = origin
        self.group = group
        bundle, lane = origin.bundle, origin.lane
        rows32, rows64 = bundle.rows["u32"], bundle.rows["u64"]

        def value(rows: list[NDArray[Any]], slot: int) -> int:
            return int(rows[slot].reshape(-1)[lane])

        check_peer(origin, group)
        self.b_bits = value(rows64, operands.b)
        self.a_bits = None if operands.a is None else value(rows64, operands.a)
        self.enable = bool(bundle.rows["pred"][operands.enable].reshape(-1)[lane])
        self.scale = operands.scale
        self.disabled = [value(rows32, slot) for slot in operands.mask]
        self.d_address = int(operands.d.lanes(bundle).reshape(-1)[lane]) & 0xFFFFFFFF
        self.a_address = 0
        if operands.a_address is not None:
            self.a_address = int(operands.a_address.lanes(bundle).reshape(-1)[lane]) & 0xFFFFFFFF
        self.cluster = lane // WARP_SIZE
        first = bundle.rank if group == 1 else bundle.rank & ~1
        self.ranks = range(first, first + group)
        try:
            self.idesc = value(rows32, operands.shape)
            self.shape = decode_instruction(self.idesc, kind, group)
            self._decode_operands()
        except FieldError as wrong:
            raise origin.error(InvalidOperand, str(wrong)) from None
        self.issued: int | None = None
        self.moving: list[tuple[TensorMemory, Moving]] = []

    def _decode_operands(self) -> None:
        shape = self.shape
        self.item = 4 if shape.a == "tf32" else 2
        cohort = self.origin.bundle.cohort
        starts = [cohort.shared_start(self.cluster, rank) // CHUNK for rank in self.ranks]
        b = self._matrix("b-desc", self.b_bits, shape.n, k_major=shape.b_k_major)
        self.b = [b.chunks + start for start in starts]
        self.a: list[NDArray[np.int64]] = []
        if self.a_bits is not None:
            a = self._matrix("a-desc", self.a_bits, shape.m, k_major=shape.a_k_major)
            self.a = [a.chunks + start for start in starts]
        elif not shape.a_k_major:
            raise FieldError("transpose A (bit 15)", "set, and A in tensor memory is K-major")

    def _matrix(self, name: str, bits: int, extent: int, *, k_major: bool) -> _Matrix:
        """A CTA's part of a matrix; each CTA has its part of `extent`."""
        own, per_chunk = extent // self.group, CHUNK // self.item
        chunks, rows = (self.shape.k // per_chunk, own) if k_major else (own // per_chunk, self.shape.k)
        try:
            found = _matrix(bits, chunks, rows, self.item, k_major=k_major)
        except FieldError as wrong:
            raise FieldError(f"{name}: {wrong.field}", str(wrong).removeprefix(f"{wrong.field}: ")) from None
        limit = self.origin.bundle.program.shared_bytes
        if found.stop > limit:
            raise self.origin.error(
                AddressError,
                f"{name} 0x{bits:016x} reaches to byte {found.stop} of shared memory, and the CTA has"
                f" {limit}",
            )
        return found

    # --- issue ----------------------------------------------------------------------------------------------

    def issue(self, collector: str) -> None:
        """Check, and let it complete later."""
        origin, shape = self.origin, self.shape
        self._collect(collector)
        lane, column = split_address(self.d_address)
        allowed = (0, 16) if shape.m // self.group == 64 and self.group == 1 else (0,)
        if lane not in allowed:
            raise origin.error(
                TensorMemoryLanesError,
                f"D at 0x{self.d_address:x} starts in lane {lane}: with M = {shape.m} and .cta_group::"
                f"{self.group} it starts in lane {' or '.join(map(str, allowed))}",
            )
        self.parts = _parts(shape.m, shape.n, self.group, lane)
        self.column = column
        wait = _AFTER_COMMIT
        for rank in self.ranks:
            memory = self._memory(rank)
            for part in self.parts:
                region = _region(part, column, part.stop - part.first)
                memory.check_allocated(region, "D", origin)
                memory.check_quiet(region, "D", origin, writes=True, after=("mma", "cp"))
                self._begin(memory, Moving(origin, region, writes=True, remedy=wait, pipeline="mma"))
                if self.a_bits is None:
                    region = self._a_region(part)
                    memory.check_allocated(region, "A", origin)
                    memory.check_quiet(region, "A", origin, writes=False, after=("mma", "cp"))
                    self._begin(memory, Moving(origin, region, writes=False, remedy=wait, pipeline="mma"))
        self._check_shared(issued=False)
        if self.a_bits is not None:
            check_operand(origin, "A", self.a_bits, self.a, self.item, k_major=shape.a_k_major)
        check_operand(origin, "B", self.b_bits, self.b, self.item, k_major=shape.b_k_major)
        machine = origin.bundle.machine
        if machine.recorder is not None:
            self.issued = machine.emit(
                "mma.issue",
                origin.bundle,
                origin.lane,
                origin.site.line,
                group=self.group,
                m=shape.m,
                n=shape.n,
                k=shape.k,
                types=f"{shape.d}.{shape.a}.{shape.b}",
                a=self.a_address if self.a_bits is None else self.a_bits,
                b=self.b_bits,
                d=self.d_address,
                idesc=self.idesc,
                accumulate=self.enable,
                touches=self._touches(),
            )
        Queue.of(origin).add(Operation(origin, self.complete, self.issued, touches=self.moving))

    def _touches(self) -> list[dict[str, Any]]:
        """What it reads and writes, for its event."""
        cohort = self.origin.bundle.cohort
        found = []
        for position, rank in enumerate(self.ranks):
            d = [_region(part, self.column, part.stop - part.first) for part in self.parts]
            found += region_touches(rank, d, writes=True)
            if self.a_bits is None:
                a = [self._a_region(part) for part in self.parts]
                found += region_touches(rank, a, writes=False)
            for matrix in (self.a, self.b):
                if matrix:
                    found.append(chunks_touched(cohort, self.cluster, rank, matrix[position]))
        return found

    def _collect(self, collector: str) -> None:
        """Keep account of A in the collector buffer.

        Errors: InvalidOperand for the use of an A that is not in it.
        """
        buffers: dict[tuple[int, int], tuple[Any, ...] | None]
        buffers = self.origin.bundle.cohort.state.setdefault("tcgen05 collectors", {})
        key = (self.cluster, self.ranks[0])
        a = (self.a_bits, self.a_address, self.shape.m, self.shape.a, self.shape.a_k_major)
        if collector.endswith("use") and buffers.get(key) != a:
            raise self.origin.error(
                InvalidOperand,
                f".{collector}, and the collector buffer does not hold this A: the tcgen05.mma before it has"
                " to have the same A and .collector::a::fill or ::use",
            )
        buffers[key] = a if collector in _KEEPING else None

    def _memory(self, rank: int) -> TensorMemory:
        return TensorMemories.of(self.origin.bundle.cohort)[self.cluster, rank]

    def _begin(self, memory: TensorMemory, moving: Moving) -> None:
        memory.begin(moving)
        self.moving.append((memory, moving))

    def _a_region(self, part: _Part) -> Region:
        lane, column = split_address(self.a_address)
        d_lane, _ = split_address(self.d_address)
        if lane != d_lane:
            raise self.origin.error(
                TensorMemoryLanesError,
                f"A at 0x{self.a_address:x} starts in lane {lane} and D in lane {d_lane}: they have to start"
                " in the same",
            )
        return _region(part, column, self.shape.k * self.item // 4)

    def _check_shared(self, *, issued: bool) -> None:
        for position, rank in enumerate(self.ranks):
            if self.a:
                check_source(self.origin, rank, self.a[position], "A", issued=issued)
            check_source(self.origin, rank, self.b[position], "B", issued=issued)

    # --- completion -----------------------------------------------------------------------------------------

    def complete(self) -> None:
        """Read the operands as they are now, multiply, and write D."""
        for memory, moving in self.moving:
            memory.end(moving)
        self._check_shared(issued=True)
        shape = self.shape
        b = self._shared(self.b, shape.b, k_major=shape.b_k_major, negate=shape.negate_b)
        for position, rank in enumerate(self.ranks):
            memory = self._memory(rank)
            a = None
            if self.a:
                own = self.a[position : position + 1]
                a = self._shared(own, shape.a, k_major=shape.a_k_major, negate=shape.negate_a)
            for part in self.parts:
                self._multiply(memory, part, self._tensor(memory, part) if a is None else a, b, position)
        machine = self.origin.bundle.machine
        if machine.recorder is not None:
            machine.emit_at(
                "mma.complete",
                self.origin.bundle.cohort,
                self.cluster,
                self.origin.bundle.rank,
                self.origin.site.line,
                issue=self.issued,
            )

    def _factor(self, held: NDArray[Any], kind: str, *, k_major: bool, negate: bool) -> _Factor:
        values = read_f16(held, kind)
        if negate:
            np.negative(values, out=values)
        return _Factor(values if k_major else values.T, Magnitudes.of(held, kind))

    def _shared(self, places: list[NDArray[np.int64]], kind: str, *, k_major: bool, negate: bool) -> _Factor:
        """The CTAs' parts of a matrix in shared memory, one behind the other along M or N."""
        held, _ = self.origin.bundle.cohort.shared_chunks
        chunks = places[0] if len(places) == 1 else np.concatenate(places, axis=0 if k_major else 1)
        elements = held[chunks].view(f"u{self.item}")
        if k_major and places is self.b:
            # As A * B^T wants it; of elements it is less work than of the numbers made from them.
            elements, k_major = np.ascontiguousarray(elements.T), False
        return self._factor(elements, kind, k_major=k_major, negate=negate)

    def _tensor(self, memory: TensorMemory, part: _Part) -> _Factor:
        """A CTA's rows of A in tensor memory."""
        region = self._a_region(part)
        columns = slice(region.first, region.stop)
        self._check_written(memory, part.lanes, part.rows, columns, "A")
        held = np.ascontiguousarray(memory.cells[part.rows, columns]).view(f"u{self.item}")
        return self._factor(held, self.shape.a, k_major=True, negate=self.shape.negate_a)

    def _check_written(
        self,
        memory: TensorMemory,
        lanes: NDArray[np.int64],
        rows: NDArray[np.int64] | slice,
        columns: slice,
        what: str,
    ) -> None:
        written = memory.written[rows, columns]
        if not written.all():
            row, column = np.argwhere(~written)[0]
            report(
                "never written",
                f"{what} is read from lane {int(lanes[row])}, column {columns.start + int(column)} of tensor"
                " memory, where nobody has written since it was allocated"
                + (": should the first tcgen05.mma have enable-input-d false?" if what == "D" else ""),
                self.origin,
            )

    def _multiply(
        self,
        memory: TensorMemory,
        part: _Part,
        a: _Factor,
        b: _Factor,
        position: int,
    ) -> None:
        rows, lanes, kind = part.rows, part.lanes, self.shape.d
        columns = slice(self.column, self.column + part.stop - part.first)
        left, right = a.values, b.values[part.first : part.stop]
        if self.disabled:
            words = np.array(self.disabled[4 * position : 4 * position + 4], dtype=np.uint32)
            kept = (words[lanes // 32] >> (lanes % 32).astype(np.uint32)) & 1 == 0
            left, rows = left[kept], lanes[kept]
            lanes = rows
        c = None
        region = _region(part, self.column, part.stop - part.first)
        if self.enable:
            if region not in memory.full:
                self._check_written(memory, lanes, rows, columns, "D")
            c = _numbers(memory.cells[rows, columns], kind)
            if self.scale:
                c = c.astype(np.float64) * 2.0**-self.scale
        exact = sums_are_exact(left, right, a.range, b.range) if len(left) else False
        if isinstance(rows, slice):
            accumulate(left, right, c, kind, exact=exact, out=memory.cells[rows, columns])
        else:
            memory.cells[rows, columns] = accumulate(left, right, c, kind, exact=exact)
        if region not in memory.full:
            memory.written[rows, columns] = True
            if not self.disabled:
                memory.full.add(region)
