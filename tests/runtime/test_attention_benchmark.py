"""The benchmark of attention without a GPU: its cases, its variants, its table."""

import json
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from benchmarks import attention as bench
from benchmarks.attention_variants import TRIALS
from benchmarks.results_file import result_path
from cutecourse import runtime

SMEM_BYTES = 227 * 1024
"""What a CTA of a Hopper GPU may have."""


def test_flops__are_half_where_causal():
    assert bench.flops((4096, False)) == 2 * bench.flops((4096, True)) == 4 * 4 * 16 * 4096**2 * 128


def test_trials__fit_into_shared_memory_and_have_names_of_their_own():
    assert len({trial.name for trial in TRIALS}) == len(TRIALS) >= 12
    assert all(trial.predicted > 0 for trial in TRIALS)
    assert all(trial.spec((4096, 16, 4)).dynamic_smem <= SMEM_BYTES for trial in TRIALS)


@pytest.mark.parametrize(
    "name",
    [
        "pairs share K and V",
        pytest.param("three consumers", marks=pytest.mark.long),
        pytest.param("wait moved up", marks=pytest.mark.long),
        pytest.param("causal, 4 heads together", marks=pytest.mark.long),
        pytest.param("a power in 4 by a polynomial", marks=pytest.mark.long),
    ],
)
def test_trial__computes_attention(name):
    trial = next(one for one in TRIALS if one.name == name)
    shape = (1, 140, 1, 128)
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for _ in range(3))
    arrays = dict(zip("qkvo", (q, k, v, np.full(shape, np.nan, ml_dtypes.bfloat16)), strict=True))
    arrays = {one: array.transpose(1, 3, 2, 0) for one, array in arrays.items()}
    counter = np.zeros(1, np.int32)
    run = runtime.run(trial.spec((140, 1, 1)), device="emulator", **arrays, counter=counter)
    q, k, v = (one[0, :, 0].astype(np.float64) for one in (q, k, v))
    s = q @ k.T / np.sqrt(128)
    if trial.how.causal:
        s = np.where(np.tril(np.ones(s.shape, bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    off = run["o"][:, :, 0, 0].astype(np.float64) - p @ v / p.sum(-1, keepdims=True)
    assert np.linalg.norm(off) <= bench.OFF * np.linalg.norm(p @ v / p.sum(-1, keepdims=True))


def test_main__says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(runtime, "discover", lambda: SimpleNamespace(devices=(), reason="no driver"))
    assert bench.main([]) == 1
    assert "a Hopper GPU (compute capability 9.0): no driver" in capsys.readouterr().err


def test_table__puts_the_fastest_first():
    result = json.loads(result_path("attention", "NVIDIA H100 80GB HBM3").read_text(encoding="utf-8"))
    for case in [(length, causal) for length in bench.LENGTHS for causal in (False, True)]:
        rows = [row for row in result["rows"] if (row["length"], row["causal"]) == case]
        lines = bench.table(case, rows).splitlines()[1:]
        rates = [float(line.split()[0]) for line in lines]
        assert len(rates) >= 4
        assert rates == sorted(rates, reverse=True)
