"""A pair's roles over time and the holders of its accumulators, for print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from cutecourse import palette
from cutecourse.widgets.figures import INK, MUTED, PrintFigure

__all__ = ["draw_role_timeline"]

WIDTH_IN = 7.2
ROW_IN = 0.3
_FILLS = {"multiply": "A", "full": "gmem", "unload": "C", "both": "barrier"}


def draw_role_timeline(pair: Mapping[str, Any]) -> PrintFigure:
    """Bars of the roles, with the tiles' numbers, and of the accumulators, with their holders.

    `pair` is what `RoleTimeline.pair` holds. The widths are the emulator's steps.
    """
    steps, accumulators = pair["steps"], pair["accumulators"]
    rows = len(pair["roles"]) + len(accumulators)
    figure = PrintFigure(WIDTH_IN, 1.3 + ROW_IN * rows)
    axes: Axes = figure.subplots()
    first, last = min(one[3] for one in pair["spans"]), max(one[4] for one in pair["spans"])
    names = [text.partition(":")[0] if role != "unload" else "load sums" for role, text in pair["roles"]]
    for row, (role, _) in enumerate(pair["roles"]):
        for of_role, tile, acc, start, end in pair["spans"]:
            if of_role == role:
                _bar(axes, row, start, end, f"stage{acc}", str(tile), (last - first) / 90)
    for acc, (begin, end) in enumerate(accumulators):
        row = len(pair["roles"]) + acc
        names.append(f"columns {begin}-{end - 1}")
        for place, step in enumerate(steps):
            state, tile, _ = step["holds"][acc]
            until = steps[place + 1]["time"] if place + 1 < len(steps) else last
            if state != "free":
                before = steps[place - 1]["holds"][acc][:2] if place else None
                said = str(tile) if state == "multiply" and before != [state, tile] else ""
                _bar(axes, row, step["time"], until, _FILLS[state], said, 0)
    axes.set_xlim(first, last)
    axes.set_ylim(rows, 0)
    axes.set_yticks([row + 0.5 for row in range(rows)], names, fontsize=7, color=INK)
    axes.tick_params(length=0, labelsize=6.5, labelcolor=MUTED)
    axes.set_xlabel("steps of the emulator, which are no cycles", fontsize=7, color=MUTED)
    shown = {name for step in steps for name, *_ in step["holds"]}
    handles = [
        Rectangle((0, 0), 1, 1, facecolor=palette.THINGS_LIGHT[fill], label=pair["states"][state])
        for state, fill in _FILLS.items()
        if state in shown
    ]
    axes.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2, fontsize=6.5, frameon=False
    )
    for spine in axes.spines.values():
        spine.set_visible(False)
    title = f"{pair['kernel'] or 'a kernel'}: roles by tile, and what each accumulator is"
    axes.set_title(title, fontsize=8.5, color=INK, loc="left")
    return figure


def _bar(axes: Axes, row: int, start: int, end: int, fill: str, said: str, least: float) -> None:
    colour = palette.THINGS_LIGHT[fill]
    axes.add_patch(
        Rectangle((start, row + 0.12), max(end - start, least), 0.76, facecolor=colour, linewidth=0)
    )
    if said:
        axes.text(start, row + 0.64, f" {said}", fontsize=6.5, color=INK)
