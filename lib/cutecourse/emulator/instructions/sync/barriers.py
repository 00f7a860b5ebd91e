"""Barriers of a block (bar, barrier) and of a warp (bar.warp.sync)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import WAIT, Bundle, Cohort, Split
from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.kinds import LANE_BITS, WARP_SIZE, any_true, lane_masks, put, warps_of
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin, first_lane
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.waits import Held, Meeting
from cutecourse.emulator.core.warp_values import tell_warps
from cutecourse.emulator.errors import BarrierError, InvalidOperand, NonUniformOperand

__all__: list[str] = []

N_BARRIERS = 16


@dataclass(frozen=True)
class _Reduction:
    """How bar.red combines predicates: "popc", "and" or "or", and the slots of predicate and result."""

    name: str
    source: int
    target: int


@dataclass(eq=False)
class _WarpPart(Meeting):
    """Lanes of warps that have reached a barrier; they wait until all lanes of their warp have."""

    site: Site
    barrier: int
    count: int
    """The number of threads that the barrier waits for; 0 for all of the block."""
    following: int
    sync: bool
    aligned: bool
    reduction: _Reduction | None

    @property
    def line(self) -> int:
        return self.site.line

    @property
    def needs(self) -> str:
        name = self.site.instruction.name
        return f"{name} {self.barrier} must be executed by all lanes of the warp together"

    def describe(self, warp: int) -> str:
        return f"waits at {self.site.instruction.name} {self.barrier} for the other lanes of its warp"


@dataclass(eq=False)
class _Waiting(Held):
    """Why a split waits at a block's barrier, and where it continues."""

    part: _WarpPart
    state: _Barriers

    @property
    def line(self) -> int:
        return self.part.line

    def describe(self, warp: int) -> str:
        state, barrier = self.state, self.part.barrier
        arrived, expected = int(state.arrived[barrier, warp]), int(state.expected[barrier, warp])
        count = str(expected) if expected else f"all {int(state.live_warps()[warp]) * WARP_SIZE}"
        absent = "" if expected else state.absent(barrier, warp)
        return f"waits at barrier {barrier}: {arrived} of {count} threads have arrived{absent}"


class _Barriers:
    """The sixteen barriers of each block of one rank in a cohort."""

    def __init__(self, cohort: Cohort, rank: int) -> None:
        self.cohort = cohort
        self.rank = rank
        self.arrived = np.zeros((N_BARRIERS, cohort.n), dtype=np.int64)
        self.expected = np.zeros((N_BARRIERS, cohort.n), dtype=np.int64)
        self.sums = np.zeros((N_BARRIERS, cohort.n, 2), dtype=np.int64)
        """For bar.red: how many predicates are true, and how many there are."""
        self.waiting: list[list[tuple[Bundle, Split]]] = [[] for _ in range(N_BARRIERS)]
        self.live: NDArray[np.int64] | None = None
        """Live warps of each block; None if a warp has ended since the last count."""
        self.ended: NDArray[np.int64] = np.zeros(cohort.n, dtype=np.int64)
        """Threads of each block that have ended, by the same count."""

    def live_warps(self) -> NDArray[np.int64]:
        """Count the warps of each block that have not ended."""
        if self.live is None:
            bundles = [b for b in self.cohort.bundles if b.rank == self.rank]
            self.live = np.sum([b.live.any(axis=1) for b in bundles], axis=0, dtype=np.int64)
            lanes: NDArray[np.int64] = np.sum([b.live.sum(axis=1) for b in bundles], axis=0, dtype=np.int64)
            self.ended = self.cohort.machine.threads_per_block - lanes
        return self.live

    def absent(self, barrier: int, cluster: int) -> str:
        """The warps of a block that do not wait at a barrier for all threads, in words."""
        here = {
            bundle.warp
            for bundle, split in self.waiting[barrier]
            if (bundle.full if split.mask is None else split.mask)[cluster].any()
        }
        bundles = [b for b in self.cohort.bundles if b.rank == self.rank and b.live[cluster].any()]
        missing = [str(b.warp) for b in bundles if b.warp not in here]
        return f", but not warp {', '.join(missing)}" if missing else ""

    def _report_skipped(self, barrier: int, blocks: NDArray[np.bool_]) -> None:
        """Report a barrier for all threads that completes because the threads that lack have ended."""
        threads = self.cohort.machine.threads_per_block
        left = blocks.copy()
        for bundle, split in self.waiting[barrier]:
            reason = split.waiting
            assert isinstance(reason, _Waiting)
            here = bundle.full if split.mask is None else split.mask
            for cluster in np.flatnonzero(left & here.any(axis=1)).tolist():
                left[cluster] = False
                ended = int(self.ended[cluster])
                report(
                    "barrier skipped",
                    f"barrier {barrier} is for all {threads} threads of the block, but {ended} of them ended"
                    " without reaching it. Move the barrier to where all threads come, or give it the number"
                    " of threads that do.",
                    Origin(reason.part.site, bundle, cluster * WARP_SIZE + int(np.argmax(here[cluster]))),
                )

    def settle(self, barrier: int) -> None:
        """Release the splits that wait at a barrier where it is complete."""
        arrived, expected, sums = self.arrived[barrier], self.expected[barrier], self.sums[barrier]
        wanted = np.where(expected > 0, expected, self.live_warps() * WARP_SIZE)
        done = (arrived > 0) & (arrived >= wanted)
        if not done.any():
            return
        if any_true(skipped := done & (expected == 0) & (self.ended > 0)):
            self._report_skipped(barrier, skipped)
        for tell in self.cohort.listeners.barrier_completed:
            tell(self.rank, barrier, done & (expected > 0), all_threads=False)
            tell(self.rank, barrier, done & (expected == 0), all_threads=True)
        summed = sums.copy()
        for counts in (arrived, expected, sums):
            counts[done] = 0
        waiting, self.waiting[barrier] = self.waiting[barrier], []
        for bundle, split in waiting:
            reason = split.waiting
            assert isinstance(reason, _Waiting)
            rest = bundle.keep_waiting(split, done[:, None])
            if rest is not None:
                self.waiting[barrier].append((bundle, rest))
            if rest is not split:
                _release(bundle, split, reason.part, summed)


