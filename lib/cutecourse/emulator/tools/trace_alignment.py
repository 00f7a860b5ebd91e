"""Aligns two traces of one launch: matches their events, and finds where a warp first acts differently.

Two seeds order the same work differently, so their traces differ even if the kernel is right. A right kernel
keeps each warp's own order. So events are compared warp by warp. The comparison leaves out everything that
depends on the order between warps: whether a wait passed at once, a barrier's state after an arrival, the
number of an event, and asynchronous events (bytes that land, MMAs that complete, the arrivals of a commit).

Simplified: diverged lanes of a warp may take turns in another order under another seed. The comparison then
shows a parting. Without `Recorder(memory=True)` a trace holds no plain loads and stores, so a race between
them shows no parting.
"""

from __future__ import annotations

import json
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape
from itertools import zip_longest
from typing import Any

from cutecourse.trace import Event, Trace
from cutecourse.trace.words import number, place, text_table

__all__ = ["AlignedPair", "Parting", "Stop", "TraceAlignment", "align_traces"]

_ORDER_DECIDES = {"state", "outcome", "transfer", "issue", "issues"}
_ASYNCHRONOUS = {"mbarrier.phase", "mbarrier.complete_tx", "mma.complete", "tma.land", "tma.read"}
_SHOWN = 4
"""The text shows this many events before and after the place where traces part."""
_TEXT_WIDTH = 46
_HEAD = ("#", "CTA", "warp", "line", "event")

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Stop:
    """An error that ended a launch: its class, and the warp that it names, if any."""

    error: str
    block: tuple[int, int, int] | None
    warp: int | None


