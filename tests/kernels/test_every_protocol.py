"""The kept comparison of `prove` with a search, and parts of it computed again."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import chain

from benchmarks import every_protocol, silent_mutants
from benchmarks.every_protocol import compared, disagrees, random_protocol
from benchmarks.signal_protocols import RIGHT
from benchmarks.signals import mutants

KEPT = json.loads(every_protocol.RESULT.read_text(encoding="utf-8"))
SILENT = json.loads(silent_mutants.RESULT.read_text(encoding="utf-8"))


def test_kept_counts__are_of_all_protocols() -> None:
    counts: Counter[str] = Counter()
    for what, number in KEPT["counts"].items():
        counts[re.split(" (?:right|wrong) ", what)[0]] += number
    assert counts == Counter(kind for kind, _ in every_protocol.protocols(every_protocol.RANDOM, 1))
    assert sum(n for what, n in KEPT["counts"].items() if "incomplete" in what) <= len(KEPT["disagree"])


def test_false_verdicts_of_the_kept_run__are_right_now() -> None:
    false = {row["name"] for row in KEPT["disagree"] if row["verdict"] != "incomplete"}
    again = [one for one in chain.from_iterable(map(mutants, RIGHT)) if one.name in false]
    assert len(again) == len(false)
    for one in again:
        assert not disagrees(compared("mutant", one)), one.name


def test_random_protocols__get_the_verdict_of_the_search() -> None:
    for seed in range(20):
        row = compared("random", random_protocol(seed))
        assert not disagrees(row), row


def test_silent_mutants__with_a_counterexample_gave_right_results() -> None:
    late = [row for row in SILENT["rows"] if row["verdict"] == "counterexample"]
    assert {"umma_tma", "umma_two_sm"} <= {row["kernel"] for row in late}
    assert SILENT["counts"] == silent_mutants.counts(SILENT["rows"])
