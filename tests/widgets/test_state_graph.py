"""StateGraph without a browser: its states against a naive search, its ways, what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from cutecourse.protocols import Protocol, pipeline
from cutecourse.widgets import StateGraph, WidgetError
from cutecourse.widgets.state_paths import follow_way, nearest, shortest_way, state_graph
from support.protocols import naive_search, small_pipelines

NAMES: dict[str, Any] = {
    "threads": ("producer", "consumer"),
    "barriers": ("full[0]", "full[1]", "empty[0]", "empty[1]"),
    "places": ("stage 0", "stage 1"),
}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(small_pipelines(consumers=1))
def test_states__are_those_of_the_naive_search(protocol: Any) -> None:
    counts, threads = protocol
    for variant in state_graph(Protocol(counts, threads), (), (), ())["variants"]:
        cut = [list(one) for one in threads]
        if variant["removed"] is not None:
            thread, number = variant["removed"]
            del cut[thread][number]
        reached, wrong = naive_search(counts, cut)
        states = variant["states"]
        found = {(tuple(one["at"]), tuple(map(tuple, one["barriers"]))) for one in states}
        assert found == reached
        assert len(states) == len(found)
        assert {one["kind"] for one in states} - {"", "end"} == wrong


def test_ways__are_shortest_and_lead_where_they_say() -> None:
    states = state_graph(pipeline(2, 3).without(0, 6), (), (), ())["variants"][0]["states"]
    for target, state in enumerate(states):
        way = shortest_way(states, target)
        assert follow_way(states, way)[-1] == target
        # Each action is one step, so all ways to a state are equally long.
        assert len(way) == sum(state["at"])
    stuck = nearest(states, "deadlock")
    assert stuck is not None
    assert shortest_way(states, stuck) == "0" * 8


def test_widget__walks_and_takes_a_wait_away() -> None:
    widget = StateGraph(pipeline(2, 3), **NAMES)
    assert (len(widget.states), widget.shortest("deadlock"), widget.shortest("race")) == (37, None, None)
    end = widget.shortest("end")
    assert end is not None
    widget.way = end
    assert widget.state["kind"] == "end"
    # With a wait of the producer less, only the part of the way that is a way still stays.
    widget.removed = next(n for n, one in enumerate(widget.graph["variants"]) if one["removed"] == [0, 6])
    assert end.startswith(widget.way)
    deadlock = widget.shortest("deadlock")
    assert deadlock == "0" * 8
    widget.way = deadlock
    assert widget.state["at"] == [8, 0]
    assert widget.state["barriers"][0] == [2, 1]
    assert repr(widget) == "StateGraph(producer and consumer, without=(0, 6), 39 states, at (8, 0))"


def test_widget__refuses_in_words_what_it_cannot_show() -> None:
    one = Protocol((1,), ((("arrive", 0),),))
    with pytest.raises(WidgetError, match="two threads; this protocol has 1"):
        StateGraph(one)
    with pytest.raises(WidgetError, match="4 barriers; 1 names"):
        StateGraph(pipeline(2, 3), barriers=("full",))
    with pytest.raises(WidgetError, match=r"\(0, 1\) is no wait"):
        StateGraph(pipeline(2, 3), without=(0, 1))
    with pytest.raises(WidgetError, match="more than 1500 states"):
        StateGraph(pipeline(4, 16))
    widget = StateGraph(pipeline(2, 3))
    for way in ("1", "02", "000000000"):
        with pytest.raises(WidgetError, match="No order goes the way"):
            widget.way = way
    with pytest.raises(WidgetError, match="no variant 7"):
        widget.removed = 7
