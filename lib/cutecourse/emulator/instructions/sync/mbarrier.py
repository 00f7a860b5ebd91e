"""mbarrier instructions: barriers in shared memory that count arrivals and bytes, phase after phase.

The barriers' state and the waiting lanes are in emulator.memory.mbarriers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import WAIT, Bundle, Split
from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask, put
from cutecourse.emulator.core.origin import Origin, first_lane
from cutecourse.emulator.core.owner import OwnerDict
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import BarrierCountError, BarrierStateError
from cutecourse.emulator.instructions.copy_queue import when_complete
from cutecourse.emulator.instructions.stating import by_modifiers
from cutecourse.emulator.memory.mbarriers import (
    MAX_COUNT,
    Group,
    MBarrier,
    MBarriers,
    PhaseWait,
)
from cutecourse.emulator.memory.shared_address import SharedTargets, take_shared_space
from cutecourse.ptx.syntax import Instruction

__all__: list[str] = []

_SPURIOUS = 32
"""One in this many try_waits that would wait returns false at once, as the hardware may."""
_IMPATIENT = 1000
"""After this many false results a loop around test_wait sleeps, so that a deadlock is noticed."""

# A state token: bit 63 is set if .noComplete made it, the phase is in bits 40 to 62, the barrier's offset in
# bits 20 to 39 (in units of 8 bytes), the pending count before the arrival in bits 0 to 19.
_PHASE_SHIFT, _OFFSET_SHIFT = 40, 20
_PHASE_MASK, _COUNT_MASK = (1 << 23) - 1, (1 << 20) - 1
_MINUS_ONE = (1 << 32) - 1


def _token(barrier: MBarrier, *, no_complete: bool) -> int:
    return (
        (no_complete << 63)
        | ((barrier.phase & _PHASE_MASK) << _PHASE_SHIFT)
        | ((barrier.offset >> 3) << _OFFSET_SHIFT)
        | barrier.pending
    )


def _semantics(site: Site, *allowed: str) -> None:
    """Take order and scope, which must be given together or not at all."""
    order = site.one_of(*allowed)
    scope = site.one_of("cta", "cluster")
    if (order is None) != (scope is None):
        site.unsupported("memory order and scope must be given together")


def _take_barriers(site: Site, index: int, *, cluster: bool = False, remote: str = "") -> SharedTargets:
    """Take the address operand of an mbarrier, its space and its type.

    With `cluster` the mbarrier may be another CTA's; `remote` says why it may not.
    """
    space = take_shared_space(site, cluster=cluster)
    site.type("b64")
    targets = SharedTargets(site, site.address(index), space, 8, remote=remote)
    targets.remote_allowed = cluster and space != "shared"
    return targets


_OBJECT = Facts(category="barrier", uncounted="mbarrier", publishes=True)
_WAIT = replace(_OBJECT, only_asks=True, may_fail=True)


@by_modifiers
def _arrival_facts(one: Instruction) -> Facts:
    return replace(
        _OBJECT,
        completes="arrivals",
        relaxed="relaxed" in one.modifiers,
        within_cta="cluster" not in one.modifiers,  # .cta is the default
    )


@instruction("mbarrier.init", facts=_OBJECT)
def init(site: Site) -> Step:
    """Initialise an mbarrier: its phase 0 waits for `count` arrivals and no bytes.

    Shapes:     one address and one count in each active lane.
    Units:      the count in arrivals, 1 to 2^20 - 1; the object has 8 bytes, aligned to 8.
    Errors:     AddressError, AlignmentError, BarrierCountError; BarrierInUse if one is valid there.
    Source:     PTX ISA 9.0, mbarrier.init
                (#parallel-synchronization-and-communication-instructions-mbarrier-init).
    """
    targets = _take_barriers(site, 0)
    count = site.source(1, "u32")

    def step(bundle: Bundle, mask: Mask) -> None:
        barriers = bundle.cohort.own(MBarriers)
        counts = bundle.rows["u32"][count].reshape(-1)
        for origin, rank, offset in targets.each(bundle, mask):
            made = barriers.init(origin.cluster, rank, offset, int(counts[origin.lane]), origin)
            for tell in bundle.cohort.listeners.happened:
                tell("mbarrier.init", origin, barrier=made.about(), count=made.expected)

    return step


@instruction("mbarrier.inval", facts=_OBJECT)
def inval(site: Site) -> Step:
    """Invalidate an mbarrier, so that its memory can be used for something else.

    Shapes:     one address in each active lane.
    Units:      bytes.
    Errors:     AddressError, AlignmentError, NoBarrierError; BarrierInUse while a thread waits for it.
    Source:     PTX ISA 9.0, mbarrier.inval
                (#parallel-synchronization-and-communication-instructions-mbarrier-inval).
    """
    targets = _take_barriers(site, 0)

    def step(bundle: Bundle, mask: Mask) -> None:
        barriers = bundle.cohort.own(MBarriers)
        for origin, rank, offset in targets.each(bundle, mask):
            ended = barriers.inval(origin.cluster, rank, offset, origin)
            for tell in bundle.cohort.listeners.happened:
                tell("mbarrier.inval", origin, barrier=ended.about())

    return step


def _transaction(site: Site, change: Callable[[MBarrier, int, Origin], None]) -> Step:
    """Define expect_tx or complete_tx: each active lane gives a number of bytes."""
    _semantics(site, "relaxed")
    targets = _take_barriers(site, 0, cluster=True)
    n_bytes = site.source(1, "u32")

    def step(bundle: Bundle, mask: Mask) -> None:
        barriers = bundle.cohort.own(MBarriers)
        counts = bundle.rows["u32"][n_bytes].reshape(-1)
        for origin, rank, offset in targets.each(bundle, mask):
            change(barriers.find(origin.cluster, rank, offset, origin), int(counts[origin.lane]), origin)

    return step


@instruction("mbarrier.expect_tx", facts=_OBJECT)
def expect_tx(site: Site) -> Step:
    """Make the current phase of an mbarrier wait for more bytes.

    Shapes:     one address and one number in each active lane; each lane counts.
    Units:      bytes.
    Errors:     AddressError, AlignmentError, NoBarrierError; BarrierCountError where the tx-count leaves
                its range.
    Source:     PTX ISA 9.0, mbarrier.expect_tx
                (#parallel-synchronization-and-communication-instructions-mbarrier-expect-tx).
    """
    return _transaction(site, MBarrier.expect_tx)


@instruction("mbarrier.complete_tx", facts=replace(_OBJECT, completes="bytes"))
def complete_tx(site: Site) -> Step:
    """Tell an mbarrier that bytes have arrived, as a copy does when it is complete.

    Shapes:     one address and one number in each active lane; each lane counts.
    Units:      bytes.
    Errors:     AddressError, AlignmentError, NoBarrierError; BarrierCountError where the tx-count leaves
                its range.
    Source:     PTX ISA 9.0, mbarrier.complete_tx
                (#parallel-synchronization-and-communication-instructions-mbarrier-complete-tx).
    """

    def change(barrier: MBarrier, n_bytes: int, origin: Origin) -> None:
        barrier.complete_tx(n_bytes, origin, None, by_thread=True)

    return _transaction(site, change)


# --- arrivals -----------------------------------------------------------------------------------------------


def _arrival(site: Site, *, drop: bool) -> Step:
    """Define arrive or arrive_drop."""
    expects = site.has("expect_tx")
    no_complete = site.has("noComplete")
    _semantics(site, "release", "relaxed")
    sink = site.is_sink(0)
    token = None if sink else site.destination(0, "u64")
    needs = "the state space .shared::cluster" if sink else "the destination _"
    targets = _take_barriers(site, 1, cluster=True, remote=f"an arrival there must have {needs}")
    if not sink:
        targets.remote_allowed = False
        if targets.space == "shared::cluster":
            site.invalid(
                "an arrival at a barrier in .shared::cluster gives no state: its destination must be _"
            )
    number = site.source(2, "u32") if len(site.operands) > 2 else None
    name = site.instruction.name
    if number is None and (expects or no_complete):
        site.invalid(f"{name} needs {'a number of bytes' if expects else 'a count'}")

    def step(bundle: Bundle, mask: Mask) -> None:
        barriers = bundle.cohort.own(MBarriers)
        numbers = None if number is None else bundle.rows["u32"][number].reshape(-1)
        tokens = None if token is None else bundle.rows["u64"][token].reshape(-1)
        for origin, rank, offset, lanes in targets.grouped(bundle, mask, numbers, together=tokens is None):
            barrier = barriers.find(origin.cluster, rank, offset, origin)
            value = 1 if numbers is None else int(numbers[origin.lane])
            count, expect = (1, value) if expects else (value, None)
            if not 1 <= count <= MAX_COUNT:
                raise origin.error(
                    BarrierCountError, f"{count} arrivals at once: the count must be in 1..{MAX_COUNT}"
                )
            if tokens is not None:
                tokens[origin.lane] = _token(barrier, no_complete=no_complete)
            if no_complete and count * len(lanes) >= barrier.pending and barrier.tx == 0:
                raise origin.error(
                    BarrierCountError,
                    f"{name} would complete phase {barrier.phase} of {barrier.where()}, which is not allowed",
                )
            if len(lanes) == 1 or count * len(lanes) <= barrier.pending:
                barrier.arrive(count, origin, drop=drop, expect=expect, lanes=lanes)
                continue
            for each in lanes.tolist():
                barrier.arrive(count, Origin(site, bundle, each), drop=drop, expect=expect)

    return step


@instruction("mbarrier.arrive", facts=_arrival_facts)
def arrive(site: Site) -> Step:
    """Arrive at an mbarrier; `.expect_tx` first makes its phase wait for bytes.

    Shapes:     one address in each active lane, and each active lane arrives; the state token describes the
                barrier before the lane's arrival. For a barrier of another CTA the token must be `_`.
    Units:      the count in arrivals, 1 if it is left out; with `.expect_tx` the operand counts bytes.
    Errors:     AddressError, AlignmentError, NoBarrierError; BarrierCountError for more arrivals than the
                phase waits for, and where `.noComplete` would complete it.
    Simplified: lanes of a warp arrive in the order of their numbers; the state token is this emulator's own.
    Source:     PTX ISA 9.0, mbarrier.arrive
                (#parallel-synchronization-and-communication-instructions-mbarrier-arrive).
    """
    return _arrival(site, drop=False)


@instruction("mbarrier.arrive_drop", facts=_arrival_facts)
def arrive_drop(site: Site) -> Step:
    """Arrive at an mbarrier for the last time: all later phases wait for fewer arrivals.

    Shapes:     as mbarrier.arrive.
    Units:      as mbarrier.arrive.
    Errors:     as mbarrier.arrive; also BarrierCountError after all participants have dropped out.
    Simplified: as mbarrier.arrive.
    Source:     PTX ISA 9.0, mbarrier.arrive_drop
                (#parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop).
    """
    return _arrival(site, drop=True)


@instruction("mbarrier.pending_count", facts=_OBJECT)
def pending_count(site: Site) -> Step:
    """Read from a state token how many arrivals were pending before the arrival that gave it.

    Shapes:     one token and one u32 in each lane.
    Units:      arrivals.
    Errors:     BarrierStateError for a token that no `.noComplete` arrival has returned.
    Source:     PTX ISA 9.0, mbarrier.pending_count
                (#parallel-synchronization-and-communication-instructions-mbarrier-pending-count).
    """
    site.type("b64")
    target, source = site.destination(0, "u32"), site.source(1, "u64")

    def step(bundle: Bundle, mask: Mask) -> None:
        state = bundle.rows["u64"][source]
        wrong = site.active(bundle, mask) & (state >> np.uint64(63) == 0)
        if origin := first_lane(site, bundle, wrong):
            raise origin.error(
                BarrierStateError,
                f"0x{origin.value(state):016x} is not a state that mbarrier.arrive.noComplete or"
                " mbarrier.arrive_drop.noComplete has given",
            )
        put(bundle.rows["u32"][target], (state & np.uint64(_COUNT_MASK)).astype(np.uint32), mask)

    return step


# --- waiting ------------------------------------------------------------------------------------------------


class _Asked(OwnerDict[Site, int]):
    """Counts, for each mbarrier.test_wait of a warp, the tests that failed since the last success."""


class _Look:
    """The test of a phase by test_wait and try_wait: by a state token or by the phase's parity."""

    def __init__(self, site: Site) -> None:
        self.name = site.instruction.modifiers[0]
        self.line = site.line
        self.again = site.outcome is None or site.outcome.again
        self.by_parity = site.has("parity")
        _semantics(site, "acquire", "relaxed")
        self.target = site.destination(0, "pred")
        self.targets = _take_barriers(site, 1, remote="a wait must be in the CTA of its barrier")
        self.kind = "u32" if self.by_parity else "u64"
        self.which = site.source(2, self.kind)
        if len(site.operands) > 3:
            if self.name == "test_wait":
                site.invalid("mbarrier.test_wait takes no time limit")
            site.source(3, "u32")

    def __call__(self, bundle: Bundle, mask: Mask) -> tuple[NDArray[np.bool_], list[Group]]:
        """Return which lanes find their phase complete, shape (n, 32), and the other lanes in groups."""
        barriers = bundle.cohort.own(MBarriers)
        which = bundle.rows[self.kind][self.which].reshape(-1)
        passed = np.zeros((bundle.n, WARP_SIZE), dtype=np.bool_)
        blocked: dict[tuple[int, int, int], Group] = {}
        # The pending counts in the lanes' tokens differ and do not matter.
        alike = which if self.by_parity else which >> np.uint64(_OFFSET_SHIFT)
        for origin, rank, offset, lanes in self.targets.grouped(bundle, mask, alike, together=True):
            warp = origin.cluster
            barrier = barriers.find(warp, rank, offset, origin)
            value = int(which[origin.lane])
            parity = value
            if self.by_parity:
                if value == _MINUS_ONE:
                    report("parity of minus one", f"{self.name} waits for the parity -1", origin)
                    value = parity = 1
                if value > 1:
                    raise origin.error(BarrierStateError, f"phase parity {value}: it must be 0 or 1")
                done = barrier.phase & 1 != value
            else:
                done = self._is_past(value, barrier, origin)
                parity = value >> _PHASE_SHIFT & 1
            refused = self._refuses(bundle, barrier, barrier.phase + (not done))
            if done and not refused:
                passed.reshape(-1)[lanes] = True
                barrier.found_complete(origin, lanes.tolist())
                if bundle.cohort.listeners.happened:
                    self.tell([Group(barrier, origin, lanes.tolist(), parity)], "passed")
                continue
            barrier.found_open(origin, lanes.tolist())
            inside = (lanes % WARP_SIZE).tolist()
            group = blocked.get((warp, offset, parity))
            if group is None:
                blocked[warp, offset, parity] = Group(barrier, origin, inside, parity, refused)
            else:
                group.lanes += inside
        return passed, list(blocked.values())

    def _refuses(self, bundle: Bundle, barrier: MBarrier, phases: int) -> bool:
        """True if a steering wants the first answer to be false because the kernel then does other things.

        phases  how many are complete if the answer is true.
        """
        steering = bundle.machine.steering
        if steering is None or not steering.refuses or self.again:
            return False
        return steering.refuse(bundle, self.line, barrier, phases)

    def insists(self, bundle: Bundle) -> bool:
        """True if a steering wants the answer true, however long that takes."""
        return bundle.machine.steering is not None and not self.again

    def tell(self, groups: list[Group], outcome: str) -> None:
        """Record the outcome of waits."""
        for group in groups:
            for tell in group.barrier.cohort.listeners.happened:
                tell(
                    "mbarrier.wait",
                    group.origin,
                    one=len(group.lanes) == 1,
                    barrier=group.barrier.about(),
                    parity=group.parity,
                    outcome=outcome,
                    name=self.name,
                )

    @staticmethod
    def _is_past(state: int, barrier: MBarrier, origin: Origin) -> bool:
        if state >> _OFFSET_SHIFT & _COUNT_MASK != barrier.offset >> 3:
            raise origin.error(
                BarrierStateError,
                f"0x{state:016x} is not a state that an arrival at {barrier.where()} has given",
            )
        age = barrier.phase - (state >> _PHASE_SHIFT & _PHASE_MASK) & _PHASE_MASK
        if age > 1:
            raise origin.error(
                BarrierStateError,
                f"the state is of phase {state >> _PHASE_SHIFT & _PHASE_MASK} but {barrier.where()} is in"
                f" phase {barrier.phase}: a wait can ask for the current phase or the one before",
            )
        return age == 1

    def sleep(
        self, bundle: Bundle, split: Split, groups: list[Group], passed: NDArray[np.bool_], following: int
    ) -> int:
        """Put the lanes to sleep whose phases are not complete; the others continue."""
        asleep = bundle.part(split, ~passed)
        for group in groups:
            group.barrier.waiters.append(group)
        for other in list(bundle.splits):
            wait = other.waiting
            if isinstance(wait, PhaseWait) and wait.following == following and other.stack == asleep.stack:
                # Blocks that got here one after the other wait together and continue together.
                groups = [*wait.end(), *groups]
                bundle.join(asleep, other)
        asleep.waiting = PhaseWait(asleep, groups, self.target, following)
        return following if asleep is not split else WAIT


@instruction("mbarrier.test_wait", control=True, facts=_WAIT)
def test_wait(site: Site) -> Step:
    """Test whether a phase of an mbarrier has completed.

    Shapes:     one address in each active lane, with a state token or, with `.parity`, the parity of a phase:
                the current one, which is not complete, or the one before, which is. On a fresh barrier the
                test of parity 1 is true.
    Errors:     AddressError, AlignmentError, NoBarrierError, BarrierStateError.
    Simplified: after a thousand tests in a row that failed, the thread sleeps as in try_wait.
    Source:     PTX ISA 9.0, mbarrier.test_wait, mbarrier.try_wait
                (#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait).
    """
    look = _Look(site)

    def control(bundle: Bundle, split: Split, following: int) -> int:
        passed, blocked = look(bundle, split.mask)
        put(bundle.rows["pred"][look.target], passed, split.mask)
        if not blocked:
            bundle.own(_Asked).pop(site, None)
            return following
        asked = bundle.own(_Asked)
        asked[site] = asked.get(site, 0) + 1
        is_refused = any(group.refused for group in blocked)
        if asked[site] > _IMPATIENT or (look.insists(bundle) and not is_refused):
            look.tell(blocked, "blocked")
            return look.sleep(bundle, split, blocked, passed, following)
        look.tell(blocked, "false")
        # A warp whose test failed lets other warps run.
        split.at = following
        return WAIT

    return control


@instruction("mbarrier.try_wait", control=True, facts=_WAIT)
def try_wait(site: Site) -> Step:
    """Test whether a phase of an mbarrier has completed, and wait for it for a limited time.

    Shapes:     as mbarrier.test_wait; the time limit, if there is one, a u32 in each lane.
    Units:      the time limit in nanoseconds.
    Blocks:     until the phase completes (true) or the time is over (false).
    Errors:     AddressError, AlignmentError, NoBarrierError, BarrierStateError; DeadlockError if nothing can
                complete the phase any more.
    Simplified: the time limit is ignored. A wait times out when nothing else in the launch can run, and
                sometimes at once, as the seed chooses. If it times out again and nothing has changed in
                between, the launch is deadlocked.
    Source:     PTX ISA 9.0, mbarrier.test_wait, mbarrier.try_wait
                (#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait).
    """
    look = _Look(site)

    def control(bundle: Bundle, split: Split, following: int) -> int:
        passed, blocked = look(bundle, split.mask)
        put(bundle.rows["pred"][look.target], passed, split.mask)
        if not blocked:
            return following
        gives_up = bundle.machine.random.randrange(_SPURIOUS) == 0 and not look.insists(bundle)
        if gives_up or any(group.refused for group in blocked):
            look.tell(blocked, "false")
            split.at = following
            return WAIT
        look.tell(blocked, "blocked")
        return look.sleep(bundle, split, blocked, passed, following)

    return control


@instruction(
    "cp.async.mbarrier.arrive",
    facts=Facts(
        category="barrier",
        uncounted="cp.async.mbarrier",
        completes="arrivals",
    ),
)
def cp_async_mbarrier_arrive(site: Site) -> Step:
    """Arrive at an mbarrier when the thread's earlier cp.async copies are complete.

    Shapes:     one address in each active lane. Without `.noinc` the phase first waits for one more arrival.
    Units:      bytes.
    Errors:     AddressError, AlignmentError, NoBarrierError, BarrierCountError.
    Source:     PTX ISA 9.0, cp.async.mbarrier.arrive
                (#parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive).
    """
    no_increment = site.has("noinc")
    targets = _take_barriers(site, 0)

    def step(bundle: Bundle, mask: Mask) -> None:
        barriers = bundle.cohort.own(MBarriers)
        where: dict[int, tuple[Origin, int, int]] = {}
        for origin, rank, offset in targets.each(bundle, mask):
            for tell in bundle.cohort.listeners.copies_counted:
                tell(origin)
            barrier = barriers.find(origin.cluster, rank, offset, origin)
            if not no_increment:
                barrier.add_pending(1, origin)
            where[origin.lane] = origin, rank, offset

        def arrive_now(lane: int) -> None:
            origin, rank, offset = where[lane]
            barriers.find(origin.cluster, rank, offset, origin).arrive(1, origin, asynchronous=True)

        when_complete(bundle, bundle.lanes(mask), arrive_now)

    return step
