"""The widgets' pictures for print, drawn with Matplotlib in the same colours."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from cutecourse import palette
from cutecourse.layout import Layout, size
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.snapshots import OPERANDS, atom_snapshot, cells_of, drawable_layout, register_name

INK = palette.MEANINGS_LIGHT["ink"]
MUTED = palette.MEANINGS_LIGHT["muted"]
LINE = palette.MEANINGS_LIGHT["line"]
COLLISION = palette.MEANINGS_LIGHT["collision"]
MONO: dict[str, Any] = {"family": "DejaVu Sans Mono"}
CELL_IN = 0.34  # inches a cell, so that text has one size in every figure


class PrintFigure(Figure):
    """A figure that shows itself as PNG whatever the plotting backend, and prints the same text each time."""

    def __init__(self, width_in: float, height_in: float) -> None:
        super().__init__(figsize=(width_in, height_in), dpi=110, layout="constrained")
        self.patch.set_facecolor("white")

    def _repr_png_(self) -> bytes:
        return self.png()

    def png(self) -> bytes:
        """The figure as PNG, the same bytes for the same figure."""
        buffer = io.BytesIO()
        # `savefig` goes through all text once more before it draws.
        FigureCanvasAgg(self).print_png(buffer, metadata={"Software": None})  # type: ignore[no-untyped-call]
        # A recording holds a figure for each widget; 64 colours look the same at a quarter of the size.
        small = io.BytesIO()
        with Image.open(buffer) as image:
            image.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(
                small, format="PNG", optimize=True
            )
        return small.getvalue()

    def __repr__(self) -> str:
        panels = len(self.axes)
        return f"<figure with {panels} panel{'' if panels == 1 else 's'}>"


def draw_board(axes: Axes, rows: int, columns: int, title: str, wide: float = 1.0) -> None:
    """An empty board of cells, row 0 on top."""
    axes.set_xlim(-0.05, columns + 0.05)
    axes.set_ylim(rows + 0.05, -0.05)
    axes.set_aspect(1 / wide)
    axes.set_title(title, fontsize=9, color=INK, loc="left")
    axes.tick_params(length=0, labelsize=7, labelcolor=MUTED, pad=1)
    axes.xaxis.tick_top()
    for spine in axes.spines.values():
        spine.set_visible(False)


def draw_cell(
    axes: Axes, row: int, column: int, colour: str, text: str, wide: float = 1.0, **style: Any
) -> None:
    """One cell of a board, its text as large as fits."""
    box: dict[str, Any] = {"edgecolor": "white", "linewidth": 1.0} | style
    # Not `add_patch`, which works out the limits of the data: the board has its limits.
    axes.add_artist(Rectangle((column + 0.02, row + 0.02), 0.96, 0.96, facecolor=colour, **box))
    longest = max(len(line) for line in text.split("\n"))
    points = min(7.5, CELL_IN * 72 * wide * 0.9 / (0.602 * longest))  # 0.602: width of a letter to its size
    axes.text(
        column + 0.5,
        row + 0.5,
        text,
        ha="center",
        va="center",
        fontsize=points,
        color=INK,
        linespacing=1.0,
        alpha=style.get("alpha"),
        **MONO,
    )


def _leaves(shape: Any) -> list[int]:
    return [leaf for part in shape for leaf in _leaves(part)] if isinstance(shape, tuple) else [shape]


def _ticks(axis: Any, leaves: Sequence[int], extent: int) -> None:
    """Number the lines of a grid; of nested modes, each digit, in the order of the coordinate."""

    def label(index: int) -> str:
        digits = []
        for leaf in leaves:
            digits.append(str(index % leaf))
            index //= leaf
        return ",".join(digits)

    axis.set_ticks([i + 0.5 for i in range(extent)], [label(i) for i in range(extent)])


def _grid_axes(layout: Layout) -> tuple[list[int], list[int]]:
    """The leaves down and across: mode 0 goes down, the others across; one mode alone goes across."""
    shape = layout.shape
    if not isinstance(shape, tuple):
        return [], [shape]
    if len(shape) == 1:
        return [], _leaves(shape)
    return _leaves(shape[0]), _leaves(shape[1:])


def _product(leaves: Sequence[int]) -> int:
    result = 1
    for leaf in leaves:
        result *= leaf
    return result


def _draw_grid(axes: Axes, layout: Layout, offsets: Sequence[int], title: str) -> None:
    down, across = _grid_axes(layout)
    rows, columns = _product(down), _product(across)
    counts: dict[int, int] = {}
    for offset in offsets:
        counts[offset] = counts.get(offset, 0) + 1
    span = max(offsets) + 1
    draw_board(axes, rows, columns, title)
    for index, offset in enumerate(offsets):
        style: dict[str, Any] = {"edgecolor": COLLISION, "linewidth": 1.6} if counts[offset] > 1 else {}
        colour = palette.RAMP_LIGHT[palette.ramp_step(offset, span)]
        draw_cell(axes, index % rows, index // rows, colour, str(offset), **style)
    for leaves, line in ((across, axes.axvline), (down, axes.axhline)):
        if len(leaves) > 1:
            for at in range(leaves[0], _product(leaves), leaves[0]):
                line(at, color=MUTED, linewidth=1.2)
    _ticks(axes.xaxis, across, columns)
    if down:
        _ticks(axes.yaxis, down, rows)
    else:
        axes.set_yticks([])


def _draw_memory(axes: Axes, layout: Layout, offsets: Sequence[int], width: int, wide: float) -> None:
    span = max(offsets) + 1
    owners: list[list[int]] = [[] for _ in range(span)]
    for index, offset in enumerate(offsets):
        owners[offset].append(index)
    rows = -(-span // width)
    draw_board(axes, rows, min(width, span), "memory: the index at each offset", wide)
    for offset, indices in enumerate(owners):
        row, column = divmod(offset, width)
        colour = palette.RAMP_LIGHT[palette.ramp_step(offset, span)]
        if not indices:
            draw_cell(
                axes, row, column, palette.MEANINGS_LIGHT["hole"], "·", wide, hatch="////", edgecolor=LINE
            )
        elif len(indices) == 1:
            draw_cell(axes, row, column, colour, str(indices[0]), wide)
        else:
            draw_cell(axes, row, column, colour, f"×{len(indices)}", wide, edgecolor=COLLISION, linewidth=1.6)
    axes.set_xticks([i + 0.5 for i in range(min(width, span))], [f"+{i}" for i in range(min(width, span))])
    axes.set_yticks([r + 0.5 for r in range(rows)], [str(r * width) for r in range(rows)])


def draw_layout(layout: Layout | str, *, title: str | None = None) -> PrintFigure:
    """A layout for print: the grid of coordinates with their offsets, and the memory they lie in.

    Mode 0 goes down and the other modes across; darker is further in memory; an orange frame is an offset
    that several coordinates share, a hatched place one that none has.

    Errors: WidgetError, for a layout that cannot be drawn (coordinate strides, negative strides, too large).
    """
    return draw_layouts([(title or f"offsets of {layout}", layout)])


def draw_layouts(layouts: Sequence[tuple[str, Layout | str]]) -> PrintFigure:
    """Several layouts under each other, each as `draw_layout` draws it, with a title each."""
    panels = []
    widths: list[tuple[float, float]] = []
    heights: list[float] = []
    for title, layout in layouts:
        shown = drawable_layout(layout)
        offsets = [shown(index) for index in range(size(shown))]
        down, across = (_product(leaves) for leaves in _grid_axes(shown))
        span = max(offsets) + 1
        width, wide = min(16, span), 1.0
        height_in = (max(down, -(-span // width)) + 2.2) * CELL_IN
        memory_in = (width * wide + 1.5) * CELL_IN
        grid_in = max((across + 2) * CELL_IN, 2.2)
        panels.append((title, shown, offsets, (width, wide)))
        widths.append((grid_in, memory_in))
        heights.append(height_in)
    widest = [max(column) for column in zip(*widths, strict=True)]
    figure = PrintFigure(max(sum(widest), 5.0), sum(heights))
    board = figure.subplots(len(panels), 2, squeeze=False, width_ratios=widest, height_ratios=heights)
    for (left, right), (title, shown, offsets, places) in zip(board, panels, strict=True):
        _draw_grid(left, shown, offsets, title)
        _draw_memory(right, shown, offsets, *places)
        left.set_anchor("NW")
        right.set_anchor("NW")
    return figure


def draw_ownership(atom: Any, *, thread: int | None = None) -> PrintFigure:
    """The owners of A, B and C of an MMA atom: in each cell the thread's number over the register's.

    Drawn as the product is: A to the left of C, B above it (so B, which CuTe writes N×K, stands as K×N).
    One colour for each group of four threads; with `thread` given, all cells but its own are faded. Operands
    in shared memory are left out.

    Errors: WidgetError, when `atom` is neither an MMA atom nor its snapshot, or has no such thread.
    """
    shown = atom_snapshot(atom)
    m, n, k = shown.shape_mnk
    above = 1 if shown.operands["B"].in_shared_memory else k + 1
    if thread is not None and not 0 <= thread < shown.threads:
        raise WidgetError(f"{shown.name} has threads 0 to {shown.threads - 1}; there is no thread {thread}.")
    figure = PrintFigure((k + n + 4) * CELL_IN, (above + m + 4) * CELL_IN)
    grid = figure.add_gridspec(2, 2, width_ratios=[k + 1, n + 1], height_ratios=[above, m + 1])
    places = {"A": grid[1, 0], "B": grid[0, 1], "C": grid[1, 1]}
    names = {"A": "A (M×K)", "B": "B (N×K, drawn as K×N)", "C": "C (M×N)"}
    for letter in OPERANDS:
        axes = figure.add_subplot(places[letter])
        operand = shown.operands[letter]
        if operand.in_shared_memory:
            axes.axis("off")
            continue
        extents = operand.shape[::-1] if letter == "B" else operand.shape
        draw_board(axes, *extents, names[letter])
        for tid, value, crd in cells_of(operand):
            row, column = crd[::-1] if letter == "B" else crd
            faded = thread is not None and tid != thread
            style = {"alpha": 0.35} if faded else {}
            colour = palette.QUADS_LIGHT[palette.quad_of(tid)]
            draw_cell(axes, row, column, colour, f"{tid}\n{register_name(letter, value, operand)}", **style)
        axes.set_xticks([i + 0.5 for i in range(extents[1])], [str(i) for i in range(extents[1])])
        axes.set_yticks([i + 0.5 for i in range(extents[0])], [str(i) for i in range(extents[0])])
        axes.set_anchor("SE" if letter == "A" else "SW" if letter == "B" else "NW")
    corner = figure.add_subplot(grid[0, 0])
    corner.axis("off")
    words = [shown.name, "", "each cell: thread, register", "one colour: threads 4g to 4g+3"]
    corner.text(0, 1, "\n".join(words), fontsize=8, color=INK, va="top", transform=corner.transAxes)
    return figure


def draw_text(lines: Sequence[str]) -> PrintFigure:
    """A few lines of words, for print."""
    wrapped = [part for line in lines for part in textwrap.wrap(line, 88, subsequent_indent="  ") or [""]]
    figure = PrintFigure(7.0, 0.3 + 0.24 * len(wrapped))
    figure.text(0.02, 0.95, "\n".join(wrapped), fontsize=10, color=INK, va="top", linespacing=1.5)
    return figure
