"""The variants of page 15c's last rung, as far as they can be looked at without a GPU."""

import numpy as np
import pytest
from kernels.test_fp8_kernels import BF16, BLOCK, operands

from benchmarks import fp8_variants as bench
from benchmarks.fp8_variants import TRIALS
from cutecourse import runtime

WITH_OPTIONS = [one for one in TRIALS if one.how is not None]


def test_trials__have_names_of_their_own_and_a_case():
    names = [one.name for one in TRIALS]
    assert len({*names, bench.RUNG, bench.DEEPGEMM}) == len(names) + 2
    assert all(len(one.cases()) == len(one.predicted) > 0 for one in TRIALS)


@pytest.mark.parametrize("trial", WITH_OPTIONS, ids=lambda one: one.name)
def test_trial__fits_into_shared_memory_and_its_loop_into_k(trial):
    for case in trial.cases():
        assert trial.spec(case).dynamic_smem <= 227 * 1024
        k_tiles = case.mnk[2] // BLOCK
        assert k_tiles % (8 if trial.how.pending else trial.how.stages if trial.how.fixed else 1) == 0


@pytest.mark.parametrize("trial", WITH_OPTIONS, ids=lambda one: one.name)
def test_trial__stores_a_piece_of_the_next_tile_in_the_buffer_that_is_free(trial):
    """`store` counts the pieces of a tile: the buffers must go round with them."""
    assert trial.how.tile[1] // trial.how.piece % trial.how.buffers == 0


@pytest.mark.compilers
@pytest.mark.sample(2)
@pytest.mark.parametrize("trial", WITH_OPTIONS, ids=lambda one: one.name)
def test_trial__multiplies_ragged_sizes_from_tile_to_tile(trial):
    how = trial.how._replace(sms=2)
    m, n, _ = mnk = 140, 2 * how.tile[1] + 8, 1024
    a, b, scale_a, scale_b = operands(mnk, seed=1)
    left = a.astype(np.float64) * np.repeat(scale_a, BLOCK, axis=1)
    right = b.astype(np.float64) * np.repeat(np.repeat(scale_b, BLOCK, axis=0), BLOCK, axis=1)[:n]
    arrays = {"a": a, "b": b, "c": np.full((m, n), np.nan, BF16), "scale_a": scale_a, "scale_b": scale_b}
    run = runtime.run(bench.spec(*mnk, how), device="emulator", seed=1, **arrays)
    np.testing.assert_array_equal(
        run["c"].astype(np.float32), (left @ right.T).astype(BF16).astype(np.float32)
    )
    assert {note.hazard.name for note in run.notes} <= {"fill multiplied", "grid dependency"}
