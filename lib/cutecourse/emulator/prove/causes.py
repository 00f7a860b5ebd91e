"""Causes: what had to happen before each arrival and each wait of one run, and where another order is legal.

Signals at barriers only accumulate. Suppose that in one run these conditions hold, where "before" means that
the order of each thread, and the waits that have passed, force it:

- an arrival, an expectation of bytes or arrivals, or a completion of bytes in phase n comes after phase n - 1
  is complete;
- the bytes that a phase expects, and the arrivals of copies that it waits for on top of its count, are
  announced before one of the arrivals that it counts;
- a wait for phase n begins after phase n - 1 is complete, and passes before phase n + 1 is;
- work that signals another CTA's mbarrier is over before that CTA ends. (The race check sees to what threads
  do there themselves.)

Then by induction every legal order gives each barrier the same phases with the same arrivals, and each wait
the same phase. So it has the same happens-before relation, and what a check of one run says by that relation
holds for all orders. A `Doubt` is a pair of events for which a condition fails: a legal order exists in which
the pair happens the other way round.

Lanes of a warp that execute an instruction of the list above together know the same from then on, and so do
lanes that meet: at a bar.warp.sync, a barrier, or an instruction with `.aligned` or a membermask. Lanes that
run apart are threads of their own. This holds for events at barriers: an instruction with a membermask orders
them, because it holds the lanes until all have come. For what lanes read and write, the race check asks for
more: it does not trust the lanes (emulator.checks.race_parts).

Simplified: lanes that execute such an instruction together in this run do so in every order. An arrival
            counts as performed in the order of its thread, also a relaxed one. The commits of a thread arrive
            in their order, a multicast one at each CTA at its own time. A wgmma is over when all four warps
            have issued it and its sums are there.
Source:     PTX ISA 9.0, Phase of the mbarrier object
            (#parallel-synchronization-and-communication-instructions-mbarrier-phase); Memory Consistency
            Model, Causality order; Lamport, Time, Clocks, and the Ordering of Events in a Distributed System
            (CACM 1978).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.clocks import BarrierClock, Clocks, Row
from cutecourse.emulator.checks.race_plan import AccessPlan
from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.steering import Delay, Execution, Steering
from cutecourse.emulator.instructions.warpgroups import InFlight
from cutecourse.emulator.memory.mbarriers import MBarrier, MBarriers

if TYPE_CHECKING:
    from cutecourse.emulator.instructions.bulk.pieces import Piece
    from cutecourse.emulator.instructions.bulk.request import Copy
    from cutecourse.emulator.memory.access import Access

__all__ = ["CauseRecord", "Causes", "Doubt", "Logged", "Place"]


Place = tuple[Delay, str, int]
"""An event at a barrier, in words, and in a phase of it."""


class Doubt(NamedTuple):
    """Two events that a legal order exchanges.

    kind   "early arrival", "late expectation", "early wait", "lapped wait" or "block gone"; "flag" for two
           fences, atomics or strong accesses, by which the race check takes one thread to know the other.
    where  the barrier, or the block, in words.
    early  the event that comes too early if `late` comes late. A `Delay` stands for the event that it delays.
    """

    kind: str
    where: str
    phase: int
    early: Delay
    late: Delay

    @property
    def key(self) -> Hashable:
        """Doubts of the same kind at the same lines are alike."""
        return self.kind, self.early.place.line, self.late.place.line, self.late.work


@dataclass(eq=False)
class CauseRecord:
    """What the cohorts of one run found."""

    doubts: list[Doubt] = field(default_factory=list)
    events: int = 0
    """Arrivals, expectations, completions of bytes, and waits."""
    phases: int = 0
    flags: list[Doubt] = field(default_factory=list)
    apart: Execution | None = None
    """An event of lanes, the first, just after one of other lanes of their warp, which they have not met."""
    log: list[Logged] | None = None
    """The events in their order, if they are wanted."""

    @property
    def signature(self) -> frozenset[Place]:
        """The phases in which the events happened. Runs with the same ones have the same order."""
        return frozenset(one.place for one in self.log or ())


class Logged(NamedTuple):
    """An event of a run, in the order in which they happened.

    where  the barrier, in words.
    known  components and tags: a clock that knows one of them knows the event.
    row    what the event's thread, or its issuer, knows.
    """

    event: Delay
    where: str
    phase: int
    known: tuple[tuple[int, int], ...]
    row: Row

    @property
    def place(self) -> Place:
        """The event with its barrier and its phase there. The copies of a multicast are one event."""
        return self.event, self.where, self.phase

    def comes_after(self, other: Logged) -> bool:
        """True if in every order this event comes after another one."""
        return any(agent < len(self.row) and tag < int(self.row[agent]) for agent, tag in other.known)


class _Event(NamedTuple):
    """An action, by its component and its tag there; that of a copy is known only with its phase."""

    agent: int
    tag: int
    place: Execution
    work: bool = False

    @property
    def delay(self) -> Delay:
        """What would delay it."""
        return Delay(self.place, work=self.work)


class _Arrival(NamedTuple):
    """An arrival, or bytes that came.

    row     what the thread knows, or the issuer of the work.
    counts  True if the barrier's count includes it: it is an arrival, and not one that was announced.
    """

    event: _Event
    row: Row
    counts: bool


class _IssuedWork(NamedTuple):
    """What the issuer of work knew, and where it issued the work."""

    row: Row
    event: _Event
    commit: tuple[int, int, int] = (0, 0, 0)
    """Of a commit: its warp's number, its lane, and how many commits of that thread are asked for so far."""


