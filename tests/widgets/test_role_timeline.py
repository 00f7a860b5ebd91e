"""RoleTimeline: who holds each accumulator after each step, against the trace's own barriers."""

from __future__ import annotations

import pytest
from widgets import umma_runs

from cutecourse.widgets import RoleTimeline, WidgetError
from cutecourse.widgets.role_steps import STATES


def test_steps__an_accumulator_is_handed_round_in_one_order() -> None:
    widget = RoleTimeline(umma_runs.stored("umma_persistent"))
    for acc in (0, 1):
        states = [step["holds"][acc][:2] for step in widget.steps]
        turns = [now for before, now in zip([None, *states], states, strict=False) if now != before]
        tiles = [0, 2] if acc == 0 else [1]
        expected: list[list[object]] = [["free", None]]
        for tile in tiles:
            expected += [[state, tile] for state in ("multiply", "full", "unload", "free")]
        assert turns == expected
    times = [step["time"] for step in widget.steps]
    assert times == sorted(times)


def test_steps__a_free_accumulator_is_one_at_whose_barrier_all_have_arrived() -> None:
    run = umma_runs.stored("umma_persistent")
    trace = run.trace
    assert trace is not None
    counts = {e["barrier"]["offset"]: e["count"] for e in trace.of("mbarrier.init") if e.rank == 0}
    (empty, _) = sorted(offset for offset, count in counts.items() if count == 8)
    (ends, *_) = [e.time for e in trace.of("mbarrier.phase") if e["barrier"]["offset"] == empty]
    steps = RoleTimeline(run).steps
    free = next(step for step in steps if step["holds"][0][:2] == ["free", 0])
    last = [step["time"] for step in steps if step["holds"][0][:2] == ["unload", 0]][-1]
    assert last < free["time"] < ends  # the last warp's load, then its arrival
    assert free["holds"][0][2] == 0b11111111
    assert "8 of 8 warps. Accumulator 0 is free" in free["words"]


def test_steps__without_the_wait_mmas_write_while_a_late_warp_still_loads() -> None:
    off = ("load under way", "read before written")
    run = umma_runs.stored("umma_persistent", "empty_not_waited", "late_warp", off=off)
    steps = RoleTimeline(run).steps
    (begins,) = [
        step for step in steps if step["role"] == "multiply" and "not loaded the sums" in step["words"]
    ]
    assert begins["holds"][0][:2] == ["both", 2]
    *_, late = [step for step in steps if "MMAs of tile 2 have written there" in step["words"]]
    assert late["words"].startswith("Warp 0 of CTA 0 has loaded its sums of tile 0")
    assert late["holds"][0][0] != "both"


def test_steps__one_sm_and_one_accumulator() -> None:
    one = RoleTimeline(umma_runs.stored("umma_persistent", "one_accumulator"))
    assert one.pair["accumulators"] == [[0, 256]]
    assert {step["accumulator"] for step in one.steps} == {0}


def test_widget__says_what_it_shows_and_what_it_cannot() -> None:
    run = umma_runs.stored("umma_persistent")
    widget = RoleTimeline(run, tiles=2, selected=3)
    assert repr(widget) == (
        f"RoleTimeline(umma_persistent: pair 0, 2 of 3 tiles, 2 accumulators, {len(widget.steps)} steps)"
    )
    assert {step["tile"] for step in widget.steps} == {0, 1}
    assert {name for step in widget.steps for name, *_ in step["holds"]} <= set(STATES)
    with pytest.raises(WidgetError, match=r"steps 0 to \d+; there is no step 99"):
        RoleTimeline(run, selected=99)
    with pytest.raises(WidgetError, match="at least one tile; tiles is 0"):
        RoleTimeline(run, tiles=0)
    with pytest.raises(WidgetError, match=r"No tcgen05\.mma in this trace or cluster"):
        RoleTimeline(run, cluster=5)
