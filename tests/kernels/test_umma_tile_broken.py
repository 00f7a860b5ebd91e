"""The one-tile GEMM's faults: each is reported for what it is, or, where no rule is broken, only wrong."""

import numpy as np
import pytest

from cutecourse.emulator import EmulatorError
from cutecourse.emulator.errors import (
    BarrierCountError,
    DeadlockError,
    MissingProxyFence,
    OverwrittenSource,
    SharedMemoryRace,
    TensorMemoryAccessError,
    TensorMemoryHazard,
    TensorMemoryLeak,
    UninitializedRead,
)
from cutecourse.kernels import umma_tile_broken
from cutecourse.kernels.spec import SpecError
from cutecourse.runtime import run

REPORTS = {
    "no_proxy_fence": MissingProxyFence,
    "no_wait": (SharedMemoryRace, OverwrittenSource),
    "parity_never_flipped": (SharedMemoryRace, OverwrittenSource),
    "never_cleared": UninitializedRead,
    "wrong_lanes": TensorMemoryAccessError,
    "every_warp_multiplies": (OverwrittenSource, TensorMemoryHazard, BarrierCountError),
    "allocated_twice": DeadlockError,
    "not_freed": TensorMemoryLeak,
}
SILENT = ("every_k_tile_cleared",)


def product(spec):
    a, b = (np.random.default_rng(i).integers(-4, 5, (128, 256)).astype(np.float16) for i in (1, 2))
    result = run(spec, device="emulator", a=a, b=b, c=np.zeros((128, 128), np.float32))["c"]
    return result, a, b


@pytest.mark.parametrize("name", REPORTS)
def test_fault__is_reported(name):
    with pytest.raises(EmulatorError) as report:
        product(umma_tile_broken.broken(name))
    assert isinstance(report.value, REPORTS[name])


@pytest.mark.parametrize("name", SILENT)
def test_fault_without_a_broken_rule__leaves_the_last_k_tile(name):
    result, a, b = product(umma_tile_broken.broken(name))
    last = a[:, 192:].astype(np.float32) @ b[:, 192:].T.astype(np.float32)
    assert np.array_equal(result, last)


def test_every_fault_is_tried():
    assert set(REPORTS) | set(SILENT) == set(umma_tile_broken.FAULTS)


def test_broken__refuses_a_name_that_is_none():
    with pytest.raises(SpecError, match="no_wait"):
        umma_tile_broken.broken("none")
