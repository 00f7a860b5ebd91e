"""A tiled GEMM for Triton's interpreter, on NumPy arrays: the interpreter asks of a tensor no more than this.

TRITON_INTERPRET=1 has to be in the environment before this is imported. The interpreter runs the programs of
a grid one after the other, each operation on a tile as one of NumPy's.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from numpy.typing import NDArray

__all__ = ["BLOCK", "triton_gemm"]

BLOCK = (128, 128, 64)
"""Rows and columns of C that a program makes, and how much of K it takes at once."""


class _Tensor:
    """A NumPy array as the interpreter looks at a torch.Tensor on the CPU, where nothing has to be copied."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.dtype = array.dtype

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def untyped_storage(self) -> _Tensor:
        return self

    def cpu(self) -> _Tensor:
        return self

    def new_empty(self, *_: Any, **__: Any) -> _Tensor:
        return _Tensor(self.array)

    def set_(self, *_: Any) -> None:
        """It is the same memory."""

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def copy_(self, _: _Tensor) -> None:
        """It is the same memory."""


@triton.jit
def _kernel(a, b, c, n, k, rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr):
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.program_id(1) * columns + tl.arange(0, columns)
    along = tl.arange(0, depth)
    total = tl.zeros((rows, columns), dtype=tl.float32)
    for first in range(0, k, depth):
        left = tl.load(a + row[:, None] * k + first + along[None, :])
        right = tl.load(b + column[None, :] * k + first + along[:, None])
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * n + column[None, :], total)


def triton_gemm(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> None:
    """C (M, N) = A (M, K) times B (N, K) transposed; M, N and K are multiples of the block's."""
    rows, columns, depth = BLOCK
    grid = (len(a) // rows, len(b) // columns)
    _kernel[grid](*map(_Tensor, (a, b, c)), len(b), a.shape[1], rows, columns, depth)
