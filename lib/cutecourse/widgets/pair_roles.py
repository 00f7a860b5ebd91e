"""The roles of a persistent tcgen05 kernel over time, from a recorded launch: loads, MMAs, stores."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from cutecourse.pictures import Picture
from cutecourse.trace import Event, Trace
from cutecourse.widgets.errors import WidgetError

__all__ = ["ROLES", "Moments", "Span", "draw_roles", "overlap", "role_moments", "role_spans"]

ROLES = {
    "load": "load: TMA brings k-tiles",
    "multiply": "multiply: MMAs, in both SMs",
    "unload": "store: tensor memory to registers",
    "store": "store: TMA takes pieces of D",
}
"""The rows of the picture, and what they show."""

_COLUMN = 0xFFFF  # of an address in tensor memory


@dataclass(frozen=True)
class Span:
    """What one role does for one tile, from the first step of it to the last.

    role         a key of `ROLES`.
    tile         the tile's place among those of this pair, from 0.
    accumulator  which accumulator holds the tile's sums.
    start, end   in steps of the emulator.
    """

    role: str
    tile: int
    accumulator: int
    start: int
    end: int


@dataclass(frozen=True)
class Moments:
    """When a pair's roles did something, tile by tile.

    cluster       the pair's cluster.
    accumulators  for each accumulator the columns that an MMA of it writes: the first, and the one behind
                  the last.
    of_tile       for each tile the accumulator that holds its sums.
    events        by role and tile: times in steps of the emulator, each with the CTA's rank and the warp.
                  What no warp does, such as the end of an MMA, has no warp.
    """

    cluster: int
    accumulators: list[tuple[int, int]]
    of_tile: list[int]
    events: dict[tuple[str, int], list[tuple[int, int, int | None]]]


def role_moments(trace: Trace, cluster: int | None = None) -> Moments:
    """When each role of a pair did something for each tile.

    trace    of a launch whose MMAs replace their sums with the first one of a tile, and whose warps load
             these with `tcgen05.ld`, the same number of times in each tile.
    cluster  the pair, by its cluster's number; the first that multiplies unless given.

    Errors: WidgetError for a cluster without an MMA.
    """
    issues = [event for event in trace.of("mma.issue") if cluster is None or event.cluster == cluster]
    if not issues:
        raise WidgetError(
            "No tcgen05.mma in this trace or cluster, so there are no roles to show. Take the trace of a "
            "kernel such as umma_persistent, on the emulator, with trace=True."
        )
    cluster = min(event.cluster for event in issues) if cluster is None else cluster
    issues = [event for event in issues if event.cluster == cluster]
    begins = [place for place, event in enumerate(issues) if not event["accumulate"]]
    tile_of_issue = {event.index: bisect_right(begins, place) - 1 for place, event in enumerate(issues)}
    columns = [_column(issues[place]["d"]) for place in begins]
    widths = {column: issues[place]["n"] for column, place in zip(columns, begins, strict=True)}
    accumulators = {column: number for number, column in enumerate(sorted(widths))}
    found: dict[tuple[str, int], list[tuple[int, int, int | None]]] = defaultdict(list)
    for event in issues:
        found["multiply", tile_of_issue[event.index]].append((event.time, event.rank, event.warp))
    for event in trace.of("mma.complete"):
        if event["issue"] in tile_of_issue:
            found["multiply", tile_of_issue[event["issue"]]].append((event.time, event.rank, None))
    ends = {event["transfer"]: event.time for kind in ("tma.land", "tma.read") for event in trace.of(kind)}
    for ((rank, warp), role), events in _by_warp(trace, cluster).items():
        tiles = -1
        per_tile = -(-sum(event.kind == "tmem.load" for event in events) // len(begins)) or 1
        seen = 0
        for event in events:
            times = (
                [event.time] if event.kind == "tmem.load" else [event.time, ends.get(event.index, event.time)]
            )
            if role == "load":
                tiles += event["tensor"] == events[0]["tensor"] and event["coords"][0] == 0
                at = role, tiles
            elif event.kind == "tmem.load":
                at = "unload", seen // per_tile
                seen += 1
            else:
                at = "store", (seen - 1) // per_tile
            found[at] += [(time, rank, warp) for time in times]
    return Moments(
        cluster,
        [(column, column + widths[column]) for column in accumulators],
        [accumulators[column] for column in columns],
        dict(found),
    )


def role_spans(trace: Trace, cluster: int | None = None) -> list[Span]:
    """The spans of a pair's roles, tile by tile; the arguments and errors are those of `role_moments`."""
    moments = role_moments(trace, cluster)
    return [
        Span(role, tile, moments.of_tile[tile], min(events)[0], max(time for time, *_ in events))
        for (role, tile), events in sorted(moments.events.items())
    ]


def overlap(spans: Sequence[Span]) -> float:
    """The part of the steps of loading sums and storing them in which MMAs are under way, from 0 to 1."""
    busy = {step for span in spans if span.role == "multiply" for step in range(span.start, span.end + 1)}
    storing = {
        step for span in spans if span.role in ("unload", "store") for step in range(span.start, span.end + 1)
    }
    return len(storing & busy) / len(storing) if storing else 0.0


def draw_roles(spans: Sequence[Span], width: int, *, tiles: int) -> Picture:
    """The spans of the first `tiles` tiles as bars: a row for each role and accumulator, which colours it."""
    shown = [span for span in spans if span.tile < tiles]
    rows = [
        (role, acc)
        for role in ROLES
        for acc in sorted({span.accumulator for span in shown if span.role == role})
    ]
    first, last = min(span.start for span in shown), max(span.end for span in shown)
    said = "; ".join(
        f"{'load sums' if span.role == 'unload' else span.role}, tile {span.tile}: {span.start} to {span.end}"
        for span in shown
    )
    several = len({span.accumulator for span in shown}) > 1
    drawn = Picture(width, 44 * len(rows) + 30, alt=f"Time in emulator steps. {said}.")
    scale = (width - 12) / (last - first)
    for place, (role, acc) in enumerate(rows):
        name = ROLES[role] + (f", accumulator {acc}" if several else "")
        drawn.text(4, 16 + 44 * place, name, size=13)
        for span in shown:
            if (span.role, span.accumulator) == (role, acc):
                left = 4 + (span.start - first) * scale
                drawn.rect(
                    left, 21 + 44 * place, max(14, (span.end - span.start) * scale), 20, fill=f"stage{acc}"
                )
                drawn.text(left + 3, 36 + 44 * place, span.tile, size=13)
    said = "numbers: tiles, width: emulator steps"
    return drawn.text(4, 44 * len(rows) + 20, said, size=13, muted=True)


def _by_warp(trace: Trace, cluster: int) -> dict[tuple[tuple[int, int | None], str], list[Event]]:
    """A cluster's TMA copies and its loads of sums, in their order, by the warp and by what it does."""
    found: dict[tuple[tuple[int, int | None], str], list[Event]] = defaultdict(list)
    for event in trace.events:
        if event.cluster == cluster and event.kind in ("tma.issue", "tmem.load"):
            if event.kind == "tma.issue" and not event["coords"]:
                continue  # not of a tensor: the answer to a request for a tile
            loads = event.kind == "tma.issue" and event["operation"] == "load"
            found[(event.rank, event.warp), "load" if loads else "store"].append(event)
    return found


def _column(address: object) -> int:
    """The column of an address in tensor memory, a number or its text."""
    return int(str(address), 0) & _COLUMN
