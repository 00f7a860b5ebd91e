"""The numbers of wgmma: sums as Hopper's tensor cores form them, in doubles.

wgmma adds like mma.sync on the same GPU (emulator.numbers.mma_sums has the model and its sources):
all K products and the accumulator are aligned to the largest exponent among them, cut off, added exactly and
rounded once. With 8-bit floats fewer places are kept, 13 below the largest exponent, and an f32 result has 13
fraction bits.

`fused_sums` gives the same bits as `mma_arithmetic.fused_float_products`, several times faster: a double
holds each product, a power of two scales it without loss, and the sum of 33 terms of 27 bits is exact.

Source: PTX ISA 9.0, wgmma.mma_async (#asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async),
        leaves order and rounding open; the model is that of P. Xie et al., MMA-Sim: Bit-Accurate Reference
        Model of Tensor Cores and Matrix Cores (arXiv:2511.10909).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.numbers.formats import FORMATS, to_float64, unpack
from cutecourse.emulator.numbers.mma_sums import TENSOR_CORES, TensorCore

__all__ = ["fused_sums", "whole_sums"]

_HOPPER = TENSOR_CORES["sm_90"]
_HOPPER_8_BITS = replace(_HOPPER, fraction_bits=13)
_CUT_F32 = np.uint32(0xFFFF_FC00)
"""The mask that keeps 13 fraction bits of an f32."""
Floats = NDArray[np.float64]


def fused_sums(
    a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], types: tuple[str, str], accumulator: str
) -> NDArray[np.uint32]:
    """A * B^T + C in one instruction, all as bits; C and the result f32 or f16, `types` those of A and B.

    Shapes: a (M, K), b (N, K), c and the result (M, N).

    >>> one = np.full((2, 16), 0x3C00, dtype=np.uint16)
    >>> fused_sums(one, one, np.zeros((2, 2), dtype=np.uint32), ("f16", "f16"), "f32").view(
    ...     np.float32
    ... ).tolist()
    [[16.0, 16.0], [16.0, 16.0]]
    """
    narrow = a.itemsize == 1
    core = _HOPPER_8_BITS if narrow else _HOPPER
    with np.errstate(all="ignore"):
        left, right, addend = _taken(a, types[0]), _taken(b, types[1]), _taken(c, accumulator)
        if left.finite and right.finite and addend.finite:
            total = _sums(left, right, addend, core, accumulator)
        else:
            total = _sums(
                left.without_specials(),
                right.without_specials(),
                addend.without_specials(),
                core,
                accumulator,
            )
            classes = np.einsum("mk,nk->mn", left.classes(), right.classes()) + addend.classes()
            total = np.where(np.isfinite(classes), total, classes)
        return _to_f16(total) if accumulator == "f16" else _to_f32(total, cut=narrow)


@dataclass(frozen=True, slots=True)
class _Taken:
    """Numbers, the powers of two that their exponents stand for (0 of a zero), and whether all are finite."""

    values: Floats
    powers: Floats
    finite: bool

    def without_specials(self) -> _Taken:
        """With zeros for infinities and NaNs, which take no part in the sum."""
        if self.finite:
            return self
        finite = np.isfinite(self.values)
        return _Taken(np.where(finite, self.values, 0.0), np.where(finite, self.powers, 0.0), finite=True)

    def classes(self) -> Floats:
        """The values as signs, infinities and NaNs: enough to tell a sum's class, with no overflow."""
        return np.where(np.isfinite(self.values), np.sign(self.values), self.values)


