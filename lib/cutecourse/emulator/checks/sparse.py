"""Large arrays of zeros that are used in few places: pages that nobody writes take no memory."""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["sparse_zeros"]

_HUGE = 4 << 20
"""From this size in bytes, NumPy asks for pages of 2 MiB, and touching any part allocates a whole page."""


def sparse_zeros(shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """Zeros in small pages, if the system can be asked for them."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if n_bytes < _HUGE or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return np.zeros(shape, dtype=dtype)
    room = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    room.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(room, dtype=dtype).reshape(shape)
