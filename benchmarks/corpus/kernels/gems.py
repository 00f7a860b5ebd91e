"""FlagGems: PyTorch's operators as Triton kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.corpus.entries import triton_kernels
from benchmarks.corpus.problems import Draw, Problem, Tensor, poisoned
from benchmarks.corpus.reference import log_softmax, rstd

kernel = triton_kernels("gems")
OPS = "flag_gems.ops"
MMA = ("80", "100a")
M, N, K = 192, 136, 96


@kernel(f"{OPS}.bmm:bmm_kernel", MMA)
def bmm(draw: Draw) -> Problem:
    a, b = draw.normal(2, M, K, kind="bf16"), draw.normal(2, K, N, kind="bf16")
    args = {
        "A": a, "B": b, "O": poisoned(a.values @ b.values, "bf16"), "M": M, "N": N, "K": K,
        "stride_ab": M * K,
        "stride_am": K, "stride_ak": 1, "stride_bb": K * N, "stride_bk": N, "stride_bn": 1,
        "stride_ob": M * N,
        "stride_om": N, "stride_on": 1,
    }  # fmt: skip
    constants = {"TILE_M": 128, "TILE_N": 64, "TILE_K": 32, "GROUP_M": 2, "DIVISIBLE_M": False,
                 "DIVISIBLE_N": False,
                 "DIVISIBLE_K": True}  # fmt: skip
    return Problem((2, 3, 2), args, constants)


@kernel(f"{OPS}.addmm:addmm_kernel", MMA)
def addmm(draw: Draw) -> Problem:
    a, b, i = draw.normal(M, K, kind="f16"), draw.normal(K, N, kind="f16"), draw.normal(M, N, kind="f16")
    args = {
        "a_ptr": a, "b_ptr": b, "i_ptr": i,
        "c_ptr": poisoned(0.5 * (a.values @ b.values) - 2 * i.values, "f16"),
        "alpha": 0.5, "beta": -2.0, "M": M, "N": N, "K": K, "stride_am": K, "stride_ak": 1, "stride_bk": N,
        "stride_bn": 1, "stride_im": N, "stride_in": 1, "stride_cm": N, "stride_cn": 1,
    }  # fmt: skip
    return Problem((2, 3), args, {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64})


@kernel(f"{OPS}.baddbmm:baddbmm_kernel", MMA)
def baddbmm(draw: Draw) -> Problem:
    m = n = k = 128
    a, b, bias = (
        draw.normal(2, m, k, kind="f16"),
        draw.normal(2, k, n, kind="f16"),
        draw.normal(n, kind="f16"),
    )
    args = {
        "A": a, "B": b, "O": poisoned(a.values @ b.values + 3 * bias.values, "f16"), "bias": bias,
        "alpha": np.float32(1), "beta": 3.0, "M": m, "N": n, "K": k,
    }  # fmt: skip
    constants: dict[str, Any] = {
        "TILE_M": 64, "TILE_N": 64, "TILE_K": 64, "GROUP_M": 1, "DIVISIBLE_M": True, "DIVISIBLE_N": True,
        "DIVISIBLE_K": True, "bias_batch_stride": 0, "bias_M_stride": 0, "bias_N_stride": 1,
    }  # fmt: skip
    return Problem((2, 2, 2), args, constants)


def _scaled_fp8(draw: Draw, m: int, n: int, k: int, group: int):
    """Operands of e4m3 with a scale for each row of A and group of K, and for each square of B (N, K)."""
    a, b = draw.normal(m, k, kind="e4m3"), draw.normal(n, k, kind="e4m3")
    a_scale, b_scale = draw.uniform(m, k // group, low=0.5), draw.uniform(n // group, k // group, low=0.5)
    left = a.values * np.repeat(a_scale.values, group, axis=1)
    right = b.values * np.repeat(np.repeat(b_scale.values, group, axis=0), group, axis=1)
    return a, b, a_scale, b_scale, left @ right.T


@kernel(f"{OPS}.fp8_matmul:_fp8_matmul_kernel", ("90a", "100a"))
def fp8_matmul(draw: Draw) -> Problem:
    m, n, k, group = 128, 128, 256, 128
    a, b, a_scale, b_scale, product = _scaled_fp8(draw, m, n, k, group)
    args = {
        "A": a, "B": b, "C": poisoned(product, "bf16"), "As": a_scale, "Bs": b_scale, "M": m, "N": n, "K": k,
        "stride_am": k, "stride_ak": 1, "stride_bn": k, "stride_bk": 1, "stride_cm": n, "stride_cn": 1,
        "stride_as_m": k // group, "stride_as_k": 1, "stride_bs_n": k // group, "stride_bs_k": 1,
    }  # fmt: skip
    constants = {"GROUP_K": group, "BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_SIZE_M": 1}
    return Problem(2, args, constants)


@kernel(f"{OPS}.w8a8_block_fp8_matmul:w8a8_block_fp8_matmul_kernel", ("90a", "100a"))
def w8a8_block_fp8_matmul(draw: Draw) -> Problem:
    m, n, k, group = 72, 128, 256, 128
    a, b, a_scale, b_scale, product = _scaled_fp8(draw, m, n, k, group)
    args = {
        "A": a, "B": b, "C": poisoned(product, "f16", tolerance=1e-2), "As": a_scale, "Bs": b_scale, "M": m,
        "N": n, "K": k,
        "group_n": group, "group_k": group, "stride_am": k, "stride_ak": 1, "stride_bk": 1, "stride_bn": k,
        "stride_cm": n, "stride_cn": 1, "stride_As_m": k // group, "stride_As_k": 1, "stride_Bs_k": 1,
        "stride_Bs_n": k // group,
    }  # fmt: skip
    constants = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 8}
    return Problem(4, args, constants)


@kernel(f"{OPS}.mv:mv_kernel")
def mv(draw: Draw) -> Problem:
    a, b = draw.normal(100, 200), draw.normal(200)
    args = {
        "A": a, "B": b, "C": poisoned(a.values @ b.values, "f32"), "N": 100, "M": 200, "stride_an": 200,
        "stride_am": 1, "stride_bm": 1, "stride_cn": 1,
    }  # fmt: skip
    return Problem(4, args, {"BLOCK_N": 32, "BLOCK_M": 128})


@kernel(f"{OPS}.dot:dot_kernel_1")
def dot_in_parts(draw: Draw) -> Problem:
    x, y = draw.normal(1000, kind="f16"), draw.normal(1000, kind="f16")
    products = np.pad(x.values * y.values, (0, 24)).reshape(2, 512).sum(1)
    args = {"x_ptr": x, "y_ptr": y, "mid_ptr": poisoned(products, "f32"), "N": 1000}
    return Problem(2, args, {"BLOCK_SIZE": 512})


@kernel(f"{OPS}.dot:dot_kernel_2")
def dot_of_parts(draw: Draw) -> Problem:
    mid = draw.normal(200)
    return Problem(
        1, {"mid_ptr": mid, "out_ptr": poisoned([mid.values.sum()], "f32"), "M": 200}, {"BLOCK_MID": 256}
    )


@kernel(f"{OPS}.amax:amax_kernel")
def amax(draw: Draw) -> Problem:
    x = draw.normal(20, 300)
    args = {"inp": x, "out": poisoned(x.values.max(1), "f32"), "M": 20, "N": 300}
    return Problem(3, args, {"BLOCK_M": 8, "BLOCK_N": 128})


@kernel(f"{OPS}.argmax:argmax_kernel_1")
def argmax_in_parts(draw: Draw) -> Problem:
    x = draw.normal(1000)
    parts = np.pad(x.values, (0, 24), constant_values=-np.inf).reshape(4, 256)
    args = {
        "inp": x, "mid_value": poisoned(parts.max(1), "f32"),
        "mid_index": poisoned(parts.argmax(1) + 256 * np.arange(4), "s64"), "M": 1000,
    }  # fmt: skip
    return Problem(4, args, {"BLOCK_SIZE": 256})


@kernel(f"{OPS}.cumsum:scan_part_sum_kernel")
def cumsum_in_parts(draw: Draw) -> Problem:
    x = draw.normal(2000)
    parts = np.pad(x.values, (0, 48)).reshape(4, 512)
    sums = np.cumsum(parts, axis=1)
    args = {
        "inp": x, "out": poisoned(sums.ravel()[:2000], "f32"), "partial_sum": poisoned(sums[:, -1], "f32"),
        "n_elements": 2000, "part_num": 4,
    }  # fmt: skip
    return Problem(4, args, {"BLOCK_SIZE": 512})


@kernel(f"{OPS}.layernorm:layer_norm_persistent_kernel")
def layer_norm(draw: Draw) -> Problem:
    x, w, b = (
        draw.normal(6, 200, kind="f16", shift=1),
        draw.normal(200, kind="f16"),
        draw.normal(200, kind="f16"),
    )
    mean = x.values.mean(1, keepdims=True)
    root = rstd(x.values - mean, 1e-5)
    args = {
        "in_ptr": x, "out_ptr": poisoned((x.values - mean) * root * w.values + b.values, "f16"),
        "weight_ptr": w,
        "bias_ptr": b, "out_mean_ptr": poisoned(mean[:, 0], "f32"),
        "out_rstd_ptr": poisoned(root[:, 0], "f32"),
        "M": 6, "N": 200, "eps": 1e-5,
    }  # fmt: skip
    return Problem(6, args, {"TILE_N": 256})


@kernel(f"{OPS}.log_softmax:log_softmax_kernel")
def log_softmax_of_rows(draw: Draw) -> Problem:
    x = draw.normal(10, 200)
    args = {"output_ptr": poisoned(log_softmax(x.values), "f32"), "input_ptr": x, "M": 10, "N": 200, "K": 1}
    return Problem((3, 1), args, {"BLOCK_M": 4, "BLOCK_N": 128})


@kernel(f"{OPS}.sort:sort_kernel")
def sort(draw: Draw) -> Problem:
    x = draw.normal(3, 100)
    order = np.argsort(x.values, axis=1)
    args = {
        "in_ptr": x, "out_ptr": poisoned(np.take_along_axis(x.values, order, 1), "f32"),
        "out_index_ptr": poisoned(order, "s64"),
    }  # fmt: skip
    return Problem(3, args, {"N": 100, "BLOCK_SIZE": 128, "DESCENDING": False, "IS_FLOAT": True})


@kernel(f"{OPS}.topk:topk_stage1_kernel")
def topk_in_chunks(draw: Draw) -> Problem:
    x, k = draw.normal(2, 256), 5
    chunks = x.values.reshape(2, 2, 128)
    order = np.argsort(-chunks, axis=-1)[..., :k]
    args = {
        "y_ptr": poisoned(np.take_along_axis(chunks, order, -1), "f32"),
        "index_ptr": poisoned(order + np.array([0, 128])[:, None], "s64"), "x_ptr": x, "k": k,
    }  # fmt: skip
    return Problem((2, 2), args, {"N": 256, "CHUNK_SIZE": 128, "DESCENDING": True})


@kernel(f"{OPS}.tril:_tril_kernel")
def tril(draw: Draw) -> Problem:
    x = draw.normal(2, 50, 70)
    args = {
        "in_ptr": x,
        "out_ptr": poisoned(np.tril(x.values, 3), "f32"),
        "M": 50,
        "N": 70,
        "B": 2,
        "diag": 3,
    }
    return Problem((2, 2, 2), args, {"BLOCK_M": 32, "BLOCK_N": 64})


@kernel(f"{OPS}.trace:trace_kernel")
def trace(draw: Draw) -> Problem:
    x = draw.normal(300, 310, kind="f64")
    args = {
        "inp_ptr": x, "out_ptr": poisoned([np.trace(x.values)], "f64"), "num_diag": 300, "stride0": 310,
        "stride1": 1,
    }  # fmt: skip
    return Problem(1, args, {"BLOCK_SIZE": 128})


@kernel(
    f"{OPS}.var:var_welford_kernel",
    findings={
        "race": "All threads store the variances of their rows at one place. The formula that joins two"
        " parts is not symmetric, so the variances of two lanes differ in their last bit."
    },
)
def variance(draw: Draw) -> Problem:
    x = draw.normal(10, 300, shift=3)
    args = {"X": x, "Var": poisoned(x.values.var(1, ddof=1), "f32"), "M": 10, "N": 300, "correction": 1}
    return Problem(3, args, {"BLOCK_M": 4, "BLOCK_N": 128})


@kernel(f"{OPS}.weightnorm:weight_norm_kernel_first")
def weight_norm(draw: Draw) -> Problem:
    v, g = draw.normal(10, 300), draw.normal(10)
    norm = np.sqrt((v.values**2).sum(1) + 1e-6)
    args = {
        "output": poisoned(v.values / norm[:, None] * g.values[:, None], "f32"),
        "norm": poisoned(norm, "f32"),
        "v": v, "g": g, "M": 10, "N": 300, "eps": 1e-6,
    }  # fmt: skip
    return Problem(3, args, {"BLOCK_ROW_SIZE": 4, "BLOCK_COL_SIZE": 128})


@kernel(f"{OPS}.embedding:embedding_kernel")
def embedding(draw: Draw) -> Problem:
    rows, table = draw.integers(0, 20, 9, kind="s64"), draw.normal(20, 100, kind="bf16")
    args = {"out_ptr": poisoned(table.values[rows.codes], "bf16"), "in_ptr": rows, "weight_ptr": table}
    return Problem(9, args, {"N": 100, "BLOCK_SIZE": 128})


@kernel(f"{OPS}.embedding:indice_freq_kernel")
def frequencies(draw: Draw) -> Problem:
    rows = draw.integers(0, 10, 300)
    counts = Tensor(np.zeros(10), "s32").becomes(np.bincount(rows.codes, minlength=10))
    return Problem(3, {"indices_freq": counts, "indices": rows}, {"elem_cnt": 300, "INDICE_BLOCK_SIZE": 128})


@kernel(f"{OPS}.hadamard_transform:_fht_kernel_256_1d_native")
def hadamard_transform(draw: Draw) -> Problem:
    x, matrix = draw.normal(4, 256), np.ones((1, 1))
    for _ in range(8):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    args = {
        "X_ptr": x,
        "OUT_ptr": poisoned(x.values @ matrix / 16, "f32"),
        "stride_x_row": 256,
        "stride_out_row": 256,
    }
    return Problem(4, args, {"SCALE": 1 / 16})


@kernel(f"{OPS}.i0:i0_kernel")
def bessel_i0(draw: Draw) -> Problem:
    x = draw.normal(500, scale=4)
    args = {"x_ptr": x, "out_ptr": poisoned(np.i0(x.values), "f32"), "n_elements": 500}
    return Problem(2, args, {"BLOCK_SIZE": 256})


@kernel(f"{OPS}.quantile:quantile_bitonic_kernel")
def quantiles(draw: Draw) -> Problem:
    x, q = draw.normal(4, 60), draw.uniform(5)
    args = {
        "inp": x, "q": q, "out": poisoned(np.quantile(x.values, q.values, axis=1).T, "f32"), "N": 4,
        "M": 60, "Q": 5,
    }  # fmt: skip
    return Problem(4, args, {"BLOCK_Q": 8, "BLOCK_M": 64, "interpolation": "linear"})


@kernel(f"{OPS}.scatter_add_:scatter_add_kernel_1")
def scatter_add(draw: Draw) -> Problem:
    index, source, out = draw.integers(0, 20, 12, 30, kind="s64"), draw.normal(12, 30), draw.normal(12, 20)
    expected = out.values.copy()
    np.add.at(expected, (np.arange(12)[:, None], index.codes), source.values)
    args = {
        "index_dim_n": 30, "inp_dim_n": 20, "out_ptr": out.becomes(expected), "index_ptr": index,
        "src_ptr": source,
        "n_elements": 360,
    }  # fmt: skip
    return Problem(3, args, {"BLOCK_SIZE": 128, "LOOP": 1})


@kernel(f"{OPS}.per_token_group_quant_fp8:_per_token_group_quant_fp8", ("90a", "100a"))
def quantization_of_groups(draw: Draw) -> Problem:
    y = draw.normal(4, 256, kind="bf16")
    groups = y.values.reshape(-1, 128)
    scale = np.abs(groups).max(1) / 448
    args = {
        "y_ptr": y, "y_q_ptr": poisoned(groups / scale[:, None], "e4m3"), "y_s_ptr": poisoned(scale, "f32"),
        "group_size": 128, "y_num_columns": 256, "y_row_stride": 256, "eps": 1e-10, "fp8_min": -448.0,
        "fp8_max": 448.0, "scale_ue8m0": 0,
    }  # fmt: skip
    return Problem(8, args, {"BLOCK": 128})
