"""A GEMM of one thread for each element of C, for numba's CUDA simulator.

The simulator puts its own `cuda` into the kernel's module while the kernel runs, so the kernel has a module
of its own. NUMBA_ENABLE_CUDASIM=1 has to be in the environment before this is imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

__all__ = ["BLOCK", "simulated_gemm"]

BLOCK = (16, 16)


@cuda.jit  # type: ignore[untyped-decorator]
def simulated_gemm(a: Any, b: Any, c: Any) -> None:
    """C (M, N) = A (M, K) times B (N, K) transposed."""
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += np.float32(a[row, k]) * np.float32(b[column, k])
        c[row, column] = total
