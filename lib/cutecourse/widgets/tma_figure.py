"""TmaBox's picture for print: the tensor with its tile and boxes, rows of shared memory, the fields."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from cutecourse import palette
from cutecourse.layout import idx2crd, make_swizzle
from cutecourse.tma import TmaError, TmaTrace
from cutecourse.widgets.figures import (
    CELL_IN,
    COLLISION,
    INK,
    LINE,
    MONO,
    MUTED,
    PrintFigure,
    draw_board,
    draw_cell,
)
from cutecourse.widgets.tma_choice import CHUNK_BYTES, ROW_BYTES, SWIZZLE_BITS, trace_of

ROWS = 16
_WIDE = 1.7  # a cell of shared memory is that much wider than high


def draw_tma_box(choice: Mapping[str, Any]) -> PrintFigure:
    """A choice for print; of a refused one the tensor, the tile, and the rule."""
    trace: TmaTrace | None = None
    refused = ""
    try:
        trace = trace_of(choice)
    except TmaError as error:
        refused = str(error)
    rows = 8 if trace is None else min(ROWS, -(-trace.tile_bytes // ROW_BYTES))
    widths = [2.5, (8 * _WIDE + 2) * CELL_IN]
    told_in = 1.5 if trace is not None else 0.1
    figure = PrintFigure(sum(widths) + 0.2, (rows + 2) * CELL_IN + told_in)
    grid = figure.add_gridspec(2, 2, width_ratios=widths, height_ratios=[(rows + 2) * CELL_IN, told_in])
    _draw_tensor(figure.add_subplot(grid[0, 0]), choice, trace)
    shared = figure.add_subplot(grid[0, 1])
    if trace is None:
        shared.axis("off")
        lines = [part for line in refused.split("\n") for part in textwrap.wrap(line, 52) or [""]]
        shared.set_title("refused", fontsize=9, color=COLLISION, loc="left")
        shared.text(0, 1, "\n".join(lines), fontsize=8, color=INK, va="top", transform=shared.transAxes)
    else:
        _draw_shared(shared, choice, trace, rows)
    words = figure.add_subplot(grid[1, :])
    words.axis("off")
    words.text(
        0, 1, "\n".join(_fields(trace)), fontsize=7.5, color=INK, va="top", transform=words.transAxes, **MONO
    )
    return figure


def _draw_tensor(axes: Axes, choice: Mapping[str, Any], trace: TmaTrace | None) -> None:
    extents, tile = choice["extents"], choice["tile"]
    start = [at * step for at, step in zip(choice["coord"], tile, strict=True)]
    whole = [max(extent, at + step) for extent, at, step in zip(extents, start, tile, strict=True)]
    axes.set_title(f"tensor {extents[0]} x {extents[1]}, tile {tile[0]} x {tile[1]}", fontsize=8, loc="left")
    axes.set_xlim(-0.02 * whole[1], 1.02 * whole[1])
    axes.set_ylim(1.02 * whole[0], -0.02 * whole[0])
    axes.set_aspect(max(0.25, min(4.0, whole[1] / whole[0])) ** -1 * whole[1] / whole[0])
    axes.set_anchor("NW")
    axes.xaxis.tick_top()
    axes.tick_params(length=2, labelsize=6, labelcolor=MUTED, pad=1)
    axes.set_xticks([0, start[1], start[1] + tile[1]] if start[1] else [0, tile[1]])
    axes.set_yticks([0, start[0], start[0] + tile[0]] if start[0] else [0, tile[0]])
    for spine in axes.spines.values():
        spine.set_visible(False)

    def area(at: tuple[float, float], size: tuple[float, float], **style: Any) -> None:
        axes.add_patch(Rectangle((at[1], at[0]), size[1], size[0], **style))

    area(
        (start[0], start[1]),
        (tile[0], tile[1]),
        facecolor=palette.MEANINGS_LIGHT["hole"],
        hatch="/////",
        edgecolor=LINE,
    )
    area((0, 0), (extents[0], extents[1]), facecolor=palette.MEANINGS_LIGHT["raised"], edgecolor=MUTED)
    inside = [max(0, min(step, extent - at)) for step, extent, at in zip(tile, extents, start, strict=True)]
    area((start[0], start[1]), (inside[0], inside[1]), facecolor=palette.RAMP_LIGHT[5], edgecolor="none")
    area((start[0], start[1]), (tile[0], tile[1]), facecolor="none", edgecolor=INK, linewidth=1.6)
    if trace is not None:
        box = _box_extents(trace)
        for mode in (0, 1):
            for at in range(box[mode], tile[mode], box[mode]):
                line = [start[1 - mode], start[1 - mode] + tile[1 - mode]]
                across = [start[mode] + at] * 2
                axes.plot(*((line, across) if mode == 0 else (across, line)), color=INK, linewidth=0.6)


def _box_extents(trace: TmaTrace) -> tuple[int, int]:
    """The box's sides along M and along K."""
    sides = {
        basis.mode[0]: side for basis, side in zip(trace.tma_gbasis.stride, trace.encoding.box, strict=True)
    }
    return sides[0], sides[1]


