"""Unsloth's grouped GEMM, with pointers and with tensor maps that the kernel makes itself."""

from __future__ import annotations

import numpy as np

from benchmarks.corpus.entries import triton_kernels
from benchmarks.corpus.problems import Draw, Problem, Tensor, poisoned

kernel = triton_kernels("unsloth")
GROUPED = "unsloth.kernels.moe.grouped_gemm.kernels.forward:_grouped_gemm_forward_kernel"
EXPERTS, TOKENS, N, K = 3, 96, 128, 128
CONSTANTS = {
    "NUM_EXPERTS": EXPERTS, "TOPK": 1, "N": N, "K": K, "BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64,
    "BLOCK_SIZE_K": 64, "PERMUTE_X": False, "PERMUTE_Y": False, "FUSE_MUL_PRE": False, "FUSE_MUL_POST": False,
    "USE_FAST_ACCUM": False, "acc_dtype": {"type": "float32"}, "FLATTEN": True,
}  # fmt: skip


def _grouped(draw: Draw, *, loads_by_tma: bool, stores_by_tma: bool) -> Problem:
    sizes = np.array([64, 0, 32])
    x, w = draw.normal(TOKENS, K, kind="bf16"), draw.normal(EXPERTS, N, K, kind="bf16", scale=0.1)
    expert = np.repeat(np.arange(EXPERTS), sizes)
    args = {
        "x_ptr": x,
        "w_ptr": w,
        "y_ptr": poisoned(np.einsum("tk,tnk->tn", x.values, w.values[expert]), "bf16"),
        "m_sizes_ptr": Tensor(sizes, "s32"),
        "gather_indices_ptr": Tensor(np.arange(TOKENS), "s32"),
        "topk_weights_ptr": Tensor(np.ones(TOKENS), "f32"),
        "NUM_TOKENS": TOKENS,
        "NUM_SMS": 4,
    }
    by_tma = {
        "USE_TMA_LOAD_W": loads_by_tma,
        "USE_TMA_LOAD_X": loads_by_tma,
        "USE_TMA_STORE": stores_by_tma,
    }
    return Problem(4, args, {**CONSTANTS, **by_tma})


@kernel(GROUPED, ("80", "90a", "100a"))
def grouped_gemm(draw: Draw) -> Problem:
    return _grouped(draw, loads_by_tma=False, stores_by_tma=False)


@kernel(GROUPED, ("90a", "100a"))
def grouped_gemm_of_made_tensor_maps(draw: Draw) -> Problem:
    return _grouped(draw, loads_by_tma=True, stores_by_tma=False)


@kernel(GROUPED, ("90a", "100a"))
def grouped_gemm_with_a_tensor_map_for_each_expert(draw: Draw) -> Problem:
    return _grouped(draw, loads_by_tma=True, stores_by_tma=True)
