"""SageAttention: attention with 8-bit products."""

from __future__ import annotations

import numpy as np

from benchmarks.corpus.entries import triton_kernels
from benchmarks.corpus.problems import Draw, Problem, poisoned
from benchmarks.corpus.reference import softmax

kernel = triton_kernels("sage")
HEADS, LENGTH, WIDTH = 2, 128, 64
STRIDES = [HEADS * LENGTH * WIDTH, LENGTH * WIDTH, WIDTH]


@kernel("sageattention.quant_per_block:quant_per_block_int8_kernel")
def quantization_of_blocks(draw: Draw) -> Problem:
    x = draw.normal(1, HEADS, LENGTH, WIDTH, kind="f16")
    blocks = x.values.reshape(HEADS, 2, 64, WIDTH) * 0.5
    scale = np.abs(blocks).max((2, 3)) / 127
    ratio = blocks / scale[..., None, None]
    codes = np.trunc(ratio + np.where(ratio >= 0, 0.5, -0.5)).reshape(x.values.shape)
    edge = np.abs(np.abs(ratio) % 1 - 0.5).reshape(x.values.shape) < 1e-4
    args = {
        "Input": x, "Output": poisoned(codes, "s8", where=~edge), "Scale": poisoned(scale[None], "f32"),
        "L": LENGTH,
        "stride_iz": STRIDES[0], "stride_ih": STRIDES[1], "stride_in": STRIDES[2], "stride_oz": STRIDES[0],
        "stride_oh": STRIDES[1], "stride_on": STRIDES[2], "stride_sz": 2 * HEADS, "stride_sh": 2,
        "sm_scale": 0.5,
    }  # fmt: skip
    return Problem((2, HEADS, 1), args, {"C": WIDTH, "BLK": 64})


@kernel(
    "sageattention.attn_qk_int8_per_block:_attn_fwd",
    ("80", "90a"),
    why="PTX leaves the result undefined: see what the emulator found in it.",
    findings={
        "accumulator in flight": "Triton 3.9 takes the accumulators of f16 apart between wgmma.commit_group"
        " and wgmma.wait_group. ptxas adds a wait there."
    },
)
def attention_of_8_bits(draw: Draw) -> Problem:
    q, k = (draw.integers(-100, 100, 1, HEADS, LENGTH, WIDTH, kind="s8") for _ in range(2))
    v = draw.normal(1, HEADS, LENGTH, WIDTH, kind="f16")
    q_scale, k_scale = (
        draw.uniform(1, HEADS, 1, low=0.005, high=0.01),
        draw.uniform(1, HEADS, 2, low=0.005, high=0.01),
    )
    scores = np.einsum("bhqd,bhkd->bhqk", q.values, k.values) * q_scale.values[..., None]
    scores = scores * np.repeat(k_scale.values, 64, axis=2)[:, :, None]
    out = np.einsum("bhqk,bhkd->bhqd", softmax(scores * np.log(2)), v.values)
    args: dict[str, object] = {"Q": q, "K": k, "V": v, "Q_scale": q_scale, "K_scale": k_scale,
                               "Out": poisoned(out, "f16", tolerance=2e-2)}  # fmt: skip
    for name in "qkvo":
        args |= {f"stride_{name}{axis}": step for axis, step in zip("zhn", STRIDES, strict=True)}
    args |= {"qo_len": LENGTH, "kv_len": LENGTH}
    constants = {"H": HEADS, "num_kv_groups": 1, "HEAD_DIM": WIDTH, "BLOCK_M": 128, "BLOCK_N": 64, "STAGE": 1}
    return Problem((1, HEADS, 1), args, constants)
