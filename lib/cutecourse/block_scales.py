"""Numbers of four and eight bits in blocks that share a scale factor, and where the factors lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import decode, dtype, encode
from cutecourse.errors import CourseError
from cutecourse.layout import Layout

__all__ = [
    "BLOCK_BYTES",
    "FORMATS",
    "BlockFormat",
    "BlockScaleError",
    "dequantise",
    "packed",
    "placed",
    "quantise",
    "read_back",
    "scale_layout",
    "scales_shape",
]

BLOCK_ROWS, BLOCK_SCALES, BLOCK_BYTES = 128, 4, 512
"""The block in which scale factors lie: 128 rows, 4 factors of each row, a byte for each factor."""


class BlockScaleError(CourseError):
    """Numbers that have no place in a format of blocks."""


@dataclass(frozen=True)
class BlockFormat:
    """A format of blocks: the type of its elements, of its scale factors, and the elements of a block.

    kind      tcgen05.mma's kind and modifier for the format.
    largest   the largest number of an element.
    """

    element: str
    scale: str
    vector: int
    kind: str
    largest: float

    @property
    def bits(self) -> float:
        """Bits for an element, with its part of the scale factor.

        >>> FORMATS["nvf4"].bits
        4.5
        """
        return dtype(self.element).bits + 8 / self.vector

    def bytes_of(self, elements: int) -> int:
        """Bytes of a row of elements. Errors: BlockScaleError for a row that is not whole bytes."""
        bits = elements * dtype(self.element).bits
        if bits % 8:
            raise BlockScaleError(f"{elements} elements of {self.element} are not whole bytes.")
        return bits // 8


FORMATS = MappingProxyType(
    {
        "mxf8": BlockFormat("e4m3", "ue8m0", 32, "mxf8f6f4.block_scale.scale_vec::1X", 448.0),
        "mxf4": BlockFormat("e2m1", "ue8m0", 32, "mxf4.block_scale.scale_vec::2X", 6.0),
        "nvf4": BlockFormat("e2m1", "ue4m3", 16, "mxf4nvf4.block_scale.scale_vec::4X", 6.0),
    }
)
"""MXFP8 and MXFP4 (OCP Microscaling Formats 1.0), and NVFP4 (PTX ISA 9.0, .kind::mxf4nvf4)."""


def quantise(values: Any, form: BlockFormat, tensor_scale: float = 1.0) -> tuple[NDArray[Any], NDArray[Any]]:
    """The codes of a matrix in blocks along its rows, and the codes of their scale factors.

    A factor of ue8m0 is the least power of two that brings a block's largest number into the elements'
    range. (OCP's own rule rounds down and lets the largest numbers saturate.) A factor of ue4m3 is the
    quotient of the two, rounded to nearest. Elements are rounded to nearest even.

    Shapes:     (rows, K) to (rows, K) and (rows, K / vector); both of uint8.
    Units:      `tensor_scale` is the second level: values are divided by it first.
    Errors:     BlockScaleError for K that is no multiple of the vector, and for values that are no numbers.

    >>> codes, scales = quantise([[1.0] * 31 + [900.0]], FORMATS["mxf8"])
    >>> decode(scales, "ue8m0").tolist(), decode(codes, "e4m3")[0, -2:].tolist()
    ([[4.0]], [0.25, 224.0])
    """
    numbers = np.asarray(values, np.float64) / tensor_scale
    rows, k = numbers.shape
    if k % form.vector:
        raise BlockScaleError(f"a row of {k} numbers is not whole blocks of {form.vector}; pad with zeros.")
    if not np.isfinite(numbers).all():
        raise BlockScaleError("a block cannot hold infinities or NaN.")
    blocks = numbers.reshape(rows, -1, form.vector)
    wanted = np.abs(blocks).max(axis=2) / form.largest
    if form.scale == "ue8m0":
        fraction, exponent = np.frexp(wanted)
        least = np.where(wanted > 0, np.ldexp(1.0, exponent - (fraction == 0.5)), 0.0)
        scales = encode(np.clip(least, 2.0**-127, 2.0**127), form.scale)
    else:
        scales = encode(np.minimum(wanted, 448.0), form.scale)
    factors = np.asarray(decode(scales, form.scale), np.float64)[..., None]
    ratio = np.divide(blocks, factors, out=0.0 * blocks, where=factors > 0)  # zeros keep their sign
    inside = np.clip(ratio, -form.largest, form.largest)
    return encode(inside.astype(np.float32), form.element).reshape(rows, k), scales


def dequantise(codes: Any, scales: Any, form: BlockFormat, tensor_scale: float = 1.0) -> NDArray[np.float64]:
    """The numbers that codes and scale factors stand for.

    Shapes:     (rows, K) and (rows, K / vector) to (rows, K).

    >>> dequantise(*quantise([[3.0] * 16], FORMATS["nvf4"]), FORMATS["nvf4"])[0, 0].item()
    3.0
    """
    factors = np.asarray(decode(np.asarray(scales), form.scale), np.float64) * tensor_scale
    elements = np.asarray(decode(np.asarray(codes), form.element), np.float64)
    return elements * np.repeat(factors, form.vector, axis=1)[:, : elements.shape[1]]


def packed(codes: Any, form: BlockFormat) -> NDArray[np.uint8]:
    """The bytes of rows of codes: of 4 bits, two lie in a byte, the first one in its low half.

    >>> packed(np.array([[1, 2, 3, 4]], np.uint8), FORMATS["nvf4"]).tolist()
    [[33, 67]]
    """
    held = np.asarray(codes, np.uint8)
    if dtype(form.element).bits == 8:
        return held
    form.bytes_of(held.shape[1])
    return held[:, ::2] | held[:, 1::2] << 4


def scales_shape(rows: int, k: int, vector: int) -> tuple[int, int, int]:
    """The shape of the scale factors of a matrix (rows, K) in memory: blocks of rows, blocks of K, bytes.

    >>> scales_shape(200, 384, 32)
    (2, 3, 512)
    """
    return -(-rows // BLOCK_ROWS), -(-k // (BLOCK_SCALES * vector)), BLOCK_BYTES


def scale_layout(rows: int, k: int, vector: int) -> Layout:
    """The layout of a matrix's scale factors: the coordinate of an *element* goes in, an offset comes out.

    Elements of one block along K have stride 0: they share their factor.
    Shapes:     (((32, 4), rows / 128), ((vector, 4), K / (4 vector))); rows and K are rounded up.
    Units:      bytes.
    Source:     CUTLASS 4.2.0, include/cutlass/detail/sm100_blockscaled_layout.hpp,
                Sm1xxBlockScaledBasicChunk and Sm1xxBlockScaledConfig.

    >>> print(scale_layout(256, 256, 32))
    (((32,4),2),((32,4),2)):(((16,4),1024),((0,1),512))
    """
    high, wide, _ = scales_shape(rows, k, vector)
    return Layout(
        (((32, 4), high), ((vector, BLOCK_SCALES), wide)),
        (((16, 4), BLOCK_BYTES * wide), ((0, 1), BLOCK_BYTES)),
    )


def placed(scales: Any, *, rows_pad: int = 0, k_pad: int = 0) -> NDArray[np.uint8]:
    """Scale factors as they lie in memory, in blocks of 128 rows by 4 factors.

    Row r of a block begins in byte 16 (r % 32) + 4 (r / 32), and its four factors lie side by side.
    Shapes:     (rows, factors of a row) to `scales_shape`.
    Units:      `rows_pad` and `k_pad` are the bytes that fill blocks behind the last row and factor.

    >>> placed(np.arange(128 * 4, dtype=np.uint8).reshape(128, 4))[0, 0, 16:24].tolist()
    [4, 5, 6, 7, 132, 133, 134, 135]
    """
    held = np.asarray(scales, np.uint8)
    rows, factors = held.shape
    high, wide = -(-rows // BLOCK_ROWS), -(-factors // BLOCK_SCALES)
    whole = np.full((high * BLOCK_ROWS, wide * BLOCK_SCALES), rows_pad, np.uint8)
    whole[:rows] = k_pad
    whole[:rows, :factors] = held
    blocks = whole.reshape(high, 4, 32, wide, BLOCK_SCALES).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(blocks).reshape(high, wide, BLOCK_BYTES)


def read_back(held: Any, rows: int, factors: int) -> NDArray[np.uint8]:
    """The scale factors (rows, factors of a row) that memory holds; the inverse of `placed`.

    >>> given = np.arange(130 * 5, dtype=np.uint8).reshape(130, 5)
    >>> bool((read_back(placed(given), 130, 5) == given).all())
    True
    """
    high, wide, _ = np.asarray(held).shape
    blocks = np.asarray(held, np.uint8).reshape(high, wide, 32, 4, BLOCK_SCALES).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(blocks.reshape(high * BLOCK_ROWS, -1)[:rows, :factors])
