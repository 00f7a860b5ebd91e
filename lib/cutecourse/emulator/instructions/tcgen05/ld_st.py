"""tcgen05.ld, st and wait: a warp's registers and the quarter of tensor memory that the warp reaches.

Which register holds which cell is in emulator.instructions.tcgen05.fragments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts, MemoryUse, Pipe
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask, all_true
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.owner import OwnerDict
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.warp_values import each_warp, take_sync_aligned, tell_warp
from cutecourse.emulator.instructions.stating import by_modifiers
from cutecourse.emulator.instructions.tcgen05.alloc import uniform_value
from cutecourse.emulator.instructions.tcgen05.fragments import (
    MOST_REGISTERS,
    SHAPES,
    TensorMemoryFragment,
    fragment,
)
from cutecourse.emulator.memory.event_memory import region_touches
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.tensor_memory import (
    LANES,
    Moving,
    TensorMemories,
    TensorMemory,
    split_address,
)
from cutecourse.emulator.numbers.reductions import extreme_f32
from cutecourse.ptx.syntax import Instruction

__all__: list[str] = []

_REDUCED = ("32x32b", "16x32bx2")
_LEAST_REDUCED = 2
_COUNTS = ("x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128")
_HALF = np.uint32(0xFFFF)
_Places = NDArray[np.int64] | slice
_WARPS = 4
"""Warps of a warpgroup, each of which reaches a quarter of the lanes."""


@dataclass(frozen=True)
class _LoadReduction:
    """The .red of a load: each thread reduces what its registers get."""

    lowest: bool
    kind: str
    absolute: bool
    keeps_nan: bool
    slot: int

    @classmethod
    def take(cls, site: Site, shape: str, count: int) -> _LoadReduction:
        """The modifiers and the register of the result, the operand behind the vector."""
        if shape not in _REDUCED or count < _LEAST_REDUCED:
            site.unsupported(f".red goes with .{' and .'.join(_REDUCED)}, and with .x2 or more")
        lowest, kind = site.expect("min", "max") == "min", site.type("f32", "u32", "s32")
        absolute, keeps_nan = kind == "f32" and site.has("abs"), kind == "f32" and site.has("NaN")
        found = site.destinations(1, "u32")
        if len(found) != 1:
            site.invalid(
                f"{site.instruction.name} has one register for the result, and {len(found)} are given"
            )
        return cls(lowest, kind, absolute, keeps_nan, found[0])

    def of(self, values: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The results of threads, from the registers of each: (threads, registers) -> (threads,)."""
        if self.kind == "f32":
            return extreme_f32(values, lowest=self.lowest, absolute=self.absolute, keeps_nan=self.keeps_nan)
        whole = values.view(np.int32 if self.kind == "s32" else np.uint32)
        return np.ascontiguousarray((np.min if self.lowest else np.max)(whole, axis=-1)).view(np.uint32)


