"""The columns of scale factors in tensor memory, for print."""

from __future__ import annotations

from matplotlib.patches import Rectangle

from cutecourse import palette
from cutecourse.widgets.figures import INK, LINE, MUTED, PrintFigure
from cutecourse.widgets.scale_places import form_facts, scale_place

LANES, QUARTER = 128, 32


def draw_scales(form: str, m: int, n: int, k: int) -> PrintFigure:
    """The columns of A's and of B's factors of a k-tile; those of one MMA are coloured, the chosen ones dark.

    Errors: WidgetError for what is no format or lies outside of the k-tile.
    """
    facts = form_facts(form)
    figure = PrintFigure(6.4, 2.6)
    for axes, letter, row in zip(figure.subplots(1, 2), "AB", (m, n), strict=True):
        place = scale_place(form, row, k)
        axes.set_xlim(0, facts["columns"])
        axes.set_ylim(LANES, 0)
        axes.set_title(
            f"{letter}[{row}, {k}]: column {place.column}, byte {place.byte}",
            fontsize=9,
            color=INK,
            loc="left",
        )
        axes.tick_params(length=0, labelsize=7, labelcolor=MUTED)
        axes.set_yticks(range(0, LANES, QUARTER))
        axes.set_xticks(range(0, facts["columns"] + 1, 4))
        first = place.column // 4 * 4
        axes.add_patch(
            Rectangle((first, 0), 4, LANES, facecolor=palette.THINGS_LIGHT[letter], edgecolor=LINE)
        )
        for lane in place.lanes:
            axes.add_patch(Rectangle((place.column, lane - 1), 1, 3, facecolor=INK))
        for line in range(QUARTER, LANES, QUARTER):
            axes.axhline(line, color=LINE, linewidth=0.6)
    return figure
