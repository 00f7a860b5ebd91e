"""A recorded launch as tracks under each other: each CTA's warps, its TMA and tensor core, and its barriers.

Drawn for a column of 700 pixels: fewer things than `draw_timeline` shows, and those large enough to read.
"""

from __future__ import annotations

import base64
import math
import textwrap
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from cutecourse import palette
from cutecourse.trace import BarrierHistory, Trace, Wait
from cutecourse.trace.words import number
from cutecourse.widgets.figures import INK, LINE, MUTED, PrintFigure
from cutecourse.widgets.timeline_mmas import mma_groups
from cutecourse.widgets.traces import named, read_trace

__all__ = ["TrackFigure", "draw_tracks"]

WIDTH_IN = 700 / 110
ROW_IN = 0.27
MOST_ROWS = 48
_LANES = 3
_FONT = 8.5
_SMALL = 7.5
_LETTER = 0.62
"""Width of a letter, as a part of its height."""
_WAITS = palette.QUADS_LIGHT[2]
_MMAS = palette.QUADS_LIGHT[3]
_MARKS = {
    "mbarrier.arrive": ("^", "arrival"),
    "tma.issue": (">", "issues a copy"),
    "mma.issue": ("P", "issues an MMA"),
    "mma.commit": ("v", "commits MMAs"),
    "tmem.load": ("s", "reads or writes tensor memory"),
    "tmem.store": ("s", "reads or writes tensor memory"),
}
_Cta = tuple[int, int]


class TrackFigure(PrintFigure):
    """A figure with a text for those who do not see it: `alt`."""

    def __init__(self, height_in: float, alt: str) -> None:
        super().__init__(WIDTH_IN, height_in)
        self.alt = alt

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png()).decode("ascii")
        return (
            f'<img alt="{escape(self.alt)}" src="data:image/png;base64,{data}" '
            f'style="max-width:100%;width:{round(WIDTH_IN * 110)}px">'
        )

    def __repr__(self) -> str:
        return f"<{self.alt}>"


@dataclass(frozen=True)
class _Row:
    """A track: what stands before it, and what draws it at a height."""

    name: str
    draw: Callable[[Axes, float], None]
    heads: str = ""
    """The CTA that begins here."""


class _Time:
    """Where a time stands: a step for each time at which something happens, and more after idle time."""

    def __init__(self, times: Sequence[int]) -> None:
        self.times = sorted(set(times))
        self.xs = [0.0]
        for before, time in zip(self.times, self.times[1:], strict=False):
            self.xs.append(self.xs[-1] + 1.0 + min(2.0, 0.27 * math.log2(time - before)))
        self.right = self.xs[-1] + 1.0

    def __call__(self, time: int | None) -> float:
        """The place of a time, None for the end."""
        if time is None:
            return self.right
        return self.xs[max(0, bisect_right(self.times, time) - 1)]

    def letters(self, width: float, size: float = _SMALL) -> int:
        """How many letters fit into a width; the tracks take four fifths of the figure."""
        return int(width / self.right * 0.8 * WIDTH_IN * 72 / (size * _LETTER))

    def ticks(self) -> list[tuple[float, str]]:
        """Times to write on the axis."""
        found: list[tuple[float, str]] = []
        for x, time in zip(self.xs, self.times, strict=True):
            if not found or x - found[-1][0] > self.right / 9:
                found.append((x, str(time)))
        return found


def draw_tracks(trace: Any, *, end: BaseException | str = "") -> TrackFigure:
    """A trace on a time axis, for a page: `trace` is a `Trace`, or a run that was traced.

    From above, for each CTA: its warps, yellow where they wait (hatched where that never ended), with marks
    where they arrive or issue; the asynchronous copies that it issued, until their last byte landed; the MMAs
    of each commit, from the first issue to the last completion; its mbarriers, with the number of each phase.
    Time counts instructions issued, from left to right, and idle times are shortened. Rows beyond 48 are left
    out, and how many is said: draw a part, `draw_tracks(trace.where(cluster=0))`. `end` is the error that
    ended the launch. The figure's `alt` says in words what it shows.
    Errors: WidgetError, for what is no trace, an empty or a very long one.
    """
    shown = named(read_trace(trace), {})
    axis = _Time([event.time for event in shown])
    rows = [row for cta in _ctas(shown) for row in _rows_of(shown, cta, axis)]
    drawn, left_out = rows[:MOST_ROWS], len(rows) - MOST_ROWS
    ended = f"{type(end).__name__}: {end}" if isinstance(end, BaseException) else end
    figure = TrackFigure(1.05 + ROW_IN * len(drawn), _words(shown, ended))
    axes: Axes = figure.subplots()
    for y, row in enumerate(drawn):
        if row.heads:
            axes.axhline(y, color=MUTED, linewidth=0.9)
        row.draw(axes, y)
        axes.axhline(y + 1, color=LINE, linewidth=0.4)
    _frame(axes, drawn, axis, shown)
    below = [f"{number(left_out, 'more row')} not drawn"] if left_out > 0 else []
    if end:
        axes.axvline(axis.right, color=palette.MEANINGS_LIGHT["bad"], linewidth=2.5)
        below.append(f"ended with {textwrap.shorten(ended, 84, placeholder=' ...')}")
    if below:
        axes.set_xlabel("; ".join(below), fontsize=_SMALL, color=palette.MEANINGS_LIGHT["bad"], loc="left")
    return figure


