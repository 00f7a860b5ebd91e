"""One tcgen05.mma that a thread has issued and that has still to complete."""

from __future__ import annotations

from typing import Any

from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.errors import TensorMemoryLanesError
from cutecourse.emulator.instructions.tcgen05.placement import Part, region_of
from cutecourse.emulator.instructions.tcgen05.plans import Plan
from cutecourse.emulator.memory.event_memory import chunks_touched, region_touches
from cutecourse.emulator.memory.proxies import TCGEN05, check_source
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.tensor_memory import Moving, TensorMemory, split_address

__all__ = ["Multiplication"]


class Multiplication:
    """A tcgen05.mma with its plan, and its place in the CTA or pair of the thread that issued it.

    `enable` says whether it adds to D, and `disabled` has the words of disable-output-lane.
    """

    __slots__ = ("cluster", "disabled", "enable", "issued", "moving", "origin", "place", "plan")

    def __init__(self, origin: Origin, plan: Plan, *, enable: bool, disabled: list[int]) -> None:
        self.origin = origin
        self.plan = plan
        self.enable = enable
        self.disabled = disabled
        self.cluster = origin.lane // WARP_SIZE
        self.place = plan.place(origin.bundle, origin.lane)
        self.issued: int | None = None
        """The number of the event that tells of its issue."""
        self.moving: list[tuple[TensorMemory, Moving]] = []
        """The regions of tensor memory that it reads or writes."""

    def a_region(self, part: Part) -> Region:
        """Where A in tensor memory lies, for a part of D. Errors: TensorMemoryLanesError."""
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
                check_source(self.origin, chunks, what, TCGEN05, rank=rank, issued=issued)

    def touches(self) -> list[dict[str, Any]]:
        """The memory that the operation reads and writes, for its event."""
        cohort, plan, place = self.origin.bundle.cohort, self.plan, self.place
        found = []
        for position, rank in enumerate(place.ranks):
            found += region_touches(rank, plan.regions, writes=True)
            if plan.a_in_tmem:
                a = [self.a_region(part) for part in plan.parts]
                found += region_touches(rank, a, writes=False)
            for matrix in place.matrices:
                found.append(chunks_touched(cohort, self.cluster, rank, matrix.places[position]))
        return found
