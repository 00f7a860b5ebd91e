"""mbarrier objects: the state of each, and the lanes that wait for its phases.

The instructions are in mbarrier.
A cohort keeps an object under (cluster, rank, offset), apart from the eight bytes of shared memory that the
program gave it. While the object is valid those bytes count as never written, so an ordinary read of them is
an error, and the object's next operation notices an ordinary write.

Source: PTX ISA 9.0, mbarrier (#parallel-synchronization-and-communication-instructions-mbarrier): contents,
        phase completion, expect-tx, complete-tx and arrive-on operations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort, Split
from cutecourse.emulator.core.kinds import WARP_SIZE, put
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.outcomes import Undecided
from cutecourse.emulator.core.registry import name_of
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.waits import Sleepers, TimedWait
from cutecourse.emulator.errors import BarrierCountError, EmulatorError, NoBarrierError
from cutecourse.trace.words import number

__all__ = ["MAX_COUNT", "Group", "MBarrier", "MBarriers", "PhaseWait", "unread_answer"]

MAX_COUNT = (1 << 20) - 1
"""The largest arrival count, and the largest tx-count in both directions."""
_KEPT = 24
"""The number of events that a barrier remembers, for reports."""
_Key = tuple[int, int, int]


@dataclass(eq=False, slots=True)
class Group:
    """Lanes of one warp that wait for one barrier's current phase."""

    barrier: MBarrier
    origin: Origin
    """The origin of the first lane."""
    lanes: list[int]
    """The lanes' numbers in the warp."""
    parity: int
    refused: bool = False
    """True if a steering wants the answer false."""
    done: bool = False
    wait: PhaseWait = field(init=False)


class PhaseWait(TimedWait):
    """A split that waits for phases to complete: why it waits, and how it continues."""

    def __init__(self, split: Split, groups: list[Group], target: int, following: int) -> None:
        self.split = split
        self.groups = groups
        self.target = target
        """The slot of the predicate that receives the result of the wait."""
        self.following = following
        self.site, self.bundle = groups[0].origin.site, groups[0].origin.bundle
        self.left = 0
        """The number of groups whose phase is not complete."""
        for group in groups:
            group.wait = self
            self.left += not group.done
        sleepers = self.bundle.machine.own(Sleepers)
        sleepers.all[self] = None
        if self.left < len(groups):
            sleepers.half_awake[self] = None

    @property
    def line(self) -> int:
        """The line of the instruction that waits."""
        return self.site.line

    def end(self) -> list[Group]:
        """Stop waiting; return the groups, which another wait may take over."""
        self.bundle.machine.own(Sleepers).drop(self)
        groups, self.groups = self.groups, []
        return groups

    def wake(self) -> None:
        """Continue with true, because all phases that the split waits for have completed."""
        bundle = self.bundle
        put(bundle.rows["pred"][self.target], True, self.split.mask)
        for group in self.end():
            for tell in bundle.cohort.listeners.happened:
                tell(
                    "mbarrier.resume",
                    group.origin,
                    one=len(group.lanes) == 1,
                    barrier=group.barrier.about(),
                    parity=group.parity,
                )
        bundle.unpark(self.split, self.following)

    def wake_some(self) -> None:
        """Let lanes continue whose phase has completed; the others keep waiting in a split of their own."""
        waiting = [group for group in self.groups if not group.done]
        rest = np.zeros_like(self.bundle.full)
        for group in waiting:
            rest[group.origin.cluster, group.lanes] = True
        other = self.bundle.fork(self.split, rest, self.split.at)
        other.waiting = PhaseWait(other, waiting, self.target, self.following)
        self.groups = [group for group in self.groups if group.done]
        self.wake()

    def key(self) -> tuple[int, ...]:
        """Identify the wait by bundle, line, barriers and phases: a repeated wait has the same key."""
        what = [part for group in self.groups for part in (id(group.barrier), group.barrier.phase)]
        return (id(self.bundle), self.line, *what)

    def time_out(self) -> None:
        """Continue with false, as the hardware does when its time limit is over."""
        put(self.bundle.rows["pred"][self.target], False, self.split.mask)
        for group in self.end():
            group.barrier.waiters.remove(group)
        self.split.waiting = None
        self.split.at = self.following
        self.bundle.machine.wake(self.bundle)

    def describe(self, warp: int) -> str:
        """Say what the lanes of a warp are waiting for."""
        name = f"mbarrier.{self.site.instruction.modifiers[0]}"
        rows = [
            f"{name} waits for parity {group.parity} of {group.barrier.label()}, which is in phase"
            f" {group.barrier.phase} and lacks {group.barrier.missing()}"
            for group in self.groups
            if group.origin.cluster == warp
        ]
        return "; ".join(rows[:4]) + ("; and more" if len(rows) > 4 else "")

    def barriers(self, warp: int) -> list[MBarrier]:
        """The barriers that the lanes of a warp wait for."""
        return list(dict.fromkeys(group.barrier for group in self.groups if group.origin.cluster == warp))


