"""Liger-Kernel: Triton kernels for training language models."""

from __future__ import annotations

import numpy as np

from benchmarks.corpus.entries import triton_kernels
from benchmarks.corpus.problems import Draw, Problem, Tensor, poisoned
from benchmarks.corpus.reference import log_softmax, rstd, sigmoid, silu, softmax

kernel = triton_kernels("liger")
OPS = "liger_kernel.ops"
R, N, BLOCK = 6, 200, 256
EPS = 1e-5


def _zeros(*shape: int, kind: str = "f32") -> Tensor:
    return Tensor(np.zeros(shape), kind)


@kernel(f"{OPS}.rms_norm:_rms_norm_forward_kernel")
def rms_norm_forward(draw: Draw) -> Problem:
    x, w = draw.normal(R, N, kind="bf16"), draw.normal(N, kind="bf16")
    root = rstd(x.values, EPS)
    args = {
        "Y_ptr": poisoned(x.values * root * w.values, "bf16"), "Y_row_stride": N, "X_ptr": x,
        "X_row_stride": N,
        "W_ptr": w, "W_row_stride": 1, "RSTD_ptr": poisoned(root[:, 0], "f32"), "RSTD_row_stride": 1,
        "n_cols": N, "eps": EPS, "offset": 0.0,
    }  # fmt: skip
    return Problem(R, args, {"casting_mode": 1, "elementwise_affine": True, "BLOCK_SIZE": BLOCK})


def _rms_backward(dy, x, w):
    root = rstd(x, EPS)
    m = dy * w
    return root * m - root**3 / N * (m * x).sum(-1, keepdims=True) * x


@kernel(f"{OPS}.rms_norm:_rms_norm_backward_kernel")
def rms_norm_backward(draw: Draw) -> Problem:
    x, w, dy = draw.normal(R, N), draw.normal(N), draw.normal(R, N)
    root = rstd(x.values, EPS)
    halves = (dy.values * x.values * root).reshape(2, 3, N).sum(1)
    args = {
        "dY_ptr": dy, "dY_row_stride": N,
        "dX_ptr": poisoned(_rms_backward(dy.values, x.values, w.values), "f32"),
        "dX_row_stride": N, "X_ptr": x, "X_row_stride": N, "W_ptr": w, "W_row_stride": 1,
        "RSTD_ptr": Tensor(root[:, 0], "f32"), "RSTD_row_stride": 1, "dW_ptr": poisoned(halves, "f32"),
        "dW_row_stride": N, "n_rows": R, "n_cols": N, "offset": 0.0, "rows_per_program": 3,
    }  # fmt: skip
    constants = {"X_dtype": {"type": "float32"}, "casting_mode": 1, "elementwise_affine": True,
                 "BLOCK_SIZE": BLOCK,
                 "COMPUTE_DW": True}  # fmt: skip
    return Problem(2, args, constants)


@kernel(f"{OPS}.rms_norm:_block_rms_norm_forward_kernel")
def block_rms_norm_forward(draw: Draw) -> Problem:
    x, w = draw.normal(R, N, kind="f16"), draw.normal(N, kind="f16")
    root = rstd(x.values, EPS)
    args = {
        "Y_ptr": poisoned(x.values * root * (1 + w.values), "f16"), "Y_row_stride": N, "X_ptr": x,
        "X_row_stride": N,
        "W_ptr": w, "W_row_stride": 1, "RSTD_ptr": poisoned(root[:, 0], "f32"), "RSTD_row_stride": 1,
        "n_rows": R, "n_cols": N, "eps": EPS, "offset": np.float32(1.0),
    }  # fmt: skip
    constants = {"casting_mode": 1, "elementwise_affine": True, "BLOCK_SIZE": BLOCK, "BLOCK_ROW": 4}
    return Problem(2, args, constants)


