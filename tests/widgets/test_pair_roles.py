"""The roles of a persistent kernel over time, against what its barriers allow."""

import numpy as np
import pytest

from cutecourse.kernels import twin, umma_persistent, umma_scheduled
from cutecourse.runtime import run
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.pair_roles import ROLES, draw_roles, overlap, role_spans


def traced(spec, **options):
    """The trace of a run on zeros."""
    arrays = {
        one.name: np.zeros(one.extents, np.uint16 if one.name == "d" else np.float16) for one in spec.tensors
    }
    return run(twin(spec), device="emulator", trace=True, **arrays, **options).trace


def test_role_spans__follow_the_order_that_the_barriers_allow():
    spans = role_spans(traced(umma_persistent.spec(256, 1280, 128)))
    by = {(span.role, span.tile): span for span in spans}
    assert set(by) == {(role, tile) for role in ROLES for tile in range(5)}
    assert [by["multiply", tile].accumulator for tile in range(5)] == [0, 1, 0, 1, 0]
    for tile in range(5):
        of_tile = [by[role, tile] for role in ROLES]
        assert len({span.accumulator for span in of_tile}) == 1
        assert [span.start for span in of_tile] == sorted(span.start for span in of_tile)
        assert by["unload", tile].start > by["multiply", tile].end  # acc_full
    for tile in range(2, 5):
        assert by["multiply", tile].start > by["unload", tile - 2].end  # acc_empty
    assert 0 < overlap(spans) < 1


def test_role_spans__take_the_cluster_that_is_asked_for():
    trace = traced(umma_scheduled.spec(512, 512, 64, pairs=2))
    assert [span.tile for span in role_spans(trace, 1) if span.role == "store"] == [0, 1]
    assert role_spans(trace, 0) == role_spans(trace)
    with pytest.raises(WidgetError, match=r"No tcgen05\.mma in this trace or cluster"):
        role_spans(trace, 7)


def test_overlap__counts_steps_of_storing_under_mmas():
    spans = role_spans(traced(umma_persistent.spec(256, 256, 64)))
    assert overlap(spans) == 0.0  # one tile


def test_draw_roles__names_the_spans_of_the_tiles_that_it_shows():
    drawn = draw_roles(role_spans(traced(umma_persistent.spec(256, 768, 64))), 380, tiles=2)
    assert "multiply, tile 1" in repr(drawn)
    assert "tile 2" not in repr(drawn)
