"""Which lane and column of tensor memory each register of each thread holds in tcgen05.ld and tcgen05.st.

Source: PTX ISA 9.0, Data Movement Shape, Memory Layout (#tcgen05-data-movement-shape), the figures of the
        shapes' matrix fragments, and Packing and Unpacking
        (#tcgen05-tensor-memory-ld-st-packing-unpacking).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.kinds import WARP_SIZE

__all__ = ["MOST_REGISTERS", "SHAPES", "TensorMemoryFragment", "fragment"]

SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
"""The shapes, and the registers that one repetition takes."""
MOST_REGISTERS = 128


@dataclass(frozen=True, eq=False)
class TensorMemoryFragment:
    """Lanes and columns of the cells, relative to the address, shape (32 threads, cells of a thread).

    Without packing a thread has one cell for each register; with it two, the low half's and the high half's
    one after the other. `lanes` is how many lanes the shape spans.
    """

    lane: NDArray[np.int64]
    column: NDArray[np.int64]
    lanes: int
    ranges: tuple[tuple[int, int], ...]
    """The columns that it touches, as ranges."""


@cache
def fragment(shape: str, count: int, split: int = 0, *, packed: bool = False) -> TensorMemoryFragment:
    """The fragment of a shape, repeated `count` times.

    `split`: columns between the two accesses of 16x32bx2.

    >>> found = fragment("16x64b", 2)
    >>> found.lane[5].tolist(), found.column[5].tolist()
    ([9, 9], [0, 2])
    """
    thread = np.arange(WARP_SIZE, dtype=np.int64)[:, None]
    register = np.arange(SHAPES[shape] * count, dtype=np.int64)[None, :]
    zero = np.zeros((WARP_SIZE, register.shape[1]), dtype=np.int64)
    shift = zero
    if shape == "32x32b":
        lane, column = thread + zero, register + zero
    elif shape == "16x64b":
        # Neighbouring pairs of threads share a column pair; the odd thread is eight lanes down.
        lane, column = thread // 4 + 8 * (thread % 2) + zero, thread // 2 % 2 + 2 * register
    elif shape == "16x128b":
        lane, column = thread // 4 + 8 * (register % 2), thread % 4 + 4 * (register // 2)
    elif shape == "16x256b":
        lane = thread // 4 + 8 * (register // 2 % 2)
        column = 2 * (thread % 4) + register % 2 + 8 * (register // 4)
    else:
        lane, column = thread % 16 + zero, register + zero
        shift = split * (thread // 16) + zero
    if packed:
        lane, shift = np.repeat(lane, 2, axis=1), np.repeat(shift, 2, axis=1)
        column = (2 * column[:, :, None] + np.arange(2)).reshape(WARP_SIZE, -1)
    width = int(column.max()) + 1
    starts = (0, split) if shape == "16x32bx2" else (0,)
    return TensorMemoryFragment(
        lane=lane,
        column=column + shift,
        lanes=32 if shape == "32x32b" else 16,
        ranges=tuple((start, start + width) for start in starts),
    )
