"""Lanes, registers and chunks: the widths and NumPy types that the whole emulator uses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ALL_LANES",
    "CHUNK",
    "CHUNK_TYPE",
    "KINDS",
    "LANE_BITS",
    "WARP_SIZE",
    "Mask",
    "all_true",
    "any_true",
    "coordinates",
    "lane_masks",
    "put",
    "warps_of",
]

WARP_SIZE = 32
LANE_BITS = np.uint32(1) << np.arange(WARP_SIZE, dtype=np.uint32)
"""The bit of each lane in a mask such as `%activemask` or a membermask."""
ALL_LANES = 0xFFFFFFFF
"""The mask that names all lanes of a warp."""
CHUNK = 16
"""The size of a chunk in bytes: the unit of asynchronous copies and of tcgen05's matrices."""
CHUNK_TYPE = np.dtype(np.complex128)
"""A chunk as one element. The type does not stand for a number: NumPy has no plain type of 16 bytes, but it
copies, gathers and scatters complex128 as fast as any other type."""
Mask = NDArray[np.bool_] | None
"""The lanes that take part: shape (n_warps, 32), or None when all do."""


# The ways to view a register's bits: (bits of the register, NumPy type, elements in a register). NumPy
# has no bf16: rows of this kind hold the codes of cutecourse.dtypes.
KINDS: dict[str, tuple[int, np.dtype[Any], int]] = {
    "pred": (1, np.dtype(np.bool_), 1),
    "u8": (8, np.dtype(np.uint8), 1),
    "s8": (8, np.dtype(np.int8), 1),
    "u16": (16, np.dtype(np.uint16), 1),
    "s16": (16, np.dtype(np.int16), 1),
    "f16": (16, np.dtype(np.float16), 1),
    "bf16": (16, np.dtype(np.uint16), 1),
    "u32": (32, np.dtype(np.uint32), 1),
    "s32": (32, np.dtype(np.int32), 1),
    "f32": (32, np.dtype(np.float32), 1),
    "u64": (64, np.dtype(np.uint64), 1),
    "s64": (64, np.dtype(np.int64), 1),
    "f64": (64, np.dtype(np.float64), 1),
    "f16x2": (32, np.dtype(np.float16), 2),
    "bf16x2": (32, np.dtype(np.uint16), 2),
    "u16x2": (32, np.dtype(np.uint16), 2),
    "s16x2": (32, np.dtype(np.int16), 2),
    "u8x4": (32, np.dtype(np.uint8), 4),
    "s8x4": (32, np.dtype(np.int8), 4),
    "f32x2": (64, np.dtype(np.float32), 2),
    "u32x2": (64, np.dtype(np.uint32), 2),
    "u128": (128, CHUNK_TYPE, 1),
}
for _bits in (8, 16, 32, 64, 128):
    KINDS[f"b{_bits}"] = KINDS[f"u{_bits}"]


def any_true(mask: NDArray[np.bool_]) -> bool:
    """Return whether any truth value is set. For small arrays this is much faster than `mask.any()`."""
    return b"\x01" in mask.tobytes()


def all_true(mask: NDArray[np.bool_]) -> bool:
    """Return whether all truth values are set. For small arrays this is much faster than `mask.all()`."""
    return b"\x00" not in mask.tobytes()


def warps_of(lanes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The warps that have at least one of the lanes: (n_warps, 32) -> (n_warps,)."""
    found: NDArray[np.bool_] = np.logical_or.reduce(lanes, axis=1)
    return found


def coordinates(numbers: NDArray[np.int64], extents: Any) -> NDArray[np.int64]:
    """The (x, y, z) of each number in a box, counted along x first: (n,) -> (n, 3).

    Numbers past the last one continue along z.
    """
    x, y, _ = extents
    return np.stack([numbers % x, numbers // x % y, numbers // (x * y)], axis=-1)


def lane_masks(lanes: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """(..., 32) truth values -> (...) masks with bit l for lane l."""
    found: NDArray[np.uint32] = np.where(lanes, LANE_BITS, np.uint32(0)).sum(axis=-1, dtype=np.uint32)
    return found


def put(row: NDArray[Any], values: Any, mask: Mask) -> None:
    """Write values into a register's row, in the lanes of the mask only.

    Shapes: row (n_warps, 32) or, for a packed kind, (n_warps, 32, elements); values broadcast to it.
    """
    if mask is None:
        row[...] = values
    elif row.ndim == 2:
        np.copyto(row, values, where=mask, casting="unsafe")
    else:
        np.copyto(row, values, where=mask[..., None], casting="unsafe")
