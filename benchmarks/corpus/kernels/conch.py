"""Conch: Triton kernels for inference."""

from __future__ import annotations

import numpy as np

from benchmarks.corpus.entries import triton_kernels
from benchmarks.corpus.problems import Draw, Problem, Tensor, poisoned
from benchmarks.corpus.reference import rstd, silu

kernel = triton_kernels("conch")
OPS = "conch.kernels"
R, N = 5, 200


@kernel(f"{OPS}.activation.gelu_tanh_and_mul:_gelu_tanh_and_mul_kernel")
def gelu_tanh_and_mul(draw: Draw) -> Problem:
    x = draw.normal(R, 2 * N)
    left, right = x.values[:, :N], x.values[:, N:]
    beta, kappa = float(np.sqrt(2 / np.pi)), 0.044715
    out = 0.5 * left * (1 + np.tanh(beta * (left + kappa * left**3))) * right
    args = {"out_ptr": poisoned(out, "f32"), "out_stride": N, "in_ptr": x, "in_stride": 2 * N, "d": N}
    return Problem(R, args, {"cxpr_block_size": 128, "cxpr_beta": beta, "cxpr_kappa": kappa})


@kernel(f"{OPS}.activation.silu_and_mul:_silu_and_mul_kernel")
def silu_and_mul(draw: Draw) -> Problem:
    x = draw.normal(R, 2 * N, kind="bf16")
    out = silu(x.values[:, :N]) * x.values[:, N:]
    args = {
        "output_ptr": poisoned(out, "bf16"),
        "x_ptr": x,
        "output_stride": N,
        "input_stride": 2 * N,
        "d": N,
    }
    return Problem(R, args, {"cxpr_block_size": 128})


@kernel(f"{OPS}.normalization.rms_norm:_rms_norm_kernel")
def rms_norm(draw: Draw) -> Problem:
    x, w = draw.normal(R, N, kind="f16"), draw.normal(N, kind="f16")
    out = x.values * rstd(x.values, 1e-6) * w.values
    args = {
        "output_ptr": poisoned(out, "f16"),
        "x_ptr": x,
        "weight_ptr": w,
        "hidden_size": N,
        "epsilon": 1e-6,
    }
    return Problem(R, args, {"cxpr_block_size": 256, "cxpr_use_residual": False})


@kernel(f"{OPS}.normalization.gemma_rms_norm:_gemma_rms_norm_inplace_kernel")
def gemma_rms_norm(draw: Draw) -> Problem:
    x, w = draw.normal(R, N, kind="bf16"), draw.normal(N, kind="bf16")
    x.becomes(x.values * rstd(x.values, 1e-6) * (1 + w.values))
    args = {"x_ptr": x, "weights_ptr": w, "hidden_size": N, "eps": 1e-6}
    return Problem(R, args, {"cxpr_block_size": 256})


@kernel(f"{OPS}.quantization.fp8:_static_scaled_fp8_quant_kernel", ("90a", "100a"))
def fp8_quantization(draw: Draw) -> Problem:
    x, scale = draw.normal(R, N), Tensor([0.02], "f32")
    out = poisoned(x.values / scale.values, "e4m3")
    args = {"output_ptr": out, "input_ptr": x, "scale_ptr": scale, "hidden_size": N}
    return Problem(R, args, {"cxpr_hidden_size_padded": 256, "cxpr_block_size": 128, "cxpr_is_rocm": False})


@kernel(f"{OPS}.quantization.int8:_static_scaled_int8_quant_kernel")
def int8_quantization(draw: Draw) -> Problem:
    x, scale = draw.normal(R, N), Tensor([0.02], "f32")
    # The kernel multiplies by the inverse in f32 and cuts: the same two roundings decide which integer it is.
    scaled = x.codes * (np.float32(1) / scale.codes)
    out = poisoned(np.trunc(np.clip(scaled, -128, 127)), "s8")
    args = {
        "output_ptr": out,
        "input_ptr": x,
        "scale_ptr": scale,
        "hidden_size": N,
        "int8_min": -128,
        "int8_max": 127,
    }
    return Problem(R, args, {"cxpr_hidden_size_padded": 256, "cxpr_block_size": 128})


