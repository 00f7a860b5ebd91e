"""Which lane holds which matrix element: the fragments of mma.sync and of ldmatrix, stmatrix and movmatrix.

The PTX ISA gives the fragments of every shape and type by formulas over `groupID = %laneid >> 2` and
`threadID_in_group = %laneid % 4`. Those of mma.sync are all one family once they are written with the number
of elements that share a register, V:

    A:  row = groupID + 8 * (register % 2)        (shapes with 16 rows; with 8 rows, row = groupID)
        col = threadID_in_group * V + element + 4 * V * (register / 2)
    B:  row = threadID_in_group * V + element + 4 * V * register
        col = groupID
    C:  row = groupID + 8 * (i / 2),   col = threadID_in_group * 2 + i % 2,   for element i of the lane

where `register` counts a lane's registers of the operand and `element` the place in the register, low bits
first. tests/emulator/test_fragments.py holds the ISA's own formulas, shape by shape, against these.

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
    "a_fragment",
    "accumulator_fragment",
    "b_fragment",
    "ldmatrix_fragment",
    "mma_fragment",
]

N_LANES = 32
Index = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Fragment:
    """The owners of one operand's elements.

    `row` and `col` have shape (32 lanes, elements of a lane), a lane's elements counted register by register
    from the low bits up; `per_register` of them share a register. A register that holds an element of more
    than 32 bits is a 64-bit one.
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

    @property
    def matrix_index(self) -> Index:
        """Where each (lane, element) stands in the matrix, counted row by row."""
        return self.row * self.n_cols + self.col

    @property
    def owner_index(self) -> Index:
        """The flattened (lane, element) that holds each matrix element, counted row by row."""
        owners = np.empty(self.n_rows * self.n_cols, dtype=np.intp)
        owners[self.matrix_index.ravel()] = np.arange(self.row.size)
        return owners

    def gather(self, fragments: NDArray[np.generic]) -> NDArray[np.generic]:
        """(..., 32, elements of a lane) -> the matrix (..., rows, columns)."""
        leading = fragments.shape[:-2]
        flat = fragments.reshape(*leading, self.row.size)
        return flat[..., self.owner_index].reshape(*leading, self.n_rows, self.n_cols)

    def scatter(self, matrix: NDArray[np.generic]) -> NDArray[np.generic]:
        """The matrix (..., rows, columns) -> (..., 32, elements of a lane)."""
        return matrix[..., self.row, self.col]


def _lanes_and_elements(n_elements: int) -> tuple[Index, Index, Index]:
    lane, element = np.meshgrid(np.arange(N_LANES), np.arange(n_elements), indexing="ij")
    return lane >> 2, lane % 4, element


def a_fragment(m: int, k: int, bits: int) -> Fragment:
    """The fragment of multiplicand A, an m x k matrix of elements of so many bits."""
    per_register = max(1, 32 // bits)
    group_id, thread_id_in_group, i = _lanes_and_elements(m * k // N_LANES)
    register, element = i // per_register, i % per_register
    halves = m // 8
    row = group_id + 8 * (register % halves)
    col = thread_id_in_group * per_register + element + 4 * per_register * (register // halves)
    return Fragment(m, k, per_register, row, col)


def b_fragment(k: int, n: int, bits: int) -> Fragment:
    """The fragment of multiplicand B, a k x n matrix (n = 8) of elements of so many bits."""
    per_register = max(1, 32 // bits)
    group_id, thread_id_in_group, i = _lanes_and_elements(k * n // N_LANES)
    register, element = i // per_register, i % per_register
    row = thread_id_in_group * per_register + element + 4 * per_register * register
    return Fragment(k, n, per_register, row, group_id)


def accumulator_fragment(m: int, n: int, bits: int) -> Fragment:
    """The fragment of the accumulators C and D, an m x n matrix (n = 8) of elements of so many bits."""
    per_register = max(1, 32 // bits)
    group_id, thread_id_in_group, i = _lanes_and_elements(m * n // N_LANES)
    return Fragment(m, n, per_register, group_id + 8 * (i // 2), thread_id_in_group * 2 + i % 2)


@cache
def mma_fragment(operand: Literal["A", "B", "C", "D"], m: int, n: int, k: int, bits: int) -> Fragment:
    """The fragment of one operand of an m x n x k mma.sync, by the bits of the operand's elements.

    Each (lane, element) holds one matrix element and each matrix element has one owner.

    >>> mma_fragment("A", 16, 8, 16, 16).row[5].tolist()
    [1, 1, 9, 9, 1, 1, 9, 9]
    >>> mma_fragment("A", 16, 8, 16, 16).col[5].tolist()
    [2, 3, 2, 3, 10, 11, 10, 11]
    """
    if operand == "A":
        return a_fragment(m, k, bits)
    if operand == "B":
        return b_fragment(k, n, bits)
    return accumulator_fragment(m, n, bits)


@cache
def ldmatrix_fragment(transposed: bool = False) -> Fragment:
    """The fragment of one 8 x 8 matrix of 16-bit elements, as ldmatrix leaves it and stmatrix expects it.

    Each matrix row is 16 bytes at the address that one lane gives: lanes 0 to 7 for the first matrix, 8 to 15
    for the second, and so on. Lane l holds elements 2 * (l % 4) and 2 * (l % 4) + 1 of row l / 4 in one
    register; with `.trans` the same of the transposed matrix.

    Source: PTX ISA 9.0, ldmatrix (#warp-level-matrix-instructions-ldmatrix), stmatrix, movmatrix.
    """
    group_id, thread_id_in_group, element = _lanes_and_elements(2)
    row, col = group_id, thread_id_in_group * 2 + element
    return Fragment(8, 8, 2, col, row) if transposed else Fragment(8, 8, 2, row, col)
