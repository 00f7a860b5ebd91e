"""The right kernels that are broken, of every family, each with its launch, its arrays and its result."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mutation.families_narrow import newer_families
from benchmarks.mutation.family import Family
from cutecourse.dtypes import decode, dtype, encode
from cutecourse.kernels import LaunchSpec, Scalar, Tensor, TensorMapSpec
from cutecourse.tma import TensorMapEncoding

_HERE = Path(__file__).parent / "kernels"
_NVCC = Path(__file__).parents[2] / "tests" / "emulator" / "modules" / "scalar.ptx"


def whole(*shape: int, seed: int, kind: Any = np.float16) -> Any:
    """Whole numbers whose sums of products are exact in f32."""
    return np.random.default_rng(seed).integers(-8, 8, shape, endpoint=True).astype(kind)


def product(name: str, kind: str, spec: LaunchSpec) -> Family:
    """A GEMM's family, with what the kernel takes for its epilogue."""
    a, b, c, *further = spec.tensors
    given: dict[str, Any] = {
        one.argument: encode(whole(*(extent for extent in one.extents if extent), seed=seed), one.dtype)
        for seed, one in enumerate((a, b, *further))
    }
    known = {
        one.argument: decode(given[one.argument], one.dtype).astype(np.float32) for one in (a, b, *further)
    }
    expected = known[a.argument] @ known[b.argument].T
    if "alpha" in spec.arguments:
        given |= {"alpha": 0.5, "beta": -2.0}
        expected = 0.5 * expected - 2 * known["c"]
    if "scale" in known:
        expected = np.maximum(known["scale"][:, None] * expected + known["bias"], 0)
    given[c.argument] = encode(np.full([extent for extent in c.extents if extent], np.nan), c.dtype)
    return Family(name, kind, spec, given, {c.argument: encode(expected, c.dtype)})


# --- kernels of this folder and of nvcc ---------------------------------------------------------------------


def _own(name: str, target: str, params: tuple[Any, ...], **launch: Any) -> LaunchSpec:
    text = (_HERE / f"{name}.ptx").read_text(encoding="ascii")
    shape = {"grid": (1, 1, 1), **launch}
    return LaunchSpec(name=name, language="ptx", ptx=text, entry=name, target=target, params=params, **shape)


def _nvcc(name: str, params: tuple[Any, ...], **launch: Any) -> LaunchSpec:
    """One kernel of nvcc's module."""
    text = _NVCC.read_text(encoding="ascii")
    head = text[: text.index(".address_size")] + ".address_size 64\n"
    start = text.index(f".visible .entry {name}(")
    end = re.search(r"^\}", text[start:], re.MULTILINE)
    assert end is not None
    body = head + re.sub(r"^\s*\.loc\b.*$", "", text[start : start + end.end()], flags=re.MULTILINE) + "\n"
    return LaunchSpec(
        name=name, language="ptx", ptx=body, entry=name, target="sm_80", params=params, **launch
    )


def _shared_memory() -> list[Family]:
    """Threads that meet in shared memory."""
    words = np.arange(1024, dtype=np.uint32).reshape(32, 32)
    a, b = whole(48, 48, seed=1, kind=np.float32), whole(48, 32, seed=2, kind=np.float32)
    data = whole(2000, seed=3, kind=np.float32)
    bytes_ = np.random.default_rng(4).integers(0, 256, 4000).astype(np.uint8)
    rounds = np.random.default_rng(5).integers(0, 1 << 31, (8, 64)).astype(np.uint32)
    turned = rounds.reshape(8, 32, 2)[:, :, ::-1].reshape(8, 64)
    return [
        Family(
            "transpose",
            "shared memory",
            _own(
                "transpose",
                "sm_80",
                (Tensor("a", "u32", (32, 32)), Tensor("b", "u32", (32, 32))),
                block=(32, 4, 1),
            ),
            {"a": words, "b": np.zeros_like(words)},
            {"b": words.T},
        ),
        Family(
            "matmul of nvcc",
            "shared memory",
            _nvcc(
                "matmul",
                (
                    Tensor("a", "f32", (48, 48)),
                    Tensor("b", "f32", (48, 32)),
                    Tensor("c", "f32", (48, 32)),
                    *(Scalar(name, "s32") for name in "mnk"),
                ),
                grid=(2, 3, 1),
                block=(16, 16, 1),
            ),
            {"a": a, "b": b, "c": np.full((48, 32), np.nan, np.float32), "m": 48, "n": 32, "k": 48},
            {"c": a @ b},
        ),
        Family(
            "reduce_sum of nvcc",
            "shared memory",
            _nvcc(
                "reduce_sum",
                (Tensor("data", "f32", (2000,)), Tensor("out", "f32", (1,)), Scalar("n", "s32")),
                grid=(3, 1, 1),
                block=(128, 1, 1),
            ),
            {"data": data, "out": np.zeros(1, np.float32), "n": 2000},
            {"out": data.sum(keepdims=True)},
        ),
        Family(
            "histogram of nvcc",
            "shared memory",
            _nvcc(
                "histogram",
                (Tensor("data", "u8", (4000,)), Tensor("bins", "u32", (256,)), Scalar("n", "s32")),
                grid=(3, 1, 1),
                block=(96, 1, 1),
            ),
            {"data": bytes_, "bins": np.zeros(256, np.uint32), "n": 4000},
            {"bins": np.bincount(bytes_, minlength=256).astype(np.uint32)},
        ),
        Family(
            "named_barriers",
            "named barriers",
            _own(
                "named_barriers",
                "sm_80",
                (Tensor("a", "u32", (8, 64)), Tensor("b", "u32", (8, 64))),
                block=(128, 1, 1),
            ),
            {"a": rounds, "b": np.zeros_like(rounds)},
            {"b": turned},
        ),
    ]