class _Part(NamedTuple):
    """Lanes of a warp that know the same: the bits of `_bits`, and a clock."""

    lanes: int
    row: Row


class _Barrier:
    """The events of one barrier, by phase."""

    def __init__(self, clock: BarrierClock, where: str) -> None:
        self.clock = clock
        self.where = where
        self.arrived: dict[int, list[_Arrival]] = defaultdict(list)
        self.expected: dict[int, list[_Event]] = defaultdict(list)
        self.waited: dict[int, list[_Event]] = defaultdict(list)
        self.done: dict[int, Row] = {}


class Causes(Observer):
    """The causes of a cohort's events. The cohort has one cluster."""

    def __init__(self, cohort: Cohort, steering: Steering, found: CauseRecord) -> None:
        assert cohort.n == 1
        self.cohort = cohort
        self.steering = steering
        self.found = found
        self.clocks = Clocks(cohort, cohort.machine.program.own(AccessPlan).line_bits)
        self._parts = [[_Part(_ALL, self.clocks.nothing())] for _ in range(self.clocks.warps)]
        """The parts of each warp; the first acted last, and the warp's row in `clocks` is its clock."""
        self._own = list(range(self.clocks.warps))
        """For each warp the component in which its first part counts."""
        self._barriers: dict[Hashable, _Barrier] = {}
        self._issued: dict[object, _IssuedWork] = {}
        """By the copies, and the origins of commits and stores, that are under way."""
        self._commits: Counter[tuple[int, int]] = Counter()
        """The commits of each thread so far, by its warp's number and its lane."""
        self._multiplied: WeakKeyDictionary[InFlight, Row] = WeakKeyDictionary()
        self._arriving: Origin | None = None
        self._raising: set[Origin] = set()
        """The cp.async arrivals for which their phases wait on top of the count."""
        self._flagged: dict[int, _Event] = {}
        """The last fence, atomic or strong access in each component."""
        self._ended: dict[int, Row] = {}
        """For each rank the clocks of its warps that have ended, merged."""
        self._sent: dict[tuple[int, Hashable], tuple[int, _Event]] = {}
        """By rank and barrier, the last phase in which work of another CTA came there."""

    # --- clocks ---------------------------------------------------------------------------------------------

    def _row(self, bundle: Bundle) -> Row:
        return self.clocks.row(bundle, 0)

    def _event(self, bundle: Bundle) -> _Event:
        """The action now of the lanes that act."""
        own = self._own[bundle.number]
        place = self.steering.last[id(bundle)]
        return _Event(own, int(self._row(bundle)[own]) - self.clocks.step, place)

    def _tick(self, bundle: Bundle) -> None:
        """Begin a new count for the lanes that act."""
        self._row(bundle)[self._own[bundle.number]] = self._next(self._row(bundle), self._own[bundle.number])

    def _next(self, row: Row, own: int) -> int:
        return min(self._entry(row, own) + self.clocks.step, self.clocks.entry(self.clocks.most))

    def _component(self, bundle: Bundle, lanes: int) -> int:
        """The component in which lanes count: that of the first of them."""
        first = ((lanes & -lanes).bit_length() - 1) // 8
        if not first:
            return bundle.number
        return self.clocks.component("lanes", bundle.rank, bundle.warp, first)

    def _acting(self, bundle: Bundle) -> None:
        """The lanes that execute the current instruction act together."""
        self._together(bundle, _bits(self.steering.acting[id(bundle)]))

    def _together(self, bundle: Bundle, lanes: int) -> None:
        """Let lanes of a warp act together: they know the same now. The others learn nothing of them."""
        warp, parts = bundle.number, self._parts[bundle.number]
        if parts[0].lanes == lanes:
            return
        if not parts[0].lanes & lanes and self.found.apart is None:
            self.found.apart = self.steering.last.get(id(bundle))
        parts[0] = parts[0]._replace(row=self._row(bundle).copy())
        row, rest = self.clocks.nothing(), []
        for part in parts:
            if part.lanes & lanes:
                row = self.clocks.merged(row, part.row)
            left = part.lanes & ~lanes
            if left == part.lanes:
                rest.append(part)
            elif left:
                rest.append(_Part(left, self._parted(bundle, left, part.row)))
        self._parts[warp] = [_Part(lanes, row), *rest]
        self._own[warp] = self._component(bundle, lanes)
        row = self._parted(bundle, lanes, row)
        self.clocks.known[warp, 0] = self.clocks.merged(self.clocks.nothing(), row)

    def _parted(self, bundle: Bundle, lanes: int, row: Row) -> Row:
        """The clock of lanes that begin a count which no other part of their warp knows."""
        own = self._component(bundle, lanes)
        row = self.clocks.merged(self.clocks.nothing(), row)
        row[own] = self._next(row, own)
        return row

    def _entry(self, row: Row, component: int) -> int:
        return int(row[component]) if component < len(row) else self.clocks.step

    def _unknown(self, row: Row, barrier: _Barrier, phase: int) -> list[_Event]:
        """The arrivals of a phase that need not have happened for one who knows `row`."""
        clock = barrier.clock
        if phase < 0 or self._entry(row, clock.component) >= self.clocks.entry(clock.base + phase + 1):
            return []
        return [one.event for one in barrier.arrived[phase] if not self._knows(row, one.event)]

    def _knows(self, row: Row, event: _Event) -> bool:
        """True if an event is known to one who knows `row`."""
        return event.tag < self._entry(row, event.agent)

    def _log(self, barrier: _Barrier, phase: int, event: _Event, row: Row, *, is_part: bool = True) -> None:
        """Log an event; who knows that a phase is complete knows the events that are part of it."""
        if self.found.log is not None:
            clock = barrier.clock
            whole = clock.component, self.clocks.tag(clock.base + phase + 1, 0)
            known = ((event.agent, event.tag), *([whole] if is_part else []))
            self.found.log.append(Logged(event.delay, barrier.where, phase, known, row.copy()))

    def _doubt(self, kind: str, barrier: _Barrier, phase: int, event: _Event, late: _Event) -> None:
        self.found.doubts.append(Doubt(kind, barrier.where, phase, event.delay, late.delay))

    def _arrival(
        self, barrier: _Barrier, phase: int, row: Row, event: _Event, *, counts: bool = True
    ) -> None:
        """Something arrives in a phase, and knows `row`."""
        self.found.events += 1
        for late in self._unknown(row, barrier, phase - 1):
            self._doubt("early arrival", barrier, phase, event, late)
        self._log(barrier, phase, event, row)
        barrier.arrived[phase].append(_Arrival(event, row, counts))
        barrier.clock.arrive(row)

    def _completed(self, barrier: _Barrier) -> None:
        clock = barrier.clock
        phase = clock.phase
        clock.complete()
        self.found.phases += 1
        assert clock.done is not None
        arrived = barrier.arrived[phase]
        for event in barrier.expected.pop(phase, ()):
            if not any(one.counts and self._knows(one.row, event) for one in arrived):
                early = next(
                    one.event
                    for one in reversed(arrived)
                    if not self._knows(one.row, event) and one.event.place != event.place
                )
                self._doubt("late expectation", barrier, phase, early, event)
        for event in barrier.waited.pop(phase - 1, ()):
            if not self._knows(clock.done, event):
                self._doubt("lapped wait", barrier, phase - 1, arrived[-1].event, event)
        barrier.done[phase] = clock.done
        barrier.arrived.pop(phase - 2, None)
        barrier.done.pop(phase - 2, None)

    def _passed(self, barrier: _Barrier, bundle: Bundle, phase: int, lanes: int, *, by_parity: bool) -> None:
        """Lanes of a warp have waited for a phase."""
        self._together(bundle, lanes)
        self.found.events += 1
        event = self._event(bundle)
        if by_parity and (asked := self.steering.asked.get(id(bundle))) is not None:
            event = event._replace(place=asked)
        if by_parity:
            for late in self._unknown(self._row(bundle), barrier, phase - 1):
                self._doubt("early wait", barrier, phase, event, late)
            barrier.waited[phase].append(event)
        self.clocks.learn(bundle, 0, barrier.done.get(phase))
        if by_parity:
            self._log(barrier, phase, event, self._row(bundle), is_part=False)

    def flagged(self, bundle: Bundle, mask: Mask) -> None:
        """A warp may publish what it did, or learn what others published before in this run."""
        self._together(bundle, _bits(mask))
        event, row = self._event(bundle), self._row(bundle)
        for late in self._flagged.values():
            if not self._knows(row, late):
                self.found.flags.append(Doubt("flag", "", 0, event.delay, late.delay))
        self._flagged[event.agent] = event
        self._tick(bundle)

    # --- barriers of warps ----------------------------------------------------------------------------------

    def lanes_met(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Lanes have come together at a bar.warp.sync."""
        self._together(bundle, _bits(mask))

    def gate_passed(self, bundle: Bundle, mask: Mask) -> None:
        """Lanes have come together at another instruction."""
        self._together(bundle, _bits(mask))

    def _meeting(self, kind: str, rank: int, number: int) -> _Barrier:
        key = (kind, rank, number)
        found = self._barriers.get(key)
        if found is None:
            clock = BarrierClock(self.clocks, self.clocks.component(kind, rank, number), 0)
            where = f"barrier {number}" if kind == "barrier" else "the cluster's barrier"
            found = self._barriers[key] = _Barrier(clock, where)
        return found

    def _meet(self, barrier: _Barrier, bundle: Bundle, lanes: int) -> None:
        self._together(bundle, lanes)
        self._arrival(barrier, barrier.clock.phase, self._row(bundle).copy(), self._event(bundle))
        self.clocks.tick(bundle, 0)

    def barrier_arrived(self, bundle: Bundle, number: int, rows: NDArray[np.bool_]) -> None:
        """A warp arrives at a barrier of its block."""
        if rows[0]:
            self._meet(self._meeting("barrier", bundle.rank, number), bundle, _ALL)

    def barrier_completed(
        self, rank: int, number: int, rows: NDArray[np.bool_], *, all_threads: bool
    ) -> None:
        """A barrier of a block is complete; warps that have ended count as arrived if it waits for all."""
        if rows[0]:
            barrier = self._meeting("barrier", rank, number)
            if all_threads and rank in self._ended:
                barrier.clock.arrive(self._ended[rank])
            self._completed(barrier)

    def barrier_left(self, bundle: Bundle, number: int, mask: Mask) -> None:
        """A warp that has waited at a barrier of its block goes on."""
        barrier = self._meeting("barrier", bundle.rank, number)
        self._passed(barrier, bundle, barrier.clock.phase - 1, _bits(mask), by_parity=False)

    def cluster_arrived(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Lanes of a warp arrive at the barrier of their cluster."""
        self._meet(self._meeting("cluster", 0, 0), bundle, _bits(mask))

    def cluster_completed(self, rows: NDArray[np.bool_]) -> None:
        """The barrier of the cluster is complete."""
        barrier = self._meeting("cluster", 0, 0)
        for row in self._ended.values():
            barrier.clock.arrive(row)
        self._completed(barrier)

    def cluster_left(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Lanes that have waited at the barrier of their cluster go on."""
        if mask.any():
            barrier = self._meeting("cluster", 0, 0)
            self._passed(barrier, bundle, barrier.clock.phase - 1, _bits(mask), by_parity=False)

    # --- mbarriers ------------------------------------------------------------------------------------------

    def mbarrier_made(self, barrier: MBarrier, origin: Origin) -> None:
        """Begin to follow an mbarrier."""
        clock = self.clocks.barrier(0, barrier.rank, barrier.offset)
        self._barriers[_key(barrier)] = _Barrier(clock, barrier.where())

    def mbarrier_arrived(
        self, barrier: MBarrier, origin: Origin, work: Origin | None, lanes: NDArray[np.int64] | None
    ) -> None:
        """A thread arrives, or a commit or the end of cp.async that it has issued does."""
        self._arriving = origin
        held = self._barriers[_key(barrier)]
        if work is not None:
            self._work(barrier, self._issued[work], counts=True)
        elif origin in self._issued:
            self._work(barrier, self._issued[origin], counts=origin not in self._raising)
        else:
            self._acting(origin.bundle)
            event = self._event(origin.bundle)
            self._arrival(held, barrier.phase, self._row(origin.bundle).copy(), event)
            self._tick(origin.bundle)

    def _work(self, barrier: MBarrier, issued: _IssuedWork, *, counts: bool) -> None:
        """Work that a thread issued earlier signals an mbarrier."""
        row, event = issued.row, issued.event
        warp, lane, count = issued.commit
        if count:
            # Earlier commits have arrived everywhere, this one perhaps not yet at other CTAs.
            streams = [self.clocks.component("commit", rank, warp, lane) for rank in range(self.cohort.size)]
            row = self.clocks.merged(self.clocks.nothing(), row)
            row[streams] = self.clocks.entry(count - 1)
            row[streams[barrier.rank]] = self.clocks.entry(count)
            event = event._replace(agent=streams[barrier.rank], tag=self.clocks.tag(count, 0))
        held = self._barriers[_key(barrier)]
        self._arrival(held, barrier.phase, row, event, counts=counts)
        self._sent[barrier.rank, _key(barrier)] = (barrier.phase, event)

    def mbarrier_expected(self, barrier: MBarrier, origin: Origin) -> None:
        """A phase waits for more bytes; an arrival that says so itself comes at the same moment."""
        if origin is not self._arriving:
            self._expectation(barrier, origin)

    def mbarrier_raised(self, barrier: MBarrier, origin: Origin) -> None:
        """A phase waits for an arrival more, that of copies."""
        self._raising.add(origin)
        self._expectation(barrier, origin)

    def _expectation(self, barrier: MBarrier, origin: Origin) -> None:
        self._acting(origin.bundle)
        held, event = self._barriers[_key(barrier)], self._event(origin.bundle)
        self.found.events += 1
        for late in self._unknown(self._row(origin.bundle), held, barrier.phase - 1):
            self._doubt("early arrival", held, barrier.phase, event, late)
        self._log(held, barrier.phase, event, self._row(origin.bundle))
        held.expected[barrier.phase].append(event)

    def mbarrier_received(self, barrier: MBarrier, origin: Origin, work: Origin | None) -> None:
        """Bytes of a st.async, or those that a thread announces itself, arrive."""
        if work is not None:
            self._work(barrier, self._issued[work], counts=False)
        else:
            self._acting(origin.bundle)
            held, event = self._barriers[_key(barrier)], self._event(origin.bundle)
            self._arrival(held, barrier.phase, self._row(origin.bundle).copy(), event, counts=False)
            self._tick(origin.bundle)

    def mbarrier_completed(self, barrier: MBarrier) -> None:
        """A phase is complete."""
        self._completed(self._barriers[_key(barrier)])

    def mbarrier_seen(self, bundle: Bundle, barrier: MBarrier, phases: int, lanes: list[int]) -> None:
        """Lanes go on because so many phases were complete."""
        asked = sum(1 << 8 * lane for lane in lanes)
        self._passed(self._barriers[_key(barrier)], bundle, phases - 1, asked, by_parity=True)

    # --- work -----------------------------------------------------------------------------------------------

    def _issue(self, key: object, bundle: Bundle, commit: tuple[int, int, int] = (0, 0, 0)) -> None:
        """Keep what the issuer knows of work whose end only its phase tells."""
        self._acting(bundle)
        event = self._event(bundle)._replace(tag=self.clocks.never, work=True)
        self._issued[key] = _IssuedWork(self._row(bundle).copy(), event, commit)
        self._tick(bundle)

    def store_asked(self, origin: Origin, access: Access, index: int, barrier: tuple[int, int]) -> None:
        """Keep what the issuer of a st.async or red.async knows."""
        self._issue(origin, origin.bundle)

    def commit_asked(self, origin: Origin) -> None:
        """Keep what the issuer of a commit knows. A thread's commits arrive in their order."""
        warp, lane = origin.bundle.number, origin.lane
        self._commits[warp, lane] += 1
        self._issue(origin, origin.bundle, (warp, lane, self._commits[warp, lane]))

    def copies_counted(self, origin: Origin) -> None:
        """Keep what a thread knows whose cp.async copies will arrive for it."""
        self._issue(origin, origin.bundle)

    def bulk_issued(self, copy: Copy) -> None:
        """Keep what the issuer of a copy knows."""
        self._issue(copy, copy.origin.bundle)

    def bulk_landed(self, copy: Copy, position: int, piece: Piece) -> None:
        """Bytes of a copy arrive at an mbarrier."""
        assert copy.to is not None
        barrier = self.cohort.own(MBarriers).live.get(copy.to.barriers[position])
        if barrier is not None:
            self._work(barrier, self._issued[copy], counts=False)

    def multiplication_reached(self, bundle: Bundle, cluster: int, multiplication: InFlight) -> None:
        """Let a wgmma know what each of its four warps knows as it reaches it, and nothing later."""
        known = self.clocks.merged(self._multiplied.get(multiplication), self._row(bundle))
        self._multiplied[multiplication] = known
        self._tick(bundle)

    def multiplication_waited(self, bundle: Bundle, cluster: int, multiplication: InFlight) -> None:
        """A warp has waited for a wgmma."""
        self.clocks.learn(bundle, 0, self._multiplied.get(multiplication))

    # --- the end of a block ---------------------------------------------------------------------------------

    def lanes_ended(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Keep what a warp that has ended knew."""
        if not bundle.live.any():
            self._together(bundle, _ALL)
            self._ended[bundle.rank] = self.clocks.merged(self._ended.get(bundle.rank), self._row(bundle))

    def cohort_ended(self, cohort: Cohort) -> None:
        """Look for work of other CTAs whose signals here a CTA's end does not wait for.

        The race check looks at threads' own uses of other CTAs (checks.race_ends).
        """
        for (rank, key), (phase, event) in self._sent.items():
            barrier, known = self._barriers[key], self._ended.get(rank)
            if known is None or event.place.block == self._block(rank):
                continue
            if event.tag >= self._entry(known, event.agent) and self._unknown(known, barrier, phase):
                block = self._block(rank)
                end = Delay(Execution(block, 0, 0, 0))
                self.found.doubts.append(Doubt("block gone", f"block {block}", phase, end, event.delay))

    def _block(self, rank: int) -> tuple[int, int, int]:
        x, y, z = self.cohort.blocks[0, rank].tolist()
        return x, y, z


_ALL = int.from_bytes(b"\x01" * WARP_SIZE, "little")
"""All lanes of a warp."""


def _bits(mask: Mask) -> int:
    """Lanes of a warp as a number, with a byte for each lane."""
    return _ALL if mask is None else int.from_bytes(mask.tobytes(), "little")


def _key(barrier: MBarrier) -> Hashable:
    return "mbarrier", barrier.rank, barrier.offset
