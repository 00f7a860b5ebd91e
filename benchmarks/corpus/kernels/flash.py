"""FlashAttention 4: attention in the CuTe DSL, for Hopper with wgmma and for Blackwell with tcgen05."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus.entries import dsl_kernels
from benchmarks.corpus.problems import Draw, Mapped, Problem, Shaped, Tensor, Zeros, poisoned
from cutecourse.analysis.dsl import DslCoordTensor, DslFastDivmod

Array = NDArray[Any]
kernel = dsl_kernels("flash")
INTERFACE = "flash_attn.cute.interface"
B, S_Q, S_K, H = 2, 200, 280, 2
ALL_SMEM = 227 << 10
OF_HOPPER, OF_BLACKWELL = [Zeros(1, 0)] * 2, [Zeros(0, 8)] * 2
"""The tiled MMAs of a kernel's two products."""


def _fake(kind: str, *shape: int) -> dict[str, object]:
    return {"torch": kind, "shape": list(shape)}


def _forward(d: int, dv: int = 0, h_k: int = H, kind: str = "bfloat16", **keywords: Any) -> dict[str, Any]:
    """The request for a forward kernel of these widths and heads."""
    q, k, v = _fake(kind, B, S_Q, H, d), _fake(kind, B, S_K, h_k, d), _fake(kind, B, S_K, h_k, dv or d)
    return {
        "function": f"{INTERFACE}:_flash_attn_fwd",
        "arguments": [q, k, v],
        "cache": "_flash_attn_fwd.compile_cache.cache",
        "keywords": {"return_lse": True, **keywords},
    }


def _attention(q: Array, k: Array, v: Array, seen: Array) -> tuple[Array, Array]:
    """The output, (B, S_Q, H, DV), and the logarithm of each row's sum, (B, H, S_Q)."""
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    scores = np.where(seen, np.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[3] ** -0.5, -np.inf)
    sums = np.logaddexp.reduce(scores, axis=3)
    return np.einsum("bhqk,bkhd->bqhd", np.exp(scores - sums[..., None]), v), sums


def _distance() -> Array:
    """How far behind the last key that a query may see with a causal mask each key is."""
    return np.arange(S_Q)[:, None] + (S_K - S_Q) - np.arange(S_K)


def _divisor(number: int) -> list[Any]:
    """The two parameters of a divisor."""
    return [DslFastDivmod(number), np.int32(number)]