@dataclass(eq=False, slots=True)
class PhaseSeen:
    """A test of an mbarrier that was true: the barrier, who asked, and how many phases were complete."""

    barrier: MBarrier
    origin: Origin
    phase: int

    def counts(self, lanes: list[int]) -> None:
        """Tell that lanes, numbered through the bundle, go on because the answer was true."""
        barrier, bundle = self.barrier, self.origin.bundle
        barrier.seen = max(barrier.seen, self.phase)
        for tell in barrier.cohort.listeners.mbarrier_seen:
            tell(bundle, barrier, self.phase, lanes)


@dataclass(eq=False, slots=True)
class MBarrier:
    """One mbarrier object."""

    cohort: Cohort
    cluster: int
    rank: int
    offset: int
    expected: int
    """Arrivals that the next phase will wait for."""
    pending: int = field(init=False)
    """Arrivals that the current phase still waits for."""
    tx: int = 0
    """Bytes that the current phase still waits for; negative if bytes came before their expect_tx."""
    phase: int = 0
    """The number of phases that have completed."""
    seen: int = 0
    """The number of completed phases that some thread has observed by a wait."""
    loaded: int = 0
    """The last phase in which copies have brought bytes, counted from 1; 0 for none."""
    name: str | None = field(init=False)
    word: int = field(init=False)
    """The index of the object among the cohort's words of eight bytes."""
    known_to: set[int] = field(default_factory=set)
    """The warps, by their numbers in the cluster, of whose uses no observer needs to hear any more."""
    waiters: list[Group] = field(default_factory=list)
    history: dict[tuple[str, int, Site, Bundle], tuple[int, Origin]] = field(default_factory=dict)
    """The last events, (what, phase, ...): (how many, who), oldest first, for reports.

    Everything that one warp does with one instruction in one phase is one event.
    """

    def __post_init__(self) -> None:
        self.pending = self.expected
        self.name = self.cohort.machine.program.placement.shared_label(self.offset)
        self.word = (self.cohort.shared_start(self.cluster, self.rank) + self.offset) >> 3

    # --- what happens to it ---------------------------------------------------------------------------------

    def expect_tx(self, n_bytes: int, origin: Origin) -> None:
        """Make the current phase wait for more bytes."""
        tx = self.tx + n_bytes
        if not -MAX_COUNT <= tx <= MAX_COUNT:
            raise self._out_of_range(tx, origin)
        self.tx = tx
        self.note("expect_tx", n_bytes, origin)
        for tell in self.cohort.listeners.mbarrier_expected:
            tell(self, origin)
        done = self._settle()
        for tell in self.cohort.listeners.happened:
            tell("mbarrier.expect_tx", origin, barrier=self.about(), bytes=n_bytes, state=self.state())
        if done:
            self._completed()

    def arrive(
        self,
        count: int,
        origin: Origin,
        *,
        drop: bool = False,
        expect: int | None = None,
        lanes: NDArray[np.int64] | None = None,
        work: Origin | None = None,
        asynchronous: bool = False,
    ) -> None:
        """Count arrivals: `count` each of some lanes (None: the origin's), which first expect bytes each.

        `work` is the operation that arrives for the thread. `asynchronous` says that the arrival comes when
        an operation of the thread completes, and not at the thread's own time.
        """
        for tell in self.cohort.listeners.mbarrier_arrived:
            tell(self, origin, work, lanes)
        several = 1 if lanes is None else len(lanes)
        if expect is not None:
            self.expect_tx(expect * several, origin)
        total = count * several
        if total > self.pending:
            if self.pending == 0:
                why = f"all arrivals of phase {self.phase} have come"
                if self.tx:
                    why += (
                        f", and it still waits for {self.tx} bytes"
                        if self.tx > 0
                        else f"; {-self.tx} bytes too many"
                    )
                if self.expected == 0:
                    why = "all its participants have dropped out"
            else:
                why = f"phase {self.phase} waits for {self.pending} more"
            raise origin.error(
                BarrierCountError,
                f"{number(total, 'arrival')} at {self.where()}: {why}. Was it initialised with too few, or "
                "is this arrival meant for a later phase and came without waiting for this one?",
            )
        self.pending -= total
        if drop:
            self.expected -= total
        self.note("arrive_drop" if drop else "arrive", total, origin)
        done = self._settle()
        for tell in self.cohort.listeners.happened:
            tell(
                "mbarrier.arrive",
                origin,
                one=several == 1,
                barrier=self.about(),
                count=total,
                dropped=drop,
                state=self.state(),
                **({"asynchronous": True} if asynchronous else {}),
            )
        if done:
            self._completed()

    def add_pending(self, count: int, origin: Origin) -> None:
        """Make the current phase wait for more arrivals, as cp.async.mbarrier.arrive without .noinc does."""
        if self.pending + count > MAX_COUNT:
            raise origin.error(
                BarrierCountError,
                f"{self.pending + count} arrivals would be pending at {self.where()}: at most"
                f" {MAX_COUNT} can be",
            )
        self.pending += count
        for tell in self.cohort.listeners.mbarrier_raised:
            tell(self, origin)
        self.cohort.machine.changes += 1

    def complete_tx(
        self,
        n_bytes: int,
        origin: Origin,
        transfer: object,
        *,
        by_thread: bool = False,
    ) -> None:
        """Count bytes that a bulk copy (`transfer`), a st.async or (`by_thread`) the thread has brought."""
        tx = self.tx - n_bytes
        if not -MAX_COUNT <= tx <= MAX_COUNT:
            raise self._out_of_range(tx, origin)
        if transfer is None:
            for tell in self.cohort.listeners.mbarrier_received:
                tell(self, origin, None if by_thread else origin)
        self.tx = tx
        if not by_thread:
            self.loaded = self.phase + 1
        self.note("complete_tx", n_bytes, origin)
        done = self._settle()
        kind, cohort = "mbarrier.complete_tx", self.cohort
        for tell in cohort.listeners.happened if by_thread else ():
            about = self.about()
            tell(kind, origin, barrier=about, bytes=n_bytes, transfer=transfer, state=self.state())
        for tell in () if by_thread else cohort.listeners.happened_in:
            about, place = self.about(), (self.cluster, self.rank, origin.site.line)
            tell(kind, cohort, *place, barrier=about, bytes=n_bytes, transfer=transfer, state=self.state())
        if done:
            self._completed()

    def note(self, what: str, number: int, origin: Origin) -> None:
        """Remember an event, for reports."""
        history = self.history
        key = (what, self.phase, origin.site, origin.bundle)
        before = history.pop(key, None)
        if before is not None:
            number += before[0]
        elif len(history) >= _KEPT:
            del history[next(iter(history))]
        history[key] = (number, origin)

    def _settle(self) -> bool:
        """Advance to the next phase, and return True, if the current one is complete."""
        self.cohort.machine.changes += 1
        if self.pending or self.tx:
            return False
        self.phase += 1
        self.pending = self.expected
        for tell in self.cohort.listeners.mbarrier_completed:
            tell(self)
        return True

    def _completed(self) -> None:
        """Announce that a phase has completed, and wake the lanes that wait for it."""
        for tell in self.cohort.listeners.happened_in:
            done = self.phase - 1
            tell("mbarrier.phase", self.cohort, self.cluster, self.rank, barrier=self.about(), phase=done)
        waiters, self.waiters = self.waiters, []
        for group in waiters:
            group.done = True
            wait = group.wait
            first = group.origin.cluster * WARP_SIZE
            self.found_complete(group.origin, [first + lane for lane in group.lanes])
            wait.left -= 1
            if wait.left:
                self.cohort.machine.own(Sleepers).half_awake[wait] = None
            else:
                wait.wake()

    # --- what threads learn of it ---------------------------------------------------------------------------

    def found_complete(self, origin: Origin, lanes: list[int]) -> None:
        """A test by lanes, numbered through the bundle, was true: it counts where they use the answer."""
        found, outcome = PhaseSeen(self, origin, self.phase), origin.site.outcome
        if outcome is None or outcome.at_once:
            found.counts(lanes)
        else:
            origin.bundle.own(Undecided).add(outcome, lanes, found)

    @staticmethod
    def found_open(origin: Origin, lanes: list[int]) -> None:
        """A test by some lanes was false, so that an answer that they had before is gone."""
        outcome = origin.site.outcome
        if outcome is not None and not outcome.at_once:
            origin.bundle.own(Undecided).drop(outcome, lanes)

    # --- how it fails ---------------------------------------------------------------------------------------

    def _out_of_range(self, tx: int, origin: Origin) -> EmulatorError:
        return origin.error(
            BarrierCountError,
            f"the tx-count of {self.where()} would be {tx} in phase {self.phase}, outside of"
            f" -{MAX_COUNT}..{MAX_COUNT}",
        )

    # --- how it is told -------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Identify the barrier in events."""
        return {"rank": self.rank, "offset": self.offset, "name": self.name}

    def state(self) -> dict[str, int]:
        """The barrier's state, for events."""
        return {"phase": self.phase, "pending": self.pending, "tx": self.tx}

    def where(self) -> str:
        """Name the barrier and its block, in words."""
        x, y, z = self.cohort.blocks[self.cluster, self.rank].tolist()
        cta = f", CTA {self.rank} of its cluster" if self.cohort.size > 1 else ""
        return f"{self._named()} (block ({x}, {y}, {z}){cta}, shared offset {self.offset})"

    def label(self) -> str:
        """Name the barrier within its CTA, in words."""
        return f"{self._named()} (shared offset {self.offset})"

    def _named(self) -> str:
        return f"mbarrier {self.name}" if self.name else "the mbarrier"

    def missing(self) -> str:
        """Say which arrivals and bytes the current phase lacks."""
        what = f"{self.pending} of {self.expected} arrivals" if self.pending else ""
        if self.tx > 0:
            what += f"{' and ' if what else ''}{self.tx} bytes"
        elif self.tx < 0:
            what += (
                f"{', while ' if what else 'nothing, but '}{-self.tx} bytes came that no expect_tx announced"
            )
        return what

    def came(self, phase: int) -> list[tuple[str, int, Origin]]:
        """The events of a phase except init: what, how many, and who; oldest first."""
        return [
            (what, count, origin)
            for (what, at, *_), (count, origin) in self.history.items()
            if at == phase and what != "init"
        ]


