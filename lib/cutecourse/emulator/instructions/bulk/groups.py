"""Bulk async-groups: what a thread's copies out of shared memory belong to, and how it waits for them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.bulk.pieces import Out

__all__ = ["BulkGroups"]

_STATE = "cp.async.bulk"


@dataclass
class BulkGroups:
    """The copies of one bundle's threads that are not complete, and how many groups each has committed."""

    committed: NDArray[np.int64]
    copies: list[Out] = field(default_factory=list)

    @classmethod
    def of(cls, bundle: Bundle) -> BulkGroups:
        """The bundle's, made when first asked for."""
        found: BulkGroups | None = bundle.state.get(_STATE)
        if found is None:
            found = bundle.state[_STATE] = cls(np.zeros((bundle.n, WARP_SIZE), dtype=np.int64))
            _watch_exits(bundle.cohort)
        return found

    def group(self, lane: int) -> int:
        """The number that a lane's open group will have."""
        return int(self.committed.reshape(-1)[lane])

    def due(self, lanes: NDArray[np.bool_], newest: int) -> list[Out]:
        """The copies of the lanes' groups but for the `newest` ones of each lane."""
        if not self.copies:
            return []
        active, before = lanes.reshape(-1), self.committed.reshape(-1) - newest
        return [c for c in self.copies if active[c.origin.lane] and c.group < before[c.origin.lane]]


def _watch_exits(cohort: Cohort) -> None:
    """Look at the copies of a block when it ends."""
    hooks = cohort.state.setdefault("on exit", [])
    if _block_ended not in hooks:
        hooks.append(_block_ended)


def _block_ended(bundle: Bundle, mask: NDArray[np.bool_]) -> None:
    """Refuse that a block ends while a copy may still read its shared memory."""
    cohort = bundle.cohort
    gone = ~cohort.alive(bundle.rank) & mask.any(axis=1)
    if not gone.any():
        return
    for other in cohort.bundles:
        groups: BulkGroups | None = other.state.get(_STATE)
        if groups is None or other.rank != bundle.rank:
            continue
        for copy in groups.copies:
            if gone[copy.origin.lane // WARP_SIZE] and not copy.released:
                report(
                    "unfinished copy",
                    "the block ended without waiting until this copy had read its shared memory."
                    " Add cp.async.bulk.wait_group.read 0 (after a commit_group) at the kernel's end.",
                    copy.origin,
                )


@instruction("cp.async.bulk.commit_group")
def commit_group(site: Site) -> Step:
    """Close a bulk group: all bulk copies with .bulk_group that the thread issued since its last commit.

    Shapes:     each lane for itself; a group may be empty.
    Source:     PTX ISA 9.0, cp.async.bulk.commit_group
                (#data-movement-and-conversion-instructions-cp-async-bulk-commit-group).
    """

    def step(bundle: Bundle, mask: Mask) -> None:
        groups = BulkGroups.of(bundle)
        lanes = site.active(bundle, mask)
        for tell in bundle.cohort.listeners.happened:
            for lane, one in _speakers(groups, lanes):
                tell("bulk.commit", bundle, lane, site.line, one=one, group=groups.group(lane))
        groups.committed[lanes] += 1

    return step


@instruction("cp.async.bulk.wait_group")
def wait_group(site: Site) -> Step:
    """Wait until at most N of the thread's newest bulk groups are under way; .read: until sources are read.

    Shapes:     each lane for itself.
    Units:      N counts groups, committed ones.
    Simplified: the copies that are waited for take place here at the latest, in an order that the seed
                chooses; what other threads see of them depends on barriers, as on the hardware. With .read
                the writing may go on behind the wait.
    Source:     PTX ISA 9.0, cp.async.bulk.wait_group
                (#data-movement-and-conversion-instructions-cp-async-bulk-wait-group).
    """
    only_reads = site.has("read")
    newest = site.constant(0)
    if newest is None or newest < 0:
        site.invalid("cp.async.bulk.wait_group takes the number of groups as a constant, 0 or more")

    def step(bundle: Bundle, mask: Mask) -> None:
        groups = BulkGroups.of(bundle)
        lanes = site.active(bundle, mask)
        due = groups.due(lanes, newest)
        machine = bundle.machine
        told = bundle.cohort.listeners.happened
        speakers = _speakers(groups, lanes) if told else []
        blocked = {
            copy.origin.lane // WARP_SIZE for copy in due if not (copy.was_read if only_reads else copy.done)
        }
        for lane, one in speakers:
            outcome = "blocked" if lane // WARP_SIZE in blocked else "passed"
            about = {"one": one, "left": newest, "read": only_reads, "outcome": outcome}
            for tell in told:
                tell("bulk.wait", bundle, lane, site.line, **about)
        machine.random.shuffle(due)
        for copy in due:
            if only_reads:
                copy.finish_reads()
            else:
                copy.finish()
        for lane, one in speakers:
            if lane // WARP_SIZE in blocked:
                for tell in told:
                    tell("bulk.resume", bundle, lane, site.line, one=one)
        groups.copies = [copy for copy in groups.copies if not (copy.released and copy.done)]
        if bundle.cohort.races is not None:
            bundle.cohort.races.groups_done(bundle, lanes, groups.committed, newest)

    return step


def _speakers(groups: BulkGroups, lanes: NDArray[np.bool_]) -> list[tuple[int, bool]]:
    """One lane of each warp to tell of, one with copies if there is one; and whether it is the only one."""
    busy = {copy.origin.lane for copy in groups.copies}
    found = []
    for warp in np.flatnonzero(lanes.any(axis=1)).tolist():
        active = (np.flatnonzero(lanes[warp]) + warp * WARP_SIZE).tolist()
        mine = [lane for lane in active if lane in busy]
        found.append(((mine or active)[0], len(active) == 1 or len(mine) == 1))
    return found