def _clusters() -> list[Family]:
    """CTAs that meet in each other's shared memory."""
    data = np.random.default_rng(6).integers(0, 1000, 512).astype(np.uint32)
    words = np.arange(128, dtype=np.uint32)
    passed = (words.reshape(4, 32)[(np.arange(4) - 5) % 4] + np.uint32(5000)).reshape(-1)
    return [
        Family(
            "cluster_sum",
            "cluster",
            _own(
                "cluster_sum",
                "sm_90",
                (Tensor("a", "u32", (512,)), Tensor("out", "u32", (512,))),
                grid=(4, 1, 1),
                block=(128, 1, 1),
                cluster=(4, 1, 1),
            ),
            {"a": data, "out": np.zeros_like(data)},
            {"out": np.cumsum(data, dtype=np.uint32)},
        ),
        Family(
            "ring",
            "cluster",
            _own(
                "ring",
                "sm_90",
                (Tensor("out", "u32", (128,)),),
                grid=(4, 1, 1),
                block=(32, 1, 1),
                cluster=(4, 1, 1),
            ),
            {"out": np.zeros(128, np.uint32)},
            {"out": passed},
        ),
        Family(
            "cluster_shift",
            "cluster",
            _own(
                "cluster_shift",
                "sm_90",
                (Tensor("a", "u32", (256,)), Tensor("out", "u32", (256,))),
                grid=(4, 1, 1),
                block=(64, 1, 1),
                cluster=(4, 1, 1),
            ),
            {"a": data[:256], "out": np.zeros(256, np.uint32)},
            {"out": np.roll(data[:256], 64)},
        ),
    ]


def _chain() -> Family:
    """The second of two launches, which may start before the first one has ended."""
    params = tuple(Tensor(name, "u32", (128,)) for name in ("middle", "weights", "out"))
    first, second = (
        _own(name, "sm_90", params, grid=(2, 1, 1), block=(64, 1, 1))
        for name in ("chain_first", "chain_second")
    )
    weights = np.random.default_rng(9).integers(0, 1000, 128).astype(np.uint32)
    arrays = {"middle": np.zeros(128, np.uint32), "weights": weights, "out": np.zeros(128, np.uint32)}
    expected = {"out": 3 * np.arange(128, dtype=np.uint32) + weights}
    return Family("chain", "dependent launch", second, arrays, expected, primary=first)


def _reduction() -> Family:
    a, b = (np.random.default_rng(seed).integers(0, 1000, (128, 32)).astype(np.int32) for seed in (7, 8))
    encoding = TensorMapEncoding(dtype("s32"), dims=(32, 128), strides_bytes=(128,), box=(32, 32))
    spec = _own(
        "tensor_reduce",
        "sm_90",
        (Tensor("a", "s32", (128, 32)), TensorMapSpec.encoded("b", "s32", (128, 32), (32, 1), encoding)),
        grid=(4, 1, 1),
        block=(128, 1, 1),
    )
    return Family("tensor_reduce", "TMA reduce", spec, {"a": a, "b": b}, {"b": b + 2 * a})


