"""Checks of the exercises of chapter 1, Hello Layout."""

from __future__ import annotations

from cutecourse.checks.compare import same_int, same_layout
from cutecourse.checks.registry import exercise


@exercise(
    "01.1",
    "An offset",
    hints=["Multiply each coordinate by the stride of its mode.", "The two modes add up."],
)
def check_offset(answer: object) -> str:
    """The offset of one coordinate."""
    same_int(
        answer,
        29,
        meaning="the offset of (3, 5) in (4,8):(8,1), in elements",
        mistakes={
            23: "That takes the first mode as the contiguous one: here the strides are 8 and 1, not 1 and 4."
        },
    )
    return "Each coordinate times its stride, added up."


@exercise(
    "01.2",
    "Column by column",
    hints=[
        "Which mode has stride 1 when a column is contiguous?",
        "The other stride is the length of a column.",
    ],
)
def check_columns(answer: object) -> str:
    """A column-major layout."""
    same_layout(
        answer,
        "(4,8):(1,4)",
        mistakes={"(4,8):(8,1)": "That is the row-major layout: its rows are contiguous."},
    )
    return "The leftmost mode is the contiguous one, as in CuTe's default."
