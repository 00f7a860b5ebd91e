"""tcgen05.mma: one thread has a CTA, or a pair, multiply matrices into tensor memory.

Here is the instruction up to its issue. Descriptors are read in cutecourse.emulator.matrix_descriptor, where
the matrices lie is in tcgen05_placement, what happens later in tcgen05_completion.
"""

from __future__ import annotations

from functools import partial
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
from cutecourse.emulator.matrix_descriptor import FieldError, decode_instruction
from cutecourse.emulator.mbarrier_state import Origin
from cutecourse.emulator.operand_checks import check_operand
from cutecourse.emulator.provenance import follow
from cutecourse.emulator.reduction_checks import check_reduction
from cutecourse.emulator.registry import Step, instruction
from cutecourse.emulator.site import Site
from cutecourse.emulator.tcgen05_alloc import check_peer, take_cta_group
from cutecourse.emulator.tcgen05_completion import complete
from cutecourse.emulator.tcgen05_placement import Matrix, Part, matrix_of, parts_of, region_of
from cutecourse.emulator.tcgen05_queue import Link, Operation, Queue, check_source
from cutecourse.emulator.tensor_memory import (
    Moving,
    Region,
    TensorMemories,
    TensorMemory,
    split_address,
)
from cutecourse.ptx.syntax import Address, Vector

__all__ = ["Mma"]

_KINDS = ("kind::f16", "kind::tf32")
_OTHER_KINDS = ("kind::f8f6f4", "kind::i8", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")
_COLLECTORS = tuple(f"collector::a::{use}" for use in ("fill", "use", "lastuse", "discard"))
_KEEPING = _COLLECTORS[:2]
_MOST_SCALE = 15
_PLACES = 8192
"""So many matrices at their places are kept, of 2 KiB each in a GEMM of 128 x 16."""
_AFTER_COMMIT = "wait for the mbarrier of a tcgen05.commit behind it"


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
            Mma(Origin(site, bundle, lane), operands, kind, group).issue(collector)

    return step


class Mma:
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
        self.starts = [cohort.shared_start(self.cluster, rank) // CHUNK for rank in self.ranks]
        """The number of each CTA's first chunk among the cohort's."""
        self.b_matrix = self._matrix("b-desc", self.b_bits, shape.n, k_major=shape.b_k_major)
        self.b = self._placed(self.b_matrix)
        self.a_matrix: Matrix | None = None
        self.a: list[NDArray[np.int64]] = []
        if self.a_bits is not None:
            self.a_matrix = self._matrix("a-desc", self.a_bits, shape.m, k_major=shape.a_k_major)
            self.a = self._placed(self.a_matrix)
        elif not shape.a_k_major:
            raise FieldError("transpose A (bit 15)", "set, and A in tensor memory is K-major")

    def _placed(self, matrix: Matrix) -> list[NDArray[np.int64]]:
        """The numbers of a matrix's chunks among the cohort's, in each CTA; one object for all who ask."""
        known: dict[tuple[Matrix, int], NDArray[np.int64]]
        known = self.origin.bundle.cohort.state.setdefault("tcgen05 places", {})
        found = []
        for start in self.starts:
            chunks = known.get((matrix, start))
            if chunks is None:
                if len(known) >= _PLACES:
                    known.clear()
                chunks = known[matrix, start] = matrix.chunks + start
                chunks.flags.writeable = False
            found.append(chunks)
        return found

    def _matrix(self, name: str, bits: int, extent: int, *, k_major: bool) -> Matrix:
        """A CTA's part of a matrix; each CTA has its part of `extent`."""
        own, per_chunk = extent // self.group, CHUNK // self.item
        chunks, rows = (self.shape.k // per_chunk, own) if k_major else (own // per_chunk, self.shape.k)
        try:
            found = matrix_of(bits, chunks, rows, self.item, k_major=k_major)
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
        self.parts = parts_of(shape.m, shape.n, self.group, lane)
        self.column = column
        wait = _AFTER_COMMIT
        for rank in self.ranks:
            memory = self.memory(rank)
            for part in self.parts:
                region = region_of(part, column, part.stop - part.first)
                memory.check_allocated(region, "D", origin)
                memory.check_quiet(region, "D", origin, writes=True, after=("mma", "cp"))
                if memory.sums is not None and not any(self.disabled):
                    memory.sums.written(memory, region, origin, shape.d, adds=self.enable)
                self._begin(memory, Moving(origin, region, writes=True, remedy=wait, pipeline="mma"))
                if self.a_bits is None:
                    region = self.a_region(part)
                    memory.check_allocated(region, "A", origin)
                    memory.check_quiet(region, "A", origin, writes=False, after=("mma", "cp"))
                    if memory.sums is not None:
                        memory.sums.read(region)
                    self._begin(memory, Moving(origin, region, writes=False, remedy=wait, pipeline="mma"))
        self.check_shared(issued=False)
        a = []
        if self.a_bits is not None:
            a = check_operand(origin, "A", self.a_bits, self.a, shape.a, self.item, k_major=shape.a_k_major)
        b = check_operand(origin, "B", self.b_bits, self.b, shape.b, self.item, k_major=shape.b_k_major)
        accumulator = (self.cluster, self.ranks[0], self.d_address, shape.m, shape.n)
        check_reduction(origin, a, b, accumulator, adds=self.enable)
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
        link = None
        if self.a_bits is not None and not self.scale:
            # MMAs that differ in A and B in shared memory, and in adding to D, alone.
            key = (self.d_address, self.idesc, shape.a, self.group, *self.disabled)
            link = Link(key, self, complete)
        run = partial(complete, [self])
        Queue.of(origin).add(Operation(origin, run, self.issued, touches=self.moving, link=link))

    def _touches(self) -> list[dict[str, Any]]:
        """What it reads and writes, for its event."""
        cohort = self.origin.bundle.cohort
        found = []
        for position, rank in enumerate(self.ranks):
            d = [region_of(part, self.column, part.stop - part.first) for part in self.parts]
            found += region_touches(rank, d, writes=True)
            if self.a_bits is None:
                a = [self.a_region(part) for part in self.parts]
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

    def memory(self, rank: int) -> TensorMemory:
        """The tensor memory of a CTA of its cluster."""
        return TensorMemories.of(self.origin.bundle.cohort)[self.cluster, rank]

    def _begin(self, memory: TensorMemory, moving: Moving) -> None:
        memory.begin(moving)
        self.moving.append((memory, moving))

    def a_region(self, part: Part) -> Region:
        """Where A in tensor memory lies, for a part of D."""
        lane, column = split_address(self.a_address)
        d_lane, _ = split_address(self.d_address)
        if lane != d_lane:
            raise self.origin.error(
                TensorMemoryLanesError,
                f"A at 0x{self.a_address:x} starts in lane {lane} and D in lane {d_lane}: they have to start"
                " in the same",
            )
        return region_of(part, column, self.shape.k * self.item // 4)

    def check_shared(self, *, issued: bool) -> None:
        """Refuse operands in shared memory as `check_source` does."""
        races = self.origin.bundle.cohort.races
        for position, rank in enumerate(self.ranks):
            if not issued and races is not None:
                operands = [("A", self.a[position])] if self.a else []
                races.multiplies(self.origin, rank, [*operands, ("B", self.b[position])])
            if self.a:
                check_source(self.origin, rank, self.a[position], "A", issued=issued)
            check_source(self.origin, rank, self.b[position], "B", issued=issued)
