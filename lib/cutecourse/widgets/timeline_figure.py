"""A recorded launch for print: warps, transfers and barriers on one time axis."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from cutecourse import palette
from cutecourse.trace import BarrierHistory, Event, Trace
from cutecourse.widgets.figures import INK, LINE, MUTED, PrintFigure
from cutecourse.widgets.timeline_mmas import commit_arrivals, mma_groups, toucher

ACCENT = palette.MEANINGS_LIGHT["accent"]
BAD = palette.MEANINGS_LIGHT["bad"]
WIDTH_IN = 9.0
MOST_LANES = 40
# Marker, size and fill of each kind of event; the same shapes as on the page.
MARKS = {
    "init": ("s", 4.5, False, "barrier initialised or invalidated"),
    "arrive": ("^", 5.5, True, "arrives"),
    "expect": ("D", 4.5, True, "expects bytes"),
    "issue": (">", 6, True, "issues a transfer"),
    "wait": ("|", 8, True, "begins to wait"),
    "goes": ("$✓$", 5.5, True, "goes on, or passes at once"),
    "no": ("o", 4.5, False, "asks, hears no"),
    "count": ("o", 4, True, "bytes land or are counted"),
    "mma": ("P", 6, True, "issues an MMA"),
    "done": ("*", 7, True, "an MMA is complete"),
    "commit": ("v", 5.5, True, "commits MMAs"),
    "alloc": ("h", 6, False, "allocates or frees tensor memory"),
    "tmem": ("h", 5, True, "reads or writes tensor memory"),
    "other": ("|", 7, False, "fence, bulk group"),
}
MMA_HUE = 3
# From, to, labels from the longest on, hue, whether it is complete, marks in it by their kind, lane.
_Bar = tuple[float, float, tuple[str, ...], int, bool, dict[str, list[float]], int]
_KINDS = {
    "mma.issue": "mma",
    "mma.complete": "done",
    "mma.commit": "commit",
    "wgmma.issue": "mma",
    "wgmma.complete": "done",
    "wgmma.commit": "commit",
    "tmem.alloc": "alloc",
    "tmem.dealloc": "alloc",
    "tmem.relinquish": "alloc",
    "tmem.load": "tmem",
    "tmem.store": "tmem",
    "tmem.copy": "tmem",
    "tmem.wait": "tmem",
}
_ACTIONS = {
    "init": "init",
    "inval": "init",
    "arrive": "arrive",
    "expect_tx": "expect",
    "issue": "issue",
    "resume": "goes",
    "complete_tx": "count",
    "land": "count",
    "read": "count",
}


def draw_timeline(trace: Trace, *, cta: tuple[int, ...] | None = None, end: str = "") -> PrintFigure:
    """The events of a trace from left to right: what each warp did, transfers, MMAs, each barrier's phases.

    With `cta` = (cluster, rank), only what that CTA did and what happened to its barriers and its bytes. The
    MMAs of a thread up to its next commit are one bar, from the first issue to the last completion. A
    barrier's lane shows its phases, and under them the arrivals and the bytes that are still missing. Long
    idle times are shortened; of very many lanes the first are drawn. `end` is the error that
    ended the launch.
    """
    ranks = toucher(trace)
    part = Trace(
        tuple(e for e in trace if cta is None or (e.cluster == cta[0] and cta[1] in ranks(e))),
        **{name: getattr(trace, name) for name in ("kernel", "grid", "block", "cluster", "seed", "device")},
    )
    axis = _Axis(part.events)
    actors: list[tuple[int, int, int | None]] = sorted(
        {(e.cluster, e.rank, e.warp) for e in part if e.warp is not None},
        key=lambda who: ((who[0], who[1]) != cta, who),
    )
    flights = _pack(trace, part, axis, cta)
    works, told = _pack_mmas(trace, part, axis)
    lives = [life for life in trace.barriers() if cta is None or (life.cluster, life.rank) == tuple(cta)]
    depth, stages = _depth(flights), _depth(works)
    others = [] if cta is None else [who for who in actors if who[:2] != tuple(cta)]
    actors = [who for who in actors if who not in others]
    rows = sum(_rows_of(life) for life in lives)
    if len(actors) + depth + stages + rows > MOST_LANES:
        actors, lives = actors[:12], lives[:6]
        flights, works = ([bar for bar in bars if bar[-1] < 8] for bars in (flights, works))
        depth, stages = min(depth, 8), min(stages, 8)
        rows = sum(_rows_of(life) for life in lives)
    lanes = len(actors) + bool(others) + depth + stages + rows
    figure = PrintFigure(WIDTH_IN, 1.0 + 0.25 * lanes + 0.16 * bool(end))
    axes: Axes = figure.subplots()
    names, y = [], 0.0
    for who in actors:
        own = "" if cta is not None else _cta(who, trace)
        names.append((y + 0.5, f"{own}warp {who[2]}"))
        _draw_actor(axes, part, [who], y, axis, told)
        y += 1
    if others:
        names.append((y + 0.5, "other CTAs"))
        _draw_actor(axes, part, others, y, axis, told)
        y += 1
    for name, bars, height in (("transfers", flights, depth), ("MMAs", works, stages)):
        if bars:
            names.append((y + 0.5, name))
        _draw_bars(axes, bars, y, axis)
        y += height
    for life in lives:
        names.append((y + 0.5, f"{life.name or hex(life.offset)}{_of_cta(life, trace, cta)}"))
        names.append((y + 1.5, "arrivals missing"))
        if _rows_of(life) > 2:
            names.append((y + 2.5, "bytes missing"))
        _draw_barrier(axes, life, y, axis)
        y += _rows_of(life)
    if end:
        axes.axvline(axis.right, color=BAD, linewidth=2.5)
        axes.set_xlabel(
            f"ended with an error: {end.splitlines()[0][:110]}", fontsize=7, color=BAD, loc="left"
        )
    axes.set_xlim(-0.015 * axis.right - 0.5, axis.right * 1.01 + 0.5)
    axes.set_ylim(y + 0.15, -0.15)
    axes.set_yticks([at for at, _ in names], [name for _, name in names], fontsize=7, color=INK)
    ticks = axis.ticks()
    axes.set_xticks([x for x, _ in ticks], [str(time) for _, time in ticks], fontsize=6.5, color=MUTED)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    used = [mark for mark in MARKS if any(_mark(event) == mark for event in part)]
    handles = [
        axes.plot([], [], linestyle="", color=INK, label=MARKS[mark][3], **_style(mark))[0] for mark in used
    ]
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0, -0.02 if not end else -0.12),
        ncols=5,
        fontsize=6.5,
        frameon=False,
        handletextpad=0.2,
        columnspacing=1.0,
    )
    where = f", {_cta((cta[0], cta[1], None), trace).strip()}" if cta else ""
    axes.set_title(
        f"{trace.kernel or 'a kernel'}{where}: instructions issued, from left to right",
        fontsize=8.5,
        color=INK,
        loc="left",
    )
    return figure


class _Axis:
    """Where an event stands: one step each, and more after idle time, by its logarithm."""

    def __init__(self, events: tuple[Event, ...]) -> None:
        self.places: list[int] = []
        self.xs: list[float] = []
        self.times: list[int] = []
        x = 0.0
        for before, event in zip((None, *events), events, strict=False):
            gap = 0 if before is None else event.time - before.time
            x += (1.0 if before else 0.0) + (min(2.0, 0.27 * math.log2(gap)) if gap > 1 else 0.0)
            self.places.append(event.index)
            self.xs.append(x)
            self.times.append(event.time)
        self.right = x + 1.0

    def __call__(self, index: int) -> float:
        """The place of an event, or of the last one shown before it."""
        return self.xs[max(0, bisect_right(self.places, index) - 1)]

    def ticks(self) -> list[tuple[float, int]]:
        found: list[tuple[float, int]] = []
        for x, time in zip(self.xs, self.times, strict=True):
            if not found or (time != found[-1][1] and x - found[-1][0] > self.right / 22):
                found.append((x, time))
        return found


def _pack(trace: Trace, part: Trace, axis: _Axis, cta: tuple[int, ...] | None) -> list[_Bar]:
    """Each transfer in as few lanes as they fit into; of another CTA's, what lands in the chosen one."""
    shown = {event.index for event in part}
    steps: dict[int, list[Event]] = {}
    for event in trace:
        if (transfer := event.data.get("transfer")) is not None:
            steps.setdefault(transfer, []).append(event)
    tensors: list[Any] = []
    free: list[float] = []
    found: list[_Bar] = []
    for one in trace.transfers():
        data = one.issue.data
        if one.index not in shown:
            continue
        if data["tensor"] not in tensors:
            tensors.append(data["tensor"])
        due = data["bytes"] * (max(1, len(data["destinations"])) if data["operation"] == "load" else 1)
        landed = sum(landing.bytes for landing in one.landings)
        done = landed >= due if one.landings else one.read is not None or data["operation"] == "prefetch"
        mine = [
            event for event in steps.get(one.index, ()) if cta is None or (event.cluster, event.rank) == cta
        ]
        foreign = cta is not None and (one.issue.cluster, one.issue.rank) != cta
        until = [event.index for event in (mine if foreign and mine else steps.get(one.index, ()))]
        first = axis(one.index)
        last = max(map(axis, until), default=first) if done else axis.right
        landings = [axis(event.index) for event in mine if event.kind != "mbarrier.complete_tx"]
        labels = (f"{data['tensor'] or 'bytes'} {data['bytes']} B",)
        hue = tensors.index(data["tensor"]) % 8
        found.append((first, last, labels, hue, done, {"count": landings}, _lane(free, first, last)))
    return found


