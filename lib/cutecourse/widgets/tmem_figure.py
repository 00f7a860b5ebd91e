"""An accumulator and the tensor memory it lies in, for print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from cutecourse import palette
from cutecourse.umma import TMEM_COLUMNS, TMEM_LANES
from cutecourse.widgets.figures import INK, LINE, MONO, MUTED, PrintFigure
from cutecourse.widgets.tmem_places import Accumulator, ColumnRequest

_WARP_LANES = 32
BAD = palette.MEANINGS_LIGHT["bad"]


def blocks(
    of: Accumulator,
) -> Iterator[tuple[int, int, tuple[int, int, int, int], tuple[int, int, int, int]]]:
    """The part that each warp loads: (CTA, warp, its part of C, its part of tensor memory).

    A part is (first row or lane, first column, rows or lanes, columns).
    """
    # A part is a rectangle in both: its ends along N are at halves or quarters of it.
    ends = sorted({0, of.n - 1, *(of.n * i // 4 + j for i in range(1, 4) for j in (-1, 0))})
    places = [(row, column, *of.place(row, column)[1:]) for row in range(of.rows) for column in ends]
    for cta in range(of.cta_group):
        for warp in range(TMEM_LANES // _WARP_LANES):
            found = [place for place in places if place[2] // _WARP_LANES == warp]
            if not found:
                continue
            rows, columns, lanes, ats = (sorted({place[i] for place in found}) for i in range(4))
            yield (
                cta,
                warp,
                (cta * of.rows + rows[0], columns[0], rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1),
                (lanes[0], ats[0], lanes[-1] - lanes[0] + 1, ats[-1] - ats[0] + 1),
            )


def draw_tmem(of: Accumulator, held: Sequence[ColumnRequest], start: int, holder: str) -> PrintFigure:
    """C on the left, the tensor memory of each CTA on the right, one colour for what one warp loads."""
    placed = [one for one in held if one.state == "placed"]
    lines = [_line(one) for one in held]
    lines.append((f"layout of one CTA's accumulator: {of.fragment.layout}", False))
    high = 1.75 * of.cta_group + 0.35
    figure = PrintFigure(8.4, max(high, 2.6) + 0.19 * len(lines) + 0.3)
    grid = figure.add_gridspec(
        of.cta_group + 1,
        2,
        width_ratios=[2.2, 6],
        height_ratios=[*[max(high, 2.6) / of.cta_group] * of.cta_group, 0.19 * len(lines) + 0.1],
    )
    parts = list(blocks(of))
    _draw_c(figure.add_subplot(grid[: of.cta_group, 0]), of, parts)
    for cta in range(of.cta_group):
        mine = [part for part in parts if part[0] == cta]
        _draw_memory(figure.add_subplot(grid[cta, 1]), of, mine, placed, (cta, start, holder))
    below = figure.add_subplot(grid[of.cta_group, :])
    below.axis("off")
    below.set_xlim(0, 1)
    below.set_ylim(len(lines), 0)
    for row, (text, wrong) in enumerate(lines):
        below.text(0, row + 0.5, text, fontsize=7.5, color=BAD if wrong else INK, va="center", **MONO)
    return figure


def _line(one: ColumnRequest) -> tuple[str, bool]:
    if one.state == "placed":
        return f"{one.name}: {one.columns} columns from {one.column}", False
    if one.state == "waits":
        return f"{one.name}: {one.columns} columns, waits until they are free", False
    return f"{one.name}: refused, {one.why}", True


def _hue(cta: int, warp: int) -> str:
    return palette.QUADS_LIGHT[4 * cta + warp]


def _style(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=8.5, color=INK, loc="left")
    axes.tick_params(length=2, labelsize=6.5, labelcolor=MUTED, pad=1)
    for spine in axes.spines.values():
        spine.set_edgecolor(LINE)


def _draw_c(axes: Axes, of: Accumulator, parts: Sequence[Any]) -> None:
    axes.set_xlim(0, of.n)
    axes.set_ylim(of.m, 0)
    if of.n * 4 >= of.m and of.m * 4 >= of.n:
        axes.set_aspect("equal")
    axes.set_anchor("NW")
    _style(axes, f"C, {of.m} x {of.n}: CTA.warp")
    axes.set_xticks(sorted({0, of.n} | {part[2][1] for part in parts}))
    axes.set_yticks(sorted({0, of.m} | {part[2][0] for part in parts}))
    for cta, warp, (row, column, rows, columns), _ in parts:
        axes.add_patch(
            Rectangle((column, row), columns, rows, facecolor=_hue(cta, warp), edgecolor=LINE, linewidth=0.5)
        )
        axes.text(
            column + columns / 2,
            row + rows / 2,
            f"{cta}.{warp}",
            ha="center",
            va="center",
            fontsize=6.5,
            color=INK,
            **MONO,
        )


def _draw_memory(
    axes: Axes,
    of: Accumulator,
    parts: Sequence[Any],
    placed: Sequence[ColumnRequest],
    at: tuple[int, int, str],
) -> None:
    cta, start, holder = at
    strip = 22
    axes.set_xlim(0, TMEM_COLUMNS)
    axes.set_ylim(TMEM_LANES, -strip)
    _style(axes, f"tensor memory of CTA {cta}: 128 lanes, {TMEM_COLUMNS} columns")
    axes.set_yticks(range(0, TMEM_LANES + 1, _WARP_LANES))
    axes.set_xticks(range(0, TMEM_COLUMNS + 1, 64))
    axes.add_patch(
        Rectangle(
            (0, 0),
            TMEM_COLUMNS,
            TMEM_LANES,
            facecolor=palette.MEANINGS_LIGHT["hole"],
            edgecolor=LINE,
            linewidth=0,
            hatch="///",
        )
    )
    for one in placed:
        axes.add_patch(
            Rectangle(
                (one.column, 0),
                one.columns,
                TMEM_LANES,
                facecolor=palette.MEANINGS_LIGHT["surface"],
                edgecolor=INK,
                linewidth=0.6,
            )
        )
        axes.add_patch(
            Rectangle(
                (one.column, -strip),
                one.columns,
                strip - 2,
                facecolor=palette.RAMP_LIGHT[5] if one.name == holder else palette.RAMP_LIGHT[1],
                edgecolor=INK,
                linewidth=0.6,
            )
        )
        most = max(1, int(one.columns / 9))
        label = one.name if len(one.name) <= most else one.name[: most - 1] + "…" if most > 1 else ""
        axes.text(
            one.column + one.columns / 2,
            -strip / 2 - 1,
            label,
            ha="center",
            va="center",
            fontsize=6.5,
            color=INK,
            **MONO,
        )
    for _, warp, _, (lane, column, lanes, columns) in parts:
        left = start + column
        wide = min(columns, TMEM_COLUMNS - left)
        if wide <= 0:
            continue
        axes.add_patch(
            Rectangle((left, lane), wide, lanes, facecolor=_hue(cta, warp), edgecolor=LINE, linewidth=0.5)
        )
        if wide >= 32:
            axes.text(
                left + wide / 2,
                lane + lanes / 2,
                f"warp {warp}" if wide >= 64 else str(warp),
                ha="center",
                va="center",
                fontsize=6.5,
                color=INK,
                **MONO,
            )
    for lane in range(_WARP_LANES, TMEM_LANES, _WARP_LANES):
        axes.plot([0, TMEM_COLUMNS], [lane, lane], color=MUTED, linewidth=0.5, linestyle=":")
