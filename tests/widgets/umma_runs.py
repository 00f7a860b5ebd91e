"""Runs of the tcgen05 kernels with their traces, each once a process."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from cutecourse import runtime
from cutecourse.kernels import twin
from cutecourse.kernels.faults import change_of
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


@functools.cache
def stored(
    name: str, *changes: str, mnk: tuple[int, int, int] = (256, 768, 64), off: tuple[str, ...] = ()
) -> runtime.Run:
    """Run the twin of a kernel of chapter 14 on zeros with these changes, and without the hazards `off`."""
    spec = kernel_module(name).spec(*mnk)
    for change in changes:
        spec = spec.with_fault(change_of(name, change))
    arrays = {
        one.name: np.zeros(one.extents, np.uint16 if one.name == "d" else np.float16) for one in spec.tensors
    }
    return runtime.run(twin(spec), device="emulator", trace=True, hazards=dict.fromkeys(off, "off"), **arrays)


def recorded(name: str) -> Trace:
    """The trace of a kernel."""
    trace = traced(name).trace
    assert trace is not None
    return trace


def snapshot(name: str) -> dict[str, Any]:
    """The trace of a kernel as plain data."""
    return recorded(name).to_snapshot()
