"""One k-tile of a pair of CTAs for print: its steps from left to right, in both CTAs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from cutecourse import palette
from cutecourse.widgets.figures import INK, LINE, MUTED, PrintFigure

ACCENT = palette.MEANINGS_LIGHT["accent"]
WIDTH_IN = 9.0
ROW_IN = 0.34
# Marker and size of what a CTA itself does.
MARKS = {
    "empty": ("|", 8, "waits for a free stage, or passes"),
    "expect": ("D", 4.5, "expects bytes"),
    "load": (">", 5, "issues a load"),
    "full": ("$✓$", 6, "waits for the stage, or passes"),
    "mma": ("s", 4.5, "issues an MMA"),
    "commit": ("*", 7, "commits"),
    "done": ("o", 4.5, "MMAs complete"),
}


def draw_stage(stage: Mapping[str, Any]) -> PrintFigure:
    """Both CTAs of a k-tile over its steps: who did what, bytes in shared memory, what each barrier lacks.

    `stage` is what `TwoSmStage.stage` holds. The steps are as far apart as they are many, so widths say
    nothing of time. Under zero, a barrier has counted more bytes than were expected so far; a line is where a
    phase of a barrier was complete.
    """
    steps = stage["steps"]
    rows = sum(2 + sum(one["cta"] == v for one in stage["barriers"]) for v in range(len(stage["ctas"])))
    figure = PrintFigure(WIDTH_IN, 1.1 + ROW_IN * rows)
    axes: Axes = figure.subplots()
    names: list[tuple[float, str]] = []
    y = 0.0
    for v, cta in enumerate(stage["ctas"]):
        part = f" ({cta['part']})" if cta["part"] else ""
        names.append((y + 0.5, f"{cta['name']}{part}"))
        for i, step in enumerate(steps):
            if step["cta"] == v and step["act"] in MARKS and "land" not in step:
                marker, size, _ = MARKS[step["act"]]
                axes.plot(i, y + 0.5, linestyle="", marker=marker, markersize=size, color=INK)
        y = _rule(axes, y + 1, len(steps))
        names.append((y + 0.5, "bytes landed"))
        landed = _sums(steps, v)
        _track(axes, landed, y, palette.QUADS_LIGHT[0])
        y = _rule(axes, y + 1, len(steps))
        for number, barrier in enumerate(stage["barriers"]):
            if barrier["cta"] != v:
                continue
            counts_bytes = barrier["role"] == "full"
            what = "bytes" if counts_bytes else "arrivals"
            names.append((y + 0.5, f"{barrier['name']}: {what} missing"))
            if counts_bytes and not barrier["used"]:
                axes.text(
                    0, y + 0.6, "not used: the leader's counts the bytes of both", fontsize=6.5, color=MUTED
                )
            else:
                values = _states(steps, number, barrier["start"], 3 if counts_bytes else 2)
                _track(axes, values, y, palette.RAMP_LIGHT[4] if counts_bytes else palette.QUADS_LIGHT[7])
                _phases(axes, _states(steps, number, barrier["start"], 1), barrier["start"][0], y)
            y = _rule(axes, y + 1, len(steps))
        axes.axhline(y, color=MUTED, linewidth=1.2)
    axes.set_xlim(-1, len(steps) + 0.5)
    axes.set_ylim(y + 0.1, -0.1)
    axes.set_yticks([at for at, _ in names], [name for _, name in names], fontsize=7, color=INK)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=2, labelsize=6.5, labelcolor=MUTED)
    for spine in axes.spines.values():
        spine.set_visible(False)
    used = [act for act in MARKS if any(step["act"] == act for step in steps)]
    handles = [
        axes.plot(
            [],
            [],
            linestyle="",
            color=INK,
            marker=MARKS[act][0],
            markersize=MARKS[act][1],
            label=MARKS[act][2],
        )[0]
        for act in used
    ]
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0, -0.02),
        ncols=4,
        fontsize=6.5,
        frameon=False,
        handletextpad=0.2,
        columnspacing=1.0,
    )
    title = f"{stage['kernel'] or 'a kernel'}, k-tile {stage['k_tile']}: its steps, from left to right"
    axes.set_title(title, fontsize=8.5, color=INK, loc="left")
    return figure


def _rule(axes: Axes, y: float, steps: int) -> float:
    axes.plot([-1, steps + 0.5], [y, y], color=LINE, linewidth=0.4)
    return y


def _sums(steps: Sequence[Mapping[str, Any]], v: int) -> list[int]:
    """The bytes of the stage that are in a CTA's shared memory after each step."""
    found, total = [], 0
    for step in steps:
        if "land" in step and step["land"][0] == v:
            total += step["land"][2]
        found.append(total)
    return found


def _states(steps: Sequence[Mapping[str, Any]], number: int, start: Sequence[int], which: int) -> list[int]:
    """The state of a barrier after each step: 1 is its phase, 2 and 3 the arrivals and bytes missing."""
    now = start[which - 1]
    found = []
    for step in steps:
        for change in step["barriers"]:
            if change[0] == number:
                now = change[which]
        found.append(now)
    return found


def _phases(axes: Axes, phases: Sequence[int], before: int, y: float) -> None:
    """A line where a phase of a barrier was complete, with its number."""
    for i, phase in enumerate(phases):
        if phase != before:
            axes.plot([i, i], [y + 0.08, y + 0.92], color=INK, linewidth=1.2)
            axes.text(i - 0.3, y + 0.32, f"phase {before} ends", fontsize=5.8, color=INK, ha="right")
        before = phase


def _track(axes: Axes, values: Sequence[int], y: float, fill: str) -> None:
    """Values over the steps as an area on a base line, with the extremes written at it."""
    most, least = max(0, *values), min(0, *values)
    span = max(1, most - least)
    base = y + 0.15 + 0.7 * most / span
    for i, value in enumerate(values):
        if value:
            height = 0.7 * value / span
            axes.add_patch(Rectangle((i, base - max(0, height)), 1, abs(height), facecolor=fill, linewidth=0))
    for i, value in enumerate(values):
        if value and (i == 0 or value != values[i - 1]) and value in {most, least}:
            left = value > 0 and i < 0.8 * len(values)
            axes.text(
                i + (0.4 if left else -0.3),
                y + 0.62,
                str(value),
                fontsize=6,
                color=ACCENT if value < 0 else INK,
                ha="left" if left else "right",
            )
            if value == most:
                break
