"""The benchmark of 8-bit floats without a Hopper: its refusal, its kernels, its arithmetic, its result."""

import json

import numpy as np
import pytest

from benchmarks import hopper_fp8 as bench
from benchmarks.results_file import RESULTS
from cutecourse import runtime
from cutecourse.kernels import fp8_gemm
from cutecourse.runtime import Discovery

RESULT = json.loads((RESULTS / "hopper_fp8_h100.json").read_text(encoding="utf-8"))


def test_main__says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(runtime, "discover", lambda: Discovery((), None, "no NVIDIA driver was found"))
    assert bench.main([]) == 1
    assert (
        "needs a Hopper GPU, and this machine has none: no NVIDIA driver was found" in capsys.readouterr().err
    )


def test_specs__have_every_kernel_of_every_case():
    specs = bench.specs()
    assert len(specs) == 3 + len(bench.CASES) * len(bench.RUNGS)
    for case in bench.CASES:
        with_turns, without = (specs[f"{case} scaled{end}"] for end in ("_turns", ""))
        assert with_turns.host.arguments != without.host.arguments
        assert max(spec.dynamic_smem for spec in specs.values()) <= 227 * 1024
    right, wrong = bench.specs_of_race(fp8_gemm.SMS)
    assert right.text != wrong.text


def test_drift__of_exact_sums_is_none_and_a_loss_is_negative_for_both_signs():
    exact = np.full((4, 2, 2), [[8.0, -8.0], [8.0, -8.0]])
    assert bench.drift_of(exact, exact)["rms"] == [0, 0, 0]
    lost = bench.drift_of(exact * 0.75, exact)
    assert lost["k"] == [128, 256, 512]
    assert lost["bias"] == [-0.25] * 3
    assert lost["rms"] == [0.25] * 3


def test_exact_sums__are_float64s_of_the_codes():
    a, b = bench.drift_operands("normal")
    ones = np.full_like(a, 0x38), np.full_like(b, 0x38)  # 1.0 in e4m3
    found = bench.exact_sums(*ones)
    assert found.shape == (128, 64, 16)
    assert (found == 128 * np.arange(1, 129)[:, None, None]).all()
    assert len(np.unique(bench.exact_sums(a, b)[-1])) > 1000


@pytest.mark.parametrize(
    "row", RESULT["drift"], ids=lambda row: f"{row['numbers']}, promoted {row['promoted']}"
)
def test_result__has_the_models_sums_bit_for_bit(row):
    assert row["not_the_models"] == 0
    a, b = bench.drift_operands(row["numbers"])
    found = bench.drift_of(bench.model_sums(a, b, promoted=row["promoted"]), bench.exact_sums(a, b))
    assert found["rms"] == pytest.approx(row["rms"])


def test_result__has_every_contestant_in_every_case():
    for where in ("rows", "sustained"):
        names = [(tuple(row["mnk"]), row["name"]) for row in RESULT[where]]
        contestants = ("cublas", *bench.RIVALS, *bench.RUNGS)
        assert names == [(case.mnk, name) for case in bench.CASES for name in contestants]
    assert not RESULT["refused"]
