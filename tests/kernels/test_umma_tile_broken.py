"""The one-tile GEMM with a fault that breaks no rule of the order: it has the result that the fault says."""

import numpy as np
import pytest

from cutecourse.kernels import umma_tile_broken
from cutecourse.kernels.spec import SpecError
from cutecourse.runtime import run


def test_every_k_tile_cleared__leaves_the_last_k_tile():
    a, b = (np.random.default_rng(i).integers(-4, 5, (128, 256)).astype(np.float16) for i in (1, 2))
    spec = umma_tile_broken.broken("every_k_tile_cleared")
    result = run(spec, device="emulator", a=a, b=b, c=np.zeros((128, 128), np.float32))["c"]
    last = a[:, 192:].astype(np.float32) @ b[:, 192:].T.astype(np.float32)
    assert np.array_equal(result, last)


def test_broken__refuses_a_name_that_is_none():
    with pytest.raises(SpecError, match="no_wait"):
        umma_tile_broken.broken("none")