@kernel(f"{OPS}.rms_norm:_block_rms_norm_backward_kernel")
def block_rms_norm_backward(draw: Draw) -> Problem:
    x, w, dy = draw.normal(R, N), draw.normal(N), draw.normal(R, N)
    root = rstd(x.values, EPS)
    each = dy.values * x.values * root
    parts = np.stack([each[:4].sum(0), each[4:].sum(0)])
    args = {
        "dY_ptr": dy, "dY_row_stride": N,
        "dX_ptr": poisoned(_rms_backward(dy.values, x.values, w.values), "f32"),
        "dX_row_stride": N, "X_ptr": x, "X_row_stride": N, "W_ptr": w, "W_row_stride": 1,
        "RSTD_ptr": Tensor(root[:, 0], "f32"), "RSTD_row_stride": 1, "dW_ptr": poisoned(parts, "f32"),
        "dW_row_stride": N, "n_rows": R, "n_cols": N, "offset": 0.0,
    }  # fmt: skip
    constants = {"X_dtype": {"type": "float32"}, "casting_mode": 1, "elementwise_affine": True,
                 "BLOCK_SIZE": BLOCK,
                 "BLOCK_ROW": 4, "COMPUTE_DW": True}  # fmt: skip
    return Problem(2, args, constants)


@kernel(f"{OPS}.layer_norm:_layer_norm_forward_kernel")
def layer_norm_forward(draw: Draw) -> Problem:
    x, w, b = draw.normal(R, N, kind="f16", shift=2), draw.normal(N, kind="f16"), draw.normal(N, kind="f16")
    mean = x.values.mean(1, keepdims=True)
    root = rstd(x.values - mean, EPS)
    args = {
        "Y_ptr": poisoned((x.values - mean) * root * w.values + b.values, "f16"), "Y_row_stride": N,
        "X_ptr": x, "X_row_stride": N, "W_ptr": w, "W_row_stride": 1, "B_ptr": b, "B_row_stride": 1,
        "Mean_ptr": poisoned(mean[:, 0], "f32"), "Mean_row_stride": 1,
        "RSTD_ptr": poisoned(root[:, 0], "f32"),
        "RSTD_row_stride": 1, "n_cols": N, "eps": EPS,
    }  # fmt: skip
    return Problem(R, args, {"BLOCK_SIZE": BLOCK})


@kernel(f"{OPS}.layer_norm:_layer_norm_backward_kernel")
def layer_norm_backward(draw: Draw) -> Problem:
    x, w, dy = draw.normal(R, N, shift=1), draw.normal(N), draw.normal(R, N)
    mean = x.values.mean(1, keepdims=True)
    root = rstd(x.values - mean, EPS)
    hat, wdy = (x.values - mean) * root, w.values * dy.values
    dx = (wdy - hat * (hat * wdy).mean(1, keepdims=True) - wdy.mean(1, keepdims=True)) * root
    args = {
        "X_ptr": x, "stride_x": N, "W_ptr": w, "Mean_ptr": Tensor(mean[:, 0], "f32"), "stride_mean": 1,
        "RSTD_ptr": Tensor(root[:, 0], "f32"), "stride_rstd": 1, "DX_ptr": poisoned(dx, "f32"),
        "stride_dx": N,
        "DW_ptr": poisoned((dy.values * hat).reshape(2, 3, N).sum(1), "f32"), "stride_dw": N,
        "DB_ptr": poisoned(dy.values.reshape(2, 3, N).sum(1), "f32"), "stride_db": N, "DY_ptr": dy,
        "stride_dy": N,
        "n_rows": R, "n_cols": N,
    }  # fmt: skip
    constants = {"rows_per_program": 3, "BLOCK_SIZE": BLOCK, "COMPUTE_DW": True, "COMPUTE_DB": True}
    return Problem(2, args, constants)


@kernel(f"{OPS}.fused_add_rms_norm:_fused_add_rms_norm_forward_kernel")
def fused_add_rms_norm_forward(draw: Draw) -> Problem:
    x, r, w = draw.normal(R, N), draw.normal(R, N), draw.normal(N)
    s = x.values + r.values
    root = rstd(s, EPS)
    args = {
        "Y_ptr": poisoned(s * root * w.values, "f32"), "Y_row_stride": N, "S_ptr": poisoned(s, "f32"),
        "S_row_stride": N, "X_ptr": x, "X_row_stride": N, "R_ptr": r, "R_row_stride": N, "W_ptr": w,
        "W_row_stride": 1, "RSTD_ptr": poisoned(root[:, 0], "f32"), "RSTD_row_stride": 1, "n_cols": N,
        "eps": EPS,
        "offset": 0.0,
    }  # fmt: skip
    return Problem(R, args, {"casting_mode": 0, "BLOCK_SIZE": BLOCK})


