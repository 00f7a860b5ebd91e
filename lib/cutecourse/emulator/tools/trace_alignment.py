"""Aligns two traces of one launch: matches their events, and finds where a warp first does something else.

Two seeds order the same work differently, so their traces differ even if the kernel is right. A right kernel
keeps each warp's own order. So events are compared warp by warp. The comparison leaves out everything that
depends on the order between warps: whether a wait passed at once, a barrier's state after an arrival, the
number of an event, and asynchronous events (bytes that land, MMAs that complete, the arrivals of a commit).

Simplified: diverged lanes of a warp may take turns in another order under another seed, and that shows as a
warp that parts. Without `Recorder(memory=True)` a trace holds no plain loads and stores, so a race
between them parts no warp.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from cutecourse.emulator.tools.explore_tables import Pair, paired, pairs_html, pairs_text
from cutecourse.trace import Event, Trace
from cutecourse.trace.words import number

__all__ = ["Parting", "Stop", "TraceAlignment", "align_traces"]

_ORDER_DECIDES = {"state", "outcome", "transfer", "issue", "issues"}
_ASYNCHRONOUS = {"mbarrier.phase", "mbarrier.complete_tx", "mma.complete", "tma.land", "tma.read"}
_SHOWN = 4
"""The text shows this many events before and after the place where traces part."""

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Stop:
    """An error that ended a launch: its class, and the warp that it names, if any."""

    error: str
    block: tuple[int, int, int] | None
    warp: int | None


@dataclass(frozen=True)
class Parting:
    """The first event at which a warp does something else in the second trace than in the first.

    cluster, rank  the CTA; `warp` is a warp of this CTA.
    common         the number of earlier events of the warp, which are the same in both traces.
    first, second  the event in each trace; None if the warp has no further one.
    """

    cluster: int
    rank: int
    warp: int
    common: int
    first: Event | None
    second: Event | None

    @property
    def index(self) -> int:
        """The smaller of the two events' places in their traces."""
        return min(event.index for event in (self.first, self.second) if event is not None)


@dataclass(frozen=True, repr=False)
class TraceAlignment:
    """Two traces of one launch, with their events matched.

    partings      for each warp that does not do the same in both, the place where it parts, earliest first. A
                  warp that the other launch's error cut short does not count, unless the error is its own.
    same          for each event of the first trace, its index in the second; None if it is not there.
    orders_part   the index from which the two traces no longer hold the same events in the same order.
    stops         the error that ended each launch; None without an error.
    """

    first: Trace
    second: Trace
    partings: tuple[Parting, ...]
    same: tuple[int | None, ...]
    orders_part: int
    stops: tuple[Stop | None, Stop | None]

    @property
    def parting(self) -> Parting | None:
        """The earliest of `partings`; None if the traces differ only in how they interleave the warps."""
        return self.partings[0] if self.partings else None

    def around(self, reach: int = _SHOWN) -> tuple[tuple[Event, ...], tuple[Event, ...]]:
        """The events of both traces around the place where they part, at most `reach` on each side."""
        at = self._places()
        return (
            self.first.events[max(at[0] - reach, 0) : at[0] + reach + 1],
            self.second.events[max(at[1] - reach, 0) : at[1] + reach + 1],
        )

    def _places(self) -> tuple[int, int]:
        """The index in each trace where they part; past the last event if a trace has none there."""
        found = self.parting
        if found is None:
            return self.orders_part, self.orders_part
        return (
            len(self.first) if found.first is None else found.first.index,
            len(self.second) if found.second is None else found.second.index,
        )

    def side_by_side(self, reach: int = _SHOWN) -> tuple[Pair, ...]:
        """Both traces around the place where they part, in rows; the row of the parting is marked.

        Equal events share a row where both orders allow it; the others give their index in the other
        trace.
        """
        at = self._places()
        one, two = (
            trace.events[place] if place < len(trace) else None
            for trace, place in zip((self.first, self.second), at, strict=True)
        )
        ended = (_end(self.stops[0], one), _end(self.stops[1], two))
        parting = [Pair(one, two, marked=True, ended=ended)] if one or two or any(ended) else []
        return (*self._window(at, -reach, 0), *parting, *self._window(at, 1, reach + 1))

    def _window(self, at: tuple[int, int], begin: int, end: int) -> list[Pair]:
        """The events from `begin` to `end`, counted from the places where the traces part."""
        traces = (self.first, self.second)
        edges = [[max(place + begin, 0), max(place + end, 0)] for place in at]
        there = {other: one for one, other in enumerate(self.same) if other is not None}
        if begin < 0:
            # Go further back to the other side's events, within reason.
            partners = (
                [there.get(index) for index in range(*edges[1])],
                [self.same[index] for index in range(edges[0][0], min(edges[0][1], len(self.first)))],
            )
            for edge, own in zip(edges, partners, strict=True):
                near = [index for index in own if index is not None and index < edge[1]]
                edge[0] = max(min([edge[0], *near]), edge[0] + begin)
        first, second = (trace.events[slice(*edge)] for trace, edge in zip(traces, edges, strict=True))
        keys = ([_key(event) for event in first], [_key(event) for event in second])
        return [self._pair(one, two, there) for one, two in paired(first, second, keys)]

    def _pair(self, one: Event | None, two: Event | None, there: dict[int, int]) -> Pair:
        if one is not None and two is not None:
            return Pair(one, two)
        first_there = None if one is None else self.same[one.index]
        second_there = None if two is None else there.get(two.index)
        return Pair(one, two, False, first_there, second_there)

    @property
    def _names(self) -> tuple[str, str]:
        return (f"seed {self.first.seed}", f"seed {self.second.seed}")

    def __str__(self) -> str:
        pairs = self.side_by_side()
        headline = self._headline(self._names)
        return f"{headline}\n\n{pairs_text(pairs, self._names)}" if pairs else headline

    def _repr_html_(self) -> str:
        return pairs_html(self.side_by_side(), self._names, self._headline(self._names))

    __repr__ = __str__

    def _headline(self, names: tuple[str, str]) -> str:
        found = self.parting
        if not self.first.events and not self.second.events:
            return "The traces hold no events: no barrier, asynchronous copy or MMA to tell them apart by."
        if found is None:
            return (
                "Each warp does the same under both seeds, as far as a trace shows it; only the order between"
                f" warps and asynchronous operations differs, from event {self.orders_part} on."
            )
        who = f"CTA {found.rank} of cluster {found.cluster}, warp {found.warp}"
        does = [
            f"under {name} {self._does(event, stop)}"
            for name, event, stop in zip(names, (found.first, found.second), self.stops, strict=True)
        ]
        return f"{who} diverges after {number(found.common, 'event')} of its own:\n  {does[0]}\n  {does[1]}"

    @staticmethod
    def _does(event: Event | None, stop: Stop | None) -> str:
        if event is not None:
            return f"it continues at PTX line {event.line} with {event}"
        return "it has no further event" + (f": the launch ends with {stop.error}" if stop else "")


