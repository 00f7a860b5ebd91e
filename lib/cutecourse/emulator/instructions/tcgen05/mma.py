"""tcgen05.mma: one thread has a CTA, or a pair, multiply matrices into tensor memory.

Here is the instruction up to its issue. Descriptors are read in emulator.memory.matrix_descriptor, where
the matrices lie is in tcgen05_placement, what happens later in tcgen05_completion.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.operands import Found, check_operand, good_operands, has_repeats
from cutecourse.emulator.checks.provenance import BY_MMA
from cutecourse.emulator.checks.reductions import check_reduction
from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE, Mask
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import (
    AddressError,
    InvalidOperand,
    TensorMemoryLanesError,
)
from cutecourse.emulator.instructions.tcgen05.alloc import check_peer, take_cta_group
from cutecourse.emulator.instructions.tcgen05.completion import complete
from cutecourse.emulator.instructions.tcgen05.placement import Matrix, Part, matrix_of, parts_of, region_of
from cutecourse.emulator.instructions.tcgen05.queue import Link, Operation, Queue, check_source
from cutecourse.emulator.memory.event_memory import chunks_touched, region_touches
from cutecourse.emulator.memory.matrix_descriptor import FieldError, decode_instruction
from cutecourse.emulator.memory.proxies import all_in_sight
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.tensor_memory import Moving, TensorMemories, TensorMemory, split_address
from cutecourse.ptx.syntax import Address, Vector

__all__ = ["Mma"]

_KINDS = ("kind::f16", "kind::tf32")
_OTHER_KINDS = ("kind::f8f6f4", "kind::i8", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")
_COLLECTORS = tuple(f"collector::a::{use}" for use in ("fill", "use", "lastuse", "discard"))
_KEEPING = _COLLECTORS[:2]
_MOST_SCALE = 15
_PLACES = 4096
"""So many are kept, with two matrices for each CTA, of 2 KiB each in a GEMM of 128 x 16."""
_PLANS = 1024
_AFTER_COMMIT = "Wait for the mbarrier of a tcgen05.commit after it."


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

    def read(self, bundle: Bundle, lanes: NDArray[np.int64]) -> list[_Asked]:
        """What each of some lanes asks for."""

        def values(rows: NDArray[Any]) -> list[int]:
            found: list[int] = rows.reshape(-1)[lanes].tolist()
            return found

        rows32, rows64 = bundle.rows["u32"], bundle.rows["u64"]
        d = [address & 0xFFFFFFFF for address in values(self.d.lanes(bundle))]
        if self.a is not None:
            a = values(rows64[self.a])
        else:
            assert self.a_address is not None
            a = [address & 0xFFFFFFFF for address in values(self.a_address.lanes(bundle))]
        return list(map(_Asked, d, a, values(rows64[self.b]), values(rows32[self.shape])))


class _Asked(NamedTuple):
    """The addresses and descriptors of one tcgen05.mma as numbers: `a` is either of both."""

    d: int
    a: int
    b: int
    idesc: int


@instruction("tcgen05.mma")
def mma(site: Site) -> Step:
    """Multiply matrices into tensor memory, asynchronously: D = A * B + D, or D = A * B.

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
                aligned terms (emulator.numbers.mma_sums): the last bits can differ. The collector
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
    collector = site.one_of(*_COLLECTORS, default=_COLLECTORS[-1])
    operands = _Operands(site, group)

    def step(bundle: Bundle, mask: Mask) -> None:
        lanes = bundle.lanes(mask)
        every = operands.read(bundle, lanes)
        enable = bundle.rows["pred"][operands.enable].reshape(-1)
        masks = [bundle.rows["u32"][slot].reshape(-1) for slot in operands.mask]
        # The MMAs of several clusters are mostly alike.
        alike = len(set(every)) == 1
        looked: list[Looked] = []
        for position, lane in enumerate(lanes.tolist()):
            origin = Origin(site, bundle, lane)
            check_peer(origin, group)
            plan = _plan(origin, operands, every[position], kind, group)
            if not looked:
                looked = plan.look(bundle, lanes[position:].tolist() if alike else [lane])
            disabled = [int(words[lane]) for words in masks]
            Mma(origin, plan, enable=bool(enable[lane]), disabled=disabled).issue(collector, looked.pop(0))

    return step