class _Access:
    """The shape, the address, and the cells of a warp: common to ld and st."""

    def __init__(self, site: Site, *, stores: bool) -> None:
        take_sync_aligned(site)
        self.stores = stores
        self.shape = site.expect(*SHAPES)
        count = int(site.expect(*_COUNTS)[1:])
        self.packed = site.has("unpack::16b" if stores else "pack::16b")
        self.reduction = _LoadReduction.take(site, self.shape, count) if site.has("red") else None
        if self.reduction is not None and self.packed:
            site.unsupported(".red does not go with .pack::16b")
        if self.reduction is None:
            site.type("b32")
        self.n_registers = SHAPES[self.shape] * count
        if self.n_registers > MOST_REGISTERS:
            site.unsupported(f".{self.shape}.x{count} would take {self.n_registers} registers")
        halves = self.shape == "16x32bx2"
        split = 0
        if halves:
            found = site.constant(1 if stores else 2 + (self.reduction is not None))
            if found is None:
                site.invalid("the offset of the second half must be an integer constant")
            if found < 0:
                site.invalid(f"the offset of the second half is {found}, but must be 0 or more columns")
            split = found
        self.fragment: TensorMemoryFragment = fragment(self.shape, count, split, packed=self.packed)
        (_, stop), *others = self.fragment.ranges
        if stores and any(first < stop for first, _ in others):
            site.invalid(f"with an offset of {split} columns both halves would store to the same cells")
        self.address = site.address(0 if stores else 1 + (self.reduction is not None))
        slots = site.sources(1 + halves, "u32") if stores else site.destinations(0, "u32")
        if len(slots) != self.n_registers:
            site.invalid(
                f"{site.instruction.name} takes {self.n_registers} registers, and {len(slots)} are given"
            )
        self.registers: slice | NDArray[np.int64] = slice(slots[0], slots[-1] + 1)
        """The rows of the registers: a slice, which is faster, if they are neighbours."""
        if slots != list(range(slots[0], slots[-1] + 1)):
            self.registers = np.array(slots, dtype=np.int64)
        self._regions: dict[tuple[int, int], list[Region]] = {}

    def cells(self, origin: Origin) -> tuple[TensorMemory, _Places, _Places, list[Region], int]:
        """Where a warp's cells lie, checked: memory, lanes, columns, regions and the address."""
        bundle = origin.bundle
        address = uniform_value(origin, self.address.lanes(bundle), "the address")
        lane, column = split_address(address & 0xFFFFFFFF)
        own = WARP_SIZE * (bundle.warp % _WARPS)
        span = self.fragment.lanes
        if not own <= lane <= own + WARP_SIZE - span or lane % span:
            which = f"lane {own}" if span == WARP_SIZE else f"lane {own} or {own + span}"
            left_out = lane < WARP_SIZE and not lane % span
            report(
                "lanes left out" if left_out else "wrong lanes",
                f"the address 0x{address:x} is in lane {lane}: warp {bundle.warp} reaches lanes {own} to"
                f" {own + WARP_SIZE - 1}, so .{self.shape} must start at {which}",
                origin,
            )
            lane = own + lane % WARP_SIZE // span * span
        memory = bundle.cohort.own(TensorMemories)[origin.cluster, bundle.rank]
        name = "tcgen05.st" if self.stores else "tcgen05.ld"
        regions = self._regions.get((lane, column))
        if regions is None:
            lanes = np.zeros(LANES, dtype=np.bool_)
            lanes[lane : lane + span] = True
            regions = [Region(lanes, column + first, column + stop) for first, stop in self.fragment.ranges]
            self._regions[lane, column] = regions
        listeners = bundle.cohort.listeners
        for region in regions:
            memory.check_allocated(region, name, origin)
            memory.check_quiet(region, name, origin, writes=self.stores)
            for tell in listeners.tensor_stored if self.stores else ():
                tell(memory, region)
            for tell in () if self.stores else listeners.tensor_loaded:
                tell(memory, region, origin, packed=self.packed)
        if span == WARP_SIZE:
            # Each thread has one lane, and its cells are neighbours.
            stop = column + self.fragment.column.shape[1]
            return memory, slice(lane, lane + span), slice(column, stop), regions, address
        return memory, self.fragment.lane + lane, self.fragment.column + column, regions, address

    def tell(self, origin: Origin, address: int, regions: list[Region]) -> None:
        """Record the access."""
        for tell in origin.bundle.cohort.listeners.happened:
            tell(
                "tmem.store" if self.stores else "tmem.load",
                origin,
                one=False,
                address=address,
                shape=self.shape,
                registers=self.n_registers,
                touches=region_touches(origin.bundle.rank, regions, writes=self.stores),
            )


@by_modifiers
def _ld_facts(one: Instruction) -> Facts:
    return Facts(
        category="tcgen05",
        results=2 if "red" in one.modifiers else 1,
        uses=(MemoryUse("tensor", 4, reads=True),),
        pipe=Pipe.TENSOR_LOADS,
    )


@instruction("tcgen05.ld", facts=_ld_facts)
def ld(site: Site) -> Step:
    """Load a warp's registers from tensor memory.

    Shapes:     a whole warp; the address is the same in all lanes. Warp w reaches lanes 32 (w % 4) and the 31
                after it. With .pack::16b a register takes the low halves of two neighbouring columns. With
                .red one more register gets the least or greatest of what the thread loads; .abs takes each
                f32 without its sign, and a NaN counts only with .NaN or if all are NaN.
    Units:      lanes and columns of 32 bits; the second half's offset of .16x32bx2 in columns.
    Errors:     TensorMemoryLanesError (lanes of another warp, columns that are not allocated),
                TensorMemoryHazard for what a tcgen05.st, mma or cp has still to write, UninitializedRead for
                a register whose cells nobody has written, NonUniformOperand, DivergedWarp.
    Simplified: the registers have their values at once. The ISA makes an instruction that reads them follow
                the load, with or without tcgen05.wait::ld; the wait is for the cells, not the registers.
                Writing or freeing the cells after the load and before the wait is an error if the thread
                has told others before it used what it loaded, and otherwise a note
                (emulator.core.hazards).
    Source:     PTX ISA 9.0, tcgen05.ld (#tcgen05-instructions-tcgen05-ld); Access restrictions; Memory
                Consistency Model for 5th generation of TensorCore operations, register dependencies.
    """
    access = _Access(site, stores=False)
    reduction = access.reduction

    def step(bundle: Bundle, mask: Mask) -> None:
        registers = bundle.rows.all("u32")
        for origin in each_warp(site, bundle, mask):
            memory, lane, column, regions, address = access.cells(origin)
            if not memory.full.issuperset(regions):
                written = memory.written[lane, column]
                if all_true(written):
                    memory.full.update(regions)
                elif not written.any(axis=0).all():
                    cell = int(np.argmin(written.any(axis=0)))
                    first = split_address(address)[1] + int(access.fragment.column[0, cell])
                    report(
                        "never written",
                        f"register {cell // (1 + access.packed)} would be loaded from column"
                        f" {first}, which has not been written since it was allocated. Is a"
                        " tcgen05.mma, st or cp missing, or a wait for its commit's mbarrier, or is"
                        " the address wrong?",
                        origin,
                    )
            values = memory.cells[lane, column]
            if access.packed:
                values = (values[:, 0::2] & _HALF) | (values[:, 1::2] << np.uint32(16))
            registers[access.registers, origin.cluster] = values.T
            if reduction is not None:
                registers[reduction.slot, origin.cluster] = reduction.of(np.ascontiguousarray(values))
            memory.order.load(regions, origin)
            access.tell(origin, address, regions)

    return step