@kernel(f"{OPS}.quantization.gemm:_gemm_kernel")
def gemm_of_4_bit_weights(draw: Draw) -> Problem:
    m, n, k, group = 64, 128, 128, 64
    a, codes = draw.normal(m, k, kind="f16"), draw.integers(0, 16, k, n).codes
    packed = np.zeros((k // 8, n), np.int64)
    for place in range(8):
        packed |= codes[place::8].astype(np.int64) << (4 * place)
    b = Tensor(packed.astype(np.uint32).view(np.int32), "s32")
    scales = draw.uniform(k // group, n, low=0.05, high=0.1, kind="f16")
    weights = (codes - 8) * np.repeat(scales.values, group, axis=0)
    args = {
        "a_ptr": a, "b_ptr": b, "c_ptr": poisoned(a.values @ weights, "f16", tolerance=5e-3),
        "scales_ptr": scales,
        "zeros_ptr": draw.uniform(k // group, n, kind="f16"), "scales_a_ptr": None, "m_dim": m, "k_dim": k,
        "n_dim": n,
    }  # fmt: skip
    f16 = {"type": "float16"}
    constants = {
        "cxpr_w_nbits": 4, "cxpr_weight_bias": 8, "cxpr_group_size": group, "cxpr_unpack_mask": 15,
        "cxpr_elements_per_sample": 8, "matrix_a_stride_m": k, "matrix_a_stride_k": 1, "matrix_b_stride_k": n,
        "matrix_b_stride_n": 1, "matrix_c_stride_m": n, "matrix_c_stride_n": 1, "meta_stride_g": n,
        "meta_stride_n": 1, "cxpr_input_dtype": f16, "cxpr_output_dtype": f16,
        "cxpr_acc_dtype": {"type": "float32"},
        "cxpr_meta_dtype": f16, "cxpr_channel_scale_mode": 0, "cxpr_w_group_mode": 2,
        "cxpr_zero_is_scalar": False,
        "cxpr_data_contiguous": True, "cxpr_block_size_m": 64, "cxpr_block_size_n": 64,
        "cxpr_block_size_k": 64,
        "cxpr_block_size_scale_a": 1, "cxpr_block_size_scale_b": 1, "cxpr_group_size_m": 8,
        "cxpr_matrix_a_load_order": 2, "cxpr_swizzle_pid": True, "cxpr_matrix_a_eviction_policy": "",
        "cxpr_matrix_b_eviction_policy": "", "cxpr_meta_eviction_policy": "",
    }  # fmt: skip
    return Problem(2, args, constants)


HEADS, WIDTH, BLOCK = 2, 48, 4


@kernel(f"{OPS}.vllm.reshape_and_cache:_reshape_and_cache_kernel")
def reshape_and_cache(draw: Draw) -> Problem:
    key, value = draw.normal(R, HEADS, WIDTH, kind="f16"), draw.normal(R, HEADS, WIDTH, kind="f16")
    slots = Tensor(draw.random.permutation(3 * BLOCK)[:R], "s64")
    caches = [draw.normal(3, BLOCK, HEADS, WIDTH, kind="f16") for _ in range(2)]
    for cache, given in zip(caches, (key, value), strict=True):
        filled = cache.values.copy()
        filled[slots.codes // BLOCK, slots.codes % BLOCK] = given.values
        cache.becomes(filled)
    args = {
        "key_ptr": key, "value_ptr": value, "key_cache_ptr": caches[0], "value_cache_ptr": caches[1],
        "slot_mapping_ptr": slots, "k_scale_ptr": None, "v_scale_ptr": None, "head_size": WIDTH,
        "cache_block_size": BLOCK, "kv_token_stride": HEADS * WIDTH, "kv_head_stride": WIDTH,
        "kv_cache_page_stride": BLOCK * HEADS * WIDTH, "kv_cache_block_stride": HEADS * WIDTH,
    }  # fmt: skip
    return Problem((R, HEADS), args, {"cxpr_head_size_padded": 64, "cxpr_apply_fp8_scaling": False})


@kernel(f"{OPS}.embedding.rotary_embedding:_rotary_embedding_kernel")
def rotary_embedding(draw: Draw) -> Problem:
    half = WIDTH // 2
    positions = draw.integers(0, 20, R, kind="s64")
    query, key = draw.normal(R, 4, WIDTH), draw.normal(R, HEADS, WIDTH)
    cache = draw.normal(20, WIDTH)
    cos, sin = (part[positions.codes][:, None] for part in (cache.values[:, :half], cache.values[:, half:]))
    for one in (query, key):
        x, y = one.values[..., :half], one.values[..., half:]
        one.becomes(np.concatenate([x * cos - y * sin, y * cos + x * sin], axis=-1))
    args = {
        "positions_ptr": positions, "query_ptr": query, "key_ptr": key, "cos_sin_cache_ptr": cache,
        "rot_dim": WIDTH,
        "query_stride": 4 * WIDTH, "key_stride": HEADS * WIDTH, "num_heads": 4, "num_kv_heads": HEADS,
        "head_size": WIDTH,
    }  # fmt: skip
    return Problem(R, args, {"cxpr_block_size": 64})
