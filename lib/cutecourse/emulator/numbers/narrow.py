"""Elements of 4 and of 6 bits: packed, lowest bits first, or each in a byte of its own.

An element of 6 bits has the lower ones of its byte, one of 4 bits those in the middle, so that e2m1 there
reads as the same number of e2m3.

Source: PTX ISA 9.0, Multiplicands of mma with .kind::f8f6f4 (#warp-level-matrix-instructions-for-mma);
        Optional Decompression (#tcgen05-optional-decompression).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["from_bytes", "in_bytes", "unpacked"]

_PLACE = {4: 2, 6: 0, 8: 0}
"""The lowest bit of an element in its byte, by the element's bits."""


def unpacked(held: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """The codes of packed elements: (..., bytes) -> (..., 8 bytes / bits).

    >>> unpacked(np.array([0x21, 0x43], dtype=np.uint8), 4).tolist()
    [1, 2, 3, 4]
    """
    ones = np.unpackbits(held, axis=-1, bitorder="little").reshape(*held.shape[:-1], -1, bits)
    found: NDArray[np.uint8] = np.packbits(ones, axis=-1, bitorder="little")[..., 0]
    return found


def in_bytes(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Elements, each in a byte of its own, with zeros around it."""
    return codes << np.uint8(_PLACE[bits])


def from_bytes(held: NDArray[Any], bits: int) -> NDArray[Any]:
    """The codes of elements that have a byte each; the bits around an element are ignored.

    >>> from_bytes(in_bytes(np.array([5], dtype=np.uint8), 4), 4).tolist()
    [5]
    """
    place, mask = (held.dtype.type(one) for one in (_PLACE[bits], (1 << bits) - 1))
    found: NDArray[Any] = held >> place & mask
    return found