def _release(bundle: Bundle, split: Split, part: _WarpPart, sums: NDArray[np.int64]) -> None:
    """Let a split continue after its barrier, with the result of a bar.red."""
    for tell in bundle.cohort.listeners.barrier_left:
        tell(bundle, part.barrier, split.mask)
    if part.reduction is not None:
        name, target = part.reduction.name, part.reduction.target
        ones, total = sums[:, 0:1], sums[:, 1:2]
        if name == "popc":
            put(bundle.rows["u32"][target], ones, split.mask)
        else:
            put(bundle.rows["pred"][target], ones == total if name == "and" else ones > 0, split.mask)
    lanes = bundle.full if split.mask is None else split.mask
    tell_warps(part.site, bundle, lanes, "barrier.resume", one=False, number=part.barrier)
    bundle.unpark(split, part.following)


class _OfRanks(Observer):
    """The barriers of a cohort's blocks, rank by rank. They do not wait for lanes that have ended."""

    def __init__(self, cohort: Cohort) -> None:
        self.ranks = [_Barriers(cohort, rank) for rank in range(cohort.size)]
        cohort.listeners.subscribe(self)

    def lanes_ended(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Complete the barriers that waited only for these lanes."""
        state = self.ranks[bundle.rank]
        state.live = None
        for barrier in range(N_BARRIERS):
            if state.waiting[barrier]:
                state.settle(barrier)


def _uniform(site: Site, bundle: Bundle, split: Split, row: NDArray[Any], what: str) -> int:
    """The value of an operand that must be the same in all active lanes. Errors: NonUniformOperand."""
    lanes = bundle.lanes(split.mask)
    values = row.reshape(-1)[lanes]
    if (values != values[0]).any():
        lane = lanes[int(np.argmax(values != values[0]))]
        raise site.error(
            NonUniformOperand,
            f"{what} of {site.instruction.name} is {int(values[0])} in one lane but"
            f" {int(row.reshape(-1)[lane])} in another",
            bundle,
            lane,
        )
    return int(values[0])


def _define(site: Site, first: int, *, sync: bool, reduction: _Reduction | None = None) -> Step:
    """Define any form: gather the warp's lanes, count its arrival, and wait if the form waits.

    The operands from `first` on are the barrier's number and, if it is given, the number of threads.
    """
    site.has("cta")
    aligned = site.has("aligned") or site.instruction.opcode == "bar"
    barrier_slot = site.source(first, "u32")
    counted = len(site.operands) > first + (2 if reduction else 1)
    count_slot = site.source(first + 1, "u32") if counted else None
    if not sync and count_slot is None:
        site.invalid("an arrival must name its number of threads")

    def control(bundle: Bundle, split: Split, following: int) -> int:
        rows = bundle.rows["u32"]
        barrier = _uniform(site, bundle, split, rows[barrier_slot], "the barrier's number")
        if barrier >= N_BARRIERS:
            raise site.error(
                InvalidOperand,
                f"barrier {barrier} does not exist: there are {N_BARRIERS} barriers",
                bundle,
                bundle.lanes(split.mask)[0],
            )
        count = 0
        if count_slot is not None:
            count = _uniform(site, bundle, split, rows[count_slot], "the number of threads")
            if count == 0 or count % WARP_SIZE:
                raise site.error(
                    BarrierError,
                    f"{count} threads at barrier {barrier}: the number must be a multiple of {WARP_SIZE}",
                    bundle,
                    bundle.lanes(split.mask)[0],
                )
        part = _WarpPart(site, barrier, count, following, sync, aligned, reduction)
        if split.mask is None:
            return _arrive(site, bundle, split, [(split, part)], bundle.full)
        return _gather(bundle, split, part)

    return control


def _gather(bundle: Bundle, split: Split, part: _WarpPart) -> int:
    """Wait until all live lanes of each warp have reached the barrier, then count the warps' arrival."""
    together: list[tuple[Split, _WarpPart]] = [(split, part)]
    union = (bundle.full if split.mask is None else split.mask).copy()
    for other in bundle.splits:
        reason = other.waiting
        if isinstance(reason, _WarpPart) and reason.barrier == part.barrier and reason.sync == part.sync:
            same_place = reason.line == part.line and other.stack == split.stack
            if same_place or not (part.aligned or reason.aligned):
                together.append((other, reason))
                union |= bundle.full if other.mask is None else other.mask
    ready = union & (union == bundle.live).all(axis=1, keepdims=True)
    split.waiting = part
    members = [(one, reason) for one, reason in together if bundle.keep_waiting(one, ready) is not one]
    return _arrive(part.site, bundle, split, members, ready) if members else WAIT


def _arrive(
    site: Site,
    bundle: Bundle,
    current: Split,
    members: list[tuple[Split, _WarpPart]],
    ready: NDArray[np.bool_],
) -> int:
    """Count whole warps at their barrier and park waiting ones; return where the current split goes on."""
    part = members[0][1]
    state = bundle.cohort.own(_OfRanks).ranks[bundle.rank]
    barrier, count = part.barrier, part.count
    warps = warps_of(ready)
    expected = state.expected[barrier]
    arrived = state.arrived[barrier]
    different = warps & (arrived > 0) & (expected != count)
    over = warps & (count > 0) & (arrived + WARP_SIZE > count)
    if different.any() or over.any():
        warp = int(np.argmax(different if different.any() else over))
        problem = (
            f"{count or 'all'} threads at barrier {barrier}, but others wait for"
            f" {int(expected[warp]) or 'all'}"
            if different.any()
            else f"more than {count} threads have arrived at barrier {barrier}"
        )
        raise site.error(BarrierError, problem, bundle, warp * WARP_SIZE)
    expected[warps] = count
    arrived[warps] += WARP_SIZE
    bundle.machine.changes += 1
    for tell in bundle.cohort.listeners.barrier_arrived:
        tell(bundle, barrier, warps)
    kind = "barrier.wait" if part.sync else "barrier.arrive"
    tell_warps(part.site, bundle, ready, kind, one=False, number=barrier)
    going = WAIT
    for member, reason in members:
        if reason.reduction is not None:
            mask = bundle.full if member.mask is None else member.mask
            held = bundle.rows["pred"][reason.reduction.source] & mask
            state.sums[barrier, :, 0] += held.sum(axis=1)
            state.sums[barrier, :, 1] += mask.sum(axis=1)
        if reason.sync:
            member.waiting = _Waiting(reason, state)
            state.waiting[barrier].append((bundle, member))
        elif member is current:
            member.waiting, going = None, reason.following
        else:
            bundle.unpark(member, reason.following)
    state.settle(barrier)
    if part.sync and current in bundle.splits and current.waiting is None:
        return current.at
    return going


_FACTS = Facts(category="barrier", results=0, publishes=True)


@instruction("bar.sync", "bar.cta.sync", "barrier.sync", "barrier.cta.sync", control=True, facts=_FACTS)
def bar_sync(site: Site) -> Step:
    """Wait until all threads of the block, or the given number of them, have reached the barrier.

    Shapes:     the barrier's number and the number of threads are the same in all lanes.
    Units:      threads, a multiple of 32; each warp counts as 32.
    Blocks:     until the count is reached.
    Errors:     NonUniformOperand, InvalidOperand, BarrierError; DivergedWarp where a warp cannot come
                together; DeadlockError where the count is never reached.
    Simplified: without a number of threads, the barrier does not wait for warps that have ended. The ISA has
                all threads of the block take part. The CUDA programming guide says that since compute
                capability 7.0 the barrier waits for all threads that have not exited, and synccheck's
                sample divergent_threads has such a barrier as an error. So it is a warning (BarrierSkipped),
                an early return before a barrier included: the order in which the others then come is the
                hardware's, not the text's.
    Source:     PTX ISA 9.0, Parallel Synchronization and Communication Instructions: bar, barrier
                (#parallel-synchronization-and-communication-instructions-bar).
    """
    return _define(site, 0, sync=True)


@instruction(
    "bar.arrive", "bar.cta.arrive", "barrier.arrive", "barrier.cta.arrive", control=True, facts=_FACTS
)
def bar_arrive(site: Site) -> Step:
    """Announce that a warp has reached the barrier, and continue.

    Shapes:     the barrier's number and the number of threads are the same in all lanes.
    Units:      threads, a multiple of 32; each warp counts as 32.
    Errors:     NonUniformOperand, InvalidOperand, BarrierError; DivergedWarp where a warp cannot come
                together.
    Source:     PTX ISA 9.0, Parallel Synchronization and Communication Instructions: bar, barrier
                (#parallel-synchronization-and-communication-instructions-bar).
    """
    return _define(site, 0, sync=False)


@instruction(
    "bar.red",
    "bar.cta.red",
    "barrier.red",
    "barrier.cta.red",
    control=True,
    facts=replace(_FACTS, results=1),
)
def bar_red(site: Site) -> Step:
    """Wait as `bar.sync` does, and count the threads whose predicate is true, or test if all or any are.

    Shapes:     one predicate in each lane; the result is the same in all lanes: u32 for `.popc`, else a
                predicate.
    Units:      threads.
    Blocks:     until the count is reached.
    Errors:     as `bar.sync`.
    Simplified: without a number of threads, the barrier does not wait for warps that have ended.
    Source:     PTX ISA 9.0, Parallel Synchronization and Communication Instructions: bar, barrier
                (#parallel-synchronization-and-communication-instructions-bar).
    """
    name = site.expect("popc", "and", "or")
    target = site.destination(0, site.type("u32" if name == "popc" else "pred"))
    source = site.source(len(site.operands) - 1, "pred")
    return _define(site, 1, sync=True, reduction=_Reduction(name, source, target))


@dataclass(eq=False)
class _WarpSync(Meeting):
    """Lanes that wait at bar.warp.sync."""

    site: Site
    slot: int
    following: int

    @property
    def line(self) -> int:
        return self.site.line

    @property
    def needs(self) -> str:
        return "bar.warp.sync must be executed by all lanes that its membermask names"

    def describe(self, warp: int) -> str:
        return "waits at bar.warp.sync for the lanes that its membermask names"


@instruction("bar.warp.sync", control=True, facts=_FACTS)
def bar_warp_sync(site: Site) -> Step:
    """Wait for the lanes of the warp that a membermask names.

    Shapes:     one membermask in each lane; lanes may come from different instructions with the same mask.
    Units:      one bit for each lane.
    Blocks:     until all named lanes that have not ended wait with the same mask.
    Errors:     InvalidOperand for a lane that its mask does not name; DivergedWarp where a lane never comes.
    Source:     PTX ISA 9.0, Parallel Synchronization and Communication Instructions: bar.warp.sync
                (#parallel-synchronization-and-communication-instructions-bar-warp-sync).
    """
    slot = site.source(0, "u32")

    def control(bundle: Bundle, split: Split, following: int) -> int:
        members = bundle.rows["u32"][slot]
        mask = bundle.full if split.mask is None else split.mask
        wrong = mask & ((members & LANE_BITS) == 0)
        if origin := first_lane(site, bundle, wrong):
            raise origin.error(
                InvalidOperand,
                f"membermask 0x{origin.value(members):08x} does not name the lane that executes it",
            )
        split.waiting = _WarpSync(site, slot, following)
        waiting = [(s, s.waiting) for s in bundle.splits if isinstance(s.waiting, _WarpSync)]
        named = np.zeros((bundle.n, WARP_SIZE), dtype=np.uint32)
        for one, wait in waiting:
            there = bundle.full if one.mask is None else one.mask
            np.copyto(named, bundle.rows["u32"][wait.slot], where=there)
        present = named != 0
        live = lane_masks(bundle.live)[:, None]
        # A lane may go on when every live lane that it names waits with the same mask.
        same = (named[:, :, None] == named[:, None, :]) & present[:, None, :]
        go = present & ((named & live & ~lane_masks(same)) == 0)
        if any_true(go):
            for tell in bundle.cohort.listeners.lanes_met:
                tell(bundle, go)
        goes_on = False
        for one, wait in waiting:
            if bundle.keep_waiting(one, go) is not one:
                one.at, one.waiting = wait.following, None
                goes_on |= one is split
        return split.at if goes_on else WAIT

    return control