@kernel(f"{OPS}.fused_add_rms_norm:_fused_add_rms_norm_backward_kernel")
def fused_add_rms_norm_backward(draw: Draw) -> Problem:
    x, w, dy, ds = draw.normal(R, N), draw.normal(N), draw.normal(R, N), draw.normal(R, N)
    root = rstd(x.values, EPS)
    args = {
        "dY_ptr": dy, "dY_row_stride": N, "dS_out_ptr": ds, "dS_out_row_stride": N,
        "dX_ptr": poisoned(_rms_backward(dy.values, x.values, w.values) + ds.values, "f32"),
        "dX_row_stride": N,
        "X_ptr": x, "X_row_stride": N, "W_ptr": w, "W_row_stride": 1, "RSTD_ptr": Tensor(root[:, 0], "f32"),
        "RSTD_row_stride": 1,
        "dW_ptr": poisoned((dy.values * x.values * root).reshape(2, 3, N).sum(1), "f32"),
        "dW_row_stride": N, "n_rows": R, "n_cols": N, "offset": 0.0,
    }  # fmt: skip
    constants = {"X_dtype": {"type": "float32"}, "rows_per_program": 3, "casting_mode": 0,
                 "BLOCK_SIZE": BLOCK,
                 "has_dS_out": True, "COMPUTE_DW": True}  # fmt: skip
    return Problem(2, args, constants)


def _gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _gelu_tanh_slope(x):
    t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x)


@kernel(f"{OPS}.geglu:_geglu_tanh_forward_kernel")
def geglu_forward(draw: Draw) -> Problem:
    a, b = draw.normal(R, N, kind="f16"), draw.normal(R, N, kind="f16")
    args = {"a": a, "b": b, "c": poisoned(_gelu_tanh(a.values) * b.values, "f16"), "stride": N}
    return Problem(R, args, {"n_cols": N, "BLOCK_SIZE": BLOCK})


@kernel(f"{OPS}.geglu:_geglu_tanh_backward_kernel")
def geglu_backward(draw: Draw) -> Problem:
    a, b, dc = draw.normal(R, N), draw.normal(R, N), draw.normal(R, N)
    da = dc.values * b.values * _gelu_tanh_slope(a.values)
    db = dc.values * _gelu_tanh(a.values)
    args = {"dc": dc, "a": a.becomes(da), "b": b.becomes(db), "stride": N}
    return Problem(R, args, {"n_cols": N, "BLOCK_SIZE": BLOCK})


def _silu_slope(x):
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)))


@kernel(f"{OPS}.swiglu:_swiglu_forward_kernel")
def swiglu_forward(draw: Draw) -> Problem:
    a, b = draw.normal(R, N, kind="bf16"), draw.normal(R, N, kind="bf16")
    c = poisoned(silu(1.5 * a.values) * b.values, "bf16")
    args = {"a_ptr": a, "b_ptr": b, "c_ptr": c, "stride": N, "gate_multiplier": 1.5}
    return Problem(R, args, {"n_cols": N, "BLOCK_SIZE": BLOCK})


def _swiglu_gradients(draw: Draw):
    a, b, dc = draw.normal(R, N), draw.normal(R, N), draw.normal(R, N)
    da = dc.values * _silu_slope(1.5 * a.values) * b.values * 1.5
    db = dc.values * silu(1.5 * a.values)
    return {"dc_ptr": dc, "a_ptr": a.becomes(da), "b_ptr": b.becomes(db), "stride": N, "gate_multiplier": 1.5}


@kernel(f"{OPS}.swiglu:_swiglu_backward_kernel")
def swiglu_backward(draw: Draw) -> Problem:
    return Problem(R, _swiglu_gradients(draw), {"n_cols": N, "BLOCK_SIZE": BLOCK})


@kernel(f"{OPS}.swiglu:_swiglu_forward_kernel_tiled")
def swiglu_forward_tiled(draw: Draw) -> Problem:
    a, b = draw.normal(R, N, kind="f16"), draw.normal(R, N, kind="f16")
    c = poisoned(silu(a.values) * b.values, "f16")
    args = {"a_ptr": a, "b_ptr": b, "c_ptr": c, "stride": N, "gate_multiplier": np.float32(1), "n_cols": N}
    return Problem((R, 2), args, {"BLOCK_SIZE": 128})