def unread_answer(origin: Origin, barrier: MBarrier | None = None) -> str:
    """For a report: a test whose answer true orders nothing yet, or nothing at all; empty if there is none.

    It is a test of the thread's warp, or one of its cluster that decides nothing; of `barrier` if given.
    """
    own = origin.bundle
    for bundle in (own, *(other for other in own.cohort.bundles if other is not own)):
        for outcome, lanes in (bundle.owned(Undecided) or {}).items():
            for lane, found in lanes.items():
                assert isinstance(found, PhaseSeen)
                if lane // WARP_SIZE != origin.cluster or barrier not in {None, found.barrier}:
                    continue
                if outcome.decided and bundle is not own:
                    continue
                where = "no branch before this place depends" if outcome.decided else "no branch depends"
                name = name_of(found.origin.site.instruction)
                return (
                    f" The {name} at line {found.origin.site.in_words} asks for a phase of"
                    f" {found.barrier.label()}, but {where} on its answer, which may be false. Branch back to"
                    " it while it is false."
                )
    return ""


class MBarriers:
    """The mbarrier objects of a cohort."""

    def __init__(self, cohort: Cohort) -> None:
        self.cohort = cohort
        self.live: dict[_Key, MBarrier] = {}
        self.gone: dict[_Key, int] = {}
        """The places of invalidated objects, with the line of the mbarrier.inval."""
        self._written: NDArray[Any] = cohort.shared_words(8)[1]
        cohort.objects.append(self._at)

    def _at(self, cluster: int, rank: int, offset: int) -> str | None:
        """Name the valid object that a byte belongs to; None if there is none."""
        found = self.live.get((cluster, rank, offset & ~7))
        return None if found is None else found.where()

    def find(self, cluster: int, rank: int, offset: int, origin: Origin) -> MBarrier:
        """The valid object at an offset. Errors: NoBarrierError."""
        found = self.live.get((cluster, rank, offset))
        if found is None or self._written.item(found.word):
            raise self._nothing(cluster, rank, offset, found, origin)
        if origin.bundle.number not in found.known_to:
            for tell in self.cohort.listeners.mbarrier_used:
                tell(found, origin)
        return found

    def holds(self, barrier: MBarrier) -> bool:
        """True if no store has overwritten the object."""
        return not self._written[barrier.word]

    def _nothing(
        self, cluster: int, rank: int, offset: int, found: MBarrier | None, origin: Origin
    ) -> EmulatorError:
        if found is not None:
            return origin.error(
                NoBarrierError,
                f"{found.where()} was overwritten by a store or a copy while it was valid."
                " Invalidate it with mbarrier.inval before its memory is used for something else.",
            )
        x, y, z = self.cohort.blocks[cluster, rank].tolist()
        name = self.cohort.machine.program.placement.shared_label(offset)
        at = f"shared offset {offset}" + (f" ({name})" if name else "") + f" of block ({x}, {y}, {z})"
        line = self.gone.get((cluster, rank, offset))
        if line is not None:
            return origin.error(
                NoBarrierError,
                f"{at} holds no mbarrier any more: it was invalidated at line"
                f" {origin.bundle.program.line_in_words(line)}",
            )
        return origin.error(
            NoBarrierError,
            f"{at} holds no mbarrier: mbarrier.init has not run there. Is the address right, and is there a"
            " barrier between mbarrier.init and the first use in another thread or CTA?",
        )

    def init(self, cluster: int, rank: int, offset: int, count: int, origin: Origin) -> MBarrier:
        """Make an object. Errors: BarrierInUse if a valid one is there, BarrierCountError."""
        key = (cluster, rank, offset)
        found = self.live.get(key)
        if found is not None and not self._written[found.word]:
            self._in_use(found, "initialised again", origin)
        if not 1 <= count <= MAX_COUNT:
            raise origin.error(
                BarrierCountError, f"an mbarrier for {count} arrivals: the count must be in 1..{MAX_COUNT}"
            )
        made = self.live[key] = MBarrier(self.cohort, cluster, rank, offset, count)
        self.gone.pop(key, None)
        self._written[made.word] = 0
        for tell in self.cohort.listeners.mbarrier_made:
            tell(made, origin)
        made.note("init", count, origin)
        self.cohort.machine.changes += 1
        return made

    def inval(self, cluster: int, rank: int, offset: int, origin: Origin) -> MBarrier:
        """Invalidate an object. Errors: NoBarrierError, BarrierInUse while a thread waits for it."""
        found = self.find(cluster, rank, offset, origin)
        if found.waiters:
            self._in_use(found, "invalidated", origin)
        del self.live[cluster, rank, offset]
        self.gone[cluster, rank, offset] = origin.site.line
        return found

    @staticmethod
    def _in_use(found: MBarrier, what: str, origin: Origin) -> None:
        """Report an object in use. If the launch goes on, its waiting threads test again."""
        if found.waiters:
            wait = found.waiters[0].wait
            (x, y, z), warp, _ = wait.bundle.where(found.cluster * WARP_SIZE)
            line = found.cohort.machine.program.line_in_words(wait.line)
            why = f"block ({x}, {y}, {z}) warp {warp} waits for its phase {found.phase} at line {line}"
        else:
            why = "it is still valid. Invalidate it with mbarrier.inval first."
        report("mbarrier in use", f"{found.where()} is {what}, and {why}", origin)
        for group in list(found.waiters):
            if group.wait in origin.bundle.machine.own(Sleepers).half_awake:
                group.wait.wake_some()
            if group in found.waiters:
                group.wait.time_out()
