"""Warpgroups: four warps that execute each wgmma instruction together, and what they have under way.

The four warps come to an instruction one after another; it is issued when the last has come, and completes
at a time that the seed chooses, behind earlier operations on the same accumulators. No warp waits for the
others before wgmma.wait_group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort, Split
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.machine import PendingWork
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.owner import OwnerDict
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import DivergedWarp, NonUniformOperand

__all__ = ["WARPS", "InFlight", "Warpgroup"]

WARPS = 4
"""Warps of a warpgroup: those whose rank in the block begins with a multiple of it."""


class InFlight(Protocol):
    """An operation that a warp has issued and not waited for."""

    site: Site
    group: Warpgroup
    shape: tuple[int, int, str]
    """N, K and the type of D."""
    writes: NDArray[np.int64]
    reads: NDArray[np.int64]
    work: PendingWork | None
    """None until all four warps have come to it."""

    @property
    def under_way(self) -> bool:
        """True until the operation is complete."""

    def settle(self) -> None:
        """Complete it now, where it can be."""


class Issued(Protocol):
    """Actions at the first and at the last warp that reaches an instruction."""

    def begin(self, bundle: Bundle) -> None:
        """The first warp has come."""

    def issue(self, bundle: Bundle) -> None:
        """The last warp has come."""


@dataclass(eq=False, slots=True)
class _Common:
    """One instruction that the warps of a warpgroup execute together."""

    site: Site
    operands: Hashable
    first: int
    """The warp that came first."""
    what: Issued | None
    arrived: int = 0


@dataclass(eq=False)
class Warpgroup:
    """Four warps of one block."""

    cohort: Cohort
    cluster: int
    rank: int
    bundles: list[Bundle]
    common: deque[_Common] = field(default_factory=deque)
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
    """Warps that wait for operations to which not all four have come."""

    @classmethod
    def of(cls, site: Site, bundle: Bundle, cluster: int) -> Warpgroup:
        """A warp's. Errors: DivergedWarp, where its block has no four whole warps from the first on."""
        cohort = bundle.cohort
        groups = cohort.own(_Warpgroups)
        number = bundle.warp // WARPS
        key = (cluster, bundle.rank, number)
        found = groups.get(key)
        if found is None:
            threads = bundle.machine.threads_per_block
            if threads < (number + 1) * WARPS * WARP_SIZE:
                raise site.error(
                    DivergedWarp,
                    f"{site.instruction.name} needs a whole warpgroup, warps {WARPS * number} to"
                    f" {WARPS * number + WARPS - 1} of the block, but the block has only {threads} threads",
                    bundle,
                    cluster * WARP_SIZE,
                )
            per_block = bundle.machine.warps_per_block
            start = bundle.rank * per_block + number * WARPS
            bundles = cohort.bundles[start : start + WARPS]
            found = groups[key] = cls(cohort, cluster, bundle.rank, bundles)
        return found

    def come(
        self, site: Site, bundle: Bundle, operands: Hashable, what: Issued | None = None
    ) -> Issued | None:
        """A warp has come to an instruction; returns what it stands for, the same for all four.

        Errors: DivergedWarp, where another warp has come to another instruction; NonUniformOperand.
        """
        warp = bundle.warp % WARPS
        index = self.position[warp] - self.passed
        self.position[warp] += 1
        if index == len(self.common):
            self.common.append(_Common(site, operands, bundle.warp, what))
            if what is not None:
                what.begin(bundle)
        found = self.common[index]
        if found.site is not site:
            raise site.error(
                DivergedWarp,
                f"warp {bundle.warp} executes {site.instruction.name} where warp {found.first} of its"
                f" warpgroup executed {found.site.instruction.name} at line"
                f" {found.site.line}. All four warps must execute the same wgmma and setmaxnreg instructions"
                " in the same order.",
                bundle,
                self.cluster * WARP_SIZE,
            )
        if found.operands != operands:
            raise site.error(
                NonUniformOperand,
                f"descriptors and scale-d of {site.instruction.name} are {_shown(operands)} in warp"
                f" {bundle.warp} but {_shown(found.operands)} in warp {found.first} of its warpgroup",
                bundle,
                self.cluster * WARP_SIZE,
            )
        found.arrived += 1
        if found.arrived == WARPS:
            self.common.popleft()
            self.passed += 1
            if found.what is not None:
                found.what.issue(bundle)
                self._wake()
        return found.what

    @staticmethod
    def started(cohort: Cohort, cluster: int, rank: int) -> list[Warpgroup]:
        """The warpgroups of a block that have come to such an instruction."""
        return [group for key, group in cohort.own(_Warpgroups).items() if key[:2] == (cluster, rank)]

    def ahead(self, bundle: Bundle) -> list[Site]:
        """Instructions to which a warp has come and not all others have, oldest first."""
        here = self.position[bundle.warp % WARPS] - self.passed
        return [found.site for found in list(self.common)[:here]]

    def behind(self) -> Iterator[tuple[Site, list[int]]]:
        """For each instruction to which some warps have come: the warps that have not."""
        for index, found in enumerate(self.common):
            yield (
                found.site,
                [
                    b.warp
                    for b, at in zip(self.bundles, self.position, strict=True)
                    if at - self.passed <= index
                ],
            )

    def _wake(self) -> None:
        """Let who waits look again."""
        waiting, self.waiting = self.waiting, []
        for bundle, split in waiting:
            if split in bundle.splits and isinstance(split.waiting, Lagging):
                bundle.unpark(split)


@dataclass(frozen=True)
class Lagging:
    """A warp waits for operations to which other warps of its warpgroup have not come."""

    line: int
    pending: Site

    @property
    def needs(self) -> str:
        """The rule that warps which never come have broken."""
        return (
            f"{self.pending.instruction.name} at line {self.pending.line} must be executed by all four"
            " warps of the warpgroup"
        )

    def describe(self, warp: int) -> str:
        """Why the warp waits."""
        return f"waits at wgmma.wait_group for other warps of its warpgroup to reach line {self.pending.line}"


def _shown(operands: Hashable) -> str:
    if not isinstance(operands, tuple):
        return str(operands)
    return ", ".join(
        str(x) if isinstance(x, bool) or x is None else f"0x{x:016x}" for x in operands if x is not None
    )


class _Warpgroups(OwnerDict[tuple[int, int, int], Warpgroup], Observer):
    """The warpgroups of a cohort that have come to such an instruction: by cluster, rank and number."""

    def __init__(self, cohort: Cohort) -> None:
        super().__init__(cohort)
        cohort.listeners.subscribe(self)

    def cohort_ended(self, cohort: Cohort) -> None:
        """Refuse an instruction of a warpgroup that one of its warps has left out. Errors: DivergedWarp."""
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
