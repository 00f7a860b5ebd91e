"""TwoSmStage without a browser: the steps against the trace itself, what it refuses, its size, its figure."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import pytest
from widgets import traces
from widgets.umma_runs import traced

from cutecourse.trace import Recorder, Trace
from cutecourse.widgets import TmemViewer, TwoSmStage, WidgetError
from cutecourse.widgets.stage_steps import ACTS, stage_snapshot
from cutecourse.widgets.traces import named, read_trace

PIPELINE = "umma_two_sm_pipeline"
PAIRS, K_TILES, STAGES = 8, 4, 3
HALF = 128 * 64 * 2  # bytes of a CTA's half of A or of B in a k-tile


def acts_of(stage: dict[str, Any], act: str) -> list[dict[str, Any]]:
    return [step for step in stage["steps"] if step["act"] == act]


def pipeline_stages() -> list[tuple[int, int, dict[str, Any]]]:
    trace = named(read_trace(traced(PIPELINE), most=None), {})
    return [(p, k, stage_snapshot(trace, p, k)) for p, k in product(range(PAIRS), range(K_TILES))]


# ---- the pair of the pipeline ----


def test_steps__of_every_pair_and_k_tile_load_a_stage_multiply_and_free_it() -> None:
    for pair, k_tile, stage in pipeline_stages():
        assert [cta["name"] for cta in stage["ctas"]] == [f"CTA {2 * pair}", f"CTA {2 * pair + 1}"]
        assert [cta["part"] for cta in stage["ctas"]] == ["leader", "peer"]
        assert (stage["pairs"], stage["k_tiles"]) == (PAIRS, K_TILES)
        assert {act for act, _ in stage["acts"]} == set(ACTS)
        landed = [0, 0]
        for step in acts_of(stage, "land"):
            landed[step["land"][0]] += step["land"][2]
        assert landed == [2 * HALF, 2 * HALF]
        # Four quarters of A from the row, two halves of B from the column, for each CTA.
        assert sorted(load["tensor"] for load in stage["loads"]) == ["a"] * 8 + ["b"] * 4
        assert {load["coords"][0] for load in stage["loads"]} == {64 * k_tile}
        (expected,) = acts_of(stage, "expect")
        assert f"expect {4 * HALF} bytes, {2 * HALF} for CTA {2 * pair}" in expected["words"]
        assert expected["cta"] == 0
        assert [step["issued"] for step in acts_of(stage, "mma")] == [1, 2, 3, 4]
        assert stage["accumulates"] is (k_tile > 0)
        assert {step["cta"] for step in acts_of(stage, "mma") + acts_of(stage, "commit")} == {0}
        assert sum("complete" in step for step in stage["steps"]) >= 1
        assert max(step.get("complete", 0) for step in stage["steps"]) == 4
        # Five commits free a stage of a CTA; the pair's own is one of them.
        arrivals = [step["words"] for step in acts_of(stage, "free") if " arrives at " in step["words"]]
        for cta in stage["ctas"]:
            here = [words for words in arrivals if f"of {cta['name']}:" in words]
            assert len(here) == 5
            assert sum(words.startswith("The commit arrives") for words in here) == 1
        assert len(acts_of(stage, "free")) == 12
        assert stage["mmas"] == ["256×256×16"] * 4


def test_steps__the_peers_barrier_for_bytes_is_there_and_never_used() -> None:
    for _, k_tile, stage in pipeline_stages():
        names = [(one["cta"], one["name"], one["used"]) for one in stage["barriers"]]
        number = k_tile % STAGES
        assert names == [
            (0, f"full[{number}]", True),
            (0, f"empty[{number}]", True),
            (1, f"full[{number}]", False),
            (1, f"empty[{number}]", True),
        ]
        assert [one["count"] for one in stage["barriers"]] == [1, 5, 1, 5]


def test_steps__say_each_barriers_state_as_the_trace_has_it() -> None:
    trace = read_trace(traced(PIPELINE), most=None)
    lives = {(life.rank, life.offset): life for life in trace.barriers()}
    full, empty = 3 * 32768, 3 * 32768 + 24
    for pair, k_tile, stage in pipeline_stages():
        now = [one["start"] for one in stage["barriers"]]
        places = [
            (2 * pair + v, offset + 8 * (k_tile % STAGES)) for v, offset in product((0, 1), (full, empty))
        ]
        for step in stage["steps"]:
            for number, *values in step["barriers"]:
                now[number] = values
            last = step["index"] + (step["act"] == "expect")  # two events: the bytes and an arrival
            for number, place in enumerate(places):
                state = [s for s in lives[place].states if s.event <= last][-1]
                assert now[number] == [state.phase, state.pending, state.tx], (step, place)


def test_steps__come_in_the_order_of_the_trace_and_name_its_lines() -> None:
    run = traced(PIPELINE)
    events = {event.index: event for event in run.trace or ()}
    stage = TwoSmStage(run, pair=3, k_tile=2).stage
    indices = [step["index"] for step in stage["steps"]]
    assert indices == sorted(set(indices))
    lines = str(run.ptx).splitlines()
    for step in stage["steps"]:
        event = events[step["index"]]
        assert (step["time"], step["line"]) == (event.time, event.line)
        if event.line is not None:
            assert stage["ptx"][str(event.line)] == lines[event.line - 1].strip()
    instructions = {step["act"]: stage["ptx"].get(str(step["line"]), "") for step in stage["steps"]}
    assert instructions["load"].startswith("cp.async.bulk.tensor.2d")
    assert instructions["mma"].startswith("tcgen05.mma.cta_group::2")
    assert instructions["commit"].startswith("tcgen05.commit.cta_group::2")
    assert TwoSmStage(run.trace, pair=3, k_tile=2).stage["ptx"] == {}  # a trace alone has no text


def test_steps__a_peers_bytes_may_come_before_they_are_expected() -> None:
    early = [
        step["words"]
        for seed in (0, 1)
        for k in range(4)
        for step in TwoSmStage(traced("umma_two_sm", seed), k_tile=k).steps
        if "more than expected so far" in step["words"]
    ]
    assert early
    for words in early:
        assert re.search(
            r"land in CTA 1's shared memory; full of CTA 0 counts them: 1 arrival missing", words
        )


def test_steps__say_where_the_accumulator_lies() -> None:
    leader, peer = (cta["tensor"] for cta in TwoSmStage(traced("umma_two_sm")).stage["ctas"])
    assert leader == "rows 0 to 127 of the 256×256 tile in lanes 0 to 127, columns 0 to 255"
    assert peer == "rows 128 to 255 of the 256×256 tile in lanes 0 to 127, columns 0 to 255"


@pytest.mark.parametrize(("m", "n", "group"), [(64, 64, 1), (128, 128, 1), (128, 128, 2), (256, 256, 2)])
def test_steps__place_the_accumulator_as_the_layouts_do(m: int, n: int, group: int) -> None:
    """The sentence's rows, lanes and columns against what TmemViewer takes from CuTe's layout."""
    recorder = Recorder()
    recorder.begin(kernel="k", grid=(group, 1, 1), block=(128, 1, 1), cluster=(group, 1, 1))
    place: dict[str, Any] = {"cluster": 0, "rank": 0, "block": (0, 0, 0), "warp": 0, "lane": 0, "line": 1}
    barrier = {"rank": 0, "offset": 0, "name": "done"}
    recorder.emit("mbarrier.init", time=0, barrier=barrier, count=1, **place)
    issue = recorder.emit(
        "mma.issue", time=1, group=group, m=m, n=n, k=16, types="f32.f16.f16", a=0, b=0, d=32, idesc=0,
        accumulate=False, **place,
    )  # fmt: skip
    recorder.emit("mma.commit", time=2, group=group, barrier=barrier, mask=None, issues=[issue], **place)
    said = [cta["tensor"] for cta in TwoSmStage(recorder.trace()).stage["ctas"]]
    viewer = TmemViewer(m, n, cta_group=group)
    for cta, words in enumerate(said):
        places = [viewer.place(i, j) for i, j in product(range(m), range(n))]
        mine = [where for where in places if where[0] == cta]
        rows = sorted({i for i in range(m) if viewer.place(i, 0)[0] == cta})
        of, rest = words.split(" tile in ")
        lanes, columns = rest.split(", columns ")
        assert of == f"rows {rows[0]} to {rows[-1]} of the {m}×{n}"
        # What stands in brackets is of N, not of lanes.
        spans = re.findall(r"(\d+) to (\d+)", re.sub(r"\(.*?\)", "", lanes))
        told = {lane for low, high in spans for lane in range(int(low), int(high) + 1)}
        assert told == {lane for _, lane, _ in mine}
        assert columns == f"{32 + min(c for *_, c in mine)} to {32 + max(c for *_, c in mine)}"


# ---- one SM ----


@pytest.mark.parametrize(("name", "pairs"), [("umma_tma", 1), ("umma_tma_multicast", 16)])
def test_steps__of_one_sm_are_those_of_one_cta(name: str, pairs: int) -> None:
    run = traced(name)
    for pair, k_tile in product({0, pairs - 1}, range(4)):
        stage = TwoSmStage(run, pair=pair, k_tile=k_tile).stage
        (cta,) = stage["ctas"]
        assert (cta["name"], cta["part"]) == (f"CTA {pair}", "")
        assert (stage["pairs"], stage["k_tiles"], stage["group"]) == (pairs, 4, 1)
        total = sum(step["land"][2] for step in acts_of(stage, "land"))
        (expected,) = acts_of(stage, "expect")
        assert f"expect {total} bytes" in expected["words"]
        senders = 1 if pairs == 1 else 7
        assert sum(" arrives at " in step["words"] for step in acts_of(stage, "free")) == senders
        assert "pair" not in " ".join(step["words"] for step in stage["steps"])


def test_steps__without_loads_are_the_mmas_and_the_commit() -> None:
    stage = TwoSmStage(traced("umma_tile"), k_tile=3).stage
    assert [act for act, _ in stage["acts"]] == ["mma", "commit", "done", "free"]
    assert stage["loads"] == []
    assert TwoSmStage(traced("umma_one")).figure().png()


# ---- what it takes, and what it refuses ----


@pytest.mark.parametrize(
    ("given", "arguments", "message"),
    [
        (4, {}, "int is neither a trace nor the snapshot of one"),
        (traces.pipeline(), {}, "The trace holds no tcgen05.mma: TwoSmStage shows a k-tile"),
        ("umma_two_sm", {"pair": 1}, "The launch has pairs 0 to 0 with MMAs; there is no pair 1"),
        ("umma_two_sm", {"k_tile": 4}, "come in 4 commits, k-tiles 0 to 3; there is no k-tile 4"),
        ("umma_two_sm", {"selected": 1000}, r"The k-tile has steps 0 to \d+; there is no step 1000"),
        ("umma_two_sm", {"names": {"x": "y"}}, "No barrier of the trace has the name or offset 'x'"),
        ("umma_tma", {"pair": -1}, "The launch has CTAs 0 to 0 with MMAs; there is no CTA -1"),
    ],
)
def test_stage__refuses_in_words(given: Any, arguments: dict[str, Any], message: str) -> None:
    trace = traced(given) if isinstance(given, str) else given
    with pytest.raises(WidgetError, match=message):
        TwoSmStage(trace, **arguments)


def test_stage__refuses_mmas_that_no_commit_follows() -> None:
    run = traced("umma_two_sm")
    assert run.trace is not None
    kinds = {event.kind for event in run.trace} - {"mma.commit"}
    with pytest.raises(WidgetError, match="No commit follows the MMAs of pair 0"):
        TwoSmStage(run.trace.of(*kinds))


def test_stage__takes_a_run_a_trace_and_a_snapshot_and_prints_the_same() -> None:
    run = traced("umma_two_sm")
    assert run.trace is not None
    snap = json.loads(json.dumps(run.trace.to_snapshot()))
    made = [TwoSmStage(one, k_tile=1) for one in (run.trace, snap, Trace.from_snapshot(snap))]
    assert made[0].stage == made[1].stage == made[2].stage
    steps = len(made[0].steps)
    assert repr(made[0]) == f"TwoSmStage(umma_two_sm_0: CTA 0 and CTA 1, k-tile 1 (of 0 to 3), {steps} steps)"


def test_stage__calls_barriers_as_it_is_told() -> None:
    offset = 2 * 2 * HALF // 2
    widget = TwoSmStage(traced("umma_two_sm"), names={offset: "tma_barrier", offset + 8: "mma_barrier"})
    assert {one["name"] for one in widget.stage["barriers"]} == {"tma_barrier", "mma_barrier"}
    assert "tma_barrier of CTA 0 will count them" in " ".join(step["words"] for step in widget.steps)


def test_stage__is_small_enough_for_a_page() -> None:
    widget = TwoSmStage(traced(PIPELINE), pair=5, k_tile=3)
    assert len(json.dumps(widget.stage)) < 40_000
    assert len(widget.figure().png()) < 60_000


def test_figure__has_both_ctas_their_bytes_and_their_barriers() -> None:
    (axes,) = TwoSmStage(traced(PIPELINE)).figure().axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [
        "CTA 0 (leader)",
        "bytes landed",
        "full[0]: bytes missing",
        "empty[0]: arrivals missing",
        "CTA 1 (peer)",
        "bytes landed",
        "full[0]: bytes missing",
        "empty[0]: arrivals missing",
    ]
    words = [text.get_text() for text in axes.texts]
    assert words.count(str(2 * HALF)) == 2
    assert words.count("phase 0 ends") == 3  # the leader's bytes, and both stages free
    assert "not used: the leader's counts the bytes of both" in words
    first, second = (TwoSmStage(traced(PIPELINE)).figure().png() for _ in range(2))
    assert first == second
