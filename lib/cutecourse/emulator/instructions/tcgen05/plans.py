"""The operands of a tcgen05.mma, [d], a or [a], b, idesc {, mask}, enable {, scale}, and what they stand for.

With scale factors they are [d], a, b, idesc, [scales of A], [scales of B], enable.

Equal operands are decoded once. An `MmaPlan` holds what is the same in all clusters: shape, types, and where
the matrices lie in a CTA. An `MmaPlace` says where those matrices lie in one CTA or pair. A cohort keeps
both, because the main loop of a GEMM uses the same few operands again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import DTYPES
from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.owner import OwnerDict
from cutecourse.emulator.core.site import AddressSource, Site
from cutecourse.emulator.errors import InvalidOperand, TensorMemoryLanesError
from cutecourse.emulator.instructions.tcgen05.placement import EVERY_LANE, parts_of, region_of
from cutecourse.emulator.memory.matrix_descriptor import (
    FieldError,
    MultipliedMatrix,
    SharedMatrix,
    decode_instruction,
    decode_matrix,
    decode_scaled_instruction,
    matrix_of,
)
from cutecourse.emulator.memory.proxies import all_in_sight
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.tensor_memory import TensorMemories, split_address
from cutecourse.ptx.syntax import Address, Vector

__all__ = ["MmaPlan", "Operands", "announce_all", "plan_of"]

_PLACES = 4096
"""The number of places kept; each has two matrices for each CTA, of 2 KiB each in a GEMM of 128 x 16."""
_PLANS = 1024
_MOST_SCALE = 15
_SCALES_D = ("f16", "tf32")
_PACKED = ("mxf4", "mxf4nvf4")
_SCALES_ADDRESS = 0x3FFF_FFFF
"""CUTLASS keeps the scale factors' data ID in the two upper bits, which the instruction ignores."""


class MmaRequest(NamedTuple):
    """The addresses and descriptors of one tcgen05.mma as numbers: `a` is either of both."""

    d: int
    a: int
    b: int
    idesc: int
    scales_a: int = 0
    scales_b: int = 0


class Operands:
    """The slots and addresses of an instruction's operands."""

    def __init__(self, site: Site, group: int, kind: str, block: int | None) -> None:
        """Errors: InvalidOperand for a wrong number of operands or registers, or a wrong scale.

        block  the elements along K that share a scale factor; None without scale factors.
        """
        self.site = site
        self.kind = kind
        self.block = block
        self.d = site.address(0)
        self.a_in_tmem = isinstance(site.operand(1), Address)
        self.a: Callable[[Bundle], NDArray[Any]]
        if self.a_in_tmem:
            address = site.address(1)
            self.a = lambda bundle: address.lanes(bundle) & 0xFFFFFFFF
        else:
            slot = site.source(1, "u64")
            self.a = lambda bundle: bundle.rows["u64"][slot]
        self.b = site.source(2, "u64")
        self.shape = site.source(3, "u32")
        at = 4
        self.mask: list[int] = []
        self.scales: list[AddressSource] = []
        if block is not None:
            self.scales = [site.address(4), site.address(5)]
            at = 6
        elif isinstance(site.operand(at), Vector):
            self.mask = site.sources(at, "u32")
            if len(self.mask) != 4 * group:
                site.invalid(f"disable-output-lane has {4 * group} registers here, not {len(self.mask)}")
            at += 1
        self.enable = site.source(at, "pred")
        scale = site.constant(at + 1) if len(site.operands) > at + 1 else 0
        if scale is None or not 0 <= scale <= _MOST_SCALE:
            site.invalid(f"scale-input-d is a constant from 0 to {_MOST_SCALE}")
        if len(site.operands) > at + 1 and kind not in _SCALES_D:
            site.invalid(f".kind::{kind} has no scale-input-d")
        self.scale = scale
        if len(site.operands) > at + 2:
            site.invalid(f"{site.instruction.name} takes {at + 2} operands at most, not {len(site.operands)}")

    def read(self, bundle: Bundle, lanes: NDArray[np.int64]) -> list[MmaRequest]:
        """Read the operands of each of these lanes."""
        d = self.d.lanes(bundle) & 0xFFFFFFFF
        rows = [d, self.a(bundle), bundle.rows["u64"][self.b], bundle.rows["u32"][self.shape]]
        rows += [address.lanes(bundle) & _SCALES_ADDRESS for address in self.scales]
        return list(map(MmaRequest, *(row.reshape(-1)[lanes].tolist() for row in rows)))


