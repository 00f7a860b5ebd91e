"""Which lane holds which matrix element: the fragments of mma.sync and of ldmatrix, stmatrix and movmatrix.

The PTX ISA gives the fragments of every shape and type by formulas over `groupID = %laneid >> 2` and
`threadID_in_group = %laneid % 4`. With V, the number of elements that share a register, one pair of formulas
describes all fragments of mma.sync:

    row = groupID + 8 * (register % 2)        (with 16 rows; with 8 rows, row = groupID)
    col = threadID_in_group * V + element + 4 * V * (register / 2)

where `register` counts a lane's registers of the operand and `element` the elements in the register, low bits
first. This is A; B is the transpose of such a matrix. C and D have V = 2 whatever their type: if an element
fills a register, two registers count as one. A matrix of ldmatrix has 8 rows and V = 2.
tests/emulator/test_fragments.py compares these formulas with those of the ISA, shape by shape.

Source: PTX ISA 9.0, Matrix Fragments for mma.m8n8k4 with .f64 ... mma.m16n8k256
(#warp-level-matrix-instructions-for-mma).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Fragment",
    "byte_accumulator",
    "byte_columns",
    "byte_rows",
    "ldmatrix_fragment",
    "mma_fragment",
]

N_LANES = 32
Index = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Fragment:
    """The owners of one operand's elements.

    `row` and `col` have shape (32 lanes, elements of a lane). A lane's elements are counted register by
    register from the low bits up; `per_register` of them share a register. A 64-bit element has a 64-bit
    register.
    """

    n_rows: int
    n_cols: int
    per_register: int
    row: Index
    col: Index

    @property
    def n_elements(self) -> int:
        """The number of elements in a lane."""
        return int(self.row.shape[1])

    @property
    def n_registers(self) -> int:
        """The number of registers that a lane uses for the operand."""
        return self.n_elements // self.per_register

    def gather(self, fragments: NDArray[np.generic]) -> NDArray[np.generic]:
        """(..., 32, elements of a lane) -> the matrix (..., rows, columns)."""
        matrix = np.empty((*fragments.shape[:-2], self.n_rows, self.n_cols), dtype=fragments.dtype)
        matrix[..., self.row, self.col] = fragments
        return matrix

    def scatter(self, matrix: NDArray[np.generic]) -> NDArray[np.generic]:
        """The matrix (..., rows, columns) -> (..., 32, elements of a lane)."""
        return matrix[..., self.row, self.col]


def _family(n_rows: int, n_cols: int, v: int) -> tuple[Index, Index]:
    """Row and column of each (lane, element) by the module's formulas, for a matrix of 8 or 16 rows."""
    lane, i = np.meshgrid(np.arange(N_LANES), np.arange(n_rows * n_cols // N_LANES), indexing="ij")
    register, element = divmod(i, v)
    right, down = divmod(register, n_rows // 8)
    return lane // 4 + 8 * down, lane % 4 * v + element + 4 * v * right


@cache
def mma_fragment(operand: Literal["A", "B", "C", "D"], m: int, n: int, k: int, bits: int) -> Fragment:
    """The fragment of one operand of an m x n x k mma.sync, by the bits of the operand's elements.

    Each (lane, element) holds one matrix element and each matrix element has one owner.

    >>> mma_fragment("A", 16, 8, 16, 16).row[5].tolist()
    [1, 1, 9, 9, 1, 1, 9, 9]
    >>> mma_fragment("A", 16, 8, 16, 16).col[5].tolist()
    [2, 3, 2, 3, 10, 11, 10, 11]
    """
    per_register = max(1, 32 // bits)
    if operand == "A":
        return Fragment(m, k, per_register, *_family(m, k, per_register))
    if operand == "B":
        col, row = _family(n, k, per_register)
        return Fragment(k, n, per_register, row, col)
    return Fragment(m, n, per_register, *_family(m, n, 2))


@cache
def ldmatrix_fragment(transposed: bool = False) -> Fragment:
    """The fragment of one 8 x 8 matrix of 16-bit elements, as ldmatrix leaves it and stmatrix expects it.

    Each matrix row is 16 bytes at the address that one lane gives: lanes 0 to 7 for the first matrix, 8 to 15
    for the second, and so on. Lane l holds elements 2 * (l % 4) and 2 * (l % 4) + 1 of row l / 4 in one
    register; with `.trans` it holds these elements of the transposed matrix.

    Source: PTX ISA 9.0, ldmatrix (#warp-level-matrix-instructions-ldmatrix), stmatrix, movmatrix.
    """
    row, col = _family(8, 8, 2)
    return Fragment(8, 8, 2, col, row) if transposed else Fragment(8, 8, 2, row, col)


@cache
def byte_rows() -> Fragment:
    """The fragment of one 8 x 16 matrix of bytes: lane l holds four neighbours of row l / 4.

    >>> byte_rows().col[5].tolist()
    [4, 5, 6, 7]
    """
    return Fragment(8, 16, 4, *_family(8, 16, 4))


@cache
def byte_columns() -> Fragment:
    """The fragment of one 16 x 16 matrix of bytes, transposed: lane l has four rows of columns l / 4 and + 8.

    >>> byte_columns().row[5].tolist(), byte_columns().col[5].tolist()
    ([4, 5, 6, 7, 4, 5, 6, 7], [1, 1, 1, 1, 9, 9, 9, 9])
    """
    col, row = _family(16, 16, 4)
    return Fragment(16, 16, 4, row, col)


@cache
def byte_accumulator() -> Fragment:
    """The fragment of one 16 x 8 matrix of bytes that lies column by column: rows here are its columns.

    The four elements of a lane are those of an accumulator of mma.sync.

    >>> byte_accumulator().row[5].tolist(), byte_accumulator().col[5].tolist()
    ([2, 3, 2, 3], [1, 1, 9, 9])
    """
    row, col = _family(16, 8, 2)
    return Fragment(8, 16, 4, col, row)
