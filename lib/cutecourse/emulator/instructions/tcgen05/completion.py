"""A tcgen05.mma from its issue on. At its completion it reads the A, B and D of that moment, and writes D.

Consecutive ones that add to one D may complete at once. Each still rounds its own sum, so the results are
those of completing one by one; but their operands are gathered and converted to numbers only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.errors import InvalidOperand, TensorMemoryOperandError
from cutecourse.emulator.instructions.tcgen05.placement import PartOfD, along_k, region_of
from cutecourse.emulator.instructions.tcgen05.plans import MmaPlan
from cutecourse.emulator.memory.event_memory import chunks_touched, region_touches
from cutecourse.emulator.memory.matrix_descriptor import SharedMatrix
from cutecourse.emulator.memory.proxies import TCGEN05, all_in_sight, check_source, first_bytes
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.tensor_memory import LANES, Moving, TensorMemory, split_address
from cutecourse.emulator.numbers.tcgen05_sums import (
    Factors,
    accumulate_in_turn,
    numbers,
    sums_are_exact,
    widened,
)

__all__ = ["IssuedMma", "complete"]


class IssuedMma:
    """A tcgen05.mma with its plan, and its place in the CTA or pair of the thread that issued it.

    `enable` says whether it adds to D, and `disabled` has the words of disable-output-lane.
    """

    __slots__ = ("cluster", "disabled", "enable", "issued", "moving", "origin", "place", "plan")

    def __init__(self, origin: Origin, plan: MmaPlan, *, enable: bool, disabled: list[int]) -> None:
        self.origin = origin
        self.plan = plan
        self.enable = enable
        self.disabled = disabled
        self.cluster = origin.cluster
        self.place = plan.place(origin.bundle, origin.lane)
        self.issued: int | None = None
        """The number of the event that tells of its issue."""
        self.moving: list[tuple[TensorMemory, Moving]] = []
        """The regions of tensor memory that it reads or writes."""

    def a_region(self, part: PartOfD) -> Region:
        """Where A in tensor memory lies, for a part of D. Errors: TensorMemoryOperandError."""
        plan = self.plan
        lane, column = split_address(plan.asked.a)
        if lane != plan.lane:
            raise self.origin.error(
                TensorMemoryOperandError,
                f"A at 0x{plan.asked.a:x} starts in lane {lane} and D in lane {plan.lane}: both must start"
                " in the same lane",
            )
        return region_of(part, column, plan.a_columns)

    def check_shared(self, *, issued: bool) -> None:
        """Refuse operands in shared memory as `check_source` does."""
        place, listeners = self.place, self.origin.bundle.cohort.listeners
        for rank in place.ranks:
            read = [operand for operand in place.read if operand[0] == rank]
            for tell in () if issued else listeners.operands_read:
                tell(self.origin, read)
            for _, what, chunks, _span in read:
                filled = first_bytes(self.plan.filled[what])
                check_source(self.origin, chunks, what, TCGEN05, rank=rank, needed=filled, issued=issued)

    def touches(self) -> list[dict[str, Any]]:
        """The memory that the operation reads and writes, for its event."""
        cohort, plan, place = self.origin.bundle.cohort, self.plan, self.place
        found = []
        for position, rank in enumerate(place.ranks):
            found += region_touches(rank, plan.regions, writes=True)
            if plan.a_in_tmem:
                a = [self.a_region(part) for part in plan.parts]
                found += region_touches(rank, a, writes=False)
            found += region_touches(rank, [region for _, region in plan.scales], writes=False)
            for matrix in place.matrices:
                found.append(chunks_touched(cohort, self.cluster, rank, matrix.places[position]))
        return found


def complete(mmas: Sequence[IssuedMma]) -> None:
    """Complete one, or several that differ in A and B in shared memory, and in adding to D, alone.

    Errors: OverwrittenSource, UninitializedRead.
    """
    cohort = mmas[0].origin.bundle.cohort
    listeners = cohort.listeners.happened_in
    if not listeners:
        _multiply(mmas)
    for tell in listeners:
        for mma in mmas:
            # Each event comes right after its own multiplication and before the next one.
            _multiply([mma])
            origin = mma.origin
            tell("mma.complete", cohort, mma.cluster, origin.bundle.rank, origin.site.line, issue=mma.issued)


def _multiply(mmas: Sequence[IssuedMma]) -> None:
    """Complete them without events."""
    *before, last = mmas
    for mma in before:
        # Others see only what the last one writes.
        for memory, moving in mma.moving:
            memory.moving.remove(moving)
    for memory, moving in last.moving:
        memory.end(moving)
    plan, shape = last.plan, last.plan.shape
    of_a = [mma.plan.a_matrix for mma in mmas if mma.plan.a_matrix]
    a_chunks = _chunks(mmas, of_a, k_major=shape.a_k_major) if of_a else None
    b_chunks = _chunks(mmas, [mma.plan.b_matrix for mma in mmas], k_major=shape.b_k_major)
    _check_shared(mmas, [b_chunks] if a_chunks is None else [a_chunks, b_chunks])
    b = _factors(mmas, b_chunks, shape.b, k_major=shape.b_k_major, negate=shape.negate_b)
    if a_chunks is not None:
        a = _factors(mmas, a_chunks, shape.a, k_major=shape.a_k_major, negate=shape.negate_a)
        exact = [sums_are_exact(a, b, index) for index in range(len(mmas))]
    own = shape.m // plan.group
    for position, memory in enumerate(last.place.memories):
        rows = slice(position * own, (position + 1) * own)
        for part, region in zip(plan.parts, plan.regions, strict=True):
            columns = slice(part.first, part.stop)
            if a_chunks is None:
                a, rows = _in_tensor_memory(last, memory, part), slice(None)
                exact = [sums_are_exact(a, b)]
            values_a, values_b = a.values[:, :, rows], b.values[:, :, columns]
            if plan.scales:
                scales_a, scales_b = (_scales(last, memory, part, which) for which in (0, 1))
                scaled_a = a.scaled(rows, scales_a, shape.scales)
                scaled_b = b.scaled(columns, scales_b, shape.scales)
                values_a, values_b = scaled_a.values, scaled_b.values
                exact = [sums_are_exact(scaled_a, scaled_b)]
            factors = list(zip(values_a, values_b, exact, strict=True))
            _write(mmas, memory, part, region, factors, position)


# --- A and B ------------------------------------------------------------------------------------------------


def _chunks(
    mmas: Sequence[IssuedMma], matrices: Sequence[SharedMatrix], *, k_major: bool
) -> NDArray[np.int64]:
    """The chunks of a matrix in each CTA's shared memory, of one MMA behind the other along K.

    Numbers among the cohort's, shape (CTAs, rows, chunks).
    """
    chunks = along_k(tuple(matrices), k_major=k_major)
    return chunks + np.array(mmas[0].place.starts, dtype=np.int64)[:, None, None]


def _check_shared(mmas: Sequence[IssuedMma], places: list[NDArray[np.int64]]) -> None:
    """Refuse operands that were changed since the issue, each MMA its own."""
    _, written = mmas[0].origin.bundle.cohort.shared_chunks
    for chunks in places:
        if not all_in_sight(written[chunks]):
            for mma in mmas:
                mma.check_shared(issued=True)
            return


def _factors(
    mmas: Sequence[IssuedMma], chunks: NDArray[np.int64], kind: str, *, k_major: bool, negate: bool
) -> Factors:
    """The CTAs' parts of a matrix in shared memory, one behind the other along M or N, for each MMA."""
    held, _ = mmas[0].origin.bundle.cohort.shared_chunks
    plan = mmas[0].plan
    elements = held[chunks].view(f"u{plan.item}")
    if plan.item == 1:
        elements, kind = widened(elements, kind, packed=plan.packed), "f16"
    if k_major:
        # By rows of K; of elements it is less work than of the numbers made from them.
        by_k = elements.reshape(-1, elements.shape[2]).T
    else:
        by_k = elements.transpose(1, 0, 2).reshape(elements.shape[1], -1)
    return Factors.of(np.ascontiguousarray(by_k), len(mmas), kind, negate=negate)


