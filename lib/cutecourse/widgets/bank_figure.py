"""A tile coloured by bank, and the wavefronts of one access, for print."""

from __future__ import annotations

import textwrap

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from cutecourse import palette
from cutecourse.memory_access import BANKS, Wavefront
from cutecourse.widgets.bank_places import LaneAccess, Tile
from cutecourse.widgets.figures import COLLISION, INK, LINE, MONO, MUTED, PrintFigure

MOST_ROWS = 64  # of the tile; the rest is named, not drawn


def bank_colour(bank: int) -> str:
    """One of the ramp's eight steps for four banks each: `ramp[bank // 4]`."""
    return palette.RAMP_LIGHT[palette.ramp_step(bank, BANKS)]


def runs_of(wave: Wavefront) -> list[tuple[int, int, tuple[int, ...]]]:
    """(first bank, banks, lanes) of neighbouring banks that serve the same lanes."""
    runs: list[tuple[int, int, tuple[int, ...]]] = []
    for bank, _, lanes in wave.words:
        if runs and runs[-1][2] == lanes and sum(runs[-1][:2]) == bank:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1, lanes)
        else:
            runs.append((bank, 1, lanes))
    return runs


def draw_banks(tile: Tile, chosen: LaneAccess | None, lines: list[str]) -> PrintFigure:
    """The tile on the left, one row for each wavefront on the right, the words below."""
    unit = tile.unit(chosen)
    down = tile.extents[1 - tile.across]
    waves = tile.waves(chosen)
    rows = min(down, MOST_ROWS)
    wrapped = [part for line in lines for part in textwrap.wrap(line, 112)]
    high = max(2.0, _row_inches(rows) * max(rows, len(waves)) + 0.7)
    figure = PrintFigure(8.4, high + 0.2 * len(wrapped) + 0.15)
    grid = figure.add_gridspec(2, 2, width_ratios=[1, 1], height_ratios=[high, 0.2 * len(wrapped) + 0.1])
    _draw_tile(figure.add_subplot(grid[0, 0]), tile, unit, rows, chosen, waves)
    _draw_waves(figure.add_subplot(grid[0, 1]), waves, max(rows, len(waves), 1))
    below = figure.add_subplot(grid[1, :])
    below.axis("off")
    below.set_xlim(0, 1)
    below.set_ylim(max(1, len(wrapped)), 0)
    for row, text in enumerate(wrapped):
        below.text(0, row + 0.5, text, fontsize=8, color=INK, va="center")
    return figure


def waiting_lanes(waves: tuple[Wavefront, ...]) -> set[int]:
    """The lanes that are not served in the first wavefront of their group."""
    first = {wave.first: i for i, wave in reversed(list(enumerate(waves)))}
    return {lane for i, wave in enumerate(waves) if i != first[wave.first] for lane in wave.lanes}


def _draw_tile(
    axes: Axes, tile: Tile, unit: int, rows: int, chosen: LaneAccess | None, waves: tuple[Wavefront, ...]
) -> None:
    across = tile.extents[tile.across] // unit
    axes.set_xlim(0, across)
    axes.set_ylim(rows, 0)
    numbered = across <= 20
    noun = "byte" if tile.bits == 8 else "element"
    cell = f"{unit} {noun}{'' if unit == 1 else 's'} in a cell"
    title = (
        f"the tile: {cell}, and the first bank"
        if numbered
        else f"the tile: {cell}, a stronger blue is a higher bank"
    )
    axes.set_title(title, fontsize=8.5, color=INK, loc="left")
    axes.tick_params(length=2, labelsize=6.5, labelcolor=MUTED, pad=1)
    axes.xaxis.tick_top()
    step = max(1, across // 8)
    axes.set_xticks(
        [i + 0.5 for i in range(0, across, step)], [str(i * unit) for i in range(0, across, step)]
    )
    every = max(1, rows // 8)
    axes.set_yticks([i + 0.5 for i in range(0, rows, every)], [str(i) for i in range(0, rows, every)])
    for spine in axes.spines.values():
        spine.set_edgecolor(LINE)
    size = min(7.0, 150 / across, 55 * _row_inches(rows))
    for row in range(rows):
        for column in range(across):
            crd = (row, column * unit) if tile.across == 1 else (column * unit, row)
            bank = tile.bank(tile.index(*crd))
            axes.add_patch(
                Rectangle((column, row), 1, 1, facecolor=bank_colour(bank), edgecolor="white", lw=0.4)
            )
            if numbered:
                axes.text(
                    column + 0.5,
                    row + 0.54,
                    str(bank),
                    fontsize=size,
                    color=INK,
                    ha="center",
                    va="center",
                    **MONO,
                )
    if chosen is None:
        return
    late = waiting_lanes(waves)
    for lane, index in enumerate(chosen.indices):
        if index < 0:
            continue
        crd = (index % tile.extents[0], index // tile.extents[0])
        row, start = crd[1 - tile.across], crd[tile.across]
        if row >= rows:
            continue
        axes.add_patch(
            Rectangle(
                (start // unit, row),
                max(1, chosen.elems // unit),
                1,
                facecolor="none",
                edgecolor=COLLISION if lane in late else INK,
                linewidth=1.4,
                linestyle="--" if lane in late else "-",
                zorder=3,
            )
        )
    if tile.extents[1 - tile.across] > rows:
        axes.set_xlabel(f"the first {rows} of {tile.extents[1 - tile.across]}", fontsize=7, color=MUTED)


def _draw_waves(axes: Axes, waves: tuple[Wavefront, ...], rows: int) -> None:
    axes.set_xlim(0, BANKS)
    axes.set_ylim(rows, 0)
    axes.set_title("the 32 banks: one row per wavefront", fontsize=8.5, color=INK, loc="left")
    axes.tick_params(length=2, labelsize=6.5, labelcolor=MUTED, pad=1)
    axes.xaxis.tick_top()
    axes.set_xticks([bank + 0.5 for bank in range(0, BANKS, 4)], [str(bank) for bank in range(0, BANKS, 4)])
    every = max(1, len(waves) // 8)
    axes.set_yticks(
        [i + 0.5 for i in range(0, len(waves), every)], [str(i + 1) for i in range(0, len(waves), every)]
    )
    hole = palette.MEANINGS_LIGHT["hole"]
    axes.add_patch(Rectangle((0, 0), BANKS, len(waves), facecolor=hole, linewidth=0))
    for spine in axes.spines.values():
        spine.set_edgecolor(LINE)
    for turn, wave in enumerate(waves):
        late = turn > 0 and waves[turn - 1].first == wave.first
        for bank, wide, lanes in runs_of(wave):
            axes.add_patch(
                Rectangle(
                    (bank + 0.06, turn + 0.08),
                    wide - 0.12,
                    0.84,
                    facecolor=bank_colour(bank),
                    edgecolor=COLLISION if late else INK,
                    linewidth=0.9,
                    linestyle="--" if late else "-",
                )
            )
            if wide > 1:
                axes.text(
                    bank + wide / 2,
                    turn + 0.54,
                    f"lane {lanes[0]}" if wide >= 4 and len(lanes) == 1 else str(lanes[0]),
                    fontsize=6.5,
                    color=INK,
                    ha="center",
                    va="center",
                    **MONO,
                )


def _row_inches(rows: int) -> float:
    return 0.17 if rows <= 32 else 0.12