@kernel(f"{OPS}.swiglu:_swiglu_backward_kernel_tiled")
def swiglu_backward_tiled(draw: Draw) -> Problem:
    return Problem((R, 2), {**_swiglu_gradients(draw), "n_cols": N}, {"BLOCK_SIZE": 128})


@kernel(f"{OPS}.swiglu:_swiglu_fused_gate_up_forward_kernel")
def swiglu_fused_forward(draw: Draw) -> Problem:
    y = draw.normal(R, 2 * N, kind="f16")
    c = poisoned(silu(y.values[:, :N]) * y.values[:, N:], "f16")
    args = {"y_ptr": y, "c_ptr": c, "in_stride": 2 * N, "out_stride": N}
    return Problem(R, args, {"ffn_size": N, "BLOCK_SIZE": BLOCK})


@kernel(f"{OPS}.swiglu:_swiglu_fused_gate_up_backward_kernel")
def swiglu_fused_backward(draw: Draw) -> Problem:
    y, dc = draw.normal(R, 2 * N), draw.normal(R, N)
    gate, up = y.values[:, :N], y.values[:, N:]
    dy = np.concatenate([dc.values * _silu_slope(gate) * up, dc.values * silu(gate)], axis=1)
    args = {"dc_ptr": dc, "y_ptr": y, "dy_ptr": poisoned(dy, "f32"), "in_stride": 2 * N, "out_stride": N}
    return Problem(R, args, {"ffn_size": N, "BLOCK_SIZE": BLOCK})


@kernel(f"{OPS}.softmax:_softmax_single_block_forward_kernel")
def softmax_forward(draw: Draw) -> Problem:
    x = draw.normal(R, N)
    args = {
        "Y_ptr": poisoned(softmax(x.values), "f32"),
        "Y_row_stride": N,
        "X_ptr": x,
        "X_row_stride": N,
        "n_cols": N,
    }
    return Problem(R, args, {"BLOCK_SIZE": BLOCK})


def _softmax_gradients(draw: Draw):
    y, dy = Tensor(softmax(draw.normal(R, N).values), "f32"), draw.normal(R, N)
    dx = y.values * (dy.values - (y.values * dy.values).sum(1, keepdims=True))
    return {"dy_ptr": dy, "dy_stride": N, "y_ptr": y, "y_stride": N, "dx_ptr": poisoned(dx, "f32"),
            "dx_stride": N,
            "n_cols": N}  # fmt: skip


@kernel(f"{OPS}.softmax:_softmax_single_block_backward_kernel")
def softmax_backward(draw: Draw) -> Problem:
    return Problem(R, _softmax_gradients(draw), {"BLOCK_SIZE": BLOCK})


@kernel(
    f"{OPS}.softmax:_softmax_multi_block_backward_kernel",
    why="Triton 3.9 does not compile it: the kernel calls `tl.float32(0.0)`, and a type is no function.",
)
def softmax_backward_in_blocks(draw: Draw) -> Problem:
    return Problem(R, _softmax_gradients(draw), {"BLOCK_SIZE": 64})


@kernel(f"{OPS}.relu_squared:_relu_squared_forward_kernel")
def relu_squared_forward(draw: Draw) -> Problem:
    x = draw.normal(R, N, kind="f16")
    y = poisoned(np.maximum(x.values, 0) ** 2, "f16")
    return Problem(
        R, {"Y_ptr": y, "Y_stride": N, "X_ptr": x, "X_stride": N}, {"n_cols": N, "BLOCK_SIZE": BLOCK}
    )


@kernel(f"{OPS}.relu_squared:_relu_squared_backward_kernel")
def relu_squared_backward(draw: Draw) -> Problem:
    x, dy = draw.normal(R, N), draw.normal(R, N)
    dx = poisoned(2 * dy.values * np.maximum(x.values, 0), "f32")
    args = {"dX_ptr": dx, "dX_stride": N, "dY_ptr": dy, "dY_stride": N, "X_ptr": x, "X_stride": N}
    return Problem(R, args, {"n_cols": N, "BLOCK_SIZE": BLOCK})