def _in_tensor_memory(mma: IssuedMma, memory: TensorMemory, part: PartOfD) -> Factors:
    """A CTA's rows of A in tensor memory."""
    region = mma.a_region(part)
    columns = slice(region.first, region.stop)
    _check_written(mma, memory, part.lanes, part.rows, columns, "A")
    held = np.ascontiguousarray(memory.cells[part.rows, columns]).view(f"u{mma.plan.item}")
    kind = mma.plan.shape.a
    if mma.plan.item == 1:
        held, kind = widened(held, kind, packed=mma.plan.packed, in_bytes=not mma.plan.packed), "f16"
    return Factors.of(np.ascontiguousarray(held.T), 1, kind, negate=mma.plan.shape.negate_a)


def _scales(mma: IssuedMma, memory: TensorMemory, part: PartOfD, which: int) -> NDArray[np.uint8]:
    """The scale factors of A (0) or B (1) for a part of D in a CTA as codes, shape (rows, blocks).

    Errors: InvalidOperand if the lanes of the warps that have the part hold different ones.
    """
    plan = mma.plan
    name, region = plan.scales[which]
    rows = part.stop - part.first if which else plan.shape.m // plan.group
    columns = slice(region.first, region.stop)
    first_lane, stop_lane = int(part.lanes[0]), int(part.lanes[-1]) + 1
    every = np.arange(first_lane, stop_lane, dtype=np.int64)
    used = every[every % WARP_SIZE < rows]
    _check_written(mma, memory, used, used, columns, name)
    held = np.ascontiguousarray(memory.cells[first_lane:stop_lane, columns]).view(np.uint8)
    first, warps = plan.shape.scale_ids[which], len(every) // WARP_SIZE
    codes = held.reshape(warps, WARP_SIZE, -1, 4)[..., first : first + plan.n_scales].transpose(0, 2, 1, 3)
    each: NDArray[np.uint8] = codes.reshape(warps, -1, plan.n_scales)[:, :rows]
    if (each != each[0]).any():
        warp, row, _ = np.argwhere(each != each[0])[0]
        shape = "32x128b.warpx4" if warps == LANES // WARP_SIZE else "64x128b.warpx2::01_23"
        raise mma.origin.error(
            InvalidOperand,
            f"the {name} differ between the lanes of warps {first_lane // WARP_SIZE} and"
            f" {first_lane // WARP_SIZE + warp} in row {part.first * which + row}. All {warps} warps from"
            f" there on must hold the same: copy them with .{shape}.",
        )
    first_copy: NDArray[np.uint8] = each[0]
    return first_copy


