"""Plans of tcgen05.mma: what a set of operands stands for, worked out once for all who ask for the same.

A `Plan` holds what is the same in all clusters: shape, types, and where the matrices lie in a CTA. A `Place`
says where those matrices lie in one CTA or pair. A cohort keeps both, because the main loop of a GEMM asks
for the same few again and again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.owner import OwnerDict
from cutecourse.emulator.errors import AddressError, InvalidOperand
from cutecourse.emulator.instructions.tcgen05.operands import Asked, Operands
from cutecourse.emulator.instructions.tcgen05.placement import parts_of, region_of
from cutecourse.emulator.memory.matrix_descriptor import (
    FieldError,
    MultipliedMatrix,
    SharedMatrix,
    decode_instruction,
    decode_matrix,
    shared_matrix,
)
from cutecourse.emulator.memory.proxies import all_in_sight
from cutecourse.emulator.memory.tensor_memory import TensorMemories, split_address

__all__ = ["Place", "Plan", "announce_all", "plan_of"]

_PLACES = 4096
"""So many are kept, with two matrices for each CTA, of 2 KiB each in a GEMM of 128 x 16."""
_PLANS = 1024


class Plan:
    """The decoded operands of a tcgen05.mma, which are the same in all clusters."""

    def __init__(self, origin: Origin, operands: Operands, asked: Asked, kind: str, group: int) -> None:
        """Errors: InvalidOperand, AddressError."""
        self.asked = asked
        self.group = group
        self.scale = operands.scale
        self.a_in_tmem = operands.a_in_tmem
        self.lane, self.column = split_address(asked.d)
        try:
            self.shape = shape = decode_instruction(asked.idesc, kind, group)
            self.item = 4 if shape.a == "tf32" else 2
            self.b_matrix = self._matrix(origin, "b-desc", asked.b, shape.n, k_major=shape.b_k_major)
            self.a_matrix: SharedMatrix | None = None
            if not self.a_in_tmem:
                self.a_matrix = self._matrix(origin, "a-desc", asked.a, shape.m, k_major=shape.a_k_major)
            elif not shape.a_k_major:
                raise FieldError("transpose A (bit 15)", "set, but A in tensor memory is K-major")
        except FieldError as wrong:
            raise origin.error(InvalidOperand, str(wrong)) from None
        self.lanes = (0, 16) if shape.m // group == 64 and group == 1 else (0,)
        """Those in which D may start."""
        self.parts = parts_of(shape.m, shape.n, group, self.lane) if self.lane in self.lanes else ()
        self.regions = [region_of(part, self.column, part.stop - part.first) for part in self.parts]
        self.collected = (self.a_in_tmem, asked.a, shape.m, shape.a, shape.a_k_major)
        """The key that identifies A in the collector buffer."""

    def _matrix(self, origin: Origin, name: str, bits: int, extent: int, *, k_major: bool) -> SharedMatrix:
        """A CTA's part of a matrix; each CTA has its part of `extent`."""
        own = extent // self.group
        try:
            found = shared_matrix(decode_matrix, bits, own, self.shape.k, self.item, k_major=k_major)
        except FieldError as wrong:
            raise FieldError(f"{name}: {wrong.field}", str(wrong).removeprefix(f"{wrong.field}: ")) from None
        limit = origin.bundle.program.shared_bytes
        if found.stop > limit:
            raise origin.error(
                AddressError,
                f"{name} 0x{bits:016x} reaches to byte {found.stop} of shared memory, but the CTA has"
                f" only {limit}",
            )
        return found

    def place(self, bundle: Bundle, lane: int) -> Place:
        """Where it is in the CTA, or the pair, of a lane."""
        cohort = bundle.cohort
        known = cohort.own(_Places)
        key = (self, lane // WARP_SIZE, bundle.rank)
        found = known.get(key)
        if found is None:
            if len(known) >= _PLACES:
                known.clear()
            found = known[key] = Place(self, cohort, lane // WARP_SIZE, bundle.rank)
        return found


class Place:
    """Where the matrices of a plan are in one CTA or pair, by the CTAs' ranks."""

    __slots__ = ("a", "b", "memories", "ranks", "read", "starts")

    def __init__(self, plan: Plan, cohort: Cohort, cluster: int, rank: int) -> None:
        first = rank if plan.group == 1 else rank & ~1
        self.ranks = range(first, first + plan.group)
        memories = TensorMemories.of(cohort)
        self.memories = [memories[cluster, rank] for rank in self.ranks]
        self.starts = [cohort.shared_start(cluster, rank) // CHUNK for rank in self.ranks]
        """The number of each CTA's first chunk among the cohort's."""
        starts = np.array(self.starts)[:, None, None]
        asked, shape, item = plan.asked, plan.shape, plan.item

        def matrix(name: str, held: SharedMatrix, bits: int, kind: str, k_major: bool) -> MultipliedMatrix:
            places = held.chunks + starts
            places.flags.writeable = False
            return MultipliedMatrix(name, bits, decode_matrix(bits), places, kind, item, k_major)

        self.a: MultipliedMatrix | None = None
        """A in shared memory, of all CTAs that take part."""
        if plan.a_matrix is not None:
            self.a = matrix("A", plan.a_matrix, asked.a, shape.a, shape.a_k_major)
        self.b = matrix("B", plan.b_matrix, asked.b, shape.b, shape.b_k_major)
        self.read = [
            (each, one.name, one.places[position])
            for position, each in enumerate(self.ranks)
            for one in self.matrices
        ]
        """The operands in shared memory: rank, name and chunks of each."""

    @property
    def matrices(self) -> tuple[MultipliedMatrix, ...]:
        """Those that are in shared memory."""
        return (self.b,) if self.a is None else (self.a, self.b)


class _Places(OwnerDict[tuple[Plan, int, int], Place]):
    """The places of a cohort's plans, by plan, cluster and rank."""


class _Plans(OwnerDict[tuple[Operands, Asked], Plan]):
    """The plans of a cohort, by what they are made for."""


def plan_of(origin: Origin, operands: Operands, asked: Asked, kind: str, group: int) -> Plan:
    """The plan for what a lane asks for; one object for all who ask for the same. Errors: as for `Plan`."""
    known = origin.bundle.cohort.own(_Plans)
    found = known.get((operands, asked))
    if found is None:
        if len(known) >= _PLANS:
            known.clear()
        found = known[operands, asked] = Plan(origin, operands, asked, kind, group)
    return found


def announce_all(plan: Plan, bundle: Bundle, lanes: list[int]) -> bool:
    """Look at A and B in shared memory of the MMAs of some lanes, all at once.

    Returns whether everything there may be read. If not, each MMA has to be looked at by itself.
    """
    cohort = bundle.cohort
    _, written = cohort.shared_chunks
    places = [plan.place(bundle, lane) for lane in lanes]
    coming: list[tuple[list[MultipliedMatrix], NDArray[Any]]] = []
    for matrices in zip(*(place.matrices for place in places), strict=True):
        chunks = matrices[0].places if len(places) == 1 else np.concatenate([one.places for one in matrices])
        if not all_in_sight(written[chunks]):
            return False
        coming.append((list(matrices), chunks))
    for tell in cohort.listeners.matrices_coming:
        tell(coming)
    return True
