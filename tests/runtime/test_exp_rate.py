"""The loops of `benchmarks.exp_rate` on the emulator, at a few turns."""

import numpy as np
import pytest

from benchmarks.exp_rate import CASES, POWERS, LoopMix, mix_spec, powers_after
from cutecourse import runtime


def outcome(mix, turns=3):
    groups = mix.mma_groups + mix.exp_groups
    given = {"powers": np.zeros(128 * groups, np.float32), "cycles": np.zeros(groups, np.uint64)}
    turns = {"mma_turns": np.uint32(turns), "exp_turns": np.uint32(turns)}
    return runtime.run(mix_spec(1, mix), device="emulator", **given, **turns)["powers"].reshape(groups, 128)


@pytest.mark.parametrize("work", ["powers", "softmax"])
def test_mix__multiplies_and_takes_powers(work):
    multiplied, powers = outcome(LoopMix(1, 1, work))
    assert (multiplied == 8 * 16).all()  # a row of ones times a row of ones, 16 long, eight times
    steps = [powers_after(turn + 1) for turn in range(3)]
    wanted = POWERS * (steps[-1] if work == "powers" else sum(steps))
    assert np.abs(powers - wanted).max() <= 1e-4


def test_cases__have_predictions_for_what_they_measure():
    for mix, (powers, fmas) in CASES.items():
        assert (powers is not None) == (mix.exp_groups > 0)
        assert (fmas is not None) == (mix.mma_groups > 0)