def _draw_shared(axes: Axes, choice: Mapping[str, Any], trace: TmaTrace, rows: int) -> None:
    """Rows of 128 bytes; each cell is 16 bytes with the elements of the tile that lie there."""
    draw_board(axes, rows, 8, f"shared memory, {trace.slayout}", _WIDE)
    element_bytes = trace.dtype.bits // 8
    count = CHUNK_BYTES // element_bytes
    swizzle = make_swizzle(SWIZZLE_BITS[choice["swizzle"]], 4, 3)
    inner = trace.tma_gbasis.stride[0].mode[0]
    for chunk in range(min(8 * rows, -(-trace.tile_bytes // CHUNK_BYTES))):
        first = idx2crd(
            trace.inv_smem_layout(swizzle(chunk * CHUNK_BYTES) // element_bytes), tuple(choice["tile"])
        )
        last = [at + (count - 1 if mode == inner else 0) for mode, at in enumerate(first)]
        labels = [f"{a}" if a == b else f"{a}–{b}" for a, b in zip(first, last, strict=True)]
        beyond = [
            at + tile * step >= extent
            for at, tile, step, extent in zip(
                first, choice["tile"], choice["coord"], choice["extents"], strict=True
            )
        ]
        style: dict[str, Any] = {"hatch": "////", "edgecolor": LINE} if any(beyond) else {}
        hue = palette.QUADS_LIGHT[first[inner] // count % 8]
        row, column = divmod(chunk, 8)
        colour = palette.MEANINGS_LIGHT["hole"] if any(beyond) else hue
        draw_cell(axes, row, column, colour, f"m{labels[0]}\nk{labels[1]}", _WIDE, **style)
    axes.set_xticks([c + 0.5 for c in range(8)], [f"+{CHUNK_BYTES * c}" for c in range(8)])
    axes.set_yticks([r + 0.5 for r in range(rows)], [str(ROW_BYTES * r) for r in range(rows)])
    axes.set_anchor("NW")


def _fields(trace: TmaTrace | None) -> list[str]:
    if trace is None:
        return []
    encoding = trace.encoding
    pairs = {
        "tensorDataType": encoding.data_type,
        "tensorRank": encoding.rank,
        "globalDim": _braces(encoding.dims),
        "globalStrides": _braces(encoding.strides_bytes) + " bytes",
        "boxDim": _braces(encoding.box),
        "elementStrides": _braces(encoding.element_strides),
        "swizzle": encoding.swizzle,
        "instructions": str(trace.instructions),
        "bytes": f"{encoding.box_bytes} in a box; the barrier expects {trace.tile_bytes}",
    }
    return [f"{name:15}{value}" for name, value in pairs.items()]


def _braces(values: tuple[int, ...]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"