@kernel(f"{OPS}.dyt:_dyt_fwd_kernel")
def dyt_forward(draw: Draw) -> Problem:
    x, alpha, gamma, beta = draw.normal(R, N), draw.uniform(1), draw.normal(N), draw.normal(N)
    y = np.tanh(alpha.values * x.values) * gamma.values + beta.values
    args = {"X": x, "Y": poisoned(y, "f32"), "Alpha": alpha, "Gamma": gamma, "Beta": beta}
    return Problem((2, R), args, {"HAVE_BETA": True, "N": N, "BLOCK_N": 128})


@kernel(f"{OPS}.dyt:_dyt_bwd_kernel")
def dyt_backward(draw: Draw) -> Problem:
    x, dy, alpha, gamma = draw.normal(R, N), draw.normal(R, N), draw.uniform(1), draw.normal(N)
    t = np.tanh(alpha.values * x.values)
    slope = (1 - t * t) * dy.values * gamma.values
    by_program = lambda v: np.stack([v[0::2].sum(0), v[1::2].sum(0)])  # noqa: E731
    args = {
        "DY": dy, "DX": poisoned(alpha.values * slope, "f32"),
        "DA": poisoned(by_program(x.values * slope).sum(1), "f32"),
        "DG": poisoned(by_program(dy.values * t), "f32"),
        "DB": poisoned(by_program(dy.values), "f32"), "X": x, "Alpha": alpha, "Gamma": gamma, "M": R,
    }  # fmt: skip
    return Problem((1, 2), args, {"HAVE_BETA": True, "N": N, "BLOCK_N": 256})


@kernel(
    f"{OPS}.kl_div:_kldiv_kernel_forward",
    findings={
        "race": "Four warps hold 64 elements, so two warps store each partial sum. Triton fuses the last"
        " product into the first addition, which makes the sums of two lanes differ in their last bit."
    },
)
def kl_divergence_forward(draw: Draw) -> Problem:
    y, target = log_softmax(draw.normal(R, N).values), softmax(draw.normal(R, N).values)
    y, target = Tensor(y, "f32"), Tensor(target, "f32")
    loss = target.values * (np.log(np.maximum(target.values, 1e-10)) - y.values)
    args = {
        "y_ptr": y, "y_stride": N, "gt_ptr": target, "gt_stride": N, "loss_ptr": poisoned(loss.sum(1), "f32"),
        "loss_stride": 1, "n_cols": N, "eps": 1e-10,
    }  # fmt: skip
    return Problem(R, args, {"BLOCK_SIZE": 64, "reduction": 1, "log_target": False})


@kernel(f"{OPS}.kl_div:_kldiv_kernel_backward")
def kl_divergence_backward(draw: Draw) -> Problem:
    target = draw.normal(R, N)
    grads = poisoned(-np.exp(target.values), "f32")
    args = {
        "target_ptr": target,
        "target_stride": N,
        "new_grads_ptr": grads,
        "new_grads_stride": N,
        "n_cols": N,
    }
    return Problem(R, args, {"BLOCK_SIZE": 64, "log_target": True})


@kernel(f"{OPS}.tvd:_tv_distance_kernel")
def total_variation_distance(draw: Draw) -> Problem:
    p, q = draw.uniform(R, N), draw.uniform(R, N)
    label = draw.integers(0, 9, R, kind="s64")
    label.codes[1] = -100
    kept = (label.codes != -100)[:, None]
    loss = 0.5 * np.abs(p.values - q.values) * kept
    grads = np.where(p.values > q.values, 0.5, -0.5) / R * kept
    args = {
        "p_ptr": p, "p_stride": N, "q_ptr": q, "q_stride": N, "loss_ptr": poisoned(loss, "f32"),
        "loss_stride": N,
        "grads_ptr": poisoned(grads, "f32"), "grads_stride": N, "label_ptr": label, "n_cols": N,
        "scale": 1 / R,
    }  # fmt: skip
    return Problem(R, args, {"ignore_index": -100, "BLOCK_SIZE": 64, "HAS_LABEL": True, "reduction": 0})