Looked = tuple[list[Found], list[Found]] | None
"""What there is to know of A and B in shared memory where nothing is wrong with them; None where it may."""


class Plan:
    """What the operands of a tcgen05.mma stand for, the same in all clusters."""

    def __init__(self, origin: Origin, operands: _Operands, asked: _Asked, kind: str, group: int) -> None:
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
            self.a_matrix: Matrix | None = None
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
        self.repeats = any(
            has_repeats(bits, matrix.chunks.shape, self.item, k_major=k_major)
            for bits, matrix, k_major in (
                (asked.a, self.a_matrix, shape.a_k_major),
                (asked.b, self.b_matrix, shape.b_k_major),
            )
            if matrix is not None
        )
        """Whether a matrix has a chunk twice."""
        self.collected = (self.a_in_tmem, asked.a, shape.m, shape.a, shape.a_k_major)
        """What tells A from another one in the collector buffer."""

    def _matrix(self, origin: Origin, name: str, bits: int, extent: int, *, k_major: bool) -> Matrix:
        """A CTA's part of a matrix; each CTA has its part of `extent`."""
        own, per_chunk = extent // self.group, CHUNK // self.item
        chunks, rows = (self.shape.k // per_chunk, own) if k_major else (own // per_chunk, self.shape.k)
        try:
            found = matrix_of(bits, chunks, rows, self.item, k_major=k_major)
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

    def place(self, bundle: Bundle, lane: int) -> _Place:
        """Where it is in the CTA, or the pair, of a lane."""
        cohort = bundle.cohort
        known = cohort.own(_Places)
        key = (self, lane // WARP_SIZE, bundle.rank)
        found = known.get(key)
        if found is None:
            if len(known) >= _PLACES:
                known.clear()
            found = known[key] = _Place(self, cohort, lane // WARP_SIZE, bundle.rank)
        return found

    def look(self, bundle: Bundle, lanes: list[int]) -> list[Looked]:
        """Look at A and B in shared memory of the MMAs of some lanes, all at once.

        Where nothing is wrong with any of them; otherwise each is to be looked at for itself, and is told so.
        """
        cohort, shape, asked = bundle.cohort, self.shape, self.asked
        _, written = cohort.shared_chunks
        places = [self.place(bundle, lane) for lane in lanes]
        b = _together([place.b for place in places])
        of_places = [place.a for place in places if place.a is not None]
        a = _together(of_places) if of_places else None
        nothing: list[Looked] = [None] * len(lanes)
        if self.repeats or not all_in_sight(written[b]) or not (a is None or all_in_sight(written[a])):
            return nothing
        provenance = cohort.provenance
        if provenance is None:
            return [([], []) for _ in lanes]
        of_a: list[Found] | None = []
        if a is not None:
            of_a = good_operands(provenance, asked.a, a, shape.a, k_major=shape.a_k_major)
        of_b = good_operands(provenance, asked.b, b, shape.b, k_major=shape.b_k_major)
        if of_a is None or of_b is None:
            return nothing
        if a is not None:
            provenance.owner[a] = BY_MMA
        provenance.owner[b] = BY_MMA
        step = self.group
        return [(of_a[at : at + step], of_b[at : at + step]) for at in range(0, len(b), step)]


def _plan(origin: Origin, operands: _Operands, asked: _Asked, kind: str, group: int) -> Plan:
    """The plan for what a lane asks for; one object for all who ask for the same."""
    known = origin.bundle.cohort.own(_Plans)
    found = known.get((operands, asked))
    if found is None:
        if len(known) >= _PLANS:
            known.clear()
        found = known[operands, asked] = Plan(origin, operands, asked, kind, group)
    return found


def _together(matrices: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The matrices of several places one behind the other."""
    return matrices[0] if len(matrices) == 1 else np.concatenate(matrices)


class _Place:
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
        self.b = plan.b_matrix.chunks + starts
        """The numbers of the chunks of B, shape (CTAs, rows, chunks), and below of A."""
        self.a: NDArray[np.int64] | None = None
        if plan.a_matrix is not None:
            self.a = plan.a_matrix.chunks + starts
        self.read: list[tuple[int, str, NDArray[np.int64]]] = []
        """What is read in shared memory: of which rank, its name and chunks."""
        for position, each in enumerate(self.ranks):
            for what, matrix in (("A", self.a), ("B", self.b)):
                if matrix is not None:
                    matrix.flags.writeable = False
                    self.read.append((each, what, matrix[position]))


class _Places(dict[tuple[Plan, int, int], _Place]):
    """The places of a cohort's plans, by plan, cluster and rank."""

    def __init__(self, cohort: Cohort) -> None:
        super().__init__()


class _Plans(dict[tuple[_Operands, _Asked], Plan]):
    """The plans of a cohort, by what they are made for."""

    def __init__(self, cohort: Cohort) -> None:
        super().__init__()


class _Collectors(dict[tuple[int, int], tuple[Any, ...] | None]):
    """The A in each CTA's collector buffer, by cluster and rank."""

    def __init__(self, cohort: Cohort) -> None:
        super().__init__()


class Mma:
    """One tcgen05.mma that a thread has issued."""

    __slots__ = ("cluster", "disabled", "enable", "issued", "moving", "origin", "place", "plan")

    def __init__(self, origin: Origin, plan: Plan, *, enable: bool, disabled: list[int]) -> None:
        self.origin = origin
        self.plan = plan
        self.enable = enable
        self.disabled = disabled
        self.cluster = origin.lane // WARP_SIZE
        self.place = plan.place(origin.bundle, origin.lane)
        self.issued: int | None = None
        self.moving: list[tuple[TensorMemory, Moving]] = []

    # --- issue ----------------------------------------------------------------------------------------------

    def issue(self, collector: str, looked: Looked) -> None:
        """Check, and let it complete later; `looked` is what is known of A and B in shared memory."""
        origin, plan, place = self.origin, self.plan, self.place
        asked, shape = plan.asked, plan.shape
        self._collect(collector)
        if not plan.parts:
            raise origin.error(
                TensorMemoryLanesError,
                f"D at 0x{asked.d:x} starts in lane {plan.lane}: with M = {shape.m} and .cta_group::"
                f"{plan.group} it must start in lane {' or '.join(map(str, plan.lanes))}",
            )
        for memory in place.memories:
            for part, region in zip(plan.parts, plan.regions, strict=True):
                self._begin(memory, region, "D", writes=True)
                if plan.a_in_tmem:
                    self._begin(memory, self.a_region(part), "A", writes=False)
        a, b = self._check_operands() if looked is None else self._reads(looked)
        accumulator = (self.cluster, place.ranks[0], asked.d, shape.m, shape.n)
        operands = (asked, *self.disabled)
        check_reduction(origin, a, b, accumulator, adds=self.enable, operands=operands)
        for tell in origin.bundle.cohort.listeners.happened:
            self.issued = tell(
                "mma.issue",
                origin.bundle,
                origin.lane,
                origin.site.line,
                group=plan.group,
                m=shape.m,
                n=shape.n,
                k=shape.k,
                types=f"{shape.d}.{shape.a}.{shape.b}",
                a=asked.a,
                b=asked.b,
                d=asked.d,
                idesc=asked.idesc,
                accumulate=self.enable,
                touches=self._touches(),
            )
        link = None
        if not plan.a_in_tmem and not plan.scale:
            # MMAs that differ in A and B in shared memory, and in adding to D, alone.
            key = (asked.d, asked.idesc, shape.a, plan.group, *self.disabled)
            link = Link(key, self, complete)
        run = partial(complete, [self])
        Queue.of(origin).add(Operation(origin, run, self.issued, touches=self.moving, link=link))

    def _begin(self, memory: TensorMemory, region: Region, what: str, *, writes: bool) -> None:
        """Check a region of tensor memory, and let it be under way."""
        origin = self.origin
        memory.check_allocated(region, what, origin)
        memory.check_quiet(region, what, origin, writes=writes, after=("mma", "cp"))
        listeners = origin.bundle.cohort.listeners
        if not writes:
            for tell in listeners.tensor_multiplied:
                tell(memory, region)
        elif not any(self.disabled):
            for tell in listeners.tensor_summed:
                tell(memory, region, origin, self.plan.shape.d, adds=self.enable)
        moving = Moving(origin, region, writes=writes, remedy=_AFTER_COMMIT, pipeline="mma")
        memory.begin(moving)
        self.moving.append((memory, moving))

    def _check_operands(self) -> tuple[list[Found], list[Found]]:
        """Look at A and B in shared memory. Errors: as for `check_source` and `check_operand`."""
        origin, plan, place = self.origin, self.plan, self.place
        asked, shape, item = plan.asked, plan.shape, plan.item
        self.check_shared(issued=False)
        a = []
        if place.a is not None:
            a = check_operand(origin, "A", asked.a, list(place.a), shape.a, item, k_major=shape.a_k_major)
        return a, check_operand(origin, "B", asked.b, list(place.b), shape.b, item, k_major=shape.b_k_major)

    def _reads(self, looked: tuple[list[Found], list[Found]]) -> tuple[list[Found], list[Found]]:
        """The same where they have been looked at: who else uses them is to be seen alone."""
        for tell in self.origin.bundle.cohort.listeners.operands_read:
            tell(self.origin, self.place.read)
        return looked

    def _touches(self) -> list[dict[str, Any]]:
        """What it reads and writes, for its event."""
        cohort, plan, place = self.origin.bundle.cohort, self.plan, self.place
        found = []
        for position, rank in enumerate(place.ranks):
            found += region_touches(rank, plan.regions, writes=True)
            if plan.a_in_tmem:
                a = [self.a_region(part) for part in plan.parts]
                found += region_touches(rank, a, writes=False)
            for matrix in (place.a, place.b):
                if matrix is not None:
                    found.append(chunks_touched(cohort, self.cluster, rank, matrix[position]))
        return found

    def _collect(self, collector: str) -> None:
        """Keep account of A in the collector buffer.

        Errors: InvalidOperand for the use of an A that is not in it.
        """
        buffers = self.origin.bundle.cohort.own(_Collectors)
        key = (self.cluster, self.place.ranks[0])
        a = self.plan.collected
        if collector.endswith("use") and buffers.get(key) != a:
            raise self.origin.error(
                InvalidOperand,
                f".{collector}, but the collector buffer does not hold this A. The tcgen05.mma before it must"
                " have the same A and .collector::a::fill or ::use.",
            )
        buffers[key] = a if collector in _KEEPING else None

    def a_region(self, part: Part) -> Region:
        """Where A in tensor memory lies, for a part of D."""
        plan = self.plan
        lane, column = split_address(plan.asked.a)
        if lane != plan.lane:
            raise self.origin.error(
                TensorMemoryLanesError,
                f"A at 0x{plan.asked.a:x} starts in lane {lane} and D in lane {plan.lane}: both must start"
                " in the same lane",
            )
        return region_of(part, column, plan.shape.k * plan.item // 4)

    def check_shared(self, *, issued: bool) -> None:
        """Refuse operands in shared memory as `check_source` does."""
        place, listeners = self.place, self.origin.bundle.cohort.listeners
        for rank in place.ranks:
            read = [operand for operand in place.read if operand[0] == rank]
            for tell in () if issued else listeners.operands_read:
                tell(self.origin, read)
            for _, what, chunks in read:
                check_source(self.origin, rank, chunks, what, issued=issued)
