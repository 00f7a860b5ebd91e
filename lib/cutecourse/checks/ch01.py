"""Checks of the exercises of chapter 1, Hello, Layout."""

from __future__ import annotations

import operator
from typing import Any

from cutecourse.checks.compare import on_many, same_int, same_layout, same_outputs
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.errors import CourseError
from cutecourse.layout import Layout, crd2idx, make_layout, size, zipped_divide


@exercise(
    "01.1",
    "An offset in a layout with nested modes",
    hints=[
        "Mode 0 is given as (0,1): multiply by its strides (1,4) and add.",
        "Mode 1 has the shape (2,4). Which coordinate of that shape has the index 5, if the first part counts fastest?",
    ],
)
def check_offset(answer: object) -> str:
    """The offset of one coordinate, part of it nested."""
    layout = Layout.parse("((2,3),(2,4)):((1,4),(2,12))")
    outside = layout(((0, 1), 0))
    same_int(
        answer,
        layout(((0, 1), 5)),
        meaning="the offset of ((0,1),5) in ((2,3),(2,4)):((1,4),(2,12)), in elements",
        otherwise="Each of the four numbers of the coordinate is multiplied by its own stride: two from (0,1), two from 5.",
        mistakes={
            outside
            + 5 * 2: "You multiplied 5 by the first stride of mode 1. The first part of that mode has only "
            "two values, 0 and 1: turn 5 into a coordinate of (2,4) first.",
            outside
            + 5
            * 12: "You multiplied 5 by the last stride of mode 1: turn 5 into a coordinate of (2,4) first.",
            outside
            + 1 * 2
            + 1 * 12: "You turned 5 into (1,1), with the last part counting fastest. CuTe counts the "
            "first part fastest.",
            1 * 1 + 0 * 4 + 1 * 2 + 2 * 12: "The coordinate in mode 0 is (0,1), but you read it as (1,0).",
            outside
            + 5 * 2
            + 5 * 12: "You multiplied 5 by both strides of mode 1: turn 5 into a coordinate of (2,4) first.",
            crd2idx(
                ((0, 1), 5), layout.shape
            ): "That is the index of the coordinate, which the shape alone gives. The offset "
            "multiplies by the strides (1,4) and (2,12).",
        },
    )
    return "CuTe first turns a number for a nested mode into a coordinate, and counts that mode's first part fastest."


@exercise(
    "01.2",
    "Rows with padding",
    hints=[
        "A stride counts elements. How many f16 fit into 80 bytes?",
        "If each row is contiguous, which mode has stride 1?",
    ],
)
def check_padded(answer: object) -> str:
    """A row-major layout whose rows are padded."""
    same_layout(
        answer,
        make_layout((8, 32), stride=(40, 1)),
        tell=False,
        mistakes={
            "(8,32):(80,1)": "80 is the distance in bytes. A stride counts elements, and an f16 has two bytes.",
            "(8,32):(80,2)": "Both strides are distances in bytes. A stride counts elements: the next column is 1 further.",
            "(8,32):(20,1)": "You divided by 4 bytes. An f16 has two.",
            "(8,32):(32,1)": "This is the matrix without padding.",
            "(8,40):(40,1)": "The padding belongs in the stride. The shape counts the 32 columns that exist.",
            "(8,32):(1,8)": "Here a column is contiguous, not a row.",
            "(8,32):(1,40)": "Here a column is contiguous, not a row.",
            "(32,8):(1,40)": "The modes are in the wrong order: M comes first, then K.",
        },
    )
    return "The padding changes the stride alone. The shape still counts the elements that exist."


