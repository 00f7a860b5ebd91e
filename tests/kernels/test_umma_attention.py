"""Attention with tensor memory against float64, on the emulator; no Blackwell has run it."""

import numpy as np
import pytest

from cutecourse.emulator import errors, prove
from cutecourse.kernels import SpecError, umma_attention
from cutecourse.kernels.faults import faults_of
from cutecourse.kernels.files import kernel_module
from cutecourse.runtime import launch_of, run

faults = kernel_module("umma_attention.faults")
REPORTED = [name for name, fault in faults_of("umma_attention").items() if fault.reports]
CLOSE = 2.0**-9  # P and O are rounded to f16; the largest |O| here is below 4


def attended(spec, **where):
    """Run the kernel; the largest error of O. Nothing is noted."""
    given, expected = faults.operands(spec, seed=1)
    outcome = run(spec, device="emulator", **given, **where)
    assert not outcome.notes
    return np.abs(outcome["o"] - expected).max()


@pytest.mark.parametrize(
    ("heads", "length", "causal"),
    [
        (1, 1, False),
        (2, 65, False),  # keys that end one behind a tile
        (1, 300, False),  # five tiles of keys: both phases of every stage; the second CTA has no second tile
        (2, 1, True),
        (1, 129, True),
        (2, 258, True),
    ],
)
def test_attention__is_right_for_ragged_sizes(heads, length, causal):
    assert attended(umma_attention.spec(heads, length, causal=causal)) < CLOSE


def test_attention__is_right_where_every_score_is_far_below_zero():
    """A row's maximum begins at minus infinity, so keys that do not exist must not count as scores of 0."""
    spec = umma_attention.spec(1, 70)
    given, _ = faults.operands(spec, seed=2)
    given["q"][:], given["k"][:] = 16, -16  # every score is -2048, and every key weighs the same
    outcome = run(spec, device="emulator", **given)
    mean = given["v"].astype(np.float64).mean(1)
    assert np.abs(outcome["o"] - mean).max() < CLOSE


@pytest.mark.parametrize("seed", range(1, 4))
def test_attention__is_silent_under_seeds(seed):
    assert attended(umma_attention.CAUSAL, seed=seed) < CLOSE


def test_attention__goes_right_in_every_order():
    spec = umma_attention.spec(1, 136)
    given, _ = faults.operands(spec, seed=1)
    proof = prove(**launch_of(spec, **given))
    assert proof.proved
    assert proof.phases


def test_mmas__of_the_two_tiles_take_turns():
    """S of both tiles first; then O and the next S of each tile, and at the end O of both."""
    given, _ = faults.operands(umma_attention.spec(1, 136), seed=1)
    outcome = run(umma_attention.spec(1, 136), device="emulator", trace=True, **given)
    columns = [int(str(event["d"]), 0) & 0xFFFF for event in outcome.trace.of("mma.issue")]
    s, o = (0, 64), (128, 192)
    rounds = [s[0], s[1], *(2 * [o[0], s[0], o[1], s[1]]), o[0], o[1]]
    assert columns == [column for column in rounds for _ in range(4)]


@pytest.mark.parametrize("name", REPORTED)
def test_fault__is_reported(name):
    """Under one seed; the kept table of benchmarks/luck.py has fifty."""
    fault = faults_of("umma_attention")[name]
    given, _, _ = faults.arguments(0)
    named = tuple(getattr(errors, kind) for kind in fault.reports)
    try:
        outcome = run(faults.LAUNCH.with_fault(fault), device="emulator", seed=1, **given)
        assert {note.hazard.kind for note in outcome.notes} & set(named)
    except named:
        pass


def test_faults__that_nothing_reports_give_wrong_numbers():
    given, name, expected = faults.arguments(0)
    assert np.abs(run(faults.LAUNCH, device="emulator", **given)[name] - expected).max() < CLOSE
    for fault in faults.FAULTS.values():
        if not fault.reports:
            outcome = run(faults.LAUNCH.with_fault(fault), device="emulator", **given)
            assert (np.abs(outcome[name] - expected) > 4 * CLOSE).mean() > 0.1, fault.name


@pytest.mark.parametrize(("heads", "length"), [(0, 8), (1, 0)])
def test_spec__refuses_nothing_to_do(heads, length):
    with pytest.raises(SpecError, match="it needs one of each at least"):
        umma_attention.spec(heads, length)