def _end(stop: Stop | None, event: Event | None) -> str:
    """The text in place of an event, for a launch that an error ended."""
    return f"{stop.error} ends the launch" if stop is not None and event is None else ""


def align_traces(
    first: Trace, second: Trace, stops: tuple[Stop | None, Stop | None] = (None, None)
) -> TraceAlignment:
    """Align two traces of one launch; `stops` says which of them an error cut short."""
    keys = ([_key(event) for event in first], [_key(event) for event in second])
    by_key: dict[Key, list[int]] = defaultdict(list)
    for index, key in enumerate(keys[1]):
        by_key[key].append(index)
    taken: dict[Key, int] = defaultdict(int)
    same: list[int | None] = []
    for key in keys[0]:
        nth, found = taken[key], by_key.get(key, [])
        same.append(found[nth] if nth < len(found) else None)
        taken[key] += 1
    orders_part = next(
        (index for index, (a, b) in enumerate(zip(*keys, strict=False)) if a != b), min(map(len, keys))
    )
    return TraceAlignment(first, second, _partings(first, second, stops), tuple(same), orders_part, stops)


def _partings(first: Trace, second: Trace, stops: tuple[Stop | None, Stop | None]) -> tuple[Parting, ...]:
    ours, theirs = _sequences(first), _sequences(second)
    found: list[tuple[bool, Parting]] = []
    for unit in sorted({*ours, *theirs}):
        a, b = ours.get(unit, []), theirs.get(unit, [])
        pairs = zip(a, b, strict=False)
        common = next((n for n, (x, y) in enumerate(pairs) if _key(x) != _key(y)), min(len(a), len(b)))
        x, y = (events[common] if common < len(events) else None for events in (a, b))
        if x is None and y is None:
            continue
        stop = stops[0] if x is None else stops[1] if y is None else None
        going_on = y if x is None else x
        if stop and going_on and (stop.block, stop.warp) != (going_on.block, going_on.warp):
            continue  # the launch was over before the warp got there
        found.append((stop is not None, Parting(*unit, common, x, y)))
    # A parting where an error cut a warp short comes last, because another parting led to it.
    return tuple(parting for _, parting in sorted(found, key=lambda item: (item[0], item[1].index)))


def _sequences(trace: Trace) -> dict[tuple[int, int, int], list[Event]]:
    """Each warp's own events in order, by cluster, rank and warp."""
    sequences: dict[tuple[int, int, int], list[Event]] = defaultdict(list)
    for event in trace:
        if event.warp is None or event.kind in _ASYNCHRONOUS or event.data.get("asynchronous"):
            continue
        if event.kind.endswith(".resume"):
            continue
        waits = event.kind.endswith(".wait")
        outcome = event.data.get("outcome")
        if outcome == "false" or (outcome == "blocked" and not waits):
            continue  # it is tried again
        sequence = sequences[event.cluster, event.rank, event.warp]
        if waits and sequence and _key(sequence[-1]) == _key(event):
            continue  # one wait that took several tries
        sequence.append(event)
    return sequences


def _key(event: Event) -> Key:
    """The fields that equal events share in both traces, without those that depend on the order of warps."""
    data = {name: value for name, value in event.data.items() if name not in _ORDER_DECIDES}
    about = json.dumps(data, sort_keys=True)
    return (event.cluster, event.rank, event.warp, event.lane, event.kind, event.line, about)
