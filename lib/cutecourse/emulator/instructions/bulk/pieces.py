"""Cutting copies into pieces that land one by one.

Pieces reveal a kernel that uses a copy's bytes before all of them have landed. Each piece costs time, so a
copy has few of them, and of many copies most land as a whole.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.machine import Machine

__all__ = ["Chunks", "Piece", "lands_in_pieces", "lowest", "pieces_of"]

Chunks = NDArray[np.int64] | slice
"""16-byte chunks of shared memory: their numbers, or a slice of them."""

_PIECES = 4
_CUT_FIRST = 256
_CUT_LATER = 4


class Piece(Protocol):
    """A part of a copy into shared memory that lands on its own."""

    n_bytes: int
    """The bytes that the mbarrier counts for the piece."""
    covered: Chunks
    """Where it goes: numbers of chunks, counted from `first_chunk` of the copy; a slice where they are
    neighbours, which NumPy is faster with."""

    def put(self, held: NDArray[Any], first: int, box: Any) -> None:
        """Put the source's bytes as they are now into chunks of `held` that are counted from `first`.

        `box` is the copy's box of a tensor; None for contiguous bytes.
        """


def lowest(chunks: Chunks) -> int:
    """Return the lowest number of some chunks."""
    return int(chunks.start) if isinstance(chunks, slice) else int(chunks.min())


def pieces_of(count: int) -> list[tuple[int, int]]:
    """Cut a range of `count` things into a few pieces: (first, stop) of each."""
    n = min(_PIECES, count)
    edges = [count * i // n for i in range(n + 1)] if n else [0]
    return list(pairwise(edges))


class _Issued:
    """How many tensor copies into shared memory a launch has issued."""

    def __init__(self, machine: object) -> None:
        self.copies = 0


def lands_in_pieces(machine: Machine) -> bool:
    """Decide for a new copy: True to land in pieces, False to land as a whole in each destination.

    A launch's first copies land in pieces, and of the later ones one in a few, as the seed chooses: a kernel
    that uses a part of its bytes too early does so in its first iterations, or often.
    """
    issued = machine.own(_Issued)
    issued.copies += 1
    return issued.copies <= _CUT_FIRST or machine.random.randrange(_CUT_LATER) == 0
