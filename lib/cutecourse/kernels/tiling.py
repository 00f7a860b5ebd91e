"""How many CTAs a matrix needs when each CTA takes one tile of it."""

from __future__ import annotations

from cutecourse.kernels.files import SpecError

__all__ = ["grid_of"]


def grid_of(
    name: str, extents: tuple[int, int], tile: tuple[int, int], *, whole: bool = True
) -> tuple[int, int, int]:
    """The grid with one CTA for each tile: x counts the tiles along n, y those along m.

    Errors: SpecError, with the kernel's name, for a matrix that is not made of whole tiles if it has to be.

    >>> grid_of("copy", (64, 256), (8, 128))
    (2, 8, 1)
    """
    (m, n), (rows, columns) = extents, tile
    if whole and (m % rows or n % columns):
        raise SpecError(f"{name}: its tiles of {rows}x{columns} do not divide a matrix of {m}x{n}.")
    return -(-n // columns), -(-m // rows), 1
