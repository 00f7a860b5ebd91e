"""The variants of the last Hopper rung, as far as they can be looked at without a GPU."""

import numpy as np
import pytest

from benchmarks.hopper_variants import SIZES, TRIALS, Variant
from cutecourse import runtime


def test_trials__have_names_of_their_own_and_a_prediction_for_each_size():
    names = [one.variant.name for one in TRIALS]
    assert len(set(names)) == len(names)
    assert all(one.predicted.keys() <= {size[0] for size in SIZES} for one in TRIALS)


@pytest.mark.parametrize("number", range(len(TRIALS)))
def test_trial__fits_into_shared_memory(number):
    assert TRIALS[number].variant.spec(SIZES[0]).dynamic_smem <= 227 * 1024


def test_variant__changes_the_constants_of_the_text():
    file = Variant(tile=(128, 192, 64), pingpong=True).file
    assert file.constant("TILE") == (128, 192, 64)
    assert file.constant("ROWS") == 128


def test_variant__multiplies_with_the_late_store():
    m, n, k = 136, 264, 72
    random = np.random.default_rng(3)
    a, b = (random.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    spec = Variant(late=True, registers=(24, 240), backwards=True, sms=2).spec((m, n, k))
    run = runtime.run(spec, device="emulator", a=a, b=b, c=np.full((m, n), np.nan, np.float16))
    assert np.array_equal(run["c"], (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))
