"""Warpgroups: four warps that execute each wgmma instruction together, and their pending operations.

The four warps reach an instruction one after another. It is issued when the last one reaches it, and
completes at a time that the seed chooses, after earlier operations on the same accumulators. No warp waits
for the others before wgmma.wait_group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort, Split
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.machine import PendingWork
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.owner import OwnerDict
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.waits import Meeting
from cutecourse.emulator.errors import DivergedWarp, NonUniformOperand

__all__ = ["WARPS", "Common", "InFlight", "Lagging", "Warpgroup"]

WARPS = 4
"""The number of warps in a warpgroup; the first one's rank in the block is a multiple of it."""


@dataclass(eq=False)
class InFlight:
    """An operation that a warp has issued and for which it has not waited."""

    site: Site
    group: Warpgroup
    shape: tuple[int, int, str]
    """N, K and the type of D."""
    writes: NDArray[np.int64]
    """The watched registers of D (emulator.instructions.wgmma.registers)."""
    reads: NDArray[np.int64]
    work: PendingWork | None = field(default=None, init=False)
    """None until all four warps have reached it."""

    @property
    def under_way(self) -> bool:
        """True until the operation is complete."""
        return self.work is None or not self.work.done

    def settle(self) -> None:
        """Complete the operation now if all four warps have reached it."""
        if self.work is not None:
            self.work.finish()


_Operands = tuple[int | None, int, bool] | None
"""The descriptors of A and B, and scale-d."""


@dataclass(eq=False, slots=True)
class Common:
    """One instruction that the warps of a warpgroup execute together."""

    site: Site
    operands: _Operands
    first: int
    """The warp that reached it first."""
    arrived: int = 0
    """The number of warps that have reached it."""
    operation: Any = None
    """The operation that it stands for, the same for all four."""


@dataclass(eq=False)
class Warpgroup:
    """Four warps of one block."""

    cohort: Cohort
    cluster: int
    rank: int
    bundles: list[Bundle]
    common: deque[Common] = field(default_factory=deque)
    """Instructions that some warps have reached and others have not, oldest first."""
    passed: int = 0
    """The number of instructions that all four warps have reached."""
    position: list[int] = field(default_factory=lambda: [0] * WARPS)
    """The number of instructions that each warp has reached."""
    running: list[InFlight] = field(default_factory=list)
    """Operations that are issued and not complete, oldest first."""
    issues: list[int | None] = field(default_factory=list)
    """The events of the operations that belong to no group yet, where a recorder keeps them."""
    waiting: list[tuple[Bundle, Split]] = field(default_factory=list)
    """Warps that wait for operations that not all four warps have reached."""

    @classmethod
    def of(cls, origin: Origin) -> Warpgroup:
        """The warpgroup of a warp. Errors: DivergedWarp if the block has fewer than its four whole warps."""
        bundle = origin.bundle
        groups = bundle.cohort.own(_Warpgroups)
        number = bundle.warp // WARPS
        key = (origin.cluster, bundle.rank, number)
        found = groups.get(key)
        if found is None:
            if not cls.is_whole(bundle):
                threads = bundle.machine.threads_per_block
                raise origin.error(
                    DivergedWarp,
                    f"{origin.site.instruction.name} needs a whole warpgroup, warps {WARPS * number} to"
                    f" {WARPS * number + WARPS - 1} of the block, but the block has only {threads} threads",
                )
            start = bundle.rank * bundle.machine.warps_per_block + number * WARPS
            bundles = bundle.cohort.bundles[start : start + WARPS]
            found = groups[key] = cls(bundle.cohort, origin.cluster, bundle.rank, bundles)
        return found

    @staticmethod
    def is_whole(bundle: Bundle) -> bool:
        """True if the block has all four warps of a warp's warpgroup."""
        last = bundle.warp // WARPS * WARPS + WARPS
        return bundle.machine.threads_per_block >= last * WARP_SIZE

    def come(
        self,
        origin: Origin,
        operands: _Operands = None,
        stands_for: Callable[[Common, Origin], bool] = lambda found, origin: False,
    ) -> Common:
        """Note that a warp has reached an instruction.

        `stands_for` says whether the instruction may take the place of a different one, which another warp
        has reached. Errors: DivergedWarp if it may not; NonUniformOperand.
        """
        site, number = origin.site, origin.bundle.warp
        index = self.position[number % WARPS] - self.passed
        self.position[number % WARPS] += 1
        if index == len(self.common):
            self.common.append(Common(site, operands, number))
        found = self.common[index]
        if found.site is not site and not stands_for(found, origin):
            raise origin.error(
                DivergedWarp,
                f"warp {number} executes {site.instruction.name} where warp {found.first} of its"
                f" warpgroup executed {found.site.instruction.name} at line"
                f" {found.site.line}. All four warps must execute the same wgmma and setmaxnreg instructions"
                " in the same order.",
            )
        if found.operands != operands:
            raise origin.error(
                NonUniformOperand,
                f"descriptors and scale-d of {site.instruction.name} are {_shown(operands)} in warp"
                f" {number} but {_shown(found.operands)} in warp {found.first} of its warpgroup",
            )
        found.arrived += 1
        if found.arrived == WARPS:
            self.common.popleft()
            self.passed += 1
        return found

    @staticmethod
    def started(cohort: Cohort, cluster: int, rank: int) -> list[Warpgroup]:
        """The warpgroups of a block that have reached a wgmma or setmaxnreg instruction."""
        return [group for key, group in cohort.own(_Warpgroups).items() if key[:2] == (cluster, rank)]

    def ahead(self, bundle: Bundle) -> list[Site]:
        """The instructions that a warp has reached and not all others have, oldest first."""
        here = self.position[bundle.warp % WARPS] - self.passed
        return [found.site for found in list(self.common)[:here]]

    def behind(self) -> Iterator[tuple[Site, list[int]]]:
        """For each instruction that some warps have reached: the warps that have not."""
        for index, found in enumerate(self.common, self.passed):
            warps = zip(self.bundles, self.position, strict=True)
            yield found.site, [bundle.warp for bundle, at in warps if at <= index]

    def wake(self) -> None:
        """Let the waiting warps test again."""
        waiting, self.waiting = self.waiting, []
        for bundle, split in waiting:
            if split in bundle.splits and isinstance(split.waiting, Lagging):
                bundle.unpark(split)