def _stencil() -> Family:
    a = np.random.default_rng(9).integers(0, 1000, (32, 32)).astype(np.uint32)
    encoding = TensorMapEncoding(dtype("u32"), dims=(32, 32), strides_bytes=(128,), box=(32, 32))
    spec = _own(
        "stencil",
        "sm_90",
        (TensorMapSpec.encoded("a", "u32", (32, 32), (32, 1), encoding), Tensor("b", "u32", (32, 32))),
        block=(128, 1, 1),
    )
    around = np.pad(a, ((1, 1), (0, 0)))
    expected = around[:-2] + around[1:-1] + around[2:]
    return Family("stencil", "TMA load", spec, {"a": a, "b": np.zeros_like(a)}, {"b": expected})


def _tmem_operand() -> Family:
    encoding = TensorMapEncoding(dtype("f16"), (16, 64), (32,), (16, 64), swizzle="32B")
    spec = _own(
        "tmem_operand",
        "sm_100a",
        (
            Tensor("a", "f16", (128, 16)),
            TensorMapSpec.encoded("b", "f16", (64, 16), (16, 1), encoding),
            Tensor("c", "f32", (128, 64)),
        ),
        block=(128, 1, 1),
    )
    return product("tmem_operand", "tcgen05", spec)


def _cp_async() -> Family:
    spec = _own(
        "cp_async_gemm",
        "sm_80",
        (Tensor("a", "f16", (32, 128)), Tensor("b", "f16", (16, 128)), Tensor("c", "f32", (32, 16))),
        block=(64, 1, 1),
    )
    return product("cp_async_gemm", "cp.async", spec)


# --- kernels of the course ----------------------------------------------------------------------------------


def _registers() -> list[Family]:
    """One warp that multiplies."""
    from cutecourse.kernels import micro_gemm, micro_gemm_ldmatrix, mma_raw, mn_major_ldmatrix_trans

    raw = product("mma_raw", "mma.sync", mma_raw.LAUNCH)
    assert raw.expected is not None
    raw = Family(
        raw.name, raw.kind, raw.spec, {**raw.arrays, "c": np.zeros((16, 8), np.float32)}, raw.expected
    )
    return [
        raw,
        product("micro_gemm", "mma.sync", micro_gemm.LAUNCH),
        product("micro_gemm_ldmatrix", "ldmatrix", micro_gemm_ldmatrix.LAUNCH),
        product("mn_major_ldmatrix_trans", "ldmatrix", mn_major_ldmatrix_trans.LAUNCH),
    ]