def _pack_mmas(trace: Trace, part: Trace, axis: _Axis) -> tuple[list[_Bar], set[int]]:
    """The MMAs of each commit in as few lanes as they fit into; those with a peer's half are both CTAs'.

    With them the arrivals of those commits: what a commit does belongs to its MMAs, not to its thread.
    """
    shown = {event.index for event in part}
    arrivals: dict[int, list[int]] = {}
    for index, commit in commit_arrivals(trace).items():
        if index in shown:
            arrivals.setdefault(commit.index, []).append(index)
    told: set[int] = set()
    free: list[float] = []
    found: list[_Bar] = []
    for group in mma_groups(trace):
        if group.issues[0].index not in shown:
            continue
        ends = [axis(event.index) for event in group.completions]
        mine = arrivals.get(group.commit.index, []) if group.commit else []
        told.update(mine)
        first = axis(group.issues[0].index)
        last = ends[-1] if group.done else axis.right
        labels = (group.label, group.count)
        marks = {"done": ends, "arrive": [axis(index) for index in mine]}
        found.append((first, last, labels, MMA_HUE, group.done, marks, _lane(free, first, last)))
    return found, told


def _lane(free: list[float], first: float, last: float) -> int:
    """The first lane with room from `first` on, which is taken up to `last`."""
    lane = next((i for i, end in enumerate(free) if end + 0.2 <= first), len(free))
    free[lane : lane + 1] = [last]
    return lane


