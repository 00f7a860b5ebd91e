"""Bulk async-groups: a thread puts its copies out of shared memory into groups and waits for whole groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Pipe
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.bulk.outgoing import CopyOut
from cutecourse.emulator.instructions.bulk.stating import BULK

__all__ = ["BulkGroups"]


class BulkGroups:
    """The copies of one bundle's threads that are not complete, and how many groups each has committed."""

    def __init__(self, bundle: Bundle) -> None:
        self.committed: NDArray[np.int64] = np.zeros((bundle.n, WARP_SIZE), dtype=np.int64)
        self.copies: list[CopyOut] = []

    def group(self, lane: int) -> int:
        """The number that a lane's open group will have."""
        return int(self.committed.reshape(-1)[lane])

    def due(self, lanes: NDArray[np.bool_], newest: int) -> list[CopyOut]:
        """The copies of the lanes' groups but for the `newest` ones of each lane."""
        if not self.copies:
            return []
        active, before = lanes.reshape(-1), self.committed.reshape(-1) - newest
        return [
            copy
            for copy in self.copies
            if active[copy.origin.lane] and copy.group is not None and copy.group < before[copy.origin.lane]
        ]


@instruction("cp.async.bulk.commit_group", facts=BULK)
def commit_group(site: Site) -> Step:
    """Close a bulk group: all bulk copies with .bulk_group that the thread issued since its last commit.

    Shapes:     each lane for itself; a group may be empty.
    Source:     PTX ISA 9.0, cp.async.bulk.commit_group
                (#data-movement-and-conversion-instructions-cp-async-bulk-commit-group).
    """

    def step(bundle: Bundle, mask: Mask) -> None:
        groups = bundle.own(BulkGroups)
        lanes = site.active(bundle, mask)
        for tell in bundle.cohort.listeners.bulk_committed:
            tell(site, bundle, lanes, groups)
        groups.committed[lanes] += 1

    return step


@instruction("cp.async.bulk.wait_group", facts=replace(BULK, waits_for=Pipe.BULK_COPIES))
def wait_group(site: Site) -> Step:
    """Wait until all of the thread's bulk groups but the newest N are complete; .read: until they have read.

    Shapes:     each lane waits for its own groups.
    Units:      N counts committed groups.
    Simplified: the copies of these groups take place here at the latest, in an order that the seed chooses;
                what other threads see of them depends on barriers, as on the hardware. With .read the copies
                may still write after the wait.
    Source:     PTX ISA 9.0, cp.async.bulk.wait_group
                (#data-movement-and-conversion-instructions-cp-async-bulk-wait-group).
    """
    only_reads = site.has("read")
    newest = site.constant(0)
    if newest is None or newest < 0:
        site.invalid("cp.async.bulk.wait_group takes the number of groups as a constant, 0 or more")

    def step(bundle: Bundle, mask: Mask) -> None:
        groups = bundle.own(BulkGroups)
        lanes = site.active(bundle, mask)
        due = groups.due(lanes, newest)
        blocked = {
            copy.origin.lane // WARP_SIZE for copy in due if not (copy.was_read if only_reads else copy.done)
        }
        for tell in bundle.cohort.listeners.bulk_wait_begun:
            tell(site, bundle, lanes, groups, newest, blocked, only_reads=only_reads)
        bundle.machine.random.shuffle(due)
        for copy in due:
            if only_reads:
                copy.finish_reads()
            else:
                copy.finish()
        for tell in bundle.cohort.listeners.bulk_waited:
            tell(site, bundle, lanes, groups, newest, blocked)
        groups.copies = [copy for copy in groups.copies if not (copy.released and copy.done)]

    return step