@dataclass(eq=False, slots=True)
class _PendingStore:
    """The values that a tcgen05.st writes when its warp waits for it."""

    memory: TensorMemory
    lane: _Places
    column: _Places
    values: NDArray[np.uint32]
    moving: list[Moving]

    def complete(self) -> None:
        """Write the values."""
        self.memory.cells[self.lane, self.column] = self.values
        self.memory.written[self.lane, self.column] = True
        for moving in self.moving:
            self.memory.end(moving)


class _Stores(OwnerDict[int, list[_PendingStore]]):
    """Stores that the warps of a bundle have issued and not waited for, by the cluster's position."""


@instruction(
    "tcgen05.st",
    facts=Facts(
        category="tcgen05",
        uses=(MemoryUse("tensor", 4, writes=True),),
        pipe=Pipe.TENSOR_STORES,
        publishes=True,
    ),
)
def st(site: Site) -> Step:
    """Store a warp's registers to tensor memory.

    Shapes:     as tcgen05.ld. With .unpack::16b a register's halves go to the low halves of two neighbouring
                columns.
    Units:      as tcgen05.ld.
    Errors:     TensorMemoryLanesError, TensorMemoryHazard for cells that another operation has still to read
                or to write, NonUniformOperand, DivergedWarp.
    Simplified: the cells are written by the warp's tcgen05.wait::st and not before; the hardware may do it
                sooner. The upper halves that .unpack::16b leaves are zero; the document does not say.
    Source:     PTX ISA 9.0, tcgen05.st (#tcgen05-instructions-tcgen05-st); Access restrictions.
    """
    access = _Access(site, stores=True)

    def step(bundle: Bundle, mask: Mask) -> None:
        registers = bundle.rows.all("u32")
        waiting = bundle.own(_Stores)
        for origin in each_warp(site, bundle, mask):
            memory, lane, column, regions, address = access.cells(origin)
            values: NDArray[Any] = registers[access.registers, origin.cluster].copy().T
            if access.packed:
                values = np.stack([values & _HALF, values >> np.uint32(16)], axis=-1).reshape(WARP_SIZE, -1)
            moving = [
                Moving(origin, region, writes=True, remedy="Its warp must execute tcgen05.wait::st first.")
                for region in regions
            ]
            memory.moving += moving
            waiting.setdefault(origin.cluster, []).append(_PendingStore(memory, lane, column, values, moving))
            access.tell(origin, address, regions)

    return step


@by_modifiers
def _wait_facts(one: Instruction) -> Facts:
    loads = one.modifiers[0] == "wait::ld"
    return Facts(category="tcgen05", waits_for=Pipe.TENSOR_LOADS if loads else Pipe.TENSOR_STORES)


@instruction("tcgen05.wait::ld", "tcgen05.wait::st", facts=_wait_facts)
def wait(site: Site) -> Step:
    """Wait until the thread's earlier tcgen05.ld, or tcgen05.st, are complete.

    Shapes:     a whole warp; no operands.
    Errors:     DivergedWarp.
    Simplified: the registers of a tcgen05.ld have their values already. tcgen05.wait::ld ends the load's use
                of its cells: others may write or free them once they are told.
    Source:     PTX ISA 9.0, tcgen05.wait (#tcgen05-instructions-tcgen05-wait).
    """
    name = site.instruction.modifiers[0].removeprefix("wait::")
    take_sync_aligned(site)

    def step(bundle: Bundle, mask: Mask) -> None:
        for origin in each_warp(site, bundle, mask):
            cluster = origin.cluster
            if name == "st":
                for store in bundle.own(_Stores).pop(cluster, ()):
                    store.complete()
            else:
                memory = bundle.cohort.own(TensorMemories)[cluster, bundle.rank]
                loads = memory.order.waited_for_loads((cluster, bundle.rank, bundle.warp))
                for tell in bundle.cohort.listeners.tensor_loads_over if loads else ():
                    tell(memory, bundle, cluster, loads)
            tell_warp(origin, "tmem.wait", name=name)

    return step