@dataclass(frozen=True)
class AlignedPair:
    """A row of two traces side by side: an event of each, or None for a trace without a matching event.

    first_there, second_there  for an event without a partner in its row, its index in the other trace.
    ended                      the text in place of each event: the reason why that launch ended.
    """

    first: Event | None
    second: Event | None
    marked: bool = False
    first_there: int | None = None
    second_there: int | None = None
    ended: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Parting:
    """The first event at which a warp does something different in the two traces.

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

    partings      for each warp that differs between the traces, the place where it parts, earliest first. A
                  warp that an error cut short does not count, unless the error is its own.
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

    def side_by_side(self, reach: int = _SHOWN) -> tuple[AlignedPair, ...]:
        """Both traces around the place where they part, in rows; the row of the parting is marked.

        Equal events share a row if both orders allow it; any other event gives its index in the other trace.
        """
        at = self._places()
        one, two = (
            trace.events[place] if place < len(trace) else None
            for trace, place in zip((self.first, self.second), at, strict=True)
        )
        ended = (_end(self.stops[0], one), _end(self.stops[1], two))
        parting = [AlignedPair(one, two, marked=True, ended=ended)] if one or two or any(ended) else []
        return (*self._window(at, -reach, 0), *parting, *self._window(at, 1, reach + 1))

    def _window(self, at: tuple[int, int], begin: int, end: int) -> list[AlignedPair]:
        """The events from `begin` to `end`, counted from the places where the traces part."""
        traces = (self.first, self.second)
        edges = [[max(place + begin, 0), max(place + end, 0)] for place in at]
        there = {other: one for one, other in enumerate(self.same) if other is not None}
        if begin < 0:
            # Start earlier, within reason, to include the partners of the other side's events.
            partners = (
                [there.get(index) for index in range(*edges[1])],
                [self.same[index] for index in range(edges[0][0], min(edges[0][1], len(self.first)))],
            )
            for edge, own in zip(edges, partners, strict=True):
                near = [index for index in own if index is not None and index < edge[1]]
                edge[0] = max(min([edge[0], *near]), edge[0] + begin)
        first, second = (trace.events[slice(*edge)] for trace, edge in zip(traces, edges, strict=True))
        return [self._pair(one, two, there) for one, two in _paired(first, second)]

    def _pair(self, one: Event | None, two: Event | None, there: dict[int, int]) -> AlignedPair:
        if one is not None and two is not None:
            return AlignedPair(one, two)
        first_there = None if one is None else self.same[one.index]
        second_there = None if two is None else there.get(two.index)
        return AlignedPair(one, two, False, first_there, second_there)

    @property
    def _names(self) -> tuple[str, str]:
        return (f"seed {self.first.seed}", f"seed {self.second.seed}")

    def __str__(self) -> str:
        pairs = self.side_by_side()
        return f"{self._headline}\n\n{_pairs_text(pairs, self._names)}" if pairs else self._headline

    def _repr_html_(self) -> str:
        return _pairs_html(self.side_by_side(), self._names, self._headline)

    __repr__ = __str__

    @property
    def _headline(self) -> str:
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
            for name, event, stop in zip(self._names, (found.first, found.second), self.stops, strict=True)
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
    keys = [[_key(event) for event in trace] for trace in (first, second)]
    left: dict[Key, list[int]] = defaultdict(list)
    for index in reversed(range(len(second))):
        left[keys[1][index]].append(index)
    same = tuple(left[key].pop() if left[key] else None for key in keys[0])
    orders_part = next(
        (index for index, (a, b) in enumerate(zip(*keys, strict=False)) if a != b), min(map(len, keys))
    )
    return TraceAlignment(first, second, _partings(first, second, stops), same, orders_part, stops)


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
            continue  # the launch ended before the warp got there
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
            continue  # the same wait, tried again
        sequence.append(event)
    return sequences


def _key(event: Event) -> Key:
    """The fields that equal events share in both traces, without those that depend on the order of warps."""
    data = {name: value for name, value in event.data.items() if name not in _ORDER_DECIDES}
    about = json.dumps(data, sort_keys=True)
    return (event.cluster, event.rank, event.warp, event.lane, event.kind, event.line, about)


# --- two traces side by side ---------------------------------------------------------------------------


def _paired(first: Sequence[Event], second: Sequence[Event]) -> list[tuple[Event | None, Event | None]]:
    """Pair the events of two traces: those with equal keys share a row if both orders allow it."""
    rows: list[tuple[Event | None, Event | None]] = []
    keys = [[_key(event) for event in events] for events in (first, second)]
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            rows += zip(first[a:b], second[c:d], strict=True)
        else:
            rows += [(event, None) for event in first[a:b]]
            rows += [(None, event) for event in second[c:d]]
    return rows


def _cells(event: Event | None, elsewhere: int | None, ended: str) -> tuple[str, ...]:
    if event is None:
        there = "" if elsewhere is None else f"(#{elsewhere})"
        return (there, "", "", "", ended)
    line = "-" if event.line is None else str(event.line)
    return (
        str(event.index),
        f"{event.cluster}:{event.rank}",
        place(event.warp, event.lane),
        line,
        str(event),
    )


def _sides(pair: AlignedPair) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # An event without a partner has its index in the other trace beside it.
    return (
        _cells(pair.first, pair.second_there, pair.ended[0]),
        _cells(pair.second, pair.first_there, pair.ended[1]),
    )


def _pairs_text(pairs: Iterable[AlignedPair], names: tuple[str, str]) -> str:
    """The rows in plain text, long cells over several lines; `>` marks where the traces part."""
    rows: list[tuple[str, ...]] = []
    for pair in pairs:
        left, right = _sides(pair)
        wrapped = (textwrap.wrap(side[-1], _TEXT_WIDTH, subsequent_indent="  ") for side in (left, right))
        lead = (">" if pair.marked else "", left[:-1], right[:-1])
        for one, other in zip_longest(*wrapped, fillvalue=""):
            mark, ours, theirs = lead
            rows.append((mark, *ours, one.ljust(_TEXT_WIDTH), "|", *theirs, other))
            lead = ("", ("",) * 4, ("",) * 4)
    head = ("", *_HEAD[:-1], names[0].ljust(_TEXT_WIDTH), "|", *_HEAD[:-1], names[1])
    return text_table(head, rows)


def _pairs_html(pairs: Iterable[AlignedPair], names: tuple[str, str], caption: str) -> str:
    """The rows in HTML, for a notebook."""
    border = "border-left:2px solid currentColor;"

    def cells(tag: str, sides: Iterable[Iterable[str]]) -> str:
        return "".join(
            f"<{tag} style='text-align:left;{border if n and not at else ''}'>{escape(cell)}</{tag[:2]}>"
            for n, side in enumerate(sides)
            for at, cell in enumerate(side)
        )

    body = []
    for pair in pairs:
        style = " style='font-weight:bold;outline:2px solid currentColor'" if pair.marked else ""
        mark = "&gt;" if pair.marked else ""
        body.append(f"<tr{style}><td>{mark}</td>{cells('td', _sides(pair))}</tr>")
    titles = cells("th colspan='5' scope='colgroup'", [[name] for name in names])
    heads = cells("th scope='col'", [_HEAD, _HEAD])
    return (
        "<div style='overflow-x:auto' tabindex='0'><table>"
        f"<caption style='text-align:left;white-space:pre-line'>{escape(caption)}</caption>"
        f"<thead><tr><td></td>{titles}</tr><tr><td></td>{heads}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