def _depth(bars: list[_Bar]) -> int:
    return max((bar[-1] for bar in bars), default=-1) + 1


def _draw_bars(axes: Axes, bars: list[_Bar], y: float, axis: _Axis) -> None:
    for first, last, labels, hue, done, marks, lane in bars:
        top = y + lane
        axes.add_patch(
            Rectangle(
                (first, top + 0.15),
                max(last - first, 0.4),
                0.7,
                facecolor=palette.QUADS_LIGHT[hue],
                edgecolor=MUTED,
                linewidth=0.6,
                linestyle="solid" if done else "dashed",
            )
        )
        # The label stands before the first completion, or behind what happens last in the lane.
        room = min(marks.get("done") or [last]) - first
        behind = (
            max([last if done else first, *(x for places in marks.values() for x in places)])
            + 0.012 * axis.right
        )
        following = min([axis.right, *(bar[0] for bar in bars if bar[-1] == lane and bar[0] > first)])
        label = next((text for text in labels if room > 0.011 * axis.right * len(text)), "")
        at = first + 0.006 * axis.right
        if (
            label != labels[0]
            and "done" in marks
            and following - behind > 0.0075 * axis.right * len(labels[0])
        ):
            label, at = labels[0], behind
        if label:
            axes.text(at, top + 0.5, label, fontsize=6, color=INK, va="center")
        for mark, places in marks.items():
            axes.plot(places, [top + 0.5] * len(places), linestyle="", color=INK, **_style(mark))


def _rows_of(life: BarrierHistory) -> int:
    """A barrier that counts no bytes needs no line for them."""
    return 3 if any(state.tx for state in life.states) else 2


