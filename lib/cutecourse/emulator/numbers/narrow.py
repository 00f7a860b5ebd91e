"""Elements of 4 and of 6 bits: packed, lowest bits first, or each in the middle of a byte of its own.

Source: PTX ISA 9.0, tcgen05.cp, Optional Decompression (#tcgen05-optional-decompression); where the bits
        stand: CUTLASS's examples/python/CuTeDSL/experimental/primitives/tcgen05/cp_narrow_a_to_tmem_mma.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["from_bytes", "in_bytes", "unpacked"]


def unpacked(held: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """The codes of packed elements: (..., bytes) -> (..., 8 bytes / bits).

    >>> unpacked(np.array([0x21, 0x43], dtype=np.uint8), 4).tolist()
    [1, 2, 3, 4]
    """
    ones = np.unpackbits(held, axis=-1, bitorder="little").reshape(*held.shape[:-1], -1, bits)
    found: NDArray[np.uint8] = np.packbits(ones, axis=-1, bitorder="little")[..., 0]
    return found


def in_bytes(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Elements, each in the middle of a byte, with zeros on both sides.

    >>> [
    ...     format(int(in_bytes(np.array(code, dtype=np.uint8), bits)), "08b")
    ...     for code, bits in ((15, 4), (63, 6))
    ... ]
    ['00111100', '01111110']
    """
    return codes << np.uint8((8 - bits) // 2)


def from_bytes(held: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """The codes of elements that have a byte each; the bits around an element are ignored.

    >>> from_bytes(in_bytes(np.array([5], dtype=np.uint8), 4), 4).tolist()
    [5]
    """
    return held >> np.uint8((8 - bits) // 2) & np.uint8((1 << bits) - 1)