@kernel(f"{OPS}.jsd:_jsd_kernel")
def jensen_shannon_divergence(draw: Draw) -> Problem:
    x, y = (
        Tensor(log_softmax(draw.normal(R, N).values), "f32"),
        Tensor(log_softmax(draw.normal(R, N).values), "f32"),
    )
    p, q, beta = np.exp(y.values), np.exp(x.values), 0.3
    log_m = np.log(beta * p + (1 - beta) * q)
    dx = (1 - beta) * q * (x.values - log_m) / R
    loss = beta * p * (y.values - log_m) / R + dx
    args = {
        "X_ptr": x, "X_stride": N, "Y_ptr": y, "Y_stride": N, "loss_ptr": poisoned(loss, "f32"),
        "loss_stride": N,
        "dX_ptr": poisoned(dx, "f32"), "dX_stride": N, "label_ptr": draw.integers(0, 9, R), "n_non_ignore": R,
        "n_cols": N,
    }  # fmt: skip
    return Problem(R, args, {"beta": beta, "ignore_index": -100, "BLOCK_SIZE": 256, "HAS_LABEL": True})


@kernel(f"{OPS}.sparsemax:_sparsemax_forward_kernel")
def sparsemax_forward(draw: Draw) -> Problem:
    x = draw.normal(R, N)
    z = Tensor(-np.sort(-x.values, axis=1), "f32")
    sums, counts = np.cumsum(z.values, axis=1), np.arange(1, N + 1)
    k = (z.values > (sums - 1) / counts).sum(1)
    tau = (sums[np.arange(R), k - 1] - 1) / k
    args = {
        "x_ptr": x, "x_stride_row": N, "sorted_x_ptr": z, "sorted_x_stride_row": N,
        "o_ptr": poisoned(np.maximum(x.values - tau[:, None], 0), "f32"), "o_stride_row": N, "n_cols": N,
    }  # fmt: skip
    return Problem(R, args, {"BLOCK_SIZE": BLOCK, "num_warps": 4})


@kernel(f"{OPS}.sparsemax:_sparsemax_backward_kernel")
def sparsemax_backward(draw: Draw) -> Problem:
    o, go = Tensor(np.maximum(draw.normal(R, N).values, 0), "f32"), draw.normal(R, N)
    kept = o.values > 0
    mean = (go.values * kept).sum(1, keepdims=True) / kept.sum(1, keepdims=True)
    args = {
        "o_ptr": o,
        "go_ptr": go,
        "gi_ptr": poisoned((go.values - mean) * kept, "f32"),
        "stride": N,
        "n_cols": N,
    }
    return Problem(R, args, {"BLOCK_SIZE": 64, "num_warps": 4})


@kernel(f"{OPS}.cross_entropy:liger_cross_entropy_kernel")
def cross_entropy(draw: Draw) -> Problem:
    x, y = draw.normal(R, N), draw.integers(0, N, R, kind="s64")
    y.codes[2] = -100
    kept = (y.codes != -100)[:, None]
    target = np.where(kept[:, 0], y.codes, 0)
    one_hot = np.eye(N)[target]
    dx = (softmax(x.values) - 0.1 / N - 0.9 * one_hot) / (R - 1) * kept
    logs = log_softmax(x.values)
    loss = -(0.9 * logs[np.arange(R), target] + 0.1 * logs.mean(1)) / (R - 1)
    args = {
        "X_ptr": x.becomes(dx), "X_stride": N, "Y_ptr": y, "Y_stride": 1, "weight_ptr": None,
        "loss_ptr": _zeros(R).becomes(loss * kept[:, 0]), "z_loss_ptr": None, "loss_stride": 1,
        "token_accuracy_ptr": None, "token_accuracy_stride": 1, "predicted_tokens_ptr": None,
        "predicted_tokens_stride": 1, "n_cols": N, "n_non_ignore": R - 1, "sum_non_ignore_weight": 5.0,
        "weight_sum": 0.0, "ignore_index": -100, "softcap": None,
    }  # fmt: skip
    constants = {
        "lse_square_scale": 0.0, "label_smoothing": 0.1, "reduction": "mean", "RETURN_Z_LOSS": False,
        "RETURN_TOKEN_ACCURACY": False, "RETURN_PREDICTED_TOKENS": False, "BLOCK_SIZE": 64,
        "HAS_WEIGHT": False,
        "HAS_SOFTCAPPING": False, "HAS_GRADIENTS": True,
    }  # fmt: skip
    return Problem(R, args, constants)


BLOCKS, D = 3, 100