# --- D ------------------------------------------------------------------------------------------------------


def _check_written(
    mma: IssuedMma,
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
            " memory, which has not been written since it was allocated"
            + (". Should the first tcgen05.mma have enable-input-d false?" if what == "D" else ""),
            mma.origin,
        )


def _write(
    mmas: Sequence[IssuedMma],
    memory: TensorMemory,
    part: PartOfD,
    region: Region,
    factors: Sequence[tuple[NDArray[np.float64], NDArray[np.float64], bool]],
    position: int,
) -> None:
    """Add the products to a part of D in the CTA at a position in the pair.

    `factors` are those of each MMA, by rows of K, and whether their sums are exact.
    """
    first = mmas[0]
    scale, saturate = first.plan.scale, first.plan.shape.saturate
    rows, lanes, kind = part.rows, part.lanes, first.plan.shape.d
    columns = slice(region.first, region.stop)
    kept: NDArray[np.bool_] | slice = slice(None)
    masks = first.disabled[4 * position : 4 * position + 4]
    if any(masks):
        words = np.array(masks, dtype=np.uint32)
        enabled = (words[lanes // 32] >> (lanes % 32).astype(np.uint32)) & 1 == 0
        if not enabled.all():
            kept = enabled
            rows = lanes = lanes[kept]
    c = None
    if first.enable:
        if region not in memory.full:
            _check_written(first, memory, lanes, rows, columns, "D")
        c = numbers(memory.cells[rows, columns], kind)
        if scale:
            c = c.astype(np.float64) * 2.0**-scale
    products: list[tuple[NDArray[np.float64], NDArray[np.float64], bool]] = []
    for mma, (a, b, exact) in zip(mmas, factors, strict=True):
        if not mma.enable:
            # An MMA that does not add to D discards the sums before it.
            products, c = [], None
        products.append((a.T[kept], b.T, exact))
    if isinstance(rows, slice):
        accumulate_in_turn(products, c, kind, out=memory.cells[rows, columns], saturate=saturate)
    else:
        memory.cells[rows, columns] = accumulate_in_turn(products, c, kind, saturate=saturate)
    if region not in memory.full:
        memory.written[rows, columns] = True
        if isinstance(kept, slice):
            memory.full.add(region)
