"""The lanes of a warp in the race record: which lane last wrote or read each unit of shared memory.

The lanes of a warp meet at a barrier, at a wait of all of them for an mbarrier's phase, and at an access or a
fence that may synchronize threads. If one lane has written a byte since then, and another lane uses it,
nothing orders the two, because since Volta the lanes of a warp may run apart. The same holds if one lane has
read a byte and another lane writes it. If only some lanes wait, `emulator.checks.race_parts` says what each
lane knows.

Simplified: if several lanes store to one place in one instruction, they and later uses of that place by their
            warp are not compared. Of several lanes that read a place, only the last is, unless the launch
            does not trust the lanes: then each lane's last read is kept. A proxy fence of some lanes covers
            all that the warp knows of other warps.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.clocks import Clocks, Row
from cutecourse.emulator.checks.sparse import sparse_zeros
from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE, any_true

if TYPE_CHECKING:
    from cutecourse.emulator.core.origin import Origin

__all__ = ["LaneUses", "WarpPart"]

_Lanes = NDArray[np.uint8]
"""Lanes, counted from 1."""
_FENCES = 64
"""The number of a warp's proxy fences of some lanes that are kept."""


@dataclass(eq=False, slots=True)
class WarpPart:
    """Lanes of a warp that know the same. Its arrays are replaced and never changed."""

    lanes: NDArray[np.bool_]
    row: Row | None
    """Their clock of other components; None if it is the whole warp's."""
    met: NDArray[np.uint32]
    """For each lane, counted from 1, the least tag of what it has done and they do not know."""

    def since(self, tags: NDArray[np.uint32], held: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which actions of their warp they do not know; `held` are the lanes that acted, as in `LaneUses`."""
        return np.asarray(tags >= self.met[held])

    def any_since(self, tags: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Which actions of their warp they may not know, whichever lane acted."""
        return np.asarray(tags >= self.met[1:].min())

    def reads_of_others(self, reads: NDArray[np.uint32], lanes: NDArray[np.int64] | int) -> NDArray[np.bool_]:
        """Where other lanes of their warp have read, and these lanes do not know it.

        reads  the tag of each lane's last read of some units, lane by lane.
        lanes  which lane asks, for each item, or the one for all.
        """
        limits = self.met[1:].reshape(-1, *([1] * (reads.ndim - 1)))
        since = np.asarray((reads >= limits) & (reads > 0))
        if isinstance(lanes, int):
            since[lanes % WARP_SIZE] = False
        else:
            since[lanes, np.arange(len(lanes))] = False
        return np.asarray(since.any(axis=0))


class LaneUses:
    """The lane that last wrote each unit, and the lane of each warp that last read it."""

    def __init__(self, clocks: Clocks, clusters: int, columns: int, units: int) -> None:
        """`columns` is the number of warps whose reads are kept."""
        self._clocks = clocks
        self.wrote: _Lanes = sparse_zeros((units,), np.uint8)
        """0 also if several lanes have written in one instruction."""
        self.read: _Lanes = sparse_zeros((columns, units), np.uint8)
        self._reads: dict[int, NDArray[np.uint32]] = {}
        """With lanes that are not trusted, by column, the tag of each lane's last read of each unit."""
        self.met = np.full((clocks.warps, clusters), clocks.tag(1, 0), dtype=np.uint32)
        """The least tag of what a warp has done since its lanes last met, as they do at the start."""
        self.compared = self.met.copy()
        """The same, and where a warp has several parts a tag that nothing has."""
        self._fences: defaultdict[tuple[int, int], deque[tuple[int, NDArray[np.bool_]]]] = defaultdict(
            partial(deque, maxlen=_FENCES)
        )
        """By warp and cluster, the proxy fences that some of its lanes ran, the last ones: the warp's entry
        for itself at that time, and whether each lane, counted from 1, ran it.
        """
        self._lanes = (np.arange(clusters * WARP_SIZE) % WARP_SIZE + 1).astype(np.uint8)

    def lanes(self, lanes: NDArray[np.int64] | None, per: int) -> _Lanes:
        """The lane of each item of an access, shaped for items of `per` units."""
        found = self._lanes if lanes is None else self._lanes[lanes]
        return found if per == 1 else found[:, None]

    def meet(self, bundle: Bundle, rows: Any) -> None:
        """Lanes of the bundle's warps in some clusters come together, just after their clocks have ticked."""
        warp = bundle.number
        now = self._clocks.known[warp, rows, warp] - np.uint32(self._clocks.step)
        self.met[warp, rows] = self.compared[warp, rows] = now

    def fence(self, bundle: Bundle, mask: NDArray[np.bool_], apart: NDArray[np.bool_]) -> NDArray[np.uint32]:
        """Keep a proxy fence that in the clusters `apart` not all lanes of a warp run.

        Returns: for each cluster, the first tag of the warp's actions that the fence does not follow for all
                 of its lanes.
        """
        warp = bundle.number
        own = self._clocks.known[warp, :, warp]
        for cluster in np.flatnonzero(apart).tolist():
            lanes = np.concatenate([[True], mask[cluster]])  # a store of several lanes counts as fenced
            self._fences[warp, cluster].append((own.item(cluster), lanes))
        return np.where(apart, self.met[warp], own)

    def unfenced(
        self,
        tags: NDArray[np.uint32],
        writers: NDArray[Any],
        chunks: NDArray[np.int64],
        row: NDArray[np.uint32],
        cluster: int,
    ) -> NDArray[np.bool_]:
        """The writes to chunks of a cluster that no proxy fence follows which a clock knows of."""
        bad: NDArray[np.bool_] = tags >= self._clocks.fenced(row)[writers]
        if self._fences and any_true(bad):
            held = self.wrote.reshape(-1, tags.shape[-1])[chunks]
            for warp in np.unique(writers[bad]).tolist():
                for entry, lanes in self._fences.get((warp, cluster), ()):
                    if entry <= row.item(warp):
                        bad &= ~((writers == warp) & (tags < entry) & lanes[held])
        return bad

    def apart(
        self, held: _Lanes, mine: _Lanes, since: NDArray[np.bool_], bundle: Bundle
    ) -> tuple[int, ...] | None:
        """The place of the first unit that another lane has used since the lanes met; None without one."""
        bad = since & (held != 0) & (held != mine)
        if not any_true(bad) or not self._clocks.counts(bundle.number):
            return None
        return tuple(int(place) for place in np.argwhere(bad)[0])

    def note_write(self, index: NDArray[np.int64], mine: _Lanes, per: int) -> None:
        """Record a write."""
        held = self.wrote if per == 1 else self.wrote.reshape(-1, per)
        held[index] = mine
        # A lane writes all units of its item, so the first one shows whether another lane was later.
        others = (held[index] if per == 1 else held[index, 0]) != mine.reshape(-1)
        if any_true(others):
            held[index[others]] = 0

    def note_read(self, column: int, index: NDArray[np.int64], mine: _Lanes, per: int, stamp: Any) -> None:
        """Record a read."""
        held = self.read[column] if per == 1 else self.read[column].reshape(-1, per)
        held[index] = mine
        if self._clocks.by_lane:
            reads = self.each_read(column, per)
            reads[mine.reshape(-1) - 1, index] = stamp if np.ndim(stamp) == 0 else stamp.reshape(-1, 1)

    def each_read(self, column: int, per: int) -> NDArray[np.uint32]:
        """The tag of each lane's last read of each item of `per` units, if the lanes are not trusted."""
        if column not in self._reads:
            self._reads[column] = sparse_zeros((WARP_SIZE, self.read.shape[1]), np.uint32)
        return self._reads[column].reshape(WARP_SIZE, -1, per)

    def of_others(
        self,
        origin: Origin,
        chunks: NDArray[np.int64],
        tags: NDArray[np.uint32],
        writers: NDArray[Any],
        part: WarpPart | None,
    ) -> tuple[int, ...] | None:
        """The place of the first unit that another lane of the issuer's warp has written since they met."""
        held = self.wrote.reshape(-1, tags.shape[-1])[chunks]
        since = (writers == origin.bundle.number) & self._since(origin, tags, held, part)
        return self.apart(held, self._lanes[origin.lane : origin.lane + 1], since, origin.bundle)

    def read_by_others(
        self, origin: Origin, tags: NDArray[np.uint32], held: _Lanes, part: WarpPart | None
    ) -> tuple[int, ...] | None:
        """The place of the first unit that another lane of the issuer's warp has read since they met.

        `tags` and `held` are the warp's last reads of the units, and their lanes.
        """
        since = self._since(origin, tags, held, part)
        return self.apart(held, self._lanes[origin.lane : origin.lane + 1], since, origin.bundle)

    def _since(
        self, origin: Origin, tags: NDArray[np.uint32], held: _Lanes, part: WarpPart | None
    ) -> NDArray[np.bool_]:
        if part is not None:
            return part.since(tags, held)
        found: NDArray[np.bool_] = tags >= self.met[origin.bundle.number, origin.cluster]
        return found