@kernel(f"{OPS}.attn_res:_attn_res_fwd_kernel")
def attention_residual_forward(draw: Draw) -> Problem:
    v, query, norm = draw.normal(BLOCKS, R, D), draw.normal(D), draw.normal(D)
    root = rstd(v.values, EPS)
    alpha = softmax((v.values * root * norm.values * query.values).sum(-1), axis=0)
    args = {
        "V_ptr": v, "W_query_ptr": query, "W_norm_ptr": norm,
        "Out_ptr": poisoned((alpha[..., None] * v.values).sum(0), "f32"),
        "Alpha_ptr": poisoned(alpha.T, "f32"),
        "RSTD_ptr": poisoned(root[..., 0].T, "f32"), "n_blocks": BLOCKS, "n_tokens": R, "D": D,
    }  # fmt: skip
    return Problem(R, args, {"eps": EPS, "BLOCK_D": 128, "MAX_BLOCKS": 4})


@kernel(f"{OPS}.attn_res:_attn_res_bwd_kernel")
def attention_residual_backward(draw: Draw) -> Problem:
    v, query, norm, dout = draw.normal(BLOCKS, R, D), draw.normal(D), draw.normal(D), draw.normal(R, D)
    root = rstd(v.values, EPS)
    alpha = softmax((v.values * root * norm.values * query.values).sum(-1), axis=0)
    dalpha = (dout.values * v.values).sum(-1)
    dscore = (alpha * (dalpha - (alpha * dalpha).sum(0)))[..., None]
    dk = dscore * query.values * norm.values
    dv = (
        alpha[..., None] * dout.values
        + root * dk
        - root**3 * (dk * v.values).mean(-1, keepdims=True) * v.values
    )
    args = {
        "dOut_ptr": dout, "V_ptr": v, "W_query_ptr": query, "W_norm_ptr": norm,
        "Alpha_ptr": Tensor(alpha.T, "f32"),
        "RSTD_ptr": Tensor(root[..., 0].T, "f32"), "dV_ptr": poisoned(dv, "f32"),
        "dW_query_ptr": _zeros(D).becomes((dscore * v.values * root * norm.values).sum((0, 1))),
        "dW_norm_ptr": _zeros(D).becomes((dscore * v.values * root * query.values).sum((0, 1))),
        "n_blocks": BLOCKS, "n_tokens": R, "D": D, "eps": EPS,
    }  # fmt: skip
    return Problem(R, args, {"BLOCK_D": 128, "MAX_BLOCKS": 4})


BATCH, LENGTH, HEADS, KV_HEADS, WIDTH = 2, 5, 4, 2, 32


@kernel(f"{OPS}.rope:_triton_rope")
def rope(draw: Draw) -> Problem:
    half = WIDTH // 2
    q, k = draw.normal(BATCH * LENGTH, HEADS, WIDTH), draw.normal(BATCH * LENGTH, KV_HEADS, WIDTH)
    angle = draw.normal(LENGTH, half).values
    cos, sin = (Tensor(np.concatenate([f(angle)] * 2, axis=1), "f32") for f in (np.cos, np.sin))

    def turned(x):
        c, s = (np.tile(t.values[:, :half], (BATCH, 1))[:, None] for t in (cos, sin))
        left, right = x[..., :half], x[..., half:]
        return np.concatenate([left * c - right * s, right * c + left * s], axis=-1)

    args = {
        "q_ptr": q.becomes(turned(q.values)), "q_row_stride": HEADS * WIDTH,
        "k_ptr": k.becomes(turned(k.values)),
        "k_row_stride": KV_HEADS * WIDTH, "cos": cos, "cos_row_stride": WIDTH, "sin": sin,
        "sin_row_stride": WIDTH,
        "sl": LENGTH,
    }  # fmt: skip
    constants = {"bs": BATCH, "cos_bs": 1, "n_qh": HEADS, "n_kh": KV_HEADS, "hd": WIDTH, "pad_n_qh": HEADS,
                 "pad_n_kh": KV_HEADS, "pad_hd": WIDTH, "pad_rd": WIDTH, "rd": WIDTH, "BLOCK_SIZE": 4,
                 "BACKWARD_PASS": False}  # fmt: skip
    return Problem(BATCH * LENGTH, args, constants)


GROUPS, CHANNELS, PLANE = 2, 4, 60