def _copies() -> list[Family]:
    """TMA: loads, stores, pipelines, multicast."""
    from cutecourse.kernels import (
        tma_broken,
        tma_cluster_loads,
        tma_load,
        tma_multicast,
        tma_pipeline,
        tma_store,
    )

    a, tall, tile = whole(128, 256, seed=1), whole(512, 256, seed=2), whole(64, 64, seed=3)
    stored = np.full((128, 256), -1, np.float16)
    after = stored.copy()
    after[64:128, 128:192] = tile
    quarter = whole(128, 64, seed=4)
    tiles = tma_broken.TILES
    source = np.random.default_rng(5).integers(
        1, 1000, (tiles * tma_broken.ROWS, tma_broken.COLUMNS), dtype=np.int32
    )
    given_up = np.zeros(2, np.uint32)
    left, right = whole(512, 256, seed=6), whole(1024, 256, seed=7)
    of_row = np.stack([left[128 * (rank % 4) :][:128] for rank in range(16)])
    of_column = np.stack([right[256 * (rank // 4) :][:256] for rank in range(16)])
    return [
        Family(
            "tma_load",
            "TMA load",
            tma_load.LAUNCH,
            {"a": a, "out": np.zeros((64, 64), np.float16)},
            {"out": a[64:128, 128:192]},
        ),
        Family(
            "tma_pipeline",
            "TMA load",
            tma_pipeline.LAUNCH,
            {"a": tall, "out": np.full(512, np.nan, np.float32)},
            {"out": tall.astype(np.float32).sum(axis=1)},
        ),
        Family("tma_store", "TMA store", tma_store.LAUNCH, {"tile": tile, "b": stored}, {"b": after}),
        Family(
            "tma_broken, right",
            "TMA store",
            tma_broken.LAUNCH,
            {"source": source, "result": np.zeros_like(source), "gave_up": given_up, "tiles": tiles},
            {"result": 2 * source, "gave_up": given_up},
        ),
        _stencil(),
        _reduction(),
        Family(
            "tma_multicast",
            "TMA multicast",
            tma_multicast.LAUNCH,
            {"a": quarter, "out": np.full((4, 128, 64), -1, np.float16)},
            {"out": np.stack([quarter] * 4)},
        ),
        Family(
            "tma_cluster_loads",
            "TMA multicast",
            tma_cluster_loads.LAUNCH,
            {
                "a": left,
                "b": right,
                "out_a": np.zeros((16, 128, 256), np.float16),
                "out_b": np.zeros((16, 256, 256), np.float16),
                "masks": np.zeros((16, 2), np.int32),
            },
            {"out_a": of_row, "out_b": of_column},
        ),
    ]


def _tensor_cores() -> list[Family]:
    """tcgen05: one CTA, a cluster, a pair, pipelines, pairs that stay; wgmma with a pipeline."""
    from benchmarks import wgmma_gemm
    from cutecourse.kernels import (
        hopper_roles,
        umma_gemm,
        umma_persistent,
        umma_scheduled,
        umma_store,
        umma_tile,
        umma_tma,
        umma_tma_broken,
        umma_two_sm,
    )

    along_mn = umma_gemm.gemm_spec((256, 256, 512), dtype="bf16", major_a="mn", major_b="mn", cluster=(2, 1))
    return [
        product("umma_tile", "tcgen05", umma_tile.LAUNCH),
        product("umma_tma", "tcgen05", umma_tma.LAUNCH),
        _tmem_operand(),
        product("umma_tma_multicast 2x2", "tcgen05 multicast", umma_tma_broken.LAUNCH),
        product("umma_two_sm", "tcgen05 pair", umma_two_sm.LAUNCH),
        product("umma_gemm 2x2", "tcgen05 pipeline", umma_gemm.gemm_spec((256, 512, 512), cluster=(2, 2))),
        product("umma_gemm, M- and N-major", "tcgen05 pipeline", along_mn),
        product("umma_store", "tcgen05 epilogue", umma_store.spec(256, 512, 320)),
        product("umma_persistent", "tcgen05 persistent", umma_persistent.LAUNCH),
        product("umma_scheduled", "tcgen05 persistent", umma_scheduled.LAUNCH),
        product(
            "umma_store, one SM, C", "tcgen05 epilogue", umma_store.spec(128, 256, 320, sms=1, blends=True)
        ),
        product("umma_persistent, one SM", "tcgen05 persistent", umma_persistent.spec(128, 768, 128, sms=1)),
        product(
            "umma_scheduled, one SM, fused",
            "tcgen05 persistent",
            umma_scheduled.spec(256, 512, 128, sms=1, fuses=True),
        ),
        product("wgmma_gemm", "wgmma", wgmma_gemm.gemm_spec(128, 128, 512)),
        product("hopper_roles", "wgmma", hopper_roles.spec(128, 256, 640)),
        _attention(),
        _hopper_attention(),
    ]


_ALONG_K = {"q": 0, "k": 0, "v": 1}
"""Q and K are multiplied along the head's columns, V along its rows."""


def _attention() -> Family:
    """Attention: two products with a softmax between them, and P in tensor memory."""
    from cutecourse.kernels import umma_attention
    from cutecourse.kernels.files import kernel_module

    spec = umma_attention.spec(1, 136)
    arrays, _ = kernel_module("umma_attention.faults").operands(spec, seed=6)
    return Family("umma_attention", "tcgen05 attention", spec, arrays, None, along_k=_ALONG_K)


def _hopper_attention() -> Family:
    """Chapter 16's last kernel: two heads of 66 rows in one CTA, so each stage and buffer is used twice."""
    from cutecourse.kernels import attention_last, twin

    spec = attention_last.spec(66, 2, how=attention_last.AttentionChoice(True, keys=32, group=2), sms=1)
    random = np.random.default_rng(16)
    arrays = {
        one.argument: encode(random.standard_normal((1, 66, 2, 128)), one.dtype).transpose(1, 3, 2, 0)
        for one in spec.tensors
        if one.argument != "counter"
    }
    arrays["counter"] = np.zeros(1, np.int32)
    return Family("attention_last", "wgmma attention", twin(spec), arrays, None, along_k=_ALONG_K)


_GROUPS: tuple[Callable[[], list[Family]], ...] = (
    _registers,
    _shared_memory,
    lambda: [_cp_async()],
    _clusters,
    lambda: [_chain()],
    _copies,
    newer_families,
    _tensor_cores,
)


def families() -> list[Family]:
    """The kernels that are broken, smallest first. Imports the CuTe DSL, which takes seconds."""
    return [family for group in _GROUPS for family in group()]
