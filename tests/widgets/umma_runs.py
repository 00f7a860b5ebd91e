"""Runs of the tcgen05 kernels with their traces, each once a process."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from cutecourse import runtime
from cutecourse.kernels.files import kernel_module
from cutecourse.trace import Trace
from tools.cases.element_arrays import array_type


@functools.cache
def traced(name: str, seed: int = 0) -> runtime.Run:
    """Run a kernel on the emulator, check its product, and return the run."""
    spec = kernel_module(name).LAUNCH
    a, b, c = spec.arguments.values()
    random = np.random.default_rng(1)
    given: list[Any] = [
        random.integers(-8, 8, one.extents, endpoint=True).astype(array_type(one.dtype)) for one in (a, b)
    ]
    run = runtime.run(
        spec,
        device="emulator",
        seed=seed,
        trace=True,
        a=given[0],
        b=given[1],
        c=np.zeros(c.extents, np.float32),
    )
    np.testing.assert_array_equal(run["c"], given[0].astype(np.float32) @ given[1].astype(np.float32).T)
    return run


def recorded(name: str) -> Trace:
    """The trace of a kernel."""
    trace = traced(name).trace
    assert trace is not None
    return trace


def snapshot(name: str) -> dict[str, Any]:
    """The trace of a kernel as plain data."""
    return recorded(name).to_snapshot()
