"""A sample of the mutation suite on the emulator: the mistakes are reported, under names that fit."""

import json
from collections import Counter

import pytest

from benchmarks import mutants, results_file
from benchmarks.mutation.families import families
from benchmarks.mutation.rule import mutants_of
from benchmarks.mutation.rules import RULES
from benchmarks.mutation.running import OUTCOMES, names
from benchmarks.results_file import result_path

pytestmark = pytest.mark.compilers

LARGE = {"attention_last", "tma_cluster_loads", "umma_gemm 2x2", "umma_tma_multicast 2x2", "umma_tile"}
"""Kernels that take longest; the whole suite has them."""


@pytest.fixture(scope="module")
def kernels():
    return families()


def test_rules__make_a_mutant_each_of_some_kernel(kernels):
    made, excluded = Counter(), Counter()
    for family in kernels:
        for mutant in mutants_of(family.kernel, RULES):
            (excluded if mutant.excluded else made)[mutant.rule.name] += 1
            assert mutant.excluded or mutant.maps or mutant.text != family.kernel.text
    never = {"relinquish dropped"}
    """The permit is given back by the kernel's end."""
    assert {rule.name for rule in RULES} - set(made) == never
    assert never <= set(excluded)
    assert made.total() >= 1500


def test_sample__is_reported_and_named(kernels):
    small = [family for family in kernels if family.name not in LARGE]
    found = mutants.measure(small, limit=90)
    rows = [row for row in found["rows"] if not row["beyond"]]
    assert len(rows) >= 60
    assert len({row["rule"] for row in rows}) >= 60
    counts = mutants.figures(rows)
    assert counts["caught"] >= 0.9, mutants.table(rows, "rule")
    assert counts["right_class"] >= 0.8, mutants.table(rows, "rule")


def test_main__keeps_a_part_only_where_it_is_told(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(results_file, "RESULTS", tmp_path)
    monkeypatch.setattr(mutants, "families", list)
    assert mutants.main(["--limit", "5"]) == 0
    assert not list(tmp_path.iterdir())
    assert mutants.main(["--limit", "5", "--output", str(tmp_path / "part.json")]) == 0
    assert mutants.main([]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mutants.json", "part.json"]


def test_main__fewer_seeds_of_right_kernels_do_not_take_the_hundreds_place(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(results_file, "RESULTS", tmp_path)
    found = {"kernels": 0, "launches": 0, "problems": []}
    monkeypatch.setattr(mutants, "right_under", lambda seeds, processes: {"seeds": seeds, **found})
    assert mutants.main(["--right"]) == 0
    assert mutants.main(["--right", "--seeds", "5"]) == 0
    assert mutants.main(["--right", "--seeds", "5", "--output", str(tmp_path / "part.json")]) == 0
    seeds = {path.name: json.loads(path.read_text())["right_kernels"]["seeds"] for path in tmp_path.iterdir()}
    assert seeds == {"mutants.json": 100, "part.json": 5}


def test_results__follow_from_their_rows_and_right_kernels_reported_nothing():
    kept = mutants.read_results(result_path("mutants"))
    sets = {name: set(rule["right"]) for name, rule in kept["rules"].items()}
    assert sets == {rule.name: rule.right for rule in RULES}, "run python -m benchmarks.mutants again"
    for row in kept["rows"]:
        named = any(names(report) & sets[row["rule"]] for report in row["reports"])
        assert (row["outcome"] == "right") == named, row
        assert (row["outcome"] in {"wrong", "harmless"}) == (not row["reports"]), row
    inside = Counter(row["outcome"] for row in kept["rows"] if not row["beyond"])
    counts = kept["counts"]["named"]
    assert {name: counts[name] for name in OUTCOMES} == {name: inside[name] for name in OUTCOMES}
    total = inside.total() - inside["harmless"]
    assert counts["caught"] == round((inside["right"] + inside["other"]) / total, 4) >= 0.97
    assert counts["right_class"] == round(inside["right"] / total, 4) >= 0.97
    # All of them, and what the page shows beside these.
    assert kept["counts"] == mutants.summary({**kept, "made": len(kept["rows"])})
    kernels = kept["right_kernels"]
    assert kernels["problems"] == []
    assert kernels["seeds"] >= 100
    assert kernels["kernels"] == len({row["kernel"] for row in kept["rows"]})
    assert kernels["launches"] == kernels["kernels"] * kernels["seeds"]
