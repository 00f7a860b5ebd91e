"""Which scale factors multiply a product of a k-tile, and where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutecourse.block_scales import FORMATS, scale_layout
from cutecourse.dtypes import dtype
from cutecourse.widgets.errors import WidgetError

ROWS = 128
"""The rows of A, and those of B, in a tile."""
ROW_BYTES, MMA_BYTES = 128, 32
"""The bytes of a row in a k-tile, and those that one MMA takes."""


@dataclass(frozen=True)
class ScalePlace:
    """A scale factor's place: the byte in its k-tile's blocks, and lane, column, byte and MMA.

    lanes    of tensor memory, one in each warp's quarter.
    column   counted from the operand's first column of scale factors.
    byte     of the column's word; `data_id` is the one where the MMA's factors of a row begin.
    """

    factor: int
    offset: int
    lanes: tuple[int, int, int, int]
    column: int
    byte: int
    mma: int
    data_id: int


def form_facts(name: str) -> dict[str, Any]:
    """What a picture needs to know of a format. Errors: WidgetError for a name that is none."""
    if name not in FORMATS:
        raise WidgetError(f"{name!r} is no format: there are {', '.join(FORMATS)}.")
    form = FORMATS[name]
    bits = dtype(form.element).bits
    return {
        "name": name,
        "element": form.element,
        "scale": form.scale,
        "vector": form.vector,
        "kTile": ROW_BYTES * 8 // bits,
        "mmaK": MMA_BYTES * 8 // bits,
        "columns": ROW_BYTES * 8 // bits // form.vector,
    }


def scale_place(name: str, row: int, k: int) -> ScalePlace:
    """The scale factor of element (row, k) of a k-tile of A or B.

    Errors: WidgetError for another format, and for what lies outside of the k-tile.

    >>> scale_place("mxf8", 77, 64)
    ScalePlace(factor=2, offset=218, lanes=(13, 45, 77, 109), column=2, byte=2, mma=2, data_id=2)
    """
    facts = form_facts(name)
    if not 0 <= row < ROWS or not 0 <= k < facts["kTile"]:
        raise WidgetError(
            f"({row}, {k}) lies outside of the k-tile: {name} has rows 0 to {ROWS - 1} and elements 0 to "
            f"{facts['kTile'] - 1}."
        )
    factor, mma = k // facts["vector"], k // facts["mmaK"]
    lane = row % 32
    return ScalePlace(
        factor=factor,
        offset=int(scale_layout(ROWS, facts["kTile"], facts["vector"])((row, k))),
        lanes=(lane, lane + 32, lane + 64, lane + 96),
        column=factor // 4 * 4 + row // 32,
        byte=factor % 4,
        mma=mma,
        data_id=mma * facts["mmaK"] // facts["vector"] % 4,
    )
