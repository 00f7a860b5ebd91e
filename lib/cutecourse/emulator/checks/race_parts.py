"""The parts of a warp in the race record: lanes that know the same, where other lanes of the warp know less.

A warp's clock says what some lane of it knows. While all lanes have waited for the same things, each of them
knows that much. They part where only some of them wait: at an mbarrier, for a bulk group, at the cluster's
barrier. From then on each part has a clock of its own, until the lanes meet. If the warp's clock knows of a
use and the lane's does not, then only a lane that nothing orders before this one knows that the use is over.

The ISA promises an order of memory to lanes that meet at a bar.warp.sync, or at a barrier of their block or
cluster. It promises none for shfl.sync, vote.sync, match.sync, redux.sync and elect.sync, nor for lanes that
only run together: behind these each lane knows what it knew before.

A launch whose steering does not trust the lanes (`Steering.trusts_lanes`) keeps to this also where lanes tell
others: what one lane leaves at a barrier is what this lane knows, with its own actions and those of lanes
that it has met since. Otherwise a lane tells what its whole warp knows and has done.

Simplified: lanes that execute a wait together do so in every order. A warp that waits as a whole for an
            mbarrier has met there, unless the lanes are not trusted. wgmma, and loads and stores of tensor
            memory, know what their whole warp knows, because all of its lanes execute them together.
Source:     PTX ISA 9.0, bar.warp.sync ("also guarantees memory ordering among threads participating in
            barrier"); cp.async.bulk.wait_group and mbarrier.try_wait, which let "the executing thread" wait;
            Memory Consistency Model, Causality order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.clocks import Clocks, Row
from cutecourse.emulator.checks.race_lanes import LaneUses, WarpPart
from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE, any_true
from cutecourse.emulator.core.origin import Origin

__all__ = ["Parts"]


class Parts:
    """The parts of a cohort's warps."""

    def __init__(self, clocks: Clocks, uses: LaneUses) -> None:
        self._clocks = clocks
        self._uses = uses
        self._of: dict[tuple[int, int], list[WarpPart]] = {}
        """By the warp's number and its cluster; a warp that is not here has one part."""
        self.clusters: list[list[int]] = [[] for _ in range(clocks.warps)]
        """For each warp the clusters in which it has several parts."""

    # --- what lanes learn -----------------------------------------------------------------------------------

    def _every(self, bundle: Bundle, cluster: int) -> NDArray[np.bool_]:
        """The lanes that matter. One that has ended learns nothing more, but others may not know its work."""
        if self._clocks.by_lane:
            left = bundle.machine.threads_per_block - bundle.warp * WARP_SIZE
            return np.arange(WARP_SIZE) < left
        found: NDArray[np.bool_] = bundle.live[cluster]
        return found

    def learn(self, bundle: Bundle, cluster: int, lanes: NDArray[np.bool_], row: Row | None) -> bool:
        """Let lanes of a warp, shape (32,), take over a clock. True if they are all of it, in one part."""
        key = bundle.number, cluster
        parts = self._of.get(key)
        if parts is None:
            if not (self._every(bundle, cluster) & ~lanes).any():
                if row is not None and self._clocks.by_lane:
                    self._learn_as_one(bundle, cluster, row)
                self._clocks.learn(bundle, cluster, row)
                return True
            if row is None or not self._is_news(bundle, cluster, row):
                return False
            if not self._clocks.by_lane:
                self._part(bundle, cluster, lanes, row)
                return False
            parts = [self.whole(bundle, cluster)]
        if row is None:
            return False
        for part in parts:
            if part.row is None and (part.lanes == lanes).all():
                self._clocks.learn(bundle, cluster, row)
                part.met = self._told_of(bundle.number, part.met, row)
                return False
        before = self._clocks.row(bundle, cluster).copy()
        self._clocks.learn(bundle, cluster, row)
        made = []
        for part in parts:
            inside, outside = part.lanes & lanes, part.lanes & ~lanes
            if outside.any():
                made.append(WarpPart(outside, before if part.row is None else part.row, part.met))
            if inside.any():
                known = None if part.row is None else self._clocks.merged(part.row.copy(), row)
                made.append(WarpPart(inside, known, self._told_of(bundle.number, part.met, row)))
        self._keep(bundle, cluster, made)
        return False

    def _part(self, bundle: Bundle, cluster: int, lanes: NDArray[np.bool_], row: Row) -> None:
        """Let some lanes of a warp with one part take over a clock that tells them something."""
        key, met = (bundle.number, cluster), self.whole(bundle, cluster).met
        others = WarpPart(
            self._every(bundle, cluster) & ~lanes, self._clocks.row(bundle, cluster).copy(), met
        )
        self._clocks.learn(bundle, cluster, row)
        self._of[key] = [WarpPart(lanes, None, self._told_of(bundle.number, met, row)), others]
        self._uses.compared[key] = self._clocks.never
        self.clusters[bundle.number].append(cluster)

    def learn_entry(
        self, bundle: Bundle, cluster: int, lanes: NDArray[np.bool_], component: int, entry: int
    ) -> None:
        """Let lanes of a warp know the actions of a component up to an entry."""
        row = self._clocks.row(bundle, cluster)
        if self.clusters[bundle.number] or any_true(bundle.live[cluster] & ~lanes):
            if row.item(component) < entry or self.clusters[bundle.number]:
                told = self._clocks.nothing()
                told[component] = entry
                self.learn(bundle, cluster, lanes, told)
        else:
            row[component] = max(row.item(component), entry)

    def _learn_as_one(self, bundle: Bundle, cluster: int, row: Row) -> None:
        """Note what the lanes of a warp with one part are told of each other."""
        part = self.whole(bundle, cluster)
        part.met = self._told_of(bundle.number, part.met, row)
        self._keep(bundle, cluster, [part])

    def whole(self, bundle: Bundle, cluster: int) -> WarpPart:
        """The one part of a warp that has not parted."""
        met = np.full(WARP_SIZE + 1, self._uses.met[bundle.number, cluster], dtype=np.uint32)
        return WarpPart(self._every(bundle, cluster), None, met)

    def _is_news(self, bundle: Bundle, cluster: int, row: Row) -> bool:
        own = self._clocks.row(bundle, cluster)
        return bool((row > own[: len(row)]).any())

    def _told_of(self, warp: int, met: NDArray[np.uint32], row: Row) -> NDArray[np.uint32]:
        """`met` for lanes that take over a clock, which may tell of their own warp."""
        found: NDArray[np.uint32] = np.maximum(met, row[warp])
        if self._clocks.by_lane:
            of_lanes = self._clocks.lane_components[warp]
            found[1:] = np.maximum(found[1:], _wide(self._clocks, row)[of_lanes])
        return found

    def _keep(self, bundle: Bundle, cluster: int, parts: list[WarpPart]) -> None:
        """Keep the parts of a warp; those that know the same are one."""
        warp = bundle.number
        own = self._clocks.row(bundle, cluster)
        every = self._every(bundle, cluster)
        kept: list[WarpPart] = []
        for part in parts:
            lanes = part.lanes & every
            if not lanes.any():
                continue
            row = part.row
            if row is not None and not self._is_less(row, own, warp):
                row = None
            for other in kept:
                same = other.row is row or (
                    other.row is not None and row is not None and np.array_equal(other.row, row)
                )
                if same and (other.met == part.met).all():
                    other.lanes = other.lanes | lanes
                    break
            else:
                kept.append(WarpPart(lanes, row, part.met))
        key = warp, cluster
        if len(kept) == 1 and kept[0].row is None and (kept[0].met[1:] == kept[0].met[1]).all():
            self._of.pop(key, None)
            met = kept[0].met[1]
            self._uses.met[key] = self._uses.compared[key] = met
        else:
            self._of[key] = kept
            self._uses.met[key] = min(part.met[1:].min() for part in kept)
            self._uses.compared[key] = self._clocks.never
        self._clocks.changed[warp] = True
        self.clusters[warp] = [c for w, c in self._of if w == warp]

    def _is_less(self, row: Row, own: Row, warp: int) -> bool:
        """True if a row lacks something that the warp knows of others."""
        more = _wide(self._clocks, row) < own
        more[warp] = False
        return bool(more.any())

    # --- lanes that meet ------------------------------------------------------------------------------------

    def meet(self, bundle: Bundle, rows: NDArray[np.bool_], mask: NDArray[np.bool_] | None = None) -> None:
        """Lanes of the bundle's warps in the clusters `rows` meet, just after their clocks have ticked.

        `mask` has the lanes that do, if that need not be all.
        """
        warp = bundle.number
        if not self.clusters[warp] and not self._clocks.by_lane:
            self._uses.meet(bundle, rows)
            return
        for cluster in np.flatnonzero(rows).tolist():
            live = bundle.live[cluster]
            lanes = live if mask is None else live & mask[cluster]
            if not self._clocks.by_lane and (mask is None or not (live & ~lanes).any()):
                if self._of.pop((warp, cluster), None) is not None:
                    self.clusters[warp].remove(cluster)
                self._uses.meet(bundle, cluster)
                continue
            parts = self._of.get((warp, cluster)) or [self.whole(bundle, cluster)]
            now = self._clocks.known[warp, cluster, warp] - np.uint32(self._clocks.step)
            row: Row | None = self._clocks.nothing()
            met, made = np.zeros(WARP_SIZE + 1, dtype=np.uint32), []
            for part in parts:
                inside, outside = part.lanes & lanes, part.lanes & ~lanes
                if outside.any():
                    made.append(WarpPart(outside, part.row, part.met))
                if inside.any():
                    met = np.maximum(met, part.met)
                    row = None if row is None or part.row is None else self._clocks.merged(row, part.row)
            if lanes.any():
                met[1:][lanes] = now
                self._keep(bundle, cluster, [WarpPart(lanes, row, met), *made])

    def ended(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Lanes have ended. What they have done, the others of their warp do not know for that reason."""
        if not self.clusters[bundle.number] and not self._clocks.by_lane:
            return
        for cluster in np.flatnonzero(mask.any(axis=1) & bundle.live.any(axis=1)).tolist():
            parts = self._of.get((bundle.number, cluster))
            if parts is None and self._clocks.by_lane:
                whole, live = self.whole(bundle, cluster), bundle.live[cluster]
                parts = [WarpPart(whole.lanes & side, None, whole.met) for side in (live, ~live)]
            if parts is not None:
                self._keep(bundle, cluster, parts)

    # --- what lanes know ------------------------------------------------------------------------------------

    def each(self, warp: int, lanes: NDArray[np.int64]) -> Iterator[tuple[int, WarpPart, NDArray[np.bool_]]]:
        """The parts of a warp that some lanes, numbered through the bundle, belong to, with the cluster."""
        cluster_of, within = np.divmod(lanes, WARP_SIZE)
        for cluster in self.clusters[warp]:
            here = cluster_of == cluster
            for part in self._of[warp, cluster]:
                inside = here & part.lanes[within]
                if inside.any():
                    yield cluster, part, inside

    def of(self, origin: Origin) -> WarpPart | None:
        """The part of a thread; None if its warp has one."""
        if not self.clusters[origin.bundle.number]:
            return None
        lane = origin.lane % WARP_SIZE
        parts = self._of.get((origin.bundle.number, origin.cluster), ())
        return next((part for part in parts if part.lanes[lane]), None)

    def known(self, warp: int, cluster: int, part: WarpPart) -> Row | None:
        """The clock of a part, with its warp's own actions; None if it is the whole warp's clock."""
        if part.row is None:
            return None
        row = _wide(self._clocks, part.row).copy()
        whole = self._clocks.known[warp, cluster]
        row[warp] = whole[warp]
        row[self._clocks.of_fences] = whole[self._clocks.of_fences]
        return row

    def row(self, origin: Origin) -> Row:
        """The clock of a thread, with its warp's own actions."""
        part = self.of(origin)
        if part is not None:
            found = self.known(origin.bundle.number, origin.cluster, part)
            if found is not None:
                return found
        return self._clocks.row(origin.bundle, origin.cluster)

    def told(self, bundle: Bundle, cluster: int, lanes: NDArray[np.bool_] | NDArray[np.int64] | int) -> Row:
        """The clock that lanes (a mask, or their numbers) leave for others: what they know and have done."""
        clocks, warp = self._clocks, bundle.number
        if not clocks.by_lane:
            return clocks.row(bundle, cluster)
        as_one = clocks.of_warp(bundle)
        whole = clocks.row(bundle, cluster)
        told = np.zeros(WARP_SIZE, dtype=np.bool_)
        told[lanes] = True
        parts = self._of.get((warp, cluster)) or [self.whole(bundle, cluster)]
        row: Row | None = None
        met = np.zeros(WARP_SIZE + 1, dtype=np.uint32)
        for part in parts:
            if (part.lanes & told).any():
                row = clocks.merged(row, whole if part.row is None else part.row)
                met = np.maximum(met, part.met)
        assert row is not None
        row = _wide(clocks, row)
        row[clocks.of_fences] = whole[clocks.of_fences]
        own = whole[warp]
        met[1:][told] = own
        inside = met[1:][self._every(bundle, cluster)]
        row[warp] = inside.min()
        of_lanes = clocks.lane_components[warp]
        if inside.min() < inside.max():
            for lane in np.flatnonzero(met[1:] > row[warp]).tolist():
                if of_lanes[lane] == warp:
                    of_lanes[lane] = clocks.component("lane", bundle.rank, bundle.warp, lane)
            row = _wide(clocks, row)
            apart = of_lanes != warp
            row[of_lanes[apart]] = np.maximum(row[of_lanes[apart]], met[1:][apart])
        row[as_one] = own
        return row


def _wide(clocks: Clocks, row: Row) -> Row:
    """A clock with an entry for each component: `row` itself if it is long enough."""
    return row if len(row) == clocks.known.shape[2] else clocks.merged(clocks.nothing(), row)
