"""Bulk and tensor copies as events of a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.bulk.groups import BulkGroups
from cutecourse.emulator.instructions.bulk.pieces import Piece, lowest
from cutecourse.emulator.instructions.bulk.request import Copy, Place
from cutecourse.emulator.recording.events import Recording

__all__ = ["BulkRecording"]


class BulkRecording(Observer):
    """Gives a recorder the copies, and the waits for bulk groups."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def bulk_issued(self, copy: Copy) -> None:
        """Record the request, to which later events of the copy refer."""
        origin, to = copy.origin, copy.to
        tensor_map = None if copy.box is None else copy.box.bound.map
        barrier = None
        if to is not None:
            _, rank, offset = to.barriers[0]
            label = origin.bundle.program.placement.shared_label(offset)
            barrier = {"rank": rank, "offset": offset, "name": label}
        self.recording.numbers[copy] = self.recording.happened(
            "tma.issue",
            origin.bundle,
            origin.lane,
            origin.site.line,
            operation=copy.operation,
            tensor=None if tensor_map is None else tensor_map.name,
            coords=[] if copy.box is None else list(copy.box.coords),
            box=[] if tensor_map is None else list(tensor_map.counts),
            bytes=copy.n_bytes,
            destinations=[] if to is None else [place.about() for place in to.places],
            barrier=barrier,
            mask=copy.mask,
            source=_source(copy),
        )

    def bulk_landed(self, copy: Copy, position: int, piece: Piece) -> None:
        """Record the bytes that have come."""
        assert copy.to is not None
        place = copy.to.places[position]
        self.recording.happened_in(
            "tma.land",
            copy.origin.bundle.cohort,
            place.cluster,
            place.rank,
            copy.origin.site.line,
            transfer=copy,
            offset=(copy.to.first_chunk + lowest(piece.covered)) * CHUNK,
            bytes=piece.n_bytes,
        )

    def bulk_source_read(self, copy: Copy) -> None:
        """Record that the source may be used again."""
        origin = copy.origin
        bundle, cluster = origin.bundle, origin.lane // WARP_SIZE
        self.recording.happened_in(
            "tma.read", bundle.cohort, cluster, bundle.rank, origin.site.line, transfer=copy
        )

    def bulk_committed(
        self, site: Site, bundle: Bundle, lanes: NDArray[np.bool_], groups: BulkGroups
    ) -> None:
        """Record the group that each warp closes."""
        for lane, one in _speakers(groups, lanes):
            number = groups.group(lane)
            self.recording.happened("bulk.commit", bundle, lane, site.line, one=one, group=number)

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
            self.recording.happened("bulk.wait", bundle, lane, site.line, one=one, **about)

    def bulk_waited(
        self,
        site: Site,
        bundle: Bundle,
        lanes: NDArray[np.bool_],
        groups: BulkGroups,
        newest: int,
        blocked: set[int],
    ) -> None:
        """Record that the warps which were blocked go on."""
        for lane, one in _speakers(groups, lanes):
            if lane // WARP_SIZE in blocked:
                self.recording.happened("bulk.resume", bundle, lane, site.line, one=one)


def _source(copy: Copy) -> dict[str, Any] | None:
    """Describe the source of a copy of contiguous bytes, or of a copy out of shared memory."""
    if copy.source is None or isinstance(copy.source, Place):
        return None if copy.source is None else copy.source.about()
    allocation, start = copy.source
    return {"allocation": allocation.name, "offset": start}


def _speakers(groups: BulkGroups, lanes: NDArray[np.bool_]) -> list[tuple[int, bool]]:
    """Pick one lane of each warp to tell of, with copies if one has some; True where it is the only one."""
    busy = {copy.origin.lane for copy in groups.copies}
    found = []
    for warp in np.flatnonzero(lanes.any(axis=1)).tolist():
        active = (np.flatnonzero(lanes[warp]) + warp * WARP_SIZE).tolist()
        mine = [lane for lane in active if lane in busy]
        found.append(((mine or active)[0], len(active) == 1 or len(mine) == 1))
    return found
