"""The kept table of how much a report depends on the seed: its rows, and a part of it measured again."""

from __future__ import annotations

import json

import pytest

from benchmarks import luck

KEPT = json.loads(luck.RESULT.read_text(encoding="utf-8"))
ROWS = {(row["module"], row["fault"]): row for row in KEPT["rows"]}


def test_table__has_every_fault_that_runs_without_a_compiler() -> None:
    assert list(ROWS) == [(module, fault.name) for module, fault in luck.runnable()]
    assert KEPT["seeds"] == luck.SEEDS == 50
    assert all(sum(row["kinds"].values()) == 50 and row["first"] in row["kinds"] for row in KEPT["rows"])


@pytest.mark.parametrize(
    ("module", "name"),
    [("umma_one.faults", "mma_not_waited"), ("tma_broken", "no_wait"), ("tma_broken", "stage_reused")],
)
def test_table__is_what_the_faults_show_now(module: str, name: str) -> None:
    fault = next(one for where, one in luck.runnable() if (where, one.name) == (module, name))
    found, row = luck.seen(module, fault, range(8)), ROWS[module, name]
    assert found[0] == row["first"]
    assert set(found) <= set(row["kinds"])


def test_table__counts_what_each_seed_shows() -> None:
    rows = [
        {"first": "A", "kinds": {"A": 2}, "named": ["A"]},
        {"first": "A", "kinds": {"A": 1, "B": 1}, "named": ["A", "B"]},
        {"first": "", "kinds": {"A": 1, "": 1}, "named": ["A"]},
    ]
    lines = [line.split() for line in luck.table(rows, 2).splitlines()]
    assert lines[1:] == [["A", "2", "2", "1"], ["nothing", "1", "0", "0"], ["all", "3", "2", "1"]]
