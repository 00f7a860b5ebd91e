"""The threads' part of the race record: the last writer and readers of each unit of shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.clocks import Clocks, Row
from cutecourse.emulator.checks.race_lanes import LaneUses, WarpPart
from cutecourse.emulator.checks.race_parts import Parts
from cutecourse.emulator.checks.race_words import (
    Use,
    access_of,
    describe_lanes,
    describe_scope,
    describe_thread,
    describe_wait,
    describe_waited,
    report_meeting,
)
from cutecourse.emulator.checks.sparse import sparse_zeros
from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE, any_true
from cutecourse.emulator.core.origin import Origin

if TYPE_CHECKING:
    from cutecourse.emulator.checks.race_plan import AccessPlan
    from cutecourse.emulator.instructions.bulk.pieces import Chunks
    from cutecourse.emulator.memory.access import Access

__all__ = ["Lanes", "Met", "Threads", "nth_chunk"]

Lanes = NDArray[np.int64]


class Met(NamedTuple):
    """A thread's access that the issuer of an operation does not know of."""

    byte: int
    """The offset in the cohort's shared memory."""
    warp: int
    line: int
    before: int
    """For a write, the tag of the write before it if the same warp made both; else 0."""


def nth_chunk(chunks: Chunks, position: int) -> int:
    """The number of the chunk at a position."""
    if isinstance(chunks, slice):
        return int(chunks.start or 0) + position
    return int(chunks.reshape(-1)[position])


