"""copy_predicated for a matrix of 50x300: right, and with one thing wrong at a time.

The result has `SPARE` more rows than the source. They belong to somebody else, and a kernel that writes too
much writes there. So the wrong kernels stay within memory that the launch owns, on a GPU as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cutecourse.kernels import copy_predicated
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.spec import LaunchSpec, Tensor

SHAPE = (50, 300)
SPARE = 15

FAULTS = by_name(
    __name__,
    Fault(
        "no_wait",
        "a thread reads shared memory without waiting for its cp.async",
        source=(("        cute.arch.cp_async_wait_group(VECTORS - 1 - i)\n", ""),),
        twin=tuple((f"cp.async.wait_group {left};", "") for left in (3, 2, 1, 0)),
        reports=("UninitializedRead",),
    ),
    Fault(
        "unguarded_tail",
        "every vector counts as inside the matrix",
        source=(("cute.elem_less(tScS[0, i, 0], mS.shape)", "cutlass.Boolean(True)"),),
        twin=tuple(
            (
                f"setp.gt.and.s32     %p{i}, %left, {8 * i}, %inside_n;",
                f"setp.eq.u32         %p{i}, 0, 0;",
            )
            for i in range(4)
        ),
        reports=("AddressError",),
    ),
)

RIGHT = replace(
    copy_predicated.spec(*SHAPE),
    name="copy_guarded",
    params=(
        Tensor("source", "f32", SHAPE, (SHAPE[1], 1)),
        Tensor("result", "f32", (SHAPE[0] + SPARE, SHAPE[1]), (SHAPE[1], 1)),
    ),
)
LAUNCH = RIGHT


def broken(fault: str) -> LaunchSpec:
    """The launch with one fault. Errors: SpecError for a name that is none of `FAULTS`."""
    return RIGHT.with_fault(FAULTS[fault], f"copy_{fault}")


def arguments(seed: int) -> tuple[dict[str, Any], str, np.ndarray[Any, Any]]:
    """A random source, a result that nothing has been copied to, and what the result should be."""
    rows, columns = SHAPE
    source = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
    result = -np.arange(1, (rows + SPARE) * columns + 1, dtype=np.float32).reshape(-1, columns)
    expected = result.copy()
    expected[:rows] = source
    return {"source": source, "result": result}, "result", expected