@dataclass(frozen=True)
class Lagging(Meeting):
    """The wait of a warp for operations that other warps of its warpgroup have not reached."""

    site: Site
    pending: Site

    @property
    def line(self) -> int:
        """The line of the wgmma.wait_group."""
        return self.site.line

    @property
    def needs(self) -> str:
        """The rule that is broken if the other warps never come."""
        return (
            f"{self.pending.instruction.name} at line {self.pending.in_words} must be executed by all four"
            " warps of the warpgroup"
        )

    def describe(self, warp: int) -> str:
        """Say why the warp waits."""
        where = self.pending.in_words
        return f"waits at wgmma.wait_group for other warps of its warpgroup to reach line {where}"


def _shown(operands: _Operands) -> str:
    return ", ".join(
        str(x) if isinstance(x, bool) else f"0x{x:016x}" for x in operands or () if x is not None
    )


class _Warpgroups(OwnerDict[tuple[int, int, int], Warpgroup], Observer):
    """The warpgroups of a cohort that have reached such an instruction, by cluster, rank and number."""

    def __init__(self, cohort: Cohort) -> None:
        super().__init__(cohort)
        cohort.listeners.subscribe(self)

    def cohort_ended(self, cohort: Cohort) -> None:
        """Refuse an instruction that a warp of its warpgroup never executed. Errors: DivergedWarp."""
        for group in self.values():
            if group.common:
                found = group.common[0]
                absent = [str(warp) for warp in next(group.behind())[1]]
                bundle = group.bundles[found.first % WARPS]
                raise found.site.error(
                    DivergedWarp,
                    f"the block ended, but warp {', '.join(absent)} of the warpgroup never executed"
                    f" {found.site.instruction.name}, which all four warps must execute",
                    bundle,
                    group.cluster * WARP_SIZE,
                )
