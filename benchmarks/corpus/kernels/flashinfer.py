"""FlashInfer: CUDA C++ kernels for inference, compiled from the headers in its package."""

from __future__ import annotations

import numpy as np

from benchmarks.corpus.entries import cuda_kernels
from benchmarks.corpus.problems import Draw, Problem, Tensor, poisoned
from benchmarks.corpus.reference import silu

DATA = "flashinfer/data"
INCLUDE = [f"{DATA}/include", f"{DATA}/csrc"]
kernel = cuda_kernels("flashinfer", INCLUDE)
rope = cuda_kernels(
    "flashinfer", [*INCLUDE, f"{DATA}/cccl/libcudacxx/include", f"{DATA}/cccl/cub", f"{DATA}/cccl/thrust"]
)
R, N = 5, 512
SILU = "__device__ float silu(const float &x) { return x / (1.0f + __expf(-x)); }"


@kernel(
    "flashinfer/activation.cuh",
    "flashinfer::activation::act_and_mul_kernel<half, silu, 8>",
    ("80", "90a"),
    before=SILU,
)
def silu_and_mul(draw: Draw) -> Problem:
    x = draw.normal(R, 2 * N, kind="f16")
    y = poisoned(silu(x.values[:, :N]) * x.values[:, N:], "f16")
    return Problem(R, [y, x, N], block=64)


def _states(draw: Draw, count: int):
    values, scores = draw.normal(count, R, 2, 64, kind="f16"), draw.normal(count, R, 2)
    powers = np.exp2(scores.values)
    merged = (values.values * powers[..., None]).sum(0) / powers.sum(0)[..., None]
    return values, scores, merged, np.log2(powers.sum(0))


@kernel("flashinfer/attention/cascade.cuh", "flashinfer::MergeStateKernel<8, half, half>")
def merge_of_two_states(draw: Draw) -> Problem:
    values, scores, merged, total = _states(draw, 2)
    (va, vb), (sa, sb) = ([Tensor(part, one.kind.name) for part in one.values] for one in (values, scores))
    args = [va, sa, vb, sb, poisoned(merged, "f16"), poisoned(total, "f32"), 2, 64]
    return Problem(R, args, block=(8, 2))


@kernel("flashinfer/attention/cascade.cuh", "flashinfer::MergeStateInPlaceKernel<8, half>")
def merge_in_place(draw: Draw) -> Problem:
    values, scores, merged, total = _states(draw, 2)
    (va, vb), (sa, sb) = ([Tensor(part, one.kind.name) for part in one.values] for one in (values, scores))
    mask = Tensor(np.array([1, 1, 0, 1, 1]), "u8")
    kept = mask.values.astype(bool)
    va.becomes(np.where(kept[:, None, None], merged, va.values))
    sa.becomes(np.where(kept[:, None], total, sa.values))
    return Problem(R, [va, sa, vb, sb, mask, 2, 64], block=(8, 2))


@kernel("flashinfer/attention/cascade.cuh", "flashinfer::MergeStatesKernel<8, half, half>")
def merge_of_states(draw: Draw) -> Problem:
    values, scores, merged, total = _states(draw, 6)
    given = [Tensor(np.moveaxis(one.values, 0, 1), one.kind.name) for one in (values, scores)]
    return Problem(R, [*given, poisoned(merged, "f16"), poisoned(total, "f32"), 6, 2, 64], block=(8, 2))


@kernel("flashinfer/attention/cascade.cuh", "flashinfer::AttentionSumKernel<8, half, half>")
def sum_of_states(draw: Draw) -> Problem:
    values = draw.normal(R, 6, 2, 64, kind="f16")
    return Problem(R, [values, poisoned(values.values.sum(1), "f16", tolerance=4e-3), 6, 2, 64], block=(8, 2))


@kernel(
    "flashinfer/quantization.cuh",
    "flashinfer::quantization::PackBitsKernel<flashinfer::quantization::BitOrder::kLittle>",
    entry="PackBitsKernel<1>",
)
def packed_bits(draw: Draw) -> Problem:
    bits = draw.integers(0, 2, 3000, kind="u8")
    packed = poisoned(np.packbits(bits.codes, bitorder="little"), "u8")
    return Problem(2, [bits, packed, 3000], block=256)


def _rotated(draw: Draw, turn):
    positions = draw.integers(0, 16, R)
    q, k = draw.normal(R, 4, 64, kind="f16"), draw.normal(R, 2, 64, kind="f16")
    outputs = [poisoned(turn(one.values, positions.codes), "f16") for one in (q, k)]
    return positions, q, k, outputs


@rope(
    "flashinfer/pos_enc.cuh",
    "flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<false, 64, 8, 8, half, int, 1>",
)
def rope_with_a_cache(draw: Draw) -> Problem:
    cache = draw.normal(16, 64)

    def turn(x, at):
        cos, sin = cache.values[at][:, None, :32], cache.values[at][:, None, 32:]
        left, right = x[..., :32], x[..., 32:]
        return np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)

    positions, q, k, (q_out, k_out) = _rotated(draw, turn)
    args = [q, k, q_out, k_out, cache, positions, R, 4, 2, 64, 256, 64, 128, 64, 256, 64, 128, 64]
    return Problem(2, args, block=(8, 4))


@rope("flashinfer/pos_enc.cuh", "flashinfer::BatchQKApplyRotaryPosIdsKernel<true, 64, 8, 8, half, int>")
def rope_of_neighbours(draw: Draw) -> Problem:
    def turn(x, at):
        angle = at[:, None, None] * 10000.0 ** (-np.arange(32) / 32)
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * np.cos(angle) - x[..., 1::2] * np.sin(angle)
        out[..., 1::2] = x[..., 1::2] * np.cos(angle) + x[..., 0::2] * np.sin(angle)
        return out

    positions, q, k, (q_out, k_out) = _rotated(draw, turn)
    args = [
        q,
        k,
        q_out,
        k_out,
        positions,
        R,
        4,
        2,
        64,
        256,
        64,
        128,
        64,
        256,
        64,
        128,
        64,
        0.0,
        0.0,
        1.0,
        1e-4,
    ]
    return Problem(2, args, block=(8, 4))
