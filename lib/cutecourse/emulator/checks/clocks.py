"""Vector clocks: what each warp knows of the others, passed on by barriers, mbarriers and waits.

A *component* is something whose actions come one after another: a warp, an mbarrier (its phases), the
tcgen05.mma of a thread, the bulk groups of a thread. Each component counts its actions. For each component, a
warp's clock holds the last action that the warp knows of. For the warp, that action and all earlier ones are
over, and later ones may still be under way. A warp that arrives at a barrier leaves its clock there, and a
warp that has waited at the barrier takes the clock over.

Numbers are stored in the form in which they are compared. An action's *tag* is its count, shifted left, with
the PTX line in the low bits. A clock's entry is the count after the last known one, shifted likewise. So a
clock knows an action if the action's tag is less than the entry. Every clock knows count 0, for no action.

A warp has one clock here. `emulator.checks.race_parts` keeps track of what only some of its lanes know.

Simplified: counts stop at the largest that fits. All later actions share that count, so a clock that knows
            one of them knows them all.
Source:     Flanagan and Freund, FastTrack: Efficient and Precise Dynamic Race Detection (PLDI 2009);
            PTX ISA 9.0, Memory Consistency Model, Causality order.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import WARP_SIZE, all_true

__all__ = ["BarrierClock", "Clocks", "Component", "Row"]

Row = NDArray[np.uint32]
"""A clock: one entry for each component."""
_BITS = 32
_ROOM = 16


class Component(NamedTuple):
    """Something that counts its actions: "warp", "fence", "mbarrier", "mma", "wgmma", "bulk" or "grid".

    "lane" is one lane that tells others only of its own actions, in its warp's counts; "tensor" counts what a
    whole warp does to tensor memory.

    A "fence" counts the actions of its warp that a proxy fence follows, "shown" those that other CTAs see,
    "copies" how often its cp.async copies were made.

    `number` is the warp in its CTA, for "wgmma" the warpgroup, for "mbarrier" the offset in shared memory.
    `lane` is the lane that issues, for "mma" and "bulk", or that acts, for "lane".
    """

    kind: str
    rank: int
    number: int
    lane: int = 0


@dataclass(eq=False, slots=True)
class BarrierClock:
    """The clocks that have arrived at one mbarrier, and the clock that a wait for its phase takes over."""

    clocks: Clocks
    component: int
    base: int
    """The number of phases of earlier mbarriers at the same place."""
    phase: int = 0
    gathered: Row | None = None
    done: Row | None = None
    """The clocks of all arrivals up to the last complete phase, merged."""
    made: tuple[int, int, int] = (0, 0, 0)
    """The warp, the lane and the tag of its mbarrier.init."""

    def arrive(self, row: Row) -> None:
        """Merge the clock of something that arrives at the barrier."""
        self.gathered = self.clocks.merged(self.gathered, row)

    def complete(self) -> None:
        """Complete a phase."""
        self.phase += 1
        if self.gathered is None or len(self.gathered) < self.clocks.known.shape[2]:
            self.gathered = self.clocks.merged(self.gathered, self.clocks.nothing())
        self.gathered[self.component] = self.clocks.entry(self.base + self.phase)
        self.done = self.gathered.copy()

    def tag(self, line: int) -> int:
        """The tag of bytes that arrive in the current phase."""
        return self.clocks.tag(self.base + self.phase + 1, line)


class Clocks:
    """The clocks of a cohort's warps: `known[w, c]` is that of warp w in cluster c.

    The warps of a cluster are numbered block by block; warp w counts in component w. The entry for component
    `warps` + w says which actions of warp w a proxy fence follows, of those fences that the clock knows of.
    In a cluster of several CTAs the one for 2 `warps` + w says which actions of warp w, of another CTA, it
    has been shown: an arrival with the scope of its CTA tells of them, and shows them to that CTA alone.
    """

    def __init__(self, cohort: Cohort, line_bits: int, *, by_lane: bool = False) -> None:
        """`by_lane` lets each lane tell others only of what it has done itself."""
        self.by_lane = by_lane
        per_block = cohort.machine.warps_per_block
        self.clusters = cohort.n
        self.per_block = per_block
        self.warps = per_block * cohort.size
        self.shift = line_bits
        self.line_mask = (1 << line_bits) - 1
        self.step = 1 << line_bits
        self.most = (1 << (_BITS - line_bits)) - 3
        """The largest count."""
        self.never = (self.most + 2) << line_bits
        """A tag that is known to nobody."""
        self.components = [
            Component("warp", rank, warp) for rank in range(cohort.size) for warp in range(per_block)
        ]
        warps = self.components
        self.components = warps + [one._replace(kind="fence") for one in warps]
        self.across = cohort.size > 1
        if self.across:
            self.components += [one._replace(kind="shown") for one in warps]
        self.of_fences = slice(self.warps, len(self.components))
        """The entries that say what is fenced and what is shown."""
        self.lane_components = np.repeat(np.arange(self.warps)[:, None], WARP_SIZE, axis=1)
        """For each warp and lane the component in which others know the lane: the warp's, or its own."""
        self.numbers: dict[Component, int] = {c: i for i, c in enumerate(self.components)}
        self.known = self._fresh(self.warps, cohort.n, len(self.components) + _ROOM)
        every = np.arange(self.warps)
        self.known[every, :, every] = 2 * self.step
        self._ticks = [1] * self.warps
        self.changed = [True] * self.warps
        """True for each warp whose clock has changed since a reader last cleared this flag."""
        self._meetings: dict[Hashable, NDArray[np.uint32]] = {}
        self._phases: dict[tuple[int, int], BarrierClock] = {}

    # --- numbers --------------------------------------------------------------------------------------------

    def _fresh(self, *shape: int) -> NDArray[np.uint32]:
        return np.full(shape, self.step, dtype=np.uint32)

    def nothing(self) -> Row:
        """A clock that knows of nothing."""
        return self._fresh(self.known.shape[2])

    def entry(self, count: int) -> int:
        """A clock's entry for a component whose first `count` actions are known."""
        return (min(count, self.most) + 1) << self.shift

    def tag(self, count: int, line: int) -> int:
        """The tag of a component's action number `count`."""
        return min(count, self.most) << self.shift | line

    def component(self, kind: str, rank: int, number: int, lane: int = 0) -> int:
        """The number of a component, which is made on first use."""
        wanted = Component(kind, rank, number, lane)
        found = self.numbers.get(wanted)
        if found is None:
            found = self.numbers[wanted] = len(self.components)
            self.components.append(wanted)
            width = self.known.shape[2]
            if found >= width:
                more = self._fresh(self.warps, self.clusters, 2 * width)
                more[:, :, :width] = self.known
                self.known = more
                self.changed = [True] * self.warps
        return found

    def of_warp(self, bundle: Bundle) -> int:
        """The component that counts what a warp does as one, whichever lane tells others of it."""
        if not self.by_lane:
            return bundle.number
        return self.component("tensor", bundle.rank, bundle.warp)

    def of_lanes(self, row: Row, warp: int) -> NDArray[np.uint32]:
        """A clock's entry for each lane of a warp."""
        found: NDArray[np.uint32] = np.maximum(row[warp], row[self.lane_components[warp]])
        return found

    def entries(self, row: Row, who: NDArray[Any], held: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """A clock's entries for some components or, for a warp's, for its lanes `held` (`LaneUses.wrote`).

        Of several lanes it is the least.
        """
        found: NDArray[np.uint32] = row[who]
        if not self.by_lane:
            return found
        of_lanes = row[self.lane_components[np.minimum(who, self.warps - 1)]]
        place = (np.maximum(held, 1) - 1)[..., None].astype(np.int64)
        one = np.take_along_axis(of_lanes, place, axis=-1)[..., 0]
        one = np.where(held == 0, of_lanes.min(axis=-1), one)
        return np.where(who < self.warps, np.maximum(found, one), found)

    def knows(self, row: Row, warp: int, lane: int, tag: int) -> bool:
        """True if a clock knows an action of a lane."""
        own = int(self.lane_components[warp, lane])
        return tag < row.item(warp) or (own < len(row) and tag < row.item(own))

    # --- single clocks --------------------------------------------------------------------------------------

    def merged(self, row: Row | None, other: Row) -> Row:
        """A clock that knows what both know; `row` itself if it is long enough."""
        if row is None:
            return other.copy()
        if len(row) < len(other):
            row, other = other.copy(), row
        part = row if len(row) == len(other) else row[: len(other)]
        np.maximum(part, other, out=part)
        return row

    def row(self, bundle: Bundle, cluster: int) -> Row:
        """A warp's clock."""
        found: Row = self.known[bundle.number, cluster]
        return found

    def tick(self, bundle: Bundle, rows: Any) -> None:
        """Begin a new count for the bundle's warps in some clusters (a number, a mask or a slice)."""
        warp = bundle.number
        if self._ticks[warp] < self.most:
            self._ticks[warp] += 1
            self.known[warp, rows, warp] += self.step
        self.changed[warp] = True

    def counts(self, warp: int) -> bool:
        """False once a warp's count has stopped: then its later actions are not told apart."""
        return self._ticks[warp] < self.most

    def fence(self, bundle: Bundle, rows: NDArray[np.bool_], least: Row | None = None) -> None:
        """Warps of the clusters `rows` run a proxy fence: it follows all that they know of.

        least  for each cluster, the first tag of the warp's own actions that the fence does not follow.
        """
        own = self.known[bundle.number]
        fenced = slice(self.warps, 2 * self.warps)
        before = own[rows, : self.warps]
        if least is not None:
            before[:, bundle.number] = least[rows]
        own[rows, fenced] = np.maximum(own[rows, fenced], before)
        self.tick(bundle, rows)

    def fenced(self, row: Row) -> Row:
        """A clock with only those actions of each warp that a proxy fence follows which it knows of."""
        fenced = row.copy()
        fenced[: self.warps] = row[self.warps : 2 * self.warps]
        return fenced

    def shown(self, row: Row) -> Row:
        """The actions of each warp of other CTAs that a clock has been shown."""
        return row[2 * self.warps : 3 * self.warps]

    def show(self, bundle: Bundle, rows: Any) -> None:
        """Before warps tell other CTAs of their work: what happened in their own CTA is shown as well."""
        if self.across:
            first = bundle.rank * self.per_block
            own = self.known[bundle.number]
            mine = own[rows, first : first + self.per_block]
            own[rows, 2 * self.warps + first : 2 * self.warps + first + self.per_block] = mine

    def learn(self, bundle: Bundle, cluster: int, row: Row | None) -> None:
        """A warp takes over a clock."""
        if row is not None:
            own = self.row(bundle, cluster)[: len(row)]
            np.maximum(own, row, out=own)
            self.changed[bundle.number] = True

    def barrier(self, cluster: int, rank: int, offset: int) -> BarrierClock:
        """The clock of a new mbarrier."""
        component = self.component("mbarrier", rank, offset)
        before = self._phases.get((cluster, component))
        base = 0 if before is None else before.base + before.phase
        made = self._phases[cluster, component] = BarrierClock(self, component, base)
        return made

    # --- barriers of warps ----------------------------------------------------------------------------------

    def _meeting(self, key: Hashable) -> NDArray[np.uint32]:
        """The clocks left at a barrier of warps, and those of its last completion: (2, n, entries)."""
        found = self._meetings.get(key)
        shape = (2, *self.known.shape[1:])
        if found is None or found.shape != shape:
            wide = self._meetings[key] = self._fresh(*shape)
            if found is not None:
                wide[:, :, : found.shape[2]] = found
            return wide
        return found

    def arrive(self, key: Hashable, bundle: Bundle, rows: NDArray[np.bool_], told: Row | None = None) -> None:
        """Warps of the clusters `rows` leave their clocks at a barrier, or `told`."""
        gathered, _ = self._meeting(key)
        own = self.known[bundle.number] if told is None else told[None]
        if all_true(rows):
            np.maximum(gathered, own, out=gathered)
            self.tick(bundle, slice(None))
        else:
            gathered[rows] = np.maximum(gathered[rows], own[rows])
            self.tick(bundle, rows)

    def complete(self, key: Hashable, rows: NDArray[np.bool_], *, also: tuple[Hashable, ...] = ()) -> None:
        """Complete the barriers of the clusters `rows`; clocks under the keys `also` count as arrived."""
        gathered, done = self._meeting(key)
        known = gathered[rows]
        for other in also:
            if other in self._meetings:
                np.maximum(known, self._meeting(other)[0][rows], out=known)
        done[rows] = known
        gathered[rows] = self.step

    def leave(self, key: Hashable, bundle: Bundle, rows: NDArray[np.bool_]) -> None:
        """Warps of the clusters `rows` go on from a barrier that is complete."""
        _, done = self._meeting(key)
        warp = bundle.number
        own = self.known[warp]
        if all_true(rows):
            np.maximum(own, done, out=own)
        else:
            own[rows] = np.maximum(own[rows], done[rows])
        self.changed[warp] = True

    def completed(self, key: Hashable, cluster: int) -> Row:
        """The clock that a barrier of warps passes on since its last completion."""
        found: Row = self._meeting(key)[1][cluster]
        return found

    def left(self, key: Hashable, cluster: int) -> Row:
        """The clock that was left under a key."""
        found: Row = self._meeting(key)[0][cluster]
        return found

    def pass_on(self, key: Hashable, bundle: Bundle, rows: Any) -> None:
        """Warps take over the clock that was left under a key, and leave it with their own merged in."""
        self.show(bundle, rows)
        gathered, _ = self._meeting(key)
        own = self.known[bundle.number]
        own[rows] = gathered[rows] = np.maximum(own[rows], gathered[rows])
        self.tick(bundle, rows)
