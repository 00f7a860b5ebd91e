"""Seeded runs of the course's kernels are paths of the model of one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import seeded_paths
from benchmarks.seeded_paths import Model, logs, small_launch
from cutecourse.kernels.files import kernel_module


@pytest.mark.parametrize("module", ["tma_multicast", "tma_pipeline", "umma_tile", "umma_gemm", "umma_two_sm"])
def test_runs__are_paths_of_the_model(module: str) -> None:
    launched = small_launch(module)
    model = Model(logs(launched, 0))
    assert model.events
    for seed in range(1, 4):
        assert model.has_path(logs(launched, seed)), seed


def test_runs__in_which_a_warp_comes_to_a_barrier_in_two_parts_are_paths() -> None:
    launched = small_launch("attention_pingpong")
    model = Model(logs(launched, 0))
    assert model.has_path(logs(launched, 26))


def test_model__refuses_what_is_no_path() -> None:
    launched = small_launch("umma_tile")
    run = logs(launched, 0)
    model = Model(run)
    ((block, log),) = run.items()
    assert model.has_path({block: log})
    assert not model.has_path({block: log[:-1]})
    assert not model.has_path({block: log[::-1]})
    later = log[0]._replace(phase=log[0].phase + 1)
    assert not model.has_path({block: [later, *log[1:]]})
    assert not model.has_path({})


def test_kept_runs__are_paths_and_use_each_stage_often_enough() -> None:
    kept = json.loads(seeded_paths.RESULT.read_text(encoding="utf-8"))
    assert {"hopper_last", "tma_multicast_pipeline", "umma_persistent"} <= {
        row["module"] for row in kept["rows"]
    }
    for row in kept["rows"]:
        assert row["paths"] == len(range(*row["seeds"])), row
        if row["module"] in seeded_paths.SMALL or hasattr(kernel_module(row["module"]), "STAGES"):
            assert row["turns"] >= seeded_paths.LEAST_TURNS or row["module"] == "tma_prefetch", row


def part(first: int, end: int, **changes: int) -> dict[str, Any]:
    row = {"module": "a", "events": 4, "turns": 3, "seeds": [first, end], "paths": end - first, **changes}
    return {"recorded": {}, "rows": [row]}


def test_parts__are_put_together() -> None:
    whole = seeded_paths.merged([part(11, 31), part(1, 11)])
    assert whole == part(1, 31)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (part(12, 31), "none may be missing or there twice"),
        (part(10, 31), "none may be missing or there twice"),
        (part(11, 31, events=5), "other events"),
    ],
)
def test_parts_that_do_not_fit__are_refused(second: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        seeded_paths.merged([part(1, 11), second])


def test_a_part__runs_the_seeds_after_another_one(tmp_path: Path) -> None:
    parts = [str(tmp_path / f"{n}.json") for n in range(3)]
    seeded_paths.main(["--only", "umma_one", "--seeds", "1:3", "--output", parts[0]])
    seeded_paths.main(["--only", "umma_one", "--seeds", "1:5", "--after", parts[0], "--output", parts[1]])
    seeded_paths.main(["--merge", *parts[:2], "--output", parts[2]])
    (row,) = json.loads(Path(parts[2]).read_text(encoding="utf-8"))["rows"]
    assert (row["seeds"], row["paths"]) == ([1, 5], 4)