@kernel(f"{OPS}.group_norm:_group_norm_forward_kernel")
def group_norm_forward(draw: Draw) -> Problem:
    x, w, b = draw.normal(BATCH, CHANNELS, PLANE), draw.normal(CHANNELS), draw.normal(CHANNELS)
    grouped = x.values.reshape(BATCH, GROUPS, -1)
    mean = grouped.mean(-1, keepdims=True)
    root = 1 / np.sqrt(grouped.var(-1, keepdims=True) + EPS)
    y = ((grouped - mean) * root).reshape(x.values.shape) * w.values[:, None] + b.values[:, None]
    size = PLANE * CHANNELS // GROUPS
    args = {
        "Y_ptr": poisoned(y, "f32"), "Y_row_stride": CHANNELS * PLANE, "Y_col_stride": size, "X_ptr": x,
        "X_row_stride": CHANNELS * PLANE, "X_col_stride": size, "Mean_ptr": poisoned(mean[..., 0], "f32"),
        "Mean_row_stride": GROUPS, "Mean_col_stride": 1, "RSTD_ptr": poisoned(root[..., 0], "f32"),
        "RSTD_row_stride": GROUPS, "RSTD_col_stride": 1, "W_ptr": w, "B_ptr": b, "hidden_size": size,
        "channels_per_group": CHANNELS // GROUPS, "eps": EPS,
    }  # fmt: skip
    return Problem((BATCH, GROUPS), args, {"BLOCK_SIZE": 128})


@kernel(f"{OPS}.group_norm:_group_norm_backward_kernel")
def group_norm_backward(draw: Draw) -> Problem:
    x, w, dy = draw.normal(BATCH, CHANNELS, PLANE), draw.normal(CHANNELS), draw.normal(BATCH, CHANNELS, PLANE)
    shape = (BATCH, GROUPS, CHANNELS // GROUPS, PLANE)
    grouped = x.values.reshape(shape)
    mean = grouped.mean((2, 3), keepdims=True)
    root = 1 / np.sqrt(grouped.var((2, 3), keepdims=True) + EPS)
    hat = (grouped - mean) * root
    wdy = (w.values[:, None] * dy.values).reshape(shape)
    dx = (wdy - hat * (hat * wdy).mean((2, 3), keepdims=True) - wdy.mean((2, 3), keepdims=True)) * root
    args = {
        "X_ptr": x, "X_row_stride": CHANNELS * PLANE, "X_col_stride": PLANE, "W_ptr": w,
        "Mean_ptr": Tensor(mean[..., 0, 0], "f32"), "Mean_ptr_row_stride": GROUPS, "Mean_ptr_col_stride": 1,
        "RSTD_ptr": Tensor(root[..., 0, 0], "f32"), "DX_ptr": poisoned(dx.reshape(x.values.shape), "f32"),
        "DW_ptr": _zeros(CHANNELS).becomes((dy.values * hat.reshape(x.values.shape)).sum((0, 2))),
        "DB_ptr": _zeros(CHANNELS).becomes(dy.values.sum((0, 2))), "UPSTREAM_ptr": dy,
    }  # fmt: skip
    constants = {"hidden_size": PLANE, "channels_per_group": CHANNELS // GROUPS, "BLOCK_SIZE": 128,
                 "dtype": {"type": "float32"}}  # fmt: skip
    return Problem((BATCH, GROUPS), args, constants)


@kernel(f"{OPS}.poly_norm:_poly_norm_forward_kernel")
def poly_norm_forward(draw: Draw) -> Problem:
    x, w, b = draw.normal(R, N), draw.normal(3), draw.normal(1)
    powers = [x.values**3, x.values**2, x.values]
    roots = [rstd(p, EPS) for p in powers]
    y = sum(c * p * r for c, p, r in zip(w.values, powers, roots, strict=True)) + b.values
    args = {
        "Y_ptr": poisoned(y, "f32"), "Y_row_stride": N, "X_ptr": x, "X_row_stride": N, "W_ptr": w, "B_ptr": b,
        "RSTD_ptr": poisoned(np.concatenate(roots, axis=1), "f32"), "RSTD_row_stride": 3, "n_cols": N,
        "eps": EPS,
    }  # fmt: skip
    return Problem(R, args, {"BLOCK_SIZE": BLOCK})
