"""Checks of the exercises of chapter 1, Hello, Layout."""

from __future__ import annotations

import operator
from typing import Any

from cutecourse.checks.compare import on_many, same_int, same_layout, same_outputs
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.errors import CourseError
from cutecourse.layout import Layout, make_layout, size, zipped_divide


@exercise(
    "01.1",
    "An offset in a layout with nested modes",
    hints=[
        "Mode 0 is given as (1,0): multiply by its strides (1,4).",
        "Mode 1 has the shape (2,4). Which coordinate of it has the number 3, if the first of the two runs fastest?",
    ],
)
def check_offset(answer: object) -> str:
    """The offset of one coordinate, part of it nested."""
    layout = Layout.parse("((2,2),(2,4)):((1,4),(2,8))")
    same_int(
        answer,
        layout(((1, 0), 3)),
        meaning="the offset of ((1,0),3) in ((2,2),(2,4)):((1,4),(2,8)), in elements",
        mistakes={
            1
            + 3
            * 2: "That multiplies 3 by the first stride of mode 1. But its first part has only two values, "
            "0 and 1: turn 3 into a coordinate of (2,4) first.",
            1
            + 3
            * 8: "That multiplies 3 by the last stride of mode 1: turn 3 into a coordinate of (2,4) first.",
            4 + 1 * 2 + 1 * 8: "Mode 0 is (1,0), and that reads it as (0,1).",
        },
    )
    return "An integer for a nested mode is turned into a coordinate first, its first part running fastest."


@exercise(
    "01.2",
    "Rows with padding",
    hints=["A stride counts elements. How many f16 are 80 bytes?", "Which mode is contiguous if a row is?"],
)
def check_padded(answer: object) -> str:
    """A row-major layout whose rows are padded."""
    same_layout(
        answer,
        make_layout((8, 32), stride=(40, 1)),
        tell=False,
        mistakes={
            "(8,32):(80,1)": "80 is the distance in bytes; a stride counts elements, and an f16 has two bytes.",
            "(8,32):(32,1)": "That is the matrix without padding.",
            "(8,32):(1,8)": "There a column is contiguous, not a row.",
            "(8,32):(1,40)": "There a column is contiguous, not a row.",
            "(32,8):(1,40)": "The modes are in the other order: M first, then K.",
        },
    )
    return "The padding is in the stride alone; the shape does not know of it."