def _frame(axes: Axes, rows: Sequence[_Row], axis: _Time, trace: Trace) -> None:
    axes.set_xlim(-0.01 * axis.right, axis.right * 1.01)
    axes.set_ylim(len(rows) + 0.1, -0.1)
    names = [f"{row.heads}  {row.name}" if row.heads else row.name for row in rows]
    axes.set_yticks([y + 0.5 for y in range(len(rows))], names, fontsize=_FONT, color=INK)
    ticks = axis.ticks()
    axes.set_xticks([x for x, _ in ticks], [time for _, time in ticks], fontsize=_SMALL, color=MUTED)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    kinds = {event.kind for event in trace}
    marks = dict(_MARKS[kind] for kind in _MARKS if kind in kinds)
    handles: list[Any] = [
        axes.plot([], [], linestyle="", color=INK, marker=mark, markersize=5, label=label)[0]
        for mark, label in marks.items()
    ]
    colours = [("waits", _WAITS)]
    colours += [(f"copy of {name}", palette.QUADS_LIGHT[n % 8]) for n, name in enumerate(_tensors(trace)[:6])]
    handles += [
        Rectangle((0, 0), 1, 1, facecolor=fill, edgecolor=MUTED, label=what) for what, fill in colours
    ]
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(-0.02, -0.35 / max(len(rows), 1)),
        ncols=3,
        fontsize=_SMALL,
        frameon=False,
        handletextpad=0.3,
        columnspacing=1.2,
    )
    axes.set_title(
        f"{trace.kernel or 'a kernel'}, seed {trace.seed}: instructions issued, from left to right",
        fontsize=_FONT + 0.5,
        color=INK,
        loc="left",
    )


# --- the tracks of a CTA ----------------------------------------------------------------------------------


def _ctas(trace: Trace) -> list[_Cta]:
    found = {(event.cluster, event.rank) for event in trace}
    found |= {(event.cluster, event.data["barrier"]["rank"]) for event in trace if event.data.get("barrier")}
    return sorted(found)


def _rows_of(trace: Trace, cta: _Cta, axis: _Time) -> list[_Row]:
    warps = sorted({e.warp for e in trace if e.warp is not None and (e.cluster, e.rank) == cta})
    waits = [wait for wait in trace.waits() if (wait.cluster, wait.rank) == cta]
    rows = [_warp(trace, cta, warp, [w for w in waits if w.warp == warp], axis) for warp in warps]
    tensors = _tensors(trace)
    copies = []
    for one in trace.transfers():
        data = one.issue.data
        if (one.issue.cluster, one.issue.rank) == cta and data["operation"] != "prefetch":
            times = [time for time in (one.last, one.read) if time is not None]
            colour = palette.QUADS_LIGHT[tensors.index(data["tensor"] or "bytes") % 8]
            copies.append((one.issue.time, max(times, default=None), _label(data), colour))
    rows += _bars("copies", copies, axis)
    groups = [
        (group.issues[0].time, group.completions[-1].time if group.done else None, group.count, _MMAS)
        for group in mma_groups(trace)
        if (group.issues[0].cluster, group.issues[0].rank) == cta
    ]
    rows += _bars("MMAs", groups, axis)
    rows += [
        _phases(life, axis) for life in trace.barriers() if (life.cluster, life.rank) == cta and life.states
    ]
    if rows and len(_ctas(trace)) > 1:
        name = f"CTA {cta[0]}:{cta[1]}"
        if trace.cluster == (1, 1, 1):
            name = f"CTA {cta[0]}"
        elif trace.grid == trace.cluster:
            name = f"CTA {cta[1]}"
        rows[0] = _Row(rows[0].name, rows[0].draw, name)
    return rows


def _tensors(trace: Trace) -> list[str]:
    """The sources of the copies, in the order of their first copies. The order decides the colours."""
    issues = (event.data for event in trace if event.kind == "tma.issue")
    return list(
        dict.fromkeys(data["tensor"] or "bytes" for data in issues if data["operation"] != "prefetch")
    )


def _label(data: Any) -> str:
    at = f" ({', '.join(map(str, data['coords']))})" if data["coords"] else ""
    return f"{data['tensor'] or 'bytes'}{at}"


