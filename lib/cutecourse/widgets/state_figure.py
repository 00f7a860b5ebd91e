"""The states of two threads for print: time to the right, the first thread's actions upwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from cutecourse import palette
from cutecourse.widgets.figures import INK, LINE, MUTED, PrintFigure
from cutecourse.widgets.state_paths import follow_way, nearest, shortest_way

WIDTH_IN = 8.0
MARKS = {
    "": ("D", palette.MEANINGS_LIGHT["hole"], "a state"),
    "end": ("D", palette.THINGS_LIGHT["C"], "both threads are at their end"),
    "race": ("D", palette.MEANINGS_LIGHT["collision"], "a race: both are about to use a word"),
    "deadlock": ("X", palette.MEANINGS_LIGHT["bad"], "a deadlock"),
}


def draw_states(graph: Mapping[str, Any], removed: int, way: str) -> PrintFigure:
    """Draw the states of one variant of a protocol.

    `graph` is what `StateGraph.graph` holds, `removed` the variant's number, `way` the way that was walked. A
    dashed line is a shortest way to a deadlock.
    """
    variant = graph["variants"][removed]
    states = variant["states"]
    figure = PrintFigure(WIDTH_IN, 3.6)
    axes: Axes = figure.subplots()
    for state in states:
        for after in state["to"]:
            if after >= 0:
                _line(axes, [state, states[after]], color=LINE, linewidth=1.0)
    stuck = nearest(states, "deadlock")
    if stuck is not None:
        shown = [states[at] for at in follow_way(states, shortest_way(states, stuck))]
        _line(axes, shown, color=MARKS["deadlock"][1], linewidth=2.0, linestyle=(0, (3, 1.5)))
    walked = [states[at] for at in follow_way(states, way)]
    _line(axes, walked, color=palette.MEANINGS_LIGHT["accent"], linewidth=3.0)
    for kind, (marker, colour, label) in MARKS.items():
        places = [_place(state) for state in states if state["kind"] == kind]
        if places:
            x, y = zip(*places, strict=True)
            axes.plot(
                x,
                y,
                linestyle="",
                marker=marker,
                markersize=8,
                color=colour,
                markeredgecolor=MUTED,
                label=label,
            )
    x_now, y_now = _place(walked[-1])
    axes.plot(
        [x_now],
        [y_now],
        linestyle="",
        marker="D",
        markersize=13,
        fillstyle="none",
        color=INK,
        label="you are here",
    )
    names = [one["name"] for one in graph["threads"]]
    axes.set_xlabel("actions so far, of both together", fontsize=8, color=MUTED)
    axes.set_ylabel(f"up: {names[0]} acts; down: {names[1]} acts", fontsize=8, color=MUTED)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(length=0, labelsize=7, labelcolor=MUTED)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.legend(loc="upper left", fontsize=7, frameon=False)
    axes.set_title(
        f"{len(states)} states, {variant_words(graph, removed)}", fontsize=9, color=INK, loc="left"
    )
    return figure


def variant_words(graph: Mapping[str, Any], removed: int) -> str:
    """Say which wait a variant lacks."""
    lacks = graph["variants"][removed]["removed"]
    if lacks is None:
        return "nothing taken away"
    thread, number = lacks
    one = graph["threads"][thread]
    return f"{one['name']} without its action {number + 1}: {one['actions'][number]['words']}"


def _place(state: Mapping[str, Any]) -> tuple[int, int]:
    first, second = state["at"]
    return first + second, first - second


def _line(axes: Axes, states: Sequence[Mapping[str, Any]], **style: Any) -> None:
    x, y = zip(*map(_place, states), strict=True)
    axes.plot(x, y, **style)
