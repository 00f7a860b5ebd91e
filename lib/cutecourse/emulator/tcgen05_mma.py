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

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.bundle import WARP_SIZE, Bundle, Mask
from cutecourse.emulator.errors import (
    AddressError,
    InvalidOperand,
    TensorMemoryAccessError,
    UninitializedRead,
)
from cutecourse.emulator.matrix_descriptor import (
    CHUNK,
    FieldError,
    InstructionDescriptor,
    chunk_offsets,
    decode_instruction,
    decode_matrix,
)
from cutecourse.emulator.mbarrier_state import Origin
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

__all__ = ["accumulate", "read_f16"]

_KINDS = ("kind::f16", "kind::tf32")
_OTHER_KINDS = ("kind::f8f6f4", "kind::i8", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")
_COLLECTORS = tuple(f"collector::a::{use}" for use in ("fill", "use", "lastuse", "discard"))
_MOST_SCALE = 15
_AFTER_COMMIT = "wait for the mbarrier of a tcgen05.commit behind it"
_NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}


# --- numbers ------------------------------------------------------------------------------------------------


def read_f16(bits: NDArray[Any], kind: str) -> NDArray[np.float64]:
    """Elements as numbers: f16 and bf16 from 16 bits, tf32 from 32, whose low 13 bits do not count."""
    if kind == "f16":
        return bits.view(np.float16).astype(np.float64)
    if kind == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def accumulate(
    a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64] | None, kind: str
) -> NDArray[np.uint32]:
    """A * B^T + C in one instruction, as bits of f32 or f16.

    Products are exact; they and C are added in double precision and rounded once, to nearest even.

    Shapes: a (M, K), b (N, K), c and the result (M, N).

    >>> one = np.ones((2, 4))
    >>> accumulate(one, one, None, "f32").view(np.float32).tolist()
    [[4.0, 4.0], [4.0, 4.0]]
    """
    with np.errstate(all="ignore"):
        # Not `a @ b.T`: what BLAS does with several threads depends on who else computes.
        total = np.einsum("ik,kj->ij", np.ascontiguousarray(a), np.ascontiguousarray(b.T))
        if c is not None:
            total = total + c
        if kind == "f16":
            bits = total.astype(np.float16).view(np.uint16).astype(np.uint32)
        else:
            bits = total.astype(np.float32).view(np.uint32)
    nan = np.isnan(total)
    if nan.any():
        bits[nan] = _NAN[kind]
    return bits


def _numbers(bits: NDArray[np.uint32], kind: str) -> NDArray[np.float64]:
    if kind == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    return bits.view(np.float32).astype(np.float64)


# --- placement ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of D in one CTA: its rows' lanes, and which columns of the whole it is."""

    lanes: NDArray[np.int64]
    first: int
    stop: int