def _sums(left: _Taken, right: _Taken, addend: _Taken, core: TensorCore, accumulator: str) -> Floats:
    """The terms aligned, cut and added."""
    floor = core.zero_exponent_f16 if accumulator == "f16" else core.zero_exponent_f32
    largest = np.maximum(addend.powers, 2.0**floor)
    a, a_powers = left.values, left.powers
    b, b_powers = np.ascontiguousarray(right.values.T), np.ascontiguousarray(right.powers.T)
    # Column by column of K: arrays of (M, N) stay in the cache, one of (M, N, K) does not.
    scratch = np.empty_like(largest)
    for k in range(a.shape[1]):
        np.multiply(a_powers[:, k, None], b_powers[k], out=scratch)
        np.maximum(largest, scratch, out=largest)
    scale = 2.0**core.fraction_bits / largest
    total: Floats = np.trunc(addend.values * scale)
    for k in range(a.shape[1]):
        np.multiply(a[:, k, None], b[k], out=scratch)
        np.multiply(scratch, scale, out=scratch)
        np.trunc(scratch, out=scratch)
        np.add(total, scratch, out=total)
    return total / scale


@cache
def _narrow_table(name: str) -> tuple[Floats, Floats]:
    """All 256 numbers of an 8-bit format, and the powers of two that their exponents stand for."""
    bits, known = np.arange(256, dtype=np.uint8), FORMATS[name]
    taken = unpack(bits, known)
    powers = np.ldexp(1.0, (taken.exponent + known.fraction_bits).astype(np.int32))
    return to_float64(bits, known), np.where(taken.magnitude == 0, 0.0, powers)


def _taken(bits: NDArray[Any], name: str) -> _Taken:
    """Take numbers of a format apart."""
    if bits.itemsize == 1:
        values, powers = _narrow_table(name)
        found = values[bits]
        return _Taken(found, powers[bits], bool(np.isfinite(found).all()))
    if name == "f16":
        held = bits.astype(np.uint16)
        values, fraction, bias, top = held.view(np.float16).astype(np.float64), 10, 15, 31
    else:
        held = bits.astype(np.uint32) << np.uint32(16) if name == "bf16" else bits.astype(np.uint32)
        if name == "tf32":
            held &= np.uint32(0xFFFF_E000)
        values, fraction, bias, top = held.view(np.float32).astype(np.float64), 23, 127, 255
    exponent = (held >> held.dtype.type(fraction)) & held.dtype.type(top)
    shifted = np.maximum(exponent, 1).astype(np.uint64) + np.uint64(1023 - bias)
    powers = np.where(values == 0, 0.0, (shifted << np.uint64(52)).view(np.float64))
    return _Taken(values, powers, not (exponent == top).any())


def _to_f32(total: Floats, *, cut: bool) -> NDArray[np.uint32]:
    """Rounded towards zero, at and above 2^128 infinite, a zero without a sign; `cut` to 13 fraction bits."""
    near = total.astype(np.float32)
    size = np.abs(total)
    over = (np.abs(near).astype(np.float64) > size) & (size < 2.0**128)
    bits = near.view(np.uint32) - over.astype(np.uint32)
    if cut:
        bits &= _CUT_F32
    bits[(bits & np.uint32(0x7FFF_FFFF)) == 0] = 0
    bits[np.isnan(total)] = int(FORMATS["f32"].nan)
    return bits


def _to_f16(total: Floats) -> NDArray[np.uint32]:
    """Rounded to nearest even, a zero without a sign."""
    bits = total.astype(np.float16).view(np.uint16).astype(np.uint32)
    bits[bits == 0x8000] = 0
    bits[np.isnan(total)] = int(FORMATS["f16"].nan)
    return bits


def whole_sums(
    a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, satfinite: bool = False
) -> NDArray[np.uint32]:
    """A * B^T + C on whole numbers of 8 bits, as bits of s32: wrapped or, with `satfinite`, clamped.

    Shapes: a (M, K), b (N, K), each int8 or uint8; c and the result (M, N), bits of s32.
    """
    # A double has every sum of 32 products of 16 bits.
    total = (a.astype(np.float64) @ b.T.astype(np.float64)).astype(np.int64) + c.view(np.int32)
    if satfinite:
        total = np.clip(total, -(2**31), 2**31 - 1)
    return (total & 0xFFFF_FFFF).astype(np.uint32)
