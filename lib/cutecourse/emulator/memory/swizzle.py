"""The shuffle of 16-byte chunks in shared memory that a tensor map may ask for.

The place of a chunk depends on bits of its address in shared memory, not on the start of the box.

Source: PTX ISA 9.0, Tensors, Swizzling Modes (#tensor-swizzling-modes), with 16-byte atoms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["SPANS", "chunk_numbers", "swizzled"]

SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
"""The swizzle modes, and the bytes within which chunks change places."""


def swizzled(address: NDArray[np.int64], mode: str, base: int = 0) -> NDArray[np.int64]:
    """The swizzled address of a byte, given its address in shared memory without the swizzle.

    The number of a chunk within its span is combined, by exclusive or, with the number of the 128-byte row
    that it lies in: one bit of each for 32B, two for 64B, three for 128B. Rows are counted from row `base`.

    >>> swizzled(np.array([0x80, 0x90, 0x3F0]), "128B").tolist() == [0x90, 0x80, 0x380]
    True
    """
    bits = SPANS[mode] // 16 - 1
    if bits < 0:
        return address
    return address ^ (((address >> 7) - base & bits) << 4)


def chunk_numbers(offset: int, rows: int, chunks: int, pitch: int, mode: str) -> NDArray[np.int64]:
    """The 16-byte chunks of shared memory that a box's rows occupy: shape (rows, chunks).

    Units: offset and pitch (from row to row) in bytes, multiples of 16.
    """
    row = np.arange(rows, dtype=np.int64)[:, None] * pitch
    column = np.arange(chunks, dtype=np.int64) * 16
    return swizzled(offset + row + column, mode) >> 4
