"""The choices for the last Hopper rung, as far as they can be looked at without a GPU."""

from collections import Counter
from unittest.mock import MagicMock

import pytest

from benchmarks import hopper_choices as bench
from benchmarks import hopper_gemm
from benchmarks.hopper_choices import TRIALS
from benchmarks.power import Reading
from cutecourse import runtime


def test_trials__have_names_of_their_own_at_each_size():
    assert max(Counter((one.mnk, one.name) for one in TRIALS).values()) == 1


@pytest.mark.parametrize("number", range(len(TRIALS)))
def test_trial__fits_into_shared_memory_and_asks_l2_for_what_it_says(number):
    spec = TRIALS[number].spec
    assert spec.dynamic_smem <= 227 * 1024
    assert {param.encoding.l2_promotion for param in spec.params} == {TRIALS[number].promotion}


def test_measure__keeps_a_row_for_each_choice_and_says_which_are_wrong(monkeypatch):
    class Bench:
        def __init__(self, case):
            self.case, self.launches, self.sets = case, 4, []
            self.cublas = hopper_gemm.Contestant("cublas", "rival", "PyTorch's choice", print)

        def ready(self, one):
            if "none" in one.name:
                raise runtime.GpuError("3 elements of C are wrong")
            return one

        def rate(self, seconds):
            return 1 / seconds

    def alternating(cases, rounds):
        return {name: [0.002 if name == "cublas" else 0.001] * rounds for name in cases}

    monkeypatch.setattr(bench, "Bench", Bench)
    monkeypatch.setattr(bench, "Loaded", MagicMock())
    monkeypatch.setattr(bench, "alternating", alternating)
    monkeypatch.setattr(hopper_gemm, "sustain", lambda *_: Reading(1e-3, 1400.0, 690.0, 2.0))
    kept = []
    bench.measure([None] * len(TRIALS), 1.0, lambda rows, refused: kept.append((list(rows), dict(refused))))
    rows, refused = kept[-1]
    wrong = [one for one in TRIALS if "none" in one.name]
    assert len(kept) == len({one.mnk for one in TRIALS})
    assert len(refused) == len(wrong)
    chosen = [row for row in rows if row["name"] != "cublas"]
    assert [row["name"] for row in chosen] == [one.name for one in TRIALS if one not in wrong]
    assert all(row["ratio"] == pytest.approx(2) for row in chosen)
    assert all(row["sustained"]["ratio"] == pytest.approx(1) for row in rows)
    assert all(row["name"] in bench.table(rows) for row in chosen)