def _draw_actor(
    axes: Axes,
    part: Trace,
    everyone: list[tuple[int, int, int | None]],
    y: float,
    axis: _Axis,
    told: set[int],
) -> None:
    who = everyone[0]
    for wait in part.waits() if len(everyone) == 1 else ():
        if (wait.cluster, wait.rank, wait.warp) != who:
            continue
        # A wait knows its times; the events of its kind give the places.
        mine = [
            e
            for e in part
            if (e.cluster, e.rank, e.warp) == who
            and e.kind.startswith(f"{wait.kind}.")
            and e.kind.endswith((".wait", ".resume", ".alloc", ".dealloc"))
        ]
        begin = next(
            e.index
            for e in mine
            if e.time == wait.begin
            and not e.kind.endswith(".resume")
            and e.data.get("outcome", "blocked") != "passed"
        )
        until = [e.index for e in mine if e.time == wait.end and e.index > begin]
        right = axis(until[0]) if until else axis.right
        axes.add_patch(
            Rectangle(
                (axis(begin), y + 0.2),
                right - axis(begin),
                0.6,
                facecolor=palette.QUADS_LIGHT[2] if until else "#ffffff",
                edgecolor=MUTED if until else BAD,
                linewidth=0.6,
                hatch=None if until else "////",
            )
        )
    axes.axhline(y + 1, color=LINE, linewidth=0.4)
    for event in part:
        mark = _mark(event)
        if (event.cluster, event.rank, event.warp) in everyone and mark and event.index not in told:
            axes.plot(axis(event.index), y + 0.5, linestyle="", color=INK, **_style(mark))


def _draw_barrier(axes: Axes, life: BarrierHistory, y: float, axis: _Axis) -> None:
    if not life.states:
        return
    places = [axis(state.event) for state in life.states]
    right = axis.right
    starts = [0, *(i for i in range(1, len(places)) if life.states[i].phase != life.states[i - 1].phase)]
    for i, start in enumerate(starts):
        until = places[starts[i + 1]] if i + 1 < len(starts) else right
        phase = life.states[start].phase
        axes.add_patch(
            Rectangle(
                (places[start], y + 0.12),
                until - places[start],
                0.76,
                facecolor=palette.RAMP_LIGHT[5 if phase % 2 else 1],
                edgecolor="white",
                linewidth=0.8,
            )
        )
        text = f"phase {phase}" if until - places[start] > 0.06 * right else str(phase)
        axes.text(places[start] + 0.004 * right, y + 0.5, text, fontsize=6.3, color=INK, va="center")
    tracks = [
        ("pending", y + 1.88, palette.QUADS_LIGHT[7], MUTED),
        ("tx", y + 2.88, palette.RAMP_LIGHT[4], ACCENT),
    ]
    for name, base, fill, line in tracks[: _rows_of(life) - 1]:
        values = [max(0, getattr(state, name)) for state in life.states]
        heights = [base - 0.7 * value / max(1, *values) for value in values]
        edge = [*places, right], [*heights, heights[-1]]
        axes.fill_between(*edge, base, step="post", color=fill, linewidth=0)
        axes.step(*edge, where="post", color=line, linewidth=0.9)
        for i, value in enumerate(values):
            if value == 0 or (i and value == values[i - 1]):
                continue
            until = next(
                (x for x, other in zip(places[i:], values[i:], strict=True) if other != value), right
            )
            if until - places[i] > (0.002 + 0.0068 * len(str(value))) * right:
                low = base if value > 0.75 * max(values) else heights[i]
                axes.text(places[i] + 0.003 * right, low - 0.1, str(value), fontsize=5.8, color=INK)
    axes.axhline(y + _rows_of(life), color=LINE, linewidth=0.4)


def _mark(event: Event) -> str:
    if event.kind in _KINDS:
        return "wait" if event.data.get("outcome") == "blocked" else _KINDS[event.kind]
    action = event.kind.rpartition(".")[2]
    if action == "wait":
        outcome = event.data.get("outcome", "blocked")
        return {"passed": "goes", "false": "no"}.get(outcome, "wait")
    return "" if event.kind == "mbarrier.phase" else _ACTIONS.get(action, "other")


def _style(mark: str) -> dict[str, Any]:
    marker, size, filled, _ = MARKS[mark]
    fill = INK if filled else "white"
    edge = 2.4 if mark == "wait" else 0.8
    return {"marker": marker, "markersize": size, "markerfacecolor": fill, "markeredgewidth": edge}


def _cta(who: tuple[int, int, int | None], trace: Trace) -> str:
    if trace.grid == trace.cluster == (1, 1, 1):
        return ""
    if trace.cluster == (1, 1, 1):  # without clusters, a CTA's number is its number in the grid
        return f"CTA {who[0]} "
    return f"CTA {who[0]}:{who[1]} " if trace.grid != trace.cluster else f"CTA {who[1]} "


def _of_cta(life: BarrierHistory, trace: Trace, cta: tuple[int, ...] | None) -> str:
    if cta is not None or trace.grid == (1, 1, 1):
        return ""
    return f" of {_cta((life.cluster, life.rank, None), trace).strip()}"