def _scheduler(blocks: int, width: int, splits: list[Any], n_heads: int = H) -> list[Any]:
    """SingleTileLPTScheduler's parameters: it orders blocks by their work and by what the L2 cache holds."""
    heads = 1 << int(math.log2((50 << 20) // (S_K * width * 2)))
    over = n_heads * B % heads
    divisors = [n_heads, heads, heads * blocks, max(over, 1)]
    numbers = [np.int32(one) for one in (blocks, n_heads, B, heads)]
    sections = [*(part for one in divisors for part in _divisor(one)), np.int32(n_heads * B // heads)]
    return [np.int32(blocks * n_heads * B), *splits, *numbers, *sections, *_divisor(1)]


def _inputs(draw: Draw, d: int, dv: int, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    return (draw.normal(B, S_Q, H, d, kind=kind), draw.normal(B, S_K, H, d, kind=kind),
            draw.normal(B, S_K, H, dv, kind=kind))  # fmt: skip


def _operands(
    draw: Draw, seen: Array, tile: tuple[int, int], d: int, dv: int = 0, kind: str = "bf16"
) -> list[Any]:
    """The coordinates, the sums, the maps and the scale, which all kernels have."""
    q, k, v = _inputs(draw, d, dv or d, kind)
    out, sums = _attention(q.values, k.values, v.values, seen)
    o, lse = poisoned(out, kind, tolerance=0.02), poisoned(sums, "f32", tolerance=1e-3)
    order, rows = (3, 1, 2, 0), (tile[0], tile[1], tile[1], tile[0])
    maps = [Mapped(one, (64, row), axes=order) for one, row in zip((q, k, v, o), rows, strict=True)]
    coordinates = [DslCoordTensor([one.codes.shape[axis] for axis in (1, 3, 2, 0)]) for one in (q, k, v, o)]
    return [*coordinates, Shaped(lse, (2, 1, 0), (1, 0)), *maps, np.float32(d**-0.5 * math.log2(math.e))]


def _hopper(draw: Draw, tile: tuple[int, int], d: int, dv: int = 0, kind: str = "bf16") -> Problem:
    seen = np.ones((S_Q, S_K), bool)
    args = [*_operands(draw, seen, tile, d, dv, kind), *OF_HOPPER, *[np.int32(1)] * 3, *_divisor(1)]
    return Problem((-(-S_Q // tile[0]), H, B), args, block=_threads(tile), smem_bytes=ALL_SMEM)


def _threads(tile: tuple[int, int]) -> int:
    return 128 + 2 * tile[0]


def _causal_hopper(draw: Draw, tile: tuple[int, int], d: int) -> Problem:
    blocks = -(-S_Q // tile[0])
    args = [*_operands(draw, _distance() >= 0, tile, d), *OF_HOPPER, *_scheduler(blocks, 2 * d, [])]
    return Problem(blocks * H * B, args, block=_threads(tile), smem_bytes=ALL_SMEM)


@kernel(**_forward(64))
def hopper_forward_64(draw: Draw) -> Problem:
    return _hopper(draw, (192, 128), 64)


@kernel(**_forward(64, kind="float16"))
def hopper_forward_64_f16(draw: Draw) -> Problem:
    return _hopper(draw, (192, 128), 64, kind="f16")


@kernel(**_forward(128))
def hopper_forward_128(draw: Draw) -> Problem:
    return _hopper(draw, (128, 128), 128)


@kernel(**_forward(192, 128))
def hopper_forward_192(draw: Draw) -> Problem:
    return _hopper(draw, (128, 128), 192, 128)


@kernel(**_forward(256))
def hopper_forward_256(draw: Draw) -> Problem:
    return _hopper(draw, (128, 80), 256)


@kernel(**_forward(64, causal=True))
def hopper_causal_64(draw: Draw) -> Problem:
    return _causal_hopper(draw, (192, 128), 64)


@kernel(**_forward(128, causal=True))
def hopper_causal_128(draw: Draw) -> Problem:
    return _causal_hopper(draw, (128, 128), 128)


@kernel(**_forward(64, window_size_left=64, window_size_right=0))
def hopper_window_64(draw: Draw) -> Problem:
    seen = (_distance() >= 0) & (_distance() <= 64)
    window = [np.int32(64), np.int32(0)]
    args = [*_operands(draw, seen, (192, 128), 64), *window, *OF_HOPPER, *[np.int32(1)] * 3, *_divisor(1)]
    return Problem((2, H, B), args, block=_threads((192, 128)), smem_bytes=ALL_SMEM)


def _blackwell(draw: Draw, d: int, seen: Array, window: list[Any]) -> Problem:
    args = [*_operands(draw, seen, (128, 128), d), *window, *OF_BLACKWELL,
            *_scheduler(1, 2 * d, [np.int32(1)]), np.int32(1)]  # fmt: skip
    return Problem(H * B, args, block=512, smem_bytes=ALL_SMEM)


@kernel(on=("100a",), **_forward(64, causal=True))
def blackwell_causal_64(draw: Draw) -> Problem:
    return _blackwell(draw, 64, _distance() >= 0, [])


@kernel(on=("100a",), **_forward(128, causal=True))
def blackwell_causal_128(draw: Draw) -> Problem:
    return _blackwell(draw, 128, _distance() >= 0, [])


@kernel(on=("100a",), **_forward(64, window_size_left=64, window_size_right=0))
def blackwell_window_64(draw: Draw) -> Problem:
    return _blackwell(draw, 64, (_distance() >= 0) & (_distance() <= 64), [np.int32(64), np.int32(0)])


def _grouped(draw: Draw, groups: tuple[int, ...]) -> list[Any]:
    """As _operands, for H heads that share the keys and values of one and lie in one tile.

    groups  the query's heads, as the tensor maps have them.
    """
    q, k, v = (
        draw.normal(B, S_Q, H, 128, kind="bf16"),
        *(draw.normal(B, S_K, 1, 128, kind="bf16") for _ in "kv"),
    )
    out, sums = _attention(q.values, k.values, v.values, _distance() >= 0)
    o, lse = poisoned(out, "bf16", tolerance=0.02), poisoned(sums[:, None], "f32", tolerance=1e-3)
    for one in (q, o):
        one.codes = one.codes.reshape(B, S_Q, *groups, 128)
    o.becomes(out.reshape(o.codes.shape), tolerance=0.02)
    axes = (3, 2, 1, 0) if len(groups) == 1 else (4, 3, 1, 2, 0)
    packed = [Mapped(one, (64, H, 128 // H), axes=axes) for one in (q, o)]
    single = [Mapped(one, (64, 128), axes=(3, 1, 2, 0)) for one in (k, v)]
    coordinates = [DslCoordTensor([length, 128, 1, B]) for length in (S_Q, S_K, S_K, S_Q)]
    return [*coordinates, Shaped(lse, (3, 1, 0), (2, 1, 0)), packed[0], *single, packed[1],
            np.float32(128**-0.5 * math.log2(math.e))]  # fmt: skip


GROUPED = _forward(128, h_k=1, causal=True)


@kernel(**GROUPED)
def hopper_grouped_128(draw: Draw) -> Problem:
    blocks = -(-S_Q * H // 128)
    args = [*_grouped(draw, (H,)), *OF_HOPPER, *_scheduler(blocks, 256, [], 1)]
    return Problem(blocks * B, args, block=384, smem_bytes=ALL_SMEM)


@kernel(on=("100a",), **GROUPED)
def blackwell_grouped_128(draw: Draw) -> Problem:
    blocks = -(-S_Q * H // 256)
    args = [*_grouped(draw, (1, H)), *OF_BLACKWELL, *_scheduler(blocks, 256, [np.int32(1)], 1), np.int32(1),
            *_divisor(H)]  # fmt: skip
    return Problem(blocks * B, args, block=512, smem_bytes=ALL_SMEM)
