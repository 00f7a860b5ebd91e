"""The memory report beside what Nsight Compute counted on an H200, recorded by benchmarks.memory_counters."""

import json
from collections import defaultdict

import pytest

from benchmarks import memory_counters
from benchmarks.memory_counters import COUNTERS, EXPLANATIONS, Case, counted
from benchmarks.results_file import RESULTS

RECORDED = json.loads((RESULTS / "memory_counters_h200.json").read_text())
SLOW = {"gemm_first", "gemm_ldmatrix", "gemm_stages", "gemm_registers", "gemm_any", "gemm_tiles"}
"""Kernels that take long to compile; others do the same."""


def by_launch(which):
    """What the file says, by launch and counter."""
    found = defaultdict(dict)
    for row in RECORDED["rows"]:
        found[row["kernel"]][row["counter"]] = row[which]
    return found


def test_counters__were_read_for_every_launch():
    assert len(by_launch("measured")) >= 20
    assert set(by_launch("measured")) == {case.name for case in memory_counters.cases()}
    assert {row["counter"] for row in RECORDED["rows"]} == {counter.name for counter in COUNTERS}


def test_counters__the_report_still_counts_what_was_compared():
    recorded = by_launch("counted")
    for case in memory_counters.cases():
        if case.name not in SLOW:
            found = {name: count for name, count in counted(case).items() if count}
            assert found == {name: n for name, n in recorded[case.name].items() if n}, case.name


def test_counters__agree_or_have_an_explanation():
    known = {each.text for each in EXPLANATIONS}
    for row in RECORDED["rows"]:
        assert (row["counted"] == row["measured"]) == ("explanation" not in row), row
        assert row.get("explanation") in {None, *known}, row
        assert row["counted"] == row["measured"] or row["explanation"], row
    explained = {row.get("explanation") for row in RECORDED["rows"]} - {None}
    assert explained == known


def test_counters__of_plain_loads_and_stores_agree_without_exception():
    plain = ("ld.", "st.", "ldmatrix", "stmatrix", "red.global", "atom")
    rows = [row for row in RECORDED["rows"] if row["kernel"].startswith(plain)]
    assert len(rows) > 200
    assert [row for row in rows if row["counted"] != row["measured"]] == []


def test_comparison__a_difference_that_nobody_explains_is_an_error(monkeypatch, capsys):
    one = next(case for case in memory_counters.cases() if case.name == "st.shared.b32, stride 2")
    monkeypatch.setattr(memory_counters, "cases", lambda: [Case(one.name, one.spec, one.arrays)])
    measured = {
        "global load sectors": 4,
        "global load requests": 1,
        "shared store wavefronts": 2,
        "shared store conflicts": 1,
    }
    right = memory_counters.rows({one.name: measured})
    assert memory_counters.show(right) == 0
    wrong = memory_counters.rows({one.name: {**measured, "shared store wavefronts": 32}})
    assert memory_counters.show(wrong) == 1
    assert "NOT EXPLAINED" in capsys.readouterr().out


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
def test_counters__name_the_metrics_that_they_are_made_of(counter):
    values = {each.removeprefix("-"): 10 for each in counter.metrics}
    signs = [-1 if each.startswith("-") else 1 for each in counter.metrics]
    assert counter.measured(values) == 10 * sum(signs)
    assert all(each.removeprefix("-") in counter.metric for each in counter.metrics)
