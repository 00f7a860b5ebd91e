"""One thing that happened in a launch: what, when, and which thread or CTA it happened to."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutecourse.errors import CourseError
from cutecourse.trace.words import words

__all__ = ["KINDS", "Event", "TraceError", "block_of"]

KINDS: dict[str, tuple[str, ...]] = {
    "mbarrier.init": ("barrier", "count"),
    "mbarrier.inval": ("barrier",),
    "mbarrier.arrive": ("barrier", "count", "dropped", "state"),
    "mbarrier.expect_tx": ("barrier", "bytes", "state"),
    "mbarrier.complete_tx": ("barrier", "bytes", "transfer", "state"),
    "mbarrier.phase": ("barrier", "phase"),
    "mbarrier.wait": ("barrier", "parity", "outcome", "name"),
    "mbarrier.resume": ("barrier", "parity"),
    "tma.issue": (
        "operation",
        "tensor",
        "coords",
        "box",
        "bytes",
        "destinations",
        "barrier",
        "mask",
        "source",
    ),
    "tma.land": ("transfer", "offset", "bytes"),
    "tma.read": ("transfer",),
    "bulk.commit": ("group",),
    "bulk.wait": ("left", "read", "outcome"),
    "bulk.resume": (),
    "cluster.arrive": (),
    "cluster.wait": ("outcome",),
    "cluster.resume": (),
    "barrier.arrive": ("number",),
    "barrier.wait": ("number",),
    "barrier.resume": ("number",),
    "tmem.alloc": ("columns", "address", "group", "outcome"),
    "tmem.dealloc": ("columns", "address", "group", "outcome"),
    "tmem.relinquish": ("group",),
    "tmem.load": ("address", "shape", "registers"),
    "tmem.store": ("address", "shape", "registers"),
    "tmem.wait": ("name",),
    "tmem.copy": ("address", "group"),
    "mma.issue": ("group", "m", "n", "k", "types", "a", "b", "d", "idesc", "accumulate"),
    "mma.complete": ("issue",),
    "mma.commit": ("group", "barrier", "mask", "issues"),
    "memory.load": ("name", "lanes", "touches"),
    "memory.store": ("name", "lanes", "touches"),
    "memory.atomic": ("name", "lanes", "touches"),
    "wgmma.issue": ("m", "n", "k", "types", "a", "b", "accumulate"),
    "wgmma.complete": ("issue",),
    "wgmma.commit": ("issues",),
    "wgmma.wait": ("left", "outcome"),
    "wgmma.resume": (),
    "registers.release": ("registers",),
    "registers.wait": ("registers", "outcome"),
    "registers.resume": ("registers",),
    "fence": ("name",),
}
"""Every kind of event, and what its `data` holds at least.

barrier       {"rank": CTA in the cluster, "offset": bytes into its shared memory, "name": variable or None}
state         {"phase": int, "pending": arrivals missing, "tx": bytes missing}, after the operation
asynchronous  true of arrivals, there alone, that come of work that the thread has asked for: a tcgen05.commit
              or a cp.async.mbarrier.arrive
transfer      the index of the `tma.issue` it belongs to, or None
outcome       "passed", "blocked" or "false" (the instruction answered that the phase is not complete)
group         how many CTAs act together, 1 or 2
address       in tensor memory, the lane in its upper and the column in its lower 16 bits; None while unknown
a, b, d       of an MMA: descriptors of shared memory (a: or an address in tensor memory), address of D; of
              a wgmma, which has D in registers, a is None where it is in registers too
left          groups that may still be under way
registers     how many each thread loads or stores; of `registers.*`, how many it has afterwards
idesc         of an MMA: its instruction descriptor
issue         the index of the `mma.issue` or `wgmma.issue` it belongs to; `issues` those that a commit
              waits for. A warpgroup's issues and commits are events of its first warp
touches       [{"space", "rank" or "name", "range": [first byte or column, behind the last], "writes"}], with
              "lanes" in tensor memory: what the operation reads and writes (cutecourse.trace.touches)
destinations  [{"rank": int, "offset": int}], in shared memory; empty for a store
"""


class TraceError(CourseError):
    """An event that cannot be, or a question that a trace has no answer to."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    index    its place in the trace; other events name it by this.
    kind     one of `KINDS`.
    time     how many instructions the machine had issued: an order, no duration on a GPU.
    cluster  the cluster's number in the grid; `rank` the CTA's in the cluster; `block` the CTA's %ctaid.
    warp     the warp of the CTA, `lane` the thread of the warp; None where it is no one thread's doing (bytes
             that land) or the doing of several (a whole warp that waits).
    line     the line of the PTX text that it comes from, None where it comes from none.
    data     what `KINDS` says; strings, numbers, lists and dictionaries only.
    """

    index: int
    kind: str
    time: int
    cluster: int
    rank: int
    block: tuple[int, int, int]
    warp: int | None
    lane: int | None
    line: int | None
    data: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """`event["bytes"]` is `event.data["bytes"]`. Errors: TraceError."""
        if name not in self.data:
            raise TraceError(f"an event {self.kind} holds no {name!r}; it holds {', '.join(self.data)}.")
        return self.data[name]

    @property
    def place(self) -> tuple[object, ...]:
        """The key that tells this event from others, whatever its barriers are called."""
        return (self.index, self.kind, self.time, self.cluster, self.rank, self.warp, self.lane, self.line)

    def to_snapshot(self) -> dict[str, Any]:
        """The event as JSON can hold it."""
        return {
            "index": self.index,
            "kind": self.kind,
            "time": self.time,
            "cluster": self.cluster,
            "rank": self.rank,
            "block": list(self.block),
            "warp": self.warp,
            "lane": self.lane,
            "line": self.line,
            "data": dict(self.data),
        }

    def __str__(self) -> str:
        return words(self.kind, self.data)


def block_of(asked: int | Sequence[int]) -> tuple[int, int, int]:
    """A CTA's place in the grid, given as x, (x, y) or (x, y, z). Errors: TraceError."""
    try:
        given = [operator.index(part) for part in (asked if isinstance(asked, Iterable) else (asked,))]
    except TypeError:
        given = []
    if not 1 <= len(given) <= 3:
        raise TraceError(f"block={asked!r}: give x, (x, y) or (x, y, z).")
    x, y, z = (*given, 0, 0)[:3]
    return x, y, z


def plain(value: Any) -> Any:
    """The value with lists for tuples and Python's numbers for NumPy's. Errors: TraceError."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, numbers.Integral):
        return int(value)
    raise TraceError(f"an event cannot hold {value!r}: give strings, numbers, lists and dictionaries.")
