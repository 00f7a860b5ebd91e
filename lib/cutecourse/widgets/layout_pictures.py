"""Pictures of the algebra's operations: which cells an operation picks, covers, cuts or repeats.

A picture is plain data, a few boards of cells and a few sentences. The browser computes the same picture in
`js/layout_operation.js`, so that the reader can edit the operands; a test compares the two.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutecourse import layout as algebra
from cutecourse import palette
from cutecourse.errors import CourseError
from cutecourse.layout import Layout, cosize, rank, size

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure

__all__ = ["Board", "Cell", "OperationPicture", "draw_operation", "operation_picture"]

MAX_DRAWN = 512
LINE_PLACES = 24  # of a line, in one row of the printed figure
HUES = 8
NO_HUE = -1
EMPTY = ("", "", NO_HUE, False)

Cell = tuple[str, str, int, bool]
"""One cell: a large text, a small text, a hue (-1 for none) and whether it has a thick frame."""


@dataclass(frozen=True)
class Board:
    """Cells under a title: a grid of a layout's coordinates, or one line of offsets or indices.

    `height` is 0 for a line. The cells of a grid are in the order of the index: down the first column first.
    """

    title: str
    height: int
    width: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class OperationPicture:
    """The boards that show an operation at work, and the same in words."""

    boards: tuple[Board, ...]
    words: tuple[str, ...]


def operation_picture(
    operation: str, layout: Layout, operands: Sequence[Any], result: Any
) -> OperationPicture | None:
    """Draw `operation(layout, *operands)`, or return None where there is nothing to draw.

    `result` is what the operation returned. Boards have at most 512 cells.
    """
    draw = _DRAWN.get(operation)
    if draw is None or not isinstance(result, Layout):
        return None
    try:
        picture = draw(operation, layout, list(operands), result)
    except CourseError:
        return None
    if picture is None or any(len(board.cells) > MAX_DRAWN for board in picture.boards):
        return None
    return picture


def draw_operation(title: str, picture: OperationPicture) -> PrintFigure:
    """Draw the picture for print, one board below the other; a long line continues on the next row."""
    from cutecourse.widgets.figures import CELL_IN, INK, PrintFigure, draw_board, draw_cell

    shapes = [
        (-(-board.width // LINE_PLACES), min(board.width, LINE_PLACES))
        if board.height == 0
        else (board.height, board.width)
        for board in picture.boards
    ]
    heights = [rows + 1.8 for rows, _ in shapes] or [1.0]
    widest = max([columns for _, columns in shapes] or [16])
    lines = [part for line in picture.words for part in textwrap.wrap(line, 84)]
    words_in = 0.3 + 0.19 * (len(lines) + 1)
    figure = PrintFigure(max((widest + 2) * CELL_IN, 6.5), sum(heights) * CELL_IN + words_in)
    ratios = [*(height * CELL_IN for height in heights), words_in]
    panels = figure.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
    for axes, board, (rows, columns) in zip(panels, picture.boards, shapes, strict=False):
        draw_board(axes, rows, columns, board.title)
        for number, (text, small, hue, mark) in enumerate(board.cells):
            if board.height == 0:
                row, column = divmod(number, LINE_PLACES)
            else:
                column, row = divmod(number, board.height)
            colour = palette.QUADS_LIGHT[hue] if hue >= 0 else palette.MEANINGS_LIGHT["hole"]
            style: dict[str, Any] = {"edgecolor": INK, "linewidth": 1.6} if mark else {}
            draw_cell(axes, row, column, colour, f"{text}\n{small}" if small else text or "·", **style)
        axes.set_xticks([i + 0.5 for i in range(columns)], [str(i) for i in range(columns)])
        step = LINE_PLACES if board.height == 0 else 1
        axes.set_yticks([row + 0.5 for row in range(rows)], [str(row * step) for row in range(rows)])
        axes.set_anchor("NW")
    panels[-1].axis("off")
    panels[-1].text(
        0, 1, "\n".join([title, *lines]), fontsize=9, color=INK, va="top", transform=panels[-1].transAxes
    )
    return figure


# ---- boards ----


def _grid(title: str, layout: Layout, cell: Callable[[int], Cell]) -> Board:
    count = size(layout)
    height = size(layout[0]) if rank(layout) > 1 else 1
    return Board(title, height, count // height, tuple(map(cell, range(_drawn(count)))))


def _line(title: str, count: int, cell: Callable[[int], Cell]) -> Board:
    return Board(title, 0, count, tuple(map(cell, range(_drawn(count)))))


def _drawn(count: int) -> int:
    return min(count, MAX_DRAWN + 1)


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


def _offsets(layout: Layout) -> list[int]:
    return [layout(index) for index in range(size(layout))]


def _as_layout(tiler: Any) -> Any:
    return Layout(tiler) if isinstance(tiler, int) else tiler


def _numbering(layout: Layout) -> Layout:
    """Give each coordinate of a layout its index."""
    return Layout(layout.shape)


# ---- the operations ----


def _composition(_: str, layout: Layout, operands: list[Any], result: Layout) -> OperationPicture:
    tiler = _as_layout(operands[0])
    chosen = tiler if isinstance(tiler, Layout) else algebra.composition(_numbering(layout), tiler)
    picks = _offsets(chosen)
    numbers: dict[int, list[int]] = {}
    for number, index in enumerate(picks):
        numbers.setdefault(index, []).append(number)

    def of_a(index: int) -> Cell:
        found = numbers.get(index, [])
        text = str(found[0]) if len(found) == 1 else f"×{len(found)}" if found else ""
        return (text, str(layout(index)), 0 if found else NO_HUE, bool(found))

    beyond = sum(index >= size(layout) for index in picks)
    picked = f"{_many(len(set(picks)), 'cell')} of the {size(layout)} cells"
    words = [
        f"B picks {picked} of A. R writes down the offset of each pick.",
        "The large numbers count the picks in the order of B, the small numbers are offsets.",
    ]
    if beyond:
        words.append(f"{_many(beyond, 'pick lies', 'picks lie')} past the end of A, whose last mode goes on.")
    wrong = [c for c, index in enumerate(picks) if result(c) != layout(index)]
    if wrong:
        words.append(
            f"R(c) is not A(B(c)) at c = {', '.join(map(str, wrong))}: a step of B does not divide the mode "
            "of A that it crosses, and CuTe's check does not notice."
        )
    return OperationPicture(
        (
            _grid(f"A = {layout}: the cells that B picks", layout, of_a),
            _grid(f"R = {result}", result, lambda c: (str(c), str(result(c)), 1 if c in wrong else 0, False)),
        ),
        tuple(words),
    )


def _complement(_: str, layout: Layout, operands: list[Any], result: Layout) -> OperationPicture | None:
    tile = algebra.filter(layout)
    if not operands:
        target = cosize(tile)
    else:
        given = operands[0]
        target = size(given if isinstance(given, Layout) else Layout(given))
    if size(result) == 0:
        return OperationPicture((), ("A reaches an offset twice, so it has no complement.",))
    if size(tile) * size(result) > MAX_DRAWN:
        return None
    owners: dict[int, list[tuple[int, int]]] = {}
    for j, start in enumerate(_offsets(result)):
        for i, step in enumerate(_offsets(tile)):
            owners.setdefault(start + step, []).append((i, j))
    end = max(target, max(owners) + 1)

    def cell(offset: int) -> Cell:
        found = owners.get(offset, [])
        if not found:
            return EMPTY
        i, j = found[0]
        return (str(i) if len(found) == 1 else f"×{len(found)}", str(j), j % HUES, i == 0)

    covered, starts = _many(size(tile), "offset"), _many(size(result), "start")
    words = [
        f"A covers {covered}. The complement gives {starts} for copies of A, one at offset 0 (thick frames).",
        "Large numbers count the elements of A, small numbers and colours count the copies.",
    ]
    twice = sum(len(found) > 1 for found in owners.values())
    missing = end - len(owners)
    if twice or missing:
        words.append(
            f"{_many(twice, 'offset is', 'offsets are')} reached twice and {_many(missing, 'offset')} not at "
            "all: the strides of A are no multiples of one another."
        )
    elif end > target:
        words.append(f"The copies reach to offset {end - 1}, past the bound {target}.")
    else:
        words.append(f"Together they reach every offset below {target} once.")
    alone = _line("covered by A", end, lambda offset: cell(offset) if cell(offset)[1] == "0" else EMPTY)
    both = _line("covered by A and its copies, one for each start in the complement", end, cell)
    return OperationPicture((alone, both), tuple(words))


def _divide(operation: str, layout: Layout, operands: list[Any], result: Layout) -> OperationPicture | None:
    tiler = _as_layout(operands[0])
    whole = isinstance(tiler, Layout)
    split = algebra.logical_divide if whole else algebra.zipped_divide
    on_a, numbered = split(layout, tiler), split(_numbering(layout), tiler)
    in_tile, tiles = size(numbered[0]), size(numbered[1])
    if size(numbered) != size(on_a) or size(numbered) > MAX_DRAWN:
        return None
    if any(layout(numbered(k)) != on_a(k) for k in range(size(numbered))):
        return None
    places = {numbered(k): (k % in_tile, k // in_tile) for k in range(size(numbered))}

    def cell(index: int) -> Cell:
        if index not in places:
            return EMPTY
        place, tile = places[index]
        return (str(place), str(tile), tile % HUES, False)

    words = [
        f"One colour for one tile: {_many(tiles, 'tile')} of {_many(in_tile, 'element')}.",
        "The large number is the place in the tile, the small number is the tile.",
    ]
    beyond = sum(index >= size(layout) for index in places)
    if beyond:
        words.append(f"{_many(beyond, 'place hangs', 'places hang')} over the end of A.")
    index_at = {offset: index for index, offset in enumerate(_offsets(layout))}
    boards = [_grid(f"A = {layout}, cut into tiles", layout, cell)]
    boards.append(
        _line(
            "the same tiles in memory",
            cosize(layout),
            lambda offset: cell(index_at[offset]) if offset in index_at else EMPTY,
        )
    )
    return OperationPicture(tuple(boards), tuple(words))


def _copies(block: Layout, places: Layout) -> dict[int, tuple[int, int]]:
    """Map each offset of a product to the element of the block and the number of the copy."""
    return {
        start + step: (i, j)
        for j, start in enumerate(_offsets(places))
        for i, step in enumerate(_offsets(block))
    }


def _copy_cell(owners: dict[int, tuple[int, int]], offset: int) -> Cell:
    if offset not in owners:
        return EMPTY
    i, j = owners[offset]
    return (str(i), str(j), j % HUES, False)


def _product_words(block: Layout, places: Layout) -> str:
    return (
        f"One colour for one copy of the tile: {_many(size(places), 'copy', 'copies')} of "
        f"{_many(size(block), 'element')}. The large number is the element of the tile, the small number is "
        "the copy."
    )


def _product(_: str, layout: Layout, operands: list[Any], result: Layout) -> OperationPicture | None:
    if not isinstance(_as_layout(operands[0]), Layout) or size(result) > MAX_DRAWN:
        return None
    owners = _copies(result[0], result[1])
    line = _line("the copies in memory", cosize(result), lambda offset: _copy_cell(owners, offset))
    return OperationPicture((line,), (_product_words(result[0], result[1]),))


def _ranked(layout: Layout, width: int) -> Layout:
    parts = [layout] if rank(layout) == 1 else [layout[i] for i in range(rank(layout))]
    parts += [Layout(1, 0)] * (width - len(parts))
    return Layout(tuple(part.shape for part in parts), tuple(part.stride for part in parts))


def _arranged(operation: str, layout: Layout, operands: list[Any], result: Layout) -> OperationPicture | None:
    tiler = operands[0]
    if not isinstance(tiler, Layout) or size(result) > MAX_DRAWN:
        return None
    width = max(rank(layout), rank(tiler))
    product = algebra.logical_product(_ranked(layout, width), _ranked(tiler, width))
    owners = _copies(product[0], product[1])
    boards = []
    for name in ("blocked_product", "raked_product"):
        arranged = result if name == operation else getattr(algebra, name)(layout, tiler)
        boards.append(
            _grid(
                f"{name}: {arranged}",
                arranged,
                # mypy infers no type for a lambda's parameter with a default, which binds this turn's layout
                lambda index, arranged=arranged: _copy_cell(owners, arranged(index)),  # type: ignore[misc]
            )
        )
    boards.append(_line("both in memory", cosize(product), lambda offset: _copy_cell(owners, offset)))
    return OperationPicture(tuple(boards), (_product_words(product[0], product[1]),))


def _coalesce(_: str, layout: Layout, operands: list[Any], result: Layout) -> OperationPicture | None:
    if operands and not isinstance(operands[0], int):
        return None
    leaves = result.leaves()
    run = leaves[0][0]
    words = (
        f"{layout} and {result} give the same offset for every index. One colour for one run: "
        f"{_many(run, 'index', 'indices')} with the same step."
    )
    line = _line(
        "the offset of each index",
        size(layout),
        lambda index: (str(layout(index)), "", index // run % HUES, False),
    )
    return OperationPicture((line,), (words,))


def _filter(_: str, layout: Layout, __: list[Any], result: Layout) -> OperationPicture:
    counts: dict[int, int] = {}
    for offset in _offsets(layout):
        counts[offset] = counts.get(offset, 0) + 1
    line = _line(
        "how many coordinates lead to each offset",
        cosize(layout),
        lambda offset: (f"×{counts[offset]}", "", 0, False) if offset in counts else EMPTY,
    )
    return OperationPicture((line,), (f"{result} reaches the same offsets without the repeats of stride 0.",))


def _right_inverse(_: str, layout: Layout, __: list[Any], result: Layout) -> OperationPicture:
    owners: dict[int, int] = {}
    for index, offset in enumerate(_offsets(layout)):
        owners.setdefault(offset, index)
    run = size(result)
    line = _line(
        "memory: the index at each offset",
        cosize(layout),
        lambda offset: (
            (str(owners[offset]), "", 0 if offset < run else NO_HUE, False) if offset in owners else EMPTY
        ),
    )
    words = (
        "The inverse reads memory from offset 0 and gives the index at each offset, for "
        f"{_many(run, 'offset')}."
    )
    return OperationPicture((line,), (words,))


def _left_inverse(_: str, layout: Layout, __: list[Any], result: Layout) -> OperationPicture:
    reached = set(_offsets(layout))
    line = _line(
        "memory: the index at each offset",
        cosize(layout),
        lambda offset: (str(result(offset)), "", 0, False) if offset in reached else EMPTY,
    )
    return OperationPicture((line,), ("The inverse takes each offset of the layout back to its index.",))


_DRAWN: dict[str, Callable[[str, Layout, list[Any], Layout], OperationPicture | None]] = {
    "coalesce": _coalesce,
    "filter": _filter,
    "composition": _composition,
    "complement": _complement,
    "right_inverse": _right_inverse,
    "left_inverse": _left_inverse,
    "logical_divide": _divide,
    "zipped_divide": _divide,
    "logical_product": _product,
    "blocked_product": _arranged,
    "raked_product": _arranged,
}
