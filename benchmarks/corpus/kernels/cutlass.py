"""CUTLASS's examples of the CuTe DSL, which lie in FlashInfer's package."""

from __future__ import annotations

import numpy as np

from benchmarks.corpus.entries import dsl_kernels
from benchmarks.corpus.problems import Draw, Mapped, Problem, Shaped, Tensor, Zeros, poisoned
from benchmarks.corpus.reference import rstd

kernel = dsl_kernels("cutlass", path="flashinfer/data/cutlass/examples/python/CuTeDSL", compile=True)
M, N, K = 256, 512, 192
TUTORIAL = "blackwell.tutorial_gemm"


def _fake(kind: str, *shape: int, order: tuple[int, ...] = ()) -> dict[str, object]:
    return {"tensor": kind, "shape": list(shape), **({"order": list(order)} if order else {})}


F16 = [_fake("Float16", M, K), _fake("Float16", N, K), _fake("Float16", M, N)]


def _constant(tensor: Tensor) -> Shaped:
    """A tensor whose layout is a constant of the compile."""
    return Shaped(tensor, extents=(), strides=())


def _operands(draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    a, b = draw.normal(M, K, kind="f16"), draw.normal(N, K, kind="f16")
    return a, b, poisoned(a.values @ b.values.T, "f16")


@kernel(f"{TUTORIAL}.fp16_gemm_0:host_function", F16, ("100a",))
def tutorial_gemm_0(draw: Draw) -> Problem:
    a, b, c = _operands(draw)
    args = [Zeros(16, 4), Mapped(a, (64, 128)), Mapped(b, (64, 256)), _constant(c)]
    return Problem((2, 2), args, block=128, smem_bytes=220 << 10)


@kernel(f"{TUTORIAL}.fp16_gemm_1:host_function", F16, ("100a",))
def tutorial_gemm_1_of_two_sms(draw: Draw) -> Problem:
    a, b, c = _operands(draw)
    args = [Zeros(32, 8), Mapped(a, (64, 128)), Mapped(b, (64, 128)), _constant(c)]
    return Problem((2, 2), args, block=128, cluster=(2, 1), smem_bytes=220 << 10)


@kernel(f"{TUTORIAL}.fp16_gemm_2:host_function", F16, ("100a",))
def tutorial_gemm_2_of_roles(draw: Draw) -> Problem:
    a, b, c = _operands(draw)
    args = [Zeros(32, 8), Mapped(a, (64, 128)), Mapped(b, (64, 128)), Mapped(c, (32, 128), "64B")]
    return Problem((2, 2), args, block=192, cluster=(2, 1), smem_bytes=220 << 10)


@kernel("ampere.elementwise_add:elementwise_add", [_fake("Float32", 100, 200)] * 3, ("80", "90a"))
def elementwise_add(draw: Draw) -> Problem:
    a, b = draw.normal(100, 200), draw.normal(100, 200)
    args = [_constant(a), _constant(b), _constant(poisoned(a.values + b.values, "f32"))]
    return Problem(14, args, block=128)


SGEMM = [_fake("Float32", M, K), _fake("Float32", N, K), _fake("Float32", M, N)]


@kernel("ampere.sgemm:SGemm", SGEMM, ("80", "90a"), make=[])
def sgemm(draw: Draw) -> Problem:
    a, b = draw.normal(M, K), draw.normal(N, K)
    args = [_constant(a), _constant(b), _constant(poisoned(a.values @ b.values.T, "f32", tolerance=1e-4))]
    return Problem((2, 4), args, block=256, smem_bytes=100 << 10)


BATCHED = [_fake("Float16", *shape, 1, order=(1, 0, 2)) for shape in ((M, K), (N, K), (M, N))]


@kernel("ampere.tensorop_gemm:TensorOpGemm", BATCHED, ("80", "90a"),
        make=[{"type": "Float16"}, {"type": "Float16"}, {"type": "Float32"}, [2, 2, 1]])  # fmt: skip
def tensor_core_gemm(draw: Draw) -> Problem:
    # Four columns of blocks are rasterized together.
    args = [*(_constant(one) for one in _operands(draw)), np.int32(4)]
    return Problem((8, 1), args, block=128, smem_bytes=100 << 10)


NORM = [_fake("Float16", 7, 512), _fake("Float16", 7, 512), _fake("Float16", 512), _fake("Float16", 512)]


def _norm(draw: Draw, is_layer: bool) -> Problem:
    x, w, b = (
        draw.normal(7, 512, kind="f16", shift=1),
        draw.normal(512, kind="f16"),
        draw.normal(512, kind="f16"),
    )
    centred = x.values - (x.values.mean(1, keepdims=True) if is_layer else 0)
    y = centred * rstd(centred, 1e-6) * w.values + (b.values if is_layer else 0)
    args = [_constant(poisoned(y, "f16")), _constant(x), _constant(w), _constant(b), np.float32(1e-6)]
    return Problem(7, args, block=64, smem_bytes=1 << 14)


@kernel("hopper.cta_norm:CtaNorm", NORM, ("90a", "100a"), make=[512, "layer"])
def layer_norm_of_a_cta(draw: Draw) -> Problem:
    return _norm(draw, True)


@kernel("hopper.cta_norm:CtaNorm", NORM, ("90a", "100a"), make=[512, "rms"])
def rms_norm_of_a_cta(draw: Draw) -> Problem:
    return _norm(draw, False)