@exercise(
    "01.3",
    "Be the layout",
    hints=[
        "The coordinate in the first mode is the remainder of the index by the first extent.",
        "What is left for the other modes is the quotient.",
    ],
)
def check_offset_of(answer: object) -> str:
    """A layout's function from an index to an offset."""
    cases: list[tuple[Any, ...]] = [
        (index, shape, stride)
        for shape, stride in (
            ((4, 8), (8, 1)),
            ((4, 8), (1, 4)),
            ((3, 2, 5), (10, 1, 2)),
            ((6,), (3,)),
            ((2, 3, 2), (0, 4, 1)),
        )
        for index in range(size(shape))
    ]

    def last_first(index: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
        return int(make_layout(shape[::-1], stride=stride[::-1])(index))

    if callable(answer) and all(answer(*case) == last_first(*case) for case in cases):
        raise WrongAnswer(
            "There the last mode runs fastest, as in C. CuTe counts the first mode fastest.",
            where="offset_of(1, (4, 8), (8, 1))",
            expected="a step down the first column",
            got="a step along the first row",
        )
    on_many(
        answer,
        cases,
        lambda index, shape, stride: make_layout(shape, stride=stride)(index),
        what="the offset of an index in shape:stride",
    )
    return "That is all that `layout(index)` does."


def _as_tiler(entry: Any) -> Any:
    """One mode's tiler: a layout also as its text, a number also NumPy's."""
    if isinstance(entry, str):
        return Layout.parse(entry)
    return operator.index(entry) if hasattr(entry, "__index__") else entry


@exercise(
    "01.4",
    "A tiler",
    hints=[
        "A tiler may hold a layout for each mode. Which layout of 4 elements picks rows 0, 2, 4, 6?",
        "For the columns, a layout of 4 with stride 1, or just the number 4.",
    ],
)
def check_tiler(answer: object) -> str:
    """A tiler with a strided mode."""
    matrix = make_layout((8, 8), stride=(8, 1))
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise WrongAnswer(
            "The tiler is to be a tuple with one entry for each mode of M.",
            expected="(for the rows, for the columns)",
            got=f"{type(answer).__name__}: {answer}",
        )
    try:
        divided = zipped_divide(matrix, tuple(map(_as_tiler, answer)))
    except CourseError as error:
        raise WrongAnswer(f"zipped_divide refuses this tiler: {error}") from error
    tile = divided[0]
    rows = sorted({tile(index) // 8 for index in range(size(tile))})
    columns = sorted({tile(index) % 8 for index in range(size(tile))})
    if rows != [0, 2, 4, 6] or columns != [0, 1, 2, 3]:
        neighbours = rows == list(range(len(rows)))
        raise WrongAnswer(
            "Those are neighbouring rows: a plain number in a tiler takes elements with stride 1."
            if neighbours and columns == [0, 1, 2, 3]
            else "Mode 0 does not hold every second row and four neighbouring columns.",
            expected="rows and columns of the first tile as asked",
            got=f"rows {rows}, columns {columns}, from {divided}",
        )
    if size(tile) != 16:
        raise WrongAnswer(
            "The tile has elements twice.", expected="16 elements", got=f"{size(tile)} in {tile}"
        )
    return "A tiler's entry is a layout: it may step over elements, and the divide gathers what is left in mode 1."


@exercise(
    "01.5",
    "A bug to find",
    hints=[
        "How many threads are there, and how many of them have nothing to do?",
        "Follow thread 24: it is to take the first element of row 1. Which one does it take?",
    ],
)
def check_copy_padded(answer: object) -> str:
    """A copy into padded rows."""
    import numpy as np

    source = np.arange(384, dtype=np.int32)
    right = np.full((16, 32), -1, np.int32)
    right[:, :24] = source.reshape(16, 24)
    tight = np.full(512, -1, np.int32)
    tight[:384] = source
    short = right.copy()
    short[12:] = -1
    same_outputs(
        answer,
        {"out": np.full(512, -1, np.int32), "a": source},
        {"out": right.reshape(-1)},
        mistakes={
            "out": [
                (tight, "The rows are all there, but next to each other: the padding is missing in out."),
                (
                    short.reshape(-1),
                    "The last rows are still empty: threads are spent on the padding, and then run out.",
                ),
            ]
        },
    )
    return (
        "A thread's number is divided by an extent (24 columns), an offset is made with a stride (32): "
        "here they differ."
    )


@exercise(
    "01.6",
    "A kernel to write",
    hints=[
        "Turn tile into (tile row, tile column) and place into (row in the tile, column in the tile): first modes fastest.",
        "The element's row is 4 * (tile row) + (row in the tile), and the same for its column.",
    ],
)
def check_tile_major(answer: object) -> str:
    """A reordering into contiguous tiles."""
    import numpy as np

    source = np.arange(256, dtype=np.int32) * 3 + 1
    tiles = zipped_divide(make_layout((16, 16), stride=(16, 1)), (4, 4))
    right = np.array([source[tiles((place, tile))] for tile in range(16) for place in range(16)], np.int32)
    four = source.reshape(4, 4, 4, 4)  # tile row, row in the tile, tile column, column in the tile
    rows_first = four.transpose(0, 2, 1, 3).reshape(-1)
    places_first = four.transpose(2, 0, 1, 3).reshape(-1)
    tiles_first = four.transpose(0, 2, 3, 1).reshape(-1)
    in_tile = (
        "Inside the tile you count along the row first; CuTe counts the first mode, the row index, fastest."
    )
    of_tiles = "The tiles are counted along the row first; CuTe counts the first mode fastest: tile 1 lies below tile 0."
    same_outputs(
        answer,
        {"out": np.full(256, -1, np.int32), "a": source},
        {"out": right},
        mistakes={
            "out": [(rows_first, f"{in_tile} {of_tiles}"), (places_first, in_tile), (tiles_first, of_tiles)]
        },
    )
    return "Your kernel computes the function that zipped_divide printed; the layout is the kernel's index arithmetic."
