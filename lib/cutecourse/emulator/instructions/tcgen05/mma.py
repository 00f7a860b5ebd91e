"""tcgen05.mma: one thread has a CTA, or a pair, multiply matrices into tensor memory.

This module defines the instruction up to its issue. `plans` decodes the operands, `placement` says where the
matrices lie, and `completion` computes the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import DescriptorOperand, Facts, MemoryUse, Pipe
from cutecourse.emulator.core.kinds import Mask
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.owner import OwnerDict
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import InvalidOperand, TensorMemoryOperandError
from cutecourse.emulator.instructions.stating import SHARED_CHUNKS
from cutecourse.emulator.instructions.tcgen05.alloc import check_peer, take_cta_group
from cutecourse.emulator.instructions.tcgen05.completion import IssuedMma, complete
from cutecourse.emulator.instructions.tcgen05.plans import Operands, announce_all, plan_of
from cutecourse.emulator.instructions.tcgen05.queue import Queue, QueuedOperation
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.tensor_memory import Moving, TensorMemory
from cutecourse.ptx.syntax import Address, Instruction

__all__: list[str] = []

_PLAIN_KINDS = ("kind::f16", "kind::tf32", "kind::f8f6f4", "kind::i8")
_BLOCKS: dict[str, dict[str | None, int]] = {
    "kind::mxf8f6f4": {None: 32, "scale_vec::1X": 32, "block32": 32},
    "kind::mxf4": {None: 32, "scale_vec::2X": 32, "block32": 32},
    "kind::mxf4nvf4": {"scale_vec::2X": 32, "block32": 32, "scale_vec::4X": 16, "block16": 16},
}
"""For each kind with scale factors and each modifier, the elements along K that share a scale factor."""
_VECTORS = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
_REFUSED = {
    "ws": "products of one warp are not supported; take tcgen05.mma without .ws, with M = 64 or 128",
    "sp": "a sparse A is not supported; take the dense form, with the zeros of A in shared memory",
    "ashift": "rows of A shifted by one are not supported; copy A to the lanes where it is read",
}
_COLLECTORS = tuple(f"collector::a::{use}" for use in ("fill", "use", "lastuse", "discard"))
_KEEPING = _COLLECTORS[:2]
_AFTER_COMMIT = "Wait for the mbarrier of a tcgen05.commit after it."


def _facts(one: Instruction) -> Facts:
    return Facts(
        category="MMA",
        uses=(SHARED_CHUNKS, MemoryUse("tensor", 4, reads=True, writes=True)),
        pipe=Pipe.TCGEN05,
        uncounted="tcgen05.mma",
        publishes=True,
        descriptors=tuple(_descriptors(one)),
    )


def _descriptors(one: Instruction) -> Iterator[DescriptorOperand]:
    if len(one.operands) < 4:
        return
    for name, place in (("A", 1), ("B", 2)):
        if not isinstance(one.operands[place], Address):  # A may lie in tensor memory
            yield DescriptorOperand(name, place, "sm_100 matrix")
    kind = next((name.partition("::")[2] for name in one.modifiers if name.startswith("kind::")), "f16")
    # Scales in tensor memory may stand before it.
    found = next((i for i, o in enumerate(one.operands) if i >= 3 and not isinstance(o, Address)), None)
    if found is not None:
        yield DescriptorOperand("instruction", found, "instruction", kind)


@instruction("tcgen05.mma", facts=_facts)
def mma(site: Site) -> Step:
    """Multiply matrices into tensor memory, asynchronously: D = A * B + D, or D = A * B.

    Shapes:     once for each active lane: elect one. D is m x n, of the CTA or the pair, as the instruction
                descriptor says; A is m x k in shared memory or, 32 bits in a column, in tensor memory in the
                lanes of D's rows; B is k x n in shared memory. Lanes of D whose bit is set in
                disable-output-lane are not written. With .block_scale, each block of A and of B along K is
                multiplied by its scale factor. That of row r lies in tensor memory in column r / 32, in lane
                r % 32 and the lanes 32, 64 and 96 below it, in the byte that the data ID names, with those of
                the next blocks behind it. Each CTA of a pair has those of its rows of A and of all of B. With
                M = 128 its warps 0 and 1 have those of the first half of B's columns, and 2 and 3 those of
                the second.
    Units:      addresses in lanes and columns; descriptors in bits; scale-input-d is an exponent.
    Errors:     InvalidOperand for a descriptor's field, by its name; TensorMemoryOperandError,
                TensorMemoryHazard, UninitializedRead, MissingProxyFence, OverwrittenSource, AddressError (a
                matrix behind the end of shared memory, no peer).
    Simplified: reads its operands and writes D when it completes, at a time that the seed chooses, behind
                earlier operations on the same cells of tensor memory. Of a launch the first 256 complete
                one by one; after these, neighbours that add to one D may complete at once
                (`linking`). Products are exact, their sum and D are
                added in double precision and rounded once to nearest even, where the hardware cuts off
                aligned terms (emulator.numbers.tensor_core_sums): the last bits can differ. The collector
                buffer is accounted for, and A read again all the same. Without .ws, .sp and .ashift. Elements
                of A in tensor memory that are narrower than 8 bits and not packed lie in the middle of bytes,
                as tcgen05.cp unpacks them. The lanes of row r of D use the scale factors in their own warp's
                lanes; the copies must be equal. For a pair's M = 128 only CUTLASS's examples show where they
                lie.
    Source:     PTX ISA 9.0, tcgen05.mma (#tcgen05-mma-instructions-mma); Data Path Layout Organization;
                the two halves of a pair's 128 rows: the figure of layout B.
    """
    group = take_cta_group(site)
    kind = site.expect(*_PLAIN_KINDS, *_BLOCKS)
    for extra, instead in _REFUSED.items():
        if site.has(extra):
            site.unsupported(f".{extra}: {instead}")
    collector = site.one_of(*_COLLECTORS) or _COLLECTORS[-1]
    operands = Operands(site, group, kind.removeprefix("kind::"), _take_block(site, kind))

    def step(bundle: Bundle, mask: Mask) -> None:
        lanes = bundle.lanes(mask)
        every = operands.read(bundle, lanes)
        enable = bundle.rows["pred"][operands.enable].reshape(-1)
        masks = [bundle.rows["u32"][slot].reshape(-1) for slot in operands.mask]
        # The MMAs of several clusters mostly have the same operands.
        alike = len(set(every)) == 1
        looked_at = in_sight = False
        for position, lane in enumerate(lanes.tolist()):
            origin = Origin(site, bundle, lane)
            check_peer(origin, group)
            plan = plan_of(origin, operands, every[position], group)
            if not (looked_at and alike):
                in_sight = announce_all(plan, bundle, lanes[position:].tolist() if alike else [lane])
                looked_at = True
            disabled = [int(words[lane]) for words in masks]
            multiplication = IssuedMma(origin, plan, enable=bool(enable[lane]), disabled=disabled)
            _issue(multiplication, collector, in_sight=in_sight)

    return step


def _take_block(site: Site, kind: str) -> int | None:
    """Take .block_scale and the size of its blocks, in elements along K; None without."""
    blocks = _BLOCKS.get(kind)
    if site.has("block_scale") != (blocks is not None):
        site.unsupported(f".{kind} {'needs' if blocks else 'has no'} .block_scale")
    if blocks is None:
        return None
    vectors = site.one_of(*_VECTORS)
    if vectors not in blocks:
        known = " or ".join(f".{name}" for name in blocks if name)
        site.unsupported(f".{kind}.block_scale takes {known}")
    return blocks[vectors]


def _issue(mma: IssuedMma, collector: str, *, in_sight: bool) -> None:
    """Check an MMA, and issue it; `in_sight` says that all its operands in shared memory may be read."""
    origin, plan, place = mma.origin, mma.plan, mma.place
    asked, shape = plan.asked, plan.shape
    listeners = origin.bundle.cohort.listeners
    _collect(mma, collector)
    if not plan.parts:
        raise origin.error(
            TensorMemoryOperandError,
            f"D at 0x{asked.d:x} starts in lane {plan.lane}: with M = {shape.m} and .cta_group::"
            f"{plan.group} it must start in lane {' or '.join(map(str, plan.lanes))}",
        )
    for memory in place.memories:
        for part, region in zip(plan.parts, plan.regions, strict=True):
            _begin(mma, memory, region, "D", writes=True)
            if plan.a_in_tmem:
                _begin(mma, memory, mma.a_region(part), "A", writes=False)
        for name, region in plan.scales:
            _begin(mma, memory, region, f"tcgen05.mma's {name}", writes=False)
    if in_sight:
        for tell in listeners.operands_read:
            tell(origin, place.read)
    else:
        mma.check_shared(issued=False)
    for tell in listeners.matrix_read:
        for matrix in place.matrices:
            tell(origin, matrix)
    for tell in listeners.factors_read if plan.scales else ():
        regions = [region for _, region in plan.scales]
        tell(origin, place.memories, list(zip((place.a, place.b), regions, shape.scale_ids, strict=True)))
    for tell in listeners.accumulated:
        accumulator = (mma.cluster, place.ranks[0], asked.d, shape.m, shape.n)
        tell(
            origin,
            place.a,
            place.b,
            accumulator,
            adds=mma.enable,
            written=False,
            alone=(asked, *mma.disabled),
        )
    for tell in listeners.happened:
        mma.issued = tell(
            "mma.issue",
            origin,
            group=plan.group,
            m=shape.m,
            n=shape.n,
            k=shape.k,
            types=f"{shape.d}.{shape.a}.{shape.b}",
            a=asked.a,
            b=asked.b,
            d=asked.d,
            idesc=asked.idesc,
            accumulate=mma.enable,
            touches=mma.touches(),
        )
    key = None
    if not plan.a_in_tmem and not plan.scale and not plan.scales:
        # MMAs that differ in A and B in shared memory, and in adding to D, alone.
        key = (asked.d, asked.idesc, shape.a, plan.group, *mma.disabled)
    Queue.of(origin).add(
        QueuedOperation(origin, complete, mma.issued, touches=mma.moving, key=key, member=mma)
    )


def _begin(mma: IssuedMma, memory: TensorMemory, region: Region, what: str, *, writes: bool) -> None:
    """Check a region of tensor memory, and note that the MMA will read or write it."""
    origin = mma.origin
    memory.check_allocated(region, what, origin)
    memory.check_quiet(region, what, origin, writes=writes, pipeline="mma")
    listeners = origin.bundle.cohort.listeners
    if not writes:
        for tell in listeners.tensor_multiplied:
            tell(memory, region)
    elif not any(mma.disabled):
        for tell in listeners.tensor_summed:
            tell(memory, region, origin, mma.plan.shape.d, adds=mma.enable)
    moving = Moving(origin, region, writes=writes, remedy=_AFTER_COMMIT, pipeline="mma")
    memory.moving.append(moving)
    mma.moving.append((memory, moving))


class _Collectors(OwnerDict[tuple[int, int], tuple[Any, ...] | None]):
    """The A in each CTA's collector buffer, by cluster and rank."""


def _collect(mma: IssuedMma, collector: str) -> None:
    """Keep track of the A in the collector buffer.

    Errors: InvalidOperand for the use of an A that is not in it.
    """
    buffers = mma.origin.bundle.cohort.own(_Collectors)
    key = (mma.cluster, mma.place.ranks[0])
    a = mma.plan.collected
    if collector.endswith("use") and buffers.get(key) != a:
        raise mma.origin.error(
            InvalidOperand,
            f".{collector}, but the collector buffer does not hold this A. The tcgen05.mma before it must"
            " have the same A and .collector::a::fill or ::use.",
        )
    buffers[key] = a if collector in _KEEPING else None
