"""Which memory an event reads or writes: bytes of shared or global memory, cells of tensor memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cutecourse.trace.event import Event

__all__ = ["Touch", "touches"]

_BARRIER_BYTES = 8
_ALL_LANES = (0, 128)


@dataclass(frozen=True, slots=True)
class Touch:
    """A range of memory: bytes, or in tensor memory lanes and columns; each (first, behind the last).

    space   "shared", "tensor" or "global".
    rank    the CTA in the cluster; None in global memory.
    name    of global memory: the tensor or the argument that the bytes are of.
    """

    space: str
    writes: bool
    first: int
    stop: int
    rank: int | None = None
    lanes: tuple[int, int] = _ALL_LANES
    name: str | None = None

    def meets(self, first: int, stop: int) -> bool:
        """Return whether this touch shares a byte or a column with the range from `first` to `stop`."""
        return self.first < stop and first < self.stop


def touches(event: Event, by_index: Mapping[int, Event]) -> tuple[Touch, ...]:
    """The memory that an event touches; `by_index` finds the events that it names.

    Simplified: a matrix in shared memory is given from its first to its last byte, a box of a tensor in
                global memory by the tensor's name only.
    """
    data = event.data
    found = [_given(each) for each in data.get("touches") or ()]
    barrier = data.get("barrier")
    if barrier is not None:
        at = barrier["offset"]
        found.append(Touch("shared", True, at, at + _BARRIER_BYTES, barrier["rank"]))
    if event.kind == "tma.issue":
        found += _copy(data)
    elif event.kind == "tma.land":
        found.append(Touch("shared", True, data["offset"], data["offset"] + data["bytes"], event.rank))
    elif event.kind in {"tmem.alloc", "tmem.dealloc"} and data["address"] is not None:
        column = data["address"] & 0xFFFF
        found.append(Touch("tensor", True, column, column + data["columns"], event.rank))
    cause = {"tma.read": "transfer", "mma.complete": "issue"}.get(event.kind)
    if cause is not None and data[cause] in by_index:
        issue = by_index[data[cause]]
        of_cause = touches(issue, by_index)
        found += [touch for touch in of_cause if event.kind == "mma.complete" or not touch.writes]
    return tuple(found)


def _copy(data: Mapping[str, Any]) -> list[Touch]:
    n_bytes = data["bytes"]
    found = [
        Touch("shared", True, to["offset"], to["offset"] + n_bytes, to["rank"]) for to in data["destinations"]
    ]
    source = data["source"]
    if source is not None and "rank" in source:
        at = source["offset"]
        found.append(Touch("shared", False, at, at + n_bytes, source["rank"]))
    elif source is not None:
        at = source["offset"]
        found.append(Touch("global", False, at, at + n_bytes, name=source["allocation"]))
    if data["tensor"] is not None:
        writes = data["operation"] in {"store", "reduce"}
        found.append(Touch("global", writes, 0, 1 << 62, name=data["tensor"]))
    return found


def _given(each: Mapping[str, Any]) -> Touch:
    first, stop = each["range"]
    low, high = each.get("lanes", _ALL_LANES)
    return Touch(each["space"], each["writes"], first, stop, each.get("rank"), (low, high), each.get("name"))