@exercise(
    "01.3",
    "Be the layout",
    hints=[
        "The coordinate in the first mode is the remainder of the index divided by the first extent.",
        "The quotient is the index into the other modes.",
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
            "Here the last mode counts fastest, as in C. CuTe counts the first mode fastest.",
            where="offset_of(1, (4, 8), (8, 1))",
            expected="a step down the first column",
            got="a step along the first row",
        )

    def never_divided(index: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
        return sum(index % extent * step for extent, step in zip(shape, stride, strict=True))

    if callable(answer) and all(answer(*case) == never_divided(*case) for case in cases):
        raise WrongAnswer(
            "Each mode takes the remainder of the whole index. After each mode, divide the index by that mode's extent "
            "and give the quotient to the next mode.",
            where="offset_of(4, (4, 8), (8, 1))",
            expected="the second column: 4 // 4 = 1",
            got="4 % 8 = 4",
        )
    on_many(
        answer,
        cases,
        lambda index, shape, stride: make_layout(shape, stride=stride)(index),
        what="the offset of an index in shape:stride",
    )
    return "Your function does exactly what `layout(index)` does."


def _as_tiler(entry: Any) -> Any:
    """Return one mode's tiler as a layout or a number. The learner may write a layout as text."""
    if isinstance(entry, str):
        return Layout.parse(entry)
    return operator.index(entry) if hasattr(entry, "__index__") else entry


@exercise(
    "01.4",
    "A tiler",
    hints=[
        "A tiler may hold a layout for each mode. Which layout of 4 elements picks rows 0, 3, 6, 9?",
        "For the columns, use a layout of 4 with stride 1, or just the number 4.",
    ],
)
def check_tiler(answer: object) -> str:
    """A tiler with a strided mode."""
    matrix = make_layout((12, 16), stride=(16, 1))
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise WrongAnswer(
            "The tiler must be a tuple with one entry for each mode of M.",
            expected="(for the rows, for the columns)",
            got=f"{type(answer).__name__}: {answer}",
        )
    tiler = tuple(map(_as_tiler, answer))
    if isinstance(tiler[0], Layout) and tiler[0].stride in (48, 16):
        raise WrongAnswer(
            "You gave the rows a stride in memory. A tiler's stride counts coordinates of its mode: 1 is the next row.",
            expected="a stride in rows",
            got=str(tiler[0]),
        )
    try:
        divided = zipped_divide(matrix, tiler)
    except CourseError as error:
        raise WrongAnswer(f"zipped_divide refuses this tiler: {error}") from error
    tile = divided[0]
    rows = sorted({tile(index) // 16 for index in range(size(tile))})
    columns = sorted({tile(index) % 16 for index in range(size(tile))})
    if rows != [0, 3, 6, 9] or columns != [0, 1, 2, 3]:
        if rows == [0, 1, 2, 3] and columns == [0, 3, 6, 9]:
            message = "You swapped rows and columns: the first entry is for the rows."
        elif rows == list(range(len(rows))) and columns == [0, 1, 2, 3]:
            message = "The rows of your tile are neighbours. A plain number in a tiler takes elements with stride 1."
        else:
            message = "Mode 0 does not hold every third row and four neighbouring columns."
        raise WrongAnswer(
            message,
            expected="the rows and columns that the exercise asks for",
            got=f"rows {rows}, columns {columns}, from {divided}",
        )
    if size(tile) != 16:
        raise WrongAnswer(
            "The tile holds some elements twice.", expected="16 elements", got=f"{size(tile)} in {tile}"
        )
    return "An entry of a tiler is a layout, so it may step over elements. The divide puts these into other tiles."


@exercise(
    "01.5",
    "A bug to find",
    hints=[
        "How many elements are there, and how many threads have nothing to do?",
        "Follow thread 24. It should take the first element of row 1. Which one does it take?",
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
    short[14:] = -1
    filled = np.full((16, 32), -1, np.int32)
    for row in range(14):
        filled[row] = source[row * 24 : row * 24 + 32]
    unbounded = "Nothing bounds the column, and you still count 32 threads per row."
    same_outputs(
        answer,
        {"out": np.full(512, -1, np.int32), "a": source},
        {"out": right.reshape(-1)},
        columns=32,
        emulator_first=True,
        reports={
            "AddressError": "A thread uses an address outside the array. There are 448 threads for 384 elements: bound the "
            "row, so that the last 64 threads do nothing. If they do nothing already, look at the strides: the rows of a "
            "begin 24 elements apart, the rows of out 32."
        },
        mistakes={
            "out": [
                (tight, "All rows are there, but without gaps: the padding is missing in out."),
                (
                    short.reshape(-1),
                    "The last rows are still empty: some threads are spent on the padding, and too few are left for these rows.",
                ),
                (
                    filled.reshape(-1),
                    f"The padding was overwritten, and the last rows are empty. {unbounded}",
                ),
            ]
        },
    )
    return (
        "Divide a thread's number by an extent (24 columns) and build the offset with a stride (32). "
        "The two differ as soon as there is padding."
    )


@exercise(
    "01.6",
    "A kernel to write",
    hints=[
        "Turn b into (tile row, tile column) and p into (row in the tile, column in the tile). The first mode counts fastest.",
        "The element's row is 3 * (tile row) + (row in the tile). Its column is 4 * (tile column) + (column in the tile).",
    ],
)
def check_tile_major(answer: object) -> str:
    """A reordering into contiguous tiles."""
    import numpy as np

    source = np.arange(192, dtype=np.int32) * 3 + 1
    tiles = zipped_divide(make_layout((12, 16), stride=(16, 1)), (3, 4))
    order = [tiles((place, tile)) for tile in range(16) for place in range(12)]
    right = source[order]
    parts = source.reshape(4, 3, 4, 4)  # tile row, row in the tile, tile column, column in the tile
    rows_first = parts.transpose(0, 2, 1, 3).reshape(-1)
    places_first = parts.transpose(2, 0, 1, 3).reshape(-1)
    tiles_first = parts.transpose(0, 2, 3, 1).reshape(-1)
    scattered = np.full(192, -1, np.int32)
    scattered[order] = source
    in_tile = (
        "Inside the tile you count along the row first. CuTe counts the first mode, the row index, fastest."
    )
    of_tiles = "You count the tiles along the row first. CuTe counts the first mode fastest: tile 1 lies below tile 0."
    scatters = (
        "You scatter instead of gathering: the layout gives the offset to read from in a, but you use it to write to out. "
        "Block b writes 12 neighbouring elements, starting at out[12 * b]."
    )
    same_outputs(
        answer,
        {"out": np.full(192, -1, np.int32), "a": source},
        {"out": right},
        columns=12,
        emulator_first=True,
        reports={
            "AddressError": "A thread uses an address outside the array. There are 4x4 tiles of 3x4 elements: the next tile "
            "row starts 3 rows further down, and the next tile column 4 columns further right."
        },
        mistakes={
            "out": [
                (rows_first, f"{in_tile} {of_tiles}"),
                (places_first, in_tile),
                (tiles_first, of_tiles),
                (
                    scattered,
                    scatters,
                ),
                (source, "The output is a copy of the input: nothing was reordered."),
            ]
        },
    )
    return "Your kernel's index arithmetic computes the layout that zipped_divide returned."
