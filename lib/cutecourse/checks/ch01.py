"""Checks of the exercises of chapter 1, Hello Layout."""

from __future__ import annotations

from cutecourse.checks.compare import same_int
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
        mistakes={23: "That takes the first mode as the contiguous one: here the strides are 8 and 1, not 1 and 4."},
    )
    return "Each coordinate times its stride, added up."