class MmaPlan:
    """The decoded operands of a tcgen05.mma, which are the same in all clusters."""

    def __init__(self, origin: Origin, operands: Operands, asked: MmaRequest, group: int) -> None:
        """Errors: InvalidOperand, AddressError, TensorMemoryLanesError."""
        kind, block = operands.kind, operands.block
        self.asked = asked
        self.group = group
        self.scale = operands.scale
        self.a_in_tmem = operands.a_in_tmem
        self.lane, self.column = split_address(asked.d)
        try:
            if block is None:
                shape = decode_instruction(asked.idesc, kind, group)
            else:
                shape = decode_scaled_instruction(asked.idesc, kind, group, block)
            self.shape = shape
            self.item = {"tf32": 4, "f16": 2, "bf16": 2}.get(shape.a, 1)
            """The bytes of an element; 1 also for narrower ones, of which 16 lie in 16 bytes too."""
            self.packed = kind in _PACKED
            """True if 32 elements of 4 bits lie in 16 bytes."""
            self.filled = {name: self._filled(of) for name, of in (("A", shape.a), ("B", shape.b))}
            """How many of each 16 bytes of a matrix hold elements; what follows them is padding."""
            self.b_matrix = self._matrix(origin, "b-desc", asked.b, shape.n, k_major=shape.b_k_major)
            self.a_matrix: SharedMatrix | None = None
            if not self.a_in_tmem:
                self.a_matrix = self._matrix(origin, "a-desc", asked.a, shape.m, k_major=shape.a_k_major)
            elif not shape.a_k_major:
                raise FieldError("transpose A (bit 15)", "set, but A in tensor memory is K-major")
        except FieldError as wrong:
            raise origin.error(InvalidOperand, str(wrong)) from None
        self.lanes = (0, 16) if shape.m // group == 64 and group == 1 else (0,)
        """The lanes in which D may start."""
        self.a_columns = shape.k // 8 if self.packed else shape.k * self.item // 4
        """The columns of A in tensor memory."""
        self.parts = parts_of(shape.m, shape.n, group, self.lane) if self.lane in self.lanes else ()
        self.regions = [region_of(part, self.column, part.stop - part.first) for part in self.parts]
        self.n_scales = 0 if block is None else shape.k // block
        """The scale factors for each row of A and of B."""
        self.scales = [
            self._scales(origin, name, address, extent)
            for name, address, extent in (
                ("scale factors of A", asked.scales_a, shape.m // group),
                ("scale factors of B", asked.scales_b, self.parts[0].stop if self.parts else 0),
            )
            if block is not None and self.parts
        ]
        """Where the scale factors of A and of B lie in each CTA: name and region."""
        self.collected = (self.a_in_tmem, asked.a, shape.m, shape.a, shape.a_k_major)
        """The key that identifies A in the collector buffer."""

    def _filled(self, kind: str) -> int:
        return CHUNK if self.packed or self.item > 1 else 2 * DTYPES[kind].bits

    def _matrix(self, origin: Origin, name: str, bits: int, extent: int, *, k_major: bool) -> SharedMatrix:
        """A CTA's part of a matrix; each CTA has its part of `extent`."""
        own, item = extent // self.group, self.item
        k = self.shape.k // 2 if self.packed else self.shape.k
        try:
            if not k_major and own % (CHUNK // item):
                raise FieldError(
                    "N (bits 17 to 22)",
                    f"{own} in a CTA; an MN-major matrix of 8-bit elements has a multiple of 16",
                )
            return matrix_of(origin, name, decode_matrix, bits, own, k, item, k_major=k_major)
        except FieldError as wrong:
            raise origin.error(InvalidOperand, f"{name}: {wrong}") from None

    def _scales(self, origin: Origin, name: str, address: int, rows: int) -> tuple[str, Region]:
        """Rows of 32 lie in a column, one in a lane, and the same in the lanes of each of the four warps."""
        lane, column = split_address(address)
        if lane:
            raise origin.error(
                TensorMemoryLanesError,
                f"{name} at 0x{address:x} start in lane {lane}; they must start in lane 0",
            )
        return name, region_of(EVERY_LANE, column, -(-rows // WARP_SIZE))

    def place(self, bundle: Bundle, lane: int) -> MmaPlace:
        """The matrices' places in the CTA, or the pair, of a lane."""
        cohort = bundle.cohort
        known = cohort.own(_Places)
        key = (self, lane // WARP_SIZE, bundle.rank)
        found = known.get(key)
        if found is None:
            if len(known) >= _PLACES:
                known.clear()
            found = known[key] = MmaPlace(self, cohort, lane // WARP_SIZE, bundle.rank)
        return found


class MmaPlace:
    """Where the matrices of a plan are in one CTA or pair, by the CTAs' ranks."""

    __slots__ = ("a", "b", "memories", "ranks", "read", "starts")

    def __init__(self, plan: MmaPlan, cohort: Cohort, cluster: int, rank: int) -> None:
        first = rank if plan.group == 1 else rank & ~1
        self.ranks = range(first, first + plan.group)
        memories = cohort.own(TensorMemories)
        self.memories = [memories[cluster, rank] for rank in self.ranks]
        self.starts = [cohort.shared_start(cluster, rank) // CHUNK for rank in self.ranks]
        """The number of each CTA's first chunk among the cohort's."""
        starts = np.array(self.starts)[:, None, None]
        asked, shape, item = plan.asked, plan.shape, plan.item

        def matrix(name: str, held: SharedMatrix, bits: int, kind: str, k_major: bool) -> MultipliedMatrix:
            places = held.chunks + starts
            places.flags.writeable = False
            spans = [held.span(start) for start in self.starts]
            return MultipliedMatrix(name, bits, decode_matrix(bits), places, spans, kind, item, k_major)

        self.a: MultipliedMatrix | None = None
        """A in shared memory, of all CTAs that take part."""
        if plan.a_matrix is not None:
            self.a = matrix("A", plan.a_matrix, asked.a, shape.a, shape.a_k_major)
        self.b = matrix("B", plan.b_matrix, asked.b, shape.b, shape.b_k_major)
        self.read = [
            (each, one.name, one.places[position], one.spans[position])
            for position, each in enumerate(self.ranks)
            for one in self.matrices
        ]
        """The operands in shared memory: rank, name, chunks and their span of each."""

    @property
    def matrices(self) -> tuple[MultipliedMatrix, ...]:
        """The operands that are in shared memory."""
        return (self.b,) if self.a is None else (self.a, self.b)


class _Places(OwnerDict[tuple[MmaPlan, int, int], MmaPlace]):
    """The places of a cohort's plans, by plan, cluster and rank."""


class _Plans(OwnerDict[tuple[Operands, MmaRequest], MmaPlan]):
    """The plans of a cohort, by instruction and operands."""


def plan_of(origin: Origin, operands: Operands, asked: MmaRequest, group: int) -> MmaPlan:
    """The plan for a lane's operands; equal operands share one object. Errors: as for `MmaPlan`."""
    known = origin.bundle.cohort.own(_Plans)
    found = known.get((operands, asked))
    if found is None:
        if len(known) >= _PLANS:
            known.clear()
        found = known[operands, asked] = MmaPlan(origin, operands, asked, group)
    return found


def announce_all(plan: MmaPlan, bundle: Bundle, lanes: list[int]) -> bool:
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
