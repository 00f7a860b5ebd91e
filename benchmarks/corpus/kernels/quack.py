"""QuACK: reductions in the CuTe DSL."""

from __future__ import annotations

import numpy as np

from benchmarks.corpus.entries import dsl_kernels
from benchmarks.corpus.problems import Draw, Problem, Shaped, Tensor, poisoned
from benchmarks.corpus.reference import log_softmax, rstd, softmax

kernel = dsl_kernels("quack")
F16, F32, S32, S64 = ({"type": name} for name in ("Float16", "Float32", "Int32", "Int64"))
ROWS, N = 20, 256
BOTH = ("90a", "100a")


def _rows(tensor: Tensor) -> Shaped:
    return Shaped(tensor, extents=(0,), strides=(0,))


def _vector(tensor: Tensor) -> Shaped:
    return Shaped(tensor, extents=(0,), strides=())


@kernel("quack.softmax:Softmax.compile", [F16, F16, N], BOTH)
def softmax_forward(draw: Draw) -> Problem:
    x = draw.normal(ROWS, N, kind="f16")
    args = [_rows(x), _rows(poisoned(softmax(x.values), "f16"))]
    return Problem(5, args, block=128, smem_bytes=1 << 15)
