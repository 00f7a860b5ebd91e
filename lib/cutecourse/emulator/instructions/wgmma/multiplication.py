"""One wgmma.mma_async of a warpgroup, from its issue until it has read its operands and written D.

The elements lie in these registers, with g = lane / 4, t = lane % 4 and the warp w of the four:

    D, 32 bits each      register 4 j + 2 h + p       row 16 w + 8 h + g, column 8 j + 2 t + p
    D, two of 16 bits    register 2 j + h             the same, p the half
    A, V in a register   register 2 q + h, element e  row 16 w + 8 h + g, column 4 V q + V t + e
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE, any_true
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import InvalidOperand
from cutecourse.emulator.instructions.warpgroups import WARPS, InFlight, Warpgroup
from cutecourse.emulator.instructions.wgmma.descriptor import decode
from cutecourse.emulator.instructions.wgmma.registers import Flight, share
from cutecourse.emulator.memory.matrix_descriptor import FieldError, MultipliedMatrix, matrix_of
from cutecourse.emulator.memory.proxies import WGMMA, check_source
from cutecourse.emulator.numbers.formats import FORMATS
from cutecourse.emulator.numbers.tensor_core_sums import (
    TENSOR_CORES,
    fused_float_products,
    integer_products,
)

__all__ = ["BYTES", "Form", "Multiplication"]

_M = 64
_HOPPER = TENSOR_CORES["sm_90"]
BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
"""The bytes of an element of A or B, by its type."""


@dataclass(frozen=True, eq=False)
class Form:
    """One wgmma.mma_async of a kernel: shape, types, operands."""

    site: Site
    n: int
    k: int
    d: str
    a: str
    b: str
    satfinite: bool
    d_slots: list[int]
    a_slots: list[int]
    """Empty where A is in shared memory."""
    a_descriptor: int | None
    b_descriptor: int
    scale_d: int
    negate_a: bool
    negate_b: bool
    a_k_major: bool
    b_k_major: bool
    writes: NDArray[np.int64]
    """The watched registers of D (emulator.instructions.wgmma.registers)."""
    reads: NDArray[np.int64]

    @cached_property
    def used(self) -> NDArray[np.int64]:
        """The watched registers of all operands."""
        return np.concatenate([self.writes, self.reads])

    @property
    def item(self) -> int:
        """Bytes of an element of A and B."""
        return BYTES[self.a]

    @property
    def whole(self) -> bool:
        """True if the elements are integers."""
        return self.d == "s32"


class Multiplication(InFlight):
    """One wgmma.mma_async of a warpgroup."""

    # --- issue ----------------------------------------------------------------------------------------------

    def __init__(
        self,
        form: Form,
        group: Warpgroup,
        origin: Origin,
        a_bits: int | None,
        b_bits: int,
        *,
        accumulate: bool,
    ) -> None:
        """The first of the four warps reaches it: check the operands, which are the same for all four."""
        super().__init__(form.site, group, (form.n, form.k, form.d), form.writes, form.reads)
        self.form = form
        self.origin = origin
        self.a_bits = a_bits
        self.b_bits = b_bits
        self.accumulate = accumulate
        self.issued: int | None = None
        self.b = self._matrix("B", b_bits, form.b, form.n, k_major=form.b_k_major)
        self.a = None if a_bits is None else self._matrix("A", a_bits, form.a, _M, k_major=form.a_k_major)
        self.matrices = (self.b,) if self.a is None else (self.a, self.b)
        """The operands that are in shared memory."""
        self._check_shared(issued=False)
        for tell in group.cohort.listeners.matrix_read:
            for matrix in self.matrices:
                tell(origin, matrix)

    def issue(self, bundle: Bundle) -> None:
        """Issue it when the last of the four warps reaches it; it completes later."""
        form, group, listeners = self.form, self.group, bundle.cohort.listeners
        number = bundle.warp // WARPS
        operands = [(matrix.name, matrix.places[0], matrix.spans[0]) for matrix in self.matrices]
        for tell in listeners.warpgroup_issued:
            tell(self, self.origin, group.bundles, number, operands)
        self._check_shared(issued=True)
        for tell in listeners.accumulated:
            # All four warps have executed the instructions before it, and have not touched D since.
            written = False
            for each in group.bundles:
                changed = each.own(Flight).changed
                written |= any_true(changed[self.writes, group.cluster])
                changed[self.writes, group.cluster] = False
            accumulator = (group.cluster, group.rank, number, *self.writes.tolist())
            tell(self.origin, self.a, self.b, accumulator, adds=self.accumulate, written=written, alone=None)
        for tell in listeners.happened:
            self.issued = tell(
                "wgmma.issue",
                Origin(form.site, group.bundles[0], self.origin.lane),
                one=False,
                m=_M,
                n=form.n,
                k=form.k,
                types=f"{form.d}.{form.a}.{form.b}",
                a=self.a_bits,
                b=self.b_bits,
                accumulate=self.accumulate,
            )
            group.issues.append(self.issued)
        group.running.append(self)
        self.work = bundle.machine.defer(self.complete)

    def _matrix(self, name: str, bits: int, kind: str, extent: int, *, k_major: bool) -> MultipliedMatrix:
        form, group, shown = self.form, self.group, f"{name.lower()}-desc"
        try:
            found = matrix_of(self.origin, shown, decode, bits, extent, form.k, form.item, k_major=k_major)
        except FieldError as wrong:
            raise self.origin.error(InvalidOperand, f"{shown} 0x{bits:016x}: {wrong}") from None
        start = group.cohort.shared_start(group.cluster, group.rank) // CHUNK
        places, spans = found.chunks[None] + start, [found.span(start)]
        return MultipliedMatrix(name, bits, decode(bits), places, spans, kind, form.item, k_major)

    def _check_shared(self, *, issued: bool) -> None:
        for matrix in self.matrices:
            check_source(
                self.origin, matrix.places[0], matrix.name, WGMMA, rank=self.group.rank, issued=issued
            )

    # --- completion -----------------------------------------------------------------------------------------

    def complete(self) -> None:
        """Read the operands as they are now, multiply, and write D."""
        running, form = self.group.running, self.form
        for earlier in running[: running.index(self)]:
            if share(self.writes, earlier.writes) or share(self.reads, earlier.writes):
                earlier.settle()
        running.remove(self)
        self._check_shared(issued=True)
        a = self._a()
        b = self._shared(self.b)
        if form.negate_a:
            a = _negated(a)
        if form.negate_b:
            b = _negated(b)
        d = self._registers(form.d_slots)
        c = _rows_of_d(d, form.d) if self.accumulate else np.zeros((_M, form.n), dtype=np.uint32)
        if form.whole:
            whole_a, whole_b = a.view(_whole(form.a)), b.view(_whole(form.b))
            sums = integer_products(whole_a, whole_b.T, c.view(np.int32), satfinite=form.satfinite)
            total = sums.astype(np.uint32)
        else:
            of_a, of_b, of_d = (FORMATS[kind] for kind in (form.a, form.b, form.d))
            total = fused_float_products(a, b.T, c, of_a, of_d, _HOPPER, source_of_b=of_b)
        self._write(_registers_of_d(total, form.d))
        for tell in self.group.cohort.listeners.happened_in:
            tell(
                "wgmma.complete",
                self.group.cohort,
                self.group.cluster,
                self.group.rank,
                form.site.line,
                issue=self.issued,
            )

    def _shared(self, matrix: MultipliedMatrix) -> NDArray[Any]:
        """A matrix in shared memory as (rows of M or N, K)."""
        held = self.group.cohort.shared_chunks[0][matrix.places[0]].view(f"u{self.form.item}")
        return held if matrix.k_major else np.ascontiguousarray(held.T)

    def _a(self) -> NDArray[Any]:
        if self.a is not None:
            return self._shared(self.a)
        # (w, q, h, g, t, e), as the module's text names them
        held = self._registers(self.form.a_slots).reshape(WARPS, 2, 2, 8, 4, 1).view(f"u{self.form.item}")
        return np.ascontiguousarray(held.transpose(0, 2, 3, 1, 4, 5)).reshape(_M, self.form.k)

    def _registers(self, slots: list[int]) -> NDArray[np.uint32]:
        """Registers of all four warps: shape (4, registers, 32)."""
        cluster = self.group.cluster
        return np.array([[b.rows["u32"][slot][cluster] for slot in slots] for b in self.group.bundles])

    def _write(self, values: NDArray[np.uint32]) -> None:
        cluster = self.group.cluster
        for bundle, held in zip(self.group.bundles, values, strict=True):
            rows = bundle.rows["u32"]
            for slot, value in zip(self.form.d_slots, held, strict=True):
                rows[slot][cluster] = value


def _whole(kind: str) -> str:
    return "i1" if kind == "s8" else "u1"


def _negated(bits: NDArray[Any]) -> NDArray[Any]:
    """Change the numbers' signs."""
    sign = 1 << (8 * bits.itemsize - 1)
    found: NDArray[Any] = bits ^ bits.dtype.type(sign)
    return found


def _rows_of_d(held: NDArray[np.uint32], kind: str) -> NDArray[np.uint32]:
    """(4, registers, 32) -> (64, N), each element's bits in 32."""
    if kind == "f16":
        # (w, j, h, g, t, p)
        halves = held.reshape(WARPS, -1, 2, 8, 4, 1).view(np.uint16)
        return halves.transpose(0, 2, 3, 1, 4, 5).reshape(_M, -1).astype(np.uint32)
    # (w, j, h, p, g, t)
    return held.reshape(WARPS, -1, 2, 2, 8, 4).transpose(0, 2, 4, 1, 5, 3).reshape(_M, -1)


def _registers_of_d(total: NDArray[np.uint32], kind: str) -> NDArray[np.uint32]:
    """(64, N) -> (4, registers, 32)."""
    apart = total.reshape(WARPS, 2, 8, -1, 4, 2)  # (w, h, g, j, t, p)
    if kind == "f16":
        halves = np.ascontiguousarray(apart.transpose(0, 3, 1, 2, 4, 5).astype(np.uint16))
        return halves.view(np.uint32).reshape(WARPS, -1, WARP_SIZE)
    return apart.transpose(0, 3, 1, 5, 2, 4).reshape(WARPS, -1, WARP_SIZE)