def _items(index: Lanes, reads: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The reads of some items, in the record of a warp's lanes."""
    found: NDArray[np.uint32] = reads[:, index]
    return found


def _describe_same(origin: Origin, byte: int, other: Use, what: str) -> str:
    return f"{describe_thread(origin, byte, other, what)} Both write the same value."


class Threads:
    """The last writer of each unit, and each warp's last read of it."""

    def __init__(self, cohort: Cohort, clocks: Clocks, plan: AccessPlan) -> None:
        self.cohort = cohort
        self.clocks = clocks
        self.plan = plan
        self.per_block = cohort.machine.warps_per_block
        units = len(cohort.shared) // plan.unit if plan.by_threads else 0
        # In a kernel that moves data asynchronously, threads use only a small part of shared memory.
        self.write_tag = sparse_zeros((units,), np.uint32)
        self.write_by = sparse_zeros((units,), np.uint16)
        self.remote = cohort.size > 1 and plan.elsewhere
        """True if threads may use the memory of other CTAs."""
        columns = clocks.warps if self.remote else self.per_block
        self.read_tag = sparse_zeros((columns, units), np.uint32)
        self.lanes = LaneUses(clocks, cohort.n, columns, units)
        self.parts = Parts(clocks, self.lanes)
        self.write_before = sparse_zeros((units if plan.asynchronous else 0,), np.uint32)
        """The tag of the write before the last one, if the same warp made both; else 0."""
        self.accesses: dict[int, Access] = {}
        """The last access at each line, for reports on operations that meet it."""
        self._stores: dict[Origin, tuple[slice, int]] = {}
        """For each st.async under way its units, and the component of its mbarrier."""
        self._storers: dict[int, Origin] = {}
        """By the component of an mbarrier, the last st.async that brings bytes to it."""
        self._copies: dict[int, int] = {}
        """By the component of a warp's copies, how many times copies were made."""
        self._copying: tuple[int, NDArray[np.uint32]] | None = None
        """While a copy is made: that component, and the warp's entries when it issued the copy."""
        self._issues: dict[tuple[int, int | None], NDArray[np.uint32]] = {}
        """A warp's entries, one for each cluster, when it issued a copy, by the copy's number.

        Under None, when it first asked an mbarrier to count copies; earlier issues are not kept.
        """
        self._views: dict[int, tuple[NDArray[Any], ...]] = {}
        self._cached: list[tuple[Any, Any]] = [(0, 0)] * clocks.warps
        self._cluster_of = np.arange(cohort.n * WARP_SIZE) // WARP_SIZE

    # --- accesses -------------------------------------------------------------------------------------------

    def clusters(self, lanes: Lanes | None) -> Any:
        """The cluster of each lane of an access; 0 where there is only one."""
        if self.cohort.n == 1:
            return 0
        return self._cluster_of if lanes is None else self._cluster_of[lanes]

    def check(
        self, access: Access, bundle: Bundle, index: Lanes, lanes: Lanes | None, values: NDArray[Any] | None
    ) -> NDArray[Any]:
        """Report other warps' unordered writes that an access meets and, if it writes, their reads too.

        Returns the tags of the last writes of its units, 0 for none.
        """
        clocks = self.clocks
        warp = bundle.number
        if clocks.changed[warp]:
            self._look_at(warp, bundle.rank)
        low, _ = self._cached[warp]
        per = access.size // self.plan.unit
        written, by, read = self._words(per)
        tags = written[index]
        clusters = self.clusters(lanes)
        if bundle.n > 1:
            low = low[clusters] if per == 1 else low[clusters][:, None]
        if any_true(tags >= low):
            known = clocks.known[warp]
            writers = by[index]
            bad = tags >= known[clusters if per == 1 or bundle.n == 1 else clusters[:, None], writers]
            wrote = self.lanes.wrote if per == 1 else self.lanes.wrote.reshape(-1, per)
            if clocks.by_lane and any_true(bad):
                bad &= tags >= clocks.entries(known[0], writers, wrote[index])
            if any_true(bad):
                place = tuple(np.argwhere(bad)[0])
                found = int(writers[place]), int(tags[place]), "write"
                same = self._writes_the_same(access, index, bad, values)
                self._report(access, bundle, index, lanes, place, *found, same=same)
            elif self.remote:
                self._check_shown(access, bundle, index, lanes, tags, writers)
            since = (tags >= self._met(warp, clusters, per)) & (writers == warp)
            if any_true(since):
                apart = self.lanes.apart(wrote[index], self.lanes.lanes(lanes, per), since, bundle)
                if apart is not None:
                    self._report_lanes(access, bundle, index, lanes, apart, int(tags[apart]), "write")
        if access.writes:
            self._check_readers(access, bundle, index, lanes, clusters, read[:, index])
        if self.parts.clusters[warp]:
            self._check_parts(access, bundle, index, lanes)
        return np.asarray(tags)

    def _check_parts(self, access: Access, bundle: Bundle, index: Lanes, lanes: Lanes | None) -> None:
        """Report what an access meets that its lanes do not know of, and others of their warp do."""
        warp, per = bundle.number, access.size // self.plan.unit
        written, by, read = self._words(per)
        wrote, have_read = (self.lanes.wrote, self.lanes.read)
        if per > 1:
            wrote, have_read = wrote.reshape(-1, per), have_read.reshape(len(have_read), -1, per)
        every = np.arange(len(index)) if lanes is None else lanes
        first = 0 if self.remote else bundle.rank * self.per_block
        for cluster, part, inside in self.parts.each(warp, every):
            mine, who = index[inside], every[inside]
            row = self.parts.known(warp, cluster, part)
            uses = [("write", by[mine], written[mine], wrote[mine])]
            if access.writes:
                for at, (tags, held) in enumerate(zip(read[:, mine], have_read[:, mine], strict=True)):
                    uses.append(("read", np.full(tags.shape, first + at), tags, held))
            for action, users, tags, held in uses:
                each = action == "read" and self.clocks.by_lane
                since = (users == warp) & (part.any_since(tags) if each else part.since(tags, held))
                apart = self._apart(action, since, held, part, bundle, mine, who, per)
                if apart is not None:
                    self._report_lanes(access, bundle, mine, who, apart, int(tags[apart]), action)
                if row is None:
                    continue
                bad = (tags >= row[users]) & (users != warp)
                if self.clocks.by_lane and any_true(bad):
                    if action == "write":
                        bad &= tags >= self.clocks.entries(row, users, held)
                    else:
                        columns = [int(users.flat[0]) - first]
                        self._spare_known(bad[None], row, columns, first, partial(_items, mine), per)
                if any_true(bad):
                    place = tuple(int(at) for at in np.argwhere(bad)[0])
                    found = int(users[place]), int(tags[place]), action
                    self._report(access, bundle, mine, who, place, *found, only_lanes=True)

    def _check_shown(
        self,
        access: Access,
        bundle: Bundle,
        index: Lanes,
        lanes: Lanes | None,
        tags: NDArray[Any],
        writers: NDArray[Any],
    ) -> None:
        """Report writes of other CTAs that a warp knows of and has not been shown."""
        shown = self.clocks.known[bundle.number][:, 2 * self.clocks.warps :]
        clusters: Any = self.clusters(lanes)
        if bundle.n > 1 and tags.ndim > 1:
            clusters = clusters[:, None]
        others, away = self._of_other_ctas(writers, bundle.rank)
        bad = away & (tags >= shown[clusters, others])
        if any_true(bad):
            place = tuple(np.argwhere(bad)[0])
            byte = int(index[place[0]]) * access.size + sum(place[1:]) * self.plan.unit
            writer = self.clocks.components[int(writers[place])]
            other = Use(writer, int(tags[place]) & self.clocks.line_mask, "write")
            origin = access.thread(bundle, lanes, int(place[0]))
            report_meeting("scope too narrow", origin, byte, other, describe_scope, access_of(access))

    def _of_other_ctas(self, writers: NDArray[Any], rank: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Among writers the warps of other CTAs than `rank`, and which those are; the others become warp 0.

        A st.async shows its bytes to the cluster.
        """
        away = (writers < self.clocks.warps) & (writers // self.per_block != rank)
        return np.where(away, writers, 0), away

    def _met(self, warp: int, clusters: Any, per: int) -> Any:
        """The least tag of what a warp has done since its lanes met, for each item of an access."""
        if self.cohort.n == 1:
            return self.lanes.compared[warp, 0]
        found = self.lanes.compared[warp][clusters]
        return found if per == 1 else found[:, None]

    def _report_lanes(
        self,
        access: Access,
        bundle: Bundle,
        index: Lanes,
        lanes: Lanes | None,
        place: tuple[int, ...],
        tag: int,
        action: str,
    ) -> None:
        """Report that an access meets one of another lane of its warp, and the lanes have not met since."""
        byte = int(index[place[0]]) * access.size + sum(place[1:]) * self.plan.unit
        writer = self.clocks.components[bundle.number]
        other = Use(writer, tag & self.clocks.line_mask, action)
        origin = access.thread(bundle, lanes, place[0])
        report_meeting("lanes not ordered", origin, byte, other, describe_lanes, access_of(access))

    def _writes_the_same(
        self, access: Access, index: Lanes, bad: NDArray[np.bool_], values: NDArray[Any] | None
    ) -> bool:
        """True if a store meets only earlier writes that left the same bytes as it stores."""
        if access.reads or values is None or values.size != len(index) * access.count:
            return False
        words = self.cohort.shared_words(access.bytes, access.count)[0]
        there = words[index].reshape(len(index), -1)
        differs = there != values.reshape(len(index), -1).astype(there.dtype, copy=False)
        met = bad.reshape(len(index), -1).any(axis=1)
        return not differs[met].any()

    def remember(
        self, access: Access, bundle: Bundle, index: Lanes, lanes: Lanes | None, tags: NDArray[Any]
    ) -> None:
        """Record a warp's access, just after `check` has given its `tags`."""
        warp = bundle.number
        _, stamp = self._cached[warp]
        line = access.site.line
        per = access.size // self.plan.unit
        written, by, read = self._words(per)
        if bundle.n > 1:
            stamp = stamp[self.clusters(lanes)] | np.uint32(line)
            if per > 1:
                stamp = stamp[:, None]
        else:
            stamp = stamp | line
        if self.plan.asynchronous:
            self.accesses[line] = access
            if access.writes and np.count_nonzero(tags):
                before = self.write_before if per == 1 else self.write_before.reshape(-1, per)
                before[index] = np.where(by[index] == warp, tags, 0)
        if access.writes and self._copying is not None:
            component, issued = self._copying
            since = issued[self.clusters(lanes)]
            # Another copy to the same place, issued later, is under way: its record stands.
            kept = (by[index] == warp) & (
                written[index] >= (since if per == 1 or bundle.n == 1 else since[:, None])
            )
            written[index] = np.where(kept, written[index], self.clocks.tag(self._copies[component], line))
            by[index] = np.where(kept, by[index], component)
        elif access.writes:
            written[index] = stamp
            by[index] = warp
            self.lanes.note_write(index, self.lanes.lanes(lanes, per), per)
        else:
            column = warp if self.remote else bundle.warp
            self.lanes.note_read(column, index, self.lanes.lanes(lanes, per), per, stamp)
            read[column][index] = stamp

    def _words(self, per: int) -> tuple[NDArray[Any], ...]:
        """The last writers' tags and numbers, and the readers' tags, viewed for accesses of `per` units."""
        found = self._views.get(per)
        if found is None:
            found = (self.write_tag, self.write_by, self.read_tag)
            if per > 1:
                found = (*(a.reshape(-1, per) for a in found[:2]), found[2].reshape(len(found[2]), -1, per))
            self._views[per] = found
        return found

    def _look_at(self, warp: int, rank: int) -> None:
        """Cache what each access needs of a warp's clock: the lowest tag to look at, and the warp's own tag.

        If warps of other blocks may have written too, the lowest entry is taken as 0.
        """
        known = self.clocks.known[warp]
        first = rank * self.per_block
        self.clocks.changed[warp] = False
        if self.cohort.n == 1:
            own = int(known[0, warp]) - self.clocks.step
            met = int(self.lanes.met[warp, 0])
            others = known[0, first : first + self.per_block].tolist()
            if self._copies:
                others += known[0, [*self._copies]].tolist()
            low = 0 if self.remote else min(met, *others)
            self._cached[warp] = (low, own)
            return
        own = known[:, warp] - np.uint32(self.clocks.step)
        lows = np.minimum(known[:, first : first + self.per_block].min(axis=1), self.lanes.met[warp])
        if self._copies:
            lows = np.minimum(lows, known[:, [*self._copies]].min(axis=1))
        self._cached[warp] = (np.zeros_like(lows) if self.remote else lows, own)

    def _check_readers(
        self,
        access: Access,
        bundle: Bundle,
        index: Lanes,
        lanes: Lanes | None,
        clusters: Any,
        tags: NDArray[Any],
    ) -> None:
        warp, per = bundle.number, access.size // self.plan.unit
        column = warp if self.remote else bundle.warp
        first = 0 if self.remote else bundle.rank * self.per_block
        known = self.clocks.known[warp][:, first : first + len(tags)]
        met = self._met(warp, clusters, per)
        if bundle.n == 1:
            # Most stores meet no read at all, of neither other warps nor lanes: one comparison says so.
            least = known[0].copy()
            least[column] = min(least.item(column), met)
            if not any_true(tags >= (least[:, None] if tags.ndim == 2 else least[:, None, None])):
                return
        since = tags[column] >= met
        if any_true(since):
            held = self.lanes.read[column] if per == 1 else self.lanes.read[column].reshape(-1, per)
            who = np.arange(len(index)) if lanes is None else lanes
            apart = self._apart("read", since, held[index], None, bundle, index, who, per)
            if apart is not None:
                self._report_lanes(access, bundle, index, lanes, apart, int(tags[column][apart]), "read")
        limit = known[clusters].T if bundle.n > 1 else known[0][:, None]
        bad = tags >= (limit if tags.ndim == 2 else limit[..., None])
        if self.clocks.by_lane and any_true(bad):
            columns, known = range(len(tags)), self.clocks.known[warp, 0]
            self._spare_known(bad, known, columns, first, partial(_items, index), per)
        if any_true(bad):
            reader, *place = np.argwhere(bad)[0]
            found = first + int(reader), int(tags[bad][0]), "read"
            self._report(access, bundle, index, lanes, place, *found)

    def _spare_known(
        self,
        bad: NDArray[np.bool_],
        row: Row,
        columns: Sequence[int],
        first: int,
        place: Callable[[NDArray[np.uint32]], NDArray[np.uint32]],
        per: int,
    ) -> None:
        """Take out of `bad`, reads of warps that a clock does not know of, those whose lanes it knows.

        columns  those of the warps; the first one has the number `first`.
        place    takes the same reads out of the record of a warp's lanes.
        """
        for at, column in enumerate(columns):
            if any_true(bad[at]):
                reads = place(self.lanes.each_read(column, per))
                limits = self.clocks.of_lanes(row, first + column).reshape(-1, *([1] * (reads.ndim - 1)))
                bad[at] &= (reads >= limits).any(axis=0).reshape(bad[at].shape)

    def _apart(
        self,
        action: str,
        since: NDArray[np.bool_],
        held: NDArray[np.uint8],
        part: WarpPart | None,
        bundle: Bundle,
        index: Lanes,
        lanes: Lanes,
        per: int,
    ) -> tuple[int, ...] | None:
        """The place of the first unit that another lane of a warp has used, of those in `since`."""
        if action == "read" and self.clocks.by_lane:
            if not any_true(since):
                return None
            part = part or self.parts.whole(bundle, 0)
            reads = self.lanes.each_read(bundle.number if self.remote else bundle.warp, per)[:, index]
            since = since & part.reads_of_others(reads, lanes % WARP_SIZE).reshape(since.shape)
            return next((tuple(int(at) for at in place) for place in np.argwhere(since)), None)
        return self.lanes.apart(held, self.lanes.lanes(lanes, per), since, bundle)

    def _report(
        self,
        access: Access,
        bundle: Bundle,
        index: Lanes,
        lanes: Lanes | None,
        place: Sequence[Any],
        by: int,
        tag: int,
        action: str,
        *,
        same: bool = False,
        only_lanes: bool = False,
    ) -> None:
        """Report that a warp's access meets another warp's, which its clock does not know of.

        `same` is True if both write the same bytes, `only_lanes` if other lanes of its warp know of it.
        """
        position = int(place[0])
        byte = int(index[position]) * access.size + (int(place[1]) * self.plan.unit if len(place) > 1 else 0)
        other = Use(self.clocks.components[by], tag & self.clocks.line_mask, action)
        origin = access.thread(bundle, lanes, position)
        storer = self._storers.get(by) if action == "write" else None
        if storer is not None:
            other = Use(other.component, storer.site.line, "copy", storer)
        if only_lanes:
            report_meeting("lanes not ordered", origin, byte, other, describe_waited, access_of(access))
        elif storer is not None:
            hazard = "read before its wait" if access.reads and not access.writes else "race"
            report_meeting(hazard, origin, byte, other, describe_wait, access_of(access))
        elif same:
            report_meeting("same value written", origin, byte, other, _describe_same, access_of(access))
        else:
            report_meeting("race", origin, byte, other, describe_thread, access_of(access))

    def forget(self, first: int, chunks: Chunks) -> None:
        """Drop the accesses of chunks, counted from `first`: a copy comes after them, and others after it."""
        per = CHUNK // self.plan.unit
        for tags in (self.write_tag, self.write_before):
            tags.reshape(-1, per)[first:][chunks] = 0
        self.read_tag.reshape(len(self.read_tag), -1, per)[:, first:][:, chunks] = 0

    # --- copies that an mbarrier counts ---------------------------------------------------------------------

    def copy_issued(self, bundle: Bundle, number: int | None) -> None:
        """A warp has issued a copy, or (None) asked an mbarrier to count copies; the rest comes later."""
        self.clocks.tick(bundle, slice(None))
        now = self.clocks.known[bundle.number, :, bundle.number].copy()
        self._issues.setdefault((bundle.number, number), now)

    def copy_made(self, bundle: Bundle, number: int | None) -> None:
        """The warp's copy with this number writes shared memory now; None when it has, and the warp knows.

        The copies of a warp that lets no mbarrier count them are its own stores.
        """
        if (bundle.number, None) not in self._issues:
            return
        component = self.clocks.component("copies", bundle.rank, bundle.warp)
        if number is not None:
            if component not in self._copies:
                self._copies[component] = 0
                self.clocks.changed[:] = [True] * self.clocks.warps
            self._copies[component] += 1
            issued = self._issues.pop((bundle.number, number), self._issues[bundle.number, None])
            self._copying = component, issued - np.uint32(self.clocks.step)
        else:
            self._copying = None
            self.clocks.known[bundle.number, :, component] = self.clocks.entry(self._copies[component])
            self.clocks.changed[bundle.number] = True

    def with_copies(self, bundle: Bundle, row: Row) -> Row:
        """A clock that also knows the copies of a warp which are complete."""
        component = self.clocks.component("copies", bundle.rank, bundle.warp)
        row = self.clocks.merged(self.clocks.nothing(), row)
        row[component] = self.clocks.entry(self._copies.get(component, 0))
        return row

    # --- stores that an mbarrier counts ---------------------------------------------------------------------

    def store(self, origin: Origin, access: Access, index: int, component: int) -> None:
        """Check and record a st.async or red.async when it is issued.

        It is over for those who know the phase of the mbarrier `component` in which its bytes arrive.
        """
        bundle, per = origin.bundle, access.size // self.plan.unit
        units = slice(index * per, (index + 1) * per)
        combines = access.reads and bool((self.write_by[units] >= self.clocks.warps).any())
        if not combines:
            self.check(access, bundle, np.array([index]), np.array([origin.lane]), None)
        self.write_tag[units] = self.clocks.never
        self.write_by[units] = component
        self._stores[origin] = units, component
        self._storers[component] = origin

    def stored(self, origin: Origin, tag: int) -> None:
        """Note that the bytes of a st.async have come, just before its mbarrier counts them."""
        units, component = self._stores.pop(origin)
        if (self.write_by[units] == component).all():
            self.write_tag[units] = tag

    # --- for operations -------------------------------------------------------------------------------------

    def thread(self, warp: int, line: int, cluster: int) -> tuple[Origin, Access] | None:
        """A warp's last access at a line, for a report to name; None if it is not known."""
        access = self.accesses.get(line)
        if access is None or warp >= len(self.cohort.bundles):
            return None
        return Origin(access.site, self.cohort.bundles[warp], cluster * WARP_SIZE), access

    def last_store(self, byte: int) -> tuple[int, int, int] | None:
        """The rank, the warp and the line of the last write to a byte; None if none is recorded."""
        unit = byte // self.plan.unit
        tag = int(self.write_tag[unit]) if self.plan.by_threads else 0
        if not tag:
            return None
        writer = self.clocks.components[int(self.write_by[unit])]
        return writer.rank, writer.number, tag & self.clocks.line_mask

    def unknown_write(self, row: Row, first: int, chunks: Chunks) -> Met | None:
        """A write to chunks, counted from `first`, that a clock does not know of; None if there is none."""
        per = CHUNK // self.plan.unit
        tags = self.write_tag.reshape(-1, per)[first:][chunks]
        writers = self.write_by.reshape(-1, per)[first:][chunks]
        bad = tags >= row[writers]
        if self.clocks.by_lane and any_true(bad):
            held = self.lanes.wrote.reshape(-1, per)[first:][chunks]
            bad &= tags >= self.clocks.entries(row, writers, held)
        return self._first_write(bad, tags, writers, first, chunks)

    def unfenced_write(self, row: Row, chunks: NDArray[np.int64], cluster: int) -> Met | None:
        """A write to chunks that no proxy fence follows which a clock knows of; None if there is none."""
        per = CHUNK // self.plan.unit
        tags, writers = self.write_tag.reshape(-1, per)[chunks], self.write_by.reshape(-1, per)[chunks]
        bad = self.lanes.unfenced(tags, writers, chunks, row, cluster)
        return self._first_write(bad, tags, writers, 0, chunks)

    def hidden_write(self, row: Row, chunks: NDArray[np.int64], rank: int) -> Met | None:
        """A write of another CTA than `rank` that a clock has not been shown; None if there is none."""
        if not self.clocks.across:
            return None
        per = CHUNK // self.plan.unit
        tags, writers = self.write_tag.reshape(-1, per)[chunks], self.write_by.reshape(-1, per)[chunks]
        others, away = self._of_other_ctas(writers, rank)
        bad = away & (tags >= self.clocks.shown(row)[others])
        return self._first_write(bad, tags, writers, 0, chunks)

    def _first_write(
        self, bad: NDArray[np.bool_], tags: NDArray[Any], writers: NDArray[Any], first: int, chunks: Chunks
    ) -> Met | None:
        if not any_true(bad):
            return None
        place = tuple(np.argwhere(bad)[0])
        byte = self._byte(place, tags.shape, first, chunks)
        before = int(self.write_before[byte // self.plan.unit])
        return Met(byte, int(writers[place]), int(tags[place]) & self.clocks.line_mask, before)

    def of_other_lanes(self, origin: Origin, chunks: NDArray[np.int64]) -> Met | None:
        """A write to chunks by another lane of a thread's warp since its lanes met; None if there is none."""
        per = CHUNK // self.plan.unit
        tags = self.write_tag.reshape(-1, per)[chunks]
        writers = self.write_by.reshape(-1, per)[chunks]
        place = self.lanes.of_others(origin, chunks, tags, writers, self.parts.of(origin))
        if place is None:
            return None
        writer = origin.bundle.number
        byte = self._byte(place, tags.shape, 0, chunks)
        return Met(byte, writer, int(tags[place]) & self.clocks.line_mask, 0)

    def read_by_other_lanes(self, origin: Origin, first: int, chunks: Chunks) -> Met | None:
        """A read of chunks by another lane of a thread's warp since its lanes met; None if there is none."""
        per = CHUNK // self.plan.unit
        column = origin.bundle.number if self.remote else origin.bundle.warp
        tags, held = (
            reads[column].reshape(-1, per)[first:][chunks] for reads in (self.read_tag, self.lanes.read)
        )
        part = self.parts.of(origin)
        if self.clocks.by_lane and any_true(tags > 0):
            part = part or self.parts.whole(origin.bundle, 0)
            since = part.reads_of_others(self.lanes.each_read(column, per)[:, first:][:, chunks], origin.lane)
            place = next((tuple(int(at) for at in found) for found in np.argwhere(since)), None)
        else:
            place = self.lanes.read_by_others(origin, tags, held, part)
        if place is None:
            return None
        byte = self._byte(place, tags.shape, first, chunks)
        return Met(byte, origin.bundle.number, int(tags[place]) & self.clocks.line_mask, 0)

    def unknown_read(self, row: Row, rank: int, first: int, chunks: Chunks) -> Met | None:
        """A read of chunks of CTA `rank` that a clock does not know of; None if there is none."""
        per = CHUNK // self.plan.unit
        start = 0 if self.remote else rank * self.per_block
        tags = self.read_tag.reshape(len(self.read_tag), -1, per)[:, first:][:, chunks]
        limit = row[start : start + len(tags)].reshape(-1, *([1] * (tags.ndim - 1)))
        bad = tags >= limit
        if self.clocks.by_lane and any_true(bad):
            columns = range(len(tags))
            self._spare_known(bad, row, columns, start, lambda reads: reads[:, first:][:, chunks], per)
        if not any_true(bad):
            return None
        reader, *place = np.argwhere(bad)[0]
        byte = self._byte(tuple(place), tags.shape[1:], first, chunks)
        return Met(byte, start + int(reader), int(tags[bad][0]) & self.clocks.line_mask, 0)

    def _byte(self, place: tuple[Any, ...], shape: tuple[int, ...], first: int, chunks: Chunks) -> int:
        at = int(np.ravel_multi_index(place[:-1], shape[:-1]))
        return (first + nth_chunk(chunks, at)) * CHUNK + int(place[-1]) * self.plan.unit