def _warp(trace: Trace, cta: _Cta, warp: int, waits: Sequence[Wait], axis: _Time) -> _Row:
    marks = sorted(
        {
            (axis(event.time), _MARKS[event.kind][0])
            for event in trace
            if event.kind in _MARKS and (event.cluster, event.rank, event.warp) == (*cta, warp)
        }
    )

    def draw(axes: Axes, y: float) -> None:
        for wait in waits:
            begin, end = axis(wait.begin), axis(wait.end)
            axes.add_patch(
                Rectangle(
                    (begin, y + 0.18),
                    max(end - begin, 0.25),
                    0.64,
                    facecolor=_WAITS if wait.end is not None else "#ffffff",
                    edgecolor=MUTED if wait.end is not None else palette.MEANINGS_LIGHT["bad"],
                    linewidth=0.6,
                    hatch=None if wait.end is not None else "////",
                )
            )
        for x, mark in marks:
            axes.plot(x, y + 0.5, linestyle="", color=INK, marker=mark, markersize=4.5)

    return _Row(f"warp {warp}", draw)


def _bars(name: str, bars: Sequence[tuple[int, int | None, str, str]], axis: _Time) -> list[_Row]:
    """Bars from a time to another, None for without end, in as few rows as they fit into, three at most."""
    lanes: list[list[tuple[float, float, str, str, bool]]] = []
    more = 0
    for begin, end, text, colour in bars:
        first, last = axis(begin), max(axis(end), axis(begin) + 0.4)
        lane = next((lane for lane in lanes if lane[-1][1] <= first), None)
        if lane is None:
            if len(lanes) == _LANES:
                more += 1
                continue
            lane = []
            lanes.append(lane)
        lane.append((first, last, text, colour, end is not None))

    def drawing(lane: list[tuple[float, float, str, str, bool]]) -> Callable[[Axes, float], None]:
        def draw(axes: Axes, y: float) -> None:
            for first, last, text, colour, over in lane:
                axes.add_patch(
                    Rectangle(
                        (first, y + 0.12),
                        last - first,
                        0.76,
                        facecolor=colour,
                        edgecolor=MUTED,
                        linewidth=0.6,
                        linestyle="solid" if over else "dashed",
                    )
                )
                if axis.letters(last - first) > len(text):
                    x = first + 0.004 * axis.right
                    axes.text(x, y + 0.52, text, fontsize=_SMALL, color=INK, va="center")

        return draw

    rows = [_Row(name if n == 0 else "", drawing(lane)) for n, lane in enumerate(lanes)]
    if more and rows:
        rows[-1] = _Row(f"and {more} more", rows[-1].draw)
    return rows


def _phases(life: BarrierHistory, axis: _Time) -> _Row:
    def draw(axes: Axes, y: float) -> None:
        states = life.states
        starts = [0, *(i for i in range(1, len(states)) if states[i].phase != states[i - 1].phase)]
        for i, start in enumerate(starts):
            first = axis(states[start].time)
            last = axis(states[starts[i + 1]].time) if i + 1 < len(starts) else axis(life.end)
            phase = states[start].phase
            axes.add_patch(
                Rectangle(
                    (first, y + 0.12),
                    last - first,
                    0.76,
                    facecolor=palette.RAMP_LIGHT[5 if phase % 2 else 1],
                    edgecolor="white",
                    linewidth=0.8,
                )
            )
            room = axis.letters(last - first)
            text = f"phase {phase}" if room > 8 else str(phase) if room > len(str(phase)) else ""
            axes.text(first + 0.004 * axis.right, y + 0.52, text, fontsize=_SMALL, color=INK, va="center")

    return _Row(life.name or f"{life.offset:#x}", draw)


# --- in words ---------------------------------------------------------------------------------------------


def _words(trace: Trace, end: str) -> str:
    """A description of the figure for readers who do not see it."""
    waits = trace.waits()
    copies = [one for one in trace.transfers() if one.issue["operation"] != "prefetch"]
    warps = {(event.cluster, event.rank, event.warp) for event in trace if event.warp is not None}
    launch = f"Timeline of {trace.kernel or 'a kernel'} under seed {trace.seed}"
    size = f"{number(len(_ctas(trace)), 'CTA')}, {number(len(warps), 'warp')}"
    parts = [f"{launch}: {size}, instructions {trace.events[0].time} to {trace.events[-1].time}."]
    if waits:
        never = sum(wait.end is None for wait in waits)
        parts.append(f"{number(len(waits), 'wait')}, {never or 'none'} without an end.")
    if copies:
        parts.append(f"{number(len(copies), 'asynchronous copy').replace('copys', 'copies')}.")
    if mmas := len(trace.of("mma.issue")):
        parts.append(f"{number(mmas, 'MMA')}.")
    lives = trace.barriers()
    if lives:
        told = [f"{life}: {number(len(life.completions), 'completed phase')}" for life in lives[:8]]
        more = f" and {len(lives) - 8} more" if len(lives) > 8 else ""
        parts.append(f"Barriers: {', '.join(told)}{more}.")
    if end:
        parts.append(f"Ended with {textwrap.shorten(end, 200, placeholder=' ...')}")
    return " ".join(parts)
