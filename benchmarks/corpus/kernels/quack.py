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


@kernel("quack.softmax:SoftmaxBackward.compile", [F16, F16, F16, N], BOTH)
def softmax_backward(draw: Draw) -> Problem:
    y, dy = Tensor(softmax(draw.normal(ROWS, N).values), "f16"), draw.normal(ROWS, N, kind="f16")
    dx = y.values * (dy.values - (y.values * dy.values).sum(1, keepdims=True))
    return Problem(5, [_rows(dy), _rows(y), _rows(poisoned(dx, "f16"))], block=128, smem_bytes=1 << 15)


@kernel("quack.softmax:Softmax.compile", [F32, F32, 65536])
def softmax_of_a_cluster(draw: Draw) -> Problem:
    x = draw.normal(1, 65536)
    args = [_rows(x), _rows(poisoned(softmax(x.values), "f32"))]
    return Problem((1, 2), args, block=256, cluster=(1, 2), smem_bytes=200 << 10)


def _norm(draw: Draw, is_layernorm: bool) -> Problem:
    x, w = draw.normal(ROWS, N, kind="f16", shift=float(is_layernorm)), draw.normal(N)
    mean = x.values.mean(1, keepdims=True) if is_layernorm else np.zeros((ROWS, 1))
    root = rstd(x.values - mean, 1e-5)
    out = poisoned((x.values - mean) * root * w.values, "f16")
    means = [_vector(poisoned(mean[:, 0], "f32"))] if is_layernorm else []
    constant = Shaped(w, extents=(), strides=())
    rows = [_rows(x), constant, _rows(out), _vector(poisoned(root[:, 0], "f32")), *means]
    return Problem(5, [*rows, np.float32(1e-5)], block=128, smem_bytes=1 << 15)


NORM = [F16, F16, None, F32, None, None, N, True]


@kernel("quack.rmsnorm:_compile_rmsnorm_fwd", [*NORM, False, False, False], BOTH)
def rms_norm(draw: Draw) -> Problem:
    return _norm(draw, False)


@kernel("quack.rmsnorm:_compile_rmsnorm_fwd", [*NORM, True, True, False], BOTH)
def layer_norm(draw: Draw) -> Problem:
    return _norm(draw, True)


@kernel("quack.cross_entropy:CrossEntropy.compile", [F16, S64, None, N, True, False, None, 1], BOTH)
def cross_entropy_forward(draw: Draw) -> Problem:
    x, target = draw.normal(ROWS, N, kind="f16"), draw.integers(0, N, ROWS, kind="s64")
    logs = log_softmax(x.values)
    lse = np.log(np.exp(x.values).sum(1))
    loss = poisoned(-logs[np.arange(ROWS), target.codes], "f32", tolerance=1e-4)
    args = [_rows(x), _vector(target), _rows(x), _vector(loss), _vector(poisoned(lse, "f32", tolerance=1e-4))]
    return Problem(5, [*args, np.int32(-100)], block=128, smem_bytes=1 << 15)


@kernel("quack.cross_entropy:CrossEntropyBackward.compile", [F16, S64, N, None], BOTH)
def cross_entropy_backward(draw: Draw) -> Problem:
    x, target = draw.normal(ROWS, N, kind="f16"), draw.integers(0, N, ROWS, kind="s64")
    dloss, lse = draw.normal(ROWS), Tensor(np.log(np.exp(x.values).sum(1)), "f32")
    dx = (softmax(x.values) - np.eye(N)[target.codes]) * dloss.values[:, None]
    args = [_rows(x), _vector(target), Shaped(dloss, (0,), (0,)), _rows(poisoned(dx, "f16")), _vector(lse)]
    return Problem((5, 1), [*args, np.int32(-100), np.int32(ROWS)], block=128, smem_bytes=1 << 15)


@kernel("quack.topk:TopK.compile", [F16, N, 8, False], BOTH)
def top_k(draw: Draw) -> Problem:
    x = Tensor(np.stack([draw.random.permutation(N) for _ in range(ROWS)]) - 100.0, "f16")
    order = np.argsort(-x.values, axis=1)[:, :8]
    values, indices = poisoned(np.take_along_axis(x.values, order, 1), "f16"), poisoned(order, "s32")
    return Problem(5, [_rows(x), _rows(values), _rows(indices)], block=128, smem_bytes=1 << 15)


@kernel("quack.topk:TopKBackward.compile", [F16, None, F16, N, 8, False], BOTH)
def top_k_backward(draw: Draw) -> Problem:
    dvalues = draw.normal(ROWS, 8, kind="f16")
    indices = Tensor(np.stack([draw.random.permutation(N)[:8] for _ in range(ROWS)]), "s32")
    dx = np.zeros((ROWS, N))
    np.put_along_axis(dx, indices.codes.astype(np.int64), dvalues.values, 1)
    args = [_rows(dvalues), _rows(indices), _rows(poisoned(dx, "f16"))]
    return Problem(10, args, block=128, smem_bytes=1 << 15)