def _parts(shape: InstructionDescriptor, group: int, lane: int) -> list[_Part]:
    """The parts of D in each CTA that takes part; rows are the CTA's own."""
    rows = shape.m // group
    row = np.arange(rows, dtype=np.int64)
    if group == 2 and rows == 64:
        return [_Part(row, 0, shape.n // 2), _Part(row + 64, shape.n // 2, shape.n)]
    if rows == 64:
        return [_Part(lane + 32 * (row // 16) + row % 16, 0, shape.n)]
    return [_Part(row, 0, shape.n)]


def _as_slice(lanes: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Neighbouring lanes as a slice, which NumPy copies nothing for; others as they are."""
    if len(lanes) and lanes[-1] - lanes[0] == len(lanes) - 1:
        return slice(int(lanes[0]), int(lanes[-1]) + 1)
    return lanes


def _lane_mask(lanes: NDArray[np.int64]) -> NDArray[np.bool_]:
    mask = np.zeros(LANES, dtype=np.bool_)
    mask[lanes] = True
    return mask


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
    Errors:     InvalidOperand for a descriptor's field, by its name; TensorMemoryAccessError,
                TensorMemoryHazard, UninitializedRead, MissingProxyFence, OverwrittenSource, AddressError (a
                matrix behind the end of shared memory, no peer).
    Simplified: reads its operands and writes D when it completes, at a time that the seed chooses, behind
                earlier operations on the same cells of tensor memory and every earlier tcgen05.cp. Products
                are exact, their sum and D are added in double precision and rounded once to nearest even,
                where the hardware cuts off aligned terms (cutecourse.emulator.mma_arithmetic): the last bits
                can differ. Collector hints have no effect. .kind::f16 and .kind::tf32 only, without .ws, .sp,
                .ashift and .block_scale.
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
    site.one_of(*_COLLECTORS)
    operands = _Operands(site, group)

    def step(bundle: Bundle, mask: Mask) -> None:
        for lane in bundle.lanes(mask).tolist():
            _Mma(Origin(site, bundle, lane), operands, kind, group).issue()

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
        self.b_chunks = self._chunks("b-desc", self.b_bits, shape.n, k_major=shape.b_k_major)
        self.a_chunks = None
        if self.a_bits is not None:
            self.a_chunks = self._chunks("a-desc", self.a_bits, shape.m, k_major=shape.a_k_major)
        elif not shape.a_k_major:
            raise FieldError("transpose A (bit 15)", "set, and A in tensor memory is K-major")

    def _chunks(self, name: str, bits: int, extent: int, *, k_major: bool) -> NDArray[np.int64]:
        """A matrix's chunks in bytes of a CTA's shared memory; each CTA has its part of `extent`."""
        own, per_chunk = extent // self.group, CHUNK // self.item
        chunks, rows = (self.shape.k // per_chunk, own) if k_major else (own // per_chunk, self.shape.k)
        try:
            found = chunk_offsets(decode_matrix(bits), chunks, rows, k_major=k_major, item=self.item)
        except FieldError as wrong:
            raise FieldError(f"{name}: {wrong.field}", str(wrong).removeprefix(f"{wrong.field}: ")) from None
        limit = self.origin.bundle.program.shared_bytes
        if int(found.max()) + CHUNK > limit:
            raise self.origin.error(
                AddressError,
                f"{name} 0x{bits:016x} reaches to byte {int(found.max()) + CHUNK} of shared memory, and the"
                f" CTA has {limit}",
            )
        return found

    # --- issue ----------------------------------------------------------------------------------------------

    def issue(self) -> None:
        """Check, and let it complete later."""
        origin, shape = self.origin, self.shape
        lane, column = split_address(self.d_address)
        allowed = (0, 16) if shape.m // self.group == 64 and self.group == 1 else (0,)
        if lane not in allowed:
            raise origin.error(
                TensorMemoryAccessError,
                f"D at 0x{self.d_address:x} starts in lane {lane}: with M = {shape.m} and .cta_group::"
                f"{self.group} it starts in lane {' or '.join(map(str, allowed))}",
            )
        self.parts = _parts(shape, self.group, lane)
        self.column = column
        wait = _AFTER_COMMIT
        for rank in self.ranks:
            memory = self._memory(rank)
            for part in self.parts:
                region = Region(_lane_mask(part.lanes), column, column + part.stop - part.first)
                memory.check_allocated(region, "D", origin)
                memory.check_quiet(region, "D", origin, writes=True, after=("mma", "cp"))
                self._begin(memory, Moving(origin, region, writes=True, remedy=wait, pipeline="mma"))
                if self.a_bits is None:
                    region = self._a_region(part)
                    memory.check_allocated(region, "A", origin)
                    memory.check_quiet(region, "A", origin, writes=False, after=("mma", "cp"))
                    self._begin(memory, Moving(origin, region, writes=False, remedy=wait, pipeline="mma"))
        self._check_shared(issued=False)
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
            )
        Queue.of(origin).add(Operation(origin, self.complete, self.issued, touches=self.moving))

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
                TensorMemoryAccessError,
                f"A at 0x{self.a_address:x} starts in lane {lane} and D in lane {d_lane}: they have to start"
                " in the same",
            )
        return Region(_lane_mask(part.lanes), column, column + self.shape.k * self.item // 4)

    def _in_cohort(self, rank: int, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        return (chunks + self.origin.bundle.cohort.shared_start(self.cluster, rank)) // CHUNK

    def _check_shared(self, *, issued: bool) -> None:
        for rank in self.ranks:
            if self.a_chunks is not None:
                check_source(self.origin, rank, self._in_cohort(rank, self.a_chunks), "A", issued=issued)
            check_source(self.origin, rank, self._in_cohort(rank, self.b_chunks), "B", issued=issued)

    # --- completion -----------------------------------------------------------------------------------------

    def complete(self) -> None:
        """Read the operands as they are now, multiply, and write D."""
        for memory, moving in self.moving:
            memory.end(moving)
        self._check_shared(issued=True)
        shape = self.shape
        b = np.concatenate(
            [self._shared(rank, self.b_chunks, shape.b, k_major=shape.b_k_major) for rank in self.ranks]
        )
        if shape.negate_b:
            b = -b
        for position, rank in enumerate(self.ranks):
            memory = self._memory(rank)
            a = None
            if self.a_chunks is not None:
                a = self._shared(rank, self.a_chunks, shape.a, k_major=shape.a_k_major)
            for part in self.parts:
                rows = a if a is not None else self._tensor(memory, part)
                self._multiply(memory, part, -rows if shape.negate_a else rows, b, position)
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

    def _shared(
        self, rank: int, chunks: NDArray[np.int64], kind: str, *, k_major: bool
    ) -> NDArray[np.float64]:
        """A CTA's part of a matrix in shared memory: shape (rows of M or N, K)."""
        words, _ = self.origin.bundle.cohort.shared_words(8, 2)
        held = words[self._in_cohort(rank, chunks)].view(f"u{self.item}")
        values = read_f16(held.reshape(held.shape[0], -1), kind)
        return values if k_major else values.T

    def _tensor(self, memory: TensorMemory, part: _Part) -> NDArray[np.float64]:
        """A CTA's rows of A in tensor memory."""
        region = self._a_region(part)
        columns = slice(region.first, region.stop)
        self._check_written(memory, part.lanes, columns, "A")
        held = np.ascontiguousarray(memory.cells[part.lanes, columns]).view(f"u{self.item}")
        return read_f16(held, self.shape.a)

    def _check_written(
        self, memory: TensorMemory, lanes: NDArray[np.int64], columns: slice, what: str
    ) -> None:
        missing = ~memory.written[_as_slice(lanes), columns]
        if missing.any():
            row, column = np.argwhere(missing)[0]
            raise self.origin.error(
                UninitializedRead,
                f"{what} is read from lane {int(lanes[row])}, column {columns.start + int(column)} of tensor"
                " memory, where nobody has written since it was allocated"
                + (": should the first tcgen05.mma have enable-input-d false?" if what == "D" else ""),
            )

    def _multiply(
        self,
        memory: TensorMemory,
        part: _Part,
        a: NDArray[np.float64],
        b: NDArray[np.float64],
        position: int,
    ) -> None:
        lanes, kind = part.lanes, self.shape.d
        columns = slice(self.column, self.column + part.stop - part.first)
        b = b[part.first : part.stop]
        if self.disabled:
            words = np.array(self.disabled[4 * position : 4 * position + 4], dtype=np.uint32)
            kept = (words[lanes // 32] >> (lanes % 32).astype(np.uint32)) & 1 == 0
            lanes, a = lanes[kept], a[kept]
        c = None
        if self.enable:
            self._check_written(memory, lanes, columns, "D")
            c = _numbers(memory.cells[_as_slice(lanes), columns], kind)
            if self.scale:
                c = c * 2.0**-self.scale
        memory.cells[_as_slice(lanes), columns] = accumulate(a, b, c, kind)
        memory.written[_as_slice(lanes), columns] = True
