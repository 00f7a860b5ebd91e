"""ScaleViewer without a browser: its places against the factors that lie there, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cutecourse.block_scales import FORMATS, placed
from cutecourse.widgets import ScaleViewer, WidgetError
from cutecourse.widgets.scale_places import form_facts, scale_place


@pytest.mark.parametrize("form", FORMATS)
def test_scale_place__is_where_the_factor_lies_in_memory_and_behind_the_copies(form: str) -> None:
    facts = form_facts(form)
    factors = facts["kTile"] // facts["vector"]
    scales = np.random.default_rng(5).integers(0, 256, (128, factors)).astype(np.uint8)
    blocks = placed(scales)[0]  # (blocks along K, 512)
    # A copy puts line r of a block into lanes r, r + 32, r + 64 and r + 96 of four columns.
    memory = np.concatenate([np.tile(block.reshape(32, 4, 4), (4, 1, 1)) for block in blocks], axis=1)
    for row in range(0, 128, 5):
        for k in range(0, facts["kTile"], 3):
            place = scale_place(form, row, k)
            held = scales[row, k // facts["vector"]]
            assert blocks.reshape(-1)[place.offset] == held
            assert {int(memory[lane, place.column, place.byte]) for lane in place.lanes} == {int(held)}
            # The MMA's factors begin at its ID, in this column, and its own is behind them.
            assert place.data_id <= place.byte < place.data_id + max(1, facts["mmaK"] // facts["vector"])


def test_scale_viewer__shows_both_places() -> None:
    viewer = ScaleViewer("nvf4", m=77, n=40, k=100)
    a, b = viewer.places
    assert (a.column, b.column, a.byte, a.mma, a.data_id) == (6, 5, 2, 1, 0)
    assert repr(viewer) == "ScaleViewer('nvf4', m=77, n=40, k=100)"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"form": "mxf6"}, "no format: there are mxf8, mxf4, nvf4"),
        ({"m": 128}, r"\(128, 0\) lies outside"),
        ({"k": 128}, "elements 0 to 127"),
    ],
)
def test_scale_viewer__refuses_in_words(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(WidgetError, match=said):
        ScaleViewer(**arguments)
