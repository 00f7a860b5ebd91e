"""The recorder's observer: turns the events of a cohort, with its bulk copies, into events of a trace."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.bulk.groups import BulkGroups
from cutecourse.emulator.instructions.bulk.pieces import Piece, lowest
from cutecourse.emulator.instructions.bulk.request import Copy, Place
from cutecourse.trace import Recorder

__all__ = ["Recording"]


class Recording(Observer):
    """Gives a recorder the events of a launch, each with its time and place."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        """The index of the event that issued each asynchronous operation."""

    def happened(self, kind: str, origin: Origin, *, one: bool = True, **data: Any) -> int:
        """See `Observer.happened`; returns the event's index."""
        bundle, line = origin.bundle, origin.site.line
        thread = {"warp": bundle.warp, "lane": origin.lane % WARP_SIZE if one else None}
        return self.happened_in(kind, bundle.cohort, origin.cluster, bundle.rank, line, **thread, **data)

    def happened_in(
        self, kind: str, cohort: Cohort, cluster: int, rank: int, line: int | None = None, **data: Any
    ) -> int:
        """See `Observer.happened_in`; returns the event's index."""
        if data.get("transfer") is not None:
            data["transfer"] = self.numbers[data["transfer"]]
        return self.recorder.emit(
            kind,
            time=cohort.machine.issued,
            cluster=cohort.numbers[cluster],
            rank=rank,
            block=cohort.blocks[cluster, rank],
            line=line,
            **data,
        )

    # --- bulk and tensor copies ---------------------------------------------------------------------------

    def bulk_issued(self, copy: Copy) -> None:
        """Record that a copy is issued. Its later events refer to this one."""
        origin, to = copy.origin, copy.to
        box, barrier = copy.box, None
        if to is not None:
            _, rank, offset = to.barriers[0]
            label = origin.bundle.program.placement.shared_label(offset)
            barrier = {"rank": rank, "offset": offset, "name": label}
        self.numbers[copy] = self.happened(
            "tma.issue",
            origin,
            operation=copy.operation,
            tensor=None if box is None else box.bound.map.name,
            coords=() if box is None else box.coords,
            box=() if box is None else box.bound.map.counts,
            bytes=copy.n_bytes,
            destinations=[]
            if to is None
            else [{"rank": rank, "offset": to.place.offset} for rank in to.ranks],
            barrier=barrier,
            mask=copy.mask,
            source=_source(copy),
        )

    def bulk_landed(self, copy: Copy, position: int, piece: Piece) -> None:
        """Record the bytes that have landed."""
        assert copy.to is not None
        self.happened_in(
            "tma.land",
            copy.origin.bundle.cohort,
            copy.to.place.cluster,
            copy.to.ranks[position],
            copy.origin.site.line,
            transfer=copy,
            offset=(copy.to.first_chunk + lowest(piece.covered)) * CHUNK,
            bytes=piece.n_bytes,
        )

    def bulk_source_read(self, copy: Copy) -> None:
        """Record that a copy's source may be overwritten."""
        origin, bundle = copy.origin, copy.origin.bundle
        line = origin.site.line
        self.happened_in("tma.read", bundle.cohort, origin.cluster, bundle.rank, line, transfer=copy)

    def bulk_committed(
        self, site: Site, bundle: Bundle, lanes: NDArray[np.bool_], groups: BulkGroups
    ) -> None:
        """Record the group that each warp closes."""
        for lane, one in _speakers(groups, lanes):
            number = groups.group(lane)
            self.happened("bulk.commit", Origin(site, bundle, lane), one=one, group=number)

    def bulk_wait_begun(
        self,
        site: Site,
        bundle: Bundle,
        lanes: NDArray[np.bool_],
        groups: BulkGroups,
        newest: int,
        blocked: set[int],
        *,
        only_reads: bool,
    ) -> None:
        """Record each warp's wait, and its outcome."""
        for lane, one in _speakers(groups, lanes):
            outcome = "blocked" if lane // WARP_SIZE in blocked else "passed"
            about = {"left": newest, "read": only_reads, "outcome": outcome}
            self.happened("bulk.wait", Origin(site, bundle, lane), one=one, **about)

    def bulk_waited(
        self,
        site: Site,
        bundle: Bundle,
        lanes: NDArray[np.bool_],
        groups: BulkGroups,
        newest: int,
        blocked: set[int],
    ) -> None:
        """Record that warps that were blocked go on."""
        for lane, one in _speakers(groups, lanes):
            if lane // WARP_SIZE in blocked:
                self.happened("bulk.resume", Origin(site, bundle, lane), one=one)


def _source(copy: Copy) -> dict[str, Any] | None:
    """Describe the source of a copy of contiguous bytes, or of a copy out of shared memory."""
    if copy.source is None:
        return None
    if isinstance(copy.source, Place):
        return copy.source.about()
    allocation, start = copy.source
    return {"allocation": allocation.name, "offset": start}


def _speakers(groups: BulkGroups, lanes: NDArray[np.bool_]) -> list[tuple[int, bool]]:
    """Pick a lane of each warp for its event, one with copies if possible; True if it is the only one."""
    busy = {copy.origin.lane for copy in groups.copies}
    found = []
    for warp in np.flatnonzero(lanes.any(axis=1)).tolist():
        active = (np.flatnonzero(lanes[warp]) + warp * WARP_SIZE).tolist()
        mine = [lane for lane in active if lane in busy]
        found.append(((mine or active)[0], len(active) == 1 or len(mine) == 1))
    return found
