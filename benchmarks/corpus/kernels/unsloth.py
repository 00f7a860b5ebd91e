"""Unsloth: Triton kernels for finetuning."""

from __future__ import annotations

from math import erf

import numpy as np

from benchmarks.corpus.entries import triton_kernels
from benchmarks.corpus.problems import Draw, Problem, Tensor, poisoned
from benchmarks.corpus.reference import rstd, sigmoid, silu

kernel = triton_kernels("unsloth")
OPS = "unsloth.kernels"
R, N = 6, 200
EPS = 1e-5
ROWS = {"Y_row_stride": N, "X_row_stride": N, "n_cols": N, "eps": EPS, "LONG_INDEXING": False, "BLOCK_SIZE": 256}


def _norm(draw: Draw, gemma: bool) -> Problem:
    x, w = draw.normal(R, N, kind="f16"), draw.normal(N, kind="f16")
    root = rstd(x.values, EPS)
    y = poisoned(x.values * root * (w.values + gemma), "f16")
    args = {"Y": y, "X": x, "W": w, "r": poisoned(root[:, 0], "f32")}
    return Problem(R, args, {**ROWS, "W_row_stride": 1, "r_row_stride": 1})


@kernel(f"{OPS}.rms_layernorm:_rms_layernorm_forward")
def rms_norm(draw: Draw) -> Problem:
    return _norm(draw, False)


@kernel(f"{OPS}.rms_layernorm:_gemma_rms_layernorm_forward")
def gemma_rms_norm(draw: Draw) -> Problem:
    return _norm(draw, True)


@kernel(f"{OPS}.rms_layernorm:_rms_layernorm_forward_rows")
def rms_norm_of_rows(draw: Draw) -> Problem:
    x, w = draw.normal(R, 120), draw.normal(120)
    root = rstd(x.values, EPS)
    args = {"Y": poisoned(x.values * root * w.values, "f32"), "X": x, "W": w, "r": poisoned(root[:, 0], "f32"),
            "n_rows": R}  # fmt: skip
    constants = {"Y_row_stride": 120, "X_row_stride": 120, "n_cols": 120, "eps": EPS, "GEMMA": False,
                 "BLOCK_SIZE": 128, "ROWS": 4, "WARPS": 4, "LONG_INDEXING": False}  # fmt: skip
    return Problem(2, args, constants)


@kernel(f"{OPS}.rms_layernorm:_rms_sum_dw_partials")
def sum_of_partial_gradients(draw: Draw) -> Problem:
    partials = draw.normal(50, N)
    args = {"partials": partials, "dW": poisoned(partials.values.sum(0), "f32"), "n_programs": 50, "n_cols": N}
    return Problem(4, args, {"BLOCK_ROWS": 16, "BLOCK_COLS": 64})


@kernel(f"{OPS}.layernorm:layernorm_forward")
def layer_norm_forward(draw: Draw) -> Problem:
    x, w, b = draw.normal(R, N, shift=1), draw.normal(N), draw.normal(N)
    mean = x.values.mean(1, keepdims=True)
    root = rstd(x.values - mean, EPS)
    args = {
        "Y": poisoned((x.values - mean) * root * w.values + b.values, "f32"), "X": x, "W": w, "b": b,
        "r": poisoned(root[:, 0], "f32"), "mu": poisoned(mean[:, 0], "f32"),
    }  # fmt: skip
    return Problem(R, args, {**ROWS, "HAS_BIAS": True})


def _layer_norm_gradients(draw: Draw):
    x, w, dy = draw.normal(R, N, shift=1), draw.normal(N), draw.normal(R, N)
    mean = x.values.mean(1, keepdims=True)
    root = rstd(x.values - mean, EPS)
    hat, wdy = (x.values - mean) * root, dy.values * w.values
    dx = (wdy - wdy.mean(1, keepdims=True) - hat * (wdy * hat).mean(1, keepdims=True)) * root
    args = {"dY": dy, "dX": poisoned(dx, "f32"), "X": x, "W": w, "r": Tensor(root[:, 0], "f32"),
            "mu": Tensor(mean[:, 0], "f32")}  # fmt: skip
    return args, dy.values * hat, dy.values


STRIDES = {"dY_row_stride": N, "dX_row_stride": N, "X_row_stride": N, "n_cols": N, "LONG_INDEXING": False,
           "BLOCK_SIZE": 256}  # fmt: skip


@kernel(f"{OPS}.layernorm:layernorm_backward")
def layer_norm_backward(draw: Draw) -> Problem:
    args, _, _ = _layer_norm_gradients(draw)
    return Problem(R, {**args, "b": draw.normal(N)}, {**STRIDES, "eps": EPS})


@kernel(f"{OPS}.layernorm:layernorm_backward_dw")
def layer_norm_backward_of_weights(draw: Draw) -> Problem:
    args, dw, db = _layer_norm_gradients(draw)
    args |= {
        "dW": poisoned(dw.reshape(2, 3, N).sum(1), "f32"), "dB": poisoned(db.reshape(2, 3, N).sum(1), "f32"),
        "n_rows": R, "rows_per_program": 3,
    }  # fmt: skip
    return Problem(2, args, {**STRIDES, "TRAIN_W": True, "TRAIN_B": True})


FLAT = {"BLOCK_SIZE": 512, "LONG_INDEXING": False}


def _forward(draw: Draw, f) -> Problem:
    e, g = draw.normal(1000, kind="f16"), draw.normal(1000, kind="f16")
    args = {"e": e, "g": g, "h": poisoned(f(e.values) * g.values, "f16"), "n_elements": 1000}
    return Problem(2, args, FLAT)


def _backward(draw: Draw, f, slope) -> Problem:
    dw, e, g = draw.normal(1000), draw.normal(1000), draw.normal(1000)
    value, change = f(e.values), slope(e.values)
    args = {
        "DW": dw, "e": e.becomes(dw.values * value), "g": g.becomes(dw.values * g.values * change),
        "n_elements": 1000,
    }  # fmt: skip
    dw.becomes(value * g.values)
    return Problem(2, args, FLAT)


def _gelu(x):
    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def _gelu_slope(x):
    return 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2))) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def _tanh_gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _tanh_gelu_slope(x):
    t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x)


@kernel(f"{OPS}.swiglu:_fg_kernel")
def swiglu_forward(draw: Draw) -> Problem:
    return _forward(draw, silu)


@kernel(f"{OPS}.swiglu:_DWf_DW_dfg_kernel")
def swiglu_backward(draw: Draw) -> Problem:
    return _backward(draw, silu, lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x))))


@kernel(f"{OPS}.geglu:_exact_forward_kernel")
def geglu_forward(draw: Draw) -> Problem:
    return _forward(draw, _gelu)


@kernel(f"{OPS}.geglu:_exact_backward_kernel")
def geglu_backward(draw: Draw) -> Problem:
    return _backward(draw, _gelu, _gelu_slope)


@kernel(f"{OPS}.geglu:_approx_forward_kernel")
def geglu_of_tanh_forward(draw: Draw) -> Problem:
    return _forward(draw, _tanh_gelu)


@kernel(f"{OPS}.geglu:_approx_backward_kernel")
def geglu_of_tanh_backward(draw: Draw) -> Problem:
    return _backward(draw, _tanh_gelu, _tanh_gelu_slope)
